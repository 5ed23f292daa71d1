/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls in which some ranks pass GPU buffers and others host buffers. A rank alone does not know
 * whether all ranks can work on GPUs. The status pages of its node show it only for the ranks
 * there.
 *
 * Votes. In an MPI program, a root may broadcast from host memory to GPU arrays, or gather these to
 * a host array, and in MPI_Alltoallv a rank may have no data. In such collectives each rank votes
 * when it makes the call (transport/votes.c). A rank with host buffers delegates the call
 * immediately. On the other ranks the call waits in the queue until all ranks have voted.
 *
 * Agreements. Ranks on several nodes see no common pages, and neither do ranks that are not
 * connected yet. They exchange messages instead (progress.c). The cost does not matter for calls of
 * coll_gpuring_agree_size or more. On smaller calls the ranks agree from time to time, and use the
 * last result for the calls in between (forecast.h). Both results are correct wherever the
 * buffers are, because the engine copies host buffers to the GPU (bounce.h), and delegated calls
 * are staged.
 *
 * Programs without GPUs must pay next to nothing. Therefore, if a process has no CUDA driver during
 * an agreement and the ranks are not connected, the ranks agree again only when the number of their
 * calls has doubled.
 *
 * Other collectives have buffers of one kind on all ranks. If a program breaks this rule, some
 * ranks would wait in kernels for ranks that wait in another component. Therefore each rank counts
 * its calls on a communicator, and records on its status page where the buffers of the last calls
 * were. A waiting rank reads these pages. If it finds such a call, the call fails with
 * GPURING_ERR_MIXED. The rank takes part in the other component's call even so, which ends the wait
 * of the other ranks. Between nodes the wait is reported like any other wait (watchdog.c).
 *
 * With coll_gpuring_agree=always, the ranks agree through messages before every call instead.
 */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

bool gpuring_can_vote_locally(const mca_coll_gpuring_module_t *module)
{
    return module->serve->all_ready && gpuring_transport_can_vote(module->engine->transport);
}

/* Return true if the user has disabled serving with coll_gpuring_algorithm=previous. With
 * coll_gpuring_deterministic reductions are served even so. */
static bool serves_none(void)
{
    return gpuring_params.algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS &&
           !gpuring_params.deterministic;
}

/* Return true if the ranks do not agree on the call with this number, because a process had no
 * driver in the last agreement. */
static bool is_before(const mca_coll_gpuring_module_t *module, uint64_t number)
{
    return !module->serve->all_ready &&
           number < __atomic_load_n(&module->serve->agree_from, __ATOMIC_RELAXED);
}

bool gpuring_vote_possible(const mca_coll_gpuring_module_t *module, uint64_t number)
{
    return gpuring_can_vote_locally(module) ||
           (gpuring_params.agree_size > 0 && !serves_none() && !is_before(module, number) &&
            module->state != GPURING_STATE_DEAD && module->state != GPURING_STATE_FAILED);
}

/* Return true if the call is large enough to pay for an agreement every time. Its size is the
 * number of bytes that pass through the root, which either all ranks know or none. Reductions whose
 * order coll_gpuring_deterministic promises are always worth an agreement. */
static bool pays_for_agreement(const mca_coll_gpuring_module_t *module,
                               const struct gpuring_call *call)
{
    bool blocks = call->collective == GPURING_COLLECTIVE_GATHER ||
                  call->collective == GPURING_COLLECTIVE_SCATTER;
    size_t at_least = gpuring_params.agree_size / (size_t) (blocks ? module->nranks : 1);

    return gpuring_call_bytes(call) >= at_least ||
           (gpuring_params.deterministic && call->collective == GPURING_COLLECTIVE_REDUCE);
}

/* Return the vote of this rank: where its data of the call is, if it has any. */
static enum gpuring_vote own_vote(const struct gpuring_call *call)
{
    return gpuring_call_on_gpu(call)                     ? GPURING_VOTE_GPU
           : call->in.bytes == 0 && call->out.bytes == 0 ? GPURING_VOTE_NONE
                                                         : GPURING_VOTE_HOST;
}

/* Return the reason for delegating a call after this vote of this rank. */
static enum gpuring_reason reason_of(enum gpuring_vote own)
{
    return own == GPURING_VOTE_GPU ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
}

/* Return the forecast for calls of this kind. */
static struct gpuring_forecast *forecast_of(const mca_coll_gpuring_module_t *module,
                                            const struct gpuring_call *call)
{
    uint64_t bytes = gpuring_call_bytes(call); /* not 0, because empty calls were delegated */

    return &module->serve->forecasts[call->collective][64 - __builtin_clzll(bytes)];
}

/* Query the forecast for the next call. Returns NONE, or the reason for delegating the call. */
static enum gpuring_reason ask_forecast(const mca_coll_gpuring_module_t *module,
                                        struct gpuring_call *call)
{
    bool on_gpu = own_vote(call) == GPURING_VOTE_GPU;
    enum gpuring_expected expected = GPURING_EXPECTED_UNKNOWN;

