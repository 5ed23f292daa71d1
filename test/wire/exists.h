/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* For programs that use the stand-in for libibverbs: its objects on the host of this process, what
 * this host has sent, and a port that fails. */
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

/* Return a function of the stand-in, or NULL if it is not loaded. */
static inline void *wire_function(const char *name)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);

    return library != NULL ? dlsym(library, name) : NULL;
}

static inline struct wire_exists wire_exists(void)
{
    gpuring_wire_counts_function *count =
        (gpuring_wire_counts_function *) wire_function("gpuring_wire_counts");
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
