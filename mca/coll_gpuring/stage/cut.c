/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/cut.h"

#include <string.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/copy.h"
#include "mca/coll_gpuring/stage/memory.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define MANY      256                  /* blocks: with more, chunks grow, not pieces shrink */
#define MOST      ((size_t) 1 << 30)   /* bytes of a chunk: counts are of type int */
#define LINE      64                   /* bytes: a place lies as the buffer does modulo this */
#define MAX_PITCH ((size_t) INT32_MAX) /* that drivers take */

size_t gpuring_cut_limit(int blocks)
{
    size_t limit = gpuring_params.stage_size * (((size_t) blocks + MANY - 1) / MANY);

    return limit < MOST ? limit : MOST;
}

static size_t at_most(size_t count, size_t most)
{
    return count < most ? count : most;
}

static size_t units_of(const struct gpuring_cut *cut, int block)
{
    return cut->counts != NULL ? cut->counts[block] : cut->each;
}

size_t gpuring_cut_units(const struct gpuring_cut *cut, int block, size_t chunk)
{
    size_t count = units_of(cut, block), first = chunk * cut->step;

    return first < count ? at_most(count - first, cut->step) : 0;
}

/* Units of a chunk that takes `step` of every block: of the first one, which is the largest. */
static size_t all_units(const struct gpuring_cut *cut, size_t step)
{
    size_t units = 0;

    if (cut->counts == NULL) {
        return (size_t) cut->blocks * at_most(cut->each, step);
    }
    for (int i = 0; i < cut->blocks; i++) {
        units += at_most(cut->counts[i], step);
    }
    return units;
}

