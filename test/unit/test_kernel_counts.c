/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Count operations of the compiled kernels that are slow on a GPU, with the PTX interpreter of the
 * stand-in driver, and test their patience. The kernel runs one lane of one rank, and this program
 * acts as its peers. No result is from a GPU.
 */
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/image.h"
#include "kernels/work.h"
#include "test/budgets.h"
#include "test/ptx/ptx.h"
#include "test/unit/ptx_kernel.h"

#define PEERS      (GPURING_STEP_REFS - 1) /* maximum number of peers */
#define FEW_PEERS  7                       /* peers on a node with eight GPUs */
#define SLOT_BYTES (256 << 10)
#define SLOTS      2
#define SHORTS     GPURING_CACHE_LINE /* bytes of short slots, see fifo.h */
#define VECTOR     (256 << 10)
#define TURN       77

/* Memory that the GPU can access. */
static struct memory {
    float input[VECTOR / 4], output[VECTOR / 4];
    struct {
        uint8_t short_slots[SHORTS], slots[SLOTS * SLOT_BYTES];
    } received[PEERS], sent[PEERS];
    struct gpuring_fifo_tail recv_tails[PEERS], send_tails[PEERS];
    struct gpuring_fifo_head recv_heads[PEERS], send_heads[PEERS];
    struct gpuring_fifo_end recvs[PEERS];
    struct gpuring_fifo_end sends[PEERS];
    struct gpuring_step steps[2 * FEW_PEERS + 1];
    uint16_t refs[2 * PEERS + 2];
    struct gpuring_lane lanes[2];
    struct gpuring_lane_state states[2];
    struct gpuring_mapped mapped[FEW_PEERS];
    struct gpuring_work work;
} memory __attribute__((aligned(128)));

static struct ptx_program *program;
static int npeers = FEW_PEERS;
static uint32_t number; /* of the lane; 1: after an empty one */

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void) context;
    *begin = (uintptr_t) &memory;
    *end = *begin + sizeof memory;
    return address >= *begin && address < *end;
}

static uint32_t run(void (*reads)(void *, uint64_t), struct ptx_counts *counts)
{
    struct ptx_machine *machine = ptx_machine_create(program);
    struct ptx_launch launch = {
        .kernel = gpuring_kernel_name(GPURING_TYPE_FLOAT, GPURING_OP_SUM, memory.work.protocol),
        .blocks = memory.work.nlanes,
        .parameters = &memory.work,
        .bytes = sizeof memory.work,
        .seed = 1,
        .limit = 100000000,
        .reach = reach,
        .reads = reads,
        .counts = counts};
    struct ptx_fault fault;

    memory.work.first = memory.lanes[0];
    launch.threads = gpuring_kernel_threads(&memory.work);
    assert_non_null(machine);
    if (ptx_machine_run(machine, &launch, &fault) != PTX_OK) {
        fail_msg("%s", fault.text);
    }
    ptx_machine_free(machine);
    return memory.states[number].status;
}

static void connect_peers(uint32_t protocol, uint32_t bytes)
{
    uint32_t used = protocol == GPURING_PROTOCOL_LL      ? 2 * bytes
                    : protocol == GPURING_PROTOCOL_LL128 ? (bytes + 119) / 120 * 128
                                                         : bytes;

    memset(&memory, 0, sizeof memory);
    for (int p = 0; p < npeers; p++) {
        memory.recvs[p] = (struct gpuring_fifo_end){.slots = memory.received[p].slots,
                                                    .tail = &memory.recv_tails[p],
                                                    .head = &memory.recv_heads[p],
                                                    .slot_bytes = SLOT_BYTES,
                                                    .nslots = SLOTS};
        memory.sends[p] = (struct gpuring_fifo_end){.slots = memory.sent[p].slots,
                                                    .tail = &memory.send_tails[p],
                                                    .head = &memory.send_heads[p],
                                                    .slot_bytes = SLOT_BYTES,
                                                    .nslots = SLOTS};
        for (uint32_t s = 0; s < SLOTS; s++) {
            memory.recv_tails[p].size[s] = used;
        }
    }
    memory.lanes[0].nchunks = 1;
    memory.lanes[number] = (struct gpuring_lane){.steps = memory.steps,
                                                 .refs = memory.refs,
                                                 .recvs = memory.recvs,
                                                 .sends = memory.sends,
                                                 .part_end = 1,
                                                 .nsteps = 2,
                                                 .nchunks = 1,
                                                 .nstored = 2,
                                                 .nrefs = 2 * (uint32_t) npeers + 2,
                                                 .nrecvs = (uint32_t) npeers,
                                                 .nsends = (uint32_t) npeers};
    memory.work = (struct gpuring_work){.input = memory.input,
                                        .output = memory.output,
                                        .type = GPURING_TYPE_FLOAT,
                                        .op = GPURING_OP_SUM,
                                        .protocol = protocol,
                                        .nlanes = number + 1,
                                        .count = bytes / 4,
                                        .chunk = bytes / 4,
                                        .lanes = memory.lanes,
                                        .states = memory.states,
                                        .patience = 1000000,
                                        .parts = 1,
                                        .launch_seq = TURN};
}

