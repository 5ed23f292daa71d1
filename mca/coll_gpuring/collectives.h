/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The collectives with buffers, once: X(name, arguments), where `arguments` names a list below.
 * Each has three forms: name (blocking), i<name> (non-blocking) and <name>_init (persistent).
 * Collectives with the same list of arguments are one case for whoever declares and forwards them,
 * what they do with their buffers is in stage/describe.c.
 */
#ifndef GPURING_COLLECTIVES_H
#define GPURING_COLLECTIVES_H

#define GPURING_STAGED_COLLECTIVES(X)  \
    GPURING_CUT_COLLECTIVES(X)         \
    X(gatherv, GATHERV)                \
    X(scatterv, SCATTERV)              \
    X(alltoallv, ALLTOALLV)            \
    X(alltoallw, ALLTOALLW)            \
    X(neighbor_allgather, EXCHANGE)    \
    X(neighbor_allgatherv, ALLGATHERV) \
    X(neighbor_alltoall, EXCHANGE)     \
    X(neighbor_alltoallv, ALLTOALLV)   \
    X(neighbor_alltoallw, NEIGHBOR_ALLTOALLW)

/* Of these, blocking calls that are cut into chunks if they are large (stage/pipeline.h). */
#define GPURING_CUT_COLLECTIVES(X)     \
    X(bcast, BCAST)                    \
    X(reduce, REDUCE)                  \
    X(allreduce, REDUCTION)            \
    X(scan, REDUCTION)                 \
    X(exscan, REDUCTION)               \
    X(reduce_scatter_block, REDUCTION) \
    X(reduce_scatter, REDUCE_SCATTER)  \
    X(allgather, EXCHANGE)             \
    X(allgatherv, ALLGATHERV)          \
    X(gather, ROOTED)                  \
    X(scatter, ROOTED)                 \
    X(alltoall, EXCHANGE)

/* ACT(function) for the three forms of a collective, and for all functions of Open MPI's table that
 * staging stands in for: where X-macros expand to more than one form. */
#define GPURING_FORMS(ACT, name) ACT(name) ACT(i##name) ACT(name##_init)

/* The lists of arguments before the communicator: as declared, and as handed on. */
#define GPURING_ARGUMENTS_BCAST \
    void *rbuf, gpuring_count_t rcount, struct ompi_datatype_t *rtype, int root
#define GPURING_VALUES_BCAST rbuf, rcount, rtype, root

#define GPURING_ARGUMENTS_REDUCTION                                                      \
    const void *sbuf, void *rbuf, gpuring_count_t rcount, struct ompi_datatype_t *rtype, \
        struct ompi_op_t *op
#define GPURING_VALUES_REDUCTION sbuf, rbuf, rcount, rtype, op

#define GPURING_ARGUMENTS_REDUCE GPURING_ARGUMENTS_REDUCTION, int root
#define GPURING_VALUES_REDUCE    GPURING_VALUES_REDUCTION, root

#define GPURING_ARGUMENTS_REDUCE_SCATTER                                                   \
    const void *sbuf, void *rbuf, gpuring_counts_t rcounts, struct ompi_datatype_t *rtype, \
        struct ompi_op_t *op
#define GPURING_VALUES_REDUCE_SCATTER sbuf, rbuf, rcounts, rtype, op

#define GPURING_ARGUMENTS_EXCHANGE                                                       \
    const void *sbuf, gpuring_count_t scount, struct ompi_datatype_t *stype, void *rbuf, \
        gpuring_count_t rcount, struct ompi_datatype_t *rtype
#define GPURING_VALUES_EXCHANGE sbuf, scount, stype, rbuf, rcount, rtype

#define GPURING_ARGUMENTS_ROOTED GPURING_ARGUMENTS_EXCHANGE, int root
#define GPURING_VALUES_ROOTED    GPURING_VALUES_EXCHANGE, root

#define GPURING_ARGUMENTS_ALLGATHERV                                                     \
    const void *sbuf, gpuring_count_t scount, struct ompi_datatype_t *stype, void *rbuf, \
        gpuring_counts_t rcounts, gpuring_displs_t rdispls, struct ompi_datatype_t *rtype
#define GPURING_VALUES_ALLGATHERV sbuf, scount, stype, rbuf, rcounts, rdispls, rtype

#define GPURING_ARGUMENTS_GATHERV GPURING_ARGUMENTS_ALLGATHERV, int root
#define GPURING_VALUES_GATHERV    GPURING_VALUES_ALLGATHERV, root

#define GPURING_ARGUMENTS_SCATTERV                                         \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,  \
        struct ompi_datatype_t *stype, void *rbuf, gpuring_count_t rcount, \
        struct ompi_datatype_t *rtype, int root
#define GPURING_VALUES_SCATTERV sbuf, scounts, sdispls, stype, rbuf, rcount, rtype, root

#define GPURING_ARGUMENTS_ALLTOALLV                                          \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,    \
        struct ompi_datatype_t *stype, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_displs_t rdispls, struct ompi_datatype_t *rtype
#define GPURING_VALUES_ALLTOALLV sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype

#define GPURING_ARGUMENTS_ALLTOALLW                                                  \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,            \
        struct ompi_datatype_t *const *stypes, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_displs_t rdispls, struct ompi_datatype_t *const *rtypes
#define GPURING_VALUES_ALLTOALLW sbuf, scounts, sdispls, stypes, rbuf, rcounts, rdispls, rtypes

#define GPURING_ARGUMENTS_NEIGHBOR_ALLTOALLW                                         \
    const void *sbuf, gpuring_counts_t scounts, gpuring_byte_displs_t sdispls,       \
        struct ompi_datatype_t *const *stypes, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_byte_displs_t rdispls, struct ompi_datatype_t *const *rtypes
#define GPURING_VALUES_NEIGHBOR_ALLTOALLW GPURING_VALUES_ALLTOALLW

/* Put the buffers that stand for the user's in their place; `stage` is a struct gpuring_stage. */
#define GPURING_REPLACE_RECEIVE            (rbuf = (void *) stage.receive.place)
#define GPURING_REPLACE_BOTH               (sbuf = stage.send.place, GPURING_REPLACE_RECEIVE)
#define GPURING_REPLACE_BCAST              GPURING_REPLACE_RECEIVE
#define GPURING_REPLACE_REDUCE             GPURING_REPLACE_BOTH
#define GPURING_REPLACE_REDUCTION          GPURING_REPLACE_BOTH
#define GPURING_REPLACE_REDUCE_SCATTER     GPURING_REPLACE_BOTH
#define GPURING_REPLACE_EXCHANGE           GPURING_REPLACE_BOTH
#define GPURING_REPLACE_ROOTED             GPURING_REPLACE_BOTH
#define GPURING_REPLACE_ALLGATHERV         GPURING_REPLACE_BOTH
#define GPURING_REPLACE_GATHERV            GPURING_REPLACE_BOTH
#define GPURING_REPLACE_SCATTERV           GPURING_REPLACE_BOTH
#define GPURING_REPLACE_ALLTOALLV          GPURING_REPLACE_BOTH
#define GPURING_REPLACE_ALLTOALLW          GPURING_REPLACE_BOTH
#define GPURING_REPLACE_NEIGHBOR_ALLTOALLW GPURING_REPLACE_BOTH

/* The arguments behind those, of each form. */
#define GPURING_END_BLOCKING struct ompi_communicator_t *comm, mca_coll_base_module_t *module
#define GPURING_END_NONBLOCKING \
    struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module
#define GPURING_END_PERSISTENT                                                            \
    struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request, \
        mca_coll_base_module_t *module

#endif
