/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The files of the stand-in's devices in /sys/class/infiniband. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/wire/internal.h"

#define FOLDER "/sys/class/infiniband/"

int glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found)
{
    int (*next)(const char *, int, int (*)(const char *, int), glob_t *) = dlsym(RTLD_NEXT, "glob");
    char path[64];
    int status;

    if (strcmp(pattern, FOLDER "*") != 0) {
        return next(pattern, flags, failed, found);
    }
    wire_start();
    status = GLOB_NOMATCH;
    for (int i = 0; i < wire_here.devices; i++) {
        snprintf(path, sizeof path, FOLDER "wire%d", i);
        /* If nothing matches, the result is the pattern. */
        status = next(path, flags | GLOB_NOCHECK | (i > 0 ? GLOB_APPEND : 0), failed, found);
    }
    return status;
}

/* The devices are hardware, which has a link to its PCI function. This link names none, so that the
 * topology of the machine determines nothing. */
ssize_t readlink(const char *path, char *target, size_t size)
{
    ssize_t (*next)(const char *, char *, size_t) = dlsym(RTLD_NEXT, "readlink");
    static const char link[] = "../../none";
    int device, end = 0;

    if (sscanf(path, FOLDER "wire%d/device%n", &device, &end) != 1 || end == 0 ||
        path[end] != '\0' || size < sizeof link - 1) {
        return next(path, target, size);
    }
    memcpy(target, link, sizeof link - 1);
    return (ssize_t) sizeof link - 1;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    static __thread char line[64];
    union ibv_gid gid;
    char file[64];
    int device;

    if (sscanf(path, FOLDER "wire%d/ports/1/%63s", &device, file) != 2) {
        return next(path, mode);
    }
    if (strcmp(file, "state") == 0) {
        snprintf(line, sizeof line,
                 wire_here.wire->host[wire_here.host].port[device].down ? "1: DOWN" : "4: ACTIVE");
    } else if (strcmp(file, "link_layer") == 0) {
        snprintf(line, sizeof line, wire_here.infiniband ? "InfiniBand" : "Ethernet");
    } else if (strcmp(file, "gids/0") == 0) {
        wire_gid(device, &gid);
        inet_ntop(AF_INET6, gid.raw, line, sizeof line);
    } else if (strcmp(file, "gid_attrs/types/0") == 0) {
        snprintf(line, sizeof line, wire_here.infiniband ? "IB/RoCE v1" : "RoCE v2");
    } else {
        return next(path, mode);
    }
    return fmemopen(line, strlen(line), "r");
}
