/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The steps of the wire-up that need no messages, in their order. `gpuring-topo simulate` calls
 * them with messages that other ranks would have sent. No MPI. Functions that return an int return
 * 0 or a negative gpuring_status (logged).
 */
#ifndef GPURING_WIREUP_SURVEY_H
#define GPURING_WIREUP_SURVEY_H

#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/coll_gpuring/wireup/plans.h"

/* The ranks, nodes and channels of a communicator, as far as a rank knows them; zero at first. */
struct gpuring_survey {
    struct gpuring_gathered rank_infos; /* AllGather 1, complete; later compacted */
    struct gpuring_plans_facts facts;   /* the facts from them that plans need */
    struct gpuring_node_map map;
    struct gpuring_node_map whole;       /* if the map divides nodes into parts: the whole nodes */
    struct gpuring_local_channels local; /* of this node */
    struct gpuring_local_channels local_whole; /* the same for the whole node */
    struct pci_wire *wires;                    /* AllGather 2, of all ranks; NULL if skipped */
    bool same_model;                           /* all ranks have the same model choices */
    struct gpuring_channels channels;
};

/* 1. After AllGather 1, whose result is in `rank_infos` and has been compared: find the nodes. */
int gpuring_survey_nodes(struct gpuring_survey *survey);

/* Return true if all ranks know the topology of their node, so that they look for channels. */
bool gpuring_survey_has_topology(const struct gpuring_survey *survey);

/*
 * 2. Find the channels of this rank's node, and compact `rank_infos`. doc: the united views of the
 * node, which this function modifies; NULL: they contradict each other. The other arguments are
 * those of gpuring_local_channels_find.
 */
void gpuring_survey_local(struct gpuring_survey *survey, int rank, struct pci_doc *doc,
                          bool from_file, enum pci_peer peers, bool parts);

/* 3. After AllGather 2, which is freed: divide nodes into parts, which are then connected like
 * nodes. Sets *divided if there are any. */
int gpuring_survey_divide(struct gpuring_survey *survey, struct gpuring_gathered *blocks,
                          bool *divided);

/* Undo the last step, so that nodes are whole again. */
void gpuring_survey_undivide(struct gpuring_survey *survey);

/* 4. Connect the channels of all nodes. gpuring_plans_config continues with the engine. */
void gpuring_survey_connect(struct gpuring_survey *survey);

void gpuring_survey_fini(struct gpuring_survey *survey);

#endif
