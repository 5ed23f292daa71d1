/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `ucx`: the worker of the process, its devices and its progress. */
#include "mca/coll_gpuring/net/ucx/ucx_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Calls of UCX's progress per poll until there is an event, because one call does little. */
#define PROGRESS_CALLS 4
#define KEEPALIVE      "2s"
/* From this minor version to 1.18, a UCX without "ib" still uses UD as an auxiliary transport, for
 * example for keepalives. */
#define UCX_AUXILIARY 15

static int ucx_error(const char *host, const char *what, ucs_status_t status)
{
    gpuring_error("[ucx-call] UCX on %s cannot %s: %s; UCX_LOG_LEVEL=info prints more, and "
                  "coll_gpuring_net selects another network",
                  host, what, gpuring_ucx.ucs_status_string(status));
    return status == UCS_ERR_NO_MEMORY ? GPURING_ERR_NOMEM : GPURING_ERR_NET;
}

/* Return the value that the user has set for an option of UCX, for this component or for all users
 * of UCX, or NULL. */
static const char *option_given(const char *name)
{
    char variable[64];
    const char *value;

    snprintf(variable, sizeof variable, "GPURING_UCX_%s", name);
    value = getenv(variable);
    return value != NULL ? value : getenv(variable + strlen("GPURING_"));
}

/*
 * Configure UCX not to use RDMA devices if all of them are software devices, on which UCX's
 * transports do not connect. UCX does not always report an error then: UCX 1.13.1 aborted the
 * process when an endpoint over UD found no peer. If the user has chosen transports or devices for
 * UCX, change nothing.
 */
static void avoid_rdma(struct gpuring_net *net, ucp_config_t *config)
{
    unsigned major, minor, release;
    const char *transports;

    if (option_given("TLS") != NULL || option_given("NET_DEVICES") != NULL ||
        !gpuring_net_only_software("/sys")) {
        return;
    }
    gpuring_ucx.ucp_get_version(&major, &minor, &release);
    transports = minor < UCX_AUXILIARY ? "^ib" : "^ib,ib:aux";
    if (gpuring_ucx.ucp_config_modify(config, "TLS", transports) == UCS_OK) {
        net->no_rdma = true;
        gpuring_info("[ucx-no-rdma] UCX on %s does not use the RDMA devices (UCX_TLS=%s): "
                     "[rdma-software] they are made by software",
                     net->base.host, transports);
    } else {
        gpuring_warn("UCX on %s does not accept UCX_TLS=%s: if it does not connect the nodes, "
                     "set UCX_TLS to transports that connect them",
                     net->base.host, transports);
    }
}

/*
 * Set defaults of options that the user has not set. Some transports have no connection that breaks
 * when the peer dies. UCX then detects the death with keepalives, whose default interval is so long
 * that applications would seem to hang.
 */
static void configure(ucp_config_t *config)
{
    if (option_given("KEEPALIVE_INTERVAL") == NULL) {
        /* This has no effect if this UCX does not have the option. */
        gpuring_ucx.ucp_config_modify(config, "KEEPALIVE_INTERVAL", KEEPALIVE);
    }
}

/*
 * Open a UCX context for this component alone. Its configuration is read from the environment
 * (UCX_*, overridden by GPURING_UCX_*). Other users of UCX keep their configuration.
 */
static int open_context(struct gpuring_net *net, int npeers)
{
    /* UCX chooses transports that suit this number: beyond some number of peers, not RC. */
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME |
                                               (npeers > 0 ? UCP_PARAM_FIELD_ESTIMATED_NUM_EPS : 0),
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                 .estimated_num_eps = (size_t) npeers,
                                 .name = "gpuring"};
    ucp_config_t *config;
    ucs_status_t status = gpuring_ucx.ucp_config_read("GPURING", NULL, &config);

    if (status != UCS_OK) {
        return ucx_error(net->base.host, "read its configuration", status);
    }
    avoid_rdma(net, config);
    configure(config);
    status =
        gpuring_ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &net->context);
    gpuring_ucx.ucp_config_release(config);
    return status == UCS_OK ? GPURING_OK : ucx_error(net->base.host, "start", status);
}

