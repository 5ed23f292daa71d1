/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Operations of an engine; see engine.h. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/work.h"
#include "mca/coll_gpuring/engine/bounce.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/engine/mapping.h"
#include "mca/coll_gpuring/engine/program.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * Patience of a lane. On the host, it is the number of unsuccessful polls after which the lane
 * returns. LOOKS polls take about a microsecond, so that small operations finish in the first call
 * of poll. The number is smaller if the awaited rank may need the core. It is also smaller between
 * nodes, because their data is received when the caller progresses the proxy after the poll, and 1
 * if all other ranks are on other nodes. On a GPU, patience is in nanoseconds, and it is short if
 * ranks share the GPU without MPS, because their kernels cannot run simultaneously.
 */
#define LOOKS                256
#define LOOKS_NETWORK        16
#define LOOKS_OVERSUBSCRIBED 8
#define PATIENCE_US          20000
#define PATIENCE_MPS_US      1000
#define PATIENCE_SHARED_US   50

uint64_t gpuring_engine_patience(const struct gpuring_engine_config *config, bool host)
{
    uint64_t us = (uint64_t) config->patience_us;

    if (host) {
        return config->select.nnodes == config->select.nranks ? 1
               : config->oversubscribed                       ? LOOKS_OVERSUBSCRIBED
               : config->select.nnodes > 1                    ? LOOKS_NETWORK
                                                              : LOOKS;
    }
    return 1000 * (us > 0                ? us
                   : !config->shared_gpu ? PATIENCE_US
                   : config->mps         ? PATIENCE_MPS_US
                                         : PATIENCE_SHARED_US);
}

/* Return the length of a buffer's longest block. used: the call uses the buffer. */
static uint64_t longest_block(const struct gpuring_blocks *blocks, bool used, int nblocks)
{
    uint64_t longest = 0;

    for (int i = 0; used && i < nblocks; i++) {
        struct gpuring_extent block = gpuring_block_at(blocks, (uint32_t) i);

        longest = block.count > longest ? block.count : longest;
    }
    return longest;
}

/* Assign a share of each block to each lane. Keep only the lanes that may have data, but at least
 * one. */
static void begin_blocks(const struct gpuring_plan *plan, const struct gpuring_call *call,
                         struct gpuring_work *work)
{
    int nblocks = gpuring_plan_blocks(plan);
    uint64_t in = longest_block(&work->in, call->in.bytes > 0, nblocks);
    uint64_t out = longest_block(&work->out, call->out.bytes > 0, nblocks);
    uint64_t longest = in > out ? in : out;
    uint64_t share = gpuring_block_part(longest, work->parts, call->element_size);
    uint32_t used = 1;

    while (used < work->nlanes && (uint64_t) plan->lanes[used].part_begin * GPURING_PART_BYTES <
                                      longest * call->element_size) {
        used++;
    }
    work->nlanes = used;
    work->count = share < longest ? share : longest;
}

/* Copy tables of blocks to memory that the executor can read. Those of calls in a stream are there
 * already. */
static int place_tables(struct gpuring_engine *engine, struct gpuring_work *work)
{
    struct gpuring_blocks *blocks[] = {&work->in, &work->out};
    size_t nranks = (size_t) engine->choice_config.nranks, bytes = nranks * sizeof(*work->in.table);
    int status = GPURING_OK;

    if (engine->enqueues || (work->in.table == NULL && work->out.table == NULL)) {
        return GPURING_OK;
    }
    if (engine->extents == NULL) {
        void *pinned = NULL;

        status = engine->device_ops->alloc_pinned(engine->device, 2 * bytes, &pinned);
        engine->extents = pinned;
    }
    for (int i = 0; status == GPURING_OK && i < 2; i++) {
        if (blocks[i]->table != NULL) {
            memcpy(engine->extents + (size_t) i * nranks, blocks[i]->table, bytes);
            blocks[i]->table = engine->extents + (size_t) i * nranks;
        }
    }
    return status;
}

/* Find the program for the call's set of connections. */
static int find_program(struct gpuring_engine *engine, const struct gpuring_call *call, int root,
                        struct gpuring_program **program)
{
    int set = gpuring_engine_serving(engine, call->choice.set);

    if (call->collective == engine->base[set].plan->collective &&
        (root >= 0 || root == engine->base[set].plan->root)) {
        *program = &engine->base[set];
        return GPURING_OK;
    }
    return gpuring_program_find(engine, call->collective, set, root, program);
}

