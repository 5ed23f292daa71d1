/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/engine/mapping.h"
#include "mca/coll_gpuring/util/status.h"

/* The request of a non-blocking or persistent call. `item` performs the call if it is served, and
 * `stage` if it is delegated. A persistent call that has this kind of request is always served. */
struct queued_request {
    struct gpuring_stage_request stage;
    struct gpuring_item item;
    struct gpuring_description description; /* of a call that may be delegated later */
    bool already_counted;                   /* the pvar `fallbacks` already includes the call */
};
typedef struct queued_request queued_request_t;
static OBJ_CLASS_INSTANCE(queued_request_t, ompi_request_t, NULL, NULL);

static ompi_request_t *queued_base(queued_request_t *self)
{
    return &self->stage.super.super;
}

static int request_free(ompi_request_t **request)
{
    queued_request_t *self = (queued_request_t *) *request;

    if ((*request)->req_persistent && REQUEST_COMPLETE(*request)) {
        mca_coll_gpuring_module_t *owner = self->item.module->owner;

        gpuring_call_release(&self->item.call);
        gpuring_mapping_free(self->item.call.mapping);
        gpuring_module_enter(owner);
        gpuring_track_leave(self->item.module);
        gpuring_module_leave(owner); /* a failed module is released if this was its last call */
    }
    return gpuring_request_free(request);
}

/* Complete the request of a call that was served, or that could not be delegated. This may call a
 * user's callback or free the communicator. */
static void queued_complete(struct gpuring_item *item)
{
    queued_request_t *self = GPURING_LIST_ENTRY(item, queued_request_t, item);
    struct ompi_communicator_t *comm = item->module->comm;

    if (!queued_base(self)->req_persistent) {
        gpuring_call_release(&item->call);
    }
    queued_base(self)->req_status.MPI_ERROR = self->stage.outcome != MPI_SUCCESS
                                                  ? self->stage.outcome
                                                  : gpuring_compat_error(item->status);
    ompi_request_complete(queued_base(self), true);
    OBJ_RELEASE(comm);
}

/* Delegate the call. After an error, the item completes with that status. */
static int delegate(struct gpuring_item *item)
{
    queued_request_t *self = GPURING_LIST_ENTRY(item, queued_request_t, item);
    int result;

    gpuring_call_release(&item->call);
    if (!self->already_counted) {
        gpuring_call_delegated(item->module, self->description.what, item->reason);
    }
    result = gpuring_stage_later(&self->stage, &self->description);
    if (result == MPI_SUCCESS) {
        return GPURING_OK;
    }
    self->stage.outcome = result;
    return GPURING_ERR_NOMEM; /* queued_complete() returns `outcome` instead, which is more exact */
}

static void queued_activate(queued_request_t *self)
{
    OBJ_RETAIN(self->item.module->comm); /* until it is complete */
    gpuring_request_activate(queued_base(self));
}

/* Called by MPI_Start and MPI_Startall. MPI_Start of Open MPI 4.1 may pass an active request. */
static int request_restart(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        if (!REQUEST_COMPLETE(requests[i])) {
            return MPI_ERR_REQUEST;
        }
        queued_activate((queued_request_t *) requests[i]);
        gpuring_progress_start(&((queued_request_t *) requests[i])->item, GPURING_PHASE_QUEUED);
    }
    return OMPI_SUCCESS;
}

/* Create a request that is not started. Return NULL if memory is exhausted (logged). */
static queued_request_t *queued_create(const struct gpuring_description *d, enum gpuring_form form,
                                       const struct gpuring_call *call)
{
    queued_request_t *self = OBJ_NEW(queued_request_t);

    if (self == NULL) {
        (void) gpuring_stage_log_memory(d->module, d->what, sizeof *self);
        return NULL;
    }
    gpuring_request_construct(&self->stage.super, d->module->comm, d->form == GPURING_PERSISTENT,
                              request_free, request_restart);
    self->stage.outcome = MPI_SUCCESS;
    self->item = (struct gpuring_item){
        .module = d->module, .call = *call, .complete = queued_complete, .form = form};
    return self;
}

