/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The engine of one communicator at one rank: plans, connections and the state of the current
 * operation. It does not use MPI. Only one operation and one thread at a time.
 *
 * Connections are made in sets (call.h), because most communicators need few of them. The engine
 * has all base plans from the start and can select them. The first wire-up makes the sets that
 * small allreduces need, and a call that needs another one waits for a further wire-up. Each
 * wire-up makes a transport.
 *
 * On GPUs, each set is made by itself, because slots take GPU memory, and so it is with verbs,
 * where connections take queue pairs and registered memory. Otherwise only used pages take memory,
 * so all sets are made together, except for direct between many ranks, which takes long to connect.
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
    struct gpuring_transport *transport;
    int index;     /* its number in the transport */
    int set;       /* whose connections it uses; not in `base` */
    uint64_t used; /* the last operation that used it */
    bool captured; /* graphs of the application use it, so it is kept */
};

struct gpuring_programs;

struct gpuring_engine {
    const struct gpuring_device_ops *device_ops;
    struct gpuring_device *device;
    struct gpuring_stream *stream;
    bool oversubscribed;   /* more ranks than cores on this node: yield while waiting */
    uint64_t patience;     /* of works, see kernels/work.h */
    uint64_t buffer_bytes; /* maximum for a connection */
    uint64_t key;          /* of the communicators that may use it (wireup/pool.h) */

    struct gpuring_program base[GPURING_SET_COUNT]; /* the base plans of the sets */
    struct gpuring_programs *others;                /* of the other collectives */
    /* The transports, in the order in which they were made. The status page of the first one has
     * this rank's votes and calls. `ntransports` is atomic. */
    struct gpuring_transport *transports[GPURING_SET_COUNT];
    int ntransports;
    uint32_t late;   /* bits 1 << algorithm, see gpuring_engine_config */
    bool one_by_one; /* each set of connections is made by itself */
    /* Bits 1 << set. Connected: atomic, see gpuring_engine_lacks. Unconnectable: they could not be
     * connected, as all ranks know. */
    uint32_t connected, unconnectable;
    struct gpuring_select_config choice_config;
    struct gpuring_tuning tuning; /* which select points to */

    uint64_t first;                  /* the first operation after connections were made */
    bool running;                    /* an operation was started and has not been finished */
    bool driven;                     /* a thread waits for it */
    bool ran;                        /* all of its lanes have ended */
    bool only_remote;                /* see gpuring_transport_only_remote */
    uint32_t polls;                  /* of the operation */
    bool bounces;                    /* it works on copies of a buffer (bounce.h) */
    uint64_t operation;              /* number of the current or last operation, from 1 */
    const char *name;                /* of that operation, "MPI_Allreduce" */
    uint64_t made;                   /* its word, see serve/differ.h; 0: unknown */
    bool compared;                   /* its word was compared with a peer's, or need not be */
    struct gpuring_selection choice; /* of its call */
    struct gpuring_program *program; /* of its call */
    struct gpuring_work work;        /* of that operation; its states are pinned */
    uint32_t nstates;                /* lanes that have states */
    uint64_t prepared;               /* shape of the calls for which the work is filled; 0: none */
    struct gpuring_extent *extents;  /* of blocks, pinned; NULL: not needed yet */
    void *command;                   /* of kernels that linger, pinned; NULL: they do not */
    struct gpuring_bounce bounce_input, bounce_output;

    /* Only for operations in a stream of the application (gpuring_operation_enqueue): */
    bool enqueues;         /* all operations are of this kind */
    void *queue;           /* the stream, a handle of the driver */
    uint32_t enqueued;     /* number of launches so far, the launch_seq of the last one */
    uint32_t queued_lanes; /* lanes of the last one */
    uint32_t captures;     /* number of launches that were captured into graphs so far */
    struct gpuring_lane_state *captured; /* states of launches in graphs, of `nstates` lanes */
};

