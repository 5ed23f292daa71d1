/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* State of the modelled memory: its words and waiting stores (ptx_weak.h). */
#ifndef GPURING_PTX_WEAK_STATE_H
#define GPURING_PTX_WEAK_STATE_H

#include "test/ptx/ptx_clock.h"

#define PTX_NOTHING UINT32_MAX

/* 8 aligned bytes of memory. */
struct ptx_word {
    struct ptx_who writer, reader; /* last accesses; reader: only ordinary loads */
    struct ptx_message message;    /* of the last visible strong store */
    struct ptx_clock *data;        /* dependencies of that store, for lines */
    uint64_t before;               /* value before that store */
    uint64_t visible, stored;      /* numbers of the last visible store and of the last store */
    struct ptx_who visible_by;     /* last visible store */
    uint32_t read_by;              /* the last thread that has read the visible value, plus 1 */
    uint32_t first, last;          /* waiting stores, in order */
};

/* A strong store that is not visible to all agents so far. */
struct ptx_waiting {
    uint32_t word, next, before_it, in_line; /* in_line: must be visible before this store */
    struct ptx_who who;
    struct ptx_message message;
    struct ptx_clock *data;
    uint64_t value, due, number;
    bool early;     /* other threads of the block see it already */
    uint8_t scope;  /* scope in which a fence has made it visible */
    uint32_t place; /* index in the heap */
};

struct ptx_weak_agent {
    struct ptx_clock *clocks[PTX_AGENT_WARPS], *arrived[PTX_AGENT_WARPS];
    struct ptx_message *released; /* clock of each thread's last fence */
    uint32_t rank, gpu, block;
    uint32_t waiting; /* number of its waiting stores */
    uint32_t tick;    /* only for a host */
    bool host, known;
};

struct ptx_weak {
    struct ptx_weak_options options;
    struct ptx_weak_agent *agents;
    struct ptx_clock **streams; /* clock after the last kernel of each stream */
    struct ptx_word *words;
    struct ptx_waiting *waiting;
    uint32_t *heap, nheap, room, unused; /* heap: by time of visibility */
    uint64_t random, now, number;
    bool no_memory;
    char suspect[600];
};

uint64_t ptx_weak_random(struct ptx_weak *weak);
/* Return the word of an address; describe the agent and the place of an access. */
struct ptx_word *ptx_weak_word(struct ptx_weak *weak, uint64_t address);
void ptx_weak_describe(const struct ptx_weak *weak, const struct ptx_who *who, char *text,
                       size_t size);

/* ptx_weak_buffer.c: add a waiting store, which becomes visible after the store `in_line` if that
 * is not PTX_NOTHING. Return its index. */
uint32_t ptx_weak_wait(struct ptx_weak *weak, uint32_t word, const struct ptx_who *who,
                       uint64_t value, uint32_t in_line);
/* Let time pass; run a fence; make all waiting stores to a word visible. */
void ptx_weak_pass(struct ptx_weak *weak, uint64_t time);
void ptx_weak_flush(struct ptx_weak *weak, const struct ptx_warp *warp, uint32_t lanes,
                    uint8_t scope);
void ptx_weak_settle(struct ptx_weak *weak, uint32_t word);
/* Return the smallest scope that contains both agents. */
uint8_t ptx_weak_between(const struct ptx_weak *weak, uint32_t agent, uint32_t other);

#endif
