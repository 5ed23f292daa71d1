/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA device on the stand-in driver (test/standin): kinds of pointers, memory between
 * processes, plans run as kernels over device memory, and what faults of the driver lead to. None
 * of this is a result of a GPU. Every case is a process of its own, since a driver is loaded for
 * the life of a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/cuda_driver.h"
#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define MAX_RANKS 3
#define BLOB_ROOM 16384
#define COUNT     30011
#define LIMIT     60 /* seconds */

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
static char last_log[1024];

#define REQUIRE(condition)                                                                      \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "# failed: %s (line %d; last message: %s)\n", #condition, __LINE__, \
                    last_log);                                                                  \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

static void keep_log(enum gpuring_log_level level, const char *text)
{
    (void) level;
    snprintf(last_log, sizeof last_log, "%s", text);
}

/* What an application does first: load the driver, make a context current, allocate a buffer. */
static const struct gpuring_cuda_driver *application_start(CUdeviceptr *buffer, size_t bytes)
{
    const struct gpuring_cuda_driver *driver;
    const char *folder = getenv("top_builddir"), *reason = "";
    CUcontext context;
    char path[4096];

    snprintf(path, sizeof path, "%s/test/standin/.libs/libcuda.so.1", folder ? folder : ".");
    REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
    gpuring_log_set(keep_log, GPURING_LOG_WARN);
    driver = gpuring_cuda_driver(false, &reason);
    REQUIRE(driver != NULL);
    REQUIRE(driver->primary_retain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(driver->ctx_push(context) == CUDA_SUCCESS);
    REQUIRE(driver->alloc(buffer, bytes) == CUDA_SUCCESS);
    return driver;
}

static struct gpuring_device *attached(CUdeviceptr buffer)
{
    struct gpuring_device *device;
    struct gpuring_pointer pointer = ops->classify(NULL, (void *) (uintptr_t) buffer);

    REQUIRE(ops->open(&device) == GPURING_OK);
    REQUIRE(ops->attach(device, &pointer) == GPURING_OK);
    return device;
}

static void copy(struct gpuring_device *device, void *to, const void *from, size_t bytes)
{
    struct gpuring_stream *stream;

    REQUIRE(ops->stream_create(device, &stream) == GPURING_OK);
    REQUIRE(ops->copy(stream, to, from, bytes) == GPURING_OK);
    REQUIRE(ops->synchronize(stream) == GPURING_OK);
    ops->stream_destroy(stream);
}

/* Run body in a child with this list of faults; it must exit with 0, and leak nothing. */
static void in_process(const char *faults, void (*body)(void))
{
    char report[] = "/tmp/gpuring-standin.XXXXXX", line[256] = "";
    int fd = mkstemp(report), status;
    pid_t child;
    FILE *file;

    assert_true(fd >= 0);
    close(fd);
    setenv("GPURING_STANDIN_FAULTS", faults, 1);
    setenv("GPURING_STANDIN_REPORT", report, 1);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(LIMIT + 10);
        body();
        exit(0); /* runs the stand-in's report */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    file = fopen(report, "r");
    assert_non_null(file);
    if (fgets(line, sizeof line, file) != NULL) {
        print_message("%s", line);
    }
    fclose(file);
    unlink(report);
    assert_int_equal(status, 0);
    assert_string_equal(line, "");
}

static void kinds_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device *device;
    struct gpuring_pointer pointer;
    CUdeviceptr buffer;
    void *pinned = NULL;
    int on_stack = 0;

    pointer = ops->classify(NULL, &on_stack); /* nobody has loaded the driver yet */
    REQUIRE(pointer.kind == GPURING_POINTER_HOST && pointer.ordinal == -1);
    driver = application_start(&buffer, 1 << 16);
    pointer = ops->classify(NULL, &on_stack);
    REQUIRE(pointer.kind == GPURING_POINTER_HOST && pointer.ordinal == -1);
    pointer = ops->classify(NULL, (void *) (uintptr_t) (buffer + 12345));
    REQUIRE(pointer.kind == GPURING_POINTER_DEVICE && pointer.ordinal == 0);
    device = attached(buffer);
    REQUIRE(ops->alloc_pinned(device, 100, &pinned) == GPURING_OK);
    REQUIRE(ops->classify(device, pinned).kind == GPURING_POINTER_REGISTERED);
    ops->free_pinned(device, pinned);
    ops->close(device);
    REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

static void pointers_are_told_apart(void **state)
{
    (void) state;
    in_process("", kinds_body);
}

static void memory_body(void)
{
    const struct gpuring_cuda_driver *driver;
    struct gpuring_device_identity identity;
    uint8_t bytes[5000], back[5000];
    struct gpuring_device *device;
    CUcontext before, after;
    CUdeviceptr buffer;
    void *memory, *table;

    driver = application_start(&buffer, 1 << 16);
    device = attached(buffer);
    REQUIRE(ops->identity(device, &identity) == GPURING_OK);
    REQUIRE(strcmp(identity.pci_bus_id, "0000:01:00.0") == 0 && identity.capability == 90);
    REQUIRE(driver->ctx_current(&before) == CUDA_SUCCESS);
    REQUIRE(ops->alloc(device, sizeof bytes, &memory) == GPURING_OK);
    copy(device, back, memory, sizeof back);
    for (size_t i = 0; i < sizeof back; i++) {
        REQUIRE(back[i] == 0);
        bytes[i] = (uint8_t) (i * 7);
    }
    REQUIRE(ops->upload(device, bytes, sizeof bytes, &table) == GPURING_OK);
    copy(device, back, table, sizeof back);
    REQUIRE(memcmp(back, bytes, sizeof back) == 0);
    ops->unload(device, table);
    ops->free(device, memory);
    REQUIRE(driver->ctx_current(&after) == CUDA_SUCCESS && before == after);
    ops->close(device);
    REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
}

static void memory_is_zeroed_and_contexts_stay(void **state)
{
    (void) state;
    in_process("", memory_body);
}

static void no_memory_body(void)
{
    struct gpuring_device *device;
    CUdeviceptr buffer;
    void *memory = NULL;

    (void) application_start(&buffer, 64);
    device = attached(buffer);
    REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_ERR_NOMEM);
    REQUIRE(memory == NULL && strstr(last_log, "coll_gpuring_buffer_size") != NULL);
    REQUIRE(ops->alloc(device, 4096, &memory) == GPURING_OK); /* the next call works again */
    ops->free(device, memory);
    ops->close(device);
    REQUIRE(gpuring_cuda_driver(true, NULL)->free(buffer) == CUDA_SUCCESS);
}

