/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls to which some ranks give GPU buffers and others host buffers. No rank knows by itself
 * whether all can work on GPUs; the status pages of its node say it of the ranks there.
 *
 * Votes. MPI programs do so where a root broadcasts from host memory into GPU arrays, or gathers
 * these into a host array; and in MPI_Alltoallv a rank may have no data at all. In such collectives
 * each rank votes when it makes the call (transport/votes.c). Who has host buffers delegates the
 * call at once; with other ranks it waits in the queue until all have voted.
 *
 * Agreements. Ranks of several nodes see no common pages, and none do before they are connected.
 * They agree by messages (progress.c), which large calls do not notice: those of
 * coll_gpuring_agree_size. Of smaller ones they agree now and then, and take the others for what
 * the last one was (forecast.h). Whatever that is, a rank can take part with its buffers where they
 * are: the engine copies host buffers to the GPU (bounce.h), and what is delegated is staged.
 *
 * Programs without GPUs are to pay next to nothing. So where a process had no CUDA driver when the
 * ranks of a communicator agreed, and they are not connected, they agree again only after as many
 * calls as they have made until then.
 *
 * Other collectives have buffers of one kind on all ranks. Where a program breaks that rule, ranks
 * would wait in kernels for others that wait in another component. So every rank counts its calls
 * on a communicator and notes on its status page where the buffers of the last ones were, and a
 * rank that waits looks there. It then fails with GPURING_ERR_MIXED, and takes part in the other
 * component's call all the same, which ends the wait of the others. Between nodes the wait is
 * reported as any other (watchdog.c).
 *
 * With coll_gpuring_agree=always the ranks agree by messages in place of both.
 */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

bool gpuring_sees_pages(const mca_coll_gpuring_module_t *module)
{
    return module->serve->all_ready && gpuring_transport_votes(module->engine->transport);
}

/* Does the user want no call served? In a given order reductions are, all the same. */
static bool serves_none(void)
{
    return gpuring_params.algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS &&
           !gpuring_params.deterministic;
}

/* Is it known that the ranks do not agree on the call of this number? */
static bool is_before(const mca_coll_gpuring_module_t *module, uint64_t number)
{
    return !module->serve->all_ready &&
           number < __atomic_load_n(&module->serve->agree_from, __ATOMIC_RELAXED);
}

bool gpuring_vote_possible(const mca_coll_gpuring_module_t *module, uint64_t number)
{
    return gpuring_sees_pages(module) ||
           (gpuring_params.agree_size > 0 && !serves_none() && !is_before(module, number) &&
            module->state != GPURING_STATE_DEAD && module->state != GPURING_STATE_FAILED);
}

/* Is a call worth messages whenever it is made? By the bytes that pass through its root: all ranks
 * know them, or none does. What coll_gpuring_deterministic promises is worth them always. */
static bool is_worth(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    bool blocks = call->collective == GPURING_COLLECTIVE_GATHER ||
                  call->collective == GPURING_COLLECTIVE_SCATTER;
    size_t at_least = gpuring_params.agree_size / (size_t) (blocks ? module->nranks : 1);

    return gpuring_call_bytes(call) >= at_least ||
           (gpuring_params.deterministic && call->collective == GPURING_COLLECTIVE_REDUCE);
}

/* Where this rank's data of the call is, if it has any. */
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

/* What the ranks have found of such calls. */
static struct gpuring_forecast *forecast_of(const mca_coll_gpuring_module_t *module,
                                            const struct gpuring_call *call)
{
    uint64_t bytes = gpuring_call_bytes(call); /* not 0: there is nothing to do in such calls */

    return &module->serve->forecasts[call->collective][64 - __builtin_clzll(bytes)];
}

/* Ask for a call whose turn it is: NONE, or why it is delegated. */
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

    if (!gpuring_sees_pages(module)) {
        call->asks = GPURING_ASKS_FORECAST;
        call->vote = module->calls;
        call->forecast = lasting || is_worth(module, call) ? NULL : forecast_of(module, call);
        /* Calls in the queue ask before, when it is their turn. */
        return gpuring_queue_empty(&module->serve->queue) ? ask_forecast(module, call)
                                                          : GPURING_REASON_NONE;
    }
    number = ++module->serve->votes;
    if (gpuring_transport_vote(module->engine->transport, number, own) == GPURING_VOTE_HOST) {
        return reason_of(own);
    }
    call->asks = GPURING_ASKS_PAGES;
    call->vote = number;
    return GPURING_REASON_NONE;
}

/* A bit for each kind of memory in which ranks have data; and for ranks that cannot have GPU
 * memory. */
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
    return gpuring_vote_possible(module, module->calls) && !gpuring_sees_pages(module) &&
           !is_worth(module, call) &&
           !(gpuring_queue_empty(&module->serve->queue) &&
             gpuring_forecast_next(forecast_of(module, call)) == GPURING_EXPECTED_HOST);
}

bool gpuring_vote_look(mca_coll_gpuring_module_t *module, struct gpuring_item *item, int *missing)
{
    enum gpuring_vote own = own_vote(&item->call);
    enum gpuring_vote result =
        gpuring_transport_voted(module->engine->transport, item->call.vote, own, missing);

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
        return; /* no status page yet; its first entry will be the last call on a GPU */
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
