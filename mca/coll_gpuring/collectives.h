/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The list of collectives with buffers: X(name, list), where `list` is the name of a list of
 * arguments below. Each collective has three forms: name (blocking), i<name> (non-blocking) and
 * <name>_init (persistent). The lists are enough to declare and to forward all functions. How a
 * collective uses its buffers is in stage/stage_describe.c.
 */
#ifndef GPURING_COLLECTIVES_H
#define GPURING_COLLECTIVES_H

/* First the collectives that this component serves (calls/describe.c), then the collectives that
 * are always staged. */
#define GPURING_STAGED_COLLECTIVES(X)  \
    X(allreduce, REDUCTION)            \
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
    X(alltoallw, ALLTOALLW)            \
    X(neighbor_allgather, EXCHANGE)    \
    X(neighbor_allgatherv, ALLGATHERV) \
    X(neighbor_alltoall, EXCHANGE)     \
    X(neighbor_alltoallv, ALLTOALLV)   \
    X(neighbor_alltoallw, NEIGHBOR_ALLTOALLW)
#define GPURING_STAGED_ALWAYS GPURING_STAGED_neighbor_allgather /* and all after it */

/* The form of a call. Each collective has a function for each of the first three. */
enum gpuring_form {
    GPURING_BLOCKING,
    GPURING_NONBLOCKING,
    GPURING_PERSISTENT, /* creates a persistent call, which runs later */
    GPURING_STARTED,    /* a started persistent call, which can no longer be delegated */
};
#define GPURING_FUNCTION_FORMS GPURING_STARTED

/* Expand GPURING_ACT(function) with the three forms of a collective. The including file defines it.
 */
#define GPURING_FORMS(name, list) GPURING_ACT(name) GPURING_ACT(i##name) GPURING_ACT(name##_init)

/* Expand it for each function that this component may replace. */
#define GPURING_ALL_FUNCTIONS                 \
    GPURING_STAGED_COLLECTIVES(GPURING_FORMS) \
    GPURING_ACT(reduce_local) GPURING_FORMS(barrier, )

/*
 * The lists of arguments before the communicator: A(type, name) for each argument. A name has the
 * same meaning in all lists.
 */
#define GPURING_SEND_VECTOR(A) \
    A(const void *, sbuf), A(gpuring_count_t, scount), A(struct ompi_datatype_t *, stype)
#define GPURING_RECEIVE_VECTOR(A) \
    A(void *, rbuf), A(gpuring_count_t, rcount), A(struct ompi_datatype_t *, rtype)
#define GPURING_SEND_BLOCKS(A)                                                         \
    A(const void *, sbuf), A(gpuring_counts_t, scounts), A(gpuring_displs_t, sdispls), \
        A(struct ompi_datatype_t *, stype)
#define GPURING_RECEIVE_BLOCKS(A)                                                \
    A(void *, rbuf), A(gpuring_counts_t, rcounts), A(gpuring_displs_t, rdispls), \
        A(struct ompi_datatype_t *, rtype)
#define GPURING_ROOT(A) A(int, root)
#define GPURING_OP(A)   A(struct ompi_op_t *, op)

#define GPURING_LIST_BCAST(A)     GPURING_RECEIVE_VECTOR(A), GPURING_ROOT(A)
#define GPURING_LIST_REDUCTION(A) A(const void *, sbuf), GPURING_RECEIVE_VECTOR(A), GPURING_OP(A)
#define GPURING_LIST_REDUCE(A)    GPURING_LIST_REDUCTION(A), GPURING_ROOT(A)
#define GPURING_LIST_REDUCE_SCATTER(A)                                    \
    A(const void *, sbuf), A(void *, rbuf), A(gpuring_counts_t, rcounts), \
        A(struct ompi_datatype_t *, rtype), GPURING_OP(A)
#define GPURING_LIST_EXCHANGE(A)   GPURING_SEND_VECTOR(A), GPURING_RECEIVE_VECTOR(A)
#define GPURING_LIST_ROOTED(A)     GPURING_LIST_EXCHANGE(A), GPURING_ROOT(A)
#define GPURING_LIST_ALLGATHERV(A) GPURING_SEND_VECTOR(A), GPURING_RECEIVE_BLOCKS(A)
#define GPURING_LIST_GATHERV(A)    GPURING_LIST_ALLGATHERV(A), GPURING_ROOT(A)
#define GPURING_LIST_SCATTERV(A)   GPURING_SEND_BLOCKS(A), GPURING_RECEIVE_VECTOR(A), GPURING_ROOT(A)
#define GPURING_LIST_ALLTOALLV(A)  GPURING_SEND_BLOCKS(A), GPURING_RECEIVE_BLOCKS(A)
#define GPURING_LIST_ALLTOALLW(A)                                                                  \
    A(const void *, sbuf), A(gpuring_counts_t, scounts), A(gpuring_displs_t, sdispls),             \
        A(struct ompi_datatype_t *const *, stypes), A(void *, rbuf), A(gpuring_counts_t, rcounts), \
        A(gpuring_displs_t, rdispls), A(struct ompi_datatype_t *const *, rtypes)
#define GPURING_LIST_NEIGHBOR_ALLTOALLW(A)                                                         \
    A(const void *, sbuf), A(gpuring_counts_t, scounts), A(gpuring_byte_displs_t, saddresses),     \
        A(struct ompi_datatype_t *const *, stypes), A(void *, rbuf), A(gpuring_counts_t, rcounts), \
        A(gpuring_byte_displs_t, raddresses), A(struct ompi_datatype_t *const *, rtypes)

/* The arguments in a declaration, and in a call. */
#define GPURING_ARGUMENT(type, name) type name
#define GPURING_VALUE(type, name)    name

/* The remaining arguments of each form. */
#define GPURING_END_BLOCKING struct ompi_communicator_t *comm, mca_coll_base_module_t *module
#define GPURING_END_NONBLOCKING \
    struct ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module
#define GPURING_END_PERSISTENT                                                            \
    struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request, \
        mca_coll_base_module_t *module

#endif
