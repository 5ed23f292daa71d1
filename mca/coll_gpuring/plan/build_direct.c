/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Direct one-shot: one lane, a window is one chunk, two steps:
 *
 *   input > send to all others
 *   recv 0 + .. + input (at the own position) + .. + recv n-1 > output
 *
 * One hop of latency for n - 1 times the traffic: for small vectors. Nobody waits for a slot before
 * all have what they wait for: the sends of window w need the slots of window w - slots, which
 * their receivers have folded before they sent window w - slots + 1.
 */
#include <stdlib.h>

#include "mca/coll_gpuring/plan/writer.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_plan_build_direct(int rank, int nranks, struct gpuring_plan **plan)
{
    uint32_t key = gpuring_writer_key(GPURING_ALGORITHM_DIRECT, 0, 0);
    struct gpuring_writer writer;
    uint16_t *sends, *operands;

    if (nranks < 2 || nranks >= (int) GPURING_REF_INPUT || rank < 0 || rank >= nranks) {
        gpuring_error("no direct plan of %d ranks (rank %d)", nranks, rank);
        return GPURING_ERR_ARG;
    }
    sends = malloc((size_t) nranks * sizeof *sends);
    operands = malloc((size_t) nranks * sizeof *operands);
    if (sends == NULL || operands == NULL) {
        gpuring_error("out of memory for a direct plan of %d ranks", nranks);
        free(sends);
        free(operands);
        return GPURING_ERR_NOMEM;
    }
    gpuring_writer_open(&writer, GPURING_ALGORITHM_DIRECT, rank, nranks, 1);
    gpuring_writer_lane_begin(&writer, 0, 1, 1);
    sends[0] = GPURING_REF_INPUT;
    operands[rank] = GPURING_REF_INPUT;
    /* Destinations from the next rank on, so that not all ranks write to rank 0 first. */
    for (int i = 1; i < nranks; i++) {
        sends[i] = gpuring_writer_send(&writer, (rank + i) % nranks, key);
    }
    for (int peer = 0; peer < nranks; peer++) {
        if (peer != rank) {
            operands[peer] = gpuring_writer_recv(&writer, peer, key);
        }
    }
    gpuring_writer_step(&writer, 0, 0, sends, 1, (size_t) nranks - 1);
    gpuring_writer_step(&writer, 0, GPURING_STEP_STORE, operands, (size_t) nranks, 0);
    gpuring_writer_lane_end(&writer);
    free(sends);
    free(operands);
    return gpuring_writer_finish(&writer, plan);
}
