/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inside of the net `verbs`: reliable connected queue pairs.
 *
 * A link has rails: queue pairs, each with its like at the peer. The first ones, its lanes on the
 * link's own port, carry slots in turn; the others, on the next ports of the host, are spares.
 *
 * A slot is an RDMA WRITE WITH IMMEDIATE from the sender's slot into the receiver's; a credit is
 * the same with no bytes, in the other direction. Each consumes a receive that was posted before:
 * there are as many as the peer may use, for nslots steps, or credits, of each protocol, and for
 * failover.
 *
 *   immediate value   31     30 29  27 26  24 23     22 21                   0
 *     data            | protocol | head (14 bits)       | step (16 bits)       |
 *     credit          | protocol | head (30 bits)                              |
 *     control         |   3      | kind | rail | protocol | number (22 bits)   |
 *
 * These are the low bits of counts, of which the receiver knows one that differs by less. The head
 * of data is that of the link's pair (net.h), as of when it is posted, or posted again.
 *
 * Sends are signaled selectively: the last slot of those posted together, large slots, anything
 * while no completion is awaited, and every so often. If slots were posted after the last signaled
 * send when that completes, an empty write follows, so that no slot waits for a further post.
 *
 * Of a ready rail on which nothing happens, an empty write every second finds out whether it still
 * works, while the proxy is awake: a receiver learns that its sender's host is gone.
 *
 * Failover (net/verbs/failover.c): the end that finds a failed rail puts its queue pair into the
 * error state and takes what had arrived; nothing on its way can reach its memory any more. Then it
 * reports LOST on another rail, the receiving end after ARRIVED, its count for each protocol with
 * the steps beyond it that have come out of turn. The other end does likewise. The sender
 * repeats exactly what it had posted on the rail and is not among these: a slot that has arrived
 * may be in use and must not be written again.
 *
 * Everything below is guarded by the gate.
 */
#ifndef GPURING_NET_VERBS_INTERNAL_H
#define GPURING_NET_VERBS_INTERNAL_H

#include <infiniband/verbs.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/net/list.h"
#include "mca/coll_gpuring/util/list.h"

/* Without their prefix, because some names are macros of the header as well. */
#define GPURING_VERBS_FUNCTIONS(F) \
    F(get_device_list)             \
    F(free_device_list)            \
    F(get_device_name)             \
    F(open_device)                 \
    F(close_device)                \
    F(query_device)                \
    F(query_port)                  \
    F(query_pkey)                  \
    F(get_async_event)             \
    F(ack_async_event)             \
    F(alloc_pd)                    \
    F(dealloc_pd)                  \
    F(reg_mr)                      \
    F(dereg_mr)                    \
    F(create_comp_channel)         \
    F(destroy_comp_channel)        \
    F(create_cq)                   \
    F(destroy_cq)                  \
    F(get_cq_event)                \
    F(ack_cq_events)               \
    F(create_qp)                   \
    F(modify_qp)                   \
    F(destroy_qp)                  \
    F(fork_init)                   \
    F(wc_status_str)               \
    F(event_type_str)

#define GPURING_VERBS_MEMBER(name) __typeof__(ibv_##name) *name;
struct gpuring_verbs {
    GPURING_VERBS_FUNCTIONS(GPURING_VERBS_MEMBER)
    __typeof__(_ibv_query_gid_ex) *query_gid_ex;
    __typeof__(ibv_is_fork_initialized) *is_fork_initialized; /* NULL: the library is too old */
    __typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf_mr;             /* NULL: the library is too old */
};
#undef GPURING_VERBS_MEMBER

/* libibverbs, loaded at run time unless a test has filled this: constant once a net has been
 * opened. The data path (ibv_post_send and the like) is inline in its header and goes by the
 * device's own table. */
extern struct gpuring_verbs gpuring_verbs;

#define GPURING_VERBS_TIMEOUT    18 /* default local ACK timeout: 4.096 us x 2^18 = 1.07 s */
#define GPURING_VERBS_RETRY      6  /* default; 7 means "for ever" on some devices */
#define GPURING_VERBS_RNR_RETRY  6  /* receives are always posted: only a broken peer lacks one */
#define GPURING_VERBS_RNR_TIMER  12 /* 0.64 ms; table 45 of the InfiniBand specification */
#define GPURING_VERBS_INLINE     256
#define GPURING_VERBS_CQ_ENTRIES 4096
#define GPURING_VERBS_MAX_QPS    4 /* lanes of a link */
#define GPURING_VERBS_MAX_SPARES 3
#define GPURING_VERBS_MAX_RAILS  (GPURING_VERBS_MAX_QPS + GPURING_VERBS_MAX_SPARES)
/* Receives for other messages than slots: BYE, and after each rail's failure what it takes to agree
 * on what arrived, and all credits once more. */
