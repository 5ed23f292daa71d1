/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the kernel that copies messages (kernels/move.h) with the PTX interpreter of the stand-in
 * driver: lengths and alignments, patience, and operations that are slow on a GPU. No result is
 * from a GPU.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/move.h"
#include "test/ptx/ptx.h"
#include "test/unit/ptx_kernel.h"

#define MOST   ((size_t) 1 << 20)
#define BORDER 64 /* bytes before and after a buffer */
#define NUMBER 77

/* Memory that the GPU can access. */
static struct memory {
    uint8_t from[BORDER + MOST + BORDER], to[BORDER + MOST + BORDER];
    uint64_t awaited[GPURING_MOVE_BLOCKS], signals[GPURING_MOVE_BLOCKS], ends[GPURING_MOVE_BLOCKS];
} memory __attribute__((aligned(128)));

static struct ptx_program *program;

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void) context;
    *begin = (uintptr_t) &memory;
    *end = *begin + sizeof memory;
    return address >= *begin && address < *end;
}

static void run(const struct gpuring_move *move, struct ptx_counts *counts)
{
    struct ptx_machine *machine = ptx_machine_create(program);
    struct ptx_launch launch = {.kernel = GPURING_MOVE_KERNEL,
                                .blocks = gpuring_move_blocks(move),
                                .threads = GPURING_MOVE_THREADS,
                                .parameters = move,
                                .bytes = sizeof *move,
                                .seed = 1,
                                .limit = 100000000,
                                .reach = reach,
                                .counts = counts};
    struct ptx_fault fault;

    assert_non_null(machine);
    if (ptx_machine_run(machine, &launch, &fault) != PTX_OK) {
        fail_msg("%s", fault.text);
    }
    ptx_machine_free(machine);
}

/* Fill the memory. Describe the copy of a sender, or of a receiver whose slot is filled, with these
 * offsets of the two buffers. */
static struct gpuring_move prepare(size_t bytes, unsigned from, unsigned to, bool sends)
{
    struct gpuring_move move = {.from = memory.from + BORDER + from,
                                .to = memory.to + BORDER + to,
                                .bytes = bytes,
                                .lead = sends ? from % GPURING_MOVE_PACK : 0,
                                .awaited = sends ? NULL : memory.awaited,
                                .signals = sends ? memory.signals : NULL,
                                .ends = memory.ends,
                                .number = NUMBER};

    memset(&memory, 0, sizeof memory);
    for (size_t i = 0; i < sizeof memory.from; i++) {
        memory.from[i] = (uint8_t) (i * 7 + i / 251);
        memory.to[i] = 0xee;
    }
    for (uint32_t i = 0; i < GPURING_MOVE_BLOCKS; i++) {
        memory.awaited[i] = NUMBER;
    }
    return move;
}

/* Return true if exactly the parts of these blocks (bits) have been copied. */
static bool copied(const struct gpuring_move *move, uint32_t blocks)
{
    static uint8_t expected[sizeof memory.to];

    memset(expected, 0xee, sizeof expected);
    for (uint32_t b = 0; b < gpuring_move_blocks(move); b++) {
        uint64_t first, bytes = gpuring_move_part(move, b, &first);

        if (blocks >> b & 1) {
            memcpy(expected + (move->to - memory.to) + first, move->from + first, bytes);
        }
    }
    return memcmp(expected, memory.to, sizeof expected) == 0;
}

TEST(test_parts)
{
    static const size_t sizes[] = {1, 127, 8192, 8193, 20000, 131072, 200001, MOST};

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned lead = 0; lead < GPURING_MOVE_PACK; lead++) {
            struct gpuring_move move = {.bytes = sizes[s], .lead = lead};
            uint64_t next = 0;

            assert_in_range(gpuring_move_blocks(&move), 1, GPURING_MOVE_BLOCKS);
            for (uint32_t b = 0; b < gpuring_move_blocks(&move); b++) {
                uint64_t first, bytes = gpuring_move_part(&move, b, &first);

                assert_true(bytes == 0 || first == next);
                assert_true(b == 0 || bytes == 0 || (first + lead) % 128 == 0);
                next += bytes;
            }
            assert_int_equal(next, sizes[s]);
        }
    }
}

TEST(test_lengths_and_alignments)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 100, 4096, 8191, 8192, 16400, 40013};

    program = ptx_kernels();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (unsigned i = 0; i < 12; i++) {
            unsigned from = i * 5 % 17, to = i % 3 == 0 ? from : i * 3 % 16;
            struct gpuring_move move = prepare(sizes[s], from, to, i % 2 == 0);
            uint32_t blocks = gpuring_move_blocks(&move);

            run(&move, NULL);
            if (!copied(&move, UINT32_MAX)) {
                fail_msg("%zu bytes, offsets %u and %u", sizes[s], from, to);
            }
            for (uint32_t b = 0; b < blocks; b++) {
                assert_int_equal(memory.ends[b], gpuring_move_end(NUMBER, true));
                assert_int_equal(memory.signals[b], i % 2 == 0 ? NUMBER : 0);
            }
            assert_true(gpuring_move_copied(&move));
        }
    }
}

TEST(test_patience)
{
    struct gpuring_move move;
    const uint32_t blocks = 1u << 0 | 1u << 3;

    program = ptx_kernels();
    move = prepare(40000, 3, 5, false);
    move.patience = 1000;
    assert_int_equal(gpuring_move_blocks(&move), 5);
    for (uint32_t b = 0; b < 5; b++) {
        memory.awaited[b] = blocks >> b & 1 ? NUMBER : NUMBER - 1;
    }
    run(&move, NULL);
    assert_true(copied(&move, blocks));
    for (uint32_t b = 0; b < 5; b++) {
        assert_int_equal(memory.ends[b], gpuring_move_end(NUMBER, blocks >> b & 1));
    }
    assert_false(gpuring_move_copied(&move));
}

/* Each block executes one fence, and waits for memory once up to 1 MiB. */
TEST(test_costs)
{
    static const size_t sizes[] = {16 << 10, 64 << 10, 256 << 10, MOST};

    program = ptx_kernels();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int sends = 0; sends < 2; sends++) {
            struct gpuring_move move = prepare(sizes[s], 0, 0, sends);
            struct ptx_counts counts = {0};

            run(&move, &counts);
            assert_true(copied(&move, UINT32_MAX));
            print_message(
                "%s %zu bytes: %u blocks, %llu fences, %llu bytes in flight, %llu rounds "
                "of loads before the first store, %llu waits for loads, %llu instructions "
                "of the longest warp\n",
                sends ? "send" : "receive", sizes[s], gpuring_move_blocks(&move),
                (unsigned long long) counts.fences, (unsigned long long) counts.in_flight,
                (unsigned long long) counts.rounds, (unsigned long long) counts.waits,
                (unsigned long long) counts.longest);
            assert_int_equal(counts.fences, 1);
            assert_true(counts.waits <= (sends ? 1u : 2u));
            assert_true(counts.in_flight >= sizes[s] / gpuring_move_blocks(&move));
        }
    }
}
