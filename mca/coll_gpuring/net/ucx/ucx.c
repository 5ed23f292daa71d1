/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The net `ucx`: the worker of the process, its devices and its progress. */
#include "mca/coll_gpuring/net/ucx/ucx_internal.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "mca/coll_gpuring/net/interfaces.h"
#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define PROGRESS_CALLS 4 /* calls of UCX's progress per poll, because one call does little */
#define KEEPALIVE      "2s"
#define UCX_LIBRARY    "libucp.so.0"
/* The minor version of UCX 1 that has active messages with rendezvous and the flush of a worker
 * (NEWS of UCX). */
#define UCX_OLDEST 11
/* From this minor version to 1.18, a UCX without "ib" still uses UD, if only for keepalives. */
#define UCX_AUXILIARY 15

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

static int ucx_error(const char *host, const char *what, ucs_status_t status)
{
    gpuring_error(
        "[ucx-call] UCX on %s cannot %s: %s; UCX_LOG_LEVEL=info says more, coll_gpuring_net "
        "chooses another network",
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
 * Configure UCX not to use RDMA devices in two cases: if all of them are software devices, on which
 * UCX's transports do not connect, and if verbs has failed to connect the ranks. UCX does not
 * always report an error in these cases: UCX 1.13.1 aborted the process when an endpoint over UD
 * found no peer. If the user has chosen transports or devices for UCX, change nothing.
 */
static void avoid_rdma(struct gpuring_net *net, ucp_config_t *config, bool failed)
{
    unsigned major, minor, release;
    const char *transports;

    if (option_given("TLS") != NULL || option_given("NET_DEVICES") != NULL ||
        (!failed && !gpuring_net_only_software("/sys"))) {
        return;
    }
    gpuring_ucx.ucp_get_version(&major, &minor, &release);
    transports = minor < UCX_AUXILIARY ? "^ib" : "^ib,ib:aux";
    if (gpuring_ucx.ucp_config_modify(config, "TLS", transports) == UCS_OK) {
        net->no_rdma = true;
        gpuring_info("[ucx-no-rdma] UCX on %s leaves RDMA devices alone (UCX_TLS=%s): %s",
                     net->base.host, transports,
                     failed ? "[verbs-failed] verbs did not connect the ranks"
                            : "[rdma-software] they are made by software");
    } else {
        gpuring_warn("UCX on %s does not take UCX_TLS=%s: if it does not connect the nodes, set "
                     "UCX_TLS to transports that do",
                     net->base.host, transports);
    }
}

/* Return true if this may be an RDMA transport or a group of them, which includes unknown names. */
static bool may_be_rdma(const char *name, size_t length)
{
    static const char *const others[] = {"tcp",   "self", "sm",  "shm",  "mm",
                                         "posix", "sysv", "cma", "knem", "xpmem"};
    bool other = strncmp(name, "cuda", 4) == 0;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        other = other || (strlen(others[i]) == length && strncmp(name, others[i], length) == 0);
    }
    return !other;
}

/* Return true if UCX has only TCP to send slots between nodes. */
static bool goes_by_tcp(const struct gpuring_net *net)
{
    const char *list = option_given("TLS");
    struct gpuring_net_devices devices = {.count = 0};
    bool rdma = !net->no_rdma;

    if (rdma && list != NULL) {
        rdma = false;
        for (const char *at = list; *at != '\0'; at += strspn(at, ",")) {
            size_t length = strcspn(at, ",");

            rdma = rdma || may_be_rdma(at, length);
            at += length;
        }
    }
    if (rdma &&
        gpuring_net_devices_rdma("/sys", option_given("NET_DEVICES"), &devices) == GPURING_OK) {
        rdma = devices.count > 0;
    }
    free(devices.device);
    return !rdma;
}

/* Append "NAME" or "NAME:PORT" to a list for UCX. */
static void print_device(FILE *list, const char *name, int port)
{
    fprintf(list, "%s%s", ftell(list) > 0 ? "," : "", name);
    if (port > 0) {
        fprintf(list, ":%d", port);
    }
}

/* Return the list of RDMA ports and of these interfaces, which the caller frees, or NULL without
 * memory. */
static char *list_for_ucx(const struct gpuring_net *net, const struct gpuring_interface *interfaces,
                          int count)
{
    struct gpuring_net_devices rdma = {.count = 0};
    char *text = NULL;
    size_t size;
    FILE *list = open_memstream(&text, &size);

    if (list == NULL) {
        return NULL;
    }
    if (!net->no_rdma && gpuring_net_devices_rdma("/sys", NULL, &rdma) != GPURING_OK) {
        rdma.count = 0;
    }
    for (int i = 0; i < rdma.count; i++) {
        print_device(list, rdma.device[i].name, rdma.device[i].port);
    }
    for (int i = 0; i < count; i++) {
        print_device(list, interfaces[i].name, 0);
    }
    free(rdma.device);
    if (fclose(list) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/*
 * Set UCX's list of devices if this host has interfaces that lead to no other node. Otherwise UCX
 * would first try the bridges of containers and virtual machines, and connect to the same host
 * instead of the peer.
 */
static void avoid_bridges(struct gpuring_net *net, ucp_config_t *config,
                          const struct gpuring_net_config *wish)
{
    struct gpuring_interface interfaces[GPURING_INTERFACES_MAX];
    int found = gpuring_interfaces_find(interfaces);
    int kept = gpuring_interfaces_choose(interfaces, found, wish->shared_addresses,
                                         wish->nshared_addresses);

    if (option_given("NET_DEVICES") != NULL || kept == found) {
        return;
    }
    net->net_devices = list_for_ucx(net, interfaces, kept);
    if (net->net_devices == NULL ||
        gpuring_ucx.ucp_config_modify(config, "NET_DEVICES", net->net_devices) != UCS_OK) {
        gpuring_warn("UCX on %s may use interfaces that lead to no other node: name the right ones "
                     "with UCX_NET_DEVICES",
                     net->base.host);
        return;
    }
    gpuring_info("[ucx-interfaces] UCX on %s uses %s, and %d interface(s) less than there are: "
                 "docker*, virbr*, and those whose address another node also has. UCX_NET_DEVICES "
                 "selects others",
                 net->base.host, net->net_devices, found - kept);
}

/*
 * Set defaults of options that the user has not set. Some transports have no connection that breaks
 * when the peer dies. UCX then detects the death with keepalives, whose default interval is so long
 * that applications would seem to hang.
 */
static void configure(struct gpuring_net *net, ucp_config_t *config)
{
    if (option_given("KEEPALIVE_INTERVAL") == NULL) {
        /* This has no effect if this UCX does not have the option. */
        gpuring_ucx.ucp_config_modify(config, "KEEPALIVE_INTERVAL", KEEPALIVE);
    }
    net->tcp = goes_by_tcp(net);
    if (option_given("RNDV_THRESH") == NULL && net->tcp) {
        /* With UCX 1.13.1, calls of 32 KiB to 4 MiB in slots of 128 KiB took three times as long
         * with rendezvous as with eager messages, and used only one of several devices. */
        gpuring_ucx.ucp_config_modify(config, "RNDV_THRESH", "inf");
        gpuring_debug("UCX on %s goes by TCP: no rendezvous", net->base.host);
    }
}

/*
 * Open a UCX context for this component alone. Its configuration is read from the environment
 * (UCX_*, overridden by GPURING_UCX_*). Other users of UCX keep their configuration.
 */
static int open_context(struct gpuring_net *net, const struct gpuring_net_config *wish)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                 .name = "gpuring"};
    ucp_config_t *config;
    ucs_status_t status = gpuring_ucx.ucp_config_read("GPURING", NULL, &config);

    if (status != UCS_OK) {
        return ucx_error(net->base.host, "read its configuration", status);
    }
    avoid_rdma(net, config, wish->ucx_no_rdma);
    avoid_bridges(net, config, wish);
    configure(net, config);
    status =
        gpuring_ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &net->context);
    gpuring_ucx.ucp_config_release(config);
    return status == UCS_OK ? GPURING_OK : ucx_error(net->base.host, "start", status);
}

