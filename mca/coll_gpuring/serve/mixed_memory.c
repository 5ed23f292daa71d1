/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Detect calls in which some ranks pass GPU buffers and others pass host buffers, although the
 * ranks neither vote nor agree on such calls (agree/agree.h). Ranks with GPU buffers would wait in
 * kernels for ranks that wait in another component. Therefore each rank counts its calls on a
 * communicator, and publishes on its status page where the buffers of its last calls were. A rank
 * that waits reads these pages. If another rank has used host buffers in the same call, the call
 * fails with GPURING_ERR_MIXED. The failing rank still takes part in the other component's call,
 * which ends the wait of the other ranks. Between nodes, the wait is reported like any other wait
 * (watchdog.c).
 */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/util/status.h"

void gpuring_mixed_memory_note(mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                               struct gpuring_pending *pending)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);
    struct gpuring_serve *serve = module->serve;

    pending->number = module->calls;
    if (reason == GPURING_REASON_NONE) {
        serve->on_gpu = pending->number;
    }
    if (engine == NULL) {
        return; /* there is no status page yet; its first entry will be the last call on a GPU */
    }
    if (reason == GPURING_REASON_NONE || reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transports[0], serve->on_gpu, true);
    }
    if (reason == GPURING_REASON_MEMORY) {
        gpuring_transport_note_call(engine->transports[0], pending->number, false);
    }
}

int gpuring_mixed_memory_look(const mca_coll_gpuring_module_t *module)
{
    uint64_t number = module->serve->running;
    char text[256];
    int rank = number > 0 ? gpuring_transport_on_hosts(module->engine->transports[0], number) : -1;

    if (rank < 0) {
        return GPURING_OK;
    }
    gpuring_module_text(module, text, sizeof text);
    gpuring_compat_help("mixed memory", text, module->rank, rank);
    return GPURING_ERR_MIXED;
}
