/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The agents of the modelled memory: hosts, and blocks with their starts, barriers and ends. */
#include "test/ptx/ptx_weak_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void free_all(struct ptx_weak *weak)
{
    free(weak->words);
    free(weak->agents);
    free(weak->streams);
    free(weak);
}

struct ptx_weak *ptx_weak_create(const struct ptx_weak_options *options)
{
    struct ptx_weak *weak = calloc(1, sizeof *weak);
    size_t words = options->bytes / 8;

    if (weak == NULL) {
        return NULL;
    }
    weak->options = *options;
    weak->random = options->seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    weak->unused = PTX_NOTHING;
    weak->words = malloc(words * sizeof *weak->words);
    weak->agents = calloc(options->agents, sizeof *weak->agents);
    weak->streams = calloc(options->agents, sizeof *weak->streams);
    if (weak->words == NULL || weak->agents == NULL || weak->streams == NULL) {
        free_all(weak);
        return NULL;
    }
    for (size_t i = 0; i < words; i++) {
        weak->words[i] = (struct ptx_word){.first = PTX_NOTHING, .last = PTX_NOTHING};
    }
    return weak;
}

static void free_agent(struct ptx_weak_agent *agent)
{
    for (uint32_t w = 0; w < PTX_AGENT_WARPS; w++) {
        ptx_clock_set(&agent->clocks[w], NULL);
        ptx_clock_set(&agent->arrived[w], NULL);
    }
    for (uint32_t t = 0; agent->released != NULL && t < PTX_AGENT_WARPS * PTX_LANES; t++) {
        ptx_clock_set(&agent->released[t].clock, NULL);
    }
    free(agent->released);
}

void ptx_weak_free(struct ptx_weak *weak)
{
    if (weak == NULL) {
        return;
    }
    while (weak->nheap > 0) {
        ptx_weak_pass(weak, UINT32_MAX);
    }
    for (size_t i = 0; i < weak->options.bytes / 8; i++) {
        ptx_clock_set(&weak->words[i].message.clock, NULL);
        ptx_clock_set(&weak->words[i].data, NULL);
    }
    for (uint32_t a = 0; a < weak->options.agents; a++) {
        free_agent(&weak->agents[a]);
        ptx_clock_set(&weak->streams[a], NULL);
    }
    free(weak->waiting);
    free(weak->heap);
    free_all(weak);
}

uint64_t ptx_weak_random(struct ptx_weak *weak)
{
    weak->random ^= weak->random << 13;
    weak->random ^= weak->random >> 7;
    weak->random ^= weak->random << 17;
    return weak->random >> 16;
}

const char *ptx_weak_suspect(const struct ptx_weak *weak)
{
    return weak->suspect;
}

void ptx_weak_describe(const struct ptx_weak *weak, const struct ptx_who *who, char *text,
                       size_t size)
{
    const struct ptx_program *program = weak->options.program;
    const struct ptx_weak_agent *agent = &weak->agents[who->agent];
    const char *name = "?";

    if (agent->host) {
        snprintf(text, size, "the host of rank %u", agent->rank);
        return;
    }
    for (uint32_t f = 0; f < program->nfunctions; f++) {
        if (who->pc >= program->functions[f].first && who->pc < program->functions[f].end) {
            name = program->functions[f].name;
        }
    }
    snprintf(text, size, "%.100s, PTX line %u, of rank %u, block %u, thread %u", name,
             program->code[who->pc].line, agent->rank, agent->block, who->thread);
}

/* Allocate the table of an agent's last fences at its first use. Return false if there is no
 * memory. */
static bool have_agent(struct ptx_weak_agent *agent)
{
    if (agent->released == NULL) {
        agent->released = calloc(PTX_AGENT_WARPS * PTX_LANES, sizeof *agent->released);
    }
    return agent->released != NULL;
}

/* A launch orders its blocks after all earlier accesses of the host and of earlier kernels on the
 * stream. */
