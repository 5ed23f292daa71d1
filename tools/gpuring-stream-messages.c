/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions of libgpuring_stream.so for messages. Isend and Irecv only record a message in a
 * list of the communicator. The next call that waits starts all of them together with its own, in
 * one exchange of the component, so that no message waits for another one.
 *
 * A request is a generalized request that is complete from the beginning, because the stream and
 * not the host waits for it. MPI_Request_get_status calls its query function, which finds the
 * message of a handle.
 */
#include "tools/gpuring-stream.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

FUNCTION(Send_enqueue);
FUNCTION(Recv_enqueue);
FUNCTION(Isend_enqueue);
FUNCTION(Irecv_enqueue);
FUNCTION(Wait_enqueue);
FUNCTION(Waitall_enqueue);

static _Thread_local struct gpuring_stream_request *queried; /* of the last query */

/* The message of a call with MPI_PROC_NULL, which needs no transfer. */
static const struct gpuring_stream_message nothing = {
    .peer = MPI_PROC_NULL, .tag = MPI_ANY_TAG, .type = MPI_BYTE};

/* Set a status. MPI_ANY_TAG stays, because the host does not learn the tag. */
static int set_status(const struct gpuring_stream_message *of, MPI_Status *status)
{
    int size = 0;

    PMPI_Type_size(of->type, &size);
    PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count) of->count * size);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = of->peer;
    status->MPI_TAG = of->tag;
    return MPI_SUCCESS;
}

static int request_query(void *state, MPI_Status *status)
{
    queried = state;
    return set_status(&queried->message, status);
}

/* Take a request out of the list of its communicator. */
static void unlink_request(struct gpuring_stream_request *taken)
{
    struct gpuring_stream_request **at = &taken->attached->first;

    while (*at != taken) {
        at = &(*at)->next;
    }
    *at = taken->next;
    taken->attached = NULL;
}

static int request_release(void *state)
{
    struct gpuring_stream_request *released = state;

    if (released->attached != NULL) {
        fprintf(stderr,
                "libgpuring_stream: [stream-request] a request of MPIX_Isend_enqueue or "
                "MPIX_Irecv_enqueue has ended without MPIX_Wait_enqueue, so its message is not "
                "transferred\n");
        unlink_request(released);
    }
    PMPI_Type_free(&released->message.type);
    free(released);
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void) state;
    (void) complete;
    return MPI_SUCCESS;
}

/* Return the class of the first argument that MPI does not allow, the error of a message that
 * cannot be enqueued, or MPI_SUCCESS. */
static int message_check(MPI_Comm comm, const struct gpuring_stream_attached *attached,
                         const char *function, const struct gpuring_stream_message *made)
{
    int size;

    PMPI_Comm_size(comm, &size);
    if ((ptrdiff_t) made->count < 0) {
        return MPI_ERR_COUNT;
    }
    if (made->type == MPI_DATATYPE_NULL) {
        return MPI_ERR_TYPE;
    }
    if (made->tag < 0 && (made->sends || made->tag != MPI_ANY_TAG)) {
        return MPI_ERR_TAG;
    }
    if (made->peer == MPI_PROC_NULL) {
        return MPI_SUCCESS;
    }
    if ((made->peer < 0 || made->peer >= size) && (made->sends || made->peer != MPI_ANY_SOURCE)) {
        return MPI_ERR_RANK;
    }
    return gpuring_stream_component()->check(attached->calls, function, made);
}

/* Enqueue all messages of a communicator that were not started, and `last` unless it is NULL. After
 * an error, none of them is transferred, and their requests keep the error. */
static int messages_start(struct gpuring_stream_attached *attached, const char *function,
                          const struct gpuring_stream_message *last)
{
    int count = last != NULL, code = MPI_ERR_NO_MEM;
    struct gpuring_stream_message *all;

    for (const struct gpuring_stream_request *r = attached->first; r != NULL; r = r->next) {
        count++;
    }
    all = malloc((size_t) count * sizeof *all);
    if (all != NULL) {
        count = 0;
        for (const struct gpuring_stream_request *r = attached->first; r != NULL; r = r->next) {
            all[count++] = r->message;
        }
        if (last != NULL) {
            all[count++] = *last;
        }
        code = gpuring_stream_component()->exchange(attached->calls, function, all, count);
    }
    while (attached->first != NULL) {
        attached->first->code = code;
        if (code != MPI_SUCCESS) {
            attached->first->comm = MPI_COMM_NULL;
        }
        unlink_request(attached->first);
    }
    free(all);
    return code;
}

/* Send or receive in the stream. */
static int transfer(MPI_Comm comm, const char *function, const struct gpuring_stream_message *made,
                    MPI_Status *status)
{
    struct gpuring_stream_attached *attached = gpuring_stream_attached(comm);
    bool null = made->peer == MPI_PROC_NULL;
    int code;

    if (attached == NULL) {
        return gpuring_stream_missing(comm, function);
    }
    code = message_check(comm, attached, function, made);
    if (code == MPI_SUCCESS && !null) {
        code = messages_start(attached, function, made);
    }
    if (code == MPI_SUCCESS && status != MPI_STATUS_IGNORE) {
        set_status(null ? &nothing : made, status);
    }
    return gpuring_stream_raise(comm, code);
}

