/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Non-blocking and persistent staged calls. A task (progress/task.h) advances them. The
 * user's request holds the previous module's request, which uses the bounce buffers. Its phases:
 *
 *     IDLE       a persistent call that is not active
 *     CALLING    until the previous module's request is complete
 *     COPYING    until the result is in the user's buffer
 *
 * Copying in ends before the previous module's function or its start is called. It cannot overlap
 * with the application, because MPI matches the calls of different ranks by their order.
 */
#include "mca/coll_gpuring/stage/stage_call.h"
#include "mca/coll_gpuring/util/status.h"

typedef struct gpuring_stage_request stage_request_t;
static OBJ_CLASS_INSTANCE(stage_request_t, ompi_request_t, NULL, NULL);

static ompi_request_t *stage_base(stage_request_t *self)
{
    return &self->super.super;
}

/* End the previous module's request, which is complete, and start to copy its result out. Returns a
 * gpuring_status. */
static int end_inner(stage_request_t *self)
{
    self->outcome = self->inner->req_status.MPI_ERROR;
    if (self->inner->req_persistent) {
        self->inner->req_state = OMPI_REQUEST_INACTIVE;
    }
    if (!stage_base(self)->req_persistent) {
        ompi_request_free(&self->inner);
    }
    self->phase = GPURING_STAGE_COPYING;
    return self->outcome == MPI_SUCCESS ? gpuring_stage_copy_out(&self->stage, false) : GPURING_OK;
}

/* Advance a call. Returns true when it is done. A persistent call keeps its bounce buffers for the
 * next start. */
static bool advance_request(struct gpuring_task *task, struct gpuring_list *items)
{
    stage_request_t *self = GPURING_LIST_ENTRY(task, stage_request_t, stage.task);
    int status = GPURING_OK;

    (void) items;
    gpuring_stage_watch(&self->stage);
    if (self->phase == GPURING_STAGE_CALLING) {
        if (!gpuring_request_done(self->inner)) {
            return false;
        }
        status = end_inner(self);
    }
    if (status == GPURING_OK) {
        status = gpuring_stage_poll_out(&self->stage);
    }
    if (status == GPURING_AGAIN) {
        return false;
    }
    if (self->outcome == MPI_SUCCESS) {
        self->outcome = gpuring_compat_error(status);
    }
    self->phase = GPURING_STAGE_IDLE;
    if (stage_base(self)->req_persistent) {
        gpuring_stage_rest(&self->stage);
    } else {
        gpuring_stage_release(&self->stage);
    }
    return true;
}

/* Complete the request. This may call a user's callback or free the communicator. */
static void complete_request(struct gpuring_task *task, struct gpuring_list *items)
{
    stage_request_t *self = GPURING_LIST_ENTRY(task, stage_request_t, stage.task);
    struct ompi_communicator_t *comm = stage_base(self)->req_mpi_object.comm;

    (void) items;
    stage_base(self)->req_status.MPI_ERROR = self->outcome;
    ompi_request_complete(stage_base(self), true);
    OBJ_RELEASE(comm); /* retained when the request became active */
}

/* Record that the previous module has started the call. */
static void called(stage_request_t *self)
{
    self->phase = GPURING_STAGE_CALLING;
    gpuring_stage_wait_begin(&self->stage, advance_request, complete_request);
}

static void stage_activate(stage_request_t *self)
{
    gpuring_request_activate(stage_base(self));
    OBJ_RETAIN(stage_base(self)->req_mpi_object.comm); /* until it is complete */
    called(self);
}

/* Start a persistent call again. If the previous module's start fails, report the error in the
 * request, because MPI_Startall ignores the return values of start functions. */
static void restart(stage_request_t *self)
{
    int result = MPI_SUCCESS;

    gpuring_stage_copy_in(&self->stage);
    /* A module that has nothing to do for a call returns a request without functions. */
    if (self->inner->req_type != OMPI_REQUEST_NOOP) {
        result = self->inner->req_start(1, &self->inner);
    }
    if (result == MPI_SUCCESS) {
        stage_activate(self);
    } else {
        gpuring_stage_rest(&self->stage);
        gpuring_request_activate(stage_base(self));
        stage_base(self)->req_status.MPI_ERROR = result;
        stage_base(self)->req_complete = REQUEST_COMPLETED;
    }
}

/* Called by MPI_Start and MPI_Startall. MPI_Start of Open MPI 4.1 may pass an active request. */
static int request_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        if (!REQUEST_COMPLETE(requests[i])) {
            return MPI_ERR_REQUEST;
        }
        restart((stage_request_t *) requests[i]);
    }
    return OMPI_SUCCESS;
}

static int request_free(ompi_request_t **request)
{
    stage_request_t *self = (stage_request_t *) *request;

    if ((*request)->req_persistent && REQUEST_COMPLETE(*request)) {
        ompi_request_free(&self->inner);
        gpuring_stage_release(&self->stage);
    }
    return gpuring_request_free(request);
}

/* Copy in, and call the previous module. Returns an MPI error code. */
static int stage_begin(stage_request_t *self, struct gpuring_description *d)
{
    int result;

    self->outcome = MPI_SUCCESS;
    self->phase = GPURING_STAGE_IDLE;
    if (self->stage.gpu != NULL && d->form == GPURING_NONBLOCKING) {
        gpuring_stage_copy_in(&self->stage);
    }
    result = gpuring_stage_call_previous(d, &self->inner);
    if (result != MPI_SUCCESS) {
        gpuring_stage_release(&self->stage);
    }
    return result;
}

int gpuring_stage_request(struct gpuring_description *d, ompi_request_t **request)
{
    struct gpuring_stage stage;
    stage_request_t *self;
    int result;

    if (gpuring_stage_begin(&stage, d) != GPURING_OK) {
        return MPI_ERR_NO_MEM;
    }
    if (stage.gpu == NULL) {
        return gpuring_stage_call_previous(d, request);
    }
    self = OBJ_NEW(stage_request_t);
    if (self == NULL) {
        gpuring_stage_release(&stage);
        (void) gpuring_stage_log_memory(d->module, d->what, sizeof *self);
        return MPI_ERR_NO_MEM;
    }
    self->stage = stage;
    result = stage_begin(self, d);
    if (result != MPI_SUCCESS) {
        OBJ_RELEASE(self);
        return result;
    }
    gpuring_request_construct(&self->super, d->module->comm, d->form == GPURING_PERSISTENT,
                              request_free, request_start);
    if (d->form == GPURING_NONBLOCKING) {
        stage_activate(self);
    }
    *request = stage_base(self);
    return MPI_SUCCESS;
}

int gpuring_stage_later(stage_request_t *self, struct gpuring_description *d)
{
    int result;

    if (gpuring_stage_begin(&self->stage, d) != GPURING_OK) {
        return MPI_ERR_NO_MEM;
    }
    result = stage_begin(self, d);
    if (result == MPI_SUCCESS) {
        called(self);
    }
    return result;
}
