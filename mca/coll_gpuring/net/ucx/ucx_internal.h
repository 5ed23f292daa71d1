/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internals of the net `ucx`. Each process has one worker, and one endpoint per peer process. All
 * links to a peer share its endpoint, which is kept until the net is closed. A link is only an id
 * at each end.
 *
 * A slot is sent as an active message with a header. UCX chooses whether it sends the slot eagerly,
 * in which case it is copied from UCX's buffer to the receiver's slot, or with a rendezvous, which
 * writes directly from slot to slot. UCX does not order active messages of different sizes, so the
 * receiving end orders them.
 *
 * The gate guards everything in this file. UCX calls back only from its progress, flush, send and
 * receive functions, which are called under the gate.
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

/* UCX, loaded at run time. Constant after gpuring_ucx_load has succeeded. */
extern struct gpuring_ucx gpuring_ucx;

/* Load UCX, once per process. Returns 0, or GPURING_ERR_UNSUPPORTED and the reason in *why. */
int gpuring_ucx_load(const char **why);

/* Load UCX's functions from a library into `table`. Used by gpuring_ucx_load and by tests. */
int gpuring_ucx_load_from(const char *library, struct gpuring_ucx *table, char *why, size_t size);

/*
 * The header of a message, in the byte order of the hosts, which is compared in AllGather 1:
 *   0        8        16       24      28         30
 *   | link   | step   | head   | bytes | protocol | kind |
 */
enum gpuring_ucx_kind { GPURING_UCX_DATA, GPURING_UCX_CREDIT, GPURING_UCX_ABORT };

struct gpuring_ucx_header {
    uint64_t link; /* the receiver's id of the link */
    uint64_t step; /* in an abort: -gpuring_status */
    uint64_t head; /* the credit; in data: the credit for the link's pair, 0 if it has no pair */
    uint32_t bytes;
    uint16_t protocol;
    uint16_t kind;
};
_Static_assert(sizeof(struct gpuring_ucx_header) == 32, "travels between processes");

/* A send, or a receive of a rendezvous. */
struct gpuring_ucx_op {
    struct gpuring_net_link *link;
    struct gpuring_ucx_header header; /* UCX reads it until the send is complete */
    bool busy;
};

struct gpuring_ucx_peer {
    struct gpuring_list node; /* in the net's list of peers */
    struct gpuring_net *net;
    ucp_ep_h ep;
    int status;              /* 0, or GPURING_ERR_* if the endpoint has failed */
    ucs_status_t ucx_status; /* UCX's reason for that */
    void *closing;           /* request of the close, while the net closes */
    size_t bytes;
    uint8_t address[]; /* of the peer's worker; unique, and the handle of its process */
};

struct gpuring_net_link {
    struct gpuring_net_base_link base;
    struct gpuring_ucx_peer *peer; /* NULL before the link is connected */
    uint64_t peer_id;              /* the peer's base.id of the link, from the peer's handle */
    /* [2 * nslots] by step: sends of slots or credits, followed by receives of a rendezvous */
    struct gpuring_ucx_op *ops[GPURING_PROTOCOL_COUNT];
    struct gpuring_ucx_op abort;
    unsigned busy; /* operations that UCX has not completed */
    bool closed;   /* the last of these frees the link */
};

struct gpuring_net {
    struct gpuring_net_base base;
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    bool no_rdma; /* UCX was configured not to use RDMA devices */
    struct gpuring_net_devices devices;
    struct gpuring_list peers;
    bool dirty;  /* messages were sent since the last flush began */
    void *flush; /* request of a flush in progress, or NULL */
};

static inline struct gpuring_net *gpuring_ucx_net(const struct gpuring_net_link *link)
{
    return (struct gpuring_net *) link->base.net;
}

/* net/ucx/ucx_link.c: endpoints and links */
/* Close all endpoints. Failed endpoints are closed by force. Stop waiting after 1 s in total. */
void gpuring_ucx_peers_close(struct gpuring_net *net);
int gpuring_ucx_link_create(struct gpuring_net *net, int device,
                            const struct gpuring_net_peer *peer,
                            enum gpuring_net_direction direction,
                            const struct gpuring_net_memory *memory,
                            struct gpuring_net_link **link);
size_t gpuring_ucx_link_handle(const struct gpuring_net_link *link, void *handle);
int gpuring_ucx_link_connect(struct gpuring_net_link *link, const void *process_handle,
                             size_t process_bytes, const void *handle, size_t bytes,
                             const char *peer_name);
int gpuring_ucx_link_leave(struct gpuring_net_link *link);
bool gpuring_ucx_link_holds(struct gpuring_net_link *link);
void gpuring_ucx_link_close(struct gpuring_net_link *link);
void gpuring_ucx_link_free(struct gpuring_net_link *link);
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
