/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Slots of connections between nodes in GPU memory. Two ranks, on two simulated nodes, connect and
 * reduce with the net `verbs`, whose devices exist only in this process, and with the CUDA device
 * on the stand-in driver, whose memory the host cannot access. Tests the location and registration
 * of slots, flushes, and the reasons for host memory instead. No result is from hardware.
 */
#include "test/unit/unit.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/cuda_ranks.h"
#include "test/unit/descriptors.h"
#include "test/unit/connect_infos.h"
#include "test/unit/verbs_world.h"

#define RANKS      2
#define COUNT      20011
#define SLOT_BYTES 8192

enum { SUPPORTED = 1, DMABUF = 2, ORDERED = 4, ORDERED_ALL = 8 }; /* GPURING_STANDIN_GDR */

struct rank {
    struct gpuring_net *net;
    struct gpuring_proxy *proxy;
    struct gpuring_device *device;
    struct gpuring_plan *plan;
    struct gpuring_transport *transport;
    struct gpuring_stream *stream;
    void *tables;
    CUdeviceptr buffer;
    struct gpuring_work *work;
};

static const struct gpuring_device_ops *const ops = &gpuring_device_cuda;
static const struct gpuring_cuda_driver *driver;
static int (*on_gpu)(const void *address);
static void (*copy)(void *to, const void *from, size_t bytes);
static void (*arm)(const char *list);
static long (*held)(void);

static int near_by(void *context, enum gpuring_algorithm algorithm, int peer, uint32_t channel,
                   enum gpuring_net_direction direction, bool *direct, struct gpuring_net_peer *end)
{
    (void) algorithm;
    (void) peer;
    (void) channel;
    (void) end;
    *direct = (*(const unsigned *) context >> direction & 1) != 0;
    return 0;
}

static void rank_open(struct rank *self, int r, unsigned *ways)
{
    static const int node[RANKS] = {0, 1};
    static const struct gpuring_fifo_config fifo = {
        .nslots = {4, 4, 4}, .slot_bytes = {SLOT_BYTES, SLOT_BYTES, SLOT_BYTES}};
    static struct gpuring_gate gates[RANKS];
    const struct gpuring_proxy_config waits = {.gate = &gates[r], .spin_us = -1, .yield_us = -1};
    struct gpuring_net_config net = world_defaults;
    struct gpuring_channel channel = {.ring = {.prev = 1 - r, .next = 1 - r, .index = r}};
    struct gpuring_transport_config config = {
        .rank = r,
        .nranks = RANKS,
        .node = node,
        .hostname = r == 0 ? "host0" : "host1",
        .unique_id = {3, 4},
        .fifo = &fifo,
        .device_ops = ops,
        .net_ops = &gpuring_net_verbs,
        .net_device = ways != NULL ? near_by : NULL,
        .net_device_context = ways,
    };

    gates[r] = (struct gpuring_gate) GPURING_GATE_INIT;
    net.gate = &gates[r];
    net.local_host = config.hostname;
    assert_int_equal(gpuring_net_verbs.open(&net, &self->net), GPURING_OK);
    assert_int_equal(gpuring_proxy_create(&waits, &self->proxy), GPURING_OK);
    gpuring_proxy_add_net(self->proxy, self->net);
    assert_int_equal(driver->alloc(&self->buffer, COUNT * sizeof(int32_t)), CUDA_SUCCESS);
    self->device = cuda_attached(self->buffer);
    assert_non_null(self->device);
    assert_int_equal(ops->prepare(self->device), GPURING_OK);
    assert_int_equal(ops->stream_create(self->device, &self->stream), GPURING_OK);
    assert_int_equal(ops->alloc_pinned(self->device, CUDA_TABLE_BYTES, &self->tables), GPURING_OK);
    assert_int_equal(
        gpuring_plan_build(GPURING_ALGORITHM_RING,
                           &(struct gpuring_plan_input){
                               .rank = r, .nranks = RANKS, .channels = &channel, .nrings = 1},
                           &self->plan),
        GPURING_OK);
    config.device = self->device;
    config.net = self->net;
    config.proxy = self->proxy;
    assert_int_equal(gpuring_transport_create(&config,
                                              (const struct gpuring_plan *const *) &self->plan, 1,
                                              &self->transport),
                     GPURING_OK);
}

