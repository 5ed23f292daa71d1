/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls to which MPI programs give GPU buffers at some ranks and host buffers at others: a root
 * broadcasts from host memory into GPU arrays, or gathers these into a host array; and in
 * MPI_Alltoallv a rank may have no data at all. No rank knows by itself whether all can work on
 * GPUs, so they vote, on the status pages of their node (transport/votes.c). Each rank votes when
 * it makes the call. Who has host buffers delegates the call at once; with other ranks it waits in
 * the queue until all have voted.
 *
 * With coll_gpuring_agree=always the ranks agree by messages in place of that (progress.c).
 */
#include "mca/coll_gpuring/serve/serve.h"

bool gpuring_vote_possible(const mca_coll_gpuring_module_t *module)
{
    return module->serve->all_ready && module->engine != NULL &&
           gpuring_transport_votes(module->engine->transport);
}

/* Has the call any data at this rank? */
static enum gpuring_vote own_vote(const struct gpuring_call *call)
{
    return gpuring_call_on_gpu(call)                     ? GPURING_VOTE_GPU
           : call->in.bytes == 0 && call->out.bytes == 0 ? GPURING_VOTE_NONE
                                                         : GPURING_VOTE_HOST;
}

/* Why a call is delegated. */
static enum gpuring_reason reason_of(enum gpuring_vote own)
{
    return own == GPURING_VOTE_GPU ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
}

enum gpuring_reason gpuring_vote_cast(mca_coll_gpuring_module_t *module, struct gpuring_call *call)
{
    uint64_t number = ++module->serve->votes;
    enum gpuring_vote own = own_vote(call);

    if (gpuring_transport_vote(module->engine->transport, number, own) == GPURING_VOTE_HOST) {
        return reason_of(own);
    }
    call->vote = number;
    return GPURING_REASON_NONE;
}

bool gpuring_vote_look(mca_coll_gpuring_module_t *module, struct gpuring_item *item, int *missing)
{
    enum gpuring_vote own = own_vote(&item->call);
    enum gpuring_vote result =
        gpuring_transport_voted(module->engine->transport, item->call.vote, own, missing);

    if (result == GPURING_VOTE_UNKNOWN) {
        return false;
    }
    item->call.vote = 0;
    if (result == GPURING_VOTE_HOST) {
        item->reason = reason_of(own);
    } else {
        gpuring_queue_decide(&module->serve->queue, item);
    }
    return true;
}
