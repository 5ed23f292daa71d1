/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "harness.h"
#include "staged.h"

#include <stddef.h>

/* An insignificant argument, which faults if it is used. */
#define NOWHERE ((void *) 64)
#define NOTHING MPI_DATATYPE_NULL

/* Make a call in its form. */
#define CALL(x, name, iname, ...)                               \
    ((x)->form == BLOCKING ? MPI_##name(__VA_ARGS__, (x)->comm) \
     : (x)->form == NONBLOCKING                                 \
         ? MPI_##iname(__VA_ARGS__, (x)->comm, &(x)->request)   \
         : HARNESS_INIT(name)(__VA_ARGS__, (x)->comm, MPI_INFO_NULL, &(x)->request))

/* A bystander need not know the count. Open MPI returns immediately from calls without elements,
 * also from non-blocking ones, but then its later ones do not match those of the other ranks. */
static bool gives_none(const struct call *x)
{
    return x->bystander && x->form == BLOCKING;
}

static int common_count(const struct call *x)
{
    return gives_none(x) ? 0 : x->count;
}

/* Return an argument that is significant only on the root. */
static int roots_count(const struct call *x)
{
    return x->root_here ? x->count : gives_none(x) ? 0 : -1;
}

static int call_bcast(struct call *x)
{
    return CALL(x, Bcast, Ibcast, x->bystander ? NOWHERE : x->receive, common_count(x), x->type,
                x->root);
}

static int call_reduce(struct call *x)
{
    return CALL(x, Reduce, Ireduce, x->bystander ? NOWHERE : x->send,
                x->root_here ? x->receive : NOWHERE, common_count(x), x->type, x->op, x->root);
}

static int call_allreduce(struct call *x)
{
    return CALL(x, Allreduce, Iallreduce, x->send, x->receive, x->count, x->type, x->op);
}

static int call_scan(struct call *x)
{
    return CALL(x, Scan, Iscan, x->send, x->receive, x->count, x->type, x->op);
}

static int call_exscan(struct call *x)
{
    return CALL(x, Exscan, Iexscan, x->send, x->receive, x->count, x->type, x->op);
}

static int call_reduce_scatter_block(struct call *x)
{
    return CALL(x, Reduce_scatter_block, Ireduce_scatter_block, x->send, x->receive, x->part,
                x->type, x->op);
}

static int call_reduce_scatter(struct call *x)
{
    return CALL(x, Reduce_scatter, Ireduce_scatter, x->send, x->receive, x->parts, x->type, x->op);
}

static int call_allgather(struct call *x)
{
    bool in_place = x->send == MPI_IN_PLACE;

    return CALL(x, Allgather, Iallgather, x->send, in_place ? 0 : x->count,
                in_place ? MPI_BYTE : x->type, x->receive, x->count, x->type);
}

static int call_allgatherv(struct call *x)
{
    bool in_place = x->send == MPI_IN_PLACE;

    return CALL(x, Allgatherv, Iallgatherv, x->send, in_place ? 0 : x->give,
                in_place ? MPI_BYTE : x->type, x->receive, x->from_counts, x->from_displs, x->type);
}

static int call_gather(struct call *x)
{
    return CALL(x, Gather, Igather, x->bystander ? NOWHERE : x->send, x->count, x->type,
                x->root_here ? x->receive : NOWHERE, roots_count(x),
                x->root_here ? x->type : NOTHING, x->root);
}

static int call_gatherv(struct call *x)
{
    return CALL(x, Gatherv, Igatherv, x->bystander ? NOWHERE : x->send, x->give, x->type,
                x->root_here ? x->receive : NOWHERE, x->root_here ? x->from_counts : NULL,
                x->root_here ? x->from_displs : NULL, x->root_here ? x->type : NOTHING, x->root);
}

static int call_scatter(struct call *x)
{
    return CALL(x, Scatter, Iscatter, x->root_here ? x->send : NOWHERE, roots_count(x),
                x->root_here ? x->type : NOTHING, x->bystander ? NOWHERE : x->receive, x->count,
                x->type, x->root);
}

static int call_scatterv(struct call *x)
{
    return CALL(x, Scatterv, Iscatterv, x->root_here ? x->send : NOWHERE,
                x->root_here ? x->from_counts : NULL, x->root_here ? x->from_displs : NULL,
                x->root_here ? x->type : NOTHING, x->bystander ? NOWHERE : x->receive, x->give,
                x->type, x->root);
}

static int call_alltoall(struct call *x)
{
    bool in_place = x->send == MPI_IN_PLACE;

    return CALL(x, Alltoall, Ialltoall, x->send, in_place ? 0 : x->count,
                in_place ? MPI_BYTE : x->type, x->receive, x->count, x->type);
}

