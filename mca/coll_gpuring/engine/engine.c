/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/mapping.h"
#include "mca/coll_gpuring/engine/program.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/predict/pci_predict.h"

/*
 * The LL slots of all lanes of a direct exchange together hold LL_ROUND bytes of data, so that a
 * call of this size needs a single round.
 */
#define LL_ROUND (32 << 10)

/*
 * FIFOs of LL and LL128 in shared memory of hosts, for small vectors. A rank that sends more than
 * it receives can be ahead by as many calls as the FIFO has slots. Therefore the number of slots
 * determines how often ranks that share a core switch (doc/results/collectives.md). The size of a
 * slot is not a power of two, because the first lines of all slots would then map to few sets of a
 * cache.
 */
static const struct {
    uint32_t nslots;
    uint64_t bytes;
} host_lines[] = {[GPURING_PROTOCOL_LL] = {GPURING_FIFO_MAX_SLOTS, 512 + 128},
                  [GPURING_PROTOCOL_LL128] = {64, (2 << 10) + 128}};

/*
 * Return true if there are connections for doubling, for allreduces of small and medium size
 * between nodes of hosts. In a direct exchange each rank sends to all other ranks, so doubling
 * needs fewer messages between three ranks or more. With verbs (one_by_one), messages to many ranks
 * take little time, so between one rank on each node doubling serves only ranks that are too many
 * for a direct exchange.
 */
static bool has_doubling(const struct gpuring_engine_config *config)
{
    int nranks = config->select.nranks;
    bool saves = config->one_by_one
                     ? nranks > config->select.nnodes || nranks > GPURING_DIRECT_MAX_VECTOR_RANKS
                     : nranks > 2;

    return config->input.node != NULL && saves && !config->input.in_order;
}

#define DOUBLING_STRIPES 8

/* Return the number of stripes of doubling. With verbs, each rank of a node leads one, except on
 * large nodes, because each stripe has a connection from every rank to its leader. Other networks
 * use one stripe, which takes the fewest messages. */
static uint32_t doubling_stripes(const struct gpuring_engine_config *config)
{
    int size = gpuring_select_node_ranks(&config->select);

    return !config->one_by_one ? 1 : size < DOUBLING_STRIPES ? (uint32_t) size : DOUBLING_STRIPES;
}

/*
 * Return true if the set for small calls has connections between nodes with short slots. With verbs
 * a registration pins all slots, and a call of up to GPURING_ENGINE_SHORT_BYTES needs no longer
 * ones. The set has no slots of other protocols.
 */
static bool has_short_slots(const struct gpuring_engine_config *config)
{
    const struct gpuring_select_config *select = &config->select;

    return config->one_by_one && select->nnodes > 1 && !config->large &&
           (select->algorithm < 0 || select->algorithm == (int) GPURING_ALGORITHM_DIRECT) &&
           (select->protocol < 0 || select->protocol == (int) GPURING_PROTOCOL_SIMPLE) &&
           config->buffer_bytes / GPURING_ENGINE_SLOTS > GPURING_ENGINE_SHORT_BYTES;
}

static bool has_small_set(const struct gpuring_engine_config *config)
{
    return (config->select.nnodes == 1 || has_short_slots(config)) &&
           config->select.min_channels <= 1 &&
           config->select.nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS &&
           (config->late & 1u << GPURING_ALGORITHM_DIRECT) == 0;
}

/* Return true if alltoalls may run by node. Each rank then has a connection with every other node.
 */
static bool has_exchange(const struct gpuring_plan_input *input)
{
    return input->node_ranks > 0 && input->nranks / input->node_ranks <= GPURING_EXCHANGE_MAX_NODES;
}

int gpuring_engine_plan(const struct gpuring_engine_config *config, int set,
                        struct gpuring_plan **plan)
{
    enum gpuring_algorithm algorithm = gpuring_set_algorithm(set);
    struct gpuring_plan_input input = config->input;
    bool eligible = gpuring_select_eligible(algorithm, config->select.nranks, config->select.nnodes,
                                            config->wanted);

