/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test byte runs of datatypes: which pieces become one copy, and that each byte is in a run. */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/util/status.h"

#define AREA 4096

static void add(struct gpuring_runs *runs, ptrdiff_t offset, size_t bytes)
{
    assert_int_equal(gpuring_runs_add(runs, offset, bytes), GPURING_OK);
}

static void assert_run(const struct gpuring_runs *runs, size_t i, ptrdiff_t offset, size_t bytes,
                       size_t rows, ptrdiff_t stride)
{
    const struct gpuring_run *run = gpuring_runs_at(runs, i);

    assert_true(i < runs->count);
    assert_int_equal(run->offset, offset);
    assert_int_equal(run->bytes, bytes);
    assert_int_equal(run->rows, rows);
    if (rows > 1) {
        assert_int_equal(run->stride, stride);
    }
}

TEST(pieces_that_touch_are_one_run)
{
    struct gpuring_runs runs = {.count = 0};

    add(&runs, -8, 8);
    add(&runs, 0, 4);
    add(&runs, 4, 12);
    gpuring_runs_end(&runs);
    assert_int_equal(runs.count, 1);
    assert_run(&runs, 0, -8, 24, 1, 0);
    gpuring_runs_free(&runs);
}

TEST(pieces_that_repeat_are_rows)
{
    struct gpuring_runs runs = {.count = 0};

    for (int i = 0; i < 10; i++) {
        add(&runs, 12 * i, 4);
    }
    add(&runs, 12 * 9 + 20, 4); /* not at that distance */
    add(&runs, 12 * 9 + 32, 8); /* not of that length */
    gpuring_runs_end(&runs);
    assert_int_equal(runs.count, 3);
    assert_run(&runs, 0, 0, 4, 10, 12);
    assert_run(&runs, 1, 12 * 9 + 20, 4, 1, 0);
    assert_run(&runs, 2, 12 * 9 + 32, 8, 1, 0);
    gpuring_runs_free(&runs);
}

TEST(pieces_that_go_back_or_far_are_not_rows)
{
    struct gpuring_runs runs = {.count = 0};

    add(&runs, 100, 4);
    add(&runs, 50, 4);
    add(&runs, 50 + ((ptrdiff_t) 1 << 31), 4); /* drivers take strides of 31 bits */
    gpuring_runs_end(&runs);
    assert_int_equal(runs.count, 3);
    gpuring_runs_free(&runs);
}

TEST(elements_become_rows_of_each_piece)
{
    struct gpuring_runs element = {.count = 0}, runs = {.count = 0};

    add(&element, 0, 4);
    add(&element, 8, 8);
    gpuring_runs_end(&element);
    assert_int_equal(gpuring_runs_repeat(&runs, &element, 100, 50, 24), GPURING_OK);
    assert_int_equal(runs.count, 2);
    assert_run(&runs, 0, 100, 4, 50, 24);
    assert_run(&runs, 1, 108, 8, 50, 24);
    gpuring_runs_free(&element);
    gpuring_runs_free(&runs);
}

/* Few elements with many rows need one copy for each element. */
TEST(elements_of_many_rows_stay_apart)
{
    struct gpuring_runs element = {.count = 0}, runs = {.count = 0};

    for (int i = 0; i < 20; i++) {
        add(&element, 10 * i, 5);
    }
    gpuring_runs_end(&element);
    assert_int_equal(gpuring_runs_repeat(&runs, &element, 0, 2, 400), GPURING_OK);
    assert_int_equal(runs.count, 2);
    assert_run(&runs, 1, 400, 5, 20, 10);
    gpuring_runs_free(&element);
    gpuring_runs_free(&runs);
}

TEST(no_runs_touch_nothing)
{
    struct gpuring_runs runs = {.count = 0};
    struct gpuring_span span = gpuring_runs_span((struct gpuring_span){.bytes = 0}, &runs);
    char buffer[1] = {7};

    assert_int_equal(span.bytes, 0);
    gpuring_runs_fill(&runs, buffer, 0xff);
    assert_int_equal(buffer[0], 7);
}

