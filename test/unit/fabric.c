/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One connection: counters, then slots. */
struct wire {
    struct gpuring_fifo_tail *tail;
    struct gpuring_fifo_head *head;
    uint8_t *slots;
};

static size_t wire_bytes(const struct fabric *fabric)
{
    return sizeof(struct gpuring_fifo_tail) + sizeof(struct gpuring_fifo_head) +
           fabric->slot_bytes * fabric->nslots;
}

static struct wire wire_at(const struct fabric *fabric, size_t index)
{
    uint8_t *base = (uint8_t *) fabric->memory + index * wire_bytes(fabric);

    return (struct wire){.tail = (void *) base,
                         .head = (void *) (base + sizeof(struct gpuring_fifo_tail)),
                         .slots = base + sizeof(struct gpuring_fifo_tail) +
                                  sizeof(struct gpuring_fifo_head)};
}

/* The receiver's number for the connection {from, to, key}. */
static uint32_t recv_find(const struct gpuring_plan *plan, int from, uint32_t key)
{
    for (uint32_t i = 0; i < plan->nrecvs; i++) {
        if (plan->recvs[i].peer == from && plan->recvs[i].key == key) {
            return i;
        }
    }
    fail_msg("no receiver at rank %d for rank %d, key %u", plan->rank, from, key);
    return 0;
}

static void connect_rank(struct fabric *fabric, int rank, size_t *next)
{
    const struct gpuring_plan *plan = fabric->plans->plans[rank];

    for (uint32_t i = 0; i < plan->nsends; i++) {
        struct wire wire = wire_at(fabric, (*next)++);
        int to = plan->sends[i].peer;
        uint32_t recv = recv_find(fabric->plans->plans[to], rank, plan->sends[i].key);

        fabric->ranks[rank].sends[i] = (struct gpuring_send){.slots = wire.slots,
                                                             .tail = wire.tail,
                                                             .head = wire.head,
                                                             .slot_bytes = fabric->slot_bytes,
                                                             .nslots = fabric->nslots};
        fabric->ranks[to].recvs[recv] = (struct gpuring_recv){.slots = wire.slots,
                                                              .tail = wire.tail,
                                                              .head = wire.head,
                                                              .slot_bytes = fabric->slot_bytes,
                                                              .nslots = fabric->nslots};
    }
}

void fabric_create(struct fabric *fabric, const struct test_plans *plans,
                   enum gpuring_protocol protocol, uint64_t slot_bytes, uint32_t nslots)
{
    size_t nwires = 0, next = 0;

    *fabric = (struct fabric){
        .plans = plans, .protocol = protocol, .slot_bytes = slot_bytes, .nslots = nslots};
    fabric->ranks = calloc((size_t) plans->nranks, sizeof *fabric->ranks);
    assert_non_null(fabric->ranks);
    for (int rank = 0; rank < plans->nranks; rank++) {
        const struct gpuring_plan *plan = plans->plans[rank];
        struct fabric_rank *own = &fabric->ranks[rank];

        nwires += plan->nsends;
        own->sends = calloc(plan->nsends + 1, sizeof *own->sends);
        own->recvs = calloc(plan->nrecvs + 1, sizeof *own->recvs);
        own->lanes = calloc(plan->nlanes, sizeof *own->lanes);
        assert_non_null(own->sends);
        assert_non_null(own->recvs);
        assert_non_null(own->lanes);
    }
    fabric->memory_bytes = nwires * wire_bytes(fabric);
    assert_int_equal(posix_memalign(&fabric->memory, 128, fabric->memory_bytes), 0);
    memset(fabric->memory, 0, fabric->memory_bytes);
    for (int rank = 0; rank < plans->nranks; rank++) {
        connect_rank(fabric, rank, &next);
    }
}

void fabric_destroy(struct fabric *fabric)
{
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        free(fabric->ranks[rank].sends);
        free(fabric->ranks[rank].recvs);
        free(fabric->ranks[rank].lanes);
    }
    free(fabric->ranks);
    free(fabric->memory);
}

void fabric_start_at(struct fabric *fabric, uint64_t step)
{
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        const struct gpuring_plan *plan = fabric->plans->plans[rank];

        for (uint32_t i = 0; i < plan->nsends; i++) {
            struct gpuring_send *send = &fabric->ranks[rank].sends[i];

            send->step = send->seen = send->head->head = step;
        }
        for (uint32_t i = 0; i < plan->nrecvs; i++) {
            struct gpuring_recv *recv = &fabric->ranks[rank].recvs[i];

            recv->step = recv->seen = recv->tail->tail = step;
        }
    }
}

void fabric_work(struct fabric *fabric, int rank, uint32_t type, uint32_t op, uint64_t count,
                 const void *input, void *output, uint64_t patience)
{
    const struct gpuring_plan *plan = fabric->plans->plans[rank];
    struct fabric_rank *own = &fabric->ranks[rank];
    uint64_t size = gpuring_type_info(type)->size;

    for (uint32_t i = 0; i < plan->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &plan->lanes[i];

        own->lanes[i] = (struct gpuring_lane){
            .steps = lane->steps,
            .refs = lane->refs,
            .recvs = own->recvs + lane->first_recv,
            .sends = own->sends + lane->first_send,
            .chunk = gpuring_chunk_max(fabric->protocol, fabric->slot_bytes, size),
            .nsteps = lane->nsteps,
            .nchunks = lane->nchunks,
        };
        gpuring_plan_lane_range(plan, i, count, gpuring_chunk_align(size), &own->lanes[i].first,
                                &own->lanes[i].count);
    }
    own->work = (struct gpuring_work){.input = input,
                                      .output = output,
                                      .type = type,
                                      .op = op,
                                      .protocol = fabric->protocol,
                                      .nlanes = plan->nlanes,
                                      .lanes = own->lanes,
                                      .abort = &fabric->abort,
                                      .patience = patience};
}
