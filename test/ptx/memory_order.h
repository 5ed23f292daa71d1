/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The cases of memory_order: their random parameters, and the network between the nodes of a
 * case. */
#ifndef GPURING_PTX_MEMORY_ORDER_H
#define GPURING_PTX_MEMORY_ORDER_H

#include "test/ptx/ptx_weak.h"
#include "test/unit/fabric.h"

#define ORDER_RANKS 8
#define ORDER_CALLS 3          /* successive calls of each rank */
#define ORDER_BYTES (32 << 20) /* maximum memory of a case */

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
    bool in_place;
    bool mapped;  /* ranks access the buffers of their peers */
    bool lingers; /* kernels wait for a command: all calls have one shape */
    struct test_plans plans;
    struct fabric fabric;
    struct order_wire *wires;
    size_t nwires;
    char text[200];
};

/* Return zeroed memory that belongs to the case until its end. */
void *order_alloc(size_t bytes);
uint64_t order_random(void);

/* Agents of ptx_weak.h: the host of a rank, its proxy together with the network device, and the
 * number of agents that are left for blocks. */
#define ORDER_BLOCKS (PTX_AGENTS - 2 * ORDER_RANKS)
static inline uint32_t order_host(uint32_t rank)
{
    return ORDER_BLOCKS + rank;
}

static inline uint32_t order_proxy(uint32_t rank)
{
    return ORDER_BLOCKS + ORDER_RANKS + rank;
}

/* Draw a case and connect its ranks. If `protocol` is -1, it is drawn as well; ORDER_MAPPED: Simple
 * on mapped buffers. */
#define ORDER_MAPPED ((int) GPURING_PROTOCOL_COUNT)
void order_draw(struct order_case *test, uint64_t seed, int protocol);
void order_end(struct order_case *test);

/* Let the network make a step. If an access is not ordered, return false with a description in
 * `text`. */
bool order_network(struct order_case *test, struct ptx_weak *weak, char *text, size_t size);

#endif
