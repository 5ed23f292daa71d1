/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A long random mixture of allreduces on several communicators: blocking, non-blocking and
 * persistent, many under way at once, of several types, operations and sizes, on communicators that
 * come and go. Every result is checked at every position. All ranks draw the same calls from the
 * seed, and complete them in an order of their own.
 *
 *   soak [-s SEED] [-c CALLS] [-p] [-k]
 *     -p   a helper of each rank stops and continues it at random: hung peers
 *     -k   the last rank kills itself at a random call: the others get errors from communicators
 *          with it, and go on with one without it
 */
#include "harness.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMS  5
#define WINDOW 8   /* calls under way */
#define RENEW  150 /* calls after which a communicator is made anew */
#define MOST   40000

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

struct type {
    MPI_Datatype handle;
    size_t size;
};

struct call {
    int number, comm, count, type;
    enum form form;
    int op; /* 0: sum, 1: max, 2: min */
    bool in_place;
};

struct slot {
    struct call call;
    MPI_Request request;
    void *send, *receive;
    bool busy;
};

static struct type types[4];
static MPI_Comm comms[COMMS], without_last;
static int comm_rank[COMMS], comm_size[COMMS];
static struct slot slots[WINDOW];
static uint64_t shared, own; /* states of the random numbers: of all ranks, of this one */
static bool failed;
static char first_failure[256];

static void fail(const struct call *call, const char *what, int at)
{
    if (!failed) {
        failed = true;
        snprintf(first_failure, sizeof first_failure,
                 "rank %d: call %d on communicator %d (%d elements of type %d): %s %d",
                 harness_rank, call->number, call->comm, call->count, call->type, what, at);
        printf("# %s\n", first_failure);
    }
}

/* Small whole numbers, exact in every type. */
static long input_value(const struct call *call, int rank, int i)
{
    return (i * 7L + call->number) % 1000 + rank;
}

static long result_value(const struct call *call, int i)
{
    long n = comm_size[call->comm], base = input_value(call, 0, i);

    return call->op == 0 ? n * base + n * (n - 1) / 2 : call->op == 1 ? base + n - 1 : base;
}

static void put(void *buffer, int type, int i, long value)
{
    switch (type) {
    case 0:
        ((int *) buffer)[i] = (int) value;
        break;
    case 1:
        ((int64_t *) buffer)[i] = value;
        break;
    case 2:
        ((float *) buffer)[i] = (float) value;
        break;
    default:
        ((double *) buffer)[i] = (double) value;
        break;
    }
}

static long get(const void *buffer, int type, int i)
{
    switch (type) {
    case 0:
        return ((const int *) buffer)[i];
    case 1:
        return (long) ((const int64_t *) buffer)[i];
    case 2:
        return (long) ((const float *) buffer)[i];
    default:
        return (long) ((const double *) buffer)[i];
    }
}

static void fill(struct slot *slot)
{
    const struct call *call = &slot->call;
    void *input = call->in_place ? slot->receive : slot->send;

    for (int i = 0; i < call->count; i++) {
        put(input, call->type, i, input_value(call, comm_rank[call->comm], i));
    }
}

static void check(const struct slot *slot)
{
    const struct call *call = &slot->call;

    for (int i = 0; i < call->count; i++) {
        if (get(slot->receive, call->type, i) != result_value(call, i)) {
            fail(call, "wrong element", i);
            return;
        }
    }
}

static void finish(struct slot *slot)
{
    if (slot->busy) {
        int code = MPI_Wait(&slot->request, MPI_STATUS_IGNORE);

        slot->busy = false;
        if (code != MPI_SUCCESS) {
            fail(&slot->call, "MPI_Wait returned", code);
        } else {
            check(slot);
        }
    }
    if (slot->request != MPI_REQUEST_NULL) {
        MPI_Request_free(&slot->request);
    }
}

static void finish_all(void)
{
    for (int i = 0; i < WINDOW; i++) {
        finish(&slots[(i + (int) (harness_draw(&own) % WINDOW)) % WINDOW]);
    }
    for (int i = 0; i < WINDOW; i++) {
        finish(&slots[i]);
    }
}

/* A free place; if there is none, one of the calls under way is completed, each rank its own. */
static struct slot *free_slot(void)
{
    for (int i = 0; i < WINDOW; i++) {
        if (!slots[i].busy) {
            return &slots[i];
        }
    }
    struct slot *slot = &slots[harness_draw(&own) % WINDOW];

    finish(slot);
    return slot;
}

static void start(struct slot *slot)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    const struct call *call = &slot->call;
    const void *send = call->in_place ? MPI_IN_PLACE : slot->send;
    MPI_Datatype type = types[call->type].handle;
    MPI_Comm comm = comms[call->comm];
    int code;

    fill(slot);
    slot->request = MPI_REQUEST_NULL;
    slot->busy = call->form != BLOCKING;
    if (call->form == BLOCKING) {
        code = MPI_Allreduce(send, slot->receive, call->count, type, ops[call->op], comm);
        if (code == MPI_SUCCESS) {
            check(slot);
        }
    } else if (call->form == NONBLOCKING) {
        code = MPI_Iallreduce(send, slot->receive, call->count, type, ops[call->op], comm,
                              &slot->request);
    } else {
        code = HARNESS_INIT(Allreduce)(send, slot->receive, call->count, type, ops[call->op], comm,
                                       MPI_INFO_NULL, &slot->request);
        for (int i = call->number % 3; i > 0 && code == MPI_SUCCESS; i--) { /* some rounds, */
            code = MPI_Start(&slot->request);
            if (code == MPI_SUCCESS) {
                code = MPI_Wait(&slot->request, MPI_STATUS_IGNORE);
                check(slot);
                fill(slot);
            }
        }
        if (code == MPI_SUCCESS) {
            code = MPI_Start(&slot->request); /* and one that is left under way */
        }
    }
    if (code != MPI_SUCCESS) {
        fail(call, "the call returned", code);
        slot->busy = false;
    }
}

