/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Blocks: barriers, exits and scheduling. All blocks of a grid are co-resident. */
#include "test/ptx/ptx_machine.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 992 /* so that thread numbers are below PTX_MANY */
#define TURN         128 /* maximum instructions of a warp's turn */
/* Number of paces, which are up to 128 ns per instruction and differ between launches, so that the
 * patience of a kernel runs out at different places. */
#define PACES 8

uint64_t ptx_random(struct ptx_machine *machine)
{
    machine->random ^= machine->random << 13;
    machine->random ^= machine->random >> 7;
    machine->random ^= machine->random << 17;
    return machine->random >> 16;
}

/* Copy a line of the text without its indentation and its semicolon. */
static void line_text(const char *text, uint32_t line, char *copy, size_t size)
{
    size_t length;

    for (; line > 1 && text != NULL; line--) {
        text = strchr(text, '\n');
        text = text != NULL ? text + 1 : NULL;
    }
    text = text != NULL ? text + strspn(text, " \t") : "";
    length = strcspn(text, "\n;");
    length = length < size ? length : size - 1;
    for (size_t i = 0; i < length; i++) {
        copy[i] = text[i] == '\t' ? ' ' : text[i];
    }
    copy[length] = '\0';
}

bool ptx_fail(struct ptx_warp *warp, enum ptx_error error, uint32_t pc, uint32_t lane,
              const char *format, ...)
{
    const struct ptx_machine *machine = warp->block->machine;
    const struct ptx_inst *inst = &machine->program->code[pc];
    struct ptx_fault *fault = machine->fault;
    va_list arguments;
    char text[160];
    int length;

    line_text(machine->program->text, inst->line, text, sizeof text);
    length = snprintf(fault->text, sizeof fault->text,
                      "kernel %.100s, PTX line %u (%s): block %u, thread %u ", machine->entry->name,
                      inst->line, text, warp->block->number, warp->first + lane);
    va_start(arguments, format);
    vsnprintf(fault->text + length, sizeof fault->text - (size_t) length, format, arguments);
    va_end(arguments);
    fault->error = error;
    return false;
}

static uint32_t waiting_at(const struct ptx_block *block, uint32_t number)
{
    uint32_t warps = 0;

    for (uint32_t w = 0; w < block->nwarps; w++) {
        warps |= block->warps[w].at_barrier != 0 && block->warps[w].barrier == number ? 1u << w : 0;
    }
    return warps;
}

static void complete(struct ptx_block *block, uint32_t number)
{
    struct ptx_barrier *barrier = &block->barriers[number];
    const struct ptx_inst *code = block->machine->program->code;
    uint32_t waited = waiting_at(block, number);

    for (uint32_t left = waited; left != 0; left &= left - 1) {
        struct ptx_warp *warp = &block->warps[__builtin_ctz(left)];
        const struct ptx_inst *inst = &code[warp->pc[__builtin_ctz(warp->at_barrier)]];

        if (inst->op == PTX_BAR_RED_AND) {
            warp->preds[inst->to[0]] = barrier->verdict != 0 ? UINT32_MAX : 0;
            warp->preds_written[inst->to[0]] = UINT32_MAX;
        }
        warp->runnable |= warp->at_barrier;
        for (uint32_t i = 0; i < PTX_LANES; i++) {
            warp->pc[i] += warp->at_barrier >> i & 1;
        }
        warp->at_barrier = 0;
        ptx_count_continue(warp, barrier);
    }
    ptx_race_barrier(block, waited, barrier->arrived);
    *barrier = (struct ptx_barrier){0};
}

/* Return the barrier of an instruction, and set the number of threads that it expects. Return NULL
 * if there is no such barrier. */
