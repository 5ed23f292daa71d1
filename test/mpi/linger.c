/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test kernels that linger for the next call (coll_gpuring_linger), with the stand-in driver. Each
 * call must run exactly once: a call that runs twice or never leaves the connections at another
 * step than the peers expect, and its result is wrong.
 *
 * Arguments: the number of calls of each part, and `some` if kernels must linger, `none` if they
 * must not, or `any`.
 *
 *   - Calls that follow each other at random distances, often about the time for which kernels
 *     linger: commands are written while a kernel waits, while it leaves and after it has left.
 *     Buffers alternate, and sometimes the shape changes.
 *   - Calls in succession, which save launches. On a busy machine, all of them may come too late.
 *     Therefore GPURING_STANDIN_LINGER should be large where kernels must linger, and the calls are
 *     repeated for up to PATIENCE seconds.
 *   - A kernel of the application that fills the buffer on the default stream just before a call.
 *   - Communicators that are freed while a kernel lingers.
 */
#include "harness.h"
#include "standin_find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT     4
#define BUFFERS   3
#define OTHERS    97 /* each OTHERS-th call has another shape */
#define KERNEL_MS 2
#define PATIENCE  60

static long (*calls)(const char *symbol);
static void (*kernel)(int per_thread, void *to, const void *from, size_t bytes, int ms);
static int (*retain)(void **context, int gpu), (*push)(void *context);
static int *buffers[BUFFERS], *source;
static double linger; /* time for which kernels linger, seconds */
static uint64_t state;

/* Return the number of calls that have needed a launch. */
static long launched(void)
{
    return calls("cuLaunchKernel") + calls("cuGraphLaunch") -
           (long) harness_pvar("coll_gpuring_resumed");
}

static void pause_some(void)
{
    double begin = MPI_Wtime(), part = (double) (harness_draw(&state) % 1000) / 1000;
    uint64_t kind = harness_draw(&state) % 16;
    double seconds = kind > 1 ? 0 : kind == 1 ? 2 * part * linger : (0.9 + 0.2 * part) * linger;

    while (MPI_Wtime() - begin < seconds) {
    }
}

/* Make a call, and return the number of wrong elements. `fills` writes the input. */
static int call(MPI_Comm comm, int number, void (*fills)(int *buffer, const int *values))
{
    int values[COUNT], wrong = 0, count = number % OTHERS == OTHERS - 1 ? COUNT / 2 : COUNT;
    int *from = buffers[number % BUFFERS], *to = buffers[(number / 5 + number) % BUFFERS];

    for (int i = 0; i < COUNT; i++) {
        values[i] = number * (harness_rank + 1) + i;
    }
    fills(from, values);
    MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, count, MPI_INT, MPI_SUM, comm);
    harness_read(values, to, sizeof values);
    for (int i = 0; i < count; i++) {
        wrong += values[i] != number * harness_size * (harness_size + 1) / 2 + harness_size * i;
    }
    return wrong;
}

static void fill_now(int *buffer, const int *values)
{
    harness_write(buffer, values, COUNT * sizeof *values);
}

/* Let a kernel on the default stream fill the buffer while the call is made. */
static void fill_later(int *buffer, const int *values)
{
    harness_write(source, values, COUNT * sizeof *values);
    kernel(0, buffer, source, COUNT * sizeof *values, KERNEL_MS);
}

static bool on_all_ranks(bool value)
{
    int mine = value, all;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

/* Make calls in succession, and return how many launches they have needed. */
static long launches_in_succession(MPI_Comm comm, int ncalls, bool until_saved)
{
    double end = MPI_Wtime() + PATIENCE;
    long launches;

    do {
        launches = launched();
        for (int i = 0; i < ncalls; i++) {
            MPI_Allreduce(buffers[0], buffers[1], COUNT, MPI_INT, MPI_SUM, comm);
        }
        launches = launched() - launches;
    } while (until_saved && !on_all_ranks(launches < ncalls || MPI_Wtime() > end));
    return launches;
}

int main(int argc, char **argv)
{
    int ncalls = argc > 1 ? atoi(argv[1]) : 100, wrong = 0;
    bool some = argc > 2 && strcmp(argv[2], "some") == 0;
    bool any = argc > 2 && strcmp(argv[2], "any") == 0;
    const char *text = getenv("OMPI_MCA_coll_gpuring_linger");
    void *context;
    long launches;
    MPI_Comm comm;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    standin_find("gpuring_standin_calls", &calls);
    standin_find("gpuring_standin_kernel", &kernel);
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuCtxPushCurrent_v2", &push);
    source = harness_alloc(COUNT * sizeof *source);
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = harness_alloc(COUNT * sizeof(int));
    }
    if (retain(&context, 0) != 0 || push(context) != 0) { /* as in programs of the CUDA runtime */
        printf("Bail out! no context\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    linger = text != NULL ? 1e-6 * atoi(text) : 0;
    state = (uint64_t) harness_rank + 1;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    wrong = call(comm, 1, fill_now);
    launches = launched();
    for (int i = 0; i < ncalls; i++) {
        wrong += call(comm, i, fill_now);
        pause_some();
    }
    launches = launched() - launches;
    harness_check(wrong == 0, "%d calls at random distances: %d elements are wrong", ncalls, wrong);
    harness_check(launches > 0, "some calls need a launch");
    launches = launches_in_succession(comm, ncalls, some);
    harness_check(any || (some ? launches < ncalls : launches == ncalls),
                  "%s: %ld launches for %d calls",
                  any    ? "kernels may linger"
                  : some ? "kernels linger"
                         : "no kernel lingers",
                  launches, ncalls);

    wrong = 0;
    for (int i = 0; i < ncalls / 10; i++) {
        wrong += call(comm, 1, fill_now);
        wrong += call(comm, 2, i % 2 == 0 ? fill_later : fill_now);
    }
    harness_check(wrong == 0, "calls that follow a kernel on the default stream: %d are wrong",
                  wrong);

    MPI_Comm_free(&comm);
    for (int i = 0; i < 10; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int k = 0; k < 4; k++) {
            wrong += call(comm, 1, fill_now);
        }
        MPI_Comm_free(&comm);
    }
    harness_check(wrong == 0, "communicators that are freed while kernels may linger");
    harness_free(source);
    for (int i = 0; i < BUFFERS; i++) {
        harness_free(buffers[i]);
    }
    return harness_finish();
}
