/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What all devices have in common. */
#include "mca/coll_gpuring/device/device.h"

#include "mca/coll_gpuring/util/status.h"

int gpuring_device_copy(const struct gpuring_device_ops *ops, struct gpuring_device *device,
                        void *to, const void *from, size_t bytes)
{
    struct gpuring_stream *stream = NULL;
    int status = ops->stream_create(device, &stream);

    if (status == GPURING_OK) {
        status = ops->copy(stream, to, from, bytes);
    }
    if (status == GPURING_OK) {
        status = ops->synchronize(stream);
    }
    ops->stream_destroy(stream);
    return status;
}
