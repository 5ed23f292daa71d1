/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Model of our executor's time on the GPUs of one node; doc/cost-model.md has the formula. The
 * lanes of a plan are thread blocks that execute the same steps in parallel, so the model considers
 * the steps of one lane, and the bytes of all lanes on the links and in memory.
 */
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/predict/predict.h"

#include <math.h>
#include <string.h>

#define STEP_KINDS 5
#define SLOT_UNIT  128u /* bytes */

/* Steps of one kind in a window. */
struct step {
    double times;
    double operands, sends, stores; /* of each chunk */
    double hops;  /* number of these steps that wait for data that a peer has just stored */
    double peers; /* 0: one chunk; otherwise chunks that groups of threads move simultaneously */
};

struct shape { /* of a plan */
    struct step step[STEP_KINDS];
    unsigned nsteps;
    double lanes, lane_bytes;
    double chunks; /* of a window */
    double fill;   /* steps of other ranks before the last rank has its first chunk */
    double links;  /* bytes that leave each GPU for each byte of the vector */
    double gbps;   /* of these links */
    double beside; /* bytes that other lanes load and store for each byte of the vector */
};

struct scene { /* the figures of a call */
    const double *gpu, *way, *executor;
    enum pci_protocol protocol;
    double slot;    /* bytes of data in a slot, or in a slice if chunks have slices */
    double slices;  /* maximum number of slices of a chunk */
    double remote;  /* us that a load takes longer if it is from another rank's buffer */
    double signals; /* us of steps that only exchange counters */
    bool once;      /* the lane uses each connection once */
};

static enum pci_capability capability_of(int sm)
{
#define CAPABILITY(id, file, meaning) id,
    static const int from[] = {PCI_CAPABILITIES(CAPABILITY)};
#undef CAPABILITY
    int c = 0;

    while (c + 1 < PCI_CAPABILITY_COUNT && from[c + 1] <= sm) {
        c++;
    }
    return (enum pci_capability) c;
}

static enum pci_capability job_capability(const struct pci_job *job)
{
    static const int lowest[PCI_GENERATION_COUNT] = {70, 80, 90, 100};

    return capability_of(job->sm > 0 ? job->sm : lowest[job->generation]);
}

static double job_sharing(const struct pci_job *job)
{
    return job->sharing > 1 ? job->sharing : 1;
}

uint32_t pci_sms(const struct pci_costs *costs, int sm)
{
    return (uint32_t) costs->gpu[capability_of(sm)][PCI_GPU_SMS];
}

bool pci_block_models(const struct pci_costs *costs, const struct pci_job *job)
{
    return job->nodes == 1 && costs->gpu[job_capability(job)][PCI_GPU_LOAD] > 0;
}

bool pci_block_offers(const struct pci_job *job, enum pci_algorithm algorithm)
{
    bool ring = job->collective == PCI_COLLECTIVE_BCAST ||
                job->collective == PCI_COLLECTIVE_REDUCE ||
                job->collective == PCI_COLLECTIVE_ALLGATHER ||
                job->collective == PCI_COLLECTIVE_REDUCE_SCATTER;

    return job->collective == PCI_COLLECTIVE_ALLREDUCE || algorithm == PCI_ALGORITHM_DIRECT ||
           (ring && algorithm == PCI_ALGORITHM_RING);
}

static void add(struct shape *shape, double times, double operands, double sends, double stores,
                double hops)
{
    if (times > 0) {
        shape->step[shape->nsteps++] = (struct step){times, operands, sends, stores, hops, 0};
    }
}

/* Add a step that exchanges a chunk with each peer. */
static void add_each(struct shape *shape, double peers, double sends)
{
    if (peers > 0) {
        shape->step[shape->nsteps++] = (struct step){1, 1, sends, 1 - sends, 1 - sends, peers};
    }
}

