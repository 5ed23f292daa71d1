/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Shared by the files of transport/.
 *
 * Memory of a rank, allocations of the same block format:
 *   peer region (device memory, exported): one block per connection with a rank of this node; on
 *                devices whose peer memory is probed, preceded by one probe block and one line
 *                block per rank of the node (probe.c, line_test.c)
 *   staged region (host memory, exported): replaces the peer region, at the same offsets, between
 *                ranks whose devices cannot access each other; only its used parts need memory
 *   net region (registered with the net):  one block per connection with another node
 *   direct region (device memory, registered with the net): the slots of connections whose network
 *                device can access it (remote.c); their blocks in the net region have no slots
 *
 *   block: | head[protocol] 128 B each | tail[protocol] 384 B each | pad to page
 *          | slots[protocol 0] | slots[protocol 1] | ...
 *          the short slots of LL are on the page before its slots
 *
 * In the peer region, a sending end has only the heads, and the heads of a receiving end are not
 * used. Every part starts at a multiple of 128 bytes, and slots start on a page.
 */
#ifndef GPURING_TRANSPORT_INTERNAL_H
#define GPURING_TRANSPORT_INTERNAL_H

#include <stdbool.h>

#include "mca/coll_gpuring/transport/transport.h"

#define GPURING_TRANSPORT_PAGE 4096 /* of slots; any power of two that is a multiple of 128 */
#define GPURING_HOSTNAME_BYTES 64

/* Step 0 of protocol simple is the first chunk of a connection between nodes, see first_chunk.c. */
#define GPURING_TRY_STEPS 1

/* Byte offsets within a block of a plan. */
struct gpuring_conn_block {
    size_t slots[GPURING_PROTOCOL_COUNT];
    size_t bytes; /* of the whole block, a multiple of GPURING_TRANSPORT_PAGE */
};
#define GPURING_HEADS_BYTES (GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_head))
static inline struct gpuring_fifo_head *gpuring_block_head(uint8_t *block, unsigned protocol)
{
    return (struct gpuring_fifo_head *) (void *) block + protocol;
}
static inline struct gpuring_fifo_tail *gpuring_block_tail(uint8_t *block, unsigned protocol)
{
    return (struct gpuring_fifo_tail *) (void *) (block + GPURING_HEADS_BYTES) + protocol;
}

/*
 * The status page: one per rank and communicator, in host memory that the ranks of the node map.
 * Peers read the activity of this rank there, and stop it through the abort word.
 *
 *   0         16      20         24          32         40       48     52
 *   | id[2]   | abort | activity | operation | on_hosts | on_gpu | core | mappings |
 *
 *   56      64          72           80                         592
 *   | voted | last_open | last_known | ballots[GPURING_BALLOTS] | made[GPURING_OPERATIONS_KEPT] |
 */
#define GPURING_BALLOTS         64
#define GPURING_OPERATIONS_KEPT 64
struct gpuring_status_page {
    uint64_t id[2];     /* of the wire-up; constant after creation */
    uint32_t abort;     /* written by any rank with release, polled by the executor (acquire) */
    uint32_t activity;  /* written by the owner (relaxed), read by peers for messages only */
    uint64_t operation; /* written by the owner with release, after its word in `made` */
    /* Numbers of the last calls on this communicator with host buffers and with GPU buffers; all
     * ranks count in the same way. Written by the owner, on_hosts with release after an earlier
     * on_gpu. */
    uint64_t on_hosts, on_gpu;
    uint32_t core;     /* of the owner when it last entered an operation, + 1; 0: unknown */
    uint32_t mappings; /* peers that have the owner's device memory mapped; see region.c */
    /* The owner's votes in calls up to `voted`, see votes.c. `ballots` has votes other than HOST,
     * by number modulo GPURING_BALLOTS; the last of these is in call `last_open`. The owner knows
     * the results of calls up to `last_known`. */
    uint64_t voted, last_open, last_known, ballots[GPURING_BALLOTS];
    /* Words of the owner's last operations, by number modulo GPURING_OPERATIONS_KEPT:
     * activity.c. */
    uint64_t made[GPURING_OPERATIONS_KEPT];
};
_Static_assert(sizeof(struct gpuring_status_page) == 1104, "shared between processes");

