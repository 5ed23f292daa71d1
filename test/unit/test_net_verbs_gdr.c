/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test slots in a GPU's memory with the net `verbs`, on devices and memory that exist in this
 * process only: which kind of registration is used, that no data is sent inline from there, and
 * that a chunk is reported only after the read that flushes it, also if paths fail in the meantime.
 * This tests the net, not the behaviour of hardware.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

static const struct gpuring_device_nic with_dmabuf = {.dmabuf = FAKE_DMABUF},
                                       without = {.dmabuf = -1},
                                       flushed = {.dmabuf = FAKE_DMABUF, .flush = true};

static void test_registration(void **state)
{
    static uint8_t memory[65536];
    const struct {
        bool peer_memory, dmabuf;
        const struct gpuring_device_nic *device;
        int status;
        unsigned dmabufs, relaxed;
    } cases[] = {{true, true, &with_dmabuf, GPURING_OK, 1, 0},
                 {true, true, &without, GPURING_OK, 0, 0},
                 {true, false, &with_dmabuf, GPURING_OK, 0, 0},
                 {false, true, &with_dmabuf, GPURING_OK, 1, 0},
                 {true, true, &flushed, GPURING_OK, 1, 1},
                 {true, false, &flushed, GPURING_OK, 0, 1},
                 {false, true, &without, GPURING_ERR_UNSUPPORTED, 0, 0},
                 {false, false, &with_dmabuf, GPURING_ERR_UNSUPPORTED, 0, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpuring_net_memory sample = {
            .base = memory, .bytes = sizeof memory, .device = cases[i].device};
        struct gpuring_net *net;

        clear_log(NULL);
        fake_verbs_reset(&world_roce, 1, &world_no_faults);
        fake_verbs_gpu(cases[i].peer_memory, cases[i].dmabuf, false);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
        assert_int_equal(gpuring_net_verbs.device_memory(net, 0, &sample), cases[i].status);
        assert_int_equal(fake_verbs_dmabufs(), cases[i].dmabufs);
        assert_int_equal(fake_verbs_relaxed(), cases[i].relaxed);
        assert_int_equal(log_has("[no-gdr]"), cases[i].status != GPURING_OK);
        assert_int_equal(gpuring_net_verbs.device_memory(net, 1, &sample), GPURING_ERR_ARG);
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
    }
}

/* The ports of the spares must also reach the memory. */
static void test_registration_of_spares(void **state)
{
    static uint8_t memory[65536];
    const struct fake_device devices[] = {world_roce, world_roce_next};
    const struct fake_faults second = {.reg_mr = 2};
    const struct gpuring_net_memory sample = {
        .base = memory, .bytes = sizeof memory, .device = &with_dmabuf};

    for (int spares = 0; spares < 2; spares++) {
        struct gpuring_net_config config = world_defaults;
        struct gpuring_net *net;

        clear_log(NULL);
        config.verbs_spares = spares;
        fake_verbs_reset(devices, 2, &second);
        fake_verbs_gpu(true, false, false);
        assert_int_equal(gpuring_net_verbs.open(&config, &net), GPURING_OK);
        assert_int_equal(gpuring_net_verbs.device_memory(net, 0, &sample),
                         spares == 0 ? GPURING_OK : GPURING_ERR_UNSUPPORTED);
        assert_int_equal(log_has("device roce1 of "), spares == 1);
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
    }
}

static void test_transfer(void **state)
{
    struct world world;
    unsigned sends, reported, inlined;

    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    fake_verbs_gpu(true, true, false);
    world_open_in(&world, 1, 2, NULL, &with_dmabuf);
    assert_int_equal(fake_verbs_dmabufs(), 4);
    assert_true(world_transfer_together(&world, 0, 200));
    assert_true(world_transfer_together(&world, 1, 200));
    sends = fake_verbs_sends(&reported, &inlined);
    assert_true(sends > 1200 && inlined == 0);
    assert_int_equal(fake_verbs_reads(), 0);
    world_close(&world);
}

/* Host memory is registered with relaxed ordering, if the library masks it for old kernels. */
static void test_relaxed_ordering(void **state)
{
    for (int old = 0; old < 2; old++) {
        struct world world;

        fake_verbs_reset(&world_roce, 1, &world_no_faults);
        if (old) {
            gpuring_verbs.reg_mr_iova2 = NULL;
        }
        world_open_in(&world, 1, 1, NULL, NULL);
        assert_true(world_transfer_together(&world, 0, 100));
        assert_int_equal(fake_verbs_relaxed() > 0, !old);
        world_close(&world);
    }
}

/* Without the read, the data would be missing. The lanes check every byte. */
static void test_flush(void **state)
{
    for (int qps = 1; qps <= 2; qps++) {
        struct gpuring_net_config config = world_defaults;
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        const struct ibv_mr *page_mr;
        struct world world;
        unsigned reads;

        config.verbs_qps = qps;
        fake_verbs_reset(&world_roce, 1, &world_no_faults);
        fake_verbs_gpu(true, true, true);
        world_open_in(&world, 1, 1, &config, &flushed);
        assert_true(world_transfer_together(&world, 0, 300));
        reads = fake_verbs_reads();
        assert_true(reads > 0 && reads <= 900); /* one may serve several */
        /* The page that a forked child may lose contains nothing else. */
        page_mr = world_rail(&world.recv[0], 0).port->adapter->page;
        assert_int_equal((uintptr_t) page_mr->addr % page, 0);
        assert_int_equal(page_mr->length, page);
        world_close(&world);
    }
}

static void test_flush_and_failover(void **state)
{
    const struct fake_device devices[] = {world_roce, world_roce_next, world_roce_last};

    for (uint64_t seed = 1; seed <= 30; seed++) {
        const struct fake_faults faults = {.doom = 30, .doomed = 3, .seed = seed};
        struct gpuring_net_config config = world_defaults;
        struct world world;

        config.verbs_qps = 1 + (int) (seed % 3);
        config.verbs_spares = 2;
        fake_verbs_reset(devices, 3, &world_no_faults);
        fake_verbs_gpu(true, true, true);
        world_open_in(&world, 3, 1, &config, &flushed);
        fake_verbs_set_faults(&faults);
        if (!world_transfer_together(&world, 0, 150)) {
            fail_msg("seed %llu: %s | %s", (unsigned long long) seed,
                     gpuring_proxy_error(world.send[0].link),
                     gpuring_proxy_error(world.recv[0].link));
        }
        fake_verbs_set_faults(&world_no_faults);
        world_close(&world);
    }
}

static void test_failing_calls(void **state)
{
    const struct fake_faults faults[] = {{.reg_mr = 1}, {.reg_mr = 2}, {.create_qp = 2}};
    const char *const texts[] = {"bytes of memory with device roce0",
                                 "of GPU memory (peer memory) with device roce0",
                                 "for flushing GPU memory"};

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct gpuring_device_nic device = {.dmabuf = -1, .flush = true};
        struct gpuring_net *net;
        struct lane_end end;

        clear_log(NULL);
        fake_verbs_reset(&world_roce, 1, &world_no_faults);
        fake_verbs_gpu(true, true, true);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
        fake_verbs_set_faults(&faults[i]);
        assert_int_not_equal(lane_end_create_in(&end, &gpuring_net_verbs, net, 0, NULL,
                                                GPURING_NET_RECV, WORLD_NSLOTS, WORLD_SLOT_BYTES,
                                                &device),
                             GPURING_OK);
        assert_true(log_has(texts[i]));
        lane_end_destroy(&end, 0);
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_registration, clear_log),
        cmocka_unit_test_setup(test_registration_of_spares, clear_log),
        cmocka_unit_test_setup(test_transfer, clear_log),
        cmocka_unit_test_setup(test_relaxed_ordering, clear_log),
        cmocka_unit_test_setup(test_flush, clear_log),
        cmocka_unit_test_setup(test_flush_and_failover, clear_log),
        cmocka_unit_test_setup(test_failing_calls, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
