/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "enqueued_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "enqueued_driver.h"
#include "harness.h"

void need(bool good, const char *what)
{
    driver_need(good, what);
}

void *new_stream(void)
{
    void *stream;

    need(driver.stream_create(&stream, 1, 0) == 0, "create a stream");
    return stream;
}

MPIX_Stream object_of(void *stream)
{
    MPIX_Stream object = MPIX_STREAM_NULL;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    need(MPIX_Stream_create(info, &object) == MPI_SUCCESS, "create a stream object");
    MPI_Info_free(&info);
    return object;
}

MPI_Comm comm_of(void *stream)
{
    MPIX_Stream object = object_of(stream), kept = MPIX_STREAM_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    int code = MPIX_Stream_comm_create(MPI_COMM_WORLD, object, &comm);

    harness_check(code == MPI_SUCCESS, "a communicator with a stream is created");
    need(code == MPI_SUCCESS, "go on without it");
    need(MPIX_Comm_get_stream(comm, 0, &kept) == MPI_SUCCESS && kept == object,
         "get the stream of the communicator");
    need(MPIX_Stream_free(&object) == MPI_SUCCESS && object == MPIX_STREAM_NULL,
         "free the stream object");
    return comm;
}

int error_of(MPI_Comm comm)
{
    int error = MPI_SUCCESS;

    for (int i = 0; i < 1000 && error == MPI_SUCCESS; i++) {
        usleep(i > 0 ? 10000 : 0);
        MPIX_Comm_get_stream_error(comm, &error);
        if (i % 20 == 19 && error == MPI_SUCCESS) { /* a call finds the error of another node */
            (void) MPIX_Barrier_enqueue(comm);
        }
    }
    return error;
}

int value_of(int rank, int to, size_t i)
{
    return 1 + rank * 31 + to * 7 + (int) (i % 1001);
}

const char *const names[CALLS] = {
    "Allreduce", "Bcast", "Reduce", "Allgather", "Reduce_scatter_block", "Alltoall"};

static int root_of(size_t count)
{
    return (int) (count % (size_t) harness_size);
}

/* Number of blocks of the input and of the result. */
static int blocks_in(enum call call)
{
    return call == REDUCE_SCATTER_BLOCK || call == ALLTOALL ? harness_size : 1;
}

static int blocks_out(enum call call)
{
    return call == ALLGATHER || call == ALLTOALL ? harness_size : 1;
}

int expected(enum call call, int root, int block, size_t i)
{
    int sum = 0;

    switch (call) {
    case BCAST:
        return value_of(root, 0, i);
    case ALLGATHER:
        return value_of(block, 0, i);
    case ALLTOALL:
        return value_of(block, harness_rank, i);
    default:
        for (int rank = 0; rank < harness_size; rank++) {
            sum += value_of(rank, call == REDUCE_SCATTER_BLOCK ? harness_rank : 0, i);
        }
        return call == REDUCE && harness_rank != root ? 0 : sum;
    }
}

/* Reduce and scatter blocks of the same size, with a count for each rank. */
static int reduce_scatter(const void *from, void *to, int count, MPI_Comm comm)
{
    int counts[64];

    for (int i = 0; i < harness_size; i++) {
        counts[i] = count;
    }
    return MPIX_Reduce_scatter_enqueue(from, to, counts, MPI_INT, MPI_SUM, comm);
}

static int enqueue(enum call call, const void *from, void *to, int count, int root, MPI_Comm comm)
{
    switch (call) {
    case ALLREDUCE:
        return MPIX_Allreduce_enqueue(from, to, count, MPI_INT, MPI_SUM, comm);
    case BCAST:
        return MPIX_Bcast_enqueue(to, count, MPI_INT, root, comm);
    case REDUCE:
        return MPIX_Reduce_enqueue(from, to, count, MPI_INT, MPI_SUM, root, comm);
    case ALLGATHER:
        return MPIX_Allgather_enqueue(from, count, MPI_INT, to, count, MPI_INT, comm);
    case REDUCE_SCATTER_BLOCK:
        return count % 2 == 0
                   ? MPIX_Reduce_scatter_block_enqueue(from, to, count, MPI_INT, MPI_SUM, comm)
                   : reduce_scatter(from, to, count, comm);
    default:
        return MPIX_Alltoall_enqueue(from, count, MPI_INT, to, count, MPI_INT, comm);
    }
}

struct data data;

void data_open(void)
{
    data.bytes = (size_t) MOST * (size_t) harness_size * sizeof(int);
    data.source = harness_alloc(data.bytes);
    data.in = harness_alloc(data.bytes);
    data.out = harness_alloc(data.bytes);
    data.result = harness_alloc(data.bytes);
    data.garbage = harness_alloc(data.bytes);
    data.host = malloc(data.bytes);
    need(data.host != NULL, "get memory");
    memset(data.host, 0x5a, data.bytes);
    harness_write(data.garbage, data.host, data.bytes);
}

void data_close(void)
{
    harness_free(data.source);
    harness_free(data.in);
    harness_free(data.out);
    harness_free(data.result);
    harness_free(data.garbage);
    free(data.host);
}

bool is_right(enum call call, int root, size_t count)
{
    harness_read(data.host, data.result, data.bytes);
    for (int block = 0; block < blocks_out(call); block++) {
        for (size_t i = 0; i < count; i++) {
            int right = expected(call, root, block, i);
            int got = data.host[(size_t) block * count + i];

            if (right != 0 && got != right) {
                printf("# rank %d: %s of %zu: block %d, element %zu: %d instead of %d\n",
                       harness_rank, names[call], count, block, i, got, right);
                return false;
            }
        }
    }
    return true;
}

bool runs(enum call call, size_t count, bool in_place, void *stream, MPI_Comm comm)
{
    int root = root_of(count), code;
    size_t in = (size_t) blocks_in(call) * count * sizeof(int);
    int *from = in_place || call == BCAST ? data.out : data.in;
    /* In place, only the root of a reduction has one buffer. */
    bool one = in_place && (call != REDUCE || harness_rank == root);

    if (in_place && call == REDUCE && harness_rank != root) {
        from = data.in;
    }
    if (in_place && call == ALLGATHER) {
        from += (size_t) harness_rank * count;
    }
    for (int block = 0; block < blocks_in(call); block++) {
        for (size_t i = 0; i < count; i++) {
            data.host[(size_t) block * count + i] = value_of(harness_rank, block, i);
        }
    }
    harness_write(data.source, data.host, in);
    driver.kernel(stream, data.in, data.garbage, data.bytes, 0);
    driver.kernel(stream, data.out, data.garbage, data.bytes, 0);
    driver.kernel(stream, from, data.source, in, 1 + harness_rank % 3);
    code = enqueue(call, one ? MPI_IN_PLACE : data.in, data.out, (int) count, root, comm);
    driver.kernel(stream, data.result, data.out, data.bytes, 0);
    driver.kernel(stream, data.in, data.garbage, data.bytes, 0);
    driver.kernel(stream, data.out, data.garbage, data.bytes, 0);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    return code == MPI_SUCCESS && is_right(call, root, count);
}
