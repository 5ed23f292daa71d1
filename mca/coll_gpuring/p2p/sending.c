/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The sender's side of an offer. */
#include <stdlib.h>

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFERS 2 /* one is filled while the other one is sent */

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
    ompi_request_t *offered; /* MPI_REQUEST_NULL when the offer has left */

    /* A process may answer offers in any order. Each answer names its offer. If the receive of
     * another offer gets it, the two offers exchange their receives. */
    struct awaited *awaited; /* NULL when the offer was answered */
    struct gpuring_p2p_answer answer;

    size_t unit; /* bytes of a slot or a chunk; 0 until the way is decided */
    const struct gpuring_p2p_slots *slots; /* NULL: not offered */
    int32_t buffer;                        /* index in these; -1: none, send chunks */
    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream;
    ompi_request_t *sends[BUFFERS];
    size_t next; /* index of the chunk or slot that is copied now or next */
    bool copying;
    int status; /* after an error, chunks are sent empty, so that the receiver detects it */
};

/* Return the contiguous GPU memory of a message that must be offered: large, not a buffered send,
 * and to a process that recognises offers. Otherwise NULL. */
static const char *suits(const struct gpuring_p2p_message *message,
                         const struct gpuring_p2p_envelope *to, int *peer)
{
    const char *gpu = gpuring_p2p_message_contiguous(message);

    if (gpu == NULL || !gpuring_p2p_is_large(message->bytes) ||
        to->mode == MCA_PML_BASE_SEND_BUFFERED) {
        return NULL;
    }
    *peer = gpuring_p2p_peer_of(to->comm, to->peer);
    return *peer >= 0 && gpuring_p2p_peer_consents(*peer) ? gpu : NULL;
}

/* Return slots that can be filled from this memory, or NULL. They are allocated when a receiver has
 * reported that it could use them. */
static const struct gpuring_p2p_slots *find_slots(const char *gpu,
                                                  struct gpuring_p2p_shared *shared)
{
    return __atomic_load_n(&gpuring_p2p.near, __ATOMIC_RELAXED) &&
                   gpuring_process_attach(gpu) == GPURING_OK && gpuring_p2p_slots_reach(gpu)
               ? gpuring_p2p_slots_open(shared)
               : NULL;
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
    self->buffer = -1;
    self->offered = MPI_REQUEST_NULL;
    for (int i = 0; i < BUFFERS; i++) {
        self->sends[i] = MPI_REQUEST_NULL;
    }
    return self;
}

/* Give an answer to the offer that it names, in exchange for the receive of that offer. */
static void deliver(struct gpuring_p2p_sending *self)
{
    struct awaited *arrived = self->awaited;
    struct gpuring_p2p_sending *to =
        (struct gpuring_p2p_sending *) (uintptr_t) arrived->answer.sending;

    to->answer = arrived->answer;
    self->awaited = to->awaited;
    to->awaited = NULL;
    free(arrived);
}

