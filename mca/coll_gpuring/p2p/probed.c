/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/probed.h"

#include <pthread.h>
#include <stdlib.h>

#include "mca/coll_gpuring/util/log.h"
#include "ompi/message/message.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct gpuring_list probed = GPURING_LIST_INIT(probed);
int gpuring_p2p_probed_count;

void gpuring_p2p_probed_free(struct gpuring_p2p_probed *self)
{
    OBJ_RELEASE(self->comm);
    free(self);
}

static void put(struct gpuring_p2p_probed *self)
{
    pthread_mutex_lock(&lock);
    gpuring_list_append(&probed, &self->node);
    __atomic_add_fetch(&gpuring_p2p_probed_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
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

/* With the lock. */
static struct gpuring_p2p_probed *find(const struct gpuring_p2p_envelope *from)
{
    struct gpuring_p2p_probed *self;

    GPURING_LIST_EACH(self, &probed, struct gpuring_p2p_probed, node)
    {
        if (matches(self, from)) {
            return self;
        }
    }
    return NULL;
}

struct gpuring_p2p_probed *gpuring_p2p_probed_take(const struct gpuring_p2p_envelope *from)
{
    struct gpuring_p2p_probed *self;

    if (__atomic_load_n(&gpuring_p2p_probed_count, __ATOMIC_RELAXED) == 0) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    self = find(from);
    if (self != NULL) {
        gpuring_list_remove(&self->node);
        __atomic_sub_fetch(&gpuring_p2p_probed_count, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    if (self != NULL && self->given != NULL) {
        ompi_message_return(self->given);
        *from->matched = MPI_MESSAGE_NULL;
    }
    return self;
}

/* The status of what the program gets. */
static bool known(const struct gpuring_p2p_envelope *from, ompi_status_public_t *status)
{
    const struct gpuring_p2p_probed *self;

    pthread_mutex_lock(&lock);
    self = find(from);
    if (self != NULL) {
        gpuring_p2p_tell(status, &self->status);
    }
    pthread_mutex_unlock(&lock);
    return self != NULL;
}

/* A message that the PML gives away: received, if it may be an offer. NULL: no memory. */
static struct gpuring_p2p_probed *look(struct ompi_communicator_t *comm,
                                       struct ompi_message_t *message,
                                       const ompi_status_public_t *status)
{
    struct gpuring_p2p_probed *self = malloc(sizeof *self);
    struct gpuring_p2p_offer offer;

    if (self == NULL) {
        gpuring_error("[p2p-no-memory] a probe returns MPI_ERR_NO_MEM, and a message is lost");
        return NULL;
    }
    OBJ_RETAIN(comm);
    self->node.next = NULL;
    self->comm = comm;
    self->message = message;
    self->given = NULL;
    self->status = *status;
    if (status->_ucount == GPURING_P2P_OFFER_BYTES) {
        ompi_status_public_t received;

        (void) gpuring_p2p_previous.pml_mrecv(self->data, sizeof self->data, MPI_BYTE,
                                              &self->message, &received);
        self->message = NULL;
        if (gpuring_p2p_offer_read(self->data, &offer)) {
            self->status._ucount = offer.bytes;
        }
    }
    return self;
}

/* Take messages of a sender out of the PML's queue, up to the one of this tag that may be an offer.
 */
static int collect(struct ompi_communicator_t *comm, int peer, int tag)
{
    struct gpuring_p2p_probed *self;
    struct ompi_message_t *message;
    ompi_status_public_t status;
    int matched = 1, code;
    bool last = false;

    while (!last) {
        code =
            gpuring_p2p_previous.pml_improbe(peer, MPI_ANY_TAG, comm, &matched, &message, &status);
        if (code != MPI_SUCCESS || !matched) {
            return code; /* another thread has them */
        }
        self = look(comm, message, &status);
        if (self == NULL) {
            return MPI_ERR_NO_MEM;
        }
        last = status.MPI_TAG == tag && self->message == NULL;
        put(self);
    }
    return MPI_SUCCESS;
}

int gpuring_p2p_probed_iprobe(const struct gpuring_p2p_envelope *from, int *matched,
                              ompi_status_public_t *status)
{
    ompi_status_public_t found;
    int code;

    for (;;) {
        *matched = known(from, status);
        if (*matched) {
            return MPI_SUCCESS;
        }
        code = gpuring_p2p_previous.pml_iprobe(from->peer, from->tag, from->comm, matched, &found);
        if (code != MPI_SUCCESS || !*matched || found._ucount != GPURING_P2P_OFFER_BYTES) {
            break;
        }
        code = collect(from->comm, found.MPI_SOURCE, found.MPI_TAG);
        if (code != MPI_SUCCESS) {
            return code;
        }
    }
    if (*matched) {
        gpuring_p2p_tell(status, &found);
    }
    return code;
}

/* The program gets a message of Open MPI's class that names ours. */
static int give(struct gpuring_p2p_probed *self, struct ompi_message_t **message,
                ompi_status_public_t *status)
{
    gpuring_p2p_tell(status, &self->status);
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
    put(self);
    return MPI_SUCCESS;
}

int gpuring_p2p_probed_improbe(const struct gpuring_p2p_envelope *from, int *matched,
                               struct ompi_message_t **message, ompi_status_public_t *status)
{
    struct gpuring_p2p_probed *self = gpuring_p2p_probed_take(from);
    ompi_status_public_t found;
    int code;

    if (self == NULL) {
        code = gpuring_p2p_previous.pml_improbe(from->peer, from->tag, from->comm, matched, message,
                                                &found);
        if (code != MPI_SUCCESS || !*matched) {
            return code;
        }
        self = look(from->comm, *message, &found);
        if (self == NULL) {
            return MPI_ERR_NO_MEM;
        }
    }
    *matched = 1;
    return give(self, message, status);
}
