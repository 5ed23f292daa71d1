/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpu_allreduce BYTES...: compare MPI_Allreduce (float, sum) on device memory with staging by hand:
 * a copy to pinned host memory, MPI_Allreduce there, and a copy back. Run it with mpirun and
 * coll/gpuring for device memory, so that calls on host memory use Open MPI's own components.
 * Prints rows of a Markdown table: bytes, microseconds of both (median of the slowest rank), and
 * their ratio. Fails if a result is wrong or if the component did not serve every call on device
 * memory.
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "test/gpu/gpu.h"

#define TARGET_SECONDS 1.0
#define MOST_ROUNDS    200

static float *device, *pinned;
static long long calls; /* number of calls on device memory */

static void on_device(int count)
{
    calls++;
    MPI_Allreduce(MPI_IN_PLACE, device, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void by_hand(int count)
{
    gpu_copy(pinned, device, (size_t) count * sizeof(float));
    MPI_Allreduce(MPI_IN_PLACE, pinned, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    gpu_copy(device, pinned, (size_t) count * sizeof(float));
}

static void fill(int count)
{
    for (int i = 0; i < count; i++) {
        pinned[i] = (float) (i % 1000 + harness_rank);
    }
    gpu_copy(device, pinned, (size_t) count * sizeof(float));
}

static int wrong(int count)
{
    int bad = 0;

    gpu_copy(pinned, device, (size_t) count * sizeof(float));
    for (int i = 0; i < count; i++) {
        bad += pinned[i] !=
               (float) (harness_size * (i % 1000) + harness_size * (harness_size - 1) / 2);
    }
    return bad;
}

/* Return microseconds per call: the median of the rounds on the slowest rank. */
static double measure(void (*run)(int), int count)
{
    double times[MOST_ROUNDS], start, slowest;
    int rounds;

    start = MPI_Wtime();
    run(count);
    slowest = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rounds = (int) (TARGET_SECONDS / slowest);
    rounds = rounds < 3 ? 3 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    for (int i = 0; i < rounds; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        run(count);
        times[i] = MPI_Wtime() - start;
    }
    slowest = gpu_median(times, rounds);
    MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest * 1e6;
}

static void row(size_t bytes)
{
    int count = (int) (bytes / sizeof(float)), bad;
    double served, staged;

    device = gpu_alloc(bytes);
    pinned = gpu_alloc_pinned(bytes);
    fill(count);
    on_device(count);
    bad = wrong(count);
    harness_check(bad == 0, "%zu bytes on the device are right (%d wrong)", bytes, bad);
    fill(count);
    by_hand(count);
    harness_check(wrong(count) == 0, "%zu bytes by hand are right", bytes);
    served = measure(on_device, count);
    staged = measure(by_hand, count);
    if (harness_rank == 0) {
        printf("| %d | %zu | %.1f | %.1f | %.2f |\n", harness_size, bytes, served, staged,
               staged / served);
    }
    gpu_free(device);
    gpu_free_pinned(pinned);
}

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    gpu_open_of_rank();
    for (int i = 1; i < argc; i++) {
        row(strtoull(argv[i], NULL, 0));
    }
    harness_check(harness_pvar("coll_gpuring_calls") == calls,
                  "coll/gpuring served the %lld calls on device memory, and no other (%lld)", calls,
                  harness_pvar("coll_gpuring_calls"));
    gpu_close();
    return harness_finish();
}
