/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internal to the net `verbs`, which uses reliable connected queue pairs.
 *
 * An endpoint is this end of the connection to a peer process, from one device. It has rails. A
 * rail is a queue pair, connected with one queue pair of the peer. The first rails are the lanes:
 * they use the device's own port and carry slots in turn. The other rails are spares on the next
 * ports of the host. When both ends know each other's rails, they exchange the places of rails so
 * that those of equal number are on one network, and give up rails without a counterpart
 * (net/verbs/endpoint.c).
 *
 * The links of all communicators between two processes use the rails of the endpoint of their
 * devices. Each end numbers its links, and a message names the link by its number at the receiver.
 * An endpoint exists until the net is closed, or until a device has no more queue pairs and no link
 * uses the endpoint. When one of its rails has failed, its links stay, but later ones use a new
 * endpoint, so that they use a port again that was down for some time.
 *
 * A slot is sent as one RDMA WRITE WITH IMMEDIATE from the sender's slot to the receiver's slot. On
 * InfiniBand, networks with adaptive routing spread the packets of plain WRITEs only, so a larger
 * slot is sent as a WRITE of all its whole blocks and a WRITE WITH IMMEDIATE of the rest, which may
 * be empty. The responder executes both in order. A credit is a WRITE WITH IMMEDIATE without data,
 * in the other direction. Each immediate consumes a receive. A queue pair has a fixed number of
 * them. If messages have used all, the peer's device repeats its next one until this process polls,
 * which posts them again. Therefore a process that is stopped looks like a slow one here. Only
 * the time limit of calls, or the hang report, detects it.
 *
 *   immediate value   31     30 29  28 27      25     22 21   18 17     14 13    0
 *     data            | protocol | has head |  head    | step   | blocks  | link  |
 *     credit          | protocol | head (16 bits)                         | link  |
 *     control         |   3      | kind | protocol | number (12 bits)     | link  |
 *
 * The fields of data have 2, 1, 4, 4, 7 and 14 bits. Blocks are those of the WRITE before. They
 * have 8 KiB, or more if the ring's slots have more than 127 of these. Step and head are the low
 * bits of counts. The receiver knows each count well enough to add the high bits.
 *
 * The head in a data message is the head of the link's pair (net.h). It has few bits, so it must
 * not be older than one that the peer has received before. Therefore heads and control messages use
 * one rail, the first one that is up, which keeps their order. A rail that has failed does not come
 * up again, so the number of this rail only grows. A peer that has received a head or a control
 * message on a rail ignores those of earlier rails, because the failover repeats all of them.
 *
 * Sends are signaled selectively: the last slot of those posted together, large slots, any send
 * while no completion is pending, and every ASK_EVERY-th send. If a signaled send completes and
 * unsignaled slots were posted after it, an empty write follows, so that the completion of these
 * slots does not depend on a later post.
 *
 * While the proxy is awake, it sends an empty write once a second on each rail that is idle and has
 * links. This is how a receiver detects that its sender's host is gone.
 *
 * The end of a link: BYE is the last message that an end sends for a link. The end posts it when
 * its slots have completed, on each rail that it has used for the link, and BYE contains the set of
 * these rails. When all of them have delivered BYE or have failed, nothing more can be received for
 * the link. An end closes its link, so that its number and memory may be used for something else,
 * only when this is true and its own BYE has been received (link_holds). If the rail with a BYE
 * fails, the end cannot know whether the peer has received it, and repeats it. By then, the peer
 * may have closed its link and given the number to another one. Therefore an end never repeats a
 * BYE after it has connected another link with the same number, and no link is connected after a
 * rail has failed (GPURING_ERR_STALE). Empty messages write to a page of the peer that stays
 * registered.
 *
 * Failover (net/verbs/failover.c): the end that detects a failed rail puts its queue pair into the
 * error state and processes the completions of everything that has arrived. From then on nothing in
 * flight can reach its memory. It then reports on another rail: for each receiving link and
 * protocol ARRIVED, with its count and the later steps that have arrived out of order, and the
 * credit, and then LOST. The other end does the same. The sender repeats exactly those posts of the
 * rail that have not arrived, because a slot that has arrived may be in use and must not be written
 * again.
 *
 * The gate guards everything below, with one exception. Queue pairs and registrations take long to
 * make, and the gate stops all communication of the process. Therefore `making` guards
 * registrations, the use of completion queues, and links and endpoints that are not connected yet
 * or are no longer in the tables. A thread that has it may enter the gate, not the other way round.
 */
