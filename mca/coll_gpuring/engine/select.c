/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"

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
    .hop = 16 << 10, .direct = UINT64_MAX, .ll = 64, .ll128 = 512};
static const struct limits gpu_limits = {
    .hop = 64 << 10, .direct = 256 << 10, .ll = 32 << 10, .ll128 = 0};
static const struct limits net_limits = {
    .hop = 64 << 10, .direct = UINT64_MAX, .ll = 0, .ll128 = 0};

/* What a further channel needs, in bytes: its block has 512 threads on a GPU, each of which wants
 * 64 bytes with Simple, else 8. */
static const uint64_t channel_bytes[GPURING_PROTOCOL_COUNT] = {[GPURING_PROTOCOL_SIMPLE] = 32768,
                                                               [GPURING_PROTOCOL_LL] = 4096,
                                                               [GPURING_PROTOCOL_LL128] = 5120};

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
        return nranks <= GPURING_SELECT_DIRECT_RANKS;
    case GPURING_ALGORITHM_TWO_SHOT:
        /* It has two connections and lanes for each other rank and stripe: only on request. */
        return (wanted & 1u << algorithm) != 0 && nnodes == 1 &&
               nranks <= GPURING_SELECT_DIRECT_RANKS;
    case GPURING_ALGORITHM_RING:
    case GPURING_ALGORITHM_TREE:
    case GPURING_ALGORITHM_COUNT:
        break;
    }
    return true;
}

/*
 * Is an algorithm better for a size than those before it, as far as known without parameter, tuning
 * file and cost model?
 *
 * Trees: about 2 log2 n hops, less than a ring's, while a hop costs more than a chunk of V / n.
 * Direct: one hop, n - 1 times the vector over each rank's links. Ring: 2 (n - 1) hops, 2 (n - 1) /
 * n times the vector. With two ranks the bytes are the same.
 */
static bool wins(const struct gpuring_select_config *config, enum gpuring_algorithm algorithm,
                 uint64_t bytes)
{
    uint64_t n = (uint64_t) config->nranks, hop = limits_of(config)->hop;

    switch (algorithm) {
    case GPURING_ALGORITHM_RING:
        return true;
    case GPURING_ALGORITHM_TREE:
        return n >= TREE_RANKS && bytes / n <= hop;
    case GPURING_ALGORITHM_DIRECT:
        return bytes <= limits_of(config)->direct &&
               bytes / n * (n - 1) * (n - 2) <= (2 * (n - 1) - 1) * hop;
    case GPURING_ALGORITHM_TWO_SHOT:
    case GPURING_ALGORITHM_COUNT:
        break;
    }
    return false;
}

static bool offered(const struct gpuring_select_config *config, int algorithm)
{
    return algorithm >= 0 && algorithm < GPURING_ALGORITHM_COUNT && config->offered[algorithm];
}