bool ptx_weak_start(struct ptx_machine *machine)
{
    const struct ptx_launch *launch = machine->launch;
    struct ptx_weak *weak = launch->weak;
    struct ptx_clock **stream = &weak->streams[launch->agent];

    if (!ptx_clock_join(stream, weak->agents[launch->host].clocks[0]) ||
        !ptx_clock_own(stream, weak->options.agents)) {
        return false;
    }
    ptx_clock_add(*stream, launch->host, 0, weak->agents[launch->host].tick++);
    for (uint32_t b = 0; b < launch->blocks; b++) {
        struct ptx_block *block = machine->blocks[b];
        struct ptx_weak_agent *agent;

        block->agent = launch->agent + block->index;
        if (block->agent >= weak->options.agents || block->nwarps > PTX_AGENT_WARPS) {
            return false;
        }
        agent = &weak->agents[block->agent];
        if (!have_agent(agent)) {
            return false;
        }
        agent->rank = launch->rank;
        agent->gpu = launch->gpu;
        agent->block = b;
        for (uint32_t w = 0; w < block->nwarps; w++) {
            ptx_clock_set(&agent->clocks[w], *stream);
        }
    }
    return true;
}

bool ptx_weak_ended(struct ptx_machine *machine)
{
    const struct ptx_launch *launch = machine->launch;
    struct ptx_weak *weak = launch->weak;
    struct ptx_clock **stream = &weak->streams[launch->agent];
    uint32_t waiting = 0;

    ptx_weak_pass(weak, ptx_weak_random(weak) % 64);
    for (uint32_t b = 0; b < launch->blocks; b++) {
        waiting += weak->agents[machine->blocks[b]->agent].waiting;
    }
    if (waiting > 0) {
        return false;
    }
    for (uint32_t b = 0; b < launch->blocks; b++) {
        struct ptx_block *block = machine->blocks[b];

        for (uint32_t w = 0; w < block->nwarps; w++) {
            if (!ptx_clock_join(stream, weak->agents[block->agent].clocks[w])) {
                weak->no_memory = true;
            }
        }
    }
    if (!ptx_clock_own(stream, weak->options.agents)) {
        weak->no_memory = true;
        return true;
    }
    for (uint32_t b = 0; b < launch->blocks; b++) {
        for (uint32_t w = 0; w < machine->blocks[b]->nwarps; w++) {
            ptx_clock_add(*stream, machine->blocks[b]->agent, w, machine->blocks[b]->tick);
        }
    }
    return true;
}

void ptx_weak_arrive(struct ptx_block *block, uint32_t warp)
{
    struct ptx_weak_agent *agent = &block->machine->launch->weak->agents[block->agent];

    ptx_clock_set(&agent->arrived[warp], agent->clocks[warp]);
}

void ptx_weak_barrier(struct ptx_block *block, uint32_t waited, uint32_t arrived)
{
    struct ptx_weak *weak = block->machine->launch->weak;
    struct ptx_weak_agent *agent = &weak->agents[block->agent];
    struct ptx_clock *all = NULL;

    for (uint32_t left = waited | arrived; left != 0; left &= left - 1) {
        uint32_t w = (uint32_t) __builtin_ctz(left);
        struct ptx_clock *clock = (waited >> w & 1) != 0 ? agent->clocks[w] : agent->arrived[w];

        if (all == NULL) {
            ptx_clock_set(&all, clock);
        } else if (!ptx_clock_join(&all, clock)) {
            weak->no_memory = true;
        }
    }
    for (uint32_t left = waited; left != 0; left &= left - 1) {
        ptx_clock_set(&agent->clocks[__builtin_ctz(left)], all);
    }
    ptx_clock_set(&all, NULL);
}

void ptx_weak_host(struct ptx_weak *weak, uint32_t host, uint32_t rank)
{
    weak->agents[host].rank = rank;
    weak->agents[host].host = true;
    weak->agents[host].tick = 1;
}

/* Return the mask of those bytes of [offset, offset + bytes) that are in a word. */
static uint8_t mask_of(uint64_t index, uint64_t offset, uint64_t bytes)
{
    uint32_t mask = 255;

    if (offset > 8 * index) {
        mask &= 255u << (offset - 8 * index);
    }
    if (offset + bytes < 8 * index + 8) {
        mask &= 255u >> (8 * index + 8 - offset - bytes);
    }
    return (uint8_t) mask;
}

static struct ptx_who who_of(const struct ptx_weak *weak, uint32_t host, uint8_t mask, bool strong)
{
    return (struct ptx_who){.tick = weak->agents[host].tick,
                            .agent = (uint8_t) host,
                            .mask = mask,
                            .strong = strong,
                            .scope = PTX_SCOPE_SYS};
}

