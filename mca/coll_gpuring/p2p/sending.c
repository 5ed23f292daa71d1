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

#define BUFFERS 4 /* of chunks: one is filled while up to three are sent */

/* A receive of an answer. */
struct awaited {
    struct gpuring_p2p_answer answer;
    ompi_request_t *request;
};

/* The phases of a message. */
enum phase {
    OFFERED, /* not answered yet; the first slots may be filled */
    LEAVING, /* the receiver does not use the slots, but the last copy to them is still running */
    SLOTS,
    CHUNKS,
    ENDED /* until its sends have completed */
};

struct gpuring_p2p_sending {
    union {
        struct gpuring_p2p_offer offer;
        char bytes[GPURING_P2P_OFFER_BYTES];
    } wire;
    const char *gpu;
    int peer;
    enum phase phase;
    ompi_request_t *offered; /* MPI_REQUEST_NULL when the offer was sent */

    /* A process may answer offers in any order. Each answer names its offer. If the receive that
     * belongs to another offer gets the answer, the two offers exchange their receives. */
    struct awaited *awaited; /* NULL when the offer was answered */
    struct gpuring_p2p_answer answer;

    size_t bytes;                          /* to be sent */
    enum gpuring_p2p_place place;          /* of `slots` */
    const struct gpuring_p2p_slots *slots; /* NULL: not offered */
    int32_t buffer;                        /* index in these; -1: none */
    uint32_t lead;                         /* offset of the data in a slot */
    bool kernel;                           /* a kernel fills the slot */
    bool moving;                           /* it runs */
    struct gpuring_move move;
    struct gpuring_stage_bounce *bounce;
    struct gpuring_stream *stream;
    ompi_request_t *sends[BUFFERS];
    size_t next; /* bytes before the chunk or slot that is copied now or next */
    bool copying;
    struct gpuring_p2p_watch watch;
    int status; /* after an error, chunks are sent empty, so that the receiver detects it */
};

/* Find slots that can be filled from this memory, if the receiver reads slots. */
static void find_slots(struct gpuring_p2p_sending *self)
{
    enum gpuring_p2p_place place = self->peer != gpuring_process.world_rank
                                       ? gpuring_p2p_peer_place(self->peer)
                                       : GPURING_P2P_NONE;

    if (place == GPURING_P2P_GPU && !gpuring_p2p_slots_reach(self->gpu)) {
        place = GPURING_P2P_HOST;
    }
    while (place > GPURING_P2P_NONE && self->slots == NULL) {
        self->place = place;
        self->slots = gpuring_p2p_slots_open(place--, &self->wire.offer.shared);
    }
    self->kernel = self->slots != NULL && self->bytes <= gpuring_params.p2p_kernels &&
                   gpuring_p2p_slots_kernel(self->slots);
    if (self->kernel) {
        self->lead = (uint32_t) ((uintptr_t) self->gpu % GPURING_MOVE_PACK);
    }
}

static struct gpuring_p2p_sending *sending_create(const char *gpu, size_t bytes, int peer)
{
    struct gpuring_p2p_sending *self = calloc(1, sizeof *self);
    struct awaited *awaited = calloc(1, sizeof *awaited);

