/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The collectives. Each has one row of a table for the three forms of its calls. */
#include "gpuring-perf.h"

#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

/* Persistent calls begin with MPIX_ in Open MPI 4.1. Open MPI 5.0 has those of MPI 4.0, although it
 * reports version 3.1 of MPI. */
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define INIT_CALL(name) MPIX_##name##_init
#elif MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
#define INIT_CALL(name) MPI_##name##_init
#endif
#if defined(INIT_CALL)
#define PERSISTENT(...) __VA_ARGS__
#else
#define PERSISTENT(...)
#endif

static MPI_Op op_of(const struct perf_call *call)
{
    return call->op != NULL ? call->op->mpi : MPI_OP_NULL;
}

/* Arguments of several collectives. */
#define SENT_TO    call->send, call->recv
#define SENT       call->send, call->count, call->type->mpi
#define SENT_V     call->send, call->counts, call->displs, call->type->mpi
#define RECEIVED   call->recv, call->count, call->type->mpi
#define RECEIVED_V call->recv, call->counts, call->displs, call->type->mpi
#define TYPE_OP    call->type->mpi, op_of(call)
#define ROOT       call->root, call->comm

/* X(name, Name, shape, arguments): MPI_Name, MPI_Iname and MPI_Name_init. */
#define COLLECTIVES(X)                                                                          \
    X(allreduce, Allreduce, REDUCE_ALL, SENT_TO, call->count, TYPE_OP, call->comm)              \
    X(bcast, Bcast, BCAST, RECEIVED, ROOT)                                                      \
    X(reduce, Reduce, REDUCE_ROOT, SENT_TO, call->count, TYPE_OP, ROOT)                         \
    X(scan, Scan, SCAN, SENT_TO, call->count, TYPE_OP, call->comm)                              \
    X(exscan, Exscan, EXSCAN, SENT_TO, call->count, TYPE_OP, call->comm)                        \
    X(reduce_scatter_block, Reduce_scatter_block, REDUCE_BLOCK, SENT_TO, call->count, TYPE_OP,  \
      call->comm)                                                                               \
    X(reduce_scatter, Reduce_scatter, REDUCE_BLOCK, SENT_TO, call->counts, TYPE_OP, call->comm) \
    X(allgather, Allgather, GATHER_ALL, SENT, RECEIVED, call->comm)                             \
    X(allgatherv, Allgatherv, GATHER_ALL, SENT, RECEIVED_V, call->comm)                         \
    X(gather, Gather, GATHER, SENT, RECEIVED, ROOT)                                             \
    X(gatherv, Gatherv, GATHER, SENT, RECEIVED_V, ROOT)                                         \
    X(scatter, Scatter, SCATTER, SENT, RECEIVED, ROOT)                                          \
    X(scatterv, Scatterv, SCATTER, SENT_V, RECEIVED, ROOT)                                      \
    X(alltoall, Alltoall, ALLTOALL, SENT, RECEIVED, call->comm)                                 \
    X(alltoallv, Alltoallv, ALLTOALL, SENT_V, RECEIVED_V, call->comm)                           \
    X(barrier, Barrier, NO_DATA, call->comm)

static int wait(struct perf_call *call, int status)
{
    return status == MPI_SUCCESS ? MPI_Wait(&call->request, MPI_STATUS_IGNORE) : status;
}

