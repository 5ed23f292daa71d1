/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Run MPI_Allreduce, or staged collectives, on device memory while the stand-in driver
 * (test/standin) injects faults on one rank or on all. Each fault is tested on a new communicator,
 * from its first call until it is freed. A call must return the right result or an error, and never
 * hang. The communicator must release everything.
 *
 *   standin_faults [-s|-0] FAULT...
 *
 *   SYMBOL     each call of an entry point in the list below
 *   calls      each call of all these entry points
 *   contexts   contexts that are broken from the n-th launch on
 *   paths      slow kernels, and memory of other GPUs that is corrupted or refused
 *   late       a rank whose second call comes after the time limit of the others (2 s, by
 *              parameter)
 *   once       one-time setup of a process, with a different fault on each rank
 *   all        the first call of every entry point, on all ranks
 *
 *   -s         test staged collectives
 *   -0         inject faults on rank 0 (default: on the last rank)
 */
#include "standin_find.h"
#include "standin_trial.h"

#include <stdio.h>
#include <string.h>

static void verdict(const char *fault, bool must_be_right)
{
    harness_check(trial_seen.wrong == 0, "%s: no wrong result in %ld trials", fault,
                  trial_seen.trials);
    harness_check(trial_seen.leaks == 0, "%s: nothing left behind", fault);
    if (must_be_right) {
        harness_check(trial_seen.errors == 0, "%s: no error either", fault);
    }
}

static void every_call(const char *name, const char *code, int most, bool reported)
{
    char fault[96];
    int n = 1;

    trial_reset();
    do {
        snprintf(fault, sizeof fault, "%s=%d:%s", name, n, code);
    } while (trial_run(fault, false) && ++n <= most);
    verdict(name, false);
    harness_check(n > 1, "%s: is called at all", name);
    harness_check(!reported || trial_seen.unreported == 0, "%s: each failure is reported", name);
}

static void one_fault(const char *fault, bool everywhere, bool must_be_right)
{
    trial_reset();
    harness_check(trial_run(fault, everywhere), "%s at %s: strikes", fault,
                  everywhere ? "all ranks" : "one rank");
    verdict(fault, must_be_right);
}

/* Entry points: the injected error, the number of their calls to test if MPI calls are served and
 * if they are staged, and true if each failure must be reported to the user. */
static const struct {
    const char *name, *code;
    int most, most_staged;
    bool reported;
} calls[] = {
    {"cuMemAlloc_v2", "2", 50, 0, true},
    {"cuMemHostRegister_v2", "2", 50, 0, true},
    {"cuStreamCreateWithPriority", "2", 20, 0, true},
    {"cuIpcGetMemHandle", "201", 10, 0, true},
    {"cuIpcOpenMemHandle_v2", "217", 10, 0, false}, /* there is an alternative */
    {"cuMemcpyAsync", "700", 12, 12, true},
    {"cuMemcpy2DAsync_v2", "700", 0, 6, true},
    {"cuMemsetD8Async", "700", 6, 0, true},
    {"cuStreamSynchronize", "700", 12, 12, true},
    {"cuStreamQuery", "700", 0, 4, true}, /* for kernels, only if they take long */
    {"cuLaunchKernel", "719", 6, 0, true},
    {"cuEventCreate", "2", 4, 4, true},
    {"cuEventRecord", "700", 6, 6, true},
    {"cuStreamWaitEvent", "700", 6, 6, true},
    {"cuStreamIsCapturing", "906", 6, 6, false},  /* the legacy stream cannot be used then */
    {"cuEventDestroy_v2", "700", 4, 0, false},    /* all results are already there */
    {"cuPointerGetAttributes", "1", 6, 6, false}, /* the address of the buffer is enough */
    {"cuMemFree_v2", "700", 4, 0, true},
    {"cuMemHostUnregister", "700", 4, 0, true},
    {"cuStreamDestroy_v2", "700", 4, 0, false}, /* all results are already there */
    {"cuIpcCloseMemHandle", "1", 4, 0, true},
    {"cuCtxPushCurrent_v2", "201", 60, 60, false}, /* logged as a destroyed context */
    {"cuCtxPopCurrent_v2", "201", 4, 4, false},
    {"cuCtxGetId", "1", 20, 20, false}, /* only 201 and 709 mean that the context is destroyed */
    {"cuThreadExchangeStreamCaptureMode", "1", 20, 20, false}, /* no thread captures a stream */
    {"cuDeviceGetPCIBusId", "1", 4, 0, true},
    {"cuDeviceGetUuid_v2", "1", 4, 0, true},
    {"cuMemGetAddressRange_v2", "1", 6, 0, true},
    {"cuDeviceGetAttribute", "1", 6, 0, false}, /* an unknown attribute is treated as unsupported */
};

