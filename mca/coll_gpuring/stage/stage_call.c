/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/stage_call.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/device/device.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/buffers.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/message.h"
#include "mca/coll_gpuring/util/status.h"

/* ---- Buffers ---- */

#define ALIGNMENT 64 /* an address in a bounce buffer equals the user's modulo this */

/* Make the runs of the parts if one of them is on a GPU. */
static int find_buffer(struct gpuring_stage_buffer *buffer, const struct gpuring_part *in,
                       const struct gpuring_part *out)
{
    int status = GPURING_OK;

    if (in != NULL) {
        status = gpuring_part_find_runs(in, &buffer->on_gpu, &buffer->in_runs);
    }
    if (status == GPURING_OK && out != NULL) {
        status = gpuring_part_find_runs(out, &buffer->on_gpu, &buffer->out_runs);
    }
    if (status == GPURING_OK && in != NULL && buffer->on_gpu != NULL &&
        buffer->in_runs.count == 0) { /* only `out` is on a GPU */
        status = gpuring_part_find_runs(in, &buffer->on_gpu, &buffer->in_runs);
    }
    return status;
}

int gpuring_stage_buffer_get(struct gpuring_stage_buffer *buffer, const void *user,
                             const struct gpuring_part *in, const struct gpuring_part *out,
                             size_t *lacking)
{
    struct gpuring_span span = {.bytes = 0};
    size_t shift;
    int status;

    *buffer = (struct gpuring_stage_buffer){.user = user, .address = user};
    *lacking = sizeof(struct gpuring_runs);
    status = find_buffer(buffer, in, out);
    if (status != GPURING_OK || buffer->on_gpu == NULL) {
        return status;
    }
    span = gpuring_runs_span(gpuring_runs_span(span, &buffer->in_runs), &buffer->out_runs);
    shift = (uintptr_t) gpuring_stage_address(user, span.low) % ALIGNMENT;
    *lacking = (size_t) (span.high - span.low) + shift;
    buffer->bounce = gpuring_stage_bounce_get(buffer->on_gpu, *lacking, span.bytes);
    if (buffer->bounce == NULL) {
        return GPURING_ERR_NOMEM;
    }
    buffer->address = gpuring_stage_address(buffer->bounce->address, (ptrdiff_t) shift - span.low);
    return GPURING_OK;
}

int gpuring_stage_buffer_copy(const struct gpuring_stage_buffer *buffer,
                              struct gpuring_stream *stream, unsigned how)
{
    const struct gpuring_runs *runs =
        (how & GPURING_COPY_IN) != 0 ? &buffer->in_runs : &buffer->out_runs;

    return runs->count == 0 ? GPURING_OK
                            : gpuring_process.device_ops->copy_runs(stream, buffer->user,
                                                                    buffer->address, runs, how);
}

void gpuring_stage_buffer_poison(const struct gpuring_stage_buffer *buffer)
{
    gpuring_runs_fill(&buffer->in_runs, (char *) (uintptr_t) buffer->address, GPURING_POISON);
}

void gpuring_stage_buffer_release(struct gpuring_stage_buffer *buffer)
{
    gpuring_runs_free(&buffer->in_runs);
    gpuring_runs_free(&buffer->out_runs);
    gpuring_stage_bounce_put(buffer->bounce);
    buffer->bounce = NULL;
}

/* ---- Calls ---- */

/* Write "communicator MPI_COMM_WORLD (0), rank 2 of 4: MPI_Bcast" to text, and return text. */
static const char *stage_text(const mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                              char text[320])
{
    static const char *const names[] = {
#define NAME(name, arguments) #name,
        GPURING_STAGED_COLLECTIVES(NAME) "reduce_local", "barrier"
#undef NAME
    };
    size_t length;

    gpuring_module_text(module, text, 256);
    length = strlen(text);
    snprintf(text + length, 320 - length, ": MPI_%c%s", toupper((unsigned char) names[what][0]),
             names[what] + 1);
    return text;
}

/* Log the reason that data of this rank was not copied: as an error if it is the first failure of
 * this communicator, otherwise as information. */
static int log_failure(mca_coll_gpuring_module_t *module, enum gpuring_staged what, int failed)
{
    bool first = !module->staging.failed;
    char text[320];

    module->staging.failed = true;
    gpuring_log(first ? GPURING_LOG_ERROR : GPURING_LOG_INFO,
                "[stage-copy] %s returns an error on this rank, whose data could not be "
                "copied between GPU and host: %s; other ranks receive bytes of 0xff (NaN or "
                "-1) instead of this rank's data",
                stage_text(module, what, text), gpuring_status_text(failed));
    return failed;
}

