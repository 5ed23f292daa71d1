/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdlib.h>

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

int gpuring_serve_open(mca_coll_gpuring_module_t *module)
{
    struct gpuring_serve *serve = calloc(1, sizeof *serve);

    if (serve == NULL) {
        return GPURING_ERR_NOMEM;
    }
    gpuring_queue_init(&serve->queue);
    gpuring_progress_init(serve);
    serve->module = module;
    module->serve = serve;
    module->oob = gpuring_oob_create(module->comm);
    module->wireup = gpuring_wireup_create();
    return module->oob != NULL && module->wireup != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
}

void gpuring_serve_close(mca_coll_gpuring_module_t *module)
{
    struct gpuring_serve *serve = module->serve;
    bool idle;

    if (serve == NULL) {
        return;
    }
    gpuring_task_stop(&serve->task); /* MPI_COMM_WORLD may end with calls in flight */
    idle = gpuring_serve_idle(module);
    gpuring_tracks_close(&serve->tracks);
    gpuring_queue_fini(&serve->queue);
    gpuring_wireup_close(module, idle);
    gpuring_oob_free(module->oob);
    free(serve);
    module->serve = NULL;
}

bool gpuring_serve_idle(const mca_coll_gpuring_module_t *module)
{
    return gpuring_queue_empty(&module->serve->queue) &&
           gpuring_tracks_idle(&module->serve->tracks);
}

void gpuring_serve_log_reason(mca_coll_gpuring_module_t *module, enum gpuring_reason reason)
{
    char text[256];

    module->logged_reasons |= UINT32_C(1) << reason;
    if (gpuring_log_enabled(GPURING_LOG_INFO)) {
        gpuring_module_text(module, text, sizeof text);
        gpuring_info("%s: calls are delegated to other components: %s", text,
                     gpuring_reason_text(reason));
    }
}

void gpuring_serve_order_lost(const mca_coll_gpuring_module_t *module, enum gpuring_reason reason,
                              const char *name)
{
    static uint32_t warned; /* bits of the reasons that were logged; atomic */
    uint32_t bit = UINT32_C(1) << reason;
    char text[256];

    if (gpuring_params.deterministic && module->rank == 0 && reason != GPURING_REASON_MEMORY &&
        reason != GPURING_REASON_NO_DRIVER &&
        (__atomic_fetch_or(&warned, bit, __ATOMIC_RELAXED) & bit) == 0) {
        gpuring_module_text(module, text, sizeof text);
        gpuring_warn("[order-lost] %s: %s is computed by another component in a different "
                     "order, although coll_gpuring_deterministic is set: %s",
                     text, name, gpuring_reason_text(reason));
    }
}

void gpuring_call_free(struct gpuring_call *call)
{
    gpuring_runs_free(&call->memory->in_runs);
    gpuring_runs_free(&call->memory->out_runs);
    free(call->memory);
    call->memory = NULL;
}
