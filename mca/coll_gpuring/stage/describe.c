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

/* One block, of which count and type are arguments of the call. */
static struct gpuring_part sent_block(arguments_t *a)
{
    return gpuring_part_blocks(1, (size_t) a->scount, a->stype);
}

static struct gpuring_part received_block(arguments_t *a)
{
    return gpuring_part_blocks(1, (size_t) a->rcount, a->rtype);
}

/* n blocks with counts of their own. */
static struct gpuring_part sent_blocks(arguments_t *a, int n, enum gpuring_placing placing)
{
    return (struct gpuring_part){.blocks = n,
                                 .end = n,
                                 .placing = placing,
                                 .counts = a->scounts,
                                 .displs = a->sdispls,
                                 .addresses = a->saddresses,
                                 .type = a->stype,
                                 .types = a->stypes};
}

static struct gpuring_part received_blocks(arguments_t *a, int n, enum gpuring_placing placing)
{
    return (struct gpuring_part){.blocks = n,
                                 .end = n,
                                 .placing = placing,
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
        stage->receive.in = received_block(a);
    } else if (role == OTHER) {
        stage->receive.out = received_block(a);
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
        reduction_input(stage, received_block(a));
    }
    if (role_of(a) == ROOT) {
        stage->receive.out = received_block(a);
    }
}

static void describe_allreduce(stage_t *stage, arguments_t *a)
{
    reduction_input(stage, received_block(a));
    stage->receive.out = received_block(a);
}

static void describe_scan(stage_t *stage, arguments_t *a)
{
    describe_allreduce(stage, a);
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
    stage->send.in = stage->receive.in = stage->receive.out = received_block(a);
}

static void describe_reduce_scatter_block(stage_t *stage, arguments_t *a)
{
    reduction_input(stage,
                    gpuring_part_blocks(ompi_comm_size(a->comm), (size_t) a->rcount, a->rtype));
    stage->receive.out = received_block(a);
}

static void describe_reduce_scatter(stage_t *stage, arguments_t *a)
{
    size_t own = GPURING_COUNT_AT(a->rcounts, ompi_comm_rank(a->comm));

    reduction_input(stage, received_blocks(a, ompi_comm_size(a->comm), GPURING_PACKED));
    stage->receive.out = gpuring_part_blocks(1, own, a->rtype);
}

/* `all` is gathered, of which a rank gives its send buffer, or its block of `all` in place. */
static void gather_input(stage_t *stage, arguments_t *a, struct gpuring_part all)
{
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = gpuring_part_only(all, ompi_comm_rank(a->comm));
    } else {
        stage->send.in = sent_block(a);
    }
}

static void gather_to_all(stage_t *stage, arguments_t *a, struct gpuring_part all)
{
    stage->receive.out = all;
    gather_input(stage, a, all);
}

static void describe_allgather(stage_t *stage, arguments_t *a)
{
    gather_to_all(stage, a, gpuring_part_blocks(peers(a), (size_t) a->rcount, a->rtype));
}

static void describe_allgatherv(stage_t *stage, arguments_t *a)
{
    gather_to_all(stage, a, received_blocks(a, peers(a), GPURING_BY_EXTENTS));
}

static void gather_to_root(stage_t *stage, arguments_t *a, struct gpuring_part all)
{
    if (role_of(a) == ROOT) {
        stage->receive.out = all;
    }
    if (is_served(a)) {
        gather_input(stage, a, all);
    }
}

static void describe_gather(stage_t *stage, arguments_t *a)
{
    gather_to_root(stage, a, gpuring_part_blocks(peers(a), (size_t) a->rcount, a->rtype));
}

static void describe_gatherv(stage_t *stage, arguments_t *a)
{
    gather_to_root(stage, a, received_blocks(a, peers(a), GPURING_BY_EXTENTS));
}

/* The root gives `all`; each rank gets a block, unless the root keeps its own in place. */
static void scatter_from_root(stage_t *stage, arguments_t *a, struct gpuring_part all)
{
    if (role_of(a) == ROOT) {
        stage->send.in = all;
    }
    if (is_served(a) && !(role_of(a) == ROOT && stage->receive.user == MPI_IN_PLACE)) {
        stage->receive.out = received_block(a);
    }
}