#define GPURING_VERBS_CONTROL(rails) (4 + (rails) * (2 * GPURING_PROTOCOL_COUNT + 1))
/* Of a ring: ARRIVED has a bit for each. */
#define GPURING_VERBS_MAX_SLOTS 8

struct gpuring_verbs_mr {
    struct gpuring_list node;
    void *base;
    size_t bytes;
    struct ibv_mr *mr;
    unsigned uses;
};

/* Links of an adapter share completion queues as long as there is room. */
struct gpuring_verbs_cq {
    struct gpuring_list node;
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
    struct gpuring_list cqs, mrs;
    struct ibv_mr *discard; /* where flushing reads go; NULL until one is needed */
    char name[64];
    bool removed; /* the device is gone for good */
};

struct gpuring_verbs_port {
    struct gpuring_verbs_adapter *adapter;
    uint8_t number;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    uint16_t lid;
    enum ibv_mtu mtu;
    uint8_t gid_index;
    uint16_t pkey_index;
    bool global; /* it takes no address without a global route header */
    union ibv_gid gid;
};

/* What a posted send was, in the order of posting. */
struct gpuring_verbs_sent {
    bool data;    /* a slot; else it had no bytes, and nothing follows from its end */
    bool arrived; /* the peer says so, after the rail has failed */
    uint8_t protocol;
    uint64_t step;
};

/* A link's handle; only the rails that there are travel. All ranks have the same FIFOs and numbers
 * of rails: AllGather 1 compares the parameters that decide on them. */
struct gpuring_verbs_address {
    uint32_t qpn, psn, rkey;
    uint16_t lid;
    uint8_t mtu, link_layer;
    uint8_t gid[16];
};
struct gpuring_verbs_handle {
    uint64_t slots[GPURING_PROTOCOL_COUNT]; /* addresses */
    struct gpuring_verbs_address rail[GPURING_VERBS_MAX_RAILS];
};
_Static_assert(sizeof(struct gpuring_verbs_handle) <= GPURING_NET_HANDLE_BYTES, "a handle");

enum gpuring_verbs_rail_state {
    GPURING_VERBS_UNUSED,   /* no spare: it would be the same path once more, or cannot be had */
    GPURING_VERBS_UP,       /* carries, or could */
    GPURING_VERBS_DRAINING, /* has failed; what had arrived is being taken */
    GPURING_VERBS_DOWN,     /* nothing reaches or leaves memory by it any more */
};

struct gpuring_verbs_rail {
    enum gpuring_verbs_rail_state state;
    struct gpuring_verbs_port *port;
    struct gpuring_verbs_mr *mr;
    struct gpuring_verbs_cq *cq;
    struct ibv_qp *qp;
    uint32_t psn;
    unsigned max_inline;
    unsigned receives; /* posted, not yet come back */
    uint64_t sq_posted, sq_done;
    uint64_t sq_asked;               /* sends before this one will be reported */
    uint64_t sq_data;                /* this one and later ones carry no slots */
    struct gpuring_verbs_sent *sent; /* [send_room], by the send's number */
    uint64_t active_ns;              /* when something last happened, link_ready first */
    int refused;                     /* errno of a lane that did not connect, until link_ready */
    /* After it has failed: */
    uint64_t failed_ns;
    const struct gpuring_verbs_rail *reported_on; /* the rail that carried our LOST; NULL: none */
    bool peer_reported;                           /* the peer's LOST has come */
    bool repeating; /* sends before sq_done were repeated, or had arrived: none completes now */
    /* Slots in a GPU's memory that need flushing (net/verbs/flush.c): bits step % 64 of what has
     * arrived since the last flush began, and before. */
    struct ibv_qp *flush_qp; /* connected with itself; NULL: not needed */
    uint64_t landed[GPURING_PROTOCOL_COUNT], flushing[GPURING_PROTOCOL_COUNT];
    uint64_t last_landed; /* address of a byte of the last one */
    bool flush_busy;
    bool flush_last; /* after it had failed, what was on its way to the GPU has been pushed there */
};

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    unsigned nlanes, nrails; /* lanes come first */
    struct gpuring_verbs_rail rail[GPURING_VERBS_MAX_RAILS];
    unsigned send_room, receive_room; /* of each rail */
    unsigned cq_room;                 /* both, and a flush */
    unsigned turn;                    /* of the lanes */
    struct gpuring_verbs_handle mine, peer;
    struct gpuring_verbs_rail *bye; /* by which our BYE went; NULL: not yet */
    bool ready;                     /* the peer is connected, too */
    bool peer_closed;               /* BYE has come */
    bool recovering;                /* a rail's failure is not dealt with yet */
};

