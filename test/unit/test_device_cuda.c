/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the CUDA device on the stand-in driver (test/standin): kinds of pointers, memory between
 * processes, plans that run as kernels on device memory, and the results of driver faults. None of
 * this is a result of a GPU. Every case runs in a separate process, because a driver stays loaded
 * for the life of a process.
 */
#include "test/unit/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/copy_rows.h"
#include "test/unit/cuda_ranks.h"

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
static int logged;
static bool hurried; /* seconds pass at every look at the clock */

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);
    static time_t passed;
    int failed;

    if (next == NULL) {
        *(void **) &next = dlsym(RTLD_NEXT, "clock_gettime");
    }
    failed = next(clock, now);
    if (failed == 0 && clock == CLOCK_MONOTONIC) {
        passed += hurried ? 1000 : 0;
        now->tv_sec += passed;
    }
    return failed;
}

static void kinds_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device *device;
    struct gpuring_pointer pointer;
    CUdeviceptr buffer;
    void *pinned = NULL;
    int on_stack = 0;

    pointer = ops->classify(NULL, &on_stack); /* the driver is not loaded yet */
    CUDA_REQUIRE(pointer.kind == GPURING_POINTER_HOST && pointer.ordinal == -1);
    driver = cuda_application_start(0, &buffer, 1 << 16);
    pointer = ops->classify(NULL, &on_stack);
    CUDA_REQUIRE(pointer.kind == GPURING_POINTER_HOST && pointer.ordinal == -1);
    pointer = ops->classify(NULL, (void *) (uintptr_t) (buffer + 12345));
    CUDA_REQUIRE(pointer.kind == GPURING_POINTER_DEVICE && pointer.ordinal == 0);
    device = cuda_attached(buffer);
    CUDA_REQUIRE(ops->alloc_pinned(device, 100, &pinned) == GPURING_OK);
    CUDA_REQUIRE(ops->classify(device, pinned).kind == GPURING_POINTER_REGISTERED);
    ops->free_pinned(device, pinned);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(pointers_are_told_apart)
{
    cuda_in_process("", kinds_body);
}

static void memory_body(void)
{
    CUdeviceptr buffer;
    const struct gpuring_cuda_driver *driver = cuda_application_start(0, &buffer, 1 << 16);
    struct gpuring_device *device = cuda_attached(buffer);
    struct gpuring_device_identity identity;
    uint8_t bytes[5000], back[5000];
    CUcontext before, after;
    void *memory, *table;

    CUDA_REQUIRE(ops->identity(device, &identity) == GPURING_OK);
    CUDA_REQUIRE(strcmp(identity.pci_bus_id, "0000:01:00.0") == 0 && identity.capability == 90);
    CUDA_REQUIRE(driver->ctx_current(&before) == CUDA_SUCCESS);
    CUDA_REQUIRE(ops->alloc(device, sizeof bytes, &memory) == GPURING_OK);
    cuda_copy(device, back, memory, sizeof back);
    for (size_t i = 0; i < sizeof back; i++) {
        CUDA_REQUIRE(back[i] == 0);
        bytes[i] = (uint8_t) (i * 7);
    }
    CUDA_REQUIRE(ops->alloc_table(device, sizeof bytes, &table) == GPURING_OK);
    CUDA_REQUIRE(ops->upload(device, table, bytes, sizeof bytes) == GPURING_OK);
    cuda_copy(device, back, table, sizeof back);
    CUDA_REQUIRE(memcmp(back, bytes, sizeof back) == 0);
    ops->unload(device, table);
    ops->free(device, memory);
    CUDA_REQUIRE(driver->ctx_current(&after) == CUDA_SUCCESS && before == after);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(memory_is_zeroed_and_contexts_stay)
{
    cuda_in_process("", memory_body);
}

/* Use a peer in the same process, where the driver would refuse to open the handle. */
static void rows_body(void)
{
    uint8_t from[7 * 130], to[7 * 300] = {0};
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device *device;
    struct gpuring_stream *stream;
    CUdeviceptr buffer;
    void *memory;

    driver = cuda_application_start(0, &buffer, 1 << 16);
    device = cuda_attached(buffer);
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t) (i * 7 % 251 + 1);
    }
    CUDA_REQUIRE(ops->alloc(device, 7 * 200, &memory) == GPURING_OK);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    CUDA_REQUIRE(copy_rows(ops, stream, memory, 200, from, 130, 100, 7) == GPURING_OK);
    CUDA_REQUIRE(copy_rows(ops, stream, to, 300, memory, 200, 100, 7) == GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    for (size_t i = 0; i < sizeof to; i++) {
        CUDA_REQUIRE(to[i] == (i % 300 < 100 ? from[i / 300 * 130 + i % 300] : 0));
    }
    ops->stream_destroy(stream);
    ops->free(device, memory);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(rows_are_copied_from_pitch_to_pitch)
{
    cuda_in_process("", rows_body);
}

#define COPIED 4096

static void check_copies(struct gpuring_device *device, struct gpuring_stream *stream, uint8_t *gpu)
{
    static const size_t sizes[] = {0, 1, 2, 3, 17, 1000, COPIED - 1};
    uint8_t from[COPIED], to[COPIED];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t b = 0; b < COPIED; b++) {
            from[b] = (uint8_t) (b * 11 + sizes[i]);
        }
        CUDA_REQUIRE(ops->copy(stream, gpu, from, COPIED) == GPURING_OK);
        CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
        memset(from, 0x5a, sizes[i]);
        CUDA_REQUIRE(ops->copy(stream, gpu, from, sizes[i]) == GPURING_OK);
        CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
        cuda_copy(device, to, gpu, COPIED);
        CUDA_REQUIRE(memcmp(from, to, COPIED) == 0);
    }
}

