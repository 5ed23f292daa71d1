/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The engine of one communicator at one rank: plans, connections and the state of the operation
 * that runs. Knows nothing of MPI. One operation at a time; one thread at a time.
 *
 * Between many ranks direct takes long to connect, and few programs need it. It is then `later`:
 * the communicator's engine chooses it, but has no connections for it; a second engine, which is
 * made when a call first needs it, has these and nothing else.
 */
#ifndef GPURING_ENGINE_ENGINE_H
#define GPURING_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/bounce.h"
#include "mca/coll_gpuring/engine/select.h"
#include "mca/coll_gpuring/topology/model_choice.h"
#include "mca/coll_gpuring/transport/transport.h"

/* A plan that is bound to connections. */
struct gpuring_program {
    struct gpuring_plan *plan; /* NULL: not offered */
    int index;                 /* its number in the transport */
    struct gpuring_lane *lanes[GPURING_PROTOCOL_COUNT];
    void *pinned;  /* the lanes, where they are its own */
    uint64_t used; /* the last operation that ran it */
};

struct gpuring_programs;

struct gpuring_engine {
    const struct gpuring_device_ops *device_ops;
    struct gpuring_device *device;
    struct gpuring_stream *stream;
    bool oversubscribed;   /* more ranks than cores on this node: yield while waiting */
    uint64_t patience;     /* of works, see kernels/work.h */
    uint64_t buffer_bytes; /* of a connection, at most */

    uint32_t later; /* bits 1 << algorithm, of those that a second engine has */
    struct gpuring_program base[GPURING_ALGORITHM_COUNT]; /* the other algorithms' base plans */
    struct gpuring_programs *others;                      /* of the other collectives */
    struct gpuring_transport *transport;
    struct gpuring_select_config choice_config;
    struct gpuring_tuning tuning; /* that it points to */

    bool running;                    /* an operation was started and has not been finished */
    uint64_t operation;              /* number of the current or last operation, from 1 */
    const char *name;                /* of that operation, "MPI_Allreduce" */
    uint64_t made;                   /* and its word, see serve/differ.h; 0: not known */
    bool compared;                   /* with the word of one peer, or that need not be */
    uint64_t call;                   /* and the number of its call, see serve/mixed_memory.c */
    struct gpuring_selection choice; /* of that call */
    struct gpuring_program *program; /* that it runs */
    void *pinned; /* what executors read at each launch: the work, then the lanes of `base` */
    struct gpuring_work *work;
    uint64_t prepared; /* the shape of calls for which work and lanes are filled; 0: of none */
    struct gpuring_extent *extents; /* pinned, of blocks; NULL: not needed yet */
    struct gpuring_bounce bounce_input, bounce_output;
};

/* What the ranks agree on before plans are made. */
struct gpuring_engine_config {
    struct gpuring_plan_input input;
    struct gpuring_select_config select; /* but for what follows from the plans and the device */
    uint32_t wanted;                     /* of algorithms, see gpuring_select_eligible */
    uint32_t later;                      /* of those that a second engine is to have */
    bool second;                         /* this is that engine: it has no others */
    bool oversubscribed;
    bool shared_gpu; /* other ranks work with it, too */
    bool mps;        /* at the same time */
    int patience_us; /* of kernels, 0: by shared_gpu */
    uint64_t buffer_bytes;
    uint16_t *order; /* of rings and trees, see plan.h: to be freed by free, the engine's once that
                        exists; NULL: the other collectives do not run on these */
};

#define GPURING_ENGINE_SLOTS 8 /* of each FIFO: two chunks, if they have slices */

/* How long a lane waits before it gives way: looks on the host, nanoseconds on a GPU. */
uint64_t gpuring_engine_patience(const struct gpuring_engine_config *config, bool host);

/* The base plan of an algorithm: NULL where the algorithm is not eligible, or another engine's. */
int gpuring_engine_plan(const struct gpuring_engine_config *config,
                        enum gpuring_algorithm algorithm, struct gpuring_plan **plan);

/* Slots of the flagged protocols: 16 KiB lines, enough for what they are chosen for. */
#define GPURING_ENGINE_FLAGGED_SLOT_BYTES (16 << 10)

/* Plans and FIFO sizes; the transport is added by gpuring_engine_transport. */
int gpuring_engine_create(const struct gpuring_engine_config *config,
                          const struct gpuring_device_ops *device_ops,
                          struct gpuring_device *device, struct gpuring_engine **engine);

/* Create the transport for the engine's plans; transport is the config but for fifo. */
int gpuring_engine_transport(struct gpuring_engine *engine,
                             const struct gpuring_transport_config *transport);

/* The transport is connected: bind the plans to it. */
int gpuring_engine_bind(struct gpuring_engine *engine);

void gpuring_engine_destroy(struct gpuring_engine *engine); /* NULL is allowed */

/*
 * Run an operation, whose call has a choice: start, then poll until it is not GPURING_AGAIN, then
 * finish with the outcome. A poll runs all that can be run and returns after a bounded number of
 * looks without result.
 */
int gpuring_operation_start(struct gpuring_engine *engine, const struct gpuring_call *call);
int gpuring_operation_poll(struct gpuring_engine *engine, const struct gpuring_call *call);
void gpuring_operation_finish(struct gpuring_engine *engine, int status);
/* An operation that is given up, with the abort word set: returns when nothing of it runs any more,
 * which is no longer than the patience of its work. */
void gpuring_operation_stop(struct gpuring_engine *engine);

/* A number that changes whenever the current operation has moved on. */
uint64_t gpuring_operation_progress(const struct gpuring_engine *engine);

/*
 * The lane that waits (the first one), for messages: its number, or -1. *wait: for what,
 * *peer: rank at the other end or -1.
 */
int gpuring_operation_waiting(const struct gpuring_engine *engine, enum gpuring_lane_wait *wait,
                              uint32_t *ref, int *peer);

const char *gpuring_protocol_text(enum gpuring_protocol protocol);

#endif