static struct ptx_barrier *barrier_of(struct ptx_warp *warp, const struct ptx_inst *inst,
                                      uint32_t pc, uint32_t lane, uint32_t *number)
{
    struct ptx_block *block = warp->block;
    uint32_t all = PTX_LANES * block->nwarps, needed = all;
    struct ptx_barrier *barrier;

    *number = 0;
    if (inst->op != PTX_BAR_RED_AND) {
        *number = (uint32_t) ptx_source(warp, inst->sources[0])[lane];
        needed = inst->sources[1] == PTX_NO_SOURCE
                     ? all
                     : (uint32_t) ptx_source(warp, inst->sources[1])[lane];
    }
    barrier = &block->barriers[*number % PTX_BARRIERS];
    if (*number >= PTX_BARRIERS || needed == 0 || needed > all || needed % PTX_LANES != 0) {
        (void) ptx_fail(warp, PTX_BARRIER, pc, lane, "names barrier %u for %u threads of %u",
                        *number, needed, all);
        return NULL;
    }
    if (barrier->here > 0 && barrier->needed != needed) {
        (void) ptx_fail(warp, PTX_BARRIER, pc, lane,
                        "names barrier %u for %u threads, while others do for %u", *number, needed,
                        barrier->needed);
        return NULL;
    }
    if (needed == all && block->exited > 0) {
        (void) ptx_fail(warp, PTX_BARRIER, pc, lane,
                        "waits at a barrier that %u threads, which are gone, never reach",
                        block->exited);
        return NULL;
    }
    if (barrier->here == 0) {
        *barrier = (struct ptx_barrier){.needed = needed, .pc = pc, .verdict = 1};
    }
    return barrier;
}

bool ptx_barrier_wait(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc,
                      uint32_t lanes, uint32_t verdicts)
{
    struct ptx_block *block = warp->block;
    const struct ptx_inst *code = block->machine->program->code;
    uint32_t lane = (uint32_t) __builtin_ctz(lanes), number = 0;
    struct ptx_barrier *barrier = barrier_of(warp, inst, pc, lane, &number);

    if (barrier == NULL) {
        return false;
    }
    /* All threads of a warp must wait at the same instruction, and all threads of a __syncthreads.
     */
    if ((number == 0 && barrier->pc != pc) ||
        (warp->at_barrier != 0 && ptx_lanes_at(warp, warp->at_barrier, pc) != warp->at_barrier)) {
        return ptx_fail(warp, PTX_BARRIER, pc, lane,
                        "waits at a barrier while other threads wait at that of line %u",
                        code[barrier->pc].line);
    }
    barrier->verdict &= (lanes & ~verdicts) == 0;
    warp->runnable &= ~lanes;
    warp->at_barrier |= lanes;
    warp->barrier = number;
    barrier->here += (uint32_t) __builtin_popcount(lanes);
    ptx_count_arrive(warp, barrier);
    if (barrier->here == barrier->needed) {
        complete(block, number);
    }
    return true;
}

bool ptx_barrier_arrive(struct ptx_warp *warp, const struct ptx_inst *inst, uint32_t pc)
{
    struct ptx_block *block = warp->block;
    uint32_t number = 0, w = warp->first / PTX_LANES;
    struct ptx_barrier *barrier = barrier_of(warp, inst, pc, 0, &number);

    if (barrier == NULL) {
        return false;
    }
    if ((barrier->arrived >> w & 1) != 0) {
        return ptx_fail(warp, PTX_BARRIER, pc, 0,
                        "arrives at barrier %u again, before the others have come", number);
    }
    barrier->arrived |= 1u << w;
    ptx_race_arrive(block, w);
    barrier->here += PTX_LANES;
    ptx_count_arrive(warp, barrier);
    if (barrier->here == barrier->needed) {
        complete(block, number);
    }
    return true;
}

bool ptx_exit(struct ptx_warp *warp, uint32_t pc, uint32_t lanes)
{
    struct ptx_block *block = warp->block;
    const struct ptx_barrier *all = &block->barriers[0];

    warp->runnable &= ~lanes;
    warp->exited |= lanes;
    block->exited += (uint32_t) __builtin_popcount(lanes);
    return all->here == 0 || ptx_fail(warp, PTX_BARRIER, pc, (uint32_t) __builtin_ctz(lanes),
                                      "ends while others wait at the barrier of line %u",
                                      block->machine->program->code[all->pc].line);
}

