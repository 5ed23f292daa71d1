/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The threads of a warp. Each has its own program counter. Threads at the same instruction form a
 * group and run it together. Usually the group whose instruction has the lowest rank runs, so that
 * threads join again after a branch, as ptxas lets them. Sometimes another group is chosen at
 * random, because no thread may rely on the order.
 */
#include "test/ptx/ptx_machine.h"

#include <stdatomic.h>
#include <string.h>

#define SOMETIMES 8 /* one choice out of 8 takes a random group */
#define CYCLES    2 /* clock cycles per nanosecond */

static uint32_t bit(uint32_t lane)
{
    return UINT32_C(1) << lane;
}

static uint32_t lowest(uint32_t lanes)
{
    return (uint32_t) __builtin_ctz(lanes);
}

uint32_t ptx_lanes_at(const struct ptx_warp *warp, uint32_t lanes, uint32_t pc)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < PTX_LANES; i++) {
        found |= (uint32_t) (warp->pc[i] == pc) << i;
    }
    return found & lanes;
}

void ptx_set_pc(struct ptx_warp *warp, uint32_t lanes, uint32_t pc)
{
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        warp->pc[i] = (lanes >> i & 1) != 0 ? pc : warp->pc[i];
    }
}

void ptx_commit(struct ptx_warp *warp, uint32_t to, uint32_t active, const uint64_t *result)
{
    uint64_t *reg = warp->regs[to];

    if (active == UINT32_MAX) {
        memcpy(reg, result, PTX_LANES * sizeof *reg);
    } else {
        for (int i = 0; i < PTX_LANES; i++) {
            reg[i] = (active >> i & 1) != 0 ? result[i] : reg[i];
        }
    }
    warp->written[to] |= active;
}

void ptx_commit_pred(struct ptx_warp *warp, uint32_t to, uint32_t active, uint32_t bits)
{
    warp->preds[to] = (warp->preds[to] & ~active) | (bits & active);
    warp->preds_written[to] |= active;
}

bool ptx_unwritten(struct ptx_warp *warp, uint32_t pc, uint32_t lanes)
{
    return ptx_fail(warp, PTX_UNWRITTEN, pc, lowest(lanes),
                    "reads a register that it has not written");
}

/* Check that all sources were written. Half of a register may be undefined, because structures have
 * gaps. */
static bool check_sources(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                          uint32_t active)
{
    uint32_t missing = inst->op == PTX_PACK ? active : 0;

    for (int s = 0; s < PTX_SOURCES; s++) {
        if (inst->sources[s] != PTX_NO_SOURCE) {
            uint32_t written = (inst->sources[s] & PTX_CONSTANT) != 0
                                   ? UINT32_MAX
                                   : warp->written[inst->sources[s]];

            missing = inst->op == PTX_PACK ? missing & ~written : missing | (active & ~written);
        }
    }
    return missing == 0 || ptx_unwritten(warp, pc, missing);
}

/* Run and, or, xor, not, mov or selp of predicates. */
static bool run_predicates(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                           uint32_t active)
{
    uint32_t sources[2] = {0, 0}, result;

    for (int s = 0; s < 2 && inst->sources[s] != PTX_NO_SOURCE; s++) {
        uint32_t missing = active & ~warp->preds_written[inst->sources[s]];

        if (missing != 0) {
            return ptx_unwritten(warp, pc, missing);
        }
        sources[s] = warp->preds[inst->sources[s]];
    }
    result = inst->op == PTX_AND   ? sources[0] & sources[1]
             : inst->op == PTX_OR  ? sources[0] | sources[1]
             : inst->op == PTX_XOR ? sources[0] ^ sources[1]
             : inst->op == PTX_NOT ? ~sources[0]
                                   : sources[0];
    ptx_commit_pred(warp, inst->to[0], active, result);
    return true;
}

static void run_moves(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active)
{
    const uint64_t *a = ptx_source(warp, inst->sources[0]);
    unsigned half = 4u * ptx_types[inst->type].bytes;
    uint64_t result[PTX_LANES], upper[PTX_LANES];

    if (inst->op == PTX_MOV) {
        ptx_commit(warp, inst->to[0], active, a);
    } else if (inst->op == PTX_PACK) {
        const uint64_t *b = ptx_source(warp, inst->sources[1]);

        for (int i = 0; i < PTX_LANES; i++) {
            result[i] = a[i] | b[i] << half;
        }
        ptx_commit(warp, inst->to[0], active, result);
    } else {
        for (int i = 0; i < PTX_LANES; i++) {
            result[i] = a[i] & (UINT64_MAX >> (64 - half));
            upper[i] = a[i] >> half;
        }
        ptx_commit(warp, inst->to[0], active, result);
        ptx_commit(warp, inst->to[1], active, upper);
    }
}