/* Data that the ranks agree on before plans are built. */
struct gpuring_engine_config {
    struct gpuring_plan_input input;
    struct gpuring_select_config select; /* except members that depend on plans and device */
    uint32_t wanted;                     /* algorithms, see gpuring_select_eligible */
    uint32_t late;                       /* algorithms that are connected by themselves */
    bool one_by_one;                     /* all of them are; always on GPUs */
    bool oversubscribed;
    bool shared_gpu; /* other ranks use the GPU, too */
    bool mps;        /* they use it simultaneously */
    int patience_us; /* of kernels; 0: depends on shared_gpu */
    int linger_us;   /* time for which kernels wait for the next call; 0: they end */
    uint64_t buffer_bytes;
    uint16_t *
        order; /* order of rings and trees, see plan.h. Free it with free() until the engine exists,
                  which then owns it. NULL: other collectives do not use rings and trees. */
};

#define GPURING_ENGINE_SLOTS 8 /* of each FIFO, which are two chunks with slices */

/* Return the patience of a lane: unsuccessful polls on the host, nanoseconds on a GPU. */
uint64_t gpuring_engine_patience(const struct gpuring_engine_config *config, bool host);

/* Build the base plan of a set. NULL: it is not eligible. */
int gpuring_engine_plan(const struct gpuring_engine_config *config, int set,
                        struct gpuring_plan **plan);

/* Slots of the flagged protocols: 16 KiB of lines, enough for the sizes for which they are
 * selected. */
#define GPURING_ENGINE_FLAGGED_SLOT_BYTES (16 << 10)

/* Create an engine with plans and FIFO sizes, but without connections. */
int gpuring_engine_create(const struct gpuring_engine_config *config,
                          const struct gpuring_device_ops *device_ops,
                          struct gpuring_device *device, struct gpuring_engine **engine);

/* Return the bits 1 << set of the sets that are connected together with this one, of those that the
 * first wire-up connects, and of those that may still be connected. All ranks get the same answers.
 */
uint32_t gpuring_engine_together(const struct gpuring_engine *engine, int set);
uint32_t gpuring_engine_first_sets(const struct gpuring_engine *engine);
uint32_t gpuring_engine_open_sets(const struct gpuring_engine *engine);

/*
 * Create a transport with these sets. config: without fifo and device. Connect the transport, bind
 * the plans to it, and let the engine own it, which then uses it. Until then, the caller owns it.
 */
int gpuring_engine_transport(struct gpuring_engine *engine, uint32_t sets,
                             const struct gpuring_transport_config *config,
                             struct gpuring_transport **transport);
int gpuring_engine_bind(struct gpuring_engine *engine, const struct gpuring_transport *transport);
void gpuring_engine_own(struct gpuring_engine *engine, struct gpuring_transport *transport);

/* Return true if the connections of a set do not exist yet. Partner: gpuring_engine_own. */
static inline bool gpuring_engine_lacks(const struct gpuring_engine *engine, int set)
{
    return (__atomic_load_n(&engine->connected, __ATOMIC_ACQUIRE) >> set & 1) == 0;
}

/* Let `transport` be each transport of the engine in turn. */
#define GPURING_ENGINE_EACH(i, transport, engine)                                                 \
    for (int i = 0; i < (engine)->ntransports && ((transport) = (engine)->transports[i]) != NULL; \
         i++)

/* The same as the functions of the transport (transport.h), for all connections of the engine.
 * aborted: return the status in the abort word, or 0. */
int gpuring_engine_health(const struct gpuring_engine *engine, char *text, size_t size);
void gpuring_engine_abort(const struct gpuring_engine *engine, int status);
int gpuring_engine_aborted(const struct gpuring_engine *engine);
void gpuring_engine_freed(const struct gpuring_engine *engine);

void gpuring_engine_destroy(struct gpuring_engine *engine); /* NULL is allowed */

/* Publish the operation and this rank's activity on the status pages of all connections, so that
 * each page has all operations. */