static void describe_scatter(stage_t *stage, arguments_t *a)
{
    scatter_from_root(stage, a, gpuring_part_blocks(peers(a), (size_t) a->scount, a->stype));
}

static void describe_scatterv(stage_t *stage, arguments_t *a)
{
    scatter_from_root(stage, a, sent_blocks(a, peers(a), GPURING_BY_EXTENTS));
}

/* Everybody to everybody; in place, what is received replaces what was sent. */
static void exchange(stage_t *stage, struct gpuring_part sent, struct gpuring_part received)
{
    stage->receive.out = received;
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = received;
    } else {
        stage->send.in = sent;
    }
}

static void describe_alltoall(stage_t *stage, arguments_t *a)
{
    exchange(stage, gpuring_part_blocks(peers(a), (size_t) a->scount, a->stype),
             gpuring_part_blocks(peers(a), (size_t) a->rcount, a->rtype));
}

static void describe_alltoallv(stage_t *stage, arguments_t *a)
{
    exchange(stage, sent_blocks(a, peers(a), GPURING_BY_EXTENTS),
             received_blocks(a, peers(a), GPURING_BY_EXTENTS));
}

static void describe_alltoallw(stage_t *stage, arguments_t *a)
{
    exchange(stage, sent_blocks(a, peers(a), GPURING_BY_BYTES),
             received_blocks(a, peers(a), GPURING_BY_BYTES));
}

/* Neighbourhoods: a call touches nothing if the number of neighbours is unknown. */
struct neighbors {
    int sources, targets;
};

static struct neighbors neighbors_of(arguments_t *a)
{
    struct neighbors n;

    if (mca_topo_base_neighbor_count(a->comm, &n.sources, &n.targets) != OMPI_SUCCESS) {
        n.sources = n.targets = 0;
    }
    return n;
}

/* Blocks of neighbours that are not there keep what they hold. */
static void neighborhood(stage_t *stage, struct gpuring_part sent, struct gpuring_part received)
{
    stage->send.in = sent;
    stage->receive.in = received;
    stage->receive.out = received;
}

static void describe_neighbor_allgather(stage_t *stage, arguments_t *a)
{
    neighborhood(stage, sent_block(a),
                 gpuring_part_blocks(neighbors_of(a).sources, (size_t) a->rcount, a->rtype));
}

static void describe_neighbor_allgatherv(stage_t *stage, arguments_t *a)
{
    neighborhood(stage, sent_block(a),
                 received_blocks(a, neighbors_of(a).sources, GPURING_BY_EXTENTS));
}

static void describe_neighbor_alltoall(stage_t *stage, arguments_t *a)
{
    struct neighbors n = neighbors_of(a);

    neighborhood(stage, gpuring_part_blocks(n.targets, (size_t) a->scount, a->stype),
                 gpuring_part_blocks(n.sources, (size_t) a->rcount, a->rtype));
}

static void describe_neighbor_alltoallv(stage_t *stage, arguments_t *a)
{
    struct neighbors n = neighbors_of(a);

    neighborhood(stage, sent_blocks(a, n.targets, GPURING_BY_EXTENTS),
                 received_blocks(a, n.sources, GPURING_BY_EXTENTS));
}

static void describe_neighbor_alltoallw(stage_t *stage, arguments_t *a)
{
    struct neighbors n = neighbors_of(a);

    neighborhood(stage, sent_blocks(a, n.targets, GPURING_BY_ADDRESSES),
                 received_blocks(a, n.sources, GPURING_BY_ADDRESSES));
}

void gpuring_stage_describe(stage_t *stage, mca_coll_gpuring_module_t *module,
                            enum gpuring_staged what, arguments_t *arguments)
{
    static void (*const describe[])(stage_t *, arguments_t *) = {
#define ROW(name, list) describe_##name,
        GPURING_STAGED_COLLECTIVES(ROW) describe_reduce_local,
#undef ROW
    };

    *stage = (struct gpuring_stage){
        .module = module,
        .what = what,
        .send = {.user = arguments->sbuf, .address = arguments->sbuf},
        .receive = {.user = arguments->rbuf, .address = arguments->rbuf},
    };
    describe[what](stage, arguments);
}
