/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the net `verbs` on devices that exist in this process only (fake_verbs.h): transfers, every
 * status that a completion can have, asynchronous events, failing calls, and closing. The emulated
 * machines of test/rdma test it with real verbs.
 */
#include "test/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/net/net_list.h"
#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

static void test_transfer(void **state)
{
    const struct fake_device devices[] = {world_roce, world_infiniband};
    unsigned sends, reported, inlined;
    struct world world;

    world_open(&world, devices, 2, 2, NULL);
    world_transfer_well(&world, 0, 300);
    world_transfer_well(&world, 1, 300);
    sends = fake_verbs_sends(&reported, &inlined);
    assert_true(reported > 0 && reported < sends); /* selectively */
    assert_true(inlined > 0 && inlined < sends);
    world_close(&world);
}

/* On InfiniBand, whole blocks of a slot are sent without an immediate value. */
static void test_blocks(void **state)
{
    const struct fake_device *devices[] = {&world_roce, &world_infiniband};
    const uint64_t sizes[] = {GPURING_VERBS_BLOCK - 128, GPURING_VERBS_BLOCK,
                              2 * GPURING_VERBS_BLOCK + 256};

    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = sizes[i / 2];
        struct world world;

        world_slot_bytes = bytes;
        world_open(&world, devices[i % 2], 1, 1, NULL);
        world_transfer_well(&world, 0, 200);
        assert_int_equal(fake_verbs_plain() > 0, i % 2 == 1 && bytes >= GPURING_VERBS_BLOCK);
        world_close(&world);
    }
}

/* Ports of InfiniBand that take no address without a global route header, also within a subnet. */
static void test_global_routes(void **state)
{
    struct fake_device device = world_infiniband;
    struct gpuring_net *net;
    struct world world;

    device.grh = true;
    world_open(&world, &device, 1, 1, NULL);
    world_transfer_well(&world, 0, 20);
    world_close(&world);
    memset(device.gid, 0, sizeof device.gid);
    fake_verbs_reset(&device, 1, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_ERR_UNSUPPORTED);
    assert_true(log_has("ib0:1 has no GID, which its subnet demands"));
    device.grh = false;
    world_open(&world, &device, 1, 1, NULL);
    world_transfer_well(&world, 0, 20);
    world_close(&world);
}

/* For every status, the text has both hosts, device, port, status and a remedy, and the other link
 * continues. */
static void test_completion_errors(void **state)
{
    for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; status++) {
        const struct fake_faults faults = {.complete = 20, .status = (enum ibv_wc_status) status};
        struct world world;
        const char *text;
        char number[32];
        int sent, received;

        world_open(&world, &world_roce, 1, 2, NULL);
        fake_verbs_set_faults(&faults);
        if (status == IBV_WC_LOC_LEN_ERR) {
            /* Either end may have detected it. The other one then detects that its peer is gone. */
            world_transfer(&world, 0, GPURING_PROTOCOL_SIMPLE, 100, &sent, &received);
            assert_int_equal(sent, GPURING_ERR_NET);
            assert_int_equal(received, GPURING_ERR_NET);
        } else {
            world_break(&world, 0, GPURING_PROTOCOL_SIMPLE, 100, &sent, &received);
        }
        assert_true(sent == GPURING_ERR_NET || received == GPURING_ERR_NET);
        snprintf(number, sizeof number, "(status %d, ", status);
        text = gpuring_proxy_error(world.send[0].link);
        if (strstr(text, number) == NULL) {
            text = gpuring_proxy_error(world.recv[0].link);
        }
        assert_non_null(strstr(text, "from host"));
        assert_non_null(strstr(text, " on host"));
        assert_non_null(strstr(text, "device roce0 port 1"));
        assert_non_null(strstr(text, number));
        assert_non_null(strstr(text, gpuring_verbs_remedy((enum ibv_wc_status) status)));
        fake_verbs_set_faults(&world_no_faults);
        world_transfer_well(&world, 1, 50);
        world_close(&world);
    }
}

