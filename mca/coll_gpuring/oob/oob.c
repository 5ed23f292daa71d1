/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define HEADER_MAGIC UINT32_C(0x67707279) /* "gpry" */

void gpuring_oob_free(struct gpuring_oob *oob)
{
    bool received, header_sent, blocks_sent;

    if (oob == NULL) {
        return;
    }
    gpuring_gathered_clear(&oob->gathered);
    received = oob->receive == NULL || oob->ops->cancel(&oob->receive);
    header_sent = oob->send_header == NULL || oob->ops->cancel(&oob->send_header);
    blocks_sent = oob->send_blocks == NULL || oob->ops->cancel(&oob->send_blocks);
    if (received && header_sent && blocks_sent) {
        free(oob->grown);
        free(oob->records);
        free(oob);
    } /* else a message may still arrive or leave: it must find its memory */
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

static void begin(struct gpuring_oob *oob)
{
    oob->number++;
    oob->distance = 1;
    oob->phase = GPURING_OOB_START;
    gpuring_gathered_clear(&oob->gathered);
}

static void drop_records(struct gpuring_oob *oob)
{
    free(oob->records);
    oob->records = NULL;
    oob->bytes = 0;
}

void gpuring_oob_gather(struct gpuring_oob *oob, const void *block, size_t bytes)
{
    drop_records(oob);
    if (!gpuring_oob_troubled(oob)) {
        oob->records = malloc(gpuring_record_bytes(bytes));
        if (oob->records != NULL) {
            gpuring_record_put(oob->records, oob->rank, block, bytes);
            oob->bytes = gpuring_record_bytes(bytes);
        } else {
            gpuring_error("out of memory to send %zu bytes to the other ranks", bytes);
            gpuring_oob_fail(oob, GPURING_ERR_NOMEM);
        }
    }
    begin(oob);
}

void gpuring_oob_agree(struct gpuring_oob *oob, uint64_t bits)
{
    drop_records(oob);
    oob->words[0] = bits;
    oob->words[1] = 0;
    begin(oob);
}

void gpuring_oob_broadcast(struct gpuring_oob *oob, const uint64_t words[2])
{
    drop_records(oob);
    oob->words[0] = oob->rank == 0 ? words[0] : 0;
    oob->words[1] = oob->rank == 0 ? words[1] : 0;
    begin(oob);
}

static int rank_at(const struct gpuring_oob *oob, int distance)
{
    int rank = oob->rank + distance;

    return rank < oob->nranks ? rank : rank - oob->nranks;
}

static int round_start(struct gpuring_oob *oob, int from, int to)
{
    int d = oob->distance, rest = oob->nranks - d, status;

    oob->out = (struct gpuring_oob_header){.magic = HEADER_MAGIC,
                                           .number = oob->number,
                                           .failure = oob->failure,
                                           .words = {oob->words[0], oob->words[1]}};
    if (!gpuring_oob_troubled(oob) && oob->records != NULL) {
        oob->out.bytes = gpuring_records_prefix(oob->records, oob->bytes, d < rest ? d : rest);
    }
    status = oob->ops->receive(oob->comm, &oob->in, sizeof oob->in, from, oob->tag, &oob->receive);
    if (status == GPURING_OK) {
        status =
            oob->ops->send(oob->comm, &oob->out, sizeof oob->out, to, oob->tag, &oob->send_header);
    }
    if (status == GPURING_OK && oob->out.bytes > 0) {
        status = oob->ops->send(oob->comm, oob->records, oob->out.bytes, to, oob->tag,
                                &oob->send_blocks);
    }
    return status;
}

/* The header is here: learn from it, and make room for the blocks that follow. */
static int round_header(struct gpuring_oob *oob, int from, size_t bytes)
{
    const struct gpuring_oob_header *in = &oob->in;

    if (bytes != sizeof *in || in->magic != HEADER_MAGIC || in->number != oob->number) {
        gpuring_error("rank %d sent another message than rank %d expects (gathering %u): all ranks "
                      "must load the same version of coll/gpuring",
                      from, oob->rank, oob->number);
        return GPURING_ERR_PEER;
    }
    if (in->failure.status != GPURING_OK) {
        learn(oob, &in->failure);
    }
    if (in->bytes == 0) {
        return GPURING_OK;
    }
    if (!gpuring_oob_troubled(oob)) {
        oob->grown = in->bytes < SIZE_MAX - oob->bytes ? malloc(oob->bytes + in->bytes) : NULL;
        if (oob->grown == NULL) {
            gpuring_error("out of memory for the blocks of %d ranks: %llu bytes", oob->nranks,
                          (unsigned long long) (oob->bytes + in->bytes));
            gpuring_oob_fail(oob, GPURING_ERR_NOMEM);
        }
    }
    return oob->ops->receive(oob->comm,
                             oob->grown != NULL ? oob->grown + oob->bytes : &oob->discard,
                             oob->grown != NULL ? in->bytes : 1, from, oob->tag, &oob->receive);
}

/* All of this round's messages have come and gone: what came joins what was known. */
static int round_join(struct gpuring_oob *oob, int from)
{
    oob->words[0] |= oob->in.words[0];
    oob->words[1] |= oob->in.words[1];
    if (oob->grown == NULL) {
        return GPURING_OK;
    }
    if (oob->arrived != oob->in.bytes) {
        gpuring_error("rank %d sent %zu bytes where it announced %llu", from, oob->arrived,
                      (unsigned long long) oob->in.bytes);
        return GPURING_ERR_PEER;
    }
    if (oob->bytes > 0) {
        memcpy(oob->grown, oob->records, oob->bytes);
    }
    free(oob->records);
    oob->records = oob->grown;
    oob->grown = NULL;
    oob->bytes += oob->arrived;
    return GPURING_OK;
}

static int round_progress(struct gpuring_oob *oob)
{
    int from = rank_at(oob, oob->distance), to = rank_at(oob, oob->nranks - oob->distance);
    int status = GPURING_OK;
    size_t bytes = 0;

    if (oob->phase == GPURING_OOB_START) {
        oob->phase = GPURING_OOB_HEADER;
        status = round_start(oob, from, to);
    }
    if (status == GPURING_OK && oob->phase == GPURING_OOB_HEADER) {
        status = oob->ops->finish(&oob->receive, &bytes);
        if (status == GPURING_OK) {
            oob->phase = GPURING_OOB_BLOCKS;
            oob->steps++;
            status = round_header(oob, from, bytes);
        }
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->receive, &oob->arrived);
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->send_header, NULL);
    }
    if (status == GPURING_OK) {
        status = oob->ops->finish(&oob->send_blocks, NULL);
    }
    if (status == GPURING_OK) {
        oob->steps++;
        status = round_join(oob, from);
    }
    return status;
}

