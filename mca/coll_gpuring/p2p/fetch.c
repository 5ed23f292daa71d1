/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The receiver's side of an offer. */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define WINDOW 4 /* receives of chunks that are posted ahead */

/* Maximum number of kernels that wait for senders, each with up to GPURING_MOVE_BLOCKS blocks. The
 * GPU must have room for the kernels of the sends, for which other processes wait. */
#define MOVERS 8

/* The phases from the offer to the end of the data. */
enum phase {
    NEW,
    TURN, /* another message in chunks of the sender is still being received */
    SLOTS,
    CHUNKS,
    OWN,  /* copied from a buffer of this process; the answer follows */
    ENDED /* until the send of the answer has completed */
};

struct gpuring_p2p_fetch {
    struct gpuring_p2p_offer offer;
    const struct gpuring_p2p_message *message;
    size_t bytes;
    char *gpu;     /* contiguous target; NULL if the data is stored in `landing` */
    char *landing; /* host memory for all bytes */
    char *own;     /* `landing`, if the user's type has gaps */
    enum phase phase;
    int status; /* not GPURING_OK: the data is lost */

    struct gpuring_stream *stream;
    ompi_request_t *receives[WINDOW];
    size_t begun, arrived;                 /* bytes */
    const struct gpuring_p2p_slots *slots; /* the sender's, mapped; NULL: not used */
    int32_t buffer;                        /* index of a buffer in `slots`; -1: none */
    uint64_t taken;                        /* number of slots that were copied */
    bool copying;
    bool decided; /* whether a kernel copies the only slot */
    bool moving;  /* the kernel runs */
    struct gpuring_move move;
    struct gpuring_p2p_watch watch;
    struct gpuring_list node; /* of `coming` */

    struct gpuring_p2p_answer answer;
    ompi_request_t *answering;
};

/* Messages whose data is being received. Only advance uses this list. */
static struct gpuring_list coming = GPURING_LIST_INIT(coming);

static bool is_marked(const struct gpuring_p2p_offer *offer)
{
    return offer->mark[0] == GPURING_P2P_MARK_0 && offer->mark[1] == GPURING_P2P_MARK_1;
}

bool gpuring_p2p_offer_read(const void *data, struct gpuring_p2p_offer *offer)
{
    memcpy(offer, data, sizeof *offer);
    return is_marked(offer);
}

bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer)
{
    char packed[GPURING_P2P_OFFER_BYTES];
    const char *data;

    if (bytes != GPURING_P2P_OFFER_BYTES) {
        return false;
    }
    data = gpuring_p2p_message_landing(message);
    if (data == NULL) {
        data = packed;
        if (gpuring_p2p_message_convert(message, packed, bytes, true) != GPURING_OK) {
            return false;
        }
    }
    return gpuring_p2p_offer_read(data, offer);
}

/* Return true if the sender is this process. */
static bool is_own(const struct gpuring_p2p_fetch *self)
{
    return self->offer.sender == gpuring_process.world_rank;
}

/* Answer an offer that cannot be taken, so that its sender does not wait. */
static void decline(uint64_t sending, int sender)
{
    struct gpuring_p2p_answer none = {.sending = sending};

    (void) gpuring_p2p.previous.pml_send(&none, sizeof none, MPI_BYTE, sender,
                                         GPURING_P2P_TAG_ANSWER, MCA_PML_BASE_SEND_STANDARD,
                                         MPI_COMM_WORLD);
}

void gpuring_p2p_offer_truncated(const struct gpuring_p2p_message *message,
                                 struct ompi_communicator_t *comm,
                                 const ompi_status_public_t *status)
{
    const size_t least = offsetof(struct gpuring_p2p_offer, bytes);
    struct gpuring_p2p_offer offer = {.sending = 0};
    const char *data = gpuring_p2p_message_landing(message);
    int sender = gpuring_p2p_peer_of(comm, status->MPI_SOURCE);

    if (message->bytes < least || message->bytes >= GPURING_P2P_OFFER_BYTES || sender < 0) {
        return;
    }
    if (data != NULL) {
        memcpy(&offer, data, least);
    } else {
        (void) gpuring_p2p_message_convert(message, &offer, least, true);
    }
    if (is_marked(&offer)) {
        decline(offer.sending, sender);
    }
}

