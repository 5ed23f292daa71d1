/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* From the channels of a communicator to the engine of one rank. No MPI. */
#ifndef GPURING_WIREUP_PLANS_H
#define GPURING_WIREUP_PLANS_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/topology/channels.h"

/* What the plans of `rank` are made from; places: room for GPURING_MAX_CHANNELS. */
struct gpuring_engine_config gpuring_plans_config(const struct gpuring_channels *channels,
                                                  const struct gpuring_gathered *hellos,
                                                  const struct gpuring_tuning *tuning, int rank,
                                                  struct gpuring_channel *places);

/* Plans and FIFO sizes of `rank`; the transport is still to be added. */
int gpuring_plans_engine(const struct gpuring_channels *channels,
                         const struct gpuring_gathered *hellos, const struct gpuring_tuning *tuning,
                         int rank, const struct gpuring_device_ops *device_ops,
                         struct gpuring_device *device, struct gpuring_engine **engine);

#endif
