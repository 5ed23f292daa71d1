/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test several CUDA contexts in a process, on the same GPU. The stand-in driver refuses kernels and
 * copies on memory of a context other than theirs. Calls with buffers of either context must work,
 * whichever is used first. After the context that was used first has been destroyed, collectives on
 * connected communicators return errors. Messages, and collectives on new communicators, are
 * staged. No call may hang or return wrong data. Meanwhile another thread of the application
 * captures a stream into a graph.
 *
 * The first argument selects the context that is used first: `primary`, or `own`, which is an
 * additional context. The second one selects the ranks on which the own context is destroyed at the
 * end: `all` or `last`. The third one is optional: `reset` resets the primary context before
 * MPI_Finalize, and `again` also uses it again.
 */
#include "harness.h"
#include "standin_find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 40000 /* elements of a buffer */
#define ALL  (MOST / 8)

enum { PRIMARY, OWN, CONTEXTS };

static void *(*context_make)(int gpu);
static void (*context_end)(void *context);
static void (*capture)(int capturing);
static void (*copy)(void *to, const void *from, size_t bytes);
static int (*push)(void *context), (*pop)(void **context), (*get_current)(void **context);
static int (*memory_alloc)(uint64_t *address, size_t bytes), (*memory_free)(uint64_t address);

static void *own;
static int *from[CONTEXTS], *to[CONTEXTS], host[MOST];
static MPI_Comm comm;
static MPI_Datatype rows; /* rows of 5 integers, of which 3 are data */

