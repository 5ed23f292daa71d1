/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/ptx/ptx_clock.h"

#include <stdlib.h>

struct ptx_clock *ptx_clock_new(const struct ptx_clock *like)
{
    static uint64_t ids;
    struct ptx_clock *clock = calloc(1, sizeof *clock);

    if (clock != NULL) {
        if (like != NULL) {
            *clock = *like;
        }
        clock->users = 0;
        clock->id = ++ids;
    }
    return clock;
}

void ptx_clock_set(struct ptx_clock **place, struct ptx_clock *clock)
{
    struct ptx_clock *old = *place;

    if (clock != NULL) {
        clock->users++;
    }
    *place = clock;
    if (old != NULL && --old->users == 0) {
        free(old);
    }
}

bool ptx_clock_own(struct ptx_clock **place)
{
    struct ptx_clock *clock = *place;

    if (clock != NULL && clock->users == 1) {
        return true;
    }
    clock = ptx_clock_new(clock);
    if (clock != NULL) {
        ptx_clock_set(place, clock);
    }
    return clock != NULL;
}

static void join(uint32_t mine[PTX_AGENTS][PTX_AGENT_WARPS],
                 const uint32_t theirs[PTX_AGENTS][PTX_AGENT_WARPS])
{
    for (uint32_t a = 0; a < PTX_AGENTS; a++) {
        for (uint32_t w = 0; w < PTX_AGENT_WARPS; w++) {
            mine[a][w] = theirs[a][w] > mine[a][w] ? theirs[a][w] : mine[a][w];
        }
    }
}

bool ptx_clock_depend(struct ptx_clock **place, const struct ptx_clock *other)
{
    if (other == NULL || *place == other) {
        return true;
    }
    if (!ptx_clock_own(place)) {
        return false;
    }
    join((*place)->after, other->after);
    return true;
}

bool ptx_clock_join(struct ptx_clock **place, const struct ptx_clock *other)
{
    if (!ptx_clock_depend(place, other)) {
        return false;
    }
    if (other != NULL && *place != other) {
        join((*place)->until, other->until);
    }
    return true;
}

void ptx_clock_add(struct ptx_clock *clock, uint32_t agent, uint32_t warp, uint32_t tick)
{
    clock->until[agent][warp] = clock->after[agent][warp] = tick;
}

bool ptx_clock_receive(struct ptx_clock **place, const struct ptx_message *message)
{
    uint32_t agent = message->agent;

    if (*place != NULL && (*place)->joined[agent] == message->clock->id) {
        return true;
    }
    if (!ptx_clock_join(place, message->clock) || !ptx_clock_own(place)) {
        return false;
    }
    (*place)->joined[agent] = message->clock->id;
    return true;
}

bool ptx_clock_covers(const struct ptx_clock *clock, const struct ptx_who *who)
{
    return clock != NULL && who->tick <= clock->until[who->agent][who->thread / PTX_LANES];
}

bool ptx_clock_follows(const struct ptx_clock *clock, const struct ptx_who *who)
{
    return clock != NULL && who->tick <= clock->after[who->agent][who->thread / PTX_LANES];
}
