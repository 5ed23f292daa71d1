/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A fabric connects the plans of all ranks within one process. FIFOs are in host memory or in GPU
 * memory. Tests of executors run the ranks' works in turn in one thread, in a separate thread each,
 * or all as lanes of one work.
 */
#ifndef GPURING_TEST_FABRIC_H
#define GPURING_TEST_FABRIC_H

#include "kernels/work.h"
#include "test/unit/plans.h"

/* Memory for fabrics: zeroed, 128-byte aligned. wires: slots and counters, which
 * only executors access; otherwise memory that the host writes and executors read. */
struct fabric_memory {
    void *(*alloc)(size_t bytes, int wires);
    void (*release)(void *memory, int wires);
};

/* Memory for all fabrics that are created afterwards. The default is host memory. */
extern const struct fabric_memory *fabric_memory;

/* gpuring_fifo_end.local of all connections that are created afterwards, 0 by default. With
 * GPURING_FIFO_NET, executors take them for connections between nodes. */
extern uint16_t fabric_local;

struct fabric_rank {
    struct gpuring_fifo_end *sends;
    struct gpuring_fifo_end *recvs;
    struct gpuring_step *steps; /* steps of all lanes, one after the other */
    uint16_t *refs;
    struct gpuring_lane *lanes; /* these two are in one array for all ranks */
    struct gpuring_lane_state *states;
    struct gpuring_work work;
};

struct fabric {
    const struct test_plans *plans;
    enum gpuring_protocol protocol;
    uint64_t slot_bytes;
    uint32_t nslots;
    struct fabric_rank *ranks;
    struct gpuring_lane *lanes;
    struct gpuring_lane_state *states;
    struct gpuring_work *work; /* of fabric_work_all */
    void *memory;              /* of all slots and counters */
    uint32_t *abort;
};

/* With this number of slots the chunks of Simple are sent in slices, as on GPUs. */
#define FABRIC_SLICED (2 * GPURING_SLICES)

/* Connect the plans for one protocol, with all counters and slots at zero. */
void fabric_create(struct fabric *fabric, const struct test_plans *plans,
                   enum gpuring_protocol protocol, uint64_t slot_bytes, uint32_t nslots);
void fabric_destroy(struct fabric *fabric);

/* Set the counters of all connections as if `step` chunks had been sent. Only for host memory. */
void fabric_start_at(struct fabric *fabric, uint64_t step);

/* Fill in the work of one rank and restart its lanes. */
void fabric_work(struct fabric *fabric, int rank, uint32_t type, uint32_t op, uint64_t count,
                 const void *input, void *output, uint64_t patience);

/* Fill in one work with the lanes of all ranks. The vectors of rank r begin r * stride elements
 * after those of rank 0. */
void fabric_work_all(struct fabric *fabric, uint32_t type, uint32_t op, uint64_t count,
                     const void *input, void *output, uint64_t stride, uint64_t patience);

#endif
