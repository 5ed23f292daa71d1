/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/serve.h"

#include "mca/coll_gpuring/request.h"
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

    if (REQUEST_COMPLETE(*request)) {
        gpuring_persistent_free(&self->item.module->serve->queue);
        gpuring_call_release(&self->item.call);
    }
    return gpuring_request_free(request);
}

/* May end in a user's callback, or free the communicator. */
static void request_complete(struct gpuring_item *item)
{
    gpuring_request_t *self = GPURING_LIST_ENTRY(item, gpuring_request_t, item);
    struct ompi_communicator_t *comm = item->module->comm;

    self->super.super.req_status.MPI_ERROR = gpuring_compat_error(item->status);
    ompi_request_complete(&self->super.super, true);
    OBJ_RELEASE(comm);
}

static void request_start(gpuring_request_t *self)
{
    OBJ_RETAIN(self->item.module->comm); /* until it is complete */
    gpuring_request_activate(&self->super.super);
    gpuring_progress_start(&self->item);
}

/* MPI_Start and MPI_Startall. */
static int request_restart(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        gpuring_request_t *self = (gpuring_request_t *) requests[i];

        if (gpuring_request_active(&self->super.super)) {
            return MPI_ERR_REQUEST;
        }
        request_start(self);
    }
    return OMPI_SUCCESS;
}

int gpuring_serve_persistent(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                             ompi_request_t **request)
{
    gpuring_request_t *self = OBJ_NEW(gpuring_request_t);

    if (self == NULL) {
        gpuring_error(
            "[no-request] out of memory for the request of a persistent %s, which returns "
            "an error; other ranks that start the call wait for this one "
            "(coll_gpuring_timeout bounds that). Give the process more memory",
            call->name);
        return MPI_ERR_NO_MEM;
    }
    gpuring_request_construct(&self->super, module->comm, true, request_free, request_restart);
    self->item = (struct gpuring_item){
        .module = module,
        .call = *call,
        .form = GPURING_FORM_STARTED,
        .complete = request_complete,
        .persistent = gpuring_persistent_make(&module->serve->queue),
    };
    *request = &self->super.super;
    return OMPI_SUCCESS;
}
