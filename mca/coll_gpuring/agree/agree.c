/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/agree/agree.h"

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"

bool gpuring_can_vote_locally(const mca_coll_gpuring_module_t *module)
{
    return module->agree.connected && gpuring_transport_can_vote(module->engine->transports[0]);
}

/* Return true if the user has disabled serving with coll_gpuring_algorithm=previous. With
 * coll_gpuring_deterministic, reductions are served nevertheless. */
static bool serves_none(void)
{
    return gpuring_params.algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS &&
           !gpuring_params.deterministic;
}

/* Return true if the ranks are not connected, and do not agree before this call because its number
 * is below *next. */
static bool is_before(const mca_coll_gpuring_module_t *module, uint64_t number,
                      const uint64_t *next)
{
    return !module->agree.connected && number < __atomic_load_n(next, __ATOMIC_RELAXED);
}

bool gpuring_agree_possible(const mca_coll_gpuring_module_t *module, uint64_t number)
{
    return gpuring_can_vote_locally(module) ||
           (gpuring_params.agree_size > 0 && !serves_none() &&
            !is_before(module, number, &module->agree.next_of_any) &&
            module->state != GPURING_STATE_DEAD && module->state != GPURING_STATE_FAILED);
}

enum gpuring_reason gpuring_agree_not_possible(void)
{
    return serves_none() ? GPURING_REASON_PREVIOUS : GPURING_REASON_UNKNOWN;
}

/* Return true if an agreement takes little time compared with the call, or is needed in any case.
 * Reductions whose order coll_gpuring_deterministic promises always need one. bytes: from
 * gpuring_agree_bytes. */
static bool is_worth_asking(const struct gpuring_call *call, uint64_t bytes)
{
    return bytes == 0 || bytes >= gpuring_params.agree_size ||
           (gpuring_params.deterministic && call->collective == GPURING_COLLECTIVE_REDUCE);
}

uint64_t gpuring_agree_bytes(const mca_coll_gpuring_module_t *module,
                             const struct gpuring_call *call)
{
    bool blocks = gpuring_collective_has_blocks(call->collective);
    uint64_t bytes;

    return call->count == GPURING_COUNT_UNKNOWN ||
                   __builtin_mul_overflow(gpuring_call_bytes(call),
                                          blocks ? (uint64_t) module->nranks : 1, &bytes)
               ? 0
               : bytes;
}

/*
 * Return true if this rank stages the call without asking the others. Once the ranks are connected,
 * their common rules (engine/select.h) have already delegated the calls that are faster staged.
 * Reductions whose order coll_gpuring_deterministic promises are never small.
 */
static bool is_small(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                     uint64_t number)
{
    uint64_t size = gpuring_params.agree_size, bytes = gpuring_agree_bytes(module, call);

    if (is_worth_asking(call, bytes)) {
        return false;
    }
    return module->agree.connected ? !gpuring_can_vote_locally(module) &&
                                         number != GPURING_AGREE_PERSISTENT && bytes < size
                                   : bytes < gpuring_select_small_limit(call->collective, size);
}

/* Return the vote of this rank: where its data of the call is, if it has any. */
static enum gpuring_vote own_vote(const struct gpuring_call *call)
{
    return gpuring_call_on_gpu(call)                     ? GPURING_VOTE_GPU
           : call->in.bytes == 0 && call->out.bytes == 0 ? GPURING_VOTE_NONE
                                                         : GPURING_VOTE_HOST;
}

/* Return the reason for delegating a call: `reason` if the call must be staged here, or MEMORY if
 * its buffers are in host memory. */
static enum gpuring_reason reason_if_staged(const struct gpuring_call *call,
                                            enum gpuring_reason reason)
{
    return gpuring_call_on_gpu(call) ? reason : GPURING_REASON_MEMORY;
}

enum gpuring_reason gpuring_agree_begin(mca_coll_gpuring_module_t *module,
                                        const struct gpuring_call *call,
                                        struct gpuring_pending *pending, uint64_t number,
                                        bool queued)
{
    if (is_small(module, call, number)) {
        return reason_if_staged(call, GPURING_REASON_SMALL);
    }
    if (!gpuring_can_vote_locally(module)) {
        pending->asks = GPURING_ASKS_TURN;
        pending->vote = number;
        return queued ? GPURING_REASON_NONE : gpuring_agree_ask(module, call, pending);
    }
    number = ++module->agree.votes;
    if (gpuring_transport_vote_cast(module->engine->transports[0], number, own_vote(call)) ==
        GPURING_VOTE_HOST) {
        return reason_if_staged(call, GPURING_REASON_MIXED);
    }
    pending->asks = GPURING_ASKS_PAGES;
    pending->vote = number;
    return GPURING_REASON_NONE;
}

enum gpuring_reason gpuring_agree_ask(const mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call,
                                      struct gpuring_pending *pending)
{
    if (is_before(module, pending->vote, &module->agree.next_of_any) ||
        (!is_worth_asking(call, gpuring_agree_bytes(module, call)) &&
         is_before(module, pending->vote, &module->agree.next))) {
        pending->asks = GPURING_ASKS_NOBODY;
        return reason_if_staged(call, GPURING_REASON_UNKNOWN);
    }
    pending->asks = GPURING_ASKS_MESSAGES;
    return GPURING_REASON_NONE;
}

/* The bits of an agreement: the kinds of memory in which ranks have data, and whether a process has
 * no driver and therefore no GPU memory. */
enum { ON_GPU = 1, ON_HOST = 2, NO_DRIVER = 4 };

uint64_t gpuring_agree_word(const struct gpuring_call *call)
{
    enum gpuring_vote own = own_vote(call);

    return (own == GPURING_VOTE_GPU    ? ON_GPU
            : own == GPURING_VOTE_HOST ? ON_HOST
                                       : 0) |
           (gpuring_memory_possible() ? 0 : NO_DRIVER);
}

enum gpuring_reason gpuring_agree_take(mca_coll_gpuring_module_t *module,
                                       const struct gpuring_pending *pending, uint64_t word)
{
    bool all = word == ON_GPU, some = (word & ON_GPU) != 0;

    if (all || pending->vote != GPURING_AGREE_PERSISTENT) {
        uint64_t next = all ? 0 : 2 * pending->vote + 1;

        __atomic_store_n(&module->agree.next, next, __ATOMIC_RELAXED);
        __atomic_store_n(&module->agree.next_of_any, (word & NO_DRIVER) != 0 ? next : 0,
                         __ATOMIC_RELAXED);
    }
    gpuring_trace("agreed: %s ranks have a buffer on a GPU", all ? "all" : some ? "some" : "no");
    return all ? GPURING_REASON_NONE : some ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
}

bool gpuring_vote_poll(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       struct gpuring_pending *pending, int *missing, enum gpuring_reason *reason)
{
    enum gpuring_vote result = gpuring_transport_vote_poll(module->engine->transports[0],
                                                           pending->vote, own_vote(call), missing);

    if (result == GPURING_VOTE_UNKNOWN) {
        return false;
    }
    pending->asks = GPURING_ASKS_NOBODY;
    *reason = result == GPURING_VOTE_HOST ? reason_if_staged(call, GPURING_REASON_MIXED)
                                          : GPURING_REASON_NONE;
    return true;
}
