/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The files of the stand-in's devices in /sys/class/infiniband. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

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
