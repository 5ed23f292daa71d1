/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The receiver's side of an offer. */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/peers.h"
#include "mca/coll_gpuring/p2p/pml.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define WINDOW 4                   /* receives of chunks that are begun ahead */
#define SAMPLE ((size_t) 64 << 10) /* bytes that are taken both ways and compared */

/* From an offer's data to the answer. */
enum phase {
    BEGIN,
    COPYING, /* directly, from mapped memory */
    TURN,    /* until no other message of the sender comes in chunks */
    CHUNKS,
    ANSWERED /* until the answer has left */
};

struct gpuring_p2p_fetch {
    struct gpuring_p2p_offer offer;
    const struct gpuring_p2p_message *message;
    size_t bytes;
    char *gpu;     /* contiguous; NULL: the data end in `landing` */
    char *landing; /* host memory for all bytes */
    char *own;     /* `landing`, if the user's type has gaps */
    enum phase phase;
    int status; /* not GPURING_OK: the data are lost */

    char *mapped;
    struct gpuring_stream *stream;
    ompi_request_t *receives[WINDOW];
    size_t begun, arrived;    /* bytes */
    char *sample;             /* the first bytes, taken directly; NULL: none */
    struct gpuring_list node; /* of `chunked` */

    struct gpuring_p2p_answer answer;
    ompi_request_t *answering;
};

/* What advance shares. */
static struct gpuring_list chunked = GPURING_LIST_INIT(chunked);
static enum { UNTRIED, TRUSTED, REFUSED } * trust; /* by rank; in what is taken directly */

static const uint64_t mark[2] = {0x9d3a61f7c2e8450bu, 0x5be0947f1d6c32a8u};

static uint64_t own_node(void)
{
    static uint64_t node; /* equal, whoever writes it */

    if (node == 0) {
        node = gpuring_identity_node(gpuring_params.hostid);
    }
    return node;
}

bool gpuring_p2p_direct_allowed(void)
{
    return gpuring_params.p2p_level == GPURING_PARAM_LEVEL_AUTO ||
           gpuring_params.p2p_level == GPURING_PARAM_LEVEL_SYS;
}

void gpuring_p2p_offer_mark(struct gpuring_p2p_offer *offer)
{
    memcpy(offer->mark, mark, sizeof mark);
    offer->node = own_node();
}

bool gpuring_p2p_offer_read(const void *data, size_t bytes, struct gpuring_p2p_offer *offer)
{
    if (bytes != GPURING_P2P_OFFER_BYTES || memcmp(data, mark, sizeof mark) != 0) {
        return false;
    }
    memcpy(offer, data, sizeof *offer);
    return true;
}

bool gpuring_p2p_offer_in(const struct gpuring_p2p_message *message, size_t bytes,
                          struct gpuring_p2p_offer *offer)
{
    char packed[GPURING_P2P_OFFER_BYTES];
    const char *data = NULL;

    if (bytes == GPURING_P2P_OFFER_BYTES) {
        data = gpuring_p2p_message_landing(message);
    }
    if (bytes == GPURING_P2P_OFFER_BYTES && data == NULL &&
        gpuring_p2p_message_pack(message, packed, sizeof packed) == GPURING_OK) {
        data = packed;
    }
    return data != NULL && gpuring_p2p_offer_read(data, bytes, offer);
}

struct gpuring_p2p_fetch *gpuring_p2p_fetch_new(const struct gpuring_p2p_offer *offer,
                                                const struct gpuring_p2p_message *message)
{
    struct gpuring_p2p_fetch *self = calloc(1, sizeof *self);

    if (self == NULL) {
        gpuring_error(
            "[p2p-no-memory] a receive returns MPI_ERR_NO_MEM, and its sender waits: there "
            "is no memory to take a message of %llu bytes",
            (unsigned long long) offer->bytes);
        return NULL;
    }
    self->offer = *offer;
    self->message = message;
    self->bytes = offer->bytes < message->bytes ? offer->bytes : message->bytes;
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
    if (self->gpu != NULL && self->status == GPURING_OK) {
        self->status = gpuring_stage_stream_get(&self->stream);
    }
    if (self->status != GPURING_OK) {
        gpuring_error(
            "[p2p-no-memory] a receive of %zu bytes returns an error: there is no memory, or "
            "no stream, to copy them",
            self->bytes);
    }
    return self;
}