static bool run_select(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                       uint32_t active)
{
    const uint64_t *a = ptx_source(warp, inst->sources[0]), *b = ptx_source(warp, inst->sources[1]);
    uint32_t chosen = warp->preds[inst->sources[2]];
    uint32_t missing = active & ~warp->preds_written[inst->sources[2]];
    uint64_t result[PTX_LANES];

    for (int s = 0; s < 2; s++) {
        if (inst->sources[s] < PTX_CONSTANT) {
            missing |= active & ~warp->written[inst->sources[s]];
        }
    }
    if (missing != 0) {
        return ptx_unwritten(warp, pc, missing);
    }
    for (int i = 0; i < PTX_LANES; i++) {
        result[i] = (chosen >> i & 1) != 0 ? a[i] : b[i];
    }
    ptx_commit(warp, inst->to[0], active, result);
    return true;
}

/* Convert from the source type to the result type, and then to the width of the register. Signed
 * types are sign-extended in both steps. */
static void run_convert(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active)
{
    const uint64_t *a = ptx_source(warp, inst->sources[0]);
    const struct ptx_type_info *from = &ptx_types[inst->from], *to = &ptx_types[inst->type];
    unsigned cut_from = 64u - 8u * from->bytes, cut_to = 64u - 8u * to->bytes;
    unsigned cut = 64u - 8u * inst->width;
    uint64_t result[PTX_LANES];

    for (int i = 0; i < PTX_LANES; i++) {
        uint64_t v = a[i] << cut_from;

        v = from->kind == PTX_SIGNED ? (uint64_t) ((int64_t) v >> cut_from) : v >> cut_from;
        v <<= cut_to;
        v = to->kind == PTX_SIGNED ? (uint64_t) ((int64_t) v >> cut_to) : v >> cut_to;
        result[i] = v << cut >> cut;
    }
    ptx_commit(warp, inst->to[0], active, result);
}

static void run_special(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t active)
{
    struct ptx_machine *machine = warp->block->machine;
    uint64_t result[PTX_LANES];

    machine->looked_at_clock = machine->looked_at_clock || inst->op >= PTX_TIMER;
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        result[i] = inst->op == PTX_TID     ? warp->first + i
                    : inst->op == PTX_NTID  ? warp->block->nwarps * PTX_LANES
                    : inst->op == PTX_CTAID ? warp->block->number
                    : inst->op == PTX_CLOCK ? CYCLES * machine->clock
                                            : machine->clock / machine->grain * machine->grain;
    }
    ptx_commit(warp, inst->to[0], active, result);
}

static bool run_arithmetic(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                           uint32_t active)
{
    const uint64_t *sources[PTX_SOURCES] = {NULL};
    uint64_t result[PTX_LANES];

    for (int s = 0; s < PTX_SOURCES && inst->sources[s] != PTX_NO_SOURCE; s++) {
        sources[s] = ptx_source(warp, inst->sources[s]);
    }
    if (inst->op == PTX_DIV || inst->op == PTX_REM) {
        for (uint32_t i = 0; i < PTX_LANES; i++) {
            if ((active >> i & 1) != 0 && sources[1][i] == 0) {
                return ptx_fail(warp, PTX_ARITHMETIC, pc, i, "divides by zero");
            }
        }
    }
    (void) ptx_alu(inst->op, inst->type, result, sources);
    if (inst->op >= PTX_SETP_EQ) {
        ptx_commit_pred(warp, inst->to[0], active, (uint32_t) result[0]);
    } else {
        ptx_commit(warp, inst->to[0], active, result);
    }
    return true;
}

static uint8_t *parameter(const struct ptx_warp *warp, uint32_t lane, struct ptx_variable variable)
{
    return warp->parameters + lane * warp->block->machine->program->parameters + variable.at;
}

