/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Make a long random sequence of all collectives on several communicators: blocking, non-blocking
 * and persistent, many in flight, with all types, operations and sizes, and with different
 * datatypes and memory on each rank. Communicators are created and freed meanwhile. All ranks draw
 * the same calls from the seed, and complete them in different orders. Each rank computes the
 * expected results from the seed and compares all bytes of its buffers.
 *
 *   soak [-s SEED] [-c CALLS] [-m BYTES] [-p] [-k]
 *     -m   approximate maximum size of a buffer (default 1 MiB)
 *     -p   a helper of each rank stops and continues it at random, to simulate hung peers
 *     -k   use only allreduces; the last rank kills itself at a random call. The others get errors
 *          from communicators with it, and continue with a communicator without it
 */
#include "soak_calls.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMS  6
#define WINDOW 8   /* maximum calls in flight */
#define RENEW  150 /* calls after which a communicator is replaced */

struct slot {
    struct soak_call call;
    bool open, busy;
};

static MPI_Comm comms[COMMS], without_last;
static struct slot slots[WINDOW];
static uint64_t shared, own; /* states of the random numbers: of all ranks, of this one */
static enum soak_what only = SOAK_WHATS;
static size_t most = 1 << 20;
static bool failed, agree, dies;
static char first_failure[700];

static void fail(const struct soak_call *call, const char *what, int code)
{
    if (!failed) {
        failed = true;
        snprintf(first_failure, sizeof first_failure, "rank %d: %s: %s %d", harness_rank,
                 soak_call_text(call), what, code);
        printf("# %s\n", first_failure);
        fflush(stdout);
        if (!dies) { /* others would wait for the next calls */
            printf("not ok - all results are right\n");
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
}

static void check(struct soak_call *call)
{
    const char *wrong = soak_call_check(call);

    if (wrong != NULL) {
        fail(call, wrong, 0);
    }
}

static void wait_for(struct soak_call *call)
{
    int code = MPI_Wait(&call->request, MPI_STATUS_IGNORE);

    if (code != MPI_SUCCESS) {
        fail(call, "MPI_Wait returned", code);
    } else {
        check(call);
    }
}

static void finish(struct slot *slot)
{
    if (slot->busy) {
        slot->busy = false;
        wait_for(&slot->call);
    }
    if (slot->open) {
        if (slot->call.request != MPI_REQUEST_NULL) {
            MPI_Request_free(&slot->call.request);
        }
        soak_call_close(&slot->call);
        slot->open = false;
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

/* Return a free slot. If there is none, complete a call in flight, which differs between ranks. */
static struct slot *free_slot(void)
{
    struct slot *slot = &slots[harness_draw(&own) % WINDOW];

    for (int i = 0; i < WINDOW && slot->busy; i++) {
        slot = slots[i].busy ? slot : &slots[i];
    }
    finish(slot);
    return slot;
}

static void start(struct slot *slot)
{
    struct soak_call *call = &slot->call;
    int code;

    soak_call_fill(call);
    slot->open = true;
    code = soak_call_make(call);
    if (code == MPI_SUCCESS && call->form == SOAK_BLOCKING) {
        check(call);
    } else if (code == MPI_SUCCESS && call->form == SOAK_PERSISTENT) {
        for (int i = call->number % 3; i > 0 && code == MPI_SUCCESS; i--) { /* some rounds, */
            code = MPI_Start(&call->request);
            if (code == MPI_SUCCESS) {
                wait_for(call);
                soak_call_fill(call);
            }
        }
        if (code == MPI_SUCCESS) {
            code = MPI_Start(&call->request); /* and one that remains in flight */
        }
    }
    slot->busy = code == MPI_SUCCESS && call->form != SOAK_BLOCKING;
    if (code != MPI_SUCCESS) {
        fail(call, "the call returned", code);
    }
}

/* Make a communicator of some ranks in any order. */
static void make_random(MPI_Comm *comm)
{
    int colour = MPI_UNDEFINED, key = 0, without = (int) (harness_draw(&shared) % 4);

    for (int r = 0; r < harness_size; r++) {
        int theirs = (int) (harness_draw(&shared) % 100);
        bool in = harness_draw(&shared) % 3 > 0 || without == 0;

        if (r == harness_rank && in) {
            colour = 0;
            key = theirs;
        }
    }
    MPI_Comm_split(MPI_COMM_WORLD, colour, key, comm);
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
    case 4:
        MPI_Comm_split(world, 0, -harness_rank, &comms[c]);
        break;
    default:
        make_random(&comms[c]);
        break;
    }
    if (comms[c] != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN);
    }
}

static void free_comm(int c)
{
    if (comms[c] != MPI_COMM_NULL) {
        MPI_Comm_free(&comms[c]);
    }
}

static void one_call(int number)
{
    struct soak_call call = {.number = number};
    struct slot *slot;

    call.comm_number = (int) (harness_draw(&shared) % COMMS);
    call.comm = comms[call.comm_number];
    soak_call_draw(&call, &shared, only, most);
    if (call.comm != MPI_COMM_NULL) {
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.size);
        slot = free_slot();
        slot->call = call;
        soak_call_open(&slot->call, &own, agree);
        start(slot);
    }
    if (number % RENEW == RENEW - 1) {
        int c = (int) (harness_draw(&shared) % COMMS);

        finish_all();
        free_comm(c);
        make_comm(c);
    }
}

/* Start a child that stops and continues this process at random until it ends. */
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

/* Continue without the last rank. Every other rank must have an error, and the rest of MPI must
 * work. */
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
    /* Each rank got its errors at different times. Without this barrier, the first call on the new
     * communicator could time out while it waits for the last rank. */
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

static void parse(int argc, char **argv, uint64_t *seed, int *calls, bool *pauses)
{
    int option;

    while ((option = getopt(argc, argv, "s:c:m:pk")) != -1) {
        switch (option) {
        case 's':
            *seed = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            *calls = atoi(optarg);
            break;
        case 'm':
            most = strtoull(optarg, NULL, 0);
            break;
        case 'p':
            *pauses = true;
            break;
        case 'k':
            dies = true;
            only = SOAK_ALLREDUCE;
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

int main(int argc, char **argv)
{
    const char *agrees = getenv("OMPI_MCA_coll_gpuring_agree");
    bool pauses = false;
    uint64_t seed = 1;
    int calls = 1000;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    parse(argc, argv, &seed, &calls, &pauses);
    shared = seed;
    own = seed + (uint64_t) harness_rank + 1;
    agree = agrees != NULL && strcmp(agrees, "always") == 0;
    for (int c = 0; c < COMMS; c++) {
        make_comm(c);
    }
    MPI_Comm_split(MPI_COMM_WORLD, harness_rank == harness_size - 1, 0, &without_last);
    if (pauses) {
        start_pauses();
    }
    if (dies) {
        survive(calls, (int) (harness_draw(&shared) % (uint64_t) calls));
    }
    for (int k = 0; k < calls && !failed; k++) {
        one_call(k);
    }
    finish_all();
    harness_check(!failed, "%d calls on %d communicators, seed %llu: %s", calls, COMMS,
                  (unsigned long long) seed, failed ? first_failure : "all results right");
    if (calls >= 100 && harness_have_component()) {
        harness_check(harness_pvar("coll_gpuring_calls") > calls / 8, "coll/gpuring served them");
    }
    for (int c = 0; c < COMMS; c++) {
        free_comm(c);
    }
    MPI_Comm_free(&without_last);
    return harness_finish();
}
