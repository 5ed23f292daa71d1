/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/plans.h"

#include <unistd.h>

#include "mca/coll_gpuring/params.h"

static int param_or_auto(int value)
{
    return value - 1; /* auto is 0; the others follow the core's order */
}
_Static_assert(GPURING_PARAM_ALGORITHM_RING - 1 == (int) GPURING_ALGORITHM_RING &&
                   GPURING_PARAM_ALGORITHM_PACKED - 1 == (int) GPURING_ALGORITHM_PACKED &&
                   GPURING_PARAM_ALGORITHM_PREVIOUS - 1 == GPURING_SELECT_PREVIOUS &&
                   GPURING_PARAM_PROTOCOL_SIMPLE - 1 == (int) GPURING_PROTOCOL_SIMPLE &&
                   GPURING_PARAM_PROTOCOL_LL128 - 1 == (int) GPURING_PROTOCOL_LL128,
               "choices of the parameters in the order of the core");

int gpuring_plans_engine(const struct gpuring_channels *layout,
                         const struct gpuring_gathered *hellos, int rank,
                         const struct gpuring_device_ops *device_ops, struct gpuring_device *device,
                         struct gpuring_engine **engine)
{
    const struct gpuring_node_map *members = layout->members;
    const struct gpuring_hello *hello = gpuring_hello_of(hellos, rank);
    struct gpuring_channel channels[GPURING_MAX_CHANNELS];
    struct gpuring_model_choice_places packed = {.count = 0};
    struct gpuring_engine_config config = {
        .rank = rank,
        .nranks = members->nranks,
        .nnodes = members->nnodes,
        .nrings = layout->nrings,
        .ntrees = layout->ntrees,
        .channels = channels,
        .advice = layout->advice,
        .packed = &packed,
        .oversubscribed =
            gpuring_node_map_local(members, rank, NULL) > sysconf(_SC_NPROCESSORS_ONLN),
        .shared_gpu = gpuring_node_map_sharing(hellos, rank) > 1,
        .patience_us = gpuring_params.patience,
        /* as they were compared: they may have been set anew since */
        .algorithm = param_or_auto((int) hello->shared[GPURING_SHARED_algorithm]),
        .protocol = param_or_auto((int) hello->shared[GPURING_SHARED_protocol]),
        .buffer_bytes = gpuring_params.buffer_size,
        .chunk_bytes = gpuring_params.chunk_size,
    };

    gpuring_channels_channels(layout, rank, channels);
    if (layout->advice != NULL) {
        gpuring_model_choice_place(layout->advice, members, rank, &packed);
    }
    return gpuring_engine_create(&config, device_ops, device, engine);
}
