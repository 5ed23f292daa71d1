/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/cuda_ranks.h"
#include "test/unit/unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/connect_infos.h"

#define REPORT_ROOM 64
#define COUNT       30011
#define ROUNDS      4

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
char cuda_last_log[1024];
static char last_warning[1024];

/* State that the ranks share. */
struct exchange {
    pthread_barrier_t barrier;
    bool twice;
    struct cuda_outcome outcome;
    struct connect_infos connect_infos;
    uint8_t reports[CUDA_MAX_RANKS * REPORT_ROOM];
    int statuses[CUDA_MAX_RANKS];
};

struct rank {
    int rank, nranks;
    struct exchange *exchange;
    struct gpuring_device *device;
    struct gpuring_plan *plan;
    struct gpuring_transport *transport;
    struct gpuring_stream *stream;
    void *tables; /* work and lanes, where the GPU reads them */
    int tests;    /* of lines */
};

static void keep_log(enum gpuring_log_level level, const char *text)
{
    snprintf(cuda_last_log, sizeof cuda_last_log, "%s", text);
    if (level == GPURING_LOG_WARN) {
        snprintf(last_warning, sizeof last_warning, "%s", text);
    }
}

static const char *driver_path(void)
{
    const char *folder = getenv("top_builddir");
    static char path[4096];

    snprintf(path, sizeof path, "%s/test/standin/.libs/libcuda.so.1", folder ? folder : ".");
    return path;
}

void cuda_load_driver(void)
{
    CUDA_REQUIRE(dlopen(driver_path(), RTLD_NOW | RTLD_LOCAL) != NULL);
    gpuring_log_set(keep_log, GPURING_LOG_WARN);
}

void *cuda_load_driver_without(const char *symbol)
{
    char path[] = "/tmp/libcuda.XXXXXX", command[2 * sizeof path + 8192];
    int fd = mkstemp(path);
    void *handle;

    CUDA_REQUIRE(fd >= 0);
    close(fd);
    /* Use a name of the same length, so that nothing else in the file moves. */
    snprintf(command, sizeof command, "sed 's/%s/%.*s_/g' '%s' > %s", symbol,
             (int) strlen(symbol) - 1, symbol, driver_path(), path);
    CUDA_REQUIRE(system(command) == 0);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    CUDA_REQUIRE(handle != NULL && dlsym(handle, symbol) == NULL);
    gpuring_log_set(keep_log, GPURING_LOG_WARN);
    return handle;
}

