/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The thread that watches calls in streams. A program waits for such calls with functions of the
 * driver, such as cudaStreamSynchronize. Therefore no wait in MPI can notice that a rank has died,
 * has made a different call, or does not make the call. Ten times per second, one thread of the
 * process checks the oldest call of each communicator that has not ended, or the call of a graph
 * that is running. It sleeps while there are no communicators with streams. If it finds an error,
 * it logs the error and sets the abort words of all ranks, which end their kernels.
 *
 * The thread calls MPI only if the program has initialised MPI with MPI_THREAD_MULTIPLE: for notes
 * to ranks of other nodes, and to abort connections of the net `mpi`, which require that.
 */
#include "mca/coll_gpuring/stream/stream_state.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define LOOK_MS 100

static struct {
    pthread_mutex_t lock;  /* guards all; held before the lock of a state */
    pthread_cond_t change; /* exists while the thread runs */
    struct gpuring_list states;
    pthread_t thread;
    bool running, stop;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .states = GPURING_LIST_INIT(watch.states)};

void gpuring_stream_record(struct gpuring_stream_state *state, bool captured, int exchange)
{
    const struct gpuring_engine *engine = state->module->engine;
    const struct gpuring_stream_record record = {.operation = engine->operation,
                                                 .made = engine->made,
                                                 .in_graph = captured,
                                                 .exchange = exchange};

    if (exchange == 0) {
        gpuring_stream_notes_add(state);
    }
    if (captured) {
        state->captured[gpuring_capture_number(engine->captures) % GPURING_STREAM_RECORDS] = record;
    } else {
        state->records[engine->enqueued % GPURING_STREAM_RECORDS] = record;
    }
}

/* Return the record of the call that is running: in a graph, or the oldest call in the stream that
 * has not ended. NULL if the record was replaced. */
static const struct gpuring_stream_record *running_call(const struct gpuring_stream_state *state,
                                                        uint32_t replayed, uint32_t pending)
{
    const struct gpuring_engine *engine = state->module->engine;

    if (replayed != 0) {
        uint32_t number = replayed >> 16, last = gpuring_capture_number(engine->captures);

        return last >= number && last - number < GPURING_STREAM_RECORDS
                   ? &state->captured[number % GPURING_STREAM_RECORDS]
                   : NULL;
    }
    return pending <= GPURING_STREAM_RECORDS
               ? &state->records[(engine->enqueued - pending + 1) % GPURING_STREAM_RECORDS]
               : NULL;
}

/* Describe a call: "queued MPI_Allreduce of 8 bytes (sum of float), operation 7". */
static void describe_call(const struct gpuring_stream_state *state,
                          const struct gpuring_stream_record *record, char *text, size_t size)
{
    char call[160];

    if (record == NULL) {
        snprintf(text, size, "a queued call, before the last %d", GPURING_STREAM_RECORDS);
        return;
    }
    if (record->exchange > 0) {
        gpuring_exchange_text(state, record->exchange, call, sizeof call);
        snprintf(text, size, "queued %s%s, after operation %llu", call,
                 record->in_graph ? " in a CUDA graph" : "",
                 (unsigned long long) record->operation);
        return;
    }
    gpuring_differ_text(record->made, call, sizeof call);
    snprintf(text, size, "queued %s%s, operation %llu", call,
             record->in_graph ? " in a CUDA graph" : "", (unsigned long long) record->operation);
}

/* Describe why a call may be waiting: a rank has not made it, a rank cannot be seen, or there is
 * other work in the streams. */
static void describe_cause(const struct gpuring_stream_state *state,
                           const struct gpuring_stream_record *record, char *text, size_t size)
{
    const struct gpuring_transport *transport = state->module->engine->transports[0];
    bool all_seen = true;
    char seen[200];

    if (record != NULL && record->in_graph) {
        snprintf(
            text, size,
            "other ranks may not have launched the graph, or may be in another call; see their "
            "output");
        return;
    }
    if (record != NULL && record->exchange > 0) {
        int rank = gpuring_exchange_peer(state, record->exchange);

        (void) gpuring_differ_peer(transport, rank, seen, sizeof seen);
        snprintf(text, size, "rank %d may not have made the matching call: it %s", rank, seen);
        return;
    }
    for (int rank = 0; record != NULL && rank < state->module->nranks; rank++) {

        if (rank != state->module->rank) {
            uint64_t operation = gpuring_differ_peer(transport, rank, seen, sizeof seen);

            if (operation < record->operation) {
                snprintf(text, size, "rank %d has not made this call: it %s", rank, seen);
                return;
            }
            all_seen = all_seen && operation != UINT64_MAX;
        }
    }
    snprintf(text, size,
             "all ranks %shave made it; %skernels of the program before it in a stream, or kernels "
             "that occupy a GPU, may not have ended",
             all_seen ? "" : "of this node ",
             all_seen ? ""
                      : "ranks of other nodes may not have made it, or may have made another call, "
                        "which their messages name, or ");
}