    *plan = NULL;
    if (set == GPURING_SET_SMALL) {
        input.ndirect = 1;
        eligible = eligible && has_small_set(config);
    }
    if (set == GPURING_SET_DOUBLING) {
        input.ndirect = doubling_stripes(config);
        input.doubling = eligible = has_doubling(config);
    }
    eligible = eligible || (algorithm == GPURING_ALGORITHM_TWO_SHOT && input.nnodes > 1);
    if (set == GPURING_SET_NODES) {
        input.exchange = eligible = has_exchange(&input);
    }
    eligible = set == GPURING_SET_MAPPED ? gpuring_mapping_wanted(config) : eligible;
    return eligible ? gpuring_plan_build(algorithm, &input, plan) : GPURING_OK;
}

static int build_plans(struct gpuring_engine *engine, const struct gpuring_engine_config *config)
{
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < GPURING_SET_COUNT; i++) {
        if (i != GPURING_SET_SMALL || engine->device_ops->kind != GPURING_DEVICE_HOST ||
            has_short_slots(config)) {
            status = gpuring_engine_plan(config, i, &engine->base[i].plan);
        }
    }
    return status;
}

static bool in_shared_memory(const struct gpuring_select_config *config)
{
    return config->host && config->nnodes == 1;
}

static bool is_exchange(enum gpuring_algorithm algorithm)
{
    return algorithm == GPURING_ALGORITHM_DIRECT || algorithm == GPURING_ALGORITHM_TWO_SHOT;
}

/*
 * Size of the slots in shared memory of hosts. The connections of all channels of a ring together
 * have HOST_SHARE times coll_gpuring_buffer_size, and so have all connections of a rank in an
 * exchange. This is larger than the cache of one core, which chunks with rotating offsets require
 * (kernels/fifo.h), but not much larger. Slots of LEAST_HOST_BYTES are copied about as fast as
 * larger ones.
 */
#define HOST_SHARE       2
#define LEAST_HOST_BYTES (16 << 10)

/* Between nodes, all connections of two-shot at a rank together have NODES_SHARE times
 * coll_gpuring_buffer_size. Slots have at least LEAST_NODES_BYTES, so that messages between nodes
 * are not short. */
#define NODES_SHARE       16
#define LEAST_NODES_BYTES (32 << 10)

static uint64_t nodes_slot(const struct gpuring_select_config *config, uint64_t bytes)
{
    uint64_t connections = 2 * (uint64_t) (config->nranks / config->nnodes) - 1;
    uint64_t share = NODES_SHARE * bytes / connections;

    share = share > LEAST_NODES_BYTES ? share : LEAST_NODES_BYTES;
    return share < bytes ? share : bytes;
}

static uint64_t host_slot(const struct gpuring_select_config *config,
                          enum gpuring_algorithm algorithm, uint64_t bytes)
{
    uint64_t peers = is_exchange(algorithm) ? (uint64_t) config->nranks - 1 : 1;
    uint64_t lanes = config->channels[algorithm] > 0 ? config->channels[algorithm] : 1;
    uint64_t least = bytes < LEAST_HOST_BYTES ? bytes : LEAST_HOST_BYTES;
    uint64_t share = HOST_SHARE * bytes / (peers * lanes);

    return share > least ? share : least;
}

/*
 * Size of the slots inside a node of GPUs. It decreases with the number of connections of a lane,
 * because these connections share the links. Connections of a ring have coll_gpuring_buffer_size.
 * The four connections of a lane in a tree have half of it each. Connections of an exchange with
 * all ranks have a quarter, which is still twice the data that a connection has in flight (450 GB/s
 * over 7 peers with 8 lanes each, for 4 us). Those of two-shot become smaller if a rank has many of
 * them, because their chunks are a part of the vector. LL128 has no slots if it is not used.
 *
 * With many ranks, all connections of an exchange together have a constant size, regardless of the
 * number of ranks.
 */
#define SHARED_ROOM       64  /* connections of Simple: 64 MiB; slots of 8 KiB with 1024 ranks */
#define SHARED_LINES      8   /* connections of LL and LL128 */
#define HOST_SHARED_SLOTS 64  /* of LL and LL128 on hosts, instead of host_lines */
#define LEAST_SLOT_BYTES  512 /* with room for a chunk of 128 bytes with every protocol */

static bool shares_room(const struct gpuring_select_config *config,
                        enum gpuring_algorithm algorithm)
{
    return algorithm == GPURING_ALGORITHM_DIRECT &&
           config->nranks > GPURING_DIRECT_MAX_VECTOR_RANKS;
}

