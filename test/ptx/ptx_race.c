/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Races between threads of a block. Each byte has two tags: the thread that wrote it last, and the
 * thread that read it last (or PTX_MANY). Each tag also has the block's tick, which advances at
 * each barrier:
 *
 *      31                10 9        0
 *     |       tick         | thread   |
 *
 * known[w][v]: accesses of warp v up to this tick are ordered before the current accesses of warp
 * w, by barriers of both warps or through other warps. Two accesses by different threads, one of
 * them a write, are a race if the first is not ordered before the second.
 *
 * For shared memory, the last reader of each warp is stored. For global memory, only one reader is
 * stored, and a set of warps that have read the byte. A write must be ordered after the last read
 * of global memory by each of these warps. Ticks continue from launch to launch, so that pages need
 * not be cleared. The result does not depend on the order in which the interpreter runs the
 * threads, unless their branches depend on it.
 */
#include "test/ptx/ptx_machine.h"

#include <stdlib.h>
#include <string.h>

#define THREADS   1024u
#define LAST_TICK ((UINT32_C(1) << 22) - 1)
#define MAX_PAGES 2048 /* pages that a block keeps between launches */

static uint32_t tag_of(const struct ptx_block *block, uint32_t thread)
{
    return block->tick * THREADS + thread;
}

static uint32_t warp_of(uint32_t tag)
{
    return tag % THREADS / PTX_LANES;
}

/* Quick test: return false if `known` need not be checked, because the access is by the same
 * thread, or it is before `floor`, the minimum of `known` for this warp. */
static uint32_t suspect(uint32_t tag, uint32_t mine, uint32_t floor)
{
    return (tag / THREADS > floor) & ((tag ^ mine) % THREADS != 0);
}

/* Return those warps of `readers` whose reads up to `tick` are not ordered before this warp. */
static uint32_t not_before(const struct ptx_block *block, uint32_t warp, uint32_t tick,
                           uint32_t readers)
{
    uint32_t left = 0;

    for (; readers != 0; readers &= readers - 1) {
        uint32_t v = (uint32_t) __builtin_ctz(readers);
        uint32_t last = block->reads[v] < tick ? block->reads[v] : tick;

        left |= last > block->known[warp][v] ? 1u << v : 0;
    }
    return left;
}

/* Return true if the access of the tag is by another thread and not ordered before this warp. */
static bool conflicts(const struct ptx_block *block, uint32_t warp, uint32_t tag, uint32_t mine)
{
    return suspect(tag, mine, block->floor[warp]) != 0 &&
           tag / THREADS > block->known[warp][warp_of(tag)];
}

static uint32_t slot_of(const struct ptx_shadow *shadow, uint64_t number)
{
    uint32_t slot = (uint32_t) (number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (shadow->room - 1);

    while (shadow->pages[slot] != NULL && shadow->pages[slot]->number != number) {
        slot = (slot + 1) & (shadow->room - 1);
    }
    return slot;
}

static bool grow(struct ptx_shadow *shadow)
{
    struct ptx_shadow larger = {.room = shadow->room > 0 ? 2 * shadow->room : 64,
                                .count = shadow->count};

    larger.pages = calloc(larger.room, sizeof(struct ptx_page *));
    if (larger.pages == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < shadow->room; i++) {
        if (shadow->pages[i] != NULL) {
            larger.pages[slot_of(&larger, shadow->pages[i]->number)] = shadow->pages[i];
        }
    }
    free(shadow->pages);
    *shadow = larger;
    return true;
}

/* Return the page of an address, or NULL if there is no memory, which ptx_machine_run reports. */
static struct ptx_page *page_of(struct ptx_block *block, uint64_t address)
{
    struct ptx_shadow *shadow = &block->shadow;
    uint64_t number = address / PTX_PAGE;
    uint32_t slot;

    if (shadow->last != NULL && shadow->last->number == number) {
        return shadow->last;
    }
    if (2 * shadow->count >= shadow->room && !grow(shadow)) {
        block->machine->unchecked = true;
        return NULL;
    }
    slot = slot_of(shadow, number);
    if (shadow->pages[slot] == NULL) {
        shadow->pages[slot] = calloc(1, sizeof **shadow->pages);
        if (shadow->pages[slot] == NULL) {
            block->machine->unchecked = true;
            return NULL;
        }
        shadow->pages[slot]->number = number;
        shadow->count++;
    }
    return shadow->last = shadow->pages[slot];
}

/* Return the thread of the first conflicting tag, or the thread of `mine` if there is none. */
static uint32_t other_of(const struct ptx_block *block, uint32_t warp, const uint32_t *tags,
                         uint32_t bytes, uint32_t mine)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (conflicts(block, warp, tags[i], mine)) {
            return tags[i] % THREADS;
        }
    }
    return mine % THREADS;
}

