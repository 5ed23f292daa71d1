/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The plans of all ranks connected within one process: FIFOs are ordinary memory. For the tests of
 * executors, which run the ranks' works in turn in one thread, or each in a thread of its own.
 */
#ifndef GPURING_TEST_FABRIC_H
#define GPURING_TEST_FABRIC_H

#include "kernels/work.h"
#include "test/unit/plans.h"

struct fabric_rank {
    struct gpuring_send *sends;
    struct gpuring_recv *recvs;
    struct gpuring_lane *lanes;
    struct gpuring_work work;
};

struct fabric {
    const struct test_plans *plans;
    enum gpuring_protocol protocol;
    uint64_t slot_bytes;
    uint32_t nslots;
    struct fabric_rank *ranks;
    void *memory; /* of all slots and counters */
    size_t memory_bytes;
    uint32_t abort;
};

/* Connect the plans for one protocol; all counters and slots are zero. */
void fabric_create(struct fabric *fabric, const struct test_plans *plans,
                   enum gpuring_protocol protocol, uint64_t slot_bytes, uint32_t nslots);
void fabric_destroy(struct fabric *fabric);

/* Let all connections have carried `step` chunks already. */
void fabric_start_at(struct fabric *fabric, uint64_t step);

/* Fill in the work of one rank; its lanes start anew. */
void fabric_work(struct fabric *fabric, int rank, uint32_t type, uint32_t op, uint64_t count,
                 const void *input, void *output, uint64_t patience);

#endif
