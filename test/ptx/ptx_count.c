/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Count operations that are slow on a GPU. This needs neither a GPU nor timing. Loads are in flight
 * from their instruction until an instruction uses the result of any of them, because a warp stops
 * there. This is the order of instructions in PTX. ptxas moves loads to an earlier place, but
 * rarely to a later one.
 *
 * The path of a warp is the number of instructions, one after another, on which its progress
 * depends: its own ones, or those of the warp that was the last at a barrier. The warp with the
 * shortest path runs first, so a warp that polls for the store of another one has a path that is
 * longer than that of the store by at most one poll.
 */
#include "test/ptx/ptx_machine.h"

#include <string.h>

static bool counts(const struct ptx_warp *warp)
{
    return warp->block->machine->launch->counts != NULL;
}

void ptx_count_start(struct ptx_warp *warp)
{
    warp->fences = warp->under_way = warp->most_under_way = warp->rounds = 0;
    warp->waits = warp->instructions = warp->path = 0;
    warp->stored = false;
    memset(warp->pending, 0, warp->block->machine->program->registers * sizeof *warp->pending);
}

void ptx_count_fence(struct ptx_warp *warp)
{
    warp->fences++;
}

void ptx_count_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active)
{
    uint32_t bytes = inst->count * ptx_types[inst->from].bytes;

    if (!counts(warp)) {
        return;
    }
    if (inst->op == PTX_ST) {
        warp->fences += inst->order == PTX_ORDERED; /* a release consists of a fence and a store */
        warp->stored = true;
        return;
    }
    warp->under_way += bytes * (uint32_t) __builtin_popcount(active);
    if (warp->under_way > warp->most_under_way) {
        warp->most_under_way = warp->under_way;
    }
    for (uint32_t k = 0; k < inst->count; k++) {
        warp->pending[inst->to[k]] = UINT32_MAX;
    }
}

void ptx_count_use(struct ptx_warp *warp, const struct ptx_inst *inst)
{
    bool waits = false;

    if (warp->under_way == 0) {
        return;
    }
    for (int s = 0; s < PTX_SOURCES; s++) {
        waits =
            waits || (inst->sources[s] != PTX_NO_SOURCE && (inst->sources[s] & PTX_CONSTANT) == 0 &&
                      warp->pending[inst->sources[s]] != 0);
    }
    if (waits && (inst->op == PTX_MOV || inst->op == PTX_PACK || inst->op == PTX_UNPACK)) {
        /* these only rename registers and their halves; ptxas generates no instruction for them */
        for (uint32_t k = 0; k < (inst->op == PTX_UNPACK ? 2u : 1u); k++) {
            warp->pending[inst->to[k]] = UINT32_MAX;
        }
    } else if (waits) {
        warp->rounds += !warp->stored;
        warp->waits++;
        warp->under_way = 0;
        memset(warp->pending, 0, warp->block->machine->program->registers * sizeof *warp->pending);
    }
}

void ptx_count_arrive(const struct ptx_warp *warp, struct ptx_barrier *barrier)
{
    barrier->path = warp->path > barrier->path ? warp->path : barrier->path;
}

void ptx_count_continue(struct ptx_warp *warp, const struct ptx_barrier *barrier)
{
    warp->path = barrier->path > warp->path ? barrier->path : warp->path;
}

void ptx_count_end(const struct ptx_block *block)
{
    struct ptx_counts *counts = block->machine->launch->counts;
    uint64_t fences = 0, in_flight = 0;

    if (counts == NULL) {
        return;
    }
    for (uint32_t w = 0; w < block->nwarps; w++) {
        const struct ptx_warp *warp = &block->warps[w];

        fences += warp->fences;
        in_flight += warp->most_under_way;
        counts->rounds = warp->rounds > counts->rounds ? warp->rounds : counts->rounds;
        counts->longest =
            warp->instructions > counts->longest ? warp->instructions : counts->longest;
        counts->path = warp->path > counts->path ? warp->path : counts->path;
        counts->waits = warp->waits > counts->waits ? warp->waits : counts->waits;
    }
    counts->fences = fences > counts->fences ? fences : counts->fences;
    counts->in_flight = in_flight > counts->in_flight ? in_flight : counts->in_flight;
}
