/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * move_order PTX [--seed N] [--cases N]
 *
 * Send messages through one slot with the kernel gpuring_move (kernels/move.h) of a PTX file. The
 * memory guarantees only the order of PTX (ptx_weak.h). Each case draws the placement of the two
 * processes on GPUs, and for each message its length, the alignment of both buffers, and the
 * patience of the receiver's kernel. This program acts as both hosts (p2p/sending.c, p2p/fetch.c):
 * they launch the kernels in any order, and the receiver's host copies a message whose kernel has
 * run out of patience. Everything runs in one thread, so that a seed reproduces a case.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/move.h"
#include "test/ptx/ptx_weak.h"

#define MESSAGES 4
#define MOST     30000 /* bytes of a message: four blocks */
#define TURNS    UINT64_C(400000)
#define ROOM     (MOST + 256)

enum { SENDER, RECEIVER, SIDES };
enum { HOSTS = SIDES * GPURING_MOVE_BLOCKS }; /* the first agent of a host */
enum stage { WAITS, RUNS, COPIES, ENDS };

/* All memory that kernels access. */
static struct memory {
    uint8_t user[SIDES][ROOM], slot[ROOM];
    uint64_t signals[GPURING_MOVE_BLOCKS], ends[SIDES][GPURING_MOVE_BLOCKS];
    uint64_t offered, filled, ended; /* numbers that one host has reported to the other */
} memory __attribute__((aligned(4096)));

static struct side {
    struct ptx_machine *machine;
    struct ptx_launch launch;
    struct ptx_fault fault;
    struct gpuring_move move;
    enum stage stage;
    uint64_t number;
    bool running;
} sides[SIDES];

static struct ptx_program *program;
static struct ptx_weak *weak;
static uint64_t state, seed, kernels, fallbacks;
static char failure[2000];

static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 16) % n;
}

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void) context;
    *begin = (uintptr_t) &memory;
    *end = *begin + sizeof memory;
    return address >= *begin && address < *end;
}