int gpuring_stage_log_memory(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                             size_t bytes)
{
    char text[320];

    gpuring_error("[stage-no-memory] %s returns MPI_ERR_NO_MEM on this rank, which cannot "
                  "take part in it: %zu bytes of host memory to stage it through could not be "
                  "allocated; other ranks may wait for it; free host memory, or raise its "
                  "limits (ulimit -v, vm.overcommit_memory)",
                  stage_text(module, what, text), bytes);
    return GPURING_ERR_NOMEM;
}

/* Count a staged call, and log the first call of each collective on a communicator. */
static void account_staged(mca_coll_gpuring_module_t *module, enum gpuring_staged what)
{
    bool served = what < GPURING_STAGED_ALWAYS && module->serve != NULL;
    uint32_t bit = UINT32_C(1) << what;
    char text[320];

    _Static_assert(GPURING_STAGED_COUNT <= 32, "bits of staging.logged");
    gpuring_pvar_add(GPURING_PVAR_staged, 1);
    if (!served) { /* otherwise the fallback was counted with its reason */
        gpuring_pvar_add(GPURING_PVAR_fallbacks, 1);
    }
    if ((module->staging.logged & bit) == 0) {
        module->staging.logged |= bit;
        gpuring_info("[staged] %s on GPU memory is staged through host memory: %s",
                     stage_text(module, what, text),
                     served ? "this call does not run on the GPU"
                            : "the collective does not run on the GPU");
    }
}

int gpuring_stage_begin(struct gpuring_stage *stage, struct gpuring_description *d)
{
    size_t lacking;
    int status;

    gpuring_description_parts(d);
    *stage = (struct gpuring_stage){.module = d->module, .what = d->what};
    status = gpuring_stage_buffer_get(&stage->send, d->arguments.sbuf, &d->send, NULL, &lacking);
    if (status == GPURING_OK) {
        status = gpuring_stage_buffer_get(&stage->receive, d->arguments.rbuf, &d->receive_in,
                                          &d->receive_out, &lacking);
    }
    if (status != GPURING_OK) {
        gpuring_stage_release(stage);
        return gpuring_stage_log_memory(stage->module, stage->what, lacking);
    }
    stage->gpu = stage->send.on_gpu != NULL ? stage->send.on_gpu : stage->receive.on_gpu;
    if (stage->gpu != NULL) {
        d->arguments.sbuf = stage->send.address;
        d->arguments.rbuf = (void *) (uintptr_t) stage->receive.address;
        account_staged(stage->module, stage->what);
    }
    return GPURING_OK;
}

static int copy_in(struct gpuring_stage *stage)
{
    const unsigned last = GPURING_COPY_IN | GPURING_COPY_WAIT;
    bool both = stage->receive.in_runs.count > 0;
    int status = GPURING_OK;

    if (stage->stream == NULL) {
        status = gpuring_stage_stream_get(stage->gpu, &stage->stream);
    }
    if (status == GPURING_OK) {
        status =
            gpuring_stage_buffer_copy(&stage->send, stage->stream, both ? GPURING_COPY_IN : last);
    }
    return status == GPURING_OK ? gpuring_stage_buffer_copy(&stage->receive, stage->stream, last)
                                : status;
}

void gpuring_stage_copy_in(struct gpuring_stage *stage)
{
    stage->failed = copy_in(stage);
    if (stage->failed != GPURING_OK) {
        (void) log_failure(stage->module, stage->what, stage->failed);
        gpuring_stage_buffer_poison(&stage->send);
        gpuring_stage_buffer_poison(&stage->receive);
    }
}

/* Return the error that this rank returns although the previous module performs the call, or 0: the
 * copy in failed, or the wire-up found that the GPU does not work. */
static int failure_of(const struct gpuring_stage *stage)
{
    const mca_coll_gpuring_module_t *module = stage->module;

    return module->state == GPURING_STATE_FAILED && module->failure == GPURING_ERR_DEVICE
               ? GPURING_ERR_DEVICE
               : stage->failed;
}

int gpuring_stage_copy_out(struct gpuring_stage *stage, bool wait)
{
    int status = failure_of(stage);

    if (status == GPURING_OK) {
        status =
            gpuring_stage_buffer_copy(&stage->receive, stage->stream, wait ? GPURING_COPY_WAIT : 0);
        if (status != GPURING_OK) {
            (void) log_failure(stage->module, stage->what, status);
        }
    }
    return status;
}

int gpuring_stage_poll_out(struct gpuring_stage *stage)
{
    int status =
        stage->stream != NULL ? gpuring_process.device_ops->copied(stage->stream) : GPURING_OK;

    return status < GPURING_OK ? log_failure(stage->module, stage->what, status) : status;
}

void gpuring_stage_rest(struct gpuring_stage *stage)
{
    gpuring_stage_stream_put(stage->stream);
    stage->stream = NULL;
}

void gpuring_stage_release(struct gpuring_stage *stage)
{
    gpuring_stage_rest(stage);
    gpuring_stage_buffer_release(&stage->send);
    gpuring_stage_buffer_release(&stage->receive);
}

