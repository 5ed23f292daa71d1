/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/net_list.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct item {
    const char *name;
    size_t length; /* of the name */
    bool exclude;
    bool prefix;
    int port; /* -1: any */
};

/* Take the next item from the list. Returns false at the end. Sets *bad if the item is invalid. */
static bool next_item(const char **at, struct item *item, const char **bad)
{
    const char *begin = *at, *end = begin + strcspn(begin, ","), *colon;
    char *after;

    if (*begin == '\0') {
        return false;
    }
    *at = *end == ',' ? end + 1 : end;
    *item = (struct item){.name = begin, .port = -1};
    if (*begin == '^') {
        item->exclude = true;
        item->name++;
    }
    colon = memchr(item->name, ':', (size_t) (end - item->name));
    item->length = (size_t) ((colon != NULL ? colon : end) - item->name);
    if (colon != NULL) {
        item->port = (int) strtol(colon + 1, &after, 10);
        if (after != end || after == colon + 1 || !isdigit((unsigned char) colon[1])) {
            *bad = colon;
        }
    }
    if (item->length > 0 && item->name[item->length - 1] == '*') {
        item->prefix = true;
        item->length--;
    } else if (item->length == 0) {
        *bad = begin;
    }
    if (*end == ',' && end[1] == '\0') {
        *bad = end;
    }
    return true;
}

bool gpuring_net_list_valid(const char *list, const char **bad)
{
    struct item item;

    *bad = NULL;
    for (const char *at = list != NULL ? list : ""; *bad == NULL && next_item(&at, &item, bad);) {
    }
    return *bad == NULL;
}

static bool item_matches(const struct item *item, const char *name, int port)
{
    if (item->port >= 0 && item->port != port) {
        return false;
    }
    return strncmp(name, item->name, item->length) == 0 &&
           (item->prefix || name[item->length] == '\0');
}

bool gpuring_net_list_selects(const char *list, const char *name, int port)
{
    bool included = false, includes = false, all_exclude;
    const char *at, *bad;
    struct item item;

    if (list == NULL || *list == '\0' || strcmp(list, "all") == 0) {
        return true;
    }
    all_exclude = *list == '^';
    for (at = list; next_item(&at, &item, &bad);) {
        if (item.exclude || all_exclude) {
            if (item_matches(&item, name, port)) {
                return false;
            }
        } else {
            includes = true;
            included = included || item_matches(&item, name, port);
        }
    }
    return included || !includes;
}

int gpuring_net_devices_add(struct gpuring_net_devices *devices,
                            const struct gpuring_net_device *device)
{
    size_t bytes = ((size_t) devices->count + 1) * sizeof(*device);
    struct gpuring_net_device *grown = realloc(devices->device, bytes);

    if (grown == NULL) {
        gpuring_error("out of memory for the list of network devices");
        return GPURING_ERR_NOMEM;
    }
    devices->device = grown;
    grown[devices->count++] = *device;
    return GPURING_OK;
}

