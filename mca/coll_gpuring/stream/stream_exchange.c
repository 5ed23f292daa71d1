/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages between ranks in a stream. All messages that a program waits for together are one
 * launch, an exchange. Its plan has a lane for each message (GPURING_ROOT_MESSAGES in plan.h), so
 * no message waits for another one of the same exchange. Several messages to or from the same rank
 * need several exchanges, which run one after another.
 *
 * The ranks cannot match messages on the host, because the host does not wait. The nth message that
 * a rank sends to another one therefore meets the nth message that the other one receives from it.
 * The kernels send a header in front of the data, and the receiver's host compares it later with
 * the receive.
 * Memory and headers are in stream_headers.c.
 */
#include "mca/coll_gpuring/stream/stream_headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/status.h"

/* A message with its size. It is in exchange number `round` of the call. */
struct item {
    const struct gpuring_stream_message *message;
    uint64_t bytes;
    int posted; /* its place in the program */
    int round;
};

static struct gpuring_exchange_pair *pair_of(const struct gpuring_stream_state *state,
                                             const struct item *item)
{
    return &state->exchanges->pairs[2 * item->message->peer + item->message->sends];
}

int gpuring_stream_check(const struct gpuring_stream_state *state, const char *function,
                         const struct gpuring_stream_message *message)
{
    int status;

    if (!message->sends && message->peer == MPI_ANY_SOURCE) {
        return gpuring_stream_refuse(function, "stream-any-source",
                                     "kernels cannot receive from MPI_ANY_SOURCE; give the rank, "
                                     "or use MPI_Recv after cudaStreamSynchronize");
    }
    if (message->peer == state->module->rank) {
        return gpuring_stream_refuse(function, "stream-self",
                                     "a rank cannot send a message to itself in a stream; use "
                                     "cudaMemcpyAsync");
    }
    if (gpuring_engine_messages(state->module->engine, NULL) == 0) {
        return gpuring_stream_refuse(function, "stream-no-direct",
                                     "the ranks have no connections for messages, because they "
                                     "are more than 1024");
    }
    status = gpuring_stream_check_type(function, message->type, message->count);
    return status == GPURING_OK
               ? gpuring_stream_check_memory(function, message->sends ? "send" : "receive",
                                             message->buffer,
                                             message->count * message->type->super.size)
               : status;
}

/* By tag. Messages with the same tag keep their order. */
static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return x->message->tag != y->message->tag ? (x->message->tag < y->message->tag ? -1 : 1)
                                              : (x->posted > y->posted) - (x->posted < y->posted);
}

/* Give each message a round, so that a round has one message to a rank and one from it. Sort by
 * tags, because programs often send and receive two messages in different orders. Returns the
 * number of rounds. */
static int find_rounds(struct gpuring_stream_state *state, struct item *items, int count)
{
    struct gpuring_exchange_pair *pairs = state->exchanges->pairs;
    int most = 0;

    memset(pairs, 0, 2 * gpuring_exchange_ranks(state) * sizeof *pairs);
    qsort(items, (size_t) count, sizeof *items, compare_items);
    for (int i = 0; i < count; i++) {
        struct gpuring_exchange_pair *pair = pair_of(state, &items[i]);

        items[i].round = pair->count++;
        pair->reordered = pair->reordered || items[i].posted < pair->last;
        pair->last = items[i].posted;
        most = items[i].round >= most ? items[i].round + 1 : most;
    }
    return most;
}

/* A receive with MPI_ANY_TAG has no place in the order of tags. */
static int check_tags(const struct gpuring_stream_state *state, const char *function,
                      const struct item *items, int count)
{
    for (int i = 0; i < count; i++) {
        if (!items[i].message->sends && items[i].message->tag == MPI_ANY_TAG &&
            pair_of(state, &items[i])->count > 1) {
            return gpuring_stream_refuse(function, "stream-any-tag",
                                         "messages from one rank that are waited for together are "
                                         "ordered by their tags, so none of them can have "
                                         "MPI_ANY_TAG; give the tags, or wait for each message");
        }
    }
    return GPURING_OK;
}

/* Return the next exchange that no graph has. */
static struct gpuring_exchange *next_exchange(struct gpuring_exchanges *all, uint32_t *next)
{
    struct gpuring_exchange *exchange;

    do {
        exchange = &all->exchange[(*next)++ % GPURING_EXCHANGES];
    } while (exchange->captured);
    return exchange;
}

