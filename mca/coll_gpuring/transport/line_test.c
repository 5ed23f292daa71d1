/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test of lines between GPUs. A path may carry a large write unchanged and still split or reorder
 * the stores of 8 or 128 bytes that contain their own flags. After the probe, all pairs of ranks of
 * a node therefore exchange lines of LL and LL128 with the kernels that run calls, in both
 * directions at the same time. A process keeps its verdict on each GPU, and a communicator without
 * a new pair tests nothing.
 *
 *   line block of the sender with local rank p, after the probe blocks of the receiver's region:
 *   0       384     1536  4096       8192
 *   | heads | tails | pad | LL slots | LL128 slots |
 *
 * The heads belong to the opposite direction: p returns slots of the region's owner there.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define SLOTS         2
#define LL_SLOT       2048 /* bytes: 256 lines */
#define LL128_SLOT    8192 /* bytes: 64 lines */
#define LL_AT         4096
#define LL128_AT      (LL_AT + SLOTS * LL_SLOT)
#define LL_WORDS      4096   /* data of 4096 lines */
#define LL128_WORDS   122880 /* data of 4096 lines */
#define WORDS         (LL_WORDS + LL128_WORDS)
#define PATIENCE_NS   UINT64_C(100000)
#define LIMIT_SECONDS 20 /* for kernels that wait for those of the application, on any rank */

_Static_assert(LL128_AT + SLOTS * LL128_SLOT == GPURING_LINE_BLOCK, "layout of a line block");

/* The ends of the connections with one peer, and the step that receives. Data of each peer is a
 * block of the output. */
struct ends {
    struct gpuring_fifo_end send[GPURING_PROTOCOL_COUNT], recv[GPURING_PROTOCOL_COUNT];
    struct gpuring_step step;
};
struct job {
    struct gpuring_work work;
    struct gpuring_step send;
    uint16_t refs[6]; /* input, destination; source; the rest is padding */
    uint32_t stop;    /* the kernel's abort word */
    struct gpuring_lane lanes[];
};

struct gpuring_line_test {
    struct gpuring_stream *stream;
    struct job *job; /* pinned, followed by its lanes, their states, and the next three */
    struct gpuring_lane_state *states;
    struct ends *ends; /* of each proven peer */
    uint32_t *input;   /* WORDS words for all peers */
    uint32_t *output;  /* WORDS words of each proven peer */
    enum gpuring_protocol protocol;
    uint64_t until_ns;
};

/* Verdicts of this process on GPUs, for all communicators. */
struct verdict {
    char gpu[16];
    uint32_t tested, wrong; /* bits 1 << enum gpuring_protocol */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static struct verdict *verdicts;
static size_t nverdicts;

/* Add to the verdict on the peer's GPU, and return it. If there is no memory for it, the GPU is
 * tested again for the next communicator. */
static struct verdict add_verdict(const struct gpuring_peer *peer, uint32_t tested, uint32_t wrong)
{
    struct verdict verdict = {.tested = 0};
    size_t i = 0;

    pthread_mutex_lock(&lock);
    while (i < nverdicts && memcmp(verdicts[i].gpu, peer->gpu, sizeof peer->gpu) != 0) {
        i++;
    }
    if (i == nverdicts && tested != 0) {
        struct verdict *more = realloc(verdicts, (nverdicts + 1) * sizeof *verdicts);

        if (more != NULL) {
            verdicts = more;
            verdicts[nverdicts] = verdict;
            memcpy(verdicts[nverdicts++].gpu, peer->gpu, sizeof peer->gpu);
        }
    }
    if (i < nverdicts) {
        verdicts[i].tested |= tested;
        verdicts[i].wrong |= wrong;
        verdict = verdicts[i];
    }
    pthread_mutex_unlock(&lock);
    return verdict;
}

/* Return the protocols with lines that calls may use with this peer, as bits. */
static uint32_t protocols_with(const struct gpuring_transport *transport,
                               const struct gpuring_peer *peer)
{
    uint32_t protocols = 1u << GPURING_PROTOCOL_LL;

    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].peer == peer->rank &&
            (transport->config.ll128_plans >> transport->conns[i].plan & 1) != 0) {
            protocols |= 1u << GPURING_PROTOCOL_LL128;
        }
    }
    return protocols;
}

