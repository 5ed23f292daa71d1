/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/program.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_programs {
    struct gpuring_plan_input input; /* except base and root */
    struct gpuring_channel *channels;
    uint16_t *order;
    int *by_node;                                     /* NULL: there is no two-shot between nodes */
    struct gpuring_program program[GPURING_PROGRAMS]; /* plan NULL: unused */
};

static void programs_free(struct gpuring_programs *programs)
{
    free(programs->channels);
    free(programs->order);
    free(programs->by_node);
    free(programs);
}

static int *copy_list(const int *list, int count)
{
    int *copy = malloc((size_t) count * sizeof *copy);

    return copy != NULL ? memcpy(copy, list, (size_t) count * sizeof *copy) : NULL;
}

int gpuring_programs_create(const struct gpuring_plan_input *input, uint16_t *order,
                            struct gpuring_programs **programs)
{
    size_t nchannels = input->nrings > input->ntrees ? input->nrings : input->ntrees;
    struct gpuring_programs *created = calloc(1, sizeof *created);

    if (created == NULL) {
        free(order);
        gpuring_error("out of memory for the plans of a communicator");
        return GPURING_ERR_NOMEM;
    }
    created->order = order;
    created->input = *input;
    created->channels = malloc(nchannels * sizeof *created->channels + 1);
    created->by_node = input->nnodes > 1 ? copy_list(input->by_node, input->nranks) : NULL;
    if (created->channels == NULL || (created->by_node == NULL && input->nnodes > 1)) {
        programs_free(created);
        gpuring_error("out of memory for the plans of a communicator");
        return GPURING_ERR_NOMEM;
    }
    memcpy(created->channels, input->channels, nchannels * sizeof *created->channels);
    created->input.channels = created->channels;
    created->input.by_node = created->by_node;
    created->input.node = NULL; /* only base plans need it */
    created->input.order = order;
    *programs = created;
    return GPURING_OK;
}

static void remove_program(struct gpuring_program *program)
{
    if (program->index > 0) {
        gpuring_transport_remove(program->transport, program->index);
    }
    gpuring_plan_free(program->plan);
    *program = (struct gpuring_program){.plan = NULL};
}

/* Do not use the operations that were prepared with a program again. */
static void forget_program(struct gpuring_engine *engine, const struct gpuring_program *program)
{
    for (int i = 0; i < GPURING_PREPARED; i++) {
        if (engine->prepared[i].program == program) {
            engine->prepared[i].shape = 0;
        }
    }
}

void gpuring_programs_destroy(struct gpuring_engine *engine)
{
    for (int i = 0; engine->others != NULL && i < GPURING_PROGRAMS; i++) {
        if (engine->others->program[i].plan != NULL) {
            remove_program(&engine->others->program[i]);
        }
    }
    if (engine->others != NULL) {
        programs_free(engine->others);
        engine->others = NULL;
    }
}

bool gpuring_programs_offer(const struct gpuring_engine *engine, enum gpuring_collective collective,
                            enum gpuring_algorithm algorithm)
{
    const struct gpuring_plan *base = engine->base[algorithm].plan;
    bool in_order = engine->choice_config.in_order;
    bool any_order = !in_order || !gpuring_collective_reduces(collective);

    return base != NULL && gpuring_plan_exists_on(collective, base, in_order) &&
           (base->in_order || any_order) &&
           (collective == GPURING_COLLECTIVE_ALLREDUCE || base->in_order ||
            engine->others->order != NULL);
}

/* Each message uses as many stripes as fit if a rank exchanges messages with all others, because
 * both ends must use the same number. All messages use Simple, whose slots hold their sizes. */
uint32_t gpuring_engine_messages(const struct gpuring_engine *engine,
                                 struct gpuring_selection *choice)
{
    const struct gpuring_select_config *config = &engine->choice_config;
    const struct gpuring_plan *base = engine->base[GPURING_ALGORITHM_DIRECT].plan;
    uint64_t slot = config->slot_bytes[GPURING_ALGORITHM_DIRECT][GPURING_PROTOCOL_SIMPLE];
    uint32_t lanes = engine->others->input.direct_lanes, stripes, most;

