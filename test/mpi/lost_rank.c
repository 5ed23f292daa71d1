/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test calls that one rank does not enter.
 *
 *   lost_rank late|killed|stopped [COUNT THEN]
 *         after some allreduces of COUNT elements, the last rank sleeps, kills itself or stops
 *         itself instead of entering an allreduce of THEN elements
 *   lost_rank creating MICROSECONDS
 *         all ranks create persistent allreduces, and the last rank is killed this time after it
 *         has begun, so that some ranks wait for an agreement or for connections
 *   lost_rank vote
 *         the last rank sleeps before a broadcast, for which the others need its vote, and makes
 *         the call afterwards
 *   lost_rank start
 *         the same with a persistent call, whose start the others await
 *   lost_rank nodes
 *         the ranks of the first node make another call than those of the second
 *   lost_rank differ call|count|bcast|large|sets
 *         the last rank makes another call than the others, an allreduce or a broadcast with a
 *         smaller count, or an allreduce for which only the others need more connections on GPUs,
 *         or all ranks need different ones
 *
 * The other ranks print "ok" lines if the call returns an error in time, if MPI is still usable,
 * and if communicators that do not contain the last rank still work.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST 4000000 /* elements of the buffer */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

static void vanish(const char *how)
{
    if (strcmp(how, "killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "stopped") == 0) {
        raise(SIGSTOP);
    }
    sleep(20);
    _exit(0);
}

/* Wait for the other ranks with messages. A collective would fail after coll_gpuring_timeout, but
 * other ranks may need longer than that to report the error. */
static void meet(MPI_Comm comm, int others)
{
    for (int i = 1; i < others && harness_rank == 0; i++) {
        MPI_Recv(NULL, 0, MPI_BYTE, i, 0, comm, MPI_STATUS_IGNORE);
    }
    if (harness_rank > 0) {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, comm);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
    }
    for (int i = 1; i < others && harness_rank == 0; i++) {
        MPI_Send(NULL, 0, MPI_BYTE, i, 0, comm);
    }
}

/* Test a broadcast that the last rank enters when the others have already failed. */
static int late_vote(MPI_Comm comm, int *data)
{
    int code = MPI_Bcast(data, 1000, MPI_INT, 0, comm);

    harness_check(code == MPI_SUCCESS, "a broadcast");
    if (harness_rank == harness_size - 1) {
        sleep(5);
    }
    code = MPI_Bcast(data, 1000, MPI_INT, 0, comm);
    harness_check(code != MPI_SUCCESS, "one to which a rank comes late: an error at all ranks");
    code = MPI_Allreduce(MPI_IN_PLACE, data, 10, MPI_INT, MPI_SUM, comm);
    harness_check(code != MPI_SUCCESS, "and any further call");
    MPI_Comm_free(&comm);
    harness_free(data);
    return harness_finish();
}

/* Test a persistent call that the last rank starts when the others have already failed. The last
 * rank may complete it, because the others have sent their data. */
static int late_start(MPI_Comm comm, int *data)
{
    MPI_Request request;
    int code = HARNESS_INIT(Allreduce)(MPI_IN_PLACE, data, 10, MPI_INT, MPI_SUM, comm,
                                       MPI_INFO_NULL, &request);

    harness_check(code == MPI_SUCCESS, "a persistent call");
    for (int i = 0; i < 3; i++) {
        bool late = i == 1 && harness_rank == harness_size - 1;

        if (late) {
            sleep(5);
        }
        code = MPI_Start(&request);
        code = code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
        harness_check((code == MPI_SUCCESS) == (i == 0) || late, "start %d of a persistent call",
                      i);
    }
    MPI_Comm_free(&comm);
    harness_free(data);
    return harness_finish();
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;

    return code != MPI_SUCCESS && MPI_Error_class(code, &class) == MPI_SUCCESS ? class : code;
}

/* Test ranks that make different calls. The last rank may complete its call before the others
 * detect this. */
static int differ(MPI_Comm comm, int *data, const char *how)
{
    bool last = harness_rank == harness_size - 1, bcast = strcmp(how, "bcast") == 0;
    bool large = strcmp(how, "large") == 0, sets = strcmp(how, "sets") == 0;
    int count = sets ? MOST : large ? 100000 : 100, code, length;
    char text[MPI_MAX_ERROR_STRING] = "";

    if (last && strcmp(how, "call") != 0) {
        count = sets ? 30000 : 10;
    }
    code = bcast || (last && strcmp(how, "call") == 0)
               ? MPI_Bcast(data, count, MPI_INT, 0, comm)
               : MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm);
    MPI_Error_string(code, text, &length);
    if (code != MPI_SUCCESS && class_of(code) != MPI_ERR_TRUNCATE) {
        printf("# rank %d: %s\n", harness_rank, text);
    }
    if (strcmp(how, "call") == 0) {
        /* In host memory, the last rank takes the data of the first for that of its broadcast. */
        harness_check(code != MPI_SUCCESS || (last && getenv("GPURING_TEST_MEMORY") == NULL),
                      "another call: an error");
    } else if (bcast) {
        harness_check(!last || class_of(code) == MPI_ERR_TRUNCATE,
                      "a smaller count in a broadcast: MPI_ERR_TRUNCATE at that rank");
    } else {
        harness_check(last || class_of(code) == MPI_ERR_TRUNCATE,
                      "a smaller count at one rank: MPI_ERR_TRUNCATE at the others");
    }
    code = MPI_Allreduce(MPI_IN_PLACE, data, 10, MPI_INT, MPI_SUM, comm);
    harness_check(code != MPI_SUCCESS, "and an error in any further call");
    MPI_Error_string(code, text, &length);
    harness_check(strncmp(text, "coll/gpuring: ", 14) == 0, "whose string has the cause");
    MPI_Comm_free(&comm);
    harness_free(data);
    return harness_finish();
}

