/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The table of operations of a net, which moves FIFO slots between nodes. Implementations: verbs,
 * ucx, mpi, mock.
 *
 * A net handles connections ("links") and knows nothing of operations. The sending side posts slot
 * s of a protocol's ring, and the receiving side returns credits. net/proxy/proxy.h draws how the
 * proxy uses the counters of both ends.
 *
 * The contract between a net and the proxy:
 * - The steps of one link and protocol are posted in order: 0, 1, 2, ... Step s is posted only when
 *   head > s - nslots, so that the receiver's slot is free. `bytes` is the value that the lane
 *   stored in size[]: the number of bytes in use, including the flags of lines (see fifo.h). The
 *   net sends these bytes unchanged.
 * - A net reports events of a link with the functions of net/base.h. It may call them from any of
 *   its own functions, and before the proxy has the link. It reports once for each step that it
 *   was sent or has arrived. It also reports the heads of the peer (including the last one, without
 *   further posts), and a failure, which ends the link. If post or credit return an error, they
 *   have reported it.
 * - If a link's own device fails, a net may use other devices. The rules above still apply.
 * - A link whose peer has closed its end in good order is not in error, but a post on it is.
 *
 * Threads: functions marked "gate" are called under config.gate. The others take the gate if they
 * need it. No function blocks, except close (up to 1 s) and link_close if posts do not complete (up
 * to 1 s).
 */
#ifndef GPURING_NET_NET_H
#define GPURING_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpuring_config.h"
#include "kernels/fifo.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/net/gate.h"
#include "mca/coll_gpuring/util/message.h"

struct gpuring_net;      /* an opened net of a process */
struct gpuring_net_link; /* one direction of one connection */

#define GPURING_NET_HANDLE_BYTES 512 /* largest per-link handle */

/* The other end of a link. */
struct gpuring_net_peer {
    uint64_t process; /* a number that no other process of the job has */
    int device;       /* index of the device that it uses */
};

struct gpuring_net_device {
    char name[64];       /* "mlx5_0", "eth0" */
    char pci_bus_id[16]; /* empty if virtual */
    int port;
};

/* A growing array of devices. */
struct gpuring_net_devices {
    struct gpuring_net_device *device;
    int count;
};

/* The FIFO memory of a link at this end and the local halves of its counters (fifo.h). Unused rings
 * have slots == NULL and nslots == 0. */
struct gpuring_net_ring {
    uint8_t *slots;
    uint64_t slot_bytes;
    uint32_t nslots;
    struct gpuring_fifo_tail *tail;
    struct gpuring_fifo_head *head;
};

/* Return the address of the data of a step that the sending lane has posted. */
static inline void *gpuring_net_data(const struct gpuring_net_ring *ring, uint64_t step)
{
    uint64_t index = step % ring->nslots;
    uint8_t *slot = ring->slots + index * ring->slot_bytes;
    void *data = slot;

    if ((ring->tail->size[index] & GPURING_FIFO_ADDRESS) != 0) {
        memcpy(&data, slot, sizeof data);
    }
    return data;
}

struct gpuring_net_memory {
    void *base; /* the allocation that contains all rings, which must be registered */
    size_t bytes;
    struct gpuring_net_ring ring[GPURING_PROTOCOL_COUNT];
    const struct gpuring_device_nic *device; /* NULL: host memory; read by link_create only */
    bool any; /* with any_memory: the lane uses chunks outside the slots (fifo.h) */
};

enum gpuring_net_direction { GPURING_NET_SEND, GPURING_NET_RECV };

/* Counts of the events of some links. Atomic; changed under the gate. */
struct gpuring_net_traffic {
    uint64_t moved; /* slots that were sent or have arrived */
    uint64_t wakes; /* of these, events that a lane may wait for */
};

struct gpuring_net_config {
    struct gpuring_gate *gate; /* the proxy's; guards the net and all of its links */
    const char *hca;           /* include/exclude list, NULL or "": all */
    int verbs_timeout;         /* local ACK timeout exponent, -1: default */
    int verbs_retry_count;     /* -1: default */
    int verbs_gid_index;       /* 0: choose; n + 1: GID n of the port */
    int verbs_service_level;   /* 0..15 */
    int verbs_traffic_class;   /* 0..255 */
    int verbs_pkey;            /* partition key without its membership bit; 0: the port's first */
    int verbs_mtu;             /* maximum, an enum ibv_mtu; 0: the port's */
    int verbs_qps;             /* queue pairs of a link that carry slots; 0: one */
    int verbs_spares;          /* further ports that a link may fail over to */
    int npeers;                /* ucx: estimated number of peers that it will connect; 0: unknown */
    /* Net mpi: the messages, their communicator, this process's rank in it, the track
     * (util/message.h), and the number of this net among those of the track, 0 to 7. */
    const struct gpuring_message_ops *messages;
    struct ompi_communicator_t *comm;
    int rank, track, number;
    const char *local_host; /* for log messages */
};

struct gpuring_net_ops {
    const char *name;
    bool carries_credit; /* post transmits `head` */
    bool offloads;       /* devices transfer posted slots without further work of a processor */
    /* The net sends from any host memory, and receives wanted chunks there (fifo.h). post reads
     * the address of a chunk with gpuring_net_data. */
    bool any_memory;

    int (*open)(const struct gpuring_net_config *config, struct gpuring_net **net);
    void (*close)(struct gpuring_net *net); /* all links closed before */

    const struct gpuring_net_devices *(*devices)(const struct gpuring_net *net);

    /*
     * Try to register this GPU memory with a device. Returns GPURING_OK, or
     * GPURING_ERR_UNSUPPORTED after a log line (level INFO) with the reason. NULL if the net cannot
     * register GPU memory.
     */
    int (*device_memory)(struct gpuring_net *net, int device,
                         const struct gpuring_net_memory *memory);

