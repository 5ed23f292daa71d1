/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large blocking calls, in chunks of about coll_gpuring_stage_size bytes, so that copies and
 * messages overlap and pinned memory stays bounded, whatever the call's size:
 *
 *     chunk       0    1    2    3
 *     copy in     0    1    2    3
 *     call             0    1    2    3
 *     copy out              0    1    2    3
 *
 * A chunk is a piece of every block (cut.h), and a call of the same collective of the previous
 * module on it: of bytes, or of elements where it reduces.
 *
 * A call of many parts cannot be matched with a whole call of another rank, and ranks may differ in
 * where their buffers are and in their types. So the ranks agree on it first, whenever a call is
 * large by its type signature, which is the same on all of them. It costs microseconds in a call
 * that takes milliseconds. Each rank has its host memory before: none can lack it half-way.
 *
 * gatherv, scatterv, alltoallv and alltoallw are not cut: no rank knows the counts of others there,
 * so they do not know alike which call is large, nor how many chunks it would have. The calls of
 * neighbours and between groups are not cut either.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/cut.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/backoff.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define SLOTS 3 /* chunks under way: copied in, called, copied out */

/* What the ranks agree on: is it so at any of them? */
enum {
    STAGES = 1,    /* a buffer is on a GPU */
    WHOLE = 2,     /* the call cannot be cut */
    NO_MEMORY = 4, /* a rank has no host memory for the chunks */
};

enum { SEND, RECEIVE, SIDES };

/* Host memory for one chunk at a time. */
struct slot {
    struct gpuring_stage_bounce *bounce[SIDES]; /* NULL: the call does not use the buffer */
    struct gpuring_stream *stream;              /* NULL: no buffer is on a GPU */
    size_t chunk;
};

struct large {
    struct gpuring_stage stage; /* the whole call */
    struct gpuring_arguments *arguments;
    struct gpuring_cut cut;
    int own;              /* this rank's block */
    ptrdiff_t lead;       /* from where the previous module is given a piece to its first byte */
    size_t *units;        /* of each block */
    int *counts, *displs; /* of a chunk */
    struct slot slots[SLOTS];
};

static const struct gpuring_stage_buffer *side_of(const struct large *large, int side)
{
    return side == SEND ? &large->stage.send : &large->stage.receive;
}

static bool is_used(const struct gpuring_part *part)
{
    return part->end > 0;
}

/* Has a part the blocks of all ranks, rather than this rank's alone? */
static bool has_all_blocks(const struct large *large, const struct gpuring_part *part)
{
    return is_used(part) && part->blocks == large->cut.blocks;
}

/* A part that says how long the blocks are: of all, or else of this rank's, which is like others.
 */
static const struct gpuring_part *reference(const struct large *large)
{
    const struct gpuring_part *const parts[] = {&large->stage.receive.out, &large->stage.send.in,
                                                &large->stage.receive.in};
    const struct gpuring_part *found = NULL;

    for (int i = 0; i < 3; i++) {
        if (has_all_blocks(large, parts[i])) {
            return parts[i];
        }
        found = found == NULL && is_used(parts[i]) ? parts[i] : found;
    }
    return found;
}

static void find_units(struct large *large)
{
    const struct gpuring_part *part = reference(large);
    bool reduces = large->arguments->op != NULL;
    struct gpuring_block block = {.next = 0};

    for (int i = 0; i < large->cut.blocks; i++) {
        if (i < part->blocks) {
            (void) gpuring_part_next(part, &block);
        }
        large->units[i] =
            reduces || block.count == 0 ? block.count : block.count * block.type->super.size;
    }
    large->cut.units = large->units;
    large->cut.size = reduces ? large->arguments->rtype->super.size : 1;
    large->lead = reduces ? large->arguments->rtype->super.true_lb : 0;
}

/* 0 or GPURING_ERR_NOMEM (logged). */
static int find_blocks(struct large *large)
{
    size_t n = (size_t) large->cut.blocks, bytes = n * (sizeof *large->units + 2 * sizeof(int));

    large->units = malloc(bytes);
    if (large->units == NULL) {
        return gpuring_stage_log_memory(large->stage.module, large->stage.what, bytes);
    }
    large->counts = (int *) (large->units + n);
    large->displs = large->counts + n;
    find_units(large);
    gpuring_cut_find(&large->cut, gpuring_cut_limit(large->cut.blocks, gpuring_params.stage_size));
    return GPURING_OK;
}

/* The first failure ends the copies of this rank, but not its part in the chunks' calls. */
static void note(struct large *large, int status)
{
    if (status != GPURING_OK && large->stage.failed == GPURING_OK) {
        large->stage.failed =
            gpuring_stage_log_failure(large->stage.module, large->stage.what, status);
    }
}

