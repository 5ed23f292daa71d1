/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How large calls are cut into chunks: sizes of pieces and chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mca/coll_gpuring/stage/cut.h"

#define LIMIT  ((size_t) 4096)
#define BLOCKS 5

static struct gpuring_cut cut_of(int blocks, const size_t *units, size_t size)
{
    struct gpuring_cut cut = {.blocks = blocks, .units = units, .size = size};

    gpuring_cut_find(&cut, LIMIT);
    return cut;
}

static void a_vector_goes_in_chunks_of_the_limit(void **state)
{
    const size_t units[] = {3 * LIMIT + 1};
    struct gpuring_cut cut = cut_of(1, units, 1);

    (void) state;
    assert_int_equal(cut.step, LIMIT);
    assert_int_equal(cut.chunks, 4);
    assert_int_equal(gpuring_cut_units(&cut, 0, 2), LIMIT);
    assert_int_equal(gpuring_cut_units(&cut, 0, 3), 1);
    assert_int_equal(gpuring_cut_units(&cut, 0, 4), 0);
    assert_int_equal(gpuring_cut_bytes(&cut), LIMIT);
}

static void pieces_of_bytes_are_whole_lines(void **state)
{
    const size_t units[] = {9999, 9999, 9999};
    struct gpuring_cut cut = cut_of(3, units, 1);

    (void) state;
    assert_int_equal(cut.step, LIMIT / 3 / 64 * 64);
}

static void elements_are_never_cut(void **state)
{
    const size_t units[] = {1000}, huge[] = {7};
    struct gpuring_cut cut = cut_of(1, units, 24);

    (void) state;
    assert_int_equal(cut.step, LIMIT / 24);
    cut = cut_of(1, huge, 3 * LIMIT); /* larger than a chunk */
    assert_int_equal(cut.step, 1);
    assert_int_equal(cut.chunks, 7);
}

/* One long block is not cut as finely as many equal ones. */
static void pieces_fill_the_chunk_where_blocks_differ(void **state)
{
    const size_t units[] = {100, 50 * LIMIT, 0, 200, 0};
    struct gpuring_cut cut = cut_of(BLOCKS, units, 1);

    (void) state;
    assert_true(gpuring_cut_bytes(&cut) <= LIMIT);
    assert_true(cut.step > LIMIT - 300 - 64);
}

static void chunks_grow_with_many_blocks(void **state)
{
    (void) state;
    assert_int_equal(gpuring_cut_limit(1, LIMIT), LIMIT);
    assert_int_equal(gpuring_cut_limit(256, LIMIT), LIMIT);
    assert_int_equal(gpuring_cut_limit(257, LIMIT), 2 * LIMIT);
    assert_int_equal(gpuring_cut_limit(1 << 20, LIMIT << 10), (size_t) 1 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vector_goes_in_chunks_of_the_limit),
        cmocka_unit_test(pieces_of_bytes_are_whole_lines),
        cmocka_unit_test(elements_are_never_cut),
        cmocka_unit_test(pieces_fill_the_chunk_where_blocks_differ),
        cmocka_unit_test(chunks_grow_with_many_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
