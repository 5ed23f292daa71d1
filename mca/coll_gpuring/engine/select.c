/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"
#include "mca/coll_gpuring/params.h"

/*
 * The built-in limits, in bytes:
 *
 *   hop     the bytes that can be copied in the time of one more hop. Measured on the host device
 *           (2 and 4 ranks of one machine). Estimated for GPUs (about 1 us at 60 GB/s) and for
 *           networks (about 10 us at 6 GB/s).
 *   direct  largest size of the direct exchange on GPUs, where it loads n vectors in few blocks
 *   ll      largest size of LL, which saves a round of counters but doubles the bytes
 *   ll128   largest size of LL128, beyond LL; 0: never. Measured on the host device. On GPUs only
 *           the topology knows where LL128 works.
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

/* Number of bytes that are worth another channel. Its block on a GPU has 512 threads with Simple,
 * and each needs 64 bytes. */
static const uint64_t channel_bytes[GPURING_PROTOCOL_COUNT] = {[GPURING_PROTOCOL_SIMPLE] = 32768,
                                                               [GPURING_PROTOCOL_LL] = 4096,
                                                               [GPURING_PROTOCOL_LL128] = 5120};

#define HALF_FOLDED 4 /* half of a vector is folded in the time in which a 4th of it is copied */

#define DOUBLING_BYTES (64 << 10)
#define RING_BYTES     (16 << 10)
#define NODE_BYTES     (4 << 10)
#define TREE_RANKS     5 /* with fewer, a tree is no shallower than a ring is long */

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
        /* It has as many connections as direct: only if a choice names it. */
        return (wanted & 1u << algorithm) != 0 && nnodes == 1 &&
               nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS;
    case GPURING_ALGORITHM_RING:
    case GPURING_ALGORITHM_TREE:
    case GPURING_ALGORITHM_COUNT:
        break;
    }
    return true;
}

static bool exists(const struct gpuring_select_config *config, enum gpuring_collective collective,
                   int algorithm)
{
    return algorithm >= 0 && algorithm < GPURING_ALGORITHM_COUNT &&
           (config->plans[collective] & 1u << algorithm) != 0;
}

/* Return true if two-shot between nodes serves large vectors, as all cores and network devices of a
 * node then work at the same time. */
static bool is_nodewise(const struct gpuring_select_config *config,
                        enum gpuring_collective collective)
{
    return config->nnodes > 1 && exists(config, collective, GPURING_ALGORITHM_TWO_SHOT);
}

/* On GPUs LL128 needs 128-byte stores that stay whole; what asks for it does not make them so. */
static bool has_protocol(const struct gpuring_select_config *config,
                         enum gpuring_algorithm algorithm, int protocol)
{
    bool whole = config->host || (config->model.known && config->model.ll128 & 1u << algorithm);

    return protocol >= 0 && protocol < GPURING_PROTOCOL_COUNT &&
           config->slot_bytes[algorithm][protocol] > 0 &&
           (protocol != GPURING_PROTOCOL_LL128 || whole);
}

/* The call to select for. Rules count the bytes of a vector, or of all ranks' blocks together. */
struct request {
    enum gpuring_collective collective;
    uint64_t bytes, all;                     /* of the vector or of a block; as rules count them */
    const struct gpuring_model_entry *model; /* NULL: not used */
};

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/*
 * Largest size, as rules count it, at which the direct exchange is the best algorithm as far as
 * known.
 *
 * Allreduce: one hop, and n - 1 times the vector over each rank's links, where a ring has 2 (n - 1)
 * hops and 2 (n - 1) / n times the vector. With two ranks of a node the bytes are equal, but in the
 * exchange each rank folds the whole vector, and on a ring half of it.
 *
 * Doubling between nodes takes log2 N hops, but the leader of a node of r ranks copies the vector r
 * times in each direction (doc/results/scale.md).
 *
 * Between nodes that have r ranks each, two-shot has 2 (N - 1) hops between N nodes, and a node
 * sends 2 (N - 1) / N times the vector, where all ranks of an exchange send it r r (N - 1) times.
 *
 * Other vectors pass n - 2 more ranks on a ring, but each rank sends them once, where the root of
 * an exchange sends or receives them n - 1 times. Blocks cost the same traffic either way if all
 * ranks reach each other equally well. Between nodes of r ranks, a ring takes each block out of a
 * node once, and an exchange r times.
 *
 * Reductions in order have a chain instead of a ring, which carries blocks and the results of calls
 * with a root to its end and back. They go directly as far as possible.
 */
