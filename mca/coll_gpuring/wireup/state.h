/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The state of a wire-up, and the functions that its files contribute to its stages (wireup.c).
 * Functions return 0, or the status with which this rank cannot serve (logged).
 */
#ifndef GPURING_WIREUP_STATE_H
#define GPURING_WIREUP_STATE_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/net_choice.h"
#include "mca/coll_gpuring/topology/node_topology.h"
#include "mca/coll_gpuring/wireup/survey.h"
#include "mca/coll_gpuring/wireup/wireup.h"

struct gpuring_wireup {
    int stage;
    bool test_lines; /* some pair of ranks has not been tested; the same on all ranks */
    bool late;       /* this wire-up is for further connections of a READY module */
    bool large;      /* the first call is large, see gpuring_engine_config */
    uint32_t sets;   /* bits 1 << set of the sets that it connects; set when there is an engine */
    uint64_t made;   /* word that describes the call that begins the wire-up; equal on all ranks */
    gpuring_wireup_differs *differs;
    const void *buffer;           /* a buffer of the first call, on this rank's GPU if it has one */
    uint64_t id[2];               /* equal on all ranks, and unique */
    uint64_t key;                 /* of the communicator, see pool.h */
    struct gpuring_pooled *offer; /* connections that may be used instead of a wire-up; NULL:
                                     none */
    bool cleared;                 /* all ranks have cleared their pools, because one lacked
                                     memory */
    unsigned repeated;            /* times that the ranks connected again: GPURING_ERR_STALE */
    bool again;                   /* the ranks connect once more, after a failure */
    struct gpuring_survey *survey;       /* NULL before this rank offers or makes one */
    bool known;                          /* all ranks are connecting with a shared survey */
    struct gpuring_net_choice net;       /* the chosen net, if there are several nodes or parts
                                            of nodes */
    struct gpuring_engine *engine;       /* passes to the module at the end; if `late`, it is the
                                            module's */
    struct gpuring_transport *transport; /* passes to the engine at the end */
};

/* Return the number of the transport that a wire-up makes, which is unique in the communicator: 0
 * for the first wire-up, later 1 + the first set. */
static inline uint32_t gpuring_wireup_number(const struct gpuring_wireup *wireup)
{
    return wireup->late ? 1 + (uint32_t) __builtin_ctz(wireup->sets) : 0;
}

/* Return true on the one process that writes the dump files. */
static inline bool gpuring_wireup_writes_dumps(const mca_coll_gpuring_module_t *module)
{
    return module->rank == 0 && gpuring_process.world_rank == 0;
}

/* ---- state.c ---- */

/* Destroy the connections, and the engine unless the module owns it. */
void gpuring_wireup_drop(struct gpuring_wireup *wireup);
void gpuring_wireup_free(struct gpuring_wireup *wireup); /* NULL is allowed */

/* ---- reuse.c: connections of freed communicators, and surveys of all communicators ---- */

