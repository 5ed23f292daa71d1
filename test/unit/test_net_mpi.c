/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the net `mpi` between two ranks in one thread. net_messages.c simulates the messages.
 */
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/util/status.h"
#include "test/unit/net_lane.h"
#include "test/unit/net_messages.h"

#define NSLOTS       4
#define SLOT_BYTES   (128 << 10)
#define LARGE        16384 /* bytes of a step that MPI does not store */
#define WINDOW       1024 /* of the net: the last of this number of messages waits for the receiver */
#define WINDOW_BYTES (2 << 20) /* the same, if the messages are larger */

/* A rank: its net and proxy, and its end of a connection from rank 0 to rank 1. */
static struct rank {
    struct ompi_communicator_t comm;
    struct gpuring_proxy *proxy;
    struct gpuring_net *net;
    struct lane_end end;
} ranks[2];

static void rank_open(int rank)
{
    const struct gpuring_proxy_config waits = {.progress = net_messages_ops.progress};
    struct gpuring_net_config config = {.messages = &net_messages_ops,
                                        .comm = &ranks[rank].comm,
                                        .rank = rank,
                                        .local_host = "here"};
    struct rank *own = &ranks[rank];

    own->comm.rank = rank;
    assert_int_equal(gpuring_proxy_create(&waits, &own->proxy), GPURING_OK);
    config.gate = gpuring_proxy_gate(own->proxy);
    assert_int_equal(gpuring_net_mpi.open(&config, &own->net), GPURING_OK);
    gpuring_proxy_add_net(own->proxy, own->net);
    assert_int_equal(lane_end_create(&own->end, &gpuring_net_mpi, own->net, 0, own->proxy,
                                     rank == 0 ? GPURING_NET_SEND : GPURING_NET_RECV, NSLOTS,
                                     SLOT_BYTES),
                     GPURING_OK);
}

static int connect_ranks(void **state)
{
    for (int i = 0; i < 2; i++) {
        rank_open(i);
    }
    assert_int_equal(
        lane_connect(&ranks[0].end, ranks[0].net, "rank 0", &ranks[1].end, ranks[1].net, "rank 1"),
        GPURING_OK);
    for (int i = 0; i < 2; i++) {
        gpuring_proxy_use(ranks[i].end.link, 1u << GPURING_PROTOCOL_SIMPLE);
        gpuring_proxy_begin(&ranks[i].end.group, false);
    }
    return 0;
}

static int close_ranks(void **state)
{
    for (int i = 0; i < 2; i++) {
        lane_end_destroy(&ranks[i].end, 0.01);
        gpuring_net_mpi.close(ranks[i].net);
        assert_int_equal(gpuring_proxy_destroy(ranks[i].proxy, 0), GPURING_OK);
    }
    net_messages_reset();
    return 0;
}

static void help(int rank)
{
    (void) gpuring_proxy_help(&ranks[rank].end.group, true);
}

static uint8_t byte_of(uint64_t step)
{
    return (uint8_t) (3 * step + 1);
}

/* Fill the slot of a step at the sender. */
static void put(uint64_t step, uint32_t bytes)
{
    struct lane_end *end = &ranks[0].end;

    memset(end->slots[0] + step % NSLOTS * SLOT_BYTES, byte_of(step), bytes);
    end->tail[0]->size[step % NSLOTS] = bytes;
    __atomic_store_n(&end->tail[0]->tail, step + 1, __ATOMIC_RELEASE);
}

static uint64_t sent(void)
{
    return __atomic_load_n(&ranks[0].end.head[0]->head, __ATOMIC_ACQUIRE);
}

static uint64_t arrived(void)
{
    return __atomic_load_n(&ranks[1].end.tail[0]->tail, __ATOMIC_ACQUIRE);
}

/* Check the slot of a step at the receiver, and return it. */
static void take(uint64_t step, uint32_t bytes)
{
    struct lane_end *end = &ranks[1].end;
    const uint8_t *slot = end->slots[0] + step % NSLOTS * SLOT_BYTES;

    assert_true(arrived() > step);
    assert_int_equal(end->tail[0]->size[step % NSLOTS], bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        assert_int_equal(slot[i], byte_of(step));
    }
    __atomic_store_n(&end->head[0]->head, step + 1, __ATOMIC_RELEASE);
}