/* Copies of one row to the GPU wait 200 us. After a few of them, all small copies must have two
 * rows, although copies from the GPU in between do not wait. */
static void turns_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device *device;
    struct gpuring_stream *stream;
    long (*calls)(const char *symbol);
    uint8_t bytes[2] = {0};
    CUdeviceptr buffer;
    long plain, rows;
    void *gpu;

    driver = cuda_application_start(0, &buffer, 1 << 16);
    device = cuda_attached(buffer);
    cuda_find("gpuring_standin_calls", &calls);
    CUDA_REQUIRE(ops->alloc(device, COPIED, &gpu) == GPURING_OK);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    for (int i = 0; i < 8; i++) {
        CUDA_REQUIRE(i > 1 || calls("cuMemcpy2DAsync_v2") == 0);
        CUDA_REQUIRE(ops->copy(stream, gpu, bytes, sizeof bytes) == GPURING_OK);
        while (ops->copied(stream) == GPURING_AGAIN) {
            usleep(10);
        }
        CUDA_REQUIRE(ops->copy(stream, bytes, gpu, sizeof bytes) == GPURING_OK);
        CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    }
    plain = calls("cuMemcpyAsync");
    rows = calls("cuMemcpy2DAsync_v2");
    CUDA_REQUIRE(ops->copy(stream, gpu, bytes, sizeof bytes) == GPURING_OK);
    CUDA_REQUIRE(ops->copy(stream, gpu, bytes, 1) == GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    CUDA_REQUIRE(calls("cuMemcpy2DAsync_v2") == rows + 1);
    CUDA_REQUIRE(calls("cuMemcpyAsync") == plain + 1); /* one byte has no two rows */
    check_copies(device, stream, gpu);
    ops->stream_destroy(stream);
    ops->free(device, gpu);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(copies_that_wait_for_a_turn_get_two_rows)
{
    setenv("GPURING_STANDIN_TURN_US", "200", 1);
    setenv("GPURING_STANDIN_MPS", "0", 1);
    cuda_in_process("", turns_body);
    unsetenv("GPURING_STANDIN_MPS");
    unsetenv("GPURING_STANDIN_TURN_US");
}

static void export_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device_handle handle;
    struct gpuring_device *device;
    CUdeviceptr buffer;
    void *memory, *mapped = NULL;

    driver = cuda_application_start(0, &buffer, 64);
    device = cuda_attached(buffer);
    CUDA_REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_OK);
    /* A process that maps the memory must not get access to other memory, so no other memory may be
     * in the same 2 MiB unit of the driver. */
    CUDA_REQUIRE((uintptr_t) memory % (2 << 20) == 0);
    CUDA_REQUIRE(ops->export(device, memory, &handle) == GPURING_OK && handle.size == 2 << 20);
    /* The driver maps no memory twice, which would happen with memory of this process. */
    CUDA_REQUIRE(ops->import(device, &handle, &mapped) == GPURING_ERR_UNSUPPORTED);
    ops->free(device, memory);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(whole_units_are_exported)
{
    cuda_in_process("", export_body);
}