/* Write data of a peer, all ones, into a slot. */
static void arrived(uint32_t protocol, uint32_t bytes, int p, uint32_t number_of_slot)
{
    const float one = 1;
    uint8_t *slot = memory.received[p].slots + number_of_slot * SLOT_BYTES;
    uint32_t word;

    memcpy(&word, &one, sizeof word);
    if (gpuring_fifo_is_short((enum gpuring_protocol) protocol, &memory.recvs[p], bytes)) {
        slot = gpuring_fifo_short(&memory.recvs[p]);
    }
    for (uint32_t i = 0; i < bytes / 4; i++) {
        if (protocol == GPURING_PROTOCOL_LL) {
            ((uint32_t *) (void *) slot)[2 * i] = word;
            ((uint32_t *) (void *) slot)[2 * i + 1] = number_of_slot + 1;
        } else if (protocol == GPURING_PROTOCOL_LL128) {
            uint8_t *line = slot + i / 30 * 128;

            memcpy(line + i % 30 * 4, &word, 4);
            line[120] = (uint8_t) (number_of_slot + 1);
        } else {
            memcpy(slot + 4 * i, &word, 4);
        }
    }
}

/* Prepare a direct exchange. The data of the peers has already arrived. */
static void exchange(uint32_t protocol, uint32_t bytes)
{
    connect_peers(protocol, bytes);
    for (int p = 0; p < npeers; p++) {
        memory.recv_tails[p].tail = protocol == GPURING_PROTOCOL_SIMPLE;
        arrived(protocol, bytes, p, 0);
        memory.refs[1 + p] = memory.refs[npeers + 1 + p] = (uint16_t) p;
    }
    for (uint32_t i = 0; i < bytes / 4; i++) {
        memory.input[i] = 1;
    }
    memory.refs[0] = memory.refs[2 * npeers + 1] = GPURING_REF_INPUT;
    memory.steps[0] = (struct gpuring_step){.noperands = 1,
                                            .nsends = (uint16_t) npeers,
                                            .flags = GPURING_STEP_INPUT | GPURING_STEP_SINGLE_USE};
    memory.steps[1] = (struct gpuring_step){.refs = (uint32_t) npeers + 1,
                                            .noperands = (uint16_t) (npeers + 1),
                                            .flags = GPURING_STEP_INPUT | GPURING_STEP_STORE};
}

static struct ptx_counts count_exchange(uint32_t protocol, uint32_t bytes)
{
    struct ptx_counts counts = {0};

    exchange(protocol, bytes);
    assert_int_equal(run(NULL, &counts), GPURING_LANE_DONE);
    assert_int_equal(memory.states[number].launch_seq, TURN);
    for (uint32_t i = 0; i < bytes / 4; i++) {
        assert_true(memory.output[i] == (float) (npeers + 1));
    }
    for (int p = 0; p < npeers; p++) {
        assert_int_equal(memory.recv_heads[p].head, 1);
        assert_int_equal(memory.sends[p].step, 1);
        assert_int_equal(memory.send_tails[p].tail, protocol == GPURING_PROTOCOL_SIMPLE);
    }
    print_message(
        "protocol %u, %u bytes, %d peers, lane %u: %llu fences, %llu bytes of loads in flight, "
        "%llu rounds "
        "of "
        "loads before the first store, %llu waits for loads, %llu instructions of warps, %llu of "
        "the longest\n",
        protocol, bytes, npeers, number, (unsigned long long) counts.fences,
        (unsigned long long) counts.in_flight, (unsigned long long) counts.rounds,
        (unsigned long long) counts.waits, (unsigned long long) counts.instructions,
        (unsigned long long) counts.longest);
    return counts;
}