/* Divide the room of an exchange among a rank's connections. */
static void share_room(uint64_t *slots, uint64_t connections)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t room = p == GPURING_PROTOCOL_SIMPLE ? SHARED_ROOM : SHARED_LINES;
        uint64_t bytes = slots[p] * room / connections / 128 * 128;

        bytes = bytes > LEAST_SLOT_BYTES ? bytes : LEAST_SLOT_BYTES;
        slots[p] = bytes < slots[p] ? bytes : slots[p];
    }
}

/* Divide the room of two-shot among the connections of its stripes. */
static void share_stripes(uint64_t *slots, uint32_t connections)
{
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t bytes = pci_two_shot_slot(connections, slots[p]);

        bytes = bytes > LEAST_SLOT_BYTES ? bytes : LEAST_SLOT_BYTES;
        slots[p] = bytes < slots[p] ? bytes : slots[p];
    }
}

static void size_slots(struct gpuring_engine *engine, enum gpuring_algorithm algorithm)
{
    const struct gpuring_select_config *config = &engine->choice_config;
    uint64_t *slots = engine->choice_config.slot_bytes[algorithm];
    uint64_t bytes = engine->buffer_bytes / GPURING_ENGINE_SLOTS;
    uint64_t lanes, lines;

    slots[GPURING_PROTOCOL_LL] = slots[GPURING_PROTOCOL_LL128] = GPURING_ENGINE_FLAGGED_SLOT_BYTES;
    if (in_shared_memory(config)) {
        slots[GPURING_PROTOCOL_LL] = host_lines[GPURING_PROTOCOL_LL].bytes;
        slots[GPURING_PROTOCOL_LL128] = host_lines[GPURING_PROTOCOL_LL128].bytes;
        bytes = host_slot(config, algorithm, bytes);
    } else if (config->nnodes > 1 && algorithm == GPURING_ALGORITHM_TWO_SHOT) {
        bytes = nodes_slot(config, bytes);
    } else if (config->nnodes == 1) {
        bytes /= is_exchange(algorithm) ? 4 : algorithm == GPURING_ALGORITHM_TREE ? 2 : 1;
        lanes = config->channels[algorithm] > 0 ? config->channels[algorithm] : 1;
        lines = (2 * LL_ROUND / lanes + 127) / 128 * 128;
        if (algorithm == GPURING_ALGORITHM_DIRECT && lines > GPURING_ENGINE_FLAGGED_SLOT_BYTES) {
            slots[GPURING_PROTOCOL_LL] = lines;
        }
        if (!config->model.known || !(config->model.ll128 & 1u << algorithm)) {
            slots[GPURING_PROTOCOL_LL128] = 0;
        }
    }
    slots[GPURING_PROTOCOL_SIMPLE] = bytes >= 128 ? bytes / 128 * 128 : 128;
    if (config->nnodes == 1 && !config->host && algorithm == GPURING_ALGORITHM_TWO_SHOT) {
        share_stripes(slots, config->channels[algorithm] * (uint32_t) (config->nranks - 1));
    }
    if (shares_room(config, algorithm)) {
        share_room(slots, (uint64_t) config->nranks - 1);
    }
}

/* Set the sizes of slots for alltoalls by node. */
static void size_node_slots(struct gpuring_engine *engine)
{
    const struct gpuring_plan *plan = engine->base[GPURING_SET_NODES].plan;
    uint64_t *slots = engine->choice_config.slot_bytes[GPURING_SET_NODES];
    uint64_t bytes = engine->buffer_bytes / GPURING_ENGINE_SLOTS;

    if (plan == NULL) {
        return;
    }
    slots[GPURING_PROTOCOL_SIMPLE] = bytes >= 128 ? bytes / 128 * 128 : 128;
    slots[GPURING_PROTOCOL_LL] = GPURING_ENGINE_FLAGGED_SLOT_BYTES;
    slots[GPURING_PROTOCOL_LL128] =
        engine->choice_config.host ? GPURING_ENGINE_FLAGGED_SLOT_BYTES : 0;
    share_room(slots, plan->nsends / gpuring_plan_channels(plan));
}

/* Set the sizes of slots of the set for small calls. In a node of GPUs it uses LL alone. */
static void size_small_slots(struct gpuring_engine *engine)
{
    uint64_t *slots = engine->choice_config.slot_bytes[GPURING_SET_SMALL];

    if (engine->base[GPURING_SET_SMALL].plan == NULL) {
        return;
    }
    if (engine->choice_config.nnodes > 1) {
        slots[GPURING_PROTOCOL_SIMPLE] = GPURING_ENGINE_SHORT_BYTES;
    } else {
        slots[GPURING_PROTOCOL_LL] = GPURING_ENGINE_FLAGGED_SLOT_BYTES;
    }
}

