/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Accesses of kernels to the modelled memory. */
#include "test/ptx/ptx_weak_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An access of one lane to one word. */
struct touch {
    struct ptx_warp *warp;
    const struct ptx_inst *inst;
    struct ptx_who who;
    uint32_t word, shift; /* shift: bit offset of the accessed bytes in the word */
};

static struct ptx_weak *weak_of(const struct ptx_warp *warp)
{
    return warp->block->machine->launch->weak;
}

static struct ptx_clock **clock_of(const struct ptx_warp *warp)
{
    return &weak_of(warp)->agents[warp->block->agent].clocks[warp->first / PTX_LANES];
}

static struct touch touch_of(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                             uint32_t lane, uint64_t address)
{
    uint32_t bytes = ptx_types[inst->from].bytes;
    uint64_t offset = address - (uintptr_t) weak_of(warp)->options.memory;

    return (struct touch){.warp = warp,
                          .inst = inst,
                          .who = {.pc = pc,
                                  .tick = warp->block->tick,
                                  .thread = (uint16_t) (warp->first + lane),
                                  .agent = (uint8_t) warp->block->agent,
                                  .mask = (uint8_t) ((255u >> (8 - bytes)) << offset % 8),
                                  .strong = inst->order != PTX_WEAK,
                                  .scope = inst->scope},
                          .word = (uint32_t) (offset / 8),
                          .shift = (uint32_t) (offset % 8 * 8)};
}

/* Return true if the two accesses do not conflict, because both are strong or they are ordered. */
static bool agrees(const struct touch *x, const struct ptx_who *other, bool read)
{
    const struct ptx_weak *weak = weak_of(x->warp);
    uint8_t between;

    if (other->mask == 0 || (other->mask & x->who.mask) == 0 || other->agent == x->who.agent) {
        return true;
    }
    between = ptx_weak_between(weak, other->agent, x->who.agent);
    return (other->strong && x->who.strong && other->scope >= between && x->who.scope >= between) ||
           (read ? ptx_clock_follows(*clock_of(x->warp), other)
                 : ptx_clock_covers(*clock_of(x->warp), other));
}

/* Report two unordered accesses. Always return false. */
static bool tell(const struct touch *x, const struct ptx_who *other, const char *has)
{
    char text[300];

    ptx_weak_describe(weak_of(x->warp), other, text, sizeof text);
    return ptx_fail(
        x->warp, PTX_ORDER, x->who.pc, x->who.thread - x->warp->first,
        "of rank %u %s 0x%" PRIx64 ", which %s has %s; neither is ordered before the "
        "other",
        weak_of(x->warp)->agents[x->who.agent].rank, x->inst->op == PTX_LD ? "reads" : "writes",
        (uint64_t) (uintptr_t) weak_of(x->warp)->options.memory + 8u * x->word, text, has);
}

/* Record the access. Return false if it must be ordered after another access and is not. */
static bool note(const struct touch *x)
{
    struct ptx_word *word = &weak_of(x->warp)->words[x->word];

    if (!agrees(x, &word->writer, false)) {
        return tell(x, &word->writer, "written");
    }
    if (x->inst->op == PTX_LD) {
        if (!x->who.strong) {
            word->reader = x->who;
        }
        return true;
    }
    if (!agrees(x, &word->reader, true)) {
        return tell(x, &word->reader, "read");
    }
    word->writer = x->who;
    return true;
}

/* Return true if a waiting store is already visible to the thread. */
static bool visible(const struct touch *x, const struct ptx_waiting *waiting)
{
    const struct ptx_block *block = x->warp->block;
    uint32_t thread = waiting->who.thread;

    if (waiting->who.agent == x->who.agent) {
        return thread == x->who.thread || waiting->early || waiting->scope >= PTX_SCOPE_CTA ||
               waiting->who.tick <= block->known[x->warp->first / PTX_LANES][thread / PTX_LANES];
    }
    return waiting->scope >= ptx_weak_between(weak_of(x->warp), waiting->who.agent, x->who.agent);
}

/* Record that a load has returned a value from before a store. If a result is wrong later, both
 * accesses are reported. */
static void suspect(const struct touch *x, const struct ptx_who *store, const char *what)
{
    struct ptx_weak *weak = weak_of(x->warp);
    char by[200], text[200];

    ptx_weak_describe(weak, store, by, sizeof by);
    ptx_weak_describe(weak, &x->who, text, sizeof text);
    snprintf(weak->suspect, sizeof weak->suspect,
             "%s reads %s at 0x%" PRIx64 ", from before the store of %s", text, what,
             (uint64_t) (uintptr_t) weak->options.memory + 8u * x->word + x->shift / 8, by);
}

