/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/progress.h"

#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/util/status.h"

OBJ_CLASS_INSTANCE(p2p_request_t, ompi_request_t, NULL, NULL);

pthread_mutex_t gpuring_p2p_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {                  /* guarded by the lock */
    struct gpuring_list copying; /* in the order of the calls */
    struct gpuring_list moving;  /* the phases behind; `mover` alone takes requests out */
    bool mover;                  /* a thread is in the progress callback; atomic */
    bool registered;
} active = {.copying = GPURING_LIST_INIT(active.copying),
            .moving = GPURING_LIST_INIT(active.moving)};

int gpuring_p2p_requests_copying;

void gpuring_p2p_release(p2p_request_t *self)
{
    struct ompi_communicator_t *comm = self->envelope.comm;

    gpuring_p2p_sending_free(self->sending);
    gpuring_p2p_fetch_free(self->fetch);
    gpuring_p2p_message_release(&self->message);
    OMPI_REQUEST_FINI(gpuring_p2p_base(self));
    OBJ_RELEASE(self);
    OBJ_RELEASE(comm);
}

/* Has its turn come? No earlier send to the same process is still in the list. */
static bool is_first(const struct gpuring_list *node, const struct ompi_communicator_t *comm,
                     int peer)
{
    for (struct gpuring_list *n = active.copying.next; n != node; n = n->next) {
        const p2p_request_t *other = GPURING_LIST_ENTRY(n, p2p_request_t, node);

        if (other->envelope.comm == comm && other->envelope.peer == peer) {
            return false;
        }
    }
    return true;
}

void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer)
{
    bool first;

    for (;;) {
        pthread_mutex_lock(&gpuring_p2p_lock);
        first = is_first(&active.copying, comm, peer);
        pthread_mutex_unlock(&gpuring_p2p_lock);
        if (first) {
            return;
        }
        opal_progress();
    }
}

/* The PML gets the message, or the user's buffer if that is in host memory. An MPI error code. */
int gpuring_p2p_issue(p2p_request_t *self)
{
    const struct gpuring_p2p_envelope *to = &self->envelope;
    bool staged = self->message.gpu != NULL;
    void *buffer =
        staged ? gpuring_p2p_message_host(&self->message) : (void *) (uintptr_t) self->message.user;
    size_t count = staged ? self->message.bytes : self->message.count;
    struct ompi_datatype_t *type = staged ? MPI_BYTE : self->message.type;

    if (to->sends) {
        return gpuring_p2p_previous.pml_isend(buffer, count, type, to->peer, to->tag, to->mode,
                                              to->comm, &self->inner);
    }
    if (to->matched != NULL) {
        return gpuring_p2p_previous.pml_imrecv(buffer, count, type, to->matched, &self->inner);
    }
    return gpuring_p2p_previous.pml_irecv(buffer, count, type, to->peer, to->tag, to->comm,
                                          &self->inner);
}

/* A receive has an offer in place of data. True: it ends, without memory to take the data. */
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
    self->phase = FETCHING;
    return false;
}

/* What has arrived goes to the user. True: it has. */
bool gpuring_p2p_take_data(p2p_request_t *self)
{
    int code = self->status.MPI_ERROR, status;

    if (self->message.gpu == NULL || self->status._cancelled || self->status._ucount == 0 ||
        (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE)) {
        return true;
    }
    status = gpuring_p2p_message_start_out(&self->message, self->status._ucount);
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
        return true;
    }
    self->phase = COPYING_OUT;
    return false;
}

/* The PML's request ends. True: so does ours. */
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

/* The data of a receive have come. True: all is done. */
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

