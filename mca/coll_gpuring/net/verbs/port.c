/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The adapters and ports of this host that the net `verbs` uses. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Choose the best GID of a port, or the first one among equals. */
static bool choose_gid(const struct gpuring_net *net, struct gpuring_verbs_port *port, int count)
{
    int best = 0;

    for (int i = 0; i < count && i < 256; i++) {
        struct ibv_gid_entry entry;
        int rank;

        if ((net->config.verbs_gid_index > 0 && net->config.verbs_gid_index - 1 != i) ||
            gpuring_verbs.query_gid_ex(port->adapter->context, port->number, (uint32_t) i, &entry,
                                       0, sizeof entry) != 0) {
            continue;
        }
        rank = gpuring_nic_gid_rank(net->config.verbs_gid_index > 0,
                                    port->link_layer == IBV_LINK_LAYER_ETHERNET,
                                    entry.gid_type == IBV_GID_TYPE_ROCE_V2, entry.gid.raw);
        if (rank > best) {
            best = rank;
            port->gid = entry.gid;
            port->gid_index = (uint8_t) i;
        }
    }
    return best > 0;
}

/* Find the index of the partition key in the port's table. The top bit specifies full or limited
 * membership and is not part of the key. */
static bool choose_pkey(const struct gpuring_net *net, struct gpuring_verbs_port *port, int count)
{
    for (int i = 0; i < count && net->config.verbs_pkey > 0; i++) {
        __be16 key;

        if (gpuring_verbs.query_pkey(port->adapter->context, port->number, i, &key) == 0 &&
            (be16toh(key) & 0x7fff) == net->config.verbs_pkey) {
            port->pkey_index = (uint16_t) i;
            return true;
        }
    }
    return net->config.verbs_pkey == 0; /* the first one */
}

/* The ports found so far. */
struct found {
    struct gpuring_verbs_port *port;
    int count;
    char unused[512]; /* ports that are not used, and why */
};

static void note_unused(struct found *found, const char *device, unsigned port, const char *why)
{
    size_t used = strlen(found->unused);

    if (used < sizeof found->unused) {
        snprintf(found->unused + used, sizeof found->unused - used, "%s%s:%u %s",
                 used > 0 ? ", " : "", device, port, why);
    }
}

static int add_port(struct found *found, const struct gpuring_verbs_port *port)
{
    size_t bytes = ((size_t) found->count + 1) * sizeof(*port);
    struct gpuring_verbs_port *grown = realloc(found->port, bytes);

    if (grown == NULL) {
        gpuring_error("out of memory for the list of network ports");
        return GPURING_ERR_NOMEM;
    }
    found->port = grown;
    grown[found->count++] = *port;
    return GPURING_OK;
}

static int announce_port(struct gpuring_net *net, const struct gpuring_verbs_port *port)
{
    struct gpuring_net_device device = {.port = port->number};
    char gid[INET6_ADDRSTRLEN];

    snprintf(device.name, sizeof device.name, "%s", port->adapter->name);
    gpuring_net_pci_bus_id("/sys", "infiniband", device.name, device.pci_bus_id);
    inet_ntop(AF_INET6, port->gid.raw, gid, sizeof gid);
    gpuring_debug("network verbs: %s port %d, %s, %u Gb/s, MTU %d, GID %d %s, PCI %s", device.name,
                  device.port,
                  port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE v2" : "InfiniBand",
                  port->speed / 1000, 128 << port->mtu, port->gid_index, gid,
                  device.pci_bus_id[0] != '\0' ? device.pci_bus_id : "none");
    return gpuring_net_devices_add(&net->devices, &device);
}

/* Return the speed of a link in Mb/s from LinkWidthActive and LinkSpeedActive of its port
 * (InfiniBand specification, PortInfo; libibverbs uses the same codes for Ethernet). */
static uint32_t speed_of(const struct ibv_port_attr *attr)
{
    static const struct {
        uint8_t code;
        uint32_t value;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
      speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    uint32_t width = 0, speed = 0;

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        width = attr->active_width == widths[i].code ? widths[i].value : width;
    }
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        speed = attr->active_speed == speeds[i].code ? speeds[i].value : speed;
    }
    return width * speed;
}

/* Compare the networks of two ports: subnets of InfiniBand, and addresses of RoCE, which have the
 * order of their networks. */
static int compare_networks(const struct gpuring_verbs_port *a, const struct gpuring_verbs_port *b)
{
    int order = memcmp(a->gid.raw, b->gid.raw, 8);

    if (order == 0) {
        order = a->link_layer - b->link_layer;
    }
    if (order == 0 && a->link_layer == IBV_LINK_LAYER_ETHERNET) {
        order = memcmp(a->gid.raw, b->gid.raw, sizeof a->gid.raw);
    }
    return order;
}

/* Order the ports by network, so that ports with equal numbers on similar hosts are on the same
 * network even if their names or cables are crossed. Insertion keeps the order within a network. */
