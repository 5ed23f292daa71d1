/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Connect the ranks of a communicator for calls in streams. Calls in a stream never wait for other
 * ranks on the host, so everything that needs an agreement happens here: the first wire-up, and a
 * late one for each further set of connections. The communicator makes no other calls, so its queue
 * stays empty, and the calling thread progresses the wire-up itself.
 */
#include "mca/coll_gpuring/stream/stream_state.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#define BYTE_ROOM 256 /* for the byte of barriers */

/* Return the module of a communicator, or NULL (logged) if this component does not serve it. */
static mca_coll_gpuring_module_t *module_of(MPI_Comm comm)
{
    if (strcmp(gpuring_compat_component(comm->c_coll->coll_allreduce_module), "coll/gpuring") !=
        0) {
        gpuring_error(
            "[stream-not-served] coll/gpuring does not have the collectives of the "
            "communicator; start the program with gpuring-run, or set "
            "coll_gpuring_priority to 90 (coll_gpuring_verbose=1 shows which component has them)");
        return NULL;
    }
    return (mca_coll_gpuring_module_t *) comm->c_coll->coll_allreduce_module;
}

/* Attach the device to the context of a stream, or check that it works there already. */
static int attach(void *stream)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer owner;
    int status;

    if (ops->enqueue == NULL || !gpuring_memory_possible()) {
        gpuring_error("[stream-no-gpu] calls in a stream need GPUs: %s",
                      ops->enqueue == NULL ? "coll_gpuring_device is host; leave it at its "
                                             "default"
                                           : "the program has not loaded the CUDA driver");
        return GPURING_ERR_UNSUPPORTED;
    }
    status = ops->stream_owner(stream, &owner);
    if (status == GPURING_OK) {
        status = gpuring_process_attach_at(&owner);
    }
    if (status == GPURING_OK && !gpuring_device_reaches(ops, gpuring_process.device, &owner)) {
        gpuring_error(
            "[stream-context] the stream is on GPU %d or in another context, and "
            "coll/gpuring works on GPU %d, in the context of the first GPU buffer that was "
            "passed to MPI; create the stream there",
            owner.ordinal, gpuring_process.gpu);
        status = GPURING_ERR_UNSUPPORTED;
    }
    return status;
}

/* Connect the ranks with the sets that a first call needs (set -1), or with a further set. */
static int wire_up(mca_coll_gpuring_module_t *module, int set)
{
    static const uint8_t byte; /* the device is attached, so no GPU has to be found from this
                                  address */
    struct gpuring_call call = {.name = "MPIX_Stream_comm_create",
                                .made = 1,
                                .count = GPURING_COUNT_UNKNOWN, /* calls may be large */
                                .in.sample = &byte,
                                .choice.set = set};
    struct gpuring_backoff pause = {.looks = 0};

    gpuring_wireup_start(module, &call, gpuring_differ_report);
    while (gpuring_wireup_progress(module) == GPURING_AGAIN) {
        int status = gpuring_watchdog_look(module);

        if (status != GPURING_OK) {
            gpuring_module_fail(module, status);
        }
        opal_progress();
        gpuring_backoff(&pause, gpuring_watchdog_progress(module), false);
    }
    if (module->state == GPURING_STATE_FAILED) {
        return module->failure;
    }
    return module->state == GPURING_STATE_READY ? GPURING_OK : GPURING_ERR_UNSUPPORTED;
}

/* Check conditions that are equal on all ranks after the first wire-up. */
static int check_engine(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_select_config *config = &module->engine->choice_config;

    if (config->time_sliced_ranks > 1) {
        gpuring_error("[stream-shared-gpu] %d ranks share a GPU without CUDA MPS and take turns on "
                      "it, so that a kernel that waits in a stream delays the rank that it waits "
                      "for; start MPS (nvidia-cuda-mps-control -d), or use one rank for each GPU",
                      config->time_sliced_ranks);
        return GPURING_ERR_UNSUPPORTED;
    }
    return GPURING_OK;
}

/* Check that connections between nodes progress while the program waits for its stream. The result
 * may differ between ranks. */