struct gpuring_p2p_fetch *gpuring_p2p_fetch_new(const struct gpuring_p2p_offer *offer,
                                                const struct gpuring_p2p_message *message)
{
    struct gpuring_p2p_fetch *self = calloc(1, sizeof *self);

    if (self == NULL) {
        gpuring_error("[p2p-no-memory] a receive returns MPI_ERR_NO_MEM: no memory could be "
                      "allocated for a message of %llu bytes, which is lost; free host memory",
                      (unsigned long long) offer->bytes);
        decline(offer->sending, offer->sender);
        return NULL;
    }
    self->offer = *offer;
    self->message = message;
    self->bytes = offer->bytes < message->bytes ? offer->bytes : message->bytes;
    self->buffer = -1;
    self->answering = MPI_REQUEST_NULL;
    for (int i = 0; i < WINDOW; i++) {
        self->receives[i] = MPI_REQUEST_NULL;
    }
    self->gpu = (char *) (uintptr_t) gpuring_p2p_message_contiguous(message);
    self->landing = gpuring_p2p_message_landing(message);
    if (self->landing == NULL) {
        self->landing = self->own = malloc(self->bytes);
        self->status = self->own != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
    }
    if (self->status == GPURING_ERR_NOMEM) {
        gpuring_error(
            "[p2p-no-memory] a receive of %zu bytes returns an error: their host memory could "
            "not be allocated; free host memory, or raise its limits (ulimit -v, "
            "vm.overcommit_memory)",
            self->bytes);
    }
    return self;
}

/* Map the slots that the offer names, if they can be used for this receive. Slots on a GPU are only
 * used if the target is on a GPU, too. */
static void find_slots(struct gpuring_p2p_fetch *self)
{
    const struct gpuring_p2p_offer *offer = &self->offer;
    int32_t place = offer->place;

    self->answer.place = (int32_t) gpuring_p2p_best_place(&offer->home, self->gpu);
    if (place == GPURING_P2P_NONE || place > self->answer.place) {
        return;
    }
    self->slots = gpuring_p2p_slots_map((enum gpuring_p2p_place) place, offer->sender,
                                        &offer->shared, self->gpu, self->bytes);
    self->answer.slots = self->slots != NULL;
    if (self->slots == NULL) {
        self->answer.place = place - 1;
    }
}

static void send_answer(struct gpuring_p2p_fetch *self)
{
    if (gpuring_p2p_world_isend(&self->answer, sizeof self->answer, self->offer.sender,
                                GPURING_P2P_TAG_ANSWER, &self->answering) != GPURING_OK) {
        self->status = GPURING_ERR_IO;
    }
}

/* Post receives of chunks until WINDOW of them are posted. */
static void receive_ahead(struct gpuring_p2p_fetch *self)
{
    while (self->begun < self->bytes &&
           self->receives[self->begun / GPURING_P2P_CHUNK % WINDOW] == MPI_REQUEST_NULL) {
        size_t left = self->bytes - self->begun;
        size_t bytes = left < GPURING_P2P_CHUNK ? left : GPURING_P2P_CHUNK;

        if (gpuring_p2p_world_irecv(
                self->landing + self->begun, bytes, self->offer.sender, GPURING_P2P_TAG_CHUNK,
                &self->receives[self->begun / GPURING_P2P_CHUNK % WINDOW]) != GPURING_OK) {
            self->status = GPURING_ERR_IO;
        }
        self->begun += bytes;
    }
}

