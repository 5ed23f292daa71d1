/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Network devices: ports of verbs devices, and IP interfaces. */

#include <ctype.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "mca/topo_pci/discover/discover_internal.h"
#include "mca/topo_pci/xml/doc.h"

enum {
    PORTS_MAX = 255,        /* of a verbs device: the port number is 8 bits */
    SPEED_UNKNOWN = 10000,  /* Mb/s of an interface with unknown speed in NCCL's files */
    MAXCONN_VERBS = 131072, /* NCCL's value for verbs */
    MAXCONN_IP = 65536,     /* NCCL's value for sockets */
};

/* The attributes of a net element. */
struct net {
    const char *name;
    long speed; /* Mb/s; 0: unknown */
    int port;
    unsigned long long guid;
    int maxconn;
    int gdr;
};

/* Find or add the nic element of a device, or of the first NUMA node if it has no PCI address. */
static int nic_element(struct disc *disc, const char *busid, hwloc_obj_t obj, struct pci_elem **nic)
{
    struct pci_elem *parent;
    int rc;

    if (busid) {
        rc = disc_pci_element(disc, busid, obj, NULL, &parent);
    } else {
        hwloc_obj_t numa = disc_numa_of(disc, NULL);

        rc = numa ? disc_cpu_element(disc, numa, &parent) : -EINVAL;
    }
    if (rc == 0) {
        *nic = pci_elem_child(parent, "nic");
        rc = *nic ? 0 : pci_elem_add(disc->doc, parent, "nic", nic);
    }
    return rc;
}

/* Count the ports of the NIC from other functions of the same card, which have the same GUID. */
static int ports_before(const struct pci_elem *nic, const struct net *net)
{
    int count = 0;

    for (struct pci_elem *elem = pci_elem_child(nic, "net"); elem && net->guid;
         elem = pci_elem_sibling(elem, "net")) {
        const char *name = pci_elem_get(elem, "name"), *guid = pci_elem_get(elem, "guid");

        count +=
            name && guid && strcmp(name, net->name) != 0 && strtoull(guid, NULL, 16) == net->guid;
    }
    return count;
}

static int net_add(struct disc *disc, const char *busid, hwloc_obj_t obj, const struct net *net)
{
    struct pci_elem *nic, *elem;
    int rc = nic_element(disc, busid, obj, &nic);
    int before = rc ? 0 : ports_before(nic, net);

    rc = rc ? rc : pci_elem_add(disc->doc, nic, "net", &elem);
    rc = rc ? rc : pci_elem_setf(elem, "name", "%s", net->name);
    rc = rc ? rc : pci_elem_setf(elem, "dev", "%d", disc->nets++);
    rc = rc ? rc : pci_elem_setf(elem, "latency", "0");
    rc = rc ? rc : pci_elem_setf(elem, "speed", "%ld", net->speed > 0 ? net->speed : SPEED_UNKNOWN);
    if (rc == 0 && net->speed <= 0) {
        rc = pci_elem_setf(elem, "speed_assumed", "1");
    }
    rc = rc ? rc : pci_elem_setf(elem, "port", "%d", net->port + before);
    rc = rc ? rc : pci_elem_setf(elem, "guid", "0x%llx", net->guid);
    rc = rc ? rc : pci_elem_setf(elem, "maxconn", "%d", net->maxconn);
    return rc ? rc : pci_elem_setf(elem, "gdr", "%d", net->gdr);
}

/* Parse "b83f:d203:002a:a358" as a number with these bytes in memory, like NCCL. */
static unsigned long long guid_parse(const char *text)
{
    unsigned long long guid = 0;
    int digits = 0;

    for (; *text && digits < 16; text++) {
        if (isxdigit((unsigned char) *text)) {
            unsigned value = (unsigned) (isdigit((unsigned char) *text)
                                             ? *text - '0'
                                             : tolower((unsigned char) *text) - 'a' + 10);

            guid |= (unsigned long long) value << (digits / 2 * 8 + (digits % 2 ? 0 : 4));
            digits++;
        }
    }
    return guid;
}

/*
 * The devices of a class ("net", "infiniband"), in the order of their names. /sys lists all of
 * them, including those without a PCI device (virtual interfaces, soft RDMA). If /sys is hidden or
 * belongs to another machine, hwloc lists them.
 */
struct device {
    char name[64];
    hwloc_obj_t osdev; /* hwloc's object, or NULL */
};

struct devices {
    struct device *list;
    size_t count, room;
};