static void make_comm(int c)
{
    MPI_Comm world = MPI_COMM_WORLD;

    switch (c) {
    case 0:
    case 1:
        MPI_Comm_dup(world, &comms[c]);
        break;
    case 2: /* halves, each of which may be one node */
        MPI_Comm_split(world, harness_rank < harness_size / 2, 0, &comms[c]);
        break;
    case 3: /* across the nodes */
        MPI_Comm_split(world, harness_rank % 2, 0, &comms[c]);
        break;
    default:
        MPI_Comm_split(world, 0, -harness_rank, &comms[c]);
        break;
    }
    MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN);
    MPI_Comm_rank(comms[c], &comm_rank[c]);
    MPI_Comm_size(comms[c], &comm_size[c]);
}

static void one_call(int number)
{
    struct call call = {.number = number};
    struct slot *slot;

    call.comm = (int) (harness_draw(&shared) % COMMS);
    call.form = (enum form)(harness_draw(&shared) % FORMS);
    call.type = (int) (harness_draw(&shared) % 4);
    call.op = (int) (harness_draw(&shared) % 3);
    call.count = (int) (harness_draw(&shared) % (harness_draw(&shared) % 16 == 0 ? MOST : 600));
    call.in_place = harness_draw(&shared) % 2 == 0;
    slot = free_slot();
    slot->call = call;
    start(slot);
    if (number % RENEW == RENEW - 1) {
        int c = (int) (harness_draw(&shared) % COMMS);

        finish_all();
        MPI_Comm_free(&comms[c]);
        make_comm(c);
    }
}

/* A child that stops and continues this process now and then, until it ends. */
static void start_pauses(void)
{
    uint64_t state = own;
    pid_t rank = getpid(), child = fork();

    if (child != 0) {
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == rank) {
        struct timespec run = {.tv_nsec = (long) (harness_draw(&state) % 400000000)};
        struct timespec pause = {.tv_nsec = (long) (harness_draw(&state) % 60000000)};

        nanosleep(&run, NULL);
        kill(rank, SIGSTOP);
        nanosleep(&pause, NULL);
        kill(rank, SIGCONT);
    }
    _exit(0);
}

/* Without the last rank: every other one has an error, and the rest of MPI works. */
static void survive(int calls, int victim_call)
{
    int value = 1, code = MPI_SUCCESS;

    for (int k = 0; k < calls && !failed; k++) {
        if (k == victim_call && harness_rank == harness_size - 1) {
            raise(SIGKILL);
        }
        one_call(k);
    }
    finish_all();
    for (int c = 0; c < 2; c++) { /* may have ended well before, but not after */
        int again = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, comms[c]);

        printf("%s - rank %d: communicator %d refuses\n", again != MPI_SUCCESS ? "ok" : "not ok",
               harness_rank, c);
    }
    /* The errors came one after the other, at each rank at other times: a new communicator's first
     * call would wait for the last of them. */
    MPI_Barrier(without_last);
    for (int i = 0; i < 20 && code == MPI_SUCCESS; i++) {
        value = 1;
        code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, without_last);
    }
    printf("%s - rank %d: the others go on\n",
           code == MPI_SUCCESS && value == harness_size - 1 ? "ok" : "not ok", harness_rank);
    fflush(stdout);
    MPI_Barrier(without_last);
    if (harness_rank == 0) {
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    sleep(5);
    _exit(1);
}

int main(int argc, char **argv)
{
    bool pauses = false, kills = false;
    uint64_t seed = 1;
    int calls = 1000, option;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    while ((option = getopt(argc, argv, "s:c:pk")) != -1) {
        switch (option) {
        case 's':
            seed = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            calls = atoi(optarg);
            break;
        case 'p':
            pauses = true;
            break;
        case 'k':
            kills = true;
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    shared = seed;
    own = seed + (uint64_t) harness_rank + 1;
    types[0] = (struct type){MPI_INT, sizeof(int)};
    types[1] = (struct type){MPI_INT64_T, sizeof(int64_t)};
    types[2] = (struct type){MPI_FLOAT, sizeof(float)};
    types[3] = (struct type){MPI_DOUBLE, sizeof(double)};
    for (int i = 0; i < WINDOW; i++) {
        slots[i].send = malloc(MOST * sizeof(double));
        slots[i].receive = malloc(MOST * sizeof(double));
        slots[i].request = MPI_REQUEST_NULL;
    }
    for (int c = 0; c < COMMS; c++) {
        make_comm(c);
    }
    MPI_Comm_split(MPI_COMM_WORLD, harness_rank == harness_size - 1, 0, &without_last);
    if (pauses) {
        start_pauses();
    }
    if (kills) {
        survive(calls, (int) (harness_draw(&shared) % (uint64_t) calls));
    }
    for (int k = 0; k < calls && !failed; k++) {
        one_call(k);
    }
    finish_all();
    harness_check(!failed, "%d calls on %d communicators, seed %llu: %s", calls, COMMS,
                  (unsigned long long) seed, failed ? first_failure : "all results right");
    if (calls >= 100) {
        harness_check(harness_pvar("coll_gpuring_calls") > calls / 4, "coll/gpuring served them");
    }
    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_free(&comms[c]);
    }
    MPI_Comm_free(&without_last);
    for (int i = 0; i < WINDOW; i++) {
        free(slots[i].send);
        free(slots[i].receive);
    }
    return harness_finish();
}
