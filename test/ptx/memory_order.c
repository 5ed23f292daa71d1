/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * memory_order PTX [--seed N] [--cases N] [--protocol simple|ll|ll128|mapped] [--many] [--stops]
 *              [--lines-any-order]
 *
 * Run allreduces of several ranks with the kernels of a PTX file. The memory guarantees only the
 * order of PTX and the order that we assume of the hardware (ptx_weak.h). Each case draws protocol,
 * algorithm, ranks, slots, sizes and patience from its seed. Each rank has a separate GPU or shares
 * one. The ranks are on one node or on two, and this program acts as the proxy and the network
 * between the nodes. Every rank makes several calls without waiting for the others. The host checks
 * the results as soon as the kernel has signaled its end. Everything runs in one thread, so that a
 * seed reproduces a case.
 *
 * --many: two-shot of many ranks.
 * --stops: the host stops all ranks during a call, or the network delivers a slot with a wrong
 * size.
 * --lines-any-order: the words of an LL128 line may become visible in any order, as over PCIe.
 */
#include "test/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/image.h"
#include "test/ptx/memory_order.h"
#include "test/ptx/ptx_weak.h"

#define TURNS UINT64_C(200000) /* maximum turns of the warps of a case, for each of its ranks */

enum stage { STAGE_IDLE, STAGE_RUNS, STAGE_SEEN, STAGE_DONE };

struct rank {
    struct ptx_machine *machine;
    struct ptx_launch launch;
    struct ptx_fault fault;
    struct gpuring_work *parameters;
    uint64_t *input, *output;
    struct gpuring_mapped *mapped; /* the buffers of its peers */
    uint32_t turn, calls, launches;
    enum stage stage; /* of its call; SEEN: the host knows that the kernel has left all lanes */
    bool running;     /* the machine runs */
    bool final;       /* all lanes are done */
    struct gpuring_command *command;
    bool lingers;   /* its kernel waits for commands after a call */
    bool commanded; /* its call was given to a kernel that lingers */
    bool stopped;   /* a lane was stopped, or has noticed a wrong size */
};

static struct ptx_program *program;
static struct order_case test;
static struct rank ranks[ORDER_RANKS];
static struct ptx_weak *weak;
static bool stopped; /* the host has stopped all ranks */
static char failure[900];

/* The memory of a case. */
static uint8_t arena[ORDER_BYTES] __attribute__((aligned(4096)));
static size_t used;

void *order_alloc(size_t bytes)
{
    void *memory = arena + used;

    used += (bytes + 127) / 128 * 128;
    if (used > sizeof arena) {
        printf("Bail out! a case needs more memory than there is\n");
        exit(1);
    }
    return memory;
}

static void *fabric_alloc(size_t bytes, int wires)
{
    (void) wires;
    return order_alloc(bytes);
}

static void fabric_release(void *memory, int wires)
{
    (void) memory;
    (void) wires;
}

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void) context;
    *begin = (uintptr_t) arena;
    *end = *begin + used;
    return address >= *begin && address < *end;
}

