/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the adversarial memory keeps: its words, and stores that wait (ptx_weak.h). */
#ifndef GPURING_PTX_WEAK_STATE_H
#define GPURING_PTX_WEAK_STATE_H

#include "test/ptx/ptx_clock.h"

#define PTX_NOTHING UINT32_MAX

/* 8 aligned bytes of memory. */
struct ptx_word {
    struct ptx_who writer, reader; /* the last ones; reader: of ordinary loads alone */
    struct ptx_message message;    /* of the last visible strong store */
    struct ptx_clock *data;        /* what that depends on, of lines */
    uint64_t before;               /* the value before that store */
    uint64_t visible, stored;      /* numbers of the last visible store, and of the last one */
    struct ptx_who visible_by;     /* whose store is visible */
    uint32_t read_by;              /* the last thread that has read the visible value, plus 1 */
    uint32_t first, last;          /* waiting stores, in order */
};

/* A strong store that waits. */
struct ptx_waiting {
    uint32_t word, next, before_it, in_line; /* in_line: the store that must be visible before */
    struct ptx_who who;
    struct ptx_message message;
    struct ptx_clock *data;
    uint64_t value, due, number;
    bool early;     /* other threads of the block see it */
    uint8_t scope;  /* a fence has made it visible so far */
    uint32_t place; /* in the heap */
};

struct ptx_weak_agent {
    struct ptx_clock *clocks[PTX_AGENT_WARPS], *arrived[PTX_AGENT_WARPS];
    struct ptx_message *released; /* by each thread's last fence */
    uint32_t rank, gpu, block;
    uint32_t waiting; /* of its stores */
    uint32_t tick;    /* of a host */
    bool host, known;
};

struct ptx_weak {
    struct ptx_weak_options options;
    struct ptx_weak_agent agents[PTX_AGENTS];
    struct ptx_clock *streams[PTX_AGENTS]; /* what the kernels of a stream have left */
    struct ptx_word *words;
    struct ptx_waiting *waiting;
    uint32_t *heap, nheap, room, unused; /* waiting stores by the time that they become visible */
    uint64_t random, now, number;
    bool no_memory;
    char suspect[600];
};

uint64_t ptx_weak_random(struct ptx_weak *weak);
/* Agents and words of an address; the text says who made an access, and where. */
struct ptx_word *ptx_weak_word(struct ptx_weak *weak, uint64_t address);
void ptx_weak_describe(const struct ptx_weak *weak, const struct ptx_who *who, char *text,
                       size_t size);

/* ptx_weak_buffer.c: a store waits, after `in_line` if that is a waiting store; its number here. */
uint32_t ptx_weak_wait(struct ptx_weak *weak, uint32_t word, const struct ptx_who *who,
                       uint64_t value, uint32_t in_line);
/* Time passes; a fence; all that waits for a word becomes visible. */
void ptx_weak_pass(struct ptx_weak *weak, uint64_t time);
void ptx_weak_flush(struct ptx_weak *weak, const struct ptx_warp *warp, uint32_t lanes,
                    uint8_t scope);
void ptx_weak_settle(struct ptx_weak *weak, uint32_t word);
/* The smallest scope that has both. */
uint8_t ptx_weak_between(const struct ptx_weak *weak, uint32_t agent, uint32_t other);

#endif
