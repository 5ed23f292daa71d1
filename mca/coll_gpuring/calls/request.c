/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/calls/request.h"

#include "mca/coll_gpuring/calls/describe.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_request_delegated(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                               enum gpuring_reason reason)
{
    const struct gpuring_served *served = gpuring_served_of(what);

    gpuring_serve_delegated(module, reason);
    if (what == GPURING_STAGED_allreduce || served->reduces) {
        gpuring_serve_order_lost(module, reason, served->reduces ? served->name : "MPI_Allreduce");
    }
}

/* A call that is served, by its item, or delegated, as a staged one. */
struct queued_request {
    struct gpuring_stage_request stage;
    struct gpuring_item item;
    enum gpuring_staged what;
    struct gpuring_arguments arguments;
    bool counted; /* as a delegated call */
};
typedef struct queued_request queued_request_t;
static OBJ_CLASS_INSTANCE(queued_request_t, ompi_request_t, NULL, NULL);

static ompi_request_t *base(queued_request_t *self)
{
    return &self->stage.super.super;
}

/* Of a call that was served, or that could not be delegated. May end in a user's callback, or free
 * the communicator. */
static void complete(struct gpuring_item *item)
{
    queued_request_t *self = GPURING_LIST_ENTRY(item, queued_request_t, item);
    struct ompi_communicator_t *comm = item->module->comm;

    gpuring_call_release(&item->call);
    base(self)->req_status.MPI_ERROR = self->stage.outcome != MPI_SUCCESS
                                           ? self->stage.outcome
                                           : gpuring_compat_error(item->status);
    ompi_request_complete(base(self), true);
    OBJ_RELEASE(comm);
}

static int delegate(struct gpuring_item *item)
{
    queued_request_t *self = GPURING_LIST_ENTRY(item, queued_request_t, item);
    int result;

    gpuring_call_release(&item->call);
    if (!self->counted) {
        gpuring_request_delegated(item->module, self->what, item->reason);
    }
    result = gpuring_stage_later(&self->stage, item->module, self->what, &self->arguments);
    if (result == MPI_SUCCESS) {
        return GPURING_OK;
    }
    self->stage.outcome = result;
    return GPURING_ERR_NOMEM; /* the outcome says it better */
}

/* Is a call as good as served? */
static bool is_decided(const mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       enum gpuring_reason reason)
{
    struct gpuring_circumstances known = gpuring_serve_look(module, call);

    known.reason = reason;
    known.busy = false;
    return gpuring_decide(&known, &reason) == GPURING_RUN;
}

static int queue_call(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                      const struct gpuring_arguments *arguments, const struct gpuring_call *call,
                      enum gpuring_reason reason, ompi_request_t **request)
{
    queued_request_t *self = OBJ_NEW(queued_request_t);

    if (self == NULL) {
        (void) gpuring_stage_log_memory(module, what, sizeof *self);
        return MPI_ERR_NO_MEM;
    }
    gpuring_request_construct(&self->stage.super, module->comm, false, gpuring_request_free, NULL);
    self->stage.outcome = MPI_SUCCESS;
    self->what = what;
    self->counted = reason != GPURING_REASON_NONE;
    self->arguments = *arguments;
    self->item = (struct gpuring_item){
        .module = module,
        .call = *call,
        .form = GPURING_FORM_CALL,
        .complete = complete,
        .delegate = is_decided(module, call, reason) ? NULL : delegate,
        .reason = reason,
    };
    *request = base(self);
    OBJ_RETAIN(module->comm); /* until it is complete */
    gpuring_request_activate(base(self));
    gpuring_progress_start(&self->item);
    return MPI_SUCCESS;
}

int gpuring_request_behind(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                           const struct gpuring_arguments *arguments, ompi_request_t **request)
{
    return queue_call(module, what, arguments, &(struct gpuring_call){.memory = NULL},
                      GPURING_REASON_MEMORY, request);
}

static int delegate_request(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                            enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                            enum gpuring_reason reason, struct ompi_info_t *info,
                            ompi_request_t **request)
{
    gpuring_request_delegated(module, what, reason);
    if (gpuring_request_waits(module)) {
        if (form == GPURING_NONBLOCKING) {
            return gpuring_request_behind(module, what, arguments, request);
        }
        gpuring_progress_decide(module);
    }
    return gpuring_request_on_host(reason)
               ? gpuring_stage_call_previous(module, what, form, arguments, info, request)
               : gpuring_stage_request(module, what, form, arguments, info, request);
}

/* Wait until it is known whether a persistent call can be served; *reason: why it cannot. */
static int decide_persistent(mca_coll_gpuring_module_t *module, struct gpuring_call *call,
                             enum gpuring_reason *reason)
{
    int status = gpuring_progress_call(module, call, GPURING_FORM_MAKE, reason);

    module->serve->all_ready = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE) != NULL;
    call->vote = 0;
    call->agree = false;
    return status;
}

int gpuring_request_call(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                         enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                         struct gpuring_call *call, enum gpuring_reason reason,
                         struct ompi_info_t *info, ompi_request_t **request)
{
    int status = GPURING_OK;

    if (reason == GPURING_REASON_NONE && module->state == GPURING_STATE_FAILED) {
        status = module->failure;
    } else if (reason == GPURING_REASON_NONE && form == GPURING_NONBLOCKING) {
        return queue_call(module, what, arguments, call, reason, request);
    } else if (reason == GPURING_REASON_NONE) {
        status = decide_persistent(module, call, &reason);
        if (status == GPURING_OK && reason == GPURING_REASON_NONE) {
            return gpuring_serve_persistent(module, call, request);
        }
    }
    gpuring_call_release(call);
    return status != GPURING_OK
               ? gpuring_compat_error(status)
               : delegate_request(module, what, form, arguments, reason, info, request);
}

/* ---- Functions that are replaced for this alone ---- */

#define FIELD(argument) .argument = argument

#define DEFINE(name, list)                                                                        \
    int mca_coll_gpuring_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING)               \
    {                                                                                             \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                   \
                                                                                                  \
        if (gpuring_request_waits(self)) {                                                        \
            struct gpuring_arguments a = {GPURING_NAMES_##list(FIELD), .comm = comm};             \
                                                                                                  \
            return gpuring_request_behind(self, GPURING_STAGED_##name, &a, request);              \
        }                                                                                         \
        return gpuring_stage_i##name(GPURING_NAMES_##list(GPURING_VALUE), comm, request, module); \
    }                                                                                             \
    int mca_coll_gpuring_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT)          \
    {                                                                                             \
        gpuring_progress_decide((mca_coll_gpuring_module_t *) module);                            \
        return gpuring_stage_##name##_init(GPURING_NAMES_##list(GPURING_VALUE), comm, info,       \
                                           request, module);                                      \
    }
GPURING_NEIGHBOR_COLLECTIVES(DEFINE)

int mca_coll_gpuring_ibarrier(GPURING_END_NONBLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;

    if (gpuring_request_waits(self)) {
        return gpuring_request_behind(self, GPURING_STAGED_barrier,
                                      &(struct gpuring_arguments){.comm = comm}, request);
    }
    return GPURING_CALL_PREVIOUS(self, ibarrier, comm, request);
}

int mca_coll_gpuring_barrier_init(GPURING_END_PERSISTENT)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;

    gpuring_progress_decide(self);
    return GPURING_CALL_PREVIOUS(self, barrier_init, comm, info, request);
}
