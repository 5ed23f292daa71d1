/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/build_on.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_plan_build(enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                       struct gpuring_plan **plan)
{
#define BUILDER(v, name, id, text, help) gpuring_plan_build_##id,
    static int (*const builders[])(const struct gpuring_plan_input *,
                                   struct gpuring_plan **) = {GPURING_ALGORITHMS(BUILDER, )};
#undef BUILDER

    return builders[algorithm](input, plan);
}

bool gpuring_plan_exists(enum gpuring_collective collective, enum gpuring_algorithm algorithm)
{
    switch (algorithm) {
    case GPURING_ALGORITHM_RING:
        return collective == GPURING_COLLECTIVE_ALLREDUCE || gpuring_on_ring_exists(collective);
    case GPURING_ALGORITHM_DIRECT:
        return collective == GPURING_COLLECTIVE_ALLREDUCE || gpuring_on_direct_exists(collective);
    default:
        return collective == GPURING_COLLECTIVE_ALLREDUCE;
    }
}

int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    if (collective == GPURING_COLLECTIVE_ALLREDUCE ||
        !gpuring_plan_exists(collective, input->base->algorithm)) {
        return GPURING_ERR_UNSUPPORTED;
    }
    return input->base->algorithm == GPURING_ALGORITHM_RING
               ? gpuring_on_ring_build(collective, input, plan)
               : gpuring_on_direct_build(collective, input, plan);
}
