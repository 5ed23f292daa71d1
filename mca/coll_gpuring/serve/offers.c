/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/offers.h"

#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Run the exchange that `pending` describes, when it is the call's turn in the queue. Returns false
 * if that failed. */
static bool run_exchange(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         struct gpuring_pending *pending, int *status)
{
    enum gpuring_reason reason = GPURING_REASON_NONE;

    *status = gpuring_progress_call(module, call, pending, GPURING_PERSISTENT, &reason);
    return *status == GPURING_OK && reason == GPURING_REASON_NONE;
}

int gpuring_offers_exchange(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                            struct gpuring_mapping **mapping)
{
    const struct gpuring_engine *engine = module->engine;
    struct gpuring_offers offers = {.all = {.nranks = 0}};
    struct gpuring_pending gathers = {.asks = GPURING_ASKS_OFFERS, .offers = &offers};
    struct gpuring_pending agrees = {.asks = GPURING_ASKS_WORD};
    int status = GPURING_OK;

    *mapping = NULL;
    if (!gpuring_select_maps(&engine->choice_config, call->collective, gpuring_call_bytes(call))) {
        return GPURING_OK;
    }
    gpuring_mapping_offer(engine, call, &offers.own);
    if (!run_exchange(module, call, &gathers, &status)) {
        return status;
    }
    if (offers.all.nranks > 0) {
        *mapping = gpuring_mapping_accept(engine, gpuring_gathered_block(&offers.all, 0));
        gpuring_gathered_clear(&offers.all);
    }
    agrees.vote = *mapping == NULL;
    if (run_exchange(module, call, &agrees, &status) && agrees.vote == 0) {
        return GPURING_OK;
    }
    gpuring_mapping_free(*mapping);
    *mapping = NULL;
    if (status == GPURING_OK) {
        gpuring_info("[unmapped] a persistent allreduce works without mapped buffers, because %s; "
                     "they must be contiguous, aligned to 16 bytes, and from cudaMalloc",
                     offers.own.able ? "not all ranks could map those of all others"
                                     : "those of this rank cannot be mapped");
    }
    return status;
}