/* List the last calls of this rank: ", and the last calls here were: queued MPI_Barrier ...; ...".
 * Calls of ranks of different nodes are not compared, so the user has to. */
#define LISTED 3
static void list_last(const struct gpuring_stream_state *state, char *text, size_t size)
{
    uint32_t last = state->module->engine->enqueued;
    uint32_t first = last > LISTED ? last - LISTED : 0;
    size_t used = 0;

    text[0] = '\0';
    while (first < last && used < size) {
        char call[256];

        first++;
        describe_call(state, &state->records[first % GPURING_STREAM_RECORDS], call, sizeof call);
        used += (size_t) snprintf(text + used, size - used, "%s%s",
                                  used == 0 ? "; the last calls here were: " : "; ", call);
    }
}

void gpuring_stream_fail(struct gpuring_stream_state *state,
                         const struct gpuring_stream_record *record, int status, const char *why)
{
    char self[256], call[256], last[800];

    gpuring_module_text(state->module, self, sizeof self);
    if (record != NULL) {
        describe_call(state, record, call, sizeof call);
    }
    list_last(state, last, sizeof last);
    gpuring_error("[stream-failed] %s: %s%s%s; the results of this call and of later ones in the "
                  "stream are undefined%s",
                  self, record != NULL ? call : "", record != NULL ? " does not end: " : "", why,
                  last);
    gpuring_module_fail(state->module, status);
}

/* Return the error of a call that may have ended, with its reason in `why`. */
static int find_difference(struct gpuring_stream_state *state, char *why, size_t size)
{
    int status = gpuring_exchanges_differ(state, why, size);

    if (status == GPURING_OK && gpuring_operation_corrupt(state->module->engine)) {
        snprintf(
            why, size,
            "[counts-differ] the ranks gave different counts, or made different calls; compare "
            "the last calls of all ranks");
        status = GPURING_ERR_COUNTS;
    }
    return status;
}

/* Return the error of a call that waits, or of another rank, with its reason in `why`. */
static int find_error(const struct gpuring_stream_state *state, char *why, size_t size)
{
    const struct gpuring_engine *engine = state->module->engine;
    uint64_t other = 0;
    int rank, status = gpuring_engine_health(engine, why, size);

    if (status != GPURING_OK) {
        return status;
    }
    rank = engine->made != 0 ? gpuring_transport_differs(engine->transports[0], engine->operation,
                                                         engine->made, &other)
                             : -1;
    if (rank >= 0) {
        struct gpuring_difference difference;

        gpuring_differ_compare(engine->made, other, &difference);
        snprintf(why, size, "%s this rank has queued %s, and rank %d %s", difference.code,
                 difference.own, rank, difference.other);
        return difference.status;
    }
    return GPURING_OK;
}

/* Report a call that has waited for long. With a time limit, the communicator then fails; without
 * one, the call is reported once. The caller holds the state's lock. */
static void look_at_time(struct gpuring_stream_state *state,
                         const struct gpuring_stream_record *record, uint64_t now)
{
    uint64_t waited = now - state->since,
             limit = (uint64_t) gpuring_params.timeout * GPURING_SECOND;
    bool ends = limit > 0 && waited >= limit;
    char self[256], call[256], cause[400];

    if (!ends &&
        (limit > 0 || state->reported || waited < GPURING_REPORT_SECONDS * GPURING_SECOND)) {
        return;
    }
    gpuring_module_text(state->module, self, sizeof self);
    describe_call(state, record, call, sizeof call);
    describe_cause(state, record, cause, sizeof cause);
    gpuring_warn("[stalled] %s: %s has not ended for %llu s: %s; %s", self, call,
                 (unsigned long long) (waited / GPURING_SECOND), cause,
                 ends
                     ? "it is ended now, and later calls return an MPI error (coll_gpuring_timeout)"
                     : "it goes on waiting; coll_gpuring_timeout=SECONDS would end it with an MPI "
                       "error");
    state->reported = true;
    if (ends) {
        gpuring_module_fail(state->module, GPURING_ERR_TIMEOUT);
    }
}

