/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The connections of one communicator at one rank. A transport creates the FIFOs of the plans,
 * describes them to the neighbours (with one connect info each), connects, and binds plans to them.
 *
 * Order of calls: create, connect_info (the caller exchanges these), connect, the probe if there is
 * one, try, wired, then bind any number of times, destroy.
 *
 * Threads: only one at a time per transport, except for the functions on the abort word.
 */
#ifndef GPURING_TRANSPORT_TRANSPORT_H
#define GPURING_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_transport;

/* Activity of a rank that its peers can see. */
enum gpuring_activity {
    GPURING_ACTIVITY_OUTSIDE, /* in no operation; `operation` is the last one finished */
    GPURING_ACTIVITY_RUNNING, /* in `operation` */
    GPURING_ACTIVITY_FAILED,  /* `operation` failed; this rank no longer serves */
    GPURING_ACTIVITY_QUEUED,  /* `operation` is the last one that it queued in a stream */
    GPURING_ACTIVITY_CLOSED,  /* the communicator was freed here */
};

/* Sizes of the FIFOs of a plan's connections, equal on all ranks (compared in AllGather 1). */
struct gpuring_fifo_config {
    uint32_t nslots[GPURING_PROTOCOL_COUNT];     /* powers of two from 2, see gpuring_fifo_end */
    uint32_t spread;                             /* 1: see gpuring_fifo_end */
    uint64_t slot_bytes[GPURING_PROTOCOL_COUNT]; /* multiples of 128; 0: protocol not offered */
};

struct gpuring_transport_config {
    int rank, nranks;
    const int *node; /* [nranks]: node index of each rank; read during create and connect only */
    const char *hostname;  /* of this rank, for messages of others */
    uint64_t unique_id[2]; /* of the communicator's wire-up: guards against stale peers */
    const struct gpuring_fifo_config *fifo; /* [nplans]; read during create only */
    const struct gpuring_device_ops *device_ops;
    struct gpuring_device *device;
    /* Return true if this rank may map the GPU memory of a rank of its node. Otherwise both use
     * host memory. Called until connected. NULL: always true. */
    bool (*may_map)(void *context, int local_rank);
    void *may_map_context;
    const struct gpuring_net_ops *net_ops; /* NULL if all ranks are of one node */
    struct gpuring_net *net;
    bool own_net; /* the transport closes the net and destroys the proxy, even if create fails */
    /* Return the index of the net's device for a connection with this rank and channel of the plan.
     * Set *direct if that device may access the GPU's memory directly, to send from it or to
     * receive into it, and *end to the rank's process and device. Called during create only. NULL:
     * device 0 at both ends, without direct access. */
    int (*net_device)(void *context, enum gpuring_algorithm algorithm, int peer, uint32_t channel,
                      enum gpuring_net_direction direction, bool *direct,
                      struct gpuring_net_peer *end);
    void *net_device_context;
    uint32_t ll128_plans;        /* bits 1 << plan: calls may use LL128 between GPUs */
    struct gpuring_proxy *proxy; /* needed with net_ops */
    double try_seconds;          /* time limit of gpuring_transport_try; 0: default */
};

/* Create a transport. plans: the plans that may be bound; they must outlive the transport. */
int gpuring_transport_create(const struct gpuring_transport_config *config,
                             const struct gpuring_plan *const *plans, int nplans,
                             struct gpuring_transport **transport);

/*
 * This rank's neighbours, which are the ranks at the other ends of its connections, and the connect
 * info to each of them. If one rank is a neighbour of another, the reverse is also true, so each
 * rank sends and receives the same number of connect infos.
 */
struct gpuring_transport_connect_info {
    int peer;      /* rank of the neighbour */
    uint8_t *data; /* for the neighbour; owned by the transport until it is connected */
    size_t bytes;
    size_t room; /* maximum size of the neighbour's connect info */
};
int gpuring_transport_neighbours(const struct gpuring_transport *transport);
const struct gpuring_transport_connect_info *gpuring_transport_connect_info(
    const struct gpuring_transport *transport, int neighbour);
/* Return the maximum size of the connect info for a rank with `nconns` connections. */
size_t gpuring_transport_connect_info_room(uint32_t nconns, bool remote);

/* Connect with a neighbour, using its connect info. Call gpuring_transport_connected once after
 * all. */
int gpuring_transport_connect(struct gpuring_transport *transport, int neighbour,
                              const void *connect_info, size_t bytes);
int gpuring_transport_connected(struct gpuring_transport *transport);