static uint64_t direct_limit(const struct gpuring_select_config *config,
                             enum gpuring_collective collective)
{
    uint64_t n = (uint64_t) config->nranks, nodes = (uint64_t) config->nnodes;
    uint64_t hop = limits_of(config)->hop, limit = limits_of(config)->direct;
    bool ring = exists(config, collective, GPURING_ALGORITHM_RING);

    if (gpuring_collective_has_blocks(collective)) {
        return !ring || nodes == n ? UINT64_MAX
               : nodes > 1         ? hop * nodes * nodes / (n - nodes)
                                   : limit;
    }
    if (collective == GPURING_COLLECTIVE_ALLREDUCE) {
        if (config->doubling) {
            return DOUBLING_BYTES / (1 + (n + nodes - 1) / nodes);
        }
        if (is_nodewise(config, collective)) {
            return min_of(limit,
                          nodes * (2 * nodes - 3) * hop / ((nodes - 1) * (n / nodes * n - 2)));
        }
        if (n > 2) {
            return min_of(limit, n * ((2 * n - 3) * hop / ((n - 1) * (n - 2)) + 1) - 1);
        }
        return nodes == 1 && ring ? min_of(limit, HALF_FOLDED * hop) : limit;
    }
    if (collective == GPURING_COLLECTIVE_REDUCE && !ring) {
        return limit;
    }
    return n == 2 ? UINT64_MAX : hop;
}

/* The same for trees and sizes beyond the exchange; 0: at no size. Trees have about 2 log2 n hops
 * in an allreduce, and half of that in other collectives, and are worth it while a hop costs more
 * than a chunk of V / n. On hosts between nodes, the thread of a rank copies the whole vector in a
 * tree. The model of doc/results/scale.md has the same time for a ring at about RING_BYTES for each
 * rank, and for two-shot at about NODE_BYTES for each node. */
static uint64_t tree_limit(const struct gpuring_select_config *config,
                           enum gpuring_collective collective)
{
    uint64_t n = (uint64_t) config->nranks;
    bool nodewise = is_nodewise(config, collective);
    bool hosts = config->host && config->nnodes > 1 && collective == GPURING_COLLECTIVE_ALLREDUCE;
    uint64_t length = nodewise ? (uint64_t) config->nnodes : n;
    uint64_t hop = nodewise ? NODE_BYTES : hosts ? RING_BYTES : limits_of(config)->hop;

    if (!exists(config, collective, GPURING_ALGORITHM_RING)) {
        return UINT64_MAX;
    }
    return length >= TREE_RANKS && (collective == GPURING_COLLECTIVE_ALLREDUCE ||
                                    config->nnodes > 1 || n > GPURING_DIRECT_MAX_VECTOR_RANKS)
               ? length * (hop + 1) - 1
               : 0;
}

/*
 * Staging copies at the root and at the other ranks, and kernels must be launched on all ranks.
 * Measured with 2 and 4 ranks on an H200 with MPS (doc/results/gpu.md): a staged bcast takes 0.65
 * of the time at 8 bytes, 0.74 to 0.82 at 1 KiB and twice the time at 128 KiB, so the times are
 * equal at about 8 KiB. Gather and scatter take 0.83 to 0.95 of the time up to 512 bytes, and 1.0
 * to 1.1 of it at 4 KiB. Reduce is never faster staged.
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

/*
 * Largest size at which the previous component is faster; 0: at no size.
 *
 * Ranks that take turns on a GPU need 146 us for each turn, whatever is done in it, and several
 * turns for a call. The previous component copies without waiting, but folds slowly on the host,
 * and vectors of allreduce take twice as many turns. Measured with 2, 4 and 8 ranks on an H200:
 * doc/results/gpu.md.
 *
 * Where only rings exist, all data passes many ranks. On the host, trees are no faster than those
 * of other components.
 */