/* Return true if no thread waits at a barrier or has arrived at a barrier that was not
 * completed. */
static bool left_well(struct ptx_block *block)
{
    for (uint32_t b = 0; b < PTX_BARRIERS; b++) {
        if (block->barriers[b].here != 0) {
            return ptx_fail(&block->warps[0], PTX_BARRIER, block->barriers[b].pc, 0,
                            "and all others have ended, but barrier %u waits for more", b);
        }
    }
    return true;
}

static void free_block(struct ptx_block *block, uint32_t nwarps)
{
    if (block == NULL) {
        return;
    }
    for (uint32_t w = 0; block->warps != NULL && w < nwarps; w++) {
        free(block->warps[w].regs);
        free(block->warps[w].written);
        free(block->warps[w].preds);
        free(block->warps[w].parameters);
    }
    free(block->warps);
    free(block->shared);
    ptx_race_free(block);
    free(block);
}

static bool create_warp(struct ptx_block *block, struct ptx_warp *warp)
{
    const struct ptx_program *program = block->machine->program;

    warp->block = block;
    warp->regs = malloc((size_t) program->registers * sizeof *warp->regs + 1);
    warp->written = malloc((size_t) program->registers * 2 * sizeof *warp->written + 1);
    warp->preds = malloc((size_t) program->predicates * 2 * sizeof *warp->preds);
    warp->parameters = malloc((size_t) program->parameters * PTX_LANES + 1);
    if (warp->regs == NULL || warp->written == NULL || warp->preds == NULL ||
        warp->parameters == NULL) {
        return false;
    }
    warp->preds_written = warp->preds + program->predicates;
    warp->pending = warp->written + program->registers;
    return true;
}

static struct ptx_block *create_block(struct ptx_machine *machine)
{
    struct ptx_block *block = calloc(1, sizeof *block);
    bool good = block != NULL;

    if (good) {
        block->machine = machine;
        block->nwarps = machine->nwarps;
        block->warps = calloc(machine->nwarps, sizeof *block->warps);
        block->shared = calloc(1, PTX_PAGE);
        block->shadow_shared = calloc(1, sizeof *block->shadow_shared);
        block->readers_shared = calloc(PTX_PAGE, sizeof *block->readers_shared);
        good = block->warps != NULL && block->shared != NULL && block->shadow_shared != NULL &&
               block->readers_shared != NULL;
    }
    for (uint32_t w = 0; good && w < machine->nwarps; w++) {
        good = create_warp(block, &block->warps[w]);
    }
    if (!good) {
        free_block(block, machine->nwarps);
        return NULL;
    }
    return block;
}

static void free_blocks(struct ptx_machine *machine)
{
    for (uint32_t b = 0; b < machine->nblocks; b++) {
        free_block(machine->blocks[b], machine->nwarps);
    }
    free(machine->blocks);
    machine->blocks = NULL;
    machine->nblocks = 0;
}

static bool have_blocks(struct ptx_machine *machine, uint32_t blocks, uint32_t nwarps)
{
    struct ptx_block **list;

    if (machine->nwarps != nwarps) {
        free_blocks(machine);
        machine->nwarps = nwarps;
    }
    if (machine->nblocks >= blocks) {
        return true;
    }
    list = realloc(machine->blocks, blocks * sizeof(struct ptx_block *));
    if (list == NULL) {
        return false;
    }
    machine->blocks = list;
    while (machine->nblocks < blocks) {
        struct ptx_block *block = create_block(machine);

        if (block == NULL) {
            return false;
        }
        block->index = machine->nblocks;
        machine->blocks[machine->nblocks++] = block;
    }
    return true;
}