/* Count one step in each of `windows` windows. Each chunk has `bytes` bytes. */
static struct ptx_counts count_windows(const struct gpuring_step *step, uint32_t protocol,
                                       uint32_t bytes, uint32_t windows)
{
    struct ptx_counts counts = {0};
    uint32_t nchunks = (step->flags & GPURING_STEP_EACH) != 0 ? (uint32_t) npeers + 1 : 1, n = 0;
    struct gpuring_lane *lane;

    connect_peers(protocol, bytes);
    for (int p = 0; p < npeers; p++) {
        memory.recv_tails[p].tail = protocol == GPURING_PROTOCOL_SIMPLE ? windows : 0;
        for (uint32_t s = 0; s < windows; s++) {
            arrived(protocol, bytes, p, s);
        }
    }
    lane = &memory.lanes[number];
    memory.steps[0] = *step;
    for (uint16_t i = 0; i < step->noperands; i++) { /* received ones, then the input */
        bool input = i + 1 == step->noperands && (step->flags & GPURING_STEP_INPUT) != 0;

        memory.refs[n++] = input ? GPURING_REF_INPUT : i;
    }
    for (uint16_t i = 0; i < step->nsends; i++) {
        memory.refs[n++] = i;
    }
    lane->nsteps = lane->nstored = 1;
    lane->nchunks = nchunks;
    memory.work.count = bytes / 4 * nchunks * windows;
    assert_true(memory.work.count <= VECTOR / 4);
    assert_int_equal(run(NULL, &counts), GPURING_LANE_DONE);
    return counts;
}

/* Count the instructions that one more step adds to the longest warp. */
static uint64_t count_step(const char *name, const struct gpuring_step *step, uint32_t protocol,
                           uint32_t bytes)
{
    struct ptx_counts one = count_windows(step, protocol, bytes, 1);
    struct ptx_counts two = count_windows(step, protocol, bytes, 2);

    print_message("protocol %u, %u bytes, one more step that %s: %llu instructions of the longest "
                  "warp, %llu of all, %llu fences, %llu waits for loads\n",
                  protocol, bytes, name, (unsigned long long) (two.longest - one.longest),
                  (unsigned long long) (two.instructions - one.instructions),
                  (unsigned long long) (two.fences - one.fences),
                  (unsigned long long) (two.waits - one.waits));
    return two.longest - one.longest;
}

/* A step that exchanges a chunk with each of 7 peers takes little longer than one for one peer. */
TEST(test_each)
{
    const struct gpuring_step ring = {.noperands = 2, .nsends = 1, .flags = GPURING_STEP_INPUT};
    const struct gpuring_step fold = {.noperands = FEW_PEERS + 1,
                                      .nsends = FEW_PEERS,
                                      .flags = GPURING_STEP_INPUT | GPURING_STEP_STORE};
    const struct gpuring_step send = {.chunk = 1,
                                      .noperands = 1,
                                      .nsends = FEW_PEERS,
                                      .flags = GPURING_STEP_INPUT | GPURING_STEP_EACH};
    const struct gpuring_step receive = {
        .chunk = 1, .noperands = FEW_PEERS, .flags = GPURING_STEP_STORE | GPURING_STEP_EACH};

    program = ptx_kernels();
    for (uint32_t protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        uint64_t one = count_step("folds one and sends it", &ring, protocol, 128);

        (void) count_step("folds 7 and sends them", &fold, protocol, 128);
        assert_true(count_step("sends to each of 7", &send, protocol, 128) < one + BUDGET_EACH);
        assert_true(count_step("receives from each of 7", &receive, protocol, 128) <
                    one + BUDGET_EACH);
        (void) count_step("folds one and sends it", &ring, protocol, 15360);
        (void) count_step("folds 7 and sends them", &fold, protocol, 15360);
        (void) count_step("sends to each of 7", &send, protocol, 15360);
        (void) count_step("receives from each of 7", &receive, protocol, 15360);
    }
}

TEST(test_fences)
{
    program = ptx_kernels();
    assert_true(count_exchange(GPURING_PROTOCOL_LL, 8).fences <= BUDGET_FENCES_LINES);
    assert_true(count_exchange(GPURING_PROTOCOL_LL128, 8).fences <= BUDGET_FENCES_LINES);
    assert_true(count_exchange(GPURING_PROTOCOL_LL, 16384).fences <= BUDGET_FENCES_LINES);
    assert_true(count_exchange(GPURING_PROTOCOL_SIMPLE, 8).fences <= BUDGET_FENCES_SIMPLE);
}

