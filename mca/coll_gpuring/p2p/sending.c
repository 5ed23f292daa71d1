/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The sender's side of an offer. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/request.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFERS 2 /* one is filled while the other is sent */

/* A receive of an answer. */
struct awaited {
    struct gpuring_p2p_answer answer;
    ompi_request_t *request;
};

struct gpuring_p2p_sending {
    union {
        struct gpuring_p2p_offer offer;
        char bytes[GPURING_P2P_OFFER_BYTES];
    } wire;
    const char *gpu;
    int peer;
    ompi_request_t *offered; /* MPI_REQUEST_NULL: has left */

    /* Answers of a process come in an order of its own: each goes to the offer that it names, and
     * the receives that are left to the others. */
    struct awaited *awaited; /* NULL: it has been answered */
    struct gpuring_p2p_answer answer;
    struct gpuring_list node; /* of `unanswered` */

    /* Chunks. */
    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream;
    ompi_request_t *sends[BUFFERS];
    size_t next; /* chunk to be copied, or copied now */
    bool copying;
    int status; /* not GPURING_OK: chunks are sent empty, so that the receiver learns of it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct gpuring_list unanswered = GPURING_LIST_INIT(unanswered);
static uint64_t numbers;

/* Contiguous, large, to a process that looks for offers, and not to be buffered. */
static const char *suits(const struct gpuring_p2p_message *message,
                         const struct gpuring_p2p_envelope *to, int *peer)
{
    const char *gpu = gpuring_p2p_message_contiguous(message);

    if (gpu == NULL || gpuring_params.p2p_rendezvous == 0 ||
        message->bytes < gpuring_params.p2p_rendezvous ||
        message->bytes < GPURING_P2P_OFFER_BYTES || to->mode == MCA_PML_BASE_SEND_BUFFERED) {
        return NULL;
    }
    *peer = gpuring_p2p_peer_of(to->comm, to->peer);
    return *peer >= 0 && gpuring_p2p_peer_consents(*peer) ? gpu : NULL;
}

/* May others map it: memory that can be exported, of the context that we work in? */
static bool export(const char *gpu, struct gpuring_device_handle *handle)
{
    static bool refused; /* the driver does not export: it is not asked again */
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer pointer = gpuring_memory_of(gpu);
    void *address = (void *) (uintptr_t) gpu;

    if (refused || !gpuring_p2p_direct_allowed() || pointer.kind != GPURING_POINTER_DEVICE ||
        gpuring_process_attach(gpu) != GPURING_OK ||
        !ops->reaches(gpuring_process.device, &pointer)) {
        return false;
    }
    refused = ops->export(gpuring_process.device, address, handle) != GPURING_OK;
    if (!refused) {
        ops->unexport(gpuring_process.device, address);
    }
    return !refused;
}

/* It is answered from now on, so its receive has begun. */
static void fill(struct gpuring_p2p_sending *sending, size_t bytes)
{
    struct gpuring_p2p_offer *offer = &sending->wire.offer;

    gpuring_p2p_offer_mark(offer);
    offer->bytes = bytes;
    offer->sender = gpuring_process.world_rank;
    offer->mapped = export(sending->gpu, &offer->memory);
    pthread_mutex_lock(&lock);
    offer->number = ++numbers;
    gpuring_list_append(&unanswered, &sending->node);
    pthread_mutex_unlock(&lock);
}

static struct gpuring_p2p_sending *create(const char *gpu, int peer)
{
    struct gpuring_p2p_sending *self = calloc(1, sizeof *self);
    struct awaited *awaited = calloc(1, sizeof *awaited);

