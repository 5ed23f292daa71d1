/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `verbs`: the functions of libibverbs, loaded at run time. */
#include <pthread.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_verbs gpuring_verbs;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_status;

/*
 * Prepare for fork() in the application: the parent must not get copies of pages that a device
 * writes. Linux ensures this from 5.12 on. With older kernels the library must be prepared before
 * anything else.
 */
static void prepare_fork(void)
{
    if ((gpuring_verbs.is_fork_initialized == NULL ||
         gpuring_verbs.is_fork_initialized() == IBV_FORK_DISABLED) &&
        gpuring_verbs.fork_init() != 0) {
        gpuring_info("network verbs: another library used libibverbs first, without support for "
                     "fork(): an application that forks needs RDMAV_FORK_SAFE=1 on this kernel");
    }
}

static void load_verbs(void)
{
#define VERBS_SYMBOL(name) {"ibv_" #name, offsetof(struct gpuring_verbs, name), false},
    static const struct gpuring_net_symbol symbols[] = {
        GPURING_VERBS_FUNCTIONS(VERBS_SYMBOL){"_ibv_query_gid_ex",
                                              offsetof(struct gpuring_verbs, query_gid_ex), false},
        {"ibv_is_fork_initialized", offsetof(struct gpuring_verbs, is_fork_initialized), true},
        {"ibv_reg_mr_iova2", offsetof(struct gpuring_verbs, reg_mr_iova2), true},
        {"ibv_reg_dmabuf_mr", offsetof(struct gpuring_verbs, reg_dmabuf_mr), true},
    };
#undef VERBS_SYMBOL
    char why[384];

    if (gpuring_verbs.open_device != NULL) {
        return; /* a test has filled in the table */
    }
    load_status = gpuring_net_load("libibverbs.so.1", symbols, sizeof symbols / sizeof *symbols,
                                   &gpuring_verbs, why, sizeof why);
    if (load_status == GPURING_OK) {
        prepare_fork();
    } else {
        gpuring_info("no network verbs: %s", why);
    }
}

int gpuring_verbs_load(void)
{
    pthread_once(&load_once, load_verbs);
    return load_status;
}
