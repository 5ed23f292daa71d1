/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/p2p_request.h"

#include <sched.h>
#include <string.h>

#include "mca/coll_gpuring/p2p/probed.h"
#include "mca/coll_gpuring/p2p/p2p_progress.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ASYNCHRONOUS ((size_t) 64 << 10) /* bytes; the model: 3 us on a link of 25 GB/s */

static bool unseen_sends; /* atomic */

void gpuring_p2p_request_unseen_sends(void)
{
    __atomic_store_n(&unseen_sends, true, __ATOMIC_RELAXED);
}

/* Return true if the call may return while the data of a send is being copied. */
static bool may_copy_later(const p2p_request_t *self)
{
    return self->message.bytes >= ASYNCHRONOUS &&
           self->envelope.mode != MCA_PML_BASE_SEND_BUFFERED &&
           !__atomic_load_n(&unseen_sends, __ATOMIC_RELAXED);
}

/* Complete a request before the program gets it, or hand it to the progress callback. */
static void end_or_enlist(p2p_request_t *self, bool ends)
{
    if (ends) {
        self->phase = P2P_IDLE;
        gpuring_p2p_base(self)->req_status = self->status;
        gpuring_p2p_base(self)->req_complete = REQUEST_COMPLETED;
    } else {
        gpuring_p2p_enlist(self);
    }
}

/* Store received data that has the length of an offer but is none. Returns true when the user's
 * buffer has it. */
static bool take_given(p2p_request_t *self, char *data)
{
    char *landing = gpuring_p2p_message_landing(&self->message);
    size_t bytes = GPURING_P2P_OFFER_BYTES;

    if (self->message.bytes < bytes) {
        bytes = self->message.bytes;
        self->status.MPI_ERROR = MPI_ERR_TRUNCATE;
    }
    self->status._ucount = bytes;
    if (landing != NULL) {
        memmove(landing, data, bytes);
    } else if (gpuring_p2p_message_convert(&self->message, data, bytes, false) != GPURING_OK) {
        self->status.MPI_ERROR = MPI_ERR_OTHER;
    }
    return gpuring_p2p_take_data(self);
}

/* Begin a send: offer it, start its copy, or pass it to the PML. Returns an MPI error code. */
static int begin_send(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    int code = gpuring_p2p_sending_start(&self->message, to, &self->sending), status;

    if (code != MPI_SUCCESS || self->sending != NULL) {
        self->phase = P2P_OFFERED;
        return code;
    }
    status = gpuring_p2p_message_reserve(&self->message);
    if (status == GPURING_OK) {
        status = gpuring_p2p_message_start(&self->message, self->message.bytes, true);
    }
    if (status == GPURING_OK && may_copy_later(self)) {
        self->phase = P2P_COPYING_IN;
        return MPI_SUCCESS;
    }
    status = status == GPURING_OK ? gpuring_p2p_message_wait(&self->message) : status;
    if (status != GPURING_OK) {
        return gpuring_compat_error(status);
    }
    gpuring_p2p_request_wait_turn(to->comm, to->peer);
    return gpuring_p2p_issue(self);
}

/* Begin a receive. A probe may have found its message. Sets *ends if the receive is complete
 * immediately. Returns an MPI error code. */
static int begin_receive(p2p_request_t *self, bool *ends)
{
    struct gpuring_p2p_envelope *from = &self->envelope;
    struct gpuring_p2p_probed *probed;
    struct gpuring_p2p_offer offer;
    int code;

    gpuring_p2p_probed_lock();
    probed = gpuring_p2p_probed_take(from);
    code = probed == NULL ? gpuring_p2p_issue(self) : MPI_SUCCESS;
    gpuring_p2p_probed_unlock();
    if (probed == NULL) {
        return code;
    }
    if (probed->message == NULL) {
        self->status = probed->status;
        self->status.MPI_ERROR = MPI_SUCCESS;
        *ends = gpuring_p2p_offer_read(probed->data, &offer)
                    ? gpuring_p2p_accept_offer(self, &offer)
                    : take_given(self, probed->data);
    } else {
        from->matched = &probed->message;
        code = gpuring_p2p_issue(self);
        from->matched = NULL;
    }
    gpuring_p2p_probed_free(probed);
    return code;
}

/* Begin a message. Returns an MPI error code; after an error nothing is in progress. */
static int begin(p2p_request_t *self)
{
    bool ends = false;
    int code;

    if (self->envelope.sends) {
        code = begin_send(self);
        ends = code == MPI_SUCCESS && self->phase == P2P_MOVING &&
               gpuring_request_done(self->inner) && gpuring_p2p_end_inner(self);
    } else {
        code = begin_receive(self, &ends);
    }
    if (code == MPI_SUCCESS) {
        end_or_enlist(self, ends);
    }
    return code;
}

static void activate(p2p_request_t *self)
{
    gpuring_request_activate(gpuring_p2p_base(self));
    self->status = gpuring_p2p_base(self)->req_status;
    self->super.req_pml_complete = false;
    self->finishing = false;
    self->phase = P2P_MOVING; /* begin may change it */
}

