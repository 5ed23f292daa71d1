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

/* All are guarded by the lock; a loaded driver is never changed or unloaded again, because the
 * CUDA library does not survive being unloaded in the presence of contexts. */
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
            gpuring_error("[driver-old] the CUDA driver lacks %s: MPI calls on GPU buffers return "
                          "an error; install a driver of CUDA 11.4 or newer, or run without "
                          "coll/gpuring (coll_gpuring_device=off) and give MPI host buffers",
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

static void load(void)
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

/* Stops at the first object: what counts is the number of loads, which each of them carries. */
static int read_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds) {
        *(unsigned long long *) loads = info->dlpi_adds;
    }
    return 1;
}

/* The last entry of the loader's list, and its name. Under the loader's lock: nobody else changes
 * it. */
struct list_end {
    struct link_map *map; /* of the program, then the last one */
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

/* The last entry of the loader's list, which stays there from now on; NULL: not known. */
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

static bool loaded;               /* it stays: see driver_lock */
static unsigned long long looked; /* at which number of loads it was not there */

/*
 * What is loaded comes behind the last entry of the loader's list. So as long as nothing does, the
 * driver is not there: a few instructions, where to ask for the number takes some 10 ns. The entry
 * at the first look, in the program's first call of MPI, is held, and no other, for programs may
 * rely on their own libraries' being unloaded.
 */
static const struct link_map *last;
static bool held;

/* The number is read before the look, so that nothing is missed that comes in between. */
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
    unsigned long long loads = 0; /* 0: this system does not say */

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
        load();
    }
    if (driver_state == RESOLVED && !loaded_only && initialise()) {
        driver_state = READY;
    }
    /* Also if it does not start for us: it knows the application's memory all the same. */
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