    if (self == NULL || awaited == NULL) {
        free(self);
        free(awaited);
        return NULL;
    }
    self->gpu = gpu;
    self->bytes = bytes;
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
static void sending_deliver(struct gpuring_p2p_sending *self)
{
    struct awaited *arrived = self->awaited;
    struct gpuring_p2p_sending *to =
        (struct gpuring_p2p_sending *) (uintptr_t) arrived->answer.sending;

    to->answer = arrived->answer;
    self->awaited = to->awaited;
    to->awaited = NULL;
    free(arrived);
}

/* Return false if the receiver is on this node and has ended. */
static bool receiver_lives(struct gpuring_p2p_sending *self)
{
    return self->slots == NULL || gpuring_p2p_lives(gpuring_p2p_peer_pid(self->peer), &self->watch);
}

/* Return true if the offer was answered, or never will be because the receiver has failed. */
static bool answered(struct gpuring_p2p_sending *self)
{
    while (self->awaited != NULL && gpuring_request_done(self->awaited->request)) {
        const ompi_status_public_t *status = &self->awaited->request->req_status;
        bool failed = status->MPI_ERROR != MPI_SUCCESS || status->_cancelled;

        ompi_request_free(&self->awaited->request);
        if (failed) {
            self->status = GPURING_ERR_PEER;
            free(self->awaited);
            self->awaited = NULL;
        } else {
            sending_deliver(self);
        }
    }
    return self->awaited == NULL;
}

/* ---- Copies ---- */

static void log_no_way(const struct gpuring_p2p_sending *self)
{
    if (self->status != GPURING_ERR_NOMEM) {
        gpuring_p2p_message_copy_failed(self->bytes, self->status);
        return;
    }
    gpuring_error("[p2p-no-memory] a send on GPU memory returns an error: %zu bytes of host "
                  "memory to copy it could not be allocated; free host memory, or raise its "
                  "limits (ulimit -v, vm.overcommit_memory)",
                  BUFFERS * GPURING_P2P_CHUNK);
}

/* Get a stream for the copies. If that fails, nothing is copied, and the receiver is notified. */
static void open_stream(struct gpuring_p2p_sending *self)
{
    if (self->status == GPURING_OK && self->stream == NULL) {
        self->status = gpuring_stage_stream_get(self->gpu, &self->stream);
        if (self->status != GPURING_OK) {
            log_no_way(self);
        }
    }
}

/* Return true if no copy is running. */
static bool sending_copied(struct gpuring_p2p_sending *self)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = self->moving    ? ops->moved(self->stream, &self->move)
                 : self->copying ? ops->copied(self->stream)
                                 : GPURING_OK;

    if (status == GPURING_AGAIN) {
        return false;
    }
    self->copying = self->moving = false;
    if (status != GPURING_OK) {
        self->status = status;
        gpuring_p2p_message_copy_failed(self->bytes, status);
    }
    return true;
}

static size_t next_bytes(const struct gpuring_p2p_sending *self, size_t unit)
{
    size_t left = self->bytes - self->next;

    return left < unit ? left : unit;
}

/* Start to copy the next bytes, unless there was an error. */
static void start_copy(struct gpuring_p2p_sending *self, char *to, size_t bytes)
{
    if (self->status == GPURING_OK) {
        self->status =
            gpuring_process.device_ops->copy(self->stream, to, self->gpu + self->next, bytes);
        self->copying = self->status == GPURING_OK;
        if (!self->copying) {
            gpuring_p2p_message_copy_failed(self->bytes, self->status);
        }
    }
}

/* Reserve a buffer of slots, if the message has none. Return false if none is free. */
static bool reserve_slots(struct gpuring_p2p_sending *self)
{
    struct gpuring_p2p_flow use = {
        .sending = (uintptr_t) self, .lead = self->lead, .kernel = self->kernel};

    if (self->buffer < 0) {
        self->buffer = gpuring_p2p_slots_lend(self->place, &use, self->phase == SLOTS);
        if (self->buffer >= 0) {
            open_stream(self);
        }
    }
    return self->buffer >= 0;
}

/* Start to fill the next slot with a kernel or, if that fails, with the driver. */
static void fill_slot(struct gpuring_p2p_sending *self, uint64_t number, size_t bytes)
{
    if (self->kernel && self->status == GPURING_OK) {
        self->move = gpuring_p2p_move(self->slots, self->buffer, bytes, true);
        self->move.from = (const uint8_t *) self->gpu;
        self->moving = gpuring_process.device_ops->move(self->stream, &self->move) == GPURING_OK;
    }
    if (!self->moving) {
        start_copy(self, gpuring_p2p_slot(self->slots, self->buffer, number) + self->lead, bytes);
    }
}