/* Get a stream for the copies to the GPU, or from the buffer of this process. */
static void open_stream(struct gpuring_p2p_fetch *self)
{
    if ((self->gpu != NULL || is_own(self)) && self->status == GPURING_OK && self->stream == NULL) {
        self->status = gpuring_stage_stream_get(self->gpu, &self->stream);
        if (self->status != GPURING_OK) {
            gpuring_p2p_message_copy_failed(self->bytes, self->status);
        }
    }
}

/* Return true if the sender has reserved a buffer for the message. */
static bool has_buffer(struct gpuring_p2p_fetch *self)
{
    if (self->buffer < 0) {
        self->buffer = gpuring_p2p_slots_find(self->slots, self->offer.sending);
        if (self->buffer >= 0) {
            open_stream(self);
        }
    }
    return self->buffer >= 0;
}

/* Kernels of this process that copy messages now. Only advance uses it. */
static int movers;

/*
 * If a kernel runs out of patience, the sender's kernel is waiting for work of the program, or for
 * a time slice of a GPU that processes share without MPS. The next kernels would probably wait as
 * well, and they would keep the GPU from others. Therefore the driver copies the next messages.
 * Their number grows with each further kernel that runs out of patience, and shrinks with each
 * message that a kernel copies. Only advance uses these variables.
 */
#define SKIPS_MAX 255
static unsigned skips, skips_left; /* messages */

static bool skips_kernel(void)
{
    bool skipped = skips_left > 0;

    skips_left -= skipped;
    return skipped;
}

static void count_move(bool copied)
{
    if (copied) {
        skips /= 2;
    } else if (skips_left == 0) { /* otherwise it was launched before the skips */
        skips = skips < SKIPS_MAX ? 2 * skips + 1 : SKIPS_MAX;
        skips_left = skips;
    }
}

/* Once the sender has reserved a buffer, start a kernel that waits for the sender's kernel, if both
 * can copy the message. Otherwise the driver copies it later. */
static void start_move(struct gpuring_p2p_fetch *self)
{
    if (self->decided || !has_buffer(self)) {
        return;
    }
    self->decided = true;
    if (movers == MOVERS || self->gpu == NULL || self->bytes != self->offer.bytes ||
        self->status != GPURING_OK || !gpuring_p2p_slots_kernel(self->slots) ||
        !gpuring_p2p_flow(self->slots, self->buffer)->kernel || skips_kernel()) {
        return;
    }
    self->move = gpuring_p2p_move(self->slots, self->buffer, self->bytes, false);
    self->move.to = (uint8_t *) self->gpu;
    self->moving = gpuring_process.device_ops->move(self->stream, &self->move) == GPURING_OK;
    movers += self->moving;
}

/* Answer the offer. If the data is sent in chunks, do this when it is the message's turn. */
static enum phase fetch_answer(struct gpuring_p2p_fetch *self)
{
    if (!self->answer.slots) {
        open_stream(self);
    }
    self->answer.sending = self->offer.sending;
    self->answer.bytes = self->status == GPURING_OK ? self->bytes : 0;
    if (self->answer.slots) {
        start_move(self); /* before the answer, because no process waits for the answer */
    }
    send_answer(self);
    if (self->answer.bytes == 0) {
        return ENDED;
    }
    if (self->answer.slots) {
        gpuring_pvar_add(self->offer.place == GPURING_P2P_GPU ? GPURING_PVAR_direct_messages
                                                              : GPURING_PVAR_chunked_messages,
                         1);
        return SLOTS;
    }
    gpuring_pvar_add(GPURING_PVAR_chunked_messages, 1);
    gpuring_list_append(&coming, &self->node);
    receive_ahead(self);
    return CHUNKS;
}

/* Answer the offer now if the sender's slots can be used, otherwise in its turn. */
static enum phase fetch_begin(struct gpuring_p2p_fetch *self)
{
    if (self->status == GPURING_OK) {
        find_slots(self);
    }
    return self->answer.slots ? fetch_answer(self) : TURN;
}