/* Return true if the offer was answered, or never will be because the receiver has failed. */
static bool answered(struct gpuring_p2p_sending *self)
{
    while (self->awaited != NULL && gpuring_request_done(self->awaited->request)) {
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

/* Send an offer. The receive of the answer is posted before. */
static int send_offer(struct gpuring_p2p_sending *self, size_t bytes,
                      const struct gpuring_p2p_envelope *to)
{
    struct gpuring_p2p_offer *offer = &self->wire.offer;

    offer->mark[0] = GPURING_P2P_MARK_0;
    offer->mark[1] = GPURING_P2P_MARK_1;
    offer->node = gpuring_p2p_node();
    offer->sending = (uint64_t) (uintptr_t) self;
    offer->bytes = bytes;
    offer->sender = gpuring_process.world_rank;
    self->slots = find_slots(self->gpu, &offer->shared);
    offer->direct = self->slots != NULL;
    return gpuring_p2p.previous.pml_isend(&self->wire, GPURING_P2P_OFFER_BYTES, MPI_BYTE, to->peer,
                                          to->tag, to->mode, to->comm, &self->offered);
}

int gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *to,
                              struct gpuring_p2p_sending **sending)
{
    const char *gpu;
    int peer, code;

    gpu = suits(message, to, &peer);
    *sending = gpu != NULL ? create(gpu, peer) : NULL;
    if (*sending == NULL) {
        return MPI_SUCCESS;
    }
    gpuring_p2p_wait_turn(to->comm, to->peer);
    code = send_offer(*sending, message->bytes, to);
    if (code != MPI_SUCCESS) {
        gpuring_error(
            "[p2p-offer] a send of %zu bytes to rank %d of MPI_COMM_WORLD returns an error because "
            "Open MPI could not send its announcement; see its own messages",
            message->bytes, peer);
        gpuring_p2p_sending_free(*sending); /* except the receive, which the PML owns */
        *sending = NULL;
    }
    return code;
}

static size_t next_bytes(const struct gpuring_p2p_sending *self)
{
    size_t left = self->answer.bytes - self->next * self->unit;

    return left < self->unit ? left : self->unit;
}

static bool all_copied(const struct gpuring_p2p_sending *self)
{
    return self->next * self->unit >= self->answer.bytes;
}

static void log_no_way(const struct gpuring_p2p_sending *self)
{
    if (self->status != GPURING_ERR_NOMEM) {
        gpuring_p2p_message_copy_failed(self->answer.bytes, self->status);
        return;
    }
    gpuring_error("[p2p-no-memory] a send on GPU memory returns an error: there are no %zu bytes "
                  "of host memory to copy it; free host memory, or raise its limits (ulimit -v, "
                  "vm.overcommit_memory)",
                  BUFFERS * GPURING_P2P_CHUNK);
}

/* Allocate the resources of the chosen way. If that fails, chunks are sent empty. */
static void open_way(struct gpuring_p2p_sending *self)
{
    if (self->answer.near) {
        __atomic_store_n(&gpuring_p2p.near, true, __ATOMIC_RELAXED);
    }
    if (self->status == GPURING_OK && self->answer.bytes > 0) {
        self->status = gpuring_stage_stream_get(&self->stream);
    }
    if (self->answer.direct && self->status == GPURING_OK) {
        self->buffer = gpuring_p2p_slots_lend();
    }
    self->unit = self->buffer >= 0 ? GPURING_P2P_SLOT : GPURING_P2P_CHUNK;
    if (self->buffer < 0 && self->status == GPURING_OK && self->answer.bytes > 0) {
        self->bounce =
            gpuring_stage_bounce_get(BUFFERS * GPURING_P2P_CHUNK, BUFFERS * GPURING_P2P_CHUNK);
        self->status = self->bounce != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
    }
    if (self->status != GPURING_OK && self->status != GPURING_ERR_PEER) {
        log_no_way(self);
    }
    if (self->answer.direct &&
        gpuring_p2p_world_isend(&self->buffer, sizeof self->buffer, self->peer,
                                GPURING_P2P_TAG_CHUNK, &self->sends[0]) != GPURING_OK) {
        self->status = GPURING_ERR_IO;
    }
}

/* Copy the next chunk. Returns GPURING_AGAIN while the copy is running. Any other status means that
 * it has ended or failed. */
static int copy_chunk(struct gpuring_p2p_sending *self, char *to)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status;

    if (self->status == GPURING_OK && !self->copying) {
        self->status =
            ops->copy(self->stream, to, self->gpu + self->next * self->unit, next_bytes(self));
        self->copying = true;
    }
    if (self->copying) {
        status = ops->copied(self->stream);
        if (status == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        self->copying = false;
        self->status = self->status == GPURING_OK ? status : self->status;
        if (self->status != GPURING_OK) {
            gpuring_p2p_message_copy_failed(self->answer.bytes, self->status);
        }
    }
    return GPURING_OK;
}

/* Copy the next chunks and send them. Returns GPURING_AGAIN if this has to wait. */
static int send_chunks(struct gpuring_p2p_sending *self)
{
    while (!all_copied(self)) {
        size_t bytes = next_bytes(self);
        int slot = (int) (self->next % BUFFERS);
        char *buffer =
            self->bounce != NULL ? self->bounce->address + slot * GPURING_P2P_CHUNK : NULL;

        if (!gpuring_p2p_ended(&self->sends[slot]) || copy_chunk(self, buffer) == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        self->next++;
        if (gpuring_p2p_world_isend(buffer, self->status == GPURING_OK ? bytes : 0, self->peer,
                                    GPURING_P2P_TAG_CHUNK, &self->sends[slot]) != GPURING_OK) {
            self->status = GPURING_ERR_IO;
        }
    }
    return GPURING_OK;
}

/* Fill slots until the receiver has copied all of them. */
static int fill_slots(struct gpuring_p2p_sending *self)
{
    struct gpuring_p2p_flow *flow = gpuring_p2p_flow(self->slots, self->buffer);

    /* Acquire, because the copies from the slots must have ended. Partner: the receiver's release.
     */
    while (!all_copied(self) && self->status == GPURING_OK &&
           self->next - __atomic_load_n(&flow->taken, __ATOMIC_ACQUIRE) < GPURING_P2P_SLOTS) {
        if (copy_chunk(self, gpuring_p2p_slot(self->slots, self->buffer, self->next)) ==
            GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        if (self->status == GPURING_OK) {
            self->next++;
            __atomic_store_n(&flow->filled, self->next, __ATOMIC_RELEASE);
        }
    }
    if (self->status != GPURING_OK) {
        __atomic_store_n(&flow->failed, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&flow->ended, __ATOMIC_ACQUIRE) ? GPURING_OK : GPURING_AGAIN;
}

int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *self)
{
    if (!answered(self)) {
        return GPURING_AGAIN;
    }
    if (self->unit == 0) {
        open_way(self);
    }
    if ((self->buffer >= 0 ? fill_slots(self) : send_chunks(self)) == GPURING_AGAIN) {
        return GPURING_AGAIN;
    }
    for (int i = 0; i < BUFFERS; i++) {
        if (!gpuring_p2p_ended(&self->sends[i])) {
            return GPURING_AGAIN;
        }
    }
    return gpuring_p2p_ended(&self->offered) ? self->status : GPURING_AGAIN;
}

void gpuring_p2p_sending_free(struct gpuring_p2p_sending *self)
{
    if (self != NULL) {
        gpuring_p2p_slots_return(self->buffer);
        gpuring_stage_stream_put(self->stream);
        gpuring_stage_bounce_put(self->bounce);
        free(self);
    }
}
