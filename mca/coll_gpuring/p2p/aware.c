/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/aware.h"

#include <stdlib.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/p2p/p2p.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/stage/stage_call.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct staged {
    struct gpuring_stage_buffer buffer;
    const char *function;
};

static bool serves(void)
{
    return gpuring_p2p_serves() || gpuring_compat_cuda_aware();
}

/* An Open MPI that was built with CUDA takes GPU buffers itself. */
static bool on_gpu(const void *buffer, size_t count, MPI_Datatype type)
{
    struct gpuring_part part = gpuring_part_elements(buffer, count, type);

    return gpuring_memory_possible() && !gpuring_compat_cuda_aware() &&
           gpuring_part_find_on_gpu(&part) != NULL;
}

static int log_memory(const char *function, size_t bytes)
{
    gpuring_error("[stage-no-memory] %s returns MPI_ERR_NO_MEM on this rank and transfers "
                  "none of its data: %zu bytes of host memory to stage it through could not "
                  "be allocated; free host memory, or raise its limits (ulimit -v, "
                  "vm.overcommit_memory)",
                  function, bytes);
    return gpuring_compat_error(GPURING_ERR_NOMEM);
}

/* Log a failed copy, as an error the first time in the process, and later as information. */
static int log_copy(const char *function, int status, const char *consequence)
{
    static bool logged;
    bool again = __atomic_exchange_n(&logged, true, __ATOMIC_RELAXED);

    gpuring_log(again ? GPURING_LOG_INFO : GPURING_LOG_ERROR,
                "[stage-copy] %s returns an error on this rank, whose data could not be copied "
                "between GPU and host: %s; %s",
                function, gpuring_status_text(status), consequence);
    return gpuring_compat_error(status);
}

static int staged_copy(struct gpuring_stage_buffer *buffer, unsigned how)
{
    struct gpuring_stream *stream = NULL;
    int status = gpuring_stage_stream_get(buffer->on_gpu, &stream);

    if (status == GPURING_OK) {
        status = gpuring_stage_buffer_copy(buffer, stream, how | GPURING_COPY_WAIT);
        gpuring_stage_stream_put(stream);
    }
    return status;
}

static void staged_release(struct staged *staged)
{
    gpuring_stage_buffer_release(&staged->buffer);
    free(staged);
}

static int staged_end(void *handle, bool out)
{
    struct staged *staged = handle;
    int status = out ? staged_copy(&staged->buffer, 0) : GPURING_OK;
    int code = MPI_SUCCESS;

    if (status != GPURING_OK) {
        code = log_copy(staged->function, status, "what the call has read or received is lost");
    }
    staged_release(staged);
    return code;
}

/* Return the consequence of a failed copy for the call, for the log line. */
static const char *consequence_of(unsigned use)
{
    if ((use & GPURING_AWARE_COLLECTIVE) == 0) {
        return "the call transfers nothing";
    }
    return (use & GPURING_AWARE_OUT) != 0 ? "other ranks get their data"
                                          : "the file gets bytes of 0xff in place of its data";
}

static int staged_begin(const char *function, const void *user, size_t count, MPI_Datatype type,
                        unsigned use, void **handle, void **host)
{
    struct gpuring_part part = gpuring_part_elements(user, count, type);
    struct staged *staged = calloc(1, sizeof *staged);
    size_t lacking;
    int status = GPURING_OK;

    *handle = *host = NULL;
    if (staged == NULL) {
        return log_memory(function, sizeof *staged);
    }
    staged->function = function;
    if (gpuring_stage_buffer_get(
            &staged->buffer, user, (use & GPURING_AWARE_IN) != 0 ? &part : NULL,
            (use & GPURING_AWARE_OUT) != 0 ? &part : NULL, &lacking) != GPURING_OK) {
        staged_release(staged);
        return log_memory(function, lacking);
    }
    gpuring_pvar_add(GPURING_PVAR_staged_messages, 1);
    if ((use & GPURING_AWARE_IN) != 0) {
        status = staged_copy(&staged->buffer, GPURING_COPY_IN);
    }
    *host = (void *) (uintptr_t) staged->buffer.address;
    *handle = staged;
    if (status == GPURING_OK) {
        return MPI_SUCCESS;
    }
    if ((use & GPURING_AWARE_COLLECTIVE) != 0) {
        gpuring_stage_buffer_poison(&staged->buffer);
    } else {
        staged_release(staged);
        *handle = NULL;
    }
    return log_copy(function, status, consequence_of(use));
}

const struct gpuring_aware gpuring_p2p_aware = {.version = GPURING_AWARE_VERSION,
                                                .serves = serves,
                                                .on_gpu = on_gpu,
                                                .begin = staged_begin,
                                                .end = staged_end};
