/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The RDMA ports of this host, as announced to other ranks. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define GIDS_MAX 256 /* per port, more than any driver has */

static bool is_v4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid, mapped, sizeof mapped) == 0;
}

static bool is_link_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

int gpuring_nic_gid_rank(bool given, bool ethernet, bool version_2, const uint8_t gid[16])
{
    static const uint8_t zero[16];

    if (memcmp(gid, zero, sizeof zero) == 0) {
        return 0;
    }
    if (given || !ethernet) {
        return 1; /* InfiniBand: the first one */
    }
    if (!version_2) {
        return 0; /* version 1 is not routed, and many switches drop it */
    }
    if (is_v4(gid)) {
        return 4;
    }
    return is_link_local(gid) ? 2 : 3; /* link-local addresses work on one wire only */
}

/* Choose the best GID of the port, or the first one among equals. Returns false if none is usable.
 */
static bool choose_gid(const char *root, const struct gpuring_net_device *device, int given,
                       struct gpuring_nic *nic)
{
    bool ethernet = nic->link == GPURING_NIC_ETHERNET;
    char line[64];
    int best = 0;

    for (int i = given > 0 ? given - 1 : 0; i < (given > 0 ? given : GIDS_MAX); i++) {
        uint8_t gid[16];
        int rank;

        gpuring_net_line(line, sizeof line, "%s/class/infiniband/%s/ports/%d/gids/%d", root,
                         device->name, device->port, i);
        if (line[0] == '\0') {
            break; /* the table ends here */
        }
        if (inet_pton(AF_INET6, line, gid) != 1) {
            continue;
        }
        gpuring_net_line(line, sizeof line, "%s/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
                         root, device->name, device->port, i);
        rank = gpuring_nic_gid_rank(given > 0, ethernet, strcmp(line, "RoCE v2") == 0, gid);
        if (rank > best) {
            best = rank;
            memcpy(nic->gid, gid, sizeof nic->gid);
        }
    }
    return best > 0 || (!ethernet && given == 0); /* InfiniBand uses the LID within a subnet */
}

/* Return the number of leading bits that are 1. */
static unsigned leading_bits(const uint8_t *mask, size_t bytes)
{
    unsigned bits = 0;

    while (bits < 8 * bytes && (mask[bits / 8] >> (7 - bits % 8) & 1) != 0) {
        bits++;
    }
    return bits;
}

uint8_t gpuring_nic_network_bits(const uint8_t gid[16])
{
    struct ifaddrs *list;
    unsigned bits = 0;

    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *at = list; at != NULL && bits == 0; at = at->ifa_next) {
        const struct sockaddr *address = at->ifa_addr, *mask = at->ifa_netmask;

        if (address == NULL || mask == NULL) {
            continue;
        }
        if (address->sa_family == AF_INET && is_v4(gid) &&
            memcmp(&((const struct sockaddr_in *) address)->sin_addr, gid + 12, 4) == 0) {
            bits = 96 + leading_bits(
                            (const uint8_t *) &((const struct sockaddr_in *) mask)->sin_addr, 4);
        } else if (address->sa_family == AF_INET6 &&
                   memcmp(&((const struct sockaddr_in6 *) address)->sin6_addr, gid, 16) == 0) {
            bits = leading_bits((const uint8_t *) &((const struct sockaddr_in6 *) mask)->sin6_addr,
                                16);
        }
    }
    freeifaddrs(list);
    return (uint8_t) bits;
}

static bool describe_nic(const char *root, const struct gpuring_net_device *device, int gid,
                         struct gpuring_nic *nic)
{
    char line[64];

    *nic = (struct gpuring_nic){.port = (uint8_t) device->port};
    snprintf(nic->name, sizeof nic->name, "%.*s", (int) sizeof nic->name - 1, device->name);
    gpuring_net_line(line, sizeof line, "%s/class/infiniband/%s/ports/%d/link_layer", root,
                     device->name, device->port);
    nic->link = strcmp(line, "Ethernet") == 0     ? GPURING_NIC_ETHERNET
                : strcmp(line, "InfiniBand") == 0 ? GPURING_NIC_INFINIBAND
                                                  : 0; /* EFA: "Unknown" */
    if (nic->link == 0 || !choose_gid(root, device, gid, nic)) {
        return false;
    }
    nic->bits = nic->link == GPURING_NIC_ETHERNET ? gpuring_nic_network_bits(nic->gid) : 0;
    return true;
}

int gpuring_nics_find(const char *root, const char *list, int gid, struct gpuring_nic *nics)
{
    struct gpuring_net_devices devices = {.count = 0};
    int status = gpuring_net_devices_rdma(root, list, &devices), found = 0, beyond = 0;

    for (int i = 0; status == GPURING_OK && i < devices.count; i++) {
        struct gpuring_nic nic;

        if (!describe_nic(root, &devices.device[i], gid, &nic)) {
            continue;
        }
        if (found == GPURING_NICS_MAX) {
            beyond++;
        } else {
            nics[found++] = nic;
        }
    }
    if (beyond > 0) {
        gpuring_info("%d RDMA ports beyond the first %d are not used; select other ports with "
                     "coll_gpuring_verbs_hca",
                     beyond, GPURING_NICS_MAX);
    }
    free(devices.device);
    return status == GPURING_OK ? found : status;
}

/*
 * InfiniBand ports must be in the same subnet. RoCE ports must have addresses of one family.
 * Routers may or may not connect two IP networks; the first chunk of each connection finds out.
 * Link-local addresses reach each other on one wire only.
 */
bool gpuring_nic_reaches(const struct gpuring_nic *a, const struct gpuring_nic *b)
{
    if (a->link != b->link) {
        return false;
    }
    if (a->link == GPURING_NIC_INFINIBAND) {
        return memcmp(a->gid, b->gid, 8) == 0;
    }
    return is_v4(a->gid) == is_v4(b->gid) && is_link_local(a->gid) == is_link_local(b->gid);
}

bool gpuring_nic_same_network(const struct gpuring_nic *a, const struct gpuring_nic *b)
{
    bool known = a->link == GPURING_NIC_ETHERNET && a->bits > 0 && b->bits > 0;
    unsigned bytes = a->bits / 8, rest = a->bits % 8;

    if (!gpuring_nic_reaches(a, b) || !known) {
        return gpuring_nic_reaches(a, b);
    }
    return a->bits == b->bits && memcmp(a->gid, b->gid, bytes) == 0 &&
           (rest == 0 || ((a->gid[bytes] ^ b->gid[bytes]) >> (8 - rest)) == 0);
}
