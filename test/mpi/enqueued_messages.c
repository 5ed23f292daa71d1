/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "enqueued_messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "enqueued_data.h"
#include "enqueued_driver.h"
#include "harness.h"

static int next_of(int distance)
{
    return (harness_rank + distance + harness_size) % harness_size;
}

/* Return the part of a buffer for the message to or from a rank. */
static int *part_of(int *buffer, int rank)
{
    return buffer + (size_t) rank * MOST;
}

/* Let a kernel write the messages to all ranks, late and at a different time on each rank, and let
 * other kernels overwrite the memory for received messages. */
static void produce(void *stream)
{
    for (int rank = 0; rank < harness_size; rank++) {
        for (size_t i = 0; i < MOST; i++) {
            data.host[(size_t) rank * MOST + i] = value_of(harness_rank, rank, i);
        }
    }
    harness_write(data.source, data.host, data.bytes);
    driver.kernel(stream, data.in, data.garbage, data.bytes, 0);
    driver.kernel(stream, data.out, data.garbage, data.bytes, 0);
    driver.kernel(stream, data.in, data.source, data.bytes, 1 + harness_rank % 3);
}

/* Let kernels take the result and overwrite the buffers, and wait for the stream. */
static void consume(void *stream)
{
    driver.kernel(stream, data.result, data.out, data.bytes, 0);
    driver.kernel(stream, data.in, data.garbage, data.bytes, 0);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    harness_read(data.host, data.result, data.bytes);
}

/* Return true if the message from a rank is right, in the memory for `place`. */
static bool arrived(int rank, int place, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        int right = value_of(rank, harness_rank, i), got = part_of(data.host, place)[i];

        if (got != right) {
            printf("# rank %d: element %zu from rank %d is %d instead of %d\n", harness_rank, i,
                   rank, got, right);
            return false;
        }
    }
    return true;
}

/* Rank 0 sends to each rank, which answers. */
static void test_answers(void *stream, MPI_Comm comm)
{
    static const int counts[] = {0, 1, 33, 4097, MOST};
    bool good = true;
    int code = MPI_SUCCESS;

    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int first = harness_rank == 0 ? 1 : 0, end = harness_rank == 0 ? harness_size : 1;
        MPI_Status status = {.MPI_SOURCE = -1};
        int got = -1;

        produce(stream);
        for (int rank = first; rank < end; rank++) {
            int *sent = part_of(data.in, rank), *received = part_of(data.out, rank);

            code |= harness_rank == 0
                        ? MPIX_Send_enqueue(sent, counts[k], MPI_INT, rank, 3, comm)
                        : MPIX_Recv_enqueue(received, counts[k], MPI_INT, rank, 3, comm, &status);
            code |= harness_rank == 0 ? MPIX_Recv_enqueue(received, counts[k], MPI_INT, rank,
                                                          MPI_ANY_TAG, comm, MPI_STATUS_IGNORE)
                                      : MPIX_Send_enqueue(sent, counts[k], MPI_INT, rank, 4, comm);
        }
        consume(stream);
        for (int rank = first; rank < end; rank++) {
            good = good && arrived(rank, rank, 0, (size_t) counts[k]);
        }
        MPI_Get_count(&status, MPI_INT, &got);
        good = good && (harness_rank == 0 ||
                        (status.MPI_SOURCE == 0 && status.MPI_TAG == 3 && got == counts[k]));
    }
    harness_check(good && code == MPI_SUCCESS, "messages and answers between kernels");
}

/* All ranks exchange two messages with each other. The receives are in another order than the
 * sends. */
