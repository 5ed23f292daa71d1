/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test calls in a stream (tools/gpuring_stream.h). Kernels of the application before and after a
 * call in the stream are not synchronised with it, and begin late, differently on each rank, so
 * that a call that does not follow the stream gets or leaves wrong data. On the stand-in driver its
 * function represents a kernel, and on a GPU copies do.
 *
 *     enqueued CASE [threads]    threads: with MPI_THREAD_MULTIPLE
 *
 * CASE is one of `cases`, or how a message is wrong (enqueued_messages.h).
 */
#include "enqueued_data.h"
#include "enqueued_driver.h"
#include "enqueued_messages.h"
#include "harness.h"
#include "standin_find.h"
#include "test/budgets.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_results(void)
{
    static const size_t counts[] = {1, 33, 4097, MOST};
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);

    for (enum call call = 0; call < CALLS; call++) {
        for (int in_place = 0; in_place < (call == BCAST ? 1 : 2); in_place++) {
            bool good = true;

            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                good = runs(call, counts[i], in_place != 0, stream, comm) && good;
            }
            harness_check(good, "%s%s between kernels", names[call], in_place ? " in place" : "");
        }
    }
    harness_check(MPIX_Allreduce_enqueue(data.in, data.out, 0, MPI_INT, MPI_SUM, comm) ==
                          MPI_SUCCESS &&
                      MPIX_Barrier_enqueue(comm) == MPI_SUCCESS && driver.stream_sync(stream) == 0,
                  "a call without data, and a barrier");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* Make many calls in flight, each with the result of the previous one, and ordinary calls in the
 * meantime. */
