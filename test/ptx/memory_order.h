/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The cases of memory_order: their random parameters, and the network between the nodes of a
 * case. */
#ifndef GPURING_PTX_MEMORY_ORDER_H
#define GPURING_PTX_MEMORY_ORDER_H

#include "test/ptx/ptx_weak.h"
#include "test/unit/fabric.h"

#define ORDER_RANKS 24
#define ORDER_CALLS 3          /* successive calls of each rank */
#define ORDER_BYTES (64 << 20) /* maximum memory of a case */

/* A connection between nodes: the network copies the sender's end to the receiver's end. */
struct order_wire {
    struct gpuring_fifo_end sender, receiver;
    uint32_t from, to;          /* ranks */
    uint64_t moved, given_back; /* numbers of slots */
};

struct order_case {
    uint64_t seed, patience;
    uint64_t counts[ORDER_CALLS], most; /* elements of 8 bytes per call; their maximum */
    enum gpuring_protocol protocol;
    uint32_t nranks, sharing; /* sharing: ranks per GPU */
    uint32_t nblocks;         /* of all ranks */
    bool in_place;
    bool mapped;  /* ranks access the buffers of their peers */
    bool lingers; /* kernels wait for a command: all calls have one shape */
    bool stops;   /* the host stops all ranks: in this turn, or after a slot with a wrong size */
    uint64_t stop_turn;
    uint64_t wrong_slot; /* number of the slot that gets a wrong size from the network, or 0 */
    uint64_t nmoved;     /* slots that the network has moved */
    struct test_plans plans;
    struct fabric fabric;
    struct order_wire *wires;
    size_t nwires;
    char text[200];
};

/* Return zeroed memory that belongs to the case until its end. */
void *order_alloc(size_t bytes);
uint64_t order_random(void);

/* Agents of ptx_weak.h: the blocks of all ranks, the host of each rank, and its proxy together with
 * the network device. */
static inline uint32_t order_host(const struct order_case *test, uint32_t rank)
{
    return test->nblocks + rank;
}

static inline uint32_t order_proxy(const struct order_case *test, uint32_t rank)
{
    return test->nblocks + test->nranks + rank;
}

static inline uint32_t order_agents(const struct order_case *test)
{
    return test->nblocks + 2 * test->nranks;
}

/* Options of memory_order. */
struct order_options {
    bool any_order; /* the words of a line become visible in any order */
    bool many;  /* two-shot of 18 to 24 ranks, so that a lane has more connections than fit into its
                   tables in shared memory, and a step more than a warp has threads; on mapped
                   buffers 10 to 16 ranks */
    bool stops; /* the host stops all ranks, or the network delivers a wrong size */
    int protocol; /* -1: draw it; ORDER_MAPPED: Simple on mapped buffers */
};

/* Draw a case and connect its ranks. */
#define ORDER_MAPPED ((int) GPURING_PROTOCOL_COUNT)
void order_draw(struct order_case *test, uint64_t seed, const struct order_options *options);
void order_end(struct order_case *test);

/* Let the network make a step. If an access is not ordered, return false with a description in
 * `text`. */
bool order_network(struct order_case *test, struct ptx_weak *weak, char *text, size_t size);

#endif