/* The largest pieces of which a chunk has room; the same on all ranks. Bytes: in whole lines. */
static size_t find_step(const struct gpuring_cut *cut)
{
    size_t limit = gpuring_cut_limit(cut->blocks) / cut->size, low = 1, high = limit;

    while (low < high) {
        size_t middle = high - (high - low) / 2;

        if (all_units(cut, middle) <= limit) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return cut->extent == 1 && low > LINE ? low / LINE * LINE : low;
}

static size_t count_chunks(const struct gpuring_cut *cut)
{
    size_t longest = 0;

    for (int i = 0; i < cut->blocks; i++) {
        longest = units_of(cut, i) > longest ? units_of(cut, i) : longest;
    }
    return (longest + cut->step - 1) / cut->step;
}

static const struct gpuring_cut_buffer *buffer_of(const struct gpuring_cut *cut, int which)
{
    return which == 0 ? &cut->send : &cut->receive;
}

static bool on_gpu(const struct gpuring_cut *cut, int which)
{
    return (which == 0 ? &cut->whole.send : &cut->whole.receive)->on_gpu;
}

static bool touched(const struct gpuring_cut_buffer *buffer)
{
    return buffer->in != GPURING_CUT_NOTHING || buffer->out != GPURING_CUT_NOTHING;
}

static bool has_many(const struct gpuring_cut_buffer *buffer)
{
    return buffer->in > GPURING_CUT_ALONE || buffer->out > GPURING_CUT_ALONE;
}

/* Pieces of many blocks must follow one another, also if they come from host memory. */
static bool needs_place(const struct gpuring_cut *cut, int which)
{
    const struct gpuring_cut_buffer *buffer = buffer_of(cut, which);

    return touched(buffer) && (on_gpu(cut, which) || has_many(buffer));
}

/* Any byte of the call that is on a GPU: it tells which GPU to work with. */
static const void *gpu_address(const struct gpuring_stage *whole)
{
    const struct gpuring_stage_buffer *buffer = whole->send.on_gpu ? &whole->send : &whole->receive;
    ptrdiff_t offset = 0;

    if (!gpuring_part_touches(&buffer->in, &offset)) {
        (void) gpuring_part_touches(&buffer->out, &offset);
    }
    return gpuring_cut_at(buffer->user, offset);
}

static int lay_out(struct gpuring_cut *cut)
{
    size_t units = gpuring_cut_units(cut, 0, cut->chunks - 1);
    struct gpuring_part full = gpuring_part_whole(cut->step, cut->type);
    struct gpuring_part last = gpuring_part_whole(units, cut->type);
    int status = GPURING_OK;

    if (cut->gaps) {
        status = gpuring_runs_build(&cut->full, &full);
        if (status == GPURING_OK) {
            status = gpuring_runs_build(&cut->last, &last);
        }
        cut->lead = gpuring_part_span(&full).low;
        cut->span = (size_t) (gpuring_part_span(&full).high - cut->lead);
    }
    return status;
}

static int reserve_place(const struct gpuring_cut *cut, struct gpuring_cut_slot *slot, int which)
{
    const struct gpuring_cut_buffer *buffer = buffer_of(cut, which);
    size_t shift = (uintptr_t) gpuring_cut_at(buffer->user, cut->lead) % LINE;
    size_t units =
        has_many(buffer) ? all_units(cut, cut->step) : at_most(units_of(cut, cut->own), cut->step);
    size_t bytes = units * cut->size;
    size_t span = cut->gaps ? cut->span : bytes;

    /* What no GPU copies from need not be pinned: as far as the pool knows, nothing uses it. */
    slot->block[which] = gpuring_stage_block_try(span + shift, on_gpu(cut, which) ? bytes : 0);
    if (slot->block[which] == NULL) {
        gpuring_error("no host memory for the chunks of a large collective on GPU memory, %zu "
                      "bytes each: it fails on all ranks; free host memory, raise its limits "
                      "(ulimit -v, vm.overcommit_memory) or lower coll_gpuring_stage_size",
                      span + shift);
        return GPURING_ERR_NOMEM;
    }
    slot->place[which] = gpuring_cut_at(slot->block[which]->address, (ptrdiff_t) shift - cut->lead);
    return GPURING_OK;
}

/* All that this rank needs for the whole call. */
static int reserve(struct gpuring_cut *cut)
{
    int status;

    cut->step = find_step(cut);
    cut->chunks = count_chunks(cut);
    status = lay_out(cut);
    if (status == GPURING_OK && cut->stages) {
        status = gpuring_process_attach(gpu_address(&cut->whole));
    }
    for (size_t s = 0; s < at_most(GPURING_CUT_SLOTS, cut->chunks); s++) {
        for (int which = 0; which < 2 && status == GPURING_OK; which++) {
            if (needs_place(cut, which)) {
                status = reserve_place(cut, &cut->slots[s], which);
            }
        }
    }
    return status;
}

static void release(struct gpuring_cut *cut)
{
    for (int s = 0; s < GPURING_CUT_SLOTS; s++) {
        gpuring_stage_stream_put(cut->slots[s].stream);
        gpuring_stage_block_put(cut->slots[s].block[0]);
        gpuring_stage_block_put(cut->slots[s].block[1]);
    }
    gpuring_runs_free(&cut->full);
    gpuring_runs_free(&cut->last);
}

/* Rows that one copy can take. */
struct rows {
    char *user, *place;
    size_t bytes, count, user_pitch, place_pitch;
};

static int copy_rows(struct gpuring_stream *stream, const struct rows *rows, bool in)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    char *to = in ? rows->place : rows->user, *from = in ? rows->user : rows->place;
    size_t to_pitch = in ? rows->place_pitch : rows->user_pitch;
    size_t from_pitch = in ? rows->user_pitch : rows->place_pitch;

    if (stream == NULL) { /* of a buffer on the host */
        for (size_t i = 0; i < rows->count; i++) {
            memcpy(to + i * to_pitch, from + i * from_pitch, rows->bytes);
        }
        return GPURING_OK;
    }
    return rows->count == 1
               ? ops->copy(stream, to, from, rows->bytes)
               : ops->copy_rows(stream, to, to_pitch, from, from_pitch, rows->bytes, rows->count);
}

/* One more row, if it fits there. */
static bool join(struct rows *rows, char *user, char *place, size_t bytes)
{
    size_t user_step = (uintptr_t) user - (uintptr_t) rows->user;
    size_t place_step = (uintptr_t) place - (uintptr_t) rows->place;

    if (bytes != rows->bytes) {
        return false;
    }
    if (rows->count == 1 && user_step >= bytes && user_step <= MAX_PITCH &&
        place_step <= MAX_PITCH) {
        rows->user_pitch = user_step;
        rows->place_pitch = place_step;
    }
    if (rows->user_pitch == 0 || user_step != rows->count * rows->user_pitch ||
        place_step != rows->count * rows->place_pitch) {
        return false;
    }
    rows->count++;
    return true;
}

static ptrdiff_t offset_of(const struct gpuring_cut_buffer *buffer, int block)
{
    return buffer->offsets != NULL ? buffer->offsets[block] : block * buffer->stride;
}

