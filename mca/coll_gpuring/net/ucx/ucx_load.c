/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `ucx`: UCX's functions, loaded at run time. */
#include <pthread.h>
#include <stdio.h>

#include "mca/coll_gpuring/net/ucx/ucx_internal.h"
#include "mca/coll_gpuring/util/status.h"

#define UCX_LIBRARY "libucp.so.0"
/* The minor version of UCX 1 that has active messages with rendezvous and the flush of a worker
 * (NEWS of UCX). */
#define UCX_OLDEST 11

struct gpuring_ucx gpuring_ucx;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_status;
static char load_why[512];

int gpuring_ucx_load_from(const char *library, struct gpuring_ucx *table, char *why, size_t size)
{
#define UCX_SYMBOL(name) {#name, offsetof(struct gpuring_ucx, name), false},
    static const struct gpuring_net_symbol symbols[] = {GPURING_UCX_FUNCTIONS(UCX_SYMBOL)};
#undef UCX_SYMBOL
    unsigned major, minor, release;
    char missing[384];

    if (gpuring_net_load(library, symbols, sizeof symbols / sizeof *symbols, table, missing,
                         sizeof missing) != GPURING_OK) {
        snprintf(why, size,
                 "[ucx-version] %s: UCX 1.%d or newer is needed (package libucx0 or ucx)", missing,
                 UCX_OLDEST);
        return GPURING_ERR_UNSUPPORTED;
    }
    table->ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor < UCX_OLDEST) {
        snprintf(why, size, "%s is UCX %u.%u.%u, version %d.%d or newer (but not %d) is needed",
                 library, major, minor, release, UCP_API_MAJOR, UCX_OLDEST, UCP_API_MAJOR + 1);
        return GPURING_ERR_UNSUPPORTED;
    }
    return GPURING_OK;
}

static void load_ucx(void)
{
    load_status = gpuring_ucx_load_from(UCX_LIBRARY, &gpuring_ucx, load_why, sizeof load_why);
}

int gpuring_ucx_load(const char **why)
{
    pthread_once(&load_once, load_ucx);
    *why = load_why;
    return load_status;
}
