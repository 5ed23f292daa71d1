/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* One end of a connection while ends are matched. */
struct end {
    int from, to;
    uint32_t key;
    uint32_t *wire; /* where its process stores the wire's number */
};

static int refs_valid(const struct gpuring_plan_lane *lane, const struct gpuring_step *step)
{
    const uint16_t *refs = lane->refs + step->refs;

    if ((uint64_t) step->refs + step->noperands + step->nsends > lane->nrefs ||
        step->noperands + step->nsends > GPURING_STEP_REFS || step->noperands == 0 ||
        step->chunk >= lane->nchunks) {
        return 0;
    }
    for (uint32_t i = 0; i < step->noperands; i++) {
        bool stores = (step->flags & GPURING_STEP_STORE) != 0;

        if (gpuring_ref_own(refs[i]) ? refs[i] == GPURING_REF_OUTPUT && !stores
                                     : refs[i] >= lane->nrecvs) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < step->nsends; i++) {
        if (refs[step->noperands + i] >= lane->nsends) {
            return 0;
        }
    }
    return 1;
}

/* Return true if the lane's connections are after those of the previous lane, so that no two lanes
 * share one. */
static int conns_valid(const struct gpuring_plan *plan, uint32_t index)
{
    const struct gpuring_plan_lane *lane = &plan->lanes[index];
    uint64_t recvs = index > 0 ? (uint64_t) lane[-1].first_recv + lane[-1].nrecvs : 0;
    uint64_t sends = index > 0 ? (uint64_t) lane[-1].first_send + lane[-1].nsends : 0;

    return lane->first_recv >= recvs && lane->first_send >= sends &&
           (uint64_t) lane->first_recv + lane->nrecvs <= plan->nrecvs &&
           (uint64_t) lane->first_send + lane->nsends <= plan->nsends;
}

/*
 * Check the steps that may run ahead of their window. They must be the first steps of the lane and
 * read nothing but the input, which no earlier window overwrites, and no other step of the lane may
 * send. Each connection then carries the same chunks in the same order as without running ahead.
 */
static int ahead_valid(const struct gpuring_plan_lane *lane, uint32_t stored)
{
    bool ahead = true;

    for (uint32_t i = 0; i < stored; i++) {
        const struct gpuring_step *step = &lane->steps[i];
        bool flagged = (step->flags & GPURING_STEP_AHEAD) != 0;

        if (flagged &&
            (!ahead || step->noperands != 1 || lane->refs[step->refs] != GPURING_REF_INPUT)) {
            return 0;
        }
        if (!flagged && i > 0 && step->nsends > 0 &&
            (lane->steps[0].flags & GPURING_STEP_AHEAD) != 0) {
            return 0;
        }
        ahead = flagged;
    }
    return 1;
}

static int lane_check(const struct gpuring_plan *plan, uint32_t index, char *text, size_t size)
{
    const struct gpuring_plan_lane *lane = &plan->lanes[index];
    uint32_t stored = gpuring_steps_stored(lane->steps, lane->nsteps);

    if (lane->part_begin >= lane->part_end || lane->part_end > plan->weight || lane->nchunks == 0 ||
        !conns_valid(plan, index)) {
        snprintf(text, size, "rank %d lane %u: part or connections out of range", plan->rank,
                 index);
        return GPURING_ERR_DATA;
    }
    for (uint32_t i = 0; i < stored; i++) {
        if (!refs_valid(lane, &lane->steps[i])) {
            snprintf(text, size, "rank %d lane %u step %u: chunk or reference out of range",
                     plan->rank, index, i);
            return GPURING_ERR_DATA;
        }
    }
    if (!ahead_valid(lane, stored)) {
        snprintf(text, size, "rank %d lane %u: steps cannot run ahead", plan->rank, index);
        return GPURING_ERR_DATA;
    }
    return GPURING_OK;
}

static int plans_check(const struct gpuring_plan *const *plans, int nranks, char *text, size_t size)
{
    for (int rank = 0; rank < nranks; rank++) {
        const struct gpuring_plan *plan = plans[rank];

        if (plan->rank != rank || plan->nranks != nranks || plan->weight != plans[0]->weight ||
            plan->collective != plans[0]->collective || plan->algorithm != plans[0]->algorithm ||
            plan->root != plans[0]->root || plan->in_order != plans[0]->in_order) {
            snprintf(text, size, "rank %d: the plan is of rank %d of %d, root %d, weight %llu%s",
                     rank, plan->rank, plan->nranks, plan->root, (unsigned long long) plan->weight,
                     plan->in_order ? ", in rank order" : "");
            return GPURING_ERR_DATA;
        }
        for (uint32_t lane = 0; lane < plan->nlanes; lane++) {
            int status = lane_check(plan, lane, text, size);

            if (status != GPURING_OK) {
                return status;
            }
        }
    }
    return GPURING_OK;
}

