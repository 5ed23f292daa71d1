/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Buffer of strong stores: a heap, ordered by the time at which each becomes visible to all
 * agents. */
#include "test/ptx/ptx_weak_state.h"

#include <stdlib.h>
#include <string.h>

static bool sooner(const struct ptx_weak *weak, uint32_t a, uint32_t b)
{
    const struct ptx_waiting *x = &weak->waiting[a], *y = &weak->waiting[b];

    return x->due < y->due || (x->due == y->due && x->number < y->number);
}

static void place_at(struct ptx_weak *weak, uint32_t at, uint32_t store)
{
    weak->heap[at] = store;
    weak->waiting[store].place = at;
}

static void move_up(struct ptx_weak *weak, uint32_t at)
{
    uint32_t store = weak->heap[at];

    for (; at > 0 && sooner(weak, store, weak->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        place_at(weak, at, weak->heap[(at - 1) / 2]);
    }
    place_at(weak, at, store);
}

static void move_down(struct ptx_weak *weak, uint32_t at)
{
    uint32_t store = weak->heap[at];

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < weak->nheap && sooner(weak, weak->heap[child + 1], weak->heap[child])) {
            child++;
        }
        if (child >= weak->nheap || !sooner(weak, weak->heap[child], store)) {
            break;
        }
        place_at(weak, at, weak->heap[child]);
        at = child;
    }
    place_at(weak, at, store);
}

static uint32_t take_room(struct ptx_weak *weak)
{
    uint32_t store = weak->unused;

    if (store != PTX_NOTHING) {
        weak->unused = weak->waiting[store].next;
        return store;
    }
    if (weak->nheap == weak->room) {
        uint32_t room = weak->room > 0 ? 2 * weak->room : 1024;
        struct ptx_waiting *waiting = realloc(weak->waiting, room * sizeof *waiting);
        uint32_t *heap = waiting != NULL ? realloc(weak->heap, room * sizeof *heap) : NULL;

        weak->waiting = waiting != NULL ? waiting : weak->waiting;
        if (heap == NULL) {
            weak->no_memory = true;
            return PTX_NOTHING;
        }
        memset(waiting + weak->room, 0, (room - weak->room) * sizeof *waiting);
        weak->heap = heap;
        weak->room = room;
    }
    return weak->nheap; /* all entries are in use, so all are in the heap */
}

/* Return a random delay. Most stores become visible soon, and some after many other accesses of a
 * block. */
static uint64_t delay(struct ptx_weak *weak)
{
    uint64_t most = UINT64_C(1) << ptx_weak_random(weak) % 12;

    return ptx_weak_random(weak) % 4 == 0 ? 0 : ptx_weak_random(weak) % most;
}

uint32_t ptx_weak_wait(struct ptx_weak *weak, uint32_t word, const struct ptx_who *who,
                       uint64_t value, uint32_t in_line)
{
    struct ptx_word *place = &weak->words[word];
    uint32_t store = take_room(weak);
    struct ptx_waiting *waiting;
    uint64_t due;

    if (store == PTX_NOTHING) {
        return store;
    }
    waiting = &weak->waiting[store];
    due = in_line != PTX_NOTHING
              ? weak->waiting[in_line].due + (ptx_weak_random(weak) % 4 == 0 ? delay(weak) % 64 : 0)
              : weak->now + delay(weak);
    *waiting = (struct ptx_waiting){.word = word,
                                    .next = PTX_NOTHING,
                                    .before_it = place->last,
                                    .in_line = in_line,
                                    .who = *who,
                                    .value = value,
                                    .number = ++weak->number,
                                    .early = ptx_weak_random(weak) % 2 == 0};
    if (place->last != PTX_NOTHING) {
        due = weak->waiting[place->last].due > due ? weak->waiting[place->last].due : due;
        weak->waiting[place->last].next = store;
    } else {
        place->first = store;
    }
    waiting->due = due;
    place->last = store;
    place->stored = waiting->number;
    weak->agents[who->agent].waiting++;
    place_at(weak, weak->nheap++, store);
    move_up(weak, weak->nheap - 1);
    return store;
}

static uint64_t merged(uint64_t old, uint64_t value, uint8_t mask)
{
    uint64_t bits = 0;

    for (int i = 0; i < 8; i++) {
        bits |= (mask >> i & 1) != 0 ? UINT64_C(255) << 8 * i : 0;
    }
    return (old & ~bits) | (value & bits);
}

