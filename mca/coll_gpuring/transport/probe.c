/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Probe of mapped memory of other GPUs. PCI access control or an IOMMU between two GPUs can lose or
 * change data that one writes to the other, without any error. Therefore the kernel that will
 * transfer all data writes a pattern to a separate block in the memory of every peer and publishes
 * it. When all ranks have reported that their kernels ran, each rank reads its blocks with copies
 * of its GPU, and reports the patterns that have arrived.
 *
 *   block of the writer with local rank p, at p * GPURING_PROBE_BLOCK in the reader's peer region:
 *   0      384    512
 *   | tail | pad  | pattern ... |
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define SLOT_OFFSET   512
#define SLOT_BYTES    (GPURING_PROBE_BLOCK - SLOT_OFFSET)
#define SLOT_WORDS    (SLOT_BYTES / sizeof(uint32_t))
#define PATIENCE_NS   UINT64_C(10000000)
#define LIMIT_SECONDS 20 /* for a kernel that waits for kernels of the application */
#define WARNINGS      8  /* per process; there may be many communicators with many pairs */

struct report {
    uint32_t torn;     /* bits 1 << plan, for plans that connect a rank of the node which is not
                          marked, or whose lines of LL128 are received torn */
    uint32_t untested; /* true if a marked rank's lines have not been tested yet */
    uint8_t marks[];   /* a bit for each local rank */
};

/* Input of the kernel in pinned memory: the job, then a lane for every peer to write to, then the
 * state and the target of each lane. The input of a target is its block. */
struct target {
    struct gpuring_fifo_head head __attribute__((aligned(128)));
    uint32_t input[SLOT_WORDS];
    struct gpuring_fifo_end send;
    struct gpuring_step step;
};
struct job {
    struct gpuring_work work;
    uint16_t refs[8]; /* operand, destination; the rest is padding */
    struct gpuring_lane lanes[];
};

size_t gpuring_transport_probe_bytes(const struct gpuring_transport *transport)
{
    size_t marks = ((size_t) transport->most_local + 7) / 8;

    return transport->probes ? sizeof(struct report) + (marks + 3) / 4 * 4 : 0;
}

static bool has_mark(const uint8_t *marks, int local)
{
    return (marks[local / 8] >> local % 8 & 1) != 0;
}

void gpuring_transport_probe_report(const struct gpuring_transport *transport, void *report)
{
    struct report header = {.torn = 0};
    size_t bytes = gpuring_transport_probe_bytes(transport) - sizeof header;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];
        const struct gpuring_peer *peer = gpuring_peer_find(transport, conn->peer);

        if (!conn->remote && (!has_mark(transport->marks, peer->local_rank) ||
                              gpuring_lines_wrong(peer, GPURING_PROTOCOL_LL128))) {
            header.torn |= 1u << conn->plan;
        }
    }
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        header.untested += !peer->remote && has_mark(transport->marks, peer->local_rank) &&
                           gpuring_lines_untested(transport, peer);
    }
    memcpy(report, &header, sizeof header);
    memcpy((uint8_t *) report + sizeof header, transport->marks, bytes);
}

static void mark(struct gpuring_transport *transport, int local)
{
    transport->marks[local / 8] |= (uint8_t) (1u << local % 8);
}

static bool marked(const struct gpuring_transport *transport, const void *reports, int rank,
                   int local)
{
    const uint8_t *report =
        (const uint8_t *) reports + (size_t) rank * gpuring_transport_probe_bytes(transport);

    return has_mark(report + sizeof(struct report), local);
}

/* Return a word that differs between wire-ups, ranks, directions and positions. */
static uint32_t pattern(const struct gpuring_transport *transport, int writer, int reader,
                        size_t word)
{
    uint64_t x = transport->config.unique_id[0] ^ (uint64_t) writer << 40 ^ (uint64_t) reader << 20;

    x = (x + word + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t) (x >> 32);
}

