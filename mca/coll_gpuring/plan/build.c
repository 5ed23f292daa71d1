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
    case GPURING_ALGORITHM_TREE:
        return collective == GPURING_COLLECTIVE_ALLREDUCE || gpuring_on_chain_exists(collective);
    default:
        return collective == GPURING_COLLECTIVE_ALLREDUCE;
    }
}

int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    enum gpuring_algorithm algorithm = input->base->algorithm;

    if (collective == GPURING_COLLECTIVE_ALLREDUCE || !gpuring_plan_exists(collective, algorithm) ||
        (algorithm == GPURING_ALGORITHM_TREE && !input->base->in_order)) {
        return GPURING_ERR_UNSUPPORTED;
    }
    switch (algorithm) {
    case GPURING_ALGORITHM_RING:
        return gpuring_on_ring_build(collective, input, plan);
    case GPURING_ALGORITHM_TREE:
        return gpuring_on_chain_build(collective, input, plan);
    default:
        return gpuring_on_direct_build(collective, input, plan);
    }
}