/* Copy a message of this process from the sender's buffer. */
static enum phase begin_own(struct gpuring_p2p_fetch *self)
{
    const struct gpuring_p2p_sending *sending =
        (const struct gpuring_p2p_sending *) (uintptr_t) self->offer.sending;

    open_stream(self);
    if (self->status == GPURING_OK) {
        gpuring_pvar_add(GPURING_PVAR_direct_messages, 1);
        self->status = gpuring_process.device_ops->copy(
            self->stream, self->gpu != NULL ? self->gpu : self->landing,
            gpuring_p2p_sending_source(sending), self->bytes);
    }
    return OWN;
}

static void log_sender(struct gpuring_p2p_fetch *self)
{
    gpuring_error("[p2p-chunk] a receive of %zu bytes returns an error: rank %d could not copy its "
                  "data; see its log",
                  self->bytes, self->offer.sender);
    self->status = GPURING_ERR_PEER;
}

/* Start to copy the next chunk to the GPU. Returns false if it has not arrived. */
static bool take_chunk(struct gpuring_p2p_fetch *self)
{
    ompi_request_t **receive = &self->receives[self->arrived / GPURING_P2P_CHUNK % WINDOW];
    size_t left = self->bytes - self->arrived, at = self->arrived;
    size_t bytes = left < GPURING_P2P_CHUNK ? left : GPURING_P2P_CHUNK;

    if (!gpuring_request_done(*receive)) {
        return false;
    }
    if ((*receive)->req_status._ucount != bytes && self->status == GPURING_OK) {
        log_sender(self);
    }
    ompi_request_free(receive);
    self->arrived += bytes;
    if (self->gpu != NULL && self->status == GPURING_OK) {
        self->status = gpuring_process.device_ops->copy(self->stream, self->gpu + at,
                                                        self->landing + at, bytes);
    }
    receive_ahead(self);
    return true;
}

static bool is_turn(const struct gpuring_p2p_fetch *self)
{
    const struct gpuring_p2p_fetch *other;

    GPURING_LIST_EACH(other, &coming, struct gpuring_p2p_fetch, node)
    {
        if (other->offer.sender == self->offer.sender) {
            return false;
        }
    }
    return true;
}

/* Return true if all copies have ended. */
static bool fetch_copied(struct gpuring_p2p_fetch *self)
{
    int status =
        self->stream != NULL ? gpuring_process.device_ops->copied(self->stream) : GPURING_OK;

    if (status < GPURING_OK && self->status == GPURING_OK) {
        self->status = status;
    }
    return status != GPURING_AGAIN;
}

/* Return true if the kernel has ended. If one of its blocks has run out of patience, the driver
 * copies the message when the sender has reported the slot. */
static bool fetch_moved(struct gpuring_p2p_fetch *self)
{
    int status = gpuring_process.device_ops->moved(self->stream, &self->move);

    if (status == GPURING_AGAIN) {
        return false;
    }
    self->moving = false;
    movers--;
    if (status != GPURING_OK) {
        self->status = status;
        return true;
    }
    if (gpuring_move_copied(&self->move)) {
        self->arrived = self->bytes;
        gpuring_pvar_add(GPURING_PVAR_kernel_messages, 1);
    }
    count_move(self->arrived == self->bytes);
    return true;
}

/* Copy the data of a slot to the user's buffer, or start to. */
static void take_slot(struct gpuring_p2p_fetch *self, size_t bytes)
{
    const char *slot = gpuring_p2p_slot(self->slots, self->buffer, self->taken) +
                       gpuring_p2p_flow(self->slots, self->buffer)->lead;

    if (self->gpu == NULL) {
        memcpy(self->landing + self->arrived, slot, bytes);
    } else {
        self->status =
            gpuring_process.device_ops->copy(self->stream, self->gpu + self->arrived, slot, bytes);
    }
    self->copying = true;
}