static int check_network(const struct gpuring_engine *engine)
{
    const struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        if (gpuring_transport_by_mpi(transport) && !gpuring_process.threads) {
            gpuring_error(
                "[stream-threads] calls in streams between nodes use MPI messages here "
                "(coll_gpuring_net), which a thread has to send while the program waits for its "
                "stream; call MPI_Init_thread with MPI_THREAD_MULTIPLE, or use a network with "
                "verbs or UCX");
            return GPURING_ERR_UNSUPPORTED;
        }
    }
    return GPURING_OK;
}

/* The sets that no call in a stream uses. */
#define UNUSED_SETS (1u << GPURING_SET_NODES | 1u << GPURING_SET_MAPPED)

/* Make all connections. All ranks take the same steps, so all get an error if one does. */
static int wire_up_all(mca_coll_gpuring_module_t *module)
{
    uint32_t open;
    int status;

    pthread_mutex_lock(&module->serve->queue.lock);
    status = wire_up(module, -1);
    if (status == GPURING_OK) {
        status = check_engine(module);
    }
    while (status == GPURING_OK &&
           (open = gpuring_engine_open_sets(module->engine) & ~UNUSED_SETS) != 0) {
        status = wire_up(module, __builtin_ctz(open));
    }
    if (status == GPURING_OK && module->engine->unconnectable != 0) {
        status = GPURING_ERR_UNSUPPORTED; /* which was logged */
    }
    pthread_mutex_unlock(&module->serve->queue.lock);
    return status;
}

/* Return the lowest status of all ranks, which is an error if any rank has one. */
static int agree_status(MPI_Comm comm, int status)
{
    int worst = status;

    return PMPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS
               ? worst
               : GPURING_ERR_PEER;
}

static int stream_create(mca_coll_gpuring_module_t *module, void *stream)
{
    struct gpuring_stream_state *state = calloc(1, sizeof *state);

    if (state == NULL || pthread_mutex_init(&state->lock, NULL) != 0) {
        gpuring_error("out of memory for the calls in a stream");
        free(state);
        return GPURING_ERR_NOMEM;
    }
    state->module = module;
    state->stream = stream;
    module->stream = state;
    return GPURING_OK;
}

/* Prepare the engine for calls in the stream. */
static int stream_prepare(struct gpuring_stream_state *state)
{
    struct gpuring_engine *engine = state->module->engine;
    int status = check_network(engine);

    if (status == GPURING_OK) {
        status = engine->device_ops->alloc_table(engine->device, BYTE_ROOM, &state->byte);
    }
    if (gpuring_notes_possible(state->module)) {
        gpuring_notes_open();
    }
    if (status == GPURING_OK) {
        status = gpuring_engine_enqueues(engine, state->stream);
    }
    return status == GPURING_OK ? gpuring_stream_watch(state) : status;
}

int gpuring_stream_connect(MPI_Comm comm, void *stream)
{
    mca_coll_gpuring_module_t *module = module_of(comm);
    int status = module != NULL ? attach(stream) : GPURING_ERR_UNSUPPORTED;

    if (status == GPURING_OK) {
        status = stream_create(module, stream);
    }
    status = agree_status(comm, status);
    if (status == GPURING_OK && module->nranks > 1) {
        status = wire_up_all(module);
        if (status == GPURING_OK) {
            status = stream_prepare(module->stream);
        }
        status = agree_status(comm, status);
    }
    return gpuring_compat_error(status);
}

void gpuring_stream_close(mca_coll_gpuring_module_t *module)
{
    struct gpuring_stream_state *state = module->stream;
    const struct gpuring_engine *engine = module->engine;

    if (state == NULL) {
        return;
    }
    if (engine != NULL && engine->enqueues) {
        gpuring_operation_drain(engine); /* still watched */
    }
    gpuring_stream_unwatch(state);
    gpuring_exchanges_close(state);
    if (state->byte != NULL) {
        engine->device_ops->unload(engine->device, state->byte);
    }
    pthread_mutex_destroy(&state->lock);
    free(state);
    module->stream = NULL;
}