/* If a cable is pulled, the receiver, which has nothing to send, detects this with its probes. */
static void test_pulled_cable(void **state)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 50000000};
    struct world world;

    world_open(&world, &world_roce, 1, 1, NULL);
    world_transfer_well(&world, 0, 10);
    fake_verbs_pull(0);
    gpuring_proxy_begin(&world.recv[0].group, false);
    while (__atomic_load_n(&world.recv[0].failed, __ATOMIC_ACQUIRE) == GPURING_OK) {
        assert_true(time(NULL) < deadline);
        nanosleep(&nap, NULL);
        fake_verbs_expire();
    }
    gpuring_proxy_end(&world.recv[0].group, false);
    assert_non_null(
        strstr(gpuring_proxy_error(world.recv[0].link), "transport retry counter exceeded"));
    world_close(&world);
}

/* Let the net check its links a number of seconds later. */
static void look_after(struct gpuring_net *net, uint64_t *now, int seconds)
{
    *now += (uint64_t) seconds * 1000000000;
    gpuring_gate_enter(net->base.gate);
    gpuring_verbs_probe_idle(net, *now, false);
    gpuring_net_verbs.poll(net);
    gpuring_gate_leave(net->base.gate);
}

/* A peer that has not connected yet does not answer, so probes are sent only when all have
 * connected. */
static void test_late_peer(void **state)
{
    uint8_t handle[GPURING_NET_HANDLE_BYTES];
    uint64_t now = gpuring_now_ns();
    const struct gpuring_proxy_config waits = {.gate = world_defaults.gate};
    unsigned before, reported, inlined;
    struct gpuring_proxy *proxy;
    struct lane_end ends[2];
    struct gpuring_net *net;

    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
    assert_int_equal(gpuring_proxy_create(&waits, &proxy), GPURING_OK);
    until_sleeping(proxy); /* and never sees the net */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lane_end_create(&ends[i], &gpuring_net_verbs, net, 0, proxy,
                                         i == 0 ? GPURING_NET_SEND : GPURING_NET_RECV, WORLD_NSLOTS,
                                         WORLD_SLOT_BYTES),
                         GPURING_OK);
    }
    for (int i = 0; i < 2; i++) {
        size_t bytes = gpuring_net_verbs.link_handle(ends[1 - i].link, handle);

        assert_int_equal(lane_end_connect(&ends[i], NULL, 0, handle, bytes, "peer"), GPURING_OK);
        look_after(net, &now, 5);
        assert_int_equal(ends[i].link->base.status, GPURING_OK);
        assert_int_equal(fake_verbs_sends(&reported, &inlined), 0);
    }
    for (int i = 0; i < 2; i++) {
        gpuring_net_verbs.link_ready(ends[i].link);
    }
    before = fake_verbs_sends(&reported, &inlined);
    now = gpuring_now_ns();
    look_after(net, &now, 0); /* the silence until then means nothing */
    assert_int_equal(fake_verbs_sends(&reported, &inlined), before);
    look_after(net, &now, 5);
    assert_int_equal(fake_verbs_sends(&reported, &inlined), before + 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends[i].link->base.status, GPURING_OK);
        lane_end_destroy(&ends[i], 0);
    }
    assert_int_equal(gpuring_proxy_destroy(proxy, 0), GPURING_OK);
    gpuring_net_verbs.close(net);
    assert_int_equal(fake_verbs_objects(), 0);
}

/* Only one process has the device open, because an event is delivered to the process that opened it
 * last. */