    if (gpuring_engine_lacks(engine, GPURING_ALGORITHM_DIRECT) || slot == 0) {
        return 0;
    }
    lanes = base->weight * (lanes > 0 ? lanes : 1);
    stripes = lanes / (2 * ((uint32_t) base->nranks - 1));
    stripes = stripes < 1 ? 1 : stripes > base->weight ? base->weight : stripes;
    if (choice != NULL) {
        slot = gpuring_chunk_max(GPURING_PROTOCOL_SIMPLE, slot, 1);
        *choice = (struct gpuring_selection){.algorithm = GPURING_ALGORITHM_DIRECT,
                                             .set = GPURING_ALGORITHM_DIRECT,
                                             .protocol = GPURING_PROTOCOL_SIMPLE,
                                             .channels = stripes,
                                             .slice = slot,
                                             .chunk = GPURING_SLICES * slot};
    }
    most = config->gpu_blocks / stripes;
    return most > 2 ? most : 2;
}

int gpuring_program_states(struct gpuring_engine *engine, const struct gpuring_plan *plan)
{
    void *states = NULL;
    int status;

    if (plan->nlanes <= engine->nstates) {
        return GPURING_OK;
    }
    if (engine->captured != NULL) {
        gpuring_error(
            "[stream-lanes] a plan has more lanes than those of other roots; report this");
        return GPURING_ERR_UNSUPPORTED;
    }
    status = engine->device_ops->alloc_pinned(
        engine->device, plan->nlanes * sizeof(struct gpuring_lane_state), &states);
    if (status == GPURING_OK) {
        engine->device_ops->free_pinned(engine->device, engine->states);
        engine->states = states;
        engine->nstates = plan->nlanes;
    }
    return status;
}

/* Get a rank's positions in the channels from the order of all ranks. */
static void positions_of(const struct gpuring_plan_input *input, int rank,
                         struct gpuring_channel *channels)
{
    const int n = input->nranks;
    const uint16_t *order = input->order;

    for (uint32_t c = 0; order != NULL && c < input->nrings; c++, order += n) {
        int index = 0;

        while (order[index] != rank) {
            index++;
        }
        channels[c].ring = (struct gpuring_ring_position){
            .prev = order[(index + n - 1) % n], .next = order[(index + 1) % n], .index = index};
    }
    for (uint32_t t = 0; order != NULL && t < 2 * input->ntrees; t++, order += n) {
        struct gpuring_tree_position *tree = &channels[t / 2].tree[t % 2];
        int ndown = 0;

        memset(tree->down, -1, sizeof tree->down);
        tree->up = order[rank] == rank ? -1 : order[rank];
        for (int i = 0; i < n && ndown < GPURING_CHANNEL_MAX_DOWN; i++) {
            if (order[i] == rank && i != rank) {
                tree->down[ndown++] = i;
            }
        }
    }
}

/* Build the plan of another rank that corresponds to this rank's plan. */
static int build_other(const struct gpuring_programs *programs, const struct gpuring_plan *own,
                       int rank, struct gpuring_channel *channels, struct gpuring_plan **plan)
{
    struct gpuring_plan_input input = programs->input;
    struct gpuring_plan *base;
    int status;

    input.rank = rank;
    input.root = own->root;
    input.exchange = own->root <= GPURING_ROOT_BETWEEN_NODES;
    input.ndirect =
        own->algorithm == GPURING_ALGORITHM_DIRECT ? (uint32_t) own->weight : input.ndirect;
    input.channels = channels;
    positions_of(&input, rank, channels);
    status = gpuring_plan_build(own->algorithm, &input, &base);
    if (status == GPURING_OK) {
        input.base = base;
        status = gpuring_plan_build_on(own->collective, &input, plan);
        gpuring_plan_free(base);
    }
    return status;
}

/* Prove that a plan and those of all other ranks are correct, before it is used. Only with
 * coll_gpuring_check=plans. */
