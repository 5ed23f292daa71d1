/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/writer.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

uint32_t gpuring_writer_key(enum gpuring_algorithm algorithm, uint32_t index, uint32_t down)
{
    return (uint32_t) algorithm << 28 | index << 1 | down;
}

uint32_t gpuring_plan_channel(const struct gpuring_plan *plan, uint32_t key)
{
    uint32_t index = (key & UINT32_C(0xfffffff)) >> 1;

    switch (plan->algorithm) {
    case GPURING_ALGORITHM_TREE:
        return index / 2; /* two trees a channel */
    case GPURING_ALGORITHM_TWO_SHOT:
        return index / (uint32_t) plan->nranks; /* a part for each rank */
    default:
        return index;
    }
}

static void *no_memory(struct gpuring_writer *writer)
{
    if (writer->status == GPURING_OK) {
        gpuring_error("out of memory for a plan of %d ranks; lower coll_gpuring_max_channels",
                      writer->plan != NULL ? writer->plan->nranks : 0);
        writer->status = GPURING_ERR_NOMEM;
    }
    return NULL;
}

/* Room for `more` further elements after `used`; NULL after an error. */
static void *grow(struct gpuring_writer *writer, void *array, size_t *room, size_t used,
                  size_t more, size_t size)
{
    size_t wanted = *room;
    void *grown;

    if (writer->status != GPURING_OK) {
        return NULL;
    }
    if (used + more <= *room) {
        return array;
    }
    while (wanted < used + more) {
        wanted = wanted == 0 ? 8 : 2 * wanted;
    }
    grown = reallocarray(array, wanted, size);
    if (grown == NULL) {
        return no_memory(writer);
    }
    *room = wanted;
    return grown;
}

void gpuring_writer_open(struct gpuring_writer *writer, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, const struct gpuring_plan_input *input,
                         uint64_t weight)
{
    memset(writer, 0, sizeof *writer);
    if (input->nranks < 2 || input->rank < 0 || input->rank >= input->nranks || weight == 0) {
        gpuring_error("no plan of algorithm %s for rank %d of %d, %u rings and %u trees",
                      gpuring_algorithm_text(algorithm), input->rank, input->nranks, input->nrings,
                      input->ntrees);
        writer->status = GPURING_ERR_ARG;
        return;
    }
    writer->plan = calloc(1, sizeof *writer->plan);
    if (writer->plan == NULL) {
        no_memory(writer);
        return;
    }
    writer->plan->collective = collective;
    writer->plan->algorithm = algorithm;
    writer->plan->rank = input->rank;
    writer->plan->nranks = input->nranks;
    writer->plan->weight = weight;
    writer->plan->in_order =
        algorithm == GPURING_ALGORITHM_TREE ? input->in_order : algorithm != GPURING_ALGORITHM_RING;
}

static void *copy(struct gpuring_writer *writer, const void *array, size_t bytes)
{
    void *copied = writer->status == GPURING_OK ? malloc(bytes + 1) : NULL;

    if (copied == NULL) {
        return no_memory(writer);
    }
    return memcpy(copied, array, bytes);
}

void gpuring_writer_open_on(struct gpuring_writer *writer, enum gpuring_collective collective,
                            const struct gpuring_plan_input *input)
{
    const struct gpuring_plan *base = input->base;

    gpuring_writer_open(writer, collective, base->algorithm, input, base->weight);
    if (writer->status != GPURING_OK) {
        return;
    }
    writer->base = base;
    writer->plan->based = true;
    writer->plan->root = input->root;
    writer->plan->recvs = copy(writer, base->recvs, base->nrecvs * sizeof *base->recvs);
    writer->plan->sends = copy(writer, base->sends, base->nsends * sizeof *base->sends);
    writer->plan->nrecvs = base->nrecvs;
    writer->plan->nsends = base->nsends;
}

/* The lane may use what the base's lanes for its part use, which follow one another, or what its
 * counterpart among them uses. */
static void take_connections(const struct gpuring_writer *writer)
{
    struct gpuring_plan_lane *lane = writer->lane;
    uint32_t number = writer->plan->nlanes - 1;

    lane->nrecvs = lane->nsends = 0;
    for (uint32_t i = 0; i < writer->base->nlanes; i++) {
        const struct gpuring_plan_lane *other = &writer->base->lanes[i];

        if (writer->lane_by_lane
                ? i == number
                : other->part_begin >= lane->part_begin && other->part_end <= lane->part_end) {
            if (lane->nrecvs == 0 && lane->nsends == 0) {
                lane->first_recv = other->first_recv;
                lane->first_send = other->first_send;
            }
            lane->nrecvs += other->nrecvs;
            lane->nsends += other->nsends;
        }
    }
}

void gpuring_writer_lane_begin(struct gpuring_writer *writer, uint64_t part_begin,
                               uint64_t part_end, uint32_t nchunks)
{
    struct gpuring_plan *plan = writer->plan;
    struct gpuring_plan_lane *lanes;

    if (writer->status != GPURING_OK) {
        return;
    }
    lanes = grow(writer, plan->lanes, &writer->lanes_room, plan->nlanes, 1, sizeof *lanes);
    if (lanes == NULL) {
        return;
    }
    plan->lanes = lanes;
    writer->lane = &lanes[plan->nlanes++];
    *writer->lane = (struct gpuring_plan_lane){.part_begin = part_begin,
                                               .part_end = part_end,
                                               .nchunks = nchunks,
                                               .first_recv = plan->nrecvs,
                                               .first_send = plan->nsends};
    if (writer->base != NULL) {
        take_connections(writer);
    }
}