/*
 * The probe: memory of other GPUs is only used after a pattern has arrived that a kernel writes in
 * the same way as data. gpuring_transport_connected writes it. Then all ranks exchange one report
 * each, twice:
 *
 *   report, (exchange: all have written), verify, report, (exchange: arrived patterns), finish
 *
 * If a pattern did not arrive in both directions, the two ranks are connected through pinned host
 * memory, with a warning. probe_bytes returns the size of a report, which is the same on all ranks.
 * 0: there is no probe. reports: the reports of all ranks, in rank order.
 */
size_t gpuring_transport_probe_bytes(const struct gpuring_transport *transport);
void gpuring_transport_probe_report(const struct gpuring_transport *transport, void *report);
int gpuring_transport_probe_verify(struct gpuring_transport *transport, const void *reports);
int gpuring_transport_probe_finish(struct gpuring_transport *transport, const void *reports);

/*
 * The test of lines, between the second exchange of reports and finish. test_due returns true if a
 * rank has a peer whose lines have not been tested; the result is equal on all ranks. In this case,
 * all ranks call test_lines until the result is not GPURING_AGAIN, and exchange reports a third
 * time. The receiver of wrong lines logs [wrong-lines] or [torn-lines]. After wrong lines of LL,
 * the pair uses host memory; after torn lines of LL128, the plans that connect the pair do not use
 * LL128. The test takes some milliseconds if no GPU is busy, and at most 20 s. After an error of
 * this rank, its peers stop their tests.
 */
bool gpuring_transport_test_due(struct gpuring_transport *transport, const void *reports);
int gpuring_transport_test_lines(struct gpuring_transport *transport);

/* After the probe, return the number of ranks whose memory is mutually mapped although data that
 * one rank writes does not arrive at the other, or lines of LL are wrong. */
unsigned int gpuring_transport_silent(const struct gpuring_transport *transport);
/* After the probe, return the number of ranks whose lines of LL128 this rank received torn. */
unsigned int gpuring_transport_torn(const struct gpuring_transport *transport);

/* After the probe, return true if any pair of ranks that the plan connects, on any node, does not
 * keep 128-byte stores whole, for example because it uses host memory. Equal on all ranks. */
bool gpuring_transport_tears_lines(const struct gpuring_transport *transport, int plan);

/*
 * Send a first chunk over each connection between nodes, and wait for those of others. Call this
 * after an agreement that all ranks have connected, and before any operation, until the result is
 * not GPURING_AGAIN. An error means that the network does not connect the ranks; `text` describes
 * the error and the peer.
 */
int gpuring_transport_try(struct gpuring_transport *transport, char *text, size_t size);

/* Release the resources that only connecting and trying needed, such as file descriptors, and end
 * the network's progress for them. Call this after an agreement that all ranks have finished both.
 */
void gpuring_transport_wired(struct gpuring_transport *transport);

/* Let a work run the plan's lanes on the connections of this protocol. Returns
 * GPURING_ERR_UNSUPPORTED if the protocol has no slots. */
int gpuring_transport_bind(struct gpuring_transport *transport, int plan,
                           enum gpuring_protocol protocol, struct gpuring_work *work);

/* Let the network progress the connections of the plan's first `nlanes` lanes for this protocol,
 * and no others. Must be called before an operation that runs these lanes. */
void gpuring_transport_use(struct gpuring_transport *transport, int plan, uint32_t nlanes,
                           enum gpuring_protocol protocol);

/*
 * Add a plan that uses the connections of plan `base`. It must outlive the transport or be removed.
 * Returns 0 and its number in *plan, or GPURING_ERR_NOMEM, also if there are already
 * GPURING_TRANSPORT_MORE. May allocate and copy on the device.
 */
#define GPURING_TRANSPORT_MORE 64
int gpuring_transport_add(struct gpuring_transport *transport, const struct gpuring_plan *more,
                          int base, int *plan);
void gpuring_transport_remove(struct gpuring_transport *transport, int plan);

/* Close the links that were kept because the net might have accessed their memory. Wait for their
 * peers for a time, so that the good-byes of both ends are received. Call after the proxy was
 * destroyed, before the nets are closed. gpuring_transport_finish frees the memory. */
void gpuring_transport_unlink(unsigned int milliseconds);

/* Describe the other end for messages: "rank 3 (host b, pid 17) by shared memory". */
void gpuring_transport_peer_text(const struct gpuring_transport *transport, int rank, char *text,
                                 size_t size);