/* Set the blocks of a stage of an alltoall by node, see plan.h. Blocks are adjacent. */
static void place_blocks(const struct gpuring_call *call, const struct gpuring_plan *plan,
                         struct gpuring_work *work)
{
    work->in = call->in.blocks;
    work->out = call->out.blocks;
    if (plan->root == GPURING_ROOT_BETWEEN_NODES) {
        work->in.count = work->in.stride *= (uint64_t) plan->node_ranks;
        work->out.count = work->out.stride *= (uint64_t) plan->node_ranks;
    } else if (plan->root == GPURING_ROOT_WITHIN_NODES) {
        work->in = work->out;
    }
}

/* Let the network progress the connections of the current operation, and no others. */
static void use_connections(const struct gpuring_engine *engine)
{
    const struct gpuring_prepared *current = engine->current;

    gpuring_transport_use(current->program->transport, current->program->index,
                          current->work.nlanes, current->choice.protocol);
}

/* Prepare the current operation, or one of its stages: find the program, and fill in the members of
 * the work that depend only on the call's shape. */
static int operation_prepare(struct gpuring_engine *engine, const struct gpuring_call *call,
                             int root)
{
    struct gpuring_prepared *prepared = engine->current;
    const struct gpuring_selection *choice = &call->choice;
    struct gpuring_work *work = &prepared->work;
    const struct gpuring_plan *plan;
    int status;

    prepared->shape = 0;
    prepared->choice = *choice;
    work->mapped = NULL;
    status = find_program(engine, call, root, &prepared->program);
    if (status == GPURING_OK) {
        status = gpuring_transport_bind(prepared->program->transport, prepared->program->index,
                                        choice->protocol, work);
    }
    if (status != GPURING_OK) {
        return status;
    }
    plan = prepared->program->plan;
    work->nlanes = gpuring_plan_first_lanes(plan, choice->channels, &work->parts);
    place_blocks(call, plan, work);
    work->count = call->count;
    work->has_blocks = gpuring_collective_has_blocks(call->collective);
    if (work->has_blocks) {
        begin_blocks(plan, call, work);
    }
    work->chunk = choice->chunk;
    work->type = call->type;
    work->op = call->op;
    work->protocol = choice->protocol;
    work->nblocks = (uint32_t) gpuring_plan_blocks(plan);
    work->slice = choice->slice;
    work->patience = engine->patience;
    if (root != GPURING_ROOT_WITHIN_NODES) { /* the network still serves the first stage */
        use_connections(engine);
    }
    prepared->remote = gpuring_transport_remote(prepared->program->transport);
    prepared->only_remote = gpuring_transport_only_remote(prepared->program->transport);
    work->abort = gpuring_transport_abort_word(prepared->program->transport);
    if (engine->device_ops->kind != GPURING_DEVICE_HOST) {
        status = place_tables(engine, work);
    }
    prepared->shape = status == GPURING_OK ? call->shape : 0;
    return status;
}

/* Prepare the only stage of a call, or the first one. Then the second one cannot fail. */
static int prepare_first(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    struct gpuring_program *second;
    int status;

    if (call->choice.set != GPURING_SET_NODES) {
        return operation_prepare(engine, call, call->root);
    }
    status = find_program(engine, call, GPURING_ROOT_WITHIN_NODES, &second);
    return status == GPURING_OK ? operation_prepare(engine, call, GPURING_ROOT_BETWEEN_NODES)
                                : status;
}

/* Make the operation of a call the current one. Prepare it unless that was done for an earlier call
 * of the same shape. */
static int set_current(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    struct gpuring_prepared *previous = engine->current;
    int status;

    engine->current = &engine->prepared[call->shape % GPURING_PREPARED];
    if (call->shape != 0 && call->shape == engine->current->shape) {
        if (engine->current->remote && engine->current != previous) {
            use_connections(engine);
        }
        return GPURING_OK;
    }
    status = prepare_first(engine, call);
    if (status != GPURING_OK) {
        engine->current = previous;
    }
    return status;
}

/* Fill in the members of the work that each call sets: buffers that the executor can access, and
 * the states of the lanes. */