static void report(const struct gpuring_net *net)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    bool cuda = gpuring_ucx.ucp_context_query(net->context, &attr) == UCS_OK &&
                (attr.memory_types & (UINT64_C(1) << UCS_MEMORY_TYPE_CUDA)) != 0;
    unsigned major, minor, release;

    gpuring_ucx.ucp_get_version(&major, &minor, &release);
    gpuring_info(
        "[ucx] network ucx on %s: UCX %u.%u.%u, %d device(s)%s%s; GPU memory: %s", net->base.host,
        major, minor, release, net->devices.count, net->devices.count > 0 ? ", first " : "",
        net->devices.count > 0 ? net->devices.device[0].name : "",
        cuda ? "[ucx-cuda] this UCX knows CUDA"
             : "[ucx-no-cuda] this UCX has no CUDA support, chunks go through pinned host memory");
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
    const char *list = net->net_devices != NULL ? net->net_devices : option_given("NET_DEVICES");
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
    free(net->net_devices);
    free(net);
}

/* Descriptors that must remain free: a worker with one device needs about 20. After the worker was
 * created they are a reserve for the rest of the process. */
#define RESERVE 32
/* Sockets per peer and device, because both ends may connect at the same time. UCX uses at most two
 * devices. */
#define SOCKETS 2

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

