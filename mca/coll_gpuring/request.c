/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/request.h"

#include "mca/coll_gpuring/serve/persistent_order.h"

#include <string.h>

struct gpuring_request {
    struct gpuring_collective_request super;
    struct gpuring_item item;
};
typedef struct gpuring_request gpuring_request_t;
static OBJ_CLASS_INSTANCE(gpuring_request_t, ompi_request_t, NULL, NULL);

int gpuring_request_free(ompi_request_t **request)
{
    ompi_request_t *self = *request;

    if (!REQUEST_COMPLETE(self)) {
        return MPI_ERR_REQUEST; /* MPI allows no freeing of active collective requests */
    }
    if (self->req_persistent) {
        OBJ_RELEASE(self->req_mpi_object.comm);
    }
    OMPI_REQUEST_FINI(self);
    OBJ_RELEASE(self);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/* Of served calls. */
static int request_free(ompi_request_t **request)
{
    gpuring_request_t *self = (gpuring_request_t *) *request;

    if ((*request)->req_persistent && REQUEST_COMPLETE(*request)) {
        gpuring_persistent_free(&self->item.module->queue);
    }
    return gpuring_request_free(request);
}

static int request_cancel(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST; /* collectives cannot be cancelled */
}

void gpuring_request_construct(struct gpuring_collective_request *self,
                               struct ompi_communicator_t *comm, bool persistent,
                               ompi_request_free_fn_t free_request, ompi_request_start_fn_t start)
{
    ompi_request_t *request = &self->super;

    memset(self->for_open_mpi, 0, sizeof self->for_open_mpi);
    OMPI_REQUEST_INIT(request, persistent);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_mpi_object.comm = comm;
    request->req_free = free_request;
    request->req_cancel = request_cancel;
    request->req_start = start;
    request->req_f_to_c_index = MPI_UNDEFINED;
    if (persistent) {
        OBJ_RETAIN(comm); /* the request may outlive MPI_Comm_free */
    }
}

void gpuring_request_activate(ompi_request_t *request)
{
    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status = (ompi_status_public_t){
        .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS};
}

bool gpuring_request_active(ompi_request_t *request)
{
    return request->req_state == OMPI_REQUEST_ACTIVE && !REQUEST_COMPLETE(request);
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

void gpuring_request_reserve(mca_coll_gpuring_module_t *module)
{
    if (module->spare == NULL) {
        module->spare = (ompi_request_t *) OBJ_NEW(gpuring_request_t);
    }
}

static gpuring_request_t *request_new(mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call, bool persistent)
{
    gpuring_request_t *self = OBJ_NEW(gpuring_request_t);

    if (self == NULL) {
        self = (gpuring_request_t *) module->spare;
        module->spare = NULL;
    } else {
        gpuring_request_reserve(module);
    }
    if (self == NULL) {
        return NULL;
    }
    gpuring_request_construct(&self->super, module->comm, persistent, request_free,
                              request_restart);
    self->item = (struct gpuring_item){.call = *call, .module = module};
    return self;
}

/* Without a request: the simple path serves where other ranks' requests take it, too. */
static int run_now(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                   ompi_request_t **request)
{
    struct gpuring_item item = {.call = *call};
    int status;

    gpuring_queue_push(module, &item);
    status = gpuring_queue_wait(module, &item);
    *request = &ompi_request_empty;
    return gpuring_compat_error(status);
}

int gpuring_request_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, false);

    if (self == NULL) {
        return run_now(module, call, request);
    }
    *request = &self->super.super;
    request_push(self);
    return OMPI_SUCCESS;
}

int gpuring_request_init(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         ompi_request_t **request)
{
    gpuring_request_t *self = request_new(module, call, true);
    uint32_t number = gpuring_persistent_make(&module->queue);

    if (self == NULL) {
        gpuring_persistent_free(&module->queue);
        return MPI_ERR_NO_MEM;
    }
    self->item.persistent = number;
    *request = &self->super.super;
    return OMPI_SUCCESS;
}
