/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/probed.h"

#include <stdlib.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "ompi/message/message.h"

void gpuring_p2p_probed_lock(void)
{
    if (gpuring_process.threads) {
        pthread_mutex_lock(&gpuring_p2p.probing);
    }
}

void gpuring_p2p_probed_unlock(void)
{
    if (gpuring_process.threads) {
        pthread_mutex_unlock(&gpuring_p2p.probing);
    }
}

void gpuring_p2p_probed_free(struct gpuring_p2p_probed *self)
{
    OBJ_RELEASE(self->comm);
    free(self);
}

/* Append a message. The caller holds the lock. */
static void put(struct gpuring_p2p_probed *self)
{
    gpuring_list_append(&gpuring_p2p.probed, &self->node);
    __atomic_add_fetch(&gpuring_p2p.nprobed, 1, __ATOMIC_RELAXED);
}

static bool matches(const struct gpuring_p2p_probed *self, const struct gpuring_p2p_envelope *from)
{
    if (from->matched != NULL || self->given != NULL) {
        return from->matched != NULL && self->given == *from->matched;
    }
    return self->comm == from->comm &&
           (from->peer == MPI_ANY_SOURCE || from->peer == self->status.MPI_SOURCE) &&
           (from->tag == MPI_ANY_TAG || from->tag == self->status.MPI_TAG);
}

/* Return true if the data of a message has arrived, which shows whether it is an offer and how long
 * the message is. */
static bool has_arrived(struct gpuring_p2p_probed *self)
{
    struct gpuring_p2p_offer offer;

    if (self->receive != MPI_REQUEST_NULL && gpuring_p2p_ended(&self->receive) &&
        gpuring_p2p_offer_read(self->data, &offer)) {
        self->status._ucount = offer.bytes;
    }
    return self->receive == MPI_REQUEST_NULL;
}

static struct gpuring_p2p_probed *first(const struct gpuring_p2p_envelope *from)
{
    struct gpuring_p2p_probed *self;

    GPURING_LIST_EACH(self, &gpuring_p2p.probed, struct gpuring_p2p_probed, node)
    {
        if (matches(self, from)) {
            return self;
        }
    }
    return NULL;
}

/* The lock is released while the function waits for the data. */
struct gpuring_p2p_probed *gpuring_p2p_probed_take(const struct gpuring_p2p_envelope *from)
{
    struct gpuring_p2p_probed *self;

    while ((self = first(from)) != NULL && !has_arrived(self)) {
        gpuring_p2p_probed_unlock();
        opal_progress();
        gpuring_p2p_probed_lock();
    }
    if (self != NULL) {
        gpuring_list_remove(&self->node);
        __atomic_sub_fetch(&gpuring_p2p.nprobed, 1, __ATOMIC_RELAXED);
    }
    if (self != NULL && self->given != NULL) {
        ompi_message_return(self->given);
        *from->matched = MPI_MESSAGE_NULL;
    }
    return self;
}

/* Keep a message from the PML's queue. If it may be an offer, begin to receive it. Returns an MPI
 * error code. */
static int look_at_message(struct ompi_communicator_t *comm, struct ompi_message_t *message,
                           const ompi_status_public_t *status, struct gpuring_p2p_probed **looked)
{
    struct gpuring_p2p_probed *self = malloc(sizeof *self);
    int code = MPI_SUCCESS;

    if (self == NULL) {
        gpuring_error("[p2p-no-memory] a probe returns MPI_ERR_NO_MEM, and a message is lost");
        return MPI_ERR_NO_MEM;
    }
    OBJ_RETAIN(comm);
    self->node.next = NULL;
    self->comm = comm;
    self->message = message;
    self->receive = MPI_REQUEST_NULL;
    self->given = NULL;
    self->status = *status;
    if (status->_ucount == GPURING_P2P_OFFER_BYTES) {
        code = gpuring_p2p.previous.pml_imrecv(self->data, sizeof self->data, MPI_BYTE,
                                               &self->message, &self->receive);
        self->message = NULL;
    }
    if (code == MPI_SUCCESS) {
        *looked = self;
    } else {
        gpuring_p2p_probed_free(self);
    }
    return code;
}

/* Take messages of a sender out of the PML's queue, up to the one with this tag that may be an
 * offer. The caller holds the lock. */