    if (self == NULL || awaited == NULL ||
        gpuring_p2p_world_irecv(&awaited->answer, sizeof awaited->answer, peer,
                                GPURING_P2P_TAG_ANSWER, &awaited->request) != GPURING_OK) {
        free(self);
        free(awaited);
        return NULL;
    }
    self->gpu = gpu;
    self->peer = peer;
    self->awaited = awaited;
    self->offered = MPI_REQUEST_NULL;
    for (int i = 0; i < BUFFERS; i++) {
        self->sends[i] = MPI_REQUEST_NULL;
    }
    return self;
}

/* The answer that has arrived goes to its offer, whose receive comes here instead. */
static void deliver(struct gpuring_p2p_sending *self)
{
    struct awaited *arrived = self->awaited;
    struct gpuring_p2p_sending *other;

    pthread_mutex_lock(&lock);
    GPURING_LIST_EACH(other, &unanswered, struct gpuring_p2p_sending, node)
    {
        if (other->wire.offer.number == arrived->answer.number) {
            other->answer = arrived->answer;
            self->awaited = other->awaited;
            other->awaited = NULL;
            gpuring_list_remove(&other->node);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    free(arrived);
}

/* Has this been answered? Or will it never be, as the receiver has failed. */
static bool answered(struct gpuring_p2p_sending *self)
{
    while (self->awaited != NULL && REQUEST_COMPLETE(self->awaited->request)) {
        bool failed = self->awaited->request->req_status.MPI_ERROR != MPI_SUCCESS;

        ompi_request_free(&self->awaited->request);
        if (failed) {
            self->status = GPURING_ERR_PEER;
            free(self->awaited);
            self->awaited = NULL;
        } else {
            deliver(self);
        }
    }
    return self->awaited == NULL;
}

bool gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                               const struct gpuring_p2p_envelope *to,
                               struct gpuring_p2p_sending **sending, int *code)
{
    const char *gpu;
    int peer;

    gpu = suits(message, to, &peer);
    *sending = gpu != NULL ? create(gpu, peer) : NULL;
    if (*sending == NULL) {
        return false;
    }
    gpuring_p2p_request_wait_turn(to->comm, to->peer);
    fill(*sending, message->bytes);
    *code =
        gpuring_p2p_previous.pml_isend(&(*sending)->wire, GPURING_P2P_OFFER_BYTES, MPI_BYTE,
                                       to->peer, to->tag, to->mode, to->comm, &(*sending)->offered);
    if (*code != MPI_SUCCESS) {
        gpuring_error(
            "[p2p-offer] a send of %zu bytes to rank %d of MPI_COMM_WORLD returns an error, "
            "as Open MPI could not send its announcement; its own messages say why",
            message->bytes, peer);
        gpuring_p2p_sending_free(*sending); /* but for the receive, which is the PML's */
        *sending = NULL;
    }
    return true;
}

static size_t chunk_bytes(const struct gpuring_p2p_sending *self)
{
    size_t left = self->answer.bytes - self->next * GPURING_P2P_CHUNK;

    return left < GPURING_P2P_CHUNK ? left : GPURING_P2P_CHUNK;
}

/* What chunks need: without it they are sent empty. */
static void open_chunks(struct gpuring_p2p_sending *self)
{
    if (self->stream != NULL || self->status != GPURING_OK) {
        return;
    }
    self->bounce =
        gpuring_stage_bounce_get(BUFFERS * GPURING_P2P_CHUNK, BUFFERS * GPURING_P2P_CHUNK);
    self->status =
        self->bounce != NULL ? gpuring_stage_stream_get(&self->stream) : GPURING_ERR_NOMEM;
    if (self->status != GPURING_OK) {
        gpuring_error(
            "[p2p-no-memory] a send on GPU memory returns an error: there are no %zu bytes "
            "of host memory, or no stream, to copy it; free host memory, or raise its "
            "limits (ulimit -v, vm.overcommit_memory)",
            BUFFERS * GPURING_P2P_CHUNK);
    }
}

/* Copy and send the next chunk. GPURING_AGAIN: that has to wait. */
static int feed(struct gpuring_p2p_sending *self)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    size_t bytes = chunk_bytes(self);
    int slot = (int) (self->next % BUFFERS);
    char *buffer = self->bounce != NULL ? self->bounce->address + slot * GPURING_P2P_CHUNK : NULL;

    if (!gpuring_p2p_ended(&self->sends[slot])) {
        return GPURING_AGAIN;
    }
    if (self->status == GPURING_OK && !self->copying) {
        self->status =
            ops->copy(self->stream, buffer, self->gpu + self->next * GPURING_P2P_CHUNK, bytes);
        self->copying = true;
    }
    if (self->copying) {
        int status = ops->copied(self->stream);

        if (status == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        self->copying = false;
        self->status = self->status == GPURING_OK ? status : self->status;
        if (self->status != GPURING_OK) {
            gpuring_p2p_message_copy_failed(self->answer.bytes, self->status);
        }
    }
    self->next++;
    if (gpuring_p2p_world_isend(buffer, self->status == GPURING_OK ? bytes : 0, self->peer,
                                GPURING_P2P_TAG_CHUNK, &self->sends[slot]) != GPURING_OK) {
        self->status = GPURING_ERR_IO;
    }
    return GPURING_OK;
}

int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *self)
{
    bool all = true;

    if (!answered(self)) {
        return GPURING_AGAIN;
    }
    if (self->answer.bytes > self->next * GPURING_P2P_CHUNK) {
        open_chunks(self);
    }
    while (self->next * GPURING_P2P_CHUNK < self->answer.bytes) {
        if (feed(self) == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
    }
    for (int i = 0; i < BUFFERS; i++) {
        all = gpuring_p2p_ended(&self->sends[i]) && all;
    }
    all = gpuring_p2p_ended(&self->offered) && all;
    return all ? self->status : GPURING_AGAIN;
}

void gpuring_p2p_sending_free(struct gpuring_p2p_sending *self)
{
    if (self != NULL) {
        pthread_mutex_lock(&lock);
        gpuring_list_remove(&self->node);
        pthread_mutex_unlock(&lock);
        gpuring_stage_stream_put(self->stream);
        gpuring_stage_bounce_put(self->bounce);
        free(self);
    }
}
