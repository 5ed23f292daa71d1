/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/plan.h"

int gpuring_plan_build(enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                       struct gpuring_plan **plan)
{
#define BUILDER(v, name, id, text, help) gpuring_plan_build_##id,
    static int (*const builders[])(const struct gpuring_plan_input *,
                                   struct gpuring_plan **) = {GPURING_ALGORITHMS(BUILDER, )};
#undef BUILDER

    return builders[algorithm](input, plan);
}