static int collect(struct ompi_communicator_t *comm, int peer, int tag)
{
    struct gpuring_p2p_probed *self;
    struct ompi_message_t *message;
    ompi_status_public_t status;
    int matched = 1, code;
    bool last = false;

    while (!last) {
        code =
            gpuring_p2p.previous.pml_improbe(peer, MPI_ANY_TAG, comm, &matched, &message, &status);
        if (code != MPI_SUCCESS || !matched) {
            return code; /* another thread has received it */
        }
        code = look_at_message(comm, message, &status, &self);
        if (code != MPI_SUCCESS) {
            return code;
        }
        last = status.MPI_TAG == tag && self->message == NULL;
        put(self);
    }
    return MPI_SUCCESS;
}

/* Search here first, because these messages are older than those in the PML's queue. Call the PML
 * without the lock, because it may progress. A message that it finds may have moved here, or may
 * have been received, in the meantime. A message whose data has not arrived is not found yet,
 * because its sender may have to enter MPI first, and a probe does not wait. */
int gpuring_p2p_probed_iprobe(const struct gpuring_p2p_envelope *from, int *matched,
                              ompi_status_public_t *status)
{
    struct gpuring_p2p_probed *self;
    ompi_status_public_t found;
    bool again = true;
    int code = MPI_SUCCESS;

    while (again && code == MPI_SUCCESS) {
        code = gpuring_p2p.previous.pml_iprobe(from->peer, from->tag, from->comm, matched, &found);
        if (code != MPI_SUCCESS) {
            return code;
        }
        gpuring_p2p_probed_lock();
        self = first(from);
        again = self == NULL && *matched && found._ucount == GPURING_P2P_OFFER_BYTES;
        if (self != NULL) {
            *matched = has_arrived(self) ? 1 : 0;
            found = self->status;
        } else if (again) {
            code = collect(from->comm, found.MPI_SOURCE, found.MPI_TAG);
        }
        gpuring_p2p_probed_unlock();
    }
    if (code == MPI_SUCCESS && *matched) {
        gpuring_status_copy(status, &found);
    }
    return code;
}

/* Give the program a message object of Open MPI's class that refers to ours. */
static int give(struct gpuring_p2p_probed *self, struct ompi_message_t **message,
                ompi_status_public_t *status)
{
    gpuring_status_copy(status, &self->status);
    if (self->message != NULL) {
        *message = self->message;
        gpuring_p2p_probed_free(self);
        return MPI_SUCCESS;
    }
    *message = ompi_message_alloc();
    if (*message == NULL) {
        gpuring_p2p_probed_free(self);
        return MPI_ERR_NO_MEM;
    }
    (*message)->comm = self->comm;
    (*message)->req_ptr = self;
    (*message)->peer = self->status.MPI_SOURCE;
    (*message)->count = self->status._ucount;
    self->given = *message;
    gpuring_p2p_probed_lock();
    put(self);
    gpuring_p2p_probed_unlock();
    return MPI_SUCCESS;
}

/* Probe first, so that the PML does not progress under the lock. */
int gpuring_p2p_probed_improbe(const struct gpuring_p2p_envelope *from, int *matched,
                               struct ompi_message_t **message, ompi_status_public_t *status)
{
    struct gpuring_p2p_probed *self;
    ompi_status_public_t found;
    int code = gpuring_p2p_probed_iprobe(from, matched, MPI_STATUS_IGNORE);

    *message = MPI_MESSAGE_NULL;
    if (code != MPI_SUCCESS || !*matched) {
        return code;
    }
    gpuring_p2p_probed_lock();
    self = gpuring_p2p_probed_take(from);
    if (self == NULL) {
        code = gpuring_p2p.previous.pml_improbe(from->peer, from->tag, from->comm, matched, message,
                                                &found);
        if (code == MPI_SUCCESS && *matched && found._ucount == GPURING_P2P_OFFER_BYTES) {
            code = look_at_message(from->comm, *message, &found, &self);
        } else if (code == MPI_SUCCESS && *matched) {
            gpuring_status_copy(status, &found);
        }
    }
    gpuring_p2p_probed_unlock();
    if (self == NULL) {
        return code;
    }
    while (!has_arrived(self)) {
        opal_progress();
    }
    return give(self, message, status);
}
