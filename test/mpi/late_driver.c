/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * late_driver LARGE: test a process that loads another library, and then the CUDA driver. It makes
 * calls on host buffers before, which are delegated immediately, and after, and then calls on GPU
 * buffers. Results must be right, and each call must be counted once. LARGE is the number of ints
 * of a large call. Then the same is tested for calls with a root on a communicator that has no
 * other calls.
 */
#include "sums.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_Comm comm;

/* Broadcast 3 i + r from rank r = 1. */
static bool broadcast_right(int count)
{
    size_t bytes = (size_t) count * sizeof(int);
    int *data = malloc(bytes), *buffer = harness_alloc(bytes);
    bool good;

    for (int i = 0; i < count; i++) {
        data[i] = 3 * i + harness_rank;
    }
    harness_write(buffer, data, bytes);
    good = MPI_Bcast(buffer, count, MPI_INT, 1 % harness_size, comm) == MPI_SUCCESS;
    harness_read(data, buffer, bytes);
    for (int i = 0; i < count; i++) {
        good = good && data[i] == 3 * i + 1 % harness_size;
    }
    harness_free(buffer);
    free(data);
    return good;
}

/* Make small and large allreduces of each form, and broadcasts. */
static bool all_right(int large)
{
    const int counts[] = {1, 1000, large};
    bool good = true;

    for (int i = 0; i < 3; i++) {
        for (enum form form = BLOCKING; form < FORMS; form++) {
            good = sum_is_right(form, counts[i], MPI_COMM_WORLD) && good;
        }
        good = broadcast_right(counts[i]) && good;
    }
    return good;
}

/* Make a number of broadcasts on the communicator for calls with a root. */
static bool broadcasts(MPI_Comm rooted, int calls)
{
    bool good = true;

    comm = rooted;
    for (int i = 0; i < calls; i++) {
        good = broadcast_right(1000) && good;
    }
    comm = MPI_COMM_WORLD;
    return good;
}

int main(int argc, char **argv)
{
    int large = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Comm rooted;
    bool good;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    comm = MPI_COMM_WORLD;
    MPI_Comm_dup(comm, &rooted);
    harness_count();
    good = large > 1000 && all_right(large);
    harness_check(good, "host buffers without a driver: right results");
    harness_check(harness_counted(0, 12, 0),
                  "host buffers without a driver: each call is delegated");

    harness_check(dlopen("libanl.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL &&
                      dlopen("libanl.so.1", RTLD_NOW) != NULL,
                  "another library is loaded");
    harness_count();
    good = all_right(large);
    harness_check(good && harness_counted(0, 12, 0),
                  "host buffers without a driver: still delegated");
    harness_count();
    good = broadcasts(rooted, 10); /* the ranks agree on numbers 1, 3 and 7, and then on 15 */
    harness_check(good && harness_counted(0, 10, 0), "and so are calls with a root");

    harness_buffers_close();
    setenv("GPURING_TEST_MEMORY", "cuda", 1);
    harness_buffers_open();
    harness_count();
    good = all_right(large);
    harness_check(good, "buffers on a GPU, of a driver that was loaded late: right results");
    harness_check(harness_counted(12, 0, 0), "buffers on a GPU: each call is served");
    harness_count();
    good = broadcasts(rooted, 10);
    harness_check(good && harness_counted(6, 4, 4),
                  "calls with a root, when as many were made as before: they connect the ranks");

    harness_buffers_close();
    unsetenv("GPURING_TEST_MEMORY");
    harness_buffers_open();
    harness_count();
    good = all_right(large);
    harness_check(good, "host buffers with a driver: right results");
    harness_check(harness_counted(0, 12, 0), "host buffers with a driver: each call is delegated");
    MPI_Comm_free(&rooted);
    return harness_finish();
}