static uint64_t value_of(uint32_t call, uint32_t rank, uint64_t i)
{
    return (test.seed * 131071 + call * 8191 + rank * 131 + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool fail(const char *text)
{
    snprintf(failure, sizeof failure, "%s%s%s", text, ptx_weak_suspect(weak)[0] != '\0' ? "; " : "",
             ptx_weak_suspect(weak));
    return false;
}

/* Start the next call of a rank on its host. */
static bool begin_call(uint32_t r)
{
    struct rank *rank = &ranks[r];
    uint64_t count = test.counts[rank->calls];

    if (!ptx_weak_host_writes(weak, order_host(&test, r), rank->input, count * 8, &rank->fault)) {
        return fail(rank->fault.text);
    }
    for (uint64_t i = 0; i < count; i++) {
        rank->input[i] = value_of(rank->calls, r, i);
    }
    fabric_work(&test.fabric, (int) r, GPURING_TYPE_UINT64, GPURING_OP_SUM, count, rank->input,
                test.in_place ? rank->input : rank->output, test.patience);
    if (test.mapped) {
        test.fabric.ranks[r].work.mapped = rank->mapped;
        test.fabric.ranks[r].work.chunk = 1 << 20;
        test.fabric.ranks[r].work.slice = 0;
    }
    rank->stage = STAGE_RUNS;
    rank->final = false;
    return true;
}

/* Write a command of the work with a flag, as device/cuda/linger.c does. */
static void write_command(uint32_t r, uint32_t flag)
{
    const struct gpuring_work *work = &test.fabric.ranks[r].work;
    uint64_t data[2] = {(uintptr_t) work->input, (uintptr_t) work->output};

    for (int i = 0; i < GPURING_COMMAND_WORDS; i++) {
        ptx_weak_host_release(weak, order_host(&test, r), &ranks[r].command->words[i],
                              (uint64_t) flag << 32 | (uint32_t) (data[i / 2] >> 32 * (i % 2)));
    }
}

/* Give the next call to a kernel that lingers. */
static bool command_call(uint32_t r)
{
    struct rank *rank = &ranks[r];

    rank->calls++;
    if (!begin_call(r)) {
        return false;
    }
    test.fabric.ranks[r].work.launch_seq = ++rank->turn;
    write_command(r, rank->turn);
    rank->commanded = true;
    return true;
}

static bool launch(uint32_t r)
{
    struct gpuring_work *work = &test.fabric.ranks[r].work;
    struct rank *rank = &ranks[r];

    work->launch_seq = ++rank->turn;
    rank->commanded = false;
    work->command = NULL;
    rank->lingers = test.lingers && work->resumed == 0;
    if (rank->lingers) {
        work->command = rank->command;
        work->linger = (uint32_t) test.patience;
        write_command(r, rank->turn + GPURING_COMMAND_LEAVE);
    }
    *rank->parameters = *work;
    rank->launch.seed = test.seed + ((uint64_t) ++rank->launches << 32) + ((uint64_t) r << 24);
    rank->launch.blocks = work->nlanes;
    rank->launch.threads = gpuring_kernel_threads(work);
    rank->running = true;
    return ptx_machine_start(rank->machine, &rank->launch, &rank->fault) == PTX_OK;
}

/* Return true if the host finds the right results. */
static bool results_hold(uint32_t r)
{
    struct rank *rank = &ranks[r];
    const uint64_t *result = test.in_place ? rank->input : rank->output;
    uint64_t count = test.counts[rank->calls];
    char text[200];

    if (!ptx_weak_host_reads(weak, order_host(&test, r), result, count * 8, &rank->fault)) {
        return fail(rank->fault.text);
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sum = 0;

        for (uint32_t k = 0; k < test.nranks; k++) {
            sum += value_of(rank->calls, k, i);
        }
        if (result[i] != sum) {
            snprintf(text, sizeof text, "call %u of rank %u: element %" PRIu64 " is wrong",
                     rank->calls, r, i);
            return fail(text);
        }
    }
    return true;
}

static void stop_all(void)
{
    ptx_weak_host_release(weak, order_host(&test, 0), (uint64_t *) (void *) test.fabric.abort, 6);
    stopped = true;
}

/* Return true if a lane may have ended with this status. */
static bool may_end(struct rank *rank, uint32_t status)
{
    if (status == GPURING_LANE_CORRUPT && test.nmoved >= test.wrong_slot && test.wrong_slot > 0) {
        stop_all();
    }
    rank->stopped =
        rank->stopped || status == GPURING_LANE_CORRUPT || status == GPURING_LANE_ABORTED;
    return !rank->stopped || stopped;
}

/* Check the state of the lanes after the kernel has left all of them. */
static bool lanes_hold(uint32_t r)
{
    const struct gpuring_work *work = &test.fabric.ranks[r].work;
    struct rank *rank = &ranks[r];

    rank->final = true;
    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane_state *lane = &work->states[i];

        if (!ptx_weak_host_reads(weak, order_host(&test, r), lane,
                                 offsetof(struct gpuring_lane_state, launch_seq), &rank->fault)) {
            return fail(rank->fault.text);
        }
        if (!may_end(rank, lane->status)) {
            return fail(lane->status == GPURING_LANE_CORRUPT
                            ? "a slot holds another size than its step"
                            : "a lane was stopped, but not by the host");
        }
        rank->final = rank->final && lane->status == GPURING_LANE_DONE;
    }
    return !rank->final || results_hold(r);
}

/* Let the host read a word of a lane that it may read at any time. */
static bool host_reads(uint32_t r, const uint32_t *word, uint64_t *value)
{
    return ptx_weak_host_acquire(weak, order_host(&test, r), word, sizeof *word, value,
                                 &ranks[r].fault) ||
           fail(ranks[r].fault.text);
}

/* Let the host check what lanes wait for, and whether the kernel has left all of them. */
static bool host_looks(uint32_t r)
{
    const struct gpuring_work *work = &test.fabric.ranks[r].work;
    struct rank *rank = &ranks[r];
    uint64_t value;
    bool left = true;

    if (rank->stage != STAGE_RUNS || !rank->running) {
        return true;
    }
    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane_state *lane = &work->states[i];

        if (!host_reads(r, &lane->wait, &value) || !host_reads(r, &lane->wait_ref, &value) ||
            !host_reads(r, &lane->status, &value) || !host_reads(r, &lane->launch_seq, &value)) {
            return false;
        }
        left = left && value == work->launch_seq;
    }
    if (left) {
        rank->stage = STAGE_SEEN;
    }
    return !left || lanes_hold(r);
}

