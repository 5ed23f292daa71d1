/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls to which MPI programs give GPU buffers at some ranks and host buffers at others: a root
 * broadcasts from host memory into GPU arrays, or gathers these into a host array; and in
 * MPI_Alltoallv a rank may have no data at all. No rank knows by itself whether all can work on
 * GPUs, so they vote, on the status pages of their node (transport/votes.c): who has host buffers
 * votes by one store and delegates the call; the others wait until all have voted.
 *
 * With coll_gpuring_agree=always the ranks agree by messages in place of that (progress.c).
 */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/status.h"

#define LOOKS_PER_MPI 8 /* vain looks between calls of opal_progress, which poll MPI's sockets */

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

static int wait_votes(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                      enum gpuring_vote own, enum gpuring_vote *result)
{
    struct gpuring_serve *serve = module->serve;
    struct gpuring_backoff pause = {.vain = 0};
    unsigned looks = 0;
    int status = module->state == GPURING_STATE_FAILED ? module->failure : GPURING_OK;

    serve->voting = call->name;
    while (status == GPURING_OK &&
           (*result = gpuring_transport_voted(module->engine->transport, serve->votes, own,
                                              &serve->missing)) == GPURING_VOTE_UNKNOWN) {
        if (looks++ % LOOKS_PER_MPI == 0) {
            opal_progress();
        }
        gpuring_backoff(&pause, 0, module->engine->oversubscribed);
        status = gpuring_watchdog_look(module);
    }
    serve->voting = NULL;
    if (status != GPURING_OK) { /* the others are not to wait for this rank in the call */
        gpuring_execute_fail(module, status);
        status = module->failure;
    }
    return status;
}

enum gpuring_reason gpuring_vote_call(mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call, int *status)
{
    enum gpuring_vote own = own_vote(call), result = GPURING_VOTE_UNKNOWN;

    *status = GPURING_OK;
    gpuring_transport_vote(module->engine->transport, ++module->serve->votes, own);
    if (own == GPURING_VOTE_HOST) {
        return GPURING_REASON_MEMORY;
    }
    *status = wait_votes(module, call, own, &result);
    if (*status != GPURING_OK) {
        return GPURING_REASON_NONE;
    }
    return result == GPURING_VOTE_GPU ? GPURING_REASON_NONE
           : own == GPURING_VOTE_NONE ? GPURING_REASON_MEMORY
                                      : GPURING_REASON_MIXED;
}
