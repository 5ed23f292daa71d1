/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"
#include "mca/coll_gpuring/params.h"

/*
 * The built-in limits, in bytes:
 *
 *   hop     number of bytes that can be copied in the time of one more hop. Measured on the host
 *           device (2 and 4 ranks of one machine). Estimated for GPUs (about 1 us at 60 GB/s) and
 *           for networks (about 10 us at 6 GB/s).
 *   direct  largest size of the direct exchange on GPUs, where it loads n vectors in few blocks
 *   ll      largest size of LL, which saves a round of counters but doubles the bytes
 *   ll128   largest size of LL128, if it is above that of LL; 0: never. Measured on the host
 *           device. On GPUs, LL128 is used only if the topology shows that it works.
 */
struct limits {
    uint64_t hop, direct, ll, ll128;
};
static const struct limits host_limits = {
    .hop = 16 << 10, .direct = UINT64_MAX, .ll = 256, .ll128 = 512};
static const struct limits gpu_limits = {
    .hop = 64 << 10, .direct = 256 << 10, .ll = 32 << 10, .ll128 = 0};
static const struct limits net_limits = {
    .hop = 64 << 10, .direct = UINT64_MAX, .ll = 0, .ll128 = 0};

/* Number of bytes for which another channel is worthwhile. With Simple, the block of a channel on a
 * GPU has 512 threads, and each thread should have 64 bytes. */
static const uint64_t channel_bytes[GPURING_PROTOCOL_COUNT] = {[GPURING_PROTOCOL_SIMPLE] = 32768,
                                                               [GPURING_PROTOCOL_LL] = 4096,
                                                               [GPURING_PROTOCOL_LL128] = 5120};

#define HALF_FOLDED 4 /* folding half of a vector takes as long as copying a quarter of it */

#define RING_BYTES        (16 << 10)
#define RING_BYTES_BY_MPI (64 << 10)
#define NODE_BYTES        (4 << 10)
#define JOINED_BYTES      (2 << 10)
#define HOP_BYTES         (20 << 10)
#define CHAIN_BYTES       (256 << 10)
#define TREE_RANKS        5 /* with fewer ranks, a tree is at least as deep as a ring is long */

static const struct limits *limits_of(const struct gpuring_select_config *config)
{
    return config->nnodes > 1 ? &net_limits : config->host ? &host_limits : &gpu_limits;
}

bool gpuring_select_eligible(enum gpuring_algorithm algorithm, int nranks, int nnodes,
                             uint32_t wanted)
{
    switch (algorithm) {
    case GPURING_ALGORITHM_DIRECT:
        return nranks <= GPURING_DIRECT_MAX_RANKS;
    case GPURING_ALGORITHM_TWO_SHOT:
        /* It needs as many connections as direct, so it is built only if a parameter, a rule or the
         * model names it. */
        return (wanted & 1u << algorithm) != 0 && nnodes == 1 &&
               nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS;
    case GPURING_ALGORITHM_RING:
    case GPURING_ALGORITHM_TREE:
    case GPURING_ALGORITHM_COUNT:
        break;
    }
    return true;
}

/* The call to select for. `bytes` is the size of the vector or of one block, and `all` is the size
 * of the vector or of all ranks' blocks together, which rules compare with their limits. */
struct request {
    enum gpuring_collective collective;
    uint64_t bytes, all;
    const struct gpuring_model_entry *model; /* NULL: not used */
};

/* Return the plans for a call, as bits 1 << algorithm. In an alltoall by node, ranks forward
 * blocks, so all must know their lengths. */
static uint32_t plans_of(const struct gpuring_select_config *config, const struct request *request)
{
    bool unknown = request->collective == GPURING_COLLECTIVE_ALLTOALL &&
                   request->bytes == GPURING_COUNT_UNKNOWN;

    return config->plans[request->collective] & ~(unknown ? 1u << GPURING_ALGORITHM_TWO_SHOT : 0);
}

static bool exists(const struct gpuring_select_config *config, const struct request *request,
                   int algorithm)
{
    return algorithm >= 0 && algorithm < GPURING_ALGORITHM_COUNT &&
           (plans_of(config, request) & 1u << algorithm) != 0;
}