static void *allocate(int where)
{
    uint64_t address = 0;
    void *popped;

    if (where == PRIMARY) {
        return harness_alloc(sizeof host);
    }
    if (push(own) != 0 || memory_alloc(&address, sizeof host) != 0 || pop(&popped) != 0) {
        printf("Bail out! no memory in a context of its own\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (void *) (uintptr_t) address;
}

/* Return the GPU of this rank. */
static int gpu_here(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    return (local != NULL ? atoi(local) : 0) % atoi(getenv("GPURING_STANDIN_GPUS"));
}

static void make_own(void)
{
    own = context_make(gpu_here());
    from[OWN] = allocate(OWN);
    to[OWN] = allocate(OWN);
}

static int value(int rank, int i)
{
    return 1000 * rank + i % 777;
}

/* Write the input of this rank, and clear its output. */
static void prepare(int source, int target)
{
    for (int i = 0; i < MOST; i++) {
        host[i] = value(harness_rank, i);
    }
    copy(from[source], host, sizeof host);
    memset(host, 0xff, sizeof host);
    copy(to[target], host, sizeof host);
}

static int sum(int i)
{
    return 1000 * harness_size * (harness_size - 1) / 2 + harness_size * (i % 777);
}

static int allreduce(int *send, int *receive)
{
    return MPI_Allreduce(send, receive, MOST, MPI_INT, MPI_SUM, comm);
}

static int allreduce_small(int *send, int *receive)
{
    return MPI_Allreduce(send, receive, 10, MPI_INT, MPI_SUM, comm);
}

static int allreduce_in_place(int *send, int *receive)
{
    copy(receive, send, sizeof host);
    return MPI_Allreduce(MPI_IN_PLACE, receive, MOST, MPI_INT, MPI_SUM, comm);
}

static int iallreduce(int *send, int *receive)
{
    MPI_Request request;
    int status = MPI_Iallreduce(send, receive, MOST, MPI_INT, MPI_SUM, comm, &request);

    return status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
}

static int bcast(int *send, int *receive)
{
    return MPI_Bcast(harness_rank == 0 ? send : receive, MOST, MPI_INT, 0, comm);
}

static int bcast_rows(int *send, int *receive)
{
    return MPI_Bcast(harness_rank == 0 ? send : receive, 1, rows, 0, comm);
}

static int ireduce(int *send, int *receive)
{
    MPI_Request request;
    int status = MPI_Ireduce(send, receive, MOST, MPI_INT, MPI_SUM, 0, comm, &request);

    return status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
}

static int allgather(int *send, int *receive)
{
    return MPI_Allgather(send, ALL, MPI_INT, receive, ALL, MPI_INT, comm);
}

static int sendrecv(int *send, int *receive)
{
    return MPI_Sendrecv(send, MOST, MPI_INT, (harness_rank + 1) % harness_size, 0, receive, MOST,
                        MPI_INT, (harness_rank + harness_size - 1) % harness_size, 0, comm,
                        MPI_STATUS_IGNORE);
}

static int sum_at(int i)
{
    return sum(i);
}

static int small_at(int i)
{
    return i < 10 ? sum(i) : -1;
}

static int first_rank_at(int i)
{
    return harness_rank == 0 ? -1 : value(0, i);
}

static int rows_at(int i)
{
    return harness_rank == 0 || i % 5 >= 3 ? -1 : value(0, i);
}

static int root_at(int i)
{
    return harness_rank == 0 ? sum(i) : -1;
}

static int gathered_at(int i)
{
    return i / ALL < harness_size ? value(i / ALL, i % ALL) : -1;
}

static int left_at(int i)
{
    return value((harness_rank + harness_size - 1) % harness_size, i);
}

static const struct {
    const char *name;
    int (*call)(int *send, int *receive);
    int (*expected)(int i);
} calls[] = {
    {"Allreduce", allreduce, sum_at},
    {"small Allreduce", allreduce_small, small_at},
    {"Allreduce in place", allreduce_in_place, sum_at},
    {"Iallreduce", iallreduce, sum_at},
    {"Bcast", bcast, first_rank_at},
    {"Bcast of rows", bcast_rows, rows_at},
    {"Ireduce", ireduce, root_at},
    {"Allgather", allgather, gathered_at},
    {"Sendrecv", sendrecv, left_at},
};

static bool right(int target, int (*expected)(int i))
{
    copy(host, to[target], sizeof host);
    for (int i = 0; i < MOST; i++) {
        if (host[i] != expected(i)) {
            printf("# rank %d: element %d is %d, not %d\n", harness_rank, i, host[i], expected(i));
            return false;
        }
    }
    return true;
}

static void try_all(int source, int target, const char *when)
{
    static const char *const names[CONTEXTS] = {"the primary context", "the other one"};
    void *before = NULL, *after = NULL;

    (void) get_current(&before);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int status;

        prepare(source, target);
        capture(1);
        status = calls[c].call(from[source], to[target]);
        capture(0);
        harness_check(status == MPI_SUCCESS && right(target, calls[c].expected),
                      "%s: %s from %s to %s", when, calls[c].name, names[source], names[target]);
    }
    harness_check(get_current(&after) == 0 && after == before, "%s: the context is as before",
                  when);
}

/* Make a call on device memory. It must fail if the context of the process is destroyed
 * (`gone`). */
static void check_call(int (*call)(int *send, int *receive), int (*expected)(int i), bool gone,
                       bool gone_elsewhere, const char *what)
{
    int status;

    prepare(PRIMARY, PRIMARY);
    status = call(from[PRIMARY], to[PRIMARY]);
    harness_check(gone             ? status != MPI_SUCCESS
                  : gone_elsewhere ? true
                                   : status == MPI_SUCCESS && right(PRIMARY, expected),
                  "%s: %s", what,
                  gone             ? "an error"
                  : gone_elsewhere ? "ends where it is an error elsewhere"
                                   : "right");
}

static void after_end(bool gone, bool gone_elsewhere)
{
    MPI_Comm old = comm;

    check_call(allreduce, sum_at, gone, gone_elsewhere, "Allreduce on the old communicator");
    check_call(bcast, first_rank_at, gone, gone_elsewhere, "Bcast on the old communicator");
    check_call(sendrecv, left_at, false, false, "Sendrecv on the old communicator");
    MPI_Comm_dup(old, &comm);
    check_call(allreduce, sum_at, false, false, "Allreduce on a new communicator");
    check_call(iallreduce, sum_at, false, false, "Iallreduce on a new communicator");
    check_call(bcast, first_rank_at, false, false, "Bcast on a new communicator");
    if (!gone && !gone_elsewhere) {
        make_own();
        try_all(OWN, PRIMARY, "with another context");
        try_all(OWN, OWN, "with another context");
        context_end(own);
    }
    MPI_Comm_free(&comm);
    comm = old;
}

static void find_all(void)
{
    standin_find("gpuring_standin_context", &context_make);
    standin_find("gpuring_standin_context_end", &context_end);
    standin_find("gpuring_standin_copy", &copy);
    standin_find("gpuring_standin_capture", &capture);
    standin_find("cuCtxPushCurrent_v2", &push);
    standin_find("cuCtxPopCurrent_v2", &pop);
    standin_find("cuCtxGetCurrent", &get_current);
    standin_find("cuMemAlloc_v2", &memory_alloc);
    standin_find("cuMemFree_v2", &memory_free);
}

/* Destroy the own context with buffers in it, because an application does not have to free them
 * first. */
static void end_own(bool everywhere)
{
    if (everywhere || harness_rank == harness_size - 1) {
        context_end(own);
    } else {
        void *popped;

        (void) (push(own) == 0 && memory_free((uintptr_t) from[OWN]) == 0 &&
                memory_free((uintptr_t) to[OWN]) == 0 && pop(&popped) == 0);
    }
}

/* Destroy the context while calls on buffers of another context are in flight: a served call, and a
 * call that is staged through host memory. */
static void end_while_pending(bool everywhere, bool worked_there)
{
    MPI_Request served = MPI_REQUEST_NULL, staged = MPI_REQUEST_NULL;
    int *second = allocate(PRIMARY), first_status, second_status, status;

    prepare(PRIMARY, PRIMARY);
    copy(second, from[PRIMARY], sizeof host);
    /* Another rank may already have destroyed its context, so the calls themselves may fail. */
    first_status =
        MPI_Iallreduce(from[PRIMARY], to[PRIMARY], MOST, MPI_INT, MPI_SUM, comm, &served);
    second_status = MPI_Ibcast(second, MOST, MPI_INT, 0, comm, &staged);
    end_own(everywhere);
    status = MPI_Wait(&staged, MPI_STATUS_IGNORE);
    second_status = second_status == MPI_SUCCESS ? status : second_status;
    status = MPI_Wait(&served, MPI_STATUS_IGNORE);
    first_status = first_status == MPI_SUCCESS ? status : first_status;
    harness_check(first_status != MPI_SUCCESS ? worked_there : right(PRIMARY, sum_at),
                  "a pending Iallreduce ends, right or with an error");
    copy(to[PRIMARY], second, sizeof host);
    harness_check(worked_there || (second_status == MPI_SUCCESS &&
                                   (harness_rank == 0 || right(PRIMARY, first_rank_at))),
                  "a pending Ibcast ends, right or with an error");
    harness_free(second);
}

/* Reset the primary context, like cudaDeviceReset. */
static void reset_primary(bool again)
{
    int (*state)(int gpu, unsigned int *flags, int *active), (*release)(int gpu);
    int (*retain)(void **context, int gpu), gpu = gpu_here(), active = 0;
    unsigned int flags;
    void *context;

    standin_find("cuDevicePrimaryCtxGetState", &state);
    standin_find("cuDevicePrimaryCtxRelease_v2", &release);
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    harness_check(state(gpu, &flags, &active) == 0 && active, "the primary context exists");
    while (state(gpu, &flags, &active) == 0 && active) {
        (void) release(gpu);
    }
    if (again) {
        (void) retain(&context, gpu);
    }
}

/* Use buffers of the new primary context after a reset. */
static void after_reset(void)
{
    MPI_Comm old = comm;

    from[PRIMARY] = allocate(PRIMARY);
    to[PRIMARY] = allocate(PRIMARY);
    check_call(sendrecv, left_at, false, false, "after a reset: Sendrecv");
    MPI_Comm_dup(old, &comm);
    check_call(allreduce, sum_at, false, false, "after a reset: Allreduce on a new communicator");
    check_call(bcast, first_rank_at, false, false, "after a reset: Bcast on a new communicator");
    MPI_Comm_free(&comm);
    comm = old;
    harness_free(from[PRIMARY]);
    harness_free(to[PRIMARY]);
}

int main(int argc, char **argv)
{
    bool own_first, everywhere;
    int first;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    own_first = argc > 1 && strcmp(argv[1], "own") == 0;
    everywhere = argc > 2 && strcmp(argv[2], "all") == 0;
    first = own_first ? OWN : PRIMARY;
    find_all();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_vector(MOST / 5, 3, 5, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    from[PRIMARY] = allocate(PRIMARY);
    to[PRIMARY] = allocate(PRIMARY);
    make_own();
    try_all(first, first, "at first");
    for (int both = 0; both < CONTEXTS * CONTEXTS; both++) {
        try_all(both % CONTEXTS, both / CONTEXTS, "by turns");
    }
    try_all(first, first, "again");
    end_while_pending(everywhere, own_first);
    after_end(own_first && (everywhere || harness_rank == harness_size - 1), own_first);
    MPI_Type_free(&rows);
    harness_free(from[PRIMARY]);
    harness_free(to[PRIMARY]);
    if (argc > 3) {
        MPI_Barrier(comm); /* memory that others have mapped stays until all calls have ended */
        reset_primary(strcmp(argv[3], "again") == 0);
        if (strcmp(argv[3], "again") == 0) {
            after_reset();
        }
    }
    MPI_Comm_free(&comm);
    return harness_finish();
}
