/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What each collective reads and writes. Arguments that MPI calls insignificant are not looked at.
 * A buffer's part `in` is copied to the host before the call, `out` back after it.
 *
 * Some calls leave bytes of their receive buffer as they were: those are in `in`, too (exscan on
 * rank 0; neighbours that are MPI_PROC_NULL).
 */
#include "mca/coll_gpuring/stage/stage.h"

/* Ranks that a rank of this communicator exchanges data with. */
static int peers(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

enum role { ROOT, OTHER, BYSTANDER };

/* Of a call with a root, that has begun to be described. */
static enum role role_of(struct gpuring_stage *stage, struct ompi_communicator_t *comm, int root)
{
    stage->party = (struct gpuring_party){.rooted = OMPI_COMM_IS_INTER(comm), .root = root};
    if (OMPI_COMM_IS_INTER(comm)) {
        return root == MPI_ROOT ? ROOT : root == MPI_PROC_NULL ? BYSTANDER : OTHER;
    }
    return root == ompi_comm_rank(comm) ? ROOT : OTHER;
}

static struct gpuring_part by_counts(int n, gpuring_counts_t counts, gpuring_displs_t displs,
                                     struct ompi_datatype_t *type)
{
    return (struct gpuring_part){.end = n,
                                 .many = true,
                                 .counts = counts,
                                 .placing = GPURING_BY_EXTENTS,
                                 .displs = displs,
                                 .type = type};
}

static struct gpuring_part by_types(int n, gpuring_counts_t counts, gpuring_displs_t displs,
                                    struct ompi_datatype_t *const *types)
{
    return (struct gpuring_part){.end = n,
                                 .many = true,
                                 .counts = counts,
                                 .placing = GPURING_BY_BYTES,
                                 .displs = displs,
                                 .types = types};
}

static struct gpuring_part by_wide_types(int n, gpuring_counts_t counts,
                                         gpuring_byte_displs_t displs,
                                         struct ompi_datatype_t *const *types)
{
    return (struct gpuring_part){.end = n,
                                 .many = true,
                                 .counts = counts,
                                 .placing = GPURING_BY_BYTE_DISPLS,
                                 .byte_displs = displs,
                                 .types = types};
}

/* One block of a part of many. */
static struct gpuring_part only(struct gpuring_part part, int block)
{
    part.first = block;
    part.end = block + 1;
    return part;
}

static void begin(struct gpuring_stage *stage, const void *sbuf, const void *rbuf)
{
    *stage = (struct gpuring_stage){.send = {.user = sbuf, .place = sbuf},
                                    .receive = {.user = rbuf, .place = rbuf}};
}

void gpuring_describe_bcast(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                            GPURING_ARGUMENTS_BCAST)
{
    enum role role;

    begin(stage, NULL, rbuf);
    role = role_of(stage, comm, root);
    if (role != BYSTANDER) {
        *(role == ROOT ? &stage->receive.in : &stage->receive.out) =
            gpuring_part_whole((size_t) rcount, rtype);
    }
}

/* The input of a reduction: the send buffer, or the receive buffer in place. */
static void reduction_input(struct gpuring_stage *stage, size_t count, struct ompi_datatype_t *type)
{
    *(stage->send.user == MPI_IN_PLACE ? &stage->receive.in : &stage->send.in) =
        gpuring_part_whole(count, type);
}

void gpuring_describe_reduce(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                             GPURING_ARGUMENTS_REDUCE)
{
    enum role role;

    (void) op;
    begin(stage, sbuf, rbuf);
    role = role_of(stage, comm, root);
    if (role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(comm))) {
        reduction_input(stage, (size_t) rcount, rtype);
    }
    if (role == ROOT) {
        stage->receive.out = gpuring_part_whole((size_t) rcount, rtype);
    }
}

static void describe_reduction(struct gpuring_stage *stage, const void *sbuf, const void *rbuf,
                               gpuring_count_t count, struct ompi_datatype_t *type)
{
    begin(stage, sbuf, rbuf);
    reduction_input(stage, (size_t) count, type);
    stage->receive.out = gpuring_part_whole((size_t) count, type);
}

void gpuring_describe_allreduce(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_REDUCTION)
{
    (void) comm;
    describe_reduction(stage, sbuf, rbuf, rcount, rtype);
    stage->beside = gpuring_compat_internal(rcount, rtype, op);
}