static void no_memory_body(void)
{
    struct gpuring_device *device;
    CUdeviceptr buffer;
    void *memory = NULL;

    (void) cuda_application_start(0, &buffer, 64);
    device = cuda_attached(buffer);
    CUDA_REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_ERR_NOMEM);
    CUDA_REQUIRE(memory == NULL && strstr(cuda_last_log, "[gpu-memory]") != NULL);
    CUDA_REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_OK); /* the next call works again */
    ops->free(device, memory);
    ops->close(device);
    CUDA_REQUIRE(gpuring_cuda_driver(true, NULL)->free(buffer) == CUDA_SUCCESS);
}

TEST(lack_of_device_memory_is_reported)
{
    cuda_in_process("cuMemAlloc_v2=2:2", no_memory_body); /* 2: CUDA_ERROR_OUT_OF_MEMORY */
}

static void no_driver_body(void)
{
    struct gpuring_device *device;
    struct gpuring_pointer pointer = {.kind = GPURING_POINTER_DEVICE, .ordinal = 0};

    cuda_load_driver();
    CUDA_REQUIRE(ops->open(&device) == GPURING_OK);
    CUDA_REQUIRE(ops->attach(device, &pointer) == GPURING_ERR_UNSUPPORTED);
    CUDA_REQUIRE(strstr(cuda_last_log, "[driver-start]") != NULL);
    /* Pointers are still classified, because the application may have started the driver. */
    CUDA_REQUIRE(gpuring_cuda_driver(true, NULL) != NULL);
    CUDA_REQUIRE(gpuring_cuda_driver(false, NULL) != NULL);
    ops->close(device);
}

TEST(a_driver_that_does_not_start_is_reported)
{
    cuda_in_process("cuInit=1", no_driver_body);
}

/* The component works with a driver before CUDA 11.7, which lacks some functions. */
static void older_driver_body(void)
{
    struct gpuring_device_nic access;
    struct gpuring_device *device;
    CUdeviceptr buffer;
    void *memory;

    (void) cuda_load_driver_without("cuMemGetHandleForAddressRange");
    setenv("GPURING_STANDIN_GDR", "3", 1);
    (void) cuda_application_start(0, &buffer, 64);
    device = cuda_attached(buffer);
    CUDA_REQUIRE(device != NULL);
    CUDA_REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_OK);
    CUDA_REQUIRE(ops->nic_access(device, memory, 2 << 20, &access) == GPURING_OK);
    CUDA_REQUIRE(access.dmabuf == -1);
    ops->free(device, memory);
    ops->close(device);
    CUDA_REQUIRE(gpuring_cuda_driver(true, NULL)->free(buffer) == CUDA_SUCCESS);
}

TEST(optional_entry_points_are_optional)
{
    cuda_in_process("", older_driver_body);
}

static void count_log(enum gpuring_log_level level, const char *text)
{
    (void) level;
    logged += strstr(text, "[driver-old]") != NULL;
}

/* Memory of a driver that cannot be used is still not host memory. */
static void useless_driver_body(void)
{
    void *handle = cuda_load_driver_without("cuDeviceGetUuid_v2");
    void *(*alloc)(const char *, int, size_t);
    void (*release)(void *);
    struct gpuring_pointer pointer;
    struct gpuring_device *device;
    int on_stack = 0;
    void *memory;

    *(void **) &alloc = dlsym(handle, "gpuring_standin_alloc");
    *(void **) &release = dlsym(handle, "gpuring_standin_free");
    gpuring_log_set(count_log, GPURING_LOG_WARN);
    memory = alloc("pool", 0, 64);
    for (int i = 0; i < 2; i++) {
        pointer = ops->classify(NULL, memory);
        CUDA_REQUIRE(gpuring_pointer_on_gpu(pointer.kind));
        CUDA_REQUIRE(ops->classify(NULL, &on_stack).kind == GPURING_POINTER_HOST);
        CUDA_REQUIRE(ops->open(&device) == GPURING_OK);
        CUDA_REQUIRE(ops->attach(device, &pointer) == GPURING_ERR_UNSUPPORTED);
        ops->close(device);
    }
    CUDA_REQUIRE(logged == 1);
    release(memory);
}

TEST(a_driver_that_cannot_be_used_makes_no_host_memory)
{
    cuda_in_process("", useless_driver_body);
}