/* Return true if the next exchanges are not in flight. */
static bool has_room(const struct gpuring_stream_state *state, int rounds)
{
    uint32_t next = state->exchanges->next;
    bool room = true;

    for (int i = 0; i < rounds && room; i++) {
        const struct gpuring_exchange *exchange = next_exchange(state->exchanges, &next);

        room = !exchange->used || gpuring_exchange_ended(state, exchange);
    }
    return room;
}

/* Find an exchange that is not in flight, and compare its headers before they are replaced. */
static int find_exchange(struct gpuring_stream_state *state, struct gpuring_exchange **found)
{
    struct gpuring_exchange *exchange;
    char text[512];
    int status = GPURING_OK;

    exchange = next_exchange(state->exchanges, &state->exchanges->next);
    if (exchange->used) {
        status = gpuring_exchange_compare(state, exchange, text, sizeof text);
        exchange->used = false;
    }
    if (status != GPURING_OK) {
        gpuring_stream_fail(state, NULL, status, text);
    }
    *found = exchange;
    return status;
}

/* Make a block of a table from an absolute address: an offset to `base`, the lowest address. */
static void place(struct gpuring_extent *blocks, size_t n, const uint8_t *base)
{
    for (size_t i = 0; i < n; i++) {
        blocks[i].offset -= blocks[i].count > 0 ? (uint64_t) (uintptr_t) base : 0;
    }
}

static const uint8_t *lowest(const struct gpuring_extent *blocks, size_t n)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < n; i++) {
        least = blocks[i].count > 0 && blocks[i].offset < least ? blocks[i].offset : least;
    }
    return (const uint8_t *) (uintptr_t) (least == UINT64_MAX ? 0 : least);
}

/* Fill in the blocks and headers of a round. */
static void fill_exchange(const struct gpuring_stream_state *state,
                          const struct gpuring_exchange *exchange, const struct item *items,
                          int count, int round)
{
    size_t n = gpuring_exchange_ranks(state);
    uint32_t after = (uint32_t) state->module->engine->operation;

    memset(exchange->memory, 0, gpuring_exchange_bytes(n));
    for (int i = 0; i < count; i++) {
        const struct gpuring_stream_message *message = items[i].message;
        size_t peer = (size_t) message->peer;
        struct gpuring_extent *blocks =
            message->sends ? gpuring_exchange_in(exchange) : gpuring_exchange_out(exchange, n);
        struct gpuring_header *header = &gpuring_exchange_headers(
            exchange, n, message->sends ? GPURING_HEADERS_SENT : GPURING_HEADERS_EXPECTED)[peer];

        if (items[i].round != round) {
            continue;
        }
        *header = (struct gpuring_header){
            .bytes1 = items[i].bytes + 1, .tag = message->tag, .after = after};
        if (message->sends && pair_of(state, &items[i])->reordered) {
            header->bytes1 |= GPURING_HEADER_REORDERED;
        }
        header = message->sends
                     ? header
                     : &gpuring_exchange_headers(exchange, n, GPURING_HEADERS_RECEIVED)[peer];
        blocks[peer] = (struct gpuring_extent){.offset = (uint64_t) (uintptr_t) message->buffer,
                                               .count = items[i].bytes};
        blocks[n + peer] = (struct gpuring_extent){.offset = (uint64_t) (uintptr_t) header,
                                                   .count = sizeof *header};
    }
}

/* Describe a round to the engine. */
static void describe_exchange(const struct gpuring_stream_state *state,
                              const struct gpuring_exchange *exchange, struct gpuring_call *call)
{
    size_t n = gpuring_exchange_ranks(state);
    struct gpuring_extent *in = gpuring_exchange_in(exchange),
                          *out = gpuring_exchange_out(exchange, n);

    *call = (struct gpuring_call){.collective = GPURING_COLLECTIVE_ALLTOALL,
                                  .name = exchange->function,
                                  .root = GPURING_ROOT_MESSAGES,
                                  .type = GPURING_TYPE_BYTE,
                                  .op = GPURING_OP_BOR,
                                  .element_size = 1,
                                  .input = lowest(in, 2 * n),
                                  .output = (void *) (uintptr_t) lowest(out, 2 * n),
                                  .in = {.bytes = 1, .blocks.table = in},
                                  .out = {.bytes = 1, .blocks.table = out}};
    place(in, 2 * n, call->input);
    place(out, 2 * n, call->output);
    (void) gpuring_engine_messages(state->module->engine, &call->choice);
}

