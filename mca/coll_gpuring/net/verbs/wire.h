/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How posts and completions name each other: immediate values between peers, whose formats stand in
 * verbs.h, and the ids of work requests. For net/verbs/post.c and net/verbs/complete.c.
 */
#ifndef GPURING_NET_VERBS_WIRE_H
#define GPURING_NET_VERBS_WIRE_H

#include "mca/coll_gpuring/net/verbs/verbs.h"

#define VERBS_IMM_CONTROL      3u
#define VERBS_IMM_STEP_BITS    16
#define VERBS_IMM_PAIR_BITS    14 /* of data: the head of the pair, above the step */
#define VERBS_IMM_HEAD_BITS    30
#define VERBS_IMM_NUMBER_BITS  22
#define VERBS_IMM_KIND_AT      27
#define VERBS_IMM_RAIL_AT      24
#define VERBS_IMM_PROTOCOL_AT  22
#define VERBS_LOW(value, bits) ((uint32_t) (value) & ((UINT32_C(1) << (bits)) - 1))

_Static_assert(GPURING_PROTOCOL_COUNT <= VERBS_IMM_CONTROL, "two bits of the immediate value");
_Static_assert(GPURING_VERBS_MAX_RAILS <= 8, "three bits of it");

/*
 * Work request ids:  | place of the link in the table | rail | receive | flush | bits of a number |
 *                     63                            32 31  29 28        27      26              0
 */
#define VERBS_ID_RAIL_AT 29
#define VERBS_ID_RECEIVE (UINT64_C(1) << 28)
#define VERBS_ID_FLUSH   (UINT64_C(1) << 27)
#define VERBS_ID_NUMBER  (VERBS_ID_FLUSH - 1)

static inline uint64_t gpuring_verbs_id(const struct gpuring_net_link *link,
                                        const struct gpuring_verbs_rail *rail, uint64_t low)
{
    return (link->base.id & UINT32_MAX) << 32 | (uint64_t) (rail - link->rail) << VERBS_ID_RAIL_AT |
           low;
}

#endif
