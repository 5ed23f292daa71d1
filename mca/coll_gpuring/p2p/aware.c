/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/aware.h"

#include <stdlib.h>

#include "mca/coll_gpuring/p2p/message.h"
#include "mca/coll_gpuring/p2p/p2p.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/status.h"

static bool serves(void)
{
    return gpuring_p2p_serves() || gpuring_compat_cuda_aware();
}

/* And Open MPI does not take it: one that was built with CUDA does. */
static bool on_gpu(const void *buffer, size_t count, MPI_Datatype type)
{
    struct gpuring_p2p_message message;

    return gpuring_memory_possible() && !gpuring_compat_cuda_aware() &&
           gpuring_p2p_message_find(&message, buffer, count, type);
}

static int copy(struct gpuring_p2p_message *message, size_t bytes, bool in)
{
    int status = gpuring_p2p_message_start(message, bytes, in);

    return status == GPURING_OK ? gpuring_p2p_message_wait(message) : status;
}

static int end(void *handle, size_t bytes_out)
{
    struct gpuring_p2p_message *message = handle;
    int status = bytes_out > 0 ? copy(message, bytes_out, false) : GPURING_OK;

    gpuring_p2p_message_release(message);
    free(message);
    return gpuring_compat_error(status);
}

static int begin(const void *buffer, size_t count, MPI_Datatype type, bool in, void **handle,
                 void **host, size_t *bytes)
{
    struct gpuring_p2p_message *message = malloc(sizeof *message);
    int status;

    if (message == NULL || !gpuring_p2p_message_find(message, buffer, count, type)) {
        free(message);
        return MPI_ERR_NO_MEM;
    }
    status = gpuring_p2p_message_describe(message);
    status = status == GPURING_OK ? gpuring_p2p_message_reserve(message) : status;
    status = status == GPURING_OK && in ? copy(message, message->bytes, true) : status;
    if (status != GPURING_OK) {
        (void) end(message, 0);
        return gpuring_compat_error(status);
    }
    *handle = message;
    *host = gpuring_p2p_message_landing(message);
    *bytes = message->bytes;
    return MPI_SUCCESS;
}

const struct gpuring_aware gpuring_p2p_aware = {.version = GPURING_AWARE_VERSION,
                                                .serves = serves,
                                                .on_gpu = on_gpu,
                                                .begin = begin,
                                                .end = end};
