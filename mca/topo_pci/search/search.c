/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Select classes of paths, pairs of NICs, and the number and speed of channels. */
#include "mca/topo_pci/search/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_PACK   2000000u /* of one choice of classes */
#define STEPS_LEAST  100000u  /* of one choice when the search has used all of its steps */
#define GAIN_CLASS   1.02     /* farther paths must gain this much */
#define GAIN_PCI     1.25     /* leaving NVLink must gain this much */
#define GAIN_HOST    1.1      /* NICs that reach GPUs through a CPU must gain this much */
#define GAIN_SWAP    1.01     /* so must crossing NICs */
#define GAIN_TREE    1.005    /* and giving up the balanced tree */
#define LIKELY       0.98     /* fraction of a limit that a search is expected to reach */
#define PREFER_SLACK 0.05     /* what equal numbers of rings and trees may cost */
#define RATIO_MOST   2.0      /* a tree's speed inside a node is at most twice that between nodes */
#define RATIO_STEPS  3u

/* The best set so far. */
struct found {
    double value; /* channels x speed between nodes (on one node: speed) */
    double limit;
    double ratio;
    enum pci_pattern pattern;
    enum pci_path_class max_intra, max_inter;
    bool swap;
    struct layout layout;
};

struct hunt {
    const struct pci_search *search;
    struct problem problem;
    struct pack_scratch scratch;
    struct layout trial;
    struct found found;
    struct pci_arena arena;
};

static int hunt_init(struct hunt *hunt, const struct pci_fabric *fabric,
                     const struct pci_search *search)
{
    uint32_t n = fabric->ngpus;

    memset(hunt, 0, sizeof *hunt);
    hunt->search = search;
    pci_problem_init(&hunt->problem, fabric, &hunt->arena);
    pci_layout_init(&hunt->scratch.base, n, &hunt->arena);
    pci_layout_init(&hunt->scratch.work, n, &hunt->arena);
    pci_layout_init(&hunt->scratch.found, n, &hunt->arena);
    pci_layout_init(&hunt->trial, n, &hunt->arena);
    pci_layout_init(&hunt->found.layout, n, &hunt->arena);
    if (hunt->arena.failed) {
        pci_arena_free(&hunt->arena);
        return -ENOMEM;
    }
    hunt->problem.max_channels = search->max_channels > 0 ? search->max_channels : PCI_CHANNELS_MAX;
    return 0;
}

/* List the classes that occur among the ways, up to a farthest one. */
static uint32_t classes_of(const struct pci_way *ways, size_t count, enum pci_path_class max)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < count; i++) {
        if (ways[i].class <= max && ways[i].class < PCI_PATH_NET) {
            mask |= 1u << ways[i].class;
        }
    }
    return mask;
}

static bool usable_nets(const struct pci_fabric *fabric, const struct pci_search *search)
{
    size_t pairs = (size_t) fabric->ngpus * fabric->nnets;

    return search->nodes > 1 && classes_of(fabric->in, pairs, search->max_inter) != 0 &&
           classes_of(fabric->out, pairs, search->max_inter) != 0;
}

static double prefer_slack(const struct hunt *hunt)
{
    return hunt->search->prefer_channels == 0 ? 0 : PREFER_SLACK;
}

/* Pack channels once with the problem's settings, into hunt->trial. */
static double hunt_pack(struct hunt *hunt, double ratio, double need)
{
    struct problem *problem = &hunt->problem;
    uint64_t left =
        hunt->search->max_steps > problem->steps ? hunt->search->max_steps - problem->steps : 0;

    left = left > STEPS_LEAST ? left : STEPS_LEAST; /* only reached while nothing is found */

    problem->ratio = ratio;
    problem->need = need;
    problem->first_step = problem->steps;
    problem->max_steps = problem->steps + (left < STEPS_PACK ? left : STEPS_PACK);
    pci_problem_start(problem);
    return pack_search(problem, hunt->search->prefer_channels, prefer_slack(hunt), &hunt->trial,
                       &hunt->scratch);
}

static void hunt_keep(struct hunt *hunt, double value)
{
    const struct problem *problem = &hunt->problem;
    struct found *found = &hunt->found;

    found->value = value;
    found->limit = problem->limit;
    found->ratio = problem->ratio;
    found->pattern = problem->pattern;
    found->max_intra = problem->max_intra;
    found->max_inter = problem->max_inter;
    found->swap = problem->swap;
    pci_layout_copy(&found->layout, &hunt->trial, problem->fabric->ngpus);
}