static int devices_add(struct devices *devices, const char *name, hwloc_obj_t osdev)
{
    struct device *device;

    if (pci_array_reserve(&devices->list, &devices->room, devices->count + 1, sizeof *device)) {
        return -ENOMEM;
    }
    device = &devices->list[devices->count++];
    snprintf(device->name, sizeof device->name, "%s", name);
    device->osdev = osdev;
    return 0;
}

static int is_of_class(hwloc_obj_t osdev, const char *class)
{
    return strcmp(class, "net") == 0 ? DISC_OSDEV_IS(osdev, NETWORK)
                                     : DISC_OSDEV_IS(osdev, OPENFABRICS);
}

static hwloc_obj_t osdev_of(const struct disc *disc, const char *class, const char *name)
{
    hwloc_obj_t osdev = NULL;

    while ((osdev = hwloc_get_next_osdev(disc->topology, osdev)) != NULL) {
        if (is_of_class(osdev, class) && osdev->name && strcmp(osdev->name, name) == 0) {
            return osdev;
        }
    }
    return NULL;
}

static int devices_of_hwloc(const struct disc *disc, const char *class, struct devices *devices)
{
    hwloc_obj_t osdev = NULL;
    int rc = 0;

    while (rc == 0 && (osdev = hwloc_get_next_osdev(disc->topology, osdev)) != NULL) {
        if (is_of_class(osdev, class) && osdev->name) {
            rc = devices_add(devices, osdev->name, osdev);
        }
    }
    return rc;
}