#ifndef GPURING_NET_VERBS_INTERNAL_H
#define GPURING_NET_VERBS_INTERNAL_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/net/net_list.h"
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
    __typeof__(ibv_reg_mr_iova2) *reg_mr_iova2;   /* NULL: the library has no optional access */
    __typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf_mr; /* NULL: the library is too old */
};
#undef GPURING_VERBS_MEMBER

/* Functions of libibverbs, loaded at run time unless a test has filled the table. Constant after a
 * net was opened. The functions of the data path (ibv_post_send and similar ones) are inline
 * functions of the header and use the device's own table. */
extern struct gpuring_verbs gpuring_verbs;

/* net/verbs/verbs_load.c: load libibverbs, once per process. Returns 0 or GPURING_ERR_UNSUPPORTED.
 */
int gpuring_verbs_load(void);

/* Defaults of NCCL (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT, from its documentation for 2.23 and later),
 * which large fabrics need while switches reroute. Soft-RoCE (Linux, rxe_comp.c) never stops after
 * a retry count of 7. */
#define GPURING_VERBS_TIMEOUT    20 /* local ACK timeout: 4.096 us x 2^20 = 4.3 s */
#define GPURING_VERBS_RETRY      7
#define GPURING_VERBS_RETRY_SOFT 6  /* devices made by software */
#define GPURING_VERBS_RNR_RETRY  7  /* endless: a peer posts receives when it polls */
#define GPURING_VERBS_RNR_TIMER  12 /* 0.64 ms; table 45 of the InfiniBand specification */
#define GPURING_VERBS_INLINE     256
#define GPURING_VERBS_CQ_ENTRIES 4096
#define GPURING_VERBS_SENDS      192 /* of a rail, if the device allows it */
#define GPURING_VERBS_RECEIVES   320
#define GPURING_VERBS_MAX_QPS    4 /* lanes of a link */
#define GPURING_VERBS_MAX_SPARES 3
#define GPURING_VERBS_MAX_RAILS  (GPURING_VERBS_MAX_QPS + GPURING_VERBS_MAX_SPARES)
/* Maximum number of slots of a ring. ARRIVED has one bit for each. */
#define GPURING_VERBS_MAX_SLOTS 8
/* Slots from this size on are sent in two operations on InfiniBand. This is NCCL's default
 * (NCCL_IB_AR_THRESHOLD in its documentation). A block, unless the slots are larger. */
#define GPURING_VERBS_BLOCK 8192u

struct gpuring_verbs_mr {
    struct gpuring_list node;
    void *base;
    size_t bytes;
    struct ibv_mr *mr;
    unsigned uses;
};

/* A completion queue, shared by links of an adapter as long as it has room. */
struct gpuring_verbs_cq {
    struct gpuring_list node;
    struct ibv_cq *cq;
    unsigned room, used;
    unsigned events; /* must be acknowledged before the queue is destroyed */
    bool more;       /* the last poll may have left completions */
};

struct gpuring_verbs_adapter {
    struct gpuring_verbs_adapter *next;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr attr;
    struct gpuring_list cqs; /* changed with both locks */
    struct gpuring_list mrs;
    struct ibv_mr *page; /* target of flushing reads and of empty messages; NULL until needed */
    char name[64];
    bool software; /* it is no PCI device */
    bool removed;  /* the device is gone for good */
};

struct gpuring_verbs_port {
    struct gpuring_verbs_adapter *adapter;
    uint8_t number;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    uint16_t lid;
    enum ibv_mtu mtu;
    uint32_t speed;       /* Mb/s, 0: unknown */
    uint8_t network_bits; /* see struct gpuring_nic */
    uint8_t gid_index;
    uint16_t pkey_index;
    bool global; /* addresses need a global route header */
    union ibv_gid gid;
    /* Times of the last failover to another queue pair of the port, and to another port; 0: none
     * since the port came up. */
    uint64_t failed_ns[2];
};