static int call_alltoallv(struct call *x)
{
    bool in_place = x->send == MPI_IN_PLACE;

    return CALL(x, Alltoallv, Ialltoallv, x->send, in_place ? NULL : x->s_counts,
                in_place ? NULL : x->s_displs, in_place ? MPI_BYTE : x->type, x->receive,
                x->r_counts, x->r_displs, x->type);
}

static int call_alltoallw(struct call *x)
{
    bool in_place = x->send == MPI_IN_PLACE;

    return CALL(x, Alltoallw, Ialltoallw, x->send, in_place ? NULL : x->s_counts,
                in_place ? NULL : x->s_bytes, in_place ? NULL : x->s_types, x->receive, x->r_counts,
                x->r_bytes, x->r_types);
}

static int call_neighbor_allgather(struct call *x)
{
    return CALL(x, Neighbor_allgather, Ineighbor_allgather, x->send, x->count, x->type, x->receive,
                x->count, x->type);
}

static int call_neighbor_allgatherv(struct call *x)
{
    return CALL(x, Neighbor_allgatherv, Ineighbor_allgatherv, x->send, x->give, x->type, x->receive,
                x->from_counts, x->from_displs, x->type);
}

static int call_neighbor_alltoall(struct call *x)
{
    return CALL(x, Neighbor_alltoall, Ineighbor_alltoall, x->send, x->count, x->type, x->receive,
                x->count, x->type);
}

static int call_neighbor_alltoallv(struct call *x)
{
    return CALL(x, Neighbor_alltoallv, Ineighbor_alltoallv, x->send, x->s_counts, x->s_displs,
                x->type, x->receive, x->r_counts, x->r_displs, x->type);
}

static int call_neighbor_alltoallw(struct call *x)
{
    return CALL(x, Neighbor_alltoallw, Ineighbor_alltoallw, x->send, x->s_counts, x->s_aints,
                x->s_types, x->receive, x->r_counts, x->r_aints, x->r_types);
}

const struct collective collectives[] = {
    {"bcast", ROOTED | ONE_BLOCK, call_bcast},
    {"reduce", ONE_BLOCK | ROOTED | REDUCES | IN_PLACE, call_reduce},
    {"allreduce", SYMMETRIC | ONE_BLOCK | REDUCES | IN_PLACE, call_allreduce},
    {"scan", SYMMETRIC | ONE_BLOCK | REDUCES | IN_PLACE | ONE_GROUP, call_scan},
    {"exscan", SYMMETRIC | ONE_BLOCK | REDUCES | IN_PLACE | ONE_GROUP | FIRST_KEEPS, call_exscan},
    {"reduce_scatter_block", SYMMETRIC | REDUCES | IN_PLACE, call_reduce_scatter_block},
    {"reduce_scatter", SYMMETRIC | REDUCES | IN_PLACE, call_reduce_scatter},
    {"allgather", SYMMETRIC | IN_PLACE, call_allgather},
    {"allgatherv", SYMMETRIC | IN_PLACE, call_allgatherv},
    {"gather", ROOTED | IN_PLACE, call_gather},
    {"gatherv", ROOTED | IN_PLACE, call_gatherv},
    {"scatter", ROOTED | SCATTERS, call_scatter},
    {"scatterv", ROOTED | SCATTERS, call_scatterv},
    {"alltoall", SYMMETRIC | IN_PLACE, call_alltoall},
    {"alltoallv", IN_PLACE, call_alltoallv},
    {"alltoallw", IN_PLACE, call_alltoallw},
    {"neighbor_allgather", NEIGHBORS, call_neighbor_allgather},
    {"neighbor_allgatherv", NEIGHBORS, call_neighbor_allgatherv},
    {"neighbor_alltoall", NEIGHBORS, call_neighbor_alltoall},
    {"neighbor_alltoallv", NEIGHBORS, call_neighbor_alltoallv},
    {"neighbor_alltoallw", NEIGHBORS, call_neighbor_alltoallw},
    {NULL, 0, NULL},
};

bool start_again(struct call *x)
{
    return MPI_Start(&x->request) == MPI_SUCCESS &&
           MPI_Wait(&x->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

bool complete_call(struct call *x, const struct collective *what)
{
    bool good = what->call(x) == MPI_SUCCESS;

    if (x->form == NONBLOCKING) {
        good = good && MPI_Wait(&x->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    } else if (x->form == PERSISTENT) {
        good = good && start_again(x);
    }
    return good;
}