/* Fill slots while some are free. */
static void fill_slots(struct gpuring_p2p_sending *self)
{
    size_t unit = gpuring_p2p_slot_bytes(self->slots);
    struct gpuring_p2p_flow *flow;
    uint64_t filled;

    if (!reserve_slots(self)) {
        return;
    }
    flow = gpuring_p2p_flow(self->slots, self->buffer);
    while (sending_copied(self) && self->status == GPURING_OK) {
        filled = (self->next + unit - 1) / unit;
        __atomic_store_n(&flow->filled, filled, __ATOMIC_RELEASE);
        /* Acquire, because the copies from the slots must have ended. Partner: the receiver's
         * release. */
        if (self->next >= self->bytes ||
            filled - __atomic_load_n(&flow->taken, __ATOMIC_ACQUIRE) == GPURING_P2P_SLOTS) {
            return;
        }
        fill_slot(self, filled, next_bytes(self, unit));
        self->next += next_bytes(self, unit);
    }
    if (self->status != GPURING_OK) {
        __atomic_store_n(&flow->failed, 1, __ATOMIC_RELEASE);
    }
}

/* ---- The offer ---- */

/* Send the offer. The receive of the answer is posted before. Returns an MPI error code. */
static int send_offer(struct gpuring_p2p_sending *self, const struct gpuring_p2p_envelope *to)
{
    struct gpuring_p2p_offer *offer = &self->wire.offer;

    offer->mark[0] = GPURING_P2P_MARK_0;
    offer->mark[1] = GPURING_P2P_MARK_1;
    gpuring_p2p_home(&offer->home);
    offer->sending = (uint64_t) (uintptr_t) self;
    offer->bytes = self->bytes;
    offer->sender = gpuring_process.world_rank;
    offer->place = self->slots != NULL ? (int32_t) self->place : GPURING_P2P_NONE;
    gpuring_p2p_wait_turn(to->comm, to->peer);
    return gpuring_p2p.previous.pml_isend(&self->wire, GPURING_P2P_OFFER_BYTES, MPI_BYTE, to->peer,
                                          to->tag, to->mode, to->comm, &self->offered);
}

int gpuring_p2p_sending_start(const struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *to, int peer,
                              struct gpuring_p2p_sending **sending)
{
    const char *gpu = gpuring_p2p_message_contiguous(message);
    struct gpuring_p2p_sending *self =
        gpu != NULL ? sending_create(gpu, message->bytes, peer) : NULL;
    int code;

    *sending = NULL;
    if (self == NULL) {
        return MPI_SUCCESS;
    }
    find_slots(self);
    /* The receiver waits for a copy by the driver, so start it first. It launches a kernel when it
     * has the offer, so in this case send that first. */
    if (self->kernel) {
        (void) reserve_slots(self);
    } else if (self->slots != NULL) {
        fill_slots(self);
    }
    if (gpuring_p2p_world_irecv(&self->awaited->answer, sizeof self->awaited->answer, peer,
                                GPURING_P2P_TAG_ANSWER, &self->awaited->request) != GPURING_OK) {
        free(self->awaited);
        gpuring_p2p_sending_free(self);
        return MPI_SUCCESS;
    }
    code = send_offer(self, to);
    if (code != MPI_SUCCESS) {
        gpuring_error(
            "[p2p-offer] a send of %zu bytes to rank %d of MPI_COMM_WORLD returns an error "
            "because Open MPI could not send its announcement; see the messages of Open MPI",
            message->bytes, peer);
        gpuring_p2p_sending_free(self); /* except the receive, which the PML owns */
        return code;
    }
    if (self->kernel) {
        fill_slots(self);
    }
    *sending = self;
    return MPI_SUCCESS;
}

const char *gpuring_p2p_sending_source(const struct gpuring_p2p_sending *self)
{
    return self->gpu;
}

/* ---- After the answer ---- */

static enum phase wait_answer(struct gpuring_p2p_sending *self)
{
    if (self->slots != NULL) {
        fill_slots(self);
    }
    if (!answered(self)) {
        if (!receiver_lives(self)) {
            ompi_request_cancel(self->awaited->request);
        }
        return OFFERED;
    }
    self->bytes = self->answer.bytes;
    if (self->bytes > 0 && self->peer != gpuring_process.world_rank) {
        gpuring_p2p_peer_set_place(self->peer, (enum gpuring_p2p_place) self->answer.place);
    }
    return self->answer.slots ? SLOTS : LEAVING;
}

