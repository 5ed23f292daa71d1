/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TEST_SELECTION_H
#define GPURING_TEST_SELECTION_H

#include "mca/coll_gpuring/engine/select.h"

/* Return why calls of this size, in bytes of the vector or of a block, are delegated, or NONE. */
static inline enum gpuring_reason why_delegated(const struct gpuring_select_config *config,
                                                enum gpuring_collective collective, uint64_t bytes)
{
    struct gpuring_selection choice;

    gpuring_select(config, collective, bytes, 1, &choice);
    return choice.delegated;
}

static inline bool delegates(const struct gpuring_select_config *config,
                             enum gpuring_collective collective, uint64_t bytes)
{
    return why_delegated(config, collective, bytes) != GPURING_REASON_NONE;
}

/* Return the algorithm for a broadcast of this size. */
static inline enum gpuring_algorithm algorithm_of_bcast(const struct gpuring_select_config *config,
                                                        uint64_t bytes)
{
    struct gpuring_selection choice;

    gpuring_select(config, GPURING_COLLECTIVE_BCAST, bytes, 1, &choice);
    return choice.algorithm;
}

#endif
