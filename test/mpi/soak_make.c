/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Conversion of random calls to MPI calls. */
#include "soak_calls.h"

#define NOWHERE ((void *) 64) /* insignificant argument, which faults if it is used */
#define CALL(call, name, iname, ...)                                       \
    ((call)->form == SOAK_BLOCKING ? MPI_##name(__VA_ARGS__, (call)->comm) \
     : (call)->form == SOAK_NONBLOCKING                                    \
         ? MPI_##iname(__VA_ARGS__, (call)->comm, &(call)->request)        \
         : HARNESS_INIT(name)(__VA_ARGS__, (call)->comm, MPI_INFO_NULL, &(call)->request))

/* MPI arguments for one buffer. */
struct arguments {
    void *address;
    int count;
    const int *counts, *displs;
    MPI_Datatype type;
    const MPI_Datatype *types;
};

static struct arguments arguments_of(const struct soak_call *call, const struct soak_side *side)
{
    /* In place, Open MPI 4.1 reads a type although MPI specifies that it is ignored. */
    const struct arguments in_place = {.address = MPI_IN_PLACE, .type = MPI_BYTE};
    const struct arguments nowhere = {.address = NOWHERE, .count = -1, .type = MPI_DATATYPE_NULL};

    if (side->blocks == 0) {
        return call->reuses ? in_place : nowhere;
    }
    return (struct arguments){side->address, side->counts[0],  side->counts,
                              side->displs,  side->handles[0], side->handles};
}

static int make_reduction(struct soak_call *call, const void *in, struct arguments out)
{
    MPI_Datatype type = call->type->handle;
    MPI_Op op = call->op->handle;
    int count = call->length;

    switch (call->what) {
    case SOAK_ALLREDUCE:
        return CALL(call, Allreduce, Iallreduce, in, out.address, count, type, op);
    case SOAK_REDUCE:
        return CALL(call, Reduce, Ireduce, in, out.address, count, type, op, call->root);
    case SOAK_SCAN:
        return CALL(call, Scan, Iscan, in, out.address, count, type, op);
    case SOAK_EXSCAN:
        return CALL(call, Exscan, Iexscan, in, out.address, count, type, op);
    case SOAK_REDUCE_SCATTER_BLOCK:
        return CALL(call, Reduce_scatter_block, Ireduce_scatter_block, in, out.address, count, type,
                    op);
    default:
        return CALL(call, Reduce_scatter, Ireduce_scatter, in, out.address, call->receive.displs,
                    type, op);
    }
}

static int make_rooted(struct soak_call *call, struct arguments in, struct arguments out)
{
    switch (call->what) {
    case SOAK_BCAST:
        return CALL(call, Bcast, Ibcast, out.address, out.count, out.type, call->root);
    case SOAK_GATHER:
        return CALL(call, Gather, Igather, in.address, in.count, in.type, out.address, out.count,
                    out.type, call->root);
    case SOAK_GATHERV:
        return CALL(call, Gatherv, Igatherv, in.address, in.count, in.type, out.address, out.counts,
                    out.displs, out.type, call->root);
    case SOAK_SCATTER:
        return CALL(call, Scatter, Iscatter, in.address, in.count, in.type, out.address, out.count,
                    out.type, call->root);
    default:
        return CALL(call, Scatterv, Iscatterv, in.address, in.counts, in.displs, in.type,
                    out.address, out.count, out.type, call->root);
    }
}

int soak_call_make(struct soak_call *call)
{
    struct arguments in = arguments_of(call, &call->send);
    struct arguments out = arguments_of(call, &call->receive);

    if (call->what >= SOAK_ALLREDUCE) {
        return make_reduction(call, in.address, out);
    }
    switch (call->what) {
    case SOAK_ALLGATHER:
        return CALL(call, Allgather, Iallgather, in.address, in.count, in.type, out.address,
                    out.count, out.type);
    case SOAK_ALLGATHERV:
        return CALL(call, Allgatherv, Iallgatherv, in.address, in.count, in.type, out.address,
                    out.counts, out.displs, out.type);
    case SOAK_ALLTOALL:
        return CALL(call, Alltoall, Ialltoall, in.address, in.count, in.type, out.address,
                    out.count, out.type);
    case SOAK_ALLTOALLV:
        return CALL(call, Alltoallv, Ialltoallv, in.address, in.counts, in.displs, in.type,
                    out.address, out.counts, out.displs, out.type);
    case SOAK_ALLTOALLW:
        return CALL(call, Alltoallw, Ialltoallw, in.address, in.counts, in.displs, in.types,
                    out.address, out.counts, out.displs, out.types);
    default:
        return make_rooted(call, in, out);
    }
}
