/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/agreement.h"

#include <stdlib.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/plans.h"

/* 0 also where the algorithm is not eligible. */
static int check_algorithm(enum gpuring_algorithm algorithm,
                           const struct gpuring_channels *channels,
                           const struct gpuring_gathered *hellos)
{
    int n = channels->map->nranks, status = GPURING_OK;
    struct gpuring_plan **plans = calloc((size_t) n, sizeof(struct gpuring_plan *));
    struct gpuring_channel places[GPURING_MAX_CHANNELS];
    char text[512] = "";

    if (plans == NULL) {
        gpuring_error("out of memory to check the plans of %d ranks", n);
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < n && status == GPURING_OK; rank++) {
        struct gpuring_engine_config config =
            gpuring_plans_config(channels, hellos, &gpuring_process.tuning, rank, places);

        status = gpuring_engine_plan(&config, algorithm, &plans[rank]);
    }
    if (status == GPURING_OK && plans[0] != NULL) {
        status = gpuring_plan_check((const struct gpuring_plan *const *) plans, n,
                                    GPURING_ENGINE_SLOTS, text, sizeof text);
        if (status == GPURING_ERR_DATA) {
            gpuring_compat_help("no plan", text);
        } else if (status == GPURING_OK) {
            gpuring_info("[plans-proven] check of plans: %s over %d ranks in %u lanes is proven",
                         gpuring_algorithm_text(algorithm), n, plans[0]->nlanes);
        }
    }
    for (int rank = 0; rank < n; rank++) {
        gpuring_plan_free(plans[rank]);
    }
    free(plans);
    return status;
}

int gpuring_wireup_check_plans(const struct gpuring_channels *channels,
                               const struct gpuring_gathered *hellos)
{
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < GPURING_ALGORITHM_COUNT; i++) {
        status = check_algorithm((enum gpuring_algorithm) i, channels, hellos);
    }
    return status;
}
