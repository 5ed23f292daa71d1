/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls of the collectives other than allreduce on all ranks of a fabric: buffers, works, and a
 * check of every byte. Buffers are in the fabric's memory.
 */
#ifndef GPURING_TEST_COLLECTIVE_CALLS_H
#define GPURING_TEST_COLLECTIVE_CALLS_H

#include "test/unit/fabric.h"

#define COLLECTIVE_RANKS 33 /* maximum */

/* A collective on blocks of uint32 (or one vector), whose counts for sender i and receiver j are
 * counts[i][j]. The caller sets the fields above the line. */
struct collective_call {
    enum gpuring_collective collective;
    enum gpuring_algorithm algorithm;
    enum gpuring_protocol protocol;
    int nranks, root;
    bool uneven, in_place;
    uint64_t count; /* of the vector, or of an even block */
    uint64_t counts[COLLECTIVE_RANKS][COLLECTIVE_RANKS];
    /* ---- */
    struct gpuring_extent *extents; /* [nranks][2][nranks]: of the input, of the output */
    uint64_t in_end[COLLECTIVE_RANKS], out_end[COLLECTIVE_RANKS]; /* elements of the buffers */
    uint32_t *input[COLLECTIVE_RANKS], *output[COLLECTIVE_RANKS];
    uint8_t *before[COLLECTIVE_RANKS]; /* the output's bytes before */
};

/* Create the buffers, and fill in the works of all ranks. `chunk` is the maximum number of
 * elements. */
void collective_call_begin(struct fabric *fabric, struct collective_call *call, uint64_t chunk,
                           uint64_t patience);
/* After all works have ended, fail the test if a byte is wrong, and free the buffers. */
void collective_call_end(struct collective_call *call);

#endif
