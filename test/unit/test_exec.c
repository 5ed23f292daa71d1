/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the host executor with every plan, protocol, type and operation, with sizes around every
 * boundary and buffers at every misalignment, in place and out of place. Ranks run in turn in one
 * thread (each returns as soon as it would wait, so every wait is also a resumption), then as
 * threads.
 */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/calls.h"

#define SLOT_BYTES 1024

static void all_types(enum gpuring_algorithm algorithm, enum gpuring_protocol protocol, int nranks,
                      uint32_t nchannels)
{
    struct test_plans plans;
    struct fabric fabric;
    uint64_t counts[CALL_COUNTS];
    size_t turn = 0;

    test_plans_build(&plans, algorithm, nranks, nchannels);
    fabric_create(&fabric, &plans, protocol, SLOT_BYTES, 4);
    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        size_t ncounts = call_counts(&fabric, type, counts);

        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            /* Each pair of type and operation: four of the counts, all of them in the course. */
            for (size_t i = 0; i < 4 && gpuring_op_allows(op, type); i++, turn++) {
                struct call call = {.type = type,
                                    .op = op,
                                    .count = counts[turn % ncounts],
                                    .in_place = turn / ncounts % 2 != 0,
                                    .shift = turn % 16};

                call_run(&fabric, &call, call_run_in_turn, gpuring_work_run_host, 1);
            }
        }
    }
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

TEST(test_all_types)
{
    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        all_types(GPURING_ALGORITHM_RING, (enum gpuring_protocol) protocol, 2, 1);
        all_types(GPURING_ALGORITHM_RING, (enum gpuring_protocol) protocol, 5, 2);
        all_types(GPURING_ALGORITHM_TREE, (enum gpuring_protocol) protocol, 4, 2);
        all_types(GPURING_ALGORITHM_DIRECT, (enum gpuring_protocol) protocol, 2, 1);
        all_types(GPURING_ALGORITHM_DIRECT, (enum gpuring_protocol) protocol, 4, 1);
        all_types(GPURING_ALGORITHM_TWO_SHOT, (enum gpuring_protocol) protocol, 5, 3);
    }
}

/* Two-shot between nodes. 33 ranks on a node need several steps for a sum; checking them takes the
 * square of their number, so their vectors are shorter. */
TEST(test_nodes)
{
    static const int shapes[][2] = {{6, 2}, {9, 3}, {66, 2}};

    for (size_t i = 0; i < 3 * sizeof shapes / sizeof *shapes; i++) {
        const int *shape = shapes[i / 3];
        struct test_plans plans;
        struct fabric fabric;

        test_plans_build_nodes(&plans, shape[0], shape[1], 2);
        fabric_create(&fabric, &plans, (enum gpuring_protocol)(i % 3), SLOT_BYTES, 2);
        for (uint64_t count = 1; count < (shape[0] > 9 ? 5000 : 70000); count = 5 * count + 3) {
            struct call call = {.type = GPURING_TYPE_INT32,
                                .op = GPURING_OP_SUM,
                                .count = count,
                                .in_place = count % 2 != 0,
                                .shift = count % 16};

            call_run(&fabric, &call, call_run_in_turn, gpuring_work_run_host, 1);
        }
        fabric_destroy(&fabric);
        test_plans_free(&plans);
    }
}

