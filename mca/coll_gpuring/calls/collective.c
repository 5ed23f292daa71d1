/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions in Open MPI's tables, three for each collective. They describe the call, decide
 * whether it is served, and run, queue or delegate it. This file has the blocking calls. Calls with
 * a request are in calls_request.c.
 */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/util/status.h"

typedef mca_coll_gpuring_module_t module_t;

/* Vote in a call in which some ranks may use GPU buffers and others host buffers. Returns NONE, or
 * the reason for delegating it. The ranks vote in every call in which all of them are able to. */
static enum gpuring_reason vote(module_t *self, struct gpuring_call *call,
                                enum gpuring_reason reason, bool lasting)
{
    if (reason != GPURING_REASON_NONE && reason != GPURING_REASON_MEMORY) {
        return reason;
    }
    if (call->count == 0 || !gpuring_type_info(call->type)->device ||
        !gpuring_vote_possible(self, self->calls)) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_UNKNOWN : reason;
    }
    /* Before all ranks are connected, some may not know which sizes are delegated. */
    if (self->serve->all_ready && gpuring_serve_select(self, call) && call->choice.delegated) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_TUNED : reason;
    }
    return gpuring_vote_cast(self, call, lasting);
}

enum gpuring_reason gpuring_call_begin(module_t *self, enum gpuring_staged what,
                                       enum gpuring_form form, const struct gpuring_arguments *a,
                                       struct gpuring_call **call, int *status)
{
    const struct gpuring_served *served = gpuring_served_of(what);
    bool decide = gpuring_buffers_decide(), votes = served->votes && decide;
    enum gpuring_reason reason;

    *status = GPURING_OK;
    if (votes && !served->reduces && !gpuring_vote_possible(self, self->calls)) {
        (*call)->memory = NULL;
        return GPURING_REASON_UNKNOWN; /* independent of where the buffers are */
    }
    reason = gpuring_call_describe(self, what, a, call, status);
    if (votes) {
        return *status == GPURING_OK ? vote(self, *call, reason, form == GPURING_PERSISTENT)
                                     : reason;
    }
    if (decide && form != GPURING_PERSISTENT) {
        gpuring_mixed_memory_note(self, reason, *call);
    }
    return reason;
}

void gpuring_call_delegated(module_t *self, enum gpuring_staged what, enum gpuring_reason reason)
{
    const struct gpuring_served *served = gpuring_served_of(what);

    gpuring_serve_delegated(self, reason);
    if (served->reduces) {
        gpuring_serve_order_lost(self, reason, served->name);
    }
}

static int blocking(module_t *self, enum gpuring_staged what, struct gpuring_arguments *a)
{
    struct gpuring_call room, *call = &room;
    enum gpuring_reason reason;
    int status, delegated;

    if (!gpuring_call_is_served(self, what)) {
        return gpuring_stage_blocking(self, what, a);
    }
    self->calls++;
    reason = gpuring_call_begin(self, what, GPURING_BLOCKING, a, &call, &status);
    if (reason == GPURING_REASON_NONE && status == GPURING_OK) {
        status = gpuring_serve_blocking(self, call, &reason);
    }
    gpuring_call_release(call);
    if (OPAL_LIKELY(reason == GPURING_REASON_NONE)) {
        return OPAL_LIKELY(status == GPURING_OK) ? MPI_SUCCESS : gpuring_compat_error(status);
    }
    gpuring_call_delegated(self, what, reason);
    delegated = gpuring_reason_on_host(reason)
                    ? gpuring_stage_call_previous(self, what, GPURING_BLOCKING, a, NULL, NULL)
                    : gpuring_stage_blocking(self, what, a);
    return status == GPURING_OK ? delegated : gpuring_compat_error(status);
}

static int call(module_t *self, enum gpuring_staged what, enum gpuring_form form,
                struct gpuring_arguments *a, struct ompi_info_t *info, ompi_request_t **request)
{
    return form == GPURING_BLOCKING ? blocking(self, what, a)
                                    : gpuring_call_request(self, what, form, a, info, request);
}

