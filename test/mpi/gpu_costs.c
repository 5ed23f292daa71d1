/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Print the cost of blocking calls on GPU buffers in driver calls, copies, copied bytes and waits,
 * for any component that serves them. The stand-in driver counts them. Results are checked as well.
 * Each call is counted after all one-time work, and for all ranks together. "Attributes" are
 * queries about addresses. None of these figures is a time or a result of a GPU.
 */
#include "harness.h"
#include "standin_find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 262144 /* floats of a block */

static float *from, *to, *host; /* one block for each rank; from and to are on a GPU */
static int count;
static long (*calls)(const char *symbol);
static long long (*copied)(void);

static int right_neighbour(void)
{
    return (harness_rank + 1) % harness_size;
}

static int left_neighbour(void)
{
    return (harness_rank + harness_size - 1) % harness_size;
}

static int allreduce(void)
{
    return MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int reduce_scatter_block(void)
{
    return MPI_Reduce_scatter_block(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int scan(void)
{
    return MPI_Scan(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int allgather(void)
{
    return MPI_Allgather(from, count, MPI_FLOAT, to, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static int alltoall(void)
{
    return MPI_Alltoall(from, count, MPI_FLOAT, to, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static int bcast(void)
{
    return MPI_Bcast(harness_rank == 0 ? from : to, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static int sendrecv(void)
{
    return MPI_Sendrecv(from, count, MPI_FLOAT, right_neighbour(), 0, to, count, MPI_FLOAT,
                        left_neighbour(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Return element i of an input block of a rank. It is a whole number, so that sums are exact. */
static float given(int rank, int block, int i)
{
    return (float) (rank * 3 + block * 5 + i % 97);
}

/* Check the result of a call: the sum over these ranks of this block. */
static float sum(int ranks, int block, int i)
{
    float total = 0;

    for (int r = 0; r < ranks; r++) {
        total += given(r, block, i);
    }
    return total;
}

static float sum_all(int block, int i)
{
    return sum(harness_size, block, i);
}

static float sum_own(int block, int i)
{
    (void) block;
    return sum(harness_size, harness_rank, i);
}

static float sum_before(int block, int i)
{
    return sum(harness_rank + 1, block, i);
}

static float first_of_each(int block, int i)
{
    return given(block, 0, i);
}

static float own_of_each(int block, int i)
{
    return given(block, harness_rank, i);
}

static float of_root(int block, int i)
{
    return given(0, block, i);
}

static float of_neighbour(int block, int i)
{
    return given(left_neighbour(), block, i);
}

static const struct {
    const char *name;
    int (*call)(void);
    float (*expected)(int block, int i);
    bool all_blocks; /* its result has a block of each rank */
} cases[] = {
    {"Allreduce", allreduce, sum_all, false},
    {"Reduce_scatter_block", reduce_scatter_block, sum_own, false},
    {"Scan", scan, sum_before, false},
    {"Allgather", allgather, first_of_each, true},
    {"Alltoall", alltoall, own_of_each, true},
    {"Bcast", bcast, of_root, false},
    {"Sendrecv", sendrecv, of_neighbour, false},
};

static void fill(void)
{
    size_t bytes = (size_t) harness_size * (size_t) count * sizeof *host;

    memset(host, 0xff, bytes);
    harness_write(to, host, bytes);
    for (int b = 0; b < harness_size; b++) {
        for (int i = 0; i < count; i++) {
            host[b * count + i] = given(harness_rank, b, i);
        }
    }
    harness_write(from, host, bytes);
}

static bool is_right(size_t c)
{
    int blocks = cases[c].all_blocks ? harness_size : 1;
    bool root = cases[c].call == bcast && harness_rank == 0;

    harness_read(host, root ? from : to, (size_t) blocks * (size_t) count * sizeof *host);
    for (int b = 0; b < blocks; b++) {
        for (int i = 0; i < count; i++) {
            if (host[b * count + i] != cases[c].expected(b, i)) {
                return false;
            }
        }
    }
    return true;
}

enum { CALLS, ATTRIBUTES, COPIES, BYTES, WAITS, KERNELS, COSTS };

/* Read the counters. Polls and their context switches are not included, because their number
 * depends on the load of the machine. */
static void read_costs(long long *costs)
{
    static const char *const others[] = {"cuStreamQuery",
                                         "cuEventQuery",
                                         "cuCtxPushCurrent_v2",
                                         "cuCtxPopCurrent_v2",
                                         "cuThreadExchangeStreamCaptureMode",
                                         "cuCtxGetId"};

    costs[CALLS] = calls(NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        costs[CALLS] -= calls(others[i]);
    }
    costs[ATTRIBUTES] = calls("cuPointerGetAttributes");
    costs[COPIES] =
        calls("cuMemcpyAsync") + calls("cuMemcpyPeerAsync") + calls("cuMemcpy2DAsync_v2");
    costs[BYTES] = copied();
    costs[WAITS] = calls("cuStreamSynchronize");
    costs[KERNELS] = calls("cuLaunchKernel") + calls("cuGraphLaunch");
}

static void try_case(size_t c)
{
    long long before[COSTS], after[COSTS], all[COSTS];
    bool good = true;

    for (int i = 0; i < 8; i++) {
        fill();
        good = cases[c].call() == MPI_SUCCESS && is_right(c) && good;
    }
    fill();
    MPI_Barrier(MPI_COMM_WORLD);
    read_costs(before);
    good = cases[c].call() == MPI_SUCCESS && good;
    read_costs(after);
    good = is_right(c) && good;
    for (int i = 0; i < COSTS; i++) {
        after[i] -= before[i];
    }
    MPI_Reduce(after, all, COSTS, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    harness_check(good, "%s, %zu bytes", cases[c].name, (size_t) count * sizeof *host);
    if (harness_rank == 0) {
        printf("# %s %zu: %lld calls, %lld attributes, %lld copies, %lld bytes, %lld waits, "
               "%lld kernels\n",
               cases[c].name, (size_t) count * sizeof *host, all[CALLS], all[ATTRIBUTES],
               all[COPIES], all[BYTES], all[WAITS], all[KERNELS]);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {256, 16384, MOST};
    size_t bytes;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    standin_find("gpuring_standin_calls", &calls);
    standin_find("gpuring_standin_copied", &copied);
    bytes = (size_t) harness_size * MOST * sizeof *host;
    from = harness_alloc(bytes);
    to = harness_alloc(bytes);
    host = malloc(bytes);
    if (host == NULL) {
        printf("Bail out! out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        count = counts[n];
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            try_case(c);
        }
    }
    if (harness_rank == 0) {
        printf("# served %lld, staged %lld, delegated %lld\n", harness_pvar("coll_gpuring_calls"),
               harness_pvar("coll_gpuring_staged"), harness_pvar("coll_gpuring_fallbacks"));
    }
    harness_free(from);
    harness_free(to);
    free(host);
    return harness_finish();
}
