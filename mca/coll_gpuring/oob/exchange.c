/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/exchange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/oob/message.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define HEADER_MAGIC UINT32_C(0x67707278) /* "gprx" */

/* A rank's failure; status 0: none. */
struct failure {
    int32_t status;
    int32_t rank;
    uint32_t since; /* the gathering after which all ranks know it */
    uint32_t mark;
};

struct header {
    uint32_t magic;
    uint32_t number; /* of the exchange in its communicator */
    struct failure failure;
    uint64_t bytes;    /* of the message with the blocks that follows; 0: there is none */
    uint64_t words[2]; /* of a broadcast; of an agreement: the bits known so far */
};
_Static_assert(sizeof(struct header) == 48, "travels between ranks");

/* One round, or one step of the broadcast: what is still to come. */
enum step { STEP_HEADER, STEP_BLOCKS, STEP_SENT, STEP_END };

struct gpuring_exchange {
    struct ompi_communicator_t *comm;
    int tag;
    int rank, nranks;
    uint32_t number; /* of the exchange that is under way, or was the last one */
    uint64_t steps;
    bool broadcast;
    enum step step;
    int distance; /* gathering: of the round; broadcast: to the child */
    bool agreement;
    uint32_t mark;
    struct failure failure;
    uint64_t *words;

    struct header in, out;
    uint8_t *records; /* what is known so far, of ranks from this one on */
    size_t bytes;
    uint8_t *grown; /* the same and what comes in this round; NULL: nothing does */
    uint8_t sink;   /* takes what there is no memory for */
    ompi_request_t *receive, *send_header, *send_blocks;
    struct gpuring_gathered gathered;
};

struct gpuring_exchange *gpuring_exchange_create(void)
{
    return calloc(1, sizeof(struct gpuring_exchange));
}

void gpuring_exchange_use(struct gpuring_exchange *exchange, struct ompi_communicator_t *comm,
                          int tag)
{
    exchange->tag = tag;
    exchange->comm = comm;
    exchange->rank = ompi_comm_rank(comm);
    exchange->nranks = ompi_comm_size(comm);
    exchange->step = STEP_END;
}

int gpuring_exchange_ranks(const struct gpuring_exchange *exchange)
{
    return exchange->nranks;
}

static bool before(uint32_t left, uint32_t right) /* numbers may wrap */
{
    return (int32_t) (left - right) < 0;
}

/* Of several failures the one that all know first counts, then that of the lowest rank. */
static void learn(struct gpuring_exchange *x, const struct failure *failure)
{
    if (x->failure.status == GPURING_OK || before(failure->since, x->failure.since) ||
        (failure->since == x->failure.since && failure->rank < x->failure.rank)) {
        x->failure = *failure;
    }
}

void gpuring_exchange_fail(struct gpuring_exchange *exchange, int status)
{
    struct failure failure = {.status = status,
                              .rank = exchange->rank,
                              .since = exchange->number + 1,
                              .mark = exchange->mark};

    if (exchange->failure.status == GPURING_OK) {
        learn(exchange, &failure);
    }
}

bool gpuring_exchange_troubled(const struct gpuring_exchange *exchange)
{
    return exchange->failure.status != GPURING_OK;
}

int gpuring_exchange_failure(const struct gpuring_exchange *exchange, int *rank)
{
    const struct failure *failure = &exchange->failure;

    if (failure->status == GPURING_OK || before(exchange->number, failure->since)) {
        return GPURING_OK;
    }
    if (rank != NULL) {
        *rank = failure->rank;
    }
    return failure->status;
}

void gpuring_exchange_mark(struct gpuring_exchange *exchange, uint32_t mark)
{
    exchange->mark = mark;
}

uint32_t gpuring_exchange_marked(const struct gpuring_exchange *exchange)
{
    return exchange->failure.mark;
}

void gpuring_exchange_forget(struct gpuring_exchange *exchange)
{
    exchange->failure = (struct failure){.status = GPURING_OK};
}

bool gpuring_exchange_busy(const struct gpuring_exchange *exchange)
{
    return exchange->step != STEP_END;
}

static void begin(struct gpuring_exchange *x, bool broadcast)
{
    x->number++;
    x->broadcast = broadcast;
    x->distance = broadcast ? x->nranks : 1;
    x->step = STEP_HEADER;
    gpuring_gathered_clear(&x->gathered);
}

void gpuring_exchange_broadcast(struct gpuring_exchange *exchange, uint64_t words[2])
{
    begin(exchange, true);
    exchange->words = words;
    if (exchange->rank == 0) {
        memcpy(exchange->out.words, words, sizeof exchange->out.words);
    }
}

static void forget_records(struct gpuring_exchange *x)
{
    free(x->records);
    x->records = NULL;
    x->bytes = 0;
}