TEST(test_loads_before_store)
{
    program = ptx_kernels();
    for (uint32_t protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        assert_true(count_exchange(protocol, 8).rounds <= BUDGET_LOADS_BEFORE_STORE);
        number = 1;
        assert_true(count_exchange(protocol, 8).rounds <= BUDGET_LOADS_BEFORE_STORE);
        number = 0;
    }
}

TEST(test_instructions)
{
    struct ptx_counts one, few, many;

    program = ptx_kernels();
    assert_true(count_exchange(GPURING_PROTOCOL_SIMPLE, 8).instructions <
                BUDGET_INSTRUCTIONS_SIMPLE);
    assert_true(count_exchange(GPURING_PROTOCOL_LL128, 8).instructions < BUDGET_INSTRUCTIONS_LL128);
    few = count_exchange(GPURING_PROTOCOL_LL, 8);
    assert_true(few.instructions < BUDGET_INSTRUCTIONS_LL && few.longest < BUDGET_WARP_SMALL);
    assert_true(count_exchange(GPURING_PROTOCOL_LL, 128).longest < BUDGET_WARP_SMALL);
    many = count_exchange(GPURING_PROTOCOL_LL, 2048);
    assert_true(many.longest < BUDGET_WARP_BATCH && many.waits <= BUDGET_WAITS_FOR_LOADS);
    many = count_exchange(GPURING_PROTOCOL_LL, 4096); /* one batch of more threads */
    assert_true(many.longest < BUDGET_WARP_BATCH && many.waits <= BUDGET_WAITS_FOR_LOADS);
    npeers = 1;
    one = count_exchange(GPURING_PROTOCOL_LL, 8);
    npeers = FEW_PEERS;
    assert_true(few.longest < one.longest + BUDGET_WARP_PEERS && few.waits <= one.waits);
}

/* Steps with the maximum number of operands or destinations. */
TEST(test_many_peers)
{
    program = ptx_kernels();
    npeers = PEERS;
    for (uint32_t protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        (void) count_exchange(protocol, 4096);
    }
    npeers = FEW_PEERS;
}

/* The bandwidth of a block is its bytes in flight divided by the latency. Test copies and folds. */
TEST(test_loads_in_flight)
{
    struct ptx_counts folds = {0};

    program = ptx_kernels();
    assert_true(count_exchange(GPURING_PROTOCOL_SIMPLE, VECTOR).in_flight >= 64 << 10);
    exchange(GPURING_PROTOCOL_SIMPLE, VECTOR);
    memory.lanes[number].steps = &memory.steps[1];
    memory.lanes[number].nsteps = memory.lanes[number].nstored = 1;
    assert_int_equal(run(NULL, &folds), GPURING_LANE_DONE);
    assert_true(folds.in_flight >= 56 << 10); /* one pack of each of 8 operands */
}

/* Number of reads of the tail after which each slot arrives. */
#define LOOKS 400
static uint64_t looks, arrivals;

static void arrive(void *context, uint64_t address)
{
    (void) context;
    if (address == (uintptr_t) &memory.recv_tails[0].tail && memory.recv_tails[0].tail < arrivals &&
        ++looks % LOOKS == 0) {
        memory.recv_tails[0].tail++;
    }
}

/* Return true if a lane that has to wait for `slots` successive slots ends in a single launch. */
static bool ends_at_once(uint64_t slots, uint64_t patience)
{
    struct ptx_counts counts = {0};

    connect_peers(GPURING_PROTOCOL_SIMPLE, 512);
    memory.steps[0] = (struct gpuring_step){.noperands = 1, .flags = GPURING_STEP_STORE};
    memory.lanes[number].nsteps = memory.lanes[number].nstored = 1;
    memory.work.count = slots * memory.work.chunk;
    memory.work.patience = patience;
    looks = 0;
    arrivals = slots;
    return run(arrive, &counts) == GPURING_LANE_DONE;
}