static void rank_close(struct rank *self)
{
    gpuring_plan_free(self->plan);
    ops->free_pinned(self->device, self->tables);
    ops->stream_destroy(self->stream);
    ops->close(self->device);
    assert_int_equal(driver->free(self->buffer), CUDA_SUCCESS);
    assert_int_equal(gpuring_proxy_destroy(self->proxy, 5), GPURING_OK);
    gpuring_net_verbs.close(self->net);
}

/* Transfer the first chunks, which the host sends. */
static void try_all(struct rank *ranks)
{
    int status[RANKS] = {GPURING_AGAIN, GPURING_AGAIN};
    char text[512] = "";

    while (status[0] == GPURING_AGAIN || status[1] == GPURING_AGAIN) {
        for (int r = 0; r < RANKS; r++) {
            if (status[r] == GPURING_AGAIN) {
                status[r] = gpuring_transport_try(ranks[r].transport, text, sizeof text);
            }
        }
    }
    assert_int_equal(status[0], GPURING_OK);
    assert_int_equal(status[1], GPURING_OK);
}

static void reduce(struct rank *ranks, enum gpuring_protocol protocol)
{
    static int32_t host[COUNT];
    const time_t end = time(NULL) + CUDA_LIMIT;
    int status[RANKS] = {GPURING_AGAIN, GPURING_AGAIN};

    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COUNT; i++) {
            host[i] = 7 * i + r + (int) protocol;
        }
        cuda_copy(ranks[r].device, (void *) (uintptr_t) ranks[r].buffer, host, sizeof host);
        ranks[r].work = cuda_work(ranks[r].transport, ranks[r].plan, ranks[r].tables,
                                  ranks[r].buffer, COUNT, protocol, SLOT_BYTES);
        gpuring_transport_use(ranks[r].transport, 0, ranks[r].plan->nlanes, protocol);
        gpuring_transport_begin(ranks[r].transport, false);
        assert_int_equal(ops->launch(ranks[r].stream, ranks[r].work), GPURING_OK);
    }
    while (status[0] == GPURING_AGAIN || status[1] == GPURING_AGAIN) {
        assert_true(time(NULL) <= end);
        for (int r = 0; r < RANKS; r++) {
            (void) gpuring_transport_help(ranks[r].transport, true);
            status[r] =
                status[r] == GPURING_AGAIN ? ops->poll(ranks[r].stream, ranks[r].work) : status[r];
        }
        sched_yield();
    }
    for (int r = 0; r < RANKS; r++) {
        gpuring_transport_end(ranks[r].transport, false);
        assert_int_equal(status[r], GPURING_OK);
        cuda_copy(ranks[r].device, host, (void *) (uintptr_t) ranks[r].buffer, sizeof host);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(host[i], 14 * i + 1 + 2 * (int) protocol);
        }
    }
}

struct expected {
    int gdr;                  /* GPURING_STANDIN_GDR */
    const char *fault;        /* of the stand-in driver, or NULL */
    const char *capability;   /* of the GPU; NULL: 9.0 */
    bool peer_memory, dmabuf; /* supported by the network device */
    unsigned ways;            /* which directions are near, bits */
    uint32_t direct;          /* ends with slots in the GPU's memory */
    bool by_dmabuf, flushed;  /* how */
    const char *logged;       /* in the log; NULL: nothing of interest */
};