/* A chunk's piece of every block that takes part. */
static int copy_blocks(const struct gpuring_cut *cut, const struct gpuring_cut_slot *slot,
                       int which, enum gpuring_cut_part part, bool in)
{
    const struct gpuring_cut_buffer *buffer = buffer_of(cut, which);
    struct gpuring_stream *stream = on_gpu(cut, which) ? slot->stream : NULL;
    ptrdiff_t piece = (ptrdiff_t) (slot->chunk * cut->step * cut->extent) + cut->lead;
    char *place = slot->place[which] + cut->lead;
    struct rows rows = {.count = 0};
    int status = GPURING_OK;

    for (int i = 0; i < cut->blocks && status == GPURING_OK; i++) {
        size_t bytes = gpuring_cut_units(cut, i, slot->chunk) * cut->size;
        bool alone = part == GPURING_CUT_ALONE;

        if (bytes > 0 && (part == GPURING_CUT_ALL || i == cut->own)) {
            char *user = gpuring_cut_at(buffer->user, piece + (alone ? 0 : offset_of(buffer, i)));

            if (rows.count == 0 || !join(&rows, user, place, bytes)) {
                status = rows.count > 0 ? copy_rows(stream, &rows, in) : GPURING_OK;
                rows = (struct rows){.user = user, .place = place, .bytes = bytes, .count = 1};
            }
        }
        place += alone ? 0 : bytes;
    }
    return rows.count > 0 && status == GPURING_OK ? copy_rows(stream, &rows, in) : status;
}

/* The same of a vector whose units have gaps, which are not copied. */
static int copy_runs(const struct gpuring_cut *cut, const struct gpuring_cut_slot *slot, int which,
                     bool in)
{
    ptrdiff_t piece = (ptrdiff_t) (slot->chunk * cut->step * cut->extent);
    char *user = gpuring_cut_at(buffer_of(cut, which)->user, piece), *place = slot->place[which];

    return gpuring_stage_copy_start(slot->stream, in ? place : user, in ? user : place,
                                    slot->chunk + 1 == cut->chunks ? &cut->last : &cut->full);
}

/* Begin the copies of a chunk. */
static int start(const struct gpuring_cut *cut, struct gpuring_cut_slot *slot, bool in)
{
    int status = GPURING_OK;

    if (cut->stages && slot->stream == NULL) {
        status = gpuring_stage_stream_get(&slot->stream);
    }
    for (int which = 0; which < 2 && status == GPURING_OK; which++) {
        const struct gpuring_cut_buffer *buffer = buffer_of(cut, which);
        enum gpuring_cut_part part = in ? buffer->in : buffer->out;

        if (part != GPURING_CUT_NOTHING && slot->block[which] != NULL) {
            status = cut->gaps ? copy_runs(cut, slot, which, in)
                               : copy_blocks(cut, slot, which, part, in);
        }
    }
    return status;
}

static int wait_for(const struct gpuring_cut_slot *slot)
{
    return slot->stream != NULL ? gpuring_process.device_ops->synchronize(slot->stream)
                                : GPURING_OK;
}

/* Some failures pass: once more, to the end. */
static int copy_again(const struct gpuring_cut *cut, struct gpuring_cut_slot *slot, bool in)
{
    int status = start(cut, slot, in), waited = wait_for(slot);

    return status == GPURING_OK ? waited : status;
}

/* A failure ends the copies of this rank, but not its part in the chunks' calls: others wait. */
static void keep_first(struct gpuring_cut *cut, int status)
{
    cut->failed = cut->failed == GPURING_OK ? status : cut->failed;
}

/* Wait for what runs in a slot. */
static void slot_empty(struct gpuring_cut *cut, struct gpuring_cut_slot *slot)
{
    int status = wait_for(slot);

    if (slot->returning && status != GPURING_OK) {
        keep_first(cut, copy_again(cut, slot, false));
    }
    slot->returning = false;
}

static void slot_fill(struct gpuring_cut *cut, size_t chunk)
{
    struct gpuring_cut_slot *slot = &cut->slots[chunk % GPURING_CUT_SLOTS];

    slot_empty(cut, slot);
    slot->chunk = chunk;
    slot->filling = cut->failed == GPURING_OK && start(cut, slot, true) == GPURING_OK;
}

/* What was not copied in does not look like data to the other ranks. */
static void void_input(const struct gpuring_cut *cut, const struct gpuring_cut_slot *slot)
{
    for (int which = 0; which < 2; which++) {
        if (slot->block[which] != NULL && buffer_of(cut, which)->in != GPURING_CUT_NOTHING) {
            memset(slot->block[which]->address, 0xff, slot->block[which]->bytes);
        }
    }
}

/* The copy in has ended; a second try if it failed. */
static void slot_wait(struct gpuring_cut *cut, struct gpuring_cut_slot *slot)
{
    if (cut->failed == GPURING_OK && (!slot->filling || wait_for(slot) != GPURING_OK)) {
        keep_first(cut, copy_again(cut, slot, true));
    }
    if (cut->failed != GPURING_OK) {
        void_input(cut, slot);
    }
}

