/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/request.h"

#include <string.h>

int gpuring_request_free(ompi_request_t **request)
{
    ompi_request_t *self = *request;

    if (!REQUEST_COMPLETE(self)) {
        return MPI_ERR_REQUEST; /* MPI does not allow freeing active requests of collectives */
    }
    if (self->req_persistent) {
        OBJ_RELEASE(self->req_mpi_object.comm);
    }
    OMPI_REQUEST_FINI(self);
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