/* Return the offset of the targets from the beginning of the job. */
static size_t targets_at(size_t count)
{
    return (sizeof(struct job) +
            count * (sizeof(struct gpuring_lane) + sizeof(struct gpuring_lane_state)) + 127) /
           128 * 128;
}

static void fill_lane(const struct gpuring_transport *transport, const struct gpuring_peer *peer,
                      const struct job *job, uint32_t number, struct gpuring_lane *lane,
                      struct target *target)
{
    uint8_t *block = peer->region + (size_t) transport->local_rank * GPURING_PROBE_BLOCK;

    for (size_t word = 0; word < SLOT_WORDS; word++) {
        target->input[word] = pattern(transport, transport->config.rank, peer->rank, word);
    }
    target->send = (struct gpuring_fifo_end){
        .slots = block + SLOT_OFFSET,
        .tail = (struct gpuring_fifo_tail *) (void *) block,
        .head = &target->head,
        .slot_bytes = SLOT_BYTES,
        .nslots = 1,
    };
    target->step = (struct gpuring_step){
        .chunk = number, .noperands = 1, .nsends = 1, .flags = GPURING_STEP_INPUT};
    *lane = (struct gpuring_lane){
        .steps = &target->step,
        .refs = job->refs,
        .sends = &target->send,
        .part_end = 1,
        .nsteps = 1,
        .nchunks = 1,
    };
}

/* Fill in the job, and mark the peers that it writes to. */
static void fill_job(struct gpuring_transport *transport, struct job *job, uint32_t count)
{
    struct target *target = (struct target *) (void *) ((uint8_t *) job + targets_at(count));
    uint32_t lane = 0;

    job->refs[0] = GPURING_REF_INPUT;
    job->refs[1] = 0;
    job->work = (struct gpuring_work){
        .input = target->input,
        .output = target->input,
        .type = GPURING_TYPE_UINT32,
        .op = GPURING_OP_SUM,
        .protocol = GPURING_PROTOCOL_SIMPLE,
        .nlanes = count,
        .count = SLOT_WORDS,
        .chunk = SLOT_WORDS,
        .lanes = job->lanes,
        .states = (struct gpuring_lane_state *) (void *) (job->lanes + count),
        .patience = PATIENCE_NS,
        .abort = &transport->page->abort,
        .parts = 1,
        .has_blocks = 1,
        .in = {.stride = sizeof *target, .count = SLOT_WORDS},
    };
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        if (peer->region != NULL) {
            fill_lane(transport, peer, job, lane, &job->lanes[lane], &target[lane]);
            lane++;
            mark(transport, peer->local_rank);
        }
    }
    job->work.first = job->lanes[0];
}

/* Poll the kernel. It waits for no other rank, but the GPU may be busy with the application. */
static int poll_job(const struct gpuring_device_ops *ops, struct gpuring_stream *stream,
                    struct gpuring_work *work)
{
    double end = gpuring_now() + LIMIT_SECONDS;
    int status;

    while ((status = ops->poll(stream, work)) == GPURING_AGAIN) {
        if (gpuring_now() > end) {
            gpuring_error("[gpu-busy] the GPU did not run the probe kernel within %d s; does a "
                          "kernel of the application wait for this MPI call?",
                          LIMIT_SECONDS);
            return GPURING_ERR_TIMEOUT;
        }
        sched_yield();
    }
    return status;
}

/* Run the job. The kernel has ended in every case when this returns, because its targets may be
 * unmapped next. */
static int run_job(const struct gpuring_device_ops *ops, struct gpuring_stream *stream,
                   struct gpuring_work *work)
{
    int status = ops->launch(stream, work);

    if (status == GPURING_OK) {
        status = poll_job(ops, stream, work);
        if (status != GPURING_OK) {
            (void) ops->synchronize(stream);
        }
    }
    return status;
}

