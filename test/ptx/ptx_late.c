/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Late loads. PTX lets a relaxed or volatile load be performed after later loads and stores of its
 * thread. The modelled memory therefore performs about half of them as late as PTX permits: before
 * an instruction that uses or overwrites the result, before an access of the thread to the same
 * word, and before a fence, a barrier or the end of the kernel. Everything that depends on the
 * value (a value, an address or a branch) is after an instruction that uses the result.
 */
#include "test/ptx/ptx_weak_state.h"

static bool perform(struct ptx_warp *warp, uint32_t i)
{
    struct ptx_late late = warp->late[i];

    warp->late[i] = warp->late[--warp->nlate];
    return ptx_load_modelled(warp, late.inst, late.pc, late.active, late.address);
}

bool ptx_late_add(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active,
                  const uint64_t *address)
{
    struct ptx_weak *weak = warp->block->machine->launch->weak;
    struct ptx_late *late = &warp->late[warp->nlate];

    if (inst->order == PTX_WEAK || inst->order == PTX_ORDERED || warp->nlate == PTX_LATE ||
        ptx_weak_random(weak) % 2 == 0) {
        return false;
    }
    warp->nlate++;
    late->inst = inst;
    late->pc = pc;
    late->active = active;
    late->turns = (uint32_t) (ptx_weak_random(weak) % 4 == 0 ? ptx_weak_random(weak) % 32 : 0);
    for (int i = 0; i < PTX_LANES; i++) {
        late->address[i] = address[i];
    }
    for (uint32_t k = 0; k < inst->count; k++) {
        warp->written[inst->to[k]] |= active;
    }
    return true;
}

static bool uses(const struct ptx_inst *inst, uint32_t reg)
{
    bool found = false;

    for (int s = 0; s < PTX_SOURCES; s++) {
        found = found || inst->sources[s] == reg;
    }
    for (int k = 0; k < 4; k++) {
        found = found || inst->to[k] == reg;
    }
    return found;
}

/* Return true if an instruction follows all earlier loads of its thread. */
static bool orders(const struct ptx_inst *inst)
{
    return inst->op == PTX_FENCE || (inst->op == PTX_ST && inst->order == PTX_ORDERED) ||
           (inst->op >= PTX_CALL && inst->op <= PTX_BAR_ARRIVE) ||
           (inst->op == PTX_VOTE_ALL && inst->to[0] == PTX_NO_SOURCE);
}

/* Return true if the load must be performed before an instruction. */
static bool precedes(const struct ptx_late *late, const struct ptx_inst *inst)
{
    bool now = orders(inst);

    if (inst->op == PTX_BRA) { /* a branch reads only a predicate */
        return false;
    }
    for (uint32_t k = 0; k < late->inst->count; k++) {
        now = now || uses(inst, late->inst->to[k]);
    }
    return now;
}

bool ptx_late_stalls(struct ptx_warp *warp, const struct ptx_inst *inst)
{
    for (uint32_t i = 0; i < warp->nlate; i++) {
        if (warp->late[i].turns > 0 && precedes(&warp->late[i], inst)) {
            warp->late[i].turns--;
            return true;
        }
    }
    return false;
}

bool ptx_late_before(struct ptx_warp *warp, const struct ptx_inst *inst)
{
    for (uint32_t i = warp->nlate; i-- > 0;) {
        if (precedes(&warp->late[i], inst) && !perform(warp, i)) {
            return false;
        }
    }
    return true;
}

bool ptx_late_meets(struct ptx_warp *warp, uint32_t active, const uint64_t *address, uint32_t bytes)
{
    for (uint32_t i = warp->nlate; i-- > 0;) {
        const struct ptx_late *late = &warp->late[i];
        uint32_t wide = late->inst->count * ptx_types[late->inst->from].bytes;
        bool now = false;

        for (uint32_t left = active & late->active; left != 0; left &= left - 1) {
            uint32_t lane = (uint32_t) __builtin_ctz(left);

            now = now || (address[lane] < late->address[lane] + wide &&
                          late->address[lane] < address[lane] + bytes);
        }
        if (now && !perform(warp, i)) {
            return false;
        }
    }
    return true;
}