void gpuring_exchange_gather(struct gpuring_exchange *exchange, const void *mine, size_t bytes)
{
    size_t room = gpuring_record_bytes(bytes);

    forget_records(exchange);
    if (exchange->failure.status == GPURING_OK) {
        exchange->records = malloc(room);
        if (exchange->records != NULL) {
            gpuring_record_put(exchange->records, exchange->rank, mine, bytes);
            exchange->bytes = room;
        } else {
            gpuring_error("out of memory to tell the other ranks %zu bytes", bytes);
            gpuring_exchange_fail(exchange, GPURING_ERR_NOMEM);
        }
    }
    exchange->agreement = false;
    begin(exchange, false);
}

void gpuring_exchange_agree(struct gpuring_exchange *exchange, uint64_t bits)
{
    forget_records(exchange);
    exchange->agreement = true;
    exchange->out.words[0] = bits;
    begin(exchange, false);
}

uint64_t gpuring_exchange_agreed(const struct gpuring_exchange *exchange)
{
    return exchange->out.words[0];
}

static int rank_at(const struct gpuring_exchange *x, int distance)
{
    int rank = x->rank + distance;

    return rank < x->nranks ? rank : rank - x->nranks;
}

/* ---- Headers ---- */

static int header_send(struct gpuring_exchange *x, int to)
{
    x->out.magic = HEADER_MAGIC;
    x->out.number = x->number;
    x->out.failure = x->failure;
    return gpuring_message_send(x->comm, &x->out, sizeof x->out, to, x->tag, &x->send_header);
}

static int header_receive(struct gpuring_exchange *x, int from)
{
    return gpuring_message_receive(x->comm, &x->in, sizeof x->in, from, x->tag, &x->receive);
}

/* The header that is awaited: 0, GPURING_AGAIN, or an error. */
static int header_finish(struct gpuring_exchange *x, int from)
{
    size_t bytes = sizeof x->in;
    int status = gpuring_message_finish(&x->receive, &bytes);

    if (status == GPURING_OK &&
        (bytes != sizeof x->in || x->in.magic != HEADER_MAGIC || x->in.number != x->number)) {
        gpuring_error("rank %d sent another message than rank %d expects (exchange %u): all ranks "
                      "must load the same version of coll/gpuring",
                      from, x->rank, x->number);
        return GPURING_ERR_PEER;
    }
    return status;
}

/* ---- Broadcast ---- */

/*
 * A child of this rank lies at a distance, a power of two, below the lowest bit of its number. The
 * farthest comes first, as it has the most below it. 0: there is none below `distance`.
 */
static int next_distance(const struct gpuring_exchange *x, int distance)
{
    int limit = x->rank == 0 ? x->nranks : x->rank & -x->rank, next = 0;

    for (int d = 1; d < limit && d < x->nranks - x->rank && d < distance; d *= 2) {
        next = d;
    }
    return next;
}

static int broadcast_progress(struct gpuring_exchange *x)
{
    int parent = x->rank & (x->rank - 1), status;

    if (x->step == STEP_HEADER && x->rank != 0) {
        if (x->receive == NULL) {
            status = header_receive(x, parent);
            if (status != GPURING_OK) {
                return status;
            }
        }
        status = header_finish(x, parent);
        if (status != GPURING_OK) {
            return status;
        }
        memcpy(x->words, x->in.words, sizeof x->in.words);
        memcpy(x->out.words, x->in.words, sizeof x->out.words);
        x->steps++;
    }
    x->step = STEP_SENT;
    for (;;) {
        status = gpuring_message_finish(&x->send_header, NULL);
        if (status != GPURING_OK) {
            return status;
        }
        x->steps++;
        x->distance = next_distance(x, x->distance);
        if (x->distance == 0) {
            x->step = STEP_END;
            return GPURING_OK;
        }
        status = header_send(x, x->rank + x->distance);
        if (status != GPURING_OK) {
            return status;
        }
    }
}

/* ---- Gathering ---- */

static int round_start(struct gpuring_exchange *x)
{
    int d = x->distance, n = x->nranks;
    int to = rank_at(x, n - d), from = rank_at(x, d), status;

    x->out.bytes = 0;
    if (x->failure.status == GPURING_OK && !x->agreement) {
        x->out.bytes = gpuring_records_prefix(x->records, x->bytes, d < n - d ? d : n - d);
    }
    status = header_receive(x, from);
    if (status == GPURING_OK) {
        status = header_send(x, to);
    }
    if (status == GPURING_OK && x->out.bytes > 0) {
        status =
            gpuring_message_send(x->comm, x->records, x->out.bytes, to, x->tag, &x->send_blocks);
    }
    return status;
}

/* The header is here: learn from it, and make room for the blocks that follow. */
static int round_blocks(struct gpuring_exchange *x, int from)
{
    const struct header *in = &x->in;

    if (in->failure.status != GPURING_OK) {
        learn(x, &in->failure);
    }
    if (in->bytes == 0) {
        return GPURING_OK;
    }
    if (x->failure.status == GPURING_OK) {
        x->grown = in->bytes < SIZE_MAX - x->bytes ? malloc(x->bytes + in->bytes) : NULL;
        if (x->grown == NULL) {
            gpuring_error("out of memory for what %d ranks tell: %llu bytes", x->nranks,
                          (unsigned long long) (x->bytes + in->bytes));
            gpuring_exchange_fail(x, GPURING_ERR_NOMEM);
        }
    }
    return x->grown != NULL
               ? gpuring_message_receive(x->comm, x->grown + x->bytes, in->bytes, from, x->tag,
                                         &x->receive)
               : gpuring_message_receive(x->comm, &x->sink, 1, from, x->tag, &x->receive);
}