static bool may_call_mpi(void)
{
    return gpuring_process.threads || !pthread_equal(pthread_self(), watch.thread);
}

void gpuring_stream_look(struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;
    const struct gpuring_stream_record *record;
    uint64_t now = gpuring_now_ns();
    uint32_t pending = gpuring_operation_pending(engine);
    uint32_t replayed = gpuring_operation_replayed(engine);
    bool waits = pending > 0 || replayed != 0;
    uint64_t current = (uint64_t) replayed << 32 | (engine->enqueued - pending);
    char why[512];
    int status;

    if (!waits || state->since == 0 || current != state->current) {
        state->current = current;
        state->since = waits ? now : 0;
        state->reported = false;
    }
    if (pending == 0) {
        gpuring_operation_rest(engine);
    }
    if (state->module->state != GPURING_STATE_READY) {
        return;
    }
    record = waits ? running_call(state, replayed, pending) : NULL;
    status = find_difference(state, why, sizeof why);
    if (status == GPURING_OK && (waits || gpuring_engine_aborted(engine) != GPURING_OK)) {
        status = find_error(state, why, sizeof why);
    }
    if (status == GPURING_OK && may_call_mpi()) {
        status = gpuring_stream_notes(state, record != NULL ? record->operation : engine->operation,
                                      why, sizeof why);
    }
    if (status != GPURING_OK) {
        gpuring_stream_fail(state, record, status, why);
    } else if (waits) {
        look_at_time(state, record, now);
    }
}

/* Sleep until the time of the next check. The caller holds the lock. */
static void nap(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += LOOK_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    if (gpuring_list_empty(&watch.states)) {
        pthread_cond_wait(&watch.change, &watch.lock);
    } else {
        (void) pthread_cond_timedwait(&watch.change, &watch.lock, &end);
    }
}

static void *watch_main(void *unused)
{
    (void) unused;
    pthread_setname_np(pthread_self(), "gpuring-stream");
    pthread_mutex_lock(&watch.lock);
    while (!watch.stop) {
        for (struct gpuring_list *node = watch.states.next; node != &watch.states && !watch.stop;
             node = node->next) {
            struct gpuring_stream_state *state =
                GPURING_LIST_ENTRY(node, struct gpuring_stream_state, node);

            pthread_mutex_lock(&state->lock);
            gpuring_stream_look(state);
            pthread_mutex_unlock(&state->lock);
        }
        if (gpuring_process.threads && !gpuring_list_empty(&watch.states)) {
            /* A communicator may be destroyed, and then unwatched. */
            pthread_mutex_unlock(&watch.lock);
            gpuring_notes_progress();
            pthread_mutex_lock(&watch.lock);
        }
        if (!watch.stop) {
            nap();
        }
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

/* Start the thread, which gets no signals. The caller holds the lock. */
static int watch_start(void)
{
    pthread_condattr_t monotonic; /* so that setting the time of day does not delay a check */
    sigset_t all, before;
    int error;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&watch.thread, NULL, watch_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    watch.running = error == 0;
    if (error != 0) {
        gpuring_error("cannot create the thread that watches calls in streams: %s",
                      strerror(error));
        return GPURING_ERR_NOMEM;
    }
    return GPURING_OK;
}

int gpuring_stream_watch(struct gpuring_stream_state *state)
{
    int status = GPURING_OK;

    pthread_mutex_lock(&watch.lock);
    if (!watch.running) {
        status = watch_start();
    }
    if (status == GPURING_OK) {
        gpuring_list_append(&watch.states, &state->node);
        pthread_cond_signal(&watch.change);
    }
    pthread_mutex_unlock(&watch.lock);
    return status;
}

void gpuring_stream_unwatch(struct gpuring_stream_state *state)
{
    pthread_mutex_lock(&watch.lock);
    gpuring_list_remove(&state->node);
    pthread_mutex_unlock(&watch.lock);
}

void gpuring_stream_finish(void)
{
    if (!watch.running) {
        return;
    }
    pthread_mutex_lock(&watch.lock);
    watch.stop = true;
    pthread_cond_signal(&watch.change);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.change);
    watch.running = watch.stop = false;
}
