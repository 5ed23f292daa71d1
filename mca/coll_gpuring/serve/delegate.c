/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/delegate.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/log.h"

static void log_reason(const mca_coll_gpuring_module_t *module, enum gpuring_reason reason)
{
    char text[256];

    if (gpuring_log_enabled(GPURING_LOG_INFO)) {
        gpuring_module_text(module, text, sizeof text);
        gpuring_info("%s: calls are handed on: %s", text, gpuring_reason_text(reason));
    }
}

void gpuring_delegate_count(mca_coll_gpuring_module_t *module, enum gpuring_reason reason)
{
    uint32_t bit = UINT32_C(1) << reason;

    gpuring_pvar_add(GPURING_PVAR_fallbacks, 1);
    if (OPAL_UNLIKELY((module->logged_reasons & bit) == 0)) {
        module->logged_reasons |= bit;
        log_reason(module, reason);
    }
}