/* A lane between nodes sends four more windows while it waits, and the results stay right. */
TEST(test_ahead)
{
    static int32_t input[16 * 256], output[16 * 256];
    struct test_plans plans;
    struct fabric fabric;

    fabric_local = GPURING_FIFO_NET;
    test_plans_build(&plans, GPURING_ALGORITHM_DIRECT, 3, 1);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, SLOT_BYTES, 16);
    fabric_work(&fabric, 0, GPURING_TYPE_INT32, GPURING_OP_SUM, 16 * 256, input, output, 1);
    fabric.ranks[0].work.slice = 0;
    fabric.ranks[0].work.chunk = 256;
    assert_int_equal(gpuring_work_run_host(&fabric.ranks[0].work), GPURING_AGAIN);
    assert_int_equal(fabric.ranks[0].sends[0].posted, 5);
    assert_int_equal(fabric.ranks[0].sends[1].posted, 5);
    assert_int_equal(gpuring_work_run_host(&fabric.ranks[0].work), GPURING_AGAIN);
    assert_int_equal(fabric.ranks[0].sends[0].posted, 5);
    fabric_destroy(&fabric);
    for (uint32_t nslots = 1; nslots <= 16; nslots *= 2) {
        fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, SLOT_BYTES, nslots);
        for (uint64_t count = 1; count < 20000; count = 2 * count + 5) {
            for (uint64_t patience = 1; patience <= 5; patience += 2) {
                struct call call = {.type = GPURING_TYPE_INT32,
                                    .op = GPURING_OP_SUM,
                                    .count = count,
                                    .in_place = patience == 3};

                call_run(&fabric, &call, call_run_in_turn, gpuring_work_run_host, patience);
            }
        }
        fabric_destroy(&fabric);
    }
    test_plans_free(&plans);
    fabric_local = 0;
}

/* Test all counts and misalignments, in place and out of place, with one type of each size. Other
 * algorithms than rings take every fifth combination, which still gives each type every
 * misalignment, and each count six of them. */
TEST(test_boundaries)
{
    static const uint32_t types[] = {GPURING_TYPE_UINT8,          GPURING_TYPE_INT16,
                                     GPURING_TYPE_FLOAT,          GPURING_TYPE_DOUBLE,
                                     GPURING_TYPE_COMPLEX_DOUBLE, GPURING_TYPE_COMPLEX_LONG_DOUBLE};

    for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        for (int algorithm = 0; algorithm < GPURING_ALGORITHM_COUNT; algorithm++) {
            struct test_plans plans;
            struct fabric fabric;
            uint64_t counts[CALL_COUNTS];

            test_plans_build(&plans, (enum gpuring_algorithm) algorithm, 3, 1);
            fabric_create(&fabric, &plans, (enum gpuring_protocol) protocol, SLOT_BYTES, 2);
            for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
                size_t ncounts = call_counts(&fabric, types[t], counts);

                for (size_t i = 0; i < 32 * ncounts;
                     i += algorithm == GPURING_ALGORITHM_RING ? 1 : 5) {
                    struct call call = {.type = types[t],
                                        .op = GPURING_OP_SUM,
                                        .count = counts[i / 32],
                                        .in_place = (int) (i / 16 % 2),
                                        .shift = i % 16};

                    call_run(&fabric, &call, call_run_in_turn, gpuring_work_run_host, 1 + i % 3);
                }
            }
            fabric_destroy(&fabric);
            test_plans_free(&plans);
        }
    }
}

TEST(test_threads)
{
    static const struct {
        enum gpuring_algorithm algorithm;
        int nranks;
        uint32_t nchannels;
    } shapes[] = {
        {GPURING_ALGORITHM_RING, 2, 1},   {GPURING_ALGORITHM_RING, 4, 2},
        {GPURING_ALGORITHM_TREE, 5, 1},   {GPURING_ALGORITHM_DIRECT, 2, 1},
        {GPURING_ALGORITHM_DIRECT, 4, 1}, {GPURING_ALGORITHM_TWO_SHOT, 3, 2},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
            struct test_plans plans;
            struct fabric fabric;

            test_plans_build(&plans, shapes[i].algorithm, shapes[i].nranks, shapes[i].nchannels);
            fabric_create(&fabric, &plans, (enum gpuring_protocol) protocol, 12288, 4);
            for (uint64_t count = 1; count < 100000; count = 3 * count + 7) {
                struct call call = {.type = GPURING_TYPE_INT32,
                                    .op = GPURING_OP_SUM,
                                    .count = count,
                                    .in_place = count % 2 != 0,
                                    .shift = count % 16};

                call_run(&fabric, &call, call_run_threads, gpuring_work_run_host, 100);
            }
            fabric_destroy(&fabric);
            test_plans_free(&plans);
        }
    }
}