static void test_events(void **state)
{
    const struct fake_device devices[] = {world_roce, world_infiniband};
    struct world world;

    world_open(&world, devices, 2, 3,
               NULL); /* links 0 and 2 on the first device, 1 on the second */
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    until_logged(&world, "[port-down] host1: device roce0 port 1");
    fake_verbs_event(0, IBV_EVENT_PORT_ACTIVE);
    until_logged(&world, "[port-up] host1: device roce0 port 1");
    world_transfer_well(&world, 0, 20);

    fake_verbs_event(0, IBV_EVENT_QP_FATAL); /* the youngest: the receiving end of link 2 */
    until_failed(&world.recv[2]);
    assert_non_null(strstr(gpuring_proxy_error(world.recv[2].link), "a fake event"));
    world_transfer_well(&world, 0, 20);

    fake_verbs_event(0, IBV_EVENT_DEVICE_FATAL);
    until_failed(&world.recv[0]);
    assert_non_null(strstr(gpuring_proxy_error(world.recv[0].link), "local catastrophic error"));
    world_transfer_well(&world, 1, 20);
    world_close(&world);
}

/* The last report of a device is not lost. */
static void test_last_event(void **state)
{
    const struct fake_device devices[] = {world_roce};
    struct world world;

    world_open(&world, devices, 1, 1, NULL);
    world_transfer_well(&world, 0, 20); /* it was just checked, so it is not checked again now */
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    world_close(&world);
    assert_true(log_has("[port-down] host1: device roce0 port 1"));
}

/* Raise every event. Those of a queue pair or a device end links, and no others do. */
static void test_each_event(void **state)
{
    static const struct {
        enum ibv_event_type type;
        bool ends[2]; /* links 0 (of older queue pairs) and 1 */
    } events[] = {{IBV_EVENT_CQ_ERR, {true, true}},
                  {IBV_EVENT_QP_FATAL, {false, true}},
                  {IBV_EVENT_QP_REQ_ERR, {false, true}},
                  {IBV_EVENT_QP_ACCESS_ERR, {false, true}},
                  {IBV_EVENT_DEVICE_FATAL, {true, true}},
                  {IBV_EVENT_COMM_EST, {false, false}},
                  {IBV_EVENT_SQ_DRAINED, {false, false}},
                  {IBV_EVENT_PATH_MIG, {false, false}},
                  {IBV_EVENT_LID_CHANGE, {false, false}},
                  {IBV_EVENT_PKEY_CHANGE, {false, false}},
                  {IBV_EVENT_SM_CHANGE, {false, false}},
                  {IBV_EVENT_GID_CHANGE, {false, false}},
                  {IBV_EVENT_CLIENT_REREGISTER, {false, false}}};

    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct world world;

        world_open(&world, &world_roce, 1, 2, NULL);
        fake_verbs_event(0, events[i].type);
        fake_verbs_event(0, IBV_EVENT_PORT_ACTIVE); /* when this is reported, the other is done */
        until_logged(&world, "[port-up]");
        for (int link = 0; link < 2; link++) {
            if (events[i].ends[link]) {
                until_failed(&world.recv[link]);
                assert_non_null(
                    strstr(gpuring_proxy_error(world.recv[link].link), "device roce0 port 1"));
            } else {
                world_transfer_well(&world, link, 20);
            }
        }
        world_close(&world);
        clear_log(NULL);
    }
}

/* If the receiver has closed normally, there is no error until a process tries to send to it. */
static void test_closed_peer(void **state)
{
    struct world world;

    world_open(&world, &world_roce, 1, 1, NULL);
    world_transfer_well(&world, 0, 20);
    assert_int_equal(lane_end_destroy(&world.recv[0], 10), GPURING_OK);
    world.nlinks = 0;
    gpuring_proxy_begin(&world.send[0].group, false);
    gpuring_proxy_end(&world.send[0].group, false);
    assert_int_equal(world.send[0].failed, GPURING_OK);
    assert_int_equal(lane_send(&world.send[0], GPURING_PROTOCOL_SIMPLE, 0), GPURING_OK);
    until_failed(&world.send[0]);
    assert_int_equal(world.send[0].failed, GPURING_ERR_PEER);
    assert_int_equal(lane_end_destroy(&world.send[0], 10), GPURING_ERR_PEER);
    world_close(&world);
}

/* Return true if the BYE of each of these links was sent. */
static bool all_said(struct gpuring_net *net, const struct lane_end *ends, int count)
{
    bool all = true;

    gpuring_gate_enter(net->base.gate);
    for (int i = 0; i < count; i++) {
        all = all && ends[i].link->bye != 0;
    }
    gpuring_gate_leave(net->base.gate);
    return all;
}