bool gpuring_lines_untested(const struct gpuring_transport *transport,
                            const struct gpuring_peer *peer)
{
    return (protocols_with(transport, peer) & ~add_verdict(peer, 0, 0).tested) != 0;
}

bool gpuring_lines_wrong(const struct gpuring_peer *peer, enum gpuring_protocol protocol)
{
    return (add_verdict(peer, 0, 0).wrong >> protocol & 1) != 0;
}

/* Return true if lines of the current protocol are tested with the peer. Both ranks get the same
 * result. */
static bool tests(const struct gpuring_transport *transport, const struct gpuring_peer *peer)
{
    return peer->proven &&
           (protocols_with(transport, peer) >> transport->line_test->protocol & 1) != 0;
}

/* Return the line block of a rank in a region. */
static uint8_t *block_of(const struct gpuring_transport *transport, uint8_t *region, int local)
{
    return region + (size_t) transport->nlocal * GPURING_PROBE_BLOCK +
           (size_t) local * GPURING_LINE_BLOCK;
}

/* Connect both directions: `in` receives from the peer, `out` is ours in the peer's region. */
static void connect_peer(const struct gpuring_transport *transport, const struct gpuring_peer *peer,
                         struct ends *ends)
{
    uint8_t *in = block_of(transport, transport->region, peer->local_rank);
    uint8_t *out = block_of(transport, peer->region, transport->local_rank);

    for (unsigned p = GPURING_PROTOCOL_LL; p <= GPURING_PROTOCOL_LL128; p++) {
        struct gpuring_fifo_end end = {
            .slot_bytes = p == GPURING_PROTOCOL_LL ? LL_SLOT : LL128_SLOT, .nslots = SLOTS};
        size_t slots = p == GPURING_PROTOCOL_LL ? LL_AT : LL128_AT;

        end.slots = out + slots;
        end.tail = gpuring_block_tail(out, p);
        end.head = gpuring_block_head(in, p);
        ends->send[p] = end;
        end.slots = in + slots;
        end.tail = gpuring_block_tail(in, p);
        end.head = gpuring_block_head(out, p);
        ends->recv[p] = end;
    }
}

/* Return word i of the data that a rank sends. */
static uint32_t word_of(int rank, size_t i)
{
    return ((uint32_t) rank << 20) + (uint32_t) i * UINT32_C(0x9e3779b1);
}

/* Return the position of a protocol's data in input and output, and its words. */
static size_t data_at(enum gpuring_protocol protocol)
{
    return protocol == GPURING_PROTOCOL_LL ? 0 : LL_WORDS;
}

static size_t data_words(enum gpuring_protocol protocol)
{
    return protocol == GPURING_PROTOCOL_LL ? LL_WORDS : LL128_WORDS;
}

/* Launch the kernel that tests the next protocol. It has two lanes for each peer with which the
 * protocol is tested: one sends, and one receives. Returns GPURING_AGAIN, GPURING_OK if no protocol
 * is left, or an error. */