static void report_ucx(const struct gpuring_net *net)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    bool cuda = gpuring_ucx.ucp_context_query(net->context, &attr) == UCS_OK &&
                (attr.memory_types & (UINT64_C(1) << UCS_MEMORY_TYPE_CUDA)) != 0;
    unsigned major, minor, release;

    gpuring_ucx.ucp_get_version(&major, &minor, &release);
    gpuring_info("[ucx] network ucx on %s: UCX %u.%u.%u, %d device(s)%s%s; GPU memory: %s",
                 net->base.host, major, minor, release, net->devices.count,
                 net->devices.count > 0 ? ", first " : "",
                 net->devices.count > 0 ? net->devices.device[0].name : "",
                 cuda ? "[ucx-cuda] this UCX knows CUDA"
                      : "[ucx-no-cuda] this UCX has no CUDA support, so chunks are copied through "
                        "pinned host memory");
}

static int open_worker(struct gpuring_net *net)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = 0,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = gpuring_ucx_receive,
        .arg = net};
    ucs_status_t status = gpuring_ucx.ucp_worker_create(net->context, &params, &net->worker);

    if (status != UCS_OK) {
        return ucx_error(net->base.host, "create a worker", status);
    }
    status = gpuring_ucx.ucp_worker_set_am_recv_handler(net->worker, &handler);
    if (status != UCS_OK) {
        return ucx_error(net->base.host, "set a handler", status);
    }
    if (gpuring_ucx.ucp_worker_get_efd(net->worker, &net->efd) != UCS_OK) {
        net->efd = -1; /* a transport has no descriptor, so the proxy waits with short naps */
    }
    return GPURING_OK;
}

static int list_devices(struct gpuring_net *net)
{
    const char *list = option_given("NET_DEVICES");
    int status = net->no_rdma ? GPURING_OK : gpuring_net_devices_rdma("/sys", list, &net->devices);

    return status == GPURING_OK ? gpuring_net_devices_ip("/sys", list, &net->devices) : status;
}

static void ucx_close(struct gpuring_net *net)
{
    if (net->worker != NULL) {
        gpuring_gate_enter(net->base.gate);
        if (net->flush != NULL) {
            gpuring_ucx.ucp_request_free(net->flush);
        }
        gpuring_ucx_peers_close(net);
        gpuring_gate_leave(net->base.gate);
        gpuring_ucx.ucp_worker_destroy(net->worker);
    }
    if (net->context != NULL) {
        gpuring_ucx.ucp_cleanup(net->context);
    }
    gpuring_net_base_destroy(&net->base);
    free(net->devices.device);
    free(net);
}

/* File descriptors that must be free. A worker with one device needs about 20, and UCX aborts the
 * process if it cannot open them. */
#define RESERVE 32

/* Return the number of open descriptors, or 0 if it is unknown. */
static unsigned open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned open = 0;

    while (folder != NULL && readdir(folder) != NULL) {
        open++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return open;
}

/* Return 0 or GPURING_ERR_FILES (logged). */
static int check_descriptors(const char *host)
{
    unsigned open = open_descriptors();
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        limit.rlim_cur = RLIM_INFINITY;
    }
    if (open == 0 || open + RESERVE > limit.rlim_cur) {
        gpuring_error("[few-descriptors] the network ucx on %s needs %d more file descriptors, and "
                      "the limit is %llu: raise it (ulimit -n)",
                      host, RESERVE, (unsigned long long) limit.rlim_cur);
        return GPURING_ERR_FILES;
    }
    return GPURING_OK;
}

