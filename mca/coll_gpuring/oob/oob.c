/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define MAGIC (UINT32_C(0x67700000) | GPURING_WIRE_VERSION) /* "gp" */

void gpuring_gathered_clear(struct gpuring_gathered *gathered)
{
    free(gathered->blocks);
    *gathered = (struct gpuring_gathered){.nranks = 0};
}

void gpuring_oob_free(struct gpuring_oob *oob)
{
    bool ended = true;

    if (oob == NULL) {
        return;
    }
    ended &= oob->ops->cancel(&oob->receive_header);
    ended &= oob->ops->cancel(&oob->receive_blocks);
    ended &= oob->ops->cancel(&oob->send_header);
    ended &= oob->ops->cancel(&oob->send_blocks);
    if (ended) { /* else a message may still arrive or leave: it must find its memory */
        free(oob->blocks);
        free(oob);
    }
}

/* ---- Failures ---- */

static bool before(uint32_t left, uint32_t right) /* numbers may wrap */
{
    return (int32_t) (left - right) < 0;
}

/* Of several failures the one that all know first counts, then that of the lowest rank. */
static void learn(struct gpuring_oob *oob, const struct gpuring_failure *failure)
{
    if (!gpuring_oob_troubled(oob) || before(failure->since, oob->failure.since) ||
        (failure->since == oob->failure.since && failure->rank < oob->failure.rank)) {
        oob->failure = *failure;
    }
}

void gpuring_oob_fail(struct gpuring_oob *oob, int status)
{
    if (!gpuring_oob_troubled(oob)) {
        oob->failure = (struct gpuring_failure){
            .status = status, .rank = oob->rank, .since = oob->number + 1, .mark = oob->mark};
    }
}

int gpuring_oob_failure(const struct gpuring_oob *oob, int *rank)
{
    if (!gpuring_oob_troubled(oob) || before(oob->number, oob->failure.since)) {
        return GPURING_OK;
    }
    if (rank != NULL) {
        *rank = oob->failure.rank;
    }
    return oob->failure.status;
}

void gpuring_oob_forget(struct gpuring_oob *oob)
{
    oob->failure = (struct gpuring_failure){.status = GPURING_OK};
}

/* ---- Gatherings ---- */

static void begin(struct gpuring_oob *oob, size_t bytes, uint64_t word, uint64_t next_word)
{
    free(oob->blocks);
    oob->blocks = NULL;
    oob->bytes = bytes;
    oob->words[0] = word;
    oob->words[1] = next_word;
    oob->distance = 1;
}

void *gpuring_oob_gather(struct gpuring_oob *oob, size_t bytes)
{
    begin(oob, bytes, 0, 0);
    if (gpuring_oob_troubled(oob)) {
        return NULL;
    }
    oob->blocks = malloc(((size_t) oob->nranks + (size_t) oob->rank) * bytes);
    if (oob->blocks == NULL) {
        gpuring_error("out of memory for blocks of %zu bytes of %d ranks", bytes, oob->nranks);
        gpuring_oob_fail(oob, GPURING_ERR_NOMEM);
        return NULL;
    }
    return oob->blocks + (size_t) oob->rank * bytes;
}

void gpuring_oob_agree(struct gpuring_oob *oob, uint64_t word, uint64_t next_word)
{
    begin(oob, 0, word, next_word);
}

static int rank_at(const struct gpuring_oob *oob, int distance)
{
    int rank = oob->rank + distance;

    return rank < oob->nranks ? rank : rank - oob->nranks;
}

/* Bytes of the blocks that travel in this round. */
static size_t round_bytes(const struct gpuring_oob *oob)
{
    int d = oob->distance, rest = oob->nranks - d;

    return (size_t) (d < rest ? d : rest) * oob->bytes;
}

