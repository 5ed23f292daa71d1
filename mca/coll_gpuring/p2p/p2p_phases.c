/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The phases of a request (p2p_request.h). `enter` starts the work of a phase, and `advance`
 * performs the steps that are possible now. Both return NEXT if the phase has ended, END if the
 * request is complete, or WAIT. One thread at a time calls them for a request, without the lock.
 */
#include <string.h>

#include "mca/coll_gpuring/p2p/p2p_request.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/probed.h"
#include "mca/coll_gpuring/util/status.h"

OBJ_CLASS_INSTANCE(p2p_request_t, ompi_request_t, NULL, NULL);

enum outcome { WAIT, NEXT, END };

/* bytes; copying them takes about 3 us on a link of 25 GB/s (model) */
#define ASYNCHRONOUS ((size_t) 64 << 10)

/* End the request with an MPI error, or continue. */
static enum outcome next_unless(p2p_request_t *self, int code)
{
    if (code == MPI_SUCCESS) {
        return NEXT;
    }
    self->status.MPI_ERROR = code;
    return END;
}

/* Pass the message to the PML, from the bounce buffer or from a user's buffer in host memory.
 * Returns an MPI error code. */
static int issue(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    bool staged = self->message.gpu != NULL;
    void *buffer = staged ? gpuring_p2p_message_landing(&self->message)
                          : (void *) (uintptr_t) self->message.user;
    size_t count = staged ? self->message.bytes : self->message.count;
    struct ompi_datatype_t *type = staged ? MPI_BYTE : self->message.type;
    int code = to->sends ? gpuring_p2p.previous.pml_isend(buffer, count, type, to->peer, to->tag,
                                                          to->mode, to->comm, &self->inner)
                         : gpuring_p2p_previous_receive(buffer, count, type, to, &self->inner);

    if (code != MPI_SUCCESS) {
        self->inner = MPI_REQUEST_NULL; /* request_cancel must not use it */
    }
    return code;
}

/* ---- P2P_COPYING_IN ---- */

static bool is_first(p2p_request_t *self)
{
    bool first;

    pthread_mutex_lock(&gpuring_p2p.lock);
    first = gpuring_p2p_is_first(&self->turn.node, self->envelope.comm, self->envelope.peer);
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return first;
}

static enum outcome advance_copying_in(p2p_request_t *self)
{
    int status = GPURING_OK, code;

    if (self->message.stream != NULL) { /* otherwise it is copied and waits for earlier sends */
        status = gpuring_p2p_message_poll(&self->message);
    }
    if (status == GPURING_AGAIN || (status == GPURING_OK && !is_first(self))) {
        return WAIT;
    }
    code = status == GPURING_OK ? issue(self) : gpuring_compat_error(status);
    pthread_mutex_lock(&gpuring_p2p.lock);
    gpuring_list_remove(&self->turn.node); /* later sends may go to the PML from now on */
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return next_unless(self, code);
}

/* ---- P2P_OFFERED ---- */

static enum outcome advance_offered(p2p_request_t *self)
{
    int status = gpuring_p2p_sending_advance(self->sending);

    if (status == GPURING_AGAIN) {
        return WAIT;
    }
    gpuring_p2p_sending_free(self->sending);
    self->sending = NULL;
    return next_unless(self, gpuring_compat_error(status));
}

/* ---- P2P_MOVING ---- */

static enum outcome advance_moving(p2p_request_t *self)
{
    ompi_request_t *inner = self->inner;

    if (!gpuring_request_done(inner)) {
        return WAIT;
    }
    pthread_mutex_lock(&gpuring_p2p.lock); /* against request_cancel */
    self->inner = MPI_REQUEST_NULL;
    pthread_mutex_unlock(&gpuring_p2p.lock);
    self->status = inner->req_status;
    ompi_request_free(&inner);
    return self->envelope.sends ? END : NEXT;
}

/* ---- P2P_FETCHING ---- */

static enum outcome accept_offer(p2p_request_t *self, const struct gpuring_p2p_offer *offer)
{
    bool longer = offer->bytes > self->message.bytes;

    self->status._ucount = longer ? self->message.bytes : offer->bytes;
    self->status.MPI_ERROR = longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    self->fetch = gpuring_p2p_fetch_new(offer, &self->message);
    return self->fetch != NULL ? WAIT : next_unless(self, MPI_ERR_NO_MEM);
}

static enum outcome enter_fetching(p2p_request_t *self)
{
    struct gpuring_p2p_offer offer;

