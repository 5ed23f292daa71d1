/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Copies by a kernel (kernels/move.h). Unlike a copy by the driver, such a kernel can wait for the
 * data, and the host detects its end with a load of pinned memory.
 */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ASK_NS UINT64_C(1000000)

/* Launch the kernel. Called in the device's context. */
static CUresult launch_move(struct gpuring_stream *stream, const struct gpuring_move *move)
{
    CUresult result = gpuring_cuda_follow(stream);

    stream->launch_seq++;
    stream->asked = gpuring_now_ns();
    return result != CUDA_SUCCESS
               ? result
               : gpuring_cuda_graph_launch(stream, stream->device->move, gpuring_move_blocks(move),
                                           GPURING_MOVE_THREADS, move);
}

bool gpuring_cuda_moves(const struct gpuring_device *device)
{
    return device->move != NULL && !device->needs_driver_completion;
}

int gpuring_cuda_move(struct gpuring_stream *stream, const struct gpuring_move *move)
{
    struct gpuring_device *device = stream->device;
    int status;

    if (stream->stream == NULL) {
        return gpuring_cuda_report_lost(device);
    }
    status = gpuring_cuda_enter(device);
    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_cuda_check_stream(device, launch_move(stream, move),
                                       "launch a kernel that copies a message");
    gpuring_cuda_leave(device);
    return status;
}

/* Return true if all blocks have ended. */
static bool has_ended(const struct gpuring_move *move)
{
    for (uint32_t i = 0; i < gpuring_move_blocks(move); i++) {
        /* This acquire pairs with the fence at the end of the block. */
        if (__atomic_load_n(&move->ends[i], __ATOMIC_ACQUIRE) >> 1 != move->number) {
            return false;
        }
    }
    return true;
}

int gpuring_cuda_moved(struct gpuring_stream *stream, const struct gpuring_move *move)
{
    uint64_t now;
    int status;

    if (has_ended(move)) {
        return GPURING_OK;
    }
    now = gpuring_now_ns();
    if (now - stream->asked < ASK_NS) {
        return GPURING_AGAIN;
    }
    stream->asked = now;
    status = gpuring_cuda_query(stream);
    return status == GPURING_OK && !has_ended(move) ? gpuring_cuda_kernel_lost() : status;
}
