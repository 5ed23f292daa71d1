/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What each collective reads and writes. Arguments that MPI calls insignificant are not looked at.
 * A buffer's part `in` is copied to the host before the call, `out` back after it.
 *
 * Some calls leave bytes of their receive buffer as they were: those are in `in`, too (exscan on
 * rank 0; neighbours that are MPI_PROC_NULL).
 */
#include "mca/coll_gpuring/stage.h"

/* Ranks that a rank of this communicator exchanges data with. */
static int peers(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

enum role { ROOT, OTHER, BYSTANDER };

static enum role role_of(struct ompi_communicator_t *comm, int root)
{
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
    enum role role = role_of(comm, root);

    begin(stage, NULL, rbuf);
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
    enum role role = role_of(comm, root);

    (void) op;
    begin(stage, sbuf, rbuf);
    if (role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(comm))) {
        reduction_input(stage, (size_t) rcount, rtype);
    }
    if (role == ROOT) {
        stage->receive.out = gpuring_part_whole((size_t) rcount, rtype);
    }
}

void gpuring_describe_allreduce(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_REDUCTION)
{
    (void) comm;
    (void) op;
    begin(stage, sbuf, rbuf);
    reduction_input(stage, (size_t) rcount, rtype);
    stage->receive.out = gpuring_part_whole((size_t) rcount, rtype);
}

void gpuring_describe_scan(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                           GPURING_ARGUMENTS_REDUCTION)
{
    gpuring_describe_allreduce(stage, comm, GPURING_VALUES_REDUCTION);
}

void gpuring_describe_exscan(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                             GPURING_ARGUMENTS_REDUCTION)
{
    gpuring_describe_allreduce(stage, comm, GPURING_VALUES_REDUCTION);
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

void gpuring_describe_gather(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                             GPURING_ARGUMENTS_ROOTED)
{
    enum role role = role_of(comm, root);

    begin(stage, sbuf, rbuf);
    if (role == ROOT) {
        stage->receive.out = gpuring_part_blocks(0, peers(comm), (size_t) rcount, rtype);
    }
    if (role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(comm))) {
        gathering_input(stage, comm, (size_t) scount, stype);
    }
}

void gpuring_describe_gatherv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                              GPURING_ARGUMENTS_GATHERV)
{
    enum role role = role_of(comm, root);

    begin(stage, sbuf, rbuf);
    if (role == ROOT) {
        stage->receive.out = by_counts(peers(comm), rcounts, rdispls, rtype);
    }
    if (role == OTHER || (role == ROOT && !OMPI_COMM_IS_INTER(comm))) {
        gathering_input(stage, comm, (size_t) scount, stype);
    }
}

/* What a rank gets in a scattering, unless it keeps its block in place. */
static void scattering_output(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                              enum role role, size_t count, struct ompi_datatype_t *type)
{
    if (role == OTHER ||
        (role == ROOT && !OMPI_COMM_IS_INTER(comm) && stage->receive.user != MPI_IN_PLACE)) {
        stage->receive.out = gpuring_part_whole(count, type);
    }
}

void gpuring_describe_scatter(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                              GPURING_ARGUMENTS_ROOTED)
{
    enum role role = role_of(comm, root);

    begin(stage, sbuf, rbuf);
    if (role == ROOT) {
        stage->send.in = gpuring_part_blocks(0, peers(comm), (size_t) scount, stype);
    }
    scattering_output(stage, comm, role, (size_t) rcount, rtype);
}

void gpuring_describe_scatterv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                               GPURING_ARGUMENTS_SCATTERV)
{
    enum role role = role_of(comm, root);

    begin(stage, sbuf, rbuf);
    if (role == ROOT) {
        stage->send.in = by_counts(peers(comm), scounts, sdispls, stype);
    }
    scattering_output(stage, comm, role, (size_t) rcount, rtype);
}

/* Everybody to everybody; in place, what is received replaces what was sent. */
static void complete_exchange(struct gpuring_stage *stage, const struct gpuring_part *given)
{
    if (stage->send.user == MPI_IN_PLACE) {
        stage->receive.in = stage->receive.out;
    } else {
        stage->send.in = *given;
    }
}

