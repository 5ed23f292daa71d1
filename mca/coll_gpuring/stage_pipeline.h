/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Staged blocking calls that are cut into chunks if they are large, see stage_pipeline.c. */
#ifndef GPURING_STAGE_PIPELINE_H
#define GPURING_STAGE_PIPELINE_H

#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/stage_list.h"

int gpuring_pipeline_bcast(GPURING_ARGUMENTS_BCAST, GPURING_END_BLOCKING);
int gpuring_pipeline_reduce(GPURING_ARGUMENTS_REDUCE, GPURING_END_BLOCKING);
int gpuring_pipeline_allreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING);

static inline size_t gpuring_pipeline_bytes(gpuring_count_t count,
                                            const struct ompi_datatype_t *type)
{
    return (size_t) count * type->super.size;
}

/* Must the ranks agree on whether a call is cut? The answer must be the same on all of them: it
 * depends on the type signature only. */
static inline bool gpuring_pipeline_large(const mca_coll_gpuring_module_t *module,
                                          gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return OPAL_UNLIKELY(gpuring_pipeline_bytes(count, type) > 2 * gpuring_params.stage_size) &&
           module->stages && module->nranks > 1 && !OMPI_COMM_IS_INTER(module->comm) &&
           module->previous.allreduce != NULL;
}

#endif