struct gpuring_net {
    struct gpuring_net_base base;
    struct gpuring_net_config config;
    struct gpuring_verbs_adapter *adapters;
    struct gpuring_verbs_port *ports;
    struct gpuring_net_devices devices; /* one per port, in the same order */
    int epoll;                          /* all completion channels */
    uint64_t watched_ns;                /* when idle links were last looked at */
    unsigned recovering;                /* links that are */
};

static inline struct gpuring_net *gpuring_verbs_net(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

static inline bool gpuring_verbs_has_failed(const struct gpuring_verbs_rail *rail)
{
    return rail->state >= GPURING_VERBS_DRAINING;
}

/* Parts of the immediate values that are drawn above. */
#define VERBS_IMM_CONTROL      3u
#define VERBS_IMM_STEP_BITS    16
#define VERBS_IMM_PAIR_BITS    14 /* of data: the head of the pair, above the step */
#define VERBS_IMM_HEAD_BITS    30
#define VERBS_IMM_NUMBER_BITS  22
#define VERBS_IMM_KIND_AT      27
#define VERBS_IMM_RAIL_AT      24
#define VERBS_IMM_PROTOCOL_AT  22
#define VERBS_LOW(value, bits) ((uint32_t) (value) & ((UINT32_C(1) << (bits)) - 1))

_Static_assert(GPURING_PROTOCOL_COUNT <= VERBS_IMM_CONTROL, "two bits of the immediate value");
_Static_assert(GPURING_VERBS_MAX_RAILS <= 8, "three bits of it");

/*
 * Work request ids:  | index of the link in the table | rail | receive | flush | bits of a number |
 *                     63                            32 31  29 28        27      26              0
 */
#define VERBS_ID_RAIL_AT 29
#define VERBS_ID_RECEIVE (UINT64_C(1) << 28)
#define VERBS_ID_FLUSH   (UINT64_C(1) << 27)
#define VERBS_ID_NUMBER  (VERBS_ID_FLUSH - 1)

static inline uint64_t gpuring_verbs_id(const struct gpuring_net_link *link,
                                        const struct gpuring_verbs_rail *rail, uint64_t low)
{
    return (link->base.id & UINT32_MAX) << 32 | (uint64_t) (rail - link->rail) << VERBS_ID_RAIL_AT |
           low;
}

/* net/verbs/port.c: what there is */
int gpuring_verbs_discover(struct gpuring_net *net);
void gpuring_verbs_forget(struct gpuring_net *net);

/* net/verbs/link.c: the life of a link */
int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              enum gpuring_net_direction direction,
                              const struct gpuring_net_memory *memory,
                              struct gpuring_net_link **link);
size_t gpuring_verbs_link_handle(const struct gpuring_net_link *link, void *handle);
int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name);
int gpuring_verbs_link_leave(struct gpuring_net_link *link);
void gpuring_verbs_link_close(struct gpuring_net_link *link);

/* net/verbs/memory.c: registration, completion queues */
int gpuring_verbs_mr_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         const struct gpuring_net_memory *memory, struct gpuring_verbs_mr **mr);
void gpuring_verbs_mr_put(struct gpuring_verbs_mr *mr);
int gpuring_verbs_cq_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         unsigned entries, struct gpuring_verbs_cq **cq);
void gpuring_verbs_cq_put(struct gpuring_verbs_cq *cq, unsigned entries);
int gpuring_verbs_device_memory(struct gpuring_net *net, int device,
                                const struct gpuring_net_memory *memory);

/* net/verbs/rail.c: the life of a queue pair. What create has made when it fails is released by
 * rail_release. */