static void lack_of_device_memory_is_reported(void **state)
{
    (void) state;
    in_process("cuMemAlloc_v2=2:2", no_memory_body); /* 2: CUDA_ERROR_OUT_OF_MEMORY */
}

static void no_driver_body(void)
{
    const char *reason = "";
    struct gpuring_device *device;
    struct gpuring_pointer pointer = {.kind = GPURING_POINTER_DEVICE, .ordinal = 0};
    const char *folder = getenv("top_builddir");
    char path[4096];

    snprintf(path, sizeof path, "%s/test/standin/.libs/libcuda.so.1", folder ? folder : ".");
    REQUIRE(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL);
    gpuring_log_set(keep_log, GPURING_LOG_WARN);
    REQUIRE(ops->open(&device) == GPURING_OK);
    REQUIRE(ops->attach(device, &pointer) == GPURING_ERR_UNSUPPORTED);
    REQUIRE(strstr(last_log, "does not start") != NULL);
    REQUIRE(gpuring_cuda_driver(false, &reason) == NULL && strstr(reason, "does not start"));
    ops->close(device);
}

static void a_driver_that_does_not_start_is_reported(void **state)
{
    (void) state;
    in_process("cuInit=1", no_driver_body);
}

/* ---- An allreduce over device memory between processes ------------------------------------- */

struct exchange {
    pthread_barrier_t barrier;
    size_t bytes[MAX_RANKS];
    uint8_t blobs[MAX_RANKS][BLOB_ROOM];
};

