/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The net ops table: moves FIFO slots between nodes. Implementations: verbs, ucx, mock.
 *
 * A net knows connections ("links"), not operations: the sending side posts slot s of a protocol's
 * ring, the receiving side returns credits.
 * What the proxy makes of the counters of both ends is drawn in net/proxy/proxy.h.
 *
 * The contract between a net and the proxy:
 * - Steps of one link and protocol are posted 0, 1, 2, ...; step s never before head > s - nslots,
 *   so that the receiver's slot is free. `bytes` is what the lane put into size[]: the slot's bytes
 *   in use, lines with their flags (see fifo.h); they travel as they are.
 * - A net reports what happens on a link by the functions of net/base.h, from within any of its
 *   own, also before the proxy has the link: slots that have left or arrived, each step once; heads
 *   of the peer, the last one without further posts; and a failure, which ends the link. post and
 *   credit that return an error have reported it.
 * - A net may use other devices than the link's own, when that fails: nothing above changes.
 * - A link of which the peer's end was closed in good order is not in error; a post on it is.
 *
 * Threads: what is marked "gate" is called under config.gate; the rest takes it where it needs it.
 * No function blocks, but for close (1 s), and for link_close where posts do not end (1 s).
 */
#ifndef GPURING_NET_NET_H
#define GPURING_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpuring_config.h"
#include "kernels/fifo.h"
#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/net/gate.h"

struct gpuring_net;      /* an opened net of a process */
struct gpuring_net_link; /* one direction of one connection */

#define GPURING_NET_HANDLE_BYTES 384 /* largest per-link handle */

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

/* The FIFO memory of a link at this end, and the local halves of its counters (fifo.h); rings that
 * are not used have slots == NULL and nslots == 0. */
struct gpuring_net_ring {
    uint8_t *slots;
    uint64_t slot_bytes;
    uint32_t nslots;
    struct gpuring_fifo_tail *tail;
    struct gpuring_fifo_head *head;
};
struct gpuring_net_memory {
    void *base; /* the allocation that holds all rings: what must be registered */
    size_t bytes;
    struct gpuring_net_ring ring[GPURING_PROTOCOL_COUNT];
    const struct gpuring_device_nic *device; /* NULL: host memory; read by link_create only */
};

enum gpuring_net_direction { GPURING_NET_SEND, GPURING_NET_RECV };

struct gpuring_net_config {
    struct gpuring_gate *gate; /* the proxy's; guards the net and all of its links */
    const char *hca;           /* include/exclude list, NULL or "": all */
    int verbs_timeout;         /* local ACK timeout exponent, -1: default */
    int verbs_retry_count;     /* -1: default */
    int verbs_gid_index;       /* 0: choose; n + 1: GID n of the port */
    int verbs_service_level;   /* 0..15 */
    int verbs_traffic_class;   /* 0..255 */
    int verbs_pkey;            /* partition key without its membership bit; 0: the port's first */
    int verbs_mtu;             /* at most, an enum ibv_mtu; 0: the port's */
    int verbs_qps;             /* queue pairs of a link that carry slots; 0: one */
    int verbs_spares;          /* further ports that a link may fail over to */
    bool ucx_no_rdma;          /* UCX is to leave RDMA devices alone */
    const char *local_host;    /* for messages */
};

struct gpuring_net_ops {
    const char *name;

    int (*open)(const struct gpuring_net_config *config, struct gpuring_net **net);
    void (*close)(struct gpuring_net *net); /* all links closed before */

    const struct gpuring_net_devices *(*devices)(const struct gpuring_net *net);

    /*
     * Can this memory of a GPU be registered with a device? Tries it. GPURING_OK, or
     * GPURING_ERR_UNSUPPORTED with a log line (level INFO) that says why. NULL: it cannot.
     */
    int (*device_memory)(struct gpuring_net *net, int device,
                         const struct gpuring_net_memory *memory);

    /*
     * Wire-up, as two AllGathers want it: create a link's end on device `device`, read its handle
     * (at most GPURING_NET_HANDLE_BYTES), exchange, connect with the peer's. process_handle is
     * what all links of a process share (sent once per process; NULL: nothing); *bytes: in: room,
     * out: used. link_handle returns how many bytes. The memory must stay until link_close.
     */
    int (*process_handle)(struct gpuring_net *net, void *handle, size_t *bytes);
    int (*link_create)(struct gpuring_net *net, int device, enum gpuring_net_direction direction,
                       const struct gpuring_net_memory *memory, struct gpuring_net_link **link);
    size_t (*link_handle)(const struct gpuring_net_link *link, void *handle);
    int (*link_connect)(struct gpuring_net_link *link, const void *process_handle,
                        size_t process_bytes, const void *handle, size_t bytes,
                        const char *peer_name);
    /*
     * Both ends are connected: from now on this one may be sent to. Once, before the first post at
     * either end, from any thread. NULL: the net need not know.
     */
    void (*link_ready)(struct gpuring_net_link *link);
    /*
     * Nothing more is to be posted: let the peer's end know that this one is to be closed in good
     * order, and finish. 0 when that is done or will never be, GPURING_AGAIN: call again when the
     * net has been polled. Gate. NULL: there is nothing to do.
     */
    int (*link_leave)(struct gpuring_net_link *link);
    /* Give back a link in any state; what has not left may be lost. NULL is allowed. */
    void (*link_close)(struct gpuring_net_link *link);
    /*
     * This end gives the connection up, for the reason `status`: let the peer's end know, if it can
     * still be reached; its link fails with GPURING_ERR_ABORTED. Does not wait. Gate.
     */
    void (*link_abort)(struct gpuring_net_link *link, int status);

    /*
     * Gate. post/credit return 0, GPURING_AGAIN (queue full: call again later) or an error.
     * more: the next step's post follows at once, so that `sent` may wait for that one's.
     * head: of the same protocol of the link's pair, a credit if the post succeeds; not less than
     * one given before, by whichever way, also when the pair is gone, since the peer may still have
     * its own. For a link that never had one it is 0, and the peer ignores it.
     */
    int (*post)(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                uint32_t bytes, bool more, uint64_t head);
    int (*credit)(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t head);
    /* Gate. Drives the network's progress. Returns how much has happened, 0: nothing. */
    int (*poll)(struct gpuring_net *net);
    /* Gate. 0 if nothing of what was posted or credited needs further polls of this process to get
     * out, GPURING_AGAIN otherwise. */
    int (*quiet)(struct gpuring_net *net);
    /* Gate. Before each sleep: *fd becomes readable when poll has something (-1: no descriptor says
     * so). GPURING_AGAIN if poll has something already. */
    int (*arm)(struct gpuring_net *net, int *fd);
};

#if GPURING_HAVE_VERBS
extern const struct gpuring_net_ops gpuring_net_verbs;
#endif
#if GPURING_HAVE_UCX
extern const struct gpuring_net_ops gpuring_net_ucx;
#endif
/* For tests, in-process, with faults on demand: net_mock.h. */

#endif
