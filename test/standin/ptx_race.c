/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Races between threads of a block. Each byte has two tags: who wrote it last, and who read it last
 * (or PTX_MANY), each with the block's epoch, the number of barriers before:
 *
 *      31                10 9        0
 *     |       epoch        | thread   |
 *
 * Two accesses of one epoch by different threads, one of them a write, are a race. Epochs go on
 * from launch to launch, so that pages need not be cleared. The order in which the interpreter
 * happens to run the threads does not matter, but for threads whose way depends on it.
 */
#include "test/standin/ptx_machine.h"

#include <stdlib.h>
#include <string.h>

#define THREADS    1024u
#define LAST_EPOCH ((UINT32_C(1) << 22) - 1)
#define MAX_PAGES  2048 /* of a block between launches */

static uint32_t tag_of(const struct ptx_block *block, uint32_t thread)
{
    return block->epoch * THREADS + thread;
}

/* The same epoch, another thread. */
static bool conflicts(uint32_t tag, uint32_t mine)
{
    return (tag ^ mine) - 1 < THREADS - 1;
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

/* NULL: no memory, which ptx_machine_run tells. */
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

/* The other thread, of the first byte with one that conflicts. */
static uint32_t other_of(const uint32_t *tags, uint32_t bytes, uint32_t mine)
{
    uint32_t i = 0;

    while (i < bytes - 1 && !conflicts(tags[i], mine)) {
        i++;
    }
    return tags[i] & (THREADS - 1);
}

static inline bool read_bytes(const uint32_t *restrict writer, uint32_t *restrict reader,
                              uint32_t bytes, uint32_t mine)
{
    uint32_t bad = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        bad |= conflicts(writer[i], mine);
        reader[i] = conflicts(reader[i], mine) ? mine | PTX_MANY : mine;
    }
    return bad == 0;
}

static inline bool write_bytes(uint32_t *restrict writer, const uint32_t *restrict reader,
                               uint32_t bytes, uint32_t mine)
{
    uint32_t bad = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        bad |= conflicts(writer[i], mine);
        bad |= conflicts(reader[i], mine);
        writer[i] = mine;
    }
    return bad == 0;
}

static bool read_page(struct ptx_page *page, uint32_t at, uint32_t bytes, uint32_t mine,
                      uint32_t *other)
{
    const uint32_t *writer = page->writer + at;
    uint32_t *reader = page->reader + at;
    bool good = bytes == 16  ? read_bytes(writer, reader, 16, mine)
                : bytes == 8 ? read_bytes(writer, reader, 8, mine)
                : bytes == 4 ? read_bytes(writer, reader, 4, mine)
                             : read_bytes(writer, reader, bytes, mine);

    if (!good) {
        *other = other_of(writer, bytes, mine);
    }
    return good;
}

static bool write_page(struct ptx_page *page, uint32_t at, uint32_t bytes, uint32_t mine,
                       uint32_t *other)
{
    uint32_t *writer = page->writer + at;
    const uint32_t *reader = page->reader + at;
    uint32_t before[16];
    bool good;

    memcpy(before, writer, bytes * sizeof *before);
    good = bytes == 16  ? write_bytes(writer, reader, 16, mine)
           : bytes == 8 ? write_bytes(writer, reader, 8, mine)
           : bytes == 4 ? write_bytes(writer, reader, 4, mine)
                        : write_bytes(writer, reader, bytes, mine);
    if (!good) {
        *other = other_of(before, bytes, mine);
        if (!conflicts(before[0], mine)) {
            *other = other_of(reader, bytes, mine);
        }
    }
    return good;
}

bool ptx_race_read(struct ptx_block *block, uint64_t address, uint32_t bytes, uint32_t thread,
                   uint32_t *other)
{
    struct ptx_page *page = page_of(block, address);

    return page == NULL ||
           read_page(page, (uint32_t) (address % PTX_PAGE), bytes, tag_of(block, thread), other);
}

bool ptx_race_write(struct ptx_block *block, uint64_t address, uint32_t bytes, uint32_t thread,
                    uint32_t *other)
{
    struct ptx_page *page = page_of(block, address);

    return page == NULL ||
           write_page(page, (uint32_t) (address % PTX_PAGE), bytes, tag_of(block, thread), other);
}

bool ptx_race_read_shared(struct ptx_block *block, uint32_t at, uint32_t bytes, uint32_t thread,
                          uint32_t *other, bool *unwritten)
{
    *unwritten = false;
    for (uint32_t i = 0; i < bytes; i++) {
        *unwritten = *unwritten || block->shadow_shared->writer[at + i] == 0;
    }
    return read_page(block->shadow_shared, at, bytes, tag_of(block, thread), other);
}

bool ptx_race_write_shared(struct ptx_block *block, uint32_t at, uint32_t bytes, uint32_t thread,
                           uint32_t *other)
{
    return write_page(block->shadow_shared, at, bytes, tag_of(block, thread), other);
}

static void forget_pages(struct ptx_shadow *shadow)
{
    for (uint32_t i = 0; i < shadow->room; i++) {
        free(shadow->pages[i]);
    }
    free(shadow->pages);
    *shadow = (struct ptx_shadow){0};
}

void ptx_race_barrier(struct ptx_block *block)
{
    if (++block->epoch == LAST_EPOCH) {
        struct ptx_page *page = block->shadow_shared;

        forget_pages(&block->shadow);
        block->epoch = 1;
        for (uint32_t i = 0; i < PTX_PAGE; i++) {
            page->writer[i] = page->writer[i] != 0; /* epoch 0 */
            page->reader[i] = 0;
        }
    }
}

void ptx_race_restart(struct ptx_block *block)
{
    ptx_race_barrier(block);
    if (block->shadow.count > MAX_PAGES) {
        forget_pages(&block->shadow);
    }
    memset(block->shadow_shared, 0, sizeof *block->shadow_shared);
}

void ptx_race_free(struct ptx_block *block)
{
    forget_pages(&block->shadow);
    free(block->shadow_shared);
}