/* Try one pattern within classes, and keep the result if it gains at least GAIN. */
static void hunt_try(struct hunt *hunt, enum pci_pattern pattern, bool swap, double gain)
{
    double need = hunt->found.value * gain, value;

    if (hunt->problem.steps >= hunt->search->max_steps && hunt->found.value > 0) {
        return;
    }
    hunt->problem.pattern = pattern;
    hunt->problem.swap = swap;
    value = hunt_pack(hunt, 1, need / LIKELY);
    if (value > need) {
        hunt_keep(hunt, value);
    }
}

static void hunt_classes(struct hunt *hunt, double gain)
{
    const struct pci_search *search = hunt->search;
    double before = hunt->found.value;

    hunt_try(hunt, search->pattern, false, gain);
    gain = hunt->found.value > before ? 1 : gain; /* later patterns compete with this one */
    if (search->pattern == PCI_PATTERN_BALANCED_TREE && hunt->problem.nets && !search->balanced) {
        hunt_try(hunt, PCI_PATTERN_TREE, false, gain > GAIN_TREE ? gain : GAIN_TREE);
    }
    if (search->pattern == PCI_PATTERN_RING && hunt->problem.nets && search->cross_nic &&
        hunt->problem.fabric->nnets > 1) {
        hunt_try(hunt, PCI_PATTERN_RING, true, gain > GAIN_SWAP ? gain : GAIN_SWAP);
    }
}

/* Return the gain that the farthest classes of the problem must bring. OVER_NVLINK: the best set so
 * far uses NVLink alone. */
static double gain_of(const struct hunt *hunt, bool over_nvlink)
{
    if (over_nvlink && hunt->problem.max_intra > PCI_PATH_C2C) {
        return GAIN_PCI;
    }
    return hunt->problem.max_inter >= PCI_PATH_PHB && hunt->found.max_inter < PCI_PATH_PHB
               ? GAIN_HOST
               : GAIN_CLASS;
}

/* Try classes from near to far. Far ones must gain bandwidth. */
static void hunt_all(struct hunt *hunt)
{
    const struct pci_fabric *fabric = hunt->problem.fabric;
    size_t n = fabric->ngpus, pairs = n * fabric->nnets;
    uint32_t intra = classes_of(fabric->gpus, n * n, hunt->search->max_intra);
    uint32_t inter = 1u << PCI_PATH_PIX;
    bool over_nvlink = false;

    if (hunt->problem.nets) {
        inter = classes_of(fabric->in, pairs, hunt->search->max_inter) |
                classes_of(fabric->out, pairs, hunt->search->max_inter);
    }
    if (n == 1) {
        intra = 1u << PCI_PATH_LOC;
    }
    for (; intra != 0; intra &= intra - 1) {
        hunt->problem.max_intra = (enum pci_path_class) __builtin_ctz(intra);
        for (uint32_t rest = inter; rest != 0; rest &= rest - 1) {
            hunt->problem.max_inter = (enum pci_path_class) __builtin_ctz(rest);
            hunt_classes(hunt, gain_of(hunt, over_nvlink));
        }
        over_nvlink = hunt->found.value > 0 && hunt->found.max_intra <= PCI_PATH_C2C;
    }
}

/* For trees between nodes, raise the speed inside the node as far as the speed between nodes
 * allows. */
static void hunt_ratio(struct hunt *hunt)
{
    struct problem *problem = &hunt->problem;
    double low = 1, high = RATIO_MOST, ratio = RATIO_MOST;
    double limit = hunt->found.limit;

    problem->pattern = hunt->found.pattern;
    problem->max_intra = hunt->found.max_intra;
    problem->max_inter = hunt->found.max_inter;
    problem->swap = false;
    for (uint32_t i = 0; i <= RATIO_STEPS && problem->steps < hunt->search->max_steps; i++) {
        double value = hunt_pack(hunt, ratio, hunt->found.value * (1 - 1e-9));

        if (value >= hunt->found.value * (1 - 1e-9)) {
            hunt_keep(hunt, value);
            low = ratio;
        } else {
            high = ratio;
        }
        if (high - low < 0.05) {
            break;
        }
        ratio = (low + high) / 2;
    }
    hunt->found.limit = limit;
}