static int round_start(struct gpuring_oob *oob, int from, int to)
{
    int status;

    oob->number += oob->distance == 1;
    oob->in.magic = 0;
    oob->out = (struct gpuring_oob_header){
        .magic = MAGIC,
        .number = oob->number,
        .failure = oob->failure,
        .bytes = gpuring_oob_troubled(oob) ? 0 : round_bytes(oob),
        .words = {oob->words[0], oob->words[1]},
    };
    status = oob->ops->receive(oob->comm, &oob->in, sizeof oob->in, from, GPURING_TAG_GATHER,
                               &oob->receive_header);
    if (status == GPURING_OK) {
        status = oob->ops->send(oob->comm, &oob->out, sizeof oob->out, to, GPURING_TAG_GATHER,
                                &oob->send_header);
    }
    if (status == GPURING_OK && oob->out.bytes > 0) {
        status = oob->ops->send(oob->comm, oob->blocks + (size_t) oob->rank * oob->bytes,
                                oob->out.bytes, to, GPURING_TAG_GATHER, &oob->send_blocks);
    }
    return status;
}

/* Another version sends blocks that mean something else; its headers are like ours. */
static void check_version(struct gpuring_oob *oob, int from)
{
    if (oob->in.magic != MAGIC) {
        gpuring_error("[versions-differ] rank %d runs another version of coll/gpuring (wire format "
                      "%u) than rank %d (%u): no collective of coll/gpuring can run on this "
                      "communicator; install the same version on all hosts",
                      from, oob->in.magic & 0xffff, oob->rank, MAGIC & 0xffff);
        gpuring_oob_fail(oob, GPURING_ERR_DISAGREE);
    }
}

/* The header is here: learn from it, and receive the blocks that follow. */
static int round_header(struct gpuring_oob *oob, int from)
{
    const struct gpuring_oob_header *in = &oob->in;
    bool failed = in->failure.status != GPURING_OK, wanted;

    oob->steps++;
    if (in->magic >> 16 != MAGIC >> 16 || in->number != oob->number) {
        gpuring_error("rank %d sent another message than rank %d expects (gathering %u)", from,
                      oob->rank, oob->number);
        return GPURING_ERR_PEER;
    }
    check_version(oob, from);
    if (failed) {
        learn(oob, &in->failure);
    }
    wanted = !gpuring_oob_troubled(oob);
    if (wanted && in->bytes != round_bytes(oob)) {
        gpuring_error("rank %d sent %llu bytes where rank %d expects %zu (gathering %u)", from,
                      (unsigned long long) in->bytes, oob->rank, round_bytes(oob), oob->number);
        return GPURING_ERR_PEER;
    }
    oob->words[0] |= in->words[0];
    oob->words[1] |= in->words[1];
    return in->bytes == 0
               ? GPURING_OK
               : oob->ops->receive(
                     oob->comm,
                     wanted ? oob->blocks + (size_t) (oob->rank + oob->distance) * oob->bytes
                            : &oob->discard,
                     wanted ? in->bytes : 1, from, GPURING_TAG_GATHER, &oob->receive_blocks);
}

static int round_progress(struct gpuring_oob *oob)
{
    int from = rank_at(oob, oob->distance), to = rank_at(oob, oob->nranks - oob->distance);
    int status = GPURING_OK;

    if (!oob->started) {
        oob->started = true;
        status = round_start(oob, from, to);
    }
    if (status == GPURING_OK && oob->receive_header != NULL) {
        status = oob->ops->finish(&oob->receive_header, NULL);
        if (status == GPURING_OK) {
            status = round_header(oob, from);
        }
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->receive_blocks, NULL);
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->send_header, NULL);
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->send_blocks, NULL);
    }
    return status;
}

int gpuring_oob_progress(struct gpuring_oob *oob)
{
    while (oob->distance > 0) {
        int status = oob->distance < oob->nranks ? round_progress(oob) : GPURING_OK;

        if (status != GPURING_OK) {
            return status;
        }
        oob->steps++;
        oob->started = false;
        oob->distance = 2 * oob->distance < oob->nranks ? 2 * oob->distance : 0;
    }
    return GPURING_OK;
}