static void order_ports(struct found *found)
{
    for (int i = 1; i < found->count; i++) {
        struct gpuring_verbs_port port = found->port[i];
        int at = i;

        for (; at > 0 && compare_networks(&found->port[at - 1], &port) > 0; at--) {
            found->port[at] = found->port[at - 1];
        }
        found->port[at] = port;
    }
}

/* Drop ports that are slower than half of the fastest one, unless the user has listed ports. */
static void drop_slow(const struct gpuring_net *net, struct found *found)
{
    const char *hca = net->config.hca;
    bool listed = hca != NULL && hca[0] != '\0' && hca[0] != '^';
    uint32_t fastest = 0;
    int kept = 0;

    for (int i = 0; i < found->count; i++) {
        fastest = found->port[i].speed > fastest ? found->port[i].speed : fastest;
    }
    for (int i = 0; i < found->count; i++) {
        const struct gpuring_verbs_port *port = &found->port[i];

        if (listed || port->speed == 0 || port->speed >= fastest / 2) {
            found->port[kept++] = *port;
        } else {
            note_unused(found, port->adapter->name, port->number, "is slow beside another port");
        }
    }
    found->count = kept;
}

/* Vendor ID of Omni-Path adapters (hfi1), from ibv_devinfo. The CPU makes their reliable
 * connections, and messages of MPI, which use their own protocol (PSM2), are faster. */
#define VENDOR_OMNI_PATH 0x1175

/* Return why a device or its port is not a candidate, or NULL. */
static const char *unfit(const struct gpuring_verbs_adapter *adapter,
                         const struct ibv_port_attr *attr)
{
    if (adapter->attr.vendor_id == VENDOR_OMNI_PATH) {
        return "is Omni-Path, whose reliable connections are made by software";
    }
    if (attr->link_layer != IBV_LINK_LAYER_INFINIBAND &&
        attr->link_layer != IBV_LINK_LAYER_ETHERNET) {
        return "is neither InfiniBand nor RoCE";
    }
    return attr->state != IBV_PORT_ACTIVE ? "not active" : NULL;
}

/* Use a port of the adapter if possible. `why` is the reason if not. */
static int try_port(const struct gpuring_net *net, struct found *found,
                    struct gpuring_verbs_adapter *adapter, uint8_t number, const char **why)
{
    struct gpuring_verbs_port port = {.adapter = adapter, .number = number};
    struct ibv_port_attr attr;
    int error;

    memset(&attr, 0, sizeof attr); /* an old library fills in the old fields only */
    *why = NULL;
    if (!gpuring_net_list_selects(net->config.hca, adapter->name, number)) {
        *why = "not selected by coll_gpuring_verbs_hca";
    } else if (gpuring_verbs.query_port(adapter->context, number,
                                        (struct _compat_ibv_port_attr *) &attr) != 0) {
        *why = "cannot be queried";
    } else {
        *why = unfit(adapter, &attr);
    }
    if (*why != NULL) {
        return GPURING_OK;
    }
    port.link_layer = attr.link_layer;
    port.lid = attr.lid;
    port.mtu = attr.active_mtu;
    port.speed = speed_of(&attr);
    port.global =
        attr.link_layer == IBV_LINK_LAYER_ETHERNET || (attr.flags & IBV_QPF_GRH_REQUIRED) != 0;
    if (net->config.verbs_mtu > 0 && port.mtu > (enum ibv_mtu) net->config.verbs_mtu) {
        port.mtu = (enum ibv_mtu) net->config.verbs_mtu;
    }
    if (!choose_pkey(net, &port, attr.pkey_tbl_len)) {
        *why = "has no partition key coll_gpuring_verbs_pkey";
    } else if (!choose_gid(net, &port, attr.gid_tbl_len) &&
               (net->config.verbs_gid_index > 0 || port.global)) {
        *why = net->config.verbs_gid_index > 0 ? "has no GID number coll_gpuring_verbs_gid_index"
               : attr.link_layer == IBV_LINK_LAYER_ETHERNET
                   ? "has no GID for RoCE v2"
                   : "has no GID, which its subnet demands";
    } else if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        port.network_bits = gpuring_nic_network_bits(port.gid.raw);
    }
    if (*why == NULL && (error = gpuring_verbs_port_prove(net, &port)) != 0) {
        *why = error == ENOMEM ? "has no memory for a reliable connection (see ulimit -l)"
                               : "does not make a reliable connection";
        gpuring_debug("%s:%u: %s", adapter->name, number, strerror(error));
    }
    return *why != NULL ? GPURING_OK : add_port(found, &port);
}

static void adapter_close(struct gpuring_verbs_adapter *adapter)
{
    if (adapter->page != NULL) {
        void *page = adapter->page->addr;

        gpuring_verbs.dereg_mr(adapter->page);
        free(page);
    }
    if (adapter->channel != NULL) {
        gpuring_verbs.destroy_comp_channel(adapter->channel);
    }
    if (adapter->pd != NULL) {
        gpuring_verbs.dealloc_pd(adapter->pd);
    }
    if (adapter->context != NULL) {
        gpuring_verbs.close_device(adapter->context);
    }
    free(adapter);
}

