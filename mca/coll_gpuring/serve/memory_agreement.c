/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/memory_agreement.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/exchange.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

enum { ON_GPU = 1, NOT_ON_GPU = 2 };

int gpuring_agree_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_exchange *exchange = module->exchange;
    uint64_t seen;
    int status;

    if (!item->agreeing) {
        item->agreeing = true;
        gpuring_exchange_agree(exchange, gpuring_call_on_gpu(&item->call) ? ON_GPU : NOT_ON_GPU);
    }
    status = gpuring_exchange_progress(exchange);
    if (status != GPURING_OK) {
        return status;
    }
    item->agreeing = false;
    status = gpuring_exchange_failure(exchange, NULL);
    if (status != GPURING_OK) {
        gpuring_exchange_forget(exchange);
        return status;
    }
    seen = gpuring_exchange_agreed(exchange);
    gpuring_trace("agreed: %s ranks have a buffer on a GPU", seen == ON_GPU       ? "all"
                                                             : seen == NOT_ON_GPU ? "no"
                                                                                  : "some");
    item->handed_on = (seen & NOT_ON_GPU) != 0;
    item->mixed = seen == (ON_GPU | NOT_ON_GPU);
    item->agreed = true;
    return GPURING_OK;
}

enum gpuring_reason gpuring_agree_reason(const struct gpuring_item *item)
{
    return item->mixed ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
}
