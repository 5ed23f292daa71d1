/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The end of links of the net `verbs` that share queue pairs, on devices that exist in this process
 * only. No proxy works: the test posts and polls, so that it determines the order of events.
 */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/util/status.h"
#include "test/unit/verbs_world.h"

#define ENDS 8

/* Two processes with the ends of links. Process 0 sends. */
struct pair {
    struct gpuring_net *net[2];
    struct lane_end end[2][ENDS];
    bool open[2][ENDS];
};

static struct gpuring_gate gates[2] = {GPURING_GATE_INIT, GPURING_GATE_INIT};

static void pair_open_on(struct pair *pair, const struct fake_device *devices, int spares,
                         int entries)
{
    struct gpuring_net_config config = world_defaults;

    memset(pair, 0, sizeof *pair);
    lane_process = 1;
    fake_verbs_reset(devices, 1 + spares, &world_no_faults);
    fake_verbs_queues(entries);
    fake_verbs_retry();
    config.verbs_qps = 1;
    config.verbs_spares = spares;
    for (int i = 0; i < 2; i++) {
        config.gate = &gates[i];
        assert_int_equal(gpuring_net_verbs.open(&config, &pair->net[i]), GPURING_OK);
    }
}

static void pair_open(struct pair *pair, int spares, int entries)
{
    pair_open_on(pair, world_paths[0], spares, entries);
}

static void make_on(struct pair *pair, int process, int n, int device)
{
    assert_int_equal(lane_end_create(&pair->end[process][n], &gpuring_net_verbs, pair->net[process],
                                     device, NULL,
                                     process == 0 ? GPURING_NET_SEND : GPURING_NET_RECV,
                                     WORLD_NSLOTS, WORLD_SLOT_BYTES),
                     GPURING_OK);
    pair->open[process][n] = true;
}

static void make(struct pair *pair, int process, int n)
{
    make_on(pair, process, n, 0);
}

/* Connect one end with the handle of the other one. */
static int join(struct pair *pair, int process, int n)
{
    uint8_t handle[GPURING_NET_HANDLE_BYTES];
    size_t bytes = gpuring_net_verbs.link_handle(pair->end[1 - process][n].link, handle);

    return lane_end_connect(&pair->end[process][n], NULL, 0, handle, bytes, "the peer");
}

static void begin(struct pair *pair, int n)
{
    for (int i = 0; i < 2; i++) {
        gpuring_net_verbs.link_ready(pair->end[i][n].link);
    }
}

static void link_up(struct pair *pair, int n)
{
    for (int i = 0; i < 2; i++) {
        make(pair, i, n);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(join(pair, i, n), GPURING_OK);
    }
    begin(pair, n);
}

static void link_down(struct pair *pair, int process, int n)
{
    lane_end_close(&pair->end[process][n]);
    pair->open[process][n] = false;
}

static void poll_net(struct pair *pair, int process, int times)
{
    for (int i = 0; i < times; i++) {
        gpuring_gate_enter(&gates[process]);
        gpuring_net_verbs.poll(pair->net[process]);
        gpuring_gate_leave(&gates[process]);
    }
}

static void poll_both(struct pair *pair)
{
    for (int i = 0; i < 60; i++) {
        poll_net(pair, i % 2, 1);
    }
}

static int leave(struct pair *pair, int process, int n)
{
    int status;

    gpuring_gate_enter(&gates[process]);
    status = gpuring_net_verbs.link_leave(pair->end[process][n].link);
    gpuring_gate_leave(&gates[process]);
    return status;
}

static bool holds(struct pair *pair, int process, int n)
{
    return gpuring_net_verbs.link_holds(pair->end[process][n].link);
}

static int post(struct pair *pair, int n, uint64_t step)
{
    struct lane_end *end = &pair->end[0][n];
    int status;

    gpuring_gate_enter(&gates[0]);
    end->tail[0]->size[step % WORLD_NSLOTS] = 16;
    memset(end->slots[0] + step % WORLD_NSLOTS * WORLD_SLOT_BYTES, (int) step + 1, 16);
    status = gpuring_net_verbs.post(end->link, GPURING_PROTOCOL_SIMPLE, step, 16, false, 0);
    gpuring_gate_leave(&gates[0]);
    return status;
}

static uint64_t arrived(const struct pair *pair, int n)
{
    return pair->end[1][n].link->base.count[0].done;
}

static void pass(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t) seconds,
                                  .tv_nsec = (long) (seconds * 1e9) % 1000000000};

    nanosleep(&time, NULL);
}