/* One end of one connection. */
struct gpuring_conn {
    enum gpuring_net_direction direction;
    int plan;
    int peer; /* rank */
    uint32_t key;
    bool remote;
    size_t offset;      /* of its block in the region */
    size_t peer_offset; /* of the other end's block; local connections, once known */

    /* Remote connections only: */
    int net_device;
    struct gpuring_net_peer net_peer;
    bool may_direct; /* the NIC may be able to access the device's memory */
    uint8_t *direct; /* its slots in the direct region; NULL: they are in its block */
    struct gpuring_net_link *link;
    uint32_t used; /* bits 1 << protocol, as given to the proxy */
    int failed;    /* written by the proxy with release, read by health with acquire */
};

/* Another rank that this rank is connected with. */
struct gpuring_peer {
    int rank;
    bool remote;
    uint32_t pid;
    char hostname[GPURING_HOSTNAME_BYTES];
    int local_rank;       /* among the ranks of its node */
    char gpu[16];         /* PCI bus id; empty for the host device */
    uint8_t *region;      /* its peer region, mapped here; NULL if remote or not mapped */
    bool unmappable;      /* the topology rules out a mapping */
    bool mutually_mapped; /* both ranks could map each other's region */
    bool proven;          /* the pattern of the probe has arrived in both directions */
    bool host_fallback;   /* this pair uses the staged regions */
    uint8_t *staged;      /* its staged region, mapped here and for the device; NULL if unused */
    struct gpuring_device_handle staged_handle;
    struct gpuring_status_page *page; /* its status page, mapped here; NULL if remote */
    struct gpuring_transport_connect_info connect_info;
};

/* One plan: the position of its connections in the tables, and its steps for executors. */
struct gpuring_plan_ends {
    const struct gpuring_plan *plan;
    uint32_t first_recv, first_send; /* in `conns` and in `fifos` */
    struct gpuring_fifo_config fifo;
    struct gpuring_conn_block block;  /* of its connections */
    const struct gpuring_step *steps; /* of all lanes, uploaded */
    const uint16_t *refs;
    const struct gpuring_lane *lanes[GPURING_PROTOCOL_COUNT]; /* NULL: no slots */
    void *tables; /* memory of these tables if the plan was added later */
};

/* The connections that the network progresses; see gpuring_transport_use. */
struct gpuring_lanes_used {
    int plan;
    uint32_t nlanes; /* 0: none */
    enum gpuring_protocol protocol;
};

struct gpuring_transport {
    struct gpuring_transport_config config; /* node pointer is not kept */
    char hostname[GPURING_HOSTNAME_BYTES];
    char gpu[16];                   /* PCI bus id; empty for the host device */
    struct gpuring_plan_ends *ends; /* [nplans + GPURING_TRANSPORT_MORE]; plan NULL: unused */
    int nplans;

    struct gpuring_conn *conns; /* all receiving ends, then all sending ends */
    uint32_t nconns;
    uint32_t nremote;                 /* connections with other nodes that are not closed */
    struct gpuring_proxy_group group; /* group of the links; zeroed if there are none */
    struct gpuring_lanes_used used;
    bool keeps, kept, keeps_repeated;    /* gpuring_transport_keep: it was called; operations are in
                                            progress; some are repeated without the host */
    struct gpuring_fifo_end *fifos;      /* [protocol][nconns], as connected */
    struct gpuring_fifo_end *exec_fifos; /* the uploaded copy of fifos */
    void *tables;                        /* for executors */

    struct gpuring_peer *peers; /* sorted by rank */
    int npeers;

