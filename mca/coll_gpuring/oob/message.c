/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/message.h"

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static int started(int code, const char *what, int peer)
{
    if (code != OMPI_SUCCESS) {
        gpuring_error("MPI could not start a message %s rank %d (code %d)", what, peer, code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

int gpuring_message_send(struct ompi_communicator_t *comm, const void *data, size_t bytes, int to,
                         int tag, ompi_request_t **request)
{
    int code = MCA_PML_CALL(isend((void *) (uintptr_t) data, bytes, MPI_BYTE, to, tag,
                                  MCA_PML_BASE_SEND_STANDARD, comm, request));

    return started(code, "to", to);
}

int gpuring_message_receive(struct ompi_communicator_t *comm, void *data, size_t bytes, int from,
                            int tag, ompi_request_t **request)
{
    int code = MCA_PML_CALL(irecv(data, bytes, MPI_BYTE, from, tag, comm, request));

    return started(code, "from", from);
}

int gpuring_message_finish(ompi_request_t **request, size_t *bytes)
{
    int code;

    if (*request == NULL) {
        return GPURING_OK;
    }
    if (!REQUEST_COMPLETE(*request)) {
        return GPURING_AGAIN;
    }
    opal_atomic_rmb();
    code = (*request)->req_status.MPI_ERROR;
    if (bytes != NULL) {
        *bytes = (*request)->req_status._ucount;
    }
    ompi_request_free(request);
    *request = NULL;
    if (code != MPI_SUCCESS) {
        gpuring_error("MPI could not deliver a message of the wire-up (code %d)", code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

bool gpuring_message_drop(ompi_request_t **request)
{
    if (*request == NULL) {
        return true;
    }
    if (!REQUEST_COMPLETE(*request)) {
        return false;
    }
    ompi_request_free(request);
    *request = NULL;
    return true;
}

bool gpuring_message_cancel(ompi_request_t **request)
{
    if (*request != NULL && !REQUEST_COMPLETE(*request)) {
        ompi_request_cancel(*request);
    }
    return gpuring_message_drop(request);
}
