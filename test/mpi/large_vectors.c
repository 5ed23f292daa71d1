/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test MPI_Allreduce, and staged MPI_Bcast, in place with more than 2^31 or 2^32 bytes. Every
 * element is checked, so that any arithmetic with 31 or 32 bits is detected.
 *
 *   large_vectors BYTES   a few bytes more are used
 */
#include "harness.h"

#include <stdint.h>
#include <stdlib.h>

#define SLICE ((size_t) 1 << 20) /* elements that are written and read in one step */

static double *slice;

/* Return a value that is exact in sums of few ranks, and different at positions that are 2^31 or
 * 2^32 bytes apart. */
static double value(int rank, size_t i)
{
    return (double) (rank + 1) * (double) (i % 8191 + (i >> 27));
}

static void fill(double *buffer, size_t count, int rank)
{
    for (size_t first = 0; first < count; first += SLICE) {
        size_t n = count - first < SLICE ? count - first : SLICE;

        for (size_t i = 0; i < n; i++) {
            slice[i] = value(rank, first + i);
        }
        harness_write(buffer + first, slice, n * sizeof *slice);
    }
}

/* Return the number of elements that are not `factor` times those of rank 0. */
static size_t count_wrong(const double *buffer, size_t count, double factor)
{
    size_t wrong = 0;

    for (size_t first = 0; first < count; first += SLICE) {
        size_t n = count - first < SLICE ? count - first : SLICE;

        harness_read(slice, buffer + first, n * sizeof *slice);
        for (size_t i = 0; i < n; i++) {
            wrong += slice[i] != factor * value(0, first + i);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    size_t count = (argc > 1 ? (size_t) strtoull(argv[1], NULL, 10) : 0) / sizeof(double) + 3;
    double factor = 0, *buffer;
    size_t wrong;
    int result;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    slice = malloc(SLICE * sizeof *slice);
    buffer = harness_alloc(count * sizeof *buffer);
    for (int rank = 0; rank < harness_size; rank++) {
        factor += rank + 1;
    }
    fill(buffer, count, harness_rank);
    result = MPI_Allreduce(MPI_IN_PLACE, buffer, (int) count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    wrong = count_wrong(buffer, count, factor);
    harness_check(result == MPI_SUCCESS && wrong == 0, "MPI_Allreduce of %zu bytes: %zu are wrong",
                  count * sizeof *buffer, wrong);
    harness_check(harness_pvar("coll_gpuring_calls") == 1, "coll/gpuring serves it");
    fill(buffer, count, harness_rank);
    result = MPI_Bcast(buffer, (int) count, MPI_DOUBLE, harness_size - 1, MPI_COMM_WORLD);
    wrong = count_wrong(buffer, count, harness_size);
    harness_check(result == MPI_SUCCESS && wrong == 0, "MPI_Bcast of %zu bytes: %zu are wrong",
                  count * sizeof *buffer, wrong);
    harness_free(buffer);
    free(slice);
    return harness_finish();
}