static int end_compare(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    if (a->to != b->to) {
        return a->to < b->to ? -1 : 1;
    }
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Collect all ends of one direction. Each end stores its wire's number in the next element of
 * `wires`. */
static void ends_collect(const struct gpuring_plan *const *plans, int nranks, bool receive,
                         uint32_t *wires, struct end *ends)
{
    for (int rank = 0; rank < nranks; rank++) {
        const struct gpuring_plan_conn *conns = receive ? plans[rank]->recvs : plans[rank]->sends;
        uint32_t count = receive ? plans[rank]->nrecvs : plans[rank]->nsends;

        for (uint32_t i = 0; i < count; i++) {
            *ends++ = (struct end){.from = receive ? conns[i].peer : rank,
                                   .to = receive ? rank : conns[i].peer,
                                   .key = conns[i].key,
                                   .wire = wires++};
        }
    }
}

/* Pair the sorted ends. If two of them differ, the smaller one has no counterpart. */
static int ends_match(const struct end *sends, size_t nsends, const struct end *recvs,
                      size_t nrecvs, struct gpuring_network *network, char *text, size_t size)
{
    for (size_t i = 0; i < nsends || i < nrecvs; i++) {
        int order = i >= nsends ? 1 : i >= nrecvs ? -1 : end_compare(&sends[i], &recvs[i]);
        const struct end *odd = order > 0 ? &recvs[i] : &sends[i];

        if (order != 0) {
            snprintf(text, size,
                     "connection from rank %d to rank %d (key %#x): only the %s names it",
                     odd->from, odd->to, odd->key, order > 0 ? "receiver" : "sender");
            return GPURING_ERR_DATA;
        }
        if (i > 0 && end_compare(&sends[i - 1], &sends[i]) == 0) {
            snprintf(text, size, "connection from rank %d to rank %d (key %#x) is named twice",
                     odd->from, odd->to, odd->key);
            return GPURING_ERR_DATA;
        }
        network->wires[i] = (struct gpuring_wire){.from = sends[i].from, .to = sends[i].to};
        *sends[i].wire = *recvs[i].wire = (uint32_t) i;
    }
    network->nwires = (uint32_t) nsends;
    return GPURING_OK;
}

/* Fill in the lanes of all ranks. `sends` and `recvs` hold the wires' numbers, rank by rank and in
 * the order of each plan. */
static void processes_fill(const struct gpuring_plan *const *plans, int nranks, uint32_t *sends,
                           uint32_t *recvs, struct gpuring_plan_process *process)
{
    for (int rank = 0; rank < nranks; rank++) {
        for (uint32_t l = 0; l < plans[rank]->nlanes; l++) {
            const struct gpuring_plan_lane *lane = &plans[rank]->lanes[l];

            *process++ = (struct gpuring_plan_process){.rank = rank,
                                                       .lane = l,
                                                       .plan = lane,
                                                       .sends = sends + lane->first_send,
                                                       .recvs = recvs + lane->first_recv};
        }
        sends += plans[rank]->nsends;
        recvs += plans[rank]->nrecvs;
    }
}

int gpuring_network_create(const struct gpuring_plan *const *plans, int nranks,
                           struct gpuring_network *network, char *text, size_t size)
{
    size_t nsends = 0, nrecvs = 0, nprocesses = 0;
    struct end *sends = NULL, *recvs = NULL;
    int status = plans_check(plans, nranks, text, size);

    if (status != GPURING_OK) {
        return status;
    }
    for (int rank = 0; rank < nranks; rank++) {
        nsends += plans[rank]->nsends;
        nrecvs += plans[rank]->nrecvs;
        nprocesses += plans[rank]->nlanes;
    }
    *network = (struct gpuring_network){.nprocesses = (uint32_t) nprocesses};
    network->processes = calloc(nprocesses + 1, sizeof *network->processes);
    network->wires = calloc(nsends + 1, sizeof *network->wires);
    network->ends = calloc(nsends + nrecvs + 1, sizeof *network->ends);
    sends = calloc(nsends + nrecvs + 1, sizeof *sends);
    if (network->processes == NULL || network->wires == NULL || network->ends == NULL ||
        sends == NULL) {
        gpuring_error("out of memory to join the plans of %d ranks", nranks);
        status = GPURING_ERR_NOMEM;
    } else {
        recvs = sends + nsends;
        processes_fill(plans, nranks, network->ends, network->ends + nsends, network->processes);
        ends_collect(plans, nranks, false, network->ends, sends);
        ends_collect(plans, nranks, true, network->ends + nsends, recvs);
        qsort(sends, nsends, sizeof *sends, end_compare);
        qsort(recvs, nrecvs, sizeof *recvs, end_compare);
        status = ends_match(sends, nsends, recvs, nrecvs, network, text, size);
    }
    free(sends);
    if (status != GPURING_OK) {
        gpuring_network_destroy(network);
    }
    return status;
}

void gpuring_network_destroy(struct gpuring_network *network)
{
    free(network->processes);
    free(network->wires);
    free(network->ends);
    *network = (struct gpuring_network){0};
}