int gpuring_verbs_rail_create(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              struct gpuring_verbs_port *port,
                              const struct gpuring_net_memory *memory);
/* What the peer connects its queue pair with. */
struct gpuring_verbs_address gpuring_verbs_rail_address(const struct gpuring_verbs_rail *rail,
                                                        const struct ibv_qp *qp);
/* Connect with the peer's rail of the same number. 0 or an errno. */
int gpuring_verbs_rail_connect(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail);
void gpuring_verbs_rail_release(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail);

/* net/verbs/post.c: what is posted */
int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes, bool more, uint64_t head);
int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head);
/* Report to the peer that this end gives up. */
void gpuring_verbs_abort(struct gpuring_net_link *link, int status);
/* Look after rails on which nothing happens. slept: nobody has polled, so that silence means
 * nothing. */
void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now, bool slept);
/* Send nothing, of which a report comes. */
void gpuring_verbs_probe(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail);
/* Post a slot (again), a credit, or a control message; as the net's post does. */
int gpuring_verbs_post_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                            uint64_t step, uint32_t bytes, bool more, uint64_t head);
int gpuring_verbs_post_credit(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              enum gpuring_protocol protocol, uint64_t head);
enum gpuring_verbs_control {
    GPURING_VERBS_BYE,
    GPURING_VERBS_ARRIVED, /* the number: a count, then bits: which steps from there on have come */
    GPURING_VERBS_LOST,
    GPURING_VERBS_ABORT, /* the number is the status, positive */
};
int gpuring_verbs_post_control(struct gpuring_net_link *link, struct gpuring_verbs_rail *on,
                               enum gpuring_verbs_control kind, unsigned rail, unsigned protocol,
                               uint64_t number);
/* Post `count` receives. 0 or an errno. */
int gpuring_verbs_receives(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                           unsigned count);

/* net/verbs/complete.c: what has completed */
/* Take what has completed; returns how much. */
int gpuring_verbs_completions(struct gpuring_net *net);

/* net/verbs/flush.c: slots in a GPU's memory */
/* A slot has landed: flush it, now or with the next ones. */
void gpuring_verbs_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint64_t step, uint32_t bytes);
/* A flush is done. */
void gpuring_verbs_flushed(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail);
/* The rail has failed and takes nothing more: flush what it wrote, so that it cannot come after
 * what another rail brings. True when that is done, as far as the device does it. */
bool gpuring_verbs_flush_last(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail);
/* The last flush of a rail failed: what the peer takes for arrived is lost. */
void gpuring_verbs_flush_failed(struct gpuring_net_link *link,
                                const struct gpuring_verbs_rail *rail);

/* net/verbs/failover.c: rails and links that fail */
/* The first rail that is up, or NULL. */
struct gpuring_verbs_rail *gpuring_verbs_first_up(struct gpuring_net_link *link);
/* The rail has failed for this reason: the link goes on by another, or has failed. */
void gpuring_verbs_rail_fail(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                             const char *what, const char *remedy);
void gpuring_verbs_rail_fail_wc(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                                const struct ibv_wc *wc);
void gpuring_verbs_link_fail(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                             int status, const char *what, const char *remedy);
/* What a user can do about a completion's status. Pure. */
const char *gpuring_verbs_remedy(enum ibv_wc_status status);
/* ARRIVED: of what rail `lost` was sent, the peer has all before `count` and the steps count + n
 * for each bit n of `early`. What is said twice, by several rails, may come in any order, and all
 * of it is true. */
void gpuring_verbs_peer_has(const struct gpuring_net_link *link, struct gpuring_verbs_rail *lost,
                            unsigned protocol, uint64_t count, uint32_t early);
/* LOST. */
void gpuring_verbs_peer_lost(struct gpuring_net_link *link, struct gpuring_verbs_rail *lost);
/* As the net's link_ready: lanes that did not connect have failed, and the peer can take the
 * report. */
void gpuring_verbs_ready(struct gpuring_net_link *link);
/* The peer has closed: it has all that it needed, also of what failed rails had not brought. */
void gpuring_verbs_give_up(struct gpuring_net_link *link);
/* Do what can be done now for links that are recovering. */
void gpuring_verbs_recover(struct gpuring_net *net);

/* net/verbs/events.c: what the adapters report of themselves */
void gpuring_verbs_events(struct gpuring_net *net);

#endif