/* Patience restarts with each progress, so if it is long enough for one slot, it is for many. */
TEST(test_patience)
{
    uint64_t enough = 1;

    program = ptx_kernels();
    while (!ends_at_once(1, enough)) {
        enough *= 2;
        assert_true(enough < UINT64_C(1) << 40);
    }
    assert_true(enough > 1);
    assert_true(ends_at_once(64, 4 * enough));
}

/* Add a step to the lane. Its connections begin with number `first`. With flag INPUT, the input is
 * its first operand. */
static void add_step(uint32_t chunk, uint16_t flags, uint16_t first, uint16_t noperands,
                     uint16_t nsends)
{
    struct gpuring_lane *lane = &memory.lanes[number];
    uint16_t input = (flags & GPURING_STEP_INPUT) != 0;

    memory.steps[lane->nsteps++] = (struct gpuring_step){.chunk = chunk,
                                                         .refs = lane->nrefs,
                                                         .noperands = noperands,
                                                         .nsends = nsends,
                                                         .flags = flags};
    for (uint16_t i = 0; i < noperands; i++) {
        memory.refs[lane->nrefs++] = i < input ? GPURING_REF_INPUT : (uint16_t) (first + i - input);
    }
    for (uint16_t i = 0; i < nsends; i++) {
        memory.refs[lane->nrefs++] = (uint16_t) (first + i);
    }
    lane->nstored = lane->nsteps;
}

/* Count an alltoall of one rank of eight, in three steps, or in one for each peer. */
static struct ptx_counts count_alltoall(uint32_t protocol, uint32_t bytes, bool each)
{
    uint16_t n = FEW_PEERS, in = GPURING_STEP_INPUT | GPURING_STEP_SINGLE_USE,
             out = GPURING_STEP_STORE;
    struct ptx_counts counts = {0};

    connect_peers(protocol, bytes);
    for (int p = 0; p < npeers; p++) {
        memory.recv_tails[p].tail = protocol == GPURING_PROTOCOL_SIMPLE;
        arrived(protocol, bytes, p, 0);
    }
    memory.lanes[number].nsteps = memory.lanes[number].nrefs = 0;
    memory.lanes[number].nchunks = (uint32_t) npeers + 1;
    memory.work.has_blocks = 1;
    memory.work.in = memory.work.out = (struct gpuring_blocks){.stride = bytes, .count = bytes / 4};
    for (uint16_t i = 0; i < (each ? 1 : n); i++) {
        add_step(1u + i, in | (each ? GPURING_STEP_EACH : 0), i, 1, each ? n : 1);
    }
    add_step(0, in | out, 0, 1, 0);
    for (uint16_t i = 0; i < (each ? 1 : n); i++) {
        add_step(1u + i, out | (each ? GPURING_STEP_EACH : 0), i, each ? n : 1, 0);
    }
    assert_int_equal(run(NULL, &counts), GPURING_LANE_DONE);
    for (uint32_t i = bytes / 4; i < bytes / 4 * (FEW_PEERS + 1u); i++) {
        assert_true(memory.output[i] == 1);
    }
    print_message("protocol %u, alltoall of %u bytes, %u steps: %llu fences, %llu waits for loads, "
                  "%llu instructions of warps, %llu of the longest\n",
                  protocol, bytes, memory.lanes[number].nsteps, (unsigned long long) counts.fences,
                  (unsigned long long) counts.waits, (unsigned long long) counts.instructions,
                  (unsigned long long) counts.longest);
    return counts;
}

/* One step for all peers costs less than one for each of them. */
TEST(test_alltoall)
{
    program = ptx_kernels();
    for (uint32_t protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        for (uint32_t bytes = 8; bytes <= 2048; bytes *= 16) {
            struct ptx_counts steps = count_alltoall(protocol, bytes, false);
            struct ptx_counts each = count_alltoall(protocol, bytes, true);

            assert_true(each.longest < steps.longest && each.fences <= steps.fences);
            assert_true(protocol != GPURING_PROTOCOL_SIMPLE || each.fences <= BUDGET_FENCES_EACH);
        }
    }
}

/* Prepare a lane without steps whose peers do what it does: what it sends, it receives. */
static void connect_mirrors(uint32_t protocol, uint32_t bytes, uint32_t nchunks)
{
    connect_peers(protocol, bytes);
    for (int p = 0; p < npeers; p++) {
        memory.recvs[p].head = memory.sends[p].head;
        memory.sends[p].tail = memory.recvs[p].tail;
        memory.sends[p].slots = memory.recvs[p].slots;
    }
    memory.lanes[number].nsteps = memory.lanes[number].nrefs = 0;
    memory.lanes[number].nchunks = nchunks;
    memory.work.count = bytes / 4 * nchunks;
    memory.work.patience = UINT64_MAX;
    assert_true(memory.work.count <= VECTOR / 4);
}