/* Set the speeds of the channels. The speed inside a node uses the remaining capacity, up to
 * RATIO_MOST times the speed between nodes. */
static void speeds(struct hunt *hunt, double *intra, double *inter)
{
    struct problem *problem = &hunt->problem;
    const struct found *found = &hunt->found;
    uint32_t n = problem->fabric->ngpus;
    double *beside = problem->price; /* load between nodes; prices are over */
    double most;

    problem->pattern = found->pattern;
    problem->swap = found->swap;
    problem->max_intra = found->max_intra;
    problem->max_inter = found->max_inter;
    problem->ratio = 0;
    pci_problem_start(problem);
    *inter = *intra = found->value / found->layout.count;
    if (!problem->nets || found->pattern == PCI_PATTERN_RING) {
        return;
    }
    for (uint32_t c = 0; c < found->layout.count; c++) {
        pci_problem_load(problem, found->layout.intra + (size_t) c * n, found->layout.nets[c], 1);
    }
    memcpy(beside, problem->load, problem->fabric->nlinks * sizeof *beside);
    problem->ratio = 1;
    for (uint32_t c = 0; c < found->layout.count; c++) {
        pci_problem_load(problem, found->layout.intra + (size_t) c * n, found->layout.nets[c], 1);
    }
    most = RATIO_MOST * *inter;
    for (uint32_t i = 0; i < problem->nactive; i++) {
        uint32_t link = problem->active[i];
        double inside = problem->load[link] - 2 * beside[link];
        double left = problem->fabric->capacity[link] - beside[link] * *inter;

        if (inside > 1e-9 && left / inside < most) {
            most = left / inside;
        }
    }
    *intra = most > *inter ? most : *inter;
}

/* Return the maximum speed of one channel, which is that of one NVLink or one NIC of its
 * generation, because a thread block copies at about this speed. Faster channels are split. */
static double split_speed(const struct pci_fabric *fabric, bool nets)
{
    if (fabric->sm >= 100) {
        return 48;
    }
    return fabric->sm >= 90 ? 31 : nets ? 25 : 20;
}

static uint32_t split_factor(const struct hunt *hunt, double speed)
{
    uint32_t count = hunt->found.layout.count, most = hunt->problem.max_channels / count;
    uint32_t prefer = hunt->search->prefer_channels, min = hunt->search->min_channels;
    double wanted =
        ceil(speed / split_speed(hunt->problem.fabric, hunt->problem.nets) * (1 - 1e-6));
    uint32_t factor = wanted < most ? (uint32_t) wanted : most;

    if (prefer >= count && prefer % count == 0) {
        factor = prefer / count;
    }
    while (factor < most && factor * count < min) {
        factor++;
    }
    return factor == 0 ? 1 : factor < most ? factor : most;
}

static void describe_channels(const struct pci_fabric *fabric, struct pci_channels *channels,
                              bool nets)
{
    uint32_t n = channels->ngpus;
    struct pci_leg leg;

    channels->type_intra = PCI_PATH_LOC;
    channels->type_inter = nets ? PCI_PATH_LOC : channels->nodes > 1 ? PCI_PATH_SYS : PCI_PATH_PIX;
    channels->same_channels = true;
    for (uint32_t c = 0; c < channels->nchannels; c++) {
        const uint32_t *order = channels->intra + (size_t) c * n;

        if (memcmp(order, channels->intra, n * sizeof *order) != 0 ||
            memcmp(channels->nets[c], channels->nets[0], sizeof channels->nets[c]) != 0) {
            channels->same_channels = false;
        }
        for (uint32_t i = 0; pci_channel_leg(fabric, channels, c, i, &leg); i++) {
            enum pci_path_class *type = leg.inside ? &channels->type_intra : &channels->type_inter;

            *type = leg.way->class > *type ? leg.way->class : *type;
        }
    }
}

static int channels_alloc(struct pci_channels *channels)
{
    channels->intra =
        calloc((size_t) channels->nchannels * channels->ngpus + 1, sizeof *channels->intra);
    channels->nets = calloc((size_t) channels->nchannels + 1, sizeof *channels->nets);
    if (channels->intra == NULL || channels->nets == NULL) {
        pci_channels_fini(channels);
        return -ENOMEM;
    }
    return 0;
}

