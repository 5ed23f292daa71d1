/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/plan/build.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static void *no_memory(struct gpuring_writer *writer)
{
    if (writer->status == GPURING_OK) {
        gpuring_error("out of memory for a plan of %d ranks; lower coll_gpuring_max_channels",
                      writer->input->nranks);
        writer->status = GPURING_ERR_NOMEM;
    }
    return NULL;
}

/* Return `array` with room for one more element after `used`, or NULL after an error. The array
 * doubles whenever `used` is a power of two. */
static void *grow_array(struct gpuring_writer *writer, void *array, size_t used, size_t size)
{
    void *grown = array;

    if (writer->status != GPURING_OK) {
        return NULL;
    }
    if ((used & (used - 1)) == 0) {
        grown = reallocarray(array, used > 0 ? 2 * used : 1, size);
    }
    return grown != NULL ? grown : no_memory(writer);
}

/* Flag the first steps of a lane that may run ahead: they only send the input, and no later step of
 * the lane sends. */
static void flag_ahead(struct gpuring_step *steps, const uint16_t *refs, uint32_t nsteps)
{
    uint32_t count = 0, rest;

    while (count < nsteps && steps[count].noperands == 1 && steps[count].nsends > 0 &&
           refs[steps[count].refs] == GPURING_REF_INPUT &&
           (steps[count].flags & GPURING_STEP_RING) == 0) {
        count++;
    }
    for (rest = count; rest < nsteps && steps[rest].nsends == 0; rest++) {
    }
    for (uint32_t k = 0; k < count && rest == nsteps; k++) {
        steps[k].flags |= GPURING_STEP_AHEAD;
    }
}

/* Complete the open lane. Its connections are those from the first to the last one that its steps
 * use. The steps have referred to them by their index in the plan; make that an index in the lane.
 */
static void close_lane(struct gpuring_writer *writer)
{
    const struct gpuring_plan *plan = writer->plan;
    struct gpuring_plan_lane *lane = writer->lane;
    struct gpuring_step *steps;
    uint16_t *refs;

    if (lane == NULL || writer->status != GPURING_OK) {
        return;
    }
    steps = plan->steps + plan->nsteps - lane->nsteps;
    refs = plan->refs + plan->nrefs - lane->nrefs;
    for (uint32_t k = 0; k < lane->nsteps; k++) {
        for (uint32_t i = 0; i < steps[k].noperands; i++, refs++) {
            *refs -= !gpuring_ref_own(*refs) ? (uint16_t) lane->first_recv : 0;
        }
        for (uint32_t i = 0; i < steps[k].nsends; i++, refs++) {
            *refs -= (uint16_t) lane->first_send;
        }
    }
    flag_ahead(steps, plan->refs + plan->nrefs - lane->nrefs, lane->nsteps);
    if (lane->nsteps > 0 && (steps[0].flags & GPURING_STEP_RING) != 0) {
        lane->nsteps = 2 * lane->nchunks - 1; /* the five stored steps represent these */
    }
}

void gpuring_writer_lane(struct gpuring_writer *writer, uint32_t part_begin, uint32_t part_end,
                         int nchunks)
{
    struct gpuring_plan *plan = writer->plan;
    const struct gpuring_plan_lane *before;
    struct gpuring_plan_lane *lanes;

    close_lane(writer);
    lanes = grow_array(writer, plan->lanes, plan->nlanes, sizeof *lanes);
    if (lanes == NULL) {
        return;
    }
    plan->lanes = lanes;
    writer->lane = &lanes[plan->nlanes];
    before = plan->nlanes > 0 ? writer->lane - 1 : NULL;
    *writer->lane = (struct gpuring_plan_lane){
        .part_begin = part_begin,
        .part_end = part_end,
        .nchunks = (uint32_t) nchunks,
        .first_recv = before != NULL ? before->first_recv + before->nrecvs : 0,
        .first_send = before != NULL ? before->first_send + before->nsends : 0};
    plan->nlanes++;
}

