/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The networks of the process. A network is opened when a communicator first chooses it and then
 * stays open. All networks share one progress thread, which starts with the first one.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/state.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#include "gpuring_config.h"

#define CLOSE_SECONDS 2.0 /* for transfers in flight when the process ends */
#define NETWORKS      (GPURING_NET_KIND_UCX + 2)

static struct gpuring_net_base *networks[NETWORKS]; /* see place_of; under gpuring_process.lock */
static struct gpuring_gate gate = GPURING_GATE_INIT;

/* Log that RDMA emulated by software is often slower than TCP. */
static void advise(enum gpuring_net_kind kind)
{
    if (kind == GPURING_NET_KIND_VERBS && gpuring_process.tuning.count == 0 &&
        gpuring_net_only_software("/sys")) {
        gpuring_info("[rdma-software] the RDMA devices of host %s are made by software (rxe, siw): "
                     "coll_gpuring_net=ucx, which uses TCP then, is often faster, and at many "
                     "sizes so is the component that serves without coll/gpuring; measure with "
                     "gpuring-perf --tuning FILE, and set coll_gpuring_tuning_file to FILE",
                     gpuring_process.hostname);
    }
}

bool gpuring_network_inside(const struct gpuring_wireup *wireup, int rank)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->rank_infos, &wireup->map, rank);
    struct gpuring_gathered own = {.nranks = ranks.count, .bytes = wireup->rank_infos.bytes};
    struct gpuring_net_choice choice = {.kind = GPURING_NET_KIND_NONE};
    int *node = malloc((size_t) ranks.count * sizeof *node);

    own.blocks = malloc((size_t) ranks.count * own.bytes);
    for (int i = 0; node != NULL && own.blocks != NULL && i < ranks.count; i++) {
        memcpy(gpuring_gathered_block(&own, i), gpuring_node_ranks_rank_info(&ranks, i), own.bytes);
        node[i] = i; /* as if each rank were a node */
    }
    if (node != NULL && own.blocks != NULL) {
        gpuring_net_choose(gpuring_params.net, &own, node, NULL, &choice);
    }
    free(node);
    gpuring_gathered_clear(&own);
    return choice.kind == GPURING_NET_KIND_VERBS ||
           (choice.kind == GPURING_NET_KIND_UCX && gpuring_params.net == GPURING_PARAM_NET_UCX);
}

int gpuring_network_choose(struct gpuring_wireup *wireup, int rank, const char *failed)
{
    static const char *const names[] = {"none", "verbs", "ucx"};
    struct gpuring_net_choice *choice = &wireup->net;

    gpuring_net_choose(gpuring_params.net, &wireup->rank_infos, wireup->map.node, failed, choice);
    if (choice->kind == GPURING_NET_KIND_NONE) {
        if (rank == 0) {
            gpuring_error(
                "[no-network] the ranks are on several nodes, and no network connects them: %s",
                choice->why);
        }
        return GPURING_ERR_UNSUPPORTED;
    }
    if (rank == 0) {
        gpuring_info("[network] %s between the nodes: %s", names[choice->kind], choice->why);
        advise(choice->kind);
    }
    return GPURING_OK;
}

static const struct gpuring_net_ops *ops_of(enum gpuring_net_kind kind)
{
#if GPURING_HAVE_VERBS
    if (kind == GPURING_NET_KIND_VERBS) {
        return &gpuring_net_verbs;
    }
#endif
#if GPURING_HAVE_UCX
    if (kind == GPURING_NET_KIND_UCX) {
        return &gpuring_net_ucx;
    }
#endif
    (void) kind;
    return NULL;
}

/* Find the cores near any of the net's devices. */
static void find_near(const struct gpuring_net_devices *devices, cpu_set_t *near)
{
    CPU_ZERO(near);
    for (int i = 0; i < devices->count; i++) {
        cpu_set_t cores;

        gpuring_cores_near("/sys", devices->device[i].pci_bus_id, &cores);
        CPU_OR(near, near, &cores);
    }
}

static int start_proxy(const struct gpuring_wireup *wireup, int rank,
                       const struct gpuring_net_devices *devices)
{
    const int *node = wireup->map.node;
    struct gpuring_proxy_config config = {.gate = &gate,
                                          .cores = gpuring_params.proxy_cpu,
                                          .spin_us = gpuring_params.proxy_spin,
                                          .yield_us = gpuring_params.proxy_yield};

    CPU_ZERO(&config.taken);
    for (int i = 0; i < wireup->rank_infos.nranks; i++) {
        if (node[i] == node[rank]) {
            gpuring_cores_add_process(&config.taken,
                                      (pid_t) gpuring_rank_info_of(&wireup->rank_infos, i)->pid);
        }
    }
    find_near(devices, &config.near);
    return gpuring_proxy_create(&config, &gpuring_process.proxy);
}

/* Return the element for a choice. The array is indexed by kind. Its last element is UCX without
 * RDMA devices, because another communicator may use UCX with them. */
static struct gpuring_net_base **place_of(const struct gpuring_net_choice *choice)
{
    return &networks[choice->kind + (choice->no_rdma ? 1 : 0)];
}

/* Open a net. Call with the lock held. */
static int open_net(const struct gpuring_wireup *wireup, int rank)
{
    const struct gpuring_net_ops *ops = ops_of(wireup->net.kind);
    const struct gpuring_net_config config = {
        .gate = &gate,
        .hca = gpuring_params.verbs_hca,
        .verbs_timeout = gpuring_params.verbs_timeout,
        .verbs_retry_count = gpuring_params.verbs_retry_count,
        .verbs_qps = gpuring_params.verbs_qps,
        .verbs_spares = gpuring_params.verbs_spares,
        .verbs_gid_index = gpuring_params.verbs_gid_index + 1,
        .verbs_service_level = gpuring_params.verbs_sl,
        .verbs_traffic_class = gpuring_params.verbs_tc,
        .verbs_pkey = gpuring_params.verbs_pkey,
        .verbs_mtu = gpuring_params.verbs_mtu,
        .ucx_no_rdma = wireup->net.no_rdma,
        .shared_addresses = wireup->shared_addresses,
        .nshared_addresses = wireup->nshared_addresses,
        .local_host = gpuring_process.hostname,
    };
    struct gpuring_net *net;
    int status = ops != NULL ? ops->open(&config, &net) : GPURING_ERR_UNSUPPORTED;

    if (status == GPURING_OK && gpuring_process.proxy == NULL) {
        status = start_proxy(wireup, rank, ops->devices(net));
        if (status != GPURING_OK) {
            ops->close(net);
        }
    }
    if (status == GPURING_OK) {
        gpuring_proxy_add_net(gpuring_process.proxy, net);
        *place_of(&wireup->net) = (struct gpuring_net_base *) net;
    }
    return status;
}

int gpuring_network_open(const struct gpuring_wireup *wireup, int rank,
                         struct gpuring_net_base **net)
{
    struct gpuring_net_base *const *place = place_of(&wireup->net);
    int status = GPURING_OK;

    pthread_mutex_lock(&gpuring_process.lock);
    if (*place == NULL) {
        status = open_net(wireup, rank);
    }
    *net = *place;
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

/* Keep the component loaded, because the progress thread hangs in a library. */
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
    for (int i = 0; i < NETWORKS; i++) {
        if (networks[i] != NULL) {
            networks[i]->ops->close((struct gpuring_net *) networks[i]);
            networks[i] = NULL;
        }
    }
}