/* The sender is done (0), or is to send chunks. */
static void answer(struct gpuring_p2p_fetch *self, size_t bytes)
{
    self->answer = (struct gpuring_p2p_answer){.number = self->offer.number, .bytes = bytes};
    if (gpuring_p2p_world_isend(&self->answer, sizeof self->answer, self->offer.sender,
                                GPURING_P2P_TAG_ANSWER, &self->answering) != GPURING_OK) {
        self->status = GPURING_ERR_IO;
    }
}

static void set_trust(const struct gpuring_p2p_fetch *self, int value)
{
    trust[self->offer.sender] = value;
    if (value == REFUSED) {
        gpuring_info("[p2p-direct] messages from rank %d go through host memory: its GPU memory "
                     "cannot be mapped, or is not read right",
                     self->offer.sender);
    }
}

/* May memory of another process be mapped and copied to this buffer? */
static bool may_map(const struct gpuring_p2p_fetch *self)
{
    struct gpuring_pointer pointer;

    if (self->gpu == NULL || !self->offer.mapped || self->offer.node != own_node() ||
        trust == NULL || trust[self->offer.sender] == REFUSED || !gpuring_p2p_direct_allowed()) {
        return false;
    }
    pointer = gpuring_memory_of(self->gpu); /* of the GPU for which the sender is trusted */
    return gpuring_process.device_ops->reaches(gpuring_process.device, &pointer);
}

/*
 * Can the sender's memory be read here? It is unmapped before the answer: then its program may free
 * it, which CUDA does not allow while it is mapped.
 */
static bool map(struct gpuring_p2p_fetch *self)
{
    void *address;

    if (trust == NULL) {
        trust = calloc((size_t) ompi_comm_size(MPI_COMM_WORLD), sizeof *trust);
    }
    if (!may_map(self)) {
        return false;
    }
    if (gpuring_process.device_ops->import(gpuring_process.device, &self->offer.memory, &address) !=
        GPURING_OK) {
        set_trust(self, REFUSED);
        return false;
    }
    self->mapped = address;
    return true;
}

static void unmap(struct gpuring_p2p_fetch *self)
{
    if (self->mapped != NULL) {
        gpuring_process.device_ops->unimport(gpuring_process.device, self->mapped);
        self->mapped = NULL;
    }
}

static int copy_now(struct gpuring_p2p_fetch *self, void *to, const void *from, size_t bytes)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = ops->copy(self->stream, to, from, bytes);
    int done = ops->synchronize(self->stream);

    return status == GPURING_OK ? done : status;
}

/* Take the first bytes directly, for `compare`. What was in the buffer cannot pass for them. */
static void take_sample(struct gpuring_p2p_fetch *self)
{
    size_t bytes = self->bytes < SAMPLE ? self->bytes : SAMPLE;
    char *sample = malloc(bytes);
    bool taken = sample != NULL;

    for (size_t i = 0; i < bytes && taken; i++) {
        sample[i] = (char) (i * 151 + 89);
    }
    taken = taken && copy_now(self, self->gpu, sample, bytes) == GPURING_OK &&
            copy_now(self, self->gpu, self->mapped, bytes) == GPURING_OK &&
            copy_now(self, sample, self->gpu, bytes) == GPURING_OK;
    if (!taken) {
        free(sample);
        return;
    }
    self->sample = sample;
}

/* The first bytes are in `landing`, by way of the hosts. Bytes that are all equal prove nothing. */
static void compare(struct gpuring_p2p_fetch *self)
{
    size_t bytes = self->bytes < SAMPLE ? self->bytes : SAMPLE;

    if (memcmp(self->landing, self->landing + 1, bytes - 1) != 0) {
        set_trust(self, memcmp(self->sample, self->landing, bytes) == 0 ? TRUSTED : REFUSED);
    }
    free(self->sample);
    self->sample = NULL;
}

/* Begin to receive chunks, as many as are begun ahead. */
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

