/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Modules: offer one for a communicator, install its functions in the table, and remove them. */
#include "mca/coll_gpuring/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/p2p/p2p.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stream/stream_calls.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

static void module_construct(mca_coll_gpuring_module_t *module)
{
    /* The base has constructed its part. All fields after it are initially zero. */
    memset((char *) module + sizeof module->super, 0, sizeof *module - sizeof module->super);
    __atomic_fetch_add(&gpuring_process.modules, 1, __ATOMIC_RELAXED);
}

/* Release everything that the module owns. This is local work that takes bounded time, because
 * other ranks may already have exited. */
static void module_release(mca_coll_gpuring_module_t *module)
{
    if (module->released) {
        return;
    }
    module->released = true;
    __atomic_fetch_sub(&gpuring_process.modules, 1, __ATOMIC_RELAXED);
    gpuring_stream_close(module);
    gpuring_serve_close(module);
    free(module->shapes);
}

static void module_destruct(mca_coll_gpuring_module_t *module)
{
    module_release(module);
#define GPURING_ACT(name)                                  \
    if (module->previous.name##_module != NULL) {          \
        GPURING_COLL_DROP(module->previous.name##_module); \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
}

/*
 * Release what a module owns when it or one of its tracks has failed, and its communicator has been
 * freed. Ranks may have failed while they exchanged messages. Receives that were posted hold the
 * communicator, so its destructor would never be called, and messages that arrive later would be
 * delivered to the next communicator with the same number. Therefore retain the communicator, so
 * that its number is not used again.
 */
static void module_abandon(mca_coll_gpuring_module_t *module)
{
    if (!module->released && gpuring_serve_idle(module) &&
        (module->state == GPURING_STATE_FAILED || gpuring_tracks_failed(&module->serve->tracks))) {
        OBJ_RETAIN(module->comm);
        module_release(module);
    }
}

OBJ_CLASS_INSTANCE(mca_coll_gpuring_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

void gpuring_module_freed(void *self)
{
    mca_coll_gpuring_module_t *module = self;
    struct gpuring_engine *engine;

    /* Partner: complete() in wireup/wireup.c. Either this thread sees the engine, or the thread in
     * complete() sees `unposts`. */
    __atomic_store_n(&module->unposts, true, __ATOMIC_SEQ_CST);
    engine = __atomic_load_n(&module->engine, __ATOMIC_SEQ_CST);
    if (engine != NULL) {
        gpuring_engine_unpost(engine);
    }
    gpuring_module_leave(module);
}

/* Save the functions that this component replaces. Do not offer functions that the communicator
 * does not have. */
static void save_previous(mca_coll_gpuring_module_t *module, struct ompi_communicator_t *comm)
{
#define GPURING_ACT(name)                                                                  \
    if (comm->c_coll->coll_##name == NULL || comm->c_coll->coll_##name##_module == NULL) { \
        module->super.coll_##name = NULL;                                                  \
    }                                                                                      \
    if (module->super.coll_##name != NULL) {                                               \
        module->previous.name = comm->c_coll->coll_##name;                                 \
        module->previous.name##_module = comm->c_coll->coll_##name##_module;               \
        GPURING_COLL_KEEP(module->previous.name##_module);                                 \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
}

static mca_coll_gpuring_module_t *world; /* the module of MPI_COMM_WORLD, while it is enabled */

/* Write "NAME=COMPONENT " and return its length, or 0 if there is no room. The component is part of
 * the name of the module's class, such as "mca_coll_tuned_module_t". */
static size_t print_previous(char *text, size_t room, const char *name,
                             const mca_coll_base_module_t *previous)
{
    const char *class = previous->super.obj_class->cls_name, *begin = strstr(class, "coll_");
    const char *end = strstr(class, "_module");
    int length;

    begin = begin != NULL ? begin + strlen("coll_") : class;
    length = snprintf(text, room, "%s=%.*s ", name,
                      (int) (end != NULL && end > begin ? (size_t) (end - begin) : strlen(begin)),
                      begin);
    return length > 0 && (size_t) length < room ? (size_t) length : 0;
}

void gpuring_module_previous_text(char *text, size_t room)
{
    const mca_coll_gpuring_module_t *module = world;
    size_t used = 0;

    text[0] = '\0';
    if (module == NULL) {
        return;
    }
#define GPURING_ACT(name)                                                                        \
    if (module->previous.name##_module != NULL) {                                                \
        used += print_previous(text + used, room - used, #name, module->previous.name##_module); \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    text[used] = '\0';
}

static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    save_previous(module, comm);
#define GPURING_ACT(name) GPURING_COLL_INSTALL(module, comm, name);
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    module->enabled = true;
    if (comm == MPI_COMM_WORLD) {
        world = module;
    }
    return OMPI_SUCCESS;
}

/* Open MPI 4.1 and 5.0 call this once for each function of this component. */
static int module_disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    if (module->enabled) {
        module->enabled = false;
        if (comm == MPI_COMM_WORLD) {
            world = NULL;
            gpuring_p2p_leave();
        }
#define GPURING_ACT(name) GPURING_COLL_UNINSTALL(module, comm, name);
        GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    }
    return OMPI_SUCCESS;
}

static mca_coll_gpuring_module_t *track_new(mca_coll_gpuring_module_t *owner);

/* Create a module. serves: it serves collectives. Return NULL if memory is exhausted. */
static mca_coll_gpuring_module_t *module_new(struct ompi_communicator_t *comm, bool serves)
{
    mca_coll_gpuring_module_t *module = OBJ_NEW(mca_coll_gpuring_module_t);

    if (module == NULL) {
        return NULL;
    }
    module->comm = comm;
    module->owner = module;
    module->rank = ompi_comm_rank(comm);
    module->nranks = ompi_comm_size(comm);
    module->users = 1;
    module->abandon = module_abandon;
    module->add_track = track_new;
    module->super.coll_module_enable = module_enable;
    module->super.coll_module_disable = module_disable;
    if (serves && gpuring_serve_open(module) != GPURING_OK) {
        OBJ_RELEASE(module);
        return NULL;
    }
    return module;
}

static mca_coll_gpuring_module_t *track_new(mca_coll_gpuring_module_t *owner)
{
    mca_coll_gpuring_module_t *track = module_new(owner->comm, true);

    if (track != NULL) {
        track->owner = owner;
        track->unposts = true;
    }
    return track;
}

/* Return true if the component of this module forwards the calls that it has replaced to the
 * previous component. */
static bool passes_on(const mca_coll_base_module_t *module)
{
    static const char *const names[] = {"coll/monitoring", "coll/sync", "coll/cuda",
                                        "coll/accelerator"};
    const char *name = gpuring_compat_component(module);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Warn if another component has the calls on MPI_COMM_WORLD that this component offered to serve.
 * The base does not report this. Call this function when MPI_COMM_SELF is set up, because the table
 * of MPI_COMM_WORLD is complete by then.
 */
static void warn_if_outranked(void)
{
    const mca_coll_base_comm_coll_t *table = MPI_COMM_WORLD->c_coll;
    const mca_coll_base_module_t *above = NULL;
    const char *first = NULL;
    int count = 0;

#define GPURING_ACT(name)                                                    \
    if (table->coll_##name != NULL && table->coll_##name##_module != NULL && \
        table->coll_##name != mca_coll_gpuring_##name &&                     \
        !passes_on(table->coll_##name##_module)) {                           \
        above = above == NULL ? table->coll_##name##_module : above;         \
        first = first == NULL ? #name : first;                               \
        count++;                                                             \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    if (count > 0) {
        gpuring_warn(
            "[outranked] coll_gpuring_priority is %d, and %s has at least the same "
            "priority: it runs %d of the collective calls on MPI_COMM_WORLD (%s%s) instead "
            "of coll/gpuring, and may crash when a buffer is on a GPU. Set "
            "coll_gpuring_priority to 90",
            gpuring_params.priority, gpuring_compat_component(above), count, first,
            count > 1 ? " and others" : "");
    }
}

static bool offered_to_world;

/* Record the rank of this process as soon as it is known, and log the messages that need it. */
static void world_begin(struct ompi_communicator_t *comm)
{
    if (comm == MPI_COMM_WORLD) {
        gpuring_process.world_rank = ompi_comm_rank(comm);
        if (gpuring_process.world_rank == 0) {
            gpuring_params_warn_unknown();
        }
        if (gpuring_params.priority <= 0) {
            gpuring_info("[off] coll_gpuring_priority is 0: coll/gpuring serves no call. "
                         "gpuring-run sets it to 90, as does mpirun --mca coll_gpuring_priority "
                         "90 if the name is spelt like this");
        }
    } else if (comm == MPI_COMM_SELF && offered_to_world && gpuring_process.world_rank == 0) {
        warn_if_outranked();
    }
}

mca_coll_base_module_t *mca_coll_gpuring_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_gpuring_module_t *module;
    bool serves = !OMPI_COMM_IS_INTER(comm) && ompi_comm_size(comm) > 1;

    world_begin(comm);
    if (gpuring_params.priority <= 0 || gpuring_process.device_ops == NULL) {
        return NULL;
    }
    gpuring_p2p_open();
    serves = serves && gpuring_peers_alike(comm);
    if (!serves && gpuring_process.device_ops->kind == GPURING_DEVICE_HOST) {
        return NULL;
    }
    module = module_new(comm, serves);
    if (module == NULL) {
        gpuring_error("[no-module] out of memory for a communicator: this rank delegates its "
                      "calls to other components, and other ranks wait for it in their first "
                      "call until coll_gpuring_timeout; free host memory, or raise its limit "
                      "(ulimit -v)");
        return NULL;
    }
    /* Offer all functions. module_enable removes those that the communicator does not have. */
#define GPURING_ACT(name) module->super.coll_##name = mca_coll_gpuring_##name;
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    offered_to_world = offered_to_world || comm == MPI_COMM_WORLD;
    *priority = gpuring_params.priority;
    return &module->super;
}
