/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "soak_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64 /* bytes around a buffer */

static const char *const names[SOAK_WHATS] = {
    "bcast",         "gather",     "gatherv",  "scatter",   "scatterv",
    "allgather",     "allgatherv", "alltoall", "alltoallv", "alltoallw",
    "allreduce",     "reduce",     "scan",     "exscan",    "reduce_scatter_block",
    "reduce_scatter"};

static uint64_t mixed(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xc2b2ae3d27d4eb4f) + c;

    return harness_draw(&state);
}

static int below(uint64_t *state, int n)
{
    return (int) (harness_draw(state) % (uint64_t) n);
}

static bool reduces(const struct soak_call *call)
{
    return call->what >= SOAK_ALLREDUCE;
}

static bool is_v(enum soak_what what)
{
    return what == SOAK_GATHERV || what == SOAK_SCATTERV || what == SOAK_ALLGATHERV ||
           what == SOAK_ALLTOALLV || what == SOAK_ALLTOALLW || what == SOAK_REDUCE_SCATTER;
}

static bool is_alltoall(enum soak_what what)
{
    return what == SOAK_ALLTOALL || what == SOAK_ALLTOALLV || what == SOAK_ALLTOALLW;
}

static bool is_gather(enum soak_what what)
{
    return what == SOAK_GATHER || what == SOAK_GATHERV;
}

static bool is_scatter(enum soak_what what)
{
    return what == SOAK_SCATTER || what == SOAK_SCATTERV;
}

static bool is_allgather(enum soak_what what)
{
    return what == SOAK_ALLGATHER || what == SOAK_ALLGATHERV;
}

static bool is_reduce_scatter(enum soak_what what)
{
    return what == SOAK_REDUCE_SCATTER || what == SOAK_REDUCE_SCATTER_BLOCK;
}

static bool is_rooted(enum soak_what what)
{
    return what == SOAK_BCAST || what == SOAK_REDUCE || is_gather(what) || is_scatter(what);
}

/* Return true if each rank may choose the kind of memory of its buffers without coll_gpuring_agree.
 */
static bool is_free(enum soak_what what)
{
    return is_rooted(what) || what == SOAK_ALLTOALLV || what == SOAK_ALLTOALLW;
}

/* ---- Facts that all ranks know ---- */

/* Return the number of cells (elements of a reduction) in the block from one rank to another. If a
 * block is equal for all senders or receivers, `from` or `to` is 0. */
static int length_of(const struct soak_call *call, int from, int to)
{
    int unit = reduces(call) ? 1 : SOAK_CELLS, length = call->length;
    uint64_t x;

    if (!is_v(call->what)) {
        return length;
    }
    if (call->in_place && is_alltoall(call->what) && from > to) {
        return length_of(call, to, from);
    }
    x = mixed(call->seed, (uint64_t) from, (uint64_t) to);
    switch (x % 4) {
    case 0:
        return 0;
    case 1:
        return length;
    case 2:
        return length / unit > 3 ? (int) (x / 4 % 3) * unit : length;
    default:
        return length / unit > 0 ? (int) (x / 4 % (uint64_t) (length / unit)) * unit : 0;
    }
}

/* Open MPI's own functions, to which calls may be delegated, fold these wrongly. */
static bool is_wrong_itself(const struct harness_type *type)
{
    return type->handle == MPI_REAL16 || type->handle == MPI_COMPLEX32;
}

static void draw_reduction(struct soak_call *call, uint64_t *shared)
{
    const struct harness_type *types = harness_types();
    const struct harness_op *ops = harness_ops();
    int ntypes = 0, nops = 0;

    while (types[ntypes].name != NULL) {
        ntypes++;
    }
    while (ops[nops].name != NULL) {
        nops++;
    }
    do {
        call->type = &types[below(shared, ntypes)];
        call->op = &ops[below(shared, nops)];
    } while (call->type->handle == MPI_DATATYPE_NULL || is_wrong_itself(call->type) ||
             (call->op->classes & 1u << call->type->class) == 0);
}