/* Let the selection use doubling, which may use every protocol. */
static void offer_doubling(struct gpuring_engine *engine, bool direct_first)
{
    struct gpuring_select_config *config = &engine->choice_config;
    const struct gpuring_plan *plan = engine->base[GPURING_SET_DOUBLING].plan;
    uint64_t *slots = config->slot_bytes[GPURING_SET_DOUBLING];

    if (plan != NULL) {
        config->doubling = true;
        config->direct_first = direct_first;
        config->channels[GPURING_SET_DOUBLING] = gpuring_plan_channels(plan);
        config->plans[GPURING_COLLECTIVE_ALLREDUCE] |= 1u << GPURING_ALGORITHM_DIRECT;
        slots[GPURING_PROTOCOL_LL] = slots[GPURING_PROTOCOL_LL128] =
            GPURING_ENGINE_FLAGGED_SLOT_BYTES;
        slots[GPURING_PROTOCOL_SIMPLE] = LEAST_NODES_BYTES;
    }
}

/* Give no slots to protocols that no rule selects. */
static void omit_protocols(struct gpuring_select_config *config, uint32_t unused)
{
    for (int set = 0; set < GPURING_SET_COUNT; set++) {
        for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
            config->slot_bytes[set][p] = (unused & 1u << p) != 0 ? 0 : config->slot_bytes[set][p];
        }
    }
}

/* Return true if kernels may wait for the next call without keeping the GPU from other ranks. */
static bool may_linger(const struct gpuring_engine_config *config)
{
    return config->linger_us > 0 && config->select.nnodes == 1 &&
           (!config->shared_gpu || config->mps);
}

static int linger(struct gpuring_engine *engine, int us)
{
    int status = engine->device_ops->alloc_pinned(engine->device, sizeof(struct gpuring_command),
                                                  &engine->command);

    return status == GPURING_OK ? engine->device_ops->linger(engine->stream, engine->command, us)
                                : status;
}

int gpuring_engine_create(const struct gpuring_engine_config *config,
                          const struct gpuring_device_ops *device_ops,
                          struct gpuring_device *device, struct gpuring_engine **engine)
{
    struct gpuring_engine *created = calloc(1, sizeof *created);
    int status;

    if (created == NULL) {
        free(config->order);
        gpuring_error("out of memory for a communicator");
        return GPURING_ERR_NOMEM;
    }
    created->current = created->prepared;
    created->device_ops = device_ops;
    created->device = device;
    created->oversubscribed = config->oversubscribed;
    created->patience = gpuring_engine_patience(config, device_ops->kind == GPURING_DEVICE_HOST);
    status = gpuring_programs_create(&config->input, config->order, &created->others);
    if (status == GPURING_OK) {
        status = build_plans(created, config);
    }
    if (status == GPURING_OK && device_ops->prepare != NULL) {
        status = device_ops->prepare(device);
    }
    if (status == GPURING_OK) {
        status = device_ops->stream_create(device, &created->stream);
    }
    if (status == GPURING_OK && device_ops->linger != NULL && may_linger(config)) {
        status = linger(created, config->linger_us);
    }
    if (status != GPURING_OK) {
        gpuring_engine_destroy(created);
        return status;
    }
    created->choice_config = config->select;
    created->choice_config.host = device_ops->kind == GPURING_DEVICE_HOST;
    created->buffer_bytes = config->buffer_bytes;
    created->late = config->late;
    created->one_by_one = config->one_by_one || device_ops->kind != GPURING_DEVICE_HOST;
    size_small_slots(created);
    offer_doubling(created,
                   config->one_by_one && config->select.nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS);
    size_node_slots(created);
    gpuring_mapping_enable(created);
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        const struct gpuring_plan *plan = created->base[i].plan;