/* Give back the slots, and allocate memory for chunks. */
static enum phase leave_slots(struct gpuring_p2p_sending *self)
{
    if (!sending_copied(self)) {
        return LEAVING;
    }
    gpuring_p2p_slots_return(self->place, self->buffer);
    self->buffer = -1;
    self->next = 0;
    if (self->bytes > 0) {
        open_stream(self);
    }
    if (self->bytes > 0 && self->status == GPURING_OK) {
        self->bounce = gpuring_stage_bounce_get(self->gpu, BUFFERS * GPURING_P2P_CHUNK,
                                                BUFFERS * GPURING_P2P_CHUNK);
        if (self->bounce == NULL) {
            self->status = GPURING_ERR_NOMEM;
            log_no_way(self);
        }
    }
    return CHUNKS;
}

/* Fill slots until the receiver has read enough of them. */
static enum phase send_slots(struct gpuring_p2p_sending *self)
{
    bool ended;

    fill_slots(self);
    ended = self->buffer >= 0 &&
            __atomic_load_n(&gpuring_p2p_flow(self->slots, self->buffer)->ended, __ATOMIC_ACQUIRE);
    if (!ended) {
        if (receiver_lives(self)) {
            return SLOTS;
        }
        self->status = GPURING_ERR_PEER;
    }
    return sending_copied(self) ? ENDED : SLOTS;
}

/* Copy the next chunks and send them. */
static enum phase send_chunks(struct gpuring_p2p_sending *self)
{
    while (self->next < self->bytes) {
        size_t bytes = next_bytes(self, GPURING_P2P_CHUNK);
        size_t slot = self->next / GPURING_P2P_CHUNK % BUFFERS;
        char *buffer =
            self->bounce != NULL ? self->bounce->address + slot * GPURING_P2P_CHUNK : NULL;

        if (!self->copying) {
            if (!gpuring_p2p_ended(&self->sends[slot])) {
                return CHUNKS;
            }
            start_copy(self, buffer, bytes);
        }
        if (!sending_copied(self)) {
            return CHUNKS;
        }
        self->next += bytes;
        if (gpuring_p2p_world_isend(buffer, self->status == GPURING_OK ? bytes : 0, self->peer,
                                    GPURING_P2P_TAG_CHUNK, &self->sends[slot]) != GPURING_OK) {
            self->status = GPURING_ERR_IO;
        }
    }
    return ENDED;
}

/* Return the next phase, or the same one if the message has to wait. */
static enum phase sending_step(struct gpuring_p2p_sending *self)
{
    switch (self->phase) {
    case OFFERED:
        return wait_answer(self);
    case LEAVING:
        return leave_slots(self);
    case SLOTS:
        return send_slots(self);
    case CHUNKS:
        return send_chunks(self);
    case ENDED:
        break;
    }
    return ENDED;
}

int gpuring_p2p_sending_advance(struct gpuring_p2p_sending *self)
{
    enum phase before;

    do {
        before = self->phase;
        self->phase = sending_step(self);
    } while (self->phase != before);
    for (int i = 0; i < BUFFERS; i++) {
        if (self->phase != ENDED || !gpuring_p2p_ended(&self->sends[i])) {
            return GPURING_AGAIN;
        }
    }
    return gpuring_p2p_ended(&self->offered) ? self->status : GPURING_AGAIN;
}

void gpuring_p2p_sending_free(struct gpuring_p2p_sending *self)
{
    if (self != NULL) {
        if (self->copying || self->moving) {
            (void) gpuring_process.device_ops->synchronize(self->stream);
        }
        gpuring_p2p_slots_return(self->place, self->buffer);
        gpuring_stage_stream_put(self->stream);
        gpuring_stage_bounce_put(self->bounce);
        free(self);
    }
}
