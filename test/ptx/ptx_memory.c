/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Loads and stores of a warp. Each access is checked first: natural alignment of the whole access,
 * memory that the GPU can access or a shared variable, and, for weak accesses, races within the
 * block.
 *
 * LL128 relies on volatile stores of 16 bytes by eight threads to be one store of 128 bytes. Other
 * host threads must not see its end before its beginning. Therefore such stores are made in
 * ascending order and such loads in descending order, and the host keeps this order.
 */
#include "test/ptx/ptx_machine.h"

#include <inttypes.h>
#include <stdio.h>

struct access {
    struct ptx_warp *warp;
    const struct ptx_inst *inst;
    uint32_t pc, active;
    uint8_t space;
    uint32_t size, bytes; /* of an element, and of all elements */
    uint64_t address[PTX_LANES];
};

static const char *what(const struct access *x)
{
    return x->inst->op == PTX_LD ? "reads" : "writes";
}

static bool check_alignment(const struct access *x)
{
    uint64_t wrong = 0;

    for (int i = 0; i < PTX_LANES; i++) {
        wrong |= (x->active >> i & 1) != 0 ? x->address[i] : 0;
    }
    if ((wrong & (x->bytes - 1)) == 0) {
        return true;
    }
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        if ((x->active >> i & 1) != 0 && (x->address[i] & (x->bytes - 1)) != 0) {
            return ptx_fail(x->warp, PTX_MISALIGNED, x->pc, i,
                            "%s %u bytes at 0x%" PRIx64 ", which is not aligned", what(x), x->bytes,
                            x->address[i]);
        }
    }
    return true;
}

static bool within(const struct ptx_range *range, uint64_t first, uint64_t last)
{
    return first >= range->begin && last < range->end;
}

/* Return true if all bytes from the first to the last one are in one range of memory. */
static bool reached(struct ptx_machine *machine, uint64_t first, uint64_t last)
{
    struct ptx_range range;

    for (uint32_t i = 0; i < machine->nranges; i++) {
        if (within(&machine->ranges[i], first, last)) {
            return true;
        }
    }
    if (!machine->launch->reach(machine->launch->context, first, &range.begin, &range.end)) {
        return false;
    }
    if (machine->nranges < PTX_RANGES) {
        machine->ranges[machine->nranges++] = range;
    } else {
        machine->ranges[ptx_random(machine) % PTX_RANGES] = range;
    }
    return within(&range, first, last);
}

static bool check_reach(const struct access *x)
{
    struct ptx_machine *machine = x->warp->block->machine;
    uint64_t first = UINT64_MAX, last = 0;

    for (int i = 0; i < PTX_LANES; i++) {
        if ((x->active >> i & 1) != 0) {
            first = x->address[i] < first ? x->address[i] : first;
            last = x->address[i] > last ? x->address[i] : last;
        }
    }
    if (reached(machine, first, last + x->bytes - 1)) {
        return true;
    }
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        if ((x->active >> i & 1) != 0 &&
            !reached(machine, x->address[i], x->address[i] + x->bytes - 1)) {
            return ptx_fail(x->warp, PTX_ADDRESS, x->pc, i,
                            "%s %u bytes at 0x%" PRIx64 ", which the GPU does not reach", what(x),
                            x->bytes, x->address[i]);
        }
    }
    return true;
}

static bool check_shared(const struct access *x)
{
    const struct ptx_function *entry = x->warp->block->machine->entry;

    for (uint32_t i = 0; i < PTX_LANES; i++) {
        bool found = (x->active >> i & 1) == 0;

        for (uint32_t v = 0; !found && v < entry->nshared; v++) {
            found = x->address[i] >= entry->variables[v].at &&
                    x->address[i] + x->bytes <= entry->variables[v].at + entry->variables[v].bytes;
        }
        if (!found) {
            return ptx_fail(x->warp, PTX_ADDRESS, x->pc, i,
                            "%s %u bytes at 0x%" PRIx64 " of shared memory: no variable is there",
                            what(x), x->bytes, x->address[i]);
        }
    }
    return true;
}

static bool tell_race(const struct access *x, uint32_t lane, uint32_t other)
{
    char who[32] = "other threads";

    if (other != PTX_MANY) {
        snprintf(who, sizeof who, "thread %u", other);
    }
    return ptx_fail(x->warp, PTX_RACE, x->pc, lane,
                    "%s %u bytes at 0x%" PRIx64 "%s, which %s has accessed since the last barrier",
                    what(x), x->bytes, x->address[lane],
                    x->space == PTX_SHARED ? " of shared memory" : "", who);
}

