/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The engine of one communicator at one rank: plans, connections and the state of the current
 * operation. It does not use MPI. It runs one operation at a time, and only one thread may use it
 * at a time.
 *
 * Connections are made in sets (call.h), because most communicators need few of them. The engine
 * has all base plans from the start and can select them. The first wire-up connects the sets that
 * small allreduces need. A call that needs another set waits for a further wire-up. Each wire-up
 * creates a transport.
 *
 * On GPUs, each set is connected separately, because slots take GPU memory. The same holds for
 * verbs, where all slots are pinned when they are registered. In all other cases a slot takes
 * memory only once its pages are touched, so all sets are connected together. The exceptions are
 * direct between many ranks, because connecting it takes long, and the set of alltoalls by node,
 * which few communicators need.
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
    int index;     /* number of the plan in the transport */
    int set;       /* the set whose connections the plan uses; not set in `base` */
    uint64_t used; /* number of the last operation that used the plan */
    bool captured; /* graphs of the application contain launches of the plan, so it is never
                      removed */
};

struct gpuring_programs;

/* Number of shapes for which operations are kept. */
#define GPURING_PREPARED 8

/* The parts of an operation that depend only on the shape of its call (call.h). */
struct gpuring_prepared {
    uint64_t shape;                  /* 0: none, or calls of this kind are prepared each time */
    struct gpuring_program *program; /* NULL: not prepared */
    struct gpuring_selection choice;
    bool remote, only_remote; /* see the functions gpuring_transport_.. of these names */
    /* Each operation sets the buffers and the states of the lanes. */
    struct gpuring_work work;
};

struct gpuring_engine {
    const struct gpuring_device_ops *device_ops;
    struct gpuring_device *device;
    struct gpuring_stream *stream;
    bool oversubscribed;   /* more ranks than cores on this node: yield while waiting */
    uint64_t patience;     /* copied to each work, see kernels/work.h */
    uint64_t buffer_bytes; /* maximum for a connection */
    uint64_t key;          /* identifies the communicators that may reuse the engine
                              (wireup/pool.h) */

    struct gpuring_program base[GPURING_SET_COUNT]; /* the base plans of the sets */
    struct gpuring_programs *others;                /* plans of the other collectives */
    /* The transports, in the order of their creation. The status page of the first one contains
     * this rank's votes and calls. `ntransports` is atomic. */
    struct gpuring_transport *transports[GPURING_SET_COUNT];
    int ntransports;
    uint32_t late;   /* bits 1 << algorithm, see gpuring_engine_config */
    bool one_by_one; /* each set of connections is made separately */
    bool replaced;   /* direct serves the calls of the set for small calls, see
                        gpuring_engine_own */
    /* Bits 1 << set. connected: the connections exist; atomic, see gpuring_engine_lacks.
     * unconnectable: they could not be made, and all ranks know it. */
    uint32_t connected, unconnectable;
    struct gpuring_select_config choice_config;
    struct gpuring_tuning tuning; /* rules for this communicator; choice_config points to them */

    uint64_t first;                   /* number of the first operation after the latest
                                         connections were made */
    bool running;                     /* an operation was started and has not been finished */
    bool driven;                      /* a thread polls until the operation ends */
    bool ran;                         /* all of its lanes have ended */
    bool unsent;                      /* since then, it has waited for the network */
    uint32_t polls;                   /* number of polls of the current operation */
    bool bounces;                     /* the operation works on copies of a buffer (bounce.h) */
    uint64_t operation;               /* number of the current or last operation, from 1 */
    const char *name;                 /* of that operation, "MPI_Allreduce" */
    uint64_t made;                    /* word that describes its call, see serve/differ.h; 0:
                                         unknown */
    bool compared;                    /* `made` was compared with a peer's word, or need not be
                                         compared */
    struct gpuring_prepared *current; /* that operation; its program is NULL before the first one */
    /* Operations of recent calls, by their shapes modulo the size, because programs alternate
     * between a few shapes. */
    struct gpuring_prepared prepared[GPURING_PREPARED];
    struct gpuring_lane_state *states; /* of the lanes of the operation, pinned */
    uint32_t nstates;                  /* number of lane states */
    struct gpuring_extent *extents;    /* tables of blocks, pinned; NULL before first use */
    void *command;                     /* command for kernels that linger, pinned; NULL: kernels do
                                          not linger */
    struct gpuring_bounce bounce_input, bounce_output;

    /* Only for operations in a stream of the application (gpuring_operation_enqueue): */
    bool enqueues;         /* all operations are of this kind */
    void *queue;           /* the stream, a handle of the driver */
    uint32_t enqueued;     /* number of launches so far, the launch_seq of the last one */
    uint32_t queued_lanes; /* number of lanes of the last launch */
    uint32_t captures;     /* number of launches that were captured into graphs so far */
    struct gpuring_lane_state *captured; /* pinned states for launches in graphs, for `nstates`
                                            lanes */
};

