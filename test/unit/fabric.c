/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/fabric.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* One connection: counters, short slots, slots. */
struct wire {
    struct gpuring_fifo_tail *tail;
    struct gpuring_fifo_head *head;
    uint8_t *slots;
};

static size_t slots_at(const struct fabric *fabric)
{
    return sizeof(struct gpuring_fifo_tail) + sizeof(struct gpuring_fifo_head) +
           gpuring_fifo_short_bytes(fabric->nslots);
}

static size_t wire_bytes(const struct fabric *fabric)
{
    return slots_at(fabric) + fabric->slot_bytes * fabric->nslots;
}

static struct wire wire_at(const struct fabric *fabric, size_t index)
{
    uint8_t *base = (uint8_t *) fabric->memory + index * wire_bytes(fabric);

    return (struct wire){.tail = (void *) base,
                         .head = (void *) (base + sizeof(struct gpuring_fifo_tail)),
                         .slots = base + slots_at(fabric)};
}

/* Return the receiver's index of the connection {from, to, key}. */
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

        fabric->ranks[rank].sends[i] = (struct gpuring_fifo_end){.slots = wire.slots,
                                                                 .tail = wire.tail,
                                                                 .head = wire.head,
                                                                 .slot_bytes = fabric->slot_bytes,
                                                                 .nslots = fabric->nslots,
                                                                 .local = fabric_local,
                                                                 .spread = 1};
        fabric->ranks[to].recvs[recv] = (struct gpuring_fifo_end){.slots = wire.slots,
                                                                  .tail = wire.tail,
                                                                  .head = wire.head,
                                                                  .slot_bytes = fabric->slot_bytes,
                                                                  .nslots = fabric->nslots,
                                                                  .local = fabric_local,
                                                                  .spread = 1};
    }
}

static void *host_alloc(size_t bytes, int wires)
{
    void *memory = NULL;

    (void) wires;
    assert_int_equal(posix_memalign(&memory, 128, bytes), 0);
    memset(memory, 0, bytes);
    return memory;
}

static void host_release(void *memory, int wires)
{
    (void) wires;
    free(memory);
}

static const struct fabric_memory host_memory = {host_alloc, host_release};
const struct fabric_memory *fabric_memory = &host_memory;
uint16_t fabric_local;

/* Allocate a table of `count` entries of `size` bytes, which the host writes and executors read. */
static void *table(size_t count, size_t size)
{
    return fabric_memory->alloc((count + 1) * size, 0);
}

/* Create the tables of one rank, and return the number of its lanes. */
static size_t create_rank(struct fabric_rank *rank, const struct gpuring_plan *plan)
{
    rank->sends = table(plan->nsends, sizeof *rank->sends);
    rank->recvs = table(plan->nrecvs, sizeof *rank->recvs);
    rank->steps = table(plan->nsteps, sizeof *rank->steps);
    rank->refs = table(plan->nrefs, sizeof *rank->refs);
    memcpy(rank->steps, plan->steps, plan->nsteps * sizeof *plan->steps);
    memcpy(rank->refs, plan->refs, plan->nrefs * sizeof *plan->refs);
    return plan->nlanes;
}

void fabric_create(struct fabric *fabric, const struct test_plans *plans,
                   enum gpuring_protocol protocol, uint64_t slot_bytes, uint32_t nslots)
{
    size_t nwires = 0, nlanes = 0, next = 0;

    *fabric = (struct fabric){
        .plans = plans, .protocol = protocol, .slot_bytes = slot_bytes, .nslots = nslots};
    fabric->ranks = table((size_t) plans->nranks, sizeof *fabric->ranks);
    fabric->work = table(1, sizeof *fabric->work);
    fabric->abort = table(1, sizeof *fabric->abort);
    for (int rank = 0; rank < plans->nranks; rank++) {
        nlanes += create_rank(&fabric->ranks[rank], plans->plans[rank]);
        nwires += plans->plans[rank]->nsends;
    }
    fabric->lanes = table(nlanes, sizeof *fabric->lanes);
    fabric->states = table(nlanes, sizeof *fabric->states);
    nlanes = 0;
    for (int rank = 0; rank < plans->nranks; rank++) {
        fabric->ranks[rank].lanes = fabric->lanes + nlanes;
        fabric->ranks[rank].states = fabric->states + nlanes;
        nlanes += plans->plans[rank]->nlanes;
    }
    fabric->memory = fabric_memory->alloc(nwires * wire_bytes(fabric), 1);
    for (int rank = 0; rank < plans->nranks; rank++) {
        connect_rank(fabric, rank, &next);
    }
}