/* After the end of a kernel that has not run its command, let the next step launch the call. */
static bool launch_missed(uint32_t r)
{
    struct rank *rank = &ranks[r];
    uint64_t left;

    if (!host_reads(r, &rank->command->left, &left)) {
        return false;
    }
    return left + 1 == rank->turn || fail("a kernel has ended without its command");
}

/* Let a rank make one step. Return false if the case has failed. */
static bool act(uint32_t r)
{
    struct rank *rank = &ranks[r];
    bool ended = false;

    if (rank->stage == STAGE_DONE) {
        return true;
    }
    if (rank->stage == STAGE_IDLE && !begin_call(r)) {
        return false;
    }
    if (!rank->running && !launch(r)) {
        return fail(rank->fault.text);
    }
    if (ptx_machine_turn(rank->machine, &ended) != PTX_OK) {
        return fail(rank->fault.text);
    }
    if (!host_looks(r)) {
        return false;
    }
    if (!ended) {
        return !rank->lingers || rank->stage != STAGE_SEEN || !rank->final ||
               rank->calls + 1 == ORDER_CALLS || order_random() % 64 != 0 || command_call(r);
    }
    rank->running = false;
    if (rank->commanded && rank->stage == STAGE_RUNS) {
        return launch_missed(r);
    }
    test.fabric.ranks[r].work.resumed++;
    if (rank->stage != STAGE_SEEN) {
        return fail("a kernel has ended, but not announced it");
    }
    rank->stage = STAGE_RUNS;
    if (rank->stopped) {
        rank->stage = STAGE_DONE;
    } else if (rank->final) {
        rank->stage = ++rank->calls == ORDER_CALLS ? STAGE_DONE : STAGE_IDLE;
    }
    return true;
}

