/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions in Open MPI's tables, three for each collective: arguments are packed, and nothing
 * else is done.
 */
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/stage.h"

#define FIELD(argument) .argument = argument

/* The entries. A process without GPU memory calls the previous module at once. */
#define DEFINE_BLOCKING(name, list)                                                          \
    int gpuring_stage_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING)                 \
    {                                                                                        \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;              \
                                                                                             \
        if (OPAL_UNLIKELY(gpuring_memory_possible())) {                                      \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};        \
                                                                                             \
            return gpuring_stage_blocking(self, GPURING_STAGED_##name, &a);                  \
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

GPURING_STAGED_COLLECTIVES(DEFINE_BLOCKING)
GPURING_STAGED_COLLECTIVES(DEFINE_NONBLOCKING)
GPURING_STAGED_COLLECTIVES(DEFINE_PERSISTENT)

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