void fabric_destroy(struct fabric *fabric)
{
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        fabric_memory->release(fabric->ranks[rank].sends, 0);
        fabric_memory->release(fabric->ranks[rank].recvs, 0);
        fabric_memory->release(fabric->ranks[rank].steps, 0);
        fabric_memory->release(fabric->ranks[rank].refs, 0);
    }
    fabric_memory->release(fabric->lanes, 0);
    fabric_memory->release(fabric->states, 0);
    fabric_memory->release(fabric->ranks, 0);
    fabric_memory->release(fabric->work, 0);
    fabric_memory->release(fabric->abort, 0);
    fabric_memory->release(fabric->memory, 1);
}

void fabric_start_at(struct fabric *fabric, uint64_t step)
{
    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        const struct gpuring_plan *plan = fabric->plans->plans[rank];

        for (uint32_t i = 0; i < plan->nsends; i++) {
            struct gpuring_fifo_end *send = &fabric->ranks[rank].sends[i];

            send->step = send->posted = send->seen = send->head->head = step;
        }
        for (uint32_t i = 0; i < plan->nrecvs; i++) {
            struct gpuring_fifo_end *recv = &fabric->ranks[rank].recvs[i];

            recv->step = recv->posted = recv->seen = recv->tail->tail = step;
        }
    }
}

void fabric_work(struct fabric *fabric, int rank, uint32_t type, uint32_t op, uint64_t count,
                 const void *input, void *output, uint64_t patience)
{
    const struct gpuring_plan *plan = fabric->plans->plans[rank];
    struct fabric_rank *own = &fabric->ranks[rank];
    uint64_t size = gpuring_type_info(type)->size;
    uint64_t slot = gpuring_chunk_max(fabric->protocol, fabric->slot_bytes, size);
    bool sliced = fabric->protocol == GPURING_PROTOCOL_SIMPLE && fabric->nslots >= FABRIC_SLICED;

    for (uint32_t i = 0; i < plan->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &plan->lanes[i];

        own->lanes[i] = (struct gpuring_lane){
            .steps = own->steps + (lane->steps - plan->steps),
            .refs = own->refs + (lane->refs - plan->refs),
            .recvs = own->recvs + lane->first_recv,
            .sends = own->sends + lane->first_send,
            .part_begin = lane->part_begin,
            .part_end = lane->part_end,
            .nsteps = lane->nsteps,
            .nstored = gpuring_steps_stored(lane->steps, lane->nsteps),
            .nrefs = lane->nrefs,
            .nrecvs = lane->nrecvs,
            .nsends = lane->nsends,
            .nchunks = lane->nchunks,
        };
        own->states[i] = (struct gpuring_lane_state){.status = GPURING_LANE_NEW};
    }
    own->work = (struct gpuring_work){.input = input,
                                      .output = output,
                                      .type = type,
                                      .op = op,
                                      .protocol = fabric->protocol,
                                      .nlanes = plan->nlanes,
                                      .count = count,
                                      .chunk = slot * (sliced ? GPURING_SLICES : 1),
                                      .lanes = own->lanes,
                                      .states = own->states,
                                      .slice = sliced ? slot : 0,
                                      .patience = patience,
                                      .abort = fabric->abort,
                                      .parts = plan->weight,
                                      .first = own->lanes[0]};
}

void fabric_work_all(struct fabric *fabric, uint32_t type, uint32_t op, uint64_t count,
                     const void *input, void *output, uint64_t stride, uint64_t patience)
{
    uint32_t nlanes = 0;

    for (int rank = 0; rank < fabric->plans->nranks; rank++) {
        struct fabric_rank *own = &fabric->ranks[rank];

        fabric_work(fabric, rank, type, op, count, input, output, patience);
        for (uint32_t i = 0; i < own->work.nlanes; i++) {
            struct gpuring_lane_state *state = &own->states[i];

            state->status = GPURING_LANE_RUNNING;
            gpuring_lane_range(&own->work, &own->lanes[i], gpuring_type_info(type)->size,
                               &state->first, &state->rest);
            state->first += (uint64_t) rank * stride;
        }
        nlanes += own->work.nlanes;
    }
    *fabric->work = fabric->ranks[0].work;
    fabric->work->nlanes = nlanes;
    fabric->work->resumed = 1; /* so that a kernel reads the lanes' positions */
}