/* Count a call that is delegated because this process cannot have GPU memory now. */
static void count_idle(module_t *self, enum gpuring_staged what)
{
    if (gpuring_call_is_served(self, what)) {
        self->calls++;
        gpuring_serve_delegated(self, GPURING_REASON_NO_DRIVER);
    }
}

#define FIELD(type, name) .name = name

#define ENTRY(function, name, list, form, info, request, ...)                                  \
    int mca_coll_gpuring_##function(GPURING_LIST_##list(GPURING_ARGUMENT), GPURING_END_##form) \
    {                                                                                          \
        module_t *self = (module_t *) module;                                                  \
                                                                                               \
        if (GPURING_##form != GPURING_BLOCKING ||                                              \
            !gpuring_call_bypasses(self, GPURING_STAGED_##name, self->calls + 1)) {            \
            struct gpuring_arguments a = {GPURING_LIST_##list(FIELD), .comm = comm};           \
                                                                                               \
            return call(self, GPURING_STAGED_##name, GPURING_##form, &a, info, request);       \
        }                                                                                      \
        count_idle(self, GPURING_STAGED_##name);                                               \
        return GPURING_CALL_PREVIOUS(self, function, GPURING_LIST_##list(GPURING_VALUE),       \
                                     __VA_ARGS__);                                             \
    }
#define ENTRIES(name, list)                                               \
    ENTRY(name, name, list, BLOCKING, NULL, NULL, comm)                   \
    ENTRY(i##name, name, list, NONBLOCKING, NULL, request, comm, request) \
    ENTRY(name##_init, name, list, PERSISTENT, info, request, comm, info, request)
GPURING_STAGED_COLLECTIVES(ENTRIES)

/*
 * Barriers have no buffers. A GPU would not make them faster, and between nodes the messages of the
 * previous module are faster than those of a progress thread. Therefore barriers are delegated,
 * except with coll_gpuring_device=host on one node after another call has connected the ranks. In
 * both cases a non-blocking barrier keeps its place in the order of calls.
 */
static bool serves_barrier(const module_t *self)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST && self->serve != NULL &&
           gpuring_can_vote_locally(self);
}

int mca_coll_gpuring_barrier(GPURING_END_BLOCKING)
{
    module_t *self = (module_t *) module;

    return serves_barrier(self)
               ? blocking(self, GPURING_STAGED_barrier, &(struct gpuring_arguments){.comm = comm})
               : GPURING_CALL_PREVIOUS(self, barrier, comm);
}

static int barrier_request(module_t *self, enum gpuring_form form, struct ompi_communicator_t *comm,
                           struct ompi_info_t *info, ompi_request_t **request)
{
    struct gpuring_arguments a = {.comm = comm};

    return serves_barrier(self)
               ? gpuring_call_request(self, GPURING_STAGED_barrier, form, &a, info, request)
               : gpuring_call_delegate(self, GPURING_STAGED_barrier, form, &a,
                                       GPURING_REASON_MEMORY, info, request);
}

int mca_coll_gpuring_ibarrier(GPURING_END_NONBLOCKING)
{
    return barrier_request((module_t *) module, GPURING_NONBLOCKING, comm, NULL, request);
}

int mca_coll_gpuring_barrier_init(GPURING_END_PERSISTENT)
{
    return barrier_request((module_t *) module, GPURING_PERSISTENT, comm, info, request);
}

/* MPI_Reduce_local is not a collective, but Open MPI calls it through the table of MPI_COMM_SELF.
 */
int mca_coll_gpuring_reduce_local(GPURING_LIST_REDUCTION(GPURING_ARGUMENT),
                                  mca_coll_base_module_t *module)
{
    module_t *self = (module_t *) module;

    if (gpuring_memory_possible()) {
        struct gpuring_arguments a = {GPURING_LIST_REDUCTION(FIELD)};

        return gpuring_stage_blocking(self, GPURING_STAGED_reduce_local, &a);
    }
    return GPURING_CALL_PREVIOUS(self, reduce_local, GPURING_LIST_REDUCTION(GPURING_VALUE));
}
