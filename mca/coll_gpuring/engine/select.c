/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/select.h"

#include "kernels/work.h"

/*
 * What decides, in bytes:
 *  hop    what can be copied in the time of one hop more. Measured on the host device (2 and 4
 *         ranks of one machine); estimated for GPUs (about 1 us at 60 GB/s) and networks (about
 *         10 us at 6 GB/s), until measurements on such machines replace them.
 *  ll     LL is best up to this size: it spares a round of counters, but doubles the bytes
 *  ll128  likewise LL128, after LL (0: never). Measured on the host device; on GPUs it needs
 *         128-byte stores that stay whole, which only the topology knows: asked for by parameter.
 */
struct limits {
    uint64_t hop, ll, ll128;
};
static const struct limits host_limits = {.hop = 16 << 10, .ll = 64, .ll128 = 512};
static const struct limits gpu_limits = {.hop = 64 << 10, .ll = 32 << 10, .ll128 = 0};
static const struct limits net_limits = {.hop = 64 << 10, .ll = 0, .ll128 = 0};

#define TREE_RANKS 5 /* with fewer, a tree is no shallower than a ring is long */

static const struct limits *limits_of(const struct gpuring_select_config *config)
{
    return config->nnodes > 1 ? &net_limits : config->host ? &host_limits : &gpu_limits;
}

/*
 * Direct: one hop, n - 1 times the vector over each rank's links. Ring: 2 (n - 1) hops, 2 (n - 1) /
 * n times the vector. With two ranks the bytes are the same.
 */
static bool direct_wins(const struct gpuring_select_config *config, uint64_t bytes)
{
    uint64_t n = (uint64_t) config->nranks;
    uint64_t spared = 2 * (n - 1) - 1;

    return bytes / n * (n - 1) * (n - 2) <= spared * limits_of(config)->hop;
}

/* Trees: about 2 log2 n hops, less than a ring's, while a hop costs more than a chunk of V / n. */
static bool tree_wins(const struct gpuring_select_config *config, uint64_t bytes)
{
    uint64_t n = (uint64_t) config->nranks;

    return config->nranks >= TREE_RANKS && bytes / n <= limits_of(config)->hop;
}

static bool offered(const struct gpuring_select_config *config, int algorithm)
{
    return algorithm >= 0 && algorithm < GPURING_ALGORITHM_COUNT && config->offered[algorithm];
}

/* The entry of the advice for a size. */
static int advice_entry(uint64_t bytes)
{
    int i = 0;

    while (i < GPURING_MODEL_CHOICE_SIZES - 1 && (UINT64_C(1) << i) < bytes) {
        i++;
    }
    return i;
}

static bool has_protocol(const struct gpuring_select_config *config, int protocol)
{
    return protocol >= 0 && protocol < GPURING_PROTOCOL_COUNT && config->slot_bytes[protocol] > 0;
}

/* What the tuning file says of a size. */
static struct gpuring_tuned_range tuned(const struct gpuring_select_config *config, uint64_t bytes)
{
    static const struct gpuring_tuned_range nothing = {.algorithm = -1, .protocol = -1};

    return config->tuned != NULL ? *gpuring_tuned_at(config->tuned, bytes) : nothing;
}

static bool model_chooses(const struct gpuring_model_choice *advice,
                          enum gpuring_algorithm algorithm)
{
    for (int i = 0; advice != NULL && advice->predicted && i < GPURING_MODEL_CHOICE_SIZES; i++) {
        if (advice->algorithm[i] == (int) algorithm) {
            return true;
        }
    }
    return false;
}

bool gpuring_select_eligible(enum gpuring_algorithm algorithm, int nranks, int nnodes, int asked,
                             const struct gpuring_model_choice *advice)
{
    switch (algorithm) {
    case GPURING_ALGORITHM_DIRECT:
        return nranks <= GPURING_SELECT_DIRECT_RANKS;
    case GPURING_ALGORITHM_TWO_SHOT:
        return nranks <= GPURING_SELECT_DIRECT_RANKS && nnodes == 1 &&
               (asked == (int) algorithm || model_chooses(advice, algorithm));
    default:
        return true;
    }
}

bool gpuring_select_previous(const struct gpuring_select_config *config, uint64_t bytes)
{
    if (config->algorithm == GPURING_SELECT_PREVIOUS) {
        return true;
    }
    return config->tuned != NULL && gpuring_tuned_at(config->tuned, bytes)->previous &&
           !offered(config, config->algorithm) && !has_protocol(config, config->protocol);
}

static enum gpuring_algorithm choose_algorithm(const struct gpuring_select_config *config,
                                               uint64_t bytes)
{
    struct gpuring_tuned_range rule = tuned(config, bytes);

    if (offered(config, config->algorithm)) {
        return (enum gpuring_algorithm) config->algorithm;
    }
    if (offered(config, rule.algorithm)) {
        return (enum gpuring_algorithm) rule.algorithm;
    }
    if (config->advised && offered(config, config->advice_algorithm[advice_entry(bytes)])) {
        return (enum gpuring_algorithm) config->advice_algorithm[advice_entry(bytes)];
    }
    if (config->offered[GPURING_ALGORITHM_DIRECT] && direct_wins(config, bytes)) {
        return GPURING_ALGORITHM_DIRECT;
    }
    if (config->offered[GPURING_ALGORITHM_TREE] && tree_wins(config, bytes)) {
        return GPURING_ALGORITHM_TREE;
    }
    for (int algorithm = 0; algorithm < GPURING_ALGORITHM_COUNT; algorithm++) {
        if (config->offered[algorithm]) {
            return (enum gpuring_algorithm) algorithm; /* the ring is the first */
        }
    }
    return GPURING_ALGORITHM_RING;
}

static enum gpuring_protocol choose_protocol(const struct gpuring_select_config *config,
                                             uint64_t bytes)
{
    const struct limits *limits = limits_of(config);
    struct gpuring_tuned_range rule = tuned(config, bytes);

    if (has_protocol(config, config->protocol)) {
        return (enum gpuring_protocol) config->protocol;
    }
    if (has_protocol(config, rule.protocol)) {
        return (enum gpuring_protocol) rule.protocol;
    }
    if (config->advised && !config->host) {
        int advised = config->advice_protocol[advice_entry(bytes)];

        return config->slot_bytes[advised] > 0 ? (enum gpuring_protocol) advised
                                               : GPURING_PROTOCOL_SIMPLE;
    }
    if (bytes <= limits->ll && config->slot_bytes[GPURING_PROTOCOL_LL] > 0) {
        return GPURING_PROTOCOL_LL;
    }
    if (bytes <= limits->ll128 && config->slot_bytes[GPURING_PROTOCOL_LL128] > 0) {
        return GPURING_PROTOCOL_LL128;
    }
    return GPURING_PROTOCOL_SIMPLE;
}

void gpuring_select(const struct gpuring_select_config *config, uint64_t count, uint32_t type_size,
                    struct gpuring_selection *choice)
{
    uint64_t bytes = count * type_size;
    uint64_t align = gpuring_chunk_align(type_size);
    uint64_t limit;

    choice->algorithm = choose_algorithm(config, bytes);
    choice->protocol = choose_protocol(config, bytes);
    choice->chunk =
        gpuring_chunk_max(choice->protocol, config->slot_bytes[choice->protocol], type_size);
    limit = config->chunk_bytes / type_size / align * align;
    if (config->chunk_bytes > 0 && limit < choice->chunk) {
        choice->chunk = limit > 0 ? limit : align;
    }
}
