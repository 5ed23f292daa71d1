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

/* Those that this component serves, beside allreduce. */
#define GPURING_SERVED_COLLECTIVES(X)  \
    X(bcast, BCAST)                    \
    X(reduce, REDUCE)                  \
    X(scan, REDUCTION)                 \
    X(exscan, REDUCTION)               \
    X(reduce_scatter_block, REDUCTION) \
    X(reduce_scatter, REDUCE_SCATTER)  \
    X(allgather, EXCHANGE)             \
    X(allgatherv, ALLGATHERV)          \
    X(gather, ROOTED)                  \
    X(gatherv, GATHERV)                \
    X(scatter, ROOTED)                 \
    X(scatterv, SCATTERV)              \
    X(alltoall, EXCHANGE)              \
    X(alltoallv, ALLTOALLV)            \
    X(alltoallw, ALLTOALLW)

/* Those that are always staged. */
#define GPURING_NEIGHBOR_COLLECTIVES(X) \
    X(neighbor_allgather, EXCHANGE)     \
    X(neighbor_allgatherv, ALLGATHERV)  \
    X(neighbor_alltoall, EXCHANGE)      \
    X(neighbor_alltoallv, ALLTOALLV)    \
    X(neighbor_alltoallw, NEIGHBOR_ALLTOALLW)

/* All: what is not served is staged. */
#define GPURING_STAGED_COLLECTIVES(X) \
    X(allreduce, REDUCTION)           \
    GPURING_SERVED_COLLECTIVES(X)     \
    GPURING_NEIGHBOR_COLLECTIVES(X)

/* GPURING_ACT(function), which its user defines, for the three forms of a collective. */
#define GPURING_FORMS(name, list) GPURING_ACT(name) GPURING_ACT(i##name) GPURING_ACT(name##_init)

/* The same for every function that ours may replace. */
#define GPURING_ALL_FUNCTIONS                 \
    GPURING_STAGED_COLLECTIVES(GPURING_FORMS) \
    GPURING_ACT(reduce_local) GPURING_ACT(ibarrier) GPURING_ACT(barrier_init)

/*
 * The lists of arguments before the communicator: as declared, and by name. X(argument) is done to
 * each of them; a name means the same in all lists.
 */
#define GPURING_ARGUMENTS_BCAST \
    void *rbuf, gpuring_count_t rcount, struct ompi_datatype_t *rtype, int root
#define GPURING_NAMES_BCAST(X) X(rbuf), X(rcount), X(rtype), X(root)

#define GPURING_ARGUMENTS_REDUCTION                                                      \
    const void *sbuf, void *rbuf, gpuring_count_t rcount, struct ompi_datatype_t *rtype, \
        struct ompi_op_t *op
#define GPURING_NAMES_REDUCTION(X) X(sbuf), X(rbuf), X(rcount), X(rtype), X(op)

#define GPURING_ARGUMENTS_REDUCE GPURING_ARGUMENTS_REDUCTION, int root
#define GPURING_NAMES_REDUCE(X)  GPURING_NAMES_REDUCTION(X), X(root)

#define GPURING_ARGUMENTS_REDUCE_SCATTER                                                   \
    const void *sbuf, void *rbuf, gpuring_counts_t rcounts, struct ompi_datatype_t *rtype, \
        struct ompi_op_t *op
#define GPURING_NAMES_REDUCE_SCATTER(X) X(sbuf), X(rbuf), X(rcounts), X(rtype), X(op)

#define GPURING_ARGUMENTS_EXCHANGE                                                       \
    const void *sbuf, gpuring_count_t scount, struct ompi_datatype_t *stype, void *rbuf, \
        gpuring_count_t rcount, struct ompi_datatype_t *rtype
#define GPURING_NAMES_EXCHANGE(X) X(sbuf), X(scount), X(stype), X(rbuf), X(rcount), X(rtype)

#define GPURING_ARGUMENTS_ROOTED GPURING_ARGUMENTS_EXCHANGE, int root
#define GPURING_NAMES_ROOTED(X)  GPURING_NAMES_EXCHANGE(X), X(root)

#define GPURING_ARGUMENTS_ALLGATHERV                                                     \
    const void *sbuf, gpuring_count_t scount, struct ompi_datatype_t *stype, void *rbuf, \
        gpuring_counts_t rcounts, gpuring_displs_t rdispls, struct ompi_datatype_t *rtype
#define GPURING_NAMES_ALLGATHERV(X) \
    X(sbuf), X(scount), X(stype), X(rbuf), X(rcounts), X(rdispls), X(rtype)

#define GPURING_ARGUMENTS_GATHERV GPURING_ARGUMENTS_ALLGATHERV, int root
#define GPURING_NAMES_GATHERV(X)  GPURING_NAMES_ALLGATHERV(X), X(root)

#define GPURING_ARGUMENTS_SCATTERV                                         \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,  \
        struct ompi_datatype_t *stype, void *rbuf, gpuring_count_t rcount, \
        struct ompi_datatype_t *rtype, int root
#define GPURING_NAMES_SCATTERV(X) \
    X(sbuf), X(scounts), X(sdispls), X(stype), X(rbuf), X(rcount), X(rtype), X(root)

#define GPURING_ARGUMENTS_ALLTOALLV                                          \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,    \
        struct ompi_datatype_t *stype, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_displs_t rdispls, struct ompi_datatype_t *rtype
#define GPURING_NAMES_ALLTOALLV(X) \
    X(sbuf), X(scounts), X(sdispls), X(stype), X(rbuf), X(rcounts), X(rdispls), X(rtype)

#define GPURING_ARGUMENTS_ALLTOALLW                                                  \
    const void *sbuf, gpuring_counts_t scounts, gpuring_displs_t sdispls,            \
        struct ompi_datatype_t *const *stypes, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_displs_t rdispls, struct ompi_datatype_t *const *rtypes
#define GPURING_NAMES_ALLTOALLW(X) \
    X(sbuf), X(scounts), X(sdispls), X(stypes), X(rbuf), X(rcounts), X(rdispls), X(rtypes)

#define GPURING_ARGUMENTS_NEIGHBOR_ALLTOALLW                                         \
    const void *sbuf, gpuring_counts_t scounts, gpuring_byte_displs_t saddresses,    \
        struct ompi_datatype_t *const *stypes, void *rbuf, gpuring_counts_t rcounts, \
        gpuring_byte_displs_t raddresses, struct ompi_datatype_t *const *rtypes
#define GPURING_NAMES_NEIGHBOR_ALLTOALLW(X) \
    X(sbuf), X(scounts), X(saddresses), X(stypes), X(rbuf), X(rcounts), X(raddresses), X(rtypes)

/* As a function gets them. */
#define GPURING_VALUE(argument) argument

/* The arguments behind those, of each form. */
#define GPURING_END_BLOCKING struct ompi_communicator_t *comm, mca_coll_base_module_t *module
#define GPURING_END_NONBLOCKING \
    struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module
#define GPURING_END_PERSISTENT                                                            \
    struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request, \
        mca_coll_base_module_t *module

#endif