/* A posted send. Each rail records its sends in the order of posting. */
struct gpuring_verbs_sent {
    struct gpuring_net_link *link; /* whose slot it carries; NULL: none, nothing to do when done */
    bool arrived;                  /* the peer has reported its arrival after the rail had failed */
    uint8_t protocol;
    uint64_t step;
};

/* A slot in GPU memory that has arrived and needs flushing (net/verbs/flush.c). */
struct gpuring_verbs_landed {
    struct gpuring_net_link *link;
    uint8_t protocol;
    uint64_t step;
};

/* A link's handle. Only existing rails are transferred. All ranks have the same FIFOs and the same
 * number of rails, because AllGather 1 compares the parameters that determine them. */
struct gpuring_verbs_address {
    uint32_t qpn, psn;
    uint32_t rkey;      /* of the link's slots */
    uint32_t page_rkey; /* of a page that empty messages write to */
    uint64_t page;
    uint16_t lid;
    uint8_t mtu;
    struct gpuring_nic nic; /* its network; without a name */
};
struct gpuring_verbs_handle {
    uint64_t slots[GPURING_PROTOCOL_COUNT]; /* addresses */
    uint64_t endpoint, peer_endpoint;       /* ids of this end's, and of the other end's or 0 */
    uint32_t number;                        /* of the link at this end */
    struct gpuring_verbs_address rail[GPURING_VERBS_MAX_RAILS];
};
_Static_assert(sizeof(struct gpuring_verbs_handle) <= GPURING_NET_HANDLE_BYTES, "a handle");

enum gpuring_verbs_rail_state {
    GPURING_VERBS_UNUSED,   /* duplicates a path, has none, or could not be connected */
    GPURING_VERBS_UP,       /* usable */
    GPURING_VERBS_DRAINING, /* has failed; earlier arrivals are still being processed */
    GPURING_VERBS_DOWN,     /* no longer reads or writes memory */
};

struct gpuring_verbs_rail {
    enum gpuring_verbs_rail_state state;
    unsigned place; /* among the rails when they were created */
    struct gpuring_verbs_port *port;
    struct gpuring_verbs_cq *cq;
    struct ibv_qp *qp;
    uint32_t psn;
    unsigned max_inline;
    unsigned receives; /* posted and not yet completed */
    uint64_t sq_posted, sq_done;
    uint64_t sq_asked;               /* a completion is pending that covers sends before this one */
    uint64_t sq_data;                /* no send from this one on carries a slot */
    struct gpuring_verbs_sent *sent; /* [send_room], by the send's number */
    uint64_t active_ns;              /* time of link_ready, or when `active` was last found */
    bool active;                     /* a completion has arrived since then */
    int refused;                     /* errno of a lane that did not connect, until link_ready */
    /* Valid after the rail has failed: */
    uint64_t failed_ns;
    const struct gpuring_verbs_rail *reports_on; /* the rail that carries our report; NULL: none */
    unsigned reported;  /* links whose part of the report was sent, by number */
    bool reported_all;  /* LOST was sent */
    bool peer_reported; /* the peer's LOST was received */
    bool repeating;     /* sends before sq_done have arrived or were repeated; none completes now */
    /* Slots in GPU memory that need flushing, by number: those before `flushing` are covered by the
     * read in progress. */
    struct ibv_qp *flush_qp;             /* connected with itself; NULL if not needed */
    struct gpuring_verbs_landed *landed; /* [landed_room] */
    unsigned landed_room;
    uint64_t landed_count, flushing, flushed;
    bool flush_busy;
    const struct gpuring_net_link *flush_link; /* whose memory the read in progress reads */
    bool flush_last;                           /* the flush after the rail's failure is done */
};