/* The entry of the cost model's choices for a size. */
static int model_entry(uint64_t bytes)
{
    int i = 0;

    while (i < GPURING_MODEL_CHOICE_SIZES - 1 && (UINT64_C(1) << i) < bytes) {
        i++;
    }
    return i;
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

static enum gpuring_algorithm choose_algorithm(const struct gpuring_select_config *config,
                                               uint64_t bytes)
{
    const struct gpuring_tuned_range *rule = gpuring_tuned_at(config->tuned, bytes);

    if (offered(config, config->algorithm)) {
        return (enum gpuring_algorithm) config->algorithm;
    }
    if (offered(config, rule->algorithm)) {
        return (enum gpuring_algorithm) rule->algorithm;
    }
    if (config->model.known && offered(config, config->model.algorithm[model_entry(bytes)])) {
        return (enum gpuring_algorithm) config->model.algorithm[model_entry(bytes)];
    }
    for (int i = GPURING_ALGORITHM_COUNT - 1; i > 0; i--) {
        if (config->offered[i] && wins(config, (enum gpuring_algorithm) i, bytes)) {
            return (enum gpuring_algorithm) i;
        }
    }
    return GPURING_ALGORITHM_RING; /* which always is there */
}

/*
 * The other collectives have at most a ring and a direct exchange to choose from. On a ring, a
 * vector passes n - 2 ranks more than directly, and a block n / 2 on average; but each rank sends
 * it once, where the root of a direct exchange sends or receives it n - 1 times. Blocks cost the
 * same traffic either way, if all ranks reach each other equally well.
 */
static enum gpuring_algorithm choose_other(const struct gpuring_select_config *config,
                                           enum gpuring_collective collective, uint64_t bytes)
{
    bool ring = config->others[collective] & 1u << GPURING_ALGORITHM_RING;
    bool direct = config->others[collective] & 1u << GPURING_ALGORITHM_DIRECT;
    bool asked = config->algorithm >= 0 && config->algorithm < GPURING_ALGORITHM_COUNT &&
                 config->others[collective] & 1u << config->algorithm;

    if (asked) {
        return (enum gpuring_algorithm) config->algorithm;
    }
    if (!ring || !direct) {
        return ring ? GPURING_ALGORITHM_RING : GPURING_ALGORITHM_DIRECT;
    }
    if (gpuring_collective_has_blocks(collective)) {
        return bytes * (uint64_t) config->nranks <= limits_of(config)->direct
                   ? GPURING_ALGORITHM_DIRECT
                   : GPURING_ALGORITHM_RING;
    }
    return config->nranks == 2 || bytes <= limits_of(config)->hop ? GPURING_ALGORITHM_DIRECT
                                                                  : GPURING_ALGORITHM_RING;
}

/* Is there a plan for a collective, and a hop of it worth its time? Where only rings are to be had,
 * all data passes many ranks. */
static bool serves(const struct gpuring_select_config *config, enum gpuring_collective collective,
                   uint64_t bytes)
{
    if (config->others[collective] & 1u << GPURING_ALGORITHM_DIRECT) {
        return true;
    }
    return config->others[collective] != 0 && bytes >= limits_of(config)->hop;
}

bool gpuring_select_delegates(const struct gpuring_select_config *config,
                              enum gpuring_collective collective, uint64_t bytes)
{
    if (config->algorithm == GPURING_SELECT_PREVIOUS) {
        return true;
    }
    if (collective != GPURING_COLLECTIVE_ALLREDUCE) {
        return !serves(config, collective, bytes);
    }
    return gpuring_tuned_at(config->tuned, bytes)->previous &&
           !offered(config, config->algorithm) &&
           !has_protocol(config, choose_algorithm(config, bytes), config->protocol);
}

static enum gpuring_protocol choose_protocol(const struct gpuring_select_config *config,
                                             enum gpuring_algorithm algorithm, uint64_t bytes)
{
    const struct limits *limits = limits_of(config);
    const struct gpuring_tuned_range *rule = gpuring_tuned_at(config->tuned, bytes);

    if (has_protocol(config, algorithm, config->protocol)) {
        return (enum gpuring_protocol) config->protocol;
    }
    if (has_protocol(config, algorithm, rule->protocol)) {
        return (enum gpuring_protocol) rule->protocol;
    }
    if (config->model.known && !config->host) {
        int protocol = config->model.protocol[model_entry(bytes)];

        return has_protocol(config, algorithm, protocol) ? (enum gpuring_protocol) protocol
                                                         : GPURING_PROTOCOL_SIMPLE;
    }
    if (bytes <= limits->ll && has_protocol(config, algorithm, GPURING_PROTOCOL_LL)) {
        return GPURING_PROTOCOL_LL;
    }
    if (bytes <= limits->ll128 && has_protocol(config, algorithm, GPURING_PROTOCOL_LL128)) {
        return GPURING_PROTOCOL_LL128;
    }
    return GPURING_PROTOCOL_SIMPLE;
}

/* As many channels as the cost model wants for what it has chosen, else as the vector fills; lanes
 * of the host cost nothing while they are empty. */
static uint32_t choose_channels(const struct gpuring_select_config *config,
                                const struct gpuring_selection *choice, uint64_t bytes)
{
    uint32_t all = config->channels[choice->algorithm];
    uint64_t filled = bytes / channel_bytes[choice->protocol];
    int entry = model_entry(bytes);

    if (config->model.known && config->model.channels[entry] > 0 &&
        (int) choice->algorithm == config->model.algorithm[entry] &&
        (int) choice->protocol == config->model.protocol[entry]) {
        filled = config->model.channels[entry];
    }
    if (filled < config->min_channels) {
        filled = config->min_channels;
    }
    return config->host || filled >= all ? all : filled > 0 ? (uint32_t) filled : 1;
}

void gpuring_select(const struct gpuring_select_config *config, enum gpuring_collective collective,
                    uint64_t count, uint32_t type_size, struct gpuring_selection *choice)
{
    bool known = count != GPURING_COUNT_UNKNOWN;
    uint64_t bytes = known ? count * type_size : 0;
    uint64_t align = gpuring_chunk_align(type_size);
    uint64_t limit;

    if (collective == GPURING_COLLECTIVE_ALLREDUCE) {
        choice->algorithm = choose_algorithm(config, bytes);
        choice->protocol = choose_protocol(config, choice->algorithm, bytes);
    } else {
        choice->algorithm = choose_other(config, collective, bytes);
        choice->protocol =
            known ? choose_protocol(config, choice->algorithm, bytes) : GPURING_PROTOCOL_SIMPLE;
    }
    choice->channels =
        known ? choose_channels(config, choice, bytes) : config->channels[choice->algorithm];
    choice->chunk = gpuring_chunk_max(
        choice->protocol, config->slot_bytes[choice->algorithm][choice->protocol], type_size);
    choice->slice = 0;
    if (!config->host && choice->protocol == GPURING_PROTOCOL_SIMPLE) {
        choice->slice = choice->chunk;
        choice->chunk *= GPURING_SLICES;
    }
    limit = config->chunk_bytes / type_size / align * align;
    if (config->chunk_bytes > 0 && limit < choice->chunk) {
        choice->chunk = limit > 0 ? limit : align;
    }
}
