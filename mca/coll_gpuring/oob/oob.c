/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define MAGIC UINT32_C(0x67707572) /* "gpur" */

void gpuring_gathered_clear(struct gpuring_gathered *gathered)
{
    free(gathered->blocks);
    *gathered = (struct gpuring_gathered){.nranks = 0};
}

void gpuring_oob_free(struct gpuring_oob *oob)
{
    bool ended = true;

    for (int i = 0; oob != NULL && i < GPURING_OOB_MESSAGES; i++) {
        ended = oob->ops->cancel(&oob->message[i]) && ended;
    }
    if (oob != NULL) {
        gpuring_connect_infos_free(oob);
    }
    if (oob != NULL && ended) { /* otherwise a message in flight still needs its memory */
        free(oob->blocks);
        free(oob);
    }
}

/* ---- Failures ---- */

/* Record a failure. Among several, prefer the one that all ranks know first, then that of the
 * lowest rank, with the bits that the marks of all ranks that failed then have in common. */
static void learn(struct gpuring_oob *oob, const struct gpuring_failure *failure)
{
    struct gpuring_failure *known = &oob->failure;

    if (!gpuring_oob_troubled(oob) || failure->since < known->since) {
        *known = *failure;
    } else if (failure->since == known->since) {
        uint64_t common = known->mark & failure->mark;

        if (failure->rank < known->rank) {
            *known = *failure;
        }
        known->mark = common;
    }
}

void gpuring_oob_fail(struct gpuring_oob *oob, int status)
{
    if (!gpuring_oob_troubled(oob)) {
        oob->failure = (struct gpuring_failure){
            .status = status, .rank = oob->rank, .since = oob->number + 1, .mark = oob->mark};
    }
}

struct gpuring_failure gpuring_oob_failure(struct gpuring_oob *oob)
{
    struct gpuring_failure failure = {.status = GPURING_OK};

    if (gpuring_oob_troubled(oob) && oob->number >= oob->failure.since) {
        failure = oob->failure;
        oob->failure.status = GPURING_OK;
    }
    return failure;
}

/* ---- Gatherings ---- */

void gpuring_oob_agree(struct gpuring_oob *oob, uint64_t word)
{
    free(oob->blocks);
    oob->blocks = NULL;
    oob->bytes = 0;
    oob->word = word;
    oob->distance = 1;
}

void *gpuring_oob_gather(struct gpuring_oob *oob, size_t bytes)
{
    gpuring_oob_agree(oob, 0);
    if (gpuring_oob_troubled(oob)) {
        return NULL;
    }
    oob->bytes = bytes;
    oob->blocks = malloc(((size_t) oob->nranks + (size_t) oob->rank) * bytes);
    if (oob->blocks == NULL) {
        gpuring_error("out of memory for blocks of %zu bytes of %d ranks", bytes, oob->nranks);
        gpuring_oob_fail(oob, GPURING_ERR_NOMEM);
        return NULL;
    }
    return oob->blocks + (size_t) oob->rank * bytes;
}

static int rank_at(const struct gpuring_oob *oob, int distance)
{
    int rank = oob->rank + distance;

    return rank < oob->nranks ? rank : rank - oob->nranks;
}

/* Return the size of the blocks that are sent in this round, in bytes. */
static size_t round_bytes(const struct gpuring_oob *oob)
{
    int d = oob->distance, rest = oob->nranks - d;

    return (size_t) (d < rest ? d : rest) * oob->bytes;
}

/* Return the tag of gatherings or of connect infos. */
static int tag_of(const struct gpuring_oob *oob, bool connect_info)
{
    return oob->ops->lowest_tag() + 2 * oob->track + connect_info;
}

static int oob_start(struct gpuring_oob *oob, int which, void *data, size_t bytes)
{
    bool sent = which >= GPURING_OOB_HEADER_OUT;

    oob->message[which] = (struct gpuring_message){
        .peer = rank_at(oob, sent ? oob->nranks - oob->distance : oob->distance),
        .sent = sent,
        .data = data,
        .bytes = bytes};
    return oob->ops->start(oob->comm, tag_of(oob, false), &oob->message[which]);
}

static int round_start(struct gpuring_oob *oob)
{
    int status;

    oob->started = true;
    oob->number += oob->distance == 1;
    oob->in.magic = 0;
    oob->out = (struct gpuring_oob_header){
        .magic = MAGIC,
        .version = GPURING_WIRE_VERSION,
        .number = oob->number,
        .failure = oob->failure,
        .bytes = gpuring_oob_troubled(oob) ? 0 : round_bytes(oob),
        .word = oob->word,
    };
    status = oob_start(oob, GPURING_OOB_HEADER_IN, &oob->in, sizeof oob->in);
    if (status == GPURING_OK) {
        status = oob_start(oob, GPURING_OOB_HEADER_OUT, &oob->out, sizeof oob->out);
    }
    if (status == GPURING_OK && oob->out.bytes > 0) {
        status = oob_start(oob, GPURING_OOB_BLOCKS_OUT,
                           oob->blocks + (size_t) oob->rank * oob->bytes, oob->out.bytes);
    }
    return status;
}

/* Check the version of a peer. Blocks differ between versions, headers do not. */
static void check_version(struct gpuring_oob *oob, int from)
{
    if (oob->in.version != GPURING_WIRE_VERSION) {
        gpuring_error("[versions-differ] rank %d runs a different version of coll/gpuring "
                      "(wire format %u) from rank %d (%u): no collective of coll/gpuring can "
                      "run on this communicator; install the same version on all hosts",
                      from, oob->in.version, oob->rank, GPURING_WIRE_VERSION);
        gpuring_oob_fail(oob, GPURING_ERR_DISAGREE);
    }
}

