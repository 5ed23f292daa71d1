/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls to which some ranks give GPU buffers and others host buffers, without
 * coll_gpuring_agree=always: the former wait in kernels, the latter in another component, and no
 * message would ever come. So every rank counts its calls on a communicator and shows on its status
 * page where the buffers of the last ones were, and a rank that waits looks there. It then fails
 * with GPURING_ERR_MIXED, and takes part in the other component's call all the same, which ends the
 * wait of the others.
 *
 * Seen between ranks of one node. Elsewhere the wait is reported as any other (watchdog.c).
 */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdio.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_buffer_mismatch_note(mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                                  struct gpuring_call *call)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);
    struct gpuring_serve *serve = module->serve;

    call->number = gpuring_buffers_decide() ? module->calls : 0;
    if (call->number == 0) {
        return;
    }
    if (reason == GPURING_REASON_NONE) {
        serve->on_gpu = call->number;
    }
    if (engine == NULL) {
        return; /* no status page yet; its first entry will be the last call on a GPU */
    }
    if (reason == GPURING_REASON_NONE || reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, serve->on_gpu, true);
    }
    if (reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transport, call->number, false);
    }
}

int gpuring_buffer_mismatch_look(const mca_coll_gpuring_module_t *module)
{
    const struct gpuring_queue *queue = &module->serve->queue;
    const struct gpuring_item *next = gpuring_queue_next(queue);
    uint64_t number = !queue->gathering ? module->engine->call
                      : next != NULL    ? next->call.number
                                        : 0;
    char text[256];
    int rank = number > 0 ? gpuring_transport_on_hosts(module->engine->transport, number) : -1;

    if (rank < 0) {
        return GPURING_OK;
    }
    gpuring_module_text(module, text, sizeof text);
    gpuring_compat_help("mixed memory", text, module->rank, rank);
    return GPURING_ERR_MIXED;
}