static void test_exchange(void *stream, MPI_Comm comm)
{
    MPI_Request requests[256];
    int count = 0, code = MPI_SUCCESS;
    MPI_Datatype half;
    bool good = true;

    MPI_Type_contiguous(MOST / 2, MPI_INT, &half);
    MPI_Type_commit(&half);
    produce(stream);
    for (int i = 1; i < harness_size; i++) {
        int *from = part_of(data.out, next_of(-i)), *to = part_of(data.in, next_of(i));

        code |=
            MPIX_Irecv_enqueue(from + MOST / 2, 1, half, next_of(-i), 9, comm, &requests[count++]);
        code |= MPIX_Isend_enqueue(to, MOST / 2, MPI_INT, next_of(i), 8, comm, &requests[count++]);
        code |= MPIX_Isend_enqueue(to + MOST / 2, 1, half, next_of(i), 9, comm, &requests[count++]);
        code |=
            MPIX_Irecv_enqueue(from, MOST / 2, MPI_INT, next_of(-i), 8, comm, &requests[count++]);
    }
    MPI_Type_free(&half); /* the requests still need it, also if its address is used again */
    MPI_Type_vector(2, 1, 2, MPI_INT, &half);
    code |= MPIX_Waitall_enqueue(count, requests, MPI_STATUSES_IGNORE);
    MPI_Type_free(&half);
    good = code == MPI_SUCCESS && (count == 0 || requests[0] == MPI_REQUEST_NULL);
    consume(stream);
    for (int i = 1; i < harness_size; i++) {
        good = good && arrived(next_of(i), next_of(i), 0, MOST);
    }
    harness_check(good, "all ranks exchange messages at the same time");
}

/* Each rank receives from the rank before it while it sends to the one after it. */
static int shift(MPI_Comm comm, int count, bool waits_for_each)
{
    MPI_Request receive, send;
    MPI_Status status = {.MPI_TAG = -1};
    int code = MPIX_Irecv_enqueue(part_of(data.out, next_of(-1)), count, MPI_INT, next_of(-1), 7,
                                  comm, &receive);

    if (!waits_for_each) {
        code |=
            MPIX_Send_enqueue(part_of(data.in, next_of(1)), count, MPI_INT, next_of(1), 7, comm);
        code |= MPIX_Wait_enqueue(&receive, &status);
        return status.MPI_SOURCE == next_of(-1) && status.MPI_TAG == 7 ? code : MPI_ERR_OTHER;
    }
    code |= MPIX_Isend_enqueue(part_of(data.in, next_of(1)), count, MPI_INT, next_of(1), 7, comm,
                               &send);
    code |= MPIX_Barrier_enqueue(comm); /* does not start them */
    code |= MPIX_Wait_enqueue(&send, MPI_STATUS_IGNORE);
    return code | MPIX_Wait_enqueue(&receive, MPI_STATUS_IGNORE);
}

static void test_shift(void *stream, MPI_Comm comm, int count)
{
    for (int way = 0; way < 2; way++) {
        int code;

        produce(stream);
        code = shift(comm, count, way == 1);
        consume(stream);
        harness_check(code == MPI_SUCCESS && arrived(next_of(-1), next_of(-1), 0, (size_t) count),
                      "a ring: %s", way == 1 ? "two requests" : "a request and a send");
    }
}

static void test_nothing(void *stream, MPI_Comm comm)
{
    MPI_Status status = {.MPI_SOURCE = 0};
    MPI_Request request;
    int code = MPIX_Send_enqueue(data.in, 1, MPI_INT, MPI_PROC_NULL, 0, comm), count = -1;

    code |= MPIX_Irecv_enqueue(data.in, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &request);
    code |= MPIX_Wait_enqueue(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    harness_check(code == MPI_SUCCESS && status.MPI_SOURCE == MPI_PROC_NULL && count == 0 &&
                      driver.stream_query(stream) == 0,
                  "MPI_PROC_NULL");
}

/* Run a graph in which each rank sends to the next one. The next run sends the received data. */
static void test_graph(void *stream, MPI_Comm comm)
{
    enum { COUNT = 5000, RUNS = 60 };
    int *to = part_of(data.in, next_of(1)), *from = part_of(data.out, next_of(-1)), code;
    size_t bytes = COUNT * sizeof(int);
    bool good = true;
    void *graph;

    driver.graph_begin(stream);
    code = shift(comm, COUNT, false);
    driver.kernel(stream, to, from, bytes, 0);
    graph = driver.graph_end();
    produce(stream);
    for (int run = 0; run < RUNS; run++) {
        driver.graph_launch(graph, stream);
    }
    code |= shift(comm, COUNT, true); /* not in the graph */
    consume(stream);
    for (size_t i = 0; i < COUNT; i++) {
        int origin = next_of(-(RUNS + 1) % harness_size), next = (origin + 1) % harness_size;

        good = good && part_of(data.host, next_of(-1))[i] == value_of(origin, next, i);
    }
    harness_check(good && code == MPI_SUCCESS, "messages in a graph that runs %d times", RUNS);
    driver.graph_free(graph);
}

void test_messages(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);

    test_answers(stream, comm);
    test_exchange(stream, comm);
    test_shift(stream, comm, MOST);
    test_nothing(stream, comm);
    test_graph(stream, comm);
    harness_check(runs(ALLTOALL, 4097, false, stream, comm), "a collective after messages");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

void test_few_messages(void)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);

    test_shift(stream, comm, 2000);
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}