/* Describe rings. For bcast and reduce, this is a chain, a ring without its last hop. */
static void ring_shape(const struct pci_job *job, double bytes, struct shape *shape)
{
    double n = job->ranks, part = (n - 1) / n;
    bool folds = job->collective != PCI_COLLECTIVE_ALLGATHER;
    bool gathers = job->collective != PCI_COLLECTIVE_REDUCE_SCATTER;

    shape->lane_bytes = bytes / shape->lanes;
    shape->gbps = job->ring.channels * job->ring.bw_intra;
    if (job->collective == PCI_COLLECTIVE_BCAST || job->collective == PCI_COLLECTIVE_REDUCE) {
        folds = job->collective == PCI_COLLECTIVE_REDUCE;
        add(shape, 1, folds ? 2 : 1, 1, !folds, 1);
        shape->chunks = 1;
        shape->fill = n - 2;
        shape->links = 1;
        return;
    }
    shape->chunks = n;
    shape->links = (folds ? part : 0) + (gathers ? part : 0);
    add(shape, 1, 1, 1, !folds, 0);
    add(shape, folds ? n - 2 : 0, 2, 1, 0, n - 2);
    add(shape, folds, 2, gathers, 1, 1);
    add(shape, gathers ? n - 2 : 0, 1, 1, 1, n - 2);
    add(shape, gathers, 1, 0, 1, 1);
}

/* Describe two trees per channel, with two lanes per tree. Inside a node, trees are chains. */
static void tree_shape(const struct pci_job *job, double bytes, struct shape *shape)
{
    shape->lanes *= 2;
    shape->lane_bytes = bytes / shape->lanes;
    shape->gbps = job->tree.channels * job->tree.bw_intra;
    shape->chunks = 1;
    shape->fill = 2 * (job->ranks - 1.0) - 1;
    shape->links = 2;
    shape->beside = 3;
    add(shape, 1, 2, 1, 0, 1);
}

/* Set the bytes that leave a GPU if each of its ranks sends `to_each` to each other rank. */
static void direct_links(const struct pci_job *job, double to_each, struct shape *shape)
{
    double sharing = job_sharing(job), gpus = job->ranks / sharing;

    shape->links = to_each * sharing * (job->ranks - sharing);
    shape->gbps = job->direct.algbw * (gpus - 1);
}

/* Maximum number of connections per direction for a rank's stripes of direct, and of two-shot. The
 * memory of two-shot does not grow beyond that of direct, because its slots become smaller. */
#define DIRECT_CONNECTIONS   56u
#define TWO_SHOT_CONNECTIONS 140u

static uint32_t limit_stripes(uint32_t most, uint32_t channels)
{
    most = most < channels ? most : channels;
    return most > 0 ? most : 1;
}

uint32_t pci_direct_stripes(uint32_t ranks, uint32_t channels)
{
    return limit_stripes(DIRECT_CONNECTIONS / (ranks - 1), channels);
}

uint32_t pci_two_shot_stripes(uint32_t ranks, uint32_t channels)
{
    return limit_stripes(TWO_SHOT_CONNECTIONS / (ranks - 1), channels);
}

uint64_t pci_two_shot_slot(uint32_t connections, uint64_t bytes)
{
    return connections <= DIRECT_CONNECTIONS
               ? bytes
               : bytes * DIRECT_CONNECTIONS / connections / SLOT_UNIT * SLOT_UNIT;
}

uint32_t pci_direct_lanes(uint32_t ranks, uint32_t channels)
{
    uint32_t stripes = pci_direct_stripes(ranks, channels);
    uint32_t lanes = (channels + stripes - 1) / stripes;

    lanes = lanes < ranks - 1 ? lanes : ranks - 1;
    return lanes > 0 ? lanes : 1;
}

