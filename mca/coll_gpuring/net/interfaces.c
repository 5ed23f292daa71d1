/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool usable(const struct ifaddrs *entry)
{
    const unsigned needed = IFF_UP | IFF_RUNNING;

    if (entry->ifa_addr == NULL || (entry->ifa_flags & (needed | IFF_LOOPBACK)) != needed) {
        return false;
    }
    if (entry->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *address = (const void *) entry->ifa_addr;

        return !IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
    }
    return entry->ifa_addr->sa_family == AF_INET;
}

int gpuring_interfaces_find(struct gpuring_interface interfaces[GPURING_INTERFACES_MAX])
{
    struct ifaddrs *list;
    int count = 0;

    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        int i = 0;

        if (!usable(entry)) {
            continue;
        }
        while (i < count && strcmp(interfaces[i].name, entry->ifa_name) != 0) {
            i++;
        }
        if (i == GPURING_INTERFACES_MAX) {
            continue;
        }
        if (i == count) {
            interfaces[count] = (struct gpuring_interface){.ipv4 = 0};
            snprintf(interfaces[count].name, sizeof interfaces->name, "%s", entry->ifa_name);
            count++;
        }
        if (interfaces[i].ipv4 == 0 && entry->ifa_addr->sa_family == AF_INET) {
            const struct sockaddr_in *address = (const void *) entry->ifa_addr;

            interfaces[i].ipv4 = address->sin_addr.s_addr;
        }
    }
    freeifaddrs(list);
    return count;
}

bool gpuring_interface_leads_out(const char *name)
{
    static const char *const bridges[] = {"docker", "virbr"};

    for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++) {
        if (strncmp(name, bridges[i], strlen(bridges[i])) == 0) {
            return false;
        }
    }
    return true;
}

static bool is_shared(uint32_t ipv4, const uint32_t *shared, int nshared)
{
    for (int i = 0; i < nshared; i++) {
        if (ipv4 != 0 && shared[i] == ipv4) {
            return true;
        }
    }
    return false;
}

int gpuring_interfaces_choose(struct gpuring_interface *interfaces, int count,
                              const uint32_t *shared, int nshared)
{
    int by_name = 0, by_both = 0, kept = 0;

    for (int i = 0; i < count; i++) {
        bool out = gpuring_interface_leads_out(interfaces[i].name);

        by_name += out;
        by_both += out && !is_shared(interfaces[i].ipv4, shared, nshared);
    }
    for (int i = 0; i < count; i++) {
        bool out = by_name == 0 || gpuring_interface_leads_out(interfaces[i].name);

        if (out && (by_both == 0 || !is_shared(interfaces[i].ipv4, shared, nshared))) {
            interfaces[kept++] = interfaces[i];
        }
    }
    return kept;
}
