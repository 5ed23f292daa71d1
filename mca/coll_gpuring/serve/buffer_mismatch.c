/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/buffer_mismatch.h"

#include <stdio.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Calls are counted where their buffers decide who serves them. */
static bool counted(void)
{
    return gpuring_process.device_ops->kind != GPURING_DEVICE_HOST &&
           gpuring_params.agree != GPURING_PARAM_AGREE_ALWAYS;
}

void gpuring_buffer_mismatch_note(mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                                  struct gpuring_call *call)
{
    /* Partner: after_tried in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);
    uint64_t number = ++module->calls;

    if (!counted()) {
        call->number = 0;
        return;
    }
    call->number = number;
    if (reason == GPURING_REASON_NONE) {
        module->serve->on_gpu = number;
    }
    if (engine == NULL) {
        return; /* no status page yet: what is told first of all then is the last call on a GPU */
    }
    if (reason == GPURING_REASON_NONE || reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, module->serve->on_gpu, true);
    }
    if (reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, number, false);
    }
}

void gpuring_buffer_mismatch_skip(mca_coll_gpuring_module_t *module)
{
    module->calls++;
}

int gpuring_buffer_mismatch_look(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_item *next = module->serve->queue.head;
    uint64_t number = !module->serve->queue.telling ? module->engine->call
                      : next != NULL                ? next->call.number
                                                    : 0;
    char mine[16], theirs[16], text[256];
    int rank;

    rank = number > 0 ? gpuring_transport_on_hosts(module->engine->transport, number) : -1;
    if (rank < 0) {
        return GPURING_OK;
    }
    gpuring_module_text(module, text, sizeof text);
    snprintf(mine, sizeof mine, "%d", module->rank);
    snprintf(theirs, sizeof theirs, "%d", rank);
    gpuring_compat_help("mixed memory", text, mine, theirs);
    return GPURING_ERR_MIXED;
}