/* A relaxed load may return the value before the last store, if it has not read that one before. */
static bool returns_older(const struct touch *x, struct ptx_word *word)
{
    struct ptx_weak *weak = weak_of(x->warp);
    uint32_t reader = x->who.agent << 10 | x->who.thread;

    if (x->inst->order == PTX_RELAXED && word->visible != 0 && word->first == PTX_NOTHING &&
        word->visible_by.agent != x->who.agent && word->read_by != reader + 1 &&
        !ptx_clock_covers(*clock_of(x->warp), &word->visible_by) &&
        ptx_weak_random(weak) % 2 == 0) {
        suspect(x, &word->visible_by, "a value");
        return true;
    }
    word->read_by = reader + 1;
    return false;
}

/* The clocks that a strong store passes on with its value. */
struct origin {
    struct ptx_message message;
    const struct ptx_clock *data;
};

/* Return the word that the thread sees. *from and *number belong to the last strong store that it
 * sees. */
static uint64_t look(const struct touch *x, struct origin *from, uint64_t *number)
{
    struct ptx_weak *weak = weak_of(x->warp);
    struct ptx_word *word = &weak->words[x->word];
    uint64_t value = ((const uint64_t *) weak->options.memory)[x->word];

    *from = (struct origin){word->message, word->data};
    *number = word->visible;
    for (uint32_t s = word->first; s != PTX_NOTHING; s = weak->waiting[s].next) {
        const struct ptx_waiting *waiting = &weak->waiting[s];

        for (uint32_t i = 0; visible(x, waiting) && i < 8; i++) {
            if ((waiting->who.mask >> i & 1) != 0) {
                uint64_t bits = UINT64_C(255) << 8 * i;

                value = (value & ~bits) | (waiting->value & bits);
            }
            *from = (struct origin){waiting->message, waiting->data};
            *number = waiting->number;
        }
    }
    return value;
}

static void acquire(const struct touch *x, const struct origin *from)
{
    struct ptx_weak *weak = weak_of(x->warp);
    uint8_t between;
    bool good = true;

    if (x->inst->order == PTX_VOLATILE) {
        good = ptx_clock_depend(clock_of(x->warp), from->data);
    } else if (x->inst->order == PTX_ORDERED && from->message.clock != NULL) {
        between = ptx_weak_between(weak, from->message.agent, x->who.agent);
        good = from->message.scope < between || x->inst->scope < between ||
               ptx_clock_receive(clock_of(x->warp), &from->message);
    }
    weak->no_memory = weak->no_memory || !good;
}

/* The result of one lane's load of one word. */
struct sample {
    uint32_t word;
    uint64_t number;
};

/*
 * Record it if an instruction has read the flag of a line, which is the last of its 16 words, but
 * data from before the line was stored. This is a fault if the kernel polls only the flag.
 * Otherwise the kernel must repeat the load.
 */
static void look_for_torn(const struct touch *x, const struct sample *samples, uint32_t n)
{
    struct ptx_weak *weak = weak_of(x->warp);

    for (uint32_t f = 0; f < n; f++) {
        const struct ptx_who *flag = &weak->words[samples[f].word].visible_by;

        if (samples[f].word % 16 != 15 ||
            samples[f].number != weak->words[samples[f].word].visible || samples[f].number == 0) {
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct ptx_word *word = &weak->words[samples[i].word];
            struct touch at = *x;

            if (samples[i].word / 16 == samples[f].word / 16 && samples[i].number < word->stored &&
                word->stored < samples[f].number) {
                at.word = samples[i].word;
                at.shift = 0;
                suspect(&at, flag, "data of a line whose flag is there");
                return;
            }
        }
    }
}

/* Choose the next access of an instruction at random. left[k] has a bit for each lane. Return the
 * lane, and its element in *k. */
static uint32_t pick(struct ptx_weak *weak, uint64_t left[4], uint32_t count, uint32_t *k)
{
    uint32_t lane = (uint32_t) ptx_weak_random(weak) % PTX_LANES;

    *k = (uint32_t) ptx_weak_random(weak) % count;
    while ((left[*k] >> lane & 1) == 0) {
        lane = (lane + 1) % PTX_LANES;
        if (left[*k] == 0) {
            *k = (*k + 1) % count;
        }
    }
    left[*k] &= ~(UINT64_C(1) << lane);
    return lane;
}

bool ptx_weak_load(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc, uint32_t active,
                   const uint64_t *address, uint64_t values[4][PTX_LANES])
{
    uint32_t bytes = ptx_types[inst->from].bytes, n = 0;
    uint32_t all = inst->count * (uint32_t) __builtin_popcount(active);
    struct ptx_weak *weak = weak_of(warp);
    uint64_t left[4] = {active, active, active, active};
    struct sample samples[4 * PTX_LANES];
    struct touch x = {0};

    while (n < all) {
        uint32_t k, lane = pick(weak, left, inst->count, &k);
        struct origin from;
        uint64_t value;

        x = touch_of(warp, inst, pc, lane, address[lane] + k * bytes);
        if (!note(&x)) {
            return false;
        }
        if (inst->order != PTX_WEAK && ptx_weak_random(weak) % 4 == 0) {
            ptx_weak_pass(weak, ptx_weak_random(weak) % 64);
        }
        value = look(&x, &from, &samples[n].number);
        if (inst->order != PTX_WEAK && returns_older(&x, &weak->words[x.word])) {
            value = weak->words[x.word].before;
        }
        samples[n++].word = x.word;
        values[k][lane] = value >> x.shift & (UINT64_MAX >> (64 - 8 * bytes));
        acquire(&x, &from);
    }
    if (inst->order == PTX_VOLATILE && inst->count > 1) {
        look_for_torn(&x, samples, n);
    }
    return true;
}