/* Faults in the one-time setup of a process when it sees the first GPU buffer. This list is for
 * buffers that belong to no context (GPURING_TEST_SORT=pool). The last fault also needs a current
 * context. */
static const char *const first_steps[] = {
    "cuInit=1:999",
    "cuDeviceGet=1:101",
    "cuStreamCreateWithPriority=1:2",
    "cuCtxPushCurrent_v2=1:201",
    "cuCtxGetCurrent=1:201",
    "cuDevicePrimaryCtxGetState=1:1",
    "cuDevicePrimaryCtxRetain=1:2",
    "cuDevicePrimaryCtxRelease_v2=1:1",
    "cuCtxGetDevice=1:201",
};
#define FIRST_STEPS ((int) (sizeof first_steps / sizeof *first_steps))
/* The same when the process launches its first kernels, in this order, and at the end. */
static const char *const later_steps[] = {"cuModuleLoadData=1:209", "cuModuleGetFunction=1:500",
                                          "cuModuleGetFunction=2:500", "cuFuncLoad=1:2"};
#define LATER_STEPS ((int) (sizeof later_steps / sizeof *later_steps))
static const char last_step[] = "cuModuleUnload=1:700";

/* Entry points without faults here, and the reason. */
static const struct {
    const char *name, *reason;
} elsewhere[] = {
    {"cuGetErrorName", "what messages are made of"},
    {"cuGetErrorString", "what messages are made of"},
    {"cuDeviceGetCount", "only tests and tools call it"},
    {"cuEventQuery", "only applications call it"},
    {"cuMemcpyPeerAsync", "needs several contexts: test_device_cuda"},
    {"cuPointerSetAttribute", "at the first sight of a buffer: test_device_cuda, test_memops"},
    {"cuCtxGetFlags", "of memory without a context: test_device_contexts"},
    {"cuCtxSetFlags", "of memory without a context: test_device_contexts, test_memops"},
    {"cuLaunchHostFunc", "of memory without a context: test_device_contexts"},
    {"cuStreamGetCtx", "of streams of the application: test_stream"},
    {"cuMemGetHandleForAddressRange", "needs a network device: test_transport_direct"},
    {"cuStreamGetPriority", "after many launches: test_gpu.sh"},
    {"cuGraphCreate", "the same"},
    {"cuGraphAddKernelNode", "the same"},
    {"cuGraphKernelNodeSetAttribute", "the same"},
    {"cuGraphInstantiateWithFlags", "the same"},
    {"cuGraphExecKernelNodeSetParams", "the same"},
    {"cuGraphLaunch", "like cuLaunchKernel, after many launches"},
    {"cuGraphExecDestroy", "the results are already there"},
    {"cuGraphDestroy", "the results are already there"},
};

static bool begins_with(const char *fault, const char *name)
{
    return strncmp(fault, name, strlen(name)) == 0 && fault[strlen(name)] == '=';
}

/* Return true if the entry point is in one of the lists. */
static bool is_listed(const char *name)
{
    bool found = begins_with(last_step, name);

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        found = found || strcmp(name, calls[i].name) == 0;
    }
    for (int i = 0; i < FIRST_STEPS; i++) {
        found = found || begins_with(first_steps[i], name);
    }
    for (int i = 0; i < LATER_STEPS; i++) {
        found = found || begins_with(later_steps[i], name);
    }
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        found = found || strcmp(name, elsewhere[i].name) == 0;
    }
    return found;
}

static void every_entry_point_is_listed(void)
{
    const char *name;

    for (int i = 0; (name = trial_driver.symbol(i)) != NULL; i++) {
        harness_check(is_listed(name), "%s: in a list of faults", name);
    }
}

/* Let each entry point fail at its first call on all ranks. */
static void all_ranks(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char fault[96];

        if (calls[i].most > 0) {
            snprintf(fault, sizeof fault, "%s=1:%s", calls[i].name, calls[i].code);
            one_fault(fault, true, false);
        }
    }
}

/* Test all entry points that have calls in this mode. */
static void all_calls(void)
{
    every_entry_point_is_listed();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int most = trial_staged ? calls[i].most_staged : calls[i].most;

        if (most > 0) {
            every_call(calls[i].name, calls[i].code, most, calls[i].reported);
        }
    }
}

/* Make the GPU's primary context current in the calling thread, or undo this. */
static bool use_context(bool use)
{
    int (*retain)(void **, int), (*push)(void *), (*pop)(void **), (*release)(int);
    void *context = NULL;

    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuDevicePrimaryCtxRelease_v2", &release);
    standin_find("cuCtxPushCurrent_v2", &push);
    standin_find("cuCtxPopCurrent_v2", &pop);
    return use ? retain(&context, 0) == 0 && push(context) == 0
               : pop(&context) == 0 && release(0) == 0;
}