void soak_call_draw(struct soak_call *call, uint64_t *shared, enum soak_what only, size_t most)
{
    int sort, unit, size, longest;

    call->what = only != SOAK_WHATS ? only : (enum soak_what) below(shared, SOAK_WHATS);
    call->form = (enum soak_form) below(shared, SOAK_FORMS);
    call->seed = harness_draw(shared);
    call->data = harness_draw(shared) % 1000000;
    call->in_place = call->what != SOAK_BCAST && below(shared, 3) == 0;
    /* The allgatherv of Open MPI 4.1 takes its algorithm from the size of each rank's own type. */
    call->on_gpus = below(shared, 4) > 0 || call->what == SOAK_ALLGATHERV;
    call->root = below(shared, 1 << 20);
    call->signature = soak_signature(below(shared, soak_signatures));
    draw_reduction(call, shared);
    unit = reduces(call) ? 1 : SOAK_CELLS;
    size = reduces(call)                 ? (int) call->type->size
           : call->signature.numbers > 1 ? 15
                                         : call->signature.sizes[0];
    longest = (int) (most / SOAK_RANKS / (size_t) (size * unit)) + 1;
    sort = below(shared, 40);
    call->length = sort < 2    ? 0
                   : sort < 20 ? 1 + below(shared, 8)
                   : sort < 36 ? 1 + below(shared, 1 + longest / 20)
                               : 1 + below(shared, longest);
    call->length *= unit;
}

/* ---- This rank's buffers ---- */

/* Return the offset of number i of a block, in bytes. */
static long number_at(const struct soak_side *side, int block, long i)
{
    const struct soak_type *type = &side->types[side->each ? block : 0];
    MPI_Aint begin = side->each ? side->displs[block] : side->displs[block] * type->extent;

    return (long) side->origin + begin + soak_type_at(type, i);
}

static long numbers_of(const struct soak_side *side, int block)
{
    return (long) side->counts[block] * side->types[side->each ? block : 0].numbers;
}

static void allocate(struct soak_side *side, MPI_Aint low, MPI_Aint high, bool on_gpu)
{
    side->on_gpu = on_gpu && harness_on_gpu();
    side->bytes = (size_t) (high - low) + 2 * GUARD;
    side->origin = (size_t) (GUARD - low);
    side->memory = side->on_gpu ? harness_alloc(side->bytes) : malloc(side->bytes);
    side->before = malloc(side->bytes);
    side->address = (void *) ((uintptr_t) side->memory + side->origin);
}

/* Set the displacements of blocks, in any order and with gaps if the call permits it. Return the
 * end of all blocks, in extents. */
static int set_displs(struct soak_side *side, uint64_t *own)
{
    int end = side->even ? 0 : below(own, 3), first = side->even ? 0 : below(own, side->blocks);

    for (int k = 0; k < side->blocks; k++) {
        int b = (first + k) % side->blocks;

        side->displs[b] = end;
        end += side->counts[b] + (side->even ? 0 : below(own, 3));
    }
    return end;
}

/* Set up the blocks of one side with these numbers of cells. */
static void side_open(struct soak_side *side, const struct soak_signature *signature,
                      const int *cells, uint64_t *own, bool on_gpu, bool bottom)
{
    static const int divisors[] = {1, 2, 3, 4, 6, 12};
    MPI_Aint low = 0, high = 0;
    int element = divisors[below(own, 6)], all;

    for (int b = 0; b < side->blocks; b++) {
        element = side->each ? divisors[below(own, 6)] : element;
        side->counts[b] = cells[b] / element;
        if (side->each) {
            side->types[b] = soak_type_draw(signature, element, side->counts[b], own);
        }
    }
    all = set_displs(side, own);
    if (!side->each) {
        side->types[0] = soak_type_draw(signature, element, all, own);
    }
    for (int b = 0; b < side->blocks; b++) {
        const struct soak_type *type = &side->types[side->each ? b : 0];
        MPI_Aint begin;

        if (side->each) { /* after the last one; Open MPI's self uses extents: 0 */
            side->displs[b] = side->blocks > 1 ? (int) (high - type->low) + below(own, 20) : 0;
        }
        begin = side->each ? side->displs[b] : side->displs[b] * type->extent;
        if (side->counts[b] > 0) {
            MPI_Aint end = begin + (side->counts[b] - 1) * type->extent + type->high;

            low = begin + type->low < low ? begin + type->low : low;
            high = end > high ? end : high;
        }
    }
    allocate(side, low, high, on_gpu);
    for (int b = 0; b < (side->each ? side->blocks : 1); b++) {
        if (bottom) {
            soak_type_absolute(&side->types[b], side->address);
        }
        side->handles[b] = side->types[b].handle;
    }
    side->address = bottom ? MPI_BOTTOM : side->address;
}