/* Return the first reader that conflicts with a write, or the thread of `mine` if there is none. */
static uint32_t reader_of(const struct ptx_block *block, uint32_t warp, const struct ptx_page *page,
                          uint32_t at, uint32_t bytes, uint32_t mine)
{
    for (uint32_t i = at; i < at + bytes; i++) {
        uint32_t tag = page->reader[i];

        if (suspect(tag, mine, block->floor[warp]) != 0 &&
            not_before(block, warp, tag / THREADS, page->readers[i]) != 0) {
            return tag % THREADS;
        }
    }
    return mine % THREADS;
}

/* Update the readers of bytes for which earlier reads may still matter. */
static void add_reader(const struct ptx_block *block, uint32_t warp, struct ptx_page *page,
                       uint32_t at, uint32_t bytes, uint32_t mine)
{
    for (uint32_t i = at; i < at + bytes; i++) {
        uint32_t tag = page->reader[i];
        uint32_t others = not_before(block, warp, tag / THREADS, page->readers[i]);
        bool many = others != 0 && (tag ^ mine) % THREADS != 0;

        page->reader[i] = many ? mine | PTX_MANY : mine;
        page->readers[i] = others | 1u << warp;
    }
}

/* Return true if a writer is suspect. *many is set if earlier reads of some bytes may still
 * matter. */
static inline uint32_t read_bytes(const uint32_t *restrict writer, const uint32_t *restrict reader,
                                  uint32_t bytes, uint32_t mine, uint32_t floor, uint32_t *many)
{
    uint32_t bad = 0;

    *many = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        bad |= suspect(writer[i], mine, floor);
        *many |= (reader[i] / THREADS > floor);
    }
    return bad;
}

static inline uint32_t write_bytes(uint32_t *restrict writer, const uint32_t *restrict reader,
                                   uint32_t *restrict before, uint32_t bytes, uint32_t mine,
                                   uint32_t floor)
{
    uint32_t bad = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        bad |= suspect(writer[i], mine, floor) | suspect(reader[i], mine, floor);
        before[i] = writer[i];
        writer[i] = mine;
    }
    return bad;
}

static bool read_page(const struct ptx_block *block, uint32_t warp, struct ptx_page *page,
                      uint32_t at, uint32_t bytes, uint32_t mine, uint32_t *other)
{
    const uint32_t *writer = page->writer + at, *reader = page->reader + at;
    uint32_t floor = block->floor[warp], many;
    uint32_t bad = bytes == 16  ? read_bytes(writer, reader, 16, mine, floor, &many)
                   : bytes == 8 ? read_bytes(writer, reader, 8, mine, floor, &many)
                   : bytes == 4 ? read_bytes(writer, reader, 4, mine, floor, &many)
                                : read_bytes(writer, reader, bytes, mine, floor, &many);

    if (many != 0) {
        add_reader(block, warp, page, at, bytes, mine);
    } else {
        for (uint32_t i = at; i < at + bytes; i++) {
            page->reader[i] = mine;
            page->readers[i] = 1u << warp;
        }
    }
    *other = bad != 0 ? other_of(block, warp, writer, bytes, mine) : mine % THREADS;
    return *other == mine % THREADS;
}

static bool write_page(const struct ptx_block *block, uint32_t warp, struct ptx_page *page,
                       uint32_t at, uint32_t bytes, uint32_t mine, uint32_t *other)
{
    uint32_t *writer = page->writer + at, floor = block->floor[warp], before[16];
    const uint32_t *reader = page->reader + at;
    uint32_t bad = bytes == 16  ? write_bytes(writer, reader, before, 16, mine, floor)
                   : bytes == 8 ? write_bytes(writer, reader, before, 8, mine, floor)
                   : bytes == 4 ? write_bytes(writer, reader, before, 4, mine, floor)
                                : write_bytes(writer, reader, before, bytes, mine, floor);

    *other = mine % THREADS;
    if (bad != 0) {
        *other = other_of(block, warp, before, bytes, mine);
        if (*other == mine % THREADS) {
            *other = reader_of(block, warp, page, at, bytes, mine);
        }
    }
    return *other == mine % THREADS;
}

bool ptx_race_read(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                   uint32_t thread, uint32_t *other)
{
    struct ptx_page *page = page_of(block, address);

    block->reads[warp] = block->tick;
    return page == NULL || read_page(block, warp, page, (uint32_t) (address % PTX_PAGE), bytes,
                                     tag_of(block, thread), other);
}

