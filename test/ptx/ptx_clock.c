/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/ptx/ptx_clock.h"

#include <stdlib.h>
#include <string.h>

struct ptx_clock *ptx_clock_new(const struct ptx_clock *like, uint32_t nagents)
{
    static uint64_t ids;
    size_t bytes = sizeof(struct ptx_clock) + nagents * sizeof like->of[0];
    struct ptx_clock *clock = calloc(1, bytes);

    if (clock != NULL) {
        if (like != NULL) {
            memcpy(clock, like, bytes);
        }
        clock->users = 0;
        clock->nagents = nagents;
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

bool ptx_clock_own(struct ptx_clock **place, uint32_t nagents)
{
    struct ptx_clock *clock = *place;

    if (clock != NULL && clock->users == 1) {
        return true;
    }
    clock = ptx_clock_new(clock, nagents);
    if (clock != NULL) {
        ptx_clock_set(place, clock);
    }
    return clock != NULL;
}

static void join(uint32_t mine[PTX_AGENT_WARPS], const uint32_t theirs[PTX_AGENT_WARPS])
{
    for (uint32_t w = 0; w < PTX_AGENT_WARPS; w++) {
        mine[w] = theirs[w] > mine[w] ? theirs[w] : mine[w];
    }
}

bool ptx_clock_depend(struct ptx_clock **place, const struct ptx_clock *other)
{
    if (other == NULL || *place == other) {
        return true;
    }
    if (!ptx_clock_own(place, other->nagents)) {
        return false;
    }
    for (uint32_t a = 0; a < other->nagents; a++) {
        join((*place)->of[a].after, other->of[a].after);
    }
    return true;
}

bool ptx_clock_join(struct ptx_clock **place, const struct ptx_clock *other)
{
    if (!ptx_clock_depend(place, other)) {
        return false;
    }
    for (uint32_t a = 0; other != NULL && *place != other && a < other->nagents; a++) {
        join((*place)->of[a].until, other->of[a].until);
    }
    return true;
}

void ptx_clock_add(struct ptx_clock *clock, uint32_t agent, uint32_t warp, uint32_t tick)
{
    clock->of[agent].until[warp] = clock->of[agent].after[warp] = tick;
}

bool ptx_clock_receive(struct ptx_clock **place, const struct ptx_message *message)
{
    const struct ptx_clock *clock = message->clock;
    uint32_t agent = message->agent;

    if (*place != NULL && (*place)->of[agent].joined == clock->id) {
        return true;
    }
    if (!ptx_clock_join(place, clock) || !ptx_clock_own(place, clock->nagents)) {
        return false;
    }
    (*place)->of[agent].joined = clock->id;
    return true;
}

bool ptx_clock_covers(const struct ptx_clock *clock, const struct ptx_who *who)
{
    return clock != NULL && who->tick <= clock->of[who->agent].until[who->thread / PTX_LANES];
}

bool ptx_clock_follows(const struct ptx_clock *clock, const struct ptx_who *who)
{
    return clock != NULL && who->tick <= clock->of[who->agent].after[who->thread / PTX_LANES];
}
