/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, dlinfo */
#endif
#include "mca/coll_gpuring/device/cuda/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"

#define LIBRARY "libcuda.so.1"

/* The lock guards all of these. A loaded driver is never changed or unloaded, because the CUDA
 * library cannot be unloaded safely while contexts exist. */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpuring_cuda_driver driver;
static enum { UNTRIED, RESOLVED, READY, ABSENT } driver_state;
static const struct gpuring_cuda_driver *usable; /* &driver from RESOLVED on; read without lock */
static char driver_reason[256];

static bool resolve(void)
{
    static const struct {
        const char *symbol;
        size_t offset;
        bool required;
    } calls[] = {
#define CALL(member, symbol, arguments) #symbol, offsetof(struct gpuring_cuda_driver, member)
#define REQUIRED(...)                   {CALL(__VA_ARGS__), true},
#define OPTIONAL(...)                   {CALL(__VA_ARGS__), false},
        GPURING_CUDA_REQUIRED(REQUIRED) GPURING_CUDA_OPTIONAL(OPTIONAL)
#undef OPTIONAL
#undef REQUIRED
#undef CALL
    };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(driver.handle, calls[i].symbol);

        if (address == NULL && calls[i].required) {
            gpuring_error("[driver-old] the CUDA driver lacks %s: MPI calls on GPU buffers "
                          "return an error; install a driver of CUDA 11.4 or newer, or run "
                          "without coll/gpuring (coll_gpuring_device=off) and pass host "
                          "buffers to MPI",
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
        snprintf(driver_reason, sizeof driver_reason,
                 "[driver-start] the CUDA driver does not start: %s",
                 gpuring_cuda_error(&driver, result, text, sizeof text));
        return false;
    }
    return true;
}

static void load_driver(void)
{
    driver.handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (driver.handle == NULL) {
        snprintf(driver_reason, sizeof driver_reason, "no CUDA driver: %s", dlerror());
        driver_state = ABSENT;
    } else {
        driver_state = resolve() ? RESOLVED : ABSENT;
    }
}

static bool library_present(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);

    if (handle != NULL) {
        dlclose(handle);
    }
    return handle != NULL;
}

/* Read the number of loads, which every object contains, and stop at the first object. */
static int read_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds) {
        *(unsigned long long *) loads = info->dlpi_adds;
    }
    return 1;
}

/* The last entry of the loader's list, and its name. Only accessed with the loader's lock held, so
 * that the list does not change. */
struct list_end {
    struct link_map *map; /* the program's at first, then the last one */
    char *name;
};

static int find_end(struct dl_phdr_info *info, size_t size, void *end)
{
    struct list_end *self = end;

    (void) info;
    (void) size;
    while (self->map->l_next != NULL) {
        self->map = self->map->l_next;
    }
    self->name = strdup(self->map->l_name);
    return 1;
}

/* Return the last entry of the loader's list, and keep its library loaded. NULL: unknown. */
static const struct link_map *hold_last(void)
{
    void *program = dlopen(NULL, RTLD_NOW | RTLD_NOLOAD), *held = NULL;
    const struct link_map *map = NULL;
    struct list_end end = {.map = NULL};

    if (program != NULL && dlinfo(program, RTLD_DI_LINKMAP, &end.map) == 0) {
        dl_iterate_phdr(find_end, &end);
    }
    if (end.name != NULL && end.name[0] != '\0') {
        held = dlopen(end.name, RTLD_NOW | RTLD_NOLOAD);
    }
    if (held != NULL && (dlinfo(held, RTLD_DI_LINKMAP, &map) != 0 || map != end.map)) {
        map = NULL;
        dlclose(held);
    }
    if (program != NULL) {
        dlclose(program);
    }
    free(end.name);
    return map;
}

static bool loaded;               /* never becomes false again: see driver_lock */
static unsigned long long looked; /* number of loads at the last unsuccessful search */

/*
 * The last entry of the loader's list at the first search, in the program's first MPI call. The
 * loader appends new libraries to the list. While this entry has no successor, the driver is not
 * loaded, which takes a few instructions to check; reading the number of loads takes some 10 ns.
 * Only this library is kept loaded, because programs may rely on unloading their libraries.
 */
static const struct link_map *last;
static bool held;

/* Search for the driver. `loads` was read before, so that a load in the meantime is not missed. */
static __attribute__((noinline)) void look(unsigned long long loads)
{
    const struct link_map *end;

    if (library_present()) {
        __atomic_store_n(&loaded, true, __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&looked, loads, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&held, true, __ATOMIC_RELAXED)) {
        end = hold_last();
        if (end != NULL && !library_present()) {
            __atomic_store_n(&last, end, __ATOMIC_RELEASE);
        }
    }
}

bool gpuring_cuda_loaded(void)
{
    const struct link_map *end = __atomic_load_n(&last, __ATOMIC_ACQUIRE);
    unsigned long long loads = 0; /* 0: this system does not report it */

    if (end != NULL && __atomic_load_n(&end->l_next, __ATOMIC_RELAXED) == NULL) {
        return false;
    }
    if (!__atomic_load_n(&loaded, __ATOMIC_RELAXED)) {
        dl_iterate_phdr(read_loads, &loads);
        if (loads == 0 || loads != __atomic_load_n(&looked, __ATOMIC_RELAXED)) {
            look(loads);
        }
    }
    return __atomic_load_n(&loaded, __ATOMIC_RELAXED);
}

const struct gpuring_cuda_driver *gpuring_cuda_driver(bool loaded_only, const char **reason)
{
    const struct gpuring_cuda_driver *found;

    /* Partner: the release store below. */
    if (loaded_only && __atomic_load_n(&usable, __ATOMIC_ACQUIRE) != NULL) {
        return &driver;
    }
    pthread_mutex_lock(&driver_lock);
    if (driver_state == UNTRIED && (!loaded_only || gpuring_cuda_loaded())) {
        load_driver();
    }
    if (driver_state == RESOLVED && !loaded_only && initialise()) {
        driver_state = READY;
    }
    /* Use the driver even if cuInit fails for us, because it can still classify memory. */
    __atomic_store_n(&usable, driver_state == READY || driver_state == RESOLVED ? &driver : NULL,
                     __ATOMIC_RELEASE);
    found = loaded_only || driver_state == READY ? usable : NULL;
    if (reason != NULL) {
        *reason = driver_state == UNTRIED    ? "the application has not loaded the CUDA driver"
                  : driver_reason[0] != '\0' ? driver_reason
                                             : NULL;
    }
    pthread_mutex_unlock(&driver_lock);
    return found;
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