/* Return the rank at the other end of the connection that a lane waits for, or -1. */
int gpuring_transport_peer_rank(const struct gpuring_transport *transport, int plan, uint32_t lane,
                                enum gpuring_lane_wait wait, uint32_t ref);

/* Return the word that stops this rank's executors: the negated gpuring_status, or 0. Any
 * peer of the node, the proxy, or this rank may set it. Valid as long as the transport. */
const volatile uint32_t *gpuring_transport_abort_word(const struct gpuring_transport *transport);

/* Stop all ranks that this rank is connected with. They stop their peers in turn. Does not wait. */
void gpuring_transport_abort(struct gpuring_transport *transport, int status);

/* After gpuring_transport_abort: progress the connections with other nodes once. Returns true if
 * the network no longer accesses the buffers of the call. late: do not wait for this any longer. */
bool gpuring_transport_settle(struct gpuring_transport *transport, bool late);

/* Return the number of the connections of the transport: two words, equal on all ranks. */
const uint64_t *gpuring_transport_id(const struct gpuring_transport *transport);

/* Check that peers are alive and links work. Call this about every millisecond while an operation
 * waits. Returns 0 or an error, with one line of text for the message. */
int gpuring_transport_health(struct gpuring_transport *transport, char *text, size_t size);

/* Publish this rank's activity for its peers' messages. */
void gpuring_transport_publish(struct gpuring_transport *transport, uint64_t operation,
                               enum gpuring_activity activity);

/* The same at the beginning of an operation. Also publish a word that describes the operation and
 * must be equal on all ranks; 0: unknown. */
void gpuring_transport_begin_operation(struct gpuring_transport *transport, uint64_t operation,
                                       uint64_t word, enum gpuring_activity activity);

/* Return the word of a rank's operation with this number; 0: unknown. */
uint64_t gpuring_transport_made(const struct gpuring_transport *transport, int rank,
                                uint64_t operation);

/* Return the first rank whose word for an operation is known and differs from `word`, and set
 * *other to that word. Return -1 if there is none. */
int gpuring_transport_differs(const struct gpuring_transport *transport, uint64_t operation,
                              uint64_t word, uint64_t *other);

/* Record that this rank makes its call number `call`, with buffers on a GPU or in host memory. Only
 * the thread that makes the call may call this. */
void gpuring_transport_note_call(struct gpuring_transport *transport, uint64_t call, bool on_gpu);

/* Return a rank of this node that is known to have passed host buffers to this call, or -1. */
int gpuring_transport_on_hosts(const struct gpuring_transport *transport, uint64_t call);

/*
 * Reuse of the transport of a freed communicator by another communicator of the same ranks.
 *
 * gpuring_transport_reusable: Return true if all peers are alive, nothing has failed, no port has
 * been replaced by another one, and no message holds the communicator.
 *
 * gpuring_transport_continue: Called when the communicator is freed, with the numbers of its calls
 * (gpuring_transport_note_call) and votes, because those of the next communicator are numbered from
 * 1 again.
 *
 * gpuring_transport_attach: Begin to use a track of the next communicator.
 */
bool gpuring_transport_reusable(struct gpuring_transport *transport);
void gpuring_transport_attach(struct gpuring_transport *transport, struct ompi_communicator_t *comm,
                              int track);
void gpuring_transport_continue(struct gpuring_transport *transport, uint64_t calls,
                                uint64_t votes);

/* Return `hash` combined with the wire-up of the transport, and its numbers of operations, calls,
 * and votes. These are equal on all ranks. */
uint64_t gpuring_transport_identity(const struct gpuring_transport *transport, uint64_t hash);

/*
 * ---- votes.c: location of the buffers in calls where it may differ between ranks ----
 * Each rank votes in such a call. Ranks with host buffers do not wait for the others.
 */
enum gpuring_vote {
    GPURING_VOTE_UNKNOWN, /* not yet given */
    GPURING_VOTE_HOST,
    GPURING_VOTE_NONE, /* this rank has no data in the call */
    GPURING_VOTE_GPU,
};

/* Return true if the ranks can vote: all are on one node and connected with each other. Equal on
 * all ranks. */
bool gpuring_transport_can_vote(const struct gpuring_transport *transport);

/*
 * Vote in call `number`, which counts such calls from 1. Return the recorded vote, which is HOST
 * instead of another one if there is no room because other ranks are many calls late. A rank that
 * votes HOST needs no result. The others poll for it, in the order of their calls.
 */
enum gpuring_vote gpuring_transport_vote_cast(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote vote);

