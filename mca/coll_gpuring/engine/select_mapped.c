/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Allreduces on mapped buffers; see select.h. */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"
#include "mca/coll_gpuring/params.h"

/* In a chunk of MAPPED_PART bytes, each thread of a block has one pack. Chunks are limited because
 * executors count their bytes in 32 bits. */
#define MAPPED_PART  (8 << 10)
#define MAPPED_CHUNK (UINT64_C(1) << 30)

bool gpuring_select_maps(const struct gpuring_select_config *config,
                         enum gpuring_collective collective, uint64_t bytes)
{
    const struct gpuring_tuning_rule *file =
        gpuring_tuning_at(config->tuning, (int) collective, bytes);
    bool chosen = config->algorithm >= 0 || config->protocol >= 0 ||
                  file->algorithm != GPURING_PARAM_ALGORITHM_AUTO ||
                  file->protocol != GPURING_PARAM_PROTOCOL_AUTO;

    return config->slot_bytes[GPURING_SET_MAPPED][GPURING_PROTOCOL_SIMPLE] > 0 && !chosen &&
           collective == GPURING_COLLECTIVE_ALLREDUCE &&
           config->model.mapped[gpuring_model_index(bytes)];
}

void gpuring_select_mapped(const struct gpuring_select_config *config, uint64_t bytes,
                           uint32_t type_size, struct gpuring_selection *choice)
{
    uint64_t filled = bytes / ((uint64_t) config->nranks * MAPPED_PART);
    uint32_t least = config->min_channels > 1 ? config->min_channels : 1;
    uint32_t all = config->channels[GPURING_SET_MAPPED];

    *choice = (struct gpuring_selection){.algorithm = GPURING_ALGORITHM_TWO_SHOT,
                                         .set = GPURING_SET_MAPPED,
                                         .protocol = GPURING_PROTOCOL_SIMPLE,
                                         .channels = filled >= all    ? all
                                                     : filled > least ? (uint32_t) filled
                                                                      : least,
                                         .chunk = MAPPED_CHUNK / type_size};
}