/* Data that the ranks agree on before plans are built. */
struct gpuring_engine_config {
    struct gpuring_plan_input input;
    struct gpuring_select_config select; /* without the members that gpuring_engine_create
                                            derives from plans and device */
    uint32_t wanted;                     /* algorithms, see gpuring_select_eligible */
    uint32_t late;                       /* algorithms that are connected only when a call first
                                            needs them */
    bool one_by_one;                     /* each set is connected separately; always true on GPUs */
    bool large; /* the call that connects the ranks needs more than GPURING_ENGINE_SHORT_BYTES */
    uint32_t unused_protocols; /* bits 1 << protocol of those that no rule selects */
    bool oversubscribed;
    bool shared_gpu; /* other ranks use the same GPU */
    bool mps;        /* these ranks use the GPU simultaneously */
    int patience_us; /* patience of kernels; 0: chosen by `shared_gpu` and `mps` */
    int linger_us;   /* time for which a kernel waits for the next call; 0: it ends immediately */
    uint64_t buffer_bytes;
    /* Order of the ranks in rings and trees, see plan.h, allocated with malloc.
     * gpuring_engine_create takes ownership of it, even after an error. NULL: collectives other
     * than allreduce do not use rings and trees. */
    uint16_t *order;
};

/* Slots of each FIFO, enough for two chunks that are cut into slices. */
#define GPURING_ENGINE_SLOTS 8

/* Return the patience of a lane: unsuccessful polls on the host, nanoseconds on a GPU. */
uint64_t gpuring_engine_patience(const struct gpuring_engine_config *config, bool host);

/* Build the base plan of a set. Sets *plan to NULL if the communicator does not need the set.
 * Returns 0 or a gpuring_status. */
int gpuring_engine_plan(const struct gpuring_engine_config *config, int set,
                        struct gpuring_plan **plan);

/* Bytes of a slot of LL or LL128. The lines of a slot hold all data of the sizes for which these
 * protocols are selected. */
#define GPURING_ENGINE_FLAGGED_SLOT_BYTES (16 << 10)

/* Bytes of a slot of Simple in the set for small calls between nodes. */
#define GPURING_ENGINE_SHORT_BYTES (8 << 10)

/* Create an engine that has plans and sizes of FIFOs, but no connections. Returns 0 or a
 * gpuring_status. */
int gpuring_engine_create(const struct gpuring_engine_config *config,
                          const struct gpuring_device_ops *device_ops,
                          struct gpuring_device *device, struct gpuring_engine **engine);

/*
 * Return bits 1 << set. gpuring_engine_together: the sets that are connected in the same wire-up as
 * `set`. gpuring_engine_first_sets: the sets that the first wire-up connects.
 * gpuring_engine_open_sets: the sets that are not connected yet, but may be. All ranks get the same
 * result.
 */
uint32_t gpuring_engine_together(const struct gpuring_engine *engine, int set);
uint32_t gpuring_engine_first_sets(const struct gpuring_engine *engine);
uint32_t gpuring_engine_open_sets(const struct gpuring_engine *engine);

/*
 * Create a transport for these sets. `config` need not contain fifo, device_ops and device. Then
 * connect the transport, call gpuring_engine_bind to prepare the plans that use it, and pass it to
 * gpuring_engine_own. From then on the engine uses and owns the transport. Before that, it belongs
 * to the caller. Between nodes, the connections of direct replace those of direct with short slots,
 * which gpuring_engine_own closes.
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

/* Return the set whose connections serve calls that have selected `set`. */
static inline int gpuring_engine_serving(const struct gpuring_engine *engine, int set)
{
    return set == GPURING_SET_SMALL && engine->replaced ? (int) GPURING_ALGORITHM_DIRECT : set;
}

/* Do not use any prepared operation again. */
static inline void gpuring_engine_forget(struct gpuring_engine *engine)
{
    for (int i = 0; i < GPURING_PREPARED; i++) {
        engine->prepared[i].shape = 0;
    }
}

/* Loop over the transports of the engine. */
#define GPURING_ENGINE_EACH(i, transport, engine)                                                 \
    for (int i = 0; i < (engine)->ntransports && ((transport) = (engine)->transports[i]) != NULL; \
         i++)

/* Call the function of the same name in transport.h for each transport of the engine.
 * gpuring_engine_aborted returns the status in the first abort word that is set, or 0. */
int gpuring_engine_health(const struct gpuring_engine *engine, char *text, size_t size);
void gpuring_engine_abort(const struct gpuring_engine *engine, int status);
int gpuring_engine_aborted(const struct gpuring_engine *engine);
void gpuring_engine_unpost(const struct gpuring_engine *engine);

/* After gpuring_engine_abort: wait until the network, and kernels of other ranks if they are
 * mapped, no longer access the buffers of the failed call, but at most 2 s, because a peer may not
 * take part. */
void gpuring_engine_settle(const struct gpuring_engine *engine);

void gpuring_engine_destroy(struct gpuring_engine *engine); /* NULL is allowed */

/* Publish the operation and this rank's activity on the status pages of all connections, so that
 * each page has all operations. */
void gpuring_engine_publish(const struct gpuring_engine *engine, enum gpuring_activity activity);

