/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/buffers.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define SMALLEST ((size_t) 64 << 10)
#define STEP     ((size_t) 2 << 20) /* larger sizes are multiples of it, smaller ones powers of two */
#define KEEP     ((size_t) 256 << 20) /* limit on the bytes that are kept */
#define SPARSE   8  /* ratio of bytes to touched bytes from which memory is not pinned */
#define STREAMS  16 /* limit on the number of streams that are kept */

static struct {
    pthread_mutex_t lock; /* guards all fields */
    struct gpuring_list kept;
    size_t kept_bytes;
    size_t pinned_limit; /* smallest size in bytes that could not be pinned; 0: none failed */
    struct gpuring_stream *streams[STREAMS];
    int stream_count;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .kept = GPURING_LIST_INIT(pool.kept)};

static size_t rounded(size_t bytes)
{
    size_t size = SMALLEST;

    if (bytes > STEP) {
        return (bytes + STEP - 1) / STEP * STEP;
    }
    while (size < bytes) {
        size *= 2;
    }
    return size;
}

static void destroy(struct gpuring_stage_bounce *bounce)
{
    if (bounce->pinned) {
        gpuring_process.device_ops->free_pinned(gpuring_process.device, bounce->address);
    } else {
        munmap(bounce->address, bounce->bytes);
    }
    free(bounce);
}

static void pinning_failed(size_t bytes)
{
    bool first;

    pthread_mutex_lock(&pool.lock);
    first = pool.pinned_limit == 0;
    pool.pinned_limit = first || bytes < pool.pinned_limit ? bytes : pool.pinned_limit;
    pthread_mutex_unlock(&pool.lock);
    if (first) {
        gpuring_warn("[pin-limit] %zu bytes of host memory could not be pinned: collectives on GPU "
                     "memory are staged through pageable memory, which is slower; raise the limit "
                     "on locked memory (ulimit -l) or free host memory",
                     bytes);
    }
}

static bool pin(struct gpuring_stage_bounce *bounce, size_t touched)
{
    void *address;
    int status;
    bool may;

    pthread_mutex_lock(&pool.lock);
    may = gpuring_process.gpu >= 0 &&
          (pool.pinned_limit == 0 || bounce->bytes < pool.pinned_limit) &&
          (bounce->bytes <= STEP || bounce->bytes / SPARSE <= touched);
    pthread_mutex_unlock(&pool.lock);
    if (!may) {
        return false;
    }
    status =
        gpuring_process.device_ops->alloc_pinned(gpuring_process.device, bounce->bytes, &address);
    if (status != GPURING_OK) {
        if (status != GPURING_ERR_CONTEXT) { /* the device has logged this one */
            pinning_failed(bounce->bytes);
        }
        return false;
    }
    bounce->address = address;
    return true;
}

static struct gpuring_stage_bounce *create(size_t bytes, size_t touched)
{
    struct gpuring_stage_bounce *bounce = calloc(1, sizeof *bounce);

    if (bounce == NULL) {
        return NULL;
    }
    bounce->bytes = bytes;
    bounce->pinned = pin(bounce, touched);
    if (!bounce->pinned) {
        bounce->address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bounce->address == MAP_FAILED) {
            free(bounce);
            return NULL;
        }
    }
    return bounce;
}

/* Take the smallest kept buffer that is large enough, or NULL. At most three quarters of a buffer
 * may remain unused. */
static struct gpuring_stage_bounce *take_kept(size_t bytes)
{
    struct gpuring_stage_bounce *bounce, *best = NULL;

    GPURING_LIST_EACH(bounce, &pool.kept, struct gpuring_stage_bounce, node)
    {
        if (bounce->bytes >= bytes && bounce->bytes / 4 <= bytes &&
            (best == NULL || bounce->bytes < best->bytes)) {
            best = bounce;
        }
    }
    if (best != NULL) {
        gpuring_list_remove(&best->node);
        pool.kept_bytes -= best->bytes;
    }
    return best;
}

struct gpuring_stage_bounce *gpuring_stage_bounce_get(size_t bytes, size_t touched)
{
    struct gpuring_stage_bounce *bounce;

    bytes = rounded(bytes);
    pthread_mutex_lock(&pool.lock);
    bounce = take_kept(bytes);
    pthread_mutex_unlock(&pool.lock);
    return bounce != NULL ? bounce : create(bytes, touched);
}

void gpuring_stage_bounce_put(struct gpuring_stage_bounce *bounce)
{
    bool keep;

    if (bounce == NULL) {
        return;
    }
    pthread_mutex_lock(&pool.lock);
    keep = bounce->pinned && pool.kept_bytes + bounce->bytes <= KEEP;
    if (keep) {
        gpuring_list_prepend(&pool.kept, &bounce->node);
        pool.kept_bytes += bounce->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!keep) {
        destroy(bounce);
    }
}

static struct gpuring_stream *take_stream(void)
{
    struct gpuring_stream *stream;

    pthread_mutex_lock(&pool.lock);
    stream = pool.stream_count > 0 ? pool.streams[--pool.stream_count] : NULL;
    pthread_mutex_unlock(&pool.lock);
    return stream;
}

int gpuring_stage_stream_get(struct gpuring_stream **stream)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    *stream = take_stream();
    while (*stream != NULL && ops->stream_works != NULL && !ops->stream_works(*stream)) {
        ops->stream_destroy(*stream);
        *stream = take_stream();
    }
    return *stream != NULL ? GPURING_OK : ops->stream_create(gpuring_process.device, stream);
}

void gpuring_stage_stream_put(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    pthread_mutex_lock(&pool.lock);
    if (pool.stream_count < STREAMS) {
        pool.streams[pool.stream_count++] = stream;
        stream = NULL;
    }
    pthread_mutex_unlock(&pool.lock);
    if (stream != NULL) {
        gpuring_process.device_ops->stream_destroy(stream);
    }
}

void gpuring_stage_buffers_close(void)
{
    struct gpuring_stage_bounce *bounce;

    /* Destroy the streams before the buffers, because that detects whether the program's context
     * still exists. */
    while (pool.stream_count > 0) {
        gpuring_process.device_ops->stream_destroy(pool.streams[--pool.stream_count]);
    }
    while ((bounce = GPURING_LIST_FIRST(&pool.kept, struct gpuring_stage_bounce, node)) != NULL) {
        gpuring_list_remove(&bounce->node);
        destroy(bounce);
    }
    pool.kept_bytes = 0;
    pool.pinned_limit = 0;
}
