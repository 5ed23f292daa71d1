/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the block executor of the CUDA kernels with real threads instead of those of a block: all
 * plans, protocols and types, boundaries and misalignments. The thread sanitizer runs this test,
 * too.
 */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/block_threads.h"
#include "test/unit/calls.h"

#define SLOT_BYTES 1024

static int run_block3(struct gpuring_work *work)
{
    return block_work_run(work, 3);
}

static int run_block8(struct gpuring_work *work)
{
    return block_work_run(work, 8);
}

/* Some ranks are blocks and the others hosts, because both use the same protocols. */
static int run_mixed(struct gpuring_work *work)
{
    return work->chunk % 256 == 0 && ((uintptr_t) work->input & 1) == 0
               ? block_work_run(work, 2)
               : gpuring_work_run_host(work);
}

static const struct shape {
    enum gpuring_algorithm algorithm;
    int nranks;
    uint32_t nchannels;
} shapes[] = {
    {GPURING_ALGORITHM_RING, 2, 1},   {GPURING_ALGORITHM_RING, 4, 1},
    {GPURING_ALGORITHM_TREE, 4, 1},   {GPURING_ALGORITHM_DIRECT, 2, 1},
    {GPURING_ALGORITHM_DIRECT, 6, 1}, {GPURING_ALGORITHM_TWO_SHOT, 3, 2},
};

/* Types of all sizes that a GPU folds. */
static const uint32_t sizes[] = {GPURING_TYPE_UINT8, GPURING_TYPE_INT16, GPURING_TYPE_FLOAT,
                                 GPURING_TYPE_DOUBLE, GPURING_TYPE_COMPLEX_DOUBLE};

TEST(test_boundaries)
{
    size_t turn = 0;

    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
            struct test_plans plans;
            struct fabric fabric;

            test_plans_build(&plans, shapes[shape].algorithm, shapes[shape].nranks,
                             shapes[shape].nchannels);
            fabric_create(&fabric, &plans, (enum gpuring_protocol) protocol, SLOT_BYTES,
                          shape % 2 == 0 ? FABRIC_SLICED : 2);
            for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
                uint64_t counts[CALL_COUNTS];
                size_t ncounts = call_counts(&fabric, sizes[t], counts);

                for (size_t i = 0; i < ncounts; i++, turn++) {
                    struct call call = {.type = sizes[t],
                                        .op = GPURING_OP_SUM,
                                        .count = counts[i],
                                        .in_place = turn % 3 == 0,
                                        .shift = turn % 5 == 0 ? 0 : turn % 16};

                    call_run(&fabric, &call, call_run_threads,
                             turn % 7 == 0   ? run_mixed
                             : turn % 2 == 0 ? run_block8
                                             : run_block3,
                             200);
                }
            }
            fabric_destroy(&fabric);
            test_plans_free(&plans);
        }
    }
}

/* Every type and operation of a GPU, over the protocols in turn. */
TEST(test_all_types)
{
    size_t turn = 0;

    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            struct test_plans plans;
            struct fabric fabric;
            struct call call = {
                .type = type, .op = op, .count = 300 + turn % 31, .in_place = turn % 2 == 0};

            if (!gpuring_op_allows(op, type) || !gpuring_type_info(type)->device) {
                continue;
            }
            test_plans_build(&plans, GPURING_ALGORITHM_RING, 3, 1);
            fabric_create(&fabric, &plans, (enum gpuring_protocol)(turn++ % GPURING_PROTOCOL_COUNT),
                          SLOT_BYTES, 2);
            call_run(&fabric, &call, call_run_threads, run_block8, 200);
            fabric_destroy(&fabric);
            test_plans_free(&plans);
        }
    }
}

/* Ranks run in turn. Every wait gives up immediately, also inside batches, and is resumed later.
 */
TEST(test_resume)
{
    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        struct test_plans plans;
        struct fabric fabric;

        test_plans_build(&plans, GPURING_ALGORITHM_DIRECT, 3, 1);
        fabric_create(&fabric, &plans, (enum gpuring_protocol) protocol, SLOT_BYTES, 2);
        for (uint64_t count = 1; count < 1000; count += 97) {
            struct call call = {
                .type = GPURING_TYPE_INT32, .op = GPURING_OP_SUM, .count = count, .in_place = 1};

            call_run(&fabric, &call, call_run_in_turn, run_block8, 1);
        }
        fabric_destroy(&fabric);
        test_plans_free(&plans);
    }
}