/* Describe direct exchanges; for a collective with a root, the root's lane and links. */
static void direct_shape(const struct pci_job *job, double bytes, struct shape *shape)
{
    double n = job->ranks, lanes = pci_direct_lanes(job->ranks, job->channels);
    double peers = ceil((n - 1) / lanes); /* of a lane */
    bool vectors = false;

    shape->chunks = 1;
    shape->lane_bytes = bytes / shape->lanes;
    switch (job->collective) {
    case PCI_COLLECTIVE_ALLREDUCE:
    case PCI_COLLECTIVE_SCAN:
    case PCI_COLLECTIVE_EXSCAN:
        vectors = true;
        add(shape, 1, 1, n - 1, 0, 0);
        add(shape, 1, n, 0, 1, 1);
        break;
    case PCI_COLLECTIVE_BCAST:
    case PCI_COLLECTIVE_REDUCE:
        vectors = true;
        shape->fill = 1;
        add(shape, job->collective == PCI_COLLECTIVE_BCAST, 1, n - 1, 0, 0);
        add(shape, job->collective == PCI_COLLECTIVE_REDUCE, n, 0, 1, 1);
        break;
    case PCI_COLLECTIVE_ALLGATHER:
        shape->lanes *= lanes;
        add(shape, 1, 1, n - 1, 1, 0);
        add_each(shape, peers, 0);
        break;
    case PCI_COLLECTIVE_REDUCE_SCATTER:
        add_each(shape, n - 1, 1);
        add(shape, 1, n, 0, 1, 1);
        break;
    default: /* alltoall sends and receives, scatter sends, gather receives */
        shape->lanes *= lanes;
        shape->fill = job->collective != PCI_COLLECTIVE_ALLTOALL;
        add_each(shape, job->collective != PCI_COLLECTIVE_GATHER ? peers : 0, 1);
        add(shape, 1, 1, 0, 1, 0);
        add_each(shape, job->collective != PCI_COLLECTIVE_SCATTER ? peers : 0, 0);
        break;
    }
    shape->lane_bytes /= vectors ? 1 : n;
    direct_links(job, vectors ? 1 : 1 / n, shape);
}

static void two_shot_shape(const struct pci_job *job, double bytes, struct shape *shape)
{
    double n = job->ranks;

    shape->chunks = n;
    shape->lane_bytes = bytes / shape->lanes;
    direct_links(job, 2 / n, shape);
    add_each(shape, n - 1, 1);
    add(shape, 1, n, n - 1, 1, 1);
    add_each(shape, n - 1, 0);
}

static struct shape shape_of(const struct pci_job *job, enum pci_algorithm algorithm, double lanes,
                             double bytes)
{
    static void (*const fill[PCI_ALGORITHM_COUNT])(const struct pci_job *, double,
                                                   struct shape *) = {ring_shape, tree_shape,
                                                                      direct_shape, two_shot_shape};
    struct shape shape = {.nsteps = 0, .lanes = lanes};

    fill[algorithm](job, bytes, &shape);
    return shape;
}

/* Return the waiting time of a step, without the latency from the peer. */
static double step_wait(const struct scene *scene, const struct step *step)
{
    const double *executor = scene->executor;

    return executor[PCI_EXECUTOR_STEP] * scene->gpu[PCI_GPU_BARRIER] +
           executor[scene->once ? PCI_EXECUTOR_ONCE : PCI_EXECUTOR_WORK] +
           (step->peers > 0 ? executor[PCI_EXECUTOR_EACH] : 0) +
           executor[PCI_EXECUTOR_ITEM] * (step->operands + step->sends + step->stores) +
           (step->hops > 0 ? executor[PCI_EXECUTOR_POLLS] * scene->gpu[PCI_GPU_L2]
                           : executor[PCI_EXECUTOR_FILL]) +
           (step->sends > 0 ? executor[PCI_EXECUTOR_POST] +
                                  executor[PCI_EXECUTOR_FENCES] * scene->way[PCI_WAY_FENCE]
                            : 0);
}

