/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which devices of the net carry a communicator's connections, and which of these may reach the
 * GPU's memory directly: what the transport asks for.
 */
#ifndef GPURING_WIREUP_DEVICES_H
#define GPURING_WIREUP_DEVICES_H

#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/transport/transport.h"

struct gpuring_wireup_devices {
    struct gpuring_channel_nics channels;
    const struct gpuring_nic_select *routes;
    const struct gpuring_net_device *devices;
    int count;
};

/* Fills *found, and lets the config, which has its rank and its net, ask it. */
void gpuring_wireup_devices_find(const struct gpuring_channels *layout,
                                 const struct gpuring_nic_select *routes,
                                 struct gpuring_wireup_devices *found,
                                 struct gpuring_transport_config *config);

#endif