static int launch_next(struct gpuring_transport *transport)
{
    struct gpuring_line_test *test = transport->line_test;
    enum gpuring_protocol protocol = ++test->protocol;
    uint64_t slot = protocol == GPURING_PROTOCOL_LL ? LL_SLOT : LL128_SLOT;
    size_t at = data_at(protocol), words = data_words(protocol);
    struct job *job = test->job;
    struct gpuring_lane *lane = job->lanes;
    int status, index = 0;

    for (int i = 0; protocol < GPURING_PROTOCOL_COUNT && i < transport->npeers; i++) {
        if (tests(transport, &transport->peers[i])) {
            lane[0] = (struct gpuring_lane){
                .steps = &job->send,
                .refs = job->refs,
                .recvs = &test->ends[index].recv[protocol],
                .sends = &test->ends[index].send[protocol],
                .part_end = 1,
                .nsteps = 1,
                .nchunks = 1,
            };
            lane[1] = lane[0];
            lane[1].steps = &test->ends[index].step;
            lane += 2;
        }
        index += transport->peers[i].proven;
    }
    job->work = (struct gpuring_work){
        .input = test->input + at,
        .output = test->output + at,
        .type = GPURING_TYPE_UINT32,
        .op = GPURING_OP_SUM,
        .protocol = protocol,
        .nlanes = (uint32_t) (lane - job->lanes),
        .count = words,
        .chunk = gpuring_chunk_max(protocol, slot, sizeof(uint32_t)),
        .lanes = job->lanes,
        .states = test->states,
        .patience = PATIENCE_NS,
        .abort = &job->stop,
        .parts = 1,
        .has_blocks = 1,
        .in = {.count = words},
        .out = {.stride = WORDS * sizeof(uint32_t), .count = words},
        .first = job->lanes[0],
    };
    if (lane == job->lanes) { /* no peer uses LL128, or that has been tested */
        return GPURING_OK;
    }
    status = transport->config.device_ops->launch(test->stream, &job->work);
    return status == GPURING_OK ? GPURING_AGAIN : status;
}

/* Warn about wrong lines. late: not all lines were received in time, so they need not be wrong. */
static void warn_wrong(const struct gpuring_transport *transport, const struct gpuring_peer *peer,
                       bool late)
{
    bool ll128 = transport->line_test->protocol == GPURING_PROTOCOL_LL128;

    gpuring_warn("[%s] GPU %s (rank %d) %s lines of %d bytes from GPU %s (rank %d, pid %u): %s. "
                 "Look for errors of the links with nvidia-smi nvlink -e and in dmesg%s",
                 ll128 ? "torn-lines" : "wrong-lines", transport->gpu, transport->config.rank,
                 late    ? "did not receive all"
                 : ll128 ? "received torn"
                         : "received wrong",
                 ll128 ? 128 : 8, peer->gpu, peer->rank, peer->pid,
                 ll128 ? "calls between them do not use LL128"
                       : "they are connected through pinned host memory, which is slower",
                 late ? ", and for kernels that occupied a GPU for 20 s" : "");
}

/* Return true if the lane has received the data of the rank. */
static bool data_is_right(const struct gpuring_line_test *test,
                          const struct gpuring_lane_state *state, int index, int rank)
{
    size_t end = data_at(test->protocol) + data_words(test->protocol);

    for (size_t at = data_at(test->protocol); at < end; at++) {
        if (test->output[(size_t) index * WORDS + at] != word_of(rank, at)) {
            return false;
        }
    }
    return state->status == GPURING_LANE_DONE;
}

/* Record the verdicts after a launch. A lane that did not finish lacks lines. */
static void judge_lines(const struct gpuring_transport *transport)
{
    const struct gpuring_line_test *test = transport->line_test;
    const struct gpuring_lane_state *received = test->states + 1; /* every other lane receives */
    uint32_t bit = 1u << test->protocol;
    int index = 0;

    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        if (tests(transport, peer)) {
            bool right = data_is_right(test, received, index, peer->rank);

            if (!right && !gpuring_lines_wrong(peer, test->protocol)) {
                warn_wrong(transport, peer, received->status != GPURING_LANE_DONE);
            }
            (void) add_verdict(peer, bit, right ? 0 : bit);
            received += 2;
        }
        index += peer->proven;
    }
}

