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
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/wireup/plans.h"

/* The ranks, nodes and channels of a communicator, as far as a rank knows them; zero at first. */
struct gpuring_survey {
    struct gpuring_list shared; /* in the process's list (see below), or in none */
    unsigned users;             /* wire-ups that have it */
    uint32_t offers;            /* times that this process has offered it */
    uint64_t key;               /* of the communicator, see pool.h */
    uint64_t own;               /* hash of this rank's block of AllGather 1, without its id */
    struct gpuring_gathered rank_infos; /* AllGather 1, complete; later compacted */
    struct gpuring_plans_facts facts;   /* the facts from them that plans need */
    struct gpuring_node_map map;
    struct gpuring_node_map whole;       /* if the map divides nodes into parts: the whole nodes */
    struct gpuring_local_channels local; /* of this node */
    struct gpuring_local_channels local_whole; /* the same for the whole node */
    struct pci_wire *wires;                    /* AllGather 2, of all ranks; NULL if skipped */
    bool same_model;                           /* all ranks have the same model choices */
    struct gpuring_channels channels;
    struct gpuring_gathered devices; /* of the net verbs, of all ranks; see connect.c */
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

/* Undo the last steps, so that nodes are whole again. */
void gpuring_survey_undivide(struct gpuring_survey *survey);

/* 4. Connect the channels of all nodes. gpuring_plans_config continues with the engine. */
void gpuring_survey_connect(struct gpuring_survey *survey);

void gpuring_survey_fini(struct gpuring_survey *survey);

/*
 * ---- survey_share.c: surveys that several communicators use ----
 *
 * A communicator of the same processes in the same order can use the survey of an earlier one, if
 * each rank would contribute the same block to AllGather 1 again. Each rank offers the newest
 * survey for which this is true. If all ranks offer the same one, they gather nothing and search
 * for nothing. A shared survey no longer changes. Threads: any.
 */

/* Create a survey with one user. Returns NULL without memory. */
struct gpuring_survey *gpuring_survey_create(void);

/* End a use of a survey. The last one frees it. gpuring_survey_retract also removes it from the
 * shared ones, because the ranks did not all offer it, or could not connect with it: otherwise the
 * numbers of their offers would differ from now on. NULL is allowed. */
void gpuring_survey_release(struct gpuring_survey *survey);
void gpuring_survey_retract(struct gpuring_survey *survey);

/* Let later communicators use a complete survey. `key` and `own` must be set. */
void gpuring_survey_share(struct gpuring_survey *survey);

/* Return true if there is a shared survey with this key. */
bool gpuring_survey_exists(uint64_t key);

/* Begin a use of the newest shared survey with this key and own block, in order to offer it. Sets
 * *offer to the number of this offer, from 1. Returns NULL if there is none. */
struct gpuring_survey *gpuring_survey_find(uint64_t key, uint64_t own, uint32_t *offer);

/*
 * Compute the id of the wire-up that uses a survey through this offer: random, and unique. The ids
 * of the ranks are equal if each rank has offered the survey the same number of times. The numbers
 * may differ if communicators are connected in different orders, for example by several threads.
 */
void gpuring_survey_id(const struct gpuring_survey *survey, uint32_t offer, uint64_t id[2]);

#endif