/* The same for elements of a reduction. */
static void vector_open(struct soak_side *side, const struct soak_call *call, int count,
                        bool on_gpu)
{
    side->counts[0] = count;
    allocate(side, 0, (MPI_Aint) ((size_t) count * call->type->size), on_gpu);
}

static void side_close(struct soak_side *side, bool typed)
{
    if (side->memory == NULL) {
        return;
    }
    for (int b = 0; typed && b < (side->each ? side->blocks : 1); b++) {
        soak_type_free(&side->types[b]);
    }
    if (side->on_gpu) {
        harness_free(side->memory);
    } else {
        free(side->memory);
    }
    free(side->before);
}

/* Return the number of elements before a rank's block in a scattered reduction. */
static int elements_before(const struct soak_call *call, int rank)
{
    int before = 0;

    for (int r = 0; r < rank; r++) {
        before += length_of(call, 0, r);
    }
    return before;
}

/* Find the blocks that this rank sends and receives. */
static void count_blocks(struct soak_call *call)
{
    bool at_root = call->rank == call->root;

    call->send.blocks = call->receive.blocks = 1;
    if (call->what == SOAK_BCAST) {
        call->send.blocks = 0;
    } else if (is_alltoall(call->what)) {
        call->send.blocks = call->receive.blocks = call->size;
    } else if (is_allgather(call->what)) {
        call->receive.blocks = call->size;
    } else if (is_gather(call->what)) {
        call->receive.blocks = at_root ? call->size : 0;
    } else if (is_scatter(call->what)) {
        call->send.blocks = at_root ? call->size : 0;
    } else if (call->what == SOAK_REDUCE) {
        call->receive.blocks = at_root;
    }
    call->reuses = call->in_place && (!is_rooted(call->what) || at_root);
    if (call->reuses && is_scatter(call->what)) {
        call->receive.blocks = 0;
    } else if (call->reuses) {
        call->send.blocks = 0;
    }
}

static void open_moves(struct soak_call *call, uint64_t *own, bool send_gpu, bool receive_gpu)
{
    int give[SOAK_RANKS], get[SOAK_RANKS], rank = call->rank;
    bool each = call->what == SOAK_ALLTOALLW, many = is_alltoall(call->what);

    for (int r = 0; r < call->size; r++) {
        give[r] = is_scatter(call->what) ? length_of(call, 0, r)
                  : many                 ? length_of(call, rank, r)
                                         : length_of(call, rank, 0);
        get[r] = many                     ? length_of(call, r, rank)
                 : is_scatter(call->what) ? length_of(call, 0, rank)
                                          : length_of(call, r, 0);
    }
    call->send.even = !is_v(call->what) || call->send.blocks == 1; /* MPI takes no place for it */
    call->receive.even = !is_v(call->what) || call->receive.blocks == 1;
    call->send.each = call->receive.each = each;
    if (call->send.blocks > 0) {
        side_open(&call->send, &call->signature, give, own, send_gpu, below(own, 6) == 0);
    }
    if (call->receive.blocks > 0) {
        side_open(&call->receive, &call->signature, get, own, receive_gpu, below(own, 6) == 0);
    }
}

static void open_reduction(struct soak_call *call, bool send_gpu, bool receive_gpu)
{
    bool scattered = is_reduce_scatter(call->what);
    int all = scattered ? elements_before(call, call->size) : call->length;
    int result = scattered ? length_of(call, 0, call->rank) : all;

    if (call->send.blocks > 0) {
        vector_open(&call->send, call, all, send_gpu);
    }
    if (call->receive.blocks > 0) {
        vector_open(&call->receive, call, call->reuses ? all : result, receive_gpu);
    }
    for (int r = 0; scattered && r < call->size; r++) {
        call->receive.displs[r] = length_of(call, 0, r); /* the argument */
    }
}