/* Use the GPUs in their order if no channel was found. */
static int deliver_fallback(const struct hunt *hunt, struct pci_channels *channels)
{
    uint32_t n = channels->ngpus;
    int rc;

    channels->nchannels = 1;
    channels->pattern = hunt->search->pattern;
    channels->bw_intra = n == 1 ? PCI_CHANNELS_BW_ONE : PCI_CHANNELS_BW_UNREACHABLE;
    channels->bw_inter = channels->bw_intra;
    rc = channels_alloc(channels);
    if (rc != 0) {
        return rc;
    }
    for (uint32_t i = 0; i < n; i++) {
        channels->intra[i] = i;
    }
    channels->nets[0][0] = channels->nets[0][1] = PCI_NO_NET;
    return 0;
}

static int deliver_channels(struct hunt *hunt, struct pci_channels *channels)
{
    const struct found *found = &hunt->found;
    uint32_t n = channels->ngpus, factor;
    int rc;

    if (found->layout.count == 0) {
        return deliver_fallback(hunt, channels);
    }
    speeds(hunt, &channels->bw_intra, &channels->bw_inter);
    factor = split_factor(hunt, channels->bw_inter);
    channels->pattern = found->pattern;
    channels->nchannels = factor * found->layout.count;
    channels->bw_intra /= factor;
    channels->bw_inter /= factor;
    channels->cross_nic = found->swap ? 2 : 0;
    channels->limit = found->limit < INFINITY ? found->limit : 0;
    rc = channels_alloc(channels);
    for (uint32_t k = 0; rc == 0 && k < factor; k++) {
        size_t at = (size_t) k * found->layout.count;

        memcpy(channels->intra + at * n, found->layout.intra,
               (size_t) found->layout.count * n * sizeof *channels->intra);
        memcpy(channels->nets + at, found->layout.nets,
               found->layout.count * sizeof *channels->nets);
    }
    return rc;
}

static bool valid(const struct pci_search *search)
{
    return (search->pattern == PCI_PATTERN_RING || search->pattern == PCI_PATTERN_BALANCED_TREE) &&
           search->nodes > 0 && search->min_channels <= PCI_CHANNELS_MAX &&
           search->max_channels <= PCI_CHANNELS_MAX && search->max_intra < PCI_PATH_NET &&
           search->max_inter < PCI_PATH_NET &&
           (search->max_channels == 0 || search->min_channels <= search->max_channels);
}

int pci_channels_search(const struct pci_fabric *fabric, const struct pci_search *search,
                        struct pci_channels *channels)
{
    struct pci_channels result = {.pattern = search->pattern,
                                  .ngpus = fabric->ngpus,
                                  .nodes = search->nodes,
                                  .type_inter = PCI_PATH_PIX};
    struct hunt hunt;
    int rc;

    if (!valid(search)) {
        return -EINVAL;
    }
    if (fabric->ngpus == 0) {
        *channels = result;
        return 0;
    }
    rc = hunt_init(&hunt, fabric, search);
    if (rc != 0) {
        return rc;
    }
    hunt.problem.nets = usable_nets(fabric, search);
    if (fabric->ngpus > 1 || hunt.problem.nets) {
        hunt_all(&hunt);
    }
    if (hunt.problem.nets && hunt.found.layout.count == 0 && fabric->ngpus > 1) {
        hunt.problem.nets = false; /* no NIC can be used: at least the node itself is fast */
        hunt_all(&hunt);
    }
    if (hunt.problem.nets && search->pattern != PCI_PATTERN_RING && hunt.found.value > 0 &&
        fabric->ngpus > 1) {
        hunt_ratio(&hunt);
    }
    rc = deliver_channels(&hunt, &result);
    if (rc == 0) {
        describe_channels(fabric, &result, hunt.problem.nets && hunt.found.layout.count != 0);
        if (pci_channels_no_nic(&result)) {
            result.bw_inter = fmin(result.bw_inter, PCI_CHANNELS_BW_NO_NIC / result.nchannels);
        }
        result.steps = hunt.problem.steps;
        *channels = result;
    }
    pci_arena_free(&hunt.arena);
    return rc;
}