void gpuring_writer_lane_narrow(struct gpuring_writer *writer, uint32_t first_send, uint32_t nsends,
                                uint32_t first_recv, uint32_t nrecvs)
{
    if (writer->status == GPURING_OK) {
        writer->lane->first_send += first_send;
        writer->lane->nsends = nsends;
        writer->lane->first_recv += first_recv;
        writer->lane->nrecvs = nrecvs;
    }
}

/* The lane's number of a connection of the base. */
static uint16_t find_conn(struct gpuring_writer *writer, const struct gpuring_plan_conn *conns,
                          uint32_t count, int peer, uint32_t key)
{
    for (uint32_t i = 0; i < count; i++) {
        if (conns[i].peer == peer && conns[i].key == key) {
            return (uint16_t) i;
        }
    }
    gpuring_error("the plan of a %s at rank %d needs a connection with rank %d (key %#x) that the "
                  "communicator does not have: report this",
                  gpuring_collective_text(writer->plan->collective), writer->plan->rank, peer, key);
    writer->status = GPURING_ERR_ARG;
    return 0;
}

/* Append a connection to a list of the plan; the number of the lane's, before it. */
static uint16_t add_conn(struct gpuring_writer *writer, struct gpuring_plan_conn **conns,
                         uint32_t *used, size_t *room, uint32_t *of_lane, int peer, uint32_t key)
{
    struct gpuring_plan_conn *grown;

    if (*of_lane + 1 >= GPURING_REF_INPUT) { /* a reference has 16 bits */
        gpuring_error("no plan of algorithm %s for %d ranks",
                      gpuring_algorithm_text(writer->plan->algorithm), writer->plan->nranks);
        writer->status = GPURING_ERR_ARG;
        return 0;
    }
    grown = grow(writer, *conns, room, *used, 1, sizeof *grown);
    if (grown == NULL) {
        return 0;
    }
    *conns = grown;
    grown[(*used)++] = (struct gpuring_plan_conn){.peer = peer, .key = key};
    return (uint16_t) (*of_lane)++;
}

uint16_t gpuring_writer_recv(struct gpuring_writer *writer, int peer, uint32_t key)
{
    struct gpuring_plan *plan = writer->plan;

    if (writer->status != GPURING_OK) {
        return 0;
    }
    return writer->base != NULL ? find_conn(writer, plan->recvs + writer->lane->first_recv,
                                            writer->lane->nrecvs, peer, key)
                                : add_conn(writer, &plan->recvs, &plan->nrecvs, &writer->recvs_room,
                                           &writer->lane->nrecvs, peer, key);
}

uint16_t gpuring_writer_send(struct gpuring_writer *writer, int peer, uint32_t key)
{
    struct gpuring_plan *plan = writer->plan;

    if (writer->status != GPURING_OK) {
        return 0;
    }
    return writer->base != NULL ? find_conn(writer, plan->sends + writer->lane->first_send,
                                            writer->lane->nsends, peer, key)
                                : add_conn(writer, &plan->sends, &plan->nsends, &writer->sends_room,
                                           &writer->lane->nsends, peer, key);
}

void gpuring_writer_step(struct gpuring_writer *writer, uint32_t chunk, uint32_t flags,
                         const uint16_t *refs, size_t noperands, size_t nsends)
{
    struct gpuring_plan_lane *lane = writer->lane;
    struct gpuring_step *steps;
    uint16_t *lane_refs;

    if (writer->status != GPURING_OK) {
        return;
    }
    steps = grow(writer, writer->steps, &writer->steps_room, lane->nsteps, 1, sizeof *steps);
    if (steps == NULL) {
        return;
    }
    writer->steps = steps;
    lane_refs = grow(writer, writer->refs, &writer->refs_room, lane->nrefs, noperands + nsends,
                     sizeof *lane_refs);
    if (lane_refs == NULL) {
        return;
    }
    writer->refs = lane_refs;
    for (size_t i = 0; i < noperands; i++) {
        flags |= refs[i] == GPURING_REF_INPUT ? GPURING_STEP_INPUT : 0;
    }
    steps[lane->nsteps++] = (struct gpuring_step){.chunk = chunk,
                                                  .refs = lane->nrefs,
                                                  .noperands = (uint16_t) noperands,
                                                  .nsends = (uint16_t) nsends,
                                                  .flags = (uint16_t) flags};
    memcpy(lane_refs + lane->nrefs, refs, (noperands + nsends) * sizeof *refs);
    lane->nrefs += (uint32_t) (noperands + nsends);
}

void gpuring_writer_lane_ring(struct gpuring_writer *writer)
{
    if (writer->status == GPURING_OK) {
        writer->lane->nsteps = 2 * writer->lane->nchunks - 1;
    }
}

void gpuring_writer_lane_end(struct gpuring_writer *writer)
{
    if (writer->status != GPURING_OK) {
        return;
    }
    writer->lane->steps = writer->steps;
    writer->lane->refs = writer->refs;
    writer->steps = NULL;
    writer->refs = NULL;
    writer->steps_room = writer->refs_room = 0;
}

int gpuring_writer_finish(struct gpuring_writer *writer, struct gpuring_plan **plan)
{
    if (writer->status != GPURING_OK) {
        free(writer->steps);
        free(writer->refs);
        gpuring_plan_free(writer->plan);
        return writer->status;
    }
    *plan = writer->plan;
    return GPURING_OK;
}