        created->choice_config.channels[i] = plan != NULL ? gpuring_plan_channels(plan) : 0;
        size_slots(created, (enum gpuring_algorithm) i);
        for (int c = 0; c < GPURING_COLLECTIVE_COUNT; c++) {
            created->choice_config.plans[c] |=
                gpuring_programs_offer(created, (enum gpuring_collective) c,
                                       (enum gpuring_algorithm) i)
                    ? 1u << i
                    : 0;
        }
    }
    omit_protocols(&created->choice_config, config->unused_protocols);
    if (created->base[GPURING_SET_NODES].plan != NULL) {
        created->choice_config.plans[GPURING_COLLECTIVE_ALLTOALL] |= 1u
                                                                     << GPURING_ALGORITHM_TWO_SHOT;
        created->choice_config.channels[GPURING_SET_NODES] =
            gpuring_plan_channels(created->base[GPURING_SET_NODES].plan);
    }
    *engine = created;
    return GPURING_OK;
}

_Static_assert(GPURING_ENGINE_SLOTS <= GPURING_FIFO_MAX_SIZES, "Simple publishes sizes");

static struct gpuring_fifo_config fifos_of(const struct gpuring_select_config *config, int set)
{
    struct gpuring_fifo_config fifos = {.spread = in_shared_memory(config)};

    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        fifos.nslots[p] = GPURING_ENGINE_SLOTS;
        if (in_shared_memory(config) && p != GPURING_PROTOCOL_SIMPLE) {
            fifos.nslots[p] = shares_room(config, gpuring_set_algorithm(set))
                                  ? HOST_SHARED_SLOTS
                                  : host_lines[p].nslots;
        }
    }
    memcpy(fifos.slot_bytes, config->slot_bytes[set], sizeof fifos.slot_bytes);
    return fifos;
}

/*
 * Enlarge the slots of a set if the net accesses any host memory and all connections are between
 * nodes. Most long chunks then need no slot, and a slot that is never used takes no memory. All
 * ranks have the same net, so they get the same sizes.
 */
#define ANY_MEMORY_SLOTS 8 /* factor on the usual size: 1 MiB by default */

static void enlarge_slots(struct gpuring_select_config *config, int set)
{
    if (config->any_memory && config->nnodes == config->nranks) {
        config->slot_bytes[set][GPURING_PROTOCOL_SIMPLE] *= ANY_MEMORY_SLOTS;
    }
}

/* Return the sets that have plans. */
static uint32_t sets_of(const struct gpuring_engine *engine)
{
    uint32_t sets = 0;

    for (int i = 0; i < GPURING_SET_COUNT; i++) {
        sets |= engine->base[i].plan != NULL ? 1u << i : 0;
    }
    return sets;
}

uint32_t gpuring_engine_together(const struct gpuring_engine *engine, int set)
{
    uint32_t late = engine->late, nodes = 1u << GPURING_SET_NODES;

    if (engine->one_by_one || set == GPURING_SET_NODES) {
        return 1u << set;
    }
    return sets_of(engine) & ~nodes & ((late & 1u << set) != 0 ? late : ~late);
}

/* Return true if direct can replace the set for small calls, which has the same connections. */
static bool has_replacement(const struct gpuring_engine *engine)
{
    return engine->base[GPURING_SET_SMALL].plan != NULL && engine->choice_config.nnodes > 1;
}

/* In a node, the set for small calls is among them if it exists, because ranks can vote only if
 * each rank is connected with all others. */
uint32_t gpuring_engine_first_sets(const struct gpuring_engine *engine)
{
    uint32_t small = has_replacement(engine) ? 0 : sets_of(engine) & 1u << GPURING_SET_SMALL;
    struct gpuring_selection choice;

    if (!engine->one_by_one) {
        return sets_of(engine) & ~(engine->late | 1u << GPURING_SET_NODES);
    }
    gpuring_select(&engine->choice_config, GPURING_COLLECTIVE_ALLREDUCE, 1, sizeof(double),
                   &choice);
    return small | gpuring_engine_together(engine, choice.set);
}

uint32_t gpuring_engine_open_sets(const struct gpuring_engine *engine)
{
    return sets_of(engine) & ~(engine->connected | engine->unconnectable);
}

int gpuring_engine_transport(struct gpuring_engine *engine, uint32_t sets,
                             const struct gpuring_transport_config *config,
                             struct gpuring_transport **transport)
{
    const struct gpuring_plan *plans[GPURING_SET_COUNT];
    struct gpuring_fifo_config fifos[GPURING_SET_COUNT];
    struct gpuring_transport_config whole = *config;
    int nplans = 0, status;