static int queue_call(const struct gpuring_description *d, struct gpuring_call *call,
                      const struct gpuring_pending *pending, enum gpuring_reason reason,
                      bool may_be_delegated, ompi_request_t **request)
{
    queued_request_t *self = queued_create(d, GPURING_NONBLOCKING, call);

    if (self == NULL) {
        gpuring_call_release(call);
        return MPI_ERR_NO_MEM;
    }
    self->already_counted = reason != GPURING_REASON_NONE;
    self->item.pending = *pending;
    self->item.reason = reason;
    if (may_be_delegated) {
        self->description = *d;
        self->item.delegate = delegate;
    }
    *request = queued_base(self);
    queued_activate(self);
    gpuring_progress_start(&self->item, GPURING_PHASE_QUEUED);
    return MPI_SUCCESS;
}

/* Make the request of a call that has already been started. status: the result of starting it. */
static int request_started(const struct gpuring_description *d, struct gpuring_call *call,
                           const struct gpuring_pending *pending, int status,
                           ompi_request_t **request)
{
    queued_request_t *self = queued_create(d, GPURING_NONBLOCKING, call);

    if (self == NULL) { /* the other ranks wait for this one */
        gpuring_module_fail(d->module, GPURING_ERR_NOMEM);
        gpuring_call_release(call);
        return MPI_ERR_NO_MEM;
    }
    self->item.pending = *pending;
    *request = queued_base(self);
    queued_activate(self);
    if (status == GPURING_AGAIN) {
        gpuring_progress_start(&self->item, GPURING_PHASE_RUNNING);
    } else {
        self->item.status = status;
        queued_complete(&self->item);
    }
    return MPI_SUCCESS;
}

/*
 * Make a non-blocking call that is served as far as this rank knows. If no other call is before it,
 * start it immediately. Most small calls end there, and return the request that Open MPI shares
 * among completed calls. Some versions of Open MPI store references to user-defined types in any
 * request, even beyond the end of the shared one. Calls with a kept shape have no such types.
 */
static int nonblocking_call(const struct gpuring_description *d, struct gpuring_call *call,
                            const struct gpuring_pending *pending, ompi_request_t **request)
{
    mca_coll_gpuring_module_t *module = d->module;
    enum gpuring_reason reason = GPURING_REASON_NONE;
    bool runs = gpuring_serve_decide(module, call, pending, GPURING_NONBLOCKING, false, &reason) ==
                GPURING_RUN;
    int status;

    if (!runs || gpuring_serve_busy(module->serve)) {
        /* A call that only waits for the calls before it cannot be delegated. */
        return queue_call(d, call, pending, GPURING_REASON_NONE, !runs, request);
    }
    status = gpuring_execute_call(module, call, GPURING_NONBLOCKING, pending->number);
    if (status == GPURING_OK && call->shape != 0) {
        *request = &ompi_request_empty;
        return MPI_SUCCESS;
    }
    return request_started(d, call, pending, status, request);
}

/* Make the request of a persistent call that has a track. It owns the mapping. */
static int persistent_call(const struct gpuring_description *d, struct gpuring_call *call,
                           mca_coll_gpuring_module_t *track, struct gpuring_mapping *mapping,
                           ompi_request_t **request)
{
    queued_request_t *self = queued_create(d, GPURING_STARTED, call);

    if (self == NULL) {
        gpuring_mapping_free(mapping);
        gpuring_track_leave(track);
        gpuring_call_release(call);
        return MPI_ERR_NO_MEM;
    }
    self->item.module = track;
    self->item.call.mapping = mapping;
    self->item.call.selected = false;        /* the track has its own connections */
    if (d->what == GPURING_STAGED_barrier) { /* barriers on different tracks run at the same time */
        self->item.call.output = &track->serve->barrier_byte;
        self->item.call.input = self->item.call.output;
    }
    *request = queued_base(self);
    return MPI_SUCCESS;
}

/* Return true if a delegated call must wait because an earlier call may still be delegated. */
static bool waits(const mca_coll_gpuring_module_t *module)
{
    return module->serve != NULL && OPAL_UNLIKELY(gpuring_queue_undecided(&module->serve->queue));
}