/* Must run first. The first step fails in a different way on each rank, and then one rank cannot
 * load its kernels. All later calls must be served. */
static void once(void)
{
    int step = harness_rank % FIRST_STEPS;
    bool in_context = step == FIRST_STEPS - 1;
    long long served;

    harness_check(harness_size >= FIRST_STEPS, "a rank for each of %d first steps", FIRST_STEPS);
    harness_check(!in_context || use_context(true), "a context is made current where one must be");
    trial_reset();
    harness_check(trial_here(first_steps[step], false), "every rank's first step fails");
    harness_check(!in_context || use_context(false), "and is still current afterwards");
    verdict("the first step", false);
    for (int i = 0; i < LATER_STEPS; i++) {
        one_fault(later_steps[i], false, false);
    }
    trial_reset();
    served = harness_pvar("coll_gpuring_calls");
    trial_run("", true);
    verdict("afterwards", true);
    harness_check(harness_pvar("coll_gpuring_calls") - served == trial_calls, "all is served then");
    trial_driver.arm(last_step);
}

/* Break contexts during probes, operations and staging. At least the rank whose GPU has failed must
 * get an error. */
static void contexts(void)
{
    static const char *const name[] = {"cuMemcpyAsync", "cuStreamSynchronize",
                                       "cuPointerGetAttributes", "cuStreamCreateWithPriority",
                                       "cuMemAlloc_v2"};
    char fault[64];
    bool culprit = harness_rank == trial_culprit;

    for (int n = 1; n <= 4 && !trial_staged; n++) {
        snprintf(fault, sizeof fault, "sticky=%d", n);
        one_fault(fault, false, false);
        harness_check(trial_seen.errors > 0, "%s: an error at every rank", fault);
    }
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        for (int n = 1; n <= (trial_staged ? 12 : 3); n++) {
            trial_reset();
            snprintf(fault, sizeof fault, "%s=%d:700:sticky", name[i], n);
            if (!trial_run(fault, false)) {
                break;
            }
            verdict(fault, false);
            harness_check(trial_seen.errors > 0 || trial_seen.at_release || !culprit,
                          "%s: an error where it struck", fault);
        }
    }
}

static void paths(void)
{
    one_fault("slow=20000", false, true);
    one_fault("nopeer=1", false, true);
    one_fault("corrupt=1", false, true);
    one_fault("corrupt=1", true, true);
    one_fault("nopeer=1", true, true);
}

/* The others give up while they wait for messages of the rank, which connects them for small calls.
 * All must be released even so, and late messages must not reach the next communicator. */
static void late(void)
{
    trial_reset();
    trial_is_late = true;
    trial_run("", true);
    verdict("a late rank", false);
    harness_check(trial_seen.errors > 0, "a late rank: an error at every rank");
    trial_is_late = false;
    trial_reset();
    trial_run("", true);
    verdict("after a late rank", true);
}

static void named(const char *name)
{
    if (strcmp(name, "late") == 0) {
        late();
        return;
    }
    if (strcmp(name, "calls") == 0) {
        all_calls();
        return;
    }
    if (strcmp(name, "all") == 0) {
        all_ranks();
        return;
    }
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
            every_call(name, calls[i].code, trial_staged ? calls[i].most_staged : calls[i].most,
                       calls[i].reported);
            return;
        }
    }
    harness_check(false, "there is no fault %s here", name);
}

/* Run all calls without faults, and record the objects that the process keeps. */
static void warm_up(void)
{
    long long served;

    trial_run("", true);                        /* one-time setup of served calls */
    trial_run("cuIpcGetMemHandle=1:201", true); /* one-time setup of failures and staged calls */
    trial_is_usual();
    trial_reset();
    served = harness_pvar("coll_gpuring_calls");
    trial_run("", true);
    verdict("no fault", true);
    served = harness_pvar("coll_gpuring_calls") - served;
    harness_check(served == (trial_staged ? 0 : trial_calls) &&
                      (!trial_staged || harness_pvar("coll_gpuring_staged") > 0),
                  trial_staged ? "coll/gpuring stages" : "coll/gpuring serves");
}

int main(int argc, char **argv)
{
    bool staged = argc > 1 && strcmp(argv[1], "-s") == 0;
    bool first = argc > 1 && strcmp(argv[1], "-0") == 0;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    trial_start(staged);
    if (argc > 1 && strcmp(argv[1], "once") == 0) {
        once();
    } else {
        warm_up();
        trial_culprit = first ? 0 : trial_culprit;
        for (int i = staged || first ? 2 : 1; i < argc; i++) {
            named(argv[i]);
        }
    }
    trial_finish();
    return harness_finish();
}