/* What came in this round joins what was known. */
static void round_join(struct gpuring_exchange *x)
{
    if (x->agreement) {
        x->out.words[0] |= x->in.words[0];
    }
    if (x->grown != NULL) {
        memcpy(x->grown, x->records, x->bytes);
        free(x->records);
        x->records = x->grown;
        x->bytes += x->in.bytes;
        x->grown = NULL;
    }
}

static int round_progress(struct gpuring_exchange *x)
{
    int from = rank_at(x, x->distance), status = GPURING_OK;

    if (x->step == STEP_HEADER) {
        if (x->receive == NULL) {
            status = round_start(x);
        }
        if (status == GPURING_OK) {
            status = header_finish(x, from);
        }
        if (status == GPURING_OK) {
            status = round_blocks(x, from);
            x->step = STEP_BLOCKS;
            x->steps++;
        }
    }
    if (status == GPURING_OK && x->step == STEP_BLOCKS) {
        size_t bytes = x->in.bytes;

        if (x->in.bytes > 0 && x->grown == NULL) {
            status = gpuring_message_drop(&x->receive) ? GPURING_OK : GPURING_AGAIN;
        } else {
            status = gpuring_message_finish(&x->receive, &bytes);
        }
        if (status == GPURING_OK && bytes != x->in.bytes) {
            gpuring_error("rank %d sent %zu bytes where it announced %llu", from, bytes,
                          (unsigned long long) x->in.bytes);
            return GPURING_ERR_PEER;
        }
        if (status == GPURING_OK) {
            x->step = STEP_SENT;
            x->steps++;
        }
    }
    if (status == GPURING_OK) {
        status = gpuring_message_finish(&x->send_header, NULL);
    }
    if (status == GPURING_OK) {
        status = gpuring_message_finish(&x->send_blocks, NULL);
    }
    if (status == GPURING_OK) {
        round_join(x); /* only now: what was sent stays as it is until it is out */
    }
    return status;
}

/* All rounds are over: without trouble there is a record of each rank. */
static void gather_end(struct gpuring_exchange *x)
{
    int status;

    x->step = STEP_END;
    if (x->failure.status != GPURING_OK || x->agreement) {
        return;
    }
    status = gpuring_gathered_take(&x->gathered, x->nranks, x->records, x->bytes);
    if (status == GPURING_OK) {
        x->records = NULL;
        x->bytes = 0;
    } else {
        gpuring_exchange_fail(x, status);
    }
}

int gpuring_exchange_progress(struct gpuring_exchange *exchange)
{
    if (exchange->broadcast && exchange->step != STEP_END) {
        return broadcast_progress(exchange);
    }
    while (exchange->step != STEP_END) {
        int status = round_progress(exchange);

        if (status != GPURING_OK) {
            return status;
        }
        exchange->distance *= 2;
        exchange->step = STEP_HEADER;
        if (exchange->distance >= exchange->nranks) {
            gather_end(exchange);
        }
    }
    return GPURING_OK;
}

struct gpuring_gathered gpuring_exchange_take(struct gpuring_exchange *exchange)
{
    struct gpuring_gathered gathered = exchange->gathered;

    exchange->gathered = (struct gpuring_gathered){.nranks = 0};
    return gathered;
}

int gpuring_exchange_awaits(const struct gpuring_exchange *exchange)
{
    if (exchange->broadcast) {
        return exchange->step == STEP_HEADER ? exchange->rank & (exchange->rank - 1)
                                             : exchange->rank + exchange->distance;
    }
    if (exchange->step == STEP_END || exchange->distance >= exchange->nranks) {
        return exchange->rank;
    }
    return rank_at(exchange, exchange->receive != NULL ? exchange->distance
                                                       : exchange->nranks - exchange->distance);
}

uint64_t gpuring_exchange_steps(const struct gpuring_exchange *exchange)
{
    return exchange->steps;
}

void gpuring_exchange_free(struct gpuring_exchange *exchange)
{
    bool received, header_sent, blocks_sent;

    if (exchange == NULL) {
        return;
    }
    received = gpuring_message_cancel(&exchange->receive);
    header_sent = gpuring_message_cancel(&exchange->send_header);
    blocks_sent = gpuring_message_cancel(&exchange->send_blocks);
    gpuring_gathered_clear(&exchange->gathered);
    if (received && header_sent && blocks_sent) {
        free(exchange->grown);
        free(exchange->records);
        free(exchange);
    } /* else a message may still arrive or leave: it must find its memory */
}