static void *leave_main(void *group)
{
    gpuring_proxy_remove(group, 2 * LANE_DEADLINE_SECONDS);
    return NULL;
}

/* Links that are closed together wait for their peers together. In the second round, they do not
 * wait. */
static void test_leave_together(void **state)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 1000000};

    for (int round = 0; round < 2; round++) {
        struct lane_end send[WORLD_LINKS], recv[WORLD_LINKS];
        struct gpuring_proxy_group group;
        struct world world;
        pthread_t thread;

        world_open(&world, &world_roce, 1, 0, NULL);
        gpuring_proxy_group_init(world.proxy[0], &group);
        for (int i = 0; i < WORLD_LINKS; i++) {
            assert_int_equal(lane_end_create(&send[i], &gpuring_net_verbs, world.net[0], 0, NULL,
                                             GPURING_NET_SEND, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                             GPURING_OK);
            assert_int_equal(lane_end_create(&recv[i], &gpuring_net_verbs, world.net[1], 0, NULL,
                                             GPURING_NET_RECV, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                             GPURING_OK);
            assert_int_equal(lane_connect(&send[i], world.net[0], "0", &recv[i], world.net[1], "1"),
                             GPURING_OK);
            gpuring_proxy_add(&group, send[i].link, &send[i].failed);
        }
        fake_verbs_pull(0); /* no message arrives, and no error is reported */
        if (round == 0) {
            assert_int_equal(pthread_create(&thread, NULL, leave_main, &group), 0);
            while (!all_said(world.net[0], send, WORLD_LINKS)) {
                assert_true(time(NULL) < deadline);
                nanosleep(&nap, NULL);
            }
            fake_verbs_expire();
            pthread_join(thread, NULL);
        } else {
            assert_int_equal(gpuring_proxy_remove(&group, 0), GPURING_OK);
            assert_true(all_said(world.net[0], send, WORLD_LINKS));
        }
        for (int i = 0; i < WORLD_LINKS; i++) {
            lane_end_destroy(&send[i], 0);
            lane_end_destroy(&recv[i], 0);
        }
        world_close(&world);
    }
}

/* One end gives up with a status, and the other end's operation ends with it. */
static void test_abort(void **state)
{
    struct world world;

    world_open(&world, &world_roce, 1, 2, NULL);
    world_transfer_well(&world, 0, 20);
    gpuring_proxy_abort(world.send[0].link, GPURING_ERR_TIMEOUT);
    until_failed(&world.recv[0]);
    assert_int_equal(world.recv[0].failed, GPURING_ERR_ABORTED);
    assert_non_null(
        strstr(gpuring_proxy_error(world.recv[0].link), gpuring_status_text(GPURING_ERR_TIMEOUT)));
    gpuring_proxy_abort(world.recv[1].link, GPURING_ERR_PEER); /* against the stream */
    until_failed(&world.send[1]);
    assert_int_equal(world.send[1].failed, GPURING_ERR_ABORTED);
    world_close(&world);
}

/* For each call that may fail first, the error names it and nothing is leaked. */
static void test_failing_calls(void **state)
{
    const struct {
        struct fake_faults faults;
        const char *text;
    } opens[] = {{{.open_device = 1}, "cannot open device roce0"},
                 {{.alloc_pd = 1}, "protection domain"},
                 {{.create_channel = 1}, "completion channel"}},
      links[] = {{{.reg_mr = 1}, "the limit of locked memory (ulimit -l) is"},
                 {{.create_cq = 1}, "completion queue"},
                 {{.create_qp = 1}, "create a queue pair"},
                 {{.modify_qp = 1}, "initialise a queue pair"}};
    struct gpuring_net *net;
    struct lane_end end;

    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        fake_verbs_reset(&world_roce, 1, &opens[i].faults);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_ERR_UNSUPPORTED);
        assert_true(log_has(opens[i].text));
        assert_int_equal(fake_verbs_objects(), 0);
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        fake_verbs_reset(&world_roce, 1, &world_no_faults);
        assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
        fake_verbs_set_faults(&links[i].faults);
        assert_int_not_equal(lane_end_create(&end, &gpuring_net_verbs, net, 0, NULL,
                                             GPURING_NET_SEND, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                             GPURING_OK);
        assert_true(log_has(links[i].text));
        lane_end_destroy(&end, 0);
        gpuring_net_verbs.close(net);
        assert_int_equal(fake_verbs_objects(), 0);
    }
    /* ARRIVED has one bit for each slot that may arrive out of order. */
    fake_verbs_reset(&world_roce, 1, &world_no_faults);
    assert_int_equal(gpuring_net_verbs.open(&world_defaults, &net), GPURING_OK);
    assert_int_equal(lane_end_create(&end, &gpuring_net_verbs, net, 0, NULL, GPURING_NET_SEND,
                                     2 * WORLD_NSLOTS, WORLD_SLOT_BYTES),
                     GPURING_ERR_ARG);
    lane_end_destroy(&end, 0);
    gpuring_net_verbs.close(net);
}