static void fill_work(const struct gpuring_engine *engine, const struct gpuring_call *call,
                      const void *input, void *output)
{
    struct gpuring_work *work = &engine->current->work;

    work->states = engine->states;
    for (uint32_t i = 0; i < work->nlanes; i++) {
        work->states[i].status = GPURING_LANE_NEW;
    }
    work->input = input;
    work->output = output;
    work->resumed = 0;
    work->mapped = call->mapping != NULL ? gpuring_mapping_table(call->mapping) : NULL;
}

/* Announce the operation to the other ranks. */
static void announce(const struct gpuring_engine *engine, enum gpuring_activity activity)
{
    struct gpuring_transport *transport;

    GPURING_ENGINE_EACH(i, transport, engine)
    {
        gpuring_transport_begin_operation(transport, engine->operation, engine->made, activity);
    }
}

/* Announce the operation to the other ranks and to the network. */
static void operation_begin(struct gpuring_engine *engine)
{
    announce(engine, GPURING_ACTIVITY_RUNNING);
    if (engine->current->remote) {
        gpuring_transport_begin(engine->current->program->transport, engine->driven);
    }
    engine->running = true;
    engine->ran = engine->unsent = false;
    engine->polls = 0;
    engine->current->program->used = engine->operation;
}

/* End the operation. This is also called if the call failed before the operation began. */
static void operation_end(struct gpuring_engine *engine, enum gpuring_activity activity)
{
    if (engine->running) {
        if (engine->bounces) {
            gpuring_bounce_end(engine);
        }
        if (engine->current->remote) {
            gpuring_transport_end(engine->current->program->transport, engine->driven);
        }
        engine->running = false;
    }
    gpuring_engine_publish(engine, activity);
}

static bool needs_copy(const struct gpuring_engine *engine,
                       const struct gpuring_call_buffer *buffer)
{
    return buffer->bytes > 0 &&
           (buffer->runs != NULL ||
            !gpuring_device_reaches(engine->device_ops, engine->device, &buffer->at));
}

/* Get the buffers that the executor works on: those of the call, or bounce buffers. */
static int find_buffers(struct gpuring_engine *engine, const struct gpuring_call *call,
                        const void **input, void **output)
{
    bool copy_in = needs_copy(engine, &call->in), copy_out = needs_copy(engine, &call->out);

    *input = call->input;
    *output = call->output;
    engine->bounces = copy_in || copy_out;
    return engine->bounces ? gpuring_bounce_start(engine, call, copy_in, copy_out, input, output)
                           : GPURING_OK;
}

int gpuring_operation_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                            bool driven)
{
    const void *input;
    void *output;
    int status;

    engine->operation++;
    engine->driven = driven;
    engine->name = call->name;
    engine->made = call->made;
    engine->compared = call->made == 0 || engine->device_ops->kind == GPURING_DEVICE_HOST;
    status = set_current(engine, call);
    if (status == GPURING_OK) {
        operation_begin(engine);
        status = find_buffers(engine, call, &input, &output);
    }
    if (status == GPURING_OK) {
        fill_work(engine, call, input, output);
        if (call->mapping != NULL) {
            /* A kernel on mapped buffers looks at the abort word before it stores into those of
             * others, and a rank that has failed waits until no other rank is in an operation.
             * Because of the fences, one sees the other. Partner: gpuring_engine_settle. */
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
        }
        status = engine->device_ops->launch(engine->stream, &engine->current->work);
    }
    return status == GPURING_OK ? gpuring_operation_poll(engine, call) : status;
}

/*
 * Compare this rank's call with that of the rank from which the first lane receives. Lines of LL
 * and LL128 contain no size, so a rank with a smaller count than its sender would finish without an
 * error. On a GPU this costs nothing, because the kernel runs for microseconds meanwhile. It is not
 * done on the host, where it would take as long as a small call.
 */
static int compare_words(struct gpuring_engine *engine)
{
    const struct gpuring_program *program = engine->current->program;
    const struct gpuring_plan *plan = program->plan;
    uint64_t other;

    if (plan->lanes[0].nrecvs == 0) {
        engine->compared = true;
        return GPURING_OK;
    }
    other = gpuring_transport_made(program->transport, plan->recvs[plan->lanes[0].first_recv].peer,
                                   engine->operation);
    engine->compared = other != 0;
    return other == 0 || other == engine->made ? GPURING_OK : GPURING_ERR_COUNTS;
}

/*
 * Run the lanes, and progress their network connections. If anything was received, run the lanes
 * again immediately, because the caller progresses MPI between two polls, which takes as long as a
 * message.
 *
 * If the lanes wait for the network alone, running them takes longer than checking the network.
 * They then run in the first poll and after each event of the network. They also run in every
 * POLLS_PER_RUN-th poll, because an event that another thread receives while a lane stores its tail
 * may not be counted.
 */