static uint8_t value_of(uint64_t number, uint64_t i)
{
    return (uint8_t) ((seed * 31 + number * 101 + i) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static bool fail(const char *text)
{
    snprintf(failure, sizeof failure, "%s; %s", text, ptx_weak_suspect(weak));
    return false;
}

static uint32_t host_of(uint32_t s)
{
    return HOSTS + s;
}

/* Return true if the other host has reported this number. */
static bool has_reported(uint32_t s, const uint64_t *word, uint64_t number)
{
    uint64_t value = 0;

    return ptx_weak_host_acquire(weak, host_of(s), word, sizeof *word, &value, &sides[s].fault) &&
           value >= number;
}

static bool writes(uint32_t s, const void *p, uint64_t bytes)
{
    return ptx_weak_host_writes(weak, host_of(s), p, bytes, &sides[s].fault) ||
           fail(sides[s].fault.text);
}

static bool reads(uint32_t s, const void *p, uint64_t bytes)
{
    return ptx_weak_host_reads(weak, host_of(s), p, bytes, &sides[s].fault) ||
           fail(sides[s].fault.text);
}

/* Describe a new message, and write its data. */
static bool draw_message(struct side *side)
{
    uint64_t bytes = 1 + below(below(2) == 0 ? 200 : MOST);
    uint8_t *user = memory.user[SENDER] + below(32);

    if (!writes(SENDER, user, bytes)) {
        return false;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        user[i] = value_of(side->number, i);
    }
    side->move = (struct gpuring_move){.from = user,
                                       .bytes = bytes,
                                       .lead = (uintptr_t) user % GPURING_MOVE_PACK,
                                       .signals = memory.signals,
                                       .ends = memory.ends[SENDER],
                                       .number = side->number};
    side->move.to = memory.slot + side->move.lead;
    return true;
}

/* Let the receiver prepare its buffer and describe its copy. */
static bool accept_message(struct side *side)
{
    const struct gpuring_move *sent = &sides[SENDER].move;
    uint8_t *user = memory.user[RECEIVER] + below(32);

    side->move = *sent;
    side->move.to = user;
    side->move.from = sent->to;
    side->move.awaited = memory.signals;
    side->move.signals = NULL;
    side->move.ends = memory.ends[RECEIVER];
    side->move.patience = below(2) == 0 ? below(20000) : UINT64_C(1) << 29;
    if (!writes(RECEIVER, user, sent->bytes)) {
        return false;
    }
    memset(user, 0xee, sent->bytes);
    return true;
}

static bool launch(struct side *side)
{
    side->launch.seed = seed + (side->number << 32);
    side->launch.blocks = gpuring_move_blocks(&side->move);
    side->running = true;
    side->stage = RUNS;
    return ptx_machine_start(side->machine, &side->launch, &side->fault) == PTX_OK ||
           fail(side->fault.text);
}

static bool begin(uint32_t s)
{
    struct side *side = &sides[s];

    if (s == RECEIVER) {
        return !has_reported(s, &memory.offered, side->number) ||
               (accept_message(side) && launch(side));
    }
    if (!has_reported(s, &memory.ended, side->number - 1)) {
        return true;
    }
    if (!draw_message(side) || !launch(side)) {
        return false;
    }
    ptx_weak_host_release(weak, host_of(s), &memory.offered, side->number);
    return true;
}

/* Return true if all blocks have stored their ends, and set *copied if they have copied. */
static bool blocks_ended(uint32_t s, bool *copied)
{
    struct side *side = &sides[s];

    *copied = true;
    for (uint32_t i = 0; i < gpuring_move_blocks(&side->move); i++) {
        uint64_t end = 0;

        if (!ptx_weak_host_acquire(weak, host_of(s), &side->move.ends[i], sizeof end, &end,
                                   &side->fault) ||
            end >> 1 != side->number) {
            return false;
        }
        *copied = *copied && end == gpuring_move_end(side->number, true);
    }
    return true;
}

static bool check_data(void)
{
    const struct side *side = &sides[RECEIVER];

    if (!reads(RECEIVER, side->move.to, side->move.bytes)) {
        return false;
    }
    for (uint64_t i = 0; i < side->move.bytes; i++) {
        if (side->move.to[i] != value_of(side->number, i)) {
            char text[200];

            snprintf(text, sizeof text,
                     "message %" PRIu64 " of %" PRIu64 " bytes: byte %" PRIu64 " is wrong",
                     side->number, side->move.bytes, i);
            return fail(text);
        }
    }
    return true;
}

/* Copy the message like the driver. */
static bool copy_message(void)
{
    const struct gpuring_move *move = &sides[RECEIVER].move;

    if (!reads(RECEIVER, move->from, move->bytes) || !writes(RECEIVER, move->to, move->bytes)) {
        return false;
    }
    memcpy(move->to, move->from, move->bytes);
    return true;
}

/* Let a host look at its kernel. */
static bool look(uint32_t s)
{
    struct side *side = &sides[s];
    bool copied;

    if (!blocks_ended(s, &copied)) {
        return true;
    }
    if (s == SENDER) {
        ptx_weak_host_release(weak, host_of(s), &memory.filled, side->number);
        side->stage = ENDS;
        return copied || fail("the sender's kernel has not copied");
    }
    kernels += copied;
    fallbacks += !copied;
    side->stage = copied ? ENDS : COPIES;
    return !copied || check_data();
}

static bool act(uint32_t s)
{
    struct side *side = &sides[s];
    bool ended = false;

    if (side->running) {
        if (ptx_machine_turn(side->machine, &ended) != PTX_OK) {
            return fail(side->fault.text);
        }
        side->running = !ended;
    }
    switch (side->stage) {
    case WAITS:
        return side->running || side->number > MESSAGES || begin(s);
    case RUNS:
        return look(s) &&
               (side->running || side->stage != RUNS || fail("a kernel has ended without a sign"));
    case COPIES:
        if (has_reported(s, &memory.filled, side->number)) {
            side->stage = ENDS;
            return copy_message() && check_data();
        }
        return true;
    case ENDS:
        if (s == RECEIVER) {
            ptx_weak_host_release(weak, host_of(s), &memory.ended, side->number);
        }
        side->stage = WAITS;
        side->number++;
        break;
    }
    return true;
}

static bool run_turns(void)
{
    for (uint64_t turns = 0; sides[RECEIVER].number <= MESSAGES; turns++) {
        if (turns > TURNS) {
            return fail("the messages do not end");
        }
        if (!act(below(8) < 4 ? SENDER : RECEIVER)) {
            return false;
        }
    }
    return true;
}

static void start_case(void)
{
    bool one_gpu = below(2) == 0;
    struct ptx_weak_options options = {.program = program,
                                       .memory = &memory,
                                       .bytes = sizeof memory,
                                       .agents = HOSTS + SIDES,
                                       .seed = seed};

    memset(&memory, 0, sizeof memory);
    weak = ptx_weak_create(&options);
    for (uint32_t s = 0; s < SIDES; s++) {
        sides[s] = (struct side){.machine = ptx_machine_create(program), .number = 1};
        sides[s].launch = (struct ptx_launch){.kernel = GPURING_MOVE_KERNEL,
                                              .threads = GPURING_MOVE_THREADS,
                                              .parameters = &sides[s].move,
                                              .bytes = sizeof sides[s].move,
                                              .reach = reach,
                                              .weak = weak,
                                              .rank = s,
                                              .gpu = one_gpu ? 0 : s,
                                              .agent = s * GPURING_MOVE_BLOCKS,
                                              .host = host_of(s)};
    }
    if (weak == NULL || sides[SENDER].machine == NULL || sides[RECEIVER].machine == NULL) {
        printf("Bail out! out of memory\n");
        exit(1);
    }
    for (uint32_t s = 0; s < SIDES; s++) {
        ptx_weak_host(weak, host_of(s), s);
    }
}

static bool run_case(void)
{
    bool good;

    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    start_case();
    good = run_turns();
    printf("%s - seed %" PRIu64 "\n", good ? "ok" : "not ok", seed);
    if (!good) {
        printf("# %s\n", failure);
    }
    for (uint32_t s = 0; s < SIDES; s++) {
        ptx_machine_free(sides[s].machine);
    }
    ptx_weak_free(weak);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    uint64_t cases = 10;
    char why[400];

    seed = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--cases") == 0) {
            cases = strtoull(argv[i + 1], NULL, 10);
        } else {
            argc = 0;
        }
    }
    if (argc % 2 != 0 || argc < 2) {
        fprintf(stderr, "usage: move_order PTX [--seed N] [--cases N]\n");
        return 2;
    }
    program = ptx_program_read(argv[1], why, sizeof why);
    if (program == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], why);
        return 2;
    }
    for (uint64_t i = 0; i < cases; i++, seed++) {
        if (!run_case()) {
            return 1;
        }
    }
    printf("# %" PRIu64 " messages by kernels, %" PRIu64 " after their patience\n", kernels,
           fallbacks);
    return kernels > 0 && fallbacks > 0 ? 0 : 3;
}
