/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * MPI_Allreduce, or collectives that are staged, on device memory while the stand-in driver
 * (test/standin) fails: every entry point at its n-th call, broken contexts, slow kernels,
 * corrupted and refused peer memory, at one rank or at all. Each fault meets a communicator from
 * its first call to its end. A call must return the right result or an error, never hang, and the
 * communicator must leave nothing behind.
 *
 *   standin_faults [-s] FAULT...   an entry point of the list below (at each of its calls),
 * contexts (broken from the n-th launch on), paths (slow kernels, memory of other GPUs that is
 * changed or refused); -s: staged collectives
 */
#include "harness.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 4

static const int counts[ROUNDS] = {40000, 3, 20000, 20000};
static bool staged;
static float *input[ROUNDS], *output[ROUNDS], *host;

static void (*arm)(const char *list);
static int (*reached)(void);
static long (*held)(void);
static long usual =
    LONG_MAX; /* what a process holds for good, such as what calls are staged through */

static struct {
    long trials, errors, wrong, leaks, unreached;
} seen;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        printf("Bail out! the driver is not the stand-in: it has no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return found;
}

static void find_standin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;

    if (library == NULL) {
        printf("Bail out! no driver is loaded\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    found = symbol(library, "gpuring_standin_arm");
    memcpy(&arm, &found, sizeof found);
    found = symbol(library, "gpuring_standin_reached");
    memcpy(&reached, &found, sizeof found);
    found = symbol(library, "gpuring_standin_held");
    memcpy(&held, &found, sizeof found);
}

static float contribution(int rank, int round, int i)
{
    return (float) (rank + 2 * round + i % 50);
}

static void prepare(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t) counts[round] * sizeof(float);

        for (int i = 0; i < counts[round]; i++) {
            host[i] = contribution(harness_rank, round, i);
        }
        harness_write(input[round], host, bytes);
        memset(host, 0xff, bytes);
        harness_write(output[round], host, bytes);
    }
}

/* What a call of this round does: fold the contributions of ranks 0 .. this one. */
static int last_contributor(int round)
{
    return staged && (round == 1 || round == 2) ? harness_rank : harness_size - 1;
}

/* The contributions begin with this rank's. */
static int first_contributor(int round)
{
    return staged && round == 0 ? harness_size - 1 : 0;
}

static int is_wrong(int round)
{
    harness_read(host, output[round], (size_t) counts[round] * sizeof(float));
    for (int i = 0; i < counts[round]; i++) {
        float expected = 0;

        for (int rank = first_contributor(round); rank <= last_contributor(round); rank++) {
            expected += contribution(rank, round, i);
        }
        if (host[i] != expected) {
            return 1;
        }
    }
    return 0;
}

static int call_staged(int round, MPI_Comm comm)
{
    MPI_Request request;
    int status, waited;

    switch (round) {
    case 0: /* in chunks */
        return MPI_Bcast(harness_rank == harness_size - 1 ? input[0] : output[0], counts[0],
                         MPI_FLOAT, harness_size - 1, comm);
    case 1:
        return MPI_Scan(input[1], output[1], counts[1], MPI_FLOAT, MPI_SUM, comm);
    case 2:
        status = MPI_Iscan(input[2], output[2], counts[2], MPI_FLOAT, MPI_SUM, comm, &request);
        waited = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
        return waited;
    default: /* in chunks */
        return MPI_Reduce(input[3], output[3], counts[3], MPI_FLOAT, MPI_SUM, 0, comm);
    }
}

static int call(int round, MPI_Comm comm)
{
    return staged ? call_staged(round, comm)
                  : MPI_Allreduce(input[round], output[round], counts[round], MPI_FLOAT, MPI_SUM,
                                  comm);
}

/* Is there a result to look at? */
static bool has_result(int round, const char *fault)
{
    /* A small staged call cannot tell the others that what came from here is void. */
    if (staged && (round == 1 || round == 2) && strstr(fault, "sticky") != NULL) {
        return false;
    }
    return !staged || (round == 0 && harness_rank != harness_size - 1) || round == 1 ||
           round == 2 || (round == 3 && harness_rank == 0);
}

/* One communicator with this fault on the ranks that `everywhere` says; 1 if it was reached. */
static int trial(const char *fault, bool everywhere)
{
    int culprit = harness_size - 1, struck, status[ROUNDS];
    MPI_Comm comm;

    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    arm(everywhere || harness_rank == culprit ? fault : NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int round = 0; round < ROUNDS; round++) {
        status[round] = call(round, comm);
    }
    if (everywhere && harness_rank == 0) {
        usleep(20000); /* so that others give back first what is mapped here */
    }
    MPI_Comm_free(&comm);
    struck = reached();
    arm(NULL);
    seen.trials++;
    for (int round = 0; round < ROUNDS; round++) {
        if (status[round] != MPI_SUCCESS) {
            seen.errors++;
        } else if (has_result(round, fault) && is_wrong(round)) {
            seen.wrong++;
            printf("# rank %d: %s: call %d returned success and wrong data\n", harness_rank, fault,
                   round + 1);
        }
    }
    /* One region may be kept until its peers have unmapped it, which the next communicator sees. */
    if (held() > usual + 1) {
        seen.leaks++;
        printf("# rank %d: %s: %ld things more are held than before\n", harness_rank, fault,
               held() - usual - 1);
    }
    MPI_Bcast(&struck, 1, MPI_INT, culprit, MPI_COMM_WORLD);
    seen.unreached += !struck;
    return struck;
}