/* Call a function. Its registers are unwritten at its start. */
static void run_call(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                     uint32_t active)
{
    const struct ptx_program *program = warp->block->machine->program;
    const struct ptx_call *call = &program->calls[inst->target];
    const struct ptx_function *function = &program->functions[call->function];

    for (uint32_t r = 0; r < function->nregisters; r++) {
        warp->written[function->registers + r] &= ~active;
    }
    for (uint32_t p = 2; p < function->npredicates + 2; p++) {
        warp->preds_written[function->predicates + p] &= ~active;
    }
    for (uint32_t left = active; left != 0; left &= left - 1) {
        uint32_t lane = lowest(left);

        for (uint32_t i = 0; i < call->nparameters; i++) {
            memcpy(parameter(warp, lane, function->parameters[i]),
                   parameter(warp, lane, call->parameters[i]), call->parameters[i].bytes);
        }
        warp->returns[warp->depth[lane]++][lane] = pc;
    }
    ptx_set_pc(warp, active, function->first);
}

static bool run_return(struct ptx_warp *warp, uint32_t pc, uint32_t active)
{
    const struct ptx_program *program = warp->block->machine->program;
    uint32_t leaving = 0;

    for (uint32_t left = active; left != 0; left &= left - 1) {
        uint32_t lane = lowest(left);
        const struct ptx_call *call;

        if (warp->depth[lane] == 0) {
            leaving |= bit(lane);
            continue;
        }
        warp->pc[lane] = warp->returns[--warp->depth[lane]][lane];
        call = &program->calls[program->code[warp->pc[lane]].target];
        memcpy(parameter(warp, lane, call->result),
               parameter(warp, lane, program->functions[call->function].result),
               call->result.bytes);
        warp->pc[lane]++;
    }
    return leaving == 0 || ptx_exit(warp, pc, leaving);
}

static bool pred_source(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                        uint32_t active, uint32_t *bits)
{
    uint32_t missing = active & ~warp->preds_written[inst->sources[0]];

    *bits = warp->preds[inst->sources[0]];
    return missing == 0 || ptx_unwritten(warp, pc, missing);
}

/* Run an instruction that may change the group. The program counters are set. */
static bool run_control(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                        uint32_t group, uint32_t active)
{
    uint32_t bits = UINT32_MAX;

    ptx_set_pc(warp, group, pc);
    switch (inst->op) {
    case PTX_BRA:
        ptx_set_pc(warp, group & ~active, pc + 1);
        ptx_set_pc(warp, active, inst->target);
        return true;
    case PTX_CALL:
        run_call(warp, inst, pc, active);
        return true;
    case PTX_RET:
        ptx_set_pc(warp, group & ~active, pc + 1);
        return run_return(warp, pc, active);
    case PTX_SHFL_IDX:
        return check_sources(warp, inst, pc, active) && ptx_sync(warp, inst, pc, active);
    case PTX_VOTE_ALL:
        return (inst->sources[0] == PTX_NO_SOURCE || pred_source(warp, inst, pc, active, &bits)) &&
               ptx_sync(warp, inst, pc, active);
    case PTX_BAR_RED_AND:
        if (!pred_source(warp, inst, pc, active, &bits)) {
            return false;
        }
        return ptx_barrier_wait(warp, inst, pc, active, bits);
    case PTX_BAR_ARRIVE:
        return check_sources(warp, inst, pc, active) && ptx_sync(warp, inst, pc, active);
    default:
        return check_sources(warp, inst, pc, active) &&
               ptx_barrier_wait(warp, inst, pc, active, bits);
    }
}

static bool run_plain(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                      uint32_t active)
{
    if (inst->type == PTX_pred && inst->op <= PTX_MOV) {
        return run_predicates(warp, inst, pc, active);
    }
    if (inst->op == PTX_SELP) {
        return run_select(warp, inst, pc, active);
    }
    if (!check_sources(warp, inst, pc, active)) {
        return false;
    }
    ptx_count_use(warp, inst);
    switch (inst->op) {
    case PTX_MOV:
    case PTX_PACK:
    case PTX_UNPACK:
        run_moves(warp, inst, active);
        return true;
    case PTX_CVT:
        run_convert(warp, inst, active);
        return true;
    case PTX_TID:
    case PTX_NTID:
    case PTX_CTAID:
    case PTX_TIMER:
    case PTX_CLOCK:
        run_special(warp, inst, active);
        return true;
    case PTX_LD:
    case PTX_ST:
        return ptx_access(warp, inst, pc, active);
    case PTX_FENCE:
        atomic_thread_fence(memory_order_seq_cst);
        if (warp->block->machine->launch->weak != NULL) {
            ptx_weak_fence(warp, inst->scope, active);
        }
        ptx_count_fence(warp);
        return true;
    default:
        return run_arithmetic(warp, inst, pc, active);
    }
}