void gpuring_describe_alltoall(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                               GPURING_ARGUMENTS_EXCHANGE)
{
    struct gpuring_part given = gpuring_part_blocks(0, peers(comm), (size_t) scount, stype);

    begin(stage, sbuf, rbuf);
    stage->receive.out = gpuring_part_blocks(0, peers(comm), (size_t) rcount, rtype);
    complete_exchange(stage, &given);
}

void gpuring_describe_alltoallv(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_ALLTOALLV)
{
    struct gpuring_part given = by_counts(peers(comm), scounts, sdispls, stype);

    begin(stage, sbuf, rbuf);
    stage->receive.out = by_counts(peers(comm), rcounts, rdispls, rtype);
    complete_exchange(stage, &given);
}

void gpuring_describe_alltoallw(struct gpuring_stage *stage, struct ompi_communicator_t *comm,
                                GPURING_ARGUMENTS_ALLTOALLW)
{
    struct gpuring_part given = by_types(peers(comm), scounts, sdispls, stypes);

    begin(stage, sbuf, rbuf);
    stage->receive.out = by_types(peers(comm), rcounts, rdispls, rtypes);
    complete_exchange(stage, &given);
}

/* Neighbourhoods: a call touches nothing if the number of neighbours is unknown. */
static void neighbors(struct ompi_communicator_t *comm, int *sources, int *targets)
{
    if (mca_topo_base_neighbor_count(comm, sources, targets) != OMPI_SUCCESS) {
        *sources = *targets = 0;
    }
}

/* What neighbours send; blocks of those that are not there keep what they hold. */
static void neighbors_output(struct gpuring_stage *stage, struct gpuring_part part)
{
    stage->receive.in = part;
    stage->receive.out = part;
}

void gpuring_describe_neighbor_allgather(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_EXCHANGE)
{
    int sources, targets;

    neighbors(comm, &sources, &targets);
    begin(stage, sbuf, rbuf);
    stage->send.in = gpuring_part_whole((size_t) scount, stype);
    neighbors_output(stage, gpuring_part_blocks(0, sources, (size_t) rcount, rtype));
}

void gpuring_describe_neighbor_allgatherv(struct gpuring_stage *stage,
                                          struct ompi_communicator_t *comm,
                                          GPURING_ARGUMENTS_ALLGATHERV)
{
    int sources, targets;

    neighbors(comm, &sources, &targets);
    begin(stage, sbuf, rbuf);
    stage->send.in = gpuring_part_whole((size_t) scount, stype);
    neighbors_output(stage, by_counts(sources, rcounts, rdispls, rtype));
}

void gpuring_describe_neighbor_alltoall(struct gpuring_stage *stage,
                                        struct ompi_communicator_t *comm,
                                        GPURING_ARGUMENTS_EXCHANGE)
{
    int sources, targets;

    neighbors(comm, &sources, &targets);
    begin(stage, sbuf, rbuf);
    stage->send.in = gpuring_part_blocks(0, targets, (size_t) scount, stype);
    neighbors_output(stage, gpuring_part_blocks(0, sources, (size_t) rcount, rtype));
}

void gpuring_describe_neighbor_alltoallv(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_ALLTOALLV)
{
    int sources, targets;

    neighbors(comm, &sources, &targets);
    begin(stage, sbuf, rbuf);
    stage->send.in = by_counts(targets, scounts, sdispls, stype);
    neighbors_output(stage, by_counts(sources, rcounts, rdispls, rtype));
}

void gpuring_describe_neighbor_alltoallw(struct gpuring_stage *stage,
                                         struct ompi_communicator_t *comm,
                                         GPURING_ARGUMENTS_NEIGHBOR_ALLTOALLW)
{
    int sources, targets;

    neighbors(comm, &sources, &targets);
    begin(stage, sbuf, rbuf);
    stage->send.in = by_wide_types(targets, scounts, sdispls, stypes);
    neighbors_output(stage, by_wide_types(sources, rcounts, rdispls, rtypes));
}