void gpuring_net_line(char *line, int size, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;
    FILE *file;
    int length;

    line[0] = '\0';
    va_start(arguments, format);
    length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    file = length < (int) sizeof path ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return;
    }
    if (fgets(line, size, file) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* Read the target of the link ROOT/class/CLASS/NAME/device; "" if there is none. */
static void read_device_link(const char *root, const char *class, const char *name,
                             char target[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t length = -1;

    if (snprintf(path, sizeof path, "%s/class/%s/%s/device", root, class, name) <
        (int) sizeof path) {
        length = readlink(path, target, PATH_MAX - 1);
    }
    target[length > 0 ? length : 0] = '\0';
}

void gpuring_net_pci_bus_id(const char *root, const char *class, const char *name, char *bus_id)
{
    unsigned domain, bus, device, function;
    char target[PATH_MAX];
    const char *last;

    bus_id[0] = '\0';
    read_device_link(root, class, name, target);
    last = strrchr(target, '/');
    last = last != NULL ? last + 1 : target;
    /* domain:bus:device.function; virtio's link names a device below the PCI function */
    if (sscanf(last, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4) {
        snprintf(bus_id, 16, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff, device & 0xff,
                 function & 0xf);
    }
}

/* A walk through a folder, which adds devices. */
struct walk {
    const char *root, *list;
    bool loopback;
    struct gpuring_net_devices *devices;
};
typedef int (*visit_fn)(const struct walk *walk, const char *name);

/* Call visit for every entry of ROOT/class/FOLDER, in the order of names. */
static int visit_all(const struct walk *walk, const char *folder, visit_fn visit)
{
    char pattern[PATH_MAX];
    glob_t found;
    int status = GPURING_OK;

    if (snprintf(pattern, sizeof pattern, "%s/class/%s/*", walk->root, folder) >=
        (int) sizeof pattern) {
        return GPURING_ERR_ARG;
    }
    if (glob(pattern, 0, NULL, &found) != 0) {
        return GPURING_OK;
    }
    for (size_t i = 0; i < found.gl_pathc && status == GPURING_OK; i++) {
        status = visit(walk, strrchr(found.gl_pathv[i], '/') + 1);
    }
    globfree(&found);
    return status;
}

static int add_interface(const struct walk *walk, const char *name)
{
    struct gpuring_net_device device = {.port = 1};
    char type[32], state[32];

    gpuring_net_line(type, sizeof type, "%s/class/net/%s/type", walk->root, name);
    gpuring_net_line(state, sizeof state, "%s/class/net/%s/operstate", walk->root, name);
    if ((strcmp(type, "772") == 0) != walk->loopback || /* ARPHRD_LOOPBACK; its state: "unknown" */
        !gpuring_net_list_selects(walk->list, name, 1) ||
        (strcmp(state, "up") != 0 && strcmp(state, "unknown") != 0)) {
        return GPURING_OK;
    }
    snprintf(device.name, sizeof device.name, "%s", name);
    gpuring_net_pci_bus_id(walk->root, "net", name, device.pci_bus_id);
    return gpuring_net_devices_add(walk->devices, &device);
}

int gpuring_net_devices_ip(const char *root, const char *list, struct gpuring_net_devices *devices)
{
    struct walk walk = {.root = root, .list = list, .devices = devices};
    int status = visit_all(&walk, "net", add_interface);

    walk.loopback = true; /* only if there is nothing else */
    return status == GPURING_OK && devices->count == 0 ? visit_all(&walk, "net", add_interface)
                                                       : status;
}

/* Add the active ports of an adapter. Ports are numbered from 1. */
static int add_adapter(const struct walk *walk, const char *name)
{
    struct gpuring_net_device device = {.port = 0};
    const char *root = walk->root;
    int status = GPURING_OK;
    char line[64];

    snprintf(device.name, sizeof device.name, "%s", name);
    gpuring_net_pci_bus_id(root, "infiniband", name, device.pci_bus_id);
    for (int port = 1; status == GPURING_OK; port++) {
        gpuring_net_line(line, sizeof line, "%s/class/infiniband/%s/ports/%d/state", root, name,
                         port);
        if (line[0] == '\0') {
            break;
        }
        if (strncmp(line, "4:", 2) == 0 && gpuring_net_list_selects(walk->list, name, port)) {
            device.port = port; /* 4: ACTIVE */
            status = gpuring_net_devices_add(walk->devices, &device);
        }
    }
    return status;
}

int gpuring_net_devices_rdma(const char *root, const char *list,
                             struct gpuring_net_devices *devices)
{
    const struct walk walk = {.root = root, .list = list, .devices = devices};

    return visit_all(&walk, "infiniband", add_adapter);
}

bool gpuring_net_only_software(const char *root)
{
    struct gpuring_net_devices ports = {.count = 0};
    bool only = gpuring_net_devices_rdma(root, NULL, &ports) == GPURING_OK && ports.count > 0;

    for (int i = 0; i < ports.count && only; i++) {
        char target[PATH_MAX];

        read_device_link(root, "infiniband", ports.device[i].name, target);
        only = target[0] == '\0'; /* rxe and siw have no PCI device */
    }
    free(ports.device);
    return only;
}
