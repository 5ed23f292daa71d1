/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Helpers that all builders of plans share (writer.c), and the builders. Internal to plan/.
 *
 * A builder writes the lanes of one collective for one part of the weight, which is a ring, a tree
 * or a stripe. Errors are sticky: after an error every further call does nothing, so builders need
 * not check.
 */
#ifndef GPURING_PLAN_BUILD_H
#define GPURING_PLAN_BUILD_H

#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_writer {
    const struct gpuring_plan_input *input;
    const struct gpuring_plan *base; /* or NULL */
    struct gpuring_plan *plan;
    struct gpuring_plan_lane *lane; /* the open lane */
    bool once; /* no connection is named twice, so none has to be looked for; without base */
    int status;
};

typedef void gpuring_builder(struct gpuring_writer *writer, uint32_t part);

/* The builders for the connections of each algorithm, indexed by collective. NULL if the algorithm
 * cannot perform the collective. */
extern gpuring_builder *const gpuring_ring_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_tree_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_chain_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_direct_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_two_shot_builders[GPURING_COLLECTIVE_COUNT];
/* Builders for direct exchanges between more than GPURING_DIRECT_MAX_VECTOR_RANKS ranks. */
extern gpuring_builder *const gpuring_direct_many_builders[GPURING_COLLECTIVE_COUNT];

/* Shared by the tables for trees and for chains. */
gpuring_builder gpuring_tree_allreduce;

/* Between nodes of hosts: two-shot, and doubling. */
extern gpuring_builder *const gpuring_nodes_builders[GPURING_COLLECTIVE_COUNT];
gpuring_builder gpuring_doubling_allreduce;

/* The two stages of an alltoall by node. The first one lists the connections of both. */
gpuring_builder gpuring_exchange_between, gpuring_exchange_within;

/* Return true if direct exchanges between `nranks` ranks fold this collective in rank order. */
bool gpuring_direct_in_order(enum gpuring_collective collective, int nranks);

/* Return the key of a connection. It encodes the algorithm, the part, and whether data flows up or
 * down, and is unique among the connections from one rank to another. */
uint32_t gpuring_plan_key(const struct gpuring_plan *plan, uint32_t part, bool down);

/* Create a plan without lanes that has the connections of the base plan. parts: number of parts of
 * a channel. */
void gpuring_writer_open(struct gpuring_writer *writer, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, uint32_t channels, uint32_t parts,
                         bool in_order);

/* Complete the plan. Returns the writer's status; after an error the plan is freed. */
int gpuring_writer_finish(struct gpuring_writer *writer, struct gpuring_plan **plan);

/* Begin a new lane for the given parts. Steps that are added later belong to it. */
void gpuring_writer_lane(struct gpuring_writer *writer, uint32_t part_begin, uint32_t part_end,
                         int nchunks);

/* Maximum number of destinations of a step with one operand. */
#define GPURING_WRITER_SENDS (GPURING_STEP_REFS - 1)

/* Begin a step on one chunk. Add its operands next, then its destinations. */
void gpuring_writer_step(struct gpuring_writer *writer, uint32_t chunk, uint32_t flags);
void gpuring_writer_input(struct gpuring_writer *writer);
/* Add the output as operand: a value that an earlier step of the lane has stored. The step must
 * store as well. */
void gpuring_writer_output(struct gpuring_writer *writer);
/* Append a receive from `peer`, or a send to it. With a base plan, the base must have the
 * connection. Without one, a key that is new to the lane adds a connection to the plan. */
void gpuring_writer_from(struct gpuring_writer *writer, int peer, uint32_t key);
void gpuring_writer_to(struct gpuring_writer *writer, int peer, uint32_t key);

/* Give the lane a connection that its steps use in another order, or that only other plans use.
 * This determines the position of the connection in the lane's list. */
void gpuring_writer_send(struct gpuring_writer *writer, int peer, uint32_t key);
void gpuring_writer_recv(struct gpuring_writer *writer, int peer, uint32_t key);

#endif