    engine->choice_config.any_memory = engine->choice_config.host &&
                                       engine->choice_config.nnodes > 1 &&
                                       config->net_ops != NULL && config->net_ops->any_memory;
    engine->choice_config.offloads =
        engine->choice_config.offloads && config->net_ops != NULL && config->net_ops->offloads;
    for (int i = 0; i < GPURING_SET_COUNT; i++) {
        if (engine->base[i].plan != NULL && (sets & 1u << i) != 0) {
            enlarge_slots(&engine->choice_config, i);
            fifos[nplans] = fifos_of(&engine->choice_config, i);
            whole.ll128_plans |= (engine->choice_config.model.ll128 >> i & 1u) << nplans;
            engine->base[i].index = nplans;
            plans[nplans++] = engine->base[i].plan;
        }
    }
    whole.fifo = fifos;
    whole.device_ops = engine->device_ops;
    whole.device = engine->device;
    status = gpuring_transport_create(&whole, plans, nplans, transport);
    for (int i = 0; status == GPURING_OK && i < GPURING_SET_COUNT; i++) {
        if ((sets & 1u << i) != 0) {
            engine->base[i].transport = *transport;
        }
    }
    return status;
}

/* Return true if this new transport has the connections of a set. */
static bool binds(const struct gpuring_engine *engine, int set,
                  const struct gpuring_transport *transport)
{
    return engine->base[set].plan != NULL && engine->base[set].transport == transport &&
           (engine->unconnectable & 1u << set) == 0;
}

int gpuring_engine_bind(struct gpuring_engine *engine, const struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int i = 0; i < GPURING_SET_COUNT && status == GPURING_OK; i++) {
        /* The first call does this for all sets, even if they are not connected yet, because no
         * operation is running at that time. */
        if (engine->base[i].plan != NULL) {
            status = gpuring_program_states(engine, engine->base[i].plan);
        }
        if (binds(engine, i, transport) &&
            gpuring_transport_tears_lines(transport, engine->base[i].index)) {
            /* If another thread selects the set at this moment, it does not keep its selection. */
            engine->choice_config.slot_bytes[i][GPURING_PROTOCOL_LL128] = 0;
        }
    }
    return status;
}

/* Let the connections of direct serve small calls, too, and close those with short slots. A call
 * that was selected before keeps its set and its chunks, which fit into the longer slots. */
static void replace_small(struct gpuring_engine *engine)
{
    engine->replaced = true;
    gpuring_engine_forget(engine);
    if (!gpuring_engine_lacks(engine, GPURING_SET_SMALL)) {
        gpuring_transport_leave(engine->base[GPURING_SET_SMALL].transport);
    }
}

void gpuring_engine_own(struct gpuring_engine *engine, struct gpuring_transport *transport)
{
    uint32_t connected = engine->connected;

    for (int i = 0; i < GPURING_SET_COUNT; i++) {
        connected |= binds(engine, i, transport) ? 1u << i : 0;
    }
    if (has_replacement(engine) && !engine->replaced &&
        (connected & 1u << GPURING_ALGORITHM_DIRECT) != 0) {
        replace_small(engine);
        connected |= 1u << GPURING_SET_SMALL;
    }
    engine->first = engine->operation + 1;
    engine->transports[engine->ntransports] = transport;
    /* Partners: gpuring_engine_unpost, gpuring_engine_lacks. */
    __atomic_store_n(&engine->ntransports, engine->ntransports + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&engine->connected, connected, __ATOMIC_RELEASE);
}

void gpuring_engine_destroy(struct gpuring_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    if (engine->enqueues) {
        gpuring_operation_drain(engine);
    }
    if (engine->stream != NULL) {
        /* After this, nothing uses the memory that is freed below. */
        engine->device_ops->stream_destroy(engine->stream);
    }
    gpuring_bounce_clear(engine);
    gpuring_programs_destroy(engine);
    engine->device_ops->free_pinned(engine->device, engine->states);
    engine->device_ops->free_pinned(engine->device, engine->captured);
    for (int i = GPURING_SET_COUNT - 1; i >= 0; i--) {
        gpuring_transport_destroy(engine->transports[i]);
        gpuring_plan_free(engine->base[i].plan);
    }
    engine->device_ops->free_pinned(engine->device, engine->extents);
    engine->device_ops->free_pinned(engine->device, engine->command);
    gpuring_tuning_clear(&engine->tuning);
    free(engine);
}