/* Check one lane, or all lanes if they access the same address. */
static bool check_race_of(const struct access *x, uint32_t lane, uint32_t thread)
{
    struct ptx_block *block = x->warp->block;
    uint64_t at = x->address[lane];
    uint32_t other = 0;
    bool unwritten = false, good;

    if (x->space == PTX_SHARED) {
        good = x->inst->op == PTX_LD
                   ? ptx_race_read_shared(block, x->warp->first / PTX_LANES, (uint32_t) at,
                                          x->bytes, thread, &other, &unwritten)
                   : ptx_race_write_shared(block, x->warp->first / PTX_LANES, (uint32_t) at,
                                           x->bytes, thread, &other);
    } else {
        good =
            x->inst->op == PTX_LD
                ? ptx_race_read(block, x->warp->first / PTX_LANES, at, x->bytes, thread, &other)
                : ptx_race_write(block, x->warp->first / PTX_LANES, at, x->bytes, thread, &other);
    }
    if (!good) {
        return tell_race(x, lane, other);
    }
    return !unwritten ||
           ptx_fail(x->warp, PTX_UNWRITTEN, x->pc, lane,
                    "reads %u bytes at 0x%" PRIx64 " of shared memory, which no thread has written",
                    x->bytes, at);
}

static bool check_race(const struct access *x, bool same)
{
    if (same && x->inst->op == PTX_LD && (x->active & (x->active - 1)) != 0) {
        return check_race_of(x, (uint32_t) __builtin_ctz(x->active), PTX_MANY);
    }
    for (uint32_t left = x->active; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t) __builtin_ctz(left);

        if (!check_race_of(x, lane, x->warp->first + lane)) {
            return false;
        }
    }
    return true;
}

/* Check that addresses in registers are within the kernel's parameters. */
static bool check_parameters(const struct access *x)
{
    if ((x->inst->sources[0] & PTX_CONSTANT) != 0) {
        return true; /* checked when it was parsed */
    }
    for (uint32_t left = x->active; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t) __builtin_ctz(left);
        uint64_t at = x->address[lane] - PTX_KERNEL_PARAMETERS;

        if (at % x->bytes != 0 || at + x->bytes > x->warp->block->machine->parameters) {
            return ptx_fail(x->warp, PTX_ADDRESS, x->pc, lane,
                            "reads %u bytes at %" PRIu64 " of the kernel's parameters", x->bytes,
                            at);
        }
    }
    return true;
}

static bool at_one_address(const struct access *x)
{
    uint64_t first = x->address[__builtin_ctz(x->active)], differ = 0;

    for (int i = 0; i < PTX_LANES; i++) {
        differ |= (x->active >> i & 1) != 0 ? x->address[i] ^ first : 0;
    }
    return differ == 0;
}

static uint64_t load(const void *from, uint32_t size, bool strong)
{
    int order = strong ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;

    switch (size) {
    case 1:
        return __atomic_load_n((const uint8_t *) from, order);
    case 2:
        return __atomic_load_n((const uint16_t *) from, order);
    case 4:
        return __atomic_load_n((const uint32_t *) from, order);
    default:
        return __atomic_load_n((const uint64_t *) from, order);
    }
}

static void store(void *to, uint64_t value, uint32_t size, bool strong)
{
    int order = strong ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;

    switch (size) {
    case 1:
        __atomic_store_n((uint8_t *) to, (uint8_t) value, order);
        break;
    case 2:
        __atomic_store_n((uint16_t *) to, (uint16_t) value, order);
        break;
    case 4:
        __atomic_store_n((uint32_t *) to, (uint32_t) value, order);
        break;
    default:
        __atomic_store_n((uint64_t *) to, value, order);
        break;
    }
}

static uint8_t *place_of(const struct access *x, uint32_t lane)
{
    const struct ptx_warp *warp = x->warp;

    switch (x->space) {
    case PTX_SHARED:
        return warp->block->shared + x->address[lane];
    case PTX_PARAM:
        if (x->address[lane] >= PTX_KERNEL_PARAMETERS) {
            return (uint8_t *) (uintptr_t) warp->block->machine->launch->parameters +
                   (x->address[lane] - PTX_KERNEL_PARAMETERS);
        }
        return warp->parameters + lane * warp->block->machine->program->parameters +
               x->address[lane];
    default:
        return (uint8_t *) (uintptr_t) x->address[lane];
    }
}

/* Extend a value to a register of `width` bytes. */
static uint64_t extend(uint64_t value, unsigned type, unsigned width)
{
    unsigned bits = 8 * ptx_types[type].bytes;

    if (ptx_types[type].kind == PTX_SIGNED && (value >> (bits - 1) & 1) != 0) {
        value |= UINT64_MAX << (bits - 1);
    }
    return value & (UINT64_MAX >> (64 - 8 * width));
}