static void reset(void)
{
    memset(&seen, 0, sizeof seen);
}

static void verdict(const char *fault, bool must_be_right)
{
    harness_check(seen.wrong == 0, "%s: no wrong result in %ld trials", fault, seen.trials);
    harness_check(seen.leaks == 0, "%s: nothing left behind", fault);
    if (must_be_right) {
        harness_check(seen.errors == 0, "%s: no error either", fault);
    }
}

static void every_call(const char *name, const char *code, int most)
{
    char fault[96];
    int n = 1;

    reset();
    do {
        snprintf(fault, sizeof fault, "%s=%d:%s", name, n, code);
    } while (trial(fault, false) && ++n <= most);
    verdict(name, false);
    harness_check(n > 1, "%s: is called at all", name);
}

static void one_fault(const char *fault, bool everywhere, bool must_be_right)
{
    reset();
    harness_check(trial(fault, everywhere), "%s at %s: strikes", fault,
                  everywhere ? "all ranks" : "one rank");
    verdict(fault, must_be_right);
}

/* Entry points, the error that they answer with, and how many of their calls are tried. */
static const struct {
    const char *name, *code;
    int most;
} calls[] = {
    {"cuMemAlloc_v2", "2", 50},           {"cuMemHostAlloc", "2", 50},
    {"cuMemHostRegister_v2", "2", 20},    {"cuStreamCreate", "2", 20},
    {"cuEventCreate", "2", 20},           {"cuIpcGetMemHandle", "201", 10},
    {"cuIpcOpenMemHandle_v2", "217", 10}, {"cuMemcpyAsync", "700", 12},
    {"cuMemsetD8Async", "700", 6},        {"cuStreamSynchronize", "700", 12},
    {"cuEventRecord", "700", 6},          {"cuEventQuery", "719", 6},
    {"cuLaunchKernel", "719", 6},         {"cuPointerGetAttributes", "1", 6},
    {"cuMemFree_v2", "700", 4},           {"cuMemFreeHost", "700", 4},
    {"cuStreamDestroy_v2", "700", 4},     {"cuIpcCloseMemHandle", "1", 4},
    {"cuCtxPushCurrent_v2", "201", 60},   {"cuCtxPopCurrent_v2", "201", 4},
    {"cuStreamQuery", "700", 4},          {"cuDeviceGetPCIBusId", "1", 4},
    {"cuDeviceGetUuid_v2", "1", 4},       {"cuMemGetAddressRange_v2", "1", 6},
    {"cuModuleGetFunction", "500", 4},    {"cuDeviceGetAttribute", "1", 6},
};

/* Of the probe, of an operation, and of what calls are staged with; the error must be told to the
 * rank at least whose GPU has failed. */
static void contexts(void)
{
    static const char *const name[] = {"cuMemcpyAsync", "cuStreamSynchronize",
                                       "cuPointerGetAttributes", "cuStreamCreate", "cuMemAlloc_v2"};
    char fault[64];
    int culprit = harness_rank == harness_size - 1;

    for (int n = 1; n <= 4 && !staged; n++) {
        snprintf(fault, sizeof fault, "sticky=%d", n);
        one_fault(fault, false, false);
        harness_check(seen.errors > 0, "%s: an error at every rank", fault);
    }
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        for (int n = 1; n <= (staged ? 12 : 3); n++) {
            reset();
            snprintf(fault, sizeof fault, "%s=%d:700:sticky", name[i], n);
            if (!trial(fault, false)) {
                break;
            }
            verdict(fault, false);
            harness_check(seen.errors > 0 || !culprit, "%s: an error where it struck", fault);
        }
    }
}

static void paths(void)
{
    one_fault("slow=20000", false, true);
    one_fault("corrupt=1", false, true);
    one_fault("corrupt=1", true, true);
    one_fault("nopeer=1", true, true);
}

static void named(const char *name)
{
    if (strcmp(name, "contexts") == 0) {
        contexts();
        return;
    }
    if (strcmp(name, "paths") == 0) {
        paths();
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(name, calls[i].name) == 0) {
            every_call(name, calls[i].code, calls[i].most);
            return;
        }
    }
    harness_check(false, "there is no fault %s here", name);
}

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    host = malloc((size_t) counts[0] * sizeof *host);
    for (int round = 0; round < ROUNDS; round++) {
        input[round] = harness_alloc((size_t) counts[round] * sizeof(float));
        output[round] = harness_alloc((size_t) counts[round] * sizeof(float));
    }
    staged = argc > 1 && strcmp(argv[1], "-s") == 0;
    find_standin();
    trial("", true);                         /* what a process makes once: by calls that */
    trial("cuIpcGetMemHandle=1:201", false); /* are served, and by those that are staged */
    usual = held();
    reset();
    trial("", true);
    verdict("no fault", true);
    harness_check(harness_pvar("coll_gpuring_calls") == (staged ? 0 : 2 * ROUNDS) &&
                      (!staged || harness_pvar("coll_gpuring_staged") > 0),
                  staged ? "coll/gpuring stages" : "coll/gpuring serves");
    for (int i = staged ? 2 : 1; i < argc; i++) {
        named(argv[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        harness_free(input[round]);
        harness_free(output[round]);
    }
    free(host);
    return harness_finish();
}