static double step_move(const struct scene *scene, const struct step *step, double chunk)
{
    const double *executor = scene->executor;
    double bytes = chunk * fmax(1, step->peers);
    bool wide = step->operands > 2;
    double batches = fmax(1, bytes / executor[wide ? PCI_EXECUTOR_NARROW : PCI_EXECUTOR_BATCH]);
    bool lines = step->hops > 0 && scene->protocol != PCI_PROTOCOL_SIMPLE;
    double load = scene->gpu[lines ? PCI_GPU_L2 : PCI_GPU_LOAD] + scene->remote;
    double round =
        ceil(step->operands / executor[wide ? PCI_EXECUTOR_WIDE : PCI_EXECUTOR_OPERANDS]) * load;

    double loads = batches * (round + executor[PCI_EXECUTOR_ROUND] * scene->gpu[PCI_GPU_BARRIER]);
    double port = bytes * executor[PCI_EXECUTOR_EXPAND] *
                  (step->operands + step->sends + step->stores) /
                  (scene->gpu[PCI_GPU_PORT] * PCI_BYTES_PER_US);

    return executor[PCI_EXECUTOR_AHEAD] > 0 ? fmax(loads, round + port) : loads + port;
}

/* Return the number of rings, of channels with two trees, or of stripes in a node's plan. */
static uint32_t most_channels(const struct pci_job *job, enum pci_algorithm algorithm)
{
    uint32_t channels = job->channels > 0 ? job->channels : 1;

    if (algorithm == PCI_ALGORITHM_TREE) {
        channels /= 4; /* a channel of trees has up to four lanes */
        return channels > job->tree.channels ? channels : job->tree.channels;
    }
    return algorithm == PCI_ALGORITHM_RING     ? channels
           : algorithm == PCI_ALGORITHM_DIRECT ? pci_direct_stripes(job->ranks, channels)
                                               : pci_two_shot_stripes(job->ranks, channels);
}

/* Return the bytes of a slot. Those of rings are the longest (engine/engine.c). */
static double slot_of(const struct pci_job *job, enum pci_algorithm algorithm,
                      enum pci_protocol protocol, const double *executor)
{
    double bytes = executor[PCI_EXECUTOR_CHUNK] / executor[PCI_EXECUTOR_SLICES];

    if (protocol == PCI_PROTOCOL_SIMPLE && algorithm != PCI_ALGORITHM_RING) {
        bytes /= algorithm == PCI_ALGORITHM_TREE ? 2 : 4;
    }
    return algorithm == PCI_ALGORITHM_TWO_SHOT
               ? (double) pci_two_shot_slot(most_channels(job, algorithm) * (job->ranks - 1),
                                            (uint64_t) bytes)
               : bytes;
}

static struct scene scene_of(const struct pci_costs *costs, const struct pci_job *job,
                             enum pci_algorithm algorithm, enum pci_protocol protocol)
{
    bool nvlink = algorithm == PCI_ALGORITHM_RING   ? job->ring.nvlink
                  : algorithm == PCI_ALGORITHM_TREE ? job->tree.nvlink
                                                    : job->direct.nvlink;
    enum pci_way_kind way = job_sharing(job) >= job->ranks ? PCI_WAY_LOCAL
                            : nvlink                       ? PCI_WAY_NVLINK
                                                           : PCI_WAY_PCI;

    return (struct scene){.gpu = costs->gpu[job_capability(job)],
                          .way = costs->way[way],
                          .executor = costs->executor[protocol],
                          .protocol = protocol,
                          .slot = slot_of(job, algorithm, protocol, costs->executor[protocol]),
                          .slices = costs->executor[protocol][PCI_EXECUTOR_SLICES],
                          .once = algorithm == PCI_ALGORITHM_DIRECT};
}

/* Let two-shot work on the buffers of all ranks. The steps before and after the one that folds only
 * exchange counters (exec_signal in kernels/overlap.h). */
