/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/nics.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define GIDS_MAX 256 /* of a port: more than any driver offers */

static bool is_v4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, mapped, sizeof mapped) == 0;
}

static bool is_link_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

int gpuring_nic_gid_rank(bool ethernet, bool version_2, const uint8_t gid[16])
{
    static const uint8_t zero[16];

    if (memcmp(gid, zero, sizeof zero) == 0) {
        return 0;
    }
    if (!ethernet) {
        return 1; /* InfiniBand: the first one; it is used between subnets only */
    }
    if (!version_2) {
        return 0; /* version 1 is not routed, and many switches drop it */
    }
    if (is_v4(gid)) {
        return 4;
    }
    return is_link_local(gid) ? 2 : 3; /* link-local: needs luck */
}

/* One of the numbered attributes of a port. */
static void port_line(const char *root, const struct gpuring_net_device *device,
                      const char *attribute, int number, char *line, int size)
{
    gpuring_net_line(line, size, "%s/class/infiniband/%s/ports/%d/%s/%d", root, device->name,
                     device->port, attribute, number);
}

/* The bytes of an IP address. */
static const uint8_t *ip_bytes(const struct sockaddr *address)
{
    const void *any = address;

    return address->sa_family == AF_INET
               ? (const void *) &((const struct sockaddr_in *) any)->sin_addr
               : (const void *) &((const struct sockaddr_in6 *) any)->sin6_addr;
}

/* Prefix length of the network to which `gid`, an address of the interface, belongs; 0: unknown. */
static uint8_t network_bits(const char *interface, const uint8_t gid[16])
{
    bool v4 = is_v4(gid);
    struct ifaddrs *list = NULL;
    uint8_t bits = 0;

    if (interface[0] == '\0' || getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        const uint8_t *mask;
        size_t bytes = v4 ? 4 : 16;

        if (entry->ifa_addr == NULL || entry->ifa_netmask == NULL ||
            entry->ifa_addr->sa_family != (v4 ? AF_INET : AF_INET6) ||
            strcmp(entry->ifa_name, interface) != 0) {
            continue;
        }
        if (memcmp(ip_bytes(entry->ifa_addr), gid + 16 - bytes, bytes) != 0) {
            continue;
        }
        mask = ip_bytes(entry->ifa_netmask);
        bits = 0;
        for (size_t i = 0; i < bytes; i++) {
            bits = (uint8_t) (bits + __builtin_popcount(mask[i]));
        }
    }
    freeifaddrs(list);
    return bits;
}

/* The best GID of the port, the first one of equals; false if it has none that can be used. */
static bool choose_gid(const char *root, const struct gpuring_net_device *device,
                       struct gpuring_nic *nic)
{
    bool ethernet = nic->link == GPURING_NIC_ETHERNET;
    int best = 0, chosen = -1;
    char line[64], interface[IF_NAMESIZE + 1];

    for (int i = 0; i < GIDS_MAX; i++) {
        uint8_t gid[16];
        bool version_2;
        int rank;

        port_line(root, device, "gids", i, line, sizeof line);
        if (line[0] == '\0') {
            break; /* the table ends here */
        }
        if (inet_pton(AF_INET6, line, gid) != 1) {
            continue;
        }
        port_line(root, device, "gid_attrs/types", i, line, sizeof line);
        version_2 = strcmp(line, "RoCE v2") == 0;
        rank = gpuring_nic_gid_rank(ethernet, version_2, gid);
        if (rank > best) {
            best = rank;
            chosen = i;
            memcpy(nic->gid, gid, sizeof nic->gid);
            nic->version = ethernet ? (version_2 ? 2 : 1) : 0;
        }
    }
    if (chosen >= 0 && ethernet) {
        port_line(root, device, "gid_attrs/ndevs", chosen, interface, sizeof interface);
        nic->network_bits = network_bits(interface, nic->gid);
    }
    return chosen >= 0 || !ethernet; /* InfiniBand goes by LID within a subnet */
}

static bool describe(const char *root, const struct gpuring_net_device *device,
                     struct gpuring_nic *nic)
{
    unsigned domain, bus, slot, function;
    char line[64];

    *nic = (struct gpuring_nic){
        .guid = device->guid,
        .mbit = device->speed > 0 ? (uint32_t) (device->speed * 8e3) : 0,
        .port = (uint8_t) device->port,
    };
    snprintf(nic->name, sizeof nic->name, "%.*s", (int) sizeof nic->name - 1, device->name);
    if (sscanf(device->pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4) {
        nic->pci =
            (domain & 0xffff) << 16 | (bus & 0xff) << 8 | (slot & 0x1f) << 3 | (function & 7);
    }
    gpuring_net_line(line, sizeof line, "%s/class/infiniband/%s/ports/%d/link_layer", root,
                     device->name, device->port);
    nic->link = strcmp(line, "Ethernet") == 0 ? GPURING_NIC_ETHERNET : GPURING_NIC_INFINIBAND;
    return choose_gid(root, device, nic);
}

int gpuring_nics_find(const char *root, const char *list, struct gpuring_nic *nics)
{
    struct gpuring_net_devices devices = {.count = 0};
    int status = gpuring_net_devices_rdma(root, list, &devices), found = 0, beyond = 0;

    for (int i = 0; status == GPURING_OK && i < devices.count; i++) {
        struct gpuring_nic nic;

        if (!describe(root, &devices.device[i], &nic)) {
            continue;
        }
        if (found == GPURING_NICS_MAX) {
            beyond++;
        } else {
            nics[found++] = nic;
        }
    }
    if (beyond > 0) {
        gpuring_info("%d RDMA ports beyond the first %d are not considered; coll_gpuring_verbs_hca "
                     "chooses among them",
                     beyond, GPURING_NICS_MAX);
    }
    free(devices.device);
    return status == GPURING_OK ? found : status;
}

/*
 * InfiniBand: the same subnet. RoCE: the same version, and addresses of one family; whether routers
 * connect two IP networks is not known here, and trying tells. Link-local addresses reach each
 * other on one wire only, version 1 likewise.
 */
bool gpuring_nic_reaches(const struct gpuring_nic *a, const struct gpuring_nic *b)
{
    if (a->link != b->link) {
        return false;
    }
    if (a->link == GPURING_NIC_INFINIBAND) {
        return memcmp(a->gid, b->gid, 8) == 0;
    }
    return a->version == b->version && is_v4(a->gid) == is_v4(b->gid) &&
           is_link_local(a->gid) == is_link_local(b->gid);
}
