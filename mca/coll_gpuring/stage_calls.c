/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The functions that stand in Open MPI's tables, three for each collective. */
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/memory.h"
#include "mca/coll_gpuring/stage.h"

/* Describe the call; true if it is to be staged. */
#define STAGED(name, list)                                                   \
    (OPAL_UNLIKELY(gpuring_memory_possible()) &&                             \
     (gpuring_describe_##name(&stage, comm, GPURING_VALUES_##list), true) && \
     gpuring_stage_applies(&stage))

#define DEFINE_BLOCKING(name, list)                                                \
    int gpuring_stage_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING)       \
    {                                                                              \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;    \
        struct gpuring_stage stage;                                                \
        int result;                                                                \
                                                                                   \
        if (!STAGED(name, list)) {                                                 \
            return GPURING_CALL_PREVIOUS(self, name, GPURING_VALUES_##list, comm); \
        }                                                                          \
        result = gpuring_stage_open(&stage, self, GPURING_STAGED_##name);          \
        if (result != MPI_SUCCESS) {                                               \
            return result;                                                         \
        }                                                                          \
        GPURING_REPLACE_##list;                                                    \
        result = GPURING_CALL_PREVIOUS(self, name, GPURING_VALUES_##list, comm);   \
        return gpuring_stage_close(&stage, result);                                \
    }

#define DEFINE_NONBLOCKING(name, list)                                                         \
    int gpuring_stage_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING)               \
    {                                                                                          \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                \
        ompi_request_t *inner = NULL;                                                          \
        struct gpuring_stage stage;                                                            \
        int result;                                                                            \
                                                                                               \
        if (!STAGED(name, list)) {                                                             \
            return GPURING_CALL_PREVIOUS(self, i##name, GPURING_VALUES_##list, comm, request); \
        }                                                                                      \
        result = gpuring_stage_open(&stage, self, GPURING_STAGED_##name);                      \
        if (result != MPI_SUCCESS) {                                                           \
            return result;                                                                     \
        }                                                                                      \
        GPURING_REPLACE_##list;                                                                \
        result = GPURING_CALL_PREVIOUS(self, i##name, GPURING_VALUES_##list, comm, &inner);    \
        return gpuring_stage_request(&stage, self, result, inner, request);                    \
    }

#define DEFINE_PERSISTENT(name, list)                                                            \
    int gpuring_stage_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT)            \
    {                                                                                            \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                  \
        ompi_request_t *inner = NULL;                                                            \
        struct gpuring_stage stage;                                                              \
        int result;                                                                              \
                                                                                                 \
        if (!STAGED(name, list)) {                                                               \
            return GPURING_CALL_PREVIOUS(self, name##_init, GPURING_VALUES_##list, comm, info,   \
                                         request);                                               \
        }                                                                                        \
        result = gpuring_stage_prepare(&stage, self, GPURING_STAGED_##name);                     \
        if (result != MPI_SUCCESS) {                                                             \
            return result;                                                                       \
        }                                                                                        \
        GPURING_REPLACE_##list;                                                                  \
        result =                                                                                 \
            GPURING_CALL_PREVIOUS(self, name##_init, GPURING_VALUES_##list, comm, info, &inner); \
        return gpuring_stage_request(&stage, self, result, inner, request);                      \
    }

GPURING_STAGED_COLLECTIVES(DEFINE_BLOCKING)
GPURING_STAGED_COLLECTIVES(DEFINE_NONBLOCKING)
GPURING_STAGED_COLLECTIVES(DEFINE_PERSISTENT)

/* Not a collective, but of the same table: of MPI_COMM_SELF. */
int gpuring_stage_reduce_local(const void *sbuf, void *rbuf, gpuring_count_t count,
                               struct ompi_datatype_t *type, struct ompi_op_t *op,
                               mca_coll_base_module_t *module)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_part all = gpuring_part_whole((size_t) count, type);
    struct gpuring_stage stage = {
        .send = {.user = sbuf, .place = sbuf, .in = all},
        .receive = {.user = rbuf, .place = rbuf, .in = all, .out = all},
    };
    int result;

    if (!gpuring_memory_possible() || !gpuring_stage_applies(&stage)) {
        return GPURING_CALL_PREVIOUS(self, reduce_local, sbuf, rbuf, count, type, op);
    }
    result = gpuring_stage_open(&stage, self, GPURING_STAGED_reduce_local);
    if (result != MPI_SUCCESS) {
        return result;
    }
    GPURING_REPLACE_BOTH;
    result = GPURING_CALL_PREVIOUS(self, reduce_local, sbuf, rbuf, count, type, op);
    return gpuring_stage_close(&stage, result);
}