static int reserve_slot(struct large *large, struct slot *slot)
{
    for (int side = 0; side < SIDES; side++) {
        const struct gpuring_stage_buffer *buffer = side_of(large, side);
        bool all = has_all_blocks(large, &buffer->in) || has_all_blocks(large, &buffer->out);
        size_t bytes = all ? gpuring_cut_bytes(&large->cut)
                           : gpuring_cut_units(&large->cut, large->own, 0) * large->cut.size;

        if (!is_used(&buffer->in) && !is_used(&buffer->out)) {
            continue;
        }
        /* What no GPU copies from need not be pinned. */
        slot->bounce[side] = gpuring_stage_bounce_get(bytes, buffer->on_gpu ? bytes : 0);
        if (slot->bounce[side] == NULL) {
            return gpuring_stage_log_memory(large->stage.module, large->stage.what, bytes);
        }
    }
    return GPURING_OK;
}

/* All that this rank needs for the whole call: 0 or GPURING_ERR_NOMEM (logged). */
static int reserve(struct large *large, bool stages)
{
    int status = find_blocks(large);

    if (stages && status == GPURING_OK) {
        note(large, gpuring_stage_attach(&large->stage));
    }
    for (int s = 0; s < SLOTS && status == GPURING_OK; s++) {
        status = reserve_slot(large, &large->slots[s]);
        if (stages && status == GPURING_OK && large->stage.failed == GPURING_OK) {
            note(large, gpuring_stage_stream_get(&large->slots[s].stream));
        }
    }
    return status;
}

static void release(struct large *large)
{
    for (int s = 0; s < SLOTS; s++) {
        gpuring_stage_stream_put(large->slots[s].stream);
        gpuring_stage_bounce_put(large->slots[s].bounce[SEND]);
        gpuring_stage_bounce_put(large->slots[s].bounce[RECEIVE]);
    }
    free(large->units);
}

/* Begin to copy a chunk of one buffer: its pieces are packed in host memory, in the order of the
 * blocks. */
static int start_side(struct large *large, const struct slot *slot, int side, bool in)
{
    const struct gpuring_stage_buffer *buffer = side_of(large, side);
    const struct gpuring_part *part = in ? &buffer->in : &buffer->out;
    ptrdiff_t chunk = (ptrdiff_t) (slot->chunk * large->cut.step * large->cut.size), before = 0;
    struct gpuring_runs runs = {.count = 0};
    struct gpuring_block block = {.next = 0};
    int status = GPURING_OK;

    for (int i = 0; gpuring_part_next(part, &block) && status == GPURING_OK; i++) {
        int which = has_all_blocks(large, part) ? i : large->own;
        size_t bytes = gpuring_cut_units(&large->cut, which, slot->chunk) * large->cut.size;

        if (i < part->first) {
            before += (ptrdiff_t) bytes;
        } else if (bytes > 0) {
            status =
                gpuring_runs_add(&runs, block.offset + block.type->super.true_lb + chunk, bytes);
        }
    }
    gpuring_runs_end(&runs);
    if (status == GPURING_OK && runs.count > 0) {
        status = gpuring_stage_copy(buffer->on_gpu ? slot->stream : NULL, buffer->user,
                                    slot->bounce[side]->address + before, &runs, in, true);
    }
    gpuring_runs_free(&runs);
    return status;
}

static void start(struct large *large, struct slot *slot, bool in)
{
    for (int side = 0; side < SIDES && large->stage.failed == GPURING_OK; side++) {
        note(large, start_side(large, slot, side, in));
    }
}

/* Wait for the copies in a slot. */
static void finish(struct large *large, const struct slot *slot)
{
    if (slot->stream != NULL) {
        note(large, gpuring_process.device_ops->synchronize(slot->stream));
    }
}

static void fill(struct large *large, size_t chunk)
{
    struct slot *slot = &large->slots[chunk % SLOTS];

    finish(large, slot);
    slot->chunk = chunk;
    start(large, slot, true);
}

static void poison(const struct large *large, const struct slot *slot)
{
    for (int side = 0; side < SIDES; side++) {
        if (slot->bounce[side] != NULL && is_used(&side_of(large, side)->in)) {
            memset(slot->bounce[side]->address, GPURING_POISON, slot->bounce[side]->bytes);
        }
    }
}

/* What the previous module gets as a buffer. */
static void *given(const struct large *large, const struct slot *slot, int side)
{
    const struct gpuring_stage_bounce *bounce = slot->bounce[side];

    return bounce != NULL ? (void *) ((uintptr_t) bounce->address - (uintptr_t) large->lead)
                          : (void *) (uintptr_t) side_of(large, side)->user;
}

static int call(struct large *large, const struct slot *slot)
{
    struct gpuring_arguments a = *large->arguments;
    int displ = 0;

    for (int i = 0; i < large->cut.blocks; i++) {
        large->counts[i] = (int) gpuring_cut_units(&large->cut, i, slot->chunk);
        large->displs[i] = displ;
        displ += large->counts[i];
    }
    GPURING_COUNTS_OF(&a.rcounts, large->counts);
    GPURING_DISPLS_OF(&a.rdispls, large->displs);
    a.scount = a.rcount = (gpuring_count_t) large->counts[large->own];
    if (a.op == NULL) {
        a.stype = a.rtype = MPI_BYTE;
    }
    a.sbuf = given(large, slot, SEND);
    a.rbuf = given(large, slot, RECEIVE);
    return gpuring_stage_call_previous(large->stage.module, large->stage.what, GPURING_BLOCKING, &a,
                                       NULL, NULL);
}