    uint8_t *region;
    size_t region_bytes;
    uint8_t *staged;            /* this rank's staged region; NULL if peers are not probed */
    bool host_fallback_reached; /* the device can access the staged region */
    int local_rank;             /* among the ranks of its node */
    int nlocal;                 /* ranks of this node */
    int most_local;             /* maximum number of ranks of a node */
    bool probes;                /* peer memory is probed before it is used */
    uint32_t torn_plans;        /* bits 1 << plan, for plans with a pair that uses staged regions,
                                   or does not keep 128-byte stores whole */
    uint8_t *marks; /* this rank's part of a report of the probe: a bit per local rank */
    struct gpuring_line_test *line_test; /* NULL unless the test is running */
    uint8_t *net_region;
    size_t net_region_bytes;
    uint8_t *direct_region;              /* NULL: all slots are in the net region */
    struct gpuring_lingering *lingering; /* for gpuring_linger_add; NULL: no links, or added */
    size_t direct_bytes;
    uint32_t ndirect;                     /* ends with slots in direct_region */
    struct gpuring_device_nic direct_nic; /* during create only */
    double try_until; /* time limit of gpuring_transport_try; 0: not begun, or ended on all ranks */
    struct gpuring_device *host; /* for the status page; equal to the device if that is the host */
    bool own_host;
    struct gpuring_status_page *page;
    bool page_reached; /* executors of the device can read the abort word */
    /* Numbers of calls and votes of earlier communicators, which precede those of this one on the
     * status pages. */
    uint64_t earlier_calls, earlier_votes;
};

/*
 * connect_info.c: the format of a connect info, which describes connections to a neighbour
 *
 *   | header | entry | entry | ... | process handle | link handles ... |
 *
 * Each entry describes an end: inside a node the offset of its block in the peer region, and
 * between nodes the position and length of its link's handle in the connect info.
 */
/*
 *  0       16        24    28         92    108      188      268    348
 *  | id[2] | entries | pid | hostname | gpu | region | staged | page | process |
 */
struct gpuring_connect_info_header {
    uint64_t id[2];
    uint32_t nentries;
    uint32_t pid;
    char hostname[GPURING_HOSTNAME_BYTES];
    char gpu[16]; /* PCI bus id, for messages */
    struct gpuring_device_handle region;
    struct gpuring_device_handle staged;
    struct gpuring_device_handle page;
    uint32_t process_offset; /* from the connect info's start */
    uint32_t process_bytes;
};
_Static_assert(sizeof(struct gpuring_connect_info_header) == 352, "travels between ranks");

struct gpuring_connect_info_entry {
    uint16_t direction; /* enum gpuring_net_direction of the owner */
    uint16_t plan;
    uint32_t key;
    uint64_t handle_bytes; /* remote: length of the link's handle */
    uint64_t offset;       /* local: block in the peer region; remote: handle in the connect info */
};
_Static_assert(sizeof(struct gpuring_connect_info_entry) == 24, "travels between ranks");

/* Build the connect infos for all peers. */
int gpuring_connect_info_build(struct gpuring_transport *transport);

/* A received connect info with its header. */
struct gpuring_connect_info {
    const uint8_t *data;
    size_t bytes;
    struct gpuring_connect_info_header header;
};
/* Check ID and lengths of a peer's connect info, and record the peer's identity. Return 0 or
 * GPURING_ERR_PEER. */
int gpuring_connect_info_open(const struct gpuring_transport *transport, struct gpuring_peer *peer,
                              const void *data, size_t bytes,
                              struct gpuring_connect_info *connect_info);
/* Find the entry for the other end of `conn` in the peer's connect info. Return 0 or
 * GPURING_ERR_PEER with a log line. */
int gpuring_connect_info_find(const struct gpuring_transport *transport,
                              const struct gpuring_conn *conn,
                              const struct gpuring_connect_info *connect_info,
                              struct gpuring_connect_info_entry *entry);

/* region.c: record that this process has mapped (1) or unmapped (-1) the region of the page's
 * owner. */
void gpuring_region_mapped(struct gpuring_status_page *page, int change);
/* Free the region. If peers have mapped it, keep it together with the page. */
void gpuring_region_give_back(struct gpuring_transport *transport);
/* Free regions that are no longer mapped by any peer. */
void gpuring_region_look(void);

#define GPURING_NAP_NS 100000L /* between two checks of what peers still use, at the end of MPI */

