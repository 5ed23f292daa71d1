/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls of an allreduce on all ranks of a fabric, with inputs from reference.h, guarded buffers at
 * chosen misalignments and a check of every byte. Shared by the tests of the executors.
 */
#ifndef GPURING_TEST_CALLS_H
#define GPURING_TEST_CALLS_H

#include <stddef.h>

#include "test/unit/fabric.h"

struct call {
    uint32_t type, op;
    uint64_t count;
    int in_place;
    size_t shift; /* misalignment of buffers in bytes, which differs between ranks */
    int mapped;   /* ranks access the buffers of their peers, which are aligned */
};

/* An executor: runs or resumes the work of one rank, as gpuring_work_run_host does. */
typedef int (*call_executor)(struct gpuring_work *work);

/* Run all ranks of the fabric, either in turn in one thread (with patience 1 each returns
 * as soon as it would wait) or each in a separate thread. Returns 0 or the first error. */
int call_run_in_turn(struct fabric *fabric, call_executor executor);
int call_run_threads(struct fabric *fabric, call_executor executor);

/* Make one call on all ranks. If anything is wrong, fail the test with all details. */
void call_run(struct fabric *fabric, const struct call *call,
              int (*run)(struct fabric *, call_executor), call_executor executor,
              uint64_t patience);

/* Make calls around the steps at which LL slots are rewritten and at which the 32-bit flags repeat.
 * Fail the test if old data is mistaken for new data. */
void call_flag_wrap(call_executor executor);

#define CALL_COUNTS 16

/* Fill in counts around every boundary: elements, alignment, lines, chunks, windows. Return their
 * number. */
size_t call_counts(const struct fabric *fabric, uint32_t type, uint64_t *counts);

#endif