/*
 * ---- Engines of freed communicators, for later communicators of the same processes ----
 *
 * The connections and their counters keep their state.
 *
 * gpuring_engine_usable: Return true if no operation is running, the engine has no operations in a
 * stream, the GPU is not lost, and all transports are reusable.
 *
 * gpuring_engine_rest: Called when the communicator is freed, with the numbers of its calls and
 * votes (transport.h). The next communicator continues to count from there.
 *
 * gpuring_engine_resume: Called before a track of `comm` uses the engine.
 *
 * gpuring_engine_identity: Return a number that is equal on all ranks if they have the same
 * connections and have run the same operations with them.
 */
bool gpuring_engine_usable(const struct gpuring_engine *engine);
void gpuring_engine_rest(struct gpuring_engine *engine, uint64_t calls, uint64_t votes);
void gpuring_engine_resume(const struct gpuring_engine *engine, struct ompi_communicator_t *comm,
                           int track);
uint32_t gpuring_engine_identity(const struct gpuring_engine *engine);

/*
 * Run an operation. Its call must have a selection. gpuring_operation_start starts the operation
 * and polls once. While the result is GPURING_AGAIN, call gpuring_operation_poll. A poll executes
 * all steps that are possible, and returns after a limited number of unsuccessful attempts. driven:
 * the calling thread polls until the operation ends.
 */
int gpuring_operation_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                            bool driven);
int gpuring_operation_poll(struct gpuring_engine *engine, const struct gpuring_call *call);
/* End an operation that has failed. The abort word must have been set before. Waits until no kernel
 * of the operation runs, which takes at most the patience of its work, and until the network is
 * done with its buffers (gpuring_engine_settle). */
void gpuring_operation_fail(struct gpuring_engine *engine);

/*
 * Operations in a stream of the application. No host thread is involved until they end. An engine
 * runs either these operations or those above.
 *
 * An operation may be captured into a graph of the application, which can run it any number of
 * times. The plan of a captured operation is never removed, and the operation is not counted as
 * pending.
 *
 * gpuring_engine_enqueues: Switch the engine to such operations. Call this once, after all sets are
 * connected and before the first operation. It builds the usual plans, so that later calls seldom
 * allocate memory.
 *
 * gpuring_operation_enqueue: Launch an operation and return. The device must be able to access its
 * buffers. An error has no effect on other ranks, so the caller may try again. The result
 * is GPURING_AGAIN if a new plan must replace another one (program.h) while operations in the
 * stream are pending.
 *
 * gpuring_operation_replayed: Return 0, or, while a captured operation runs, a value that is
 * different in each run. The upper half of the value is the number of the operation among those
 * captured, as gpuring_capture_number returns it (from 1).
 *
 * gpuring_operation_pending: Return the number of operations that may not have ended. If it returns
 * 0, no kernel uses memory of the engine any longer.
 *
 * gpuring_operation_rest: If no operation is pending, let the network stop looking for slots that
 * kernels fill. The network never stops if operations are in graphs.
 *
 * gpuring_operation_corrupt: Return true if an operation has detected that counts differ.
 *
 * gpuring_operation_broken: Return true if nothing can run on the GPU any longer, because the
 * context was lost or a kernel has faulted.
 *
 * gpuring_operation_drain: Before the communicator is freed, wait until no operation is pending and
 * the network has sent all data, or until the context is lost or the operations are aborted. Then
 * let the network rest.
 */
int gpuring_engine_enqueues(struct gpuring_engine *engine, void *stream);

/*
 * Messages between some of the ranks, in a stream: calls with collective ALLTOALL and root
 * GPURING_ROOT_MESSAGES. They have no number and no word, and use the blocks of that plan, in
 * tables that the caller keeps in pinned memory until the call has ended. Return the number of
 * messages that a call may have, 0 if the ranks have no connections for them, and set the selection
 * of such calls, which is the same for all messages between two ranks.
 */
uint32_t gpuring_engine_messages(const struct gpuring_engine *engine,
                                 struct gpuring_selection *choice); /* NULL is allowed */
int gpuring_operation_enqueue(struct gpuring_engine *engine, const struct gpuring_call *call);
static inline uint32_t gpuring_capture_number(uint32_t captures)
{
    return (captures - 1) % 0xffff + 1;
}
uint32_t gpuring_operation_replayed(const struct gpuring_engine *engine);
uint32_t gpuring_operation_pending(const struct gpuring_engine *engine);
void gpuring_operation_rest(const struct gpuring_engine *engine);
bool gpuring_operation_corrupt(const struct gpuring_engine *engine);
bool gpuring_operation_broken(const struct gpuring_engine *engine);
void gpuring_operation_drain(const struct gpuring_engine *engine);

/* Return a number that changes whenever the current operation makes progress. */
uint64_t gpuring_operation_progress(const struct gpuring_engine *engine);

/*
 * Find what the current operation waits for, for log messages. Return the first lane that has not
 * finished, or -1 if only the network has not. Sets *wait to the event, and *peer to the rank at
 * the other end, or to -1.
 */
int gpuring_operation_waiting(const struct gpuring_engine *engine, enum gpuring_lane_wait *wait,
                              int *peer);

const char *gpuring_protocol_text(enum gpuring_protocol protocol);

#endif
