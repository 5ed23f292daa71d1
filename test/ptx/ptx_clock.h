/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What agents know of each other's past, and who has accessed a word; see ptx_weak.h. */
#ifndef GPURING_PTX_CLOCK_H
#define GPURING_PTX_CLOCK_H

#include "test/ptx/ptx_machine.h"
#include "test/ptx/ptx_weak.h"

/*
 * Ticks are those of ptx_race.c. until[a][w]: what warp w of agent a did up to this tick comes
 * before, by causality order. after[a][w]: it also comes before by the data of lines, which depends
 * on what the sender has read: nothing that is written with it can have been read before (PTX has
 * no values out of thin air).
 */
struct ptx_clock {
    uint32_t users;
    uint64_t id;
    uint64_t joined[PTX_AGENTS]; /* the last clock of each agent that was joined */
    uint32_t until[PTX_AGENTS][PTX_AGENT_WARPS], after[PTX_AGENTS][PTX_AGENT_WARPS];
};

/* What a release passes on; clock NULL: nothing. */
struct ptx_message {
    struct ptx_clock *clock;
    uint8_t agent, scope;
};

/* An access. mask: bytes of the word; 0: there was none. */
struct ptx_who {
    uint32_t pc, tick;
    uint16_t thread;
    uint8_t agent, mask, strong, scope;
};

/* Clocks that others use are never changed. *place is replaced. NULL: no memory, *place stays. */
struct ptx_clock *ptx_clock_new(const struct ptx_clock *like);
void ptx_clock_set(struct ptx_clock **place, struct ptx_clock *clock);
/* Make *place a clock that nothing else uses; false: no memory. */
bool ptx_clock_own(struct ptx_clock **place);
/* *place learns what the other one knows, or what its data depends on alone; false: no memory. */
bool ptx_clock_join(struct ptx_clock **place, const struct ptx_clock *other);
bool ptx_clock_depend(struct ptx_clock **place, const struct ptx_clock *other);
/* What an agent's own warp did up to this tick is passed on. */
void ptx_clock_add(struct ptx_clock *clock, uint32_t agent, uint32_t warp, uint32_t tick);
/* And what a message of a release passes on. */
bool ptx_clock_receive(struct ptx_clock **place, const struct ptx_message *message);
bool ptx_clock_covers(const struct ptx_clock *clock, const struct ptx_who *who);
/* The same if what was done is a read, and is asked for by a write. */
bool ptx_clock_follows(const struct ptx_clock *clock, const struct ptx_who *who);

#endif
