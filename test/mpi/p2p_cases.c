/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test properties of point-to-point calls on GPU memory beyond the bytes of one message (p2p.c):
 * order, several messages in flight, cancelling, requests that are used again, types and
 * communicators that are freed early, addresses in types, groups, threads, failing copies, and the
 * end of the process.
 *
 *   p2p_cases       all of these
 *   p2p_cases -t    threads
 *   p2p_cases -e    one rank, one fault in its copies: one call fails, the others do not
 *   p2p_cases -l    finish MPI with messages in flight
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define COUNT 1000
#define LARGE 100000 /* ints: such a send may return before its data is copied */

static int *gpu, *gpu_too, *host;
static MPI_Comm world;

static int next_rank(void)
{
    return (harness_rank + 1) % harness_size;
}

static int last_rank(void)
{
    return (harness_rank + harness_size - 1) % harness_size;
}

static int value(int rank, int i)
{
    return (rank + 1) * 1000000 + i;
}

static void fill(int *to, int n, int rank)
{
    int *from = malloc((size_t) n * sizeof *from);

    for (int i = 0; i < n; i++) {
        from[i] = value(rank, i);
    }
    harness_write(to, from, (size_t) n * sizeof *from);
    free(from);
}

static bool holds(const int *from, int n, int rank)
{
    int *to = malloc((size_t) n * sizeof *to), wrong = -1;

    harness_read(to, from, (size_t) n * sizeof *to);
    for (int i = n - 1; i >= 0; i--) {
        wrong = to[i] != value(rank, i) ? i : wrong;
    }
    if (wrong >= 0) {
        printf("# rank %d: element %d is %d\n", harness_rank, wrong, to[wrong]);
    }
    free(to);
    return wrong < 0;
}

