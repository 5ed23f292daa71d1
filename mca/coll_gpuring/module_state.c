/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/module_state.h"

#include <stdio.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_module_fail(mca_coll_gpuring_module_t *module, int status)
{
    bool ready = module->state == GPURING_STATE_READY;

    if (module->state == GPURING_STATE_FAILED) {
        return;
    }
    if (status == GPURING_ERR_ABORTED && gpuring_module_connected(module) != NULL) {
        int why = gpuring_engine_aborted(gpuring_module_connected(module));

        status = why != 0 ? why : status; /* the reason of the rank that aborted first */
    }
    module->state = GPURING_STATE_FAILED;
    module->failure = status;
    if (module->engine != NULL) {
        gpuring_engine_abort(module->engine, status);
    }
    if (ready) {
        gpuring_operation_fail(module->engine);
    }
}

const struct gpuring_engine *gpuring_module_connected(const mca_coll_gpuring_module_t *module)
{
    return module->engine != NULL ? module->engine : module->owner->engine;
}

void gpuring_module_text(const mca_coll_gpuring_module_t *module, char *text, size_t size)
{
    const char *name = module->comm->c_name;

    int track = module->oob != NULL ? module->oob->track : 0;
    int used = snprintf(text, size, "communicator %s%s%u%s, ", name, name[0] != '\0' ? " (" : "",
                        GPURING_COMM_ID(module->comm), name[0] != '\0' ? ")" : "");

    if (track > 0) {
        used += snprintf(text + used, size - (size_t) used, "persistent call %d, ", track);
    }
    snprintf(text + used, size - (size_t) used, "rank %d of %d", module->rank, module->nranks);
}

void gpuring_module_watch_free(mca_coll_gpuring_module_t *module)
{
    mca_coll_gpuring_module_t *owner = module->owner;

    if (!owner->watches) {
        owner->watches = true;
        gpuring_compat_on_free(owner->comm, owner);
    }
}
