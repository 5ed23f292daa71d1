/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Builders on the connections of another plan, by its algorithm. Internal to plan/. */
#ifndef GPURING_PLAN_BUILD_ON_H
#define GPURING_PLAN_BUILD_ON_H

#include "mca/coll_gpuring/plan/writer.h"

/* For each: is there a plan of a collective, and that plan, as gpuring_plan_build_on. */
bool gpuring_on_ring_exists(enum gpuring_collective collective);
int gpuring_on_ring_build(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan);

bool gpuring_on_chain_exists(enum gpuring_collective collective);
int gpuring_on_chain_build(enum gpuring_collective collective,
                           const struct gpuring_plan_input *input, struct gpuring_plan **plan);

bool gpuring_on_tree_exists(enum gpuring_collective collective);
int gpuring_on_tree_build(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan);

bool gpuring_on_direct_exists(enum gpuring_collective collective);
/* Does it for more than GPURING_DIRECT_AT_ONCE ranks? */
bool gpuring_on_direct_exists_many(enum gpuring_collective collective);
int gpuring_on_direct_build(enum gpuring_collective collective,
                            const struct gpuring_plan_input *input, struct gpuring_plan **plan);

#endif