bool ptx_race_write(struct ptx_block *block, uint32_t warp, uint64_t address, uint32_t bytes,
                    uint32_t thread, uint32_t *other)
{
    struct ptx_page *page = page_of(block, address);

    return page == NULL || write_page(block, warp, page, (uint32_t) (address % PTX_PAGE), bytes,
                                      tag_of(block, thread), other);
}

bool ptx_race_read_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                          uint32_t thread, uint32_t *other, bool *unwritten)
{
    const uint32_t *writer = block->shadow_shared->writer + at;
    uint32_t mine = tag_of(block, thread);

    *unwritten = false;
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t *reader = &block->readers_shared[at + i][warp];

        *unwritten = *unwritten || writer[i] == 0;
        *reader = suspect(*reader, mine, block->known[warp][warp]) != 0 ? mine | PTX_MANY : mine;
    }
    *other = other_of(block, warp, writer, bytes, mine);
    return *other == thread;
}

bool ptx_race_write_shared(struct ptx_block *block, uint32_t warp, uint32_t at, uint32_t bytes,
                           uint32_t thread, uint32_t *other)
{
    uint32_t *writer = block->shadow_shared->writer + at;
    uint32_t mine = tag_of(block, thread);

    *other = other_of(block, warp, writer, bytes, mine);
    for (uint32_t i = 0; i < bytes; i++) {
        const uint32_t *readers = block->readers_shared[at + i];

        for (uint32_t v = 0; v < block->nwarps && *other == thread; v++) {
            uint32_t tag = readers[v];

            if (tag / THREADS > block->known[warp][v] && tag % THREADS != thread) {
                *other = tag % THREADS;
            }
        }
        writer[i] = mine;
    }
    return *other == thread;
}

static void forget_pages(struct ptx_shadow *shadow)
{
    for (uint32_t i = 0; i < shadow->room; i++) {
        free(shadow->pages[i]);
    }
    free(shadow->pages);
    *shadow = (struct ptx_shadow){0};
}

static void next_tick(struct ptx_block *block)
{
    if (block->tick < LAST_TICK) {
        block->tick++;
    } else {
        block->machine->unchecked = true;
    }
}

void ptx_race_arrive(struct ptx_block *block, uint32_t warp)
{
    block->arrived[warp] = block->tick;
    if (block->machine->launch->weak != NULL) {
        ptx_weak_arrive(block, warp);
    }
    next_tick(block);
}

void ptx_race_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived)
{
    uint32_t all[PTX_WARPS] = {0};

    if (block->machine->launch->weak != NULL) {
        ptx_weak_barrier(block, waited, arrived);
    }
    for (uint32_t w = 0; w < block->nwarps; w++) {
        for (uint32_t v = 0; ((waited | arrived) >> w & 1) != 0 && v < block->nwarps; v++) {
            all[v] = all[v] > block->known[w][v] ? all[v] : block->known[w][v];
        }
    }
    for (uint32_t v = 0; v < block->nwarps; v++) {
        if ((waited >> v & 1) != 0) {
            all[v] = block->tick;
        } else if ((arrived >> v & 1) != 0 && block->arrived[v] > all[v]) {
            all[v] = block->arrived[v];
        }
    }
    for (uint32_t left = waited; left != 0; left &= left - 1) {
        uint32_t w = (uint32_t) __builtin_ctz(left);

        block->floor[w] = UINT32_MAX;
        for (uint32_t v = 0; v < block->nwarps; v++) {
            block->known[w][v] = all[v] > block->known[w][v] ? all[v] : block->known[w][v];
            block->floor[w] =
                block->floor[w] < block->known[w][v] ? block->floor[w] : block->known[w][v];
        }
    }
    next_tick(block);
}

void ptx_race_fence(struct ptx_block *block)
{
    next_tick(block);
}

void ptx_race_restart(struct ptx_block *block)
{
    if (block->shadow.count > MAX_PAGES || block->tick > LAST_TICK / 2) {
        forget_pages(&block->shadow);
    }
    if (block->tick > LAST_TICK / 2) {
        block->tick = 0;
        memset(block->known, 0, sizeof block->known);
        memset(block->reads, 0, sizeof block->reads);
        memset(block->readers_shared, 0, PTX_PAGE * sizeof *block->readers_shared);
    }
    memset(block->shadow_shared, 0, sizeof *block->shadow_shared);
    next_tick(block);
    ptx_race_barrier(block, UINT32_MAX >> (PTX_WARPS - block->nwarps), 0);
}

void ptx_race_free(struct ptx_block *block)
{
    forget_pages(&block->shadow);
    free(block->shadow_shared);
    free(block->readers_shared);
}