/* Two-shot on mapped buffers. Slots of 128 bytes carry no data. Ranks run at the same time, or in
 * turn with waits that give up immediately. */
TEST(test_mapped)
{
    static const struct shape mapped[] = {{GPURING_ALGORITHM_TWO_SHOT, 2, 1},
                                          {GPURING_ALGORITHM_TWO_SHOT, 3, 2},
                                          {GPURING_ALGORITHM_TWO_SHOT, 8, 3}};
    static const uint64_t counts[] = {1, 15, 16, 17, 255, 1000, 4096, 20011};

    for (size_t shape = 0; shape < sizeof mapped / sizeof *mapped; shape++) {
        struct test_plans plans;
        struct fabric fabric;

        test_plans_build(&plans, mapped[shape].algorithm, mapped[shape].nranks,
                         mapped[shape].nchannels);
        fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, 128, 2);
        for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
            for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
                struct call call = {.type = sizes[t],
                                    .op = GPURING_OP_SUM,
                                    .count = counts[i / 2],
                                    .in_place = i % 2 == 0,
                                    .mapped = 1};

                call_run(&fabric, &call, t % 2 == 0 ? call_run_threads : call_run_in_turn,
                         i % 3 == 0 ? run_block3 : run_block8, t % 2 == 0 ? 200 : 1);
            }
        }
        fabric_destroy(&fabric);
        test_plans_free(&plans);
    }
}

TEST(test_flag_wrap)
{
    call_flag_wrap(run_block8);
}

TEST(test_abort)
{
    struct test_plans plans;
    struct fabric fabric;
    int32_t input[1000] = {0}, output[1000];

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 3, 1);
    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        fabric_create(&fabric, &plans, (enum gpuring_protocol) protocol, SLOT_BYTES, 4);
        fabric_work(&fabric, 0, GPURING_TYPE_INT32, GPURING_OP_SUM, 1000, input, output, 10);
        assert_int_equal(run_block8(&fabric.ranks[0].work), GPURING_AGAIN);
        assert_int_equal(fabric.ranks[0].states[0].wait, GPURING_WAIT_RECV);
        *fabric.abort = 6;
        assert_int_equal(run_block8(&fabric.ranks[0].work), GPURING_ERR_ABORTED);
        fabric_destroy(&fabric);
    }
    test_plans_free(&plans);
}

/* A rank that begins after an abort stores nothing into mapped buffers of others, although all of
 * them have allowed it to read. */
TEST(test_abort_mapped)
{
    enum { count = 1000, ranks = 3 };
    static int32_t buffers[ranks][count] __attribute__((aligned(16)));
    struct gpuring_mapped mapped[ranks][ranks - 1];
    struct test_plans plans;
    struct fabric fabric;

    test_plans_build(&plans, GPURING_ALGORITHM_TWO_SHOT, ranks, 1);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, 128, 2);
    for (int rank = ranks - 1; rank >= 0; rank--) {
        struct gpuring_work *work = &fabric.ranks[rank].work;

        fabric_work(&fabric, rank, GPURING_TYPE_INT32, GPURING_OP_SUM, count, buffers[rank],
                    buffers[rank], 10);
        for (int i = 0; i < ranks - 1; i++) {
            void *peer = buffers[plans.plans[rank]->sends[i].peer];

            mapped[rank][i] = (struct gpuring_mapped){peer, peer};
        }
        work->mapped = mapped[rank];
        work->chunk = count;
        buffers[rank][count - 1] = buffers[rank][0] = rank + 1;
        *fabric.abort = rank == 0 ? 6 : 0;
        assert_int_equal(run_block8(work), rank == 0 ? GPURING_ERR_ABORTED : GPURING_AGAIN);
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(buffers[rank][0], rank + 1);
        assert_int_equal(buffers[rank][count - 1], rank + 1);
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

TEST_GROUP(quiet_log, NULL)
