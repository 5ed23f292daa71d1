/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A wire-up under way, and what its files do in its stages (wireup.c). Functions return 0, or the
 * logged reason why this rank cannot serve.
 */
#ifndef GPURING_WIREUP_STATE_H
#define GPURING_WIREUP_STATE_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/coll_gpuring/topology/net_choice.h"
#include "mca/coll_gpuring/topology/node_topology.h"
#include "mca/coll_gpuring/wireup/plans.h"

struct gpuring_wireup {
    int stage;
    bool second;        /* it is for the second engine, of a READY module */
    const void *buffer; /* of the first call, on this rank's GPU if it has one */
    uint64_t id[2];
    struct gpuring_gathered hellos;   /* AllGather 1, complete; later trimmed */
    struct gpuring_plans_facts facts; /* what the plans need of them */
    struct gpuring_node_map map;
    struct gpuring_node_map whole;       /* where the map is of nodes in parts: of the nodes */
    struct gpuring_net_choice net;       /* with several nodes, or parts of them */
    struct gpuring_local_channels local; /* of this node */
    struct gpuring_local_channels local_whole; /* the same, not in parts */
    struct pci_wire *wires;                    /* AllGather 2, of all ranks; NULL: it was skipped */
    bool same_model;                           /* all ranks have the same model choices */
    struct gpuring_channels channels;
    struct gpuring_engine *engine; /* of the module at the end */
};

/* ---- hello.c: what the ranks report of themselves and of their node ---- */

/* Begin AllGather 1. */
int gpuring_hello_send(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* Its blocks are here. GPURING_ERR_DISAGREE: all ranks find the same; the two ranks concerned log
 * in what they differ. */
int gpuring_hello_compare(const mca_coll_gpuring_module_t *module,
                          const struct gpuring_gathered *hellos);

/*
 * Prepare this rank's letters with views of its node (node_topology.h). Each view goes once to each
 * rank that does not have it.
 */
int gpuring_views_prepare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* All views of the node are here, in the letters if they differ: the node's one document, as
 * gpuring_node_topology_unite. */
int gpuring_views_unite(const mca_coll_gpuring_module_t *module,
                        const struct gpuring_wireup *wireup, struct pci_doc **doc, bool *from_file);

/* ---- net_select.c: the process's networks ---- */

/*
 * The net for a communicator whose ranks are on several nodes: what coll_gpuring_net asks for, or
 * the best; decided alike on all ranks. failed: see gpuring_net_choose. Rank 0 logs the choice.
 * GPURING_ERR_UNSUPPORTED (logged by rank 0): no network connects them.
 */
int gpuring_network_choose(struct gpuring_wireup *wireup, int rank, const char *failed);

/*
 * Does a network connect the ranks of this rank's node, so that it may join parts of the node? RDMA
 * by verbs, or UCX where it is asked for. The same on all ranks of the node.
 */
bool gpuring_network_inside(const struct gpuring_wireup *wireup, int rank);

/*
 * Open the net that was chosen and start the progress thread, which keeps off the cores of the
 * ranks of this node if it can. Thread-safe; owned by the process.
 */
int gpuring_network_open(const struct gpuring_wireup *wireup, int rank,
                         struct gpuring_net_base **net);

/* ---- connect.c: from the channels to connections ---- */

/* Make the engine with the plans and FIFO sizes of this rank; its transport is still to be added.
 */
int gpuring_wireup_engine(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* Add the transport, this rank's ends of the connections, and prepare the letters with their
 * handles to and from all neighbours. */
int gpuring_wireup_transport(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

/* The letters are complete: connect. */
int gpuring_wireup_connect(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);

#endif
