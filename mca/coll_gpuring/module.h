/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* A module serves one communicator at one rank. Its states are in module_state.h. */
#ifndef GPURING_MODULE_H
#define GPURING_MODULE_H

#include "mca/coll_gpuring/compat.h"

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/collectives.h"
#include "mca/coll_gpuring/module_state.h"

/* The functions of this component (calls/). */
#define GPURING_DECLARE(name, list)                                                               \
    int mca_coll_gpuring_##name(GPURING_LIST_##list(GPURING_ARGUMENT), GPURING_END_BLOCKING);     \
    int mca_coll_gpuring_i##name(GPURING_LIST_##list(GPURING_ARGUMENT), GPURING_END_NONBLOCKING); \
    int mca_coll_gpuring_##name##_init(GPURING_LIST_##list(GPURING_ARGUMENT),                     \
                                       GPURING_END_PERSISTENT);
GPURING_STAGED_COLLECTIVES(GPURING_DECLARE)
#undef GPURING_DECLARE
int mca_coll_gpuring_reduce_local(GPURING_LIST_REDUCTION(GPURING_ARGUMENT),
                                  mca_coll_base_module_t *module);
int mca_coll_gpuring_barrier(GPURING_END_BLOCKING);
int mca_coll_gpuring_ibarrier(GPURING_END_NONBLOCKING);
int mca_coll_gpuring_barrier_init(GPURING_END_PERSISTENT);

/* The functions that this component has replaced, and the modules that they belong to (one
 * reference each). NULL for functions that were not replaced. */
struct gpuring_previous {
#define GPURING_ACT(name)                                            \
    __typeof__(((mca_coll_base_module_t *) NULL)->coll_##name) name; \
    mca_coll_base_module_t *name##_module;
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
};

/* Call the previous module's function of the same name. */
#define GPURING_CALL_PREVIOUS(module, name, ...) \
    ((module)->previous.name(__VA_ARGS__, (module)->previous.name##_module))

struct gpuring_engine;
struct gpuring_oob;
struct gpuring_serve;
struct gpuring_shape;
struct gpuring_stream_state;
struct gpuring_wireup;

/* The state of agreements on where the buffers of calls are (agree/agree.h). */
struct gpuring_agree {
    /* All ranks are READY, because a call has ended here that needs all of them. All ranks set this
     * before their next call. */
    bool connected;
    /* Ranks that are not connected do not agree before calls with lower numbers than these.
     * Atomic. */
    uint64_t next;        /* applies to calls of less than coll_gpuring_agree_size */
    uint64_t next_of_any; /* applies to all calls; 0 if all processes have a driver */
    uint64_t votes;       /* number of calls so far in which the ranks voted */
};

/* The state of staged calls on a communicator. */
struct gpuring_staging {
    uint32_t logged; /* bits of the collectives whose first staged call was logged */
    bool failed;     /* a failure of this rank was logged */
};

struct mca_coll_gpuring_module_t {
    mca_coll_base_module_t super;
    struct ompi_communicator_t *comm;
    struct mca_coll_gpuring_module_t *owner; /* of a track (serve/tracks.h); otherwise the module
                                                itself */
    int rank, nranks;
    enum gpuring_state state; /* changed by the thread that progresses the queue */
    int failure;              /* in state FAILED: the gpuring_status that calls return */
    bool enabled;
    bool released;  /* resources were released early, by gpuring_module_freed */
    bool watches;   /* gpuring_module_watch_free was called */
    bool unposts;   /* receives are posted only during operations, because MPI_Comm_free was called,
                       or because it is a track; atomic */
    unsigned users; /* see gpuring_module_leave */
    struct gpuring_previous previous;
    uint64_t calls;          /* number of calls so far of the functions that it may serve */
    uint32_t logged_reasons; /* bits of enum gpuring_reason that were logged */

    struct gpuring_engine *engine; /* runs operations in state READY; atomic until then */
    struct gpuring_wireup *wireup; /* in states UNWIRED and WIRING, and until all connections have
                                      been made */
    struct gpuring_oob *oob;
    struct gpuring_serve *serve;  /* NULL if the module serves no collectives, as on
                                   * intercommunicators and with a single rank */
    struct gpuring_shape *shapes; /* shapes of calls (calls/describe.c), or NULL */
    uint64_t nshapes;             /* number of shapes that were kept so far */
    struct gpuring_agree agree;
    struct gpuring_staging staging;
    void (*abandon)(struct mca_coll_gpuring_module_t *module); /* see gpuring_module_leave */
    /* Create a track. Returns NULL if memory is exhausted. */
    struct mca_coll_gpuring_module_t *(*add_track)(struct mca_coll_gpuring_module_t *owner);
    struct gpuring_stream_state *stream; /* calls in a stream of the application; the engine then
                                            runs no other calls. NULL if there are none */
};
typedef struct mca_coll_gpuring_module_t mca_coll_gpuring_module_t;
OBJ_CLASS_DECLARATION(mca_coll_gpuring_module_t);

/* Offer a module for a communicator. Returns NULL to offer none. */
mca_coll_base_module_t *mca_coll_gpuring_comm_query(struct ompi_communicator_t *comm,
                                                    int *priority);

/* Let MPI_Comm_free call gpuring_module_freed with the module's owner. Called before anything that
 * may wire up the communicator, in a call of the program, because the program may free the
 * communicator before the wire-up starts. */
void gpuring_module_watch_free(mca_coll_gpuring_module_t *module);
void gpuring_module_freed(void *module);

/*
 * Two may use the resources of a module and its tracks: the program until it frees the
 * communicator, and a thread that advances one of their queues (serve/progress.c). The one that
 * leaves last releases the resources of a failed module. Atomic.
 */
static inline void gpuring_module_enter(mca_coll_gpuring_module_t *module)
{
    __atomic_fetch_add(&module->users, 1, __ATOMIC_RELAXED);
}
static inline void gpuring_module_leave(mca_coll_gpuring_module_t *module)
{
    if (__atomic_sub_fetch(&module->users, 1, __ATOMIC_ACQ_REL) == 0) {
        module->abandon(module);
    }
}

/* Print which components would serve MPI_COMM_WORLD without this one: "allreduce=tuned ... ". Empty
 * if this component does not serve it. */
void gpuring_module_previous_text(char *text, size_t room);

#endif