static void check(const struct expected *expected)
{
    static struct connect_infos connect_infos;
    struct rank ranks[RANKS] = {{.net = NULL}};
    long held_before = held();
    int descriptors = open_descriptors();
    unsigned ways = expected->ways;
    char text[8];

    clear_log(NULL);
    snprintf(text, sizeof text, "%d", expected->gdr);
    setenv("GPURING_STANDIN_GDR", text, 1);
    setenv("GPURING_STANDIN_CAPABILITY", expected->capability != NULL ? expected->capability : "90",
           1);
    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    fake_verbs_gpu(expected->peer_memory, expected->dmabuf,
                   expected->capability != NULL || !(expected->gdr & (ORDERED | ORDERED_ALL)));
    fake_verbs_gpu_memory(on_gpu, copy);
    arm(expected->fault);
    for (int r = 0; r < RANKS; r++) {
        rank_open(&ranks[r], r, &ways);
        assert_int_equal(ranks[r].transport->ndirect, expected->direct);
        assert_true(connect_infos_post(&connect_infos, r, ranks[r].transport));
    }
    arm(NULL);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(connect_infos_connect(&connect_infos, r, ranks[r].transport), GPURING_OK);
    }
    try_all(ranks);
    for (int p = 0; p < 2 * GPURING_PROTOCOL_COUNT; p++) {
        reduce(ranks, (enum gpuring_protocol)(p % GPURING_PROTOCOL_COUNT));
    }
    assert_int_equal(fake_verbs_dmabufs() > 0, expected->by_dmabuf);
    assert_int_equal(fake_verbs_reads() > 0, expected->flushed);
    assert_true(expected->logged == NULL || log_has(expected->logged));
    for (int r = 0; r < RANKS; r++) {
        gpuring_transport_destroy(ranks[r].transport);
    }
    while (!gpuring_linger_look()) { /* until each end knows that the other one is closed */
        sched_yield();
    }
    for (int r = 0; r < RANKS; r++) {
        rank_close(&ranks[r]);
    }
    assert_int_equal(fake_verbs_objects(), 0);
    assert_int_equal(fake_verbs_violations(), 0);
    assert_int_equal(held(), held_before);
    assert_int_equal(open_descriptors(), descriptors);
}

#define BOTH (1u << GPURING_NET_SEND | 1u << GPURING_NET_RECV)

TEST(test_dmabuf)
{
    check(
        &(struct expected){.gdr = SUPPORTED | DMABUF,
                           .dmabuf = true,
                           .ways = BOTH,
                           .direct = 2,
                           .by_dmabuf = true,
                           .flushed = true,
                           .logged = "[gdr] network devices reach the GPU's memory: 2 of 2 ends"});
}

TEST(test_peer_memory)
{
    check(&(struct expected){.gdr = SUPPORTED,
                             .peer_memory = true,
                             .ways = BOTH,
                             .direct = 2,
                             .flushed = true,
                             .logged = "peer memory, flushed"});
}

TEST(test_no_flush_where_writes_are_in_order)
{
    check(&(struct expected){.gdr = SUPPORTED | DMABUF | ORDERED,
                             .dmabuf = true,
                             .ways = BOTH,
                             .direct = 2,
                             .by_dmabuf = true,
                             .logged = "dma-buf, in order"});
    check(&(struct expected){.gdr = SUPPORTED | ORDERED,
                             .peer_memory = true,
                             .ways = BOTH,
                             .direct = 2,
                             .logged = "peer memory, in order"});
    check(&(struct expected){.gdr = SUPPORTED | ORDERED_ALL,
                             .peer_memory = true,
                             .ways = BOTH,
                             .direct = 2,
                             .logged = "peer memory, in order"});
}

/* Before Hopper, that order only holds for kernels that are launched later, but ours are already
 * running. */
TEST(test_flush_on_older_gpus)
{
    check(&(struct expected){.gdr = SUPPORTED | DMABUF | ORDERED_ALL,
                             .capability = "80",
                             .dmabuf = true,
                             .ways = BOTH,
                             .direct = 2,
                             .by_dmabuf = true,
                             .flushed = true,
                             .logged = "dma-buf, flushed"});
    check(&(struct expected){.gdr = SUPPORTED | ORDERED,
                             .capability = "89",
                             .peer_memory = true,
                             .ways = BOTH,
                             .direct = 2,
                             .flushed = true,
                             .logged = "peer memory, flushed"});
}

/* If the driver does not report the order, there is none. */
TEST(test_flush_where_the_order_is_not_known)
{
    for (int n = 5; n <= 7; n++) { /* queries of descriptors, order and capability */
        char fault[64];

        snprintf(fault, sizeof fault, "cuDeviceGetAttribute=%d:1", n);
        check(&(struct expected){.gdr = SUPPORTED | DMABUF | ORDERED,
                                 .fault = fault,
                                 .peer_memory = true,
                                 .dmabuf = true,
                                 .ways = BOTH,
                                 .direct = 2,
                                 .by_dmabuf = true, /* of one rank at least */
                                 .flushed = n > 5,
                                 .logged = n > 5 ? "flushed by reading" : "peer memory, in order"});
    }
}

