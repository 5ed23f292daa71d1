/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/ucx/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

#define UCX_LIBRARY "libucp.so.0"
/* Of version 1: active messages by rendezvous, and the flush of a worker (NEWS of UCX). */
#define UCX_OLDEST 11

struct gpuring_ucx gpuring_ucx;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_status;
static char load_why[384];

struct ucx_symbol {
    const char *name;
    size_t offset;
};

#define UCX_SYMBOL(name) {#name, offsetof(struct gpuring_ucx, name)},
static const struct ucx_symbol symbols[] = {GPURING_UCX_FUNCTIONS(UCX_SYMBOL)};
#undef UCX_SYMBOL

int gpuring_ucx_load_from(const char *library_name, struct gpuring_ucx *table, char *why,
                          size_t size)
{
    /* It stays loaded: other components may use it too, and it has threads of its own. */
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    unsigned major, minor, release;

    if (library == NULL) {
        snprintf(why, size, "%s (the package is libucx0 or ucx)", dlerror());
        return GPURING_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = dlsym(library, symbols[i].name);

        if (function == NULL) {
            snprintf(why, size, "[ucx-version] %s lacks %s: UCX 1.%d or newer is needed",
                     library_name, symbols[i].name, UCX_OLDEST);
            return GPURING_ERR_UNSUPPORTED;
        }
        /* dlsym's pointer is a function's; copying its bytes is how POSIX reads it. */
        memcpy((char *) table + symbols[i].offset, &function, sizeof function);
    }
    table->ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor < UCX_OLDEST) {
        snprintf(why, size, "%s is UCX %u.%u.%u, version %d.%d or newer (but not %d) is needed",
                 library_name, major, minor, release, UCP_API_MAJOR, UCX_OLDEST, UCP_API_MAJOR + 1);
        return GPURING_ERR_UNSUPPORTED;
    }
    return GPURING_OK;
}

static void load(void)
{
    load_status = gpuring_ucx_load_from(UCX_LIBRARY, &gpuring_ucx, load_why, sizeof load_why);
}

int gpuring_ucx_load(const char **why)
{
    pthread_once(&load_once, load);
    *why = load_why;
    return load_status;
}
