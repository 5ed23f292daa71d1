/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Vector clocks of agents, and records of accesses to a word; see ptx_weak.h. */
#ifndef GPURING_PTX_CLOCK_H
#define GPURING_PTX_CLOCK_H

#include "test/ptx/ptx_machine.h"
#include "test/ptx/ptx_weak.h"

/*
 * Ticks are those of ptx_race.c. of[a].until[w]: accesses of warp w of agent a up to this tick are
 * earlier in causality order. of[a].after[w]: reads up to this tick are also earlier because of the
 * data of lines. This data depends on values that the sender has read before, and PTX has no values
 * out of thin air.
 */
struct ptx_clock {
    uint32_t users, nagents;
    uint64_t id;
    struct {
        uint64_t joined; /* the last clock of the agent that was joined */
        uint32_t until[PTX_AGENT_WARPS], after[PTX_AGENT_WARPS];
    } of[]; /* each agent */
};

/* The clock that a release passes on, or NULL. */
struct ptx_message {
    struct ptx_clock *clock;
    uint8_t agent, scope;
};

/* An access. `mask` has a bit for each byte of the word; if it is 0, there was no access. */
struct ptx_who {
    uint32_t pc, tick;
    uint16_t thread;
    uint8_t agent, mask, strong, scope;
};

/* Create a clock, or return NULL if there is no memory. A shared clock is never changed, so
 * functions with `place` replace *place. If there is no memory, *place does not change. */
struct ptx_clock *ptx_clock_new(const struct ptx_clock *like, uint32_t nagents);
void ptx_clock_set(struct ptx_clock **place, struct ptx_clock *clock);
/* Replace *place with a clock that is not shared. Return false if there is no memory. */
bool ptx_clock_own(struct ptx_clock **place, uint32_t nagents);
/* Merge another clock into *place: completely, or only as a dependency of data (`after`). Return
 * false if there is no memory. */
bool ptx_clock_join(struct ptx_clock **place, const struct ptx_clock *other);
bool ptx_clock_depend(struct ptx_clock **place, const struct ptx_clock *other);
/* Add the accesses of a warp up to this tick. */
void ptx_clock_add(struct ptx_clock *clock, uint32_t agent, uint32_t warp, uint32_t tick);
/* Merge the clock of a release into *place. Return false if there is no memory. */
bool ptx_clock_receive(struct ptx_clock **place, const struct ptx_message *message);
/* Return true if an access is ordered before the owner of the clock. */
bool ptx_clock_covers(const struct ptx_clock *clock, const struct ptx_who *who);
/* The same for a write after a read, for which dependencies of data are sufficient. */
bool ptx_clock_follows(const struct ptx_clock *clock, const struct ptx_who *who);

#endif
