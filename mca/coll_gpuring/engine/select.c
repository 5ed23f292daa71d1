/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"
#include "mca/coll_gpuring/params.h"

/*
 * What decides, in bytes:
 *  hop    what can be copied in the time of one hop more. Measured on the host device (2 and 4
 *         ranks of one machine); estimated for GPUs (about 1 us at 60 GB/s) and networks (about
 *         10 us at 6 GB/s), until measurements on such machines replace them.
 *  direct it loads n vectors in few blocks: on GPUs not beyond this size
 *  ll     LL is best up to this size: it spares a round of counters, but doubles the bytes
 *  ll128  likewise LL128, after LL (0: never). Measured on the host device; on GPUs only the
 *         topology knows where it works.
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

/* What a further channel needs, in bytes: its block has 512 threads on a GPU, each of which wants
 * 64 bytes with Simple, else 8. */
static const uint64_t channel_bytes[GPURING_PROTOCOL_COUNT] = {[GPURING_PROTOCOL_SIMPLE] = 32768,
                                                               [GPURING_PROTOCOL_LL] = 4096,
                                                               [GPURING_PROTOCOL_LL128] = 5120};

#define HALF_FOLDED 4 /* half of a vector is folded in the time in which a 4th of it is copied */

#define TREE_RANKS 5 /* with fewer, a tree is no shallower than a ring is long */

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
        /* It has two connections and lanes for each other rank and stripe: only on request. */
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

/* What is asked for: bytes of the vector or of a block, and of all ranks' blocks together, by which
 * tuning files and the cost model go. */
struct request {
    enum gpuring_collective collective;
    uint64_t bytes, all;
    const struct gpuring_tuning_rule *rule;
    const struct gpuring_model_entry *model; /* NULL: not known */
};

/*
 * Is an algorithm better for a size than those before it, as far as known without parameter, tuning
 * file and cost model?
 *
 * Allreduce. Trees: about 2 log2 n hops, less than a ring's, while a hop costs more than a chunk of
 * V / n. Direct: one hop, n - 1 times the vector over each rank's links. Ring: 2 (n - 1) hops, 2 (n
 * - 1) / n times the vector. With two ranks of a node the bytes are the same, but directly each of
 * them folds the whole vector, on a ring half of it.
 *
 * The others: on a ring, a vector passes n - 2 ranks more than directly, and a block n / 2 on
 * average; but each rank sends it once, where the root of a direct exchange sends or receives it n
 * - 1 times. A tree has half of the allreduce's hops, as the ring has: fewer between nodes. Blocks
 * cost the same traffic either way, if all ranks reach each other equally well. Between nodes of r
 * ranks a ring takes each block out of a node once, a direct exchange r times.
 *
 * Reductions in order have no ring, but a chain, which moves about as many bytes. Their blocks, and
 * what has a root, go directly as far as that may be, for a chain carries them to its end and back.
 */
static bool heuristic_prefers(const struct gpuring_select_config *config,
                              enum gpuring_algorithm algorithm, const struct request *request)
{
    uint64_t n = (uint64_t) config->nranks, hop = limits_of(config)->hop;
    uint64_t direct = limits_of(config)->direct, nodes = (uint64_t) config->nnodes;
    bool ring = exists(config, request->collective, GPURING_ALGORITHM_RING);

    switch (algorithm) {
    case GPURING_ALGORITHM_RING:
        return true;
    case GPURING_ALGORITHM_TREE:
        return !ring || (n >= TREE_RANKS && request->bytes / n <= hop &&
                         (request->collective == GPURING_COLLECTIVE_ALLREDUCE ||
                          config->nnodes > 1 || n > GPURING_DIRECT_MAX_VECTOR_RANKS));
    case GPURING_ALGORITHM_DIRECT:
        if (gpuring_collective_has_blocks(request->collective)) {
            return !ring || nodes == n ||
                   request->all <= (nodes > 1 ? hop * nodes * nodes / (n - nodes) : direct);
        }
        if (request->collective == GPURING_COLLECTIVE_ALLREDUCE) {
            bool folds = n == 2 && nodes == 1 && ring && request->bytes > HALF_FOLDED * hop;

            return request->bytes <= direct && !folds &&
                   request->bytes / n * (n - 1) * (n - 2) <= (2 * (n - 1) - 1) * hop;
        }
        if (request->collective == GPURING_COLLECTIVE_REDUCE && !ring) {
            return request->bytes <= direct;
        }
        return n == 2 || request->bytes <= hop;
    case GPURING_ALGORITHM_TWO_SHOT:
    case GPURING_ALGORITHM_COUNT:
        break;
    }
    return false;
}

