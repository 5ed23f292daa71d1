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

/* What is built on the plans of an algorithm. */
struct on {
    bool (*exists)(enum gpuring_collective collective);
    int (*build)(enum gpuring_collective collective, const struct gpuring_plan_input *input,
                 struct gpuring_plan **plan);
};

static const struct on *on_base(enum gpuring_algorithm algorithm, bool in_order)
{
    static const struct on chain = {gpuring_on_chain_exists, gpuring_on_chain_build};
    static const struct on others[GPURING_ALGORITHM_COUNT] = {
        [GPURING_ALGORITHM_RING] = {gpuring_on_ring_exists, gpuring_on_ring_build},
        [GPURING_ALGORITHM_TREE] = {gpuring_on_tree_exists, gpuring_on_tree_build},
        [GPURING_ALGORITHM_DIRECT] = {gpuring_on_direct_exists, gpuring_on_direct_build},
    };

    return algorithm == GPURING_ALGORITHM_TREE && in_order ? &chain : &others[algorithm];
}

bool gpuring_plan_exists(enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                         bool in_order, int nranks)
{
    const struct on *on = on_base(algorithm, in_order);

    if (algorithm == GPURING_ALGORITHM_DIRECT && nranks > GPURING_DIRECT_AT_ONCE) {
        return gpuring_on_direct_exists_many(collective);
    }
    return collective == GPURING_COLLECTIVE_ALLREDUCE ||
           (on->exists != NULL && on->exists(collective));
}

int gpuring_plan_build_on(enum gpuring_collective collective,
                          const struct gpuring_plan_input *input, struct gpuring_plan **plan)
{
    const struct gpuring_plan *base = input->base;

    return collective != GPURING_COLLECTIVE_ALLREDUCE &&
                   gpuring_plan_exists(collective, base->algorithm, base->in_order, base->nranks)
               ? on_base(base->algorithm, base->in_order)->build(collective, input, plan)
               : GPURING_ERR_UNSUPPORTED;
}