/* Let the lane of rank 1 wait for a step, whose chunk has `room` bytes. */
static void want(uint64_t step, uint8_t *to, uint64_t room)
{
    struct gpuring_fifo_head *head = ranks[1].end.head[0];

    head->to = to;
    head->room = room;
    __atomic_store_n(&head->wanted, step + 1, __ATOMIC_RELEASE);
}

/* Let a rank progress until it looks for the peer's report that it has given up. */
static void help_long(int rank)
{
    for (int i = 0; i < 20; i++) {
        help(rank);
    }
}

/* Send small and large slots, each before and after its receive was posted. */
TEST_WITH(connect_ranks, close_ranks, test_steps)
{
    for (uint64_t step = 0; step < 40; step++) {
        uint32_t bytes = step % 3 == 0 ? LARGE : step % 3 == 1 ? 16 : 1;

        if (step % 2 == 0) {
            help(1);
        }
        put(step, bytes);
        help(0);
        help(1);
        take(step, bytes);
        help(1);
        help(0);
        assert_int_equal(sent(), step + 1);
        assert_false(gpuring_proxy_unsent(&ranks[0].end.group));
    }
}

/* Small slots are sent before the receiver takes part, up to the window. An operation must not end
 * before the receiver has begun to receive the last slot of the window. */
TEST_WITH(connect_ranks, close_ranks, test_window)
{
    static const uint32_t sizes[] = {16, NET_MESSAGES_EAGER};
    uint64_t step = 0, taken = 0;

    for (int i = 0; i < 2; i++) {
        uint64_t window = i == 0 ? WINDOW : WINDOW_BYTES / NET_MESSAGES_EAGER, end = step + window;

        while (step == sent() && step < end + NSLOTS) {
            put(step++, sizes[i]);
            help(0);
        }
        assert_int_equal(sent(), end - 1);
        assert_true(gpuring_proxy_unsent(&ranks[0].end.group));
        while (taken < end) {
            help(1);
            take(taken++, sizes[i]);
        }
        assert_false(gpuring_proxy_unsent(&ranks[0].end.group));
        assert_int_equal(sent(), end);
    }
}

/* The net tests messages only after one of them has completed, or lanes have run. */
TEST_WITH(connect_ranks, close_ranks, test_looks)
{
    struct gpuring_proxy_group *group = &ranks[1].end.group;

    help(1);
    for (uint64_t step = 0; step < 3 * NSLOTS; step++) {
        net_messages.looks = 0;
        assert_false(gpuring_proxy_help(group, false));
        assert_int_equal(net_messages.looks, 0);
        put(step, 16);
        help(0);
        assert_true(gpuring_proxy_help(group, false));
        take(step, 16);
        assert_false(gpuring_proxy_help(group, true));
        assert_true(net_messages.looks > 0);
    }
}

/* A communicator that was freed has posted receives only during operations, and loses no message
 * that has arrived before its operation. Then another communicator uses the connection. */
TEST_WITH(connect_ranks, close_ranks, test_freed)
{
    static struct ompi_communicator_t next[2] = {{.rank = 0}, {.rank = 1}};
    struct gpuring_proxy_group *group = &ranks[1].end.group;

    help(1);
    gpuring_proxy_unpost(group);
    assert_true(net_messages.posted_receives > 1);
    put(0, 16);
    help(0);
    assert_false(gpuring_net_mpi.link_whole(ranks[1].end.link)); /* it has received a message */
    for (uint64_t step = 0; step < 3 * NSLOTS; step++) {
        gpuring_proxy_end(group, false);
        assert_int_equal(net_messages.posted_receives, 0);
        gpuring_proxy_begin(group, false);
        help(1);
        take(step, 16);
        help(1);
        put(step + 1, 16);
        help(0);
    }
    help(1);
    take(3 * NSLOTS, 16);
    gpuring_proxy_end(group, false);
    gpuring_proxy_unpost(group);
    assert_int_equal(net_messages.posted_receives, 0);
    for (int rank = 0; rank < 2; rank++) {
        assert_true(gpuring_net_mpi.link_whole(ranks[rank].end.link));
        gpuring_net_mpi.attach(ranks[rank].net, &next[rank], 1);
        gpuring_proxy_reused(&ranks[rank].end.group);
    }
    put(3 * NSLOTS + 1, 16);
    help(0);
    help(1);
    take(3 * NSLOTS + 1, 16);
    assert_true(next[0].started > 0 && next[1].started > 0);
}

