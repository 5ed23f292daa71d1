/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/p2p_progress.h"

#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/status.h"

OBJ_CLASS_INSTANCE(p2p_request_t, ompi_request_t, NULL, NULL);

pthread_mutex_t gpuring_p2p_lock = PTHREAD_MUTEX_INITIALIZER;

/* Sends in phase P2P_COPYING_IN, in the order of the calls. Guarded by the lock. */
static struct gpuring_list copying = GPURING_LIST_INIT(copying);

void gpuring_p2p_release(p2p_request_t *self)
{
    struct ompi_communicator_t *comm = self->envelope.comm;

    OBJ_RELEASE(self->message.type);
    gpuring_p2p_sending_free(self->sending);
    gpuring_p2p_fetch_free(self->fetch);
    gpuring_p2p_message_release(&self->message);
    OMPI_REQUEST_FINI(gpuring_p2p_base(self));
    OBJ_RELEASE(self);
    OBJ_RELEASE(comm);
}

/* Return true if no earlier send to the same process is in the list. */
static bool is_first(const struct gpuring_list *node, const struct ompi_communicator_t *comm,
                     int peer)
{
    for (struct gpuring_list *n = copying.next; n != node; n = n->next) {
        const p2p_request_t *other = GPURING_LIST_ENTRY(n, p2p_request_t, turn);

        if (other->envelope.comm == comm && other->envelope.peer == peer) {
            return false;
        }
    }
    return true;
}

void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer)
{
    bool first = __atomic_load_n(&copying.next, __ATOMIC_RELAXED) == &copying;

    while (!first) {
        pthread_mutex_lock(&gpuring_p2p_lock);
        first = is_first(&copying, comm, peer);
        pthread_mutex_unlock(&gpuring_p2p_lock);
        if (!first) {
            opal_progress();
        }
    }
}

int gpuring_p2p_issue(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    bool staged = self->message.gpu != NULL;
    void *buffer = staged ? gpuring_p2p_message_landing(&self->message)
                          : (void *) (uintptr_t) self->message.user;
    size_t count = staged ? self->message.bytes : self->message.count;
    struct ompi_datatype_t *type = staged ? MPI_BYTE : self->message.type;

    return to->sends ? gpuring_p2p_previous.pml_isend(buffer, count, type, to->peer, to->tag,
                                                      to->mode, to->comm, &self->inner)
                     : gpuring_p2p_previous_receive(buffer, count, type, to, &self->inner);
}

/* Begin to fetch the data of an offer that a receive has got. Returns true if the receive ends,
 * because there is no memory to do so. */
bool gpuring_p2p_accept_offer(p2p_request_t *self, const struct gpuring_p2p_offer *offer)
{
    bool longer = offer->bytes > self->message.bytes;

    self->status._ucount = longer ? self->message.bytes : offer->bytes;
    self->status.MPI_ERROR = longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    self->fetch = gpuring_p2p_fetch_new(offer, &self->message);
    if (self->fetch == NULL) {
        self->status.MPI_ERROR = MPI_ERR_NO_MEM;
        return true;
    }
    self->phase = P2P_FETCHING;
    return false;
}

/* Copy the received data to the user's buffer. Returns true if this is done. */
bool gpuring_p2p_take_data(p2p_request_t *self)
{
    int code = self->status.MPI_ERROR, status;

    if (self->message.gpu == NULL || self->status._cancelled || self->status._ucount == 0 ||
        (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE)) {
        return true;
    }
    status = gpuring_p2p_message_start(&self->message, self->status._ucount, false);
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
        return true;
    }
    self->phase = P2P_COPYING_OUT;
    return false;
}

/* See p2p_progress.h. */
bool gpuring_p2p_end_inner(p2p_request_t *self)
{
    struct gpuring_p2p_offer offer;

    self->status = self->inner->req_status;
    ompi_request_free(&self->inner);
    if (self->envelope.sends) {
        return true;
    }
    return gpuring_p2p_offer_in(&self->message, self->status._ucount, &offer)
               ? gpuring_p2p_accept_offer(self, &offer)
               : gpuring_p2p_take_data(self);
}

/* Finish a receive whose data was fetched. Returns true if the request is complete. */
static bool end_fetch(p2p_request_t *self, int status)
{
    gpuring_p2p_fetch_free(self->fetch);
    self->fetch = NULL;
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
        return true;
    }
    return gpuring_p2p_message_contiguous(&self->message) != NULL || gpuring_p2p_take_data(self);
}

/* Advance an P2P_OFFERED or P2P_FETCHING request. Runs unlocked because it calls the PML. Returns
 * true if the request is complete. */