/* Check that all ranks are connected and have right results, and that nothing is leaked. */
static void assert_clean(const struct cuda_scenario *scenario, const struct cuda_outcome *outcome)
{
    for (int r = 0; r < scenario->nranks; r++) {
        assert_int_equal(outcome->wired[r], GPURING_OK);
        assert_int_equal(outcome->reduced[r], GPURING_OK);
    }
    assert_string_equal(outcome->report, "");
}

TEST(processes_reduce_device_memory)
{
    for (int nranks = 2; nranks <= CUDA_MAX_RANKS; nranks++) {
        struct cuda_scenario scenario = {.nranks = nranks, .gpus = nranks - 1};
        struct cuda_outcome outcome;

        cuda_run(&scenario, &outcome);
        assert_clean(&scenario, &outcome);
        for (int r = 0; r < nranks; r++) {
            assert_string_equal(outcome.name[r], "peer");
            assert_string_equal(outcome.warning[r], "");
        }
    }
}

/* Run one kernel at a time, like processes that share a GPU without MPS. No kernel may wait for
 * ever. */
TEST(kernels_that_cannot_run_together_make_progress)
{
    char lock[] = "/tmp/gpuring-gpu.XXXXXX";
    struct cuda_scenario scenario = {.nranks = 2, .gpus = 1, .exclusive = lock};
    struct cuda_outcome outcome;
    int fd = mkstemp(lock);

    assert_true(fd >= 0);
    close(fd);
    cuda_run(&scenario, &outcome);
    unlink(lock);
    assert_clean(&scenario, &outcome);
    assert_true(outcome.resumed > 0); /* they made room for each other, which is counted */
}

/* Two GPUs map each other's memory, but writes are changed. This is detected before any data is
 * sent. */
TEST(memory_that_corrupts_is_not_used)
{
    struct cuda_scenario scenario = {.nranks = 2, .gpus = 2, .faults = {"corrupt=1", NULL}};
    struct cuda_outcome outcome;

    cuda_run(&scenario, &outcome);
    assert_clean(&scenario, &outcome);
    assert_string_equal(outcome.name[0], "staged");
    assert_string_equal(outcome.name[1], "staged");
    assert_non_null(strstr(outcome.warning[0], "GPU 0000:01:00.0 (rank 0)"));
    assert_non_null(strstr(outcome.warning[0], "GPU 0000:02:00.0 (rank 1"));
    assert_non_null(strstr(outcome.warning[0], "[peer-silent]"));
}

/* One rank receives torn lines of LL128. No rank of the plan uses LL128 then, and the pair keeps
 * its mapping. The result also applies to later communicators, which do not test again. */
TEST(torn_lines_turn_ll128_off)
{
    for (int gpus = 1; gpus <= 2; gpus++) {
        for (int twice = 0; twice < 2; twice++) {
            struct cuda_scenario scenario = {
                .nranks = 3, .gpus = gpus, .faults = {NULL, "torn=1"}, .twice = twice != 0};
            struct cuda_outcome outcome;

            cuda_run(&scenario, &outcome);
            assert_clean(&scenario, &outcome);
            assert_true(outcome.tears);
            for (int r = 0; r < 3; r++) {
                assert_string_equal(outcome.name[r], "peer");
                assert_int_equal(outcome.torn[r], r == 1 ? 2 : 0);
                assert_int_equal(strstr(outcome.warning[r], "[torn-lines]") != NULL, r == 1);
            }
        }
    }
}

/* One rank receives wrong lines of LL. Its pairs use host memory, and the others do not. */
TEST(wrong_lines_are_staged)
{
    struct cuda_scenario scenario = {
        .nranks = 3, .gpus = 2, .faults = {NULL, NULL, "wrong-ll=1"}, .twice = true};
    struct cuda_outcome outcome;

    cuda_run(&scenario, &outcome);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(outcome.wired[r], GPURING_OK);
        assert_string_equal(outcome.name[r], r == 2 ? "staged" : "peer+staged");
    }
    assert_non_null(strstr(outcome.warning[2], "[wrong-lines]"));
    assert_string_equal(outcome.report, "");
}