static struct request request_of(const struct gpuring_select_config *config,
                                 enum gpuring_collective collective, uint64_t bytes)
{
    uint64_t n = gpuring_collective_has_blocks(collective) ? (uint64_t) config->nranks : 1;
    struct request request = {.collective = collective, .bytes = bytes};

    if (__builtin_mul_overflow(bytes, n, &request.all)) {
        request.all = UINT64_MAX;
    }
    request.rule = gpuring_tuning_at(config->tuning, (int) collective, request.all);
    return request;
}

/* What the cost model says, if it is to be asked. */
static void ask_model(const struct gpuring_select_config *config, struct request *request)
{
    enum gpuring_collective collective = request->collective;
    int entry = 0;

    if (config->model.known &&
        (config->nnodes == 1 || (collective == GPURING_COLLECTIVE_ALLREDUCE && !config->in_order) ||
         !exists(config, collective, GPURING_ALGORITHM_DIRECT) ||
         !heuristic_prefers(config, GPURING_ALGORITHM_DIRECT, request))) {
        /* which between nodes knows no direct exchange, and no chain */
        while (entry < GPURING_MODEL_CHOICE_SIZES - 1 && (UINT64_C(1) << entry) < request->all) {
            entry++;
        }
        request->model = &config->model.entry[collective][entry];
    }
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

/* The algorithm or protocol that a rule names, -1: none. */
static int value_or_auto(int param)
{
    return param - 1; /* auto is 0; the others follow the core's order */
}

static enum gpuring_algorithm choose_algorithm(const struct gpuring_select_config *config,
                                               const struct request *request)
{
    const int wanted[] = {config->algorithm, value_or_auto(request->rule->algorithm),
                          request->model != NULL ? request->model->algorithm : -1};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (exists(config, request->collective, wanted[i])) {
            return (enum gpuring_algorithm) wanted[i];
        }
    }
    for (int i = GPURING_ALGORITHM_COUNT - 1; i >= 0; i--) {
        if (exists(config, request->collective, i) &&
            heuristic_prefers(config, (enum gpuring_algorithm) i, request)) {
            return (enum gpuring_algorithm) i;
        }
    }
    return GPURING_ALGORITHM_DIRECT; /* which there is where there is no ring */
}

/*
 * Ranks that take turns on a GPU, one at a time: each turn takes 146 us, whatever is to be done in
 * it, and a call needs several of each rank. The previous component needs none: copies do not wait.
 * Up to so many bytes of all ranks together it is faster; it folds slowly, on the host, and vectors
 * of allreduce take twice as many turns. Measured with 2, 4 and 8 ranks on an H200:
 * doc/results/gpu.md.
 */
static bool is_faster_than_turns(const struct gpuring_select_config *config,
                                 const struct request *request)
{
    bool folds = gpuring_collective_reduces(request->collective) &&
                 request->collective != GPURING_COLLECTIVE_ALLREDUCE;
    uint64_t further = folds ? 1 << 20 : 4 << 20; /* for each further rank on the GPU */

    return config->time_sliced_ranks > 1 &&
           request->all <= further * (uint64_t) (config->time_sliced_ranks - 1);
}

bool gpuring_select_delegates(const struct gpuring_select_config *config,
                              enum gpuring_collective collective, uint64_t bytes)
{
    bool direct = exists(config, collective, GPURING_ALGORITHM_DIRECT);
    struct request request;

    if (config->in_order && gpuring_collective_reduces(collective)) {
        return config->plans[collective] == 0; /* others have an order of their own */
    }
    if (config->algorithm == GPURING_SELECT_PREVIOUS || config->plans[collective] == 0) {
        return true;
    }
    if (exists(config, collective, config->algorithm)) {
        return false;
    }
    request = request_of(config, collective, bytes);
    if (request.rule->algorithm != GPURING_PARAM_ALGORITHM_AUTO) {
        ask_model(config, &request);
        return request.rule->algorithm == GPURING_PARAM_ALGORITHM_PREVIOUS &&
               !has_protocol(config, choose_algorithm(config, &request), config->protocol);
    }
    if (is_faster_than_turns(config, &request)) {
        return true;
    }
    /* Where only rings are to be had, all data passes many ranks; on the host, trees are no faster
     * than those of others. */
    return collective != GPURING_COLLECTIVE_ALLREDUCE && !direct &&
           (config->host || !exists(config, collective, GPURING_ALGORITHM_TREE)) &&
           bytes < limits_of(config)->hop;
}