#define POLLS_PER_RUN 16
#define RUNS_PER_POLL 8 /* limit, so that the caller can progress MPI */

static int run_lanes(struct gpuring_engine *engine)
{
    struct gpuring_prepared *current = engine->current;
    bool ran = !current->only_remote || engine->polls++ % POLLS_PER_RUN == 0;
    int status = ran ? engine->device_ops->poll(engine->stream, &current->work) : GPURING_AGAIN;

    for (int runs = 1; status == GPURING_AGAIN && current->remote && runs < RUNS_PER_POLL &&
                       gpuring_transport_help(current->program->transport, ran);
         runs++) {
        status = engine->device_ops->poll(engine->stream, &current->work);
        ran = true;
    }
    return status;
}

/* Start the second stage of an alltoall by node, which works on the output of the first one. */
static int start_second(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    struct gpuring_prepared *current = engine->current;
    void *output = current->work.output;
    int status = operation_prepare(engine, call, GPURING_ROOT_WITHIN_NODES);

    current->shape = 0; /* the next call begins with the first stage */
    if (status == GPURING_OK) {
        fill_work(engine, call, output, output);
        engine->polls = 0;
        current->program->used = engine->operation;
        status = engine->device_ops->launch(engine->stream, &current->work);
    }
    return status;
}

int gpuring_operation_poll(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    const struct gpuring_prepared *current = engine->current;
    int status = engine->ran ? GPURING_OK : run_lanes(engine);

    if (status == GPURING_OK && current->program->plan->root == GPURING_ROOT_BETWEEN_NODES) {
        status = start_second(engine, call);
        status = status == GPURING_OK ? run_lanes(engine) : status;
    }
    if (status == GPURING_OK) {
        engine->ran = true;
        engine->unsent = current->remote &&
                         gpuring_transport_unsent(current->program->transport, engine->unsent);
        status = engine->unsent ? GPURING_AGAIN : GPURING_OK;
    }
    if (!engine->compared && status >= GPURING_OK) {
        int compared = compare_words(engine);

        status = compared == GPURING_OK ? status : compared;
    }
    if (status == GPURING_OK && engine->bounces) {
        status = gpuring_bounce_deliver(engine, call);
    }
    if (status == GPURING_OK) {
        operation_end(engine, GPURING_ACTIVITY_OUTSIDE);
    }
    return status;
}

void gpuring_operation_fail(struct gpuring_engine *engine)
{
    if (engine->device_ops->kind != GPURING_DEVICE_HOST) {
        (void) engine->device_ops->synchronize(engine->stream);
    }
    gpuring_engine_publish(engine, GPURING_ACTIVITY_FAILED); /* peers wait for this in
                                                               gpuring_engine_settle */
    gpuring_engine_settle(engine);
    operation_end(engine, GPURING_ACTIVITY_FAILED);
}

/*
 * Launch an operation in the application's stream. The driver copies the work. A kernel writes the
 * states of its lanes only when it ends, and the stream runs one launch after another. All counters
 * of connections are in memory of the device. A captured launch may run any number of times, so it
 * has states of its own and is not counted.
 */
static int launch_queued(struct gpuring_engine *engine, bool *captured)
{
    struct gpuring_work *work = &engine->current->work, in_graph = *work;
    int status;

    work->launch_seq = engine->enqueued + 1;
    in_graph.states = engine->captured;
    in_graph.launch_seq = 0;
    in_graph.linger = gpuring_capture_number(engine->captures + 1);
    status = engine->device_ops->enqueue(engine->device, engine->queue, work, &in_graph, captured);
    if (status != GPURING_OK) {
        return status;
    }
    if (*captured) {
        engine->captures++;
        engine->current->program->captured = true;
    } else {
        engine->enqueued++;
        engine->queued_lanes = work->nlanes;
    }
    return GPURING_OK;
}

