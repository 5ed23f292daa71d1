/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/net_ucx_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define UCX_LIBRARY "libucp.so.0"
#define UCX_OLDEST                                                                \
    11 /* of version 1: ucp_worker_set_am_recv_handler with rendezvous, flush_nbx \
        */

struct gpuring_ucx gpuring_ucx;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_status;

struct ucx_symbol {
    const char *name;
    size_t offset;
};

#define UCX_SYMBOL(name) {#name, offsetof(struct gpuring_ucx, name)},
static const struct ucx_symbol symbols[] = {GPURING_UCX_FUNCTIONS(UCX_SYMBOL)};
#undef UCX_SYMBOL

/* The library stays loaded: other components may use it too, and it has threads of its own. */
static void load(void)
{
    void *library = dlopen(UCX_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    unsigned major, minor, release;

    load_status = GPURING_ERR_UNSUPPORTED;
    if (library == NULL) {
        gpuring_info("no network ucx: %s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *function = dlsym(library, symbols[i].name);

        if (function == NULL) {
            gpuring_info("no network ucx: %s is too old, it lacks %s", UCX_LIBRARY,
                         symbols[i].name);
            return;
        }
        /* dlsym's pointer is a function's; copying its bytes is how POSIX reads it. */
        memcpy((char *) &gpuring_ucx + symbols[i].offset, &function, sizeof function);
    }
    gpuring_ucx.ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor < UCX_OLDEST) {
        gpuring_info("no network ucx: UCX %u.%u.%u is too old, 1.%d is needed", major, minor,
                     release, UCX_OLDEST);
        return;
    }
    load_status = GPURING_OK;
}

int gpuring_ucx_load(void)
{
    pthread_once(&load_once, load);
    return load_status;
}
