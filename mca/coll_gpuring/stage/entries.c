/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions in Open MPI's tables, three for each collective, and those of the previous module
 * that they stand for. Here arguments are packed and unpacked, and nothing else is done.
 */
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/cut.h"
#include "mca/coll_gpuring/stage/stage.h"

#define FIELD(argument)    .argument = argument
#define ARGUMENT(argument) arguments->argument

/* The arguments behind the list, of each form. */
#define REST_BLOCKING    arguments->comm
#define REST_NONBLOCKING arguments->comm, request
#define REST_PERSISTENT  arguments->comm, info, request

/* The previous module's functions. */
typedef int (*previous_fn)(mca_coll_gpuring_module_t *module,
                           const struct gpuring_arguments *arguments, struct ompi_info_t *info,
                           ompi_request_t **request);

#define DEFINE_PREVIOUS(function, list, FORM)                                          \
    static int previous_##function(mca_coll_gpuring_module_t *module,                  \
                                   const struct gpuring_arguments *arguments,          \
                                   struct ompi_info_t *info, ompi_request_t **request) \
    {                                                                                  \
        (void) info;                                                                   \
        (void) request;                                                                \
        return GPURING_CALL_PREVIOUS(module, function, GPURING_NAMES_##list(ARGUMENT), \
                                     REST_##FORM);                                     \
    }
#define DEFINE_PREVIOUS_FORMS(name, list)       \
    DEFINE_PREVIOUS(name, list, BLOCKING)       \
    DEFINE_PREVIOUS(i##name, list, NONBLOCKING) \
    DEFINE_PREVIOUS(name##_init, list, PERSISTENT)
GPURING_STAGED_COLLECTIVES(DEFINE_PREVIOUS_FORMS)

static int previous_reduce_local(mca_coll_gpuring_module_t *module,
                                 const struct gpuring_arguments *arguments,
                                 struct ompi_info_t *info, ompi_request_t **request)
{
    (void) info;
    (void) request;
    return GPURING_CALL_PREVIOUS(module, reduce_local, GPURING_NAMES_REDUCTION(ARGUMENT));
}

int gpuring_stage_call_previous(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                                enum gpuring_stage_form form,
                                const struct gpuring_arguments *arguments, struct ompi_info_t *info,
                                ompi_request_t **request)
{
    static const previous_fn previous[][GPURING_STAGE_FORM_COUNT] = {
#define ROW(name, list) {previous_##name, previous_i##name, previous_##name##_init},
        GPURING_STAGED_COLLECTIVES(ROW)
#undef ROW
            {previous_reduce_local, NULL, NULL},
    };

    return previous[what][form](module, arguments, info, request);
}

/*
 * The entries. A process without GPU memory calls the previous module at once; LARGE: unless it is
 * a call that all ranks may have to cut into chunks.
 */
#define DEFINE_BLOCKING(name, list, LARGE)                                                   \
    int gpuring_stage_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING)                 \
    {                                                                                        \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;              \
        bool large = (LARGE);                                                                \
                                                                                             \
        if (OPAL_UNLIKELY(large || gpuring_memory_possible())) {                             \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};        \
                                                                                             \
            return large ? gpuring_stage_large(self, GPURING_STAGED_##name, &a, false)       \
                         : gpuring_stage_blocking(self, GPURING_STAGED_##name, &a);          \
        }                                                                                    \
        return GPURING_CALL_PREVIOUS(self, name, GPURING_NAMES_##list(GPURING_VALUE), comm); \
    }

#define DEFINE_NONBLOCKING(name, list)                                                         \
    int gpuring_stage_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING)               \
    {                                                                                          \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                \
                                                                                               \
        if (OPAL_UNLIKELY(gpuring_memory_possible())) {                                        \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};          \
                                                                                               \
            return gpuring_stage_request(self, GPURING_STAGED_##name, GPURING_NONBLOCKING, &a, \
                                         NULL, request);                                       \
        }                                                                                      \
        return GPURING_CALL_PREVIOUS(self, i##name, GPURING_NAMES_##list(GPURING_VALUE), comm, \
                                     request);                                                 \
    }

#define DEFINE_PERSISTENT(name, list)                                                              \
    int gpuring_stage_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT)              \
    {                                                                                              \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                    \
                                                                                                   \
        if (OPAL_UNLIKELY(gpuring_memory_possible())) {                                            \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};              \
                                                                                                   \
            return gpuring_stage_request(self, GPURING_STAGED_##name, GPURING_PERSISTENT, &a,      \
                                         info, request);                                           \
        }                                                                                          \
        return GPURING_CALL_PREVIOUS(self, name##_init, GPURING_NAMES_##list(GPURING_VALUE), comm, \
                                     info, request);                                               \
    }