static void load_all(const struct access *x, bool same)
{
    const struct ptx_inst *inst = x->inst;
    bool strong = inst->order != PTX_WEAK;
    uint64_t values[4][PTX_LANES] = {{0}};

    for (uint32_t left = x->active; left != 0;) {
        uint32_t lane = 31u - (uint32_t) __builtin_clz(left);
        const uint8_t *from = place_of(x, lane);

        for (uint32_t k = inst->count; k-- > 0;) {
            values[k][lane] =
                extend(load(from + k * x->size, x->size, strong), inst->from, inst->width);
        }
        left &= ~(UINT32_C(1) << lane);
        if (same && !strong) {
            break;
        }
    }
    for (uint32_t k = 0; k < inst->count; k++) {
        if (same && !strong) {
            uint64_t value = values[k][31 - __builtin_clz(x->active)];

            for (int i = 0; i < PTX_LANES; i++) {
                values[k][i] = value;
            }
        }
        ptx_commit(x->warp, inst->to[k], x->active, values[k]);
    }
}

static void store_all(const struct access *x)
{
    bool strong = x->inst->order != PTX_WEAK;

    for (uint32_t left = x->active; left != 0; left &= left - 1) {
        uint32_t lane = (uint32_t) __builtin_ctz(left);
        uint8_t *to = place_of(x, lane);

        for (uint32_t k = 0; k < x->inst->count; k++) {
            store(to + k * x->size, ptx_source(x->warp, x->inst->sources[1 + k])[lane], x->size,
                  strong);
        }
    }
}

bool ptx_load_modelled(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                       uint32_t active, const uint64_t *address)
{
    uint64_t values[4][PTX_LANES] = {{0}};

    if (!ptx_weak_load(warp, inst, pc, active, address, values)) {
        return false;
    }
    for (uint32_t k = 0; k < inst->count; k++) {
        for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
            values[k][lane] = extend(values[k][lane], inst->from, inst->width);
        }
        ptx_commit(warp, inst->to[k], active, values[k]);
    }
    return true;
}

/* Access a modelled memory, which guarantees only the order of PTX. */
static bool access_modelled(const struct access *x)
{
    if (!ptx_late_meets(x->warp, x->active, x->address, x->bytes)) {
        return false;
    }
    if (x->inst->op == PTX_ST) {
        return ptx_weak_store(x->warp, x->inst, x->pc, x->active, x->address);
    }
    return ptx_late_add(x->warp, x->inst, x->pc, x->active, x->address) ||
           ptx_load_modelled(x->warp, x->inst, x->pc, x->active, x->address);
}

bool ptx_access(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active)
{
    const uint64_t *base = ptx_source(warp, inst->sources[0]);
    uint32_t size = ptx_types[inst->from].bytes;
    struct access x = {.warp = warp,
                       .inst = inst,
                       .pc = pc,
                       .active = active,
                       .space = inst->space,
                       .size = size,
                       .bytes = size * inst->count};
    bool same;

    for (int i = 0; i < PTX_LANES; i++) {
        x.address[i] = base[i] + (uint64_t) inst->offset;
    }
    if (inst->space == PTX_GENERIC && x.address[__builtin_ctz(active)] >= PTX_SHARED_WINDOW) {
        x.space = PTX_SHARED; /* on all lanes; a host address is refused there */
    }
    if (x.space == PTX_SHARED) {
        for (int i = 0; i < PTX_LANES; i++) {
            x.address[i] &= PTX_SHARED_WINDOW - 1;
        }
    }
    if (x.space == PTX_PARAM && !check_parameters(&x)) {
        return false;
    }
    same = x.space != PTX_PARAM && at_one_address(&x);
    if (x.space != PTX_PARAM &&
        (!check_alignment(&x) || !(x.space == PTX_SHARED ? check_shared(&x) : check_reach(&x)) ||
         (inst->order == PTX_WEAK && !check_race(&x, same)))) {
        return false;
    }
    if (x.space != PTX_SHARED && x.space != PTX_PARAM) {
        ptx_count_access(warp, inst, active);
    }
    if (warp->block->machine->launch->weak != NULL && x.space != PTX_SHARED &&
        x.space != PTX_PARAM) {
        return access_modelled(&x);
    }
    if (inst->op == PTX_LD) {
        if (inst->order != PTX_WEAK && warp->block->machine->launch->reads != NULL) {
            warp->block->machine->launch->reads(warp->block->machine->launch->context,
                                                x.address[__builtin_ctz(active)]);
        }
        load_all(&x, same);
    } else {
        store_all(&x);
    }
    return true;
}
