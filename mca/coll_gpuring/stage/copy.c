/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/copy.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/status.h"

#define STREAMS 16 /* that are kept */

static struct {
    pthread_mutex_t lock; /* guards all */
    struct gpuring_stream *kept[STREAMS];
    int count;
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

int gpuring_stage_stream_get(struct gpuring_stream **stream)
{
    *stream = NULL;
    pthread_mutex_lock(&streams.lock);
    if (streams.count > 0) {
        *stream = streams.kept[--streams.count];
    }
    pthread_mutex_unlock(&streams.lock);
    return *stream != NULL
               ? GPURING_OK
               : gpuring_process.device_ops->stream_create(gpuring_process.device, stream);
}

void gpuring_stage_stream_put(struct gpuring_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    pthread_mutex_lock(&streams.lock);
    if (streams.count < STREAMS) {
        streams.kept[streams.count++] = stream;
        stream = NULL;
    }
    pthread_mutex_unlock(&streams.lock);
    if (stream != NULL) {
        gpuring_process.device_ops->stream_destroy(stream);
    }
}

int gpuring_stage_copy_start(struct gpuring_stream *stream, char *to, const char *from,
                             const struct gpuring_runs *runs)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = GPURING_OK;

    for (size_t i = 0; i < runs->count && status == GPURING_OK; i++) {
        const struct gpuring_run *run = gpuring_runs_at(runs, i);

        status =
            run->rows == 1
                ? ops->copy(stream, to + run->offset, from + run->offset, run->bytes)
                : ops->copy_rows(stream, to + run->offset, (size_t) run->stride, from + run->offset,
                                 (size_t) run->stride, run->bytes, run->rows);
    }
    return status;
}

void gpuring_stage_streams_close(void)
{
    pthread_mutex_lock(&streams.lock);
    while (streams.count > 0) {
        gpuring_process.device_ops->stream_destroy(streams.kept[--streams.count]);
    }
    pthread_mutex_unlock(&streams.lock);
}
