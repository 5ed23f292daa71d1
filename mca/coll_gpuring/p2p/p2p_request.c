/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/p2p_request.h"

#include <sched.h>
#include <string.h>

#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static void p2p_activate(p2p_request_t *self)
{
    gpuring_request_activate(gpuring_p2p_base(self));
    self->status = gpuring_p2p_base(self)->req_status;
    self->super.req_pml_complete = false;
    self->finishing = false;
}

/* Start a request. Returns an MPI error code, with which the request has ended. */
static int p2p_start(p2p_request_t *self)
{
    int code;

    p2p_activate(self);
    code = gpuring_p2p_begin(self);
    if (code != MPI_SUCCESS) {
        self->status.MPI_ERROR = code;
        gpuring_p2p_end(self);
    }
    return code;
}

/* For MPI_Start and MPI_Startall. MPI_Startall ignores the result, so errors are set in the
 * request. */
static int request_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        (void) p2p_start((p2p_request_t *) requests[i]);
    }
    return MPI_SUCCESS;
}

/* Wait until the PML has the message, so that the PML can cancel or free its request. */
static void wait_issued(p2p_request_t *self)
{
    /* Partner: the release store of the next phase. */
    while (__atomic_load_n(&self->phase, __ATOMIC_ACQUIRE) == P2P_COPYING_IN) {
        opal_progress();
    }
}

static int request_cancel(ompi_request_t *request, int flag)
{
    p2p_request_t *self = (p2p_request_t *) request;
    int code = MPI_SUCCESS;

    wait_issued(self);
    pthread_mutex_lock(&gpuring_p2p.lock);
    if (self->inner != MPI_REQUEST_NULL && self->inner->req_cancel != NULL) {
        code = self->inner->req_cancel(self->inner, flag);
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return code;
}

static int request_free(ompi_request_t **request)
{
    p2p_request_t *self = (p2p_request_t *) *request;

    *request = MPI_REQUEST_NULL;
    wait_issued(self);
    pthread_mutex_lock(&gpuring_p2p.lock);
    if (!REQUEST_COMPLETE(gpuring_p2p_base(self)) && !self->finishing) {
        self->freed = true; /* the progress callback does the rest */
        pthread_mutex_unlock(&gpuring_p2p.lock);
        return MPI_SUCCESS;
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    /* This may be the completion callback of the request. Otherwise another thread is about to
     * complete it. */
    while (!REQUEST_COMPLETE(gpuring_p2p_base(self)) &&
           !pthread_equal(self->finisher, pthread_self())) {
        sched_yield();
    }
    gpuring_p2p_release(self);
    return MPI_SUCCESS;
}

/* Create a request. Returns NULL without memory (logged). */
static p2p_request_t *p2p_create(struct gpuring_p2p_message *message,
                                 const struct gpuring_p2p_envelope *envelope, bool persistent)
{
    p2p_request_t *self = OBJ_NEW(p2p_request_t);
    size_t behind = offsetof(mca_pml_base_request_t, req_ompi) + sizeof(ompi_request_t);

    if (self == NULL) {
        gpuring_p2p_message_release(message);
        gpuring_error("[p2p-no-memory] a send or receive on GPU memory returns "
                      "MPI_ERR_NO_MEM: no memory could be allocated for its request; free "
                      "host memory");
        return NULL;
    }
    memset((char *) self + behind, 0, sizeof *self - behind);
    OMPI_REQUEST_INIT(gpuring_p2p_base(self), persistent);
    gpuring_p2p_base(self)->req_type = OMPI_REQUEST_PML;
    gpuring_p2p_base(self)->req_mpi_object.comm = envelope->comm;
    gpuring_p2p_base(self)->req_free = request_free;
    gpuring_p2p_base(self)->req_cancel = request_cancel;
    gpuring_p2p_base(self)->req_start = request_start;
    gpuring_p2p_base(self)->req_f_to_c_index = MPI_UNDEFINED;
    self->super.req_type = envelope->sends ? MCA_PML_REQUEST_SEND : MCA_PML_REQUEST_RECV;
    self->super.req_comm = envelope->comm;
    self->super.req_peer = envelope->peer;
    self->super.req_tag = envelope->tag;
    self->message = *message;
    self->envelope = *envelope;
    self->inner = MPI_REQUEST_NULL;
    OBJ_RETAIN(envelope->comm);
    OBJ_RETAIN(message->type);
    if (message->gpu != NULL && !envelope->sends &&
        gpuring_p2p_message_reserve(&self->message, 0) != GPURING_OK) {
        gpuring_p2p_release(self);
        return NULL;
    }
    return self;
}

int gpuring_p2p_request_new(struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope, bool persistent,
                            ompi_request_t **request)
{
    p2p_request_t *self = p2p_create(message, envelope, persistent);
    int code;

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    code = persistent ? MPI_SUCCESS : p2p_start(self);
    if (code == MPI_SUCCESS) {
        *request = gpuring_p2p_base(self);
    } else {
        gpuring_p2p_release(self);
    }
    return code;
}

/* Cancel a blocking receive from any rank that Open MPI no longer waits for, because a rank has
 * died. The receive ends with that error unless a message has arrived. */
static void give_up(p2p_request_t *self)
{
    pthread_mutex_lock(&gpuring_p2p.lock);
    if (!self->finishing) {
        gpuring_p2p_base(self)->req_status.MPI_ERROR = gpuring_compat_error(GPURING_ERR_PEER);
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    (void) request_cancel(gpuring_p2p_base(self), true);
    while (!gpuring_request_done(gpuring_p2p_base(self))) {
        opal_progress();
    }
}

static int wait_for(p2p_request_t *self, ompi_status_public_t *status)
{
    int code;

    ompi_request_wait_completion(gpuring_p2p_base(self));
    if (!gpuring_request_done(gpuring_p2p_base(self))) {
        give_up(self);
    }
    code = gpuring_p2p_base(self)->req_status.MPI_ERROR;
    gpuring_status_copy(status, &gpuring_p2p_base(self)->req_status);
    gpuring_p2p_release(self);
    return code;
}

int gpuring_p2p_request_run(struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope,
                            ompi_status_public_t *status)
{
    ompi_request_t *request;
    int code = gpuring_p2p_request_new(message, envelope, false, &request);

    return code == MPI_SUCCESS ? wait_for((p2p_request_t *) request, status) : code;
}

int gpuring_p2p_request_run_given(struct gpuring_p2p_message *message,
                                  const struct gpuring_p2p_envelope *envelope,
                                  const struct gpuring_p2p_offer *offer,
                                  ompi_status_public_t *status)
{
    p2p_request_t *self = p2p_create(message, envelope, false);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    p2p_activate(self);
    self->status = *status;
    gpuring_p2p_begin_given(self, offer);
    return wait_for(self, status);
}

bool gpuring_p2p_request_ours(const ompi_request_t *request)
{
    return request->req_start == request_start;
}
