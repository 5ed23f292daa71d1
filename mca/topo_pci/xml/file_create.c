/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/topo_pci/xml/pci_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

FILE *pci_file_create(const char *path, char *why, size_t room)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    FILE *file = NULL;

    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) {
        file = fdopen(fd, "w");
    }
    if (!file) {
        snprintf(why, room, "%s", errno == ENXIO ? "nobody reads this pipe" : strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
    }
    return file;
}