/* Run the lane, and return its path. */
static uint64_t count_path(const char *name, uint32_t protocol, uint32_t bytes)
{
    struct ptx_counts counts = {0};

    assert_int_equal(run(NULL, &counts), GPURING_LANE_DONE);
    print_message("protocol %u, %u bytes, %u steps of %s: path of %llu instructions, %llu of the "
                  "longest warp, %llu fences\n",
                  protocol, bytes, memory.lanes[number].nsteps, name,
                  (unsigned long long) counts.path, (unsigned long long) counts.longest,
                  (unsigned long long) counts.fences);
    assert_true(counts.path >= counts.longest);
    return counts.path;
}

/* Return the path of the first steps of a lane of two-shot. mapped: it works on the buffers of its
 * peers, which are those of this rank. */
static uint64_t count_two_shot(uint32_t protocol, uint32_t bytes, int steps, bool mapped)
{
    const uint16_t n = FEW_PEERS;
    uint64_t path;

    connect_mirrors(protocol, bytes, n + 1u);
    for (uint32_t i = 0; i < memory.work.count; i++) {
        memory.input[i] = 1;
    }
    if (steps > 0) {
        add_step(1, GPURING_STEP_INPUT | GPURING_STEP_EACH, 0, 1, n);
    }
    if (steps > 1) {
        add_step(0, GPURING_STEP_INPUT | GPURING_STEP_STORE, 0, n + 1, n);
    }
    if (steps > 2) {
        add_step(1, GPURING_STEP_STORE | GPURING_STEP_EACH, 0, n, 0);
    }
    for (int p = 0; p < npeers; p++) {
        memory.mapped[p] =
            (struct gpuring_mapped){(uint8_t *) memory.input, (uint8_t *) memory.output};
    }
    memory.work.mapped = mapped ? memory.mapped : NULL;
    path = count_path(mapped ? "two-shot on mapped buffers" : "two-shot", protocol, bytes);
    for (uint32_t i = 0; i < memory.work.count; i++) {
        bool stored = (steps > 2 && !mapped) || (steps >= 2 && i < bytes / 4);

        assert_true(memory.output[i] == (stored ? n + 1.0F : 0));
    }
    return path;
}

/* Return the path of a direct exchange, or of a ring with some steps that fold. */
static uint64_t count_others(uint32_t protocol, uint32_t bytes, int folds)
{
    const uint16_t n = FEW_PEERS, first = GPURING_STEP_INPUT | GPURING_STEP_SINGLE_USE;

    connect_mirrors(protocol, bytes, 1);
    add_step(0, folds > 0 ? GPURING_STEP_INPUT : first, 0, 1, folds > 0 ? 1 : n);
    for (int i = 0; i < folds; i++) {
        add_step(0, GPURING_STEP_INPUT, 0, 2, 1);
    }
    if (folds == 0) {
        add_step(0, GPURING_STEP_INPUT | GPURING_STEP_STORE, 0, n + 1, 0);
    }
    return count_path(folds > 0 ? "ring" : "direct", protocol, bytes);
}

/* The time of a call depends on instructions that wait for each other, also across ranks. */
TEST(test_path)
{
    /* 6656: the chunks of 1 MiB with 8 ranks and 20 stripes. */
    static const uint32_t sizes[] = {128, 6656, 8192};

    program = ptx_kernels();
    for (uint32_t protocol = 0; protocol < GPURING_PROTOCOL_COUNT; protocol++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const uint32_t bytes = sizes[i];

            for (int steps = 0; steps <= 3; steps++) {
                uint64_t path = count_two_shot(protocol, bytes, steps, false);

                assert_true(protocol != GPURING_PROTOCOL_SIMPLE || path < BUDGET_PATH_TWO_SHOT);
                if (protocol == GPURING_PROTOCOL_SIMPLE && steps > 0) {
                    assert_true(count_two_shot(protocol, bytes, steps, true) < path);
                }
            }
            for (int folds = 0; folds <= 2; folds++) {
                (void) count_others(protocol, bytes, folds);
            }
        }
    }
}
