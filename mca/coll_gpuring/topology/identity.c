/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/identity.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "gpuring_config.h"

#include "mca/coll_gpuring/topology/format.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/topo_pci/xml/pci_file.h"

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return gpuring_hash_bytes(hash, text, strlen(text) + 1);
}

/* Read a file's first line, or the target of a symbolic link; "" if there is none. */
static void read_text(const char *path, char *text, size_t size)
{
    ssize_t got = readlink(path, text, size - 1);

    if (got >= 0) {
        text[got] = '\0';
    } else if (pci_file_line(path, text, size) != 0) {
        text[0] = '\0';
    }
}

uint64_t gpuring_identity_node(const char *hostid)
{
    static const char *const parts[] = {"/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid",
                                        "/proc/self/ns/user", "/proc/self/ns/ipc"};
    uint64_t hash = GPURING_HASH_START;
    uid_t user = geteuid();
    char text[256];

    if (hostid != NULL && hostid[0] != '\0') {
        return hash_text(hash_text(hash, "hostid"), hostid);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        read_text(parts[i], text, sizeof text);
        hash = hash_text(hash, text);
    }
    gpuring_identity_hostname(text, sizeof text);
    return gpuring_hash_bytes(hash_text(hash, text), &user, sizeof user);
}

void gpuring_identity_hostname(char *name, size_t size)
{
    if (gethostname(name, size) != 0) {
        snprintf(name, size, "localhost");
    }
    name[size - 1] = '\0';
}

void gpuring_identity_unique(uint64_t id[2])
{
    struct timespec now;

    if (getrandom(id, 2 * sizeof *id, 0) == (ssize_t) (2 * sizeof *id)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    id[0] = (uint64_t) now.tv_sec << 30 ^ (uint64_t) now.tv_nsec;
    id[1] = (uint64_t) getpid();
}

uint32_t gpuring_identity_capabilities(void)
{
    uint32_t bits = 0;

#if GPURING_HAVE_UCX
    bits |= GPURING_CAPABILITY_UCX;
#endif
#if GPURING_HAVE_VERBS
    bits |= GPURING_CAPABILITY_VERBS;
#endif
    return bits;
}
