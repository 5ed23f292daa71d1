/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/request.h"

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/serve/persistent_order.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/log.h"

struct gpuring_request {
    struct gpuring_collective_request super;
    struct gpuring_item item;
};
typedef struct gpuring_request gpuring_request_t;
static OBJ_CLASS_INSTANCE(gpuring_request_t, ompi_request_t, NULL, NULL);

static int request_free(ompi_request_t **request)
{
    gpuring_request_t *self = (gpuring_request_t *) *request;

    if ((*request)->req_persistent && REQUEST_COMPLETE(*request)) {
        gpuring_persistent_free(&self->item.module->serve->queue);
    }
    return gpuring_request_free(request);
}

static void request_push(gpuring_request_t *self)
{
    gpuring_request_activate(&self->super.super);
    self->item.request = &self->super.super;
    gpuring_queue_push(self->item.module, &self->item);
}

/* MPI_Start and MPI_Startall. */
static int request_restart(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        gpuring_request_t *self = (gpuring_request_t *) requests[i];

        if (gpuring_request_active(&self->super.super)) {
            return MPI_ERR_REQUEST;
        }
        request_push(self);
    }
    return OMPI_SUCCESS;
}

/* NULL: no memory. */
static gpuring_request_t *request_new(mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call, bool persistent)
{
    gpuring_request_t *self = OBJ_NEW(gpuring_request_t);

    if (self == NULL) {
        gpuring_error("[no-request] out of memory for a request: MPI_%s returns an MPI error, and "
                      "other ranks that make this call wait for this one (coll_gpuring_timeout "
                      "bounds that)",
                      persistent ? "Allreduce_init" : "Iallreduce");
        return NULL;
    }
    gpuring_request_construct(&self->super, module->comm, persistent, request_free,
                              request_restart);
    self->item = (struct gpuring_item){.call = *call, .module = module};
    return self;
}

int gpuring_serve_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                        ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, false);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *request = &self->super.super;
    request_push(self);
    return OMPI_SUCCESS;
}

int gpuring_serve_init(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, true);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    self->item.persistent = gpuring_persistent_make(&module->serve->queue);
    *request = &self->super.super;
    return OMPI_SUCCESS;
}