void soak_call_open(struct soak_call *call, uint64_t *own, bool agree)
{
    bool send_gpu = call->on_gpus, receive_gpu = call->on_gpus;

    call->root %= call->size;
    if (!is_rooted(call->what)) {
        call->root = 0;
    }
    if (is_alltoall(call->what) && call->form != SOAK_BLOCKING && harness_on_gpu()) {
        call->in_place = false; /* sometimes wrong in Open MPI 4.1 itself */
    }
    if (agree || is_free(call->what)) {
        send_gpu = below(own, 2) == 0;
        receive_gpu = below(own, 2) == 0;
    }
    count_blocks(call);
    if (call->on_gpus && !call->reuses && !is_v(call->what) && below(own, 4) == 0) {
        *(below(own, 2) ? &send_gpu : &receive_gpu) = false; /* one of them is enough */
    }
    call->request = MPI_REQUEST_NULL;
    call->send.memory = call->receive.memory = NULL;
    if (reduces(call)) {
        open_reduction(call, send_gpu, receive_gpu);
    } else {
        open_moves(call, own, send_gpu, receive_gpu);
    }
    call->seen = malloc(call->send.bytes > call->receive.bytes ? call->send.bytes + 1
                                                               : call->receive.bytes + 1);
}

void soak_call_close(struct soak_call *call)
{
    side_close(&call->send, !reduces(call));
    side_close(&call->receive, !reduces(call));
    free(call->seen);
}

/* ---- Data ---- */

/* Write number i of a block. */
static void put_number(const struct soak_call *call, struct soak_side *side, int block, long i,
                       int from, int to)
{
    const struct soak_type *type = &side->types[side->each ? block : 0];
    uint64_t words[2];

    words[0] = mixed(call->data, (uint64_t) from << 8 | (uint64_t) to, (uint64_t) i);
    words[1] = ~words[0];
    memcpy(side->before + number_at(side, block, i), words, (size_t) soak_type_size(type, i));
}

static void put_block(const struct soak_call *call, struct soak_side *side, int block, int from,
                      int to)
{
    for (long i = 0; i < numbers_of(side, block); i++) {
        put_number(call, side, block, i, from, to);
    }
}

/* Write the numbers of a block of the receive buffer. */
static void put_received(const struct soak_call *call, int block)
{
    struct soak_side *side = (struct soak_side *) (uintptr_t) &call->receive;
    int to = is_alltoall(call->what) ? call->rank : 0;

    if (is_scatter(call->what)) {
        put_block(call, side, block, call->root, call->rank);
    } else if (call->what == SOAK_BCAST) {
        put_block(call, side, block, call->root, 0);
    } else {
        put_block(call, side, block, block, to);
    }
}

static void put_input(struct soak_call *call)
{
    struct soak_side *side = call->reuses && !is_scatter(call->what) ? &call->receive : &call->send;
    bool many = is_alltoall(call->what) || is_scatter(call->what);

    if (reduces(call)) {
        size_t shift = call->data % 1000;

        for (int i = 0; i < side->counts[0]; i++) {
            long re, im;

            harness_value(call->type, call->op, call->rank, (size_t) i + shift, &re, &im);
            call->type->put(side->before + side->origin, (size_t) i, re, im);
        }
        return;
    }
    if (call->what == SOAK_BCAST) {
        if (call->rank == call->root) {
            put_received(call, 0);
        }
        return;
    }
    if (call->reuses && !many) {
        put_received(call, call->rank);
        return;
    }
    for (int b = 0; b < side->blocks; b++) {
        put_block(call, side, b, call->rank, many ? b : 0);
    }
}

static void write_side(const struct soak_side *side)
{
    if (side->memory != NULL && side->on_gpu) {
        harness_write(side->memory, side->before, side->bytes);
    } else if (side->memory != NULL) {
        memcpy(side->memory, side->before, side->bytes);
    }
}