/* While an operation is in progress, the links that it does not use are withdrawn. */
TEST_WITH(connect_ranks, close_ranks, test_freed_while_running)
{
    struct gpuring_proxy_group *group = &ranks[1].end.group;

    help(1);
    gpuring_proxy_use(ranks[1].end.link, 0);
    assert_true(net_messages.posted_receives > 1);
    gpuring_proxy_unpost(group);
    assert_int_equal(net_messages.posted_receives, 0);
}

/* MPI completes the cancellation of a receive during a later operation, before or after the next
 * slots are sent. No slot is lost, repeated or exchanged. */
TEST_WITH(connect_ranks, close_ranks, test_cancelled_late)
{
    struct gpuring_proxy_group *group = &ranks[1].end.group;

    net_messages.cancels_late = true;
    help_long(1); /* until the receive of the control message is posted, too */
    gpuring_proxy_unpost(group);
    gpuring_proxy_end(group, false);
    for (uint64_t step = 0; step < 12 * NSLOTS; step++) {
        if (step % 2 == 0) {
            gpuring_proxy_begin(group, false);
        }
        if (step % 3 == 0) {
            net_messages_cancel();
            help(1);
        }
        put(step, 16);
        help(0);
        help(1);
        if (step % 4 == 1) {
            net_messages_cancel();
        }
        take(step, 16);
        help_long(1);
        if (step % 2 == 1) {
            gpuring_proxy_end(group, false);
        }
    }
    assert_int_equal(ranks[1].end.failed, 0);
}

/* A large slot belongs to MPI until the receiver takes part. */
TEST_WITH(connect_ranks, close_ranks, test_large)
{
    put(0, LARGE);
    help(0);
    assert_int_equal(sent(), 0);
    assert_true(gpuring_proxy_unsent(&ranks[0].end.group));
    help(1);
    take(0, LARGE);
    assert_false(gpuring_proxy_unsent(&ranks[0].end.group));
    assert_int_equal(sent(), 1);
}

/* A track has posted receives only during operations, and few of them. It loses no message that has
 * arrived between operations. */
TEST_WITH(connect_ranks, close_ranks, test_track)
{
    struct gpuring_proxy_group *group = &ranks[1].end.group;
    uint64_t step = 0;

    for (int rank = 0; rank < 2; rank++) {
        gpuring_net_mpi.attach(ranks[rank].net, &ranks[rank].comm, 1);
        gpuring_proxy_unpost(&ranks[rank].end.group);
    }
    for (int chunks = 1; chunks < 2 * NSLOTS; chunks++) {
        help(1);
        assert_int_equal(net_messages.posted_receives, 1);
        for (int i = 0; i < chunks; i++, step++) {
            want(step, NULL, 16);
            put(step, 16);
            help(0);
            help(1);
            take(step, 16);
            help(1);
            assert_in_range(net_messages.posted_receives, 0, i == 0 ? 0 : NSLOTS);
        }
        gpuring_proxy_end(group, false);
        assert_int_equal(net_messages.posted_receives, 0);
        put(step, 16);
        help(0);
        gpuring_proxy_begin(group, false);
        help(1);
        take(step++, 16);
        gpuring_proxy_end(group, false);
        assert_int_equal(net_messages.posted_receives, 0);
        gpuring_proxy_begin(group, false);
    }
}

#define WANTED 70000 /* bytes of a step that the lane must want */

/* Let the sending lane post a chunk by its address. */
static void put_address(uint64_t step, const uint8_t *chunk, uint32_t bytes)
{
    struct lane_end *end = &ranks[0].end;

    memcpy(end->slots[0] + step % NSLOTS * SLOT_BYTES, &chunk, sizeof chunk);
    end->tail[0]->size[step % NSLOTS] = bytes | GPURING_FIFO_ADDRESS;
    __atomic_store_n(&end->tail[0]->tail, step + 1, __ATOMIC_RELEASE);
}

/* A chunk between two short ones is received when and where the lane wants it, also in its slot,
 * and stays in order. */
