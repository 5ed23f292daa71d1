/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test that each check of the stand-in driver fails when it should, because a check that never
 * fails proves nothing. Every case is a process that misuses the driver.
 */
#include "test/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kernels/image.h"
#include "kernels/work.h"
#include "test/standin/standin.h"
#include "test/unit/cuda_ranks.h"

#define BYTES 5000

static const struct gpuring_cuda_driver *driver;
static CUdeviceptr buffer;

/* Run `body` in a process. Set its exit status and the first line of the report. */
static void misuse(void (*body)(void), int *status, char *line, int size)
{
    char path[] = "/tmp/gpuring-standin.XXXXXX";
    int fd = mkstemp(path);
    FILE *file;
    pid_t child;

    assert_true(fd >= 0);
    close(fd);
    setenv("GPURING_STANDIN_REPORT", path, 1);
    setenv("GPURING_STANDIN_FAULTS", "", 1);
    setenv("GPURING_STANDIN_GPUS", "2", 1);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has a handler that goes on */
        alarm(CUDA_LIMIT);
        driver = cuda_application_start(0, &buffer, BYTES);
        body();
        exit(0);
    }
    assert_int_equal(waitpid(child, status, 0), child);
    file = fopen(path, "r");
    assert_non_null(file);
    line[0] = '\0';
    (void) !fgets(line, size, file);
    fclose(file);
    unlink(path);
}

static void assert_reports(void (*body)(void), const char *expected)
{
    char line[256];
    int status;

    misuse(body, &status, line, sizeof line);
    assert_int_equal(status, 0);
    if (strstr(line, expected) == NULL) {
        fail_msg("the report is \"%s\", without \"%s\"", line, expected);
    }
}

static void nothing_is_reported(void (*body)(void))
{
    char line[256];
    int status;

    misuse(body, &status, line, sizeof line);
    assert_int_equal(status, 0);
    assert_string_equal(line, "");
}

