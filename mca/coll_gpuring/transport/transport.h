/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The connections of one communicator at one rank: creates the FIFOs that the plans name, lets
 * the neighbours know how to reach them (one connect info each), connects, and binds plans to them.
 *
 * Order of calls: create, connect info, (they travel), connect, the probe if there is one, try,
 * wired, then bind as often as wanted, destroy.
 *
 * Threads: one at a time per transport, except the functions about the abort word.
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

/* What a rank is doing, as its peers see it. */
enum gpuring_activity {
    GPURING_ACTIVITY_OUTSIDE, /* in no operation; `operation` is the last one finished */
    GPURING_ACTIVITY_RUNNING, /* in `operation` */
    GPURING_ACTIVITY_FAILED,  /* `operation` failed; this rank serves no more */
    GPURING_ACTIVITY_CLOSED,  /* the communicator was freed here */
};

/* Room of the FIFOs of a plan's connections, equal on all ranks (compared in AllGather 1). */
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
    /* May this rank map the memory of the GPU of this rank of its node? Else both go
     * through host memory. Read until connected. NULL: yes. */
    bool (*may_map)(void *context, int local_rank);
    void *may_map_context;
    const struct gpuring_net_ops *net_ops; /* NULL if all ranks are of one node */
    struct gpuring_net *net;
    /* Which of the net's devices a connection of this channel of the plan uses, and whether that
     * may reach the device's memory directly, to send from it or to receive into it. Read during
     * create only. NULL: the first one, and it may not. */
    int (*net_device)(void *context, enum gpuring_algorithm algorithm, uint32_t channel,
                      enum gpuring_net_direction direction, bool *direct);
    void *net_device_context;
    struct gpuring_proxy *proxy; /* needed with net_ops */
    double try_seconds;          /* gpuring_transport_try gives up after so long; 0: default */
};

/* plans: every plan that may ever be bound; they must outlive the transport. */
int gpuring_transport_create(const struct gpuring_transport_config *config,
                             const struct gpuring_plan *const *plans, int nplans,
                             struct gpuring_transport **transport);

/*
 * The ranks at the other ends of this rank's connections, its neighbours, and the connect info to
 * each of them. Neighbours are mutual: each connect info is answered by one.
 */
struct gpuring_transport_connect_info {
    int peer;      /* rank */
    uint8_t *data; /* to it; the transport's, until it is connected */
    size_t bytes;
    size_t room; /* the most that its connect info to this rank has */
};
int gpuring_transport_neighbours(const struct gpuring_transport *transport);
const struct gpuring_transport_connect_info *gpuring_transport_connect_info(
    const struct gpuring_transport *transport, int neighbour);
/* The most that a connect info to a rank has that so many connections go to. */
size_t gpuring_transport_connect_info_room(uint32_t nconns, bool remote);

/* Connect with a neighbour, by the connect info that came from it; then, once with all of them. */
int gpuring_transport_connect(struct gpuring_transport *transport, int neighbour,
                              const void *connect_info, size_t bytes);
int gpuring_transport_connected(struct gpuring_transport *transport);

/*
 * The probe: memory of other GPUs is used only after a pattern, written by a kernel as all data
 * will be, has arrived. connect has written it; then two exchanges of one report per rank follow:
 *
 *   report, (exchange: all have written), verify, report, (exchange: what arrived), finish
 *
 * Pairs of ranks between which a pattern did not arrive in both directions are connected through
 * pinned host memory, with a warning. probe_bytes: the size of a report, the same on all ranks; 0:
 * there is no probe, and connect was all. reports: those of all ranks, in their order.
 */
size_t gpuring_transport_probe_bytes(const struct gpuring_transport *transport);
void gpuring_transport_probe_report(const struct gpuring_transport *transport, void *report);
int gpuring_transport_probe_verify(struct gpuring_transport *transport, const void *reports);
int gpuring_transport_probe_finish(struct gpuring_transport *transport, const void *reports);

/* After the probe: number of ranks that this rank and they have mapped, but what one writes does
 * not arrive at the other. */
unsigned int gpuring_transport_silent(const struct gpuring_transport *transport);

/* After the probe: return true if some pair of ranks that the plan connects, on any node, uses host
 * memory, where 128-byte stores of a GPU need not stay whole. The same on all ranks. */
bool gpuring_transport_uses_host_fallback(const struct gpuring_transport *transport, int plan);

/*
 * All ranks have connected (the caller knows that from an agreement): send a first chunk over each
 * connection between nodes, and wait for those of others. To be called until it is not
 * GPURING_AGAIN, and before any operation. An error (`text` then says what and with whom) means
 * that the network does not connect the ranks.
 */
int gpuring_transport_try(struct gpuring_transport *transport, char *text, size_t size);

/* All ranks have connected and tried (the caller knows that from an agreement): gives back what
 * only that needed, such as file descriptors, and ends the network's progress on its behalf. */
void gpuring_transport_wired(struct gpuring_transport *transport);

/* Fill the plan's lanes with its steps and this protocol's connections. The caller sets first,
 * count, chunk and zeroes the state. GPURING_ERR_UNSUPPORTED if the protocol has no room. */
int gpuring_transport_bind(struct gpuring_transport *transport, int plan,
                           enum gpuring_protocol protocol, struct gpuring_lane *lanes);

/*
 * A further plan, on the connections of plan `base`; it must outlive the transport, or be removed.
 * Returns 0 and its number in *plan; GPURING_ERR_NOMEM: also if there are GPURING_TRANSPORT_MORE.
 * May allocate and copy on the device.
 */
