/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inside of the net `verbs`: reliable connected queue pairs, one per link, connected by handles.
 *
 * A slot is one RDMA WRITE WITH IMMEDIATE from the sender's slot into the receiver's; the immediate
 * value says which step it is, and consumes a receive that was posted before. A credit is the same
 * with no bytes, in the other direction. Either side can always receive what the other may send:
 * at most nslots steps, or credits, of each protocol, and one BYE.
 *
 *   immediate value   31     30 29       23 22                       0
 *     data            | protocol | 0       | step (low 23 bits)      |
 *     credit          | protocol | head (low 30 bits)                |
 *     BYE             |   3      | 0                                 |
 *
 * Sends are reported to us selectively: the first one, and every so often while others are under
 * way. When the last reported one is done and others were posted after it, an empty write asks for
 * another report, so that SENT never waits for a further post.
 *
 * A connection on which nothing happens while the proxy is awake is tried with an empty write every
 * second: a receiver learns that its sender's host is gone, though it has nothing to send.
 *
 * Everything below is guarded by the net's gate, except where noted.
 */
#ifndef GPURING_NET_VERBS_H
#define GPURING_NET_VERBS_H

#include "mca/coll_gpuring/net/net_base.h"
#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/net/net_verbs_lib.h"

#define GPURING_VERBS_TIMEOUT    18 /* default local ACK timeout: 4.096 us x 2^18 = 1.07 s */
#define GPURING_VERBS_RETRY      6  /* default; 7 means "for ever" on some devices */
#define GPURING_VERBS_RNR_RETRY  6  /* receives are always posted: only a broken peer lacks one */
#define GPURING_VERBS_RNR_TIMER  12 /* 0.64 ms; table 45 of the InfiniBand specification */
#define GPURING_VERBS_INLINE     256
#define GPURING_VERBS_CQ_ENTRIES 4096
#define GPURING_VERBS_CONTROL    4 /* receives for other messages than data and credits */

struct gpuring_verbs_mr {
    struct gpuring_verbs_mr *next;
    void *base;
    size_t bytes;
    struct ibv_mr *mr;
    unsigned uses;
};

/* Links of an adapter share completion queues as long as there is room. */
struct gpuring_verbs_cq {
    struct gpuring_verbs_cq *next;
    struct ibv_cq *cq;
    unsigned room, used;
    unsigned events; /* to be acknowledged before it is destroyed */
};

struct gpuring_verbs_adapter {
    struct gpuring_verbs_adapter *next;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr attr;
    struct gpuring_verbs_cq *cqs;
    struct gpuring_verbs_mr *mrs;
    char name[64];
};

struct gpuring_verbs_port {
    struct gpuring_verbs_adapter *adapter;
    uint8_t number;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    uint16_t lid;
    enum ibv_mtu mtu;
    uint8_t gid_index;
    union ibv_gid gid;
};

/* What a posted send was, in the order of posting. */
enum gpuring_verbs_kind { GPURING_VERBS_DATA, GPURING_VERBS_CREDIT, GPURING_VERBS_PROBE };
struct gpuring_verbs_sent {
    uint8_t kind, protocol;
    uint64_t step;
};

/*
 * A link's handle. Both ends must agree on the rings; what differs between them is how to reach the
 * other end.
 */
struct gpuring_verbs_handle {
    uint32_t magic;
    uint32_t qpn, psn, rkey;
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu, link_layer, direction, reserved[3];
    uint64_t slots[GPURING_PROTOCOL_COUNT]; /* addresses */
    uint64_t slot_bytes[GPURING_PROTOCOL_COUNT];
    uint32_t nslots[GPURING_PROTOCOL_COUNT];
};
#define GPURING_VERBS_MAGIC UINT32_C(0x67707632) /* "gpv2" */
_Static_assert(sizeof(struct gpuring_verbs_handle) <= GPURING_NET_HANDLE_BYTES, "a handle");

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    struct gpuring_verbs_port *port;
    struct gpuring_verbs_mr *mr;
    struct gpuring_verbs_cq *cq;
    struct ibv_qp *qp;
    uint32_t psn;
    unsigned max_inline, send_room, receive_room;
    struct gpuring_verbs_handle peer;
    bool connected;
    bool peer_closed; /* BYE has come */
    uint64_t sq_posted, sq_done;
    uint64_t sq_asked;               /* sends before this one will be reported */
    struct gpuring_verbs_sent *sent; /* [send_room], by the send's number */
    uint64_t active_ns;              /* when something last happened */
};

struct gpuring_net {
    struct gpuring_net_base base;
    struct gpuring_net_config config;
    struct gpuring_verbs_adapter *adapters;
    struct gpuring_verbs_port *ports;
    struct gpuring_net_devices devices; /* one per port, in the same order */
    int epoll;                          /* all completion channels */
    uint64_t watched_ns;                /* when idle links were last looked at */
    struct gpuring_verbs_watch *watch;  /* thread for asynchronous events */
};

static inline struct gpuring_net *gpuring_verbs_net(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

/* net_verbs_port.c: what there is */
int gpuring_verbs_discover(struct gpuring_net *net);
void gpuring_verbs_forget(struct gpuring_net *net);
/* GB/s of a port from the codes of ibv_port_attr; 0 if a code is unknown. */
double gpuring_verbs_speed(unsigned active_speed, unsigned active_width);
/* How good a GID is for us: 0 is unusable, more is better. Pure. */
int gpuring_verbs_gid_rank(uint8_t link_layer, uint32_t gid_type, const union ibv_gid *gid);

/* net_verbs_link.c: the life of a link */
int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              enum gpuring_net_direction direction,
                              const struct gpuring_net_memory *memory,
                              struct gpuring_net_link **link);
int gpuring_verbs_link_handle(struct gpuring_net_link *link, void *handle, size_t *bytes);
int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name);
void gpuring_verbs_link_close(struct gpuring_net_link *link);

/* net_verbs_memory.c: registration, completion queues */
int gpuring_verbs_mr_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         const struct gpuring_net_memory *memory, struct gpuring_verbs_mr **mr);
void gpuring_verbs_mr_put(struct gpuring_verbs_adapter *adapter, struct gpuring_verbs_mr *mr);
int gpuring_verbs_cq_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         unsigned entries, struct gpuring_verbs_cq **cq);
void gpuring_verbs_cq_put(struct gpuring_verbs_adapter *adapter, struct gpuring_verbs_cq *cq,
                          unsigned entries);

/* net_verbs_data.c: the data path */
int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes);
int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head);
/* Post `count` receives. 0 or an errno. */
int gpuring_verbs_receives(struct gpuring_net_link *link, unsigned count);
/* Take what has completed; returns how much. */
int gpuring_verbs_completions(struct gpuring_net *net);
/* Look after links on which nothing happens. */
void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now);
/* Tell the peer that this end closes. */
void gpuring_verbs_bye(struct gpuring_net_link *link);

/* net_verbs_error.c */
void gpuring_verbs_link_fail(struct gpuring_net_link *link, int status, const char *what,
                             const char *remedy);
void gpuring_verbs_link_fail_wc(struct gpuring_net_link *link, const struct ibv_wc *wc);
/* What a user can do about a completion's status. Pure. */
const char *gpuring_verbs_remedy(enum ibv_wc_status status);

/* net_verbs_watch.c: asynchronous events, by a thread */
int gpuring_verbs_watch_start(struct gpuring_net *net);
void gpuring_verbs_watch_stop(struct gpuring_net *net);

#endif