static void slot_return(struct gpuring_cut *cut, struct gpuring_cut_slot *slot)
{
    slot->returning = cut->failed == GPURING_OK;
    if (slot->returning && start(cut, slot, false) != GPURING_OK) {
        keep_first(cut, copy_again(cut, slot, false));
    }
}

/* What the previous module gets as a buffer. */
static void *handed_on(const struct gpuring_cut *cut, const struct gpuring_cut_slot *slot,
                       int which)
{
    const struct gpuring_cut_buffer *buffer = buffer_of(cut, which);

    if (!touched(buffer)) {
        return gpuring_cut_at(buffer->user, 0);
    }
    return slot->block[which] != NULL
               ? slot->place[which]
               : gpuring_cut_at(buffer->user, (ptrdiff_t) (slot->chunk * cut->step * cut->extent));
}

/* One chunk: what follows it is on its way in meanwhile, what precedes it on its way out. */
static int run_chunk(struct gpuring_cut *cut, size_t chunk)
{
    struct gpuring_cut_slot *slot = &cut->slots[chunk % GPURING_CUT_SLOTS];
    int result;

    if (chunk + 1 < cut->chunks) {
        slot_fill(cut, chunk + 1);
    }
    slot_wait(cut, slot);
    result = cut->call(cut, handed_on(cut, slot, 0), handed_on(cut, slot, 1), chunk);
    if (result == MPI_SUCCESS) {
        slot_return(cut, slot);
    }
    return result;
}

/* All chunks are through: if any rank's copies failed, the call has failed on all. */
static int agree_on_end(struct gpuring_cut *cut)
{
    struct gpuring_verdict verdict;

    cut->whole.module = cut->module;
    keep_first(cut, gpuring_stage_failure(&cut->whole));
    verdict = gpuring_agreement_wait(cut->module->staging.blocking,
                                     (struct gpuring_party){.rooted = false}, cut->failed, 0);
    gpuring_stage_tell(cut->module, cut->what, &verdict, "failed on all ranks");
    cut->whole.what = cut->what;
    cut->whole.call = gpuring_stage_calls(cut->module);
    cut->whole.agrees = cut->module->together;
    return gpuring_compat_error(gpuring_stage_look(&cut->whole, verdict.failure));
}

static int run_all(struct gpuring_cut *cut)
{
    int result = MPI_SUCCESS;

    gpuring_stage_account(cut->module, cut->what);
    gpuring_pvar_add(GPURING_PVAR_staged_chunks, cut->chunks);
    slot_fill(cut, 0);
    for (size_t chunk = 0; chunk < cut->chunks && result == MPI_SUCCESS; chunk++) {
        result = run_chunk(cut, chunk);
    }
    for (int s = 0; s < GPURING_CUT_SLOTS; s++) {
        slot_empty(cut, &cut->slots[s]);
    }
    return result == MPI_SUCCESS ? agree_on_end(cut) : result;
}

/* With MPI_BOTTOM each address in a type with gaps may be in other memory. */
static bool addresses_in_gaps(const struct gpuring_cut *cut)
{
    return cut->gaps && ((touched(&cut->send) && cut->send.user == MPI_BOTTOM) ||
                         (touched(&cut->receive) && cut->receive.user == MPI_BOTTOM));
}

int gpuring_cut_run(struct gpuring_cut *cut, bool *done)
{
    struct gpuring_verdict verdict;
    int result = MPI_SUCCESS;

    cut->stages = gpuring_memory_possible() && gpuring_stage_applies(&cut->whole);
    cut->possible = cut->possible && !addresses_in_gaps(cut);
    if (cut->possible && cut->failed == GPURING_OK) {
        cut->failed = reserve(cut);
    }
    verdict = gpuring_agreement_wait(
        cut->module->staging.blocking, (struct gpuring_party){.rooted = false}, cut->failed,
        (cut->stages ? GPURING_FACT_STAGES : 0) | (cut->possible ? 0 : GPURING_FACT_IN_ONE));
    *done = verdict.lost || verdict.facts == GPURING_FACT_STAGES;
    if (*done) {
        gpuring_stage_count(cut->module, cut->what);
    }
    if (*done && verdict.failure == GPURING_OK) {
        result = run_all(cut);
    } else if (*done) {
        gpuring_stage_tell(cut->module, cut->what, &verdict, "was not begun on any rank");
        result = gpuring_compat_error(verdict.failure);
    }
    release(cut);
    return result;
}
