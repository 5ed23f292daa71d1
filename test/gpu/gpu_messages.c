/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpu_messages BYTES...: compare messages between the device memory of two ranks with staging by
 * hand: a copy to pinned host memory, the message, and a copy to the device. The time of a message
 * is half of a round trip. Run it with mpirun and coll/gpuring. Prints rows of a Markdown table:
 * the path that the component used according to its counters (kernel, direct, chunks or staged),
 * bytes, microseconds of both (medians), their ratio, and GB/s. Fails if data is wrong.
 */
#include "test/mpi/harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "test/gpu/gpu.h"

#define WARM_UP        5 /* the first messages also pay for setup */
#define TARGET_SECONDS 0.5
#define MOST_ROUNDS    200

static unsigned *device, *pinned;

static void pass(void *buffer, size_t bytes, int from)
{
    if (harness_rank == from) {
        MPI_Send(buffer, (int) bytes, MPI_BYTE, 1 - from, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer, (int) bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void on_device(size_t bytes, int from)
{
    pass(device, bytes, from);
}

static void by_hand(size_t bytes, int from)
{
    if (harness_rank == from) {
        gpu_copy(pinned, device, bytes);
    }
    pass(pinned, bytes, from);
    if (harness_rank != from) {
        gpu_copy(device, pinned, bytes);
    }
}

/* Send data from rank 0 with `run`. Return the number of elements that are wrong on this rank. */
static int wrong(void (*run)(size_t, int), size_t bytes, unsigned seed)
{
    int bad = 0;

    for (size_t i = 0; i < bytes / sizeof *pinned; i++) {
        pinned[i] = harness_rank == 0 ? seed + (unsigned) i * 7u : ~0u;
    }
    gpu_copy(device, pinned, bytes);
    run(bytes, 0);
    gpu_copy(pinned, device, bytes);
    for (size_t i = 0; i < bytes / sizeof *pinned; i++) {
        bad += pinned[i] != seed + (unsigned) i * 7u;
    }
    return bad;
}

/* Return microseconds per message: half of the median round trip. */
static double measure(void (*run)(size_t, int), size_t bytes)
{
    double times[MOST_ROUNDS], first = 0;
    int rounds = WARM_UP;

    for (int i = -WARM_UP; i < rounds; i++) {
        double start = MPI_Wtime(), time;

        run(bytes, 0);
        run(bytes, 1);
        time = (MPI_Wtime() - start) / 2;
        if (i >= 0) {
            times[i] = time;
        } else if (i == -1) {
            first = time;
            MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            rounds = (int) (TARGET_SECONDS / first);
            rounds = rounds < 3 ? 3 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
        }
    }
    return gpu_median(times, rounds) * 1e6;
}

static const char *way(long long kernel, long long direct, long long chunked)
{
    return harness_pvar("coll_gpuring_kernel_messages") > kernel     ? "kernel"
           : harness_pvar("coll_gpuring_direct_messages") > direct   ? "direct"
           : harness_pvar("coll_gpuring_chunked_messages") > chunked ? "chunks"
                                                                     : "staged";
}

static void row(size_t bytes)
{
    long long kernel, direct, chunked;
    double ours, hand;
    int bad = 0;

    device = gpu_alloc(bytes);
    pinned = gpu_alloc_pinned(bytes);
    for (unsigned i = 0; i < WARM_UP; i++) {
        bad += wrong(on_device, bytes, i);
    }
    ours = measure(on_device, bytes);
    kernel = harness_pvar("coll_gpuring_kernel_messages");
    direct = harness_pvar("coll_gpuring_direct_messages");
    chunked = harness_pvar("coll_gpuring_chunked_messages");
    bad += wrong(on_device, bytes, 99);
    if (harness_rank == 1) {
        const char *last = way(kernel, direct, chunked);

        hand = measure(by_hand, bytes);
        printf("| %s | %zu | %.1f | %.1f | %.2f | %.1f |\n", last, bytes, ours, hand, hand / ours,
               (double) bytes / ours / 1e3);
    } else {
        (void) measure(by_hand, bytes);
    }
    bad += wrong(by_hand, bytes, 7);
    harness_check(bad == 0, "messages of %zu bytes are right (%d wrong)", bytes, bad);
    gpu_free(device);
    gpu_free_pinned(pinned);
}

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    gpu_open_of_rank();
    for (int i = 1; i < argc && harness_size == 2; i++) {
        row(strtoull(argv[i], NULL, 0));
    }
    harness_check(harness_size == 2, "2 ranks");
    gpu_close();
    return harness_finish();
}