static void map_buffers(struct scene *scene, struct shape *shape)
{
    const double *executor = scene->executor;

    shape->step[0] = shape->step[1]; /* the step that folds */
    shape->nsteps = 1;
    scene->slot = INFINITY;
    scene->slices = 1;
    scene->remote = 2 * scene->way[PCI_WAY_STORE]; /* to the peer and back */
    scene->signals =
        executor[PCI_EXECUTOR_SIGNAL] + executor[PCI_EXECUTOR_FENCES] * scene->way[PCI_WAY_FENCE] +
        scene->way[PCI_WAY_STORE] + executor[PCI_EXECUTOR_POLLS] * scene->gpu[PCI_GPU_L2] +
        scene->gpu[PCI_GPU_BARRIER];
}

/* Time of blocks in us: wait and move in the first window, and the time of each later window. */
struct sums {
    double wait, move, later;
    double touched; /* bytes of memory for each byte of a chunk */
};

/* Sum up the steps of a window. A rank's step begins with the first slice of the previous step. The
 * first window therefore takes the sum of the steps' waits and slices, or the time to move all data
 * if that is longer. */
static struct sums sums_of(const struct scene *scene, const struct shape *shape, double chunk)
{
    double slice = fmax(chunk / scene->slices, PCI_SLICE_LEAST);
    double slices = fmax(1, ceil(chunk / fmin(slice, scene->slot)));
    double first = 0;
    double store = scene->way[PCI_WAY_STORE];
    struct sums sums = {.wait = 0};

    for (unsigned s = 0; s < shape->nsteps; s++) {
        const struct step *step = &shape->step[s];
        double move = step_move(scene, step, chunk), wait = step_wait(scene, step);

        sums.wait += step->times * wait + step->hops * store;
        sums.later += slices > 1 ? step->times * fmax(move, slices * wait)
                                 : step->times * (wait + move) + step->hops * store;
        first += step->times * move / slices;
        sums.touched +=
            step->times * fmax(1, step->peers) * (step->operands + step->sends + step->stores);
    }
    sums.move = fmax(first, sums.later - sums.wait);
    /* Add the steps before the last rank begins, which are all alike. */
    sums.wait += shape->fill * (step_wait(scene, &shape->step[0]) + store);
    sums.move += shape->fill * step_move(scene, &shape->step[0], chunk) / slices;
    return sums;
}

static void data_part(const struct pci_job *job, const struct scene *scene,
                      const struct shape *shape, const struct sums *sums, double bytes,
                      struct pci_parts *parts)
{
    double expand = scene->executor[PCI_EXECUTOR_EXPAND];
    double links = shape->gbps > 0 ? bytes * expand * shape->links / shape->gbps : 0;
    double touched = shape->lanes * shape->lane_bytes / shape->chunks * sums->touched;
    double memory =
        (touched + bytes * shape->beside) * expand * job_sharing(job) / scene->gpu[PCI_GPU_MEMORY];

    parts->limit = "blocks";
    if (links / PCI_BYTES_PER_US > parts->us[PCI_PART_DATA]) {
        parts->us[PCI_PART_DATA] = links / PCI_BYTES_PER_US;
        parts->limit = "links";
    }
    if (memory / PCI_BYTES_PER_US > parts->us[PCI_PART_DATA]) {
        parts->us[PCI_PART_DATA] = memory / PCI_BYTES_PER_US;
        parts->limit = "memory";
    }
}

