/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/agreement.h"

#include <stdlib.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* One rank's plan of an algorithm over the layout. */
typedef int (*builder_fn)(const struct gpuring_channels *layout, int rank,
                          struct gpuring_plan **plan);

static int build_ring(const struct gpuring_channels *layout, int rank, struct gpuring_plan **plan)
{
    struct gpuring_channel channels[GPURING_MAX_CHANNELS];

    gpuring_channels_channels(layout, rank, channels);
    return gpuring_plan_build_ring(rank, layout->members->nranks, channels, layout->nrings, plan);
}

static int build_tree(const struct gpuring_channels *layout, int rank, struct gpuring_plan **plan)
{
    struct gpuring_channel channels[GPURING_MAX_CHANNELS];

    gpuring_channels_channels(layout, rank, channels);
    return gpuring_plan_build_tree(rank, layout->members->nranks, channels, layout->ntrees, plan);
}

static int build_direct(const struct gpuring_channels *layout, int rank, struct gpuring_plan **plan)
{
    return gpuring_plan_build_direct(rank, layout->members->nranks, plan);
}

static int build_packed(const struct gpuring_channels *layout, int rank, struct gpuring_plan **plan)
{
    struct gpuring_model_choice_places places;

    gpuring_model_choice_place(layout->advice, layout->members, rank, &places);
    return gpuring_plan_build_packed(rank, layout->members->nranks, places.place, places.count,
                                     plan);
}

static int check_with(builder_fn build, const struct gpuring_channels *layout)
{
    int n = layout->members->nranks, status = GPURING_OK;
    struct gpuring_plan **plans = calloc((size_t) n, sizeof(struct gpuring_plan *));
    char text[512] = "";

    if (plans == NULL) {
        gpuring_error("out of memory to check the plans of %d ranks", n);
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < n && status == GPURING_OK; rank++) {
        status = build(layout, rank, &plans[rank]);
    }
    if (status == GPURING_OK) {
        status = gpuring_plan_check((const struct gpuring_plan *const *) plans, n,
                                    GPURING_ENGINE_SLOTS, text, sizeof text);
        if (status == GPURING_ERR_DATA) {
            gpuring_compat_help("no plan", text);
        } else if (status == GPURING_OK) {
            gpuring_info("check of plans: %s over %d ranks in %u lanes is proven",
                         gpuring_algorithm_text(plans[0]->algorithm), n, plans[0]->nlanes);
        }
    }
    for (int rank = 0; rank < n; rank++) {
        gpuring_plan_free(plans[rank]);
    }
    free(plans);
    return status;
}

int gpuring_wireup_check_plans(const struct gpuring_channels *layout)
{
    int status = check_with(build_ring, layout);

    if (status == GPURING_OK) {
        status = check_with(build_tree, layout);
    }
    if (status == GPURING_OK && layout->members->nranks <= GPURING_ENGINE_DIRECT_RANKS) {
        status = check_with(build_direct, layout);
    }
    if (status == GPURING_OK && layout->advice != NULL && layout->advice->pack.ntrees > 0) {
        status = check_with(build_packed, layout);
    }
    return status;
}