int gpuring_operation_enqueue(struct gpuring_engine *engine, const struct gpuring_call *call)
{
    bool captured = false;
    struct gpuring_work *work;
    int status;

    status = set_current(engine, call);
    if (status != GPURING_OK) {
        return status;
    }
    work = &engine->current->work;
    work->states = engine->states;
    work->input = call->input;
    work->output = call->output;
    work->resumed = 0;
    status = launch_queued(engine, &captured);
    if (status != GPURING_OK) {
        return status;
    }
    gpuring_transport_keep(engine->current->program->transport, captured);
    engine->current->program->used = engine->operation;
    if (call->root == GPURING_ROOT_MESSAGES) {
        return GPURING_OK; /* not all ranks take part, so it has no number and no word */
    }
    engine->operation++;
    engine->name = call->name;
    engine->made = call->made;
    engine->current->program->used = engine->operation;
    announce(engine, GPURING_ACTIVITY_QUEUED);
    return GPURING_OK;
}

/* Allocate states for launches in graphs. No later plan has more lanes than the plans built so
 * far. */
static int alloc_captured(struct gpuring_engine *engine)
{
    void *states = NULL;
    int status = engine->device_ops->alloc_pinned(
        engine->device, engine->nstates * sizeof *engine->captured, &states);

    engine->captured = states;
    return status;
}

/* Build the plans of the collectives that can be enqueued, with root 0. Plans for other roots have
 * the same number of lanes, so the lane states get their final size here. */
int gpuring_engine_enqueues(struct gpuring_engine *engine, void *stream)
{
    static const enum gpuring_collective collectives[] = {
        GPURING_COLLECTIVE_BCAST, GPURING_COLLECTIVE_REDUCE, GPURING_COLLECTIVE_ALLGATHER,
        GPURING_COLLECTIVE_REDUCE_SCATTER, GPURING_COLLECTIVE_ALLTOALL};
    struct gpuring_program *program;
    int status = GPURING_OK;

    engine->enqueues = true;
    engine->queue = stream;
    engine->patience = GPURING_PATIENCE_ENDLESS;
    /* An alltoall by node needs two launches. */
    engine->choice_config.plans[GPURING_COLLECTIVE_ALLTOALL] &= ~(1u << GPURING_ALGORITHM_TWO_SHOT);
    for (int set = 0; set < GPURING_SET_COUNT; set++) {
        for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
            if (status == GPURING_OK && !gpuring_engine_lacks(engine, set) &&
                gpuring_programs_offer(engine, collectives[c], gpuring_set_algorithm(set))) {
                status = gpuring_program_find(engine, collectives[c], set, 0, &program);
            }
        }
    }
    if (status == GPURING_OK && gpuring_engine_messages(engine, NULL) > 0) {
        status = gpuring_program_find(engine, GPURING_COLLECTIVE_ALLTOALL, GPURING_ALGORITHM_DIRECT,
                                      GPURING_ROOT_MESSAGES, &program);
    }
    return status == GPURING_OK ? alloc_captured(engine) : status;
}

uint64_t gpuring_operation_progress(const struct gpuring_engine *engine)
{
    const struct gpuring_program *program = engine->current->program;
    uint64_t sum = engine->operation << 32;

    /* A kernel stores the states of its lanes when it ends. Until then, the number of slots moved
     * between nodes shows its progress. */
    sum += program != NULL ? gpuring_transport_moved(program->transport) : 0;

    for (uint32_t i = 0; i < engine->current->work.nlanes; i++) {
        const struct gpuring_lane_state *state = &engine->states[i];

        sum += state->first + state->bytes + state->step + state->status;
    }
    return sum;
}

int gpuring_operation_waiting(const struct gpuring_engine *engine, enum gpuring_lane_wait *wait,
                              int *peer)
{
    const struct gpuring_program *program = engine->current->program;

    for (uint32_t i = 0; i < engine->current->work.nlanes; i++) {
        const struct gpuring_lane_state *state = &engine->states[i];

        if (state->status != GPURING_LANE_DONE) { /* a lane that was stopped still has its
                                                     position */
            *wait = (enum gpuring_lane_wait) state->wait;
            *peer = gpuring_transport_peer_rank(program->transport, program->index, i, *wait,
                                                state->wait_ref);
            return (int) i;
        }
    }
    *wait = GPURING_WAIT_SEND;
    *peer = program != NULL ? gpuring_transport_unsent_to(program->transport) : -1;
    return -1;
}

const char *gpuring_protocol_text(enum gpuring_protocol protocol)
{
#define TEXT(name, id, ...) [GPURING_PROTOCOL_##name] = #id,
    static const char *const texts[GPURING_PROTOCOL_COUNT] = {KERNELS_PROTOCOLS(TEXT)};
#undef TEXT

    return texts[protocol];
}
