/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * All ranks exchange directly with all others. A window is one chunk in both forms, and operands
 * are folded in rank order.
 *
 * direct: one shot, a lane for each stripe, two steps; every rank folds the whole vector:
 *
 *   input > send to all others
 *   recv 0 + .. + input (at the own position) + .. + recv n-1 > output
 *
 * One hop of latency for n - 1 times the traffic: for small vectors. Nobody waits for a slot before
 * all have what they wait for: the sends of window w need the slots of window w - slots, which
 * their receivers have folded before they sent window w - slots + 1.
 *
 * two-shot: a reduce-scatter, then an allgather. Each stripe of the vector has a part for every
 * rank, which that rank, the part's owner, folds for all:
 *
 *   lane of the own part:        recv 0 + .. + input + .. + recv n-1 > output, send to all others
 *   two lanes of another's part: input > send to the owner;  recv from the owner > output
 *
 * Two hops, and 2 (n - 1) / n times the traffic, the least possible. In place is safe though two
 * lanes touch a chunk: the owner sends it back only after it has folded this rank's input.
 */
#include <stdlib.h>

#include "mca/coll_gpuring/plan/writer.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Begin a plan, with room for the references of the longest step; NULL: the writer has an error. */
static uint16_t *begin(struct gpuring_writer *writer, enum gpuring_algorithm algorithm,
                       const struct gpuring_plan_input *input, uint64_t weight)
{
    uint16_t *refs = NULL;

    gpuring_writer_open(writer, GPURING_COLLECTIVE_ALLREDUCE, algorithm, input, weight);
    if (writer->status == GPURING_OK) {
        refs = malloc(2 * (size_t) input->nranks * sizeof *refs);
        if (refs == NULL) {
            gpuring_error("out of memory for a direct exchange of %d ranks", input->nranks);
            writer->status = GPURING_ERR_NOMEM;
        }
    }
    return refs;
}

/* Append destinations: all others, from the next rank on, so that not all write to rank 0 first. */
static void add_sends(struct gpuring_writer *writer, int rank, int nranks, uint32_t key,
                      uint16_t *refs)
{
    for (int i = 1; i < nranks; i++) {
        refs[i - 1] = gpuring_writer_send(writer, (rank + i) % nranks, key);
    }
}

/* Append operands: what all others send, and the own input, in rank order; connections in the order
 * of add_sends. */
static void add_operands(struct gpuring_writer *writer, int rank, int nranks, uint32_t key,
                         uint16_t *refs)
{
    refs[rank] = GPURING_REF_INPUT;
    for (int i = 1; i < nranks; i++) {
        int peer = (rank + i) % nranks;

        refs[peer] = gpuring_writer_recv(writer, peer, key);
    }
}

static void add_stripe(struct gpuring_writer *writer, int rank, int nranks, uint32_t stripe,
                       uint16_t *refs)
{
    uint32_t key = gpuring_writer_key(GPURING_ALGORITHM_DIRECT, stripe, 0);

    gpuring_writer_lane_begin(writer, stripe, stripe + 1, 1);
    refs[0] = GPURING_REF_INPUT;
    add_sends(writer, rank, nranks, key, refs + 1);
    gpuring_writer_step(writer, 0, 0, refs, 1, (size_t) nranks - 1);
    add_operands(writer, rank, nranks, key, refs);
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE, refs, (size_t) nranks, 0);
    gpuring_writer_lane_end(writer);
}

int gpuring_plan_build_direct(const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;
    uint16_t *refs = begin(&writer, GPURING_ALGORITHM_DIRECT, input, input->ndirect);

    for (uint32_t stripe = 0; refs != NULL && stripe < input->ndirect; stripe++) {
        add_stripe(&writer, input->rank, input->nranks, stripe, refs);
    }
    free(refs);
    return gpuring_writer_finish(&writer, plan);
}

/* This rank's lanes for one part of a stripe: up to its owner, and down from it. */
static void add_part(struct gpuring_writer *writer, int rank, int nranks, uint32_t part, int owner,
                     uint16_t *refs)
{
    uint32_t up = gpuring_writer_key(GPURING_ALGORITHM_TWO_SHOT, part, 0);
    uint32_t down = gpuring_writer_key(GPURING_ALGORITHM_TWO_SHOT, part, 1);

    gpuring_writer_lane_begin(writer, part, part + 1, 1);
    if (owner == rank) {
        add_operands(writer, rank, nranks, up, refs);
        add_sends(writer, rank, nranks, down, refs + nranks);
        gpuring_writer_step(writer, 0, GPURING_STEP_STORE, refs, (size_t) nranks,
                            (size_t) nranks - 1);
    } else {
        refs[0] = GPURING_REF_INPUT;
        refs[1] = gpuring_writer_send(writer, owner, up);
        gpuring_writer_step(writer, 0, 0, refs, 1, 1);
        gpuring_writer_lane_end(writer);
        gpuring_writer_lane_begin(writer, part, part + 1, 1);
        refs[0] = gpuring_writer_recv(writer, owner, down);
        gpuring_writer_step(writer, 0, GPURING_STEP_STORE, refs, 1, 0);
    }
    gpuring_writer_lane_end(writer);
}

int gpuring_plan_build_two_shot(const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    int rank = input->rank, nranks = input->nranks;
    struct gpuring_writer writer;
    uint16_t *refs = begin(&writer, GPURING_ALGORITHM_TWO_SHOT, input,
                           (uint64_t) input->nstripes * (uint64_t) nranks);

    for (uint32_t stripe = 0; refs != NULL && stripe < input->nstripes; stripe++) {
        for (int i = 0; i < nranks; i++) {
            int owner = (rank + i) % nranks;

            add_part(&writer, rank, nranks, stripe * (uint32_t) nranks + (uint32_t) owner, owner,
                     refs);
        }
    }
    free(refs);
    return gpuring_writer_finish(&writer, plan);
}