int gpuring_call_delegate(struct gpuring_description *d, enum gpuring_reason reason,
                          ompi_request_t **request)
{
    if (waits(d->module)) {
        if (d->form == GPURING_NONBLOCKING) {
            return queue_call(d, &(struct gpuring_call){.memory = NULL},
                              &(struct gpuring_pending){.number = 0}, GPURING_REASON_MEMORY, true,
                              request);
        }
        gpuring_progress_decide(d->module);
    }
    return gpuring_reason_on_host(reason) ? gpuring_stage_call_previous(d, request)
                                          : gpuring_stage_request(d, request);
}

/* Wait until this rank knows whether a persistent call can be served, and get a track for it. Sets
 * *reason to NONE, or to the reason that it cannot. Returns a gpuring_status. */
static int decide_persistent(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                             struct gpuring_pending *pending, enum gpuring_reason *reason,
                             mca_coll_gpuring_module_t **track, struct gpuring_mapping **mapping)
{
    int status = gpuring_progress_call(module, call, pending, GPURING_PERSISTENT, reason);

    if (*reason != GPURING_REASON_NONE || status != GPURING_OK) {
        return status;
    }
    module->agree.connected = true;
    return gpuring_track_take(module, call, track, mapping, reason);
}

/* Return true if Open MPI itself may have made this non-blocking call. Such calls have no place in
 * the program's order of calls. They are delegated without being counted, which is safe because the
 * previous module does not match non-blocking calls with blocking ones. */
static bool is_internal(const struct gpuring_description *d)
{
    const struct gpuring_arguments *a = &d->arguments;
    enum gpuring_staged what = d->what;

    return what == GPURING_STAGED_bcast ? gpuring_compat_internal_bcast(a->rcount, a->rtype)
           : what == GPURING_STAGED_allreduce || what == GPURING_STAGED_reduce
               ? gpuring_compat_internal(a->rcount, a->rtype, a->op)
               : false;
}

/* Make a call with a request. Sets *request unless it returns an error. */
static int call_request(struct gpuring_description *d, ompi_request_t **request)
{
    mca_coll_gpuring_module_t *module = d->module;
    bool counts = gpuring_call_is_served(module, d->what) &&
                  (d->form != GPURING_NONBLOCKING || !is_internal(d));
    enum gpuring_reason reason =
        gpuring_eligible_any() ? GPURING_REASON_UNKNOWN : GPURING_REASON_NO_DRIVER;
    struct gpuring_call room = {.memory = NULL}, *call = &room;
    struct gpuring_mapping *mapping;
    mca_coll_gpuring_module_t *track;
    struct gpuring_pending pending;
    int status = GPURING_OK;

    if (counts) {
        module->calls += d->form == GPURING_NONBLOCKING;
        if (!gpuring_call_bypasses(module, d->what, gpuring_agree_number(module, d->form))) {
            reason = gpuring_call_begin(d, &call, &pending, &status);
        }
    }
    if (status == GPURING_OK && reason == GPURING_REASON_NONE) {
        if (module->state == GPURING_STATE_FAILED) {
            status = module->failure;
        } else if (d->form == GPURING_NONBLOCKING) {
            return nonblocking_call(d, call, &pending, request);
        } else {
            status = decide_persistent(module, call, &pending, &reason, &track, &mapping);
            if (status == GPURING_OK && reason == GPURING_REASON_NONE) {
                return persistent_call(d, call, track, mapping, request);
            }
        }
    }
    gpuring_call_release(call);
    if (status != GPURING_OK) {
        return gpuring_compat_error(status);
    }
    if (counts) {
        gpuring_call_delegated(module, d->what, reason);
    }
    return gpuring_call_delegate(d, reason, request);
}

int gpuring_call_request(struct gpuring_description *d, ompi_request_t **request)
{
    int code = call_request(d, request);

    if (code != MPI_SUCCESS) {
        *request = MPI_REQUEST_NULL; /* so that a program can wait for it in spite of the error */
    }
    return code;
}
