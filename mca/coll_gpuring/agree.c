/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/agree.h"

#include "mca/coll_gpuring/exchange.h"
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_agree_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    uint32_t mine = gpuring_call_on_gpu(&item->call), count = 0;
    const uint32_t *all;
    int status = GPURING_OK;

    if (item->agreement == NULL) {
        status = gpuring_exchange_start_even(module->comm, &mine, sizeof mine, &item->agreement);
    }
    if (status == GPURING_OK) {
        status = gpuring_exchange_progress(item->agreement);
    }
    if (status != GPURING_OK) {
        return status;
    }
    all = gpuring_exchange_data(item->agreement);
    for (int rank = 0; rank < module->nranks; rank++) {
        count += all[rank];
    }
    gpuring_trace("agreed: %u of %d ranks have a buffer on a GPU", count, module->nranks);
    item->handed_on = count < (uint32_t) module->nranks;
    item->mixed = item->handed_on && count > 0;
    item->agreed = true;
    gpuring_exchange_free(item->agreement);
    item->agreement = NULL;
    return GPURING_OK;
}

enum gpuring_reason gpuring_agree_reason(const struct gpuring_item *item)
{
    return item->mixed ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
}