    if (self->status.MPI_ERROR == MPI_ERR_TRUNCATE) {
        gpuring_p2p_offer_truncated(&self->message, self->envelope.comm, &self->status);
        return NEXT;
    }
    return gpuring_p2p_offer_in(&self->message, self->status._ucount, &offer)
               ? accept_offer(self, &offer)
               : NEXT;
}

static enum outcome advance_fetching(p2p_request_t *self)
{
    int status = gpuring_p2p_fetch_advance(self->fetch);

    if (status == GPURING_AGAIN) {
        return WAIT;
    }
    gpuring_p2p_fetch_free(self->fetch);
    self->fetch = NULL;
    if (status == GPURING_OK && gpuring_p2p_message_contiguous(&self->message) != NULL) {
        return END; /* the data is in the user's buffer */
    }
    return next_unless(self, gpuring_compat_error(status));
}

/* ---- P2P_COPYING_OUT ---- */

static enum outcome enter_copying_out(p2p_request_t *self)
{
    int code = self->status.MPI_ERROR, status;

    if (self->message.gpu == NULL || self->status._cancelled || self->status._ucount == 0 ||
        (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE)) {
        return END;
    }
    status = gpuring_p2p_message_copy(&self->message, self->status._ucount, 0);
    return status == GPURING_OK ? WAIT : next_unless(self, gpuring_compat_error(status));
}

static enum outcome advance_copying_out(p2p_request_t *self)
{
    int status = gpuring_p2p_message_poll(&self->message);

    return status == GPURING_AGAIN ? WAIT : next_unless(self, gpuring_compat_error(status));
}

/* ---- All phases ---- */

static const struct {
    enum outcome (*enter)(p2p_request_t *self); /* NULL: the phase before has started the work */
    enum outcome (*advance)(p2p_request_t *self);
    enum p2p_phase next;
} phases[P2P_PHASES] = {
    [P2P_COPYING_IN] = {NULL, advance_copying_in, P2P_MOVING},
    [P2P_OFFERED] = {NULL, advance_offered, P2P_IDLE},
    [P2P_MOVING] = {NULL, advance_moving, P2P_FETCHING},
    [P2P_FETCHING] = {enter_fetching, advance_fetching, P2P_COPYING_OUT},
    [P2P_COPYING_OUT] = {enter_copying_out, advance_copying_out, P2P_IDLE},
};

/* Continue with the phases that follow an outcome, until one has to wait. Returns true if the
 * request is complete. Another thread may read the phase. */
static bool go_on(p2p_request_t *self, enum outcome outcome)
{
    while (outcome == NEXT && phases[self->phase].next != P2P_IDLE) {
        __atomic_store_n(&self->phase, phases[self->phase].next, __ATOMIC_RELEASE);
        outcome = phases[self->phase].enter != NULL ? phases[self->phase].enter(self) : WAIT;
    }
    return outcome != WAIT;
}

/* Prepare the completion of a request. If Open MPI's fault tolerance has set an error and cancelled
 * the request, this is not a cancellation by the program. */
static void request_finish(p2p_request_t *self)
{
    int code;

    pthread_mutex_lock(&gpuring_p2p.lock);
    code = gpuring_p2p_base(self)->req_status.MPI_ERROR;
    if (self->status._cancelled && gpuring_compat_failed(code)) {
        self->status.MPI_ERROR = code;
        self->status._cancelled = false;
    }
    self->phase = P2P_IDLE;
    gpuring_p2p_base(self)->req_status = self->status;
    self->super.req_pml_complete = true;
    self->finishing = true;
    self->finisher = pthread_self();
    pthread_mutex_unlock(&gpuring_p2p.lock);
}

static bool advance_task(struct gpuring_task *task, struct gpuring_list *items)
{
    p2p_request_t *self = GPURING_LIST_ENTRY(task, p2p_request_t, task);
    bool ends = go_on(self, phases[self->phase].advance(self));

    (void) items;
    if (ends) {
        request_finish(self);
    }
    return ends;
}

void gpuring_p2p_release(p2p_request_t *self)
{
    struct ompi_communicator_t *comm = self->envelope.comm;

    OBJ_RELEASE(self->message.type);
    if (self->sending != NULL || self->fetch != NULL) {
        gpuring_p2p_sending_free(self->sending);
        gpuring_p2p_fetch_free(self->fetch);
    }
    gpuring_p2p_message_release(&self->message);
    OMPI_REQUEST_FINI(gpuring_p2p_base(self));
    OBJ_RELEASE(self);
    OBJ_RELEASE(comm);
}