    /*
     * Wire-up: create a link's end on device `device`, read its handle (at most
     * GPURING_NET_HANDLE_BYTES), exchange handles, and connect with the peer's handle.
     * process_handle returns the part that all links of a process share and that is sent once per
     * process (NULL: nothing). *bytes is the room before the call and the bytes used after it.
     * link_handle returns the number of bytes. The memory must exist until link_close.
     * link_connect returns GPURING_ERR_STALE if both ends must create new links, because they
     * belong to different connections of the two processes. New links then use a new one.
     */
    int (*process_handle)(struct gpuring_net *net, void *handle, size_t *bytes);
    int (*link_create)(struct gpuring_net *net, int device, const struct gpuring_net_peer *peer,
                       enum gpuring_net_direction direction,
                       const struct gpuring_net_memory *memory, struct gpuring_net_link **link);
    size_t (*link_handle)(const struct gpuring_net_link *link, void *handle);
    int (*link_connect)(struct gpuring_net_link *link, const void *process_handle,
                        size_t process_bytes, const void *handle, size_t bytes,
                        const char *peer_name);
    /*
     * Called once when both ends are connected, before the first post at either end, from any
     * thread. From now on the peer may send to this end. NULL if the net need not know.
     */
    void (*link_ready)(struct gpuring_net_link *link);
    /*
     * Complete all posts, and notify the peer that this end will be closed in good order, without
     * waiting until it has been notified. Nothing may be posted afterwards. Returns 0 when this is
     * done or impossible. Returns GPURING_AGAIN if the caller must call again after the net was
     * polled. Gate. NULL if there is nothing to do.
     */
    int (*link_leave)(struct gpuring_net_link *link);
    /* Withdraw posted receives for which nothing has arrived, because each of them holds the
     * communicator. The next call of look() posts them again. Returns true if no receive is left.
     * Gate. NULL if the net posts none. */
    bool (*link_withdraw)(struct gpuring_net_link *link);
    /* Return true if the net may still access the link's memory after link_close, so that it must
     * not be freed. Called after link_leave, before link_close. If the net remains open, keep the
     * link and its memory, and call this function again later. NULL: never. */
    bool (*link_holds)(struct gpuring_net_link *link);
    /* Return false if another communicator should not use the link while nothing is posted: its
     * peer has closed it, one of its ports has failed, or a message holds its communicator. Gate.
     * NULL: always true. */
    bool (*link_whole)(struct gpuring_net_link *link);
    /* From now on, use a track of another communicator of the same ranks. Called when no link has a
     * message in flight. NULL: the net does not depend on a communicator. */
    void (*attach)(struct gpuring_net *net, struct ompi_communicator_t *comm, int track);
    /* Destroy a link in any state. Posts that have not completed may be lost. NULL is allowed. */
    void (*link_close)(struct gpuring_net_link *link);
    /*
     * Give up the connection for the reason `status`, and notify the peer if it can still be
     * reached. The peer's link then fails with GPURING_ERR_ABORTED. Does not wait. Gate.
     */
    void (*link_abort)(struct gpuring_net_link *link, int status);
    /*
     * The link, or its communicator, has failed. Returns 0 if the net no longer accesses memory
     * other than the slots, and GPURING_AGAIN if the caller must progress the net and call again.
     * late: the last call, so post nothing more. Gate. NULL: always 0.
     */
    int (*link_settle)(struct gpuring_net_link *link, bool late);

    /*
     * Gate. post and credit return 0, GPURING_AGAIN (queue full: call again later) or an error.
     * more: the post of the next step follows immediately, so the completion of this one may be
     * reported together with the next one.
     * head: the head of the link's pair for the same protocol. It serves as credit if the post
     * succeeds, and is never less than an earlier value. It stays valid after the pair was closed
     * at this end, because the peer may still have its own end. It is 0, and ignored by the peer,
     * if the link never had a pair.
     */
    int (*post)(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                uint32_t bytes, bool more, uint64_t head);
    int (*credit)(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t head);
    /* Progress one protocol of a link that operations use. The proxy calls it for a sending link
     * while posts have not completed and no further post is possible, and for a receiving link in
     * each pass. Gate. NULL: poll does everything. */
    void (*look)(struct gpuring_net_link *link, enum gpuring_protocol protocol);
    /* Progress the network. Returns the number of events. Gate. */
    int (*poll)(struct gpuring_net *net);
    /* Return false if nothing has happened since the last call, so that a pass would find nothing.
     * A rare event may be missed. For the thread that drives the net's only group. NULL:
     * unknown. */
    bool (*changed)(struct gpuring_net *net);
    /* Return 0 if all posts and credits are sent without further polls of this process, and
     * GPURING_AGAIN otherwise. Gate. NULL: always 0. */
    int (*quiet)(struct gpuring_net *net);
    /* Gate. Call before each sleep. Sets *fd to a descriptor that becomes readable when poll has
     * work (-1: there is none). Returns GPURING_AGAIN if poll has work already. NULL: there is no
     * descriptor. */
    int (*arm)(struct gpuring_net *net, int *fd);
};

/* Messages of MPI (net/mpi/mpi_net.c). A net of this kind belongs to one communicator. */
extern const struct gpuring_net_ops gpuring_net_mpi;
#if GPURING_HAVE_VERBS
extern const struct gpuring_net_ops gpuring_net_verbs;
#endif
#if GPURING_HAVE_UCX
extern const struct gpuring_net_ops gpuring_net_ucx;
#endif
/* For tests, in-process, with faults on demand: net_mock.h. */

#endif