const struct gpuring_cuda_driver *cuda_application_start(int gpu, CUdeviceptr *buffer, size_t bytes)
{
    const struct gpuring_cuda_driver *driver;
    const char *reason = "";
    CUcontext context;

    cuda_load_driver();
    driver = gpuring_cuda_driver(false, &reason);
    CUDA_REQUIRE(driver != NULL);
    /* Repeat the call once, because a fault strikes once and may be intended for a later call. */
    CUDA_REQUIRE(driver->primary_retain(&context, gpu) == CUDA_SUCCESS ||
                 driver->primary_retain(&context, gpu) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_push(context) == CUDA_SUCCESS ||
                 driver->ctx_push(context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->alloc(buffer, bytes) == CUDA_SUCCESS ||
                 driver->alloc(buffer, bytes) == CUDA_SUCCESS);
    return driver;
}

CUdeviceptr cuda_alloc_on(const struct gpuring_cuda_driver *driver, int gpu, size_t bytes)
{
    CUcontext context;
    CUdeviceptr buffer;

    CUDA_REQUIRE(driver->primary_retain(&context, gpu) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_push(context) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->alloc(&buffer, bytes) == CUDA_SUCCESS);
    CUDA_REQUIRE(driver->ctx_pop(&context) == CUDA_SUCCESS);
    return buffer;
}

void cuda_find(const char *name, void *function)
{
    const struct gpuring_cuda_driver *driver = gpuring_cuda_driver(true, NULL);
    void *found = driver != NULL ? dlsym(driver->handle, name) : NULL;

    CUDA_REQUIRE(found != NULL);
    memcpy(function, &found, sizeof found);
}

struct gpuring_device *cuda_attached(CUdeviceptr buffer)
{
    struct gpuring_device *device;
    struct gpuring_pointer pointer = ops->classify(NULL, (void *) (uintptr_t) buffer);

    CUDA_REQUIRE(ops->open(&device) == GPURING_OK);
    if (ops->attach(device, &pointer) != GPURING_OK) {
        ops->close(device);
        return NULL;
    }
    return device;
}

void cuda_copy(struct gpuring_device *device, void *to, const void *from, size_t bytes)
{
    CUDA_REQUIRE(gpuring_device_copy(ops, device, to, from, bytes) == GPURING_OK ||
                 gpuring_device_copy(ops, device, to, from, bytes) == GPURING_OK);
}

static void wait_for_all(struct rank *self)
{
    pthread_barrier_wait(&self->exchange->barrier);
}

/* Exchange the status of all ranks. Return 0 if all are 0. */
static int agree(struct rank *self, int status)
{
    wait_for_all(self);
    self->exchange->statuses[self->rank] = status;
    wait_for_all(self);
    for (int rank = 0; rank < self->nranks && status == GPURING_OK; rank++) {
        status = self->exchange->statuses[rank];
    }
    return status;
}

/* Exchange the results of all ranks' probes. Return 0 if all ranks could continue. */
static int report(struct rank *self, int status)
{
    size_t bytes = gpuring_transport_probe_bytes(self->transport);

    CUDA_REQUIRE(bytes > 0 && bytes <= REPORT_ROOM);
    status = agree(self, status); /* the last reports have been read */
    gpuring_transport_probe_report(self->transport,
                                   self->exchange->reports + (size_t) self->rank * bytes);
    wait_for_all(self);
    return status;
}

static int test_lines(struct rank *self)
{
    time_t end = time(NULL) + CUDA_LIMIT;
    int status;

    while ((status = gpuring_transport_test_lines(self->transport)) == GPURING_AGAIN) {
        CUDA_REQUIRE(time(NULL) <= end);
        sched_yield();
    }
    return status;
}

static int probe(struct rank *self, int status)
{
    const uint8_t *reports = self->exchange->reports;

    status = report(self, status);
    if (status == GPURING_OK) {
        status = report(self, gpuring_transport_probe_verify(self->transport, reports));
    }
    if (status == GPURING_OK && gpuring_transport_test_due(self->transport, reports)) {
        self->tests++;
        status = report(self, test_lines(self));
    }
    return status == GPURING_OK ? gpuring_transport_probe_finish(self->transport, reports) : status;
}

static int create(struct rank *self)
{
    static const int node[CUDA_MAX_RANKS];
    static const struct gpuring_fifo_config fifo = {
        .nslots = {4, 4, 4},
        .slot_bytes = {[GPURING_PROTOCOL_SIMPLE] = 8192,
                       [GPURING_PROTOCOL_LL] = 1024,
                       [GPURING_PROTOCOL_LL128] = 1024}};
    int r = self->rank, n = self->nranks, status;
    struct gpuring_channel channel = {
        .ring = {.prev = (r + n - 1) % n, .next = (r + 1) % n, .index = r}};
    struct gpuring_transport_config config = {
        .rank = r,
        .nranks = n,
        .node = node,
        .hostname = "here",
        .unique_id = {1, 2},
        .fifo = &fifo,
        .device_ops = ops,
        .device = self->device,
        .ll128_plans = 1,
    };

    if (self->device == NULL || ops->prepare(self->device) != GPURING_OK) {
        return GPURING_ERR_UNSUPPORTED;
    }
    CUDA_REQUIRE(gpuring_plan_build(GPURING_ALGORITHM_RING,
                                    &(struct gpuring_plan_input){
                                        .rank = r, .nranks = n, .channels = &channel, .nrings = 1},
                                    &self->plan) == GPURING_OK);
    status = ops->stream_create(self->device, &self->stream);
    if (status == GPURING_OK) {
        status = ops->alloc_pinned(self->device, CUDA_TABLE_BYTES, &self->tables);
    }
    return status == GPURING_OK
               ? gpuring_transport_create(&config, (const struct gpuring_plan *const *) &self->plan,
                                          1, &self->transport)
               : status;
}

/* Connect the ranks. */
static int connect_ranks(struct rank *self)
{
    struct exchange *exchange = self->exchange;
    int status = agree(self, create(self));

    if (status != GPURING_OK) {
        return status;
    }
    CUDA_REQUIRE(connect_infos_post(&exchange->connect_infos, self->rank, self->transport));
    wait_for_all(self);
    status = connect_infos_connect(&exchange->connect_infos, self->rank, self->transport);
    status = agree(self, probe(self, status));
    if (status == GPURING_OK) {
        gpuring_transport_wired(self->transport);
    }
    return status;
}

static void disconnect(struct rank *self)
{
    gpuring_transport_destroy(self->transport);
    gpuring_plan_free(self->plan);
    ops->free_pinned(self->device, self->tables);
    ops->stream_destroy(self->stream);
    self->transport = NULL;
    self->plan = NULL;
    self->tables = NULL;
    self->stream = NULL;
}

/* Connect the ranks, in some scenarios twice. The lines must be tested only the first time. */
static int wire(struct rank *self)
{
    int status = connect_ranks(self);

    if (status == GPURING_OK && self->exchange->twice) {
        CUDA_REQUIRE(self->tests == 1);
        disconnect(self);
        wait_for_all(self);
        status = connect_ranks(self);
        CUDA_REQUIRE(self->tests == 1);
    }
    return status;
}

struct gpuring_work *cuda_work(struct gpuring_transport *transport, const struct gpuring_plan *plan,
                               void *tables, CUdeviceptr buffer, uint64_t count,
                               enum gpuring_protocol protocol, uint64_t room)
{
    struct gpuring_lane_state *lane = tables;
    struct gpuring_work *work = (struct gpuring_work *) (lane + 1);

    memset(tables, 0, sizeof *lane + sizeof *work);
    *work = (struct gpuring_work){
        .input = (void *) (uintptr_t) buffer,
        .output = (void *) (uintptr_t) buffer,
        .type = GPURING_TYPE_INT32,
        .op = GPURING_OP_SUM,
        .protocol = protocol,
        .nlanes = 1,
        .count = count,
        .chunk = gpuring_chunk_max(protocol, room, sizeof(int32_t)),
        .states = lane,
        .patience = 100000,
        .abort = gpuring_transport_abort_word(transport),
        .parts = plan->weight,
    };
    CUDA_REQUIRE(gpuring_transport_bind(transport, 0, protocol, work) == GPURING_OK);
    return work;
}

static int reduce(struct rank *self, CUdeviceptr buffer, enum gpuring_protocol protocol)
{
    struct gpuring_work *work =
        cuda_work(self->transport, self->plan, self->tables, buffer, COUNT, protocol,
                  protocol == GPURING_PROTOCOL_SIMPLE ? 8192 : 1024);
    time_t end = time(NULL) + CUDA_LIMIT;
    int status;

    status = ops->launch(self->stream, work);
    while (status == GPURING_OK || status == GPURING_AGAIN) {
        status = ops->poll(self->stream, work);
        if (status == GPURING_OK) {
            break;
        }
        CUDA_REQUIRE(time(NULL) <= end);
        sched_yield();
    }
    __atomic_add_fetch(&self->exchange->outcome.resumed, work->resumed, __ATOMIC_RELAXED);
    if (status != GPURING_OK) {
        gpuring_transport_abort(self->transport, status); /* as the watchdog does */
    }
    return status;
}

static int reduce_all(struct rank *self, CUdeviceptr buffer)
{
    int32_t *host = malloc(COUNT * sizeof *host);
    int status = GPURING_OK, n = self->nranks;

    CUDA_REQUIRE(host != NULL);
    for (int round = 0; round < ROUNDS && status == GPURING_OK; round++) {
        for (int i = 0; i < COUNT; i++) {
            host[i] = 5 * i + self->rank + round;
        }
        cuda_copy(self->device, (void *) (uintptr_t) buffer, host, COUNT * sizeof *host);
        status = reduce(self, buffer, round % 2 ? GPURING_PROTOCOL_LL : GPURING_PROTOCOL_SIMPLE);
        if (status == GPURING_OK) {
            cuda_copy(self->device, host, (void *) (uintptr_t) buffer, COUNT * sizeof *host);
        }
        for (int i = 0; i < COUNT && status == GPURING_OK; i++) {
            CUDA_REQUIRE(host[i] == n * (5 * i + round) + n * (n - 1) / 2);
        }
    }
    free(host);
    return status;
}

static void rank_body(struct rank *self, int gpu)
{
    struct cuda_outcome *outcome = &self->exchange->outcome;
    const struct gpuring_cuda_driver *driver;
    CUdeviceptr buffer;
    int status;

    driver = cuda_application_start(gpu, &buffer, COUNT * sizeof(int32_t));
    self->device = cuda_attached(buffer);
    outcome->wired[self->rank] = status = wire(self);
    if (status == GPURING_OK) {
        gpuring_transport_name(self->transport, outcome->name[self->rank],
                               sizeof outcome->name[self->rank]);
        outcome->torn[self->rank] = gpuring_transport_torn(self->transport);
        outcome->tears = gpuring_transport_tears_lines(self->transport, 0);
        outcome->reduced[self->rank] = reduce_all(self, buffer);
    }
    snprintf(outcome->warning[self->rank], sizeof outcome->warning[self->rank], "%s", last_warning);
    wait_for_all(self);
    if (self->device != NULL) {
        disconnect(self);
        gpuring_transport_finish(5000);
        ops->close(self->device);
    }
    (void) driver->free(buffer);
}

void cuda_in_process(const char *faults, void (*body)(void))
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
        alarm(CUDA_LIMIT + 10);
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

static void read_report(const char *path, struct cuda_outcome *outcome)
{
    FILE *file = fopen(path, "r");
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        size_t used = strlen(outcome->report);

        if (strstr(line, " never calls ") != NULL) {
            outcome->unreached = 1;
        } else {
            snprintf(outcome->report + used, sizeof outcome->report - used, "%s", line);
        }
    }
    fclose(file);
    unlink(path);
}