struct gpuring_verbs_endpoint {
    struct gpuring_net *net;
    uint32_t index;          /* in net->endpoint */
    unsigned nlanes, nrails; /* lanes come first */
    struct gpuring_verbs_rail rail[GPURING_VERBS_MAX_RAILS];
    struct gpuring_verbs_address mine[GPURING_VERBS_MAX_RAILS], peer[GPURING_VERBS_MAX_RAILS];
    struct gpuring_net_peer key; /* the peer's process and device */
    int device;                  /* index of this end's */
    bool retired;                /* new links must not use it */
    uint64_t id, peer_id;        /* numbers of both ends in their processes; 0: not connected */
    unsigned send_room, receive_room; /* of each rail, in operations */
    unsigned repost_at;               /* receives that are left when more are posted */
    unsigned cq_room;                 /* both, and a flush */
    unsigned turn;                    /* lane for the next slot */
    unsigned heard_on; /* number of the last rail on which a head or a control message arrived */
    struct gpuring_net_link **links; /* by number; NULL: free */
    uint32_t nlinks;
    char peer_name[128];
    bool connected;  /* the gate guards the endpoint, no longer `making` */
    bool ready;      /* the peer is connected as well */
    bool failed;     /* no rail is left, or an error that no other rail would survive */
    bool recovering; /* the failure of a rail is still being handled */
};

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    struct gpuring_verbs_endpoint *endpoint;
    uint32_t number, peer_number; /* of the link at both ends */
    struct gpuring_verbs_mr *mr[GPURING_VERBS_MAX_RAILS];
    uint32_t rkey[GPURING_VERBS_MAX_RAILS];      /* the peer's, of its slots */
    uint64_t peer_slots[GPURING_PROTOCOL_COUNT]; /* addresses */
    uint32_t block[GPURING_PROTOCOL_COUNT];      /* bytes of a block, see above */
    struct gpuring_verbs_handle mine;
    unsigned in_flight;   /* slots in the logs of the rails */
    unsigned used;        /* bits 1 << rail, with a message for the link */
    bool on_gpu, flushes; /* the slots are in GPU memory, and arrivals need a flush */
    bool connected;       /* the gate guards the link, no longer `making` */
    bool ready;           /* the peer is connected as well */
    int aborts;           /* status of which the peer must be notified; 0: none */
    bool left;            /* BYE was posted or will be, so nothing else may be posted */
    bool peer_knows;      /* the peer has received BYE, or even used the link's number again */
    bool closing; /* link_holds has returned false, or will when no flush reads the memory */
    unsigned bye; /* rails that carry our BYE; 0: none yet, or they have failed */
    uint64_t bye_at[GPURING_VERBS_MAX_RAILS]; /* sq_posted after it; 0: it must be posted */
    unsigned peer_bye;                        /* rails whose BYE the peer has announced */
    unsigned peer_bye_seen;                   /* those that have delivered it */
    bool peer_closed;                         /* all of them have, or have failed */
};

struct gpuring_net {
    struct gpuring_net_base base;
    struct gpuring_net_config config;
    struct gpuring_verbs_adapter *adapters;
    struct gpuring_verbs_port *ports;   /* in the order of their networks, equal on similar hosts */
    struct gpuring_net_devices devices; /* one per port, in the same order */
    struct gpuring_verbs_endpoint **endpoint; /* NULL: free entry */
    uint32_t nendpoints;
    uint64_t created_endpoints;
    int epoll; /* all completion channels */
    pthread_mutex_t making;
    uint64_t watched_ns; /* time of the last check of idle rails */
    unsigned unwatched;  /* empty polls until the clock is read for the next one */
    unsigned recovering; /* number of endpoints that are recovering */
};

/* Loop over all endpoints of a net, and over all links of an endpoint. */
#define VERBS_EACH_ENDPOINT(net, ep)                             \
    for (uint32_t each_ = 0; each_ < (net)->nendpoints; each_++) \
        if (((ep) = (net)->endpoint[each_]) != NULL)
#define VERBS_EACH_LINK(ep, link)                        \
    for (unsigned one_ = 0; one_ < (ep)->nlinks; one_++) \
        if (((link) = (ep)->links[one_]) != NULL)