/*
 * The net waits if the queue is full. Any other refusal is an error. The timing of the threads
 * determines whether the refused send is a slot or a credit; either must be repeated. The fake
 * device never refuses the net's own empty writes, because the net repeats them without the proxy.
 */
static void test_refused_sends(void **state)
{
    const struct fake_faults full = {.post_send = 10, .post_send_error = ENOMEM};
    const struct fake_faults broken = {.post_send = 10, .post_send_error = EIO};
    struct world world;
    int sent, received;

    world_open(&world, &world_roce, 1, 1, NULL);
    fake_verbs_set_faults(&full);
    world_transfer_well(&world, 0, 50);
    assert_true(gpuring_proxy_retries(world.proxy[0]) + gpuring_proxy_retries(world.proxy[1]) > 0);
    fake_verbs_set_faults(&broken);
    world_transfer(&world, 0, GPURING_PROTOCOL_LL, 50, &sent, &received);
    assert_true(sent == GPURING_ERR_NET || received == GPURING_ERR_NET);
    world_close(&world);
}

/* The device refuses the empty write that requests a completion. The net repeats it or reports an
 * error. */
static void test_refused_probes(void **state)
{
    const struct fake_faults full = {.post_probe = 1, .post_send_error = ENOMEM};
    const struct fake_faults broken = {.post_probe = 1, .post_send_error = EIO};
    struct world world;

    world_open(&world, &world_roce, 1, 1, NULL);
    fake_verbs_set_faults(&full);
    world_transfer_well(&world, 0, 50);
    until_sleeping(world.proxy[0]);
    fake_verbs_set_faults(&broken);
    /* An idle connection is tested with an empty write within a second or two. */
    until_failed(&world.recv[0]);
    assert_int_equal(world.recv[0].failed, GPURING_ERR_NET);
    assert_non_null(strstr(gpuring_proxy_error(world.recv[0].link), strerror(EIO)));
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_transfer, clear_log),
        cmocka_unit_test_setup(test_blocks, clear_log),
        cmocka_unit_test_setup(test_global_routes, clear_log),
        cmocka_unit_test_setup(test_completion_errors, clear_log),
        cmocka_unit_test_setup(test_pulled_cable, clear_log),
        cmocka_unit_test_setup(test_late_peer, clear_log),
        cmocka_unit_test_setup(test_events, clear_log),
        cmocka_unit_test_setup(test_last_event, clear_log),
        cmocka_unit_test_setup(test_each_event, clear_log),
        cmocka_unit_test_setup(test_closed_peer, clear_log),
        cmocka_unit_test_setup(test_leave_together, clear_log),
        cmocka_unit_test_setup(test_abort, clear_log),
        cmocka_unit_test_setup(test_failing_calls, clear_log),
        cmocka_unit_test_setup(test_refused_sends, clear_log),
        cmocka_unit_test_setup(test_refused_probes, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
