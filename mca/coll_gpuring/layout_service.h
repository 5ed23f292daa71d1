/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* From the channels of a communicator to the service of one rank. No MPI. */
#ifndef GPURING_LAYOUT_SERVICE_H
#define GPURING_LAYOUT_SERVICE_H

#include "mca/coll_gpuring/layout.h"
#include "mca/coll_gpuring/service.h"

/* Plans and FIFO sizes of `rank`; the transport is still to be added. */
int gpuring_layout_service(const struct gpuring_layout *layout,
                           const struct gpuring_gathered *hellos, int rank,
                           const struct gpuring_device_ops *device_ops,
                           struct gpuring_device *device, struct gpuring_service **service);

#endif