/* Begin an agreement on the offer of this rank: connections, a survey, or nothing. */
int gpuring_reuse_offer(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
/* End the agreement. If all ranks offer the same connections, wireup->offer remains, and
 * wireup->engine has the connections. If all offer the same survey, it is known. */
int gpuring_reuse_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
/* End the offer that a communicator has taken. Return the wire-up that can make its late
 * connections. */
struct gpuring_wireup *gpuring_reuse_wireup(struct gpuring_wireup *wireup);
/* End the use of the survey, and no longer offer it, so that the ranks make a new one. */
void gpuring_reuse_forget(struct gpuring_wireup *wireup);
/* Destroy the offer, if there is one. */
void gpuring_reuse_withdraw(struct gpuring_wireup *wireup);
/* Destroy the connections that this process keeps, because a rank is out of memory. */
void gpuring_reuse_make_room(int rank);
/* Return true if this process keeps connections. */
bool gpuring_reuse_possible(void);

/* ---- rank_info.c: reports of the ranks about themselves and their nodes ---- */

/* Compute the hash of the block that this rank contributes to AllGather 1, without its id. */
int gpuring_rank_info_hash(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_wireup *wireup, uint64_t *hash);

/* Begin AllGather 1 and a survey. */
int gpuring_rank_info_send(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/*
 * Take the blocks of AllGather 1, find the nodes and choose the net. If the views of the ranks are
 * equal, also find the channels of this node. Returns GPURING_ERR_DISAGREE on all ranks if any two
 * blocks contradict each other. The two ranks concerned log the difference.
 */
int gpuring_rank_info_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/*
 * Views of a node (node_topology.h). If they differ, gpuring_views_prepare prepares this rank's
 * connect infos, so that each view is sent once to each rank that does not have it.
 * gpuring_views_take unites them and finds the channels of this node.
 */
bool gpuring_views_differ(const struct gpuring_wireup *wireup);
int gpuring_views_prepare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
int gpuring_views_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* ---- net_select.c: the process's networks ---- */

/* Return true if ranks of the communicator may be on other nodes. */
bool gpuring_ranks_may_leave_node(struct ompi_communicator_t *comm);

/* Keep those of `count` ports that can make reliable connections, and return their number. The
 * first call of the process opens the net verbs for this, unless coll_gpuring_net excludes it. */
int gpuring_network_prove(struct gpuring_nic *nics, int count);

/*
 * Choose the net, if the ranks are on several nodes: the one that coll_gpuring_net selects, or the
 * best one. All ranks choose the same. why: the reason why the net that was chosen
 * before has failed, or NULL. Rank 0 logs the choice. Returns GPURING_ERR_UNSUPPORTED (logged by
 * rank 0) if no network connects the ranks.
 */
int gpuring_network_choose(struct gpuring_wireup *wireup, int rank, const char *why);

/*
 * Record, for all further communicators of this process, that RDMA has not connected the ranks of a
 * communicator, unless the status shows that the reason is a different one, such as lack of memory.
 * All ranks have agreed on the status, so they are alive. connected: the ranks had connected, and
 * sent their first chunks. gpuring_network_has_failed returns true if this was recorded.
 */
void gpuring_network_fail(int status, bool connected);
bool gpuring_network_has_failed(void);

/*
 * Return true if a network connects the ranks of this rank's node and may join parts of the node:
 * RDMA through verbs, or UCX if the user has selected it. All ranks of the node get the same
 * answer.
 */
bool gpuring_network_inside(const struct gpuring_wireup *wireup, int rank);

/*
 * Open the chosen net, if it is not open yet, and set it and its proxy in *transport. The process
 * owns nets of RDMA devices and their progress thread, which avoids the cores of the ranks of this
 * node if possible. The transport owns a net of messages. Thread-safe.
 */
int gpuring_network_open(const mca_coll_gpuring_module_t *module,
                         const struct gpuring_wireup *wireup,
                         struct gpuring_transport_config *transport);

/* ---- probes.c: proofs of direct access to the memory of peers ---- */

/* Begin a gathering of reports. */
int gpuring_probes_report(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
/* Take the reports of what the ranks have written, of what has arrived, and of the test of lines.
 * After the last of them, all ranks know how each pair is connected. */
int gpuring_probes_take_written(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
int gpuring_probes_take_arrived(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
int gpuring_probes_take_tested(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* ---- connect.c: from the channels to connections ---- */

/* Begin the gathering of the devices with which the ranks use the net verbs. Opens the net. */
int gpuring_wireup_send_devices(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* Create the engine with the plans and FIFO sizes of this rank, without connections. */
int gpuring_wireup_engine(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* Create the transport with this rank's ends of the connections. Prepare the connect infos for the
 * handles to and from all neighbours. */
int gpuring_wireup_transport(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* Connect, after the connect infos are complete. */
int gpuring_wireup_connect(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

#endif
