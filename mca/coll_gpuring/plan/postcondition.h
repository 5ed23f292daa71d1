/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The result that each collective must produce, which the checker proves. Internal to plan/. */
#ifndef GPURING_PLAN_POSTCONDITION_H
#define GPURING_PLAN_POSTCONDITION_H

#include "mca/coll_gpuring/plan/plan.h"

/*
 * Final content of one chunk (or block) of a rank's output: the folded contributions of the ranks
 * first .. end - 1. Each contribution is chunk `from` of that rank's input. Nothing may be stored
 * if first == end.
 */
struct gpuring_expected {
    int first, end;
    uint64_t from;
};
struct gpuring_expected gpuring_plan_expected(const struct gpuring_plan *plan, int rank,
                                              uint64_t chunk);

/* Return the chunk of a rank's input that storing `chunk` overwrites with MPI_IN_PLACE. Messages
 * are never in place, so it is the block for the own rank, which no lane reads. */
uint64_t gpuring_plan_overwrites(const struct gpuring_plan *plan, int rank, uint64_t chunk);

#endif