static void fill_noise(struct soak_side *side, uint64_t seed)
{
    for (size_t i = 0; side->memory != NULL && i < side->bytes; i++) {
        side->before[i] = (char) (seed + i * 37 % 251);
    }
}

void soak_call_fill(struct soak_call *call)
{
    call->data++;
    fill_noise(&call->send, call->data);
    fill_noise(&call->receive, call->data / 3);
    put_input(call);
    write_side(&call->send);
    write_side(&call->receive);
}

static void read_side(const struct soak_call *call, const struct soak_side *side)
{
    if (side->on_gpu) {
        harness_read(call->seen, side->memory, side->bytes);
    } else {
        memcpy(call->seen, side->memory, side->bytes);
    }
}

/* Check the result of a reduction in `seen`, and replace right values with their values before the
 * call. */
static bool check_reduced(const struct soak_call *call)
{
    const struct soak_side *side = &call->receive;
    bool scattered = is_reduce_scatter(call->what);
    size_t size = call->type->size, shift = call->data % 1000;
    int first = scattered ? elements_before(call, call->rank) : 0;
    int count = scattered ? length_of(call, 0, call->rank) : side->counts[0];
    int ranks = call->what == SOAK_SCAN     ? call->rank + 1
                : call->what == SOAK_EXSCAN ? call->rank
                                            : call->size;
    char *values = call->seen + side->origin;

    for (int i = 0; i < count && ranks > 0; i++) {
        long re, im;

        harness_expected(call->type, call->op, ranks, (size_t) (first + i) + shift, &re, &im);
        if (!call->type->same(values, (size_t) i, re, im)) {
            return false;
        }
    }
    if (ranks > 0) { /* in place, the bytes after a block are undefined */
        count = scattered ? side->counts[0] : count;
        memcpy(values, side->before + side->origin, (size_t) count * size);
    }
    return true;
}

/* Return true if the content is not as expected, after a comment about the first different byte. */
static bool differs(const struct soak_call *call, const struct soak_side *side)
{
    size_t at = 0;

    while (at < side->bytes && call->seen[at] == side->before[at]) {
        at++;
    }
    if (at < side->bytes) {
        printf("# rank %d: byte %ld of %zu is 0x%02x, not 0x%02x\n", harness_rank,
               (long) at - GUARD, side->bytes - (size_t) 2 * GUARD, (unsigned char) call->seen[at],
               (unsigned char) side->before[at]);
    }
    return at < side->bytes;
}

const char *soak_call_check(struct soak_call *call)
{
    if (call->send.memory != NULL) {
        read_side(call, &call->send);
        if (differs(call, &call->send)) {
            return "the send buffer has changed";
        }
    }
    if (call->receive.memory == NULL) {
        return NULL;
    }
    read_side(call, &call->receive);
    if (reduces(call)) {
        if (!check_reduced(call)) {
            return "a wrong result";
        }
    } else {
        for (int b = 0; b < call->receive.blocks; b++) {
            put_received(call, b);
        }
    }
    return differs(call, &call->receive) ? "the receive buffer is not as expected" : NULL;
}

const char *soak_call_text(const struct soak_call *call)
{
    static const char *const forms[SOAK_FORMS] = {"blocking", "non-blocking", "persistent"};
    static char text[512];

    snprintf(text, sizeof text,
             "call %d, %s %s on communicator %d (rank %d of %d), root %d, length %d, in place %d, "
             "%s %s, elements of %d and %d cells, on a GPU %d and %d, MPI_BOTTOM %d and %d",
             call->number, forms[call->form], names[call->what], call->comm_number, call->rank,
             call->size, call->root, call->length, call->in_place,
             reduces(call) ? call->type->name : "signature of",
             reduces(call)                 ? call->op->name
             : call->signature.numbers > 1 ? "four"
                                           : "one",
             call->send.types[0].cells, call->receive.types[0].cells, call->send.on_gpu,
             call->receive.on_gpu, call->send.address == MPI_BOTTOM,
             call->receive.address == MPI_BOTTOM);
    return text;
}