/* Return true if two-shot serves large vectors between nodes, because all cores and network devices
 * of a node then work at the same time. */
static bool is_nodewise(const struct gpuring_select_config *config, const struct request *request)
{
    return config->nnodes > 1 && exists(config, request, GPURING_ALGORITHM_TWO_SHOT);
}

/* Return true if calls on a set of connections can use a protocol. On GPUs, LL128 requires 128-byte
 * stores that are not torn, so it is refused elsewhere even if a parameter or a rule selects it. */
static bool has_protocol(const struct gpuring_select_config *config, int set, int protocol)
{
    bool whole = config->host || (config->model.known && config->model.ll128 & 1u << set);

    return protocol >= 0 && protocol < GPURING_PROTOCOL_COUNT &&
           config->slot_bytes[set][protocol] > 0 && (protocol != GPURING_PROTOCOL_LL128 || whole);
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Return true if collectives on vectors use trees between nodes of hosts. */
static bool passes_trees(const struct gpuring_select_config *config, const struct request *request)
{
    return config->host && config->nnodes > 1 && exists(config, request, GPURING_ALGORITHM_TREE);
}

/*
 * Return the largest size, as rules count it, at which the direct exchange is known to be the best
 * algorithm.
 *
 * Allreduce: The exchange takes one hop, and sends n - 1 times the vector over each rank's links. A
 * ring takes 2 (n - 1) hops and sends 2 (n - 1) / n times the vector. Between two ranks of a node
 * these bytes are equal, but in the exchange each rank folds the whole vector, and on a ring half
 * of it.
 *
 * Doubling between nodes has a limit of its own (select_doubling.c).
 *
 * Two-shot between N nodes of r ranks each takes 2 (N - 1) hops, and a node sends 2 (N - 1) / N
 * times the vector. In an exchange, all ranks of a node together send it r r (N - 1) times. On
 * hosts, a hop costs about as much as HOP_BYTES (doc/results/scale.md).
 *
 * Other collectives on vectors pass n - 2 more ranks on a ring. There each rank sends the vector
 * once, whereas the root of an exchange sends or receives it n - 1 times. Between nodes of hosts
 * they use trees, which send the vector to each node once, and take as long as an exchange of
 * HOP_BYTES / (2 r - 1).
 *
 * Collectives on blocks cause the same traffic with both algorithms if all ranks reach each other
 * equally well. Between nodes of r ranks, a ring sends each block out of a node once, and an
 * exchange r times. Two-shot takes N - 2 more hops between nodes than an exchange, which cost about
 * as much as GPURING_SELECT_FAR_BYTES each, and one in the node, which costs
 * GPURING_SELECT_NEAR_BYTES.
 *
 * Reductions in order have a chain instead of a ring. It carries blocks, and the results of calls
 * with a root, to its end and back. Therefore they use the exchange as far as possible.
 */
static uint64_t direct_limit(const struct gpuring_select_config *config,
                             const struct request *request)
{
    uint64_t n = (uint64_t) config->nranks, nodes = (uint64_t) config->nnodes;
    uint64_t hop = limits_of(config)->hop, limit = limits_of(config)->direct;
    bool ring = exists(config, request, GPURING_ALGORITHM_RING);

    if (gpuring_collective_has_blocks(request->collective)) {
        return !ring || nodes == n ? UINT64_MAX
               : is_nodewise(config, request)
                   ? nodes * ((nodes - 2) * GPURING_SELECT_FAR_BYTES + GPURING_SELECT_NEAR_BYTES) /
                         ((nodes - 1) * (n / nodes - 1))
               : nodes > 1 ? hop * nodes * nodes / (n - nodes)
                           : limit;
    }
    if (request->collective == GPURING_COLLECTIVE_ALLREDUCE) {
        if (config->doubling) {
            return gpuring_select_doubling_limit(config, is_nodewise(config, request));
        }
        if (is_nodewise(config, request)) {
            return min_of(limit, nodes * (2 * nodes - 3) * HOP_BYTES /
                                     ((nodes - 1) * (n / nodes * n - 2)));
        }
        if (n > 2) {
            return min_of(limit, n * ((2 * n - 3) * hop / ((n - 1) * (n - 2)) + 1) - 1);
        }
        return nodes == 1 && ring ? min_of(limit, HALF_FOLDED * hop) : limit;
    }
    if (request->collective == GPURING_COLLECTIVE_REDUCE && !ring) {
        return limit;
    }
    return n == 2 ? UINT64_MAX
           : passes_trees(config, request)
               ? HOP_BYTES / (2 * (uint64_t) gpuring_select_node_ranks(config) - 1)
               : hop;
}

/*
 * Return the largest size at which a tree is the best algorithm for sizes above direct_limit; 0: at
 * no size. A tree takes about 2 log2 n hops in an allreduce, and half of that in other collectives.
 * It is faster than a ring while a hop costs more than a chunk of V / n bytes. Between nodes of
 * hosts, the thread of a rank copies the whole vector in a tree. According to the model of
 * doc/results/scale.md, a tree then takes as long as a ring at about RING_BYTES for each rank, and
 * as long as two-shot at about NODE_BYTES for each node. A hop by a message of MPI takes longer
 * than one of the model, so between nodes of one rank each, trees are faster up to
 * RING_BYTES_BY_MPI for each rank, as measured with TCP (doc/results/ucx.md). A bcast is faster
 * with trees than with a chain there, except for more than CHAIN_BYTES for each rank if ranks have
 * three children.
 */
static uint64_t tree_limit(const struct gpuring_select_config *config,
                           const struct request *request)
{
    uint64_t n = (uint64_t) config->nranks, nodes = (uint64_t) config->nnodes;
    bool nodewise = is_nodewise(config, request);
    bool allreduce = request->collective == GPURING_COLLECTIVE_ALLREDUCE;
    bool hosts = config->host && config->nnodes > 1 && allreduce;
    bool by_mpi = hosts && config->any_memory && nodes == n;
    uint64_t length = nodewise ? nodes : n;
    uint64_t hop = nodewise ? NODE_BYTES
                   : by_mpi ? RING_BYTES_BY_MPI
                   : hosts  ? RING_BYTES
                            : limits_of(config)->hop;

    if (!exists(config, request, GPURING_ALGORITHM_RING)) {
        return UINT64_MAX;
    }
    if (request->collective == GPURING_COLLECTIVE_BCAST && passes_trees(config, request)) {
        return nodes < 4 || nodes == n ? UINT64_MAX : n * CHAIN_BYTES;
    }
    return length >= (by_mpi ? GPURING_SELECT_TREE_RANKS_BY_MPI : TREE_RANKS) &&
                   (allreduce || config->nnodes > 1 || n > GPURING_DIRECT_MAX_VECTOR_RANKS)
               ? length * (hop + 1) - 1
               : 0;
}

/*
 * Return the largest size at which an alltoall runs by node; 0: at no size. Between N nodes of r
 * ranks, a rank sends (N - 1) (r - 1) messages fewer than in a direct exchange, but its node copies
 * as many blocks once more. On hosts, a message costs about as much as another copy of JOINED_BYTES
 * (doc/results/scale.md), and the second stage one hop in the node. On GPUs, the second stage is
 * one more launch, whose cost between nodes has not been measured.
 */
static uint64_t node_limit(const struct gpuring_select_config *config,
                           const struct request *request)
{
    uint64_t n = (uint64_t) config->nranks, nodes = (uint64_t) config->nnodes;
    uint64_t stage;

    if (request->collective != GPURING_COLLECTIVE_ALLTOALL || !is_nodewise(config, request) ||
        !config->host) {
        return 0;
    }
    stage = host_limits.hop / ((nodes - 1) * (n / nodes - 1)); /* nodes have two ranks or more */
    return stage < JOINED_BYTES ? (JOINED_BYTES - stage) * n : 0;
}

/*
 * A staged call copies at the root and at the other ranks. A served call launches kernels on all
 * ranks. Measured with 2 and 4 ranks on an H200 with MPS (doc/results/gpu.md): a staged bcast takes
 * 0.65 of the time of a served one at 8 bytes, 0.74 to 0.82 at 1 KiB and twice the time at 128 KiB,
 * so the times are equal at about 8 KiB. Staged gathers and scatters take 0.83 to 0.95 of the time
 * up to 512 bytes, and 1.0 to 1.1 of it at 4 KiB. Reduce is never faster staged.
 */
uint64_t gpuring_select_small_limit(enum gpuring_collective collective, uint64_t agree_size)
{
    static const uint64_t limits[GPURING_COLLECTIVE_COUNT] = {
        [GPURING_COLLECTIVE_BCAST] = 8 << 10,
        [GPURING_COLLECTIVE_GATHER] = 2 << 10,
        [GPURING_COLLECTIVE_SCATTER] = 2 << 10,
    };

    return agree_size > 0 ? min_of(agree_size, limits[collective]) : limits[collective];
}

static bool is_within(const struct request *request, uint64_t limit)
{
    return limit > 0 && request->all <= limit;
}

/*
 * Return why the previous component is faster, or NONE if it is not.
 *
 * Ranks that take turns on a GPU need 146 us for each turn, whatever they do in it, and several
 * turns for a call. The previous component copies without waiting for turns, but it folds slowly on
 * the host. Therefore the limit of reductions is lower, except for allreduce, whose vectors take
 * twice as many turns. Measured with 2, 4 and 8 ranks on an H200: doc/results/gpu.md.
 *
 * If a collective has only rings, its data passes through many ranks. Trees on the host do not
 * change this, because they are no faster than those of other components.
 */
static enum gpuring_reason why_previous(const struct gpuring_select_config *config,
                                        const struct request *request)
{
    enum gpuring_collective collective = request->collective;
    bool folds =
        gpuring_collective_reduces(collective) && collective != GPURING_COLLECTIVE_ALLREDUCE;
    bool passes = collective != GPURING_COLLECTIVE_ALLREDUCE &&
                  !exists(config, request, GPURING_ALGORITHM_DIRECT) &&
                  !is_nodewise(config, request) &&
                  (config->host || !exists(config, request, GPURING_ALGORITHM_TREE));
    uint64_t n = gpuring_collective_has_blocks(collective) ? (uint64_t) config->nranks : 1;
    uint64_t turns = config->time_sliced_ranks > 1 ? (uint64_t) (folds ? 1 << 20 : 4 << 20) *
                                                         (uint64_t) (config->time_sliced_ranks - 1)
                                                   : 0;
    uint64_t ranks = passes ? n * (limits_of(config)->hop - 1) : 0;
    uint64_t small = config->host ? 0 : gpuring_select_small_limit(collective, config->agree_size);

    return is_within(request, turns)                       ? GPURING_REASON_SHARED
           : is_within(request, ranks)                     ? GPURING_REASON_PASSES
           : is_within(request, small > 0 ? small - 1 : 0) ? GPURING_REASON_SMALL
                                                           : GPURING_REASON_NONE;
}

/* The choice of one rule for a request. -1: the rule names no algorithm, or no protocol. */
struct rule {
    int algorithm; /* GPURING_SELECT_PREVIOUS delegates the call */
    int protocol;
};

/* The rules for a request, in the order of their precedence. */
struct rules {
    struct rule rule[10];
    int count;
    enum gpuring_reason faster; /* why the previous component is, or NONE; for the third rule */
};

static void add_rule(struct rules *rules, bool applies, int algorithm, int protocol)
{
    if (applies) {
        rules->rule[rules->count++] = (struct rule){algorithm, protocol};
    }
}

/* Find the cost model's entry for a request. Return NULL if there is no model. Between nodes the
 * model has no direct exchange and no chain, so return NULL where these are best. */
static const struct gpuring_model_entry *model_of(const struct gpuring_select_config *config,
                                                  const struct request *request, bool direct)
{
    enum gpuring_collective collective = request->collective;

    if (!config->model.known ||
        (config->nnodes > 1 && direct &&
         (collective != GPURING_COLLECTIVE_ALLREDUCE || config->in_order))) {
        return NULL;
    }
    return &config->model.entry[collective][gpuring_model_index(request->all)];
}

/* List the rules: parameters, the tuning file, sizes at which other components are faster, the cost
 * model, and the built-in limits. */
static void list_rules(const struct gpuring_select_config *config, struct request *request,
                       struct rules *rules)
{
    enum gpuring_collective collective = request->collective;
    const struct gpuring_tuning_rule *file =
        gpuring_tuning_at(config->tuning, (int) collective, request->all);
    const struct limits *limits = limits_of(config);
    bool direct = exists(config, request, GPURING_ALGORITHM_DIRECT) &&
                  request->all <= direct_limit(config, request);
    const struct gpuring_model_entry *model = model_of(config, request, direct);
    bool modelled = model != NULL && model->protocol >= 0 && !config->host;

    request->model = model;
    rules->count = 0;
    rules->faster = file->algorithm == GPURING_PARAM_ALGORITHM_AUTO ? why_previous(config, request)
                                                                    : GPURING_REASON_NONE;
    add_rule(rules, true, config->algorithm, config->protocol);
    /* In a file auto is 0. The other values are 1 more than in the engine's enumerations. */
    add_rule(rules, true, file->algorithm - 1, file->protocol - 1);
    add_rule(rules, rules->faster != GPURING_REASON_NONE, GPURING_SELECT_PREVIOUS, -1);
    add_rule(rules, model != NULL, model != NULL ? model->algorithm : -1,
             modelled ? model->protocol : -1);
    add_rule(rules, is_within(request, node_limit(config, request)), GPURING_ALGORITHM_TWO_SHOT,
             -1);
    add_rule(rules, direct, GPURING_ALGORITHM_DIRECT, -1);
    add_rule(rules, is_within(request, tree_limit(config, request)), GPURING_ALGORITHM_TREE, -1);
    add_rule(rules, is_nodewise(config, request), GPURING_ALGORITHM_TWO_SHOT, -1);
    add_rule(rules, true, GPURING_ALGORITHM_RING, -1);
    add_rule(rules, !modelled && request->bytes <= limits->ll, -1, GPURING_PROTOCOL_LL);
    add_rule(rules, !modelled && request->bytes <= limits->ll128, -1, GPURING_PROTOCOL_LL128);
}

/*
 * Choose the algorithm of the first rule that names an existing one. The call is delegated if an
 * earlier rule delegates it. If neither a parameter nor the tuning file has chosen, calls of some
 * forms are delegated. Reductions in order are delegated only if they have no plan, because other
 * components fold in other orders.
 */
static void choose_algorithm(const struct gpuring_select_config *config,
                             const struct request *request, const struct rules *rules,
                             struct gpuring_selection *choice)
{
    const enum gpuring_reason reasons[] = {GPURING_REASON_PREVIOUS, GPURING_REASON_TUNED,
                                           rules->faster}; /* of the first three rules */
    bool kept = config->in_order && gpuring_collective_reduces(request->collective);
    int i = 0, previous = -1;

    while (i < rules->count && !exists(config, request, rules->rule[i].algorithm)) {
        if (rules->rule[i].algorithm == GPURING_SELECT_PREVIOUS && previous < 0) {
            previous = i;
        }
        i++;
    }
    choice->algorithm = i < rules->count ? (enum gpuring_algorithm) rules->rule[i].algorithm
                                         : GPURING_ALGORITHM_DIRECT; /* exists if no ring does */
    /* A parameter that selects the protocol overrides `previous` in a tuning file. */
    choice->delegated = GPURING_REASON_NONE;
    if (plans_of(config, request) == 0) {
        choice->delegated = GPURING_REASON_RANKS;
    } else if (!kept && previous >= 0 &&
               !(previous == 1 &&
                 has_protocol(config, (int) choice->algorithm, config->protocol))) {
        choice->delegated = reasons[previous];
    }
    choice->blocking_delegated =
        !kept && i > 1 && previous < 0 &&
                gpuring_select_leaves_blocking(config, request->collective, request->bytes)
            ? GPURING_REASON_SHORT
            : choice->delegated;
}

/* Choose the protocol of the first rule that names a protocol which the connections have. */
static enum gpuring_protocol choose_protocol(const struct gpuring_select_config *config, int set,
                                             const struct rules *rules)
{
    for (int i = 0; i < rules->count; i++) {
        if (has_protocol(config, set, rules->rule[i].protocol)) {
            return (enum gpuring_protocol) rules->rule[i].protocol;
        }
    }
    return GPURING_PROTOCOL_SIMPLE;
}

/*
 * Return the number of channels: that of the cost model if its algorithm and protocol were chosen,
 * otherwise as many as the vector fills. On one node of hosts, all channels are used, because lanes
 * without data cost nothing there. Between nodes they would, because the caller checks the links of
 * all lanes.
 */
static uint32_t choose_channels(const struct gpuring_select_config *config,
                                const struct gpuring_selection *choice,
                                const struct request *request)
{
    const struct gpuring_model_entry *model = request->model;
    uint32_t all = config->channels[choice->set];
    uint64_t filled = request->bytes / channel_bytes[choice->protocol];

    if (model != NULL && model->channels > 0 && (int) choice->algorithm == model->algorithm &&
        (int) choice->protocol == model->protocol) {
        filled = model->channels;
    }
    if (filled < config->min_channels) {
        filled = config->min_channels;
    }
    return (config->host && config->nnodes == 1) || filled >= all ? all
           : filled > 0                                           ? (uint32_t) filled
                                                                  : 1;
}

/*
 * Return true if chunks of Simple are cut into slices. On hosts this helps only between two ranks
 * of a node, if one reads a slice while the other writes the next one. In an exchange both ranks
 * are always busy, so a vector, a block, or a rank's part of a vector on a ring is sent as a whole
 * if it fits into a slot.
 */
static bool has_slices(const struct gpuring_select_config *config,
                       enum gpuring_collective collective, uint64_t bytes, uint64_t slot)
{
    static const bool one_way[GPURING_COLLECTIVE_COUNT] = {
        [GPURING_COLLECTIVE_BCAST] = true,
        [GPURING_COLLECTIVE_REDUCE] = true,
        [GPURING_COLLECTIVE_GATHER] = true,
        [GPURING_COLLECTIVE_SCATTER] = true,
    };

    return !config->host ||
           (config->nranks == 2 && config->nnodes == 1 && (one_way[collective] || bytes > slot));
}

/*
 * Return the largest size of chunks in bytes. bytes: size of the vector, or of a rank's part of it.
 * MPI sends short messages without waiting for the receiver, and long ones without copying them. As
 * measured with TCP between two ranks (doc/results/ucx.md), long messages are faster from
 * WHOLE_BYTES on. Only nodes of one rank have slots for them (engine.c).
 */
#define WHOLE_BYTES (192 << 10)

/*
 * The ranks of a tree forward each chunk, so each of the two parts of a vector needs several chunks
 * to keep all ranks busy. A direct exchange folds one chunk while the next ones are transferred.
 * Shorter chunks would cost more in messages than they save (doc/results/scale.md), except if the
 * devices transfer them. If processors emulate the devices, the processor that folds also
 * transfers, so nothing overlaps, and each message costs an acknowledgement (doc/results/verbs.md).
 */
#define DIRECT_CHUNKS       4
#define DIRECT_CHUNK_BYTES  (64 << 10)
#define OFFLOAD_CHUNKS      12
#define OFFLOAD_CHUNK_BYTES (32 << 10)
#define TREE_CHUNKS         8
#define TREE_CHUNK_BYTES    (32 << 10)
#define OFFLOAD_TREE_CHUNKS 32
#define OFFLOAD_TREE_BYTES  (8 << 10)

static uint64_t chunk_limit(const struct gpuring_select_config *config,
                            enum gpuring_algorithm algorithm, const struct request *request,
                            uint64_t bytes)
{
    bool whole = bytes >= WHOLE_BYTES && config->nnodes == config->nranks;
    uint64_t limit = config->any_memory && !whole ? GPURING_FIFO_WANTED : UINT64_MAX;

    if (config->chunk_bytes > 0) {
        return config->chunk_bytes;
    }
    if (!config->host || config->nnodes == 1) {
        return limit;
    }
    if (algorithm == GPURING_ALGORITHM_TREE && config->offloads) {
        return max_of(request->bytes / OFFLOAD_TREE_CHUNKS, OFFLOAD_TREE_BYTES);
    }
    if (algorithm == GPURING_ALGORITHM_TREE) {
        return min_of(limit, max_of(request->bytes / TREE_CHUNKS, TREE_CHUNK_BYTES));
    }
    if (algorithm != GPURING_ALGORITHM_DIRECT || config->any_memory) {
        return limit;
    }
    return config->offloads ? max_of(request->bytes / OFFLOAD_CHUNKS, OFFLOAD_CHUNK_BYTES)
                            : max_of(request->bytes / DIRECT_CHUNKS, DIRECT_CHUNK_BYTES);
}

/* Return true if a call is an alltoall by node. */
static bool is_by_node(const struct request *request, const struct gpuring_selection *choice)
{
    return request->collective == GPURING_COLLECTIVE_ALLTOALL &&
           choice->algorithm == GPURING_ALGORITHM_TWO_SHOT;
}

/* Return the number of stripes of an allreduce by doubling, or 0 if a call is none. */
static uint32_t choose_stripes(const struct gpuring_select_config *config,
                               const struct request *request,
                               const struct gpuring_selection *choice)
{
    return config->doubling && request->collective == GPURING_COLLECTIVE_ALLREDUCE &&
                   choice->algorithm == GPURING_ALGORITHM_DIRECT
               ? gpuring_select_stripes(config, request->bytes)
               : 0;
}

/* Return true if a call runs on the connections for small calls, because it needs only one of their
 * chunks. */
static bool is_small(const struct gpuring_select_config *config,
                     const struct gpuring_selection *choice, uint64_t bytes, uint32_t type_size)
{
    uint64_t slot = config->slot_bytes[GPURING_SET_SMALL][choice->protocol];

    return slot > 0 && choice->algorithm == GPURING_ALGORITHM_DIRECT && choice->channels == 1 &&
           bytes <= gpuring_chunk_max(choice->protocol, slot, type_size) * type_size;
}

void gpuring_select(const struct gpuring_select_config *config, enum gpuring_collective collective,
                    uint64_t count, uint32_t type_size, struct gpuring_selection *choice)
{
    uint64_t bytes = count != GPURING_COUNT_UNKNOWN ? count * type_size : GPURING_COUNT_UNKNOWN;
    uint64_t blocks = gpuring_collective_has_blocks(collective) ? (uint64_t) config->nranks : 1;
    struct request request = {.collective = collective, .bytes = bytes};
    uint64_t align = gpuring_chunk_align(type_size), limit;
    struct rules rules;
    uint32_t stripes;

    if (__builtin_mul_overflow(bytes, blocks, &request.all)) {
        request.all = UINT64_MAX;
    }
    list_rules(config, &request, &rules);
    choose_algorithm(config, &request, &rules, choice);
    choice->set = is_by_node(&request, choice) ? GPURING_SET_NODES : (int) choice->algorithm;
    choice->protocol = choose_protocol(config, choice->set, &rules);
    choice->channels = choose_channels(config, choice, &request);
    stripes = choose_stripes(config, &request, choice);
    if (stripes > 0) {
        choice->set = GPURING_SET_DOUBLING;
        choice->channels = stripes;
    } else if (is_small(config, choice, bytes, type_size)) {
        choice->set = GPURING_SET_SMALL;
        choice->channels = 1;
    }
    choice->chunk = gpuring_chunk_max(choice->protocol,
                                      config->slot_bytes[choice->set][choice->protocol], type_size);
    choice->slice = 0;
    if (collective == GPURING_COLLECTIVE_ALLREDUCE &&
        choice->algorithm != GPURING_ALGORITHM_DIRECT) {
        bytes /= (uint64_t) config->nranks; /* of a rank's part */
    }
    if (choice->protocol == GPURING_PROTOCOL_SIMPLE &&
        has_slices(config, collective, bytes, choice->chunk * type_size)) {
        choice->slice = choice->chunk;
        choice->chunk *= GPURING_SLICES;
    }
    limit = chunk_limit(config, choice->algorithm, &request, bytes) / type_size / align;
    choice->chunk = min_of(choice->chunk, max_of(limit, 1) * align);
}