static enum phase wait_for_sender(struct gpuring_p2p_fetch *self)
{
    if (gpuring_p2p_lives(self->offer.home.pid, &self->watch)) {
        return SLOTS;
    }
    self->status = GPURING_ERR_PEER;
    return ENDED;
}

/* Copy one slot after another to the user's buffer. */
static enum phase take_slots(struct gpuring_p2p_fetch *self)
{
    size_t unit = gpuring_p2p_slot_bytes(self->slots);
    struct gpuring_p2p_flow *flow;

    start_move(self);
    if (self->buffer < 0) {
        return wait_for_sender(self);
    }
    flow = gpuring_p2p_flow(self->slots, self->buffer);
    for (;;) {
        size_t left = self->bytes - self->arrived;
        size_t bytes = left < unit ? left : unit;

        if (self->moving) {
            if (!fetch_moved(self)) {
                return SLOTS;
            }
        } else if (self->copying) {
            if (!fetch_copied(self)) {
                return SLOTS;
            }
            self->copying = false;
            self->arrived += bytes;
            /* Release, because the copy has ended. Partner: the sender's acquire. */
            __atomic_store_n(&flow->taken, ++self->taken, __ATOMIC_RELEASE);
        } else if (self->arrived == self->bytes || self->status != GPURING_OK) {
            __atomic_store_n(&flow->ended, 1, __ATOMIC_RELEASE);
            return ENDED;
        } else if (__atomic_load_n(&flow->failed, __ATOMIC_ACQUIRE)) {
            log_sender(self);
        } else if (__atomic_load_n(&flow->filled, __ATOMIC_ACQUIRE) == self->taken) {
            return wait_for_sender(self);
        } else {
            take_slot(self, bytes);
        }
    }
}

/* When a message of this process was copied, answer its offer, so that the sender sends nothing. */
static enum phase end_own(struct gpuring_p2p_fetch *self)
{
    if (!fetch_copied(self)) {
        return OWN;
    }
    self->answer = (struct gpuring_p2p_answer){.sending = self->offer.sending};
    send_answer(self);
    return ENDED;
}

static enum phase take_chunks(struct gpuring_p2p_fetch *self)
{
    while (self->arrived < self->bytes && take_chunk(self)) {
        /* the next */
    }
    return self->arrived < self->bytes || !fetch_copied(self) ? CHUNKS : ENDED;
}

/* Return the next phase, or the same one if the message has to wait. */
static enum phase fetch_step(struct gpuring_p2p_fetch *self)
{
    switch (self->phase) {
    case NEW:
        return is_own(self) ? begin_own(self) : fetch_begin(self);
    case TURN:
        return is_turn(self) ? fetch_answer(self) : TURN;
    case SLOTS:
        return take_slots(self);
    case CHUNKS:
        return take_chunks(self);
    case OWN:
        return end_own(self);
    case ENDED:
        break;
    }
    return ENDED;
}

int gpuring_p2p_fetch_advance(struct gpuring_p2p_fetch *self)
{
    enum phase before;

    do {
        before = self->phase;
        self->phase = fetch_step(self);
    } while (self->phase != before);
    if (self->phase != ENDED) {
        return GPURING_AGAIN;
    }
    gpuring_list_remove(&self->node);
    if (!gpuring_p2p_ended(&self->answering)) {
        return GPURING_AGAIN;
    }
    if (self->status == GPURING_ERR_IO) {
        gpuring_p2p_message_copy_failed(self->bytes, self->status);
    }
    if (self->own != NULL && self->status == GPURING_OK) {
        self->status = gpuring_p2p_message_convert(self->message, self->own, self->bytes, false);
    }
    return self->status;
}

void gpuring_p2p_fetch_free(struct gpuring_p2p_fetch *self)
{
    if (self != NULL) {
        if (self->moving) { /* MPI_Finalize ends the message */
            (void) gpuring_process.device_ops->synchronize(self->stream);
            movers--;
        }
        gpuring_stage_stream_put(self->stream);
        free(self->own);
        free(self);
    }
}
