/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The host device uses ordinary memory and runs plans in the calling thread.
 *
 * Memory for peers is a memory file (memfd_create), which does not need /dev/shm and is removed
 * automatically. Other processes open it through /proc/PID/fd/FD, which the kernel allows for the
 * same user in the same PID namespace. Inode and size in the handle protect against a reused PID or
 * descriptor.
 *
 *   handle bytes: 0     4    8       16      24
 *                 | pid | fd | inode | device |
 */
#include "mca/coll_gpuring/device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/runs.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A mapping. fd >= 0: our memory while it can be exported. -1: private memory, or a peer's. */
struct host_mapping {
    struct gpuring_list node;
    void *pointer;
    size_t bytes;
    int fd;
};

struct gpuring_device {
    pthread_mutex_t lock; /* guards the list */
    struct gpuring_list mappings;
};

struct gpuring_stream {
    char unused; /* copies and plans run in the calling thread, so there is no state */
};

struct host_handle {
    uint32_t pid;
    int32_t fd;
    uint64_t inode;
    uint64_t device;
};
_Static_assert(sizeof(struct host_handle) <= sizeof((struct gpuring_device_handle *) 0)->bytes,
               "a handle travels in the device handle");

static int host_open(struct gpuring_device **device)
{
    struct gpuring_device *host = calloc(1, sizeof *host);

    if (host == NULL || pthread_mutex_init(&host->lock, NULL) != 0) {
        gpuring_error("out of memory for the host device");
        free(host);
        return GPURING_ERR_NOMEM;
    }
    gpuring_list_init(&host->mappings);
    *device = host;
    return GPURING_OK;
}

static int host_identity(struct gpuring_device *device, struct gpuring_device_identity *identity)
{
    (void) device;
    memset(identity, 0, sizeof *identity);
    identity->kind = GPURING_DEVICE_HOST;
    return GPURING_OK;
}

/* Map fd, or private memory (-1), and record the mapping. On failure the caller keeps fd. */
static int mapping_add(struct gpuring_device *device, int fd, size_t bytes, int keep_fd,
                       void **pointer)
{
    struct host_mapping *mapping = malloc(sizeof *mapping);
    void *address;

    if (mapping == NULL) {
        gpuring_error("out of memory for a mapping of %zu bytes", bytes);
        return GPURING_ERR_NOMEM;
    }
    address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (address == MAP_FAILED) {
        gpuring_error(
            "[no-mapping] cannot map %zu bytes of memory: %s; lower coll_gpuring_buffer_size or "
            "coll_gpuring_max_channels, or raise the address space limit (ulimit -v)",
            bytes, strerror(errno));
        free(mapping);
        return GPURING_ERR_NOMEM;
    }
    *mapping = (struct host_mapping){.pointer = address, .bytes = bytes, .fd = keep_fd ? fd : -1};
    pthread_mutex_lock(&device->lock);
    gpuring_list_prepend(&device->mappings, &mapping->node);
    pthread_mutex_unlock(&device->lock);
    *pointer = address;
    return GPURING_OK;
}

/* Return the mapping of `pointer`, or NULL. The caller holds the lock. */
static struct host_mapping *mapping_find(struct gpuring_device *device, const void *pointer)
{
    struct host_mapping *mapping;

    GPURING_LIST_EACH(mapping, &device->mappings, struct host_mapping, node)
    {
        if (mapping->pointer == pointer) {
            return mapping;
        }
    }
    return NULL;
}

static void mapping_remove(struct gpuring_device *device, void *pointer)
{
    struct host_mapping *mapping;

    pthread_mutex_lock(&device->lock);
    mapping = pointer != NULL ? mapping_find(device, pointer) : NULL;
    if (mapping != NULL) {
        gpuring_list_remove(&mapping->node);
    }
    pthread_mutex_unlock(&device->lock);
    if (mapping != NULL) {
        munmap(mapping->pointer, mapping->bytes);
        if (mapping->fd >= 0) {
            close(mapping->fd);
        }
        free(mapping);
    }
}