static int ucx_open(const struct gpuring_net_config *config, struct gpuring_net **result)
{
    struct gpuring_net *net;
    const char *why;
    int status = gpuring_ucx_load(&why);

    if (status != GPURING_OK) {
        gpuring_error("no network ucx on %s: %s", config->local_host, why);
        return status;
    }
    net = calloc(1, sizeof *net);
    if (net == NULL) {
        gpuring_error("out of memory for the network ucx");
        return GPURING_ERR_NOMEM;
    }
    gpuring_net_base_init(&net->base, &gpuring_net_ucx, config);
    net->efd = -1;
    gpuring_list_init(&net->peers);
    status = check_descriptors(net->base.host);
    status = status == GPURING_OK ? open_context(net, config->npeers) : status;
    status = status == GPURING_OK ? open_worker(net) : status;
    status = status == GPURING_OK ? list_devices(net) : status;
    if (status != GPURING_OK) {
        ucx_close(net);
        return status;
    }
    report_ucx(net);
    *result = net;
    return GPURING_OK;
}

static const struct gpuring_net_devices *ucx_devices(const struct gpuring_net *net)
{
    return &net->devices;
}

static int ucx_process_handle(struct gpuring_net *net, void *handle, size_t *bytes)
{
    ucp_address_t *address;
    size_t length;
    ucs_status_t status;
    int result = GPURING_OK;

    gpuring_gate_enter(net->base.gate);
    status = gpuring_ucx.ucp_worker_get_address(net->worker, &address, &length);
    if (status != UCS_OK) {
        result = ucx_error(net->base.host, "give its address", status);
    } else if (*bytes < length) {
        gpuring_error("the UCX address of this process has %zu bytes, more than the limit of "
                      "%zu: set UCX_NET_DEVICES to fewer devices",
                      length, *bytes);
        result = GPURING_ERR_ARG;
    } else {
        memcpy(handle, address, length);
        *bytes = length;
    }
    if (status == UCS_OK) {
        gpuring_ucx.ucp_worker_release_address(net->worker, address);
    }
    gpuring_gate_leave(net->base.gate);
    return result;
}

static int ucx_poll(struct gpuring_net *net)
{
    for (int i = 0; i < PROGRESS_CALLS && net->base.events == 0; i++) {
        if (gpuring_ucx.ucp_worker_progress(net->worker) == 0) {
            break;
        }
    }
    return gpuring_net_base_events(&net->base);
}

/* Return GPURING_AGAIN while UCX may have data in its buffers. Even the data of a completed send
 * may still be there, but a flush completes only when the buffers are empty. */
static int ucx_quiet(struct gpuring_net *net)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    int status = GPURING_OK;

    if (net->flush == NULL && net->dirty) {
        net->dirty = false;
        net->flush = gpuring_ucx.ucp_worker_flush_nbx(net->worker, &param);
        if (!UCS_PTR_IS_PTR(net->flush)) {
            net->flush =
                NULL; /* the flush is complete, or has failed and the endpoints report it */
        }
    }
    if (net->flush != NULL) {
        if (gpuring_ucx.ucp_request_check_status(net->flush) == UCS_INPROGRESS) {
            status = GPURING_AGAIN;
        } else {
            gpuring_ucx.ucp_request_free(net->flush);
            net->flush = NULL;
            status = net->dirty ? GPURING_AGAIN : GPURING_OK;
        }
    }
    return status;
}

static int ucx_arm(struct gpuring_net *net, int *fd)
{
    *fd = net->efd;
    return net->efd >= 0 &&
                   (net->base.events > 0 || gpuring_ucx.ucp_worker_arm(net->worker) != UCS_OK)
               ? GPURING_AGAIN
               : GPURING_OK;
}

const struct gpuring_net_ops gpuring_net_ucx = {
    .name = "ucx",
    .carries_credit = true,
    .open = ucx_open,
    .close = ucx_close,
    .devices = ucx_devices,
    .process_handle = ucx_process_handle,
    .link_create = gpuring_ucx_link_create,
    .link_handle = gpuring_ucx_link_handle,
    .link_connect = gpuring_ucx_link_connect,
    .link_leave = gpuring_ucx_link_leave,
    .link_holds = gpuring_ucx_link_holds,
    .link_close = gpuring_ucx_link_close,
    .link_abort = gpuring_ucx_abort,
    .post = gpuring_ucx_post,
    .credit = gpuring_ucx_credit,
    .poll = ucx_poll,
    .quiet = ucx_quiet,
    .arm = ucx_arm,
};
