/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The memory of exchanges of messages (stream_exchange.c). The tables of blocks and the headers of
 * an exchange are in pinned memory:
 *
 *     extents[4 n]       of the input: data to each rank, headers; then of the output
 *     header sent[n]     to each rank
 *     header received[n] from each rank
 *     header expected[n] only for the host
 */
#ifndef GPURING_STREAM_HEADERS_H
#define GPURING_STREAM_HEADERS_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/stream/stream_state.h"

/* The sender stores its header, and the receiver has stored what it expects. */
struct gpuring_header {
    uint64_t bytes1; /* of the data, plus 1, and GPURING_HEADER_REORDERED; 0: there is no message */
    int32_t tag;     /* expected: or MPI_ANY_TAG */
    uint32_t after;  /* number of collectives in the stream before it */
};
_Static_assert(sizeof(struct gpuring_header) == 16, "sent to other ranks");

/* The sender has sorted its messages to this rank by their tags, and has posted them in another
 * order. */
#define GPURING_HEADER_REORDERED (UINT64_C(1) << 63)

#define GPURING_EXCHANGES           128 /* in flight, and in graphs */
#define GPURING_EXCHANGES_IN_GRAPHS 64  /* at most */

struct gpuring_exchange {
    uint8_t *memory;     /* pinned */
    uint32_t launch;     /* its number */
    bool used, captured; /* captured: it is kept until the communicator is freed */
    bool differs;        /* seen at the last look */
    const char *function;
};

/* Messages of one call in one direction between this rank and another one. */
struct gpuring_exchange_pair {
    int count, last; /* last: the place of the last one in the program */
    bool reordered;  /* the order of tags is another one than that of the program */
};

struct gpuring_exchanges {
    uint8_t *memory; /* pinned, of all */
    uint32_t next, captured;
    struct gpuring_exchange exchange[GPURING_EXCHANGES];
    struct gpuring_exchange_pair pairs[]; /* [nranks][from it, to it] */
};

static inline size_t gpuring_exchange_ranks(const struct gpuring_stream_state *state)
{
    return (size_t) state->module->nranks;
}

static inline struct gpuring_extent *gpuring_exchange_in(const struct gpuring_exchange *exchange)
{
    return (struct gpuring_extent *) (void *) exchange->memory;
}

static inline struct gpuring_extent *gpuring_exchange_out(const struct gpuring_exchange *exchange,
                                                          size_t n)
{
    return gpuring_exchange_in(exchange) + 2 * n;
}

enum gpuring_headers {
    GPURING_HEADERS_SENT,
    GPURING_HEADERS_RECEIVED,
    GPURING_HEADERS_EXPECTED,
    GPURING_HEADERS_COUNT
};

static inline struct gpuring_header *gpuring_exchange_headers(
    const struct gpuring_exchange *exchange, size_t n, enum gpuring_headers which)
{
    return (struct gpuring_header *) (void *) (gpuring_exchange_in(exchange) + 4 * n) + which * n;
}

static inline size_t gpuring_exchange_bytes(size_t n)
{
    return 4 * n * sizeof(struct gpuring_extent) +
           GPURING_HEADERS_COUNT * n * sizeof(struct gpuring_header);
}

/* Get the memory for exchanges. Returns 0, or an error (logged). */
int gpuring_exchanges_open(struct gpuring_stream_state *state);

/* Return true if a launch that is not in a graph has ended. */
bool gpuring_exchange_ended(const struct gpuring_stream_state *state,
                            const struct gpuring_exchange *exchange);

/* Compare the headers of an exchange. A kernel may be storing one, so a difference that is seen
 * while the exchange runs counts when it is seen again. Returns 0, or an error with a text. */
int gpuring_exchange_compare(const struct gpuring_stream_state *state,
                             struct gpuring_exchange *exchange, char *text, size_t size);

#endif