static enum gpuring_protocol choose_protocol(const struct gpuring_select_config *config,
                                             enum gpuring_algorithm algorithm,
                                             const struct request *request)
{
    const struct limits *limits = limits_of(config);
    bool modelled = request->model != NULL && request->model->protocol >= 0 && !config->host;
    const int wanted[] = {config->protocol, value_or_auto(request->rule->protocol),
                          modelled ? request->model->protocol : -1};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (has_protocol(config, algorithm, wanted[i])) {
            return (enum gpuring_protocol) wanted[i];
        }
    }
    if (!modelled && request->bytes <= limits->ll &&
        has_protocol(config, algorithm, GPURING_PROTOCOL_LL)) {
        return GPURING_PROTOCOL_LL;
    }
    if (!modelled && request->bytes <= limits->ll128 &&
        has_protocol(config, algorithm, GPURING_PROTOCOL_LL128)) {
        return GPURING_PROTOCOL_LL128;
    }
    return GPURING_PROTOCOL_SIMPLE;
}

/* As many channels as the cost model wants for what it has chosen, else as the vector fills; lanes
 * of the host cost nothing while they are empty. */
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
    return config->host || filled >= all ? all : filled > 0 ? (uint32_t) filled : 1;
}

/* Do chunks of Simple have slices? In ordinary memory these pay between two ranks of a node: one
 * reads a slice while the other writes the next. In an exchange both have work all the time, so
 * what fits a slot goes as a whole: a vector or block, or a rank's part of a vector on a ring. */
static bool has_slices(const struct gpuring_select_config *config,
                       enum gpuring_collective collective, enum gpuring_algorithm algorithm,
                       uint64_t bytes, uint64_t slot)
{
    static const bool one_way[GPURING_COLLECTIVE_COUNT] = {
        [GPURING_COLLECTIVE_BCAST] = true,
        [GPURING_COLLECTIVE_REDUCE] = true,
        [GPURING_COLLECTIVE_GATHER] = true,
        [GPURING_COLLECTIVE_SCATTER] = true,
    };

    if (collective == GPURING_COLLECTIVE_ALLREDUCE && algorithm != GPURING_ALGORITHM_DIRECT) {
        bytes /= (uint64_t) config->nranks;
    }
    return !config->host ||
           (config->nranks == 2 && config->nnodes == 1 && (one_way[collective] || bytes > slot));
}

/* A call's request, with what the cost model says. */
static struct request ask(const struct gpuring_select_config *config,
                          enum gpuring_collective collective, uint64_t bytes)
{
    struct request request = request_of(config, collective, bytes);

    ask_model(config, &request);
    return request;
}

enum gpuring_algorithm gpuring_select_algorithm(const struct gpuring_select_config *config,
                                                enum gpuring_collective collective, uint64_t bytes)
{
    struct request request = ask(config, collective, bytes);

    return choose_algorithm(config, &request);
}

void gpuring_select(const struct gpuring_select_config *config, enum gpuring_collective collective,
                    uint64_t count, uint32_t type_size, struct gpuring_selection *choice)
{
    uint64_t bytes = count != GPURING_COUNT_UNKNOWN ? count * type_size : GPURING_COUNT_UNKNOWN;
    struct request request = ask(config, collective, bytes);
    uint64_t align = gpuring_chunk_align(type_size);
    uint64_t limit;

    choice->algorithm = choose_algorithm(config, &request);
    choice->protocol = choose_protocol(config, choice->algorithm, &request);
    choice->channels = choose_channels(config, choice, &request);
    choice->chunk = gpuring_chunk_max(
        choice->protocol, config->slot_bytes[choice->algorithm][choice->protocol], type_size);
    choice->slice = 0;
    if (choice->protocol == GPURING_PROTOCOL_SIMPLE &&
        has_slices(config, collective, choice->algorithm, bytes, choice->chunk * type_size)) {
        choice->slice = choice->chunk;
        choice->chunk *= GPURING_SLICES;
    }
    limit = config->chunk_bytes / type_size / align * align;
    if (config->chunk_bytes > 0 && limit < choice->chunk) {
        choice->chunk = limit > 0 ? limit : align;
    }
}
