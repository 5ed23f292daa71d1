/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Count driver calls with the stand-in driver.
 *
 * - Each buffer of a call is queried at most once. A call on host memory makes no other call.
 * - Each call on a GPU makes at most as many driver calls as test/budgets.h allows, not counting
 *   polls for its end. If the host may access managed memory only after kernels have ended
 *   (GPURING_STANDIN_CONCURRENT=0), there is at least one poll.
 * - Memory for copies of buffers on another GPU is allocated once, except for large buffers.
 * - Many messages at the same time do not pin host memory for each of them.
 */
#include "harness.h"
#include "standin_find.h"
#include "test/budgets.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/image.h"

#define COUNT   1000
#define WARM_UP 20        /* launches until a stream has a graph */
#define MOST    (5 << 20) /* elements of a buffer; bounce buffers of this size are not kept */

static long (*calls)(const char *symbol);
static void *(*alloc_sort)(const char *sort, int gpu, size_t bytes);
static void (*free_sort)(void *memory);
static void (*copy)(void *to, const void *from, size_t bytes);
static float *gpu, *gpu_too, host[COUNT], host_too[COUNT];
static MPI_Comm comm;

static void allreduce(float *from, float *to)
{
    MPI_Allreduce(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void allreduce_in_place(float *from, float *to)
{
    (void) from;
    MPI_Allreduce(MPI_IN_PLACE, to, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void scan(float *from, float *to)
{
    MPI_Scan(from, to, COUNT, MPI_FLOAT, MPI_SUM, comm);
}

static void bcast(float *from, float *to)
{
    (void) from;
    MPI_Bcast(to, COUNT, MPI_FLOAT, 0, comm);
}

static void barrier(float *from, float *to)
{
    (void) from;
    (void) to;
    MPI_Barrier(comm);
}

static void sendrecv(float *from, float *to)
{
    MPI_Sendrecv(from, COUNT, MPI_FLOAT, (harness_rank + 1) % harness_size, 0, to, COUNT, MPI_FLOAT,
                 (harness_rank + harness_size - 1) % harness_size, 0, comm, MPI_STATUS_IGNORE);
}

/* Make a call with a kernel that no earlier call has used. */
static void kernels_are_loaded(void)
{
    long found = calls("cuModuleGetFunction"), loaded = calls("cuFuncLoad");

    harness_check(found == GPURING_KERNELS + 1 && loaded == GPURING_KERNELS + 1,
                  "the first wire-up loads all kernels (%ld found, %ld loaded)", found, loaded);
    MPI_Allreduce(MPI_IN_PLACE, gpu_too, COUNT / 2, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(MPI_IN_PLACE, gpu_too, 1, MPI_SHORT, MPI_SUM, comm);
    harness_check(calls("cuModuleGetFunction") == found && calls("cuFuncLoad") == loaded,
                  "calls of other types load none");
}

static const struct {
    const char *name;
    void (*call)(float *from, float *to);
    int buffers;
    bool on_gpu;
    int most; /* driver calls, not counting polls */
} cases[] = {
    {"Allreduce on a GPU", allreduce, 2, true, BUDGET_ALLREDUCE},
    {"Allreduce in place on a GPU", allreduce_in_place, 1, true, BUDGET_IN_PLACE},
    {"Scan on a GPU", scan, 2, true, BUDGET_SCAN},
    {"Bcast on a GPU", bcast, 1, true, BUDGET_BCAST},
    {"Sendrecv on a GPU", sendrecv, 2, true, BUDGET_SENDRECV},
    {"Sendrecv on the host", sendrecv, 2, false, 2},
    {"Allreduce on the host", allreduce, 2, false, 2},
    {"Scan on the host", scan, 2, false, 2},
    {"Bcast on the host", bcast, 1, false, 1},
    {"Barrier", barrier, 0, false, 0},
};

/* Make one allreduce, and return the number of its allocations, or -1 if the result is wrong. */
static long allocations(const float *from, float *to, int count, float *values)
{
    long made;

    for (int i = 0; i < count; i++) {
        values[i] = (float) (harness_rank + i % 50);
    }
    copy((void *) (uintptr_t) from, values, (size_t) count * sizeof *values);
    made = calls("cuMemAlloc_v2");
    MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, count, MPI_FLOAT, MPI_SUM, comm);
    made = calls("cuMemAlloc_v2") - made;
    copy(values, to, (size_t) count * sizeof *values);
    for (int i = 0; i < count; i++) {
        int sum = harness_size * (harness_size - 1) / 2 + harness_size * (i % 50);

        made = values[i] == (float) sum ? made : -1;
    }
    return made;
}

/* Count allocations for buffers on a GPU other than the one that the process uses. */
static void copies(void)
{
    static const struct {
        int count;
        bool in_place;
        long most;
        const char *what;
    } steps[] = {
        {COUNT, true, 1, "the first call in place allocates once"},
        {COUNT, true, 0, "the next one does not"},
        {COUNT, false, 1, "one with two buffers allocates the other"},
        {COUNT, false, 0, "the next one does not"},
        {100 * COUNT, false, 2, "a larger one allocates anew"},
        {120 * COUNT, false, 0, "one that is a little larger does not"},
        {COUNT, false, 0, "nor does a smaller one"},
        {MOST, false, 2, "a large one allocates"},
        {MOST, true, 1, "each time"},
        {120 * COUNT, false, 0, "and what was kept is still there"},
    };
    int other = (harness_rank + 1) % 2;
    float *from = alloc_sort("vmm", other, MOST * sizeof *from);
    float *to = alloc_sort("vmm", other, MOST * sizeof *to);
    float *values = malloc(MOST * sizeof *values), *own;
    int (*retain)(void **context, int gpu), (*release)(int gpu);
    long (*held)(void), before;
    void *context; /* context in which memory of the other GPU can be copied */

    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuDevicePrimaryCtxRelease_v2", &release);
    standin_find("gpuring_standin_held", &held);
    if (from == NULL || to == NULL || values == NULL || retain(&context, other) != 0) {
        printf("Bail out! out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    own = harness_alloc(MOST * sizeof *own);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) { /* make the connections */
        MPI_Allreduce(MPI_IN_PLACE, own, steps[i].count, MPI_FLOAT, MPI_SUM, comm);
    }
    harness_free(own);
    before = held();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        long made = allocations(steps[i].in_place ? to : from, to, steps[i].count, values);

        harness_check(made >= 0 && made <= steps[i].most, "Allreduce on another GPU: %s (%ld)",
                      steps[i].what, made);
    }
    harness_check(held() <= before + BUDGET_KEPT, "copies that are held for it: %ld",
                  held() - before);
    free_sort(from);
    free_sort(to);
    free(values);
    (void) release(other);
}

/* Send `messages` messages of one size to the next rank, all at the same time, in the same buffers.
 */
static void pass_many(int messages, int count, float *from, float *to)
{
    enum { MOST_MESSAGES = 20 };
    int next = (harness_rank + 1) % harness_size;
    int before = (harness_rank + harness_size - 1) % harness_size;
    MPI_Request requests[2 * MOST_MESSAGES];

    for (int i = 0; i < messages; i++) {
        MPI_Irecv(to, count, MPI_FLOAT, before, i, comm, &requests[i]);
    }
    for (int i = 0; i < messages; i++) {
        MPI_Isend(from, count, MPI_FLOAT, next, i, comm, &requests[messages + i]);
    }
    MPI_Waitall(2 * messages, requests, MPI_STATUSES_IGNORE);
}

/* Copies and messages of large sends and receives overlap, so no call waits for a copy. The first
 * messages obtain consent and check the slots. */
static void overlapped(void)
{
    enum { EACH = 4, LENGTH = MOST / 20 };
    float *from = harness_alloc(LENGTH * sizeof *from), *to = harness_alloc(LENGTH * sizeof *to);
    long waits, copies_made;

    for (int i = 0; i < 3; i++) {
        pass_many(EACH, LENGTH, from, to);
    }
    MPI_Barrier(comm);
    waits = calls("cuStreamSynchronize");
    copies_made = calls("cuMemcpyAsync");
    pass_many(EACH, LENGTH, from, to);
    waits = calls("cuStreamSynchronize") - waits;
    copies_made = calls("cuMemcpyAsync") - copies_made;
    harness_free(from);
    harness_free(to);
    harness_check(waits == 0 && copies_made <= 2 * EACH,
                  "%d large messages each way: %ld copies, of which %ld are waited for", EACH,
                  copies_made, waits);
}

/* The receives of 20 messages of 16 MiB need more memory than is pinned for them. Pinning takes
 * longer than such a message, so no memory is pinned for each message, even though the buffers of
 * shorter messages are kept. */
static void pinned_once(void)
{
    enum { LONG = 4 << 20, SHORT = LONG / 4, MESSAGES = 20 };
    float *from = harness_alloc(LONG * sizeof *from), *to = harness_alloc(LONG * sizeof *to);
    long pinned;

    pass_many(MESSAGES, SHORT, from, to);
    pass_many(MESSAGES, LONG, from, to);
    pinned = calls("cuMemHostRegister_v2");
    pass_many(MESSAGES, LONG, from, to);
    pinned = calls("cuMemHostRegister_v2") - pinned;
    harness_free(from);
    harness_free(to);
    harness_check(pinned == 0, "%d long messages at the same time pin host memory %ld times",
                  MESSAGES, pinned);
}

int main(int argc, char **argv)
{
    long made;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    gpu = harness_alloc(sizeof host);
    gpu_too = harness_alloc(sizeof host);
    harness_write(gpu, host, sizeof host);
    standin_find("gpuring_standin_calls", &calls);
    standin_find("gpuring_standin_alloc", &alloc_sort);
    standin_find("gpuring_standin_free", &free_sort);
    standin_find("gpuring_standin_copy", &copy);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    made = calls("cuMemAlloc_v2");
    allreduce(gpu, gpu_too);
    made = calls("cuMemAlloc_v2") - made;
    harness_check(made <= BUDGET_ALLOCATIONS, "the wire-up allocates GPU memory %ld times", made);
    for (int i = 0; i < WARM_UP; i++) {
        allreduce(gpu, gpu_too);
    }
    harness_check(calls("cuGraphLaunch") > 0, "kernels are launched as graphs");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *from = cases[i].on_gpu ? gpu : host, *to = cases[i].on_gpu ? gpu_too : host_too;
        long asked, all, polls, waits;

        cases[i].call(from, to); /* setup in the first call */
        asked = calls("cuPointerGetAttributes");
        polls = calls("cuStreamQuery");
        waits = calls("cuStreamSynchronize");
        all = calls(NULL);
        cases[i].call(from, to);
        asked = calls("cuPointerGetAttributes") - asked;
        all = calls(NULL) - all;
        polls = calls("cuStreamQuery") - polls;
        waits = calls("cuStreamSynchronize") - waits;
        if (cases[i].on_gpu && getenv("GPURING_STANDIN_CONCURRENT") != NULL) {
            harness_check(polls + waits > 0, "%s: the driver has told the end", cases[i].name);
        }
        harness_check(asked <= cases[i].buffers, "%s: asks for %ld buffers", cases[i].name, asked);
        harness_check((cases[i].on_gpu ? all > asked : all == asked) &&
                          all - polls * BUDGET_POLL <= cases[i].most,
                      "%s: %ld calls of the driver in all, %ld to look for the end", cases[i].name,
                      all, polls * BUDGET_POLL);
    }
    kernels_are_loaded();
    copies();
    overlapped();
    pinned_once();
    MPI_Comm_free(&comm);
    harness_free(gpu);
    harness_free(gpu_too);
    return harness_finish();
}