/* Return the result: HOST if any rank has voted HOST or all have voted NONE; GPU; or UNKNOWN with
 * *missing, a rank that has not voted yet. own: this rank's vote, which is not HOST. */
enum gpuring_vote gpuring_transport_vote_poll(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote own, int *missing);

/* Return true if a peer was last seen on this thread's core, so that a waiting thread should yield
 * immediately. This happens when processes have just started, until the scheduler distributes them.
 */
bool gpuring_transport_shares_core(const struct gpuring_transport *transport);

/* Return true if a peer of this node is alive and in an operation. */
bool gpuring_transport_peers_run(const struct gpuring_transport *transport);

/* Return true if this rank and all other ranks have mapped the memory of each other, and access it
 * directly. */
bool gpuring_transport_maps_all(const struct gpuring_transport *transport);

/* Describe a peer's last known activity, in operation *operation, or "unknown (it is on another
 * node)" and UINT64_MAX if it is not visible. */
void gpuring_transport_peer_state(const struct gpuring_transport *transport, int peer,
                                  uint64_t *operation, char *text, size_t size);

/* Begin and end an operation for the network. driven: the calling thread waits for the operation,
 * and progresses the network (see gpuring_proxy_begin). */
void gpuring_transport_begin(struct gpuring_transport *transport, bool driven);
void gpuring_transport_end(struct gpuring_transport *transport, bool driven);

/*
 * gpuring_transport_keep begins an operation in a stream of the application. Several of them may be
 * in progress: the network progresses the connections of all until gpuring_transport_unkeep, which
 * the caller calls when all have ended. repeated: the operation may be repeated without the host,
 * so that only gpuring_transport_unkeep with `repeated` ends it. From the first call of
 * gpuring_transport_keep on, gpuring_transport_use only adds connections.
 */
void gpuring_transport_keep(struct gpuring_transport *transport, bool repeated);
void gpuring_transport_unkeep(struct gpuring_transport *transport, bool repeated);

/* Progress network connections immediately in the calling thread, which waits for the operation.
 * ran: lanes may have run since the last call. Returns true if anything happened that lanes may
 * wait for. */
bool gpuring_transport_help(struct gpuring_transport *transport, bool ran);

/* Sleep until the network reports an event, at most for `ns` nanoseconds. */
void gpuring_transport_nap(struct gpuring_transport *transport, uint64_t ns);

/* Return a number that grows whenever the network moves slots. */
uint64_t gpuring_transport_moved(const struct gpuring_transport *transport);

/* Return true if the operation must not end yet, because data is left to send (see
 * gpuring_proxy_unsent), or, if it has `waited` for that, because a connection has failed since
 * then, so that its data is lost. Progresses the network. */
bool gpuring_transport_unsent(struct gpuring_transport *transport, bool waited);
/* Return a rank to which data is left to send, or -1. */
int gpuring_transport_unsent_to(const struct gpuring_transport *transport);

/* From now on, the network has posted receives only during operations, because each of them holds
 * the communicator, and MPI compares its messages with them. */
void gpuring_transport_unpost(struct gpuring_transport *transport);

/* Return true if any connection is between nodes. */
bool gpuring_transport_remote(const struct gpuring_transport *transport);
/* Return true if lanes of the host wait for connections between nodes alone, so that they can
 * continue only after gpuring_transport_help has returned true. */
bool gpuring_transport_only_remote(const struct gpuring_transport *transport);
/* Return true if the network progresses only when MPI does. */
bool gpuring_transport_by_mpi(const struct gpuring_transport *transport);

/* Bytes of device and host memory that this transport holds (shown at verbose 1). */
uint64_t gpuring_transport_memory(const struct gpuring_transport *transport);

/* Write one word for logs: "shm", "peer", "ucx", "shm+verbs"... */
void gpuring_transport_name(const struct gpuring_transport *transport, char *text, size_t size);

/* Close the connections with other nodes for good, because others replace them, and free their
 * memory. All peers have finished all operations on them. Time limit and threads are those of
 * gpuring_transport_destroy. */
void gpuring_transport_leave(struct gpuring_transport *transport);

/* Destroy the transport. Local, with a total time limit of 2 s for data in flight and good-byes on
 * all connections. NULL is allowed. Device memory that peers have not unmapped yet is freed later.
 */
void gpuring_transport_destroy(struct gpuring_transport *transport);

/* Wait until peers have unmapped the memory of destroyed transports, at most for this time, and
 * free it. Call this after the nets were closed and before the device is closed, when no other
 * thread uses a transport. */
void gpuring_transport_finish(unsigned int milliseconds);

#endif