TEST_WITH(connect_ranks, close_ranks, test_wanted)
{
    static uint8_t chunk[WANTED], output[WANTED];
    uint64_t step = 0;

    memset(chunk, 7, sizeof chunk);
    for (int round = 0; round < 6; round++) {
        bool early = round % 2 == 0, in_slot = round % 3 == 0;
        uint8_t *to = in_slot ? ranks[1].end.slots[0] + step % NSLOTS * SLOT_BYTES : output;

        memset(output, 0, sizeof output);
        if (early) {
            want(step, to, WANTED);
            help(1);
        }
        put_address(step, chunk, WANTED);
        help(0);
        put(step + 1, 16);
        help(0);
        help(1);
        assert_int_equal(arrived(), early ? step + 2 : step);
        want(step, to, WANTED);
        help(1);
        help(1);
        assert_int_equal(arrived(), step + 2);
        assert_memory_equal(to, chunk, WANTED);
        assert_int_equal(ranks[1].end.tail[0]->size[step % NSLOTS], WANTED);
        take(step + 1, 16);
        help(0);
        assert_int_equal(sent(), step + 2);
        step += 2;
    }
}

/* The communicator is freed, and its last operation ends, before the lane wants a chunk. */
TEST_WITH(connect_ranks, close_ranks, test_wanted_freed)
{
    static uint8_t chunk[WANTED], output[WANTED];
    struct gpuring_proxy_group *group = &ranks[1].end.group;

    (void) state;
    memset(chunk, 7, sizeof chunk);
    put_address(0, chunk, WANTED);
    help(0);
    help(1);
    gpuring_proxy_unpost(group);
    gpuring_proxy_end(group, false);
    gpuring_proxy_begin(group, false);
    want(0, output, WANTED);
    help(1);
    help(1);
    assert_int_equal(arrived(), 1);
    assert_memory_equal(output, chunk, WANTED);
}

/* The lane learns that the peer's chunk has another size. */
TEST_WITH(connect_ranks, close_ranks, test_wanted_sizes)
{
    static uint8_t chunk[WANTED + 128], output[WANTED];

    put_address(0, chunk, WANTED + 128);
    help(0);
    want(0, output, WANTED);
    help(1);
    help(1);
    assert_int_equal(arrived(), 1);
    assert_int_equal(ranks[1].end.tail[0]->size[0], UINT32_MAX);
    put_address(1, chunk, WANTED - 128);
    help(0);
    want(1, output, WANTED);
    help(1);
    help(1);
    assert_int_equal(ranks[1].end.tail[0]->size[1], WANTED - 128);
}

/* Post the receive of a chunk that the lane of rank 1 wants. Return the number of receives that
 * were posted before. */
static unsigned post_wanted(void)
{
    static uint8_t output[WANTED];
    unsigned before;

    help(1);
    before = net_messages.posted_receives;
    want(0, output, WANTED);
    help(1);
    assert_int_equal(net_messages.posted_receives, before + 1);
    return before;
}

/* MPI no longer has the user's memory after this end has given up. */
TEST_WITH(connect_ranks, close_ranks, test_wanted_abort)
{
    unsigned before = post_wanted();

    gpuring_proxy_abort(ranks[1].end.link, GPURING_ERR_TIMEOUT);
    assert_int_equal(net_messages.posted_receives, before);
}

/* This end sends no further chunks after it has given up, because the program may then free their
 * memory. */
TEST_WITH(connect_ranks, close_ranks, test_unsent_abort)
{
    static uint8_t chunk[WANTED];
    int before = ranks[0].comm.started;

    put_address(0, chunk, WANTED);
    gpuring_proxy_abort(ranks[0].end.link, GPURING_ERR_TIMEOUT);
    help(0);
    assert_int_equal(ranks[0].comm.started, before + 1); /* only that it has given up */
}

static bool settle(int rank, bool late)
{
    return gpuring_proxy_settle(&ranks[rank].end.group, late);
}

/* Let both ends complete what was posted before they gave up. */
static void settle_both(void)
{
    bool all = false;

    for (int i = 0; i < 4 * NSLOTS && !all; i++) {
        all = settle(0, false);
        all = settle(1, false) && all;
    }
    assert_true(all);
    assert_int_equal(net_messages.posted_receives, 0);
    for (int i = 0; i < 2; i++) {
        assert_false(gpuring_net_mpi.link_holds(ranks[i].end.link));
    }
    assert_int_equal(arrived(), 0); /* for no lane */
}

