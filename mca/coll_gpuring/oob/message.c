/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <stdlib.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/oob/oob.h"
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

static int message_send(struct ompi_communicator_t *comm, const void *data, size_t bytes, int to,
                        int tag, struct ompi_request_t **request)
{
    int code = MCA_PML_CALL(isend((void *) (uintptr_t) data, bytes, MPI_BYTE, to, tag,
                                  MCA_PML_BASE_SEND_STANDARD, comm, request));

    return started(code, "to", to);
}

static int message_receive(struct ompi_communicator_t *comm, void *data, size_t bytes, int from,
                           int tag, struct ompi_request_t **request)
{
    return started(MCA_PML_CALL(irecv(data, bytes, MPI_BYTE, from, tag, comm, request)), "from",
                   from);
}

static int message_finish(struct ompi_request_t **request, size_t *bytes)
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
        *bytes = code == MPI_ERR_TRUNCATE ? SIZE_MAX : (*request)->req_status._ucount;
    }
    ompi_request_free(request);
    *request = NULL;
    if (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE) {
        gpuring_error("MPI could not deliver an out-of-band message (code %d)", code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

static bool message_cancel(struct ompi_request_t **request)
{
    if (*request != NULL && !REQUEST_COMPLETE(*request)) {
        ompi_request_cancel(*request);
        if (!REQUEST_COMPLETE(*request)) {
            return false;
        }
    }
    if (*request != NULL) {
        ompi_request_free(request);
        *request = NULL;
    }
    return true;
}

struct gpuring_oob *gpuring_oob_create(struct ompi_communicator_t *comm)
{
    static const struct gpuring_message_ops ops = {message_send, message_receive, message_finish,
                                                   message_cancel};
    struct gpuring_oob *oob = calloc(1, sizeof *oob);

    if (oob != NULL) {
        *oob = (struct gpuring_oob){.ops = &ops,
                                    .comm = comm,
                                    .rank = ompi_comm_rank(comm),
                                    .nranks = ompi_comm_size(comm)};
    }
    return oob;
}
