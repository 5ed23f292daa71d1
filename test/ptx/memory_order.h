/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The cases of memory_order: what is drawn, and the network between the nodes of a case. */
#ifndef GPURING_PTX_MEMORY_ORDER_H
#define GPURING_PTX_MEMORY_ORDER_H

#include "test/ptx/ptx_weak.h"
#include "test/unit/fabric.h"

#define ORDER_RANKS 8
#define ORDER_CALLS 3          /* of each rank, one after the other */
#define ORDER_BYTES (32 << 20) /* of a case's memory, at most */

/* A connection between nodes: the sender's end is copied to the receiver's. */
struct order_wire {
    struct gpuring_fifo_end sender, receiver;
    uint32_t from, to;          /* ranks */
    uint64_t moved, given_back; /* slots */
};

struct order_case {
    uint64_t seed, patience;
    uint64_t counts[ORDER_CALLS], most; /* elements of 8 bytes; most: of any call */
    enum gpuring_protocol protocol;
    uint32_t nranks, sharing; /* sharing: ranks of each GPU */
    bool in_place;
    struct test_plans plans;
    struct fabric fabric;
    struct order_wire *wires;
    size_t nwires;
    char text[200];
};

/* Memory of the case, zeroed, to its end. */
void *order_alloc(size_t bytes);
uint64_t order_random(void);

/* The numbers of a rank's host and of its proxy, with the network device, among the agents of
 * ptx_weak.h; and how many are left for blocks. */
#define ORDER_BLOCKS (PTX_AGENTS - 2 * ORDER_RANKS)
static inline uint32_t order_host(uint32_t rank)
{
    return ORDER_BLOCKS + rank;
}

static inline uint32_t order_proxy(uint32_t rank)
{
    return ORDER_BLOCKS + ORDER_RANKS + rank;
}

/* Draw a case, of any protocol if that is -1, and connect its ranks. */
void order_draw(struct order_case *test, uint64_t seed, int protocol);
void order_end(struct order_case *test);

/* The network makes a step; false: an access is not ordered, as `text` says. */
bool order_network(struct order_case *test, struct ptx_weak *weak, char *text, size_t size);

#endif
