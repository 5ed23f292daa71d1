/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "sums.h"

#include <stdlib.h>

static int start(enum form form, const void *send, void *receive, int count, MPI_Comm comm,
                 MPI_Request *request)
{
    switch (form) {
    case BLOCKING:
        return MPI_Allreduce(send, receive, count, MPI_INT, MPI_SUM, comm);
    case NONBLOCKING:
        return MPI_Iallreduce(send, receive, count, MPI_INT, MPI_SUM, comm, request);
    default:
        return HARNESS_INIT(Allreduce)(send, receive, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                       request);
    }
}

int sum_ints(enum form form, int times, const void *send, void *receive, int count, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int status = start(form, send, receive, count, comm, &request);

    for (int i = 0; i < times && status == MPI_SUCCESS; i++) {
        status = form == PERSISTENT ? MPI_Start(&request) : MPI_SUCCESS;
        status = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
    }
    return status;
}

int sum_start(struct sum *sum, enum form form)
{
    return start(form, sum->send, sum->receive, sum->count, sum->comm, &sum->request);
}

int sum_complete(struct sum *sum, enum form form, int times)
{
    return sum_ints(form, times, sum->send, sum->receive, sum->count, sum->comm);
}

static size_t bytes_of(const struct sum *sum)
{
    return (size_t) sum->count * sizeof(int);
}

void sum_write(struct sum *sum, int seed)
{
    int *data = malloc(bytes_of(sum) + 1), rank;

    sum->seed = seed;
    MPI_Comm_rank(sum->comm, &rank);
    for (int i = 0; i < sum->count; i++) {
        data[i] = -1;
    }
    harness_write(sum->receive, data, bytes_of(sum));
    for (int i = 0; i < sum->count; i++) {
        data[i] = 1000 * seed + 3 * i + rank;
    }
    harness_write(sum->send == MPI_IN_PLACE ? sum->receive : sum->send, data, bytes_of(sum));
    free(data);
}

struct sum sum_new(int count, int seed, bool in_place, MPI_Comm comm)
{
    struct sum sum = {.count = count, .comm = comm, .request = MPI_REQUEST_NULL};

    sum.send = in_place ? MPI_IN_PLACE : harness_alloc(bytes_of(&sum) + 1);
    sum.receive = harness_alloc(bytes_of(&sum) + 1);
    sum_write(&sum, seed);
    return sum;
}

void sum_free(struct sum *sum)
{
    if (sum->send != MPI_IN_PLACE) {
        harness_free(sum->send);
    }
    harness_free(sum->receive);
}

bool sum_right(const struct sum *sum)
{
    int *data = malloc(bytes_of(sum) + 1), size;
    bool right = true;

    MPI_Comm_size(sum->comm, &size);
    harness_read(data, sum->receive, bytes_of(sum));
    for (int i = 0; i < sum->count; i++) {
        right = right && data[i] == size * (1000 * sum->seed + 3 * i) + size * (size - 1) / 2;
    }
    free(data);
    return right;
}

bool sum_is_right(enum form form, int count, MPI_Comm comm)
{
    struct sum sum = sum_new(count, count % 1000, true, comm);
    bool right = sum_complete(&sum, form, 1) == MPI_SUCCESS && sum_right(&sum);

    sum_free(&sum);
    return right;
}
