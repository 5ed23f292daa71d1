/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/device/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

/* All three are guarded by the lock; a loaded driver is never changed or unloaded again, because
 * the CUDA library does not survive being unloaded in the presence of contexts. */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpuring_cuda_driver driver;
static enum { UNTRIED, READY, ABSENT } driver_state;
static char driver_reason[256];

static bool resolve(void)
{
    static const struct {
        const char *symbol;
        size_t offset;
    } calls[] = {
#define CALL(member, symbol, arguments) {#symbol, offsetof(struct gpuring_cuda_driver, member)},
        GPURING_CUDA_CALLS(CALL)
#undef CALL
    };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(driver.library, calls[i].symbol);

        if (address == NULL) {
            snprintf(driver_reason, sizeof driver_reason,
                     "the CUDA driver lacks %s: a driver of CUDA 11.7 or newer is needed",
                     calls[i].symbol);
            return false;
        }
        memcpy((char *) &driver + calls[i].offset, &address, sizeof address);
    }
    return true;
}

static bool initialise(void)
{
    CUresult result = driver.init(0);
    char text[128];

    if (result != CUDA_SUCCESS) {
        snprintf(driver_reason, sizeof driver_reason, "the CUDA driver does not start: %s",
                 gpuring_cuda_error(&driver, result, text, sizeof text));
        return false;
    }
    return true;
}

static void load(void)
{
    driver.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (driver.library == NULL) {
        snprintf(driver_reason, sizeof driver_reason, "no CUDA driver: %s", dlerror());
        driver_state = ABSENT;
    } else {
        driver_state = resolve() && initialise() ? READY : ABSENT;
    }
}

static bool loaded_by_application(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

const struct gpuring_cuda_driver *gpuring_cuda_driver(bool loaded_only, const char **reason)
{
    bool ready;

    pthread_mutex_lock(&driver_lock);
    if (driver_state == UNTRIED && (!loaded_only || loaded_by_application())) {
        load();
    }
    ready = driver_state == READY;
    if (reason != NULL) {
        *reason = driver_state == UNTRIED ? "the application has not loaded the CUDA driver"
                                          : driver_reason;
    }
    pthread_mutex_unlock(&driver_lock);
    return ready ? &driver : NULL;
}

const char *gpuring_cuda_error(const struct gpuring_cuda_driver *cuda, CUresult result, char *text,
                               size_t size)
{
    const char *name = NULL, *meaning = NULL;

    cuda->error_name(result, &name);
    cuda->error_string(result, &meaning);
    snprintf(text, size, "%s (%d): %s", name != NULL ? name : "unknown error", (int) result,
             meaning != NULL ? meaning : "the driver does not know it");
    return text;
}