int gpuring_probe_write(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_device_ops *ops = config->device_ops;
    struct gpuring_stream *stream = NULL;
    void *memory = NULL;
    uint32_t count = 0;
    int status;

    for (int i = 0; i < transport->npeers; i++) {
        count += transport->peers[i].region != NULL;
    }
    if (count == 0) {
        return GPURING_OK;
    }
    status = ops->alloc_pinned(config->device, targets_at(count) + count * sizeof(struct target),
                               &memory);
    if (status == GPURING_OK) {
        status = ops->stream_create(config->device, &stream);
    }
    if (status == GPURING_OK) {
        fill_job(transport, memory, count);
        status = run_job(ops, stream, memory);
    }
    ops->stream_destroy(stream);
    ops->free_pinned(config->device, memory);
    return status;
}

/* Read the blocks of this rank's region to pinned memory that the caller frees; NULL if there are
 * none. */
static int read_blocks(const struct gpuring_transport *transport, void **blocks)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_device_ops *ops = config->device_ops;
    size_t bytes = (size_t) transport->nlocal * GPURING_PROBE_BLOCK;
    int status;

    *blocks = NULL;
    if (transport->region == NULL) {
        return GPURING_OK;
    }
    status = ops->alloc_pinned(config->device, bytes, blocks);
    return status == GPURING_OK
               ? gpuring_device_copy(ops, config->device, *blocks, transport->region, bytes)
               : status;
}

static bool pattern_arrived(const struct gpuring_transport *transport, const uint8_t *blocks,
                            const struct gpuring_peer *peer)
{
    const uint8_t *block = blocks + (size_t) peer->local_rank * GPURING_PROBE_BLOCK;
    struct gpuring_fifo_tail tail;
    uint32_t word;

    memcpy(&tail, block, sizeof tail);
    if (tail.tail != 1 || tail.size[0] != SLOT_BYTES) {
        return false;
    }
    for (size_t i = 0; i < SLOT_WORDS; i++) {
        memcpy(&word, block + SLOT_OFFSET + i * sizeof word, sizeof word);
        if (word != pattern(transport, peer->rank, transport->config.rank, i)) {
            return false;
        }
    }
    return true;
}

int gpuring_transport_probe_verify(struct gpuring_transport *transport, const void *reports)
{
    void *blocks;
    int status = read_blocks(transport, &blocks);

    memset(transport->marks, 0, ((size_t) transport->most_local + 7) / 8);
    for (int i = 0; status == GPURING_OK && i < transport->npeers; i++) {
        struct gpuring_peer *peer = &transport->peers[i];
        bool wrote = !peer->remote && marked(transport, reports, peer->rank, transport->local_rank);

        peer->mutually_mapped = wrote && peer->region != NULL;
        if (wrote && pattern_arrived(transport, blocks, peer) &&
            !gpuring_lines_wrong(peer, GPURING_PROTOCOL_LL)) {
            mark(transport, peer->local_rank);
        }
    }
    transport->config.device_ops->free_pinned(transport->config.device, blocks);
    return status;
}

