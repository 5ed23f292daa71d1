/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/message.h"

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/stage/part.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static struct gpuring_part elements(size_t count, struct ompi_datatype_t *type)
{
    return (struct gpuring_part){.blocks = 1, .end = 1, .count = count, .type = type};
}

bool gpuring_p2p_message_find(struct gpuring_p2p_message *message, const void *user, size_t count,
                              struct ompi_datatype_t *type)
{
    struct gpuring_part part = elements(count, type);
    const void *gpu = gpuring_stage_find_on_gpu(user, &part);

    if (OPAL_LIKELY(gpu == NULL)) {
        return false;
    }
    *message = (struct gpuring_p2p_message){
        .user = user,
        .gpu = gpu,
        .bytes = count * type->super.size,
        .size = type->super.size,
        .extent = type->super.ub - type->super.lb,
    };
    return true;
}

static int find_runs(struct gpuring_p2p_message *message, size_t count,
                     struct ompi_datatype_t *type)
{
    struct gpuring_part all = elements(count, type);
    struct gpuring_part one = elements(1, type);

    if (gpuring_part_contiguous(&all)) {
        message->size = message->bytes; /* as one element without gaps */
        return gpuring_part_runs(&all, &message->element);
    }
    return gpuring_part_runs(&one, &message->element);
}

static int attach(const struct gpuring_p2p_message *message)
{
    return OPAL_LIKELY(gpuring_process.gpu >= 0) ? GPURING_OK
                                                 : gpuring_process_attach(message->gpu);
}

int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message, size_t count,
                                struct ompi_datatype_t *type)
{
    /* Memory is pinned for a GPU that is attached; whether that works, the copy finds out. */
    (void) attach(message);
    if (find_runs(message, count, type) == GPURING_OK) {
        message->bounce = gpuring_stage_bounce_get(message->bytes, message->bytes);
    }
    if (message->bounce == NULL) {
        gpuring_error("[p2p-no-memory] a send or receive on GPU memory returns MPI_ERR_NO_MEM: "
                      "there are no %zu bytes of host memory for its message; free host memory, or "
                      "raise its limits (ulimit -v, vm.overcommit_memory)",
                      message->bytes);
        gpuring_p2p_message_release(message);
        return GPURING_ERR_NOMEM;
    }
    gpuring_pvar_add(GPURING_PVAR_staged_messages, 1);
    return GPURING_OK;
}

void *gpuring_p2p_message_host(const struct gpuring_p2p_message *message)
{
    return message->bounce->address;
}

/* Rows of the message: where they are in the user's buffer, and in the bounce buffer. */
struct rows {
    ptrdiff_t user;
    size_t user_pitch;
    size_t bounce, bounce_pitch;
    size_t bytes, count;
};

static int copy_rows(const struct gpuring_p2p_message *message, const struct rows *rows, bool in)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    char *user = (char *) (uintptr_t) gpuring_stage_address(message->user, rows->user);
    char *bounce = message->bounce->address + rows->bounce;

    if (rows->count == 1) {
        return ops->copy(message->stream, in ? bounce : user, in ? user : bounce, rows->bytes);
    }
    return in ? ops->copy_rows(message->stream, bounce, rows->bounce_pitch, user, rows->user_pitch,
                               rows->bytes, rows->count)
              : ops->copy_rows(message->stream, user, rows->user_pitch, bounce, rows->bounce_pitch,
                               rows->bytes, rows->count);
}

/* The first bytes of one element, which is at these offsets. */
static int copy_element(const struct gpuring_p2p_message *message, ptrdiff_t user, size_t bounce,
                        size_t bytes, bool in)
{
    int status = GPURING_OK;

    for (size_t i = 0; i < message->element.count && bytes > 0 && status == GPURING_OK; i++) {
        const struct gpuring_run *run = gpuring_runs_at(&message->element, i);
        size_t whole = bytes / run->bytes;
        struct rows rows = {.user = user + run->offset,
                            .user_pitch = (size_t) run->stride,
                            .bounce = bounce,
                            .bounce_pitch = run->bytes,
                            .bytes = run->bytes,
                            .count = whole < run->rows ? whole : run->rows};

        if (rows.count > 0) {
            status = copy_rows(message, &rows, in);
        }
        rows.bounce += rows.count * run->bytes;
        rows.user += (ptrdiff_t) rows.count * run->stride;
        bytes -= rows.count * run->bytes;
        if (rows.count < run->rows && bytes > 0 && status == GPURING_OK) {
            rows.bytes = bytes; /* the message ends in this row */
            rows.count = 1;
            status = copy_rows(message, &rows, in);
            bytes = 0;
        }
        bounce = rows.bounce;
    }
    return status;
}