static bool append_conn(struct gpuring_writer *writer, struct gpuring_plan_conn **list,
                        uint32_t *count, struct gpuring_plan_conn conn)
{
    struct gpuring_plan_conn *grown = grow_array(writer, *list, *count, sizeof *grown);

    if (grown != NULL) {
        *list = grown;
        grown[(*count)++] = conn;
    }
    return grown != NULL;
}

static void too_large(struct gpuring_writer *writer)
{
    gpuring_error("no plan of a %s by algorithm %s for %d ranks",
                  gpuring_collective_text(writer->plan->collective),
                  gpuring_algorithm_text(writer->plan->algorithm), writer->plan->nranks);
    writer->status = GPURING_ERR_ARG;
}

/* Return true if the lane may add a connection. Otherwise log why not. */
static bool may_add(struct gpuring_writer *writer, uint32_t of_plan, int peer, uint32_t key)
{
    if (writer->base != NULL) {
        gpuring_error("the plan of a %s at rank %d needs a connection with rank %d (key %#x) that "
                      "the communicator does not have: report this",
                      gpuring_collective_text(writer->plan->collective), writer->plan->rank, peer,
                      key);
        writer->status = GPURING_ERR_ARG;
    } else if (of_plan == GPURING_REF_OUTPUT) {
        too_large(writer);
    }
    return writer->status == GPURING_OK;
}

/* Return the index of a connection among `places` elements of a list from `first` on, wrapping
 * around at the end, or `count` if it is not there. */
static uint32_t find_conn(const struct gpuring_plan_conn *list, uint32_t count, uint32_t first,
                          uint32_t places, int peer, uint32_t key)
{
    for (uint32_t i = 0; i < places; i++) {
        uint32_t at = (first + i) % count;

        if (list[at].peer == peer && list[at].key == key) {
            return at;
        }
    }
    return count;
}

/* Return the index in the plan of a connection, and give the connection to the lane. Look for it in
 * the lane, or in the whole plan if there is a base plan. Without a base plan, add a connection if
 * there is none. */
static uint16_t take_conn(struct gpuring_writer *writer, bool send, int peer, uint32_t key)
{
    struct gpuring_plan *plan = writer->plan;
    struct gpuring_plan_lane *lane = writer->lane;
    struct gpuring_plan_conn **list = send ? &plan->sends : &plan->recvs;
    uint32_t *count = send ? &plan->nsends : &plan->nrecvs;
    uint32_t *first, *used, at, end;

    if (writer->status != GPURING_OK) {
        return 0;
    }
    first = send ? &lane->first_send : &lane->first_recv;
    used = send ? &lane->nsends : &lane->nrecvs;
    at = writer->once
             ? *count
             : find_conn(*list, *count, *first, writer->base != NULL ? *count : *used, peer, key);
    if (at == *count &&
        (!may_add(writer, *count, peer, key) ||
         !append_conn(writer, list, count, (struct gpuring_plan_conn){peer, key}))) {
        return 0;
    }
    end = *used > 0 && *first + *used > at ? *first + *used : at + 1;
    *first = *used > 0 && *first < at ? *first : at;
    *used = end - *first;
    return (uint16_t) at;
}

void gpuring_writer_step(struct gpuring_writer *writer, uint32_t chunk, uint32_t flags)
{
    struct gpuring_plan *plan = writer->plan;
    struct gpuring_step *steps = grow_array(writer, plan->steps, plan->nsteps, sizeof *steps);

    if (steps != NULL) {
        plan->steps = steps;
        steps[plan->nsteps++] = (struct gpuring_step){
            .chunk = chunk, .refs = writer->lane->nrefs, .flags = (uint16_t) flags};
        writer->lane->nsteps++;
    }
}

