/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staged blocking calls that are cut into chunks if they are large: gpuring_pipeline_<name>, for
 * Open MPI's tables. stage_cut.h says how; here is what a chunk of each collective is.
 *
 * stage_pipeline.c: a chunk is a piece of the vector. stage_blocks.c: it is a piece of every block.
 */
#ifndef GPURING_STAGE_PIPELINE_H
#define GPURING_STAGE_PIPELINE_H

#include "mca/coll_gpuring/stage_cut.h"

#define GPURING_PIPELINE_DECLARE(name, list) \
    int gpuring_pipeline_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING);
GPURING_CUT_COLLECTIVES(GPURING_PIPELINE_DECLARE)
#undef GPURING_PIPELINE_DECLARE

/* Of a vector. */
static inline bool gpuring_pipeline_large(const mca_coll_gpuring_module_t *module,
                                          gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return gpuring_cut_large(module, 1, gpuring_cut_bytes(count, type));
}

#endif