static int devices_find(const struct disc *disc, const char *class, struct devices *devices)
{
    struct dirent **entries;
    char path[PATH_MAX];
    int count = -1, rc = 0;

    memset(devices, 0, sizeof *devices);
    if (disc->fsroot && (size_t) snprintf(path, sizeof path, "%s/sys/class/%s", disc->fsroot,
                                          class) < sizeof path) {
        count = scandir(path, &entries, NULL, versionsort);
    }
    if (count < 0) {
        return devices_of_hwloc(disc, class, devices);
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;

        if (rc == 0 && name[0] != '.' && strlen(name) < sizeof devices->list->name) {
            rc = devices_add(devices, name, osdev_of(disc, class, name));
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static const char *info_of(const struct device *device, const char *name)
{
    return device->osdev ? hwloc_obj_get_info_by_name(device->osdev, name) : NULL;
}

/* Replace a function of a network card by the first one, because all functions share the link. */
static void first_function(const struct disc *disc, hwloc_obj_t *obj, char *busid)
{
    enum { CLASS_NETWORK = 0x02 };
    char first[PCI_BUSID_SIZE];
    hwloc_obj_t other;

    memcpy(first, busid, sizeof first);
    first[strlen(first) - 1] = '0';
    other = disc_pci_object(disc, first);
    if (other && other->attr->pcidev.class_id >> 8 == CLASS_NETWORK) {
        memcpy(busid, first, sizeof first);
        *obj = other;
    }
}

/* Return the PCI device of a device, from hwloc or /sys, or NULL. */
static const char *busid_of(const struct disc *disc, const struct device *device, const char *class,
                            hwloc_obj_t *obj, char *busid)
{
    *obj = device->osdev ? device->osdev->parent : NULL;
    if (*obj && (*obj)->type == HWLOC_OBJ_PCI_DEVICE) {
        disc_pci_busid(&(*obj)->attr->pcidev, busid);
        first_function(disc, obj, busid);
        return busid;
    }
    if (disc_sys_busid(disc, busid, "/sys/class/%s/%s/device", class, device->name) != 0) {
        *obj = NULL;
        return NULL;
    }
    *obj = disc_pci_object(disc, busid);
    first_function(disc, obj, busid);
    return busid;
}

/* Return true for the state "4: ACTIVE" or "4", or if the state is not visible. */
static int port_active(const struct disc *disc, const struct device *device, int port)
{
    char name[32];
    const char *recorded;
    long state;

    snprintf(name, sizeof name, "Port%dState", port);
    recorded = info_of(device, name);
    state = disc_sys_number(disc, recorded ? strtol(recorded, NULL, 0) : 4,
                            "/sys/class/infiniband/%s/ports/%d/state", device->name, port);
    return state == 4;
}

static int port_exists(const struct disc *disc, const struct device *device, int port)
{
    char name[32], line[DISC_LINE];

    snprintf(name, sizeof name, "Port%dState", port);
    return info_of(device, name) ||
           disc_sys_line(disc, line, sizeof line, "/sys/class/infiniband/%s/ports/%d/state",
                         device->name, port) == 0;
}

/* Return the speed of a port, such as "100 Gb/sec (4X EDR)", in Mb/s. */
static long port_speed(const struct disc *disc, const char *device, int port)
{
    char line[DISC_LINE];

    if (disc_sys_line(disc, line, sizeof line, "/sys/class/infiniband/%s/ports/%d/rate", device,
                      port) != 0 ||
        strtod(line, NULL) <= 0) {
        disc_message(disc,
                     "the rate of port %d of %s is not visible; taken as 10 Gb/s (a topology file "
                     "can state it)",
                     port, device);
        return 0;
    }
    return (long) (strtod(line, NULL) * 1000 + 0.5);
}

static unsigned long long device_guid(const struct disc *disc, const struct device *device)
{
    const char *recorded = info_of(device, "SysImageGUID");
    char line[DISC_LINE];

    if (disc_sys_line(disc, line, sizeof line, "/sys/class/infiniband/%s/sys_image_guid",
                      device->name) == 0) {
        recorded = line;
    }
    return recorded ? guid_parse(recorded) : 0;
}

static int verbs_device_add(struct disc *disc, const struct device *device)
{
    char busid[PCI_BUSID_SIZE];
    hwloc_obj_t obj;
    const char *address = busid_of(disc, device, "infiniband", &obj, busid);
    int rc = 0, gdr = disc->gdr.peermem || disc->gdr.kernel_dmabuf;

    for (int port = 1; rc == 0 && port <= PORTS_MAX && port_exists(disc, device, port); port++) {
        if (port_active(disc, device, port)) {
            struct net net = {.name = device->name,
                              .speed = port_speed(disc, device->name, port),
                              .port = port,
                              .guid = device_guid(disc, device),
                              .maxconn = MAXCONN_VERBS,
                              .gdr = gdr};

            rc = net_add(disc, address, obj, &net);
        }
    }
    return rc;
}

static int verbs_add(struct disc *disc)
{
    struct devices devices;
    int rc = devices_find(disc, "infiniband", &devices);

    for (size_t i = 0; rc == 0 && i < devices.count; i++) {
        rc = verbs_device_add(disc, &devices.list[i]);
    }
    if (rc == 0 && devices.count > 0 && disc->nets == 0) {
        disc_message(disc,
                     "none of the %zu verbs devices has an active port; check "
                     "the cables and ibv_devinfo",
                     devices.count);
    }
    free(devices.list);
    return rc;
}

/* Return true if the interface has an address, or if the running system cannot be queried. */
static int has_address(const struct disc *disc, const char *name)
{
    struct ifaddrs *list, *at;
    int found = 0;

    if (!disc->live || getifaddrs(&list) != 0) {
        return 1;
    }
    for (at = list; at && !found; at = at->ifa_next) {
        found = at->ifa_addr && strcmp(at->ifa_name, name) == 0 &&
                (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6);
    }
    freeifaddrs(list);
    return found;
}

/* Return true for interfaces to other hosts: up, no loopback, no bridge of a container service. */
static int interface_usable(const struct disc *disc, const char *name)
{
    static const char *const inner[] = {"docker", "virbr", "cni", "br-"};
    long flags = disc_sys_number(disc, IFF_UP, "/sys/class/net/%s/flags", name);

    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        if (strncmp(name, inner[i], strlen(inner[i])) == 0) {
            return 0;
        }
    }
    return (flags & IFF_UP) && !(flags & IFF_LOOPBACK) && strcmp(name, "lo") != 0 &&
           has_address(disc, name);
}

static int interface_add(struct disc *disc, const struct device *device)
{
    char busid[PCI_BUSID_SIZE];
    hwloc_obj_t obj;
    const char *address = busid_of(disc, device, "net", &obj, busid);
    long speed = disc_sys_number(disc, -1, "/sys/class/net/%s/speed", device->name);
    struct net net = {.name = device->name, .speed = speed, .maxconn = MAXCONN_IP};

    return net_add(disc, address, obj, &net);
}

static int interfaces_add(struct disc *disc)
{
    struct devices devices;
    int rc = devices_find(disc, "net", &devices);

    for (size_t i = 0; rc == 0 && i < devices.count; i++) {
        if (interface_usable(disc, devices.list[i].name)) {
            rc = interface_add(disc, &devices.list[i]);
        }
    }
    free(devices.list);
    return rc;
}

/* Add verbs devices with an active port, or IP interfaces if there is none. */
int disc_nets(struct disc *disc)
{
    int rc = verbs_add(disc);

    return rc || disc->nets > 0 ? rc : interfaces_add(disc);
}
