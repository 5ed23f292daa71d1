/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What each collective promises: what the checker proves. Internal to plan/. */
#ifndef GPURING_PLAN_POSTCONDITION_H
#define GPURING_PLAN_POSTCONDITION_H

#include "mca/coll_gpuring/plan/plan.h"

/*
 * What a rank's output has in a chunk (or block) in the end: the contributions of the ranks first
 * .. end - 1, each the chunk `from` of its input; first == end: nothing is stored there.
 */
struct gpuring_expected {
    int first, end;
    uint64_t from;
};
struct gpuring_expected gpuring_plan_expected(const struct gpuring_plan *plan, int rank,
                                              uint64_t chunk);

/* In place: the chunk of the input that storing this one overwrites. */
uint64_t gpuring_plan_overwrites(const struct gpuring_plan *plan, uint64_t chunk);

#endif