static void parts_of(const struct pci_costs *costs, const struct pci_job *job,
                     enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                     uint32_t channels, struct pci_parts *parts)
{
    struct scene scene = scene_of(costs, job, algorithm, protocol);
    struct shape shape = shape_of(job, algorithm, channels, (double) bytes);
    const double *gpu = scene.gpu, *call = costs->call;
    double chunk, windows; /* the last window may be shorter */
    struct sums sums;

    if (job->mapped && algorithm == PCI_ALGORITHM_TWO_SHOT && protocol == PCI_PROTOCOL_SIMPLE) {
        map_buffers(&scene, &shape);
    }
    chunk = fmin(scene.slot * scene.slices, shape.lane_bytes / shape.chunks);
    windows = chunk > 0 ? fmax(1, shape.lane_bytes / (shape.chunks * chunk)) : 1;
    sums = sums_of(&scene, &shape, chunk);
    parts->channels = channels;
    parts->us[PCI_PART_LAUNCH] =
        call[PCI_CALL_ENTRY] + gpu[PCI_GPU_LAUNCH] + call[PCI_CALL_HOST_LOADS] * gpu[PCI_GPU_HOST] +
        call[PCI_CALL_LOADS] * gpu[PCI_GPU_LOAD] + call[PCI_CALL_BARRIERS] * gpu[PCI_GPU_BARRIER] +
        call[PCI_CALL_FETCH];
    parts->us[PCI_PART_STEPS] = sums.wait + scene.signals;
    parts->us[PCI_PART_DATA] = parts->blocks = sums.move + (windows - 1) * sums.later;
    parts->us[PCI_PART_END] = call[PCI_CALL_FENCES] * scene.way[PCI_WAY_FENCE] + gpu[PCI_GPU_SEEN];
    data_part(job, &scene, &shape, &sums, (double) bytes, parts);
    parts->total = 0;
    for (int p = 0; p < PCI_PART_COUNT; p++) {
        parts->total += parts->us[p];
    }
}

/* The model uses latencies of idle memory, which are two to three times as long under load. When it
 * chooses the number of channels, it therefore assumes that blocks are slower by this factor. */
#define LANES_SPARE   2.5
#define LANES_MOST    32
#define LANES_UNKNOWN 16 /* minimum within one GPU or over unknown links */
#define LANES_ENOUGH \
    1.01 /* use fewer channels if they are at most this factor slower, to save blocks */

static double cautious(const struct pci_parts *parts)
{
    return parts->total + fmax(0, LANES_SPARE * parts->blocks - parts->us[PCI_PART_DATA]);
}

void pci_block_parts(const struct pci_costs *costs, const struct pci_job *job,
                     enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                     struct pci_parts *parts)
{
    uint32_t channels = most_channels(job, algorithm);
    double best;

    parts_of(costs, job, algorithm, protocol, bytes, channels, parts);
    best = cautious(parts);
    while (channels > 1) {
        struct pci_parts fewer;

        channels -= (channels + 3) / 4; /* 32 24 18 13 9 6 4 3 2 1 */
        parts_of(costs, job, algorithm, protocol, bytes, channels, &fewer);
        if (cautious(&fewer) > LANES_ENOUGH * best) {
            return;
        }
        best = fmin(best, cautious(&fewer));
        *parts = fewer;
    }
}

uint32_t pci_lanes(const struct pci_costs *costs, int sm, uint32_t blocks, uint32_t found,
                   double gbps)
{
    const double *executor = costs->executor[PCI_PROTOCOL_SIMPLE];
    const struct step fold = {1, 2, 1, 0, 1, 0};
    const struct scene scene = {.gpu = costs->gpu[capability_of(sm)],
                                .way = costs->way[PCI_WAY_NVLINK],
                                .executor = executor,
                                .protocol = PCI_PROTOCOL_SIMPLE,
                                .slot = executor[PCI_EXECUTOR_CHUNK],
                                .slices = executor[PCI_EXECUTOR_SLICES]};
    const struct shape shape = {.step = {fold}, .nsteps = 1};
    double needed = LANES_SPARE * gbps * sums_of(&scene, &shape, scene.slot).later *
                    PCI_BYTES_PER_US / scene.slot;
    uint32_t lanes = needed < LANES_MOST ? (uint32_t) needed + 1 : LANES_MOST;

    if (gbps <= 0) {
        lanes = LANES_UNKNOWN;
    }
    lanes = lanes < blocks ? lanes : blocks;
    return lanes > found ? lanes : found;
}