/* Return a clock of everything that is ordered before the warp's next access, or NULL if there is
 * no memory. */
static struct ptx_clock *past_of(const struct ptx_warp *warp)
{
    const struct ptx_block *block = warp->block;
    struct ptx_clock *clock = ptx_clock_new(*clock_of(warp), weak_of(warp)->options.agents);

    if (clock == NULL) {
        weak_of(warp)->no_memory = true;
        return NULL;
    }
    for (uint32_t v = 0; v < block->nwarps; v++) {
        ptx_clock_add(clock, block->agent, v, block->known[warp->first / PTX_LANES][v]);
    }
    ptx_clock_add(clock, block->agent, warp->first / PTX_LANES, block->tick);
    return clock;
}

/* Return true if eight lanes, beginning with this one, store a line of 128 bytes together. */
static bool whole_line(const struct ptx_inst *inst, uint32_t active, const uint64_t *address,
                       uint32_t lane)
{
    uint32_t bytes = inst->count * ptx_types[inst->from].bytes;
    bool whole = bytes == 16 && lane + 8 <= PTX_LANES && (active >> lane & 255) == 255 &&
                 address[lane] % 128 == 0;

    for (uint32_t i = 1; whole && i < 8; i++) {
        whole = address[lane + i] == address[lane] + 16 * i;
    }
    return whole;
}

/* Attach the clock of the thread's last fence to a store, because a fence and a later store are a
 * release. Also attach the dependencies of its data. */
static void pass_on(const struct touch *x, uint32_t store, struct ptx_clock *data)
{
    struct ptx_weak *weak = weak_of(x->warp);
    const struct ptx_message *message = &weak->agents[x->who.agent].released[x->who.thread];

    if (store == PTX_NOTHING) {
        return;
    }
    ptx_clock_set(&weak->waiting[store].data, data);
    if (message->clock != NULL) {
        weak->waiting[store].message = *message;
        if (x->inst->scope < message->scope) {
            weak->waiting[store].message.scope = x->inst->scope;
        }
        message->clock->users++;
    }
}

bool ptx_weak_store(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                    uint32_t active, const uint64_t *address)
{
    uint32_t bytes = ptx_types[inst->from].bytes, line = 0, before = PTX_NOTHING;
    struct ptx_weak *weak = weak_of(warp);
    struct ptx_clock *data = NULL;

    if (inst->order == PTX_ORDERED) {
        ptx_weak_fence(warp, inst->scope, active);
    }
    if (inst->order == PTX_VOLATILE) {
        ptx_clock_set(&data, past_of(warp));
    }
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        if (whole_line(inst, active, address, lane)) {
            line = lane + 8;
            before = PTX_NOTHING;
        }
        for (uint32_t k = 0; (active >> lane & 1) != 0 && k < inst->count; k++) {
            uint64_t value = ptx_source(warp, inst->sources[1 + k])[lane];
            struct touch x = touch_of(warp, inst, pc, lane, address[lane] + k * bytes);

            if (!note(&x)) {
                ptx_clock_set(&data, NULL);
                return false;
            }
            if (inst->order == PTX_WEAK) {
                ptx_weak_settle(weak, x.word);
                memcpy((uint8_t *) weak->options.memory + 8u * x.word + x.shift / 8, &value, bytes);
                ptx_clock_set(&weak->words[x.word].message.clock, NULL);
                weak->words[x.word].visible = 0;
                continue;
            }
            before = ptx_weak_wait(weak, x.word, &x.who, value << x.shift,
                                   lane < line && weak->options.ascending ? before : PTX_NOTHING);
            pass_on(&x, before, data);
        }
    }
    ptx_clock_set(&data, NULL);
    return true;
}

void ptx_weak_fence(struct ptx_warp *warp, uint8_t scope, uint32_t lanes)
{
    struct ptx_weak *weak = weak_of(warp);
    const struct ptx_block *block = warp->block;
    struct ptx_clock *clock = past_of(warp);

    if (clock == NULL) {
        return;
    }
    for (uint32_t left = lanes; left != 0; left &= left - 1) {
        uint32_t thread = warp->first + (uint32_t) __builtin_ctz(left);
        struct ptx_message *message = &weak->agents[block->agent].released[thread];

        ptx_clock_set(&message->clock, clock);
        message->agent = (uint8_t) block->agent;
        message->scope = scope;
    }
    ptx_weak_flush(weak, warp, lanes, scope);
    ptx_race_fence(warp->block); /* later accesses are not released */
}
