/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failures of the net `verbs` at certain moments, on devices that exist in this process only. No
 * proxy works: the test posts slots and polls both nets itself, so that it determines the order of
 * events.
 */
#include "test/unit/unit.h"

#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

#define LINKS 3
#define MANY  300
#define BYTES 16

/* Nets of two processes with links from process 0 to process 1. */
struct hand {
    struct gpuring_net *net[2];
    struct lane_end send[MANY], recv[MANY];
    int nlinks;
};

static struct gpuring_gate gates[2] = {GPURING_GATE_INIT, GPURING_GATE_INIT};

/* Open both nets. Asynchronous events are delivered to the net of the process `last`. */
static void open_nets(struct hand *hand, int ndevices, int spares, int last)
{
    struct gpuring_net_config config = world_defaults;

    memset(hand, 0, sizeof *hand);
    fake_verbs_reset(world_paths[0], ndevices, &world_no_faults);
    config.verbs_qps = 1;
    config.verbs_spares = spares;
    for (int i = 0; i < 2; i++) {
        int process = i == 0 ? 1 - last : last;

        config.gate = &gates[process];
        assert_int_equal(gpuring_net_verbs.open(&config, &hand->net[process]), GPURING_OK);
    }
}

/* Create the ends of the next link, on device 0. */
static void create_link(struct hand *hand)
{
    int n = hand->nlinks++;

    assert_int_equal(lane_end_create(&hand->send[n], &gpuring_net_verbs, hand->net[0], 0, NULL,
                                     GPURING_NET_SEND, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                     GPURING_OK);
    assert_int_equal(lane_end_create(&hand->recv[n], &gpuring_net_verbs, hand->net[1], 0, NULL,
                                     GPURING_NET_RECV, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                     GPURING_OK);
}

static void open_links(struct hand *hand, int nlinks)
{
    while (hand->nlinks < nlinks) {
        int n = hand->nlinks;

        create_link(hand);
        assert_int_equal(lane_connect(&hand->send[n], hand->net[0], "rank 0", &hand->recv[n],
                                      hand->net[1], "rank 1"),
                         GPURING_OK);
    }
}

static void close_all(struct hand *hand)
{
    for (int n = 0; n < hand->nlinks; n++) {
        lane_end_destroy(&hand->send[n], 0);
        lane_end_destroy(&hand->recv[n], 0);
    }
    for (int i = 0; i < 2; i++) {
        gpuring_net_verbs.close(hand->net[i]);
    }
    assert_int_equal(fake_verbs_objects(), 0);
    assert_int_equal(fake_verbs_violations(), 0);
}

static void poll_net(struct hand *hand, int process, int times)
{
    for (int i = 0; i < times; i++) {
        gpuring_gate_enter(&gates[process]);
        gpuring_net_verbs.poll(hand->net[process]);
        gpuring_gate_leave(&gates[process]);
    }
}

static void pass(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t) seconds,
                                  .tv_nsec = (long) (seconds * 1e9) % 1000000000};

    nanosleep(&time, NULL);
}

static void post(struct hand *hand, int link, unsigned protocol, uint64_t step)
{
    struct lane_end *end = &hand->send[link];

    gpuring_gate_enter(&gates[0]);
    end->tail[protocol]->size[step % WORLD_NSLOTS] = BYTES;
    memset(end->slots[protocol] + step % WORLD_NSLOTS * WORLD_SLOT_BYTES, (int) step + 1, BYTES);
    assert_int_equal(
        gpuring_net_verbs.post(end->link, (enum gpuring_protocol) protocol, step, BYTES, false, 0),
        GPURING_OK);
    gpuring_gate_leave(&gates[0]);
}

static uint64_t done(const struct lane_end *end, unsigned protocol)
{
    return end->link->base.count[protocol].done;
}

/* Check that the steps before `count` have been sent and have arrived, with their data. */
static void check_arrived(const struct hand *hand, int link, unsigned protocol, uint64_t count)
{
    const struct lane_end *recv = &hand->recv[link];

    assert_int_equal(hand->send[link].link->base.status, GPURING_OK);
    assert_int_equal(recv->link->base.status, GPURING_OK);
    assert_int_equal(done(&hand->send[link], protocol), count);
    assert_int_equal(done(recv, protocol), count);
    for (uint64_t step = 0; step < count; step++) {
        assert_int_equal(recv->slots[protocol][step * WORLD_SLOT_BYTES + BYTES - 1], step + 1);
    }
}

/*
 * A receiver is delayed while completions of arrivals wait in its queue. The device has
 * acknowledged these slots, so the sender does not repeat them, and the receiver must not destroy
 * the queue pair before it has seen them.
 */
static void test_late_completions(void **state)
{
    struct hand hand;

    open_nets(&hand, 2, 1, 0);
    open_links(&hand, LINKS);
    for (int link = 0; link < LINKS; link++) {
        for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            for (uint64_t step = 0; step < WORLD_NSLOTS; step++) {
                post(&hand, link, p, step);
            }
        }
    }
    poll_net(&hand, 0, 20);
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    pass(0.3);
    poll_net(&hand, 0, 20); /* the sender reports the loss of its port on the spare */
    poll_net(&hand, 1, 1);
    pass(1.1);
    poll_net(&hand, 1, 20);
    poll_net(&hand, 0, 20);
    for (int link = 0; link < LINKS; link++) {
        for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            check_arrived(&hand, link, p, WORLD_NSLOTS);
        }
    }
    close_all(&hand);
}

