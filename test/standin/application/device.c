/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Access to the stand-in driver, its version and its devices. */
#include "test/standin/application/application.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gpuring_cuda_driver driver;
static struct standin_events events;
static pthread_once_t found = PTHREAD_ONCE_INIT;

static void find(const char *symbol, void *member)
{
    void *function = dlsym(driver.handle, symbol);

    if (function == NULL) {
        fprintf(stderr, "libcuda_application.so: the stand-in driver has no %s\n", symbol);
        exit(2);
    }
    memcpy(member, &function, sizeof function);
}

static void find_all(void)
{
    driver.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver.handle == NULL) {
        fprintf(stderr, "libcuda_application.so: %s\n", dlerror());
        exit(2);
    }
#define FIND(member, symbol, arguments) find(#symbol, &driver.member);
    GPURING_CUDA_CALLS(FIND)
#undef FIND
#define FIND(member, symbol, arguments) find(#symbol, &events.member);
    STANDIN_EVENT_CALLS(FIND)
#undef FIND
}

const struct gpuring_cuda_driver *application_driver(void)
{
    pthread_once(&found, find_all);
    return &driver;
}

const struct standin_events *application_events(void)
{
    pthread_once(&found, find_all);
    return &events;
}

CUresult application_enter(struct standin_owner owner)
{
    return application_driver()->ctx_push(owner.context);
}

void application_leave(void)
{
    CUcontext context;

    (void) application_driver()->ctx_pop(&context);
}

CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    if (device < 0 || device >= standin_gpus()) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t) size, "stand-in for a GPU");
    return CUDA_SUCCESS;
}

/* Destroy everything that was created in the primary context, even if others have retained it. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    unsigned int flags;
    int active = 0;
    CUresult result = application_driver()->primary_state(device, &flags, &active);

    while (result == CUDA_SUCCESS && active) {
        result = application_driver()->primary_release(device);
        if (result == CUDA_SUCCESS) {
            result = application_driver()->primary_state(device, &flags, &active);
        }
    }
    return result;
}