struct rank {
    int rank, nranks;
    struct gpuring_device *device;
    struct gpuring_plan *plan;
    struct gpuring_transport *transport;
    struct gpuring_stream *stream;
    void *tables; /* work and lanes, where the GPU reads them */
};

static int rank_wire(struct rank *self, struct exchange *exchange)
{
    static const int node[MAX_RANKS];
    int r = self->rank, n = self->nranks, status;
    struct gpuring_channel channel = {
        .ring = {.prev = (r + n - 1) % n, .next = (r + 1) % n, .index = r}};
    struct gpuring_transport_config config = {
        .rank = r,
        .nranks = n,
        .node = node,
        .hostname = "here",
        .unique_id = {1, 2},
        .fifo = {.nslots = 4,
                 .slot_bytes = {[GPURING_PROTOCOL_SIMPLE] = 8192, [GPURING_PROTOCOL_LL] = 1024}},
        .device_ops = ops,
        .device = self->device,
    };
    size_t offsets[MAX_RANKS + 1] = {0}, bytes = 0;
    uint8_t *all = malloc(sizeof exchange->blobs);
    const void *blob;

    REQUIRE(all != NULL);
    REQUIRE(gpuring_plan_build_ring(r, n, &channel, 1, &self->plan) == GPURING_OK);
    REQUIRE(gpuring_transport_create(&config, (const struct gpuring_plan *const *) &self->plan, 1,
                                     &self->transport) == GPURING_OK);
    REQUIRE(gpuring_transport_blob(self->transport, &blob, &bytes) == GPURING_OK);
    REQUIRE(bytes <= BLOB_ROOM);
    memcpy(exchange->blobs[r], blob, bytes);
    exchange->bytes[r] = bytes;
    pthread_barrier_wait(&exchange->barrier);
    for (int i = 0; i < n; i++) {
        memcpy(all + offsets[i], exchange->blobs[i], exchange->bytes[i]);
        offsets[i + 1] = offsets[i] + exchange->bytes[i];
    }
    status = gpuring_transport_connect(self->transport, all, offsets);
    free(all);
    pthread_barrier_wait(&exchange->barrier);
    return status;
}

static int rank_reduce(struct rank *self, int32_t *buffer, enum gpuring_protocol protocol)
{
    struct gpuring_lane *lane = self->tables;
    struct gpuring_work *work = (struct gpuring_work *) (lane + 1);
    uint64_t room = protocol == GPURING_PROTOCOL_SIMPLE ? 8192 : 1024;
    uint64_t align = gpuring_chunk_align(sizeof(int32_t));
    time_t end = time(NULL) + LIMIT;
    int status;

    memset(self->tables, 0, sizeof *lane + sizeof *work);
    REQUIRE(gpuring_transport_bind(self->transport, 0, protocol, lane) == GPURING_OK);
    gpuring_plan_lane_range(self->plan, 0, COUNT, align, &lane->first, &lane->count);
    lane->chunk = gpuring_chunk_max(protocol, room, sizeof(int32_t));
    *work = (struct gpuring_work){
        .input = buffer,
        .output = buffer,
        .type = GPURING_TYPE_INT32,
        .op = GPURING_OP_SUM,
        .protocol = protocol,
        .nlanes = 1,
        .lanes = lane,
        .abort = gpuring_transport_abort_word(self->transport),
        .patience = 100000,
    };
    status = ops->launch(self->stream, work);
    while (status == GPURING_OK || status == GPURING_AGAIN) {
        status = ops->poll(self->stream, work);
        if (status == GPURING_OK || time(NULL) > end) {
            break;
        }
        sched_yield();
    }
    return status;
}