static int random_below(unsigned *seed, int below)
{
    *seed = *seed * 1103515245U + 12345U;
    return (int) ((*seed >> 16) % (unsigned) below);
}

/* With random pieces in order, the runs contain exactly their bytes, and the span contains the
 * runs. */
TEST(runs_have_all_bytes_and_no_others)
{
    unsigned seed = 1;

    for (int trial = 0; trial < 500; trial++) {
        unsigned char expected[AREA] = {0}, filled[AREA] = {0};
        struct gpuring_runs runs = {.count = 0};
        struct gpuring_span span = {.bytes = 0};
        size_t bytes = 0;
        int at = random_below(&seed, 8), step = 1 + random_below(&seed, 3);

        while (at < AREA - 32) {
            int length = 1 + step * random_below(&seed, 3);

            add(&runs, at, (size_t) length);
            memset(expected + at, 0xff, (size_t) length);
            bytes += (size_t) length;
            at += length + step * random_below(&seed, 4);
        }
        gpuring_runs_end(&runs);
        gpuring_runs_fill(&runs, (char *) filled, 0xff);
        assert_memory_equal(expected, filled, AREA);
        span = gpuring_runs_span(span, &runs);
        assert_int_equal(span.bytes, bytes);
        assert_int_equal(expected[span.low] + expected[span.high - 1], 2 * 0xff);
        assert_true(memchr(expected, 0xff, (size_t) span.low) == NULL);
        assert_true(memchr(expected + span.high, 0xff, (size_t) (AREA - span.high)) == NULL);
        gpuring_runs_free(&runs);
    }
}

/* MPI's order is that of the elements, and within these that of the type. */
TEST(packed_copies_have_the_bytes_in_order)
{
    unsigned seed = 2;

    for (int trial = 0; trial < 500; trial++) {
        struct gpuring_runs element = {.count = 0}, runs = {.count = 0};
        unsigned char user[AREA], packed[AREA] = {0}, expected[AREA], again[AREA];
        int pieces = 1 + random_below(&seed, 4), offsets[4], lengths[4], extent = 0;
        int count = 1 + random_below(&seed, 20);
        size_t used = 0;

        for (int i = 0; i < AREA; i++) {
            user[i] = (unsigned char) random_below(&seed, 256);
        }
        for (int i = 0; i < pieces; i++) {
            lengths[i] = 1 + random_below(&seed, 3) / 2;
            offsets[i] = extent + random_below(&seed, 3);
            extent = offsets[i] + lengths[i];
        }
        if (pieces > 1 && random_below(&seed, 2) == 0) { /* types may have negative displacements */
            int last = offsets[pieces - 1];

            lengths[0] = lengths[pieces - 1] = 1;
            offsets[pieces - 1] = offsets[0];
            offsets[0] = last;
        }
        for (int i = 0; i < pieces; i++) {
            add(&element, offsets[i], (size_t) lengths[i]);
        }
        gpuring_runs_end(&element);
        extent += random_below(&seed, 4);
        for (int block = 0; block < 2; block++) {
            assert_int_equal(
                gpuring_runs_repeat(&runs, &element, block * 1024, (size_t) count, extent),
                GPURING_OK);
            for (int n = 0; n < count; n++) {
                for (int i = 0; i < pieces; i++) {
                    memcpy(expected + used, user + block * 1024 + n * extent + offsets[i],
                           (size_t) lengths[i]);
                    used += (size_t) lengths[i];
                }
            }
        }
        gpuring_runs_end(&runs);
        assert_int_equal(runs.bytes, used);
        gpuring_device_host.copy_runs(NULL, user, packed, &runs,
                                      GPURING_COPY_IN | GPURING_COPY_PACKED);
        assert_memory_equal(packed, expected, used);
        memcpy(again, user, sizeof user);
        gpuring_runs_fill(&runs, (char *) again, 0);
        gpuring_device_host.copy_runs(NULL, again, packed, &runs, GPURING_COPY_PACKED);
        assert_memory_equal(again, user, sizeof user);
        gpuring_runs_free(&element);
        gpuring_runs_free(&runs);
    }
}