void cuda_run(const struct cuda_scenario *scenario, struct cuda_outcome *outcome)
{
    char path[] = "/tmp/gpuring-standin.XXXXXX", gpus[16];
    pthread_barrierattr_t attributes;
    struct exchange *exchange =
        mmap(NULL, sizeof *exchange, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = mkstemp(path), bad = 0, status;
    pid_t children[CUDA_MAX_RANKS];

    assert_ptr_not_equal(exchange, MAP_FAILED);
    assert_true(fd >= 0);
    close(fd);
    exchange->twice = scenario->twice;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&exchange->barrier, &attributes, (unsigned) scenario->nranks);
    fflush(NULL);
    for (int r = 0; r < scenario->nranks; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) {
            struct rank self = {.rank = r, .nranks = scenario->nranks, .exchange = exchange};

            snprintf(gpus, sizeof gpus, "%d", scenario->gpus);
            setenv("GPURING_STANDIN_GPUS", gpus, 1);
            setenv("GPURING_STANDIN_REPORT", path, 1);
            setenv("GPURING_STANDIN_FAULTS", scenario->faults[r] ? scenario->faults[r] : "", 1);
            if (scenario->exclusive != NULL) {
                setenv("GPURING_STANDIN_EXCLUSIVE", scenario->exclusive, 1);
            }
            signal(SIGSEGV, SIG_DFL); /* cmocka has a handler that goes on */
            alarm(CUDA_LIMIT + 10);
            rank_body(&self, r % scenario->gpus);
            exit(0); /* runs the stand-in's report */
        }
    }
    for (int r = 0; r < scenario->nranks; r++) {
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        bad += status != 0;
    }
    *outcome = exchange->outcome;
    munmap(exchange, sizeof *exchange);
    read_report(path, outcome);
    if (bad != 0) {
        fail_msg("%d ranks died or failed; faults of rank 0: %s, of rank 1: %s", bad,
                 scenario->faults[0] ? scenario->faults[0] : "none",
                 scenario->faults[1] ? scenario->faults[1] : "none");
    }
}
