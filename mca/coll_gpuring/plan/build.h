/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the builders of plans share. Internal to plan/.
 *
 * A builder writes the lanes of one collective for one part of the weight: a ring, a tree, a
 * stripe. It is a straight list of calls, for errors are sticky: after one, every call does
 * nothing.
 */
#ifndef GPURING_PLAN_BUILD_H
#define GPURING_PLAN_BUILD_H

#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_writer {
    const struct gpuring_plan_input *input;
    const struct gpuring_plan *base; /* or NULL */
    struct gpuring_plan *plan;
    struct gpuring_plan_lane *lane; /* the open lane */
    int status;
};

typedef void gpuring_builder(struct gpuring_writer *writer, uint32_t part);

/* The builders on the connections of an algorithm, by collective; NULL: there is none. */
extern gpuring_builder *const gpuring_ring_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_tree_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_chain_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_direct_builders[GPURING_COLLECTIVE_COUNT];
extern gpuring_builder *const gpuring_two_shot_builders[GPURING_COLLECTIVE_COUNT];
/* Of direct between more than GPURING_DIRECT_AT_ONCE ranks. */
extern gpuring_builder *const gpuring_direct_many_builders[GPURING_COLLECTIVE_COUNT];

/* That of two tables, of trees and chains. */
gpuring_builder gpuring_tree_allreduce;

/* Are reductions directly between so many ranks folded in the order of the ranks? */
bool gpuring_direct_in_order(enum gpuring_collective collective, int nranks);

/* The key of a connection, unique among those from one rank to another: the algorithm, the part,
 * and whether data goes up or down in it. */
uint32_t gpuring_plan_key(const struct gpuring_plan *plan, uint32_t part, bool down);

/* The steps that follow are those of a new lane, for these parts. */
void gpuring_writer_lane(struct gpuring_writer *writer, uint32_t part_begin, uint32_t part_end,
                         int nchunks);

/* A step on one chunk. Its operands follow, then its destinations. */
void gpuring_writer_step(struct gpuring_writer *writer, uint32_t chunk, uint32_t flags);
void gpuring_writer_input(struct gpuring_writer *writer);
/* What an earlier step has stored; this one stores, too. */
void gpuring_writer_output(struct gpuring_writer *writer);
/* What comes from a rank, goes to a rank. With a base it must have the connection; else a name that
 * is new to the lane is a new connection. */
void gpuring_writer_from(struct gpuring_writer *writer, int peer, uint32_t key);
void gpuring_writer_to(struct gpuring_writer *writer, int peer, uint32_t key);

/* The lane has this connection: before the steps name it, if these name several in another order
 * than that of the list. */
void gpuring_writer_recv(struct gpuring_writer *writer, int peer, uint32_t key);

#endif