/* Get the lanes of the group for which the guard is true. */
static bool guarded(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t group,
                    uint32_t *active)
{
    uint32_t missing;

    *active = group;
    if (inst->guard == PTX_PRED_TRUE) {
        return true;
    }
    missing = group & ~warp->preds_written[inst->guard];
    if (missing != 0) {
        return ptx_unwritten(warp, pc, missing);
    }
    *active &= inst->guard_not != 0 ? ~warp->preds[inst->guard] : warp->preds[inst->guard];
    return true;
}

/* Choose the group that runs next, and find the rank at which it meets other runnable lanes. */
static uint32_t choose(struct ptx_warp *warp, uint32_t *pc, uint32_t *meeting)
{
    const struct ptx_inst *code = warp->block->machine->program->code;
    uint32_t first = lowest(warp->runnable);

    for (uint32_t i = first; i < PTX_LANES; i++) {
        if ((warp->runnable >> i & 1) != 0 && code[warp->pc[i]].rank < code[warp->pc[first]].rank) {
            first = i;
        }
    }
    *pc = warp->pc[first];
    *meeting = UINT32_MAX;
    if (ptx_lanes_at(warp, warp->runnable, *pc) != warp->runnable) {
        if (warp->block->machine->launch->counts == NULL &&
            ptx_random(warp->block->machine) % SOMETIMES == 0) {
            uint32_t lane = (uint32_t) ptx_random(warp->block->machine) % PTX_LANES;

            while ((warp->runnable >> lane & 1) == 0) {
                lane = (lane + 1) % PTX_LANES;
            }
            *pc = warp->pc[lane];
        } else {
            for (uint32_t i = 0; i < PTX_LANES; i++) {
                if ((warp->runnable >> i & 1) != 0 && warp->pc[i] != *pc) {
                    *meeting =
                        code[warp->pc[i]].rank < *meeting ? code[warp->pc[i]].rank : *meeting;
                }
            }
        }
    }
    return ptx_lanes_at(warp, warp->runnable, *pc);
}

/* Run one group until it changes, meets others, or has run `most` instructions. */
static bool run_group(struct ptx_warp *warp, uint32_t most, uint32_t *done)
{
    struct ptx_machine *machine = warp->block->machine;
    const struct ptx_inst *code = machine->program->code;
    uint32_t pc, meeting, group = choose(warp, &pc, &meeting), active;

    while (*done < most && code[pc].rank < meeting) {
        const struct ptx_inst *inst = &code[pc];

        if (warp->nlate > 0 && ptx_late_stalls(warp, inst)) {
            *done = most;
            break;
        }
        if ((warp->nlate > 0 && !ptx_late_before(warp, inst)) ||
            !guarded(warp, inst, pc, group, &active)) {
            return false;
        }
        ++*done;
        warp->path++;
        machine->clock += machine->pace;
        if (inst->op == PTX_BRA && (active == group || active == 0)) {
            pc = active != 0 ? inst->target : pc + 1;
        } else if (inst->op >= PTX_BRA && inst->op <= PTX_VOTE_ALL) {
            return active != 0 ? run_control(warp, inst, pc, group, active)
                               : (ptx_set_pc(warp, group, pc + 1), true);
        } else {
            if (active != 0 && !run_plain(warp, inst, pc, active)) {
                return false;
            }
            pc++;
        }
    }
    ptx_set_pc(warp, group, pc);
    return true;
}

bool ptx_warp_run(struct ptx_warp *warp, uint32_t most, uint32_t *done)
{
    uint32_t waiting;

    *done = 0;
    while (warp->runnable != 0 && *done < most) {
        if (!run_group(warp, most, done)) {
            return false;
        }
    }
    waiting = warp->at_sync;
    if (warp->runnable == 0 && waiting != 0) {
        return ptx_fail(warp, PTX_SYNC, warp->pc[lowest(waiting)], lowest(waiting),
                        "waits for lanes that never come: they are at other instructions, at a "
                        "barrier or gone");
    }
    return true;
}