/* Wait for `count` messages to the next rank together with as many from the previous one. */
static int exchange(MPI_Comm comm, int count, int receive_tag)
{
    MPI_Request requests[4];
    int code = MPI_SUCCESS;

    for (int i = 0; i < count; i++) {
        code |= MPIX_Isend_enqueue(data.in, 1, MPI_INT, next_of(1), 4, comm, &requests[2 * i]);
        code |= MPIX_Irecv_enqueue(data.out, 1, MPI_INT, next_of(-1), receive_tag, comm,
                                   &requests[2 * i + 1]);
    }
    return code != MPI_SUCCESS ? code
                               : MPIX_Waitall_enqueue(2 * count, requests, MPI_STATUSES_IGNORE);
}

/* A graph has no room for two messages to one rank, but for one. */
static void test_full_graph(void *stream)
{
    enum { ROOM = 64 };
    MPI_Comm comm = comm_of(stream);
    int code = MPI_SUCCESS, refused = MPI_SUCCESS, error = MPI_SUCCESS;

    driver.graph_begin(stream);
    for (int i = 0; i < ROOM; i++) {
        refused = i == ROOM - 1 ? exchange(comm, 2, 4) : refused;
        code |= exchange(comm, 1, 4);
    }
    driver.graph_free(driver.graph_end());
    code |= exchange(comm, 2, 4);
    need(driver.stream_sync(stream) == 0, "wait for the stream");
    MPIX_Comm_get_stream_error(comm, &error);
    harness_check(refused != MPI_SUCCESS && code == MPI_SUCCESS && error == MPI_SUCCESS,
                  "too many messages in graphs: the communicator still works");
    MPI_Comm_free(&comm);
}

/* An exchange that is refused ends its requests, and does not disturb later ones. */
static void test_refused_exchange(void *stream, MPI_Comm comm)
{
    enum { TOO_MANY = 70 };
    MPI_Request requests[TOO_MANY];
    MPI_Request pending;
    MPI_Comm doomed = comm_of(stream);
    int code = MPI_SUCCESS, refused, last;
    bool gone = true;

    for (int i = 0; i < TOO_MANY; i++) {
        code |= MPIX_Isend_enqueue(data.in, 1, MPI_INT, next_of(1), 0, comm, &requests[i]);
    }
    refused = MPIX_Waitall_enqueue(TOO_MANY - 1, requests, MPI_STATUSES_IGNORE);
    last = MPIX_Wait_enqueue(&requests[TOO_MANY - 1], MPI_STATUS_IGNORE);
    MPIX_Isend_enqueue(data.in, 1, MPI_INT, next_of(1), 0, doomed, &pending);
    MPI_Comm_free(&doomed);
    harness_check(MPIX_Wait_enqueue(&pending, MPI_STATUS_IGNORE) != MPI_SUCCESS,
                  "a message of a communicator that was freed ends with an error");
    for (int i = 0; i < TOO_MANY; i++) {
        gone = gone && requests[i] == MPI_REQUEST_NULL;
    }
    harness_check(code == MPI_SUCCESS && refused != MPI_SUCCESS && last == refused && gone,
                  "too many messages together: all requests end with an error");
    harness_check(exchange(comm, 2, MPI_ANY_TAG) != MPI_SUCCESS,
                  "an error: two messages with MPI_ANY_TAG from one rank together");
    test_full_graph(stream);
    test_shift(stream, comm, 100);
}