static bool advance_rendezvous(p2p_request_t *self)
{
    int status;

    if (self->phase == P2P_FETCHING) {
        status = gpuring_p2p_fetch_advance(self->fetch);
        return status != GPURING_AGAIN && end_fetch(self, status);
    }
    status = gpuring_p2p_sending_advance(self->sending);
    if (status == GPURING_AGAIN) {
        return false;
    }
    gpuring_p2p_sending_free(self->sending);
    self->sending = NULL;
    self->status.MPI_ERROR = gpuring_compat_error(status);
    return true;
}

/* Pass a send to the PML after its copy has ended or failed. Runs unlocked because the PML may call
 * other components. The send stays in the list. Returns true if it is complete because it failed.
 */
static bool issue_copied(p2p_request_t *self, int status)
{
    int code = gpuring_compat_error(status);

    if (code == MPI_SUCCESS) {
        pthread_mutex_unlock(&gpuring_p2p_lock);
        code = gpuring_p2p_issue(self);
        pthread_mutex_lock(&gpuring_p2p_lock);
    }
    self->status.MPI_ERROR = code;
    self->phase = P2P_MOVING;
    gpuring_list_remove(&self->turn);
    return code != MPI_SUCCESS;
}

/* Advance one request. Holds the lock except while the PML is called. Returns true if the request
 * is complete. */
static bool advance(p2p_request_t *self)
{
    int status = GPURING_OK;
    bool done;

    if (self->phase == P2P_MOVING && gpuring_p2p_end_inner(self)) {
        return true;
    }
    if (self->phase == P2P_OFFERED || self->phase == P2P_FETCHING) {
        pthread_mutex_unlock(&gpuring_p2p_lock);
        done = advance_rendezvous(self);
        pthread_mutex_lock(&gpuring_p2p_lock);
        return done;
    }
    if (self->message.stream != NULL) { /* otherwise it is copied and waits for earlier sends */
        status = gpuring_p2p_message_poll(&self->message);
    }
    if (status == GPURING_AGAIN) {
        return false;
    }
    if (self->phase == P2P_COPYING_IN) {
        return (status != GPURING_OK ||
                is_first(&self->turn, self->envelope.comm, self->envelope.peer)) &&
               issue_copied(self, status);
    }
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
    }
    return true;
}

/* Prepare the completion of a request. Call with the lock held. If Open MPI's fault tolerance has
 * set an error and cancelled the request, this is not a cancellation by the program. */
static void finish(p2p_request_t *self)
{
    int code = gpuring_p2p_base(self)->req_status.MPI_ERROR;

    if (self->status._cancelled && gpuring_compat_failed(code)) {
        self->status.MPI_ERROR = code;
        self->status._cancelled = false;
    }
    self->phase = P2P_IDLE;
    gpuring_p2p_base(self)->req_status = self->status;
    self->super.req_pml_complete = true;
    self->finishing = true;
    self->finisher = pthread_self();
}

/* A look at the PML's request takes no lock: only this function changes the phase. */
static bool advance_task(struct gpuring_task *task, struct gpuring_list *items)
{
    p2p_request_t *self = GPURING_LIST_ENTRY(task, p2p_request_t, task);
    bool ends;

    (void) items;
    if (self->phase == P2P_MOVING && !gpuring_request_done(self->inner)) {
        return false;
    }
    pthread_mutex_lock(&gpuring_p2p_lock);
    ends = advance(self);
    if (ends) {
        finish(self);
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
    return ends;
}

/* Complete a request. This may call another component or free a communicator. */
static void complete_task(struct gpuring_task *task, struct gpuring_list *items)
{
    p2p_request_t *self = GPURING_LIST_ENTRY(task, p2p_request_t, task);

    (void) items;
    if (!self->envelope.sends) {
        gpuring_p2p_peers_received(self->status._ucount);
    }
    if (self->freed) {
        gpuring_p2p_release(self);
    } else {
        ompi_request_complete(gpuring_p2p_base(self), true);
    }
}

void gpuring_p2p_enlist(p2p_request_t *self)
{
    if (self->phase == P2P_COPYING_IN) {
        pthread_mutex_lock(&gpuring_p2p_lock);
        gpuring_list_append(&copying, &self->turn);
        pthread_mutex_unlock(&gpuring_p2p_lock);
    }
    self->task = (struct gpuring_task){
        .kind = GPURING_TASK_REQUEST, .advance = advance_task, .complete = complete_task};
    (void) gpuring_task_start(&self->task);
}
