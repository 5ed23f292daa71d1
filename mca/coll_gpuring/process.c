/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/process.h"

#include <string.h>

#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/memory.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup_format.h"

#include "gpuring_config.h"

struct gpuring_process gpuring_process = {
    .world_rank = -1,
    .output = -1,
    .gpu = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

#define CLOSE_SECONDS 2.0 /* for transfers under way when the process ends */

/* Under gpuring_process.lock: */
static bool attached;                      /* the device knows its GPU */
static struct gpuring_stream *copy_stream; /* of gpuring_process_copy; NULL until it is needed */

static const struct gpuring_device_ops *asked_device(void)
{
    switch (gpuring_params.device) {
    case GPURING_PARAM_DEVICE_HOST:
        return &gpuring_device_host;
#if GPURING_HAVE_CUDA
    case GPURING_PARAM_DEVICE_AUTO:
    case GPURING_PARAM_DEVICE_CUDA:
        return &gpuring_device_cuda;
#endif
    default:
        return NULL;
    }
}

/* The CUDA device takes no part in anything until a buffer of a GPU comes: the application may load
 * the driver and make its context long after MPI_Init, or never. */
void gpuring_process_open_device(void)
{
    const struct gpuring_device_ops *ops = asked_device();

    if (ops != NULL && ops->open(&gpuring_process.device) == GPURING_OK) {
        gpuring_process.device_ops = ops;
    } else if (ops == NULL && gpuring_params.device == GPURING_PARAM_DEVICE_CUDA) {
        gpuring_compat_help("device missing", gpuring_process.hostname);
    }
}

int gpuring_process_attach(const void *buffer)
{
    struct gpuring_pointer pointer = gpuring_memory_of(buffer);
    int status = GPURING_OK;

    pthread_mutex_lock(&gpuring_process.lock);
    if (!attached) {
        status = gpuring_process.device_ops->attach(gpuring_process.device, &pointer);
        attached = status == GPURING_OK;
        gpuring_process.gpu = attached ? pointer.ordinal : -1;
    }
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

int gpuring_process_copy(void *to, const void *from, size_t bytes)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = GPURING_OK;

    if (ops->kind == GPURING_DEVICE_HOST) {
        memcpy(to, from, bytes);
        return GPURING_OK;
    }
    pthread_mutex_lock(&gpuring_process.lock);
    if (copy_stream == NULL) {
        status = ops->stream_create(gpuring_process.device, &copy_stream);
    }
    if (status == GPURING_OK) {
        status = ops->copy(copy_stream, to, from, bytes);
    }
    if (status == GPURING_OK) {
        status = ops->synchronize(copy_stream);
    }
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

/* The net to use, or NULL with a line that says why there is none. */
static const struct gpuring_net_ops *choose_net(uint32_t capabilities)
{
    int asked = gpuring_params.net;

#if GPURING_HAVE_VERBS
    if (asked == GPURING_PARAM_NET_VERBS ||
        (asked == GPURING_PARAM_NET_AUTO && (capabilities & GPURING_CAPABILITY_VERBS) != 0)) {
        return &gpuring_net_verbs;
    }
#endif
#if GPURING_HAVE_UCX
    if (asked == GPURING_PARAM_NET_UCX ||
        (asked == GPURING_PARAM_NET_AUTO && (capabilities & GPURING_CAPABILITY_UCX) != 0)) {
        return &gpuring_net_ucx;
    }
#endif
    gpuring_error("the ranks are on several nodes, and no network connects them: "
                  "coll_gpuring_net=%s, capabilities of all ranks: %s%s%s",
                  asked == GPURING_PARAM_NET_NONE    ? "none"
                  : asked == GPURING_PARAM_NET_VERBS ? "verbs"
                  : asked == GPURING_PARAM_NET_UCX   ? "ucx"
                                                     : "auto",
                  (capabilities & GPURING_CAPABILITY_VERBS) != 0 ? "verbs " : "",
                  (capabilities & GPURING_CAPABILITY_UCX) != 0 ? "ucx" : "",
                  capabilities == 0 ? "none; build with verbs or UCX on all of them" : "");
    return NULL;
}

static int open_net_locked(uint32_t capabilities)
{
    const struct gpuring_net_ops *ops = choose_net(capabilities);
    struct gpuring_proxy_config proxy = {
        .cpu = GPURING_PROXY_CPU_AWAY, .spin_us = -1, .yield_us = -1};
    struct gpuring_net_config config = {
        .hca = gpuring_params.verbs_hca,
        .timeout = gpuring_params.timeout,
        .verbs_timeout = gpuring_params.verbs_timeout,
        .verbs_retry_count = gpuring_params.verbs_retry_count,
        .local_host = gpuring_process.hostname,
    };
    int status;

    if (ops == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    status = ops->open(&config, &gpuring_process.net);
    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_proxy_create(&proxy, &gpuring_process.proxy);
    if (status == GPURING_OK) {
        status = gpuring_proxy_add_net(gpuring_process.proxy, ops, gpuring_process.net);
    }
    if (status != GPURING_OK) {
        gpuring_proxy_destroy(gpuring_process.proxy, CLOSE_SECONDS);
        ops->close(gpuring_process.net);
        gpuring_process.proxy = NULL;
        gpuring_process.net = NULL;
        return status;
    }
    gpuring_process.net_ops = ops;
    return GPURING_OK;
}

int gpuring_process_open_net(uint32_t capabilities)
{
    int status = GPURING_OK;

    pthread_mutex_lock(&gpuring_process.lock);
    if (gpuring_process.net_ops == NULL) {
        status = open_net_locked(capabilities);
    }
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

void gpuring_process_close(void)
{
    if (gpuring_process.net_ops != NULL) {
        gpuring_proxy_destroy(gpuring_process.proxy, CLOSE_SECONDS);
        gpuring_process.net_ops->close(gpuring_process.net);
        gpuring_process.proxy = NULL;
        gpuring_process.net = NULL;
        gpuring_process.net_ops = NULL;
    }
    if (copy_stream != NULL) {
        gpuring_process.device_ops->stream_destroy(copy_stream);
        copy_stream = NULL;
    }
    if (gpuring_process.device_ops != NULL) {
        gpuring_process.device_ops->close(gpuring_process.device);
        gpuring_process.device_ops = NULL;
        gpuring_process.device = NULL;
    }
    attached = false;
    gpuring_process.gpu = -1;
}
