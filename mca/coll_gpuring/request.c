/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/request.h"

struct gpuring_request {
    ompi_request_t super;
    struct gpuring_item item;
};
typedef struct gpuring_request gpuring_request_t;
static OBJ_CLASS_INSTANCE(gpuring_request_t, ompi_request_t, NULL, NULL);

static int request_free(ompi_request_t **request)
{
    gpuring_request_t *self = (gpuring_request_t *) *request;

    if (!REQUEST_COMPLETE(*request)) {
        return MPI_ERR_REQUEST; /* MPI allows no freeing of active collective requests */
    }
    if (self->super.req_persistent) {
        OBJ_RELEASE(self->super.req_mpi_object.comm);
    }
    OMPI_REQUEST_FINI(&self->super);
    OBJ_RELEASE(self);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST; /* collectives cannot be cancelled */
}

static void request_activate(gpuring_request_t *self)
{
    self->super.req_complete = REQUEST_PENDING;
    self->super.req_state = OMPI_REQUEST_ACTIVE;
    self->super.req_status = (ompi_status_public_t){
        .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS};
    self->item.request = &self->super;
    gpuring_queue_push(self->item.module, &self->item);
}

/* MPI_Start and MPI_Startall. */
static int request_restart(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++) {
        gpuring_request_t *self = (gpuring_request_t *) requests[i];

        if (self->super.req_state == OMPI_REQUEST_ACTIVE && !REQUEST_COMPLETE(&self->super)) {
            return MPI_ERR_REQUEST;
        }
        request_activate(self);
    }
    return OMPI_SUCCESS;
}

static gpuring_request_t *request_new(mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call, bool persistent)
{
    gpuring_request_t *self = OBJ_NEW(gpuring_request_t);

    if (self == NULL) {
        return NULL;
    }
    OMPI_REQUEST_INIT(&self->super, persistent);
    self->super.req_type = OMPI_REQUEST_COLL;
    self->super.req_mpi_object.comm = module->comm;
    self->super.req_free = request_free;
    self->super.req_cancel = request_cancel;
    self->super.req_start = request_restart;
    self->super.req_f_to_c_index = MPI_UNDEFINED;
    self->item = (struct gpuring_item){.call = *call, .module = module};
    return self;
}

int gpuring_request_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, false);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *request = &self->super;
    request_activate(self);
    return OMPI_SUCCESS;
}

int gpuring_request_init(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, true);

    if (self == NULL) {
        return MPI_ERR_NO_MEM;
    }
    OBJ_RETAIN(module->comm); /* the request may outlive MPI_Comm_free */
    *request = &self->super;
    return OMPI_SUCCESS;
}
