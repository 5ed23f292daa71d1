/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "memory_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#define COMPONENT "mca_coll_gpuring.so"

/* The functions of glibc under names that need no symbol lookup, because a lookup would allocate
 * memory. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static uintptr_t first, last; /* addresses of the component's code */
static long failing;          /* see memory_faults_arm */
static long counted;          /* atomic, as there are threads */
static bool armed;

static int find_component(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void) size;
    (void) unused;
    if (info->dlpi_name == NULL || strstr(info->dlpi_name, COMPONENT) == NULL) {
        return 0;
    }
    first = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

            first = start < first ? start : first;
            last = start + info->dlpi_phdr[i].p_memsz > last ? start + info->dlpi_phdr[i].p_memsz
                                                             : last;
        }
    }
    return 1;
}

void memory_faults_arm(long number)
{
    dl_iterate_phdr(find_component, NULL);
    failing = number;
    counted = 0;
    __atomic_store_n(&armed, first != 0, __ATOMIC_RELEASE);
}

long memory_faults_disarm(void)
{
    __atomic_store_n(&armed, false, __ATOMIC_RELEASE);
    return counted;
}

static bool of_component(const void *caller)
{
    return (uintptr_t) caller >= first && (uintptr_t) caller < last;
}

/* Return true if this call must fail. */
static bool fails(const void *caller)
{
    long number;

    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE) || !of_component(caller)) {
        return false;
    }
    number = __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED);
    if (failing < 0 ? number < -failing : number != failing) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);

    if (fails(__builtin_return_address(0))) {
        return MAP_FAILED;
    }
    if (next == NULL) {
        *(void **) &next = dlsym(RTLD_NEXT, "mmap");
    }
    return next(address, bytes, protection, flags, fd, offset);
}

int memfd_create(const char *name, unsigned flags)
{
    static int (*next)(const char *, unsigned);

    if (fails(__builtin_return_address(0))) {
        return -1;
    }
    if (next == NULL) {
        *(void **) &next = dlsym(RTLD_NEXT, "memfd_create");
    }
    return next(name, flags);
}