static void start_warp(struct ptx_warp *warp)
{
    const struct ptx_machine *machine = warp->block->machine;
    const struct ptx_program *program = machine->program;

    warp->runnable = UINT32_MAX;
    warp->at_barrier = warp->at_sync = warp->exited = 0;
    warp->nlate = 0;
    memset(warp->depth, 0, sizeof warp->depth);
    memset(warp->written, 0, program->registers * sizeof *warp->written);
    memset(warp->preds_written, 0, program->predicates * sizeof *warp->preds_written);
    ptx_count_start(warp);
    warp->preds[0] = 0;
    warp->preds[PTX_PRED_TRUE] = UINT32_MAX;
    warp->preds_written[0] = warp->preds_written[PTX_PRED_TRUE] = UINT32_MAX;
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        warp->pc[i] = machine->entry->first;
    }
}

static void start_block(struct ptx_block *block, uint32_t number)
{
    block->number = number;
    block->exited = 0;
    memset(block->barriers, 0, sizeof block->barriers);
    ptx_race_restart(block);
    memset(block->shared, 0xa5, PTX_PAGE);
    for (uint32_t w = 0; w < block->nwarps; w++) {
        block->warps[w].first = w * PTX_LANES;
        start_warp(&block->warps[w]);
    }
}

/* Return a random warp that can run, or the number of warps if there is none. With counts, return
 * the warp with the shortest path, so that a warp that polls does not run ahead. */
static uint32_t choose_warp(struct ptx_machine *machine, const struct ptx_block *block)
{
    uint32_t first = (uint32_t) ptx_random(machine) % block->nwarps, found = block->nwarps;

    for (uint32_t i = 0; i < block->nwarps; i++) {
        uint32_t w = (first + i) % block->nwarps;

        if (block->warps[w].runnable != 0 &&
            (found == block->nwarps || (machine->launch->counts != NULL &&
                                        block->warps[w].path < block->warps[found].path))) {
            found = w;
        }
    }
    return found;
}

/* Run a turn of a warp of the block. Return false if the launch was stopped. */
static bool take_turn(struct ptx_machine *machine, struct ptx_block *block)
{
    uint32_t w = choose_warp(machine, block), done = 0;
    uint32_t most = machine->launch->counts != NULL ? 1 : 1 + (uint32_t) ptx_random(machine) % TURN;

    if (w == block->nwarps) {
        return ptx_fail(&block->warps[0], PTX_BARRIER, block->warps[0].pc[0], 0,
                        "cannot go on, nor can any other of its block");
    }
    if (!ptx_warp_run(&block->warps[w], most, &done)) {
        return false;
    }
    machine->warp_instructions += done;
    block->warps[w].instructions += done;
    if (machine->launch->counts != NULL) {
        machine->launch->counts->instructions += done;
    }
    if (machine->looked_at_clock) {
        machine->looked_at_clock = false;
        sched_yield();
    }
    return true;
}

/* Run a turn of a random block. Return false if the launch was stopped. */
static bool run_turn(struct ptx_machine *machine)
{
    const struct ptx_launch *launch = machine->launch;
    /* Running blocks are first in the list, before blocks that have ended. */
    uint32_t b = (uint32_t) ptx_random(machine) % machine->left;
    struct ptx_block *block = machine->blocks[b];

    if (!take_turn(machine, block)) {
        return false;
    }
    if (launch->limit != 0 && machine->warp_instructions > machine->end) {
        struct ptx_warp *warp = &block->warps[0];

        return ptx_fail(warp, PTX_LIMIT, warp->pc[0], 0,
                        "is here when the grid has run %llu instructions of warps",
                        (unsigned long long) launch->limit);
    }
    if (block->exited == PTX_LANES * block->nwarps) {
        if (!left_well(block)) {
            return false;
        }
        ptx_count_end(block);
        machine->blocks[b] = machine->blocks[--machine->left];
        machine->blocks[machine->left] = block;
    }
    return true;
}