/* Each piece of the element, as a row for each of the elements. */
static int copy_pieces(const struct gpuring_p2p_message *message, size_t count, bool in)
{
    struct rows rows = {
        .user_pitch = (size_t) message->extent, .bounce_pitch = message->size, .count = count};
    int status = GPURING_OK;

    for (size_t i = 0; i < message->element.count; i++) {
        const struct gpuring_run *run = gpuring_runs_at(&message->element, i);

        rows.bytes = run->bytes;
        for (size_t row = 0; row < run->rows && status == GPURING_OK; row++) {
            rows.user = run->offset + (ptrdiff_t) row * run->stride;
            status = copy_rows(message, &rows, in);
            rows.bounce += run->bytes;
        }
    }
    return status;
}

/* Are pieces fewer copies than elements? */
static bool by_pieces(const struct gpuring_p2p_message *message, size_t count)
{
    bool possible = count > 1 && message->size <= INT32_MAX;
    size_t pieces = 0;

    for (size_t i = 0; i < message->element.count; i++) {
        const struct gpuring_run *run = gpuring_runs_at(&message->element, i);

        pieces += run->rows;
        possible = possible && gpuring_run_regular(message->extent, run->bytes);
    }
    return possible && pieces < message->element.count * count;
}

static int copy(const struct gpuring_p2p_message *message, size_t bytes, bool in)
{
    size_t whole = bytes / message->size, done = 0;
    int status = GPURING_OK;

    if (by_pieces(message, whole)) {
        status = copy_pieces(message, whole, in);
        done = whole;
    }
    for (; done < whole && status == GPURING_OK; done++) {
        status = copy_element(message, (ptrdiff_t) done * message->extent, done * message->size,
                              message->size, in);
    }
    if (status == GPURING_OK) {
        status = copy_element(message, (ptrdiff_t) done * message->extent, done * message->size,
                              bytes % message->size, in);
    }
    return status;
}

/* No copy runs any more. */
static int end(struct gpuring_p2p_message *message, int status)
{
    static bool logged;

    gpuring_stage_stream_put(message->stream);
    message->stream = NULL;
    if (status != GPURING_OK) {
        bool again = __atomic_exchange_n(&logged, true, __ATOMIC_RELAXED);

        gpuring_log(again ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                    "[p2p-copy] a send or receive of %zu bytes returns an error, as its data could "
                    "not be copied between GPU and host: %s; a message that was to be sent is not "
                    "sent",
                    message->bytes, gpuring_status_text(status));
    }
    return status;
}

static int start(struct gpuring_p2p_message *message, size_t bytes, bool in)
{
    int status = attach(message);

    if (status == GPURING_OK) {
        status = gpuring_stage_stream_get(&message->stream);
    }
    if (status != GPURING_OK) {
        return end(message, status);
    }
    status = copy(message, bytes, in);
    if (status != GPURING_OK) {
        (void) gpuring_process.device_ops->synchronize(message->stream);
        return end(message, status);
    }
    return GPURING_OK;
}

int gpuring_p2p_message_start_in(struct gpuring_p2p_message *message)
{
    return start(message, message->bytes, true);
}

int gpuring_p2p_message_start_out(struct gpuring_p2p_message *message, size_t bytes)
{
    return start(message, bytes < message->bytes ? bytes : message->bytes, false);
}

int gpuring_p2p_message_poll(struct gpuring_p2p_message *message)
{
    int status = gpuring_process.device_ops->copied(message->stream);

    return status == GPURING_AGAIN ? status : end(message, status);
}

#define POLLED ((size_t) 1 << 20) /* bytes from which on others' messages move on meanwhile */

int gpuring_p2p_message_wait(struct gpuring_p2p_message *message)
{
    int status;

    if (message->bytes < POLLED) {
        return end(message, gpuring_process.device_ops->synchronize(message->stream));
    }
    while ((status = gpuring_p2p_message_poll(message)) == GPURING_AGAIN) {
        opal_progress();
    }
    return status;
}

int gpuring_p2p_message_copy_in(struct gpuring_p2p_message *message)
{
    int status = gpuring_p2p_message_start_in(message);

    return status == GPURING_OK ? gpuring_p2p_message_wait(message) : status;
}

int gpuring_p2p_message_copy_out(struct gpuring_p2p_message *message, size_t bytes)
{
    int status = gpuring_p2p_message_start_out(message, bytes);

    return status == GPURING_OK ? gpuring_p2p_message_wait(message) : status;
}

void gpuring_p2p_message_release(struct gpuring_p2p_message *message)
{
    gpuring_runs_free(&message->element);
    gpuring_stage_bounce_put(message->bounce);
    message->bounce = NULL;
}
