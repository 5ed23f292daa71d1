/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls in a CUDA stream (--enqueue), with the functions of libgpuring_stream.so, whose source is
 * part of this program. A timed call is only enqueued. The time of all is taken when the stream has
 * ended, as programs that measure NCCL do. With --graph, the calls are captured in a CUDA graph
 * before the time begins, and the graph is launched, as with option -G of NCCL's tests.
 */
#include "gpuring-perf.h"

#include <string.h>

#include "gpuring_stream.h"

static MPI_Comm comm = MPI_COMM_NULL; /* with the stream */
static int (*enqueue)(const struct perf_call *call);
static struct perf_collective form; /* the enqueued form of the collective */

#define SENT     call->send, call->count, call->type->mpi
#define RECEIVED call->recv, call->count, call->type->mpi
#define REDUCED  call->send, call->recv, call->count, call->type->mpi, call->op->mpi

/* X(name, Name, arguments): MPIX_Name_enqueue. */
#define ENQUEUED(X)                                              \
    X(allreduce, Allreduce, REDUCED, comm)                       \
    X(bcast, Bcast, RECEIVED, call->root, comm)                  \
    X(reduce, Reduce, REDUCED, call->root, comm)                 \
    X(reduce_scatter_block, Reduce_scatter_block, REDUCED, comm) \
    X(allgather, Allgather, SENT, RECEIVED, comm)                \
    X(alltoall, Alltoall, SENT, RECEIVED, comm)

#define FUNCTION(name, Name, ...)                           \
    static int enqueue_##name(const struct perf_call *call) \
    {                                                       \
        return MPIX_##Name##_enqueue(__VA_ARGS__);          \
    }
ENQUEUED(FUNCTION)

static const struct {
    const char *name, *enqueued;
    int (*enqueue)(const struct perf_call *call);
} functions[] = {
#define ROW(name, Name, ...) {#name, #name "_enqueue", enqueue_##name},
    ENQUEUED(ROW)};

/* Make a call, and wait for it. */
static int run(struct perf_call *call)
{
    int code = enqueue(call);

    return code == MPI_SUCCESS && perf_memory_synchronize() == 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

const struct perf_collective *perf_enqueue_form(const struct perf_collective *collective)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i].name, collective->name) == 0) {
            enqueue = functions[i].enqueue;
            form = (struct perf_collective){.name = functions[i].enqueued,
                                            .shape = collective->shape,
                                            .blocking = run,
                                            .run = run};
            return &form;
        }
    }
    return NULL;
}

int perf_enqueue_open(void)
{
    void *stream = perf_memory_stream();
    MPIX_Stream object;
    MPI_Info info;
    int code;

    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    code = MPIX_Stream_create(info, &object);
    MPI_Info_free(&info);
    if (code == MPI_SUCCESS) {
        code = MPIX_Stream_comm_create(MPI_COMM_WORLD, object, &comm);
        MPIX_Stream_free(&object);
    }
    if (code != MPI_SUCCESS) {
        perf_message("[no-stream-calls] --enqueue: the ranks cannot be connected for calls in "
                     "streams; the message before gives the reason");
    }
    return code == MPI_SUCCESS ? 0 : -1;
}

void perf_enqueue_close(void)
{
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_free(&comm);
    }
}

static int enqueue_all(const struct perf_call *call, int iterations)
{
    int code = MPI_SUCCESS;

    for (int i = 0; i < iterations && code == MPI_SUCCESS; i++) {
        code = enqueue(call);
    }
    return code == MPI_SUCCESS ? 0 : -1;
}

/* Capture the calls in a graph. Returns it, or NULL. */
static void *capture(const struct perf_call *call, int iterations)
{
    void *graph = NULL;
    int status = perf_graph_begin();

    if (status == 0) {
        status = enqueue_all(call, iterations);
        graph = perf_graph_end(); /* also after an error */
    }
    if (status == 0 && graph != NULL) { /* the first launch takes longer */
        status = perf_graph_launch(graph) == 0 ? perf_memory_synchronize() : -1;
    }
    if (status != 0) {
        perf_graph_free(graph);
        return NULL;
    }
    return graph;
}

int perf_enqueue_timed(struct perf_call *call, int iterations, bool in_graph, double *mean)
{
    void *graph = in_graph ? capture(call, iterations) : NULL;
    int status = in_graph && graph == NULL ? -1 : 0;
    double start;

    MPI_Barrier(MPI_COMM_WORLD); /* ranks capture at different speeds */
    start = MPI_Wtime();
    if (status == 0) {
        status = in_graph ? perf_graph_launch(graph) : enqueue_all(call, iterations);
    }
    if (status == 0) {
        status = perf_memory_synchronize();
    }
    *mean = (MPI_Wtime() - start) * 1e6 / iterations;
    perf_graph_free(graph);
    return status;
}