static void rank_body(int rank, int nranks, struct exchange *exchange)
{
    struct rank self = {.rank = rank, .nranks = nranks};
    const struct gpuring_cuda_driver *driver;
    int32_t *host = malloc(COUNT * sizeof *host);
    CUdeviceptr buffer;

    REQUIRE(host != NULL);
    driver = application_start(&buffer, COUNT * sizeof *host);
    self.device = attached(buffer);
    REQUIRE(ops->stream_create(self.device, &self.stream) == GPURING_OK);
    REQUIRE(ops->alloc_pinned(self.device, 4096, &self.tables) == GPURING_OK);
    REQUIRE(rank_wire(&self, exchange) == GPURING_OK);
    REQUIRE(strcmp(gpuring_transport_name(self.transport), "peer") == 0);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < COUNT; i++) {
            host[i] = 5 * i + rank + round;
        }
        copy(self.device, (void *) (uintptr_t) buffer, host, COUNT * sizeof *host);
        REQUIRE(rank_reduce(&self, (int32_t *) (uintptr_t) buffer,
                            round % 2 ? GPURING_PROTOCOL_LL : GPURING_PROTOCOL_SIMPLE) ==
                GPURING_OK);
        copy(self.device, host, (void *) (uintptr_t) buffer, COUNT * sizeof *host);
        for (int i = 0; i < COUNT; i++) {
            REQUIRE(host[i] == nranks * (5 * i + round) + nranks * (nranks - 1) / 2);
        }
    }
    pthread_barrier_wait(&exchange->barrier);
    gpuring_transport_destroy(self.transport);
    gpuring_plan_free(self.plan);
    ops->free_pinned(self.device, self.tables);
    ops->stream_destroy(self.stream);
    ops->close(self.device);
    REQUIRE(driver->free(buffer) == CUDA_SUCCESS);
    free(host);
}

static void in_ranks(int nranks)
{
    char report[] = "/tmp/gpuring-standin.XXXXXX", line[256] = "";
    pthread_barrierattr_t attributes;
    struct exchange *exchange =
        mmap(NULL, sizeof *exchange, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = mkstemp(report), bad = 0, status;
    pid_t children[MAX_RANKS];
    FILE *file;

    assert_ptr_not_equal(exchange, MAP_FAILED);
    assert_true(fd >= 0);
    setenv("GPURING_STANDIN_REPORT", report, 1);
    setenv("GPURING_STANDIN_FAULTS", "", 1);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&exchange->barrier, &attributes, (unsigned) nranks);
    fflush(NULL);
    for (int r = 0; r < nranks; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) {
            alarm(LIMIT + 10);
            rank_body(r, nranks, exchange);
            exit(0);
        }
    }
    for (int r = 0; r < nranks; r++) {
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        bad += status != 0;
    }
    file = fdopen(fd, "r");
    assert_non_null(file);
    if (fgets(line, sizeof line, file) != NULL) {
        print_message("%s", line);
    }
    fclose(file);
    unlink(report);
    munmap(exchange, sizeof *exchange);
    assert_int_equal(bad, 0);
    assert_string_equal(line, "");
}

static void processes_reduce_device_memory(void **state)
{
    (void) state;
    unsetenv("GPURING_STANDIN_EXCLUSIVE");
    for (int nranks = 2; nranks <= MAX_RANKS; nranks++) {
        in_ranks(nranks);
    }
}

/* As processes that share a GPU without MPS: one kernel at a time, so none may wait for ever. */
static void kernels_that_cannot_run_together_make_progress(void **state)
{
    char lock[] = "/tmp/gpuring-gpu.XXXXXX";
    int fd = mkstemp(lock);

    (void) state;
    assert_true(fd >= 0);
    close(fd);
    setenv("GPURING_STANDIN_EXCLUSIVE", lock, 1);
    in_ranks(2);
    unsetenv("GPURING_STANDIN_EXCLUSIVE");
    unlink(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_told_apart),
        cmocka_unit_test(memory_is_zeroed_and_contexts_stay),
        cmocka_unit_test(lack_of_device_memory_is_reported),
        cmocka_unit_test(a_driver_that_does_not_start_is_reported),
        cmocka_unit_test(processes_reduce_device_memory),
        cmocka_unit_test(kernels_that_cannot_run_together_make_progress),
    };

    return cmocka_run_group_tests_name("device_cuda", tests, NULL, NULL);
}
