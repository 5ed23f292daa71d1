/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inside of the net `ucx`: one worker per process; an endpoint per peer process, shared by all
 * links to it and kept until the net is closed; links, which are no more than an id at each end.
 *
 * A slot travels as an active message with a header; UCX sends it eagerly (it is then copied from
 * UCX's buffer into the slot) or by rendezvous (straight from slot to slot), as it thinks best.
 * UCX does not order active messages of different sizes, so the receiving end does.
 *
 * Everything below is guarded by the gate. UCX calls back only from its progress, flush and
 * send functions, hence always under the gate.
 */
#ifndef GPURING_NET_UCX_INTERNAL_H
#define GPURING_NET_UCX_INTERNAL_H

#include <ucp/api/ucp.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/util/list.h"

#define GPURING_UCX_FUNCTIONS(F)      \
    F(ucp_get_version)                \
    F(ucp_config_read)                \
    F(ucp_config_modify)              \
    F(ucp_config_release)             \
    F(ucp_init_version)               \
    F(ucp_cleanup)                    \
    F(ucp_context_query)              \
    F(ucp_worker_create)              \
    F(ucp_worker_destroy)             \
    F(ucp_worker_get_address)         \
    F(ucp_worker_release_address)     \
    F(ucp_worker_progress)            \
    F(ucp_worker_get_efd)             \
    F(ucp_worker_arm)                 \
    F(ucp_worker_flush_nbx)           \
    F(ucp_worker_set_am_recv_handler) \
    F(ucp_ep_create)                  \
    F(ucp_ep_close_nbx)               \
    F(ucp_am_send_nbx)                \
    F(ucp_am_recv_data_nbx)           \
    F(ucp_request_check_status)       \
    F(ucp_request_free)               \
    F(ucs_status_string)

#define GPURING_UCX_MEMBER(name) __typeof__(name) *name;
struct gpuring_ucx {
    GPURING_UCX_FUNCTIONS(GPURING_UCX_MEMBER)
};
#undef GPURING_UCX_MEMBER

/* UCX, loaded at run time: constant once gpuring_ucx_load has succeeded. */
extern struct gpuring_ucx gpuring_ucx;

/* 0, or GPURING_ERR_UNSUPPORTED; *why then says what is missing. Loads once in a process. */
int gpuring_ucx_load(const char **why);

/* The same into `table` from any library, each time anew; for the above and for tests. */
int gpuring_ucx_load_from(const char *library, struct gpuring_ucx *table, char *why, size_t size);

/*
 * Header of a message, in the byte order of the hosts (they compare theirs in AllGather 1):
 *   0        8        16       24      28         30
 *   | link   | step   | head   | bytes | protocol | kind |
 */
enum gpuring_ucx_kind { GPURING_UCX_DATA, GPURING_UCX_CREDIT, GPURING_UCX_ABORT };

struct gpuring_ucx_header {
    uint64_t link; /* the receiver's id of it */
    uint64_t step; /* of an abort: -gpuring_status */
    uint64_t head; /* of a credit; of data: of the link's pair, 0 if it has none */
    uint32_t bytes;
    uint16_t protocol;
    uint16_t kind;
};
_Static_assert(sizeof(struct gpuring_ucx_header) == 32, "travels between processes");

/* A send or a rendezvous receive in progress. */
struct gpuring_ucx_op {
    struct gpuring_net_link *link;
    struct gpuring_ucx_header header; /* UCX reads it until the send is complete */
    bool busy;
};

struct gpuring_ucx_peer {
    struct gpuring_list node; /* in the net's peers */
    struct gpuring_net *net;
    ucp_ep_h ep;
    int status;              /* 0, or GPURING_ERR_* once the endpoint failed */
    ucs_status_t ucx_status; /* why */
    void *closing;           /* request of the close, while the net closes */
    size_t bytes;
    uint8_t address[]; /* of its worker: unique, and the handle of its process */
};

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    struct gpuring_ucx_peer *peer; /* NULL until connected */
    uint64_t peer_id;              /* the peer's base.id of it, which is what its handle has */
    /* [2 * nslots] by step: sends of slots or credits, then rendezvous receives */
    struct gpuring_ucx_op *ops[GPURING_PROTOCOL_COUNT];
    struct gpuring_ucx_op abort;
    unsigned busy; /* operations that UCX has not completed */
};

struct gpuring_net {
    struct gpuring_net_base base;
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    bool no_rdma;      /* it leaves RDMA devices alone */
    bool tcp;          /* slots go between nodes by nothing else */
    char *net_devices; /* value of UCX's NET_DEVICES that this net has set, NULL: none */
    unsigned opened;   /* descriptors that were open when the net was */
    unsigned npeers;
    struct gpuring_net_devices devices;
    struct gpuring_list peers;
    bool dirty;  /* something was sent since the last flush began */
    void *flush; /* request of a flush under way */
};

static inline struct gpuring_net *gpuring_ucx_net(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

/* net/ucx/ucx.c. UCX aborts the process where it runs out of descriptors amid its work: are there
 * enough for so many more peers? 0 or GPURING_ERR_FILES, with a log line. */
int gpuring_ucx_check_descriptors(const struct gpuring_net *net, unsigned more);

/* net/ucx/link.c: endpoints and links */
/* Close all endpoints: in good order, but by force those that failed or take longer than 1 s. */
void gpuring_ucx_peers_close(struct gpuring_net *net);
int gpuring_ucx_link_create(struct gpuring_net *net, int device,
                            enum gpuring_net_direction direction,
                            const struct gpuring_net_memory *memory,
                            struct gpuring_net_link **link);
size_t gpuring_ucx_link_handle(const struct gpuring_net_link *link, void *handle);
int gpuring_ucx_link_connect(struct gpuring_net_link *link, const void *process_handle,
                             size_t process_bytes, const void *handle, size_t bytes,
                             const char *peer_name);
int gpuring_ucx_link_leave(struct gpuring_net_link *link);
void gpuring_ucx_link_close(struct gpuring_net_link *link);
void gpuring_ucx_link_fail(struct gpuring_net_link *link, int status, const char *why);

/* net/ucx/data.c: the data path */
int gpuring_ucx_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                     uint32_t bytes, bool more, uint64_t head);
int gpuring_ucx_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol,
                       uint64_t head);
void gpuring_ucx_abort(struct gpuring_net_link *link, int status);
ucs_status_t gpuring_ucx_receive(void *net, const void *header, size_t header_bytes, void *data,
                                 size_t bytes, const ucp_am_recv_param_t *param);

#endif
