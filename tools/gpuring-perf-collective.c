/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The collectives: one line of a table each. */
#include "gpuring-perf.h"

#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

static MPI_Op op_of(const struct perf_call *call)
{
    return call->op != NULL ? call->op->mpi : MPI_OP_NULL;
}

static int run_allreduce(struct perf_call *call)
{
    return MPI_Allreduce(call->send, call->recv, call->count, call->type->mpi, op_of(call),
                         call->comm);
}

static int run_iallreduce(struct perf_call *call)
{
    int status = MPI_Iallreduce(call->send, call->recv, call->count, call->type->mpi, op_of(call),
                                call->comm, &call->request);

    return status == MPI_SUCCESS ? MPI_Wait(&call->request, MPI_STATUS_IGNORE) : status;
}

/* MPIX_ in Open MPI 4.1. 5.0 has this call of MPI 4.0, as it has sessions, though it says MPI 3.1.
 */
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define ALLREDUCE_INIT MPIX_Allreduce_init
#elif MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
#define ALLREDUCE_INIT MPI_Allreduce_init
#endif

#if defined(ALLREDUCE_INIT)
static int prepare_persistent(struct perf_call *call)
{
    return ALLREDUCE_INIT(call->send, call->recv, call->count, call->type->mpi, op_of(call),
                          call->comm, MPI_INFO_NULL, &call->request);
}

static int run_persistent(struct perf_call *call)
{
    int status = MPI_Start(&call->request);

    return status == MPI_SUCCESS ? MPI_Wait(&call->request, MPI_STATUS_IGNORE) : status;
}

static int finish_persistent(struct perf_call *call)
{
    return MPI_Request_free(&call->request);
}
#endif

static int run_bcast(struct perf_call *call)
{
    return MPI_Bcast(call->recv, call->count, call->type->mpi, call->root, call->comm);
}

static int run_reduce(struct perf_call *call)
{
    return MPI_Reduce(call->send, call->recv, call->count, call->type->mpi, op_of(call), call->root,
                      call->comm);
}

static int run_allgather(struct perf_call *call)
{
    return MPI_Allgather(call->send, call->count, call->type->mpi, call->recv, call->count,
                         call->type->mpi, call->comm);
}

static int run_reduce_scatter_block(struct perf_call *call)
{
    return MPI_Reduce_scatter_block(call->send, call->recv, call->count, call->type->mpi,
                                    op_of(call), call->comm);
}

static int run_alltoall(struct perf_call *call)
{
    return MPI_Alltoall(call->send, call->count, call->type->mpi, call->recv, call->count,
                        call->type->mpi, call->comm);
}

static const struct perf_collective collectives[] = {
    {"allreduce", PERF_REDUCE_ALL, "MPI_Allreduce", NULL, run_allreduce, NULL},
    {"iallreduce", PERF_REDUCE_ALL, "MPI_Iallreduce and MPI_Wait", NULL, run_iallreduce, NULL},
#if defined(ALLREDUCE_INIT)
    {"allreduce_init", PERF_REDUCE_ALL, "persistent allreduce: MPI_Start and MPI_Wait",
     prepare_persistent, run_persistent, finish_persistent},
#endif
    {"bcast", PERF_BCAST, "MPI_Bcast", NULL, run_bcast, NULL},
    {"reduce", PERF_REDUCE_ROOT, "MPI_Reduce", NULL, run_reduce, NULL},
    {"allgather", PERF_GATHER_ALL, "MPI_Allgather; size: what a rank receives", NULL, run_allgather,
     NULL},
    {"reduce_scatter_block", PERF_REDUCE_BLOCK,
     "MPI_Reduce_scatter_block; size: what a rank contributes", NULL, run_reduce_scatter_block,
     NULL},
    {"alltoall", PERF_ALLTOALL, "MPI_Alltoall; size: what a rank sends", NULL, run_alltoall, NULL},
};

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

bool perf_collective_reduces(const struct perf_collective *collective)
{
    return collective->shape == PERF_REDUCE_ALL || collective->shape == PERF_REDUCE_ROOT ||
           collective->shape == PERF_REDUCE_BLOCK;
}

size_t perf_collective_send_blocks(const struct perf_collective *collective, size_t nranks)
{
    return collective->shape == PERF_REDUCE_BLOCK || collective->shape == PERF_ALLTOALL ? nranks
                                                                                        : 1;
}

size_t perf_collective_recv_blocks(const struct perf_collective *collective, size_t nranks)
{
    return collective->shape == PERF_GATHER_ALL || collective->shape == PERF_ALLTOALL ? nranks : 1;
}

double perf_collective_bus_factor(const struct perf_collective *collective, size_t nranks)
{
    double n = (double) nranks;

    switch (collective->shape) {
    case PERF_REDUCE_ALL:
        return 2 * (n - 1) / n;
    case PERF_REDUCE_ROOT:
    case PERF_BCAST:
        return 1;
    default:
        return (n - 1) / n;
    }
}
