/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Objects of the stand-in for libibverbs on the host of this process, and what it has sent. */
#ifndef TEST_WIRE_EXISTS_H
#define TEST_WIRE_EXISTS_H

#include <dlfcn.h>
#include <stddef.h>

#include "test/wire/wire.h"

struct wire_exists {
    int queue_pairs; /* -1: the stand-in is not loaded */
    long registered; /* bytes of registered memory */
    long sent;       /* bytes that were posted since the last call */
};

static inline struct wire_exists wire_exists(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    gpuring_wire_counts_function *count =
        library != NULL ? (gpuring_wire_counts_function *) dlsym(library, "gpuring_wire_counts")
                        : NULL;
    struct gpuring_wire_counts counts;

    if (count == NULL) {
        return (struct wire_exists){.queue_pairs = -1};
    }
    count(&counts);
    return (struct wire_exists){.queue_pairs = (int) counts.queue_pairs,
                                .registered = (long) counts.registered,
                                .sent = (long) counts.bytes};
}

#endif