static void host_close(struct gpuring_device *device)
{
    struct host_mapping *mapping;

    if (device == NULL) {
        return;
    }
    while ((mapping = GPURING_LIST_FIRST(&device->mappings, struct host_mapping, node)) != NULL) {
        mapping_remove(device, mapping->pointer);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* Log why a memory file cannot be created, with the remedy for this errno. Return the status. */
static int log_no_file(int error)
{
    switch (error) {
    case EMFILE:
        gpuring_error("[no-descriptor] cannot create a memory file: %s; raise the limit on open "
                      "files of this process (ulimit -n)",
                      strerror(error));
        return GPURING_ERR_FILES;
    case ENFILE:
        gpuring_error("[no-descriptor] cannot create a memory file: %s; raise the limit on open "
                      "files of the whole system (sysctl fs.file-max)",
                      strerror(error));
        return GPURING_ERR_FILES;
    case ENOMEM:
        gpuring_error("[no-memory-file] cannot create a memory file: %s; free host memory",
                      strerror(error));
        return GPURING_ERR_NOMEM;
    default:
        gpuring_error("[memfd-refused] the system refuses memory files (memfd_create): %s; allow "
                      "this system call in the security profile of the container (seccomp)",
                      strerror(error));
        return GPURING_ERR_REFUSED;
    }
}

static int host_alloc(struct gpuring_device *device, size_t bytes, void **pointer)
{
    int fd = memfd_create("gpuring", MFD_CLOEXEC);
    int status;

    if (fd < 0) {
        return log_no_file(errno);
    }
    if (ftruncate(fd, (off_t) bytes) != 0) {
        gpuring_error("[no-memory-file] cannot size a memory file to %zu bytes: %s; free host "
                      "memory, or lower coll_gpuring_buffer_size",
                      bytes, strerror(errno));
        close(fd);
        return GPURING_ERR_NOMEM;
    }
    status = mapping_add(device, fd, bytes, 1, pointer);
    if (status != GPURING_OK) {
        close(fd);
    }
    return status;
}

static int host_export(struct gpuring_device *device, void *pointer,
                       struct gpuring_device_handle *handle)
{
    struct host_handle exported = {.pid = (uint32_t) getpid(), .fd = -1};
    struct host_mapping *mapping;
    struct stat file;

    memset(handle, 0, sizeof *handle);
    pthread_mutex_lock(&device->lock);
    mapping = mapping_find(device, pointer);
    if (mapping != NULL) {
        exported.fd = mapping->fd;
        handle->size = mapping->bytes;
    }
    pthread_mutex_unlock(&device->lock);
    if (exported.fd < 0 || fstat(exported.fd, &file) != 0) {
        gpuring_error(
            "[not-exportable] memory at %p cannot be exported: it is not memory of the host device",
            pointer);
        return GPURING_ERR_ARG;
    }
    exported.inode = file.st_ino;
    exported.device = file.st_dev;
    memcpy(handle->bytes, &exported, sizeof exported);
    return GPURING_OK;
}

/* Return the remedy if a peer's memory file cannot be opened with this errno. */
static const char *open_remedy(int error)
{
    switch (error) {
    case EMFILE:
        return "raise the limit on open files of this process (ulimit -n)";
    case ENFILE:
        return "raise the limit on open files of the whole system (sysctl fs.file-max)";
    case EACCES:
    case EPERM:
        return "the processes of a node must run as one user, and be allowed to trace each other "
               "(in containers the capability SYS_PTRACE), or have a coll_gpuring_hostid each, "
               "which connects them by network";
    default:
        return "the processes of a node must share a PID namespace (docker run --pid) and see each "
               "other in /proc, or have a coll_gpuring_hostid each, which connects them by network";
    }
}

/* Open the exporter's descriptor and check that it is still the exported file. Return 0 and *fd, or
 * a status (logged). */
static int open_exported(const struct host_handle *exported, uint64_t size, int *fd)
{
    struct stat file;
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/fd/%d", exported->pid, exported->fd);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0) {
        int error = errno;
        bool full = error == EMFILE || error == ENFILE;

        gpuring_error("[%s] cannot open the shared memory of process %u (%s): %s; %s",
                      full ? "no-descriptor" : "peer-memory", exported->pid, path, strerror(error),
                      open_remedy(error));
        return full ? GPURING_ERR_FILES : GPURING_ERR_PEER;
    }
    if (fstat(*fd, &file) != 0 || file.st_ino != exported->inode ||
        file.st_dev != exported->device || (uint64_t) file.st_size != size) {
        gpuring_error(
            "[other-memory] %s is not the shared memory that process %u announced: the process has "
            "ended or was replaced",
            path, exported->pid);
        close(*fd);
        return GPURING_ERR_PEER;
    }
    return GPURING_OK;
}

static int host_import(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                       void **pointer)
{
    struct host_handle exported;
    int fd, status;

    memcpy(&exported, handle->bytes, sizeof exported);
    status = open_exported(&exported, handle->size, &fd);
    if (status != GPURING_OK) {
        return status;
    }
    status = mapping_add(device, fd, handle->size, 0, pointer);
    close(fd);
    return status;
}

static void host_unexport(struct gpuring_device *device, void *pointer)
{
    struct host_mapping *mapping;

    pthread_mutex_lock(&device->lock);
    mapping = mapping_find(device, pointer);
    if (mapping != NULL && mapping->fd >= 0) {
        close(mapping->fd);
        mapping->fd = -1;
    }
    pthread_mutex_unlock(&device->lock);
}

/* Do not touch the pages: unused pages then need neither memory nor time, for example the slots of
 * unused protocols, or most of a communicator that makes one small call. */
static int host_alloc_pinned(struct gpuring_device *device, size_t bytes, void **pointer)
{
    return mapping_add(device, -1, bytes, 0, pointer);
}

static int host_stream_create(struct gpuring_device *device, struct gpuring_stream **stream)
{
    static struct gpuring_stream all;

    (void) device;
    *stream = &all;
    return GPURING_OK;
}

static void host_stream_destroy(struct gpuring_stream *stream)
{
    (void) stream;
}

static int host_copy(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    (void) stream;
    memcpy(to, from, bytes);
    return GPURING_OK;
}

static int host_copy_runs(struct gpuring_stream *stream, const void *user, const void *other,
                          const struct gpuring_runs *runs, unsigned how)
{
    (void) stream;
    for (size_t i = 0; i < runs->count; i++) {
        struct gpuring_copy copy = gpuring_run_copy(gpuring_runs_at(runs, i), user, other, how);

        for (size_t row = 0; row < copy.rows; row++) {
            memcpy(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.bytes);
        }
    }
    return GPURING_OK;
}

/* Do nothing, because poll executes the work. */
static int host_launch(struct gpuring_stream *stream, struct gpuring_work *work)
{
    (void) stream;
    (void) work;
    return GPURING_OK;
}

static int host_poll(struct gpuring_stream *stream, struct gpuring_work *work)
{
    (void) stream;
    return gpuring_work_run_host(work);
}

static int host_synchronize(struct gpuring_stream *stream)
{
    (void) stream;
    return GPURING_OK;
}

const struct gpuring_device_ops gpuring_device_host = {
    .name = "host",
    .kind = GPURING_DEVICE_HOST,
    .open = host_open,
    .close = host_close,
    .identity = host_identity,
    .alloc = host_alloc,
    .free = mapping_remove,
    .export = host_export,
    .import = host_import,
    .unimport = mapping_remove,
    .unexport = host_unexport,
    .alloc_pinned = host_alloc_pinned,
    .free_pinned = mapping_remove,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .copy = host_copy,
    .copy_runs = host_copy_runs,
    .copied = host_synchronize,
    .launch = host_launch,
    .poll = host_poll,
    .synchronize = host_synchronize,
};