/* Chunks of one size use a different offset in their slot in each round, except for the smallest
 * chunks. */
TEST(test_spread)
{
    struct gpuring_fifo_end end = {.nslots = 4, .spread = 1};

    for (end.slot_bytes = 4096; end.slot_bytes <= 40960; end.slot_bytes += 3 * 128) {
        for (uint64_t bytes = 1; bytes <= end.slot_bytes; bytes += 1000) {
            uint64_t taken = 0, before = 0, lines = (bytes + 127) / 128;

            for (end.step = 0; end.step < 4 * 10; end.step++) {
                uint64_t at = gpuring_fifo_rotate_offset(&end, bytes), place = at / 128 / lines;

                assert_int_equal(at % 128, 0);
                assert_true(at + bytes <= end.slot_bytes);
                assert_true(at == 0 || bytes >= GPURING_FIFO_SPREADS);
                assert_true(at == before || end.step % end.nslots == 0);
                before = at;
                taken |= UINT64_C(1) << place;
            }
            if (bytes >= GPURING_FIFO_SPREADS) { /* at most ten of them have room */
                assert_int_equal(taken + 1, UINT64_C(1) << end.slot_bytes / 128 / lines);
            }
        }
    }
    end.spread = 0;
    assert_int_equal(gpuring_fifo_rotate_offset(&end, GPURING_FIFO_SPREADS), 0);
}

TEST(test_flag_wrap)
{
    call_flag_wrap(gpuring_work_run_host);
}

TEST(test_abort)
{
    struct test_plans plans;
    struct fabric fabric;
    int32_t input[1000] = {0}, output[1000];

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 3, 2);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, SLOT_BYTES, 4);
    fabric_work(&fabric, 0, GPURING_TYPE_INT32, GPURING_OP_SUM, 1000, input, output, 10);
    assert_int_equal(gpuring_work_run_host(&fabric.ranks[0].work), GPURING_AGAIN);
    assert_int_equal(fabric.ranks[0].states[0].wait, GPURING_WAIT_RECV);
    assert_int_equal(fabric.ranks[0].states[0].wait_ref, 0);
    *fabric.abort = 6;
    assert_int_equal(gpuring_work_run_host(&fabric.ranks[0].work), GPURING_ERR_ABORTED);
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

/* If ranks have different counts, the result is an error. */
TEST(test_other_count)
{
    struct test_plans plans;
    struct fabric fabric;
    int32_t input[1000] = {0}, output[2][1000];

    test_plans_build(&plans, GPURING_ALGORITHM_RING, 2, 1);
    fabric_create(&fabric, &plans, GPURING_PROTOCOL_SIMPLE, SLOT_BYTES, 4);
    for (int rank = 0; rank < 2; rank++) {
        fabric_work(&fabric, rank, GPURING_TYPE_INT32, GPURING_OP_SUM, 1000 - 500 * (uint64_t) rank,
                    input, output[rank], 1);
    }
    assert_int_equal(call_run_in_turn(&fabric, gpuring_work_run_host), GPURING_ERR_COUNTS);
    fabric_destroy(&fabric);
    test_plans_free(&plans);
}

TEST(test_unsupported)
{
    struct gpuring_work work = {.type = GPURING_TYPE_FLOAT, .op = GPURING_OP_BXOR};

    assert_int_equal(gpuring_work_run_host(&work), GPURING_ERR_UNSUPPORTED);
    work.type = GPURING_TYPE_COUNT;
    assert_int_equal(gpuring_work_run_host(&work), GPURING_ERR_UNSUPPORTED);
    work.type = GPURING_TYPE_FLOAT;
    work.op = GPURING_OP_SUM;
    work.protocol = GPURING_PROTOCOL_COUNT;
    assert_int_equal(gpuring_work_run_host(&work), GPURING_ERR_UNSUPPORTED);
}

TEST_GROUP(quiet_log, NULL)

int main(void)
{
#if defined __SANITIZE_THREAD__
    cmocka_set_test_filter("test_threads"); /* the others have one thread */
#endif
    return unit_run();
}
