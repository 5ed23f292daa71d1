/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The functions that stand in Open MPI's tables, three for each collective. */
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/stage/abandon.h"
#include "mca/coll_gpuring/stage/stage.h"

/* Describe the call; true if it is to be staged, or all ranks are to agree on whether it is. */
#define STAGED(name, list)                                                   \
    (OPAL_UNLIKELY(gpuring_memory_possible() || self->together) &&           \
     (gpuring_describe_##name(&stage, comm, GPURING_VALUES_##list), true) && \
     (gpuring_stage_applies(&stage) || self->together))

/* What differs between the forms: a request, the arguments behind the list, how a call ends. */
#define LOCALS_BLOCKING
#define LOCALS_NONBLOCKING ompi_request_t *inner = NULL;
#define LOCALS_PERSISTENT  LOCALS_NONBLOCKING

#define REST_BLOCKING(request)    comm
#define REST_NONBLOCKING(request) comm, request
#define REST_PERSISTENT(request)  comm, info, request

#define OPEN_BLOCKING    gpuring_stage_open
#define OPEN_NONBLOCKING gpuring_stage_open_nonblocking
#define OPEN_PERSISTENT  gpuring_stage_open_persistent

/* In place of the call, if this rank can take no part in it. */
#define SKIPS_BLOCKING(previous)
#define SKIPS_NONBLOCKING(previous) \
    OPAL_UNLIKELY(stage.absent) ? gpuring_stage_skip(&stage, previous, &inner):
#define SKIPS_PERSISTENT(previous) \
    OPAL_UNLIKELY(stage.absent) ? gpuring_stage_skip_init(&stage, previous, &inner):

/* Where the data is void: in a form of the call that can begin when the others know of that. */
#define DEFERS_BLOCKING(name, list)
#define DEFERS_PERSISTENT(name, list)
#define DEFERS_NONBLOCKING(name, list)                                          \
    OPAL_UNLIKELY(gpuring_stage_defers(&stage, self->previous.i##name##_module, \
                                       self->previous.name##_init_module))      \
    ? GPURING_CALL_PREVIOUS(self, name##_init, GPURING_VALUES_##list, comm, MPI_INFO_NULL, &inner):

#define COUNT_NONBLOCKING(name) \
    (gpuring_stage_count(self, GPURING_STAGED_##name), self->staging.apart = 0)
#define COUNT_PERSISTENT(name) COUNT_NONBLOCKING(name)
#define COUNT_BLOCKING(name)                                                            \
    (gpuring_stage_is_apart(comm, GPURING_STAGED_##name) ? (void) self->staging.apart++ \
                                                         : (void) COUNT_NONBLOCKING(name))

/* A call that is not staged here: its data may come from ranks where it is. */
#define BEGIN_BLOCKING const uint64_t number = gpuring_stage_calls(self);
#define BEGIN_NONBLOCKING
#define BEGIN_PERSISTENT
#define PASSED_BLOCKING(name)    gpuring_stage_passed(self, GPURING_STAGED_##name, number, result)
#define PASSED_NONBLOCKING(name) result
#define PASSED_PERSISTENT(name)  result

#define CLOSE_BLOCKING    gpuring_stage_close(&stage, result)
#define CLOSE_NONBLOCKING gpuring_stage_request(&stage, result, inner, request)
#define CLOSE_PERSISTENT  CLOSE_NONBLOCKING

#define DEFINE_FORM(function, name, list, FORM)                                                \
    int gpuring_stage_##function(GPURING_ARGUMENTS_##list, GPURING_END_##FORM)                 \
    {                                                                                          \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                \
        LOCALS_##FORM struct gpuring_stage stage;                                              \
        int result;                                                                            \
                                                                                               \
        COUNT_##FORM(name);                                                                    \
        if (!STAGED(name, list)) {                                                             \
            BEGIN_##FORM result = GPURING_CALL_PREVIOUS(self, function, GPURING_VALUES_##list, \
                                                        REST_##FORM(request));                 \
            return PASSED_##FORM(name);                                                        \
        }                                                                                      \
        result = OPEN_##FORM(&stage, self, GPURING_STAGED_##name);                             \
        if (result != MPI_SUCCESS) {                                                           \
            return result;                                                                     \
        }                                                                                      \
        GPURING_REPLACE_##list;                                                                \
        result = SKIPS_##FORM(self->previous.function##_module) DEFERS_##FORM(name, list)      \
            GPURING_CALL_PREVIOUS(self, function, GPURING_VALUES_##list, REST_##FORM(&inner)); \
        return CLOSE_##FORM;                                                                   \
    }

#define DEFINE(name, list)                        \
    DEFINE_FORM(name, name, list, BLOCKING)       \
    DEFINE_FORM(i##name, name, list, NONBLOCKING) \
    DEFINE_FORM(name##_init, name, list, PERSISTENT)

GPURING_STAGED_COLLECTIVES(DEFINE)

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