/* Add an operand or a destination to the last step. */
static void add_ref(struct gpuring_writer *writer, uint16_t ref, bool operand)
{
    struct gpuring_plan *plan = writer->plan;
    uint16_t *refs = grow_array(writer, plan->refs, plan->nrefs, sizeof *refs);
    struct gpuring_step *step;

    if (refs != NULL) {
        plan->refs = refs;
        step = &plan->steps[plan->nsteps - 1];
        if (step->noperands + step->nsends == GPURING_STEP_REFS) {
            too_large(writer);
            return;
        }
        refs[plan->nrefs++] = ref;
        writer->lane->nrefs++;
        step->noperands += operand;
        step->nsends += !operand;
        step->flags |= ref == GPURING_REF_INPUT ? GPURING_STEP_INPUT : 0;
    }
}

void gpuring_writer_input(struct gpuring_writer *writer)
{
    add_ref(writer, GPURING_REF_INPUT, true);
}

void gpuring_writer_output(struct gpuring_writer *writer)
{
    add_ref(writer, GPURING_REF_OUTPUT, true);
}

void gpuring_writer_recv(struct gpuring_writer *writer, int peer, uint32_t key)
{
    (void) take_conn(writer, false, peer, key);
}

void gpuring_writer_send(struct gpuring_writer *writer, int peer, uint32_t key)
{
    (void) take_conn(writer, true, peer, key);
}

void gpuring_writer_from(struct gpuring_writer *writer, int peer, uint32_t key)
{
    add_ref(writer, take_conn(writer, false, peer, key), true);
}

void gpuring_writer_to(struct gpuring_writer *writer, int peer, uint32_t key)
{
    add_ref(writer, take_conn(writer, true, peer, key), false);
}

void gpuring_writer_open(struct gpuring_writer *writer, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, uint32_t channels, uint32_t parts,
                         bool in_order)
{
    const struct gpuring_plan_input *input = writer->input;
    const struct gpuring_plan *base = writer->base;
    struct gpuring_plan *plan;

    if (input->nranks < 2 || input->rank < 0 || input->rank >= input->nranks || channels == 0) {
        gpuring_error("no plan of algorithm %s for rank %d of %d, %u rings and %u trees",
                      gpuring_algorithm_text(algorithm), input->rank, input->nranks, input->nrings,
                      input->ntrees);
        writer->status = GPURING_ERR_ARG;
        return;
    }
    writer->plan = plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        no_memory(writer);
        return;
    }
    *plan = (struct gpuring_plan){.collective = collective,
                                  .algorithm = algorithm,
                                  .rank = input->rank,
                                  .nranks = input->nranks,
                                  .root = base != NULL      ? input->root
                                          : input->exchange ? GPURING_ROOT_BETWEEN_NODES
                                                            : 0,
                                  .weight = channels * parts,
                                  .parts = parts,
                                  .node_ranks = input->node_ranks,
                                  .in_order = in_order};
    for (uint32_t i = 0; base != NULL && i < base->nrecvs; i++) {
        append_conn(writer, &plan->recvs, &plan->nrecvs, base->recvs[i]);
    }
    for (uint32_t i = 0; base != NULL && i < base->nsends; i++) {
        append_conn(writer, &plan->sends, &plan->nsends, base->sends[i]);
    }
}

/* Set the lanes' pointers into the lists of steps and references, which no longer grow. */
static void find_steps(struct gpuring_plan *plan)
{
    const struct gpuring_step *steps = plan->steps;
    const uint16_t *refs = plan->refs;

    for (uint32_t i = 0; i < plan->nlanes; i++) {
        plan->lanes[i].steps = steps;
        plan->lanes[i].refs = refs;
        steps += gpuring_steps_stored(steps, plan->lanes[i].nsteps);
        refs += plan->lanes[i].nrefs;
    }
}

int gpuring_writer_finish(struct gpuring_writer *writer, struct gpuring_plan **plan)
{
    close_lane(writer);
    if (writer->status != GPURING_OK) {
        gpuring_plan_free(writer->plan);
        return writer->status;
    }
    find_steps(writer->plan);
    *plan = writer->plan;
    return GPURING_OK;
}
