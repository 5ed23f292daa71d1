/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/network.h"

#include <dlfcn.h>

#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup_format.h"

#include "gpuring_config.h"

#define CLOSE_SECONDS 2.0 /* for transfers under way when the process ends */
#define NETS_MAX      4

static struct gpuring_network networks[NETS_MAX]; /* under gpuring_process.lock */

/* The net to use, or NULL with a line that says why there is none. */
static const struct gpuring_net_ops *choose_net(uint32_t capabilities)
{
    int asked = gpuring_params.net;

#if GPURING_HAVE_VERBS
    if (asked == GPURING_PARAM_NET_VERBS ||
        (asked == GPURING_PARAM_NET_AUTO && (capabilities & GPURING_CAPABILITY_VERBS) != 0)) {
        return &gpuring_net_verbs;
    }
#endif
#if GPURING_HAVE_UCX
    if (asked == GPURING_PARAM_NET_UCX ||
        (asked == GPURING_PARAM_NET_AUTO && (capabilities & GPURING_CAPABILITY_UCX) != 0)) {
        return &gpuring_net_ucx;
    }
#endif
    gpuring_error("the ranks are on several nodes, and no network connects them: "
                  "coll_gpuring_net=%s, capabilities of all ranks: %s%s%s",
                  asked == GPURING_PARAM_NET_NONE    ? "none"
                  : asked == GPURING_PARAM_NET_VERBS ? "verbs"
                  : asked == GPURING_PARAM_NET_UCX   ? "ucx"
                                                     : "auto",
                  (capabilities & GPURING_CAPABILITY_VERBS) != 0 ? "verbs " : "",
                  (capabilities & GPURING_CAPABILITY_UCX) != 0 ? "ucx" : "",
                  capabilities == 0 ? "none; build with verbs or UCX on all of them" : "");
    return NULL;
}

/* The cores near any of the net's devices. */
static void find_near(const struct gpuring_network *network, cpu_set_t *near)
{
    const struct gpuring_net_device *devices;
    int count = 0;

    CPU_ZERO(near);
    if (network->ops->devices(network->net, &devices, &count) != GPURING_OK) {
        return;
    }
    for (int i = 0; i < count; i++) {
        cpu_set_t cores;

        gpuring_cores_near("/sys", devices[i].pci_bus_id, &cores);
        CPU_OR(near, near, &cores);
    }
}

static int start_proxy(const struct gpuring_network *network, const uint32_t *pids, int npids)
{
    struct gpuring_proxy_config config = {.cores = gpuring_params.proxy_cpu,
                                          .spin_us = gpuring_params.proxy_spin,
                                          .yield_us = gpuring_params.proxy_yield};

    CPU_ZERO(&config.taken);
    gpuring_cores_add_process(&config.taken, getpid());
    for (int i = 0; i < npids; i++) {
        gpuring_cores_add_process(&config.taken, (pid_t) pids[i]);
    }
    find_near(network, &config.near);
    return gpuring_proxy_create(&config, &gpuring_process.proxy);
}

/* Under the lock. */
static int open_net(const struct gpuring_net_ops *ops, const uint32_t *pids, int npids,
                    struct gpuring_network *network)
{
    const struct gpuring_net_config config = {
        .hca = gpuring_params.verbs_hca,
        .timeout = gpuring_params.timeout,
        .verbs_timeout = gpuring_params.verbs_timeout,
        .verbs_retry_count = gpuring_params.verbs_retry_count,
        .verbs_qps = gpuring_params.verbs_qps,
        .verbs_spares = gpuring_params.verbs_spares,
        .verbs_gid_index = gpuring_params.verbs_gid_index + 1,
        .verbs_service_level = gpuring_params.verbs_sl,
        .verbs_traffic_class = gpuring_params.verbs_tc,
        .verbs_pkey = gpuring_params.verbs_pkey,
        .verbs_mtu = gpuring_params.verbs_mtu,
        .ucx_rails = gpuring_params.ucx_rails,
        .local_host = gpuring_process.hostname,
    };
    int status = ops->open(&config, &network->net);

    if (status != GPURING_OK) {
        return status;
    }
    network->ops = ops;
    if (gpuring_process.proxy == NULL) {
        status = start_proxy(network, pids, npids);
    }
    if (status == GPURING_OK) {
        status = gpuring_proxy_add_net(gpuring_process.proxy, ops, network->net);
    }
    if (status != GPURING_OK) {
        ops->close(network->net);
        *network = (struct gpuring_network){.ops = NULL};
    }
    return status;
}

int gpuring_network_open(uint32_t capabilities, const uint32_t *pids, int npids,
                         struct gpuring_network *network)
{
    const struct gpuring_net_ops *ops = choose_net(capabilities);
    struct gpuring_network *at = networks;
    int status = GPURING_OK;

    if (ops == NULL) {
        return GPURING_ERR_UNSUPPORTED;
    }
    pthread_mutex_lock(&gpuring_process.lock);
    while (at->ops != NULL && at->ops != ops) {
        at++;
    }
    if (at->ops == NULL) {
        status = open_net(ops, pids, npids, at);
    }
    *network = *at;
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

/* The thread hangs in a library: its code and ours must stay where they are. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr(networks, &info) != 0 && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

void gpuring_network_close(void)
{
    if (gpuring_proxy_destroy(gpuring_process.proxy, CLOSE_SECONDS) != GPURING_OK) {
        stay_loaded();
        return;
    }
    gpuring_process.proxy = NULL;
    for (int i = 0; i < NETS_MAX && networks[i].ops != NULL; i++) {
        networks[i].ops->close(networks[i].net);
        networks[i] = (struct gpuring_network){.ops = NULL};
    }
}
