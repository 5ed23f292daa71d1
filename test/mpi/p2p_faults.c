/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test point-to-point calls on GPU memory if resources are missing, and between processes that
 * start and end.
 *
 *   p2p_faults memory   one rank; each allocation of the component fails once, so that a call
 *                       returns an error and can be made again; needs memory_faults.la preloaded
 *   p2p_faults offered  the same, if messages of the rank to itself are offered
 *   p2p_faults failed   the last rank kills itself while each other rank waits for it in a
 *                       different call; the others then revoke MPI_COMM_WORLD and continue;
 *                       needs Open MPI's fault tolerance
 *   p2p_faults killed   the last rank kills itself with messages in flight; the others continue
 *   p2p_faults probe F  probes of a message as long as an offer, whose data arrive only when the
 *                       file F exists
 *   p2p_faults spawn    messages between parents and children
 */
#include "harness.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_faults.h"

#define COUNT      1000
#define LARGE      100000     /* ints: such a send returns before its data is copied */
#define HUGE_COUNT (16 << 20) /* ints: 32 slots */
#define STEP       600000 /* ints by which messages grow: more than any kept bounce buffer has */
#define LIMIT      24     /* more than the number of allocations */
#define ALIKE      3907   /* size of an offer in bytes */

static int errors, start_errors;

static bool holds(const int *from, int n, int step, int seed)
{
    int *to = malloc((size_t) n * sizeof *to);
    bool good = true;

    harness_read(to, from, (size_t) n * sizeof *to);
    for (int i = 0; i < n; i += step) {
        good = good && to[i] == seed + i;
    }
    free(to);
    return good;
}

static void fill(int *to, int n, int seed)
{
    int *from = malloc((size_t) n * sizeof *from);

    for (int i = 0; i < n; i++) {
        from[i] = seed + i;
    }
    harness_write(to, from, (size_t) n * sizeof *from);
    free(from);
}

/* Make a call, and repeat it if it returns an error. */
#define AGAIN(call) ((call) == MPI_SUCCESS || (errors++, (call) == MPI_SUCCESS))