/* Make a request. It has its own datatype, because the program may free its datatype at any time.
 */
static int make_request(struct gpuring_stream_attached *attached, MPI_Comm comm,
                        const struct gpuring_stream_message *made, MPI_Request *handle)
{
    struct gpuring_stream_request *new = malloc(sizeof *new), **end = &attached->first;
    bool null = made->peer == MPI_PROC_NULL;
    int code;

    if (new == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *new = (struct gpuring_stream_request){.comm = comm, .message = null ? nothing : *made};
    code = PMPI_Type_dup(null ? MPI_BYTE : made->type, &new->message.type);
    if (code != MPI_SUCCESS) {
        free(new);
        return code;
    }
    code = PMPI_Grequest_start(request_query, request_release, cancel, new, handle);
    if (code != MPI_SUCCESS) {
        request_release(new);
        return code;
    }
    if (!null) {
        new->attached = attached;
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = new;
    }
    return PMPI_Grequest_complete(*handle);
}

static int message_begin(MPI_Comm comm, const char *function,
                         const struct gpuring_stream_message *made, MPI_Request *handle)
{
    struct gpuring_stream_attached *attached = gpuring_stream_attached(comm);
    int code;

    if (attached == NULL) {
        return gpuring_stream_missing(comm, function);
    }
    code = message_check(comm, attached, function, made);
    if (code == MPI_SUCCESS) {
        code = make_request(attached, comm, made, handle);
    }
    return gpuring_stream_raise(comm, code);
}

/* Return the message of a request, or NULL if it belongs to other functions. */
static struct gpuring_stream_request *request_find(MPI_Request handle)
{
    MPI_Status status;
    int complete;

    queried = NULL;
    return PMPI_Request_get_status(handle, &complete, &status) == MPI_SUCCESS ? queried : NULL;
}

/* Start the messages of requests with all others of their communicators, and end the requests, also
 * after an error. Returns the error of the first one that has one. */
static int wait_all(int count, MPI_Request *handles, MPI_Status *statuses, const char *function)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int code = MPI_SUCCESS;

    for (int i = 0; i < count; i++) {
        if (handles[i] != MPI_REQUEST_NULL && request_find(handles[i]) == NULL) {
            return FAIL(ERRORS_WITHOUT_COMM, MPI_ERR_REQUEST,
                        "[stream-request] %s: this is no request of MPIX_Isend_enqueue or "
                        "MPIX_Irecv_enqueue",
                        function);
        }
    }
    for (int i = 0; i < count; i++) {
        const struct gpuring_stream_request *found =
            handles[i] != MPI_REQUEST_NULL ? request_find(handles[i]) : NULL;
        MPI_Comm own = found != NULL ? found->comm : MPI_COMM_NULL;

        if (found != NULL && found->attached != NULL) {
            (void) messages_start(found->attached, function, NULL);
        }
        if (found != NULL && found->code != MPI_SUCCESS) {
            comm = own != MPI_COMM_NULL ? own : comm;
            code = code == MPI_SUCCESS ? found->code : code;
        }
        PMPI_Wait(&handles[i], statuses != NULL ? &statuses[i] : MPI_STATUS_IGNORE);
    }
    return comm != MPI_COMM_NULL ? gpuring_stream_raise(comm, code) : code;
}

#define MESSAGE(sends_, buf, peer_)                                                     \
    &(struct gpuring_stream_message)                                                    \
    {                                                                                   \
        .sends = sends_, .peer = peer_, .tag = tag, .buffer = (void *) (uintptr_t) buf, \
        .count = (size_t) (ptrdiff_t) count, .type = datatype                           \
    }

int PMPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm)
{
    return transfer(comm, "MPIX_Send_enqueue", MESSAGE(true, buf, dest), MPI_STATUS_IGNORE);
}

int PMPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                       MPI_Comm comm, MPI_Status *status)
{
    return transfer(comm, "MPIX_Recv_enqueue", MESSAGE(false, buf, source), status);
}

int PMPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm, MPI_Request *request)
{
    return message_begin(comm, "MPIX_Isend_enqueue", MESSAGE(true, buf, dest), request);
}

int PMPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                        MPI_Comm comm, MPI_Request *request)
{
    return message_begin(comm, "MPIX_Irecv_enqueue", MESSAGE(false, buf, source), request);
}

int PMPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status)
{
    return wait_all(1, request, status == MPI_STATUS_IGNORE ? NULL : status, "MPIX_Wait_enqueue");
}

int PMPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                          MPI_Status array_of_statuses[])
{
    return wait_all(count, array_of_requests,
                    array_of_statuses == MPI_STATUSES_IGNORE ? NULL : array_of_statuses,
                    "MPIX_Waitall_enqueue");
}