void gpuring_describe_scan(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                           GPURING_ARGUMENTS_REDUCTION)
{
    (void) comm;
    (void) op;
    describe_reduction(stage, sbuf, rbuf, rcount, rtype);
}

void gpuring_describe_exscan(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                             GPURING_ARGUMENTS_REDUCTION)
{
    (void) op;
    describe_reduction(stage, sbuf, rbuf, rcount, rtype);
    if (ompi_comm_rank(comm) == 0) {
        stage->receive.in = stage->receive.out;
    }
}

void gpuring_describe_reduce_scatter_block(struct gpuring_stage *stage,
                                           struct ompi_communicator_t *comm,
                                           GPURING_ARGUMENTS_REDUCTION)
{
    (void) op;
    begin(stage, sbuf, rbuf);
    reduction_input(stage, (size_t) rcount * (size_t) ompi_comm_size(comm), rtype);
    stage->receive.out = gpuring_part_whole((size_t) rcount, rtype);
}

void gpuring_describe_reduce_scatter(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                     GPURING_ARGUMENTS_REDUCE_SCATTER)
{
    size_t sum = 0;

    (void) op;
    begin(stage, sbuf, rbuf);
    for (int i = 0; i < ompi_comm_size(comm); i++) {
        sum += GPURING_COUNT_AT(rcounts, i);
    }
    reduction_input(stage, sum, rtype);
    stage->receive.out = gpuring_part_whole(GPURING_COUNT_AT(rcounts, ompi_comm_rank(comm)), rtype);
}

/* What a rank gives in a gathering: its send buffer, or its block of the receive buffer in place.
 */
static void gathering_input(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                            size_t count, struct ompi_datatype_t *type)
{
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = only(stage->receive.out, ompi_comm_rank(comm));
    } else {
        stage->send.in = gpuring_part_whole(count, type);
    }
}

void gpuring_describe_allgather(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_EXCHANGE)
{
    begin(stage, sbuf, rbuf);
    stage->receive.out = gpuring_part_blocks(0, peers(comm), (size_t) rcount, rtype);
    gathering_input(stage, comm, (size_t) scount, stype);
}

void gpuring_describe_allgatherv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                 GPURING_ARGUMENTS_ALLGATHERV)
{
    begin(stage, sbuf, rbuf);
    stage->receive.out = by_counts(peers(comm), rcounts, rdispls, rtype);
    gathering_input(stage, comm, (size_t) scount, stype);
}

/* The same with a root: `all` is what that gets. */
static void gathering(struct gpuring_stage *stage, struct ompi_communicator_t *comm, int root,
                      const struct gpuring_part *all, size_t count, struct ompi_datatype_t *type)
{
    enum role role = role_of(stage, comm, root);

    if (role == ROOT) {
        stage->receive.out = *all;
    }
    if (role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(comm))) {
        gathering_input(stage, comm, count, type);
    }
}

void gpuring_describe_gather(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                             GPURING_ARGUMENTS_ROOTED)
{
    struct gpuring_part all = gpuring_part_blocks(0, peers(comm), (size_t) rcount, rtype);

    begin(stage, sbuf, rbuf);
    gathering(stage, comm, root, &all, (size_t) scount, stype);
}

void gpuring_describe_gatherv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                              GPURING_ARGUMENTS_GATHERV)
{
    struct gpuring_part all = by_counts(peers(comm), rcounts, rdispls, rtype);

    begin(stage, sbuf, rbuf);
    gathering(stage, comm, root, &all, (size_t) scount, stype);
}

/* The root gives `all`; each rank gets a block, unless the root keeps its own in place. */
static void scattering(struct gpuring_stage *stage, struct ompi_communicator_t *comm, int root,
                       const struct gpuring_part *all, size_t count, struct ompi_datatype_t *type)
{
    enum role role = role_of(stage, comm, root);

    if (role == ROOT) {
        stage->send.in = *all;
    }
    if (role == OTHER ||
        (role == ROOT && !OMPI_COMM_IS_INTER(comm) && stage->receive.user != MPI_IN_PLACE)) {
        stage->receive.out = gpuring_part_whole(count, type);
    }
}

void gpuring_describe_scatter(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                              GPURING_ARGUMENTS_ROOTED)
{
    struct gpuring_part all = gpuring_part_blocks(0, peers(comm), (size_t) scount, stype);

    begin(stage, sbuf, rbuf);
    scattering(stage, comm, root, &all, (size_t) rcount, rtype);
}

