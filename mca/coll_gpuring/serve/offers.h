/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How the ranks map each other's buffers when a persistent call is created (engine/mapping.h). */
#ifndef GPURING_SERVE_OFFERS_H
#define GPURING_SERVE_OFFERS_H

#include "mca/coll_gpuring/engine/mapping.h"
#include "mca/coll_gpuring/oob/oob.h"

struct mca_coll_gpuring_module_t;

/* The offers of this rank and, once they are gathered, of all ranks. */
struct gpuring_offers {
    struct gpuring_buffer_offer own;
    struct gpuring_gathered all;
};

/*
 * Map the buffers of all ranks for a persistent call, if the call is faster with them. Sets
 * *mapping, to NULL on all ranks if one of them cannot map the buffers. All ranks call this in the
 * same order, on a module that is READY. Returns a gpuring_status.
 */
int gpuring_offers_exchange(struct mca_coll_gpuring_module_t *module,
                            const struct gpuring_call *call, struct gpuring_mapping **mapping);

/* Begin to gather the offers. Called when it is the call's turn in the queue. */
static inline void gpuring_offers_send(struct gpuring_oob *oob, const struct gpuring_offers *offers)
{
    struct gpuring_buffer_offer *block = gpuring_oob_gather(oob, sizeof *block);

    if (block != NULL) {
        *block = offers->own;
    }
}

#endif
