/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The networks of the process. UCX is opened when a communicator first chooses it, verbs before the
 * first communicator announces its ports; they then stay open. They share one progress thread,
 * which starts with the first communicator that connects through one of them.
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
#define NETWORKS      (GPURING_PARAM_NET_UCX + 1)

/* The open nets, by kind. Guarded by gpuring_process.lock. */
static struct {
    struct gpuring_net_base *net; /* NULL: not open */
    bool driven;                  /* the proxy drives the net */
} networks[NETWORKS];
static bool proven; /* gpuring_network_prove has tried to open verbs */
static bool failed; /* atomic: RDMA has failed to connect an earlier communicator */
static struct gpuring_gate gate = GPURING_GATE_INIT;

/* Log that RDMA emulated by software is often slower than TCP. */
static void advise(enum gpuring_param_net kind)
{
    if (kind == GPURING_PARAM_NET_VERBS && gpuring_process.tuning.count == 0 &&
        gpuring_net_only_software("/sys")) {
        gpuring_info("[rdma-software] the RDMA devices of host %s are made by software (rxe, siw): "
                     "coll_gpuring_net=mpi is often faster, and at many sizes so is the "
                     "component that serves without coll/gpuring; measure with gpuring-perf "
                     "--tuning FILE, and set coll_gpuring_tuning_file to FILE",
                     gpuring_process.hostname);
    }
}

bool gpuring_ranks_may_leave_node(struct ompi_communicator_t *comm)
{
    if (gpuring_param_given(gpuring_params.hostid)) {
        return true;
    }
    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);

        if (!OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags)) {
            return true;
        }
    }
    return false;
}

void gpuring_network_fail(int status, bool connected)
{
    if (status == GPURING_ERR_NET || status == GPURING_ERR_PEER || status == GPURING_ERR_DATA ||
        status == GPURING_ERR_UNSUPPORTED || (status == GPURING_ERR_TIMEOUT && connected)) {
        __atomic_store_n(&failed, true, __ATOMIC_RELAXED);
    }
}

bool gpuring_network_has_failed(void)
{
    return __atomic_load_n(&failed, __ATOMIC_RELAXED);
}

bool gpuring_network_inside(const struct gpuring_wireup *wireup, int rank)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->survey->rank_infos, &wireup->survey->map, rank);
    struct gpuring_gathered own = {.nranks = ranks.count,
                                   .bytes = wireup->survey->rank_infos.bytes};
    struct gpuring_net_choice choice = {.kind = GPURING_PARAM_NET_NONE};
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
    return choice.kind == GPURING_PARAM_NET_VERBS ||
           (choice.kind == GPURING_PARAM_NET_UCX && gpuring_params.net == GPURING_PARAM_NET_UCX);
}