/* ---- Calls whose previous module may wait for other ranks ---- */

#define LOOKS_PER_CLOCK 64
#define AWAY            (5 * GPURING_SECOND) /* if MPI was not called for this long, waits begin again */

/* Warn that the previous module waits for other ranks, which no timeout ends. */
static void report_stall(struct gpuring_stage *stage, uint64_t waited)
{
    char text[320];

    stage->reported = true;
    gpuring_warn("[stage-stalled] %s, staged through host memory, has waited %llu s for other "
                 "ranks and continues to wait; look in their logs for a rank that failed or "
                 "does not make this call",
                 stage_text(stage->module, stage->what, text),
                 (unsigned long long) (waited / GPURING_SECOND));
}

void gpuring_stage_watch(struct gpuring_stage *stage)
{
    uint64_t limit =
        gpuring_params.timeout > 0 ? (uint64_t) gpuring_params.timeout : GPURING_REPORT_SECONDS;
    uint64_t now;

    if (++stage->looks % LOOKS_PER_CLOCK != 0) {
        return;
    }
    now = gpuring_now_ns();
    if (now - stage->last >= AWAY) {
        stage->since = now;
    } else if (!stage->reported && now - stage->since >= limit * GPURING_SECOND) {
        report_stall(stage, now - stage->since);
    }
    stage->last = now;
}

/* The task of a blocking call, which ends when the previous module's function returns. */
static bool advance_blocking(struct gpuring_task *task, struct gpuring_list *items)
{
    (void) items;
    gpuring_stage_watch(GPURING_LIST_ENTRY(task, struct gpuring_stage, task));
    return false;
}

void gpuring_stage_wait_begin(struct gpuring_stage *stage, gpuring_task_advance_t advance,
                              gpuring_task_complete_t complete)
{
    stage->since = stage->last = gpuring_now_ns();
    stage->looks = 0;
    stage->reported = false;
    stage->task = (struct gpuring_task){
        .kind = GPURING_TASK_REQUEST, .advance = advance, .complete = complete};
    (void) gpuring_task_start(&stage->task);
}

#define NUMBER(name, FORM) (GPURING_STAGED_##name * GPURING_FUNCTION_FORMS + (int) GPURING_##FORM)
#define FIELD(type, name)  arguments->name
#define CASE(function, name, list, FORM, ...)                                      \
    case NUMBER(name, FORM):                                                       \
        return GPURING_CALL_PREVIOUS(module, function, GPURING_LIST_##list(FIELD), \
                                     arguments->comm, ##__VA_ARGS__);
#define CASES(name, list)                           \
    CASE(name, name, list, BLOCKING)                \
    CASE(i##name, name, list, NONBLOCKING, request) \
    CASE(name##_init, name, list, PERSISTENT, info, request)

int gpuring_stage_call_previous(const struct gpuring_description *d, ompi_request_t **request)
{
    const struct gpuring_arguments *arguments = &d->arguments;
    mca_coll_gpuring_module_t *module = d->module;
    struct ompi_info_t *info = d->info;

    if (d->form != GPURING_BLOCKING) {
        gpuring_compat_recycle_tags(module->comm, GPURING_TAGS_OF_MPI(gpuring_compat_lowest_tag()));
    }
    switch ((int) d->what * GPURING_FUNCTION_FORMS + (int) d->form) {
        GPURING_STAGED_COLLECTIVES(CASES)
    case NUMBER(reduce_local, BLOCKING):
        return GPURING_CALL_PREVIOUS(module, reduce_local, GPURING_LIST_REDUCTION(FIELD));
    case NUMBER(barrier, BLOCKING):
        return GPURING_CALL_PREVIOUS(module, barrier, arguments->comm);
    case NUMBER(barrier, NONBLOCKING):
        return GPURING_CALL_PREVIOUS(module, ibarrier, arguments->comm, request);
    case NUMBER(barrier, PERSISTENT):
        return GPURING_CALL_PREVIOUS(module, barrier_init, arguments->comm, info, request);
    default:
        return MPI_ERR_INTERN; /* there are no other calls */
    }
}

/* ---- A blocking call ---- */

int gpuring_stage_blocking(struct gpuring_description *d)
{
    struct gpuring_stage stage;
    int result;

    if (gpuring_stage_begin(&stage, d) != GPURING_OK) {
        return MPI_ERR_NO_MEM;
    }
    if (stage.gpu == NULL) {
        return gpuring_stage_call_previous(d, NULL);
    }
    gpuring_stage_copy_in(&stage);
    gpuring_stage_wait_begin(&stage, advance_blocking, NULL);
    result = gpuring_stage_call_previous(d, NULL);
    gpuring_task_stop(&stage.task);
    if (result == MPI_SUCCESS) {
        result = gpuring_compat_error(gpuring_stage_copy_out(&stage, true));
    }
    gpuring_stage_release(&stage);
    return result;
}
