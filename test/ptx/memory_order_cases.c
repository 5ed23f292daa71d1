/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/ptx/memory_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

uint64_t order_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

static uint64_t below(uint64_t n)
{
    return order_random() % n;
}

/* Return the receiver's end of a connection on which a rank sends. */
static struct gpuring_fifo_end *receiver_of(struct order_case *test, uint32_t rank, uint32_t send)
{
    const struct gpuring_plan *plan = test->plans.plans[rank];
    int to = plan->sends[send].peer;
    const struct gpuring_plan *other = test->plans.plans[to];

    for (uint32_t i = 0; i < other->nrecvs; i++) {
        if (other->recvs[i].peer == (int) rank && other->recvs[i].key == plan->sends[send].key) {
            return &test->fabric.ranks[to].recvs[i];
        }
    }
    printf("Bail out! a connection has one end\n");
    exit(1);
}

/* Even and odd ranks are on different nodes. Give each connection between them a separate sender's
 * end. */
static void separate_nodes(struct order_case *test)
{
    struct fabric *fabric = &test->fabric;
    size_t most = 0;

    for (uint32_t r = 0; r < test->nranks; r++) {
        most += test->plans.plans[r]->nsends;
    }
    test->wires = calloc(most + 1, sizeof *test->wires);
    for (uint32_t r = 0; r < test->nranks; r++) {
        for (uint32_t s = 0; s < test->plans.plans[r]->nsends; s++) {
            struct gpuring_fifo_end *send = &fabric->ranks[r].sends[s];
            struct gpuring_fifo_end *receive = receiver_of(test, r, s);
            uint32_t to = (uint32_t) test->plans.plans[r]->sends[s].peer;
            size_t shorts = gpuring_fifo_short_bytes(fabric->nslots);

            if (r % 2 == to % 2) {
                continue;
            }
            send->local = receive->local = 1;
            send->tail = order_alloc(sizeof *send->tail);
            send->head = order_alloc(sizeof *send->head);
            send->slots =
                (uint8_t *) order_alloc(shorts + fabric->nslots * fabric->slot_bytes) + shorts;
            send->tail->tail = receive->tail->tail;
            send->head->head = receive->head->head;
            test->wires[test->nwires++] = (struct order_wire){.sender = *send,
                                                              .receiver = *receive,
                                                              .from = r,
                                                              .to = to,
                                                              .moved = send->step,
                                                              .given_back = send->step};
        }
    }
}

static void draw_fabric(struct order_case *test, enum gpuring_algorithm algorithm,
                        uint32_t nchannels, bool network)
{
    uint64_t slot_bytes = UINT64_C(1024) << below(3);
    bool sliced = test->protocol == GPURING_PROTOCOL_SIMPLE && below(2) == 0;

    test_plans_build(&test->plans, algorithm, (int) test->nranks, nchannels);
    for (uint32_t r = 0; r < test->nranks; r++) {
        test->nblocks += test->plans.plans[r]->nlanes;
    }
    fabric_create(&test->fabric, &test->plans, test->protocol, slot_bytes,
                  sliced ? FABRIC_SLICED : 2);
    for (int i = 0; i < ORDER_CALLS; i++) {
        test->counts[i] = 1 + below(UINT64_C(1) << (1 + below(10)));
        test->most = test->counts[i] > test->most ? test->counts[i] : test->most;
    }
    if (test->protocol == GPURING_PROTOCOL_LL && below(4) == 0) {
        fabric_start_at(&test->fabric, GPURING_LL_CLEAN_PERIOD - below(3));
    }
    if (network) {
        separate_nodes(test);
    }
}

/* Let kernels linger if they can: with LL and one lane on each rank, within a node. */
static void draw_linger(struct order_case *test)
{
    test->lingers = test->protocol == GPURING_PROTOCOL_LL && test->nwires == 0 && below(4) != 0;
    for (uint32_t r = 0; r < test->nranks; r++) {
        test->lingers = test->lingers && test->plans.plans[r]->nlanes == 1;
    }
    for (int i = 0; test->lingers && i < ORDER_CALLS; i++) {
        test->counts[i] = test->most;
    }
}