    call->asks = GPURING_ASKS_NOBODY;
    if (is_before(module, call->vote)) {
        return on_gpu ? GPURING_REASON_UNKNOWN : GPURING_REASON_MEMORY;
    }
    if (call->forecast != NULL) {
        expected = gpuring_forecast_ask(call->forecast);
    }
    if (expected == GPURING_EXPECTED_UNKNOWN) {
        call->asks = GPURING_ASKS_MESSAGES;
    }
    return expected != GPURING_EXPECTED_HOST ? GPURING_REASON_NONE
           : on_gpu                          ? GPURING_REASON_EXPECTED
                                             : GPURING_REASON_MEMORY;
}

void gpuring_forecast_look(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    item->reason = ask_forecast(module, &item->call);
    if (item->reason == GPURING_REASON_NONE && item->call.asks == GPURING_ASKS_NOBODY) {
        gpuring_queue_decide(&module->serve->queue, item);
    }
}

enum gpuring_reason gpuring_vote_cast(mca_coll_gpuring_module_t *module, struct gpuring_call *call,
                                      bool lasting)
{
    enum gpuring_vote own = own_vote(call);
    uint64_t number;

    if (!gpuring_can_vote_locally(module)) {
        call->asks = GPURING_ASKS_FORECAST;
        call->vote = module->calls;
        call->forecast =
            lasting || pays_for_agreement(module, call) ? NULL : forecast_of(module, call);
        /* Calls in the queue must query the forecast first, when it is their turn. */
        return gpuring_queue_empty(&module->serve->queue) ? ask_forecast(module, call)
                                                          : GPURING_REASON_NONE;
    }
    number = ++module->serve->votes;
    if (gpuring_transport_vote_cast(module->engine->transport, number, own) == GPURING_VOTE_HOST) {
        return reason_of(own);
    }
    call->asks = GPURING_ASKS_PAGES;
    call->vote = number;
    return GPURING_REASON_NONE;
}

/* The bits of an agreement: the kinds of memory in which ranks have data, and whether a rank has no
 * driver and therefore no GPU memory. */
enum { ON_GPU = 1, ON_HOST = 2, NO_DRIVER = 4 };

uint64_t gpuring_agreement_word(const struct gpuring_call *call)
{
    enum gpuring_vote own = own_vote(call);

    return (own == GPURING_VOTE_GPU    ? ON_GPU
            : own == GPURING_VOTE_HOST ? ON_HOST
                                       : 0) |
           (gpuring_memory_possible() ? 0 : NO_DRIVER);
}

void gpuring_agreement_take(mca_coll_gpuring_module_t *module, struct gpuring_item *item,
                            uint64_t word)
{
    bool all = word == ON_GPU, some = (word & ON_GPU) != 0;
    bool drivers = (word & NO_DRIVER) == 0;

    __atomic_store_n(&module->serve->agree_from, drivers ? 0 : 2 * item->call.vote + 1,
                     __ATOMIC_RELAXED);

    item->reason = all ? GPURING_REASON_NONE : some ? GPURING_REASON_MIXED : GPURING_REASON_MEMORY;
    if (item->call.forecast != NULL && drivers) {
        gpuring_forecast_learn(item->call.forecast,
                               all ? GPURING_EXPECTED_GPU : GPURING_EXPECTED_HOST);
    }
    gpuring_trace("agreed: %s ranks have a buffer on a GPU", all ? "all" : some ? "some" : "no");
}

bool gpuring_forecast_may_serve(const mca_coll_gpuring_module_t *module,
                                const struct gpuring_call *call)
{
    return gpuring_vote_possible(module, module->calls) && !gpuring_can_vote_locally(module) &&
           !pays_for_agreement(module, call) &&
           !(gpuring_queue_empty(&module->serve->queue) &&
             gpuring_forecast_next(forecast_of(module, call)) == GPURING_EXPECTED_HOST);
}

bool gpuring_vote_look(mca_coll_gpuring_module_t *module, struct gpuring_item *item, int *missing)
{
    enum gpuring_vote own = own_vote(&item->call);
    enum gpuring_vote result =
        gpuring_transport_vote_poll(module->engine->transport, item->call.vote, own, missing);

    if (result == GPURING_VOTE_UNKNOWN) {
        return false;
    }
    item->call.asks = GPURING_ASKS_NOBODY;
    if (result == GPURING_VOTE_HOST) {
        item->reason = reason_of(own);
    } else {
        gpuring_queue_decide(&module->serve->queue, item);
    }
    return true;
}

void gpuring_mixed_memory_note(mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                               struct gpuring_call *call)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);
    struct gpuring_serve *serve = module->serve;

    call->number = module->calls;
    if (reason == GPURING_REASON_NONE) {
        serve->on_gpu = call->number;
    }
    if (engine == NULL) {
        return; /* there is no status page yet; its first entry will be the last call on a GPU */
    }
    if (reason == GPURING_REASON_NONE || reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, serve->on_gpu, true);
    }
    if (reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, call->number, false);
    }
}

int gpuring_mixed_memory_look(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_queue *queue = &module->serve->queue;
    const struct gpuring_item *next = gpuring_queue_next(queue);
    uint64_t number = !queue->gathering ? module->running->call
                      : next != NULL    ? next->call.number
                                        : 0;
    char text[256];
    int rank = number > 0 ? gpuring_transport_on_hosts(module->engine->transport, number) : -1;

    if (rank < 0) {
        return GPURING_OK;
    }
    gpuring_module_text(module, text, sizeof text);
    gpuring_compat_help("mixed memory", text, module->rank, rank);
    return GPURING_ERR_MIXED;
}
