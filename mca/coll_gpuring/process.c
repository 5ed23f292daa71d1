/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/process.h"

#include <string.h>

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#include "gpuring_config.h"

_Static_assert((int) GPURING_PARAM_DEFAULT_STREAM_WAIT == (int) GPURING_DEFAULT_STREAM_WAIT &&
                   (int) GPURING_PARAM_DEFAULT_STREAM_WARN == (int) GPURING_DEFAULT_STREAM_WARN &&
                   (int) GPURING_PARAM_DEFAULT_STREAM_NONE == (int) GPURING_DEFAULT_STREAM_NONE,
               "the parameter's values are the device's");

struct gpuring_process gpuring_process = {
    .world_rank = -1,
    .output = -1,
    .gpu = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

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

/* The CUDA device does nothing before the first call on a GPU buffer, because the application may
 * load the driver and create its context long after MPI_Init, or never. */
void gpuring_process_open_device(void)
{
    const struct gpuring_device_ops *ops = asked_device();

    if (ops != NULL && ops->open(&gpuring_process.device) == GPURING_OK) {
        gpuring_process.device_ops = ops;
        if (ops->default_stream != NULL) {
            ops->default_stream((enum gpuring_default_stream) gpuring_params.default_stream);
        }
    } else if (ops == NULL && gpuring_params.device == GPURING_PARAM_DEVICE_CUDA) {
        gpuring_compat_help("device missing", gpuring_process.hostname);
    } else if (ops == NULL && gpuring_params.device == GPURING_PARAM_DEVICE_AUTO) {
        gpuring_info(
            "[no-cuda] this build is without CUDA: coll_gpuring_device=auto serves nothing, host "
            "serves ordinary memory");
    }
}

/* If the file cannot be used, report that here. The fingerprint reports it to the other ranks when
 * a communicator is wired up. */
void gpuring_process_open_tuning(void)
{
    struct gpuring_process *process = &gpuring_process;
    char error[512];

    process->tuning_fingerprint = GPURING_TUNING_NONE;
    if (!gpuring_param_given(gpuring_params.tuning_file)) {
        return;
    }
    if (gpuring_tuning_read(gpuring_params.tuning_file, &process->tuning, error, sizeof error) ==
        GPURING_OK) {
        process->tuning_fingerprint = gpuring_tuning_fingerprint(&process->tuning);
    } else {
        process->tuning_fingerprint = GPURING_TUNING_BROKEN;
        gpuring_compat_help("tuning file", error);
    }
}

int gpuring_process_attach_at(const struct gpuring_pointer *pointer)
{
    int status = GPURING_OK;

    pthread_mutex_lock(&gpuring_process.lock);
    if (gpuring_process.gpu < 0 && gpuring_process.device_ops->attach != NULL) {
        status = gpuring_process.device_ops->attach(gpuring_process.device, pointer);
        /* Partner: gpuring_process_attach. */
        __atomic_store_n(&gpuring_process.gpu, status == GPURING_OK ? pointer->ordinal : -1,
                         __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

int gpuring_process_attach_first(const void *buffer)
{
    struct gpuring_pointer pointer = gpuring_memory_of(buffer);

    return gpuring_process_attach_at(&pointer);
}

int gpuring_process_copy(void *to, const void *from, size_t bytes)
{
    const void *gpu = gpuring_memory_on_gpu(to) ? to : gpuring_memory_on_gpu(from) ? from : NULL;
    int status;

    if (gpu == NULL) {
        memcpy(to, from, bytes);
        return GPURING_OK;
    }
    status = gpuring_process_attach(gpu);
    return status == GPURING_OK ? gpuring_device_copy(gpuring_process.device_ops,
                                                      gpuring_process.device, to, from, bytes)
                                : status;
}

bool gpuring_process_copies(const void *buffer)
{
    char byte;

    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           gpuring_process_copy(&byte, buffer, 1) == GPURING_OK ||
           gpuring_process_copy(&byte, buffer, 1) == GPURING_OK;
}

void gpuring_process_close(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    if (ops != NULL) {
        ops->close(gpuring_process.device);
    }
    gpuring_process.device_ops = NULL;
    gpuring_process.device = NULL;
    gpuring_process.gpu = -1;
    gpuring_tuning_clear(&gpuring_process.tuning);
}
