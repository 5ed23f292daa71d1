/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * late_driver LARGE: test a process that loads another library, and then the CUDA driver. It makes
 * calls on host buffers before, which are delegated immediately, and after, and then calls on GPU
 * buffers. Results must be right, and each call must be counted once. LARGE is the number of ints
 * of a large call. Then the same is tested for calls with a root on a communicator that has no
 * other calls.
 */
#include "harness.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static long long served, handed_on, staged;

static void count_begin(void)
{
    served = harness_pvar("coll_gpuring_calls");
    handed_on = harness_pvar("coll_gpuring_fallbacks");
    staged = harness_pvar("coll_gpuring_staged");
}

static bool counted(long long calls, long long fallbacks, long long through_hosts)
{
    served = harness_pvar("coll_gpuring_calls") - served;
    handed_on = harness_pvar("coll_gpuring_fallbacks") - handed_on;
    staged = harness_pvar("coll_gpuring_staged") - staged;
    if (served != calls || handed_on != fallbacks || staged != through_hosts) {
        printf(
            "# rank %d: served %lld (expected %lld), delegated %lld (%lld), staged %lld (%lld)\n",
            harness_rank, served, calls, handed_on, fallbacks, staged, through_hosts);
    }
    return served == calls && handed_on == fallbacks && staged == through_hosts;
}

/* The forms of an allreduce, and a collective that is never served. */
enum form { BLOCKING, NONBLOCKING, PERSISTENT, BCAST, FORMS };

static MPI_Comm comm;

static int init(int *buffer, int count, MPI_Request *request)
{
    return HARNESS_INIT(Allreduce)(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, request);
}

static int call(enum form form, int *buffer, int count)
{
    MPI_Request request;
    int status;

    switch (form) {
    case BLOCKING:
        return MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case NONBLOCKING:
        status =
            MPI_Iallreduce(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        return status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    case PERSISTENT:
        status = init(buffer, count, &request);
        if (status == MPI_SUCCESS) {
            status = MPI_Start(&request);
        }
        if (status == MPI_SUCCESS) {
            status = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        return status == MPI_SUCCESS ? MPI_Request_free(&request) : status;
    default:
        return MPI_Bcast(buffer, count, MPI_INT, 1 % harness_size, comm);
    }
}

/* Rank r contributes 3 i + r. All ranks get the sum, or rank 1's values. */
static int expected(enum form form, int i)
{
    return form == BCAST ? 3 * i + 1 % harness_size
                         : harness_size * 3 * i + harness_size * (harness_size - 1) / 2;
}

static bool right(enum form form, int count)
{
    size_t bytes = (size_t) count * sizeof(int);
    int *data = malloc(bytes), *buffer = harness_alloc(bytes);
    bool good = data != NULL;

    for (int i = 0; good && i < count; i++) {
        data[i] = 3 * i + harness_rank;
    }
    harness_write(buffer, data, good ? bytes : 0);
    good = call(form, buffer, count) == MPI_SUCCESS && good;
    harness_read(data, buffer, good ? bytes : 0);
    for (int i = 0; good && i < count; i++) {
        good = data[i] == expected(form, i);
    }
    harness_free(buffer);
    free(data);
    return good;
}

/* Make small and large calls of each form. */
static bool all_right(int large)
{
    bool good = true;

    for (enum form form = BLOCKING; form < FORMS; form++) {
        good = right(form, 1) && good;
        good = right(form, 1000) && good;
        good = right(form, large) && good;
    }
    return good;
}

/* Make a number of broadcasts on the communicator for calls with a root. */
static bool broadcasts(MPI_Comm rooted, int calls)
{
    bool good = true;

    comm = rooted;
    for (int i = 0; i < calls; i++) {
        good = right(BCAST, 1000) && good;
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
    count_begin();
    good = large > 1000 && all_right(large);
    harness_check(good, "host buffers without a driver: right results");
    harness_check(counted(0, 12, 0), "host buffers without a driver: each call is delegated");

    harness_check(dlopen("libanl.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL &&
                      dlopen("libanl.so.1", RTLD_NOW) != NULL,
                  "another library is loaded");
    count_begin();
    good = all_right(large);
    harness_check(good && counted(0, 12, 0), "host buffers without a driver: still delegated");
    count_begin();
    good = broadcasts(rooted, 10); /* the ranks agree on numbers 1, 3 and 7, and then on 15 */
    harness_check(good && counted(0, 10, 0), "and so are calls with a root");

    harness_buffers_close();
    setenv("GPURING_TEST_MEMORY", "cuda", 1);
    harness_buffers_open();
    count_begin();
    good = all_right(large);
    harness_check(good, "buffers on a GPU, of a driver that was loaded late: right results");
    harness_check(counted(12, 0, 0), "buffers on a GPU: each call is served");
    count_begin();
    good = broadcasts(rooted, 10);
    harness_check(good && counted(6, 4, 4),
                  "calls with a root, when as many were made as before: they connect the ranks");

    harness_buffers_close();
    unsetenv("GPURING_TEST_MEMORY");
    harness_buffers_open();
    count_begin();
    good = all_right(large);
    harness_check(good, "host buffers with a driver: right results");
    harness_check(counted(0, 12, 0), "host buffers with a driver: each call is delegated");
    MPI_Comm_free(&rooted);
    return harness_finish();
}