void ptx_weak_host_release(struct ptx_weak *weak, uint32_t host, uint64_t *p, uint64_t value)
{
    uint64_t index = (uint64_t) (p - (uint64_t *) weak->options.memory);
    struct ptx_clock *clock = ptx_clock_new(weak->agents[host].clocks[0], weak->options.agents);
    struct ptx_word *word = &weak->words[index];

    if (clock == NULL) {
        weak->no_memory = true;
        return;
    }
    ptx_weak_settle(weak, (uint32_t) index);
    ptx_clock_add(clock, host, 0, weak->agents[host].tick);
    word->before = *p;
    *p = value;
    word->visible = word->stored = ++weak->number;
    word->writer = word->visible_by = who_of(weak, host, 255, true);
    word->read_by = 0;
    ptx_clock_set(&word->message.clock, clock);
    word->message.agent = (uint8_t) host;
    word->message.scope = PTX_SCOPE_SYS;
    weak->agents[host].tick++;
}

/* Return true if the host's access to a word is ordered after an access of another agent. */
static bool follows(struct ptx_weak *weak, uint32_t host, uint64_t index, uint8_t mask,
                    const struct ptx_who *other, const char *does, struct ptx_fault *fault)
{
    char text[300];

    if ((other->mask & mask) == 0 || other->agent == host ||
        ptx_clock_covers(weak->agents[host].clocks[0], other)) {
        return true;
    }
    ptx_weak_describe(weak, other, text, sizeof text);
    fault->error = PTX_ORDER;
    snprintf(fault->text, sizeof fault->text,
             "the host of rank %u, or its network device, %s 0x%" PRIx64 ", which %s has accessed; "
             "neither is ordered before the other",
             weak->agents[host].rank, does, (uint64_t) (uintptr_t) weak->options.memory + 8 * index,
             text);
    return false;
}

bool ptx_weak_host_acquire(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                           uint64_t *value, struct ptx_fault *fault)
{
    uint64_t offset = (uint64_t) ((const uint8_t *) p - (const uint8_t *) weak->options.memory);
    const struct ptx_word *word = &weak->words[offset / 8];
    const struct ptx_who *writer = &word->writer;

    *value = ((const uint64_t *) weak->options.memory)[offset / 8] >> offset % 8 * 8 &
             (UINT64_MAX >> (64 - 8 * bytes));
    if (!(writer->strong && writer->scope == PTX_SCOPE_SYS) &&
        !follows(weak, host, offset / 8, mask_of(offset / 8, offset, bytes), writer, "reads",
                 fault)) {
        return false;
    }
    if (word->message.clock != NULL && word->message.scope == PTX_SCOPE_SYS &&
        !ptx_clock_receive(&weak->agents[host].clocks[0], &word->message)) {
        weak->no_memory = true;
    }
    return true;
}

bool ptx_weak_host_reads(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                         struct ptx_fault *fault)
{
    uint64_t offset = (uint64_t) ((const uint8_t *) p - (const uint8_t *) weak->options.memory);

    for (uint64_t i = offset / 8; 8 * i < offset + bytes; i++) {
        uint8_t mask = mask_of(i, offset, bytes);

        if (!follows(weak, host, i, mask, &weak->words[i].writer, "reads", fault)) {
            return false;
        }
        weak->words[i].reader = who_of(weak, host, mask, false);
    }
    return true;
}

bool ptx_weak_host_writes(struct ptx_weak *weak, uint32_t host, const void *p, size_t bytes,
                          struct ptx_fault *fault)
{
    uint64_t offset = (uint64_t) ((const uint8_t *) p - (const uint8_t *) weak->options.memory);

    for (uint64_t i = offset / 8; 8 * i < offset + bytes; i++) {
        uint8_t mask = mask_of(i, offset, bytes);

        if (!follows(weak, host, i, mask, &weak->words[i].writer, "writes", fault) ||
            !follows(weak, host, i, mask, &weak->words[i].reader, "writes", fault)) {
            return false;
        }
        weak->words[i].writer = who_of(weak, host, mask, false);
        weak->words[i].visible = 0;
    }
    return true;
}