/* Test ranks of two nodes that make different calls of equal size, in which all wait for the other
 * node. */
static int differ_by_node(MPI_Comm comm, int *data)
{
    int root = harness_size - 1;
    int code = harness_rank < harness_size / 2
                   ? MPI_Bcast(data, 1000, MPI_INT, root, comm)
                   : MPI_Reduce(data, data + 1000, 1000, MPI_INT, MPI_SUM, root, comm);

    if (code == MPI_SUCCESS) { /* a rank that only sends ends its call */
        code = MPI_Allreduce(MPI_IN_PLACE, data, 1000, MPI_INT, MPI_SUM, comm);
    }
    harness_check(code != MPI_SUCCESS, "another call on the other node: an error");
    MPI_Comm_free(&comm);
    harness_free(data);
    return harness_finish();
}

/* Create persistent calls. Kill the last rank after this time, or when it has created all. Returns
 * an error of MPI, or 0. The calls are not freed. */
static int create_while_killed(MPI_Comm comm, int *data, long microseconds)
{
    struct itimerval timer = {.it_value.tv_usec = microseconds};
    MPI_Request request;
    int code = MPI_SUCCESS;

    if (harness_rank == harness_size - 1) {
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &timer, NULL);
    }
    for (int i = 0; i < 32 && code == MPI_SUCCESS; i++) {
        code = HARNESS_INIT(Allreduce)(MPI_IN_PLACE, data, 1000, MPI_INT, MPI_SUM, comm,
                                       MPI_INFO_NULL, &request);
    }
    if (harness_rank == harness_size - 1) {
        raise(SIGKILL);
    }
    return code;
}

int main(int argc, char **argv)
{
    int *data;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Comm comm, others;
    int code, class = MPI_SUCCESS, length, value = 1, count, then;
    double begin;

    /* btl/tcp before Open MPI 6.0 raises SIGPIPE when it writes to a killed rank. */
    signal(SIGPIPE, SIG_IGN);
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    count = argc > 3 ? atoi(argv[2]) : 1000;
    then = argc > 3 ? atoi(argv[3]) : 100000;
    data = harness_alloc(MOST * sizeof *data);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "the tested one");
    MPI_Comm_split(MPI_COMM_WORLD, harness_rank == harness_size - 1, 0, &others);
    for (int i = 0; i < 5; i++) {
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm);
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, others);
    }
    if (argc > 1 && strcmp(argv[1], "vote") == 0) {
        return late_vote(comm, data);
    }
    if (argc > 1 && strcmp(argv[1], "start") == 0) {
        return late_start(comm, data);
    }
    if (argc > 1 && strcmp(argv[1], "nodes") == 0) {
        return differ_by_node(comm, data);
    }
    if (argc > 2 && strcmp(argv[1], "differ") == 0) {
        return differ(comm, data, argv[2]);
    }
    begin = now();
    code = MPI_SUCCESS;
    if (argc > 2 && strcmp(argv[1], "creating") == 0) {
        code = create_while_killed(comm, data, atol(argv[2]));
    } else if (harness_rank == harness_size - 1) {
        vanish(argc > 1 ? argv[1] : "late");
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Allreduce(MPI_IN_PLACE, data, then, MPI_INT, MPI_SUM, comm);
    }
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
    }
    printf("# rank %d: code %d class %d after %.1f s: %s\n", harness_rank, code, class,
           now() - begin, text);
    printf("%s - rank %d gets an error\n", code != MPI_SUCCESS ? "ok" : "not ok", harness_rank);
    code = MPI_Allreduce(MPI_IN_PLACE, data, 10, MPI_INT, MPI_SUM, comm);
    printf("%s - rank %d gets an error again from the broken communicator\n",
           code != MPI_SUCCESS ? "ok" : "not ok", harness_rank);
    meet(others, harness_size - 1);
    code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, others);
    printf("%s - rank %d still uses another communicator\n",
           code == MPI_SUCCESS && value == harness_size - 1 ? "ok" : "not ok", harness_rank);
    fflush(stdout);
    MPI_Barrier(others);
    if (harness_rank == 0) {
        MPI_Abort(MPI_COMM_WORLD, 42); /* usable to the end */
    }
    sleep(5);
    _exit(1); /* under --enable-recovery, mpirun 4.1 leaves them alive */
}
