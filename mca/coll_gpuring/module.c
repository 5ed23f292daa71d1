/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Modules: offered for a communicator, put into its table, taken out again. */
#include "mca/coll_gpuring/module.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/p2p/p2p.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

static void module_construct(mca_coll_gpuring_module_t *module)
{
    /* All behind the base's part begins as zero: no state, no functions, nothing of its own. */
    memset((char *) module + sizeof module->super, 0, sizeof *module - sizeof module->super);
    __atomic_fetch_add(&gpuring_process.modules, 1, __ATOMIC_RELAXED);
}

/* Local, bounded in time: other ranks may be gone. */
static void module_destruct(mca_coll_gpuring_module_t *module)
{
    __atomic_fetch_sub(&gpuring_process.modules, 1, __ATOMIC_RELAXED);
    gpuring_progress_forget(module->serve);
    gpuring_serve_close(module);
    gpuring_engine_destroy(module->second);
    gpuring_engine_destroy(module->engine);
    free(module->shapes);
#define GPURING_ACT(name)                                  \
    if (module->previous.name##_module != NULL) {          \
        GPURING_COLL_DROP(module->previous.name##_module); \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
}

OBJ_CLASS_INSTANCE(mca_coll_gpuring_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

/* Keep what we replace. A communicator may lack a function; then ours is not offered either. */
static void save_previous(mca_coll_gpuring_module_t *module, struct ompi_communicator_t *comm)
{
#define GPURING_ACT(name)                                                                  \
    if (comm->c_coll->coll_##name == NULL || comm->c_coll->coll_##name##_module == NULL) { \
        module->super.coll_##name = NULL;                                                  \
    }                                                                                      \
    if (module->super.coll_##name != NULL) {                                               \
        module->previous.name = comm->c_coll->coll_##name;                                 \
        module->previous.name##_module = comm->c_coll->coll_##name##_module;               \
        GPURING_COLL_KEEP(module->previous.name##_module);                                 \
    }
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
}

static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    save_previous(module, comm);
#define GPURING_ACT(name) GPURING_COLL_INSTALL(module, comm, name);
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    module->enabled = true;
    return OMPI_SUCCESS;
}

/* 4.1 and 5.0 call this once for each function that was ours. */
static int module_disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_gpuring_module_t *module = (mca_coll_gpuring_module_t *) base;

    if (module->enabled) {
        module->enabled = false;
        if (comm == MPI_COMM_WORLD) {
            gpuring_p2p_leave();
        }
#define GPURING_ACT(name) GPURING_COLL_UNINSTALL(module, comm, name);
        GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    }
    return OMPI_SUCCESS;
}

/* NULL: no memory. */
static mca_coll_gpuring_module_t *module_new(struct ompi_communicator_t *comm, bool serves)
{
    mca_coll_gpuring_module_t *module = OBJ_NEW(mca_coll_gpuring_module_t);

    if (module == NULL) {
        return NULL;
    }
    module->comm = comm;
    module->rank = ompi_comm_rank(comm);
    module->nranks = ompi_comm_size(comm);
    module->super.coll_module_enable = module_enable;
    module->super.coll_module_disable = module_disable;
    if (serves && gpuring_serve_open(module) != GPURING_OK) {
        OBJ_RELEASE(module);
        return NULL;
    }
    return module;
}

mca_coll_base_module_t *mca_coll_gpuring_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_gpuring_module_t *module;
    bool serves = !OMPI_COMM_IS_INTER(comm) && ompi_comm_size(comm) > 1;

    if (comm == MPI_COMM_WORLD) {
        gpuring_process.world_rank = ompi_comm_rank(comm);
    }
    if (gpuring_params.priority <= 0 || gpuring_process.device_ops == NULL) {
        return NULL;
    }
    serves = serves && gpuring_peers_alike(comm);
    if (!serves && gpuring_process.device_ops->kind == GPURING_DEVICE_HOST) {
        return NULL;
    }
    module = module_new(comm, serves);
    if (module == NULL) {
        gpuring_error("[no-module] out of memory for a communicator: this rank delegates its calls "
                      "to other components; other ranks wait for it in their first call until "
                      "coll_gpuring_timeout; give the process more memory");
        return NULL;
    }
    /* Before it is known which of them the communicator has. */
#define GPURING_ACT(name) module->super.coll_##name = mca_coll_gpuring_##name;
    GPURING_ALL_FUNCTIONS
#undef GPURING_ACT
    *priority = gpuring_params.priority;
    return &module->super;
}