/* Create the data and the machines of the ranks, and then the modelled memory for all of it. */
static void connect_ranks(bool any_order)
{
    static char kernel[64];
    static const char *const protocols[] = {"simple", "ll", "ll128"};
    struct ptx_weak_options options = {
        .program = program, .memory = arena, .seed = test.seed, .ascending = !any_order};
    uint32_t agent = 0;

    snprintf(kernel, sizeof kernel, "gpuring_%s_sum_u64", protocols[test.protocol]);
    for (uint32_t r = 0; r < test.nranks; r++) {
        struct rank *rank = &ranks[r];

        *rank = (struct rank){.machine = ptx_machine_create(program),
                              .parameters = order_alloc(sizeof *rank->parameters),
                              .input = order_alloc(test.most * 8),
                              .output = order_alloc(test.most * 8),
                              .mapped = order_alloc(ORDER_RANKS * sizeof *rank->mapped),
                              .command = order_alloc(sizeof *rank->command)};
        rank->launch = (struct ptx_launch){.kernel = kernel,
                                           .parameters = rank->parameters,
                                           .bytes = sizeof *rank->parameters,
                                           .reach = reach,
                                           .rank = r,
                                           .gpu = r / test.sharing,
                                           .agent = agent,
                                           .host = order_host(&test, r)};
        agent += test.plans.plans[r]->nlanes;
    }
    for (uint32_t r = 0; test.mapped && r < test.nranks; r++) {
        for (uint32_t i = 0; i + 1 < test.nranks; i++) {
            const struct rank *peer = &ranks[test.plans.plans[r]->sends[i].peer];

            ranks[r].mapped[i] = (struct gpuring_mapped){
                (uint8_t *) peer->input, (uint8_t *) (test.in_place ? peer->input : peer->output)};
        }
    }
    options.bytes = used;
    options.agents = order_agents(&test);
    assert_true(options.agents <= PTX_AGENTS);
    weak = ptx_weak_create(&options);
    assert_non_null(weak);
    for (uint32_t r = 0; r < test.nranks; r++) {
        ranks[r].launch.weak = weak;
        ptx_weak_host(weak, order_host(&test, r), r);
        ptx_weak_host(weak, order_proxy(&test, r), r);
    }
}

static bool run_turns(void)
{
    uint64_t turns = 0;

    for (uint32_t done = 0; done < test.nranks; turns++) {
        uint32_t r = (uint32_t) order_random() % test.nranks;

        if (test.stops && test.wrong_slot == 0 && turns == test.stop_turn) {
            stop_all();
        }
        if (turns > TURNS * test.nranks) {
            return fail("the ranks do not get to their ends");
        }
        if (!act(r) || !order_network(&test, weak, failure, sizeof failure)) {
            return false;
        }
        done = 0;
        for (uint32_t k = 0; k < test.nranks; k++) {
            done += ranks[k].stage == STAGE_DONE;
        }
    }
    return true;
}

/* Run one case. If it fails, return false with the reason in `failure`. */
static bool run_case(uint64_t seed, const struct order_options *options)
{
    static const struct fabric_memory memory = {fabric_alloc, fabric_release};
    bool good;

    fabric_memory = &memory;
    memset(arena, 0, used);
    used = 0;
    stopped = false;
    order_draw(&test, seed, options);
    connect_ranks(options->any_order);
    good = run_turns() && (test.wrong_slot == 0 || test.nmoved < test.wrong_slot || stopped ||
                           fail("no lane has noticed a wrong size"));
    printf("%s - seed %" PRIu64 ": %s\n", good ? "ok" : "not ok", seed, test.text);
    if (!good) {
        printf("# %s\n", failure);
    }
    for (uint32_t r = 0; r < test.nranks; r++) {
        ptx_machine_free(ranks[r].machine);
    }
    ptx_weak_free(weak);
    order_end(&test);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    static const char *const protocols[] = {"simple", "ll", "ll128", "mapped"};
    struct order_options options = {.protocol = -1};
    uint64_t seed = 1, cases = 10;
    char why[400];

    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc) {
            cases = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--many") == 0) {
            options.many = true;
        } else if (strcmp(argv[i], "--stops") == 0) {
            options.stops = true;
        } else if (strcmp(argv[i], "--lines-any-order") == 0) {
            options.any_order = true;
        } else if (strcmp(argv[i], "--protocol") == 0 && i + 1 < argc) {
            i++;
            for (options.protocol = ORDER_MAPPED;
                 options.protocol >= 0 && strcmp(argv[i], protocols[options.protocol]) != 0;
                 options.protocol--) {
            }
        } else {
            argc = 0;
        }
    }
    if (argc < 2) {
        fprintf(stderr, "usage: memory_order PTX [--seed N] [--cases N] "
                        "[--protocol simple|ll|ll128|mapped] [--many] [--stops] "
                        "[--lines-any-order]\n");
        return 2;
    }
    program = ptx_program_read(argv[1], why, sizeof why);
    if (program == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], why);
        return 2;
    }
    for (uint64_t i = 0; i < cases; i++) {
        if (!run_case(seed + i, &options)) {
            return 1;
        }
    }
    return 0;
}
