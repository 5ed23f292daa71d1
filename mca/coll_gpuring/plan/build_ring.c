/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The ring allreduce: per channel one lane, n chunks per window. Chunk c starts at the rank with
 * index c, collects a contribution at each hop until it is whole at index c - 1, and travels on
 * until everyone has it; rank i handles chunk i - k (modulo n) in its step k:
 *
 *   k          0         1 .. n-2           n-1                n .. 2n-3        2n-2
 *   step    input>send  recv+input>send  recv+input>out+send  recv>out+send   recv>out
 *
 * Each rank sends and receives 2(n-1)/n of the vector, the least possible.
 */
#include "mca/coll_gpuring/plan/writer.h"
#include "mca/coll_gpuring/util/status.h"

static void add_lane(struct gpuring_writer *writer, uint32_t channel,
                     const struct gpuring_ring_position *position, uint32_t n)
{
    uint32_t key = gpuring_writer_key(GPURING_ALGORITHM_RING, channel, 0);
    uint16_t from, to;

    gpuring_writer_lane_begin(writer, channel, channel + 1, n);
    from = gpuring_writer_recv(writer, position->prev, key);
    to = gpuring_writer_send(writer, position->next, key);

    /* The five of GPURING_STEP_RING; their chunks follow from the first one's. */
    gpuring_writer_step(writer, (uint32_t) position->index, GPURING_STEP_RING,
                        (const uint16_t[]){GPURING_REF_INPUT, to}, 1, 1);
    gpuring_writer_step(writer, 0, 0, (const uint16_t[]){from, GPURING_REF_INPUT, to}, 2, 1);
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE,
                        (const uint16_t[]){from, GPURING_REF_INPUT, to}, 2, 1);
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE, (const uint16_t[]){from, to}, 1, 1);
    gpuring_writer_step(writer, 0, GPURING_STEP_STORE, (const uint16_t[]){from}, 1, 0);
    gpuring_writer_lane_ring(writer);
    gpuring_writer_lane_end(writer);
}

int gpuring_plan_build_ring(const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    struct gpuring_writer writer;

    gpuring_writer_open(&writer, GPURING_COLLECTIVE_ALLREDUCE, GPURING_ALGORITHM_RING, input,
                        input->nrings);
    for (uint32_t c = 0; writer.status == GPURING_OK && c < input->nrings; c++) {
        add_lane(&writer, c, &input->channels[c].ring, (uint32_t) input->nranks);
    }
    return gpuring_writer_finish(&writer, plan);
}