/*
 * Is a call large enough for chunks? By the bytes of all blocks, of which the type signature is the
 * same on all ranks, and so is the answer. Only where ranks agree on it, see large.c.
 */
static bool is_large(const mca_coll_gpuring_module_t *module, int blocks, size_t bytes)
{
    return OPAL_UNLIKELY(bytes > 2 * gpuring_params.stage_size) &&
           bytes > 2 * gpuring_cut_limit(blocks, gpuring_params.stage_size) &&
           module->staging.oob != NULL;
}

static size_t bytes_of(gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return (size_t) count * type->super.size;
}

static size_t sum(const mca_coll_gpuring_module_t *module, gpuring_counts_t counts)
{
    size_t elements = 0;

    for (int i = 0; i < module->nranks && module->staging.oob != NULL; i++) {
        elements += GPURING_COUNT_AT(counts, i);
    }
    return elements;
}

/* The root knows by its arguments for all blocks, which say nothing elsewhere. */
static size_t rooted(const mca_coll_gpuring_module_t *module, int root, gpuring_count_t all,
                     const struct ompi_datatype_t *all_type, gpuring_count_t own,
                     const struct ompi_datatype_t *own_type)
{
    if (module->staging.oob == NULL) {
        return 0;
    }
    return root == module->rank ? bytes_of(all, all_type) : bytes_of(own, own_type);
}

#define VECTOR      is_large(self, 1, bytes_of(rcount, rtype))
#define EACH(bytes) is_large(self, self->nranks, (size_t) self->nranks *(bytes))
#define BLOCKS      EACH(bytes_of(rcount, rtype))
#define SUM         is_large(self, self->nranks, sum(self, rcounts) * rtype->super.size)
#define GATHERED    EACH(rooted(self, root, rcount, rtype, scount, stype))
#define SCATTERED   EACH(rooted(self, root, scount, stype, rcount, rtype))
#define NOT_CUT     false

DEFINE_BLOCKING(bcast, BCAST, VECTOR)
DEFINE_BLOCKING(reduce, REDUCE, VECTOR)
DEFINE_BLOCKING(allreduce, REDUCTION, VECTOR)
DEFINE_BLOCKING(scan, REDUCTION, VECTOR)
DEFINE_BLOCKING(exscan, REDUCTION, VECTOR)
DEFINE_BLOCKING(reduce_scatter_block, REDUCTION, BLOCKS)
DEFINE_BLOCKING(reduce_scatter, REDUCE_SCATTER, SUM)
DEFINE_BLOCKING(allgather, EXCHANGE, BLOCKS)
DEFINE_BLOCKING(allgatherv, ALLGATHERV, SUM)
DEFINE_BLOCKING(gather, ROOTED, GATHERED)
DEFINE_BLOCKING(scatter, ROOTED, SCATTERED)
DEFINE_BLOCKING(alltoall, EXCHANGE, BLOCKS)
DEFINE_BLOCKING(gatherv, GATHERV, NOT_CUT)
DEFINE_BLOCKING(scatterv, SCATTERV, NOT_CUT)
DEFINE_BLOCKING(alltoallv, ALLTOALLV, NOT_CUT)
DEFINE_BLOCKING(alltoallw, ALLTOALLW, NOT_CUT)
DEFINE_BLOCKING(neighbor_allgather, EXCHANGE, NOT_CUT)
DEFINE_BLOCKING(neighbor_allgatherv, ALLGATHERV, NOT_CUT)
DEFINE_BLOCKING(neighbor_alltoall, EXCHANGE, NOT_CUT)
DEFINE_BLOCKING(neighbor_alltoallv, ALLTOALLV, NOT_CUT)
DEFINE_BLOCKING(neighbor_alltoallw, NEIGHBOR_ALLTOALLW, NOT_CUT)
GPURING_STAGED_COLLECTIVES(DEFINE_NONBLOCKING)
GPURING_STAGED_COLLECTIVES(DEFINE_PERSISTENT)

int gpuring_stage_allreduce_on_host(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;

    if (VECTOR) {
        struct gpuring_arguments a = {GPURING_NAMES_REDUCTION(FIELD), .comm = comm};

        return gpuring_stage_large(self, GPURING_STAGED_allreduce, &a, true);
    }
    return GPURING_CALL_PREVIOUS(self, allreduce, GPURING_VALUES_REDUCTION, comm);
}

/* Not a collective, but of the same table: of MPI_COMM_SELF. */
int gpuring_stage_reduce_local(GPURING_ARGUMENTS_REDUCTION, mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;

    if (gpuring_memory_possible()) {
        struct gpuring_arguments a = {GPURING_NAMES_REDUCTION(FIELD)};

        return gpuring_stage_blocking(self, GPURING_STAGED_reduce_local, &a);
    }
    return GPURING_CALL_PREVIOUS(self, reduce_local, GPURING_VALUES_REDUCTION);
}