static uint64_t previous_limit(const struct gpuring_select_config *config,
                               enum gpuring_collective collective)
{
    bool folds =
        gpuring_collective_reduces(collective) && collective != GPURING_COLLECTIVE_ALLREDUCE;
    bool passes = collective != GPURING_COLLECTIVE_ALLREDUCE &&
                  !exists(config, collective, GPURING_ALGORITHM_DIRECT) &&
                  (config->host || !exists(config, collective, GPURING_ALGORITHM_TREE));
    uint64_t n = gpuring_collective_has_blocks(collective) ? (uint64_t) config->nranks : 1;
    uint64_t turns = config->time_sliced_ranks > 1 ? (uint64_t) (folds ? 1 << 20 : 4 << 20) *
                                                         (uint64_t) (config->time_sliced_ranks - 1)
                                                   : 0;
    uint64_t ranks = passes ? n * (limits_of(config)->hop - 1) : 0;
    uint64_t small = config->host ? 0 : gpuring_select_small_limit(collective, config->agree_size);

    return max_of(max_of(turns, ranks), small > 0 ? small - 1 : 0);
}

/* A rule for the size of a request. -1: it names no algorithm, or no protocol. */
struct rule {
    int algorithm; /* GPURING_SELECT_PREVIOUS delegates the call */
    int protocol;
};

/* The rules for a request, in the order in which they count. */
struct rules {
    struct rule rule[10];
    int count;
};

static void add_rule(struct rules *rules, bool applies, int algorithm, int protocol)
{
    if (applies) {
        rules->rule[rules->count++] = (struct rule){algorithm, protocol};
    }
}

/* Find the cost model's entry for a request. Between nodes the model knows no direct exchange and
 * no chain, so it is not used where these are best. */
static const struct gpuring_model_entry *model_of(const struct gpuring_select_config *config,
                                                  const struct request *request, bool direct)
{
    enum gpuring_collective collective = request->collective;
    int entry = 0;

    if (!config->model.known ||
        (config->nnodes > 1 && direct &&
         (collective != GPURING_COLLECTIVE_ALLREDUCE || config->in_order))) {
        return NULL;
    }
    while (entry < GPURING_MODEL_CHOICE_SIZES - 1 && (UINT64_C(1) << entry) < request->all) {
        entry++;
    }
    return &config->model.entry[collective][entry];
}

static bool is_within(const struct request *request, uint64_t limit)
{
    return limit > 0 && request->all <= limit;
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
    bool direct = exists(config, collective, GPURING_ALGORITHM_DIRECT) &&
                  request->all <= direct_limit(config, collective);
    const struct gpuring_model_entry *model = model_of(config, request, direct);
    bool modelled = model != NULL && model->protocol >= 0 && !config->host;

    request->model = model;
    rules->count = 0;
    add_rule(rules, true, config->algorithm, config->protocol);
    /* auto is 0 in a file, and the other names follow in the order of the core */
    add_rule(rules, true, file->algorithm - 1, file->protocol - 1);
    add_rule(rules,
             file->algorithm == GPURING_PARAM_ALGORITHM_AUTO &&
                 is_within(request, previous_limit(config, collective)),
             GPURING_SELECT_PREVIOUS, -1);
    add_rule(rules, model != NULL, model != NULL ? model->algorithm : -1,
             modelled ? model->protocol : -1);
    add_rule(rules, direct, GPURING_ALGORITHM_DIRECT, -1);
    add_rule(rules, is_within(request, tree_limit(config, collective)), GPURING_ALGORITHM_TREE, -1);
    add_rule(rules, is_nodewise(config, collective), GPURING_ALGORITHM_TWO_SHOT, -1);
    add_rule(rules, true, GPURING_ALGORITHM_RING, -1);
    add_rule(rules, !modelled && request->bytes <= limits->ll, -1, GPURING_PROTOCOL_LL);
    add_rule(rules, !modelled && request->bytes <= limits->ll128, -1, GPURING_PROTOCOL_LL128);
}

/* Choose the algorithm of the first rule that names an existing one. The call is delegated if a
 * rule before that delegates it. Reductions in order are not delegated, because other components
 * have other orders. */
static void choose_algorithm(const struct gpuring_select_config *config,
                             enum gpuring_collective collective, const struct rules *rules,
                             struct gpuring_selection *choice)
{
    bool kept = config->in_order && gpuring_collective_reduces(collective);
    int i = 0, previous = -1;

