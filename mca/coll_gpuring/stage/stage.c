/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/stage.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/coll_gpuring/memory_kind.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/stage/copy.h"
#include "mca/coll_gpuring/stage/memory.h"
#include "mca/coll_gpuring/stage/notice.h"
#include "mca/coll_gpuring/stage/request.h"
#include "mca/coll_gpuring/stage/sink.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ALIGNMENT 64 /* a place lies as the user's buffer does modulo this */

/* Places that cost no memory are there for the usual calls in one piece: those that are not large
 * enough for chunks, and many that are. */
#define SINK_CHUNKS ((size_t) 4)

/* What the other ranks get in place of data that could not be copied in: NaN in all floating
 * types, -1 in integers. It may not look like a result. */
#define VOID_BYTE 0xff

/* An address that is computed, not followed: places may begin outside of their blocks. */
static const char *moved(const void *address, ptrdiff_t by)
{
    return (const char *) ((uintptr_t) address + (uintptr_t) by);
}

static bool on_gpu(const void *address)
{
    return gpuring_pointer_on_gpu(gpuring_memory_of(address).kind);
}

/* MPI_BOTTOM: addresses are in the datatypes, and each may be anywhere. */
static bool any_on_gpu(const struct gpuring_part *part)
{
    struct gpuring_runs runs;
    bool found = gpuring_runs_build(&runs, part) != GPURING_OK;

    for (size_t i = 0; i < runs.count; i++) { /* all: the device learns of other contexts so */
        found = on_gpu(moved(MPI_BOTTOM, gpuring_runs_at(&runs, i)->offset)) || found;
    }
    gpuring_runs_free(&runs);
    return found;
}

/* Where a buffer is, judged by a byte that is touched: its own address may be outside of it. */
static bool part_on_gpu(const char *user, const struct gpuring_part *part)
{
    ptrdiff_t offset;

    if (!gpuring_part_touches(part, &offset)) {
        return false;
    }
    return user == MPI_BOTTOM ? any_on_gpu(part) : on_gpu(moved(user, offset));
}

static bool buffer_on_gpu(struct gpuring_stage_buffer *buffer)
{
    buffer->on_gpu = buffer->user != MPI_IN_PLACE && (part_on_gpu(buffer->user, &buffer->in) ||
                                                      part_on_gpu(buffer->user, &buffer->out));
    return buffer->on_gpu;
}

void gpuring_stage_prepare(void)
{
    gpuring_stage_sink_prepare(SINK_CHUNKS * gpuring_params.stage_size);
}

bool gpuring_stage_applies(struct gpuring_stage *stage)
{
    bool send = buffer_on_gpu(&stage->send), receive = buffer_on_gpu(&stage->receive);

    return send || receive;
}

void gpuring_stage_name(enum gpuring_staged what, char *text, size_t size)
{
    static const char *const names[] = {
#define NAME(name, arguments) #name,
        GPURING_STAGED_COLLECTIVES(NAME) "reduce_local"
#undef NAME
    };

    snprintf(text, size, "MPI_%c%s", toupper((unsigned char) names[what][0]), names[what] + 1);
}

void gpuring_stage_account(mca_coll_gpuring_module_t *module, enum gpuring_staged what)
{
    uint32_t bit = UINT32_C(1) << what;
    char name[64], text[256];

    _Static_assert(GPURING_STAGED_COUNT <= 32, "bits of logged_staged");
    gpuring_pvar_add(GPURING_PVAR_staged, 1);
    if (what != GPURING_STAGED_allreduce || !module->serves) { /* else counted with its reason */
        gpuring_pvar_add(GPURING_PVAR_fallbacks, 1);
    }
    if ((module->logged_staged & bit) != 0 || !gpuring_log_enabled(GPURING_LOG_INFO)) {
        return;
    }
    module->logged_staged |= bit;
    gpuring_stage_name(what, name, sizeof name);
    gpuring_module_text(module, text, sizeof text);
    gpuring_info("%s: %s on GPU memory is staged through host memory: %s", text, name,
                 what == GPURING_STAGED_allreduce && module->serves
                     ? "this call does not run on the GPU"
                     : "the collective does not run on the GPU");
}

static int lay_out(struct gpuring_stage_buffer *buffer)
{
    int status = GPURING_OK;

    if (buffer->on_gpu) {
        status = gpuring_runs_build(&buffer->in_runs, &buffer->in);
        if (status == GPURING_OK) {
            status = gpuring_runs_build(&buffer->out_runs, &buffer->out);
        }
    }
    return status;
}

static void keep_first(int *failed, int status)
{
    *failed = *failed == GPURING_OK ? status : *failed;
}

/* The buffer's place. Without memory it is one that keeps no data (stage->lacking); an error only
 * without even that. */
static int reserve_buffer(struct gpuring_stage *stage, struct gpuring_stage_buffer *buffer)
{
    struct gpuring_span out, all;
    size_t shift;

    if (!buffer->on_gpu) {
        return GPURING_OK;
    }
    out = gpuring_part_span(&buffer->out);
    all = gpuring_span_join(gpuring_part_span(&buffer->in), out);
    shift = (uintptr_t) moved(buffer->user, all.low) % ALIGNMENT;
    buffer->block =
        gpuring_stage_block_get((size_t) (all.high - all.low) + shift, all.bytes, out.bytes > 0);
    if (buffer->block == NULL) {
        return GPURING_ERR_NOMEM;
    }
    if (buffer->block->kind == GPURING_BLOCK_SINK) {
        keep_first(&stage->lacking, GPURING_ERR_NOMEM);
    }
    buffer->place = moved(buffer->block->address, (ptrdiff_t) shift - all.low);
    return GPURING_OK;
}