static bool check_launch(struct ptx_machine *machine, const struct ptx_launch *launch)
{
    const struct ptx_program *program = machine->program;
    const struct ptx_function *entry = NULL;

    for (uint32_t f = 0; f < program->nfunctions; f++) {
        if (program->functions[f].entry &&
            strcmp(program->functions[f].name, launch->kernel) == 0) {
            entry = &program->functions[f];
        }
    }
    machine->entry = entry;
    if (entry == NULL || launch->threads == 0 || launch->threads % PTX_LANES != 0 ||
        launch->threads > MOST_THREADS ||
        (entry->threads != 0 && launch->threads > entry->threads) || entry->shared > PTX_PAGE) {
        return false;
    }
    machine->parameters = entry->nparameters == 0
                              ? 0
                              : entry->parameters[entry->nparameters - 1].at +
                                    entry->parameters[entry->nparameters - 1].bytes -
                                    entry->parameters[0].at;
    return machine->parameters <= launch->bytes;
}

enum ptx_error ptx_machine_start(struct ptx_machine *machine, const struct ptx_launch *launch,
                                 struct ptx_fault *fault)
{
    *fault = (struct ptx_fault){.error = PTX_OK};
    if (!check_launch(machine, launch)) {
        snprintf(fault->text, sizeof fault->text,
                 "there is no kernel %.100s for blocks of %u threads with %zu bytes of parameters",
                 launch->kernel, launch->threads, launch->bytes);
        return fault->error = PTX_NO_KERNEL;
    }
    if (!have_blocks(machine, launch->blocks, launch->threads / PTX_LANES)) {
        snprintf(fault->text, sizeof fault->text, "no memory for %u blocks", launch->blocks);
        return fault->error = PTX_NO_MEMORY;
    }
    machine->launch = launch;
    machine->fault = fault;
    machine->nranges = 0;
    machine->unchecked = false;
    machine->random = launch->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    machine->pace = UINT64_C(1) << ptx_random(machine) % PACES;
    machine->grain = launch->counts != NULL || ptx_random(machine) % 2 != 0 ? 32 : 1000000;
    if (launch->weak != NULL && !ptx_weak_start(machine)) {
        snprintf(fault->text, sizeof fault->text, "no memory for what blocks know");
        return fault->error = PTX_NO_MEMORY;
    }
    for (uint32_t b = 0; b < launch->blocks; b++) {
        start_block(machine->blocks[b], b);
    }
    machine->left = launch->blocks;
    machine->end = machine->warp_instructions + launch->limit;
    return PTX_OK;
}

enum ptx_error ptx_machine_turn(struct ptx_machine *machine, bool *ended)
{
    struct ptx_fault *fault = machine->fault;

    *ended = false;
    if (machine->left > 0) {
        (void) run_turn(machine);
    } else {
        *ended = machine->launch->weak == NULL || ptx_weak_ended(machine);
    }
    if (machine->unchecked && fault->error == PTX_OK) {
        snprintf(fault->text, sizeof fault->text, "no memory to look for races");
        fault->error = PTX_NO_MEMORY;
    }
    return fault->error;
}

enum ptx_error ptx_machine_run(struct ptx_machine *machine, const struct ptx_launch *launch,
                               struct ptx_fault *fault)
{
    bool ended = ptx_machine_start(machine, launch, fault) != PTX_OK;

    while (!ended) {
        ended = ptx_machine_turn(machine, &ended) != PTX_OK || ended;
    }
    return fault->error;
}

struct ptx_machine *ptx_machine_create(const struct ptx_program *program)
{
    struct ptx_machine *machine = calloc(1, sizeof *machine);

    if (machine != NULL) {
        machine->program = program;
    }
    return machine;
}

void ptx_machine_free(struct ptx_machine *machine)
{
    if (machine != NULL) {
        free_blocks(machine);
        free(machine);
    }
}
