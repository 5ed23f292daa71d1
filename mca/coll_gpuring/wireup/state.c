/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/state.h"

#include <stdlib.h>

struct gpuring_wireup *gpuring_wireup_create(void)
{
    return calloc(1, sizeof(struct gpuring_wireup));
}

void gpuring_wireup_drop(struct gpuring_wireup *wireup)
{
    gpuring_transport_destroy(wireup->transport);
    wireup->transport = NULL;
    if (!wireup->late) {
        gpuring_engine_destroy(wireup->engine);
        wireup->engine = NULL;
    }
}

void gpuring_wireup_free(struct gpuring_wireup *wireup)
{
    if (wireup == NULL) {
        return;
    }
    gpuring_wireup_drop(wireup);
    gpuring_survey_release(wireup->survey);
    free(wireup);
}
