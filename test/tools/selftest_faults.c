/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Library that is preloaded into gpuring-perf --selftest on host memory. It flips a bit in the
 * result of one MPI function on rank 1 of MPI_COMM_WORLD, or lets that function return an error.
 *
 *   GPURING_FAULT=FUNCTION:RANKS[:error]    in communicators with RANKS ranks
 *
 * FUNCTION is MPI_Waitall (messages), MPI_Allreduce, MPI_Bcast, MPI_Alltoall or MPI_Scan. Calls of
 * one element, and calls whose type is not that of the selftest's data, are not changed.
 *
 *   GPURING_FAULT=network
 *
 * flips a bit in slots that the net mpi sends, which have low tags.
 *
 *   GPURING_FAULT=sockets
 *
 * flips a bit in larger sends to sockets, which the net ucx makes if it uses TCP.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "ompi_config.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "mca/coll_gpuring/util/message.h"
#include "ompi/mca/pml/pml.h"

static void *received; /* buffer of the last MPI_Irecv */
static MPI_Comm received_on;

/* Return true if the result of this call must be made wrong. Set *error if the call must also
 * fail. */
static bool strikes(const char *function, MPI_Comm comm, bool *error)
{
    const char *fault = getenv("GPURING_FAULT");
    char name[32], how[16] = "";
    int ranks = 0, size = 0, rank = 0;

    if (fault == NULL || sscanf(fault, "%31[^:]:%d:%15s", name, &ranks, how) < 2 ||
        strcmp(name, function) != 0) {
        return false;
    }
    PMPI_Comm_size(comm, &size);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *error = strcmp(how, "error") == 0;
    return size == ranks && rank == 1;
}

static int after(const char *function, MPI_Comm comm, void *buffer, int status)
{
    bool error = false;

    if (status == MPI_SUCCESS && strikes(function, comm, &error)) {
        *(unsigned char *) buffer ^= 1;
        return error ? MPI_ERR_OTHER : MPI_SUCCESS;
    }
    return status;
}

static bool of_data(int count, MPI_Datatype type)
{
    return count > 1 && (type == MPI_UINT64_T || type == MPI_FLOAT);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    received = of_data(count, type) ? buffer : NULL;
    received_on = comm;
    return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int status = PMPI_Waitall(count, requests, statuses);

    return received != NULL ? after("MPI_Waitall", received_on, received, status) : status;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    int status = PMPI_Allreduce(send, recv, count, type, op, comm);

    return comm != MPI_COMM_WORLD && of_data(count, type)
               ? after("MPI_Allreduce", comm, recv, status)
               : status;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int status = PMPI_Bcast(buffer, count, type, root, comm);

    return of_data(count, type) ? after("MPI_Bcast", comm, buffer, status) : status;
}

int MPI_Alltoall(const void *send, int sends, MPI_Datatype send_type, void *recv, int recvs,
                 MPI_Datatype type, MPI_Comm comm)
{
    int status = PMPI_Alltoall(send, sends, send_type, recv, recvs, type, comm);

    return of_data(recvs, type) ? after("MPI_Alltoall", comm, recv, status) : status;
}

int MPI_Scan(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int status = PMPI_Scan(send, recv, count, type, op, comm);

    return of_data(count, type) ? after("MPI_Scan", comm, recv, status) : status;
}

#define SLOT_TAGS  100000 /* the net uses fewer here */
#define DATA_BYTES 1024   /* shorter messages may be those of the wire-up */

static mca_pml_base_module_isend_fn_t send_slot;

static int send_wrong_slot(const void *buffer, size_t count, struct ompi_datatype_t *type, int to,
                           int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm,
                           struct ompi_request_t **request)
{
    int number = tag + mca_pml.pml_max_tag; /* the first ones are those of out-of-band messages */

    if (number >= GPURING_OOB_TAGS && number < SLOT_TAGS && count >= DATA_BYTES) {
        ((unsigned char *) (uintptr_t) buffer)[count / 2] ^= 1;
    }
    return send_slot(buffer, count, type, to, tag, mode, comm, request);
}

static bool wrong_sockets;

/* Flip a bit in the middle of data for a socket. A second call restores it. */
static void flip(const void *data, size_t bytes)
{
    if (wrong_sockets && bytes >= DATA_BYTES) {
        ((unsigned char *) (uintptr_t) data)[bytes / 2] ^= 1;
    }
}

ssize_t send(int socket, const void *data, size_t bytes, int flags)
{
    ssize_t (*real)(int, const void *, size_t, int) = NULL;
    ssize_t sent;

    *(void **) &real = dlsym(RTLD_NEXT, "send");
    flip(data, bytes);
    sent = real(socket, data, bytes, flags);
    flip(data, bytes);
    return sent;
}

static void flip_parts(const struct msghdr *message)
{
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        flip(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
    }
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int) = NULL;
    ssize_t sent;

    *(void **) &real = dlsym(RTLD_NEXT, "sendmsg");
    flip_parts(message);
    sent = real(socket, message, flags);
    flip_parts(message);
    return sent;
}

int MPI_Init(int *argc, char ***argv)
{
    const char *fault = getenv("GPURING_FAULT");
    int status = PMPI_Init(argc, argv);

    wrong_sockets = fault != NULL && strcmp(fault, "sockets") == 0;

    if (status == MPI_SUCCESS && fault != NULL && strcmp(fault, "network") == 0) {
        send_slot = mca_pml.pml_isend;
        mca_pml.pml_isend = send_wrong_slot;
    }
    return status;
}