static inline struct gpuring_net *gpuring_verbs_net(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

static inline bool gpuring_verbs_has_failed(const struct gpuring_verbs_rail *rail)
{
    return rail->state >= GPURING_VERBS_DRAINING;
}

/* Fields of the immediate values drawn above. */
#define VERBS_IMM_CONTROL      3u
#define VERBS_IMM_LINK_BITS    14
#define VERBS_IMM_BLOCKS_AT    VERBS_IMM_LINK_BITS
#define VERBS_IMM_BLOCKS_BITS  7
#define VERBS_IMM_STEP_AT      21
#define VERBS_IMM_STEP_BITS    4
#define VERBS_IMM_PAIR_AT      25
#define VERBS_IMM_PAIR_BITS    4 /* in data messages: the head of the pair */
#define VERBS_IMM_HAS_HEAD     (UINT32_C(1) << 29)
#define VERBS_IMM_HEAD_AT      VERBS_IMM_LINK_BITS
#define VERBS_IMM_HEAD_BITS    16
#define VERBS_IMM_NUMBER_AT    VERBS_IMM_LINK_BITS
#define VERBS_IMM_NUMBER_BITS  12
#define VERBS_IMM_PROTOCOL_AT  26
#define VERBS_IMM_KIND_AT      28
#define VERBS_LOW(value, bits) ((uint32_t) (value) & ((UINT32_C(1) << (bits)) - 1))

_Static_assert(GPURING_PROTOCOL_COUNT <= VERBS_IMM_CONTROL, "two bits of the immediate value");
_Static_assert(GPURING_VERBS_MAX_RAILS <= VERBS_IMM_NUMBER_BITS, "a bit for each rail in BYE");
_Static_assert(GPURING_VERBS_MAX_SLOTS < 1 << VERBS_IMM_STEP_BITS, "counts differ by the slots");
_Static_assert(VERBS_IMM_STEP_BITS + GPURING_VERBS_MAX_SLOTS <= VERBS_IMM_NUMBER_BITS, "ARRIVED");

/*
 * Work request ids:  | index of the endpoint | rail | receive | flush | bits of a number |
 *                     63                   32 31  29 28        27      26              0
 */
#define VERBS_ID_RAIL_AT 29
#define VERBS_ID_RECEIVE (UINT64_C(1) << 28)
#define VERBS_ID_FLUSH   (UINT64_C(1) << 27)
#define VERBS_ID_NUMBER  (VERBS_ID_FLUSH - 1)

static inline unsigned gpuring_verbs_rail_number(const struct gpuring_verbs_endpoint *ep,
                                                 const struct gpuring_verbs_rail *rail)
{
    return (unsigned) (rail - ep->rail);
}

static inline uint64_t gpuring_verbs_id(const struct gpuring_verbs_endpoint *ep,
                                        const struct gpuring_verbs_rail *rail, uint64_t low)
{
    return (uint64_t) ep->index << 32 |
           (uint64_t) gpuring_verbs_rail_number(ep, rail) << VERBS_ID_RAIL_AT | low;
}

/* net/verbs/port.c: adapters and ports */
int gpuring_verbs_discover(struct gpuring_net *net);
void gpuring_verbs_forget(struct gpuring_net *net);

/* net/verbs/endpoint.c: the life of an endpoint. Call with `making`. */
/* Return the endpoint between two devices, which is created if there is none without failed rails.
 */
int gpuring_verbs_endpoint_get(struct gpuring_net *net, int device,
                               const struct gpuring_net_peer *peer,
                               struct gpuring_verbs_endpoint **endpoint);
/* Connect with the peer's endpoint that the handle describes, unless it is connected. Returns
 * GPURING_ERR_STALE if either end is connected with another one, or if a rail has failed. */
int gpuring_verbs_endpoint_connect(struct gpuring_verbs_endpoint *ep,
                                   const struct gpuring_verbs_handle *peer, const char *peer_name);
/* Return true if new links may use the endpoint. Gate. */
bool gpuring_verbs_endpoint_whole(const struct gpuring_verbs_endpoint *ep);
/* Release the endpoint if new links would not use it and it has no links. */
void gpuring_verbs_endpoint_put(struct gpuring_verbs_endpoint *ep);
/* Destroy the queue pairs of a failed endpoint, so that its device no longer accesses memory.
 * Returns false if the device refuses this. */
bool gpuring_verbs_endpoint_stop(struct gpuring_verbs_endpoint *ep);
void gpuring_verbs_endpoint_release(struct gpuring_verbs_endpoint *ep);

/* net/verbs/verbs_link.c: the life of a link */
int gpuring_verbs_link_create(struct gpuring_net *net, int device,
                              const struct gpuring_net_peer *peer,
                              enum gpuring_net_direction direction,
                              const struct gpuring_net_memory *memory,
                              struct gpuring_net_link **link);
size_t gpuring_verbs_link_handle(const struct gpuring_net_link *link, void *handle);
int gpuring_verbs_link_connect(struct gpuring_net_link *link, const void *process_handle,
                               size_t process_bytes, const void *handle, size_t bytes,
                               const char *peer_name);
int gpuring_verbs_link_leave(struct gpuring_net_link *link);
bool gpuring_verbs_link_whole(struct gpuring_net_link *link);
bool gpuring_verbs_link_holds(struct gpuring_net_link *link);
void gpuring_verbs_link_close(struct gpuring_net_link *link);

/* net/verbs/memory.c: registration, completion queues. Call get and put with `making`. */
int gpuring_verbs_mr_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         const struct gpuring_net_memory *memory, struct gpuring_verbs_mr **mr);
void gpuring_verbs_mr_put(struct gpuring_verbs_mr *mr);
int gpuring_verbs_cq_get(struct gpuring_net *net, struct gpuring_verbs_adapter *adapter,
                         unsigned entries, struct gpuring_verbs_cq **cq);
