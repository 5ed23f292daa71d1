/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The calls of staged_large.c, and what is expected of them. */
#ifndef GPURING_TEST_STAGED_LARGE_H
#define GPURING_TEST_STAGED_LARGE_H

#include "staged.h"

/* How elements lie: plain ints; three ints, which some ranks take as one element; an int that is
 * not where its address says; with a gap: of all ranks in reductions, else at the last rank alone.
 */
enum { LARGE_PLAIN, LARGE_TRIPLES, LARGE_SHIFTED, LARGE_GAPS, LARGE_LAYOUTS };

#define LARGE_SIZES       9
#define LARGE_MANY_CHUNKS 6 /* the number of a size that makes several chunks */

struct large_call {
    const struct collective *what;
    struct call x;
    bool sends, receives; /* this rank's buffers are touched */
    bool send_in_place, receive_in_place;
    int blocks, layout;
    int ints[PEERS]; /* of each block */
};

void large_open(size_t area); /* data_open, with the layouts */
bool large_is_cut(const struct collective *what);
/* The call with the size of this number: below, at and above what is cut, at and beside the ends of
 * chunks; of blocks that differ: in other ways. */
void large_prepare(struct large_call *large, const struct collective *what, int layout, int size,
                   bool in_place, bool last_root);
/* How many chunks it makes if it is staged; 0: it is not cut. */
long long large_chunks(const struct large_call *large);
int large_own_ints(const struct large_call *large);

#endif