/* Handle a header, and post the receive of the blocks that follow. */
static int round_header(struct gpuring_oob *oob)
{
    const struct gpuring_oob_header *in = &oob->in;
    int from = oob->message[GPURING_OOB_HEADER_IN].peer;

    if (in->magic != MAGIC || in->number != oob->number) {
        gpuring_error("rank %d sent a different message from the one that rank %d expects "
                      "(gathering %llu)",
                      from, oob->rank, (unsigned long long) oob->number);
        return GPURING_ERR_PEER;
    }
    check_version(oob, from);
    if (in->failure.status != GPURING_OK) {
        learn(oob, &in->failure);
    }
    oob->word |= in->word;
    if (!gpuring_oob_troubled(oob) && in->bytes != round_bytes(oob)) {
        gpuring_error("rank %d sent %llu bytes where rank %d expects %zu (gathering %llu)", from,
                      (unsigned long long) in->bytes, oob->rank, round_bytes(oob),
                      (unsigned long long) oob->number);
        return GPURING_ERR_PEER;
    }
    if (in->bytes == 0) {
        return GPURING_OK;
    }
    return gpuring_oob_troubled(oob)
               ? oob_start(oob, GPURING_OOB_BLOCKS_IN, &oob->discard, 1)
               : oob_start(oob, GPURING_OOB_BLOCKS_IN,
                           oob->blocks + (size_t) (oob->rank + oob->distance) * oob->bytes,
                           in->bytes);
}

static int round_progress(struct gpuring_oob *oob)
{
    int status = oob->started ? GPURING_OK : round_start(oob);

    for (int i = 0; status == GPURING_OK && i < GPURING_OOB_MESSAGES; i++) {
        if (oob->message[i].request == NULL) {
            continue;
        }
        status = oob->ops->finish(&oob->message[i]);
        if (status == GPURING_OK) {
            oob->steps++;
            status = i == GPURING_OOB_HEADER_IN ? round_header(oob) : GPURING_OK;
        }
    }
    return status;
}

int gpuring_oob_progress(struct gpuring_oob *oob)
{
    while (oob->distance > 0 && oob->distance < oob->nranks) {
        int status = round_progress(oob);

        if (status != GPURING_OK) {
            return status;
        }
        oob->started = false;
        oob->distance *= 2;
    }
    oob->distance = 0;
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

/* Return the peer of the first of these messages that is in flight, or -1. */
static int awaited(const struct gpuring_message *message, int count)
{
    int i = 0;

    while (i < count && message[i].request == NULL) {
        i++;
    }
    return i < count ? message[i].peer : -1;
}

int gpuring_oob_awaits(const struct gpuring_oob *oob)
{
    int peer = awaited(oob->message, GPURING_OOB_MESSAGES);

    return peer >= 0 ? peer : awaited(oob->connect_info, oob->connect_infos);
}

/* ---- Connect infos ---- */

int gpuring_connect_infos_add(struct gpuring_oob *oob, int peer, const void *data, size_t bytes)
{
    size_t count = (size_t) oob->connect_infos + 1;
    struct gpuring_message *grown = realloc(oob->connect_info, count * sizeof *grown);
    uint8_t *copy = malloc(bytes + 1);

    oob->connect_info = grown != NULL ? grown : oob->connect_info;
    if (grown == NULL || copy == NULL) {
        gpuring_error("out of memory for a message of %zu bytes, from or to rank %d", bytes, peer);
        free(copy);
        return GPURING_ERR_NOMEM;
    }
    if (data != NULL) {
        memcpy(copy, data, bytes);
    }
    grown[oob->connect_infos++] =
        (struct gpuring_message){.peer = peer, .sent = data != NULL, .data = copy, .bytes = bytes};
    return GPURING_OK;
}

int gpuring_connect_infos_progress(struct gpuring_oob *oob)
{
    int waiting = 0;

    for (int i = 0; i < oob->connect_infos; i++) {
        struct gpuring_message *connect_info = &oob->connect_info[i];
        size_t room = connect_info->bytes;
        int status = oob->connect_infos_started
                         ? GPURING_OK
                         : oob->ops->start(oob->comm, tag_of(oob, true), connect_info);

        if (status == GPURING_OK && connect_info->request != NULL) {
            status = oob->ops->finish(connect_info);
        }
        if (status == GPURING_OK && connect_info->bytes > room) {
            gpuring_error("rank %d sent more than the %zu bytes that it announced",
                          connect_info->peer, room);
            connect_info->bytes = 0;
            status = GPURING_ERR_PEER;
        }
        waiting += status == GPURING_AGAIN;
        oob->connect_infos_status = status < 0 ? status : oob->connect_infos_status;
    }
    oob->connect_infos_started = true;
    return waiting > 0 ? GPURING_AGAIN : oob->connect_infos_status;
}

void gpuring_connect_infos_free(struct gpuring_oob *oob)
{
    for (int i = 0; i < oob->connect_infos; i++) {
        if (oob->ops->cancel(&oob->connect_info[i])) {
            free(oob->connect_info[i].data);
        } /* otherwise a message in flight still needs its memory */
    }
    free(oob->connect_info);
    oob->connect_info = NULL;
    oob->connect_infos = oob->connect_infos_status = 0;
    oob->connect_infos_started = false;
}