/* Start a request. Returns an MPI error code, with which the request has ended. */
static int start(p2p_request_t *self)
{
    int code;

    activate(self);
    code = begin(self);
    if (code != MPI_SUCCESS) {
        self->status.MPI_ERROR = code;
        end_or_enlist(self, true);
    }
    return code;
}

/* For MPI_Start and MPI_Startall. MPI_Startall ignores the result, so errors are set in the
 * request. */
static int request_start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        (void) start((p2p_request_t *) requests[i]);
    }
    return MPI_SUCCESS;
}

/* Wait until the PML has the message, so that the PML can cancel or free its request. */
static void wait_issued(p2p_request_t *self)
{
    while (__atomic_load_n(&self->phase, __ATOMIC_RELAXED) == P2P_COPYING_IN) {
        opal_progress();
    }
}

static int request_cancel(ompi_request_t *request, int flag)
{
    p2p_request_t *self = (p2p_request_t *) request;
    int code = MPI_SUCCESS;

    wait_issued(self);
    pthread_mutex_lock(&gpuring_p2p_lock);
    if (self->phase == P2P_MOVING && self->inner->req_cancel != NULL) {
        code = self->inner->req_cancel(self->inner, flag);
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
    return code;
}

static int request_free(ompi_request_t **request)
{
    p2p_request_t *self = (p2p_request_t *) *request;

    *request = MPI_REQUEST_NULL;
    wait_issued(self);
    pthread_mutex_lock(&gpuring_p2p_lock);
    if (!REQUEST_COMPLETE(gpuring_p2p_base(self)) && !self->finishing) {
        self->freed = true; /* the progress callback does the rest */
        pthread_mutex_unlock(&gpuring_p2p_lock);
        return MPI_SUCCESS;
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
    /* This may be the completion callback of the request. Otherwise another thread is about to
     * complete it. */
    while (!REQUEST_COMPLETE(gpuring_p2p_base(self)) &&
           !pthread_equal(self->finisher, pthread_self())) {
        sched_yield();
    }
    gpuring_p2p_release(self);
    return MPI_SUCCESS;
}

/* Describe the user's buffer and allocate memory for a receive. Returns false without memory
 * (logged). */
static bool prepare(struct gpuring_p2p_message *message, bool sends)
{
    return message->gpu == NULL || (gpuring_p2p_message_describe(message) == GPURING_OK &&
                                    (sends || gpuring_p2p_message_reserve(message) == GPURING_OK));
}

/* Create a request. Returns NULL without memory (logged). */
static p2p_request_t *create(const struct gpuring_p2p_message *message,
                             const struct gpuring_p2p_envelope *envelope, bool persistent)
{
    p2p_request_t *self = OBJ_NEW(p2p_request_t);
    size_t behind = offsetof(mca_pml_base_request_t, req_ompi) + sizeof(ompi_request_t);

    if (self == NULL) {
        gpuring_error("[p2p-no-memory] a send or receive on GPU memory returns MPI_ERR_NO_MEM: "
                      "there is no memory for its request");
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
    if (!prepare(&self->message, envelope->sends)) {
        gpuring_p2p_release(self);
        return NULL;
    }
    return self;
}

int gpuring_p2p_request_new(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope, bool persistent,
                            ompi_request_t **request)
{
    p2p_request_t *self = create(message, envelope, persistent);
    int code;

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    code = persistent ? MPI_SUCCESS : start(self);
    if (code == MPI_SUCCESS) {
        *request = gpuring_p2p_base(self);
    } else {
        gpuring_p2p_release(self);
    }
    return code;
}

/* Cancel a blocking receive from any rank that Open MPI has stopped to wait for, because a rank has
 * died. The receive ends with that error unless a message has arrived. */
static void give_up(p2p_request_t *self)
{
    pthread_mutex_lock(&gpuring_p2p_lock);
    if (!self->finishing) {
        gpuring_p2p_base(self)->req_status.MPI_ERROR = gpuring_compat_error(GPURING_ERR_PEER);
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
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

int gpuring_p2p_request_run(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope,
                            ompi_status_public_t *status)
{
    ompi_request_t *request;
    int code = gpuring_p2p_request_new(message, envelope, false, &request);

    return code == MPI_SUCCESS ? wait_for((p2p_request_t *) request, status) : code;
}

int gpuring_p2p_request_run_given(const struct gpuring_p2p_message *message,
                                  const struct gpuring_p2p_envelope *envelope,
                                  const struct gpuring_p2p_offer *offer,
                                  ompi_status_public_t *status)
{
    p2p_request_t *self = create(message, envelope, false);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    activate(self);
    self->status = *status;
    end_or_enlist(self, gpuring_p2p_accept_offer(self, offer));
    return wait_for(self, status);
}

bool gpuring_p2p_request_ours(const ompi_request_t *request)
{
    return request->req_start == request_start;
}