/* Any byte of the call that is on a GPU: it tells which GPU to work with. */
static const void *gpu_address(const struct gpuring_stage *stage)
{
    const struct gpuring_stage_buffer *buffer = stage->send.on_gpu ? &stage->send : &stage->receive;
    const struct gpuring_runs *runs =
        buffer->in_runs.count > 0 ? &buffer->in_runs : &buffer->out_runs;
    const void *address = moved(buffer->user, gpuring_runs_at(runs, 0)->offset);

    for (size_t i = 1; i < runs->count && buffer->user == MPI_BOTTOM && !on_gpu(address); i++) {
        address = moved(buffer->user, gpuring_runs_at(runs, i)->offset);
    }
    return address;
}

void gpuring_stage_attach(struct gpuring_stage *stage)
{
    stage->failed = stage->lacking;
    if (stage->failed == GPURING_OK && gpuring_stage_uses_gpu(stage)) {
        stage->failed = gpuring_process_attach(gpu_address(stage));
    }
}

int gpuring_stage_reserve(struct gpuring_stage *stage)
{
    int status;

    gpuring_stage_prepare();
    stage->lacking = lay_out(&stage->send);
    if (stage->lacking == GPURING_OK) {
        stage->lacking = lay_out(&stage->receive);
    }
    gpuring_stage_attach(stage);
    status = reserve_buffer(stage, &stage->send);
    if (status == GPURING_OK) {
        status = reserve_buffer(stage, &stage->receive);
    }
    keep_first(&stage->failed, stage->lacking); /* of memory for the places */
    return status;
}

int gpuring_stage_start_in(struct gpuring_stage *stage)
{
    struct gpuring_stage_buffer *const buffers[] = {&stage->send, &stage->receive};
    int status = stage->stream == NULL ? gpuring_stage_stream_get(&stage->stream) : GPURING_OK;

    for (int i = 0; i < 2 && status == GPURING_OK; i++) {
        if (buffers[i]->on_gpu) {
            status = gpuring_stage_copy_start(stage->stream, (char *) (uintptr_t) buffers[i]->place,
                                              buffers[i]->user, &buffers[i]->in_runs);
        }
    }
    return status;
}

int gpuring_stage_start_out(struct gpuring_stage *stage)
{
    struct gpuring_stage_buffer *buffer = &stage->receive;

    return buffer->on_gpu
               ? gpuring_stage_copy_start(stage->stream, (char *) (uintptr_t) buffer->user,
                                          buffer->place, &buffer->out_runs)
               : GPURING_OK;
}

int gpuring_stage_wait(struct gpuring_stage *stage)
{
    return gpuring_process.device_ops->synchronize(stage->stream);
}

int gpuring_stage_poll(struct gpuring_stage *stage)
{
    return stage->stream != NULL ? gpuring_process.device_ops->copied(stage->stream) : GPURING_OK;
}

void gpuring_stage_rest(struct gpuring_stage *stage)
{
    gpuring_stage_stream_put(stage->stream);
    stage->stream = NULL;
}

static void release_buffer(struct gpuring_stage_buffer *buffer)
{
    gpuring_runs_free(&buffer->in_runs);
    gpuring_runs_free(&buffer->out_runs);
    gpuring_stage_block_put(buffer->block);
    buffer->block = NULL;
    buffer->place = buffer->user;
}

void gpuring_stage_release(struct gpuring_stage *stage)
{
    gpuring_stage_rest(stage);
    release_buffer(&stage->send);
    release_buffer(&stage->receive);
    gpuring_stage_request_drop(stage);
    gpuring_notices_drop(stage);
}

static int copy_once(struct gpuring_stage *stage, int (*start)(struct gpuring_stage *stage))
{
    int status = start(stage);

    if (stage->stream != NULL) {
        int waited = gpuring_stage_wait(stage);

        status = status == GPURING_OK ? waited : status;
    }
    return status;
}

static int copy_all(struct gpuring_stage *stage, int (*start)(struct gpuring_stage *stage))
{
    int status = copy_once(stage, start);

    return status == GPURING_OK ? status : copy_once(stage, start);
}

static void void_input(const struct gpuring_stage_buffer *buffer)
{
    if (!buffer->on_gpu || buffer->block == NULL) {
        return;
    }
    if (buffer->block->kind == GPURING_BLOCK_SINK) {
        gpuring_stage_sink_fill(buffer->block, VOID_BYTE);
    } else {
        gpuring_part_fill(&buffer->in, (char *) (uintptr_t) buffer->place, VOID_BYTE);
    }
}

static bool gives(const struct gpuring_stage_buffer *buffer)
{
    ptrdiff_t offset;

    return buffer->on_gpu && gpuring_part_touches(&buffer->in, &offset);
}

int gpuring_stage_fetch(struct gpuring_stage *stage)
{
    if (!gpuring_stage_uses_gpu(stage)) {
        return GPURING_OK;
    }
    if (stage->failed == GPURING_OK) {
        stage->failed = copy_all(stage, gpuring_stage_start_in);
    }
    if (stage->failed != GPURING_OK) {
        void_input(&stage->send);
        void_input(&stage->receive);
        gpuring_notice_give(stage, stage->failed,
                            gives(&stage->send) || gives(&stage->receive) ? GPURING_NOTICE_VOID
                                                                          : GPURING_NOTICE_LOST);
    }
    return stage->failed;
}

int gpuring_stage_deliver(struct gpuring_stage *stage)
{
    int status = copy_all(stage, gpuring_stage_start_out);

    if (status != GPURING_OK) {
        gpuring_notice_give(stage, status, GPURING_NOTICE_LOST);
    }
    return status;
}

void gpuring_stage_finish(void)
{
    gpuring_stage_streams_close();
    gpuring_stage_memory_close();
}