/* Make the first store of the heap visible to all agents. It is also the first store to its
 * word. */
static void arrive(struct ptx_weak *weak)
{
    uint32_t store = weak->heap[0];
    struct ptx_waiting *waiting = &weak->waiting[store];
    struct ptx_word *word = &weak->words[waiting->word];
    uint64_t *memory = (uint64_t *) weak->options.memory + waiting->word;

    word->before = *memory;
    *memory = merged(*memory, waiting->value, waiting->who.mask);
    word->visible = waiting->number;
    word->visible_by = waiting->who;
    word->read_by = 0;
    ptx_clock_set(&word->message.clock, NULL);
    word->message = waiting->message; /* moves its reference to the clock, too */
    ptx_clock_set(&word->data, NULL);
    word->data = waiting->data;
    word->first = waiting->next;
    if (word->first == PTX_NOTHING) {
        word->last = PTX_NOTHING;
    } else {
        weak->waiting[word->first].before_it = PTX_NOTHING;
    }
    weak->agents[waiting->who.agent].waiting--;
    waiting->number = 0; /* later stores of a line no longer wait for this one */
    waiting->next = weak->unused;
    weak->unused = store;
    if (--weak->nheap > 0) {
        place_at(weak, 0, weak->heap[weak->nheap]);
        move_down(weak, 0);
    }
}

void ptx_weak_pass(struct ptx_weak *weak, uint64_t time)
{
    weak->now += time;
    while (weak->nheap > 0 && weak->waiting[weak->heap[0]].due <= weak->now) {
        arrive(weak);
    }
}

/* Make a store visible now, after all stores that must be visible before it. */
static void hurry(struct ptx_weak *weak, uint32_t store)
{
    struct ptx_waiting *waiting = &weak->waiting[store];

    if (waiting->due <= weak->now) {
        return;
    }
    waiting->due = weak->now;
    move_up(weak, waiting->place);
    if (waiting->before_it != PTX_NOTHING) {
        hurry(weak, waiting->before_it);
    }
    if (waiting->in_line != PTX_NOTHING &&
        weak->waiting[waiting->in_line].number == waiting->number - 1) {
        hurry(weak, waiting->in_line);
    }
}

/* Return true if the store is ordered before one of these lanes of the warp. */
static bool known(const struct ptx_warp *warp, uint32_t lanes, const struct ptx_waiting *waiting)
{
    const struct ptx_block *block = warp->block;
    uint32_t w = warp->first / PTX_LANES, thread = waiting->who.thread;

    if (waiting->who.agent != block->agent) {
        return ptx_clock_covers(block->machine->launch->weak->agents[block->agent].clocks[w],
                                &waiting->who);
    }
    return waiting->who.tick <= block->known[w][thread / PTX_LANES] ||
           (thread >= warp->first && thread < warp->first + PTX_LANES &&
            (lanes >> (thread - warp->first) & 1) != 0);
}

void ptx_weak_flush(struct ptx_weak *weak, const struct ptx_warp *warp, uint32_t lanes,
                    uint8_t scope)
{
    for (uint32_t store = 0; store < weak->room && weak->nheap > 0; store++) {
        struct ptx_waiting *waiting = &weak->waiting[store];

        if (waiting->number == 0 || !known(warp, lanes, waiting)) {
            continue;
        }
        if (scope == PTX_SCOPE_SYS) {
            hurry(weak, store);
        } else {
            waiting->scope = scope > waiting->scope ? scope : waiting->scope;
        }
    }
    ptx_weak_pass(weak, 0);
}

void ptx_weak_settle(struct ptx_weak *weak, uint32_t word)
{
    if (weak->words[word].last != PTX_NOTHING) {
        hurry(weak, weak->words[word].last);
        ptx_weak_pass(weak, 0);
    }
}

uint8_t ptx_weak_between(const struct ptx_weak *weak, uint32_t agent, uint32_t other)
{
    const struct ptx_weak_agent *a = &weak->agents[agent], *b = &weak->agents[other];

    return agent == other                             ? PTX_SCOPE_CTA
           : !a->host && !b->host && a->gpu == b->gpu ? PTX_SCOPE_GPU
                                                      : PTX_SCOPE_SYS;
}
