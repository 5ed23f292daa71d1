/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/plan_simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/plan/network.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define CHUNK_ALIGN 128 /* bytes; as executors align chunks */

/* Chunks in flight on a wire: the arrival of each chunk, and the release of each slot. */
struct line {
    struct gpuring_simulate_link link;
    uint32_t sender, receiver; /* processes */
    uint64_t sent, received;
};

/* State of a lane: that of the executor, and a clock. */
struct actor {
    uint64_t count, done; /* bytes of the part */
    uint64_t chunk, window;
    uint32_t step;
    int finished, queued;
    double clock;
};

struct event {
    double time;
    uint32_t process;
};

struct simulation {
    const struct gpuring_simulate_config *config;
    struct gpuring_network network;
    struct line *lines;
    double *arrivals, *releases; /* [nwires][slots] */
    struct actor *actors;
    struct event *heap;
    uint32_t nheap;
    double *resource_free, *resource_busy;
    double *thread_free; /* [nranks], on hosts */
    struct gpuring_simulate_result result;
};

static int heap_before(const struct event *a, const struct event *b)
{
    return a->time < b->time || (a->time == b->time && a->process < b->process);
}

static void heap_push(struct simulation *s, double time, uint32_t process)
{
    uint32_t i = s->nheap++;
    struct event event = {time, process};

    while (i > 0 && heap_before(&event, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = event;
}

static struct event heap_pop(struct simulation *s)
{
    struct event top = s->heap[0], last = s->heap[--s->nheap];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < s->nheap && heap_before(&s->heap[child + 1], &s->heap[child])) {
            child++;
        }
        if (child >= s->nheap || !heap_before(&s->heap[child], &last)) {
            break;
        }
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static uint64_t actor_bytes(const struct actor *actor, uint64_t chunk)
{
    uint64_t begin = chunk * actor->chunk, rest = begin < actor->window ? actor->window - begin : 0;

    return rest < actor->chunk ? rest : actor->chunk;
}

/* Return the bytes of a step that belong to its operand or destination i. */
static uint64_t ref_bytes(const struct gpuring_plan_lane *lane, const struct actor *actor,
                          uint32_t i)
{
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(lane, actor->step, &chunk);

    if ((step->flags & GPURING_STEP_EACH) != 0) {
        chunk = gpuring_step_chunk(chunk, step->nsends > 0 ? i - 1 : i, lane->nchunks);
    }
    return actor_bytes(actor, chunk);
}

/* Return the bytes that a step moves: its chunk, or the chunks of all peers. */
static uint64_t step_bytes(const struct gpuring_plan_lane *lane, const struct actor *actor)
{
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(lane, actor->step, &chunk);
    uint64_t bytes = 0;

    if ((step->flags & GPURING_STEP_EACH) == 0) {
        return actor_bytes(actor, chunk);
    }
    for (uint32_t i = 0; i < gpuring_step_peers(step); i++) {
        bytes += ref_bytes(lane, actor, step->nsends > 0 ? i + 1 : i);
    }
    return bytes;
}

/* Advance to the next step with a chunk. Set `finished` after the last one. */
static void actor_skip(const struct simulation *s, uint32_t index)
{
    const struct gpuring_plan_lane *lane = s->network.processes[index].plan;
    struct actor *actor = &s->actors[index];

    while (!actor->finished) {
        if (actor->window == 0) {
            uint64_t rest = actor->count - actor->done;

            if (rest == 0) {
                actor->finished = 1;
                break;
            }
            actor->chunk =
                gpuring_window_chunk(rest, lane->nchunks, s->config->chunk_bytes, 1 /* byte */);
            actor->window = actor->chunk * lane->nchunks;
            actor->window = actor->window < rest ? actor->window : rest;
            actor->step = 0;
        }
        while (actor->step < lane->nsteps && step_bytes(lane, actor) == 0) {
            actor->step++;
        }
        if (actor->step < lane->nsteps) {
            break;
        }
        actor->done += actor->window;
        actor->window = 0;
    }
}

static double *slot_time(const struct simulation *s, double *times, uint32_t wire, uint64_t step)
{
    return &times[(uint64_t) wire * s->config->slots + step % s->config->slots];
}

/* Set *time to the start of the next step. Return 0 if it depends on a step that has not run. */
static int actor_ready(const struct simulation *s, uint32_t index, double *time)
{
    const struct gpuring_plan_process *process = &s->network.processes[index];
    const struct actor *actor = &s->actors[index];
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(process->plan, actor->step, &chunk);
    const uint16_t *refs = process->plan->refs + step->refs;

    *time = actor->clock;
    for (uint32_t i = 0; i < (uint32_t) step->noperands + step->nsends; i++) {
        double other;

        if ((i < step->noperands && gpuring_ref_own(refs[i])) ||
            ref_bytes(process->plan, actor, i) == 0) {
            continue;
        }
        if (i < step->noperands) {
            uint32_t wire = process->recvs[refs[i]];

            if (s->lines[wire].received == s->lines[wire].sent) {
                return 0;
            }
            other = *slot_time(s, s->arrivals, wire, s->lines[wire].received);
        } else {
            uint32_t wire = process->sends[refs[i]];

            if (s->lines[wire].sent - s->lines[wire].received == s->config->slots) {
                return 0;
            }
            other = *slot_time(s, s->releases, wire, s->lines[wire].sent);
        }
        *time = other > *time ? other : *time;
    }
    return 1;
}

static void actor_queue(struct simulation *s, uint32_t index)
{
    double time;

    if (!s->actors[index].finished && !s->actors[index].queued && actor_ready(s, index, &time)) {
        s->actors[index].queued = 1;
        heap_push(s, time, index);
    }
}

static void chunk_send(struct simulation *s, uint32_t wire, uint64_t bytes, double start,
                       double lane_done)
{
    struct line *line = &s->lines[wire];
    double *link_free = &s->resource_free[line->link.resource];
    double duration =
        line->link.message_us + (double) bytes * s->config->wire_factor / line->link.bandwidth;

    *link_free = (*link_free > start ? *link_free : start) + duration;
    s->resource_busy[line->link.resource] += duration;
    *slot_time(s, s->arrivals, wire, line->sent++) =
        (*link_free > lane_done ? *link_free : lane_done) + line->link.latency_us;
    s->result.chunks_sent++;
    s->result.bytes_sent += bytes;
}

/* Return the time at which a step ends that can start at `time`. */
static double step_end(struct simulation *s, int rank, const struct gpuring_step *step,
                       uint64_t bytes, double time)
{
    double *thread = &s->thread_free[rank], move = (double) bytes / s->config->lane_bandwidth;
    int stores = (step->flags & GPURING_STEP_STORE) != 0;
    int copies = (step->flags & GPURING_STEP_EACH) != 0
                     ? 1
                     : step->noperands - 1 + step->nsends + stores; /* of each byte */

    if (!s->config->host) {
        return time + s->config->step_us + move;
    }
    time = *thread > time ? *thread : time;
    *thread = time + s->config->step_us + move * copies;
    return *thread;
}

/* Send and receive the chunks of a step. */
static void chunks_move(struct simulation *s, const struct gpuring_plan_process *process,
                        const struct gpuring_step *step, const struct actor *actor, double start,
                        double done)
{
    const uint16_t *refs = process->plan->refs + step->refs;

    for (uint32_t i = 0; i < (uint32_t) step->noperands + step->nsends; i++) {
        uint64_t bytes = ref_bytes(process->plan, actor, i);

        if (i >= step->noperands && bytes > 0) {
            chunk_send(s, process->sends[refs[i]], bytes, start, done);
        } else if (i < step->noperands && !gpuring_ref_own(refs[i]) && bytes > 0) {
            uint32_t wire = process->recvs[refs[i]];
            struct line *line = &s->lines[wire];

            *slot_time(s, s->releases, wire, line->received++) = done + line->link.latency_us;
        }
    }
}

/* Run the next step of a lane, and queue the lanes that may have waited for it. */
static void actor_run(struct simulation *s, struct event event)
{
    const struct gpuring_plan_process *process = &s->network.processes[event.process];
    struct actor *actor = &s->actors[event.process], before = *actor;
    uint32_t chunk;
    const struct gpuring_step *step = gpuring_lane_step(process->plan, actor->step, &chunk);
    const uint16_t *refs = process->plan->refs + step->refs;
    double done = step_end(s, process->rank, step, step_bytes(process->plan, actor), event.time);
    double start = s->config->host ? done : event.time;

    actor->queued = 0;
    actor->clock = done;
    actor->step++;
    actor_skip(s, event.process);
    chunks_move(s, process, step, &before, start, done);
    actor_queue(s, event.process);
    for (uint32_t i = 0; i < step->nsends; i++) {
        actor_queue(s, s->lines[process->sends[refs[step->noperands + i]]].receiver);
    }
    for (uint32_t i = 0; i < step->noperands; i++) {
        if (!gpuring_ref_own(refs[i])) {
            actor_queue(s, s->lines[process->recvs[refs[i]]].sender);
        }
    }
}

static int simulation_alloc(struct simulation *s, int nranks)
{
    size_t nprocesses = s->network.nprocesses, nwires = s->network.nwires;
    size_t ntimes = nwires * s->config->slots + 1;

    s->lines = calloc(nwires + 1, sizeof *s->lines);
    s->arrivals = calloc(ntimes, sizeof *s->arrivals);
    s->releases = calloc(ntimes, sizeof *s->releases);
    s->actors = calloc(nprocesses + 1, sizeof *s->actors);
    s->heap = calloc(nprocesses + 1, sizeof *s->heap);
    s->resource_free = calloc(s->config->nresources, sizeof *s->resource_free);
    s->resource_busy = calloc(s->config->nresources, sizeof *s->resource_busy);
    s->thread_free = calloc((size_t) nranks, sizeof *s->thread_free);
    if (s->thread_free == NULL || s->lines == NULL || s->arrivals == NULL || s->releases == NULL ||
        s->actors == NULL || s->heap == NULL || s->resource_free == NULL ||
        s->resource_busy == NULL) {
        gpuring_error("out of memory to simulate %zu lanes", nprocesses);
        return GPURING_ERR_NOMEM;
    }
    return GPURING_OK;
}

static void simulation_free(struct simulation *s)
{
    gpuring_network_destroy(&s->network);
    free(s->lines);
    free(s->arrivals);
    free(s->releases);
    free(s->actors);
    free(s->heap);
    free(s->resource_free);
    free(s->resource_busy);
    free(s->thread_free);
}

static int link_fill(struct simulation *s, uint32_t process, uint32_t wire)
{
    struct gpuring_simulate_link *link = &s->lines[wire].link;
    int from = s->network.wires[wire].from, to = s->network.wires[wire].to;

    s->lines[wire].sender = process;
    s->config->link(s->config->context, from, s->network.processes[process].lane, to, link);
    if (!(link->bandwidth > 0) || !(link->latency_us >= 0) ||
        link->resource >= s->config->nresources) {
        gpuring_error("link from rank %d to rank %d: bandwidth %g, latency %g, resource %u", from,
                      to, link->bandwidth, link->latency_us, link->resource);
        return GPURING_ERR_ARG;
    }
    return GPURING_OK;
}

static int links_fill(struct simulation *s)
{
    int status = GPURING_OK;

    for (uint32_t p = 0; status == GPURING_OK && p < s->network.nprocesses; p++) {
        const struct gpuring_plan_process *process = &s->network.processes[p];

        for (uint32_t i = 0; i < process->plan->nrecvs; i++) {
            s->lines[process->recvs[i]].receiver = p;
        }
        for (uint32_t i = 0; status == GPURING_OK && i < process->plan->nsends; i++) {
            status = link_fill(s, p, process->sends[i]);
        }
    }
    return status;
}

static int simulation_run(struct simulation *s, const struct gpuring_plan *const *plans, char *text,
                          size_t size)
{
    for (uint32_t i = 0; i < s->network.nprocesses; i++) {
        const struct gpuring_plan_process *process = &s->network.processes[i];
        uint64_t first;

        gpuring_part_range(s->config->bytes, process->plan->part_begin, process->plan->part_end,
                           plans[process->rank]->weight, CHUNK_ALIGN, &first, &s->actors[i].count);
        actor_skip(s, i);
        actor_queue(s, i);
    }
    while (s->nheap > 0) {
        actor_run(s, heap_pop(s));
    }
    for (uint32_t i = 0; i < s->network.nprocesses; i++) {
        if (!s->actors[i].finished) {
            snprintf(text, size, "rank %d lane %u waits for ever at step %u",
                     s->network.processes[i].rank, s->network.processes[i].lane, s->actors[i].step);
            return GPURING_ERR_DATA;
        }
        if (s->actors[i].clock > s->result.us) {
            s->result.us = s->actors[i].clock;
        }
    }
    for (uint32_t i = 0; i < s->config->nresources && s->result.us > 0; i++) {
        if (s->resource_busy[i] / s->result.us > s->result.busiest) {
            s->result.busiest = s->resource_busy[i] / s->result.us;
            s->result.busiest_resource = i;
        }
    }
    return GPURING_OK;
}

int gpuring_plan_simulate(const struct gpuring_plan *const *plans, int nranks,
                          const struct gpuring_simulate_config *config,
                          struct gpuring_simulate_result *result, char *text, size_t size)
{
    struct simulation s = {.config = config};
    int status;

    if (nranks < 1 || config->slots == 0 || config->nresources == 0 || config->chunk_bytes == 0 ||
        config->chunk_bytes % CHUNK_ALIGN != 0 || !(config->lane_bandwidth > 0) ||
        !(config->wire_factor > 0) || !(config->step_us >= 0)) {
        gpuring_error("simulation of %d ranks: slots, resources, chunk, bandwidth, wire factor and "
                      "step time must be positive, the chunk a multiple of %d bytes",
                      nranks, CHUNK_ALIGN);
        return GPURING_ERR_ARG;
    }
    status = gpuring_network_create(plans, nranks, &s.network, text, size);
    if (status != GPURING_OK) {
        return status;
    }
    status = simulation_alloc(&s, nranks);
    if (status == GPURING_OK) {
        status = links_fill(&s);
    }
    if (status == GPURING_OK) {
        status = simulation_run(&s, plans, text, size);
    }
    if (status == GPURING_OK) {
        *result = s.result;
    }
    simulation_free(&s);
    return status;
}
