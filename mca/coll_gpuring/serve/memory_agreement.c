/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/memory_agreement.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

enum { ON_GPU = 1, NOT_ON_GPU = 2 };

int gpuring_agree_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_oob *oob = module->oob;
    uint64_t seen;
    int status;

    if (item->phase < GPURING_PHASE_AGREEING) {
        gpuring_item_enter(item, GPURING_PHASE_AGREEING);
        gpuring_oob_agree(oob, gpuring_call_on_gpu(&item->call) ? ON_GPU : NOT_ON_GPU);
    }
    status = gpuring_oob_progress(oob);
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_item_enter(item, GPURING_PHASE_AGREED);
    status = gpuring_oob_failure(oob, NULL);
    if (status != GPURING_OK) {
        gpuring_oob_forget(oob);
        return status;
    }
    seen = oob->words[0];
    item->reason = seen == ON_GPU       ? GPURING_REASON_NONE
                   : seen == NOT_ON_GPU ? GPURING_REASON_MEMORY
                                        : GPURING_REASON_MIXED;
    gpuring_trace("agreed: %s ranks have a buffer on a GPU", seen == ON_GPU       ? "all"
                                                             : seen == NOT_ON_GPU ? "no"
                                                                                  : "some");
    return GPURING_OK;
}
