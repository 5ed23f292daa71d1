/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inside of transport/: one struct per concern, shared by its files only.
 *
 * Memory of a rank, allocations of the same block format:
 *   peer region (device memory, exported): one block per connection with a rank of this node; on
 *                devices whose peer memory is probed, preceded by one probe block per rank of the
 *                node (probe.c)
 *   staged region (host memory, exported): stands for the peer region, at the same offsets, between
 *                ranks whose devices do not reach each other; takes memory only where it is used
 *   net region (registered with the net):  one block per connection with another node
 *   direct region (device memory, registered with the net): the slots of those of them whose
 *                network device reaches it (remote.c); their blocks in the net region have none
 *
 *   block: | head[protocol] 128 B each | tail[protocol] 384 B each | pad to page
 *          | slots[protocol 0] | slots[protocol 1] | ...
 *          and in front of those of LL, on the page before, its short slots
 *
 * In the peer region a sending end has the heads alone, and those of a receiving end are not used.
 * Every part starts on a multiple of 128 bytes, slots on a page.
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
struct gpuring_block {
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
 * A peer reads there what this rank is doing, and stops it through the abort word.
 *
 *   0         16      20         24          32         40       48     52
 *   | id[2]   | abort | activity | operation | on_hosts | on_gpu | core | mappings |
 *
 *   56      64          72           80                         592 1104 | voted | last_open |
 * last_known | ballots[GPURING_BALLOTS] | made[GPURING_OPERATIONS_KEPT] |
 */
#define GPURING_BALLOTS         64
#define GPURING_OPERATIONS_KEPT 64
struct gpuring_status_page {
    uint64_t id[2];     /* of the wire-up; constant after creation */
    uint32_t abort;     /* written by anyone with release, polled by the executor (acquire) */
    uint32_t activity;  /* written by the owner (relaxed), read by peers for messages only */
    uint64_t operation; /* written by the owner with release, after its word in `made` */
    /* Numbers of the last calls on this communicator with host buffers and with GPU buffers, as all
     * ranks count them; written by the owner, on_hosts with release after an earlier on_gpu. */
    uint64_t on_hosts, on_gpu;
    uint32_t core;     /* of the owner when it last entered an operation, + 1; 0: not known */
    uint32_t mappings; /* peers that have the owner's device memory mapped; see region.c */
    /* Votes of the owner, see votes.c: in calls up to `voted`; by number modulo GPURING_BALLOTS
     * those that are not HOST, the last of which is in call `last_open`; it knows the results of
     * the calls up to `last_known`. */
    uint64_t voted, last_open, last_known, ballots[GPURING_BALLOTS];
    /* What the owner does in its last operations, by number modulo GPURING_OPERATIONS_KEPT; see
     * made.c. */
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
    bool may_direct; /* its device may reach the device's memory, as far as is known */
    uint8_t *direct; /* its slots in the direct region; NULL: in its block */
    struct gpuring_net_link *link;
    int failed; /* written by the proxy with release, read by health with acquire */
};

/* What we know of another rank that we are connected with. */
struct gpuring_peer {
    int rank;
    bool remote;
    uint32_t pid;
    char hostname[GPURING_HOSTNAME_BYTES];
    int local_rank;       /* among the ranks of its node */
    char gpu[16];         /* PCI bus id; empty for the host device */
    uint8_t *region;      /* its peer region, mapped here; NULL if remote or out of reach */
    bool unmappable;      /* the topology rules out a mapping */
    bool mutually_mapped; /* both ranks could map each other's region */
    bool host_fallback;   /* this pair goes through the staged regions */
    uint8_t *staged; /* its staged region, mapped here and reached by the device; NULL if unused */
    struct gpuring_device_handle staged_handle;
    struct gpuring_status_page *page; /* its status page, mapped here; NULL if remote */
    struct gpuring_transport_connect_info connect_info;
};

/* One plan: where its connections start in the tables, and its steps as executors see them. */
struct gpuring_plan_ends {
    const struct gpuring_plan *plan;
    uint32_t first_recv, first_send; /* in `conns` and in `fifos` */
    struct gpuring_fifo_config fifo;
    struct gpuring_block block;       /* of its connections */
    const struct gpuring_step *steps; /* of all lanes, uploaded */
    const uint16_t *refs;
    void *tables; /* that hold these, of a plan that was added later */
};

struct gpuring_transport {
    struct gpuring_transport_config config; /* node pointer is not kept */
    char hostname[GPURING_HOSTNAME_BYTES];
    char gpu[16];                   /* PCI bus id; empty for the host device */
    struct gpuring_plan_ends *ends; /* [nplans + GPURING_TRANSPORT_MORE]; plan NULL: unused */
    int nplans;

    struct gpuring_conn *conns; /* all receiving ends, then all sending ends */
    uint32_t nconns;
    uint32_t nremote;
    struct gpuring_proxy_group group;    /* of their links; zeroed if there are none */
    struct gpuring_fifo_end *fifos;      /* [protocol][nconns], as connected */
    struct gpuring_fifo_end *exec_fifos; /* the same, uploaded */
    void *tables; /* these, and the plans' steps, on the device; NULL: executors need no copy */