/* Complete a receive. If its copy fails, the message is lost. */
static bool received(MPI_Request *request, const int *from, int n, int step, int seed)
{
    if (MPI_Wait(request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        errors++;
        return true;
    }
    return holds(from, n, step, seed);
}

/* Complete a persistent send. Open MPI frees the request if it ends with an error. */
static bool sent_again(MPI_Request *request, const int *from, int n)
{
    if (MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        return true;
    }
    errors++;
    start_errors++;
    return *request == MPI_REQUEST_NULL &&
           MPI_Send_init(from, n, MPI_INT, 0, 3, MPI_COMM_WORLD, request) == MPI_SUCCESS &&
           MPI_Start(request) == MPI_SUCCESS && MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Send messages in several forms to this rank. */
static bool messages(int *from, int *to, int large, MPI_Datatype gaps)
{
    MPI_Request requests[2];
    MPI_Message matched;
    int less = large - STEP / 2;
    bool good;

    fill(from, less, 8);
    good = AGAIN(MPI_Recv_init(to, less, MPI_INT, 0, 3, MPI_COMM_WORLD, &requests[0])) &&
           AGAIN(MPI_Send_init(from, less, MPI_INT, 0, 3, MPI_COMM_WORLD, &requests[1])) &&
           MPI_Startall(2, requests) == MPI_SUCCESS && sent_again(&requests[1], from, less) &&
           received(&requests[0], to, less, 1, 8) &&
           (requests[0] == MPI_REQUEST_NULL || MPI_Request_free(&requests[0]) == MPI_SUCCESS) &&
           MPI_Request_free(&requests[1]) == MPI_SUCCESS;

    fill(from, large, large);
    good = good && AGAIN(MPI_Irecv(to, large, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0])) &&
           AGAIN(MPI_Isend(from, large, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[1])) &&
           received(&requests[0], to, large, 1, large) &&
           MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS;

    fill(from, COUNT, 7);
    good = good && AGAIN(MPI_Irecv(to, COUNT / 2, gaps, 0, 2, MPI_COMM_WORLD, &requests[0])) &&
           AGAIN(MPI_Send(from, COUNT / 2, gaps, 0, 2, MPI_COMM_WORLD)) &&
           received(&requests[0], to, COUNT, 2, 7);

    fill(from, COUNT, 9);
    good = good && AGAIN(MPI_Isend(from, COUNT, MPI_INT, 0, 4, MPI_COMM_WORLD, &requests[1])) &&
           MPI_Mprobe(0, 4, MPI_COMM_WORLD, &matched, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           AGAIN(MPI_Imrecv(to, COUNT, MPI_INT, &matched, &requests[0])) &&
           received(&requests[0], to, COUNT, 1, 9) &&
           MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS;
    return good;
}

static void memory(bool offered)
{
    void (*arm)(long);
    long (*disarm)(void);
    void *symbols[] = {dlsym(RTLD_DEFAULT, "memory_faults_arm"),
                       dlsym(RTLD_DEFAULT, "memory_faults_disarm")};
    int *from = harness_alloc((size_t) LIMIT * STEP * sizeof *from);
    int *to = harness_alloc((size_t) LIMIT * STEP * sizeof *to);
    MPI_Datatype gaps;
    long counted = LIMIT;
    bool good = symbols[0] != NULL && symbols[1] != NULL;
    int rounds = 0;

    memcpy(&arm, &symbols[0], sizeof arm);
    memcpy(&disarm, &symbols[1], sizeof disarm);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
    MPI_Type_commit(&gaps);
    while (good && rounds < LIMIT && counted > rounds) {
        arm(++rounds);
        good = messages(from, to, rounds * STEP, gaps);
        counted = disarm();
    }
    harness_check(good && counted < rounds && errors >= rounds / 2,
                  "each of %d calls for memory fails: %d MPI errors, all else is right", rounds - 1,
                  errors);
    harness_check(start_errors > 0 || offered,
                  "also that of a persistent start: the request ends with it");
    MPI_Type_free(&gaps);
    harness_free(from);
    harness_free(to);
}

/* The last rank dies while it receives from rank 0 and sends to rank 1, whose calls return errors.
 */
static void killed_in_the_middle(void)
{
    int *data = harness_alloc(HUGE_COUNT * sizeof *data), last = harness_size - 1, code;
    long long before;
    MPI_Request requests[2];

    if (harness_rank < last) { /* for consent */
        MPI_Sendrecv(data, 1, MPI_INT, last, 6, data, 1, MPI_INT, last, 6, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    for (int r = 0; r < last && harness_rank == last; r++) {
        MPI_Sendrecv(data, 1, MPI_INT, r, 6, data, 1, MPI_INT, r, 6, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (harness_rank == last) {
        before = harness_pvar("coll_gpuring_direct_messages");
        MPI_Isend(data, HUGE_COUNT, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(data, HUGE_COUNT, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[0]);
        while (harness_pvar("coll_gpuring_direct_messages") == before) {
            MPI_Test(&requests[0], &code, MPI_STATUS_IGNORE);
        }
        raise(SIGKILL);
    }
    code = harness_rank == 0
               ? MPI_Send(data, HUGE_COUNT, MPI_INT, last, 7, MPI_COMM_WORLD)
               : MPI_Recv(data, HUGE_COUNT, MPI_INT, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%s - rank %d gets an error in the middle of a message\n",
           code != MPI_SUCCESS ? "ok" : "not ok", harness_rank);
    harness_free(data);
}

static void killed(void)
{
    int *from = harness_alloc(LARGE * sizeof *from), *to = harness_alloc(LARGE * sizeof *to);
    int *lost = harness_alloc(LARGE * sizeof *lost), flag = 0;
    int last = harness_size - 1, other = last - 1 - harness_rank;
    MPI_Request requests[2];
    bool good = true;
    MPI_Status status;

    fill(from, LARGE, harness_rank);
    if (harness_rank == last) {
        MPI_Irecv(to, LARGE, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(from, LARGE, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        killed_in_the_middle();
    }
    MPI_Irecv(lost, LARGE, MPI_INT, last, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    killed_in_the_middle();
    MPI_Isend(from, LARGE, MPI_INT, last, 1, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Sendrecv(from, LARGE, MPI_INT, other, 4, to, LARGE, MPI_INT, other, 4, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        good = good && holds(to, LARGE, 1, other);
    }
    printf("%s - rank %d still sends to others and receives\n", good ? "ok" : "not ok",
           harness_rank);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    printf("%s - rank %d cancels a receive from the killed rank\n", flag ? "ok" : "not ok",
           harness_rank);
    fflush(stdout);
    MPI_Sendrecv(NULL, 0, MPI_INT, other, 5, NULL, 0, MPI_INT, other, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (harness_rank == 0) {
        sleep(1); /* because mpirun 5.0 drops later output */
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    sleep(5);
    _exit(1); /* under --enable-recovery, mpirun 4.1 leaves them alive */
}

#if defined(MPI_ERR_PROC_FAILED)
/* Exchange large messages with both neighbors. Returns true if the data are right. */
static bool exchanged(MPI_Comm comm, int *from, int *to)
{
    int rank, size, right, left;
    bool good = true;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (int i = 0; i < 3; i++) { /* a process consents to offers after the first message */
        fill(from, LARGE, rank);
        fill(to, LARGE, -1000000);
        good = MPI_Sendrecv(from, LARGE, MPI_INT, right, 8, to, LARGE, MPI_INT, left, 8, comm,
                            MPI_STATUS_IGNORE) == MPI_SUCCESS &&
               holds(to, LARGE, 1, left) && good;
    }
    return good;
}

/* The ranks that are left continue on a communicator of their own. Rank 0 revokes MPI_COMM_WORLD
 * when all of them have seen the failure. */
static void go_on(int *from, int *to)
{
    MPI_Comm rest;
    bool good;

    for (int r = 1; r < harness_size - 1 && harness_rank == 0; r++) {
        MPI_Recv(NULL, 0, MPI_INT, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (harness_rank == 0) {
        MPIX_Comm_revoke(MPI_COMM_WORLD);
    } else {
        MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE); /* until it is revoked */
    }
    MPIX_Comm_shrink(MPI_COMM_WORLD, &rest);
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    good = exchanged(rest, from, to);
    printf("%s - rank %d exchanges messages after MPIX_Comm_revoke\n", good ? "ok" : "not ok",
           harness_rank);
    fflush(stdout);
    for (int r = 1; r < harness_size - 1 && harness_rank == 0; r++) {
        MPI_Recv(NULL, 0, MPI_INT, r, 2, rest, MPI_STATUS_IGNORE);
    }
    if (harness_rank == 0) {
        sleep(1); /* because mpirun 5.0 drops later output */
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    MPI_Send(NULL, 0, MPI_INT, 0, 2, rest);
}

static void failed(void)
{
    static const char *const calls[] = {"MPI_Wait", "MPI_Recv", "MPI_Recv from any", "MPI_Probe",
                                        "MPI_Mprobe"};
    int *buffer = harness_alloc(LARGE * sizeof *buffer),
        *from = harness_alloc(LARGE * sizeof *from);
    int code = MPI_SUCCESS, class = MPI_SUCCESS, last = harness_size - 1;
    MPI_Request request;
    MPI_Message message;

    if (!exchanged(MPI_COMM_WORLD, from, buffer)) {
        printf("not ok - rank %d exchanges messages\n", harness_rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (harness_rank == last) {
        sleep(1); /* until the others wait */
        raise(SIGKILL);
    }
    switch (harness_rank) {
    case 0:
        MPI_Irecv(buffer, LARGE, MPI_INT, last, 1, MPI_COMM_WORLD, &request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 1:
        code = MPI_Recv(buffer, LARGE, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 2:
        code =
            MPI_Recv(buffer, LARGE, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 3:
        code = MPI_Probe(last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    default:
        code = MPI_Mprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    }
    MPI_Error_class(code, &class);
    printf("%s - rank %d gets the error of a dead rank by %s\n",
           class == MPI_ERR_PROC_FAILED ? "ok" : "not ok", harness_rank, calls[harness_rank]);
    fflush(stdout);
    go_on(from, buffer);
    sleep(5);
    _exit(1);
}
#endif

/* The last rank sends a message as long as an offer, and then waits for a file instead of entering
 * MPI. Probes of rank 0 must not wait for the data, which does not arrive in the meantime. */
static void probe(const char *file)
{
    int last = harness_size - 1, probes = 0, flag = 0, waited = 0;
    char data[ALIKE] = {0};
    bool good = true;

    harness_free(harness_alloc(1)); /* loads the driver */
    MPI_Barrier(MPI_COMM_WORLD);
    if (harness_rank == last) {
        MPI_Request request;

        MPI_Isend(data, sizeof data, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
        while (access(file, F_OK) != 0 && waited++ < 1000) {
            usleep(10000);
        }
        good = waited < 1000;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    while (harness_rank == 0 && !flag) {
        MPI_Iprobe(last, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
        if (++probes == 200) {
            fclose(fopen(file, "w"));
        }
    }
    if (harness_rank == 0) {
        good = probes >= 200 && MPI_Recv(data, sizeof data, MPI_BYTE, last, 5, MPI_COMM_WORLD,
                                         MPI_STATUS_IGNORE) == MPI_SUCCESS;
    }
    harness_check(good, "a probe does not wait for data");
}

/* A child returns the message that it gets. */
static void child(MPI_Comm parents)
{
    int *buffer = harness_alloc(LARGE * sizeof *buffer), count;
    MPI_Status status;

    for (int i = 0; i < 2; i++) {
        MPI_Recv(buffer, LARGE, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, parents, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Send(buffer, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, parents);
    }
    harness_free(buffer);
    MPI_Comm_disconnect(&parents);
    harness_buffers_close();
    MPI_Finalize();
}

static void spawn(char *self)
{
    char *arguments[] = {"child", NULL};
    int *from = harness_alloc(LARGE * sizeof *from), *to = harness_alloc(LARGE * sizeof *to);
    int sizes[] = {10, LARGE};
    MPI_Comm children;
    bool good = true;

    fill(from, LARGE, harness_rank);
    MPI_Comm_spawn(self, arguments, harness_size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    for (int i = 0; i < 2; i++) {
        fill(to, LARGE, -1000000);
        MPI_Sendrecv(from, sizes[i], MPI_INT, harness_rank, i, to, LARGE, MPI_INT, harness_rank, i,
                     children, MPI_STATUS_IGNORE);
        good = good && holds(to, sizes[i], 1, harness_rank);
    }
    MPI_Comm_disconnect(&children);
    harness_check(good, "messages between parents and children");
    harness_free(from);
    harness_free(to);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Comm parents;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) {
        child(parents);
        return 0;
    }
    if (strcmp(what, "memory") == 0) {
        memory(false);
    } else if (strcmp(what, "offered") == 0) {
        memory(true);
#if defined(MPI_ERR_PROC_FAILED)
    } else if (strcmp(what, "failed") == 0) {
        failed();
#endif
    } else if (strcmp(what, "killed") == 0) {
        killed();
    } else if (strcmp(what, "probe") == 0 && argc > 2) {
        probe(argv[2]);
    } else {
        spawn(argv[0]);
    }
    return harness_finish();
}
