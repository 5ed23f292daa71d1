/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/program.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_programs {
    struct gpuring_plan_input input; /* but for base and root */
    struct gpuring_channel *channels;
    uint16_t *order;
    struct gpuring_program program[GPURING_PROGRAMS]; /* plan NULL: unused */
};

static void programs_free(struct gpuring_programs *programs)
{
    free(programs->channels);
    free(programs->order);
    free(programs);
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
    if (created->channels == NULL) {
        programs_free(created);
        gpuring_error("out of memory for the plans of a communicator");
        return GPURING_ERR_NOMEM;
    }
    memcpy(created->channels, input->channels, nchannels * sizeof *created->channels);
    created->input.channels = created->channels;
    created->input.order = order;
    *programs = created;
    return GPURING_OK;
}

static void remove_program(struct gpuring_engine *engine, struct gpuring_program *program)
{
    if (program->index > 0) {
        gpuring_transport_remove(engine->transport, program->index);
    }
    engine->device_ops->free_pinned(engine->device, program->pinned);
    gpuring_plan_free(program->plan);
    *program = (struct gpuring_program){.plan = NULL};
}

void gpuring_programs_destroy(struct gpuring_engine *engine)
{
    for (int i = 0; engine->others != NULL && i < GPURING_PROGRAMS; i++) {
        if (engine->others->program[i].plan != NULL) {
            remove_program(engine, &engine->others->program[i]);
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
    return engine->base[algorithm].plan != NULL && gpuring_plan_exists(collective, algorithm) &&
           (collective == GPURING_COLLECTIVE_ALLREDUCE || algorithm != GPURING_ALGORITHM_RING ||
            engine->others->order != NULL);
}

int gpuring_program_bind(const struct gpuring_engine *engine, struct gpuring_program *program,
                         struct gpuring_lane *lanes)
{
    int status = GPURING_OK;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT && status == GPURING_OK; p++) {
        program->lanes[p] = lanes + (size_t) p * program->plan->nlanes;
        status = gpuring_transport_bind(engine->transport, program->index,
                                        (enum gpuring_protocol) p, program->lanes[p]);
        if (status == GPURING_ERR_UNSUPPORTED) {
            status = GPURING_OK; /* no room: it is never chosen */
        }
    }
    return status;
}

static int make_program(struct gpuring_engine *engine, enum gpuring_collective collective,
                        enum gpuring_algorithm algorithm, int root, struct gpuring_program *program)
{
    struct gpuring_plan_input input = engine->others->input;
    int status;

    input.base = engine->base[algorithm].plan;
    input.root = root;
    status = gpuring_plan_build_on(collective, &input, &program->plan);
    if (status != GPURING_OK) {
        return status;
    }
    status = gpuring_transport_add(engine->transport, program->plan, engine->base[algorithm].index,
                                   &program->index);
    if (status == GPURING_OK) {
        status = engine->device_ops->alloc_pinned(engine->device,
                                                  GPURING_PROTOCOL_COUNT * program->plan->nlanes *
                                                      sizeof(struct gpuring_lane),
                                                  &program->pinned);
    }
    if (status == GPURING_OK) {
        status = gpuring_program_bind(engine, program, program->pinned);
    }
    if (status != GPURING_OK) {
        remove_program(engine, program);
    }
    return status;
}

int gpuring_program_find(struct gpuring_engine *engine, enum gpuring_collective collective,
                         enum gpuring_algorithm algorithm, int root,
                         struct gpuring_program **program)
{
    struct gpuring_program *oldest = engine->others->program;
    int status;

    for (int i = 0; i < GPURING_PROGRAMS; i++) {
        struct gpuring_program *known = &engine->others->program[i];

        if (known->plan == NULL) {
            oldest = known;
            break; /* those behind are unused, too */
        }
        if (known->plan->collective == collective && known->plan->algorithm == algorithm &&
            known->plan->root == root) {
            *program = known;
            return GPURING_OK;
        }
        oldest = known->used < oldest->used ? known : oldest;
    }
    if (oldest->plan != NULL) {
        remove_program(engine, oldest);
    }
    status = make_program(engine, collective, algorithm, root, oldest);
    *program = oldest;
    return status;
}