    struct gpuring_peer *peers; /* sorted by rank */
    int npeers;

    uint8_t *region;
    size_t region_bytes;
    uint8_t *staged;              /* this rank's staged region; NULL where peers are not probed */
    bool host_fallback_reached;   /* the device can use it */
    int local_rank;               /* among the ranks of its node */
    int nlocal;                   /* ranks of this node */
    int most_local;               /* the most ranks that a node has */
    bool probes;                  /* peer memory is probed before it is trusted */
    uint32_t host_fallback_plans; /* bits 1 << plan: some pair of ranks in it uses staged regions */
    uint8_t *marks; /* this rank's part of a report of the probe: a bit per local rank */
    uint8_t *net_region;
    size_t net_region_bytes;
    uint8_t *direct_region; /* NULL: all slots are in the net region */
    size_t direct_bytes;
    uint32_t ndirect;                     /* ends that have their slots there */
    struct gpuring_device_nic direct_nic; /* during create only */
    double try_until; /* when gpuring_transport_try gives up; 0: not begun, or over on all ranks */
    struct gpuring_device *host; /* for the status page; the device itself if that is the host's */
    bool own_host;
    struct gpuring_status_page *page;
    bool page_reached; /* executors of the device can read the abort word */
};

/*
 * connect info.c: what a neighbour has to know of the connections with it, the data of a connect
 * info
 *
 *   | header | entry | entry | ... | process handle | link handles ... |
 *
 * Entries name a block (peer entries: offset in the peer region; remote entries: position and
 * length of the link's handle in the connect info).
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

/* Build the connect infos to all peers. */
int gpuring_connect_info_build(struct gpuring_transport *transport);

/* A connect info that has come, with its header. */
struct gpuring_connect_info {
    const uint8_t *data;
    size_t bytes;
    struct gpuring_connect_info_header header;
};
/* Check id and lengths of what came from a peer, and note who that is. 0 or
 * GPURING_ERR_PEER. */
int gpuring_connect_info_open(const struct gpuring_transport *transport, struct gpuring_peer *peer,
                              const void *data, size_t bytes,
                              struct gpuring_connect_info *connect_info);
/* The entry of the peer's connect info for the other end of `conn`, or GPURING_ERR_PEER with a log
 * line. */
int gpuring_connect_info_find(const struct gpuring_transport *transport,
                              const struct gpuring_conn *conn,
                              const struct gpuring_connect_info *connect_info,
                              struct gpuring_connect_info_entry *entry);

/* region.c: this process has mapped the region of the page's owner (1), or unmapped it (-1). */
void gpuring_region_mapped(struct gpuring_status_page *page, int change);
/* Free the region; where peers have it mapped it is kept, and the page with it. */
void gpuring_region_give_back(struct gpuring_transport *transport);
/* Free what no peer has mapped any more. */
void gpuring_region_look(void);

/* peer.c: connections inside the node */
struct gpuring_peer *gpuring_peer_find(const struct gpuring_transport *transport, int rank);
int gpuring_peer_compare(const void *a, const void *b); /* by rank */
int gpuring_peer_connect(struct gpuring_transport *transport, struct gpuring_peer *peer,
                         const struct gpuring_connect_info *connect_info);
void gpuring_peer_disconnect(struct gpuring_transport *transport, struct gpuring_peer *peer);
/* Bind all connections inside the node, once it is known how each peer is reached. */
void gpuring_peer_bind(struct gpuring_transport *transport);
/* Let the device reach this rank's and the peer's staged regions. */
int gpuring_peer_stage(struct gpuring_transport *transport, struct gpuring_peer *peer);

/* probe.c: is peer memory what it seems? */
#define GPURING_PROBE_BLOCK 4096 /* bytes of a probe block, a page */
/* Write the pattern into the memory of every peer that is mapped; marks those written to. */
int gpuring_probe_write(struct gpuring_transport *transport);

/* remote.c: connections through a net */
int gpuring_remote_create(struct gpuring_transport *transport);
int gpuring_remote_connect(struct gpuring_transport *transport, const struct gpuring_peer *peer,
                           const struct gpuring_connect_info *connect_info);
void gpuring_remote_destroy(struct gpuring_transport *transport);
void gpuring_transport_try_end(struct gpuring_transport *transport); /* also if it had not begun */
/* 0, or the error of the first failed link with its text. */
int gpuring_remote_health(struct gpuring_transport *transport, char *text, size_t size);
/* Report to the ranks of other nodes that this one gives up. */
void gpuring_remote_abort(struct gpuring_transport *transport, int status);

/* The slots of a protocol. */
uint8_t *gpuring_slots_of(const struct gpuring_transport *transport,
                          const struct gpuring_conn *conn, unsigned protocol);

/* tables.c: steps and connections where the executors read them */
int gpuring_tables_upload(struct gpuring_transport *transport);
/* The steps of a plan that was added. */
int gpuring_tables_add(struct gpuring_transport *transport, int plan);
void gpuring_tables_unload(struct gpuring_transport *transport, void *tables);
/* Fill the executor's view of an end; the block with slots and tails, and that with heads. */
void gpuring_conn_bind(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                       uint8_t *slots_block, uint8_t *heads_block);

#endif