int gpuring_network_choose(struct gpuring_wireup *wireup, int rank, const char *why)
{
#define NAME(name, text) text,
    static const char *const names[] = {GPURING_VALUES_net(NAME)};
#undef NAME
    struct gpuring_net_choice *choice = &wireup->net;

    if (wireup->survey->map.nnodes == 1) {
        return GPURING_OK;
    }
    gpuring_net_choose(gpuring_params.net, &wireup->survey->rank_infos, wireup->survey->map.node,
                       why, choice);
    if (choice->kind == GPURING_PARAM_NET_NONE) {
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

static const struct gpuring_net_ops *ops_of(enum gpuring_param_net kind)
{
#if GPURING_HAVE_VERBS
    if (kind == GPURING_PARAM_NET_VERBS) {
        return &gpuring_net_verbs;
    }
#endif
#if GPURING_HAVE_UCX
    if (kind == GPURING_PARAM_NET_UCX) {
        return &gpuring_net_ucx;
    }
#endif
    return kind == GPURING_PARAM_NET_MPI ? &gpuring_net_mpi : NULL;
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
    const int *node = wireup->survey->map.node;
    struct gpuring_proxy_config config = {.gate = &gate,
                                          .counts = &gpuring_process.net_counts,
                                          .cores = gpuring_params.proxy_cpu,
                                          .spin_us = gpuring_params.proxy_spin,
                                          .yield_us = gpuring_params.proxy_yield};

    CPU_ZERO(&config.taken);
    for (int i = 0; i < wireup->survey->rank_infos.nranks; i++) {
        if (node[i] == node[rank]) {
            gpuring_cores_add_process(
                &config.taken, (pid_t) gpuring_rank_info_of(&wireup->survey->rank_infos, i)->pid);
        }
    }
    find_near(devices, &config.near);
    return gpuring_proxy_create(&config, &gpuring_process.proxy);
}

/* Open a net, unless it is open. npeers: see struct gpuring_net_config. The caller holds the
 * lock. */
static int open_net(enum gpuring_param_net kind, int npeers)
{
    const struct gpuring_net_ops *ops = ops_of(kind);
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
        .npeers = npeers,
        .local_host = gpuring_process.hostname,
    };
    struct gpuring_net *net;
    int status;

    if (networks[kind].net != NULL) {
        return GPURING_OK;
    }
    status = ops != NULL ? ops->open(&config, &net) : GPURING_ERR_UNSUPPORTED;
    if (status == GPURING_OK) {
        networks[kind].net = (struct gpuring_net_base *) net;
    }
    return status;
}

/* Start the proxy for a net that is open. The caller holds the lock. */
static int drive_net(const struct gpuring_wireup *wireup, int rank)
{
    enum gpuring_param_net kind = wireup->net.kind;
    struct gpuring_net *net = (struct gpuring_net *) networks[kind].net;
    int status = GPURING_OK;

    if (gpuring_process.proxy == NULL) {
        status = start_proxy(wireup, rank, networks[kind].net->ops->devices(net));
    }
    if (status == GPURING_OK && !networks[kind].driven) {
        gpuring_proxy_add_net(gpuring_process.proxy, net);
        networks[kind].driven = true;
    }
    return status;
}

static bool has_port(const struct gpuring_net_devices *devices, const struct gpuring_nic *nic)
{
    for (int i = 0; i < devices->count; i++) {
        if (devices->device[i].port == nic->port &&
            strncmp(devices->device[i].name, nic->name, sizeof nic->name - 1) == 0) {
            return true;
        }
    }
    return false;
}

int gpuring_network_prove(struct gpuring_nic *nics, int count)
{
    const struct gpuring_net_base *net;
    int usable = 0;

    if (ops_of(GPURING_PARAM_NET_VERBS) == NULL ||
        (gpuring_params.net != GPURING_PARAM_NET_AUTO &&
         gpuring_params.net != GPURING_PARAM_NET_VERBS)) {
        return count;
    }
    pthread_mutex_lock(&gpuring_process.lock);
    if (!proven) {
        proven = true;
        open_net(GPURING_PARAM_NET_VERBS, 0); /* it logs why it did not open */
    }
    net = networks[GPURING_PARAM_NET_VERBS].net;
    pthread_mutex_unlock(&gpuring_process.lock);
    for (int i = 0; i < count && net != NULL; i++) {
        if (has_port(net->ops->devices((const struct gpuring_net *) net), &nics[i])) {
            nics[usable++] = nics[i];
        }
    }
    return usable;
}

/* Open a net of messages and its proxy, which only this communicator uses. */
static int open_messages(const mca_coll_gpuring_module_t *module,
                         const struct gpuring_wireup *wireup,
                         struct gpuring_transport_config *transport)
{
    /* No thread waits in MPI for calls in a stream, so they need a progress thread. */
    const struct gpuring_proxy_config proxy_config = {.progress = gpuring_message_mpi.progress,
                                                      .threaded = module->stream != NULL &&
                                                                  gpuring_process.threads,
                                                      .counts = &gpuring_process.net_counts};
    struct gpuring_net_config config = {
        .messages = &gpuring_message_mpi,
        .comm = module->comm,
        .rank = module->rank,
        .track = module->oob->track,
        .number = (int) gpuring_wireup_number(wireup),
        .local_host = gpuring_process.hostname,
    };
    int status = gpuring_proxy_create(&proxy_config, &transport->proxy);

    if (status != GPURING_OK) {
        return status;
    }
    config.gate = gpuring_proxy_gate(transport->proxy);
    status = gpuring_net_mpi.open(&config, &transport->net);
    if (status != GPURING_OK) {
        gpuring_proxy_destroy(transport->proxy, 0);
        return status;
    }
    gpuring_proxy_add_net(transport->proxy, transport->net);
    transport->own_net = true;
    return GPURING_OK;
}

int gpuring_network_open(const mca_coll_gpuring_module_t *module,
                         const struct gpuring_wireup *wireup,
                         struct gpuring_transport_config *transport)
{
    int status;

    transport->net_ops = ops_of(wireup->net.kind);
    if (wireup->net.kind == GPURING_PARAM_NET_MPI) {
        return open_messages(module, wireup, transport);
    }
    pthread_mutex_lock(&gpuring_process.lock);
    status = open_net(wireup->net.kind, wireup->survey->rank_infos.nranks);
    status = status == GPURING_OK ? drive_net(wireup, module->rank) : status;
    transport->net = (struct gpuring_net *) networks[wireup->net.kind].net;
    transport->proxy = gpuring_process.proxy;
    pthread_mutex_unlock(&gpuring_process.lock);
    return status;
}

/* Keep the component loaded, because the progress thread has not ended. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr(networks, &info) != 0 && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

bool gpuring_network_stop(void)
{
    if (gpuring_proxy_destroy(gpuring_process.proxy, CLOSE_SECONDS) != GPURING_OK) {
        stay_loaded();
        return false;
    }
    gpuring_process.proxy = NULL;
    return true;
}

void gpuring_network_close(void)
{
    if (!gpuring_network_stop()) {
        return;
    }
    for (int i = 0; i < NETWORKS; i++) {
        if (networks[i].net != NULL) {
            networks[i].net->ops->close((struct gpuring_net *) networks[i].net);
            networks[i].net = NULL;
            networks[i].driven = false;
        }
    }
}
