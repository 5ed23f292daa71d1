/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/p2p_message.h"

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/stage/part.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_p2p_message_reserve(struct gpuring_p2p_message *message, size_t touched)
{
    if (message->bounce == NULL && message->element.count > 0) {
        message->bounce = gpuring_stage_bounce_get(message->gpu, message->bytes, touched);
    }
    if (message->bounce != NULL) {
        return GPURING_OK;
    }
    gpuring_error("[p2p-no-memory] a send or receive on GPU memory returns MPI_ERR_NO_MEM: "
                  "%zu bytes of host memory for its message could not be allocated; free host "
                  "memory, or raise its limits (ulimit -v, vm.overcommit_memory)",
                  message->bytes);
    return GPURING_ERR_NOMEM;
}

const char *gpuring_p2p_message_contiguous(const struct gpuring_p2p_message *message)
{
    const struct gpuring_run *run = gpuring_runs_at(&message->element, 0);
    bool one = message->gpu != NULL && message->size == message->bytes &&
               message->element.count == 1 && run->bytes == message->bytes;

    return one ? gpuring_stage_address(message->user, run->offset) : NULL;
}

char *gpuring_p2p_message_landing(const struct gpuring_p2p_message *message)
{
    struct gpuring_part all;

    if (message->gpu != NULL) {
        return message->bounce->address;
    }
    all = gpuring_part_elements(message->user, message->count, message->type);
    return gpuring_part_contiguous(&all) ? (char *) (uintptr_t) gpuring_stage_address(
                                               message->user, message->type->super.true_lb)
                                         : NULL;
}

int gpuring_p2p_message_convert(const struct gpuring_p2p_message *message, void *packed,
                                size_t bytes, bool pack)
{
    struct iovec vector = {.iov_base = packed, .iov_len = bytes};
    void *user = (void *) (uintptr_t) message->user;
    opal_convertor_t convertor;
    uint32_t vectors = 1;
    int code;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    code = pack ? opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor,
                                                           &message->type->super, message->count,
                                                           user, 0, &convertor)
                : opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor,
                                                           &message->type->super, message->count,
                                                           user, 0, &convertor);
    if (code == OPAL_SUCCESS) {
        code = pack ? opal_convertor_pack(&convertor, &vector, &vectors, &bytes)
                    : opal_convertor_unpack(&convertor, &vector, &vectors, &bytes);
    }
    OBJ_DESTRUCT(&convertor);
    return code >= 0 ? GPURING_OK : GPURING_ERR_IO;
}

/* Describe the first bytes of the message as runs of the user's buffer. */
static int runs_of(const struct gpuring_p2p_message *message, size_t bytes,
                   struct gpuring_runs *runs)
{
    size_t whole = bytes / message->size, rest = bytes % message->size;
    ptrdiff_t extent = message->type->super.ub - message->type->super.lb;
    ptrdiff_t offset = (ptrdiff_t) whole * extent;
    int status = gpuring_runs_repeat(runs, &message->element, 0, whole, extent);

    for (size_t i = 0; i < message->element.count && rest > 0; i++) {
        const struct gpuring_run *run = gpuring_runs_at(&message->element, i);

        for (size_t row = 0; row < run->rows && rest > 0 && status == GPURING_OK; row++) {
            size_t part = rest < run->bytes ? rest : run->bytes;

            status =
                gpuring_runs_add(runs, offset + run->offset + (ptrdiff_t) row * run->stride, part);
            rest -= part;
        }
    }
    gpuring_runs_end(runs);
    return status;
}

static int message_copy(const struct gpuring_p2p_message *message, size_t bytes, unsigned how)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_runs runs = {.count = 0};
    int status;

    if (bytes == message->size) {
        return ops->copy_runs(message->stream, message->user, message->bounce->address,
                              &message->element, how);
    }
    status = runs_of(message, bytes, &runs);
    if (status == GPURING_OK) {
        status =
            ops->copy_runs(message->stream, message->user, message->bounce->address, &runs, how);
    }
    gpuring_runs_free(&runs);
    return status;
}

void gpuring_p2p_message_copy_failed(size_t bytes, int status)
{
    static bool logged;
    bool again = __atomic_exchange_n(&logged, true, __ATOMIC_RELAXED);

    gpuring_log(again ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                "[p2p-copy] a send or receive of %zu bytes returns an error because its data "
                "could not be copied between GPU and host: %s; a message that should be sent "
                "is lost",
                bytes, gpuring_status_text(status));
}

/* Release the stream after the end of a copy. */
static int message_end(struct gpuring_p2p_message *message, int status)
{
    gpuring_stage_stream_put(message->stream);
    message->stream = NULL;
    if (status != GPURING_OK) {
        gpuring_p2p_message_copy_failed(message->bytes, status);
    }
    return status;
}

int gpuring_p2p_message_copy(struct gpuring_p2p_message *message, size_t bytes, unsigned how)
{
    int status = gpuring_stage_stream_get(message->gpu, &message->stream);

    if (status == GPURING_OK) {
        status = message_copy(message, bytes < message->bytes ? bytes : message->bytes,
                              how | GPURING_COPY_PACKED);
    }
    if (status == GPURING_OK) {
        gpuring_pvar_add(GPURING_PVAR_staged_messages, 1);
    }
    return status != GPURING_OK || (how & GPURING_COPY_WAIT) != 0 ? message_end(message, status)
                                                                  : status;
}

int gpuring_p2p_message_poll(struct gpuring_p2p_message *message)
{
    int status = gpuring_process.device_ops->copied(message->stream);

    return status == GPURING_AGAIN ? status : message_end(message, status);
}

#define POLLED                                                                         \
    ((size_t) 1 << 20) /* bytes from which a wait for a copy progresses other messages \
                        */

int gpuring_p2p_message_copy_in(struct gpuring_p2p_message *message, bool wait)
{
    bool polls = wait && message->bytes >= POLLED;
    int status = gpuring_p2p_message_reserve(message, message->bytes);

    if (status == GPURING_OK) {
        status = gpuring_p2p_message_copy(
            message, message->bytes, GPURING_COPY_IN | (wait && !polls ? GPURING_COPY_WAIT : 0u));
        polls = polls && status == GPURING_OK;
    }
    while (polls && (status = gpuring_p2p_message_poll(message)) == GPURING_AGAIN) {
        opal_progress();
    }
    return status;
}

void gpuring_p2p_message_release(struct gpuring_p2p_message *message)
{
    gpuring_runs_free(&message->element);
    gpuring_stage_bounce_put(message->bounce);
    message->bounce = NULL;
}