static void pair_close(struct pair *pair)
{
    for (int n = 0; n < ENDS; n++) {
        for (int i = 0; i < 2; i++) {
            if (pair->open[i][n]) {
                link_down(pair, i, n);
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        if (pair->net[i] != NULL) {
            gpuring_net_verbs.close(pair->net[i]);
        }
    }
    assert_int_equal(fake_verbs_objects(), 0);
    assert_int_equal(fake_verbs_violations(), 0);
}

/* An end is held until its BYE and that of the peer have been received. */
static void test_both_know(void **state)
{
    struct pair pair;

    pair_open(&pair, 0, 0);
    link_up(&pair, 0);
    assert_int_equal(post(&pair, 0, 0), GPURING_OK);
    poll_both(&pair);
    assert_true(holds(&pair, 1, 0)); /* posts BYE */
    assert_true(holds(&pair, 1, 0)); /* its BYE was received, but the peer has posted none */
    assert_true(holds(&pair, 0, 0)); /* its own BYE has no completion yet */
    assert_true(pair.end[0][0].link->peer_closed);
    assert_false(holds(&pair, 0, 0));
    assert_false(holds(&pair, 1, 0));
    pair_close(&pair);
}

/*
 * The peer has received BYE, but its acknowledgement is lost. The peer closes its end and gives the
 * number to another link, so BYE must not be repeated: neither if this end connects the new link
 * before it notices the failure, nor if it does so later.
 */
static void test_repeated_bye(void **state)
{
    for (int late = 0; late < 2; late++) {
        const struct fake_faults faults = {
            .complete = 1, .status = IBV_WC_RETRY_EXC_ERR, .delivered = true};
        struct pair pair;

        pair_open(&pair, 1, 0);
        link_up(&pair, 0);
        assert_int_equal(post(&pair, 0, 0), GPURING_OK);
        poll_both(&pair);
        assert_true(holds(&pair, 1, 0));
        poll_both(&pair);
        assert_true(pair.end[0][0].link->peer_closed);
        fake_verbs_set_faults(&faults);
        assert_true(holds(&pair, 0, 0));
        fake_verbs_set_faults(&world_no_faults);
        poll_net(&pair, 1, 1);
        assert_false(holds(&pair, 1, 0));
        link_down(&pair, 1, 0);
        make(&pair, 0, 1);
        make(&pair, 1, 1);
        assert_int_equal(pair.end[1][1].link->number, 0);
        assert_int_equal(join(&pair, 1, 1), GPURING_OK);
        if (late) {
            poll_net(&pair, 0, 1);
            assert_int_equal(join(&pair, 0, 1), GPURING_ERR_STALE);
        } else {
            assert_int_equal(join(&pair, 0, 1), GPURING_OK);
            begin(&pair, 1);
        }
        for (int i = 0; i < 20; i++) {
            (void) leave(&pair, 0, 0);
            poll_both(&pair);
        }
        assert_false(holds(&pair, 0, 0));
        if (!late) { /* the new link goes on with the spare */
            assert_false(pair.end[1][1].link->peer_closed);
            assert_int_equal(post(&pair, 1, 0), GPURING_OK);
            poll_both(&pair);
            assert_int_equal(arrived(&pair, 1), 1);
            assert_int_equal(pair.end[0][1].link->base.status, GPURING_OK);
            assert_int_equal(pair.end[1][1].link->base.status, GPURING_OK);
        }
        pair_close(&pair);
    }
}

/* Nothing is posted after BYE, which may be followed by a link with the same number. */
static void test_last_message(void **state)
{
    unsigned before, after, reported, inlined;
    struct pair pair;

    pair_open(&pair, 0, 0);
    link_up(&pair, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(leave(&pair, i, 0), GPURING_OK);
    }
    before = fake_verbs_sends(&reported, &inlined);
    assert_int_equal(post(&pair, 0, 0), GPURING_AGAIN);
    gpuring_gate_enter(&gates[1]);
    assert_int_equal(gpuring_net_verbs.credit(pair.end[1][0].link, GPURING_PROTOCOL_SIMPLE, 1),
                     GPURING_OK);
    gpuring_net_verbs.link_abort(pair.end[1][0].link, GPURING_ERR_TIMEOUT);
    gpuring_gate_leave(&gates[1]);
    after = fake_verbs_sends(&reported, &inlined);
    assert_int_equal(after, before);
    poll_both(&pair);
    assert_int_equal(pair.end[0][0].link->base.status, GPURING_OK);
    pair_close(&pair);
}

/* A process leaves more links than its queue has room for messages, while the peer does not poll.
 * It does not wait, and all ends become free when the peer polls again. */
static void test_leave_without_peer(void **state)
{
    struct pair pair;

    pair_open(&pair, 0, 4);
    for (int n = 0; n < ENDS; n++) {
        link_up(&pair, n);
    }
    for (int n = 0; n < ENDS; n++) {
        assert_int_equal(leave(&pair, 0, n), GPURING_OK);
        assert_true(holds(&pair, 0, n));
    }
    for (int i = 0; i < 20; i++) {
        for (int n = 0; n < ENDS; n++) {
            (void) holds(&pair, i % 2, n);
        }
        poll_both(&pair);
    }
    for (int n = 0; n < ENDS; n++) {
        assert_false(holds(&pair, 0, n));
        assert_false(holds(&pair, 1, n));
    }
    pair_close(&pair);
}

/* The ends of an endpoint connect with handles of different links, the second of which was made
 * when one end was connected. Rails of equal number must nevertheless belong together. */
static void test_order_of_rails(void **state)
{
    struct fake_device devices[] = {world_infiniband, world_infiniband, world_infiniband};
    static const char *const names[] = {"ib0", "ib1", "ib2"};
    const struct gpuring_verbs_endpoint *ep[2];
    struct pair pair;

    for (int i = 0; i < 3; i++) { /* two on one network */
        devices[i].name = names[i];
        devices[i].ports = 1;
        devices[i].gid[0][7] = (uint8_t) (1 + (i + 1) / 2);
        devices[i].gid[0][15] = (uint8_t) (1 + i);
    }
    pair_open_on(&pair, devices, 2, 0);
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 2; i++) {
            make_on(&pair, i, n, 1 - i);
        }
        assert_int_equal(join(&pair, n, n), GPURING_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(join(&pair, 1 - i, i), GPURING_OK);
        ep[i] = pair.end[i][0].link->endpoint;
        assert_ptr_equal(ep[i], pair.end[i][1].link->endpoint);
    }
    for (unsigned r = 0; r < ep[0]->nrails; r++) {
        assert_int_equal(ep[0]->mine[r].qpn, ep[1]->peer[r].qpn);
        assert_int_equal(ep[1]->mine[r].qpn, ep[0]->peer[r].qpn);
    }
    pair_close(&pair);
}

/* A chunk arrives before this end has learned that the peer is ready, and this end is closed
 * without ever learning it. The peer gets a BYE, so that its memory becomes free. */
static void test_never_ready(void **state)
{
    struct pair pair;

    pair_open(&pair, 0, 0);
    for (int i = 0; i < 2; i++) {
        make(&pair, i, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(join(&pair, i, 0), GPURING_OK);
    }
    gpuring_net_verbs.link_ready(pair.end[0][0].link);
    assert_int_equal(post(&pair, 0, 0), GPURING_OK);
    poll_both(&pair);
    assert_true(holds(&pair, 1, 0));
    assert_true(holds(&pair, 0, 0));
    poll_both(&pair);
    for (int i = 0; i < 2; i++) {
        assert_false(holds(&pair, i, 0));
    }
    pair_close(&pair);
}

/* The send queue is full when a link is aborted, so the report follows later, before BYE. */
static void test_abort_waits(void **state)
{
    uint64_t step = 0;
    struct pair pair;

    pair_open(&pair, 0, 4);
    for (int n = 0; n < 2; n++) {
        link_up(&pair, n);
    }
    while (step < WORLD_NSLOTS && post(&pair, 0, step) == GPURING_OK) {
        step++; /* the peer does not poll, so it posts no receives */
    }
    assert_in_range(step, 4, WORLD_NSLOTS - 1);
    gpuring_gate_enter(&gates[0]);
    gpuring_net_verbs.link_abort(pair.end[0][1].link, GPURING_ERR_TIMEOUT);
    gpuring_gate_leave(&gates[0]);
    poll_both(&pair);
    assert_int_equal(pair.end[1][1].link->base.status, GPURING_ERR_ABORTED);
    assert_int_equal(pair.end[1][0].link->base.status, GPURING_OK);
    assert_int_equal(arrived(&pair, 0), step);
    assert_int_equal(gpuring_net_verbs.quiet(pair.net[0]), GPURING_OK);
    pair_close(&pair);
}

/* The peer dies after this end has left. Its memory becomes free, although nothing else is sent. */
static void test_peer_dies(void **state)
{
    struct pair pair;

    pair_open(&pair, 0, 0);
    link_up(&pair, 0);
    link_up(&pair, 1);
    assert_int_equal(post(&pair, 0, 0), GPURING_OK);
    poll_both(&pair);
    for (int n = 0; n < 2; n++) {
        assert_true(holds(&pair, 0, n));
    }
    poll_both(&pair);
    for (int n = 0; n < 2; n++) {
        link_down(&pair, 1, n);
    }
    gpuring_net_verbs.close(pair.net[1]);
    pair.net[1] = NULL;
    assert_true(holds(&pair, 0, 0));
    pass(1.2);
    assert_true(holds(&pair, 0, 0)); /* probes the peer */
    poll_net(&pair, 0, 1);
    for (int n = 0; n < 2; n++) {
        assert_false(holds(&pair, 0, n));
    }
    assert_int_equal(fake_verbs_queue_pairs(), 0);
    pair_close(&pair);
}

/* All numbers of an endpoint are in use. The ranks connect again, and then use a new endpoint. */
static void test_full_endpoint(void **state)
{
    struct gpuring_verbs_endpoint *ep;
    struct gpuring_net_link *taken;
    struct pair pair;

    pair_open(&pair, 0, 0);
    link_up(&pair, 0);
    ep = pair.end[0][0].link->endpoint;
    taken = pair.end[0][0].link;
    gpuring_gate_enter(&gates[0]);
    ep->links = realloc(ep->links, (1u << VERBS_IMM_LINK_BITS) * sizeof(*ep->links));
    for (unsigned i = 1; i < 1u << VERBS_IMM_LINK_BITS; i++) {
        ep->links[i] = taken;
    }
    ep->nlinks = 1u << VERBS_IMM_LINK_BITS;
    gpuring_gate_leave(&gates[0]);
    assert_int_equal(lane_end_create(&pair.end[0][1], &gpuring_net_verbs, pair.net[0], 0, NULL,
                                     GPURING_NET_SEND, WORLD_NSLOTS, WORLD_SLOT_BYTES),
                     GPURING_ERR_STALE);
    free(pair.end[0][1].memory);
    gpuring_gate_enter(&gates[0]);
    for (unsigned i = 1; i < 1u << VERBS_IMM_LINK_BITS; i++) {
        ep->links[i] = NULL;
    }
    gpuring_gate_leave(&gates[0]);
    make(&pair, 0, 2); /* with a new endpoint */
    assert_ptr_not_equal(pair.end[0][2].link->endpoint, ep);
    assert_int_equal(post(&pair, 0, 0), GPURING_OK);
    poll_both(&pair);
    assert_int_equal(arrived(&pair, 0), 1);
    pair_close(&pair);
}

/* A port fails of endpoints that no link uses: one that was used, and one whose wire-up has ended
 * before its end. No recovery waits, and the next link replaces them. */
static void test_unused_endpoint(void **state)
{
    for (int ready = 0; ready < 2; ready++) {
        struct pair pair;

        pair_open(&pair, 1, 0);
        for (int i = 0; i < 2; i++) {
            make(&pair, i, 0);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(join(&pair, i, 0), GPURING_OK);
        }
        if (ready) {
            begin(&pair, 0);
        }
        for (int i = 0; i < 3; i++) {
            (void) holds(&pair, 0, 0);
            (void) holds(&pair, 1, 0);
            poll_both(&pair);
        }
        for (int i = 0; i < 2; i++) {
            assert_false(holds(&pair, i, 0));
            link_down(&pair, i, 0);
        }
        assert_int_equal(fake_verbs_queue_pairs(), 4);
        fake_verbs_event(0, IBV_EVENT_PORT_ERR); /* to process 1, which was opened last */
        pass(0.3);
        poll_both(&pair);
        poll_both(&pair);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(gpuring_net_verbs.quiet(pair.net[i]), GPURING_OK);
        }
        make(&pair, 1, 1);
        assert_int_equal(fake_verbs_queue_pairs(), 4);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_both_know, clear_log),
        cmocka_unit_test_setup(test_repeated_bye, clear_log),
        cmocka_unit_test_setup(test_last_message, clear_log),
        cmocka_unit_test_setup(test_leave_without_peer, clear_log),
        cmocka_unit_test_setup(test_order_of_rails, clear_log),
        cmocka_unit_test_setup(test_never_ready, clear_log),
        cmocka_unit_test_setup(test_abort_waits, clear_log),
        cmocka_unit_test_setup(test_peer_dies, clear_log),
        cmocka_unit_test_setup(test_full_endpoint, clear_log),
        cmocka_unit_test_setup(test_unused_endpoint, clear_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