/* Post a chunk that the receiver must want, and two others that MPI does not store. */
static void put_long(const uint8_t *chunk)
{
    put_address(0, chunk, WANTED);
    help(0);
    for (uint64_t step = 1; step < 3; step++) {
        put_address(step, chunk, LARGE);
        help(0);
    }
}

/* When both ends have given up, MPI no longer reads the user's memory. The receiver gives up before
 * or after it has posted receives, and first or last. */
TEST_WITH(connect_ranks, close_ranks, test_settle_first)
{
    static uint8_t chunk[WANTED];

    put_long(chunk);
    gpuring_proxy_abort(ranks[1].end.link, GPURING_ERR_TIMEOUT);
    assert_false(settle(1, false));
    help(0); /* with a long chunk in flight, it looks immediately */
    assert_int_equal(ranks[0].end.failed, GPURING_ERR_ABORTED);
    settle_both();
}

TEST_WITH(connect_ranks, close_ranks, test_settle_last)
{
    static uint8_t chunk[WANTED];

    help(1);
    put_long(chunk);
    gpuring_proxy_abort(ranks[0].end.link, GPURING_ERR_TIMEOUT);
    assert_false(settle(0, false));
    help_long(1);
    assert_int_equal(ranks[1].end.failed, GPURING_ERR_ABORTED);
    settle_both();
}

/* A receiver that has waited for long enough leaves no receive for the sender's chunks. */
TEST_WITH(connect_ranks, close_ranks, test_settle_late)
{
    static uint8_t chunk[WANTED];

    (void) post_wanted();
    gpuring_proxy_abort(ranks[1].end.link, GPURING_ERR_TIMEOUT);
    assert_false(settle(1, false));
    assert_true(settle(1, true));
    assert_int_equal(net_messages.posted_receives, 1); /* for the peer's report */
    put_long(chunk);
    assert_int_equal(net_messages.posted_receives, 1);
    assert_false(settle(0, true));
    assert_true(gpuring_net_mpi.link_holds(ranks[0].end.link));
    net_messages_complete();
    assert_true(settle(0, true));
}

/* Protocols that no operation uses have no receives. */
TEST_WITH(connect_ranks, close_ranks, test_unused)
{
    unsigned used;

    help(1);
    used = net_messages.posted_receives;
    assert_in_range(used, 1, NSLOTS);
    gpuring_proxy_use(ranks[1].end.link, 1u << GPURING_PROTOCOL_SIMPLE | 1u << GPURING_PROTOCOL_LL);
    help(1);
    assert_int_equal(net_messages.posted_receives, 2 * used);
}

TEST_WITH(connect_ranks, close_ranks, test_abort)
{
    help(0);
    help(1);
    gpuring_proxy_abort(ranks[0].end.link, GPURING_ERR_DATA);
    help_long(1);
    assert_int_equal(ranks[1].end.failed, GPURING_ERR_ABORTED);
    assert_non_null(strstr(gpuring_proxy_error(ranks[1].end.link), "[peer-gave-up]"));
    assert_int_equal(ranks[0].end.failed, GPURING_OK);
}

TEST_WITH(connect_ranks, close_ranks, test_errors)
{
    net_messages.refuse = true;
    put(0, 16);
    help(0);
    assert_int_equal(ranks[0].end.failed, GPURING_ERR_NET);
    assert_non_null(strstr(gpuring_proxy_error(ranks[0].end.link), "[mpi-failed]"));
    net_messages.refuse = false;
    net_messages.fail_next = true; /* the first receive */
    help(1);
    help(1);
    assert_int_equal(ranks[1].end.failed, GPURING_ERR_NET);
}

/* MPI may still write to a receive that it cannot cancel, so its memory must not be freed. */
TEST_WITH(connect_ranks, close_ranks, test_held)
{
    bool (*holds)(struct gpuring_net_link *) = gpuring_net_mpi.link_holds;

    help(1);
    net_messages.cancels = false;
    assert_true(holds(ranks[1].end.link));
    net_messages.cancels = true;
    assert_false(holds(ranks[1].end.link));
}

TEST_WITH(connect_ranks, close_ranks, test_wanted_failure)
{
    unsigned before = post_wanted();

    gpuring_proxy_abort(ranks[0].end.link, GPURING_ERR_DATA);
    help(1);
    assert_int_equal(ranks[1].end.failed, GPURING_ERR_ABORTED);
    assert_int_equal(net_messages.posted_receives, before);
}
