/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* How large calls are cut into chunks: sizes of pieces, and the copies of a chunk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mca/coll_gpuring/stage/cut.h"

#define LIMIT  ((size_t) 4096)
#define BLOCKS 5
#define AREA   (256 << 10)

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

static int random_below(unsigned *seed, int below)
{
    *seed = *seed * 1103515245U + 12345U;
    return (int) ((*seed >> 16) % (unsigned) below);
}

/* Copy blocks first to end - 1 of a chunk; pieces follow one another in the bounce buffer. */
static int copy_chunk(const struct gpuring_cut *cut, size_t chunk, const ptrdiff_t *offsets,
                      int first, int end, const char *user, char *bounce)
{
    struct gpuring_cut_walk walk = {
        .cut = cut, .chunk = chunk, .offsets = offsets, .first = first, .end = end};
    struct gpuring_rows rows;
    int copies = 0;

    for (; gpuring_cut_next(&walk, &rows); copies++) {
        for (size_t i = 0; i < rows.count; i++) {
            memcpy(bounce + rows.bounce + i * rows.bounce_pitch,
                   user + rows.user + (ptrdiff_t) (i * rows.user_pitch), rows.bytes);
        }
    }
    return copies;
}

static void assert_chunk(const struct gpuring_cut *cut, size_t chunk, const ptrdiff_t *offsets,
                         int first, int end)
{
    static char user[AREA], bounce[2 * LIMIT];
    size_t at = 0;

    for (int i = 0; i < AREA; i++) {
        user[i] = (char) (i % 251);
    }
    memset(bounce, 0x77, sizeof bounce);
    copy_chunk(cut, chunk, offsets, first, end, user, bounce);
    for (int i = 0; i < cut->blocks; i++) {
        size_t bytes = gpuring_cut_units(cut, i, chunk) * cut->size;

        for (size_t b = 0; b < bytes; b++) {
            size_t from = (size_t) offsets[i] + chunk * cut->step * cut->size + b;

            assert_int_equal(bounce[at + b], i >= first && i < end ? user[from] : 0x77);
        }
        at += bytes;
    }
    assert_int_equal(bounce[at], 0x77);
}

static void chunks_have_every_piece_once(void **state)
{
    unsigned seed = 1;

    (void) state;
    for (int trial = 0; trial < 300; trial++) {
        size_t units[BLOCKS], size = random_below(&seed, 2) == 0 ? 1 : 12;
        ptrdiff_t offsets[BLOCKS];
        struct gpuring_cut cut;
        bool backwards = random_below(&seed, 2) == 0, alike = random_below(&seed, 2) == 0;

        for (int i = 0; i < BLOCKS; i++) {
            units[i] = alike ? 1500 : (size_t) random_below(&seed, 3000);
            offsets[i] = (ptrdiff_t) (backwards ? BLOCKS - 1 - i : i) * 40000;
        }
        cut = cut_of(BLOCKS, units, size);
        assert_true(gpuring_cut_bytes(&cut) <= LIMIT);
        for (size_t chunk = 0; chunk < cut.chunks; chunk++) {
            int own = random_below(&seed, BLOCKS);

            assert_chunk(&cut, chunk, offsets, 0, BLOCKS);
            assert_chunk(&cut, chunk, offsets, own, own + 1);
        }
    }
}

static void equal_pieces_are_one_copy(void **state)
{
    static char user[AREA], bounce[LIMIT];
    const size_t units[] = {3000, 3000, 3000, 3000, 3000};
    const ptrdiff_t even[] = {0, 10000, 20000, 30000, 40000};
    const ptrdiff_t odd[] = {0, 10000, 20000, 30001, 40002};
    struct gpuring_cut cut = cut_of(BLOCKS, units, 1);

    (void) state;
    assert_int_equal(copy_chunk(&cut, 0, even, 0, BLOCKS, user, bounce), 1);
    assert_int_equal(copy_chunk(&cut, 1, odd, 0, BLOCKS, user, bounce), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vector_goes_in_chunks_of_the_limit),
        cmocka_unit_test(pieces_of_bytes_are_whole_lines),
        cmocka_unit_test(elements_are_never_cut),
        cmocka_unit_test(pieces_fill_the_chunk_where_blocks_differ),
        cmocka_unit_test(chunks_grow_with_many_blocks),
        cmocka_unit_test(chunks_have_every_piece_once),
        cmocka_unit_test(equal_pieces_are_one_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
