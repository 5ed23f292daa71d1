/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the CUDA device in an application with several contexts, on the stand-in driver: memory of
 * contexts other than its own, and the destruction of its own context. Every case runs in a
 * separate process.
 */
#include "test/unit/unit.h"

#include <sched.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/copy_rows.h"
#include "test/unit/cuda_ranks.h"

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
static void (*end_context)(void *context);
static CUcontext other_context;

/* Allocate memory in a new context of GPU 0 in addition to the primary one. */
static CUdeviceptr alloc_in_another(const struct gpuring_cuda_driver *driver, size_t bytes)
{
    void *(*make)(int gpu);
    CUdeviceptr memory;
    CUcontext popped;

    cuda_find("gpuring_standin_context", &make);
    cuda_find("gpuring_standin_context_end", &end_context);
    other_context = make(0);
    CUDA_REQUIRE(driver->ctx_push(other_context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->alloc(&memory, bytes) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_pop(&popped) == CUDA_SUCCESS);
    return memory;
}

static void contexts_body(void)
{
    uint8_t from[3000], to[3000] = {0};
    const struct gpuring_cuda_driver *driver;
    struct gpuring_pointer mine, other;
    struct gpuring_stream *stream;
    struct gpuring_device *device;
    CUdeviceptr buffer, memory;
    CUcontext before, after;
    void *p, *q;

    driver = cuda_application_start(0, &buffer, sizeof from);
    device = cuda_attached(buffer);
    memory = alloc_in_another(driver, sizeof from);
    p = (void *) (uintptr_t) buffer;
    q = (void *) (uintptr_t) memory;
    mine = ops->classify(device, p);
    other = ops->classify(device, q);
    CUDA_REQUIRE(ops->reaches(device, &mine) && !ops->reaches(device, &other));
    CUDA_REQUIRE(driver->ctx_current(&before) == CUDA_SUCCESS);
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t) (i * 7 % 251 + 1);
    }
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    CUDA_REQUIRE(ops->copy(stream, q, from, sizeof from) == GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    CUDA_REQUIRE(ops->copy(stream, p, q, sizeof from) == GPURING_OK);
    CUDA_REQUIRE(copy_rows(ops, stream, to, 1000, p, 1000, 500, 3) == GPURING_OK);
    while (ops->copied(stream) == GPURING_AGAIN) {
        sched_yield();
    }
    CUDA_REQUIRE(copy_rows(ops, stream, (uint8_t *) p + 500, 1000, (uint8_t *) q + 500, 1000, 500,
                           3) == GPURING_OK);
    CUDA_REQUIRE(copy_rows(ops, stream, to + 500, 1000, (uint8_t *) q + 500, 1000, 500, 3) ==
                 GPURING_OK);
    while (ops->copied(stream) == GPURING_AGAIN) {
        sched_yield();
    }
    CUDA_REQUIRE(memcmp(from, to, sizeof from) == 0);
    end_context(other_context); /* nothing in that context exists afterwards */
    CUDA_REQUIRE(ops->copy(stream, to, p, sizeof to) == GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    CUDA_REQUIRE(memcmp(from, to, sizeof from) == 0);
    ops->stream_destroy(stream);
    CUDA_REQUIRE(driver->ctx_current(&after) == CUDA_SUCCESS && before == after);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(memory_of_other_contexts_is_copied)
{
    cuda_in_process("", contexts_body);
}

/* Let an entry point fail at its n-th call, with copies between contexts. */
static void failing_copies_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_stream *stream = NULL;
    struct gpuring_device *device;
    CUdeviceptr buffer, memory;
    uint8_t bytes[100];
    int started, ended;
    void *p, *q;

    driver = cuda_application_start(0, &buffer, sizeof bytes);
    device = cuda_attached(buffer);
    memory = alloc_in_another(driver, sizeof bytes);
    p = (void *) (uintptr_t) buffer;
    q = (void *) (uintptr_t) memory;
    (void) ops->classify(device, q);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    for (int copy = 0; copy < 3; copy++) {
        started = copy == 0   ? ops->copy(stream, q, bytes, sizeof bytes)
                  : copy == 1 ? ops->copy(stream, p, q, sizeof bytes)
                              : copy_rows(ops, stream, p, 10, q, 10, 10, 2);
        ended = started == GPURING_OK ? ops->synchronize(stream) : started;
        CUDA_REQUIRE(ended <= GPURING_OK);
    }
    ops->stream_destroy(stream);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
    end_context(other_context);
}

TEST(failing_copies_between_contexts_are_survived)
{
    /* Calls of the application and of the attachment come first. */
    cuda_in_process("cuStreamCreateWithPriority=3:2", failing_copies_body);
    cuda_in_process("cuMemcpyAsync=1:700", failing_copies_body);
    cuda_in_process("cuMemcpyPeerAsync=1:700", failing_copies_body);
    cuda_in_process("cuMemcpyPeerAsync=3:700", failing_copies_body);
    cuda_in_process("cuStreamSynchronize=1:700", failing_copies_body);
    cuda_in_process("cuCtxPushCurrent_v2=5:201", failing_copies_body); /* at the first sight */
    cuda_in_process("cuCtxPushCurrent_v2=7:201", failing_copies_body);
    cuda_in_process("cuCtxPushCurrent_v2=8:201", failing_copies_body);
}

static long (*calls)(const char *symbol);

/* Count the driver calls that classify memory, and the waits among them. */
static long calls_to_classify(struct gpuring_device *device, void *memory, long *waits)
{
    long all = calls(NULL);

    *waits = calls("cuLaunchHostFunc");
    CUDA_REQUIRE(gpuring_pointer_on_gpu(ops->classify(device, memory).kind));
    *waits = calls("cuLaunchHostFunc") - *waits;
    return calls(NULL) - all;
}

static unsigned int flags_of(const struct gpuring_cuda_driver *driver, CUcontext context)
{
    unsigned int flags;

    CUDA_REQUIRE(driver->ctx_push(context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_flags(&flags) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_pop(&context) == CUDA_SUCCESS);
    return flags;
}

/* Runs while another thread captures a stream. The report would show it if the capture were
 * disturbed. */
static void first_sight_body(void)
{
    const struct gpuring_cuda_driver *driver;
    void *(*alloc)(const char *, int, size_t), (*release)(void *), (*capture)(int);
    CUdeviceptr buffer, memory;
    CUcontext primary;
    long waits;
    void *pool;

    driver = cuda_application_start(0, &buffer, 64);
    CUDA_REQUIRE(driver->ctx_current(&primary) == CUDA_SUCCESS);
    memory = alloc_in_another(driver, 64);
    cuda_find("gpuring_standin_alloc", &alloc);
    cuda_find("gpuring_standin_free", &release);
    cuda_find("gpuring_standin_calls", &calls);
    cuda_find("gpuring_standin_capture", &capture);
    pool = alloc("pool", 0, 64);
    CUDA_REQUIRE(driver->ctx_set_flags(CU_CTX_SCHED_YIELD) == CUDA_SUCCESS);
    capture(1);
    CUDA_REQUIRE(calls_to_classify(NULL, (void *) (uintptr_t) memory, &waits) > 1 && waits == 0);
    CUDA_REQUIRE(calls_to_classify(NULL, (void *) (uintptr_t) memory, &waits) == 1);
    CUDA_REQUIRE(flags_of(driver, primary) == CU_CTX_SCHED_YIELD);
    (void) calls_to_classify(NULL, pool, &waits);
    CUDA_REQUIRE(waits == 1); /* for work that began before the flag was set */
    CUDA_REQUIRE(flags_of(driver, primary) == (CU_CTX_SCHED_YIELD | GPURING_CUDA_SYNC_MEMOPS));
    CUDA_REQUIRE(calls_to_classify(NULL, pool, &waits) == 4 && waits == 0);
    /* It may also be used in another context, or in none. */
    CUDA_REQUIRE(driver->ctx_push(other_context) == CUDA_SUCCESS);
    (void) calls_to_classify(NULL, pool, &waits);
    CUDA_REQUIRE(waits == 1);
    CUDA_REQUIRE(driver->ctx_pop(&other_context) == CUDA_SUCCESS);
    CUDA_REQUIRE(flags_of(driver, other_context) == GPURING_CUDA_SYNC_MEMOPS);
    CUDA_REQUIRE(driver->ctx_pop(&primary) == CUDA_SUCCESS);
    (void) calls_to_classify(NULL, pool, &waits);
    CUDA_REQUIRE(waits == 0);
    CUDA_REQUIRE(driver->ctx_push(primary) == CUDA_SUCCESS);
    capture(0);
    release(pool);
    end_context(other_context);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

static const char *lacking;

static void without_body(void)
{
    const struct gpuring_cuda_driver *driver;
    void *(*alloc)(const char *, int, size_t), (*release)(void *);
    CUdeviceptr buffer;
    long waits;
    void *pool;

    (void) cuda_load_driver_without(lacking);
    driver = cuda_application_start(0, &buffer, 64);
    cuda_find("gpuring_standin_alloc", &alloc);
    cuda_find("gpuring_standin_free", &release);
    cuda_find("gpuring_standin_calls", &calls);
    pool = alloc("pool", 0, 64);
    for (int i = 0; i < 2; i++) {
        long syncs = calls("cuStreamSynchronize");

        (void) calls_to_classify(NULL, pool, &waits);
        syncs = calls("cuStreamSynchronize") - syncs;
        CUDA_REQUIRE(syncs == (i == 0 || strstr(lacking, "CtxSet") != NULL ||
                               strstr(lacking, "CtxGet") != NULL));
        (void) calls_to_classify(NULL, (void *) (uintptr_t) buffer, &waits);
    }
    release(pool);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(synchronous_operations_end_before_their_return)
{
    static const char *const optional[] = {"cuPointerSetAttribute", "cuCtxGetFlags",
                                           "cuCtxSetFlags", "cuLaunchHostFunc"};

    cuda_in_process("", first_sight_body);
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        lacking = optional[i];
        cuda_in_process("", without_body);
    }
}

static void destroyed_body(void)
{
    static uint8_t page[4096] __attribute__((aligned(4096)));
    const struct gpuring_cuda_driver *driver;
    struct gpuring_stream *stream, *later;
    struct gpuring_device *device;
    CUdeviceptr buffer, memory;
    uint8_t *pinned;
    void *mine, *at;

    driver = cuda_application_start(0, &buffer, 64);
    memory = alloc_in_another(driver, 64);
    device = cuda_attached(memory);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    CUDA_REQUIRE(ops->alloc(device, 4096, &mine) == GPURING_OK);
    CUDA_REQUIRE(ops->alloc_pinned(device, 5000, &at) == GPURING_OK);
    CUDA_REQUIRE(ops->reach(device, page, sizeof page) == GPURING_OK);
    pinned = at;
    CUDA_REQUIRE(pinned[0] == 0 && pinned[4999] == 0);
    end_context(other_context);
    CUDA_REQUIRE(ops->copy(stream, pinned, mine, 10) == GPURING_ERR_CONTEXT);
    CUDA_REQUIRE(strstr(cuda_last_log, "[context-destroyed]") != NULL);
    cuda_last_log[0] = '\0';
    CUDA_REQUIRE(ops->alloc(device, 4096, &at) == GPURING_ERR_CONTEXT);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_ERR_CONTEXT);
    CUDA_REQUIRE(ops->copied(stream) == GPURING_ERR_CONTEXT);
    CUDA_REQUIRE(!ops->stream_works(stream));
    pinned[4999] = 1; /* the host may go on with it */
    /* Buffers of other contexts are still copied, on streams that are created now. */
    CUDA_REQUIRE(ops->stream_create(device, &later) == GPURING_OK && ops->stream_works(later));
    memset(pinned, 7, 64);
    CUDA_REQUIRE(ops->copy(later, (void *) (uintptr_t) buffer, pinned, 64) == GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(later) == GPURING_OK);
    memset(pinned, 0, 64);
    CUDA_REQUIRE(ops->copy(later, pinned, (void *) (uintptr_t) buffer, 64) == GPURING_OK);
    CUDA_REQUIRE(ops->copied(later) == GPURING_OK && pinned[0] == 7 && pinned[63] == 7);
    ops->stream_destroy(later);
    ops->stream_destroy(stream);
    ops->free(device, mine);
    ops->free_pinned(device, pinned);
    ops->unreach(device, page);
    ops->close(device);
    CUDA_REQUIRE(cuda_last_log[0] == '\0'); /* the message is logged once */
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

/* Nothing is logged while memory is only released. A use is logged. */
static void given_back_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_stream *stream, *later;
    struct gpuring_device *device;
    CUdeviceptr buffer, memory;
    void *mine, *pinned;

    driver = cuda_application_start(0, &buffer, 64);
    memory = alloc_in_another(driver, 64);
    device = cuda_attached(memory);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    CUDA_REQUIRE(ops->alloc(device, 4096, &mine) == GPURING_OK);
    CUDA_REQUIRE(ops->alloc_pinned(device, 5000, &pinned) == GPURING_OK);
    CUDA_REQUIRE(ops->copy(stream, mine, pinned, 5000) == GPURING_OK);
    end_context(other_context);
    cuda_last_log[0] = '\0';
    ops->stream_destroy(stream);
    ops->free(device, mine);
    ops->free_pinned(device, pinned);
    CUDA_REQUIRE(cuda_last_log[0] == '\0');
    CUDA_REQUIRE(ops->stream_create(device, &later) == GPURING_OK);
    CUDA_REQUIRE(strstr(cuda_last_log, "[context-destroyed]") != NULL);
    ops->stream_destroy(later);
    ops->close(device);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

/* Reset the primary context like cudaDeviceReset, so that its handle stays the same. */
static void reset_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_stream *stream, *later;
    struct gpuring_device *device;
    CUdeviceptr buffer;
    unsigned int flags;
    int active = 1;

    if (lacking != NULL) {
        (void) cuda_load_driver_without(lacking);
    }
    driver = cuda_application_start(0, &buffer, 64);
    device = cuda_attached(buffer);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    while (driver->primary_state(0, &flags, &active) == CUDA_SUCCESS && active) {
        CUDA_REQUIRE(driver->primary_release(0) == CUDA_SUCCESS);
    }
    cuda_last_log[0] = '\0';
    ops->stream_destroy(stream);
    CUDA_REQUIRE(cuda_last_log[0] == '\0');
    CUDA_REQUIRE(ops->stream_create(device, &later) == GPURING_OK);
    CUDA_REQUIRE(strstr(cuda_last_log, "[context-destroyed]") != NULL);
    ops->stream_destroy(later);
    ops->close(device);
}

TEST(a_destroyed_context_is_an_error)
{
    cuda_in_process("", destroyed_body);
    cuda_in_process("", given_back_body);
    lacking = NULL;
    cuda_in_process("", reset_body);
    lacking = "cuCtxGetId";
    cuda_in_process("", reset_body);
}

/* Use host memory that is registered in a context other than the device's. */
static void registered_body(void)
{
    static uint8_t memory[5000];
    const struct gpuring_cuda_driver *driver;
    struct gpuring_stream *stream;
    struct gpuring_device *device;
    CUdeviceptr buffer, other;
    CUcontext popped;

    driver = cuda_application_start(0, &buffer, sizeof memory);
    device = cuda_attached(buffer);
    other = alloc_in_another(driver, 64);
    CUDA_REQUIRE(driver->ctx_push(other_context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->host_register(memory, sizeof memory, 0) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_pop(&popped) == CUDA_SUCCESS);
    (void) ops->classify(device, (void *) (uintptr_t) other); /* copies look from now on */
    memset(memory, 'a', sizeof memory);
    CUDA_REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    CUDA_REQUIRE(ops->copy(stream, (void *) (uintptr_t) buffer, memory, sizeof memory) ==
                 GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    memset(memory, 'b', sizeof memory);
    CUDA_REQUIRE(ops->copy(stream, memory, (void *) (uintptr_t) buffer, sizeof memory) ==
                 GPURING_OK);
    CUDA_REQUIRE(ops->synchronize(stream) == GPURING_OK);
    CUDA_REQUIRE(memory[0] == 'a' && memory[sizeof memory - 1] == 'a');
    ops->stream_destroy(stream);
    ops->close(device);
    CUDA_REQUIRE(driver->host_unregister(memory) == CUDA_SUCCESS);
    end_context(other_context);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(memory_registered_elsewhere_is_copied)
{
    cuda_in_process("", registered_body);
}

/* The driver's documentation promises unique numbers, also if addresses or the stand-in's memory
 * files are reused. A process that still has the old memory open would otherwise mistake the new
 * memory for it. */
static void unique_body(void)
{
    const struct gpuring_cuda_driver *driver;
    CUipcMemHandle first, second;
    CUdeviceptr buffer;

    driver = cuda_application_start(0, &buffer, 64);
    CUDA_REQUIRE(driver->ipc_get(&first, buffer) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->alloc(&buffer, 64) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ipc_get(&second, buffer) == CUDA_SUCCESS);
    CUDA_REQUIRE(memcmp(&first, &second, sizeof first) != 0);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(handles_of_memory_are_unique)
{
    cuda_in_process("", unique_body);
}

static void moved_body(void)
{
    const struct gpuring_cuda_driver *driver;
    CUdeviceptr buffer;

    driver = cuda_application_start(0, &buffer, 64);
    CUDA_REQUIRE(cuda_attached(buffer) == NULL);
    CUDA_REQUIRE(strstr(cuda_last_log, "[gpu-addresses]") != NULL);
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

TEST(host_memory_at_other_addresses_is_refused)
{
    cuda_in_process("moved=1", moved_body);
}
