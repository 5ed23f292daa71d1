/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Calls in a stream of the application, and the table of functions for libgpuring_stream.so. */
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/stream/stream_state.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static struct gpuring_stream_state *state_of(MPI_Comm comm)
{
    return ((mca_coll_gpuring_module_t *) comm->c_coll->coll_allreduce_module)->stream;
}

/* Return the error of earlier calls. If another rank has set the abort word, the module fails now,
 * with a message that names the call of this rank. The caller holds the lock. */
static int find_error(struct gpuring_stream_state *state)
{
    const mca_coll_gpuring_module_t *module = state->module;

    if (module->engine != NULL && gpuring_engine_aborted(module->engine) != GPURING_OK) {
        gpuring_stream_look(state);
    }
    return module->state == GPURING_STATE_FAILED ? module->failure : GPURING_OK;
}

/* Let calls of a program that has initialised MPI for a single thread exchange notes with other
 * nodes once per second, because the thread that watches calls must not call MPI. Called without
 * the lock. */
static void exchange_notes(struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;

    if (!gpuring_process.threads && engine != NULL && engine->choice_config.nnodes > 1 &&
        gpuring_now_ns() - state->noted.time >= GPURING_NOTE_SECONDS * GPURING_SECOND) {
        gpuring_notes_progress();
        pthread_mutex_lock(&state->lock);
        gpuring_stream_look(state);
        pthread_mutex_unlock(&state->lock);
    }
}

/* Compare the call with those of the ranks that have already made it. */
static int compare_call(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_engine *engine = module->engine;
    uint64_t other;
    int rank;

    /* If two ranks make the call at the same time, at least one sees the word of the other. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    rank =
        gpuring_transport_differs(engine->transports[0], engine->operation, engine->made, &other);
    return rank < 0 ? GPURING_OK : gpuring_differ_report(module, engine->made, rank, other);
}

/* Return true if the GPU runs nothing any more. This cannot be found out, and is false, while the
 * stream is captured, when the driver does not allow waiting functions. */
static bool is_broken(const struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;
    bool captured = false;

    return engine->device_ops->captures(engine->device, state->stream, &captured) != GPURING_OK ||
           (!captured && gpuring_operation_broken(engine));
}

/* Wait a moment for queued calls whose memory a call needs, without the lock, so that they are
 * watched. Returns an error if they never end. */
static int wait_for_calls(struct gpuring_stream_state *state, struct gpuring_backoff *pause)
{
    int status;

    pthread_mutex_unlock(&state->lock);
    gpuring_backoff(pause, 0, false);
    pthread_mutex_lock(&state->lock);
    status = find_error(state);
    return status == GPURING_OK && pause->late && is_broken(state) ? GPURING_ERR_DEVICE : status;
}

/* Launch the described call. If it needs the place of a plan that queued calls may use, first wait
 * for these. */
static int launch_in_turn(struct gpuring_stream_state *state)
{
    struct gpuring_backoff pause = {.looks = 0};
    int status;

    while ((status = gpuring_operation_enqueue(state->module->engine, &state->call)) ==
           GPURING_AGAIN) {
        status = wait_for_calls(state, &pause);
        if (status != GPURING_OK) {
            return status;
        }
    }
    return status;
}

/* Launch the described call. If another rank has made a different call, both would wait for ever,
 * so the communicator fails on all ranks. */
static int launch_call(struct gpuring_stream_state *state)
{
    mca_coll_gpuring_module_t *module = state->module;
    struct gpuring_call *call = &state->call;
    uint32_t captures = module->engine->captures;
    int status;

    if (!call->selected) {
        gpuring_select(&module->engine->choice_config, call->collective, call->count,
                       call->element_size, &call->choice);
        call->selected = true;
    }
    status = launch_in_turn(state);
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_stream_record(state, module->engine->captures != captures, 0);
    gpuring_pvar_add(GPURING_PVAR_calls, 1);
    gpuring_pvar_add(GPURING_PVAR_bytes, gpuring_call_moves(call));
    status = compare_call(module);
    if (status != GPURING_OK) {
        gpuring_module_fail(module, status);
    }
    return status;
}

/* Copy the data of a call of a communicator with a single rank. This also works during a
 * capture. */
static int copy_input(const struct gpuring_stream_state *state)
{
    const struct gpuring_call *call = &state->call;

    if (call->out.bytes == 0 || call->input == call->output ||
        state->what == GPURING_STREAM_barrier) {
        return GPURING_OK;
    }
    return gpuring_process.device_ops->enqueue_copy(gpuring_process.device, state->stream,
                                                    call->output, call->input, call->out.bytes);
}

static int enqueue_collective(MPI_Comm comm, enum gpuring_stream_call what,
                              const struct gpuring_stream_arguments *arguments)
{
    struct gpuring_stream_state *state = state_of(comm);
    int status;

    pthread_mutex_lock(&state->lock);
    status = find_error(state);
    if (status == GPURING_OK) {
        status = gpuring_stream_describe(state, what, arguments);
    }
    if (status == GPURING_OK) {
        status = state->module->engine == NULL ? copy_input(state) : launch_call(state);
    }
    pthread_mutex_unlock(&state->lock);
    exchange_notes(state);
    return status == GPURING_AGAIN ? MPI_SUCCESS : gpuring_compat_error(status);
}

static int check_message(MPI_Comm comm, const char *function,
                         const struct gpuring_stream_message *message)
{
    return gpuring_compat_error(gpuring_stream_check(state_of(comm), function, message));
}

static int exchange(MPI_Comm comm, const char *function,
                    const struct gpuring_stream_message *messages, int count)
{
    struct gpuring_stream_state *state = state_of(comm);
    struct gpuring_backoff pause = {.looks = 0};
    int status;

    pthread_mutex_lock(&state->lock);
    status = find_error(state);
    while (status == GPURING_OK) {
        status = gpuring_stream_exchange(state, function, messages, count);
        if (status != GPURING_AGAIN) {
            break;
        }
        status = wait_for_calls(state, &pause);
    }
    pthread_mutex_unlock(&state->lock);
    return gpuring_compat_error(status);
}

static void close_calls(MPI_Comm comm)
{
    gpuring_stream_close(state_of(comm)->module);
}

static int error(MPI_Comm comm)
{
    struct gpuring_stream_state *state = state_of(comm);
    int status;

    exchange_notes(state);
    pthread_mutex_lock(&state->lock);
    if (state->module->engine != NULL) {
        gpuring_stream_look(state);
    }
    status = find_error(state);
    pthread_mutex_unlock(&state->lock);
    return gpuring_compat_error(status);
}

const struct gpuring_stream_functions mca_coll_gpuring_stream = {.version = GPURING_STREAM_VERSION,
                                                                 .connect = gpuring_stream_connect,
                                                                 .close = close_calls,
                                                                 .enqueue = enqueue_collective,
                                                                 .check = check_message,
                                                                 .exchange = exchange,
                                                                 .error = error};