/* The next chunk goes on to the GPU. False: it has not arrived. */
static bool take_chunk(struct gpuring_p2p_fetch *self)
{
    ompi_request_t **receive = &self->receives[self->arrived / GPURING_P2P_CHUNK % WINDOW];
    size_t left = self->bytes - self->arrived, at = self->arrived;
    size_t bytes = left < GPURING_P2P_CHUNK ? left : GPURING_P2P_CHUNK;

    if (!REQUEST_COMPLETE(*receive)) {
        return false;
    }
    if ((*receive)->req_status._ucount != bytes && self->status == GPURING_OK) {
        gpuring_error("[p2p-chunk] a receive of %zu bytes returns an error: rank %d could not copy "
                      "its data, as its log says",
                      self->bytes, self->offer.sender);
        self->status = GPURING_ERR_PEER;
    }
    ompi_request_free(receive);
    self->arrived += bytes;
    if (self->sample != NULL && self->status == GPURING_OK) {
        compare(self);
    }
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

    GPURING_LIST_EACH(other, &chunked, struct gpuring_p2p_fetch, node)
    {
        if (other->offer.sender == self->offer.sender) {
            return false;
        }
    }
    return true;
}

/* Has every copy ended? */
static bool copied(struct gpuring_p2p_fetch *self)
{
    int status =
        self->stream != NULL ? gpuring_process.device_ops->copied(self->stream) : GPURING_OK;

    if (status < GPURING_OK && self->status == GPURING_OK) {
        self->status = status;
    }
    return status != GPURING_AGAIN;
}

static int begin(struct gpuring_p2p_fetch *self)
{
    if (self->status != GPURING_OK) {
        answer(self, 0);
        return ANSWERED;
    }
    if (!map(self)) {
        return TURN;
    }
    if (trust[self->offer.sender] == UNTRIED) {
        take_sample(self);
        unmap(self);
        return TURN;
    }
    gpuring_pvar_add(GPURING_PVAR_direct_messages, 1);
    self->status =
        gpuring_process.device_ops->copy(self->stream, self->gpu, self->mapped, self->bytes);
    return COPYING;
}

/* One phase on; the same: it has to wait. */
static enum phase step(struct gpuring_p2p_fetch *self)
{
    switch (self->phase) {
    case BEGIN:
        return begin(self);
    case COPYING:
        if (!copied(self)) {
            return COPYING;
        }
        unmap(self);
        answer(self, 0);
        return ANSWERED;
    case TURN:
        if (!is_turn(self)) {
            return TURN;
        }
        gpuring_list_append(&chunked, &self->node);
        gpuring_pvar_add(GPURING_PVAR_chunked_messages, 1);
        answer(self, self->bytes);
        receive_ahead(self);
        return CHUNKS;
    case CHUNKS:
        while (self->arrived < self->bytes && take_chunk(self)) {
            /* the next */
        }
        if (self->arrived < self->bytes || !copied(self)) {
            return CHUNKS;
        }
        gpuring_list_remove(&self->node);
        return ANSWERED;
    case ANSWERED:
        break;
    }
    return ANSWERED;
}

int gpuring_p2p_fetch_advance(struct gpuring_p2p_fetch *self)
{
    enum phase before;

    do {
        before = self->phase;
        self->phase = step(self);
    } while (self->phase != before);
    if (self->phase != ANSWERED || !gpuring_p2p_ended(&self->answering)) {
        return GPURING_AGAIN;
    }
    if (self->status == GPURING_ERR_IO) {
        gpuring_p2p_message_copy_failed(self->bytes, self->status);
    }
    if (self->own != NULL && self->status == GPURING_OK) {
        self->status = gpuring_p2p_message_unpack(self->message, self->own, self->bytes);
    }
    return self->status;
}

void gpuring_p2p_fetch_free(struct gpuring_p2p_fetch *self)
{
    if (self != NULL) {
        gpuring_stage_stream_put(self->stream);
        free(self->sample);
        free(self->own);
        free(self);
    }
}

void gpuring_p2p_fetch_close(void)
{
    free(trust);
    trust = NULL;
}
