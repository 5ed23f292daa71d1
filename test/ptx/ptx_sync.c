/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Shuffles and votes, at which lanes wait until all members have arrived; and arrivals at barriers,
 * which all lanes of a warp make together. */
#include "test/ptx/ptx_machine.h"

/* Get the members of a shuffle or vote. All lanes at the instruction must specify the same
 * members. */
static bool members_of(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                       uint32_t active, uint32_t *members)
{
    const uint64_t *mask = ptx_source(warp, inst->sources[3]);

    if (inst->sources[3] < PTX_CONSTANT && (active & ~warp->written[inst->sources[3]]) != 0) {
        return ptx_unwritten(warp, pc, active & ~warp->written[inst->sources[3]]);
    }
    *members = (uint32_t) mask[(uint32_t) __builtin_ctz(active)];
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        if ((active >> i & 1) != 0 &&
            ((uint32_t) mask[i] != *members || (*members >> i & 1) == 0)) {
            return ptx_fail(warp, PTX_SYNC, pc, i,
                            "names other lanes (0x%08x) than its group, or not its own",
                            (unsigned) mask[i]);
        }
    }
    return true;
}

/* Run a shuffle: d is `a` of the lane that b selects within the segment that c defines. p is true
 * if there is such a lane. */
static bool shuffle(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                    uint32_t members)
{
    const uint64_t *a = ptx_source(warp, inst->sources[0]), *b = ptx_source(warp, inst->sources[1]);
    const uint64_t *c = ptx_source(warp, inst->sources[2]);
    uint64_t result[PTX_LANES] = {0};
    uint32_t valid = 0;

    for (uint32_t left = members; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t) __builtin_ctz(left), segment = c[lane] >> 8 & 31,
                 clamp = c[lane] & 31;
        uint32_t last = (lane & segment) | (clamp & ~segment);
        uint32_t from = (lane & segment) | ((uint32_t) b[lane] & 31 & ~segment);

        if (from <= last) {
            valid |= UINT32_C(1) << lane;
        } else {
            from = lane;
        }
        if ((members >> from & 1) == 0) {
            return ptx_fail(warp, PTX_SYNC, pc, lane,
                            "takes from lane %u, which does not take part", from);
        }
        result[lane] = a[from];
    }
    ptx_commit(warp, inst->to[0], members, result);
    if (inst->to[1] != PTX_NO_SOURCE) {
        ptx_commit_pred(warp, inst->to[1], members, valid);
    }
    return true;
}

bool ptx_sync(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active)
{
    uint32_t here, members = UINT32_MAX;

    warp->runnable &= ~active;
    warp->at_sync |= active;
    here = ptx_lanes_at(warp, warp->at_sync, pc);
    if (inst->op != PTX_BAR_ARRIVE && !members_of(warp, inst, pc, here, &members)) {
        return false;
    }
    if ((members & ~here) != 0) {
        return true;
    }
    if (inst->op == PTX_SHFL_IDX) {
        if (!shuffle(warp, inst, pc, members)) {
            return false;
        }
    } else if (inst->op == PTX_BAR_ARRIVE) {
        if (!ptx_barrier_arrive(warp, inst, pc)) {
            return false;
        }
    } else if (inst->to[0] != PTX_NO_SOURCE) {
        uint32_t bits = warp->preds[inst->sources[0]];

        ptx_commit_pred(warp, inst->to[0], members, (bits & members) == members ? UINT32_MAX : 0);
    } else if (members ==
               UINT32_MAX) { /* bar.warp.sync orders earlier accesses of the warp's threads */
        ptx_race_barrier(warp->block, UINT32_C(1) << warp->first / PTX_LANES, 0);
    }
    warp->at_sync &= ~members;
    warp->runnable |= members;
    ptx_set_pc(warp, members, pc + 1);
    return true;
}
