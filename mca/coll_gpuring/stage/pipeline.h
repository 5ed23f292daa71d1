/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staged blocking calls that are cut into chunks if they are large: gpuring_pipeline_<name>, for
 * Open MPI's tables. stage/cut.h says how; here is what a chunk of each collective is.
 *
 * stage/pipeline.c: a chunk is a piece of the vector. stage/blocks.c: it is a piece of every block.
 */
#ifndef GPURING_STAGE_PIPELINE_H
#define GPURING_STAGE_PIPELINE_H

#include <stdlib.h>

#include "mca/coll_gpuring/stage/cut.h"

#define GPURING_PIPELINE_DECLARE(name, list) \
    int gpuring_pipeline_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING);
GPURING_CUT_COLLECTIVES(GPURING_PIPELINE_DECLARE)
#undef GPURING_PIPELINE_DECLARE

/*
 * The function of a collective: in chunks if `large` is true of its arguments (of `self`, this
 * communicator's module, and of those of the list) and all ranks can, else staged as a whole.
 * cut_<name>, of the same arguments, says what a chunk is.
 */
#define GPURING_PIPELINE_DEFINE(name, list, large)                              \
    int gpuring_pipeline_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING) \
    {                                                                           \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module; \
                                                                                \
        if (large) {                                                            \
            struct gpuring_cut cut = cut_##name(self, GPURING_VALUES_##list);   \
            bool done;                                                          \
            int result;                                                         \
                                                                                \
            gpuring_describe_##name(&cut.whole, comm, GPURING_VALUES_##list);   \
            result = gpuring_cut_run(&cut, &done);                              \
            free(cut.lengths);                                                  \
            if (done) {                                                         \
                return result;                                                  \
            }                                                                   \
        }                                                                       \
        return gpuring_stage_##name(GPURING_VALUES_##list, comm, module);       \
    }

/* Of a vector. */
static inline bool gpuring_pipeline_large(const mca_coll_gpuring_module_t *module,
                                          gpuring_count_t count, const struct ompi_datatype_t *type)
{
    return gpuring_cut_large(module, 1, gpuring_cut_bytes(count, type));
}

#endif