int gpuring_ucx_check_descriptors(const struct gpuring_net *net, unsigned more)
{
    unsigned each = net->tcp ? SOCKETS * (net->devices.count > 1 ? 2 : 1) : 0;
    unsigned open = open_descriptors(), npeers = net->npeers + more;
    unsigned later = net->opened + net->npeers * each; /* after all peers have connected */
    unsigned needed = (open > later ? open : later) + more * each + RESERVE;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        limit.rlim_cur = RLIM_INFINITY;
    }
    if (open == 0 || needed > limit.rlim_cur) {
        gpuring_error(
            "[few-descriptors] the network ucx on %s needs %u file descriptors, %u of them "
            "for connections to %u processes by TCP; the limit is %llu: raise it (ulimit "
            "-n)",
            net->base.host, needed, npeers * each, npeers, (unsigned long long) limit.rlim_cur);
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
    status = gpuring_ucx_check_descriptors(net, 0);
    status = status == GPURING_OK ? open_context(net, config) : status;
    status = status == GPURING_OK ? open_worker(net) : status;
    status = status == GPURING_OK ? list_devices(net) : status;
    if (status != GPURING_OK) {
        ucx_close(net);
        return status;
    }
    report(net);
    net->opened = open_descriptors();
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
        gpuring_error("the UCX address of this process takes %zu bytes, %zu are too few: fewer "
                      "devices in UCX_NET_DEVICES shorten it",
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
    for (int i = 0; i < PROGRESS_CALLS; i++) {
        if (gpuring_ucx.ucp_worker_progress(net->worker) == 0) {
            break;
        }
    }
    return gpuring_net_base_events(&net->base);
}

/* Return GPURING_AGAIN while UCX may have data in its buffers. The data of a completed send may
 * still be there; a flush completes when the buffers are empty. */
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
    .open = ucx_open,
    .close = ucx_close,
    .devices = ucx_devices,
    .process_handle = ucx_process_handle,
    .link_create = gpuring_ucx_link_create,
    .link_handle = gpuring_ucx_link_handle,
    .link_connect = gpuring_ucx_link_connect,
    .link_leave = gpuring_ucx_link_leave,
    .link_close = gpuring_ucx_link_close,
    .link_abort = gpuring_ucx_abort,
    .post = gpuring_ucx_post,
    .credit = gpuring_ucx_credit,
    .poll = ucx_poll,
    .quiet = ucx_quiet,
    .arm = ucx_arm,
};
