/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Memory and headers of exchanges of messages; see stream_headers.h. */
#include "mca/coll_gpuring/stream/stream_headers.h"

#include <stdio.h>
#include <stdlib.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_exchanges_open(struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;
    size_t n = gpuring_exchange_ranks(state), bytes = gpuring_exchange_bytes(n);
    struct gpuring_exchanges *all = calloc(1, sizeof *all + 2 * n * sizeof *all->pairs);
    void *pinned = NULL;
    int status = all == NULL ? GPURING_ERR_NOMEM : GPURING_OK;

    if (status == GPURING_OK) {
        status =
            engine->device_ops->alloc_pinned(engine->device, GPURING_EXCHANGES * bytes, &pinned);
    }
    if (status != GPURING_OK) {
        gpuring_error("out of memory for messages in a stream");
        free(all);
        return status;
    }
    all->memory = pinned;
    for (size_t i = 0; i < GPURING_EXCHANGES; i++) {
        all->exchange[i].memory = all->memory + i * bytes;
    }
    state->exchanges = all;
    return GPURING_OK;
}

void gpuring_exchanges_close(struct gpuring_stream_state *state)
{
    const struct gpuring_engine *engine = state->module->engine;

    if (state->exchanges != NULL) {
        engine->device_ops->free_pinned(engine->device, state->exchanges->memory);
        free(state->exchanges);
        state->exchanges = NULL;
    }
}

/* ---- Compare headers ---- */

bool gpuring_exchange_ended(const struct gpuring_stream_state *state,
                            const struct gpuring_exchange *exchange)
{
    const struct gpuring_engine *engine = state->module->engine;
    uint32_t in_flight = engine->enqueued - exchange->launch;

    return !exchange->captured && gpuring_operation_pending(engine) <= in_flight;
}

static bool is_expected(const struct gpuring_header *received,
                        const struct gpuring_header *expected)
{
    bool reordered = (received->bytes1 & GPURING_HEADER_REORDERED) != 0;

    return (received->bytes1 & ~GPURING_HEADER_REORDERED) == expected->bytes1 &&
           received->after == expected->after &&
           (received->tag == expected->tag || (expected->tag == MPI_ANY_TAG && !reordered));
}

static void header_text(const struct gpuring_header *header, char *text, size_t size)
{
    unsigned long long bytes = (header->bytes1 & ~GPURING_HEADER_REORDERED) - 1;
    char tag[16];

    snprintf(tag, sizeof tag, header->tag == MPI_ANY_TAG ? "any" : "%d", (int) header->tag);
    snprintf(text, size, "%llu bytes with tag %s%s", bytes, tag,
             (header->bytes1 & GPURING_HEADER_REORDERED) != 0 ? " (ordered by tags)" : "");
}

/* Return a rank whose message is not the expected one, or -1. */
static int find_difference(const struct gpuring_exchange *exchange, size_t n)
{
    const struct gpuring_header *received =
        gpuring_exchange_headers(exchange, n, GPURING_HEADERS_RECEIVED);
    const struct gpuring_header *expected =
        gpuring_exchange_headers(exchange, n, GPURING_HEADERS_EXPECTED);

    for (size_t rank = 0; rank < n; rank++) {
        if (__atomic_load_n(&received[rank].bytes1, __ATOMIC_ACQUIRE) != 0 &&
            !is_expected(&received[rank], &expected[rank])) {
            return (int) rank;
        }
    }
    return -1;
}

int gpuring_exchange_compare(const struct gpuring_stream_state *state,
                             struct gpuring_exchange *exchange, char *text, size_t size)
{
    size_t n = gpuring_exchange_ranks(state);
    int rank = find_difference(exchange, n);
    const struct gpuring_header *sent, *expected;
    char theirs[96], own[96];

    if (rank < 0 || (!exchange->differs && !gpuring_exchange_ended(state, exchange))) {
        exchange->differs = rank >= 0;
        return GPURING_OK;
    }
    sent = &gpuring_exchange_headers(exchange, n, GPURING_HEADERS_RECEIVED)[rank];
    expected = &gpuring_exchange_headers(exchange, n, GPURING_HEADERS_EXPECTED)[rank];
    header_text(sent, theirs, sizeof theirs);
    header_text(expected, own, sizeof own);
    if (sent->after == expected->after) {
        snprintf(text, size,
                 "[messages-differ] %s receives %s from rank %d, which has sent %s: two ranks must "
                 "send and receive their messages in the same order, with the same number of bytes",
                 exchange->function, own, rank, theirs);
    } else {
        snprintf(text, size,
                 "[messages-differ] %s receives %s from rank %d after %u collectives, and the rank "
                 "has sent %s after %u: the order of messages and collectives must be the same on "
                 "both ranks",
                 exchange->function, own, rank, expected->after, theirs, sent->after);
    }
    return GPURING_ERR_CALLS;
}

int gpuring_exchanges_differ(struct gpuring_stream_state *state, char *text, size_t size)
{
    struct gpuring_exchanges *all = state->exchanges;
    int status = GPURING_OK;

    for (int i = 0; all != NULL && status == GPURING_OK && i < GPURING_EXCHANGES; i++) {
        struct gpuring_exchange *exchange = &all->exchange[i];
        bool ended = exchange->used && gpuring_exchange_ended(state, exchange);

        status =
            exchange->used ? gpuring_exchange_compare(state, exchange, text, size) : GPURING_OK;
        exchange->used = exchange->used && !ended;
    }
    return status;
}

/* ---- Describe exchanges ---- */

/* Return the header of a message of an exchange and set *rank, preferably one that is received and
 * has not arrived, and set *sends. */
static const struct gpuring_header *find_message(const struct gpuring_exchange *exchange, size_t n,
                                                 int *rank, bool *sends, int *count)
{
    const struct gpuring_header *received =
                                    gpuring_exchange_headers(exchange, n, GPURING_HEADERS_RECEIVED),
                                *found = NULL;

    *count = 0;
    for (int pass = 0; pass < 2; pass++) { /* what is received, what is sent */
        const struct gpuring_header *list = gpuring_exchange_headers(
            exchange, n, pass == 0 ? GPURING_HEADERS_EXPECTED : GPURING_HEADERS_SENT);

        for (size_t i = 0; i < n; i++) {
            *count += list[i].bytes1 != 0;
            if (list[i].bytes1 != 0 && (found == NULL || (pass == 0 && received[i].bytes1 == 0 &&
                                                          received[*rank].bytes1 != 0))) {
                found = &list[i];
                *rank = (int) i;
                *sends = pass == 1;
            }
        }
    }
    return found;
}

void gpuring_exchange_text(const struct gpuring_stream_state *state, int number, char *text,
                           size_t size)
{
    const struct gpuring_exchange *exchange = &state->exchanges->exchange[number - 1];
    int rank = 0, count, used;
    bool sends = false;
    const struct gpuring_header *header =
        find_message(exchange, gpuring_exchange_ranks(state), &rank, &sends, &count);
    char what[96];

    header_text(header, what, sizeof what);
    used = snprintf(text, size, "%s of %s %s rank %d", exchange->function, what,
                    sends ? "to" : "from", rank);
    if (count > 1) {
        snprintf(text + used, size - (size_t) used, " and %d other messages", count - 1);
    }
}

int gpuring_exchange_peer(const struct gpuring_stream_state *state, int number)
{
    int rank = 0, count;
    bool sends;

    (void) find_message(&state->exchanges->exchange[number - 1], gpuring_exchange_ranks(state),
                        &rank, &sends, &count);
    return rank;
}