void test_message_errors(void *stream, MPI_Comm comm)
{
    int on_host[4] = {0}, other = next_of(1);
    MPI_Request request, both[2];
    MPI_Status status;

#define REFUSED(class, call, text)                           \
    do {                                                     \
        int got = (call);                                    \
                                                             \
        MPI_Error_class(got, &got);                          \
        harness_check(got == (class), "an error: %s", text); \
    } while (0)
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION, MPIX_Send_enqueue(on_host, 4, MPI_INT, other, 0, comm),
            "a message in host memory");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Recv_enqueue(data.in, 4, MPI_INT, MPI_ANY_SOURCE, 0, comm, &status),
            "MPI_ANY_SOURCE");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Irecv_enqueue(on_host, 4, MPI_INT, other, 0, comm, &request),
            "a receive in host memory, before it is waited for");
    REFUSED(MPI_ERR_UNSUPPORTED_OPERATION,
            MPIX_Send_enqueue(data.in, 4, MPI_INT, harness_rank, 0, comm), "a message to itself");
    REFUSED(MPI_ERR_RANK, MPIX_Send_enqueue(data.in, 4, MPI_INT, harness_size, 0, comm),
            "a wrong rank");
    REFUSED(MPI_ERR_TAG, MPIX_Isend_enqueue(data.in, 4, MPI_INT, other, -5, comm, &request),
            "a wrong tag");
    REFUSED(MPI_ERR_COMM, MPIX_Send_enqueue(data.in, 4, MPI_INT, other, 0, MPI_COMM_WORLD),
            "a message on a communicator without a stream");
    MPIX_Isend_enqueue(data.in, 4, MPI_INT, other, 0, comm, &both[0]);
    MPI_Irecv(on_host, 1, MPI_INT, other, 0, MPI_COMM_WORLD, &both[1]);
    REFUSED(MPI_ERR_REQUEST, MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE),
            "a request of MPI_Irecv");
    MPI_Cancel(&both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE); /* which is reported */
    test_refused_exchange(stream, comm);
}

/* The last rank sends a message. The first rank expects a different one, or expects it in a
 * different order, or the last rank sends none. message_any: it sends two, which are ordered by
 * their tags, and MPI_ANY_TAG needs those of their calls. No rank hangs, and each gets an error. */
void test_wrong_message(const char *how)
{
    void *stream = new_stream();
    MPI_Comm comm = comm_of(stream);
    int code = MPI_SUCCESS, error, last = harness_size - 1;
    bool ended;

    if (harness_rank == last && strcmp(how, "message_any") == 0) {
        MPI_Request sends[2];

        code = MPIX_Isend_enqueue(data.in, 1000, MPI_INT, 0, 6, comm, &sends[0]);
        code |= MPIX_Isend_enqueue(data.in, 1000, MPI_INT, 0, 5, comm, &sends[1]);
        code |= MPIX_Waitall_enqueue(2, sends, MPI_STATUSES_IGNORE);
    } else if (harness_rank == last && strcmp(how, "late_message") != 0) {
        code = MPIX_Send_enqueue(data.in, 1000, MPI_INT, 0, 5, comm);
    }
    if (strcmp(how, "message_order") == 0) {
        code |= MPIX_Barrier_enqueue(comm);
    }
    for (int i = 0; harness_rank == 0 && i < (strcmp(how, "message_any") == 0 ? 2 : 1); i++) {
        code |= MPIX_Recv_enqueue(data.out, strcmp(how, "message_count") == 0 ? 2000 : 1000,
                                  MPI_INT, last,
                                  strcmp(how, "message_any") == 0   ? MPI_ANY_TAG
                                  : strcmp(how, "message_tag") == 0 ? 6
                                                                    : 5,
                                  comm, MPI_STATUS_IGNORE);
    }
    ended = driver.stream_sync(stream) == 0;
    harness_check(code == MPI_SUCCESS && ended, "the streams of all ranks end: %s", how);
    error = error_of(comm);
    harness_check(error != MPI_SUCCESS, "all ranks get an error");
    MPI_Comm_free(&comm);
    driver.stream_destroy(stream);
}
