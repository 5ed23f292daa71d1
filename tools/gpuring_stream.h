/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Collectives and messages in a CUDA stream, for programs with Open MPI and coll/gpuring. Link with
 * -lgpuring_stream. doc/user/streams.md has an example and the rules.
 *
 * The names, arguments and handles are those of MPICH 4. Functions that MPICH does not have are
 * marked. The functions of MPICH that are not declared here are not provided.
 *
 *     MPIX_Info_set_hex(info, "value", &stream, sizeof stream);    info: type = cudaStream_t
 *     MPIX_Stream_create(info, &mpi_stream);
 *     MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm);
 *     kernel<<<..., stream>>>(x);
 *     MPIX_Allreduce_enqueue(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, comm);
 *     kernel<<<..., stream>>>(x);
 *
 * All functions return MPI_SUCCESS or an MPI error code, after they have called the error handler
 * of the communicator, and print the cause and the remedy. Threads: as MPI's collectives, one at a
 * time for each communicator.
 */
#ifndef GPURING_STREAM_H
#define GPURING_STREAM_H

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef int MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream) 0x3c000000)

/* Set an info value to the bytes of a variable in hexadecimal digits. */
int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size);

/* Create an object for a CUDA stream. info: type = cudaStream_t, value = the handle of the stream
 * (MPIX_Info_set_hex). The stream belongs to the program, and must exist as long as communicators
 * use it. The object may be freed before these. */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream);
int MPIX_Stream_free(MPIX_Stream *stream);

/* Duplicate a communicator, and connect its ranks for calls in their streams. Collective. All ranks
 * must give a stream. MPI_Comm_free waits until the enqueued calls have ended. Between nodes
 * without verbs and UCX, MPI must have been initialised with MPI_THREAD_MULTIPLE. */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm);

/* Return the object of a communicator, or MPIX_STREAM_NULL if it has no stream. idx: 0. */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream);

/*
 * Enqueue a collective in the stream of the communicator. The calls do not wait. All ranks must
 * make the same calls on a communicator in the same order. Buffers are in memory of the stream's
 * GPU. Results are complete for later work in the stream.
 */
int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                           MPI_Op op, MPI_Comm comm);

/* The same for other collectives, which MPICH does not have. */
int MPIX_Bcast_enqueue(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Reduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                        MPI_Op op, int root, MPI_Comm comm);
int MPIX_Allgather_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf, int recvcount,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
/* All ranks must have the same count. Otherwise the call is refused. */
int MPIX_Reduce_scatter_enqueue(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Barrier_enqueue(MPI_Comm comm);

/*
 * Send and receive in the stream. The messages that a rank sends to another one must be received
 * there in the same order, with the same tags and numbers of bytes, and in the same order among the
 * collectives. Otherwise the calls end with an error. The source is a rank, and the tag may be
 * MPI_ANY_TAG. A status is set when the call returns.
 *
 * A message of Isend and Irecv is transferred in the next call on the communicator that waits
 * (Send, Recv, Wait, Waitall), at its place in the stream, together with all others. Requests must
 * be passed to Wait or Waitall below, which set them to MPI_REQUEST_NULL.
 */
int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                      MPI_Comm comm);
int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                      MPI_Comm comm, MPI_Status *status);
int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm, MPI_Request *request);
int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                       MPI_Comm comm, MPI_Request *request);
int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                         MPI_Status array_of_statuses[]);

/* Set *error to MPI_SUCCESS, or to the error because of which enqueued calls of this communicator
 * have ended early. Their results are undefined. Does not wait. MPICH does not have it. */
int MPIX_Comm_get_stream_error(MPI_Comm comm, int *error);

#if defined(__cplusplus)
}
#endif

#endif