/*
 * One chunk, while the next one is on its way in and the last one on its way out. In place, a
 * scattered reduction puts results where the input of earlier chunks was: chunk k's end before
 * (k + 1) * step, and no later input begins before that.
 */
static int run_chunk(struct large *large, size_t chunk)
{
    struct slot *slot = &large->slots[chunk % SLOTS];
    int result;

    if (chunk + 1 < large->cut.chunks) {
        fill(large, chunk + 1);
    }
    finish(large, slot);
    if (large->stage.failed != GPURING_OK) {
        poison(large, slot);
    }
    result = call(large, slot);
    if (result == MPI_SUCCESS) {
        start(large, slot, false);
    }
    return result;
}

static int run(struct large *large)
{
    int result = MPI_SUCCESS, status;

    gpuring_stage_account(large->stage.module, large->stage.what);
    gpuring_pvar_add(GPURING_PVAR_staged_chunks, large->cut.chunks);
    fill(large, 0);
    for (size_t chunk = 0; chunk < large->cut.chunks && result == MPI_SUCCESS; chunk++) {
        result = run_chunk(large, chunk);
    }
    for (int s = 0; s < SLOTS; s++) {
        finish(large, &large->slots[s]);
    }
    status = gpuring_stage_failure(&large->stage);
    return result == MPI_SUCCESS ? gpuring_compat_error(status) : result;
}

/* What is so at any rank, or an error of the messages (logged). */
static int agree(struct gpuring_oob *oob, uint64_t *bits)
{
    struct gpuring_backoff pause = {.vain = 0};
    int status;

    gpuring_oob_agree(oob, *bits, 0);
    while ((status = gpuring_oob_progress(oob)) == GPURING_AGAIN) {
        opal_progress();
        gpuring_backoff(&pause, oob->steps, false);
    }
    *bits = oob->words[0];
    return status;
}

static bool can_be_cut(const struct gpuring_stage *stage, bool reduces)
{
    struct gpuring_part element = {.blocks = 1, .end = 1, .count = 2};
    const struct gpuring_part *const parts[] = {&stage->send.in, &stage->receive.in,
                                                &stage->receive.out};

    for (int i = 0; i < 3; i++) {
        element.type = parts[i]->type;
        if (is_used(parts[i]) && (!gpuring_part_contiguous(parts[i]) ||
                                  (reduces && !gpuring_part_contiguous(&element)))) {
            return false;
        }
    }
    return true;
}

/* Run it in chunks if all ranks can and any has to; else *whole is set. */
static int run_if_agreed(struct large *large, bool on_host, bool *whole)
{
    struct gpuring_stage *stage = &large->stage;
    bool stages = !on_host && gpuring_memory_possible() && gpuring_stage_is_on_gpu(stage);
    uint64_t bits = stages ? STAGES : 0;
    char text[320];
    int status;

    if (!can_be_cut(stage, large->arguments->op != NULL)) {
        bits |= WHOLE;
    } else if (reserve(large, stages) != GPURING_OK) {
        bits |= NO_MEMORY;
    }
    status = agree(stage->module->staging.oob, &bits);
    *whole = status == GPURING_OK && ((bits & STAGES) == 0 || (bits & WHOLE) != 0);
    if (status == GPURING_OK && !*whole && (bits & NO_MEMORY) != 0) {
        gpuring_error("[stage-agreed] %s returns MPI_ERR_NO_MEM on all ranks: one of them has no "
                      "host memory for its chunks, and its log says more",
                      gpuring_stage_text(stage->module, stage->what, text));
        status = GPURING_ERR_NOMEM;
    }
    return status != GPURING_OK || *whole ? gpuring_compat_error(status) : run(large);
}

static bool is_vector(enum gpuring_staged what)
{
    return what <= GPURING_STAGED_exscan;
}

int gpuring_stage_large(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                        struct gpuring_arguments *arguments, bool on_host)
{
    struct large large = {.arguments = arguments};
    bool whole;
    int result;

    gpuring_stage_describe(&large.stage, module, what, arguments);
    large.cut.blocks = is_vector(what) ? 1 : module->nranks;
    large.own = is_vector(what) ? 0 : module->rank;
    gpuring_stage_wait_begin(&large.stage);
    result = run_if_agreed(&large, on_host, &whole);
    gpuring_stage_wait_end(&large.stage);
    release(&large);
    if (!whole) {
        return result;
    }
    return on_host || !gpuring_memory_possible()
               ? gpuring_stage_call_previous(module, what, GPURING_BLOCKING, arguments, NULL, NULL)
               : gpuring_stage_blocking(module, what, arguments);
}