void gpuring_verbs_cq_put(struct gpuring_net *net, struct gpuring_verbs_cq *cq, unsigned entries);
/* Register the page of an adapter that empty messages and flushing reads write to. */
int gpuring_verbs_page_get(const struct gpuring_net *net, struct gpuring_verbs_adapter *adapter);
int gpuring_verbs_device_memory(struct gpuring_net *net, int device,
                                const struct gpuring_net_memory *memory);

/* net/verbs/rail.c: the life of a queue pair. If create fails, rail_release releases the objects
 * that were created before. Create returns GPURING_AGAIN, without a message, if the device has no
 * more queue pairs. */
int gpuring_verbs_rail_create(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                              struct gpuring_verbs_port *port);
/* Prepare to flush the arrivals of another link. */
int gpuring_verbs_rail_flushes(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
/* Return the address that the peer connects the rail with. */
struct gpuring_verbs_address gpuring_verbs_rail_address(const struct gpuring_verbs_rail *rail);
/* Check that a port offers reliable connections: connect a queue pair with itself. Returns 0 or an
 * errno. */
int gpuring_verbs_port_prove(const struct gpuring_net *net, const struct gpuring_verbs_port *port);
/* Connect with the peer's rail of the same number. Returns 0 or an errno. */
int gpuring_verbs_rail_connect(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
void gpuring_verbs_rail_release(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
/* Destroy the queue pair that carries slots. Returns 0 or an errno. */
int gpuring_verbs_rail_destroy_qp(struct gpuring_verbs_rail *rail);
/* Destroy all queue pairs of a rail. Takes the gate, but not while it destroys them. Returns false
 * if the device refuses this. */
bool gpuring_verbs_rail_stop(const struct gpuring_verbs_endpoint *ep,
                             struct gpuring_verbs_rail *rail);

/* net/verbs/post.c: posting */
int gpuring_verbs_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                       uint32_t bytes, bool more, uint64_t head);
int gpuring_verbs_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                         uint64_t head);
/* Report to the peer that this end of the link gives up, now or when there is room. */
void gpuring_verbs_abort(struct gpuring_net_link *link, int status);
/* Post the report if it is due. Returns false if there is no room. */
bool gpuring_verbs_say_abort(struct gpuring_net_link *link);
/* Probe idle rails. slept: the net was not polled for a while, so silence proves nothing. */
void gpuring_verbs_probe_idle(struct gpuring_net *net, uint64_t now, bool slept);
/* Probe the idle rails of one endpoint. */
void gpuring_verbs_probe_endpoint(struct gpuring_verbs_endpoint *ep, uint64_t now, bool slept);
/* Send an empty message with a completion. */
void gpuring_verbs_probe(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
/* Repeat a slot, or post a credit or a control message. Returns as the net's post. */
int gpuring_verbs_repeat_slot(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                              uint64_t step, uint32_t bytes);
int gpuring_verbs_post_credit(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                              enum gpuring_protocol protocol, uint64_t head);
enum gpuring_verbs_control {
    GPURING_VERBS_BYE,     /* the number is the set of rails that carry it */
    GPURING_VERBS_ARRIVED, /* the number: a count, then one bit for each later step that has arrived
                            */
    GPURING_VERBS_LOST,    /* the number is that of the rail; for all links */
    GPURING_VERBS_ABORT,   /* the number is the status, positive */
};
/* link: the peer's number of the link. */
int gpuring_verbs_post_control(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *on,
                               enum gpuring_verbs_control kind, uint32_t link, unsigned protocol,
                               uint64_t number);
/* Post `count` receives. Returns 0 or an errno. */
int gpuring_verbs_receives(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                           unsigned count);

/* net/verbs/complete.c: completions */
/* Process completions. Returns their number. */
int gpuring_verbs_completions(struct gpuring_net *net);

/* net/verbs/flush.c: slots in GPU memory */
/* Flush a slot that has arrived, immediately or together with the next ones. */
void gpuring_verbs_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint64_t step);
/* Handle the completion of a flush. */
void gpuring_verbs_flushed(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
/* Flush the writes of a failed rail, so that they cannot become visible after the writes of another
 * rail. Returns true when this is done, or when the device cannot do it. */
bool gpuring_verbs_flush_last(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail);
/* Fail the endpoint because the last flush of a rail failed: slots are lost that the peer counts as
 * arrived. */
void gpuring_verbs_flush_failed(struct gpuring_verbs_endpoint *ep,
                                const struct gpuring_verbs_rail *rail);
/* Return true if arrivals of the link have not been flushed, so that they may still be on their way
 * to its memory. */
bool gpuring_verbs_flush_pending(const struct gpuring_net_link *link);
/* Return true if a flush reads memory of the link. */
bool gpuring_verbs_flush_reads(const struct gpuring_net_link *link);
/* Forget the arrivals of a link that is closed. */
void gpuring_verbs_flush_forget(struct gpuring_net_link *link);

/* net/verbs/verbs_fail.c: rails, links and endpoints that fail */
/* Return the first rail that is up, or NULL. */
struct gpuring_verbs_rail *gpuring_verbs_first_up(struct gpuring_verbs_endpoint *ep);
/* Return true if a link is connected and the peer has not closed it. */
bool gpuring_verbs_in_use(const struct gpuring_verbs_endpoint *ep);
/* Find out whether the peer has closed the link, after a BYE has arrived or a rail has failed. */
void gpuring_verbs_link_heard_bye(struct gpuring_net_link *link);
/* Mark a rail as failed for the given reason. The endpoint continues on another rail, or fails. */
void gpuring_verbs_rail_fail(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                             const char *what, const char *remedy);
void gpuring_verbs_rail_fail_wc(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                                const struct ibv_wc *wc);
/* Fail all links of the endpoint. */
void gpuring_verbs_endpoint_fail(struct gpuring_verbs_endpoint *ep,
                                 const struct gpuring_verbs_rail *rail, int status,
                                 const char *what, const char *remedy);
/* Fail one link. */
void gpuring_verbs_link_fail(struct gpuring_net_link *link, const struct gpuring_verbs_rail *rail,
                             int status, const char *what, const char *remedy);
/* Return advice for the user about the status of a failed completion. Pure. */
const char *gpuring_verbs_remedy(enum ibv_wc_status status);
void gpuring_verbs_start_recovery(struct gpuring_verbs_endpoint *ep);

/* net/verbs/failover.c: recovery */
/* Handle ARRIVED: of the slots sent on failed rails, the peer has all steps before `count`, and
 * step count + n for each bit n of `early`. Handling a report twice is harmless. */
void gpuring_verbs_peer_has(struct gpuring_net_link *link, unsigned protocol, uint64_t count,
                            uint32_t early);
/* Handle LOST. */
void gpuring_verbs_peer_lost(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *lost);
/* The net's link_ready. Lanes that did not connect now count as failed, because the peer is ready
 * to receive the report. */
void gpuring_verbs_ready(struct gpuring_net_link *link);
/* The same when a slot or a credit of the link has arrived. Gate. */
void gpuring_verbs_peer_is_ready(struct gpuring_net_link *link);
/* Take the sends of a link that is closed out of the logs. They may still be in flight. */
void gpuring_verbs_forget_sends(struct gpuring_net_link *link);
/* Advance the recovery of all endpoints that are recovering. */
void gpuring_verbs_recover(struct gpuring_net *net);

/* net/verbs/events.c: asynchronous events of the adapters */
void gpuring_verbs_events(struct gpuring_net *net);

#endif