static void test_chain(void)
{
    enum { LENGTH = 100, COUNT = 1000 };
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    bool good = true;
    int code = MPI_SUCCESS, sum = 0, *other = harness_alloc(COUNT * sizeof *other);

    for (size_t i = 0; i < COUNT; i++) {
        data.host[i] = value_of(harness_rank, 0, i);
    }
    harness_write(data.source, data.host, COUNT * sizeof(int));
    harness_write(other, data.host, COUNT * sizeof(int));
    driver.kernel(stream, data.in, data.source, COUNT * sizeof(int), 20 * (harness_rank % 2));
    code = MPIX_Allreduce_enqueue(data.in, data.out, COUNT, MPI_INT, MPI_SUM, comm);
    for (int k = 0; k < LENGTH && code == MPI_SUCCESS; k++) {
        int *from = k % 2 == 0 ? data.out : data.in, *to = k % 2 == 0 ? data.in : data.out;

        code = k % 3 == 0 ? MPIX_Bcast_enqueue(from, COUNT, MPI_INT, k % harness_size, comm) : code;
        code = code == MPI_SUCCESS ? MPIX_Allreduce_enqueue(from, to, COUNT, MPI_INT, MPI_MAX, comm)
                                   : code;
    }
    /* These use other connections. */
    MPI_Allreduce(MPI_IN_PLACE, other, COUNT, MPI_INT, MPI_SUM, comm);
    MPI_Allreduce(&harness_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    harness_read(data.host, data.out, COUNT * sizeof(int));
    for (size_t i = 0; i < COUNT; i++) {
        good = good && data.host[i] == expected(ALLREDUCE, 0, 0, i);
    }
    harness_check(good && code == MPI_SUCCESS, "a chain of %d calls in flight", LENGTH);
    harness_read(data.host, other, COUNT * sizeof(int));
    for (size_t i = 0; i < COUNT; i++) {
        good = good && data.host[i] == expected(ALLREDUCE, 0, 0, i);
    }
    harness_check(good && sum == harness_size * (harness_size - 1) / 2,
                  "ordinary calls on the communicator meanwhile");
    harness_free(other);
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* Use two communicators with two streams, in a different order on each rank, and the default
 * stream. */
static void test_streams(void)
{
    void *streams[2] = {new_stream(), new_stream()};
    MPI_Comm comms[2] = {comm_of(streams[0]), comm_of(streams[1])}, comm;
    bool good = true;
    int code = MPI_SUCCESS, *buffers[2] = {data.in, data.out};

    for (int k = 0; k < 2; k++) {
        data.host[0] = value_of(harness_rank, k, 0);
        harness_write(buffers[k], data.host, sizeof(int));
    }
    for (int k = 0; k < 20; k++) {
        int which = (k + harness_rank) % 2;

        code |=
            MPIX_Allreduce_enqueue(MPI_IN_PLACE, buffers[which], 1, MPI_INT, MPI_MAX, comms[which]);
    }
    for (int k = 0; k < 2; k++) {
        need(driver.stream_sync(streams[k]) == 0, "wait for a stream");
        harness_read(data.host, buffers[k], sizeof(int));
        good = good && data.host[0] == value_of(harness_size - 1, k, 0);
    }
    harness_check(good && code == MPI_SUCCESS, "two communicators in two streams");
    for (int k = 0; k < 2; k++) {
        MPI_Comm_free(&comms[k]);
        driver.stream_destroy(streams[k]);
    }
    comm = comm_of(NULL);
    data.host[0] = harness_rank + 1;
    harness_write(data.in, data.host, sizeof(int));
    code = MPIX_Allreduce_enqueue(data.in, data.out, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm); /* waits for it */
    harness_read(data.host, data.out, sizeof(int));
    harness_check(code == MPI_SUCCESS && data.host[0] == harness_size * (harness_size + 1) / 2,
                  "the default stream");
}

/* Free a communicator while its calls wait for a kernel of another rank. */
static void test_free(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    bool queued;

    data.host[0] = harness_rank + 1;
    harness_write(data.source, data.host, sizeof(int));
    driver.kernel(stream, data.in, data.source, sizeof(int), harness_rank == 0 ? 300 : 0);
    MPIX_Allreduce_enqueue(data.in, data.out, 1, MPI_INT, MPI_SUM, comm);
    queued = driver.stream_query(stream) != 0;
    MPI_Comm_free(&comm);
    harness_check(queued && driver.stream_query(stream) == 0,
                  "MPI_Comm_free waits for enqueued calls");
    harness_read(data.host, data.out, sizeof(int));
    harness_check(data.host[0] == harness_size * (harness_size + 1) / 2, "and they are right");
    driver.stream_destroy(stream);
}

/* Capture kernels and calls that compute `to` from `from`. */
static int capture(void *stream, MPI_Comm comm, int *from, int *middle, int *to, int count)
{
    size_t bytes = (size_t) count * sizeof(int);
    int code;

    driver.graph_begin(stream);
    driver.kernel(stream, data.in, from, bytes, 0);
    code = MPIX_Allreduce_enqueue(data.in, middle, count, MPI_INT, MPI_SUM, comm);
    driver.kernel(stream, to, middle, bytes, 0);
    driver.kernel(stream, data.in, data.garbage, bytes, 0);
    code |= MPIX_Bcast_enqueue(to, count, MPI_INT, harness_size - 1, comm);
    code |= MPIX_Barrier_enqueue(comm);
    return code;
}

/* Capture calls between kernels into a graph, and run it many times, with other calls in between.
 */
static void test_graph(void)
{
    enum { COUNT = 1000, RUNS = 1000, LATER = 3 };
    void *stream = new_stream(), *graph;
    MPI_Comm comm = comm_of(stream);
    size_t bytes = COUNT * sizeof(int);
    int code = MPI_SUCCESS, sum = 0;
    bool good = true;
    double start;

    code = capture(stream, comm, data.out, data.result, data.out, COUNT);
    graph = driver.graph_end();
    for (size_t i = 0; i < COUNT; i++) {
        data.host[i] = value_of(harness_rank, 0, i);
    }
    harness_write(data.out, data.host, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int run = 0; run < RUNS; run++) {
        driver.graph_launch(graph, stream);
        if (run % 50 == 49) { /* another call in the stream, and ordinary ones */
            code |= MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.out, COUNT, MPI_INT, MPI_MAX, comm);
            MPI_Allreduce(&harness_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        }
    }
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    if (harness_rank == 0) {
        printf("# %d runs of a graph with 3 calls: %.2f us each\n", RUNS,
               (MPI_Wtime() - start) * 1e6 / RUNS);
    }
    for (int run = 0; run < LATER; run++) { /* nothing is enqueued, and the network rests */
        usleep(run == 0 ? 300000 : 0);
        driver.graph_launch(graph, stream);
        need(driver.stream_sync(stream) == 0, "wait for the stream");
    }
    harness_read(data.host, data.out, bytes);
    for (size_t i = 0; i < COUNT; i++) {
        unsigned right = (unsigned) expected(ALLREDUCE, 0, 0, i);

        for (int run = 1; run < RUNS + LATER; run++) {
            right *= (unsigned) harness_size;
        }
        good = good && data.host[i] == (int) right;
    }
    harness_check(good && code == MPI_SUCCESS && sum == harness_size * (harness_size - 1) / 2,
                  "a graph with calls runs %d times", RUNS);
    harness_check(runs(ALLGATHER, 1000, false, stream, comm), "calls after it");
    code = capture(stream, comm, data.source, data.out, data.result, COUNT);
    good = driver.graph_update(graph);
    for (size_t i = 0; i < COUNT; i++) {
        data.host[i] = value_of(harness_rank, 0, i);
    }
    harness_write(data.source, data.host, bytes);
    for (int run = 0; run < LATER; run++) {
        driver.graph_launch(graph, stream);
    }
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    harness_check(good && code == MPI_SUCCESS && is_right(ALLREDUCE, 0, COUNT),
                  "the graph with other buffers, after an update");
    driver.graph_free(graph);
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* Use every root, which needs a plan for each. */
static void test_roots(void)
{
    static const size_t counts[] = {1, 4096, MOST - 16};
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    bool good = true;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t root = 0; root < (size_t) harness_size; root++) {
            good = runs(BCAST, counts[i] + root, false, stream, comm) && good;
            good = runs(REDUCE, counts[i] + root, false, stream, comm) && good;
        }
    }
    harness_check(good, "all roots");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

static void user_function(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) in;
    (void) inout;
    (void) count;
    (void) type;
}

static int class_of(int code)
{
    int class = code;

    MPI_Error_class(code, &class);
    return class;
}

/* Use datatypes one after another, each of which may have the handle of a freed one. */
static bool takes_types(void *stream, MPI_Comm comm)
{
    enum { UNIT = 100, TYPES = 4 };
    int on_host[TYPES * UNIT];
    bool good = true;

    for (int ints = UNIT; ints <= TYPES * UNIT; ints += UNIT) {
        MPI_Datatype type;

        for (int i = 0; i < TYPES * UNIT; i++) {
            on_host[i] = harness_rank == 0 ? i + ints : -1;
        }
        harness_write(data.in, on_host, sizeof on_host);
        MPI_Type_contiguous(ints, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPIX_Bcast_enqueue(data.in, 1, type, 0, comm);
        MPI_Type_free(&type);
        driver.stream_sync(stream);
        harness_read(on_host, data.in, sizeof on_host);
        for (int i = 0; i < TYPES * UNIT; i++) {
            good = good && on_host[i] == (harness_rank == 0 || i < ints ? i + ints : -1);
        }
    }
    return good;
}

/* Wrong arguments return errors, after which the communicator works. */
static void test_errors(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream), other;
    MPIX_Stream object = MPIX_STREAM_NULL, kept;
    MPI_Datatype gaps;
    MPI_Info info;
    MPI_Op op;
    int on_host[4], counts[64], code, error = -1;

    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Op_create(user_function, 1, &op);
#define REFUSED(class, call, text) harness_check(class_of(call) == (class), "an error: %s", text)
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Allreduce_enqueue(on_host, data.out, 1, MPI_INT, MPI_SUM, comm),
            "a send buffer in host memory");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION, MPIX_Bcast_enqueue(on_host, 1, MPI_INT, 0, comm),
            "a buffer in host memory");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION, MPIX_Bcast_enqueue(data.out, 1, gaps, 0, comm),
            "a datatype with gaps");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Allreduce_enqueue(data.in, data.out, 1, gaps, MPI_SUM, comm),
            "a derived datatype in a reduction");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Allreduce_enqueue(data.in, data.out, 1, MPI_INT, op, comm),
            "a user-defined operation");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Allreduce_enqueue(data.in, data.out, 1, MPI_LONG_DOUBLE, MPI_SUM, comm),
            "a datatype that GPUs lack");
    for (int i = 0; i < harness_size; i++) {
        counts[i] = 1 + i / (harness_size - 1); /* another count for the last rank */
    }
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Reduce_scatter_enqueue(data.in, data.out, counts, MPI_INT, MPI_SUM, comm),
            "counts that differ");
    REFUSED(MPI_ERR_COUNT, MPIX_Allreduce_enqueue(data.in, data.out, -1, MPI_INT, MPI_SUM, comm),
            "a negative count");
    REFUSED(MPI_ERR_ROOT, MPIX_Bcast_enqueue(data.in, 1, MPI_INT, harness_size, comm),
            "a wrong root");
    REFUSED(MPI_ERR_COMM, MPIX_Barrier_enqueue(MPI_COMM_WORLD), "a communicator without a stream");
    MPI_Comm_dup(comm, &other);
    REFUSED(MPI_ERR_COMM, MPIX_Barrier_enqueue(other), "a duplicate of one with a stream");
    MPI_Comm_free(&other);
    REFUSED(MPI_ERR_ARG, MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &other),
            "MPIX_STREAM_NULL");
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "hipStream_t");
    REFUSED(MPI_ERR_INFO_VALUE, MPIX_Stream_create(info, &object), "a stream of HIP");
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "value", "no handle");
    REFUSED(MPI_ERR_INFO_VALUE, MPIX_Stream_create(info, &object), "a value that is no handle");
    MPI_Info_free(&info);
    MPIX_Comm_get_stream(comm, 0, &object); /* comm_of has freed it */
    kept = object;
    REFUSED(MPI_ERR_ARG, MPIX_Stream_free(&kept), "a stream object that was freed");
    REFUSED(MPI_ERR_ARG, MPIX_Stream_comm_create(MPI_COMM_WORLD, object, &other),
            "a communicator for it");
    kept = object_of(stream);
    harness_check(kept != object, "its handle is not used again while a communicator has it");
    MPIX_Stream_free(&kept);
    test_message_errors(stream, comm);
    code = MPIX_Comm_get_stream_error(comm, &error);
    harness_check(code == MPI_SUCCESS && error == MPI_SUCCESS &&
                      runs(ALLREDUCE, 100, false, stream, comm),
                  "the communicator works after all these errors");
    harness_check(takes_types(stream, comm), "and takes a datatype for what it is");
    MPI_Op_free(&op);
    MPI_Type_free(&gaps);
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* One rank does not launch a graph. The others do not hang, and each rank gets an error. */
static void test_late_graph(void)
{
    void *stream = new_stream(), *graph;
    MPI_Comm comm = comm_of(stream);
    int code = capture(stream, comm, data.out, data.result, data.out, 1000), error = MPI_SUCCESS;

    graph = driver.graph_end();
    driver.graph_launch(graph, stream);
    if (harness_rank > 0) {
        driver.graph_launch(graph, stream);
    }
    harness_check(code == MPI_SUCCESS && driver.stream_sync(stream) == 0,
                  "the streams of all ranks end");
    MPI_Barrier(MPI_COMM_WORLD);
    MPIX_Comm_get_stream_error(comm, &error);
    harness_check(error != MPI_SUCCESS, "all ranks get an error");
    driver.graph_free(graph);
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* The last rank makes no call. The others make calls with more roots than an engine keeps plans
 * for, so they wait for the stream in one of the calls, and not for ever. */
static void test_late_roots(void)
{
    static const int counts[] = {1, 4096, MOST - 16};
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    int error = MPI_SUCCESS;

    for (int i = 0; harness_rank < harness_size - 1 && i < 6 * harness_size; i++) {
        int count = counts[i / 2 % 3], root = i / 6;

        if (error == MPI_SUCCESS) {
            error = i % 2 == 0 ? MPIX_Bcast_enqueue(data.in, count, MPI_INT, root, comm)
                               : MPIX_Reduce_enqueue(data.in, data.out, count, MPI_INT, MPI_SUM,
                                                     root, comm);
        }
    }
    harness_check(error != MPI_SUCCESS || harness_rank == harness_size - 1,
                  "a call returns an error, because the rank makes none");
    harness_check(driver.stream_sync(stream) == 0, "the streams of all ranks end");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* One rank makes a different call, or none. No rank hangs, and each gets an error. */
static void test_wrong(bool late)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    bool odd = harness_rank == harness_size - 1;
    int code = MPI_SUCCESS, error;

    MPIX_Barrier_enqueue(comm);
    if (!odd) {
        code = MPIX_Allreduce_enqueue(data.in, data.out, 1000, MPI_INT, MPI_SUM, comm);
    } else if (!late) {
        code = MPIX_Bcast_enqueue(data.in, 1000, MPI_INT, 0, comm);
    }
    if (!late) { /* a broadcast may end, and this call finds the error of another node */
        code = MPIX_Barrier_enqueue(comm);
    }
    harness_check(driver.stream_sync(stream) == 0, "the streams of all ranks end");
    error = error_of(comm);
    harness_check(error != MPI_SUCCESS, "all ranks get an error");
    code = MPIX_Barrier_enqueue(comm);
    harness_check(code == error, "so does the next call");
    MPI_Comm_free(&comm);
    comm = comm_of(stream);
    harness_check(runs(ALLREDUCE, 1000, false, stream, comm), "a new communicator works");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

static const char *which; /* the case */

/* The ranks of the first node make another call than the others, of the same size. In case
 * nodes_wait, both wait for the other node. Otherwise the call ends, and equal calls follow it. */
static void test_nodes(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    bool first = harness_rank < harness_size / 2;
    int root = harness_size - 1, later = strcmp(which, "nodes_later") == 0 ? 300 : 3;

    MPIX_Barrier_enqueue(comm);
    if (strcmp(which, "nodes_wait") != 0) {
        MPIX_Allreduce_enqueue(data.in, data.out, 1000, MPI_INT, first ? MPI_SUM : MPI_MAX, comm);
    } else if (first) {
        MPIX_Bcast_enqueue(data.out, 1000, MPI_INT, root, comm);
    } else {
        MPIX_Reduce_enqueue(data.in, data.out, 1000, MPI_INT, MPI_SUM, root, comm);
    }
    for (int i = 0; i < later; i++) {
        MPIX_Allreduce_enqueue(data.in, data.out, 1000, MPI_INT, MPI_SUM, comm);
    }
    harness_check(driver.stream_sync(stream) == 0, "the streams of all ranks end");
    harness_check(error_of(comm) != MPI_SUCCESS, "all ranks get an error");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* Count the driver calls of calls of a known shape. */
static void test_costs(void)
{
    enum { CALLS_MADE = 100 };
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    long (*calls)(const char *symbol), launches = 0, asked = 0, all = 0;
    int code = MPI_SUCCESS;

    standin_find("gpuring_standin_calls", &calls);
    for (int i = 0; i < 20 + CALLS_MADE; i++) {
        if (i == 20) {
            launches = calls("cuLaunchKernel");
            asked = calls("cuPointerGetAttributes");
            all = calls(NULL);
        }
        code |= MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.in, 2, MPI_FLOAT, MPI_SUM, comm);
    }
    all = calls(NULL) - all;
    asked = calls("cuPointerGetAttributes") - asked;
    launches = calls("cuLaunchKernel") - launches;
    harness_check(code == MPI_SUCCESS && launches == CALLS_MADE && asked == CALLS_MADE,
                  "%d calls launch %ld kernels and query %ld buffers", CALLS_MADE, launches, asked);
    harness_check(all == (1 + BUDGET_ENQUEUE) * CALLS_MADE, "and make %ld driver calls", all);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* The last rank is killed while calls of the others wait for it. Each of the other ranks prints a
 * line. */
static void test_killed(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    int error = MPI_SUCCESS;

    MPIX_Barrier_enqueue(comm);
    if (harness_rank == harness_size - 1) {
        need(driver.stream_sync(stream) == 0, "wait for the stream");
        raise(SIGKILL);
    }
    MPIX_Allreduce_enqueue(data.in, data.out, 1000, MPI_INT, MPI_SUM, comm);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    MPIX_Comm_get_stream_error(comm, &error);
    printf("%s - rank %d: its stream ends, with an error\n", error != MPI_SUCCESS ? "ok" : "not ok",
           harness_rank);
    fflush(stdout);
    _exit(0);
}

/* The last rank aborts the job while calls of the others wait for it. */
static void test_abort(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);

    MPIX_Barrier_enqueue(comm);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    if (harness_rank == harness_size - 1) {
        usleep(300000);
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    MPIX_Allreduce_enqueue(data.in, data.out, 1000, MPI_INT, MPI_SUM, comm);
    driver.stream_sync(stream);
}

static void test_order(void)
{
    test_wrong(false);
}

static void test_late(void)
{
    test_wrong(true);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"results", test_results},
    {"roots", test_roots},
    {"chain", test_chain},
    {"streams", test_streams},
    {"free", test_free},
    {"costs", test_costs},
    {"graph", test_graph},
    {"errors", test_errors},
    {"order", test_order},
    {"late", test_late},
    {"late_graph", test_late_graph},
    {"late_roots", test_late_roots},
    {"killed", test_killed},
    {"abort", test_abort},
    {"nodes_wait", test_nodes},
    {"nodes_end", test_nodes},
    {"nodes_later", test_nodes},
    {"messages", test_messages},
    {"few", test_few_messages},
};

int main(int argc, char **argv)
{
    size_t number = 0;

    which = argc > 1 ? argv[1] : "";
    harness_start(&argc, &argv, argc > 2 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    driver_open();
    data_open();
    while (number < sizeof cases / sizeof *cases && strcmp(which, cases[number].name) != 0) {
        number++;
    }
    if (number < sizeof cases / sizeof *cases) {
        cases[number].run();
    } else {
        need(strstr(which, "message") != NULL, "find this case");
        test_wrong_message(which);
    }
    data_close();
    driver_close();
    return harness_finish();
}