static int prove_plan(const struct gpuring_programs *programs, const struct gpuring_plan *own)
{
    const struct gpuring_plan_input *input = &programs->input;
    size_t n = (size_t) input->nranks, nchannels = (size_t) input->nrings + input->ntrees;
    struct gpuring_plan **plans = calloc(n, sizeof(struct gpuring_plan *));
    struct gpuring_channel *channels = calloc(nchannels, sizeof *channels);
    int status = plans != NULL && channels != NULL ? GPURING_OK : GPURING_ERR_NOMEM;
    char text[256] = "out of memory";

    for (int rank = 0; rank < input->nranks && status == GPURING_OK; rank++) {
        if (rank != own->rank) {
            status = build_other(programs, own, rank, channels, &plans[rank]);
        }
    }
    if (status == GPURING_OK) {
        plans[own->rank] = (struct gpuring_plan *) (uintptr_t) own;
        status = gpuring_plan_check((const struct gpuring_plan *const *) plans, input->nranks,
                                    GPURING_ENGINE_SLOTS / GPURING_SLICES, text, sizeof text);
        plans[own->rank] = NULL;
    }
    if (status == GPURING_OK) {
        gpuring_info("[plans-proven] check of plans: %s by %s, root %d, over %zu ranks is proven",
                     gpuring_collective_text(own->collective),
                     gpuring_algorithm_text(own->algorithm), own->root, n);
    } else {
        gpuring_error("[bad-plan] coll_gpuring_check=plans refused the plan of %s by %s, root %d, "
                      "over %zu ranks: %s; report this with the topology (gpuring-topo report)",
                      gpuring_collective_text(own->collective),
                      gpuring_algorithm_text(own->algorithm), own->root, n, text);
    }
    for (size_t i = 0; plans != NULL && i < n; i++) {
        gpuring_plan_free(plans[i]);
    }
    free(plans);
    free(channels);
    return status;
}

static int make_program(struct gpuring_engine *engine, enum gpuring_collective collective, int set,
                        int root, struct gpuring_program *program)
{
    struct gpuring_plan_input input = engine->others->input;
    int status;

    input.base = engine->base[set].plan;
    input.root = root;
    status = gpuring_plan_build_on(collective, &input, &program->plan);
    if (status == GPURING_OK && gpuring_params.check == GPURING_PARAM_CHECK_PLANS) {
        status = prove_plan(engine->others, program->plan);
    }
    if (status != GPURING_OK) {
        gpuring_plan_free(program->plan);
        program->plan = NULL;
        return status;
    }
    program->transport = engine->base[set].transport;
    status = gpuring_transport_add(program->transport, program->plan, engine->base[set].index,
                                   &program->index);
    if (status == GPURING_OK) {
        status = gpuring_program_states(engine, program->plan);
    }
    if (status != GPURING_OK) {
        remove_program(program);
    }
    return status;
}

int gpuring_program_find(struct gpuring_engine *engine, enum gpuring_collective collective, int set,
                         int root, struct gpuring_program **program)
{
    struct gpuring_program *oldest = engine->others->program;
    int status;

    set = gpuring_engine_serving(engine, set);
    for (int i = 0; i < GPURING_PROGRAMS; i++) {
        struct gpuring_program *known = &engine->others->program[i];

        if (known->plan == NULL) {
            oldest = known;
            break; /* all later ones are unused, too */
        }
        if (known->plan->collective == collective && known->set == set &&
            known->plan->root == root) {
            *program = known;
            return GPURING_OK;
        }
        oldest =
            oldest->captured || (known->used < oldest->used && !known->captured) ? known : oldest;
    }
    if (oldest->captured) {
        gpuring_error(
            "[stream-plans] CUDA graphs use all %d plans of the communicator; create another "
            "communicator for further roots and collectives",
            GPURING_PROGRAMS);
        return GPURING_ERR_UNSUPPORTED;
    }
    if (oldest->plan != NULL) {
        if (engine->enqueues && gpuring_operation_pending(engine) > 0) {
            return GPURING_AGAIN; /* kernels may read its tables; other operations do not run now */
        }
        forget_program(engine, oldest);
        remove_program(oldest);
    }
    status = make_program(engine, collective, set, root, oldest);
    oldest->set = set;
    *program = oldest;
    return status;
}