static void assert_faults(void (*body)(void))
{
    char line[256];
    int status;

    misuse(body, &status, line, sizeof line);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void nothing_wrong(void)
{
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

static void leak_memory(void)
{
}

static CUstream make_stream(void)
{
    CUstream stream;

    CUDA_REQUIRE(driver->stream_create(&stream, CU_STREAM_NON_BLOCKING, -1) == CUDA_SUCCESS);
    return stream;
}

static void leak_stream(void)
{
    nothing_wrong();
    (void) make_stream();
}

static void leak_event(void)
{
    CUevent event;

    nothing_wrong();
    CUDA_REQUIRE(driver->event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
}

static void leak_registration(void)
{
    static uint8_t memory[100];

    nothing_wrong();
    CUDA_REQUIRE(driver->host_register(memory, sizeof memory, 0) == CUDA_SUCCESS);
}

TEST(leaks_are_reported)
{
    nothing_is_reported(nothing_wrong);
    assert_reports(leak_memory, "leaks device memory of 5000 bytes");
    assert_reports(leak_stream, "leaks 1 streams");
    assert_reports(leak_event, "leaks 1 events");
    assert_reports(leak_registration, "leaks a registration");
}

static void touch(CUdeviceptr pointer)
{
    *(volatile uint8_t *) (uintptr_t) pointer = 1;
}

static void touch_device(void)
{
    touch(buffer);
}

static void touch_freed(void)
{
    setenv("GPURING_STANDIN_PROTECT", "0", 1); /* so that the host may read allocated memory */
    CUDA_REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
    touch(buffer);
}

/* The GPU writes to memory that was freed. */
static void copy_to_freed(void)
{
    CUstream stream = make_stream();
    CUdeviceptr other;

    CUDA_REQUIRE(driver->alloc(&other, BYTES) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->free(other) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_async(other, buffer, BYTES, stream) == CUDA_SUCCESS);
    (void) driver->stream_sync(stream);
}

TEST(wrong_accesses_are_faults)
{
    assert_faults(touch_device);
    assert_faults(touch_freed);
    assert_faults(copy_to_freed);
}

static void free_twice(void)
{
    nothing_wrong();
    CUDA_REQUIRE(driver->free(buffer) != CUDA_SUCCESS);
}

static void without_context(void)
{
    CUdeviceptr other;
    CUcontext context;

    nothing_wrong();
    CUDA_REQUIRE(driver->ctx_pop(&context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->alloc(&other, BYTES) == CUDA_ERROR_INVALID_CONTEXT);
}

static void other_context(void)
{
    CUcontext context;
    CUstream stream;

    nothing_wrong();
    stream = make_stream();
    CUDA_REQUIRE(driver->primary_retain(&context, 1) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_push(context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->set_async(buffer, 0, 1, stream) == CUDA_ERROR_INVALID_CONTEXT);
    CUDA_REQUIRE(driver->ctx_pop(&context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->stream_destroy(stream) == CUDA_SUCCESS);
}

/* Launch a work with one table in memory that the GPU cannot access. */
static void launch_with(const struct gpuring_step *steps, struct gpuring_work *work,
                        struct gpuring_lane *lane)
{
    void *arguments[] = {work};
    CUfunction function;
    CUmodule module;

    *lane = (struct gpuring_lane){.steps = steps,
                                  .refs = (const uint16_t *) (const void *) lane,
                                  .part_end = 1,
                                  .nsteps = 1,
                                  .nchunks = 1};
    *work = (struct gpuring_work){.input = work,
                                  .output = work,
                                  .type = GPURING_TYPE_FLOAT,
                                  .op = GPURING_OP_SUM,
                                  .nlanes = 1,
                                  .count = 1,
                                  .lanes = lane,
                                  .states = (struct gpuring_lane_state *) (lane + 1),
                                  .parts = 1,
                                  .first = *lane};
    nothing_wrong();
    CUDA_REQUIRE(driver->module_load(&module, gpuring_kernel_image) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->module_function(&function, module, "gpuring_simple_sum_f32") ==
                 CUDA_SUCCESS);
    CUDA_REQUIRE(driver->launch(function, 1, 1, 1, GPURING_KERNEL_THREADS, 1, 1, 0, make_stream(),
                                arguments, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void unreachable_work(void)
{
    static struct gpuring_work work;
    static struct gpuring_lane lane;
    static const struct gpuring_step step;

    launch_with(&step, &work, &lane);
}

static void *pinned_page(void)
{
    static uint8_t page[4096] __attribute__((aligned(4096)));

    CUDA_REQUIRE(driver->host_register(page, sizeof page, CU_MEMHOSTREGISTER_PORTABLE) ==
                 CUDA_SUCCESS);
    return page;
}

static void unreachable_steps(void)
{
    static const struct gpuring_step step;
    void *pinned = pinned_page();

    launch_with(&step, pinned, (struct gpuring_lane *) pinned + 10);
}

/* The step's table is on the other GPU. */
static void foreign_steps(void)
{
    CUdeviceptr table = cuda_alloc_on(driver, 1, 4096);
    void *pinned = pinned_page();

    launch_with((const struct gpuring_step *) (uintptr_t) table, pinned,
                (struct gpuring_lane *) pinned + 10);
}

static void no_image(void)
{
    static const uint64_t image[8];
    CUmodule module;

    CUDA_REQUIRE(driver->module_load(&module, image) == CUDA_ERROR_INVALID_IMAGE);
}

static void no_kernel(void)
{
    CUfunction function;
    CUmodule module;

    CUDA_REQUIRE(driver->module_load(&module, gpuring_kernel_image) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->module_function(&function, module, "gpuring_simple_sum_f31") ==
                 CUDA_ERROR_NOT_FOUND);
}

/* Return a page that is no longer mapped. */
static void *unmapped_page(void)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CUDA_REQUIRE(page != MAP_FAILED && munmap(page, 4096) == 0);
    return page;
}

static void register_nothing(void)
{
    static uint8_t memory[1];

    CUDA_REQUIRE(driver->host_register(memory, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

static void register_unmapped(void)
{
    CUDA_REQUIRE(driver->host_register(unmapped_page(), 4096, 0) == CUDA_ERROR_INVALID_VALUE);
}

static void register_page_twice(void)
{
    static uint8_t memory[8192] __attribute__((aligned(4096)));

    CUDA_REQUIRE(driver->host_register(memory, 100, 0) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->host_register(memory + 4096, 100, 0) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->host_register(memory + 200, 100, 0) ==
                 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
}

static void register_wrong_flags(void)
{
    static uint8_t memory[1];

    CUDA_REQUIRE(driver->host_register(memory, 1, 0x100) == CUDA_ERROR_INVALID_VALUE);
}

static void export_middle(void)
{
    CUipcMemHandle handle;

    CUDA_REQUIRE(driver->ipc_get(&handle, buffer) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ipc_get(&handle, buffer + 4096) == CUDA_ERROR_INVALID_VALUE);
}

static void import_wrong_flags(void)
{
    CUipcMemHandle handle;
    CUdeviceptr other;

    CUDA_REQUIRE(driver->ipc_get(&handle, buffer) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ipc_open(&other, handle, 0) == CUDA_ERROR_INVALID_VALUE);
}

static void import_twice(void)
{
    CUipcMemHandle handle;
    CUdeviceptr other;
    int status;
    pid_t child;

    CUDA_REQUIRE(driver->ipc_get(&handle, buffer) == CUDA_SUCCESS);
    child = fork();
    if (child == 0) {
        CUDA_REQUIRE(driver->ipc_open(&other, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
                     CUDA_SUCCESS);
        CUDA_REQUIRE(driver->ipc_open(&other, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
                     CUDA_ERROR_ALREADY_MAPPED);
        _exit(0);
    }
    CUDA_REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void copy_beyond_end(void)
{
    CUstream stream = make_stream();
    CUdeviceptr other;

    CUDA_REQUIRE(driver->alloc(&other, BYTES + 1) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_async(other, buffer, BYTES, stream) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_async(other, buffer, BYTES + 1, stream) == CUDA_ERROR_INVALID_VALUE);
}

static void copy_rows_beyond_end(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = buffer,
                          .srcPitch = BYTES / 2,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = buffer,
                          .dstPitch = BYTES / 2,
                          .WidthInBytes = 10,
                          .Height = 2};
    CUstream stream = make_stream();

    CUDA_REQUIRE(driver->copy_rows_async(&copy, stream) == CUDA_SUCCESS);
    copy.Height = 3;
    CUDA_REQUIRE(driver->copy_rows_async(&copy, stream) == CUDA_ERROR_INVALID_VALUE);
}

static void set_host_memory(void)
{
    static uint8_t memory[1];
    CUstream stream = make_stream();

    CUDA_REQUIRE(driver->set_async((CUdeviceptr) (uintptr_t) memory, 0, 1, stream) ==
                 CUDA_ERROR_INVALID_VALUE);
}

/* The stand-in driver must refuse arguments that a real driver refuses. */
TEST(wrong_arguments_are_refused)
{
    assert_reports(no_image, "misuses cuModuleLoadData");
    assert_reports(no_kernel, "misuses cuModuleGetFunction");
    assert_reports(register_nothing, "misuses cuMemHostRegister_v2: there is no such memory");
    assert_reports(register_unmapped, "misuses cuMemHostRegister_v2: there is no such memory");
    assert_reports(register_page_twice, "a page of it is registered already");
    assert_reports(register_wrong_flags, "misuses cuMemHostRegister_v2: flags");
    assert_reports(export_middle, "misuses cuIpcGetMemHandle");
    assert_reports(import_wrong_flags, "misuses cuIpcOpenMemHandle_v2: flags");
    assert_reports(import_twice, "misuses cuIpcOpenMemHandle_v2: the handle is open");
    assert_reports(copy_beyond_end, "misuses copy_between: beyond the end");
    assert_reports(copy_rows_beyond_end, "misuses cuMemcpy2DAsync_v2");
    assert_reports(set_host_memory, "misuses cuMemsetD8Async");
}

TEST(misuses_are_reported)
{
    assert_reports(free_twice, "misuses memory");
    assert_reports(without_context, "misuses cuMemAlloc_v2: no context is current");
    assert_reports(other_context, "another context is current");
    assert_reports(unreachable_work, "misuses standin_kernel_launch");
    assert_reports(unreachable_steps, "misuses standin_kernel_launch");
    assert_reports(foreign_steps, "misuses standin_kernel_launch");
}

/* Create a context on GPU 0 in addition to the primary one, and make it current. */
static CUcontext push_another(void)
{
    void *(*make)(int gpu);
    CUcontext context;

    cuda_find("gpuring_standin_context", &make);
    context = make(0);
    CUDA_REQUIRE(context != NULL && driver->ctx_push(context) == CUDA_SUCCESS);
    return context;
}

static void end_another(CUcontext context)
{
    void (*end)(void *context);

    cuda_find("gpuring_standin_context_end", &end);
    end(context);
}

/* The memory is on the same GPU, but in the other context. */
static void copy_of_other_context(void)
{
    CUcontext other = push_another(), popped;
    CUdeviceptr mine;
    CUstream stream = make_stream();

    CUDA_REQUIRE(driver->alloc(&mine, BYTES) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_peer_async(mine, other, mine, other, 1, stream) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_pop(&popped) == CUDA_SUCCESS && popped == other);
    CUDA_REQUIRE(driver->ctx_current(&popped) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_push(other) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_peer_async(mine, other, buffer, popped, 1, stream) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->copy_async(mine, buffer, BYTES, stream) == CUDA_ERROR_INVALID_VALUE);
}

static void copy_between_wrong_contexts(void)
{
    CUcontext other = push_another();
    CUstream stream = make_stream();

    CUDA_REQUIRE(driver->copy_peer_async(buffer, other, buffer, other, 1, stream) ==
                 CUDA_ERROR_INVALID_VALUE);
}

static void set_other_context(void)
{
    (void) push_another();
    CUDA_REQUIRE(driver->set_async(buffer, 0, 1, make_stream()) == CUDA_ERROR_INVALID_VALUE);
}

/* Memory that is registered in a context cannot be used in others, unless it is portable. */
static void launch_on_registered(unsigned flags)
{
    static uint8_t page[4096] __attribute__((aligned(4096)));

    CUDA_REQUIRE(driver->host_register(page, sizeof page, flags) == CUDA_SUCCESS);
    (void) push_another();
    launch_with((const struct gpuring_step *) (uintptr_t) buffer, (struct gpuring_work *) page,
                (struct gpuring_lane *) page + 10);
}

static void launch_on_others_memory(void)
{
    launch_on_registered(0);
}

/* Objects of a context end with it. */
static void event_of_ended_context(void)
{
    CUcontext first = push_another();
    CUevent event;

    CUDA_REQUIRE(driver->event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    end_another(first);
    (void) push_another();
    CUDA_REQUIRE(driver->event_record(event, CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_CONTEXT);
}

/* The same for the primary context after its last release. */
static void free_after_release(void)
{
    CUDA_REQUIRE(driver->primary_release(0) == CUDA_SUCCESS);
    (void) push_another();
    CUDA_REQUIRE(driver->free(buffer) == CUDA_ERROR_INVALID_VALUE);
}

/* Query while another thread captures a stream. This is permitted only in the relaxed mode. */
static void query_during_capture(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    void (*capture)(int capturing);
    CUstream stream = make_stream();

    cuda_find("gpuring_standin_capture", &capture);
    capture(1);
    CUDA_REQUIRE(driver->capture_mode(&mode) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->stream_query(stream) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->capture_mode(&mode) == CUDA_SUCCESS);
    CUDA_REQUIRE(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    CUDA_REQUIRE(driver->stream_query(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void all_is_gone_with_a_context(void)
{
    CUcontext context = push_another();
    CUdeviceptr memory;
    CUmodule module;

    CUDA_REQUIRE(driver->alloc(&memory, BYTES) == CUDA_SUCCESS);
    (void) make_stream();
    CUDA_REQUIRE(driver->module_load(&module, gpuring_kernel_image) == CUDA_SUCCESS);
    end_another(context);
    CUDA_REQUIRE(driver->ctx_push(context) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUDA_REQUIRE(driver->ctx_pop(&context) == CUDA_SUCCESS);
    nothing_wrong();
}

TEST(contexts_are_told_apart)
{
    assert_reports(copy_of_other_context, "misuses copy_between: ");
    assert_reports(copy_between_wrong_contexts, "misuses copy_between: ");
    assert_reports(set_other_context, "misuses cuMemsetD8Async: no such memory of this context");
    assert_reports(launch_on_others_memory, "misuses standin_kernel_launch");
    assert_reports(event_of_ended_context, "misuses cuEventRecord: another context is current");
    assert_reports(free_after_release, "misuses memory");
    assert_reports(query_during_capture, "misuses standin_enter: cuStreamQuery");
    nothing_is_reported(all_is_gone_with_a_context);
}