static void warn_staged(const struct gpuring_transport *transport, const struct gpuring_peer *peer)
{
    static atomic_uint warnings;
    enum gpuring_log_level level = !peer->unmappable && atomic_fetch_add(&warnings, 1) < WARNINGS
                                       ? GPURING_LOG_WARN
                                       : GPURING_LOG_INFO;

    if (peer->unmappable) {
        gpuring_info("[far-peer] GPU %s (rank %d) and GPU %s (rank %d, pid %u) are farther from "
                     "each other than coll_gpuring_p2p_level allows: they are connected through "
                     "pinned host memory",
                     transport->gpu, transport->config.rank, peer->gpu, peer->rank, peer->pid);
    } else if (peer->mutually_mapped) {
        gpuring_log(level,
                    "[peer-silent] GPU %s (rank %d) and GPU %s (rank %d, pid %u) map each "
                    "other's memory, but data that one writes does not reach the other: they "
                    "are connected through pinned host memory, which is slower. The usual "
                    "cause is PCI access control (ACS) or an IOMMU: turn ACS off for the PCI "
                    "switches, or boot with iommu=pt",
                    transport->gpu, transport->config.rank, peer->gpu, peer->rank, peer->pid);
    } else {
        gpuring_log(
            level,
            "[no-peer] GPU %s (rank %d) and GPU %s (rank %d, pid %u) do not reach each other's "
            "memory: they are connected through pinned host memory, which is slower. "
            "Each rank must see the GPUs of all ranks of its node (Slurm: --gpu-bind=none; "
            "CUDA_VISIBLE_DEVICES may differ), and containers must share the IPC namespace; GPUs "
            "below different root complexes may have no path (nvidia-smi topo -p2p w), and "
            "instances of divided GPUs (MIG) and systems without CUDA IPC (WSL) have none",
            transport->gpu, transport->config.rank, peer->gpu, peer->rank, peer->pid);
    }
}

/* Return the plans that some rank reports as torn. Set *untested if a rank has untested pairs. */
static uint32_t combine(const struct gpuring_transport *transport, const void *reports,
                        bool *untested)
{
    size_t bytes = gpuring_transport_probe_bytes(transport);
    struct report report;
    uint32_t torn = 0;

    *untested = false;
    for (int rank = 0; rank < transport->config.nranks; rank++) {
        memcpy(&report, (const uint8_t *) reports + (size_t) rank * bytes, sizeof report);
        torn |= report.torn;
        *untested |= report.untested > 0;
    }
    return torn;
}

/* Return true if the reports of both ranks have a mark for the other. */
static bool both_marked(const struct gpuring_transport *transport, const void *reports,
                        const struct gpuring_peer *peer)
{
    return marked(transport, reports, transport->config.rank, peer->local_rank) &&
           marked(transport, reports, peer->rank, transport->local_rank);
}

bool gpuring_transport_test_due(struct gpuring_transport *transport, const void *reports)
{
    bool untested;

    for (int i = 0; i < transport->npeers; i++) {
        struct gpuring_peer *peer = &transport->peers[i];

        peer->proven = !peer->remote && both_marked(transport, reports, peer);
    }
    (void) combine(transport, reports, &untested);
    return untested;
}

int gpuring_transport_probe_finish(struct gpuring_transport *transport, const void *reports)
{
    int own = transport->config.rank, status = GPURING_OK;
    bool untested;

    for (int i = 0; status == GPURING_OK && i < transport->npeers; i++) {
        struct gpuring_peer *peer = &transport->peers[i];

        if (peer->remote || both_marked(transport, reports, peer)) {
            continue;
        }
        if (own < peer->rank && !peer->proven) { /* otherwise [wrong-lines] has been logged */
            warn_staged(transport, peer);
        }
        peer->host_fallback = true;
        status = gpuring_peer_stage(transport, peer);
    }
    if (status != GPURING_OK) {
        return status;
    }
    transport->torn_plans = combine(transport, reports, &untested);
    gpuring_peer_bind(transport);
    return gpuring_tables_upload(transport);
}

unsigned int gpuring_transport_silent(const struct gpuring_transport *transport)
{
    unsigned int count = 0;

    for (int i = 0; i < transport->npeers; i++) {
        count += transport->peers[i].host_fallback && transport->peers[i].mutually_mapped;
    }
    return count;
}

unsigned int gpuring_transport_torn(const struct gpuring_transport *transport)
{
    unsigned int count = 0;

    for (int i = 0; i < transport->npeers; i++) {
        count += !transport->peers[i].remote &&
                 gpuring_lines_wrong(&transport->peers[i], GPURING_PROTOCOL_LL128);
    }
    return count;
}

bool gpuring_transport_tears_lines(const struct gpuring_transport *transport, int plan)
{
    return (transport->torn_plans >> plan & 1) != 0;
}
