/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What each collective reads and writes. Arguments that MPI calls insignificant are not looked at.
 * A buffer's part `in` is copied to the host before the call, `out` back after it.
 *
 * Some calls leave bytes of their receive buffer as they were: those are in `in`, too (exscan on
 * rank 0; neighbours that are MPI_PROC_NULL).
 */
#include "mca/coll_gpuring/stage/call.h"

typedef struct gpuring_stage stage_t;
typedef const struct gpuring_arguments arguments_t;

/* Ranks that a rank of this communicator exchanges data with. */
static int peers(arguments_t *a)
{
    return OMPI_COMM_IS_INTER(a->comm) ? ompi_comm_remote_size(a->comm) : ompi_comm_size(a->comm);
}

enum role { ROOT, OTHER, BYSTANDER };

static enum role role_of(arguments_t *a)
{
    if (OMPI_COMM_IS_INTER(a->comm)) {
        return a->root == MPI_ROOT ? ROOT : a->root == MPI_PROC_NULL ? BYSTANDER : OTHER;
    }
    return a->root == ompi_comm_rank(a->comm) ? ROOT : OTHER;
}

/* Is this rank one of those that a root inside of its own group serves? */
static bool is_served(arguments_t *a)
{
    enum role role = role_of(a);

    return role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(a->comm));
}

/* n blocks, as the arguments of either side say it. */
static struct gpuring_part sent(arguments_t *a, int n)
{
    return (struct gpuring_part){.blocks = n,
                                 .end = n,
                                 .count = (size_t) a->scount,
                                 .counts = a->scounts,
                                 .displs = a->sdispls,
                                 .addresses = a->saddresses,
                                 .type = a->stype,
                                 .types = a->stypes};
}

static struct gpuring_part received(arguments_t *a, int n)
{
    return (struct gpuring_part){.blocks = n,
                                 .end = n,
                                 .count = (size_t) a->rcount,
                                 .counts = a->rcounts,
                                 .displs = a->rdispls,
                                 .addresses = a->raddresses,
                                 .type = a->rtype,
                                 .types = a->rtypes};
}

static void describe_bcast(stage_t *stage, arguments_t *a)
{
    enum role role = role_of(a);

    if (role == ROOT) {
        stage->receive.in = received(a, 1);
    } else if (role == OTHER) {
        stage->receive.out = received(a, 1);
    }
}

/* The input of a reduction: the send buffer, or the receive buffer in place. */
static void reduction_input(stage_t *stage, struct gpuring_part input)
{
    *(stage->send.user == MPI_IN_PLACE ? &stage->receive.in : &stage->send.in) = input;
}

static void describe_reduce(stage_t *stage, arguments_t *a)
{
    if (is_served(a)) {
        reduction_input(stage, received(a, 1));
    }
    if (role_of(a) == ROOT) {
        stage->receive.out = received(a, 1);
    }
}

static void describe_allreduce(stage_t *stage, arguments_t *a)
{
    reduction_input(stage, received(a, 1));
    stage->receive.out = received(a, 1);
}

static void describe_exscan(stage_t *stage, arguments_t *a)
{
    describe_allreduce(stage, a);
    if (ompi_comm_rank(a->comm) == 0) {
        stage->receive.in = stage->receive.out;
    }
}

static void describe_reduce_local(stage_t *stage, arguments_t *a)
{
    stage->send.in = stage->receive.in = stage->receive.out = received(a, 1);
}

/* MPI_Reduce_scatter and MPI_Reduce_scatter_block. */
static void describe_reduce_scatter(stage_t *stage, arguments_t *a)
{
    struct gpuring_part own = received(a, 1);

    reduction_input(stage, received(a, ompi_comm_size(a->comm)));
    if (a->rcounts) {
        own.count = GPURING_COUNT_AT(a->rcounts, ompi_comm_rank(a->comm));
        own.counts = 0;
    }
    stage->receive.out = own;
}

/* The blocks of all ranks are gathered: this rank's is its send buffer, or its place among them. */
static void gather_input(stage_t *stage, arguments_t *a)
{
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = gpuring_part_only(received(a, peers(a)), ompi_comm_rank(a->comm));
    } else {
        stage->send.in = sent(a, 1);
    }
}

