/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/verbs/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define VERBS_LIBRARY "libibverbs.so.1"

struct gpuring_verbs gpuring_verbs;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_status;
static const struct gpuring_verbs *replaced; /* by gpuring_verbs_use */

struct verbs_symbol {
    const char *name;
    size_t offset;
    int optional;
};

#define VERBS_SYMBOL(name) {"ibv_" #name, offsetof(struct gpuring_verbs, name), 0},
static const struct verbs_symbol symbols[] = {
    GPURING_VERBS_FUNCTIONS(VERBS_SYMBOL){"_ibv_query_gid_ex",
                                          offsetof(struct gpuring_verbs, query_gid_ex), 0},
    {"ibv_is_fork_initialized", offsetof(struct gpuring_verbs, is_fork_initialized), 1},
    {"ibv_reg_dmabuf_mr", offsetof(struct gpuring_verbs, reg_dmabuf_mr), 1},
};
#undef VERBS_SYMBOL

/*
 * fork() in the application: memory that a device writes must not be copied on write in the parent.
 * Kernels from 5.12 on see to it; before, the library must be told before it does anything else.
 */
static void prepare_fork(void)
{
    if (gpuring_verbs.is_fork_initialized != NULL &&
        gpuring_verbs.is_fork_initialized() != IBV_FORK_DISABLED) {
        return;
    }
    if (gpuring_verbs.fork_init() != 0) {
        gpuring_info("network verbs: another library used libibverbs first, without support for "
                     "fork(): an application that forks needs RDMAV_FORK_SAFE=1 on this kernel");
    }
}

/* The library stays loaded: others may use it too. */
static void load(void)
{
    void *library;

    if (replaced != NULL) {
        gpuring_verbs = *replaced;
        return;
    }
    library = dlopen(VERBS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    load_status = GPURING_ERR_UNSUPPORTED;
    if (library == NULL) {
        gpuring_info("no network verbs: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = dlsym(library, symbols[i].name);

        if (function == NULL && !symbols[i].optional) {
            gpuring_info("no network verbs: %s is too old, it lacks %s", VERBS_LIBRARY,
                         symbols[i].name);
            return;
        }
        /* dlsym's pointer is a function's; copying its bytes is how POSIX reads it. */
        memcpy((char *) &gpuring_verbs + symbols[i].offset, &function, sizeof function);
    }
    prepare_fork();
    load_status = GPURING_OK;
}

int gpuring_verbs_load(void)
{
    pthread_once(&load_once, load);
    return load_status;
}

void gpuring_verbs_use(const struct gpuring_verbs *functions)
{
    replaced = functions;
}