#define FUNCTIONS(name, Name, shape, ...)                            \
    static int run_##name(struct perf_call *call)                    \
    {                                                                \
        return MPI_##Name(__VA_ARGS__);                              \
    }                                                                \
    static int run_i##name(struct perf_call *call)                   \
    {                                                                \
        return wait(call, MPI_I##name(__VA_ARGS__, &call->request)); \
    }
COLLECTIVES(FUNCTIONS)

#if defined(INIT_CALL)
#define PREPARE(name, Name, shape, ...)                                     \
    static int prepare_##name(struct perf_call *call)                       \
    {                                                                       \
        return INIT_CALL(Name)(__VA_ARGS__, MPI_INFO_NULL, &call->request); \
    }
COLLECTIVES(PREPARE)

static int run_persistent(struct perf_call *call)
{
    return wait(call, MPI_Start(&call->request));
}

static int finish_persistent(struct perf_call *call)
{
    return MPI_Request_free(&call->request);
}
#endif

#define ROWS(name, Name, shape, ...)                                                         \
    {#name, PERF_##shape, run_##name, NULL, run_##name, NULL},                               \
        {"i" #name, PERF_##shape, run_##name, NULL, run_i##name, NULL},                      \
        PERSISTENT({#name "_init", PERF_##shape, run_##name, prepare_##name, run_persistent, \
                    finish_persistent}, )
static const struct perf_collective collectives[] = {COLLECTIVES(ROWS)};

const struct perf_collective *perf_collective_at(size_t index)
{
    return index < sizeof collectives / sizeof collectives[0] ? &collectives[index] : NULL;
}

const struct perf_collective *perf_collective_find(const char *name)
{
    const struct perf_collective *collective;

    for (size_t i = 0; (collective = perf_collective_at(i)) != NULL; i++) {
        if (strcmp(collective->name, name) == 0) {
            return collective;
        }
    }
    return NULL;
}

/* ---- Shapes ---- */

enum factor { ONE, OTHERS, TWICE_OTHERS };

/* Properties of a shape: it reduces, it has a root, it sends and receives a block for each rank,
 * bus bandwidth, size. */
static const struct {
    bool reduces, has_root, sends_blocks, receives_blocks;
    enum factor factor;
    const char *size;
} shapes[] = {
    [PERF_REDUCE_ALL] = {true, false, false, false, TWICE_OTHERS, "of the vector"},
    [PERF_REDUCE_ROOT] = {true, true, false, false, ONE, "of the vector"},
    [PERF_REDUCE_BLOCK] = {true, false, true, false, OTHERS, "what a rank contributes"},
    [PERF_SCAN] = {true, false, false, false, ONE, "of the vector"},
    [PERF_EXSCAN] = {true, false, false, false, ONE, "of the vector"},
    [PERF_BCAST] = {false, true, false, false, ONE, "of the vector"},
    [PERF_GATHER_ALL] = {false, false, false, true, OTHERS, "what a rank receives"},
    [PERF_GATHER] = {false, true, false, true, OTHERS, "what the root receives"},
    [PERF_SCATTER] = {false, true, true, false, OTHERS, "what the root sends"},
    [PERF_ALLTOALL] = {false, false, true, true, OTHERS, "what a rank sends"},
    [PERF_NO_DATA] = {false, false, false, false, ONE, "0"},
};

bool perf_collective_reduces(const struct perf_collective *collective)
{
    return shapes[collective->shape].reduces;
}

bool perf_collective_has_root(const struct perf_collective *collective)
{
    return shapes[collective->shape].has_root;
}

size_t perf_collective_send_blocks(const struct perf_collective *collective, size_t nranks)
{
    return shapes[collective->shape].sends_blocks ? nranks : 1;
}

size_t perf_collective_recv_blocks(const struct perf_collective *collective, size_t nranks)
{
    return shapes[collective->shape].receives_blocks ? nranks : 1;
}

const char *perf_collective_size(const struct perf_collective *collective)
{
    return shapes[collective->shape].size;
}

const char *perf_collective_bus_text(const struct perf_collective *collective)
{
    static const char *const texts[] = {
        [ONE] = "1", [OTHERS] = "(n-1)/n", [TWICE_OTHERS] = "2(n-1)/n"};

    return texts[shapes[collective->shape].factor];
}

double perf_collective_bus_factor(const struct perf_collective *collective, size_t nranks)
{
    double n = (double) nranks;
    const double factors[] = {[ONE] = 1, [OTHERS] = (n - 1) / n, [TWICE_OTHERS] = 2 * (n - 1) / n};

    return factors[shapes[collective->shape].factor];
}
