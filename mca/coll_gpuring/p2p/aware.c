/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/aware.h"

#include <stdlib.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/p2p/message.h"
#include "mca/coll_gpuring/p2p/p2p.h"
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

static int begin(const void *buffer, size_t count, MPI_Datatype type, bool in, void **handle,
                 void **host, size_t *bytes)
{
    struct gpuring_p2p_message *message = malloc(sizeof *message);
    int status;

    if (message == NULL || !gpuring_p2p_message_find(message, buffer, count, type) ||
        gpuring_p2p_message_describe(message, count, type) != GPURING_OK ||
        gpuring_p2p_message_reserve(message) != GPURING_OK) {
        free(message);
        return MPI_ERR_NO_MEM;
    }
    status = in ? gpuring_p2p_message_copy_in(message) : GPURING_OK;
    if (status != GPURING_OK) {
        gpuring_p2p_message_release(message);
        free(message);
        return gpuring_compat_error(status);
    }
    *handle = message;
    *host = gpuring_p2p_message_host(message);
    *bytes = message->bytes;
    return MPI_SUCCESS;
}

static int end(void *handle, size_t bytes_out)
{
    struct gpuring_p2p_message *message = handle;
    int status = bytes_out > 0 ? gpuring_p2p_message_copy_out(message, bytes_out) : GPURING_OK;

    gpuring_p2p_message_release(message);
    free(message);
    return gpuring_compat_error(status);
}

const struct gpuring_aware gpuring_p2p_aware = {.version = GPURING_AWARE_VERSION,
                                                .serves = serves,
                                                .on_gpu = on_gpu,
                                                .begin = begin,
                                                .end = end};