/* The NIC may be near enough to receive into GPU memory but too far to send from it, and vice
 * versa. */
TEST(test_one_way)
{
    check(&(struct expected){.gdr = SUPPORTED | DMABUF,
                             .dmabuf = true,
                             .ways = 1u << GPURING_NET_RECV,
                             .direct = 1,
                             .by_dmabuf = true,
                             .flushed = true,
                             .logged = "1 of 2 ends"});
    check(&(struct expected){.gdr = SUPPORTED | DMABUF,
                             .dmabuf = true,
                             .ways = 1u << GPURING_NET_SEND,
                             .direct = 1,
                             .by_dmabuf = true,
                             .logged = "1 of 2 ends"});
}

/* If there is no descriptor, or it is refused, peer memory is used. */
TEST(test_second_choice)
{
    check(&(struct expected){.gdr = SUPPORTED | DMABUF,
                             .fault = "cuMemGetHandleForAddressRange=1:801",
                             .peer_memory = true,
                             .dmabuf = true,
                             .ways = BOTH,
                             .direct = 2,
                             .by_dmabuf = true, /* of the other rank */
                             .flushed = true,
                             .logged = "[no-dmabuf]"});
    check(&(struct expected){.gdr = SUPPORTED | DMABUF,
                             .peer_memory = true,
                             .ways = BOTH,
                             .direct = 2,
                             .flushed = true});
}

TEST(test_staged)
{
    const struct expected cases[] = {
        {.gdr = SUPPORTED | DMABUF, .peer_memory = true, .dmabuf = true, .logged = "[gdr-far]"},
        {.gdr = 0, .peer_memory = true, .ways = BOTH, .logged = "[no-gpudirect]"},
        {.gdr = SUPPORTED | DMABUF, .ways = BOTH, .logged = "[no-gdr] device roce0 of host0"},
        {.gdr = SUPPORTED, .dmabuf = true, .ways = BOTH, .logged = "GPU memory (peer memory)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i]);
    }
}

/* If memory is not in whole pages, or if the driver fails, nothing remains registered. */
TEST(test_refused_by_the_driver)
{
    struct gpuring_device_nic access;
    struct gpuring_device *device;
    int descriptors = open_descriptors();
    CUdeviceptr buffer;

    clear_log(NULL);
    setenv("GPURING_STANDIN_GDR", "3", 1);
    assert_int_equal(driver->alloc(&buffer, 4 << 20), CUDA_SUCCESS);
    device = cuda_attached(buffer);
    assert_non_null(device);
    assert_int_equal(ops->nic_access(device, (void *) (uintptr_t) (buffer + 4096), 65536, &access),
                     GPURING_ERR_UNSUPPORTED);
    assert_int_equal(ops->nic_access(device, (void *) (uintptr_t) buffer, 4096, &access),
                     GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("GPU memory does not begin or end with a page"));
    arm("cuCtxPushCurrent_v2=1");
    assert_int_equal(ops->nic_access(device, (void *) (uintptr_t) buffer, 4 << 20, &access),
                     GPURING_ERR_IO);
    arm(NULL);
    ops->close(device);
    assert_int_equal(driver->free(buffer), CUDA_SUCCESS);
    assert_int_equal(open_descriptors(), descriptors);
}

static int start(void **state)
{
    CUdeviceptr buffer;
    void *library;

    signal(SIGSEGV, SIG_DFL); /* a touch of the GPU's memory by the host ends the test */
    driver = cuda_application_start(0, &buffer, 4096);
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    *(void **) &on_gpu = dlsym(library, "gpuring_standin_on_gpu");
    *(void **) &copy = dlsym(library, "gpuring_standin_copy");
    *(void **) &arm = dlsym(library, "gpuring_standin_arm");
    *(void **) &held = dlsym(library, "gpuring_standin_held");
    assert_true(on_gpu != NULL && copy != NULL && arm != NULL && held != NULL);
    return driver->free(buffer) == CUDA_SUCCESS ? 0 : -1;
}

TEST_GROUP(start, NULL)