/* One pair of three cannot map each other's memory: only this pair uses host memory. */
TEST(peers_out_of_reach_are_staged)
{
    struct cuda_scenario scenario = {
        .nranks = 3, .gpus = 1, .faults = {"cuIpcOpenMemHandle_v2=1:201", NULL, NULL}};
    struct cuda_outcome outcome;

    cuda_run(&scenario, &outcome);
    assert_clean(&scenario, &outcome);
    assert_string_equal(outcome.name[0], "peer+staged");
    assert_string_equal(outcome.name[1], "peer+staged");
    assert_string_equal(outcome.name[2], "peer");
    assert_non_null(strstr(outcome.warning[0], "(rank 1,"));
    assert_non_null(strstr(outcome.warning[0], "[no-peer]"));
    assert_string_equal(outcome.warning[2], "");
}

/* Without peer access between GPUs, ranks of the same GPU still reach each other. */
TEST(refused_peer_access_is_staged)
{
    struct cuda_scenario scenario = {
        .nranks = 3, .gpus = 2, .faults = {"nopeer=1", "nopeer=1", "nopeer=1"}};
    struct cuda_outcome outcome;

    cuda_run(&scenario, &outcome);
    assert_clean(&scenario, &outcome);
    assert_string_equal(outcome.name[0], "peer+staged");
    assert_string_equal(outcome.name[1], "staged");
    assert_string_equal(outcome.name[2], "peer+staged");
}

TEST(slow_kernels_are_waited_for)
{
    struct cuda_scenario scenario = {.nranks = 2, .gpus = 1, .faults = {"slow=3000", NULL}};
    struct cuda_outcome outcome;

    cuda_run(&scenario, &outcome);
    assert_clean(&scenario, &outcome);
}

/* The probe's kernel waits too long for the application's kernel. It still writes
 * to peers when it finally runs, so nothing may be unmapped or freed before. */
TEST(late_probes_are_waited_for)
{
    struct cuda_scenario scenario = {
        .nranks = 2, .gpus = 2, .faults = {"slow=300000", "slow=300000"}};
    struct cuda_outcome outcome;

    hurried = true;
    cuda_run(&scenario, &outcome);
    hurried = false;
    assert_int_equal(outcome.wired[0], GPURING_ERR_TIMEOUT);
    assert_int_equal(outcome.wired[1], GPURING_ERR_TIMEOUT);
    assert_string_equal(outcome.report, "");
}

/* Every entry point fails at its n-th call on one rank. The ranks agree on
 * whether they are connected, results are right or an error is reported, and nothing is leaked. */
TEST(every_failing_call_is_survived)
{
    static const struct {
        const char *symbol;
        int most; /* calls that are tried; those that poll are without number */
    } calls[] = {
#define CALL(member, symbol, arguments) {#symbol, 40},
        GPURING_CUDA_CALLS(CALL)
#undef CALL
    };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int n = 1; n <= calls[i].most; n++) {
            char fault[64];
            struct cuda_scenario scenario = {.nranks = 2, .gpus = 1, .faults = {NULL, fault}};
            struct cuda_outcome outcome;

            if (strcmp(calls[i].symbol, "cuInit") == 0) {
                break; /* the application's own failure */
            }
            if (n > 3 && (strcmp(calls[i].symbol, "cuModuleGetFunction") == 0 ||
                          strcmp(calls[i].symbol, "cuFuncLoad") == 0)) {
                break; /* once for each kernel */
            }
            snprintf(fault, sizeof fault, "%s=%d:2", calls[i].symbol, n);
            cuda_run(&scenario, &outcome);
            if (outcome.report[0] != '\0') {
                fail_msg("%s: %s", fault, outcome.report);
            }
            assert_int_equal(outcome.wired[0] == GPURING_OK, outcome.wired[1] == GPURING_OK);
            if (outcome.unreached) {
                assert_clean(&scenario, &outcome);
                break;
            }
        }
    }
}

/* Break the context at the n-th launch, of the probe or of an operation. */
TEST(broken_contexts_are_reported)
{
    for (int n = 1; n <= 3; n++) {
        char fault[64];
        struct cuda_scenario scenario = {.nranks = 2, .gpus = 1, .faults = {NULL, fault}};
        struct cuda_outcome outcome;

        snprintf(fault, sizeof fault, "sticky=%d", n);
        cuda_run(&scenario, &outcome);
        assert_string_equal(outcome.report, "");
        assert_int_equal(outcome.wired[0] == GPURING_OK, outcome.wired[1] == GPURING_OK);
        assert_true(outcome.wired[1] != GPURING_OK || outcome.reduced[1] != GPURING_OK);
        assert_true(outcome.wired[0] != GPURING_OK || outcome.reduced[0] != GPURING_OK);
    }
}
