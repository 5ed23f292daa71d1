/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/devices.h"

#include "mca/coll_gpuring/util/status.h"

static int way_of(enum gpuring_net_direction direction)
{
    return direction == GPURING_NET_SEND ? GPURING_NIC_OUT : GPURING_NIC_IN;
}

static int device_of_channel(void *context, enum gpuring_algorithm algorithm, uint32_t channel,
                             enum gpuring_net_direction direction)
{
    const struct gpuring_wireup_devices *found = context;

    channel %= GPURING_MAX_CHANNELS;
    return algorithm == GPURING_ALGORITHM_TREE ? found->channels.tree[channel][way_of(direction)]
                                               : found->channels.ring[channel][way_of(direction)];
}

/* Where the topology does not know the device nobody knows how far it is. */
static bool near_enough(void *context, int net_device, enum gpuring_net_direction direction)
{
    const struct gpuring_wireup_devices *found = context;

    return net_device < found->count &&
           gpuring_nic_select_direct(found->routes, &found->devices[net_device], way_of(direction),
                                     gpuring_params.gdr_level == GPURING_PARAM_LEVEL_SYS);
}

void gpuring_wireup_devices_find(const struct gpuring_channels *layout,
                                 const struct gpuring_nic_select *routes,
                                 struct gpuring_wireup_devices *found,
                                 struct gpuring_transport_config *config)
{
    *found = (struct gpuring_wireup_devices){.routes = routes};
    if (config->net_ops->devices(config->net, &found->devices, &found->count) != GPURING_OK) {
        found->count = 0;
    }
    gpuring_channels_nics(layout, config->rank, routes, found->devices, found->count,
                          &found->channels);
    config->net_device = device_of_channel;
    config->net_device_context = found;
    config->net_direct = near_enough;
    config->net_direct_context = found;
}
