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
#define LIMIT    ((size_t) 256 << 20) /* of the bytes that are kept, and see bounce_get */
#define SPARSE   8  /* ratio of bytes to touched bytes from which memory is not pinned */
#define STREAMS  16 /* limit on the number of streams that are kept */

static struct {
    pthread_mutex_t lock;     /* guards all fields */
    struct gpuring_list kept; /* all pinned; the one that was used last is the first */
    size_t kept_bytes;
    size_t pinned_bytes; /* of all pinned buffers, kept and in use */
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

static void bounce_destroy(struct gpuring_stage_bounce *bounce)
{
    if (bounce->pinned) {
        gpuring_process.device_ops->free_pinned(gpuring_process.device, bounce->address);
        pthread_mutex_lock(&pool.lock);
        pool.pinned_bytes -= bounce->bytes;
        pthread_mutex_unlock(&pool.lock);
    } else {
        munmap(bounce->address, bounce->bytes);
    }
    free(bounce);
}

static void destroy_all(struct gpuring_list *list)
{
    struct gpuring_stage_bounce *bounce;

    while ((bounce = GPURING_LIST_FIRST(list, struct gpuring_stage_bounce, node)) != NULL) {
        gpuring_list_remove(&bounce->node);
        bounce_destroy(bounce);
    }
}

/* Move kept buffers to the list `old`, the least recently used first, until at most `bytes` bytes
 * are kept. The caller holds the lock. */
static void drop_kept(size_t bytes, struct gpuring_list *old)
{
    while (pool.kept_bytes > bytes) {
        struct gpuring_stage_bounce *last =
            GPURING_LIST_ENTRY(pool.kept.prev, struct gpuring_stage_bounce, node);

        gpuring_list_remove(&last->node);
        gpuring_list_append(old, &last->node);
        pool.kept_bytes -= last->bytes;
    }
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

/* Return true if a buffer should be pinned. If probably none of its bytes will be touched, kept
 * buffers are freed to make room for it, but buffers in use are not. The caller holds the lock. */
static bool is_worth_pinning(size_t bytes, size_t touched, struct gpuring_list *old)
{
    size_t in_use = pool.pinned_bytes - pool.kept_bytes;

    if (gpuring_process.gpu < 0 || (pool.pinned_limit > 0 && bytes >= pool.pinned_limit)) {
        return false;
    }
    if (touched > 0) {
        return bytes <= STEP || bytes / SPARSE <= touched;
    }
    if (in_use + bytes > LIMIT) {
        return false;
    }
    drop_kept(LIMIT - in_use - bytes, old);
    return true;
}

static bool bounce_pin(struct gpuring_stage_bounce *bounce, size_t touched)
{
    struct gpuring_list old = GPURING_LIST_INIT(old);
    void *address;
    int status;
    bool may;

    pthread_mutex_lock(&pool.lock);
    may = is_worth_pinning(bounce->bytes, touched, &old);
    pool.pinned_bytes += may ? bounce->bytes : 0;
    pthread_mutex_unlock(&pool.lock);
    destroy_all(&old);
    if (!may) {
        return false;
    }
    status =
        gpuring_process.device_ops->alloc_pinned(gpuring_process.device, bounce->bytes, &address);
    if (status != GPURING_OK) {
        pthread_mutex_lock(&pool.lock);
        pool.pinned_bytes -= bounce->bytes;
        pthread_mutex_unlock(&pool.lock);
        if (status != GPURING_ERR_CONTEXT) { /* the device has logged this one */
            pinning_failed(bounce->bytes);
        }
        return false;
    }
    bounce->address = address;
    return true;
}

static struct gpuring_stage_bounce *bounce_create(size_t bytes, size_t touched)
{
    struct gpuring_stage_bounce *bounce = calloc(1, sizeof *bounce);

    if (bounce == NULL) {
        return NULL;
    }
    bounce->bytes = bytes;
    bounce->pinned = bounce_pin(bounce, touched);
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

struct gpuring_stage_bounce *gpuring_stage_bounce_get(const void *gpu, size_t bytes, size_t touched)
{
    struct gpuring_stage_bounce *bounce;

    (void) gpuring_process_attach(gpu);
    bytes = rounded(bytes);
    pthread_mutex_lock(&pool.lock);
    bounce = take_kept(bytes);
    pthread_mutex_unlock(&pool.lock);
    return bounce != NULL ? bounce : bounce_create(bytes, touched);
}

void gpuring_stage_bounce_put(struct gpuring_stage_bounce *bounce)
{
    struct gpuring_list old = GPURING_LIST_INIT(old);

    if (bounce == NULL) {
        return;
    }
    if (!bounce->pinned || bounce->bytes > LIMIT) {
        bounce_destroy(bounce);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    drop_kept(LIMIT - bounce->bytes, &old);
    gpuring_list_prepend(&pool.kept, &bounce->node);
    pool.kept_bytes += bounce->bytes;
    pthread_mutex_unlock(&pool.lock);
    destroy_all(&old);
}

static struct gpuring_stream *take_stream(void)
{
    struct gpuring_stream *stream;

    pthread_mutex_lock(&pool.lock);
    stream = pool.stream_count > 0 ? pool.streams[--pool.stream_count] : NULL;
    pthread_mutex_unlock(&pool.lock);
    return stream;
}

int gpuring_stage_stream_get(const void *gpu, struct gpuring_stream **stream)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = gpuring_process_attach(gpu);

    if (status != GPURING_OK) {
        return status;
    }
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
    /* Destroy the streams before the buffers, because that detects whether the program's context
     * still exists. */
    while (pool.stream_count > 0) {
        gpuring_process.device_ops->stream_destroy(pool.streams[--pool.stream_count]);
    }
    destroy_all(&pool.kept);
    pool.kept_bytes = 0;
    pool.pinned_limit = 0;
}