/* Here and below: with the functions whose counts differ by rank. */
static void describe_allgather(stage_t *stage, arguments_t *a)
{
    stage->receive.out = received(a, peers(a));
    gather_input(stage, a);
}

static void describe_gather(stage_t *stage, arguments_t *a)
{
    if (role_of(a) == ROOT) {
        stage->receive.out = received(a, peers(a));
    }
    if (is_served(a)) {
        gather_input(stage, a);
    }
}

/* Each rank gets a block, unless the root keeps its own in place. */
static void describe_scatter(stage_t *stage, arguments_t *a)
{
    if (role_of(a) == ROOT) {
        stage->send.in = sent(a, peers(a));
    }
    if (is_served(a) && !(role_of(a) == ROOT && stage->receive.user == MPI_IN_PLACE)) {
        stage->receive.out = received(a, 1);
    }
}

/* In place, what is received replaces what was sent. */
static void describe_alltoall(stage_t *stage, arguments_t *a)
{
    stage->receive.out = received(a, peers(a));
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = stage->receive.out;
    } else {
        stage->send.in = sent(a, peers(a));
    }
}

/* Neighbourhoods: blocks of neighbours that are not there keep what they hold; a call touches
 * nothing if the number of neighbours is unknown. */
static void neighborhood(stage_t *stage, arguments_t *a, bool to_each)
{
    int sources, targets;

    if (mca_topo_base_neighbor_count(a->comm, &sources, &targets) == OMPI_SUCCESS) {
        stage->send.in = sent(a, to_each ? targets : 1);
        stage->receive.in = stage->receive.out = received(a, sources);
    }
}

static void describe_neighbor_allgather(stage_t *stage, arguments_t *a)
{
    neighborhood(stage, a, false);
}

static void describe_neighbor_alltoall(stage_t *stage, arguments_t *a)
{
    neighborhood(stage, a, true);
}

void gpuring_stage_describe(stage_t *stage, mca_coll_gpuring_module_t *module,
                            enum gpuring_staged what, arguments_t *arguments)
{
    static void (*const describe[GPURING_STAGED_COUNT])(stage_t *, arguments_t *) = {
        [GPURING_STAGED_bcast] = describe_bcast,
        [GPURING_STAGED_reduce] = describe_reduce,
        [GPURING_STAGED_allreduce] = describe_allreduce,
        [GPURING_STAGED_scan] = describe_allreduce,
        [GPURING_STAGED_exscan] = describe_exscan,
        [GPURING_STAGED_reduce_scatter_block] = describe_reduce_scatter,
        [GPURING_STAGED_reduce_scatter] = describe_reduce_scatter,
        [GPURING_STAGED_allgather] = describe_allgather,
        [GPURING_STAGED_allgatherv] = describe_allgather,
        [GPURING_STAGED_gather] = describe_gather,
        [GPURING_STAGED_gatherv] = describe_gather,
        [GPURING_STAGED_scatter] = describe_scatter,
        [GPURING_STAGED_scatterv] = describe_scatter,
        [GPURING_STAGED_alltoall] = describe_alltoall,
        [GPURING_STAGED_alltoallv] = describe_alltoall,
        [GPURING_STAGED_alltoallw] = describe_alltoall,
        [GPURING_STAGED_neighbor_allgather] = describe_neighbor_allgather,
        [GPURING_STAGED_neighbor_allgatherv] = describe_neighbor_allgather,
        [GPURING_STAGED_neighbor_alltoall] = describe_neighbor_alltoall,
        [GPURING_STAGED_neighbor_alltoallv] = describe_neighbor_alltoall,
        [GPURING_STAGED_neighbor_alltoallw] = describe_neighbor_alltoall,
        [GPURING_STAGED_reduce_local] = describe_reduce_local,
    };

    *stage = (struct gpuring_stage){
        .module = module,
        .what = what,
        .send = {.user = arguments->sbuf, .address = arguments->sbuf},
        .receive = {.user = arguments->rbuf, .address = arguments->rbuf},
    };
    describe[what](stage, arguments);
}