    while (i < rules->count && !exists(config, collective, rules->rule[i].algorithm)) {
        if (rules->rule[i].algorithm == GPURING_SELECT_PREVIOUS && previous < 0) {
            previous = i;
        }
        i++;
    }
    choice->algorithm = i < rules->count ? (enum gpuring_algorithm) rules->rule[i].algorithm
                                         : GPURING_ALGORITHM_DIRECT; /* exists if no ring does */
    /* A protocol that a parameter names overrides `previous` in a tuning file. */
    choice->delegated =
        config->plans[collective] == 0 ||
        (!kept && previous >= 0 &&
         !(previous == 1 && has_protocol(config, choice->algorithm, config->protocol)));
}

/* Choose the protocol of the first rule that names one that the algorithm has. */
static enum gpuring_protocol choose_protocol(const struct gpuring_select_config *config,
                                             enum gpuring_algorithm algorithm,
                                             const struct rules *rules)
{
    for (int i = 0; i < rules->count; i++) {
        if (has_protocol(config, algorithm, rules->rule[i].protocol)) {
            return (enum gpuring_protocol) rules->rule[i].protocol;
        }
    }
    return GPURING_PROTOCOL_SIMPLE;
}

/* Return the number of channels: that of the cost model if its algorithm and protocol were chosen,
 * otherwise as many as the vector fills. On one node of hosts all are used, because empty lanes
 * cost nothing. Between nodes the caller would look at the links of all lanes. */
static uint32_t choose_channels(const struct gpuring_select_config *config,
                                const struct gpuring_selection *choice,
                                const struct request *request)
{
    const struct gpuring_model_entry *model = request->model;
    uint32_t all = config->channels[choice->algorithm];
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

/* Return true if chunks of Simple are cut into slices. In ordinary memory slices are worth it
 * between two ranks of a node: one reads a slice while the other writes the next. In an exchange
 * both ranks have work all the time, so a vector, a block, or a rank's part of a vector on a ring
 * is sent whole if it fits a slot. */
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
 * Return the largest size of chunks in bytes. `bytes`: of the vector or of a rank's part. MPI sends
 * short messages without an answer of the receiver, and long ones without copying them. Measured
 * with TCP between two ranks (doc/results/ucx.md): from WHOLE_BYTES on, long messages are faster.
 * Only nodes of one rank have slots for them (engine.c).
 */
#define WHOLE_BYTES (192 << 10)

/* Ranks of a tree forward each chunk, so that both trees of a vector need several chunks to keep
 * all ranks at work. A direct exchange folds a chunk while the next ones are transferred. Shorter
 * chunks take more messages than that is worth (doc/results/scale.md). */
#define DIRECT_CHUNKS      4
#define DIRECT_CHUNK_BYTES (64 << 10)
#define TREE_CHUNKS        8
#define TREE_CHUNK_BYTES   (32 << 10)

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
    if (algorithm == GPURING_ALGORITHM_TREE) {
        return min_of(limit, max_of(request->bytes / TREE_CHUNKS, TREE_CHUNK_BYTES));
    }
    return algorithm == GPURING_ALGORITHM_DIRECT && !config->any_memory
               ? max_of(request->bytes / DIRECT_CHUNKS, DIRECT_CHUNK_BYTES)
               : limit;
}

/* Return true if a call runs on the connections for small calls: it needs one chunk of them, or it
 * is an allreduce by doubling. */
static bool is_small(const struct gpuring_select_config *config, enum gpuring_collective collective,
                     const struct gpuring_selection *choice, uint64_t bytes, uint32_t type_size)
{
    uint64_t slot = config->slot_bytes[GPURING_SET_SMALL][choice->protocol];

    if (config->doubling) {
        return collective == GPURING_COLLECTIVE_ALLREDUCE &&
               choice->algorithm == GPURING_ALGORITHM_DIRECT;
    }
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

    if (__builtin_mul_overflow(bytes, blocks, &request.all)) {
        request.all = UINT64_MAX;
    }
    list_rules(config, &request, &rules);
    choose_algorithm(config, collective, &rules, choice);
    choice->protocol = choose_protocol(config, choice->algorithm, &rules);
    choice->channels = choose_channels(config, choice, &request);
    choice->set = is_small(config, collective, choice, bytes, type_size) ? GPURING_SET_SMALL
                                                                         : (int) choice->algorithm;
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