/* Prepare the memory of the test, and launch its first kernel. Returns as launch_next. */
static int line_test_begin(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    const struct gpuring_device_ops *ops = config->device_ops;
    struct gpuring_line_test *test = calloc(1, sizeof *test);
    size_t n = 0, states, ends, input;
    void *pinned = NULL;
    int status;

    if (test == NULL) {
        return GPURING_ERR_NOMEM;
    }
    transport->line_test = test;
    test->until_ns = gpuring_now_ns() + LIMIT_SECONDS * UINT64_C(1000000000);
    for (int i = 0; i < transport->npeers; i++) {
        n += transport->peers[i].proven;
    }
    if (n == 0) {
        return GPURING_OK;
    }
    states = sizeof(struct job) + 2 * n * sizeof(struct gpuring_lane);
    ends = states + 2 * n * sizeof(struct gpuring_lane_state);
    input = (ends + n * sizeof(struct ends) + 127) / 128 * 128;
    status = ops->alloc_pinned(config->device, input + (n + 1) * WORDS * sizeof(uint32_t), &pinned);
    test->job = pinned;
    if (status == GPURING_OK) {
        status = ops->stream_create(config->device, &test->stream);
    }
    if (status != GPURING_OK) {
        return status;
    }
    test->states = (struct gpuring_lane_state *) (void *) ((uint8_t *) pinned + states);
    test->ends = (struct ends *) (void *) ((uint8_t *) pinned + ends);
    test->input = (uint32_t *) (void *) ((uint8_t *) pinned + input);
    test->output = test->input + WORDS;
    test->job->stop = 0;
    test->job->send =
        (struct gpuring_step){.noperands = 1, .nsends = 1, .flags = GPURING_STEP_INPUT};
    memset(test->job->refs, 0, sizeof test->job->refs);
    test->job->refs[0] = GPURING_REF_INPUT;
    for (size_t i = 0; i < WORDS; i++) {
        test->input[i] = word_of(config->rank, i);
    }
    for (int i = 0, index = 0; i < transport->npeers; i++) {
        if (transport->peers[i].proven) {
            connect_peer(transport, &transport->peers[i], &test->ends[index]);
            test->ends[index].step = (struct gpuring_step){
                .chunk = (uint32_t) index, .refs = 2, .noperands = 1, .flags = GPURING_STEP_STORE};
            index++;
        }
    }
    return launch_next(transport);
}

/* Stop the kernel, and wait for its end. */
static int stop(const struct gpuring_transport *transport)
{
    struct gpuring_line_test *test = transport->line_test;

    __atomic_store_n(&test->job->stop, 1, __ATOMIC_RELEASE); /* partner: exec_aborted */
    return transport->config.device_ops->synchronize(test->stream);
}

void gpuring_lines_end(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct gpuring_line_test *test = transport->line_test;

    if (test != NULL) {
        if (test->stream != NULL) {
            (void) stop(transport);
            config->device_ops->stream_destroy(test->stream);
        }
        config->device_ops->free_pinned(config->device, test->job);
        free(test);
        transport->line_test = NULL;
    }
}

/* Clear the marks of peers whose lines of LL are wrong. */
static void unmark(struct gpuring_transport *transport)
{
    for (int i = 0; i < transport->npeers; i++) {
        const struct gpuring_peer *peer = &transport->peers[i];

        if (!peer->remote && gpuring_lines_wrong(peer, GPURING_PROTOCOL_LL)) {
            transport->marks[peer->local_rank / 8] &= (uint8_t) ~(1u << peer->local_rank % 8);
        }
    }
}

int gpuring_transport_test_lines(struct gpuring_transport *transport)
{
    struct gpuring_line_test *test = transport->line_test;
    int status = test == NULL ? line_test_begin(transport)
                              : transport->config.device_ops->poll(test->stream, &test->job->work);

    if (status == GPURING_OK && test != NULL) {
        judge_lines(transport);
        status = launch_next(transport);
    }
    if (status == GPURING_AGAIN) {
        if (__atomic_load_n(&transport->page->abort, __ATOMIC_ACQUIRE) != 0) {
            status = GPURING_OK; /* a peer has failed, and will report it */
        } else if (gpuring_now_ns() > transport->line_test->until_ns) {
            status = stop(transport);
            if (status == GPURING_OK) {
                judge_lines(transport);
            }
        }
    }
    if (status < 0) {
        gpuring_transport_abort(transport, status); /* stops the tests of the peers */
    }
    if (status != GPURING_AGAIN) {
        gpuring_lines_end(transport);
        unmark(transport);
    }
    return status;
}