void gpuring_describe_scatterv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                               GPURING_ARGUMENTS_SCATTERV)
{
    struct gpuring_part all = by_counts(peers(comm), scounts, sdispls, stype);

    begin(stage, sbuf, rbuf);
    scattering(stage, comm, root, &all, (size_t) rcount, rtype);
}

/* Everybody to everybody; in place, what is received replaces what was sent. */
static void exchange(struct gpuring_stage *stage, struct gpuring_part given,
                     struct gpuring_part taken)
{
    stage->receive.out = taken;
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = taken;
    } else {
        stage->send.in = given;
    }
}

void gpuring_describe_alltoall(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                               GPURING_ARGUMENTS_EXCHANGE)
{
    begin(stage, sbuf, rbuf);
    exchange(stage, gpuring_part_blocks(0, peers(comm), (size_t) scount, stype),
             gpuring_part_blocks(0, peers(comm), (size_t) rcount, rtype));
}

void gpuring_describe_alltoallv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_ALLTOALLV)
{
    begin(stage, sbuf, rbuf);
    exchange(stage, by_counts(peers(comm), scounts, sdispls, stype),
             by_counts(peers(comm), rcounts, rdispls, rtype));
}

void gpuring_describe_alltoallw(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_ALLTOALLW)
{
    begin(stage, sbuf, rbuf);
    exchange(stage, by_types(peers(comm), scounts, sdispls, stypes),
             by_types(peers(comm), rcounts, rdispls, rtypes));
}

/* Neighbourhoods: a call touches nothing if the number of neighbours is unknown. */
struct neighbors {
    int sources, targets;
};

static struct neighbors neighbors_of(struct ompi_communicator_t *comm)
{
    struct neighbors n;

    if (mca_topo_base_neighbor_count(comm, &n.sources, &n.targets) != OMPI_SUCCESS) {
        n.sources = n.targets = 0;
    }
    return n;
}

/* What neighbours send; blocks of those that are not there keep what they hold. */
static void neighborhood(struct gpuring_stage *stage, struct gpuring_part given,
                         struct gpuring_part taken)
{
    stage->send.in = given;
    stage->receive.in = taken;
    stage->receive.out = taken;
}

void gpuring_describe_neighbor_allgather(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_EXCHANGE)
{
    struct neighbors n = neighbors_of(comm);

    begin(stage, sbuf, rbuf);
    neighborhood(stage, gpuring_part_whole((size_t) scount, stype),
                 gpuring_part_blocks(0, n.sources, (size_t) rcount, rtype));
}

void gpuring_describe_neighbor_allgatherv(struct gpuring_stage *stage,
                                          struct ompi_communicator_t *comm,
                                          GPURING_ARGUMENTS_ALLGATHERV)
{
    struct neighbors n = neighbors_of(comm);

    begin(stage, sbuf, rbuf);
    neighborhood(stage, gpuring_part_whole((size_t) scount, stype),
                 by_counts(n.sources, rcounts, rdispls, rtype));
}

void gpuring_describe_neighbor_alltoall(struct gpuring_stage *stage,
                                        struct ompi_communicator_t *comm,
                                        GPURING_ARGUMENTS_EXCHANGE)
{
    struct neighbors n = neighbors_of(comm);

    begin(stage, sbuf, rbuf);
    neighborhood(stage, gpuring_part_blocks(0, n.targets, (size_t) scount, stype),
                 gpuring_part_blocks(0, n.sources, (size_t) rcount, rtype));
}

void gpuring_describe_neighbor_alltoallv(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_ALLTOALLV)
{
    struct neighbors n = neighbors_of(comm);

    begin(stage, sbuf, rbuf);
    neighborhood(stage, by_counts(n.targets, scounts, sdispls, stype),
                 by_counts(n.sources, rcounts, rdispls, rtype));
}

void gpuring_describe_neighbor_alltoallw(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_NEIGHBOR_ALLTOALLW)
{
    struct neighbors n = neighbors_of(comm);

    begin(stage, sbuf, rbuf);
    neighborhood(stage, by_wide_types(n.targets, scounts, sdispls, stypes),
                 by_wide_types(n.sources, rcounts, rdispls, rtypes));
}
