/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/pml.h"

#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/status.h"

mca_pml_base_module_t gpuring_p2p_previous;

int gpuring_p2p_previous_receive(void *buffer, size_t count, struct ompi_datatype_t *type,
                                 const struct gpuring_p2p_envelope *from, ompi_request_t **request)
{
    return from->matched != NULL
               ? gpuring_p2p_previous.pml_imrecv(buffer, count, type, from->matched, request)
               : gpuring_p2p_previous.pml_irecv(buffer, count, type, from->peer, from->tag,
                                                from->comm, request);
}

static int status_of(int code, ompi_request_t **request)
{
    if (code != MPI_SUCCESS) {
        *request = MPI_REQUEST_NULL;
    }
    return code == MPI_SUCCESS ? GPURING_OK : GPURING_ERR_IO;
}

int gpuring_p2p_world_isend(const void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request)
{
    return status_of(gpuring_p2p_previous.pml_isend(data, bytes, MPI_BYTE, peer, tag,
                                                    MCA_PML_BASE_SEND_STANDARD, MPI_COMM_WORLD,
                                                    request),
                     request);
}

int gpuring_p2p_world_irecv(void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request)
{
    return status_of(
        gpuring_p2p_previous.pml_irecv(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request),
        request);
}

void gpuring_status_copy(ompi_status_public_t *status, const ompi_status_public_t *found)
{
    if (status != MPI_STATUS_IGNORE) {
        int code = status->MPI_ERROR;

        *status = *found;
        status->MPI_ERROR = code;
    }
}

bool gpuring_p2p_ended(ompi_request_t **request)
{
    if (*request != MPI_REQUEST_NULL && gpuring_request_done(*request)) {
        ompi_request_free(request);
    }
    return *request == MPI_REQUEST_NULL;
}