/* Complete a request. This may call another component or free a communicator. */
static void complete_task(struct gpuring_task *task, struct gpuring_list *items)
{
    p2p_request_t *self = GPURING_LIST_ENTRY(task, p2p_request_t, task);

    (void) items;
    if (!self->envelope.sends) {
        gpuring_p2p_peers_received(self->envelope.comm, &self->status, self->message.gpu);
    }
    if (self->freed) {
        gpuring_p2p_release(self);
    } else {
        ompi_request_complete(gpuring_p2p_base(self), true);
    }
}

void gpuring_p2p_end(p2p_request_t *self)
{
    self->phase = P2P_IDLE;
    gpuring_p2p_base(self)->req_status = self->status;
    gpuring_p2p_base(self)->req_complete = REQUEST_COMPLETED;
}

/* Start the task of a request that is not complete. */
static void end_or_start(p2p_request_t *self, bool ends)
{
    if (ends) {
        gpuring_p2p_end(self);
        return;
    }
    if (self->phase == P2P_COPYING_IN) {
        self->turn.to = &self->envelope;
        pthread_mutex_lock(&gpuring_p2p.lock);
        gpuring_list_append(&gpuring_p2p.copying, &self->turn.node);
        pthread_mutex_unlock(&gpuring_p2p.lock);
    }
    self->task = (struct gpuring_task){
        .kind = GPURING_TASK_REQUEST, .advance = advance_task, .complete = complete_task};
    (void) gpuring_task_start(&self->task);
}

/* ---- Beginning ---- */

/* Return true if the call may return while the data of a send is being copied. */
static bool may_copy_later(const p2p_request_t *self)
{
    return self->message.bytes >= ASYNCHRONOUS &&
           self->envelope.mode != MCA_PML_BASE_SEND_BUFFERED &&
           !__atomic_load_n(&gpuring_p2p.unseen_sends, __ATOMIC_RELAXED);
}

/* Offer the message, start its copy, or pass it to the PML. Returns an MPI error code. */
static int begin_send(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    int code = MPI_SUCCESS, status, peer;

    if (gpuring_p2p_peer_takes(&self->message, to, &peer)) {
        code = gpuring_p2p_sending_start(&self->message, to, peer, &self->sending);
    }
    if (code != MPI_SUCCESS || self->sending != NULL) {
        self->phase = P2P_OFFERED;
        return code;
    }
    status = gpuring_p2p_message_copy_in(&self->message, !may_copy_later(self));
    if (status == GPURING_OK && self->message.stream != NULL) {
        self->phase = P2P_COPYING_IN;
        return MPI_SUCCESS;
    }
    if (status != GPURING_OK) {
        return gpuring_compat_error(status);
    }
    gpuring_p2p_wait_turn(to->comm, to->peer);
    return issue(self);
}

/* Store received data that has the length of an offer but is none. */
static enum outcome take_given(p2p_request_t *self, char *data)
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
    return NEXT;
}

/* Receive a message that a probe has found. Returns an MPI error code. */
static int begin_probed(p2p_request_t *self, struct gpuring_p2p_probed *probed,
                        enum outcome *outcome)
{
    struct gpuring_p2p_offer offer;
    int code = MPI_SUCCESS;

    if (probed->message == NULL) {
        self->status = probed->status;
        self->status.MPI_ERROR = MPI_SUCCESS;
        self->phase = P2P_FETCHING;
        *outcome = gpuring_p2p_offer_read(probed->data, &offer) ? accept_offer(self, &offer)
                                                                : take_given(self, probed->data);
    } else {
        self->envelope.matched = &probed->message;
        code = issue(self);
        self->envelope.matched = NULL;
    }
    gpuring_p2p_probed_free(probed);
    return code;
}

static int begin_receive(p2p_request_t *self, enum outcome *outcome)
{
    struct gpuring_p2p_probed *probed;
    int code;

    gpuring_p2p_probed_lock();
    probed = gpuring_p2p_probed_take(&self->envelope);
    code = probed == NULL ? issue(self) : MPI_SUCCESS;
    gpuring_p2p_probed_unlock();
    return probed == NULL ? code : begin_probed(self, probed, outcome);
}

int gpuring_p2p_begin(p2p_request_t *self)
{
    enum outcome outcome = WAIT;
    int code;

    self->phase = P2P_MOVING;
    if (self->envelope.sends) {
        code = begin_send(self);
        if (code == MPI_SUCCESS && self->phase == P2P_MOVING) {
            outcome = advance_moving(self);
        }
    } else {
        code = begin_receive(self, &outcome);
    }
    if (code == MPI_SUCCESS) {
        end_or_start(self, go_on(self, outcome));
    }
    return code;
}

void gpuring_p2p_begin_given(p2p_request_t *self, const struct gpuring_p2p_offer *offer)
{
    self->phase = P2P_FETCHING;
    end_or_start(self, go_on(self, accept_offer(self, offer)));
}