void gpuring_engine_publish(const struct gpuring_engine *engine, enum gpuring_activity activity);

/*
 * ---- Engines of freed communicators, for later communicators of the same processes ----
 *
 * The connections and their counters continue as they are. usable: return true if no operation runs
 * or is in a stream, and all transports are reusable. rest: called when the communicator is freed,
 * with the numbers of its calls and votes (transport.h), which continue as well. resume: called
 * before `comm` uses the engine. identity: return a number that is equal on all ranks that have the
 * same connections, and have run the same operations with them.
 */
bool gpuring_engine_usable(const struct gpuring_engine *engine);
void gpuring_engine_rest(struct gpuring_engine *engine, uint64_t calls, uint64_t votes);
void gpuring_engine_resume(const struct gpuring_engine *engine, struct ompi_communicator_t *comm);
uint32_t gpuring_engine_identity(const struct gpuring_engine *engine);

/*
 * Run an operation whose call has a selection: start it, and poll while the result is
 * GPURING_AGAIN. A poll executes all possible steps and returns after a limited number of
 * unsuccessful attempts. start polls once. driven: the calling thread polls until the operation
 * ends.
 */
int gpuring_operation_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                            bool driven);
int gpuring_operation_poll(struct gpuring_engine *engine, const struct gpuring_call *call);
/* End an operation that has failed, after the abort word was set. Wait until nothing of it runs,
 * which takes at most the patience of its work. */
void gpuring_operation_fail(struct gpuring_engine *engine);

/*
 * Operations in a stream of the application, which need no host until they end. An engine has
 * either these or the operations above. Call gpuring_engine_enqueues once, after all sets are
 * connected and before the first operation. It builds the usual plans, so that later calls seldom
 * allocate memory.
 *
 * An operation may be captured into a graph of the application, which runs it any number of times.
 * Its plan is then kept, and it is not counted as pending. gpuring_operation_replayed returns a
 * value other than 0 while it runs, which differs between its runs. The value's upper half is the
 * number of the operation among those captured, from 1, as gpuring_capture_number returns it.
 *
 * gpuring_operation_enqueue launches the operation and returns. The device must reach its buffers.
 * An error changes nothing for other ranks, so the operation may be repeated. If a plan replaces
 * another one (program.h), it first waits for all operations in the stream. pending: number of
 * operations that may not have ended yet, 0 if all have. The executor has ended with the memory of
 * the engine when it returns 0. rest: if none are pending, let the network rest, which otherwise
 * looks for slots that kernels fill; operations in graphs never let it rest. corrupt: an operation
 * has found that counts differ. drain: wait until nothing is pending and the network has sent what
 * must be sent before the communicator is freed, or until the context is lost or the operations
 * were aborted. Let the network rest.
 */
int gpuring_engine_enqueues(struct gpuring_engine *engine, void *stream);
int gpuring_operation_enqueue(struct gpuring_engine *engine, const struct gpuring_call *call);
static inline uint32_t gpuring_capture_number(uint32_t captures)
{
    return (captures - 1) % 0xffff + 1;
}
uint32_t gpuring_operation_replayed(const struct gpuring_engine *engine);
uint32_t gpuring_operation_pending(const struct gpuring_engine *engine);
void gpuring_operation_rest(const struct gpuring_engine *engine);
bool gpuring_operation_corrupt(const struct gpuring_engine *engine);
void gpuring_operation_drain(const struct gpuring_engine *engine);

/* Return a number that changes whenever the current operation has made progress. */
uint64_t gpuring_operation_progress(const struct gpuring_engine *engine);

/*
 * Return the number of the first waiting lane, or -1 if none waits, for messages. Sets *wait to the
 * event that it waits for, and *peer to the rank at the other end, or to -1.
 */
int gpuring_operation_waiting(const struct gpuring_engine *engine, enum gpuring_lane_wait *wait,
                              uint32_t *ref, int *peer);

const char *gpuring_protocol_text(enum gpuring_protocol protocol);

#endif