struct gpuring_gathered gpuring_oob_take(struct gpuring_oob *oob)
{
    struct gpuring_gathered gathered = {.nranks = 0};

    if (oob->blocks != NULL && !gpuring_oob_troubled(oob)) {
        gathered = (struct gpuring_gathered){
            .nranks = oob->nranks, .bytes = oob->bytes, .blocks = oob->blocks};
        memcpy(oob->blocks, oob->blocks + (size_t) oob->nranks * oob->bytes,
               (size_t) oob->rank * oob->bytes);
        oob->blocks = NULL;
    }
    return gathered;
}

int gpuring_oob_awaits(const struct gpuring_oob *oob)
{
    bool receives = oob->receive_header != NULL || oob->receive_blocks != NULL;

    return oob->distance == 0
               ? oob->rank
               : rank_at(oob, receives ? oob->distance : oob->nranks - oob->distance);
}

/* ---- Letters ---- */

int gpuring_letters_add(struct gpuring_letters *letters, const struct gpuring_oob *oob, int peer,
                        const void *data, size_t bytes)
{
    size_t count = (size_t) letters->count + 1;
    struct gpuring_letter *grown = realloc(letters->letter, count * sizeof *grown);
    uint8_t *copy = malloc(bytes + 1);

    letters->oob = oob;
    letters->letter = grown != NULL ? grown : letters->letter;
    if (grown == NULL || copy == NULL) {
        gpuring_error("out of memory for a message of %zu bytes, from or to rank %d", bytes, peer);
        free(copy);
        return GPURING_ERR_NOMEM;
    }
    if (data != NULL) {
        memcpy(copy, data, bytes);
    }
    grown[letters->count++] =
        (struct gpuring_letter){.peer = peer, .sent = data != NULL, .data = copy, .bytes = bytes};
    return GPURING_OK;
}

static int letter_start(const struct gpuring_oob *oob, struct gpuring_letter *letter)
{
    return letter->sent ? oob->ops->send(oob->comm, letter->data, letter->bytes, letter->peer,
                                         GPURING_TAG_LETTER, &letter->request)
                        : oob->ops->receive(oob->comm, letter->data, letter->bytes, letter->peer,
                                            GPURING_TAG_LETTER, &letter->request);
}

int gpuring_letters_progress(struct gpuring_letters *letters)
{
    int waiting = 0;

    for (int i = 0; i < letters->count; i++) {
        struct gpuring_letter *letter = &letters->letter[i];
        size_t room = letter->bytes;
        int status = letters->started ? GPURING_OK : letter_start(letters->oob, letter);

        if (status == GPURING_OK) {
            status =
                letters->oob->ops->finish(&letter->request, letter->sent ? NULL : &letter->bytes);
        }
        if (status == GPURING_OK && letter->bytes > room) {
            gpuring_error("rank %d sent more than the %zu bytes that it announced", letter->peer,
                          room);
            letter->bytes = 0;
            status = GPURING_ERR_PEER;
        }
        waiting += status == GPURING_AGAIN;
        letters->status = status < 0 ? status : letters->status;
    }
    letters->started = true;
    return waiting > 0 ? GPURING_AGAIN : letters->status;
}

int gpuring_letters_awaits(const struct gpuring_letters *letters)
{
    for (int i = 0; i < letters->count; i++) {
        if (letters->letter[i].request != NULL) {
            return letters->letter[i].peer;
        }
    }
    return -1;
}

void gpuring_letters_free(struct gpuring_letters *letters)
{
    for (int i = 0; i < letters->count; i++) {
        if (letters->oob->ops->cancel(&letters->letter[i].request)) {
            free(letters->letter[i].data);
        } /* else a message may still come or leave */
    }
    free(letters->letter);
    *letters = (struct gpuring_letters){.count = 0};
}