static int nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Open an adapter. Returns NULL after a log line if it cannot be used. */
static struct gpuring_verbs_adapter *adapter_open(const struct gpuring_net *net,
                                                  struct ibv_device *device)
{
    struct gpuring_verbs_adapter *adapter = calloc(1, sizeof *adapter);
    struct epoll_event interest = {.events = EPOLLIN};
    const char *failed = NULL;
    char bus_id[16];

    if (adapter == NULL) {
        return NULL;
    }
    gpuring_list_init(&adapter->cqs);
    gpuring_list_init(&adapter->mrs);
    snprintf(adapter->name, sizeof adapter->name, "%s", gpuring_verbs.get_device_name(device));
    gpuring_net_pci_bus_id("/sys", "infiniband", adapter->name, bus_id);
    adapter->software = bus_id[0] == '\0';
    adapter->context = gpuring_verbs.open_device(device);
    if (adapter->context == NULL) {
        failed = "open";
    } else if (gpuring_verbs.query_device(adapter->context, &adapter->attr) != 0) {
        failed = "query";
    } else if ((adapter->pd = gpuring_verbs.alloc_pd(adapter->context)) == NULL) {
        failed = "allocate a protection domain of";
    } else if ((adapter->channel = gpuring_verbs.create_comp_channel(adapter->context)) == NULL ||
               nonblocking(adapter->channel->fd) != 0 ||
               nonblocking(adapter->context->async_fd) != 0 ||
               epoll_ctl(net->epoll, EPOLL_CTL_ADD, adapter->channel->fd, &interest) != 0) {
        failed = "create a completion channel of";
    }
    if (failed != NULL) {
        gpuring_info("[rdma-unusable] network verbs on %s cannot %s device %s: %s; it is not used "
                     "(is /dev/infiniband/uverbs* accessible?)",
                     net->base.host, failed, adapter->name, strerror(errno));
        adapter_close(adapter);
        return NULL;
    }
    return adapter;
}

/* Find all suitable ports of one device. */
static int discover_device(struct gpuring_net *net, struct ibv_device *device, struct found *found)
{
    struct gpuring_verbs_adapter *adapter = adapter_open(net, device);
    int status = GPURING_OK;

    if (adapter == NULL) {
        return GPURING_OK;
    }
    adapter->next = net->adapters;
    net->adapters = adapter;
    for (unsigned n = 1; n <= adapter->attr.phys_port_cnt && status == GPURING_OK; n++) {
        const char *why;

        status = try_port(net, found, adapter, (uint8_t) n, &why);
        if (why != NULL) {
            note_unused(found, adapter->name, n, why);
        }
    }
    return status;
}

static void close_unused(struct gpuring_net *net)
{
    struct gpuring_verbs_adapter **at = &net->adapters;

    while (*at != NULL) {
        struct gpuring_verbs_adapter *adapter = *at;
        bool used = false;

        for (int i = 0; i < net->devices.count; i++) {
            used = used || net->ports[i].adapter == adapter;
        }
        if (used) {
            at = &adapter->next;
        } else {
            *at = adapter->next;
            adapter_close(adapter);
        }
    }
}

static int discover_all(struct gpuring_net *net, struct found *found)
{
    int count = 0, status = GPURING_OK;
    struct ibv_device **list = gpuring_verbs.get_device_list(&count);

    for (int i = 0; list != NULL && i < count && status == GPURING_OK; i++) {
        status = discover_device(net, list[i], found);
    }
    if (list != NULL) {
        gpuring_verbs.free_device_list(list);
    }
    if (status == GPURING_OK && found->count == 0) {
        gpuring_info("[rdma-unusable] no network verbs on %s: %s", net->base.host,
                     found->unused[0] != '\0' ? found->unused
                     : count > 0              ? "no RDMA device can be used"
                                 : "libibverbs finds no RDMA device; a container needs "
                                   "/dev/infiniband (docker run --device=/dev/infiniband)");
        return GPURING_ERR_UNSUPPORTED;
    }
    return status;
}

int gpuring_verbs_discover(struct gpuring_net *net)
{
    struct found found = {.count = 0};
    int status = discover_all(net, &found);

    net->ports = found.port;
    if (status != GPURING_OK) {
        return status;
    }
    drop_slow(net, &found);
    order_ports(&found);
    if (found.unused[0] != '\0') {
        gpuring_debug("network verbs on %s does not use %s", net->base.host, found.unused);
    }
    for (int i = 0; i < found.count && status == GPURING_OK; i++) {
        status = announce_port(net, &net->ports[i]);
    }
    close_unused(net);
    return status;
}

void gpuring_verbs_forget(struct gpuring_net *net)
{
    while (net->adapters != NULL) {
        struct gpuring_verbs_adapter *adapter = net->adapters;

        net->adapters = adapter->next;
        adapter_close(adapter);
    }
    free(net->ports);
    free(net->devices.device);
}