void order_draw(struct order_case *test, uint64_t seed, const struct order_options *options)
{
    static const char *const protocols[] = {"Simple", "LL", "LL128"};
    static const char *const algorithms[] = {"ring", "tree", "direct", "two-shot"};
    enum gpuring_algorithm algorithm;
    int protocol = options->protocol;
    uint32_t nchannels;
    bool network;

    memset(test, 0, sizeof *test);
    state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    test->seed = seed;
    test->mapped = protocol == ORDER_MAPPED;
    protocol = test->mapped ? (int) GPURING_PROTOCOL_SIMPLE : protocol;
    test->protocol = (enum gpuring_protocol)(protocol >= 0 ? protocol : (int) below(3));
    algorithm = test->mapped ? GPURING_ALGORITHM_TWO_SHOT
                             : (enum gpuring_algorithm) below(GPURING_ALGORITHM_COUNT);
    test->nranks = (uint32_t) (2 + below(below(3) == 0 ? 7 : 3));
    nchannels = (uint32_t) (1 + below(2));
    if (options->many) {
        algorithm = GPURING_ALGORITHM_TWO_SHOT;
        test->nranks = (test->mapped ? GPURING_MAPPED_MOST + 1 : ORDER_RANKS) - (uint32_t) below(7);
        nchannels = 1;
    }
    test->sharing = below(3) == 0 ? test->nranks : 1;
    network = test->sharing == 1 && !test->mapped && below(3) == 0;
    test->in_place = below(2) == 0;
    test->patience = UINT64_C(1000) << 2 * below(6);
    draw_fabric(test, algorithm, nchannels, network);
    draw_linger(test);
    test->stops = options->stops;
    if (test->stops) {
        test->stop_turn = UINT64_C(1) << below(16);
        test->wrong_slot = network && below(2) == 0 ? 1 + below(8) : 0;
    }
    snprintf(
        test->text, sizeof test->text,
        "%s, %s, %u ranks%s%s%s%s%s, %u channels, up to %llu elements%s, %u slots of %llu bytes",
        protocols[test->protocol], algorithms[algorithm], test->nranks,
        test->sharing > 1 ? " on one GPU" : "", network ? " on two nodes" : "",
        test->lingers ? ", kernels that linger" : "", test->mapped ? ", mapped buffers" : "",
        test->wrong_slot != 0 ? ", a wrong size"
        : test->stops         ? ", stopped"
                              : "",
        nchannels, (unsigned long long) test->most, test->in_place ? " in place" : "",
        test->fabric.nslots, (unsigned long long) test->fabric.slot_bytes);
}

void order_end(struct order_case *test)
{
    fabric_destroy(&test->fabric);
    test_plans_free(&test->plans);
    free(test->wires);
}

static uint8_t *slot_of(const struct gpuring_fifo_end *end, uint64_t step)
{
    return end->slots + (step & (end->nslots - 1)) * end->slot_bytes;
}

/* Move the next slot of a connection if there is one and the receiver has room. */
static bool move_slot(struct order_case *test, struct order_wire *wire, struct ptx_weak *weak,
                      struct ptx_fault *fault)
{
    uint64_t number = wire->moved & (wire->sender.nslots - 1);
    uint32_t from = order_proxy(test, wire->from), to = order_proxy(test, wire->to);
    const uint32_t *size = &wire->sender.tail->size[number];
    uint8_t *there = slot_of(&wire->receiver, wire->moved);
    const uint8_t *here = slot_of(&wire->sender, wire->moved);
    uint64_t tail, head;

    if (!ptx_weak_host_acquire(weak, from, &wire->sender.tail->tail, 8, &tail, fault) ||
        !ptx_weak_host_acquire(weak, to, &wire->receiver.head->head, 8, &head, fault)) {
        return false;
    }
    if (tail <= wire->moved || head + wire->receiver.nslots <= wire->moved) {
        return true;
    }
    if (!ptx_weak_host_reads(weak, from, size, 4, fault) ||
        !ptx_weak_host_reads(weak, from, here, *size, fault) ||
        !ptx_weak_host_writes(weak, to, there, *size, fault) ||
        !ptx_weak_host_writes(weak, to, &wire->receiver.tail->size[number], 4, fault)) {
        return false;
    }
    memcpy(there, here, *size);
    wire->receiver.tail->size[number] = *size + (++test->nmoved == test->wrong_slot ? 8 : 0);
    wire->moved++;
    ptx_weak_host_release(weak, to, &wire->receiver.tail->tail, wire->moved);
    return true;
}

bool order_network(struct order_case *test, struct ptx_weak *weak, char *text, size_t size)
{
    struct ptx_fault fault = {.error = PTX_OK};
    struct order_wire *wire;

    if (test->nwires == 0 || below(4) != 0) {
        return true;
    }
    wire = &test->wires[below(test->nwires)];
    if (!move_slot(test, wire, weak, &fault)) {
        snprintf(text, size, "%s", fault.text);
        return false;
    }
    if (wire->given_back < wire->moved && below(2) == 0) {
        ptx_weak_host_release(weak, order_proxy(test, wire->from), &wire->sender.head->head,
                              ++wire->given_back);
    }
    return true;
}