/* Enqueue the messages of a round. */
static int enqueue_round(struct gpuring_stream_state *state, const char *function,
                         const struct item *items, int count, int round)
{
    struct gpuring_engine *engine = state->module->engine;
    uint32_t captures = engine->captures;
    struct gpuring_exchange *exchange = NULL;
    struct gpuring_call call;
    int status = find_exchange(state, &exchange);

    if (status != GPURING_OK) {
        return status;
    }
    exchange->function = function;
    fill_exchange(state, exchange, items, count, round);
    describe_exchange(state, exchange, &call);
    status = gpuring_operation_enqueue(engine, &call);
    if (status != GPURING_OK) {
        return status;
    }
    exchange->used = true;
    exchange->differs = false;
    exchange->captured = engine->captures != captures;
    exchange->launch = engine->enqueued;
    state->exchanges->captured += exchange->captured;
    gpuring_stream_record(state, exchange->captured,
                          1 + (int) (exchange - state->exchanges->exchange));
    gpuring_pvar_add(GPURING_PVAR_calls, 1);
    return GPURING_OK;
}

/* Check that the lanes of all messages of a round can run at the same time. The first round has
 * the most messages. */
static int check_lanes(const struct gpuring_stream_state *state, const char *function,
                       const struct item *items, int count)
{
    uint32_t most = gpuring_engine_messages(state->module->engine, NULL), together = 0;
    char why[200];

    for (int i = 0; i < count; i++) {
        together += items[i].round == 0;
    }
    if (together <= most) {
        return GPURING_OK;
    }
    snprintf(why, sizeof why,
             "%u messages at the same time need more thread blocks than this rank's share of the "
             "GPU; wait for at most %u messages together",
             together, most);
    return gpuring_stream_refuse(function, "stream-messages", why);
}

/* Check that a graph that is being captured may have this many further exchanges. */
static int check_graph(const struct gpuring_stream_state *state, const char *function, int rounds)
{
    const struct gpuring_engine *engine = state->module->engine;
    bool captured = false;
    int status = engine->device_ops->captures(engine->device, engine->queue, &captured);

    if (status == GPURING_OK && captured &&
        state->exchanges->captured + (uint32_t) rounds > GPURING_EXCHANGES_IN_GRAPHS) {
        status = gpuring_stream_refuse(function, "stream-graph-messages",
                                       "CUDA graphs of a communicator have at most 64 calls with "
                                       "messages, or fewer if a call has several messages to or "
                                       "from one rank; create another communicator");
    }
    return status;
}

/* Enqueue all rounds. After the first one, other ranks take part, so an error is permanent. */
static int enqueue_all(struct gpuring_stream_state *state, const char *function, struct item *items,
                       int count)
{
    int rounds = find_rounds(state, items, count);
    int status = check_lanes(state, function, items, count);

    status = status == GPURING_OK ? check_tags(state, function, items, count) : status;
    status = status == GPURING_OK ? check_graph(state, function, rounds) : status;
    if (status == GPURING_OK && rounds > GPURING_EXCHANGES - GPURING_EXCHANGES_IN_GRAPHS) {
        status = gpuring_stream_refuse(function, "stream-messages",
                                       "more than 64 messages to or from one rank; wait for fewer "
                                       "together");
    }
    if (status == GPURING_OK && !has_room(state, rounds)) {
        status = GPURING_AGAIN;
    }
    for (int round = 0; round < rounds && status == GPURING_OK; round++) {
        status = enqueue_round(state, function, items, count, round);
        if (status != GPURING_OK && round > 0) {
            gpuring_module_fail(state->module, status);
        }
    }
    for (int i = 0; i < count && status == GPURING_OK; i++) {
        gpuring_pvar_add(GPURING_PVAR_bytes, items[i].bytes);
    }
    return status;
}

int gpuring_stream_exchange(struct gpuring_stream_state *state, const char *function,
                            const struct gpuring_stream_message *messages, int count)
{
    struct item *items = malloc((size_t) count * sizeof *items);
    int status = items != NULL ? GPURING_OK : GPURING_ERR_NOMEM;

    for (int i = 0; i < count && items != NULL; i++) {
        items[i] = (struct item){.message = &messages[i],
                                 .bytes = messages[i].count * messages[i].type->super.size,
                                 .posted = i};
    }
    if (status == GPURING_OK && state->exchanges == NULL) {
        status = gpuring_exchanges_open(state);
    }
    if (status == GPURING_OK) {
        status = enqueue_all(state, function, items, count);
    }
    free(items);
    return status;
}