#define GPURING_TRANSPORT_MORE 64
int gpuring_transport_add(struct gpuring_transport *transport, const struct gpuring_plan *more,
                          int base, int *plan);
void gpuring_transport_remove(struct gpuring_transport *transport, int plan);

/* Who is at the other end, for messages: "rank 3 (host b, pid 17) by shared memory". */
void gpuring_transport_peer_text(const struct gpuring_transport *transport, int plan, uint32_t lane,
                                 enum gpuring_lane_wait wait, uint32_t ref, char *text,
                                 size_t size);

/* The other end's rank, or -1. */
int gpuring_transport_peer_rank(const struct gpuring_transport *transport, int plan, uint32_t lane,
                                enum gpuring_lane_wait wait, uint32_t ref);

/* The word that stops this rank's executors, -gpuring_status or 0. Any peer of the node, the proxy,
 * or this rank sets it, for the life of the transport. */
const volatile uint32_t *gpuring_transport_abort_word(const struct gpuring_transport *transport);

/* Stop everybody whom this rank is connected with; they stop theirs. Does not wait. */
void gpuring_transport_abort(struct gpuring_transport *transport, int status);

/* To be called every millisecond or so while an operation waits: are peers alive and links whole?
 * Returns 0 or the error, with one line of text for the message. */
int gpuring_transport_health(struct gpuring_transport *transport, char *text, size_t size);

/* Publish what this rank is doing, for its peers' messages. */
void gpuring_transport_publish(struct gpuring_transport *transport, uint64_t operation,
                               enum gpuring_activity activity);

/* Publish what this rank does in an operation, in a word that is not 0 and must be equal on all
 * ranks; before gpuring_transport_publish. */
void gpuring_transport_make(struct gpuring_transport *transport, uint64_t operation, uint64_t word);

/* The word of another rank's operation of that number; 0: not known here. */
uint64_t gpuring_transport_made(const struct gpuring_transport *transport, int rank,
                                uint64_t operation);

/* The first rank whose word for an operation is known and differs, with *other its word; or -1. */
int gpuring_transport_differs(const struct gpuring_transport *transport, uint64_t operation,
                              uint64_t word, uint64_t *other);

/* This rank makes its call number `call`, with buffers on a GPU or in host memory. Thread: that of
 * the call. */
void gpuring_transport_note_call(struct gpuring_transport *transport, uint64_t call, bool on_gpu);

/* A rank of this node that gave host buffers to this call; -1: none that is known. */
int gpuring_transport_on_hosts(const struct gpuring_transport *transport, uint64_t call);

/*
 * ---- votes.c: where are the buffers of a call, which each rank may have where it likes ----
 * Each rank that makes such a call votes; ranks with host buffers do not wait for the others.
 */
enum gpuring_vote {
    GPURING_VOTE_UNKNOWN, /* not yet given */
    GPURING_VOTE_HOST,
    GPURING_VOTE_NONE, /* this rank has no data in the call */
    GPURING_VOTE_GPU,
};

/* Can the ranks vote? Each must see all others, on one node. The same on all ranks. */
bool gpuring_transport_can_vote(const struct gpuring_transport *transport);

/*
 * Vote in call `number`, which counts such calls from 1; the vote that was given: it is HOST where
 * other ranks are so far behind that there is no room for another one. Who votes HOST needs no
 * result; the others ask for it, in the order of their calls.
 */
enum gpuring_vote gpuring_transport_vote_cast(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote vote);

/* The result: HOST if a rank has voted so, or all NONE; GPU; or UNKNOWN, *missing: a rank whose
 * vote is awaited. own: this rank's vote, not HOST. */
enum gpuring_vote gpuring_transport_vote_poll(struct gpuring_transport *transport, uint64_t number,
                                              enum gpuring_vote own, int *missing);

/* Was a peer last seen on this thread's core? Who waits for it should yield at once. So it is when
 * processes have just started, until the scheduler spreads them. */
bool gpuring_transport_shares_core(const struct gpuring_transport *transport);

/* Describe what a peer was last seen doing, in operation *operation; "unknown (it is on another
 * node)" and 0 where that cannot be seen. */
void gpuring_transport_peer_state(const struct gpuring_transport *transport, int peer,
                                  uint64_t *operation, char *text, size_t size);

/* Bracket an operation: wakes and releases the proxy if any connection is remote. */
void gpuring_transport_begin(struct gpuring_transport *transport);
void gpuring_transport_end(struct gpuring_transport *transport);

/* For a thread that waits for the operation: move network connections on by itself, at once. */
void gpuring_transport_help(struct gpuring_transport *transport);

/* Bytes of device and host memory that this transport holds (shown at verbose 1). */
uint64_t gpuring_transport_memory(const struct gpuring_transport *transport);

/* One word for logs: "shm", "peer", "ucx", "shm+verbs"... */
void gpuring_transport_name(const struct gpuring_transport *transport, char *text, size_t size);

/* Local; bounded in time (2 s for what is in flight and for good-byes, on all connections
 * together). NULL is allowed. Device memory that peers have not unmapped yet is given back later.
 */
void gpuring_transport_destroy(struct gpuring_transport *transport);

/* Before the device is closed: wait, so long at most, until peers have unmapped the memory of
 * transports that were destroyed, and give it back. No other thread uses a transport. */
void gpuring_transport_finish(unsigned int milliseconds);

#endif