/* One that the PML is called for: without the lock. True: it is done. */
static bool advance_rendezvous(p2p_request_t *self)
{
    int status;

    if (self->phase == FETCHING) {
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

/* Move one on; true: it is done. */
static bool advance(p2p_request_t *self)
{
    int status;
    bool done;

    if (self->phase == MOVING) {
        if (!REQUEST_COMPLETE(self->inner)) {
            return false;
        }
        if (gpuring_p2p_end_inner(self)) {
            return true;
        }
    }
    if (self->phase == OFFERED || self->phase == FETCHING) {
        pthread_mutex_unlock(&gpuring_p2p_lock);
        done = advance_rendezvous(self);
        pthread_mutex_lock(&gpuring_p2p_lock);
        return done;
    }
    status = gpuring_p2p_message_poll(&self->message);
    if (status == GPURING_AGAIN) {
        return false;
    }
    if (status != GPURING_OK) {
        self->status.MPI_ERROR = gpuring_compat_error(status);
    }
    return true;
}

/* With the lock: it is done, and in no list. */
static void finish(p2p_request_t *self, struct gpuring_list *done)
{
    self->phase = IDLE;
    gpuring_p2p_base(self)->req_status = self->status;
    self->super.req_pml_complete = true;
    self->finishing = true;
    self->finisher = pthread_self();
    gpuring_list_append(done, &self->node);
}

/* Without the lock: it may end in a callback of another component, or free a communicator. */
static int complete_all(struct gpuring_list *done)
{
    p2p_request_t *self;
    int count = 0;

    while ((self = GPURING_LIST_FIRST(done, p2p_request_t, node)) != NULL) {
        gpuring_list_remove(&self->node);
        if (!self->envelope.sends) {
            gpuring_p2p_peers_received(self->status._ucount);
        }
        if (self->freed) {
            gpuring_p2p_release(self);
        } else {
            ompi_request_complete(gpuring_p2p_base(self), true);
        }
        count++;
    }
    return count;
}

/* The next send that is copied and first, or that cannot be copied; NULL: there is none. */
static p2p_request_t *next_copied(void)
{
    p2p_request_t *self;

    GPURING_LIST_EACH(self, &active.copying, p2p_request_t, node)
    {
        int status = GPURING_OK;

        if (self->issuing) {
            continue;
        }
        if (self->message.stream != NULL) {
            status = gpuring_p2p_message_poll(&self->message);
        }
        if (status < GPURING_OK) {
            self->status.MPI_ERROR = gpuring_compat_error(status);
        }
        if (status != GPURING_AGAIN &&
            is_first(&self->node, self->envelope.comm, self->envelope.peer)) {
            return self;
        }
    }
    return NULL;
}

/* Give the PML what is copied: without the lock, as it may call others, but still in the list. */
static void issue_copied(struct gpuring_list *done)
{
    p2p_request_t *self;

    while ((self = next_copied()) != NULL) {
        self->issuing = true;
        if (self->status.MPI_ERROR == MPI_SUCCESS) {
            pthread_mutex_unlock(&gpuring_p2p_lock);
            self->status.MPI_ERROR = gpuring_p2p_issue(self);
            pthread_mutex_lock(&gpuring_p2p_lock);
        }
        self->issuing = false;
        gpuring_list_remove(&self->node);
        __atomic_sub_fetch(&gpuring_p2p_requests_copying, 1, __ATOMIC_RELAXED);
        if (self->status.MPI_ERROR == MPI_SUCCESS) {
            self->phase = MOVING;
            gpuring_list_append(&active.moving, &self->node);
        } else {
            finish(self, done);
        }
    }
}

/* Called by opal_progress, by several threads at once, and from within the PML's functions that it
 * calls. */
static int progress_callback(void)
{
    struct gpuring_list done = GPURING_LIST_INIT(done), *next;

    if ((__atomic_load_n(&active.moving.next, __ATOMIC_RELAXED) == &active.moving &&
         __atomic_load_n(&active.copying.next, __ATOMIC_RELAXED) == &active.copying) ||
        __atomic_exchange_n(&active.mover, true, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    pthread_mutex_lock(&gpuring_p2p_lock);
    issue_copied(&done);
    for (struct gpuring_list *node = active.moving.next; node != &active.moving; node = next) {
        p2p_request_t *self = GPURING_LIST_ENTRY(node, p2p_request_t, node);
        bool ends = advance(self);

        next = node->next;
        if (ends) {
            gpuring_list_remove(node);
            finish(self, &done);
        }
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
    __atomic_store_n(&active.mover, false, __ATOMIC_RELEASE);
    return complete_all(&done);
}

void gpuring_p2p_enlist(p2p_request_t *self)
{
    bool copying = self->phase == COPYING_IN;

    pthread_mutex_lock(&gpuring_p2p_lock);
    gpuring_list_append(copying ? &active.copying : &active.moving, &self->node);
    if (copying) {
        __atomic_add_fetch(&gpuring_p2p_requests_copying, 1, __ATOMIC_RELAXED);
    }
    if (!active.registered) {
        active.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
}

void gpuring_p2p_requests_close(void)
{
    pthread_mutex_lock(&gpuring_p2p_lock);
    if (active.registered) {
        opal_progress_unregister(progress_callback);
        active.registered = false;
    }
    pthread_mutex_unlock(&gpuring_p2p_lock);
}
