/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <stdlib.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Called by MPI, in any thread. Returns 0, because the request continues to exist. */
static int count_completion(struct ompi_request_t *request)
{
    __atomic_fetch_add((uint64_t *) request->req_complete_cb_data, 1, __ATOMIC_RELAXED);
    return 0;
}

static int message_start(struct ompi_communicator_t *comm, int tag, struct gpuring_message *message)
{
    int code = message->sent
                   ? MCA_PML_CALL(isend(message->data, message->bytes, MPI_BYTE, message->peer, tag,
                                        message->synchronous ? MCA_PML_BASE_SEND_SYNCHRONOUS
                                                             : MCA_PML_BASE_SEND_STANDARD,
                                        comm, &message->request))
                   : MCA_PML_CALL(irecv(message->data, message->bytes, MPI_BYTE, message->peer, tag,
                                        comm, &message->request));

    message->comm = comm;
    if (code != OMPI_SUCCESS) {
        gpuring_error("MPI could not start a message %s rank %d (code %d)",
                      message->sent ? "to" : "from", message->peer, code);
        return GPURING_ERR_NET;
    }
    if (message->completed != NULL && !REQUEST_COMPLETE(message->request)) {
        (void) ompi_request_set_callback(message->request, count_completion, message->completed);
    } else if (message->completed != NULL && !message->sent) {
        __atomic_fetch_add(message->completed, 1, __ATOMIC_RELAXED);
    }
    return GPURING_OK;
}

static bool message_cancel(struct gpuring_message *message)
{
    if (message->request == NULL) {
        return true;
    }
    if (!REQUEST_COMPLETE(message->request)) {
        ompi_request_cancel(message->request);
    }
    if (!REQUEST_COMPLETE(message->request)) {
        return false;
    }
    ompi_request_free(&message->request);
    message->request = NULL;
    message->withdrawn = false;
    return true;
}

static int message_finish(struct gpuring_message *message)
{
    struct ompi_request_t *request = message->request;
    int code;

    if (!gpuring_request_done(request)) {
        /* With fault tolerance, a request of a process that has died does not complete. */
        return gpuring_compat_lost(message->comm, message->peer) == MPI_SUCCESS ? GPURING_AGAIN
                                                                                : GPURING_ERR_NET;
    }
    if (message->withdrawn && request->req_status._cancelled != 0) {
        (void) message_cancel(message);
        return GPURING_AGAIN;
    }
    message->withdrawn = false;
    code = request->req_status.MPI_ERROR;
    if (!message->sent) {
        message->bytes = code == MPI_ERR_TRUNCATE ? SIZE_MAX : request->req_status._ucount;
    }
    ompi_request_free(&message->request);
    message->request = NULL;
    if (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE) {
        gpuring_error("MPI could not deliver an out-of-band message (code %d)", code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* The PMLs ob1 and ucx cancel a receive immediately or never, the MTL ofi later. */
static bool message_withdraw(struct gpuring_message *message)
{
    if (!REQUEST_COMPLETE(message->request) && !message->withdrawn) {
        message->withdrawn = true;
        ompi_request_cancel(message->request);
    }
    return REQUEST_COMPLETE(message->request) && message->request->req_status._cancelled != 0 &&
           message_cancel(message);
}

static void message_progress(void)
{
    opal_progress();
}

const struct gpuring_message_ops gpuring_message_mpi = {
    .start = message_start,
    .finish = message_finish,
    .cancel = message_cancel,
    .withdraw = message_withdraw,
    .progress = message_progress,
    .lowest_tag = gpuring_compat_lowest_tag,
};

struct gpuring_oob *gpuring_oob_create(struct ompi_communicator_t *comm)
{
    struct gpuring_oob *oob = calloc(1, sizeof *oob);

    if (oob != NULL) {
        *oob = (struct gpuring_oob){.ops = &gpuring_message_mpi,
                                    .comm = comm,
                                    .rank = ompi_comm_rank(comm),
                                    .nranks = ompi_comm_size(comm)};
    }
    return oob;
}
