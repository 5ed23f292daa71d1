/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/build.h"

#include <stdlib.h>

const char *gpuring_collective_text(enum gpuring_collective collective)
{
#define TEXT(name, text, blocks) text,
    static const char *const texts[] = {GPURING_PLAN_COLLECTIVES(TEXT)};
#undef TEXT

    return texts[collective];
}

const char *gpuring_algorithm_text(enum gpuring_algorithm algorithm)
{
#define TEXT(v, name, id, text, help) text,
    static const char *const texts[] = {GPURING_ALGORITHMS(TEXT, )};
#undef TEXT

    return texts[algorithm];
}

void gpuring_plan_free(struct gpuring_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    free(plan->lanes);
    free(plan->recvs);
    free(plan->sends);
    free(plan->steps);
    free(plan->refs);
    free(plan);
}

uint32_t gpuring_plan_key(const struct gpuring_plan *plan, uint32_t part, bool down)
{
    return (uint32_t) plan->algorithm << 28 | part << 1 | down;
}

uint32_t gpuring_plan_channel(const struct gpuring_plan *plan, uint32_t key)
{
    return ((key & UINT32_C(0xfffffff)) >> 1) / plan->parts;
}

uint32_t gpuring_plan_channels(const struct gpuring_plan *plan)
{
    return plan->weight / plan->parts;
}

uint32_t gpuring_plan_first_lanes(const struct gpuring_plan *plan, uint32_t channels,
                                  uint32_t *parts)
{
    uint64_t wanted = channels * (uint64_t) plan->parts;
    uint32_t lanes = 0;

    *parts = wanted < plan->weight ? (uint32_t) wanted : plan->weight;
    while (lanes < plan->nlanes && plan->lanes[lanes].part_begin < *parts) {
        lanes++; /* builders go through the channels in order */
    }
    return lanes;
}