/* All rounds are over: without a failure there is a record of each rank, or it was an agreement. */
static void end(struct gpuring_oob *oob)
{
    int status = GPURING_OK;

    oob->phase = GPURING_OOB_IDLE;
    if (oob->records != NULL && !gpuring_oob_troubled(oob)) {
        status = gpuring_gathered_take(&oob->gathered, oob->nranks, oob->records, oob->bytes);
        if (status == GPURING_OK) {
            oob->records = NULL;
        } else {
            gpuring_oob_fail(oob, status);
        }
    }
    drop_records(oob);
}

int gpuring_oob_progress(struct gpuring_oob *oob)
{
    while (oob->phase != GPURING_OOB_IDLE) {
        int status = oob->distance < oob->nranks ? round_progress(oob) : GPURING_OK;

        if (status != GPURING_OK) {
            return status;
        }
        oob->distance *= 2;
        oob->phase = GPURING_OOB_START;
        if (oob->distance >= oob->nranks) {
            end(oob);
        }
    }
    return GPURING_OK;
}

struct gpuring_gathered gpuring_oob_take(struct gpuring_oob *oob)
{
    struct gpuring_gathered gathered = oob->gathered;

    oob->gathered = (struct gpuring_gathered){.nranks = 0};
    return gathered;
}

int gpuring_oob_awaits(const struct gpuring_oob *oob)
{
    return oob->phase == GPURING_OOB_IDLE
               ? oob->rank
               : rank_at(oob, oob->receive != NULL ? oob->distance : oob->nranks - oob->distance);
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