/* Send large messages, shorter ones whose copies end earlier, and other messages after them. */
static void order(void)
{
    enum { SENDS = 5 };
    MPI_Request requests[2 * SENDS];
    int *receive[SENDS], sizes[SENDS] = {4 * LARGE, LARGE / 5, LARGE / 5, 3, LARGE};
    bool good = true;

    fill(gpu, 4 * LARGE, harness_rank);
    for (int i = 0; i < COUNT; i++) {
        host[i] = value(harness_rank, i);
    }
    for (int i = 0; i < SENDS; i++) {
        const int *from = sizes[i] == 3 ? host : gpu;

        MPI_Isend(from, sizes[i], MPI_INT, next_rank(), 5, world, &requests[i]);
    }
    for (int i = 0; i < SENDS; i++) {
        MPI_Status status;
        int count;

        receive[i] = harness_alloc(4 * LARGE * sizeof(int));
        MPI_Recv(receive[i], 4 * LARGE, MPI_INT, last_rank(), 5, world, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        good = good && count == sizes[i] && holds(receive[i], sizes[i], last_rank());
        harness_free(receive[i]);
    }
    MPI_Waitall(SENDS, requests, MPI_STATUSES_IGNORE);
    harness_check(good, "messages arrive in the order of their sends");
}

/* A persistent send of host memory starts after a large send of GPU memory. */
static void order_persistent(void)
{
    MPI_Request requests[2];
    int one = value(harness_rank, 0), got = 0;
    MPI_Status status;
    int count;
    bool good;

    fill(gpu, LARGE, harness_rank);
    MPI_Send_init(&one, 1, MPI_INT, next_rank(), 6, world, &requests[0]);
    MPI_Isend(gpu, LARGE, MPI_INT, next_rank(), 6, world, &requests[1]);
    MPI_Start(&requests[0]);
    MPI_Recv(gpu_too, LARGE, MPI_INT, last_rank(), 6, world, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    good = count == LARGE && holds(gpu_too, LARGE, last_rank());
    MPI_Recv(&got, 1, MPI_INT, last_rank(), 6, world, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    harness_check(good && got == value(last_rank(), 0), "and those of persistent requests, too");
}

static void persistent_again(void)
{
    MPI_Request requests[2];
    bool good = true;

    MPI_Send_init(gpu, COUNT, MPI_INT, next_rank(), 7, world, &requests[0]);
    MPI_Recv_init(gpu_too, COUNT, MPI_INT, last_rank(), 7, world, &requests[1]);
    for (int i = 0; i < 5; i++) {
        fill(gpu, COUNT, harness_rank + i);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        good = good && holds(gpu_too, COUNT, last_rank() + i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    harness_check(good, "persistent requests start again with other data");
}

static void cancelled(void)
{
    MPI_Request request, persistent;
    MPI_Status status;
    int flag = 0, flag_too = 0;

    fill(gpu, COUNT, 50);
    MPI_Irecv(gpu, COUNT, MPI_INT, last_rank(), 8, world, &request);
    MPI_Recv_init(gpu, COUNT, MPI_INT, MPI_ANY_SOURCE, 8, world, &persistent);
    MPI_Start(&persistent);
    MPI_Cancel(&persistent);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    MPI_Wait(&persistent, &status);
    MPI_Test_cancelled(&status, &flag_too);
    MPI_Request_free(&persistent);
    harness_check(flag && flag_too && holds(gpu, COUNT, 50), "receives are cancelled");
}

/* The program frees types and communicators while messages are in flight. */
static void freed_early(void)
{
    MPI_Datatype pairs;
    MPI_Request send, receive;
    MPI_Comm comm;
    int flag = 0;

    MPI_Comm_dup(world, &comm);
    MPI_Type_vector(LARGE / 4, 2, 4, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    fill(gpu, LARGE, harness_rank);
    fill(gpu_too, LARGE, last_rank());
    MPI_Irecv(gpu_too, 1, pairs, last_rank(), 9, comm, &receive);
    MPI_Isend(gpu, 1, pairs, next_rank(), 9, comm, &send);
    MPI_Type_free(&pairs);
    MPI_Comm_free(&comm);
    MPI_Request_get_status(receive, &flag, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    harness_check(holds(gpu_too, LARGE, last_rank()), "types and communicators go early");
}

static void freed_receive(void)
{
    MPI_Request request;
    char token = 0;
    int got = 0;

    fill(gpu, COUNT, harness_rank);
    fill(gpu_too, COUNT, harness_rank); /* and not the next message */
    MPI_Irecv(gpu_too, COUNT, MPI_INT, last_rank(), 11, world, &request);
    MPI_Request_free(&request);
    MPI_Barrier(world);
    MPI_Ssend(gpu, COUNT, MPI_INT, next_rank(), 11, world);
    MPI_Sendrecv(&token, 1, MPI_CHAR, next_rank(), 12, &token, 1, MPI_CHAR, last_rank(), 12, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 100000 && got != value(last_rank(), COUNT - 1); i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, 13, world, &(int){0}, MPI_STATUS_IGNORE);
        harness_read(&got, gpu_too + COUNT - 1, sizeof got);
    }
    harness_check(holds(gpu_too, COUNT, last_rank()), "a receive completes that no call waits for");
}

static void addresses(void)
{
    int lengths[] = {COUNT, COUNT / 2}, got[COUNT / 2];
    MPI_Aint at[2];
    MPI_Datatype absolute;

    MPI_Get_address(gpu + 3, &at[0]);
    MPI_Get_address(gpu_too, &at[1]);
    MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    fill(gpu + 3, COUNT, harness_rank);
    fill(gpu_too, COUNT, harness_rank);
    MPI_Sendrecv(MPI_BOTTOM, 1, absolute, next_rank(), 14, gpu + 2 * COUNT, 2 * COUNT, MPI_INT,
                 last_rank(), 14, world, MPI_STATUS_IGNORE);
    MPI_Type_free(&absolute);
    harness_read(got, gpu + 3 * COUNT, sizeof got);
    harness_check(holds(gpu + 2 * COUNT, COUNT, last_rank()) && got[0] == value(last_rank(), 0) &&
                      got[COUNT / 2 - 1] == value(last_rank(), COUNT / 2 - 1),
                  "MPI_BOTTOM, and addresses inside of the type");
}

static void nobody(void)
{
    MPI_Status status;
    MPI_Request requests[2];
    bool good;

    fill(gpu, COUNT, 60);
    MPI_Sendrecv(gpu, COUNT, MPI_INT, MPI_PROC_NULL, 15, gpu_too, COUNT, MPI_INT, MPI_PROC_NULL, 15,
                 world, &status);
    good = status.MPI_SOURCE == MPI_PROC_NULL;
    MPI_Send_init(gpu, COUNT, MPI_INT, MPI_PROC_NULL, 15, world, &requests[0]);
    MPI_Recv_init(gpu, COUNT, MPI_INT, MPI_PROC_NULL, 15, world, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Sendrecv(gpu, 0, MPI_INT, next_rank(), 15, gpu_too, 0, MPI_INT, last_rank(), 15, world,
                 &status);
    harness_check(good && status.MPI_SOURCE == last_rank() && holds(gpu, COUNT, 60),
                  "MPI_PROC_NULL, and messages of no bytes");
}

/* Many messages in progress at the same time, from all ranks to all ranks, completed in any order.
 */
static void many(void)
{
    enum { EACH = 8 };
    int n = EACH * harness_size, index, ended = 0;
    MPI_Request *requests = malloc((size_t) (2 * n) * sizeof(MPI_Request));
    int *receive = harness_alloc((size_t) (n * LARGE) * sizeof(int));
    bool good = true;

    fill(gpu, LARGE, harness_rank);
    for (int i = 0; i < n; i++) {
        MPI_Irecv(receive + i * LARGE, LARGE, MPI_INT, i % harness_size, 20 + i / harness_size,
                  world, &requests[i]);
    }
    for (int i = 0; i < n; i++) {
        MPI_Isend(gpu, LARGE - i, MPI_INT, i % harness_size, 20 + i / harness_size, world,
                  &requests[n + i]);
    }
    while (ended++ < n) {
        MPI_Waitany(2 * n, requests, &index, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) {
        int sent = LARGE - harness_rank - i / harness_size * harness_size;

        good = good && holds(receive + i * LARGE, sent, i % harness_size);
    }
    harness_free(receive);
    free(requests);
    harness_check(good, "many messages in progress at the same time");
}

static void between_groups(void)
{
    MPI_Comm half, inter;
    int low = harness_size / 2, mine, theirs;
    bool first = harness_rank < low, good = true;

    if (harness_size < 2) {
        return;
    }
    MPI_Comm_split(world, first, 0, &half);
    MPI_Intercomm_create(half, 0, world, first ? low : 0, 3, &inter);
    MPI_Comm_rank(inter, &mine);
    MPI_Comm_remote_size(inter, &theirs);
    fill(gpu, LARGE, harness_rank);
    if (mine < low && mine < theirs) {
        MPI_Sendrecv(gpu, LARGE, MPI_INT, mine, 4, gpu_too, LARGE, MPI_INT, mine, 4, inter,
                     MPI_STATUS_IGNORE);
        good = holds(gpu_too, LARGE, first ? low + mine : mine);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    harness_check(good, "between groups");
}

#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL) /* calls of MPI 4.0 */
static void send_receive(void)
{
    MPI_Request request;

    fill(gpu, LARGE, harness_rank);
    MPI_Isendrecv(gpu, LARGE, MPI_INT, next_rank(), 16, gpu_too, LARGE, MPI_INT, last_rank(), 16,
                  world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    harness_check(holds(gpu_too, LARGE, last_rank()), "MPI_Isendrecv");
}

static void partitioned(void)
{
    enum { PARTS = 4 };
    MPI_Request requests[2];
    bool good = true;

    MPI_Precv_init(gpu_too, PARTS, LARGE / PARTS, MPI_INT, last_rank(), 17, world, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Psend_init(gpu, PARTS, LARGE / PARTS, MPI_INT, next_rank(), 17, world, MPI_INFO_NULL,
                   &requests[1]);
    for (int i = 0; i < 3; i++) {
        fill(gpu, LARGE, harness_rank + i);
        MPI_Startall(2, requests);
        for (int part = PARTS - 1; part >= 0; part--) {
            MPI_Pready(part, requests[1]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        good = good && holds(gpu_too, LARGE, last_rank() + i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    harness_check(good, "partitioned messages");
}
#endif

/* Calls that return one status leave its MPI_ERROR alone. */
static void statuses(void)
{
    enum { UNTOUCHED = 4711, CALLS = 5 };
    MPI_Status status[CALLS];
    MPI_Request requests[3];
    MPI_Message message;
    bool good = true;
    int flag = 0;

    for (int i = 0; i < 3; i++) {
        MPI_Isend(gpu, COUNT, MPI_INT, next_rank(), 5, world, &requests[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        status[i].MPI_ERROR = UNTOUCHED;
    }
    MPI_Probe(last_rank(), 5, world, &status[0]);
    while (!flag) {
        MPI_Iprobe(last_rank(), 5, world, &flag, &status[1]);
    }
    MPI_Recv(gpu_too, COUNT, MPI_INT, last_rank(), 5, world, &status[2]);
    MPI_Mprobe(last_rank(), 5, world, &message, &status[3]);
    MPI_Mrecv(gpu_too, COUNT, MPI_INT, &message, &status[4]);
    MPI_Recv(gpu_too, COUNT, MPI_INT, last_rank(), 5, world, MPI_STATUS_IGNORE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < CALLS; i++) {
        good = good && status[i].MPI_ERROR == UNTOUCHED && status[i].MPI_SOURCE == last_rank() &&
               status[i].MPI_TAG == 5;
    }
    harness_check(good, "statuses: source and tag are set, MPI_ERROR is not");
}

/* PETSc probes in this way whether an MPI supports GPU memory. */
static void probe(void)
{
    int one = 1;

    harness_write(gpu, &one, sizeof one);
    MPI_Allreduce(gpu, gpu_too, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    harness_read(&one, gpu_too, sizeof one);
    MPI_Sendrecv(gpu, COUNT, MPI_INT, 0, 1, gpu_too, COUNT, MPI_INT, 0, 1, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    harness_check(one == 1, "MPI_COMM_SELF");
}

/* Each thread has a separate tag and separate buffers, and sends large and small messages around a
 * ring. */
#define THREADS 4
static bool thread_good[THREADS];

static void *ring(void *argument)
{
    int number = (int) (intptr_t) argument;
    int *from = harness_alloc(LARGE * sizeof(int)), *to = harness_alloc(LARGE * sizeof(int));
    bool good = true;

    for (int i = 0; i < 20; i++) {
        int n = i % 2 == 0 ? LARGE : COUNT;
        MPI_Request requests[2];

        fill(from, n, harness_rank + number);
        MPI_Irecv(to, n, MPI_INT, last_rank(), number, world, &requests[0]);
        MPI_Isend(from, n, MPI_INT, next_rank(), number, world, &requests[1]);
        if (i % 3 == 0) {
            MPI_Request_free(&requests[1]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        good = good && holds(to, n, last_rank() + number);
    }
    thread_good[number] = good;
    MPI_Barrier(MPI_COMM_SELF);
    harness_free(to);
    return from; /* freed sends may still use it */
}

static void threads(void)
{
    pthread_t thread[THREADS];
    bool good = true;
    void *memory[THREADS];

    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread[i], NULL, ring, (void *) (intptr_t) i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &memory[i]);
        good = good && thread_good[i];
    }
    MPI_Barrier(world);
    for (int i = 0; i < THREADS; i++) {
        harness_free(memory[i]);
    }
    harness_check(good, "threads with separate messages");
}

/* Start MPI_Isend, and wait until the PML has its data. */
static int isend_copied(int n, MPI_Datatype type, int tag, MPI_Request *request)
{
    int code = MPI_Isend(gpu, n, type, 0, tag, world, request), there = 0, ended = 0;

    while (code == MPI_SUCCESS && !there && !ended) {
        MPI_Iprobe(0, tag, world, &there, MPI_STATUS_IGNORE);
        if (!there) {
            code = MPI_Test(request, &ended, MPI_STATUS_IGNORE);
        }
    }
    return code;
}

/* Send one message to this rank. Return false if a call has returned an error. */
static bool to_itself(int tag, int n, MPI_Datatype type, bool receive_first)
{
    MPI_Request request;
    int sent, received;

    if (receive_first) {
        MPI_Irecv(gpu_too, n, type, 0, tag, world, &request);
        sent = MPI_Send(gpu, n, type, 0, tag, world);
        if (sent != MPI_SUCCESS) {
            MPI_Cancel(&request);
        }
        received = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        sent = isend_copied(n, type, tag, &request);
        received = MPI_SUCCESS;
        if (sent == MPI_SUCCESS) {
            received = MPI_Recv(gpu_too, n, type, 0, tag, world, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    return sent == MPI_SUCCESS && received == MPI_SUCCESS;
}

/* Only messages with types with gaps copy rows, so one of them gets the fault. */
static void failing(void)
{
    MPI_Datatype type;
    int errors = 0;
    bool good = true;

    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 12; i++) {
        int n = i % 2 == 0 ? COUNT : LARGE;

        fill(gpu, 2 * n, i);
        fill(gpu_too, 2 * n, i);
        errors += !to_itself(i, n, type, i < 6);
        good = good && holds(gpu_too, 2 * n, i);
    }
    MPI_Type_free(&type);
    harness_check(good && errors == 1, "one call returns an error, no other does");
}

/* A receive without a message, and sends whose requests the program has freed. */
static void under_way(void)
{
    MPI_Request request;

    fill(gpu, LARGE, harness_rank);
    MPI_Irecv(gpu_too, LARGE, MPI_INT, last_rank(), 99, world, &request);
    MPI_Isend(gpu, LARGE, MPI_INT, next_rank(), 3, world, &request);
    MPI_Request_free(&request);
    MPI_Recv(gpu_too, LARGE, MPI_INT, last_rank(), 3, world, MPI_STATUS_IGNORE);
    harness_check(holds(gpu_too, LARGE, last_rank()), "messages are under way at the end");
}

static void all(void)
{
    order();
    order_persistent();
    persistent_again();
    cancelled();
    freed_early();
    freed_receive();
    addresses();
    nobody();
    many();
    between_groups();
    statuses();
#if MPI_VERSION >= 4 || defined(MPI_SESSION_NULL)
    send_receive();
    partitioned();
#endif
    probe();
}

int main(int argc, char **argv)
{
    char what = argc > 1 ? argv[1][1] : 'a';

    harness_start(&argc, &argv, what == 't' ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    gpu = harness_alloc(4 * LARGE * sizeof(int));
    gpu_too = harness_alloc(4 * LARGE * sizeof(int));
    host = malloc(COUNT * sizeof *host);
    switch (what) {
    case 't':
        threads();
        break;
    case 'e':
        failing();
        break;
    case 'l':
        under_way();
        break;
    default:
        all();
    }
    if (what != 'l') {
        MPI_Comm_free(&world);
    }
    free(host);
    harness_free(gpu);
    harness_free(gpu_too);
    return harness_finish();
}