/* lingering.c: allocate what gpuring_linger_add needs. Returns 0 or GPURING_ERR_NOMEM. */
int gpuring_linger_prepare(struct gpuring_transport *transport);
/* Keep the links and the memory of a transport until the net no longer accesses it. */
void gpuring_linger_add(struct gpuring_transport *transport);
/* Close links that the net no longer holds, and free their memory. Returns true if none is left. */
bool gpuring_linger_look(void);
/* Free the memory of links that gpuring_transport_unlink has closed. */
void gpuring_linger_finish(void);

/* peer.c: connections inside the node */
struct gpuring_peer *gpuring_peer_find(const struct gpuring_transport *transport, int rank);
int gpuring_peer_compare(const void *a, const void *b); /* by rank */
int gpuring_peer_connect(struct gpuring_transport *transport, struct gpuring_peer *peer,
                         const struct gpuring_connect_info *connect_info);
void gpuring_peer_disconnect(struct gpuring_transport *transport, struct gpuring_peer *peer);
/* Bind all connections inside the node, after the path to each peer has been decided. */
void gpuring_peer_bind(struct gpuring_transport *transport);
/* Make this rank's and the peer's staged regions accessible to the device. */
int gpuring_peer_stage(struct gpuring_transport *transport, struct gpuring_peer *peer);

/* probe.c: verification of peer memory */
#define GPURING_PROBE_BLOCK 4096 /* bytes of a probe block, a page */
/* Write the pattern to the memory of every mapped peer, and mark these peers. */
int gpuring_probe_write(struct gpuring_transport *transport);

/* line_test.c: test of lines of LL and LL128 */
#define GPURING_LINE_BLOCK 24576 /* bytes of a line block, a multiple of a page */
/* Return true if this process has not tested all kinds of lines that calls may exchange with the
 * peer. */
bool gpuring_lines_untested(const struct gpuring_transport *transport,
                            const struct gpuring_peer *peer);
/* Return true if wrong lines of the protocol were received from the peer's GPU. Thread-safe. */
bool gpuring_lines_wrong(const struct gpuring_peer *peer, enum gpuring_protocol protocol);
/* Stop a test and free its memory. */
void gpuring_lines_end(struct gpuring_transport *transport);

/* Return true if lanes and the net access the same host memory (GPURING_FIFO_NET_ANY). */
static inline bool gpuring_remote_any(const struct gpuring_transport *transport)
{
    return transport->config.device_ops->kind == GPURING_DEVICE_HOST &&
           transport->config.net_ops->any_memory;
}

/* remote.c: connections through a net */
int gpuring_remote_create(struct gpuring_transport *transport);
int gpuring_remote_connect(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                           const struct gpuring_connect_info *connect_info);
void gpuring_remote_destroy(struct gpuring_transport *transport);
/* Return 0, or the error of the first failed link with its text. */
int gpuring_remote_health(struct gpuring_transport *transport, char *text, size_t size);
/* Return true if new links would be no better than these (net.h). */
bool gpuring_remote_whole(const struct gpuring_transport *transport);
/* Stop the proxy from looking at the connections, until gpuring_transport_use. */
void gpuring_remote_rest(struct gpuring_transport *transport);
/* Report to the ranks of other nodes that this rank gives up. */
void gpuring_remote_abort(struct gpuring_transport *transport, int status);

/* tables.c: lanes, steps and connections in memory of the executors */
int gpuring_tables_upload(struct gpuring_transport *transport);
/* Upload the steps of a plan that was added later. */
int gpuring_tables_add(struct gpuring_transport *transport, int plan);
/* Return a lane of a plan for a protocol, as in the table for executors. */
struct gpuring_lane gpuring_table_lane(const struct gpuring_transport *transport, int plan,
                                       uint32_t number, enum gpuring_protocol protocol);
void gpuring_tables_unload(struct gpuring_transport *transport, void *tables);
/* Return the slots of a protocol. */
uint8_t *gpuring_slots_of(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn, unsigned protocol);
/* Fill in the executor's view of an end, from the block with slots and tails and the block with
 * heads. */
void gpuring_conn_bind(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       uint8_t *slots_block, uint8_t *heads_block);

#endif