/* Post every slot, let both ends work, and check that all have arrived. */
static void send_all_slots(struct hand *hand)
{
    for (uint64_t step = 0; step < WORLD_NSLOTS; step++) {
        post(hand, 0, GPURING_PROTOCOL_SIMPLE, step);
    }
    for (int i = 0; i < 60; i++) {
        poll_net(hand, 0, 1);
        poll_net(hand, 1, 1);
    }
    check_arrived(hand, 0, GPURING_PROTOCOL_SIMPLE, WORLD_NSLOTS);
}

/* A port fails at one end while the other end is not connected yet and could not receive a report.
 */
static void test_fails_before_ready(void **state)
{
    uint8_t handles[2][GPURING_NET_HANDLE_BYTES];
    size_t bytes[2];
    struct hand hand;

    open_nets(&hand, 2, 1, 1);
    create_link(&hand);
    bytes[0] = gpuring_net_verbs.link_handle(hand.send[0].link, handles[0]);
    bytes[1] = gpuring_net_verbs.link_handle(hand.recv[0].link, handles[1]);
    assert_int_equal(lane_end_connect(&hand.recv[0], NULL, 0, handles[0], bytes[0], "rank 0"),
                     GPURING_OK);
    fake_verbs_event(0, IBV_EVENT_PORT_ERR);
    pass(0.3);
    poll_net(&hand, 1, 20);
    assert_true(log_has("[verbs-failover]"));
    assert_int_equal(hand.recv[0].link->base.status, GPURING_OK);
    assert_int_equal(lane_end_connect(&hand.send[0], NULL, 0, handles[1], bytes[1], "rank 1"),
                     GPURING_OK);
    gpuring_net_verbs.link_ready(hand.send[0].link);
    gpuring_net_verbs.link_ready(hand.recv[0].link);
    send_all_slots(&hand);
    close_all(&hand);
}

/*
 * A spare has connected at one end only. When the lane fails, this end uses the spare in vain. It
 * then needs the other end's report about it to repeat the slots on the next spare.
 */
static void test_spare_of_one_end(void **state)
{
    const unsigned calls[] = {3, 9}; /* the sender's and the receiver's first spare */

    for (int end = 0; end < 2; end++) {
        const struct fake_faults faults = {.modify_qp = calls[end]};
        struct hand hand;

        open_nets(&hand, 3, 2, 0);
        create_link(&hand);
        fake_verbs_set_faults(&faults);
        assert_int_equal(lane_connect(&hand.send[0], hand.net[0], "rank 0", &hand.recv[0],
                                      hand.net[1], "rank 1"),
                         GPURING_OK);
        assert_int_equal(hand.send[0].link->endpoint->rail[1].state == GPURING_VERBS_UP, end == 1);
        assert_int_equal(hand.recv[0].link->endpoint->rail[1].state == GPURING_VERBS_UP, end == 0);
        fake_verbs_event(0, IBV_EVENT_PORT_ERR);
        pass(0.3);
        poll_net(&hand, 0, 1);
        send_all_slots(&hand);
        for (int i = 0; i < 2; i++) { /* the recoveries are complete, so the proxy may sleep */
            assert_int_equal(gpuring_net_verbs.quiet(hand.net[i]), GPURING_OK);
        }
        close_all(&hand);
    }
}

/* The peer has received everything and has closed its end, and the acknowledgement of a slot is
 * lost. The slot counts as sent, so that nothing waits for it. */
static void test_peer_closed(void **state)
{
    struct hand hand;

    open_nets(&hand, 1, 0, 0);
    open_links(&hand, 1);
    gpuring_gate_enter(&gates[1]);
    assert_int_equal(gpuring_net_verbs.link_leave(hand.recv[0].link), GPURING_OK);
    gpuring_gate_leave(&gates[1]);
    fake_verbs_pull(0);
    post(&hand, 0, GPURING_PROTOCOL_SIMPLE, 0);
    poll_net(&hand, 0, 1);
    assert_true(hand.send[0].link->peer_closed);
    assert_int_equal(done(&hand.send[0], GPURING_PROTOCOL_SIMPLE), 0);
    fake_verbs_expire();
    poll_net(&hand, 0, 2);
    assert_int_equal(done(&hand.send[0], GPURING_PROTOCOL_SIMPLE), 1);
    assert_int_equal(hand.send[0].link->base.status, GPURING_OK);
    fake_verbs_haunt();
    close_all(&hand);
}

/* A pass polls all completion queues of a device, so many links have few of them. */
static void test_few_queues(void **state)
{
    static struct hand hand;
    struct gpuring_verbs_cq *cq;
    unsigned queues = 0;

    open_nets(&hand, 1, 0, 0);
    while (hand.nlinks < MANY) {
        create_link(&hand);
    }
    GPURING_LIST_EACH(cq, &hand.net[0]->adapters->cqs, struct gpuring_verbs_cq, node)
    {
        queues++;
    }
    assert_in_range(queues, 1, 8); /* of one endpoint for each link */
    close_all(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_late_completions, clear_log),
        cmocka_unit_test_setup(test_fails_before_ready, clear_log),
        cmocka_unit_test_setup(test_spare_of_one_end, clear_log),
        cmocka_unit_test_setup(test_peer_closed, clear_log),
        cmocka_unit_test_setup(test_few_queues, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
