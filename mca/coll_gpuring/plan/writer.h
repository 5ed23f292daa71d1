/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the builders of plans share: arrays that grow while a plan is written. Internal to plan/.
 *
 * Errors are sticky: after one, every call does nothing, and writer_finish frees the unfinished
 * plan and returns the error. A builder is therefore a straight list of calls.
 */
#ifndef GPURING_PLAN_WRITER_H
#define GPURING_PLAN_WRITER_H

#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_writer {
    struct gpuring_plan *plan;
    const struct gpuring_plan *base; /* or NULL */
    bool lane_by_lane;               /* lane i has the connections of the base's lane i */
    struct gpuring_plan_lane *lane;  /* the open lane */
    struct gpuring_step *steps;      /* of the open lane, until lane_end gives them to it */
    uint16_t *refs;
    size_t lanes_room, recvs_room, sends_room, steps_room, refs_room;
    int status;
};

/* Keys of connections, unique among all connections from one rank to another: the algorithm, the
 * channel or tree, and whether data goes up or down in it. */
uint32_t gpuring_writer_key(enum gpuring_algorithm algorithm, uint32_t index, uint32_t down);

/* Begin a plan of this rank; weight 0: there is nothing to build it over. */
void gpuring_writer_open(struct gpuring_writer *writer, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                         uint64_t weight);

/* The same of a plan on input->base, with its connections and its parts. */
void gpuring_writer_open_on(struct gpuring_writer *writer, enum gpuring_collective collective,
                            const struct gpuring_plan_input *input);

/* A lane for a part, or with a base for several; with a base, it has the connections of that plan's
 * lanes for these. */
void gpuring_writer_lane_begin(struct gpuring_writer *writer, uint64_t part_begin,
                               uint64_t part_end, uint32_t nchunks);

/* With a base: of these connections, only so many sends and receives from these on are the lane's,
 * so that others may have the rest. */
void gpuring_writer_lane_narrow(struct gpuring_writer *writer, uint32_t first_send, uint32_t nsends,
                                uint32_t first_recv, uint32_t nrecvs);

/* Both return the reference by which the steps of the open lane name the connection. With a base it
 * must have it. */
uint16_t gpuring_writer_recv(struct gpuring_writer *writer, int peer, uint32_t key);
uint16_t gpuring_writer_send(struct gpuring_writer *writer, int peer, uint32_t key);

/* A step on one chunk: refs names the operands, then the destinations. */
void gpuring_writer_step(struct gpuring_writer *writer, uint32_t chunk, uint32_t flags,
                         const uint16_t *refs, size_t noperands, size_t nsends);
void gpuring_writer_lane_end(struct gpuring_writer *writer);

/* The steps of the open lane are those of a ring (GPURING_STEP_RING). */
void gpuring_writer_lane_ring(struct gpuring_writer *writer);

/* 0 and the plan, or the first error; *plan is set on success only. */
int gpuring_writer_finish(struct gpuring_writer *writer, struct gpuring_plan **plan);

#endif
