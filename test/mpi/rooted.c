/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test calls with a root, in which each rank may have its buffers on a GPU or in host memory.
 * Phases of blocking and non-blocking calls have buffers in all kinds of memory, and several of
 * them are in flight, on ranks that run ahead of each other. Every result is checked. For series of
 * equal calls, the numbers of served and staged calls are checked as well.
 *
 *   rooted [SEED [PHASES [first]]]
 *
 * first: no other call connects the ranks before these calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

enum { BCAST, REDUCE, GATHER, SCATTER, COLLECTIVES };
enum { ALL_GPU, ALL_HOST, ROOT_HOST, BY_RANK, BY_CALL, PATTERNS };
enum { LONGEST = 3000, MOST = 8, UNDER_WAY = 12 };
enum { SMALL = 1000, LARGE = 5000 }; /* elements of a broadcast; the limit is 8 KiB */

/* A call in flight, with its buffers. */
struct slot {
    int *memory[2][2]; /* [GPU][input, output] */
    int *input, *output;
    bool on_gpu, gaps; /* its input has gaps, if it is a gather */
    int collective, root, count, first;
    MPI_Request request;
};

static struct slot slots[UNDER_WAY];
static MPI_Comm comm;
static int host[LONGEST * MOST];
static uint64_t common, own; /* random numbers: the same on all ranks; of this one */
static bool one_node;        /* the ranks vote in each call that is not small */
static bool all_agree;       /* the ranks agree before each such call, coll_gpuring_agree_size */
static MPI_Datatype gapped;  /* an int, and a gap as long */

static int draw(uint64_t *state, int below)
{
    return (int) (harness_draw(state) % (uint64_t) below);
}

static int element(const struct slot *slot, int from, int to, int i)
{
    return slot->first + 7 * i + 100003 * from + 1009 * to;
}

static bool pattern_on_gpu(int pattern, const struct slot *slot)
{
    switch (pattern) {
    case ALL_GPU:
        return true;
    case ALL_HOST:
        return false;
    case ROOT_HOST:
        return slot->root != harness_rank;
    case BY_RANK:
        return harness_rank % 2 == 0;
    default:
        return draw(&common, 2) != 0; /* equal on all ranks, and random for each call */
    }
}

/* Fill the input of a call: one vector, or one for each rank at the root of a scatter. */
static void fill(struct slot *slot)
{
    int vectors = slot->collective == SCATTER ? harness_size : 1;
    int step = slot->collective == GATHER && slot->gaps ? 2 : 1;
    bool sends =
        slot->collective == REDUCE || slot->collective == GATHER || slot->root == harness_rank;

    for (int v = 0; v < vectors; v++) {
        for (int i = 0; i < slot->count; i++) {
            host[(v * slot->count + i) * step] =
                sends ? element(slot, harness_rank, slot->collective == SCATTER ? v : 0, i) : -1;
        }
    }
    slot->input = slot->memory[slot->on_gpu][0];
    slot->output = slot->memory[slot->on_gpu][1];
    harness_write(slot->input, host, sizeof(int) * (size_t) (vectors * slot->count * step));
}

static int start(struct slot *slot, bool blocking)
{
    int root = slot->root, n = slot->count, *in = slot->input, *out = slot->output;
    MPI_Datatype type = slot->gaps ? gapped : MPI_INT;
    MPI_Request *request = &slot->request;

    switch (slot->collective) {
    case BCAST:
        return blocking ? MPI_Bcast(in, n, MPI_INT, root, comm)
                        : MPI_Ibcast(in, n, MPI_INT, root, comm, request);
    case REDUCE:
        return blocking ? MPI_Reduce(in, out, n, MPI_INT, MPI_SUM, root, comm)
                        : MPI_Ireduce(in, out, n, MPI_INT, MPI_SUM, root, comm, request);
    case GATHER:
        return blocking ? MPI_Gather(in, n, type, out, n, MPI_INT, root, comm)
                        : MPI_Igather(in, n, type, out, n, MPI_INT, root, comm, request);
    default:
        return blocking ? MPI_Scatter(in, n, MPI_INT, out, n, MPI_INT, root, comm)
                        : MPI_Iscatter(in, n, MPI_INT, out, n, MPI_INT, root, comm, request);
    }
}

static bool right(const struct slot *slot)
{
    bool at_root = slot->collective == REDUCE || slot->collective == GATHER;
    int vectors = slot->collective == GATHER ? harness_size : 1;

    if (at_root && slot->root != harness_rank) {
        return true;
    }
    harness_read(host, slot->collective == BCAST ? slot->input : slot->output,
                 sizeof(int) * (size_t) (vectors * slot->count));
    for (int v = 0; v < vectors; v++) {
        for (int i = 0; i < slot->count; i++) {
            int expected = element(slot, slot->root, 0, i);

            if (slot->collective == GATHER) {
                expected = element(slot, v, 0, i);
            } else if (slot->collective == SCATTER) {
                expected = element(slot, slot->root, harness_rank, i);
            } else if (slot->collective == REDUCE) {
                expected = 0;
                for (int r = 0; r < harness_size; r++) {
                    expected += element(slot, r, 0, i);
                }
            }
            if (host[v * slot->count + i] != expected) {
                return false;
            }
        }
    }
    return true;
}

/* A persistent allreduce. After the first persistent call, the ranks agree on the order of all
 * calls. */
static struct {
    int *input, *output;
    MPI_Request request;
    bool active;
} lasting;

static void make_lasting(void)
{
    host[0] = harness_rank + 1;
    harness_write(lasting.input, host, sizeof *host);
    HARNESS_INIT(Allreduce)
    (lasting.input, lasting.output, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &lasting.request);
}

/* Start it, or complete it. */
static bool turn_lasting(void)
{
    lasting.active = !lasting.active;
    if (lasting.active) {
        return MPI_Start(&lasting.request) == MPI_SUCCESS;
    }
    if (MPI_Wait(&lasting.request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return false;
    }
    harness_read(host, lasting.output, sizeof *host);
    return host[0] == harness_size * (harness_size + 1) / 2;
}

static bool complete(struct slot *slot)
{
    if (slot->count == 0) {
        return true;
    }
    return MPI_Wait(&slot->request, MPI_STATUS_IGNORE) == MPI_SUCCESS && right(slot);
}

/* Make some calls with one pattern. Calls in flight continue in the next phase. */
static bool phase(int pattern, int calls)
{
    static const int counts[] = {2, 60, LONGEST};
    bool good = true;

    for (int i = 0; i < calls; i++) {
        struct slot *slot = &slots[draw(&common, UNDER_WAY)];
        bool blocking = draw(&common, 10) < 6;

        good = complete(slot) && good;
        if (draw(&common, 8) == 0 && lasting.request != MPI_REQUEST_NULL) {
            good = turn_lasting() && good;
        }
        slot->collective = draw(&common, COLLECTIVES);
        slot->root = draw(&common, harness_size);
        slot->count = counts[draw(&common, 3)];
        slot->first = draw(&common, 1000);
        slot->on_gpu = pattern_on_gpu(pattern, slot);
        slot->gaps = draw(&own, 4) == 0;
        fill(slot);
        if (draw(&own, 40) == 0) {
            usleep((useconds_t) draw(&own, 3000));
        }
        good = start(slot, blocking) == MPI_SUCCESS && good;
        if (blocking) {
            good = right(slot) && good;
            slot->count = 0;
        }
    }
    return good;
}

/* Begin a gather of some KiB at rank 1. */
static bool gather(struct slot *slot, bool on_gpu, bool blocking)
{
    slot->collective = GATHER;
    slot->root = 1;
    slot->count = LONGEST;
    slot->on_gpu = on_gpu;
    slot->gaps = false;
    fill(slot);
    return start(slot, blocking) == MPI_SUCCESS;
}

/* Gathers with buffers in different kinds of memory wait in the queue, because rank 0 is late for
 * the call before them. */
static bool queued_gathers(void)
{
    int *device = slots[5].memory[1][0];
    MPI_Request request;
    bool good = gather(&slots[0], false, true) && gather(&slots[0], false, true);

    if (harness_rank == 0) {
        usleep(300000);
    }
    MPI_Iallreduce(MPI_IN_PLACE, device, 10, MPI_INT, MPI_SUM, comm, &request);
    for (int i = 0; i < 4; i++) {
        good = gather(&slots[i], i == 1 || i == 2, false) && good;
    }
    good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    for (int i = 0; i < 4; i++) {
        good = complete(&slots[i]) && good;
        slots[i].count = 0;
    }
    return good;
}

static int broadcast(enum form form, int *buffer, int count, MPI_Datatype type, int root)
{
    MPI_Request request;
    int status;

    if (form == BLOCKING) {
        return MPI_Bcast(buffer, count, type, root, comm);
    }
    if (form == NONBLOCKING) {
        status = MPI_Ibcast(buffer, count, type, root, comm, &request);
        return status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    }
    status = HARNESS_INIT(Bcast)(buffer, count, type, root, comm, MPI_INFO_NULL, &request);
    status = status == MPI_SUCCESS ? MPI_Start(&request) : status;
    status = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    MPI_Request_free(&request);
    return status;
}

/*
 * Make `calls` broadcasts of `count` elements, in types with gaps on ranks with odd numbers. Checks
 * that `served` of them are served, and that those on GPU memory that are not are staged.
 */
static void row(enum form form, int calls, int count, bool on_gpu, int served, const char *text)
{
    long long were_served = harness_pvar("coll_gpuring_calls");
    long long staged = harness_pvar("coll_gpuring_staged");
    MPI_Datatype type = form == BLOCKING && harness_rank % 2 ? gapped : MPI_INT;
    int *buffer = slots[0].memory[on_gpu][0], step = type == gapped ? 2 : 1;
    bool good = true;

    for (int i = 0; i < calls; i++) {
        for (int k = 0; k < count * step; k++) {
            host[k] = harness_rank == i % harness_size && k % step == 0 ? 3 * k / step + i : -1;
        }
        harness_write(buffer, host, sizeof(int) * (size_t) (count * step));
        good = broadcast(form, buffer, count, type, i % harness_size) == MPI_SUCCESS && good;
        harness_read(host, buffer, sizeof(int) * (size_t) (count * step));
        for (int k = 0; k < count * step; k++) {
            good = host[k] == (k % step == 0 ? 3 * k / step + i : -1) && good;
        }
    }
    were_served = harness_pvar("coll_gpuring_calls") - were_served;
    staged = harness_pvar("coll_gpuring_staged") - staged;
    harness_check(good && were_served == served && staged == (on_gpu ? calls - served : 0),
                  "%d broadcasts of %d bytes, %s: %lld served, %lld staged", calls, 4 * count, text,
                  were_served, staged);
}

/* connected: a call has connected the ranks. Otherwise the first large one does. */
static void rows(bool connected)
{
    int served = one_node || all_agree ? 20 : 0; /* of 20 large ones between connected ranks */

    row(BLOCKING, 20, SMALL, true, 0, "small");
    row(NONBLOCKING, 5, SMALL, true, 0, "small, non-blocking");
    row(PERSISTENT, 2, SMALL, true, 0, "small, persistent");
    row(BLOCKING, 20, SMALL, false, 0, "small, in host memory");
    row(BLOCKING, 20, LARGE, true, served > 0 || connected ? served : 1, "large");
    row(NONBLOCKING, 20, LARGE, true, served, "large, non-blocking");
    row(PERSISTENT, 2, LARGE, true, 2, "large, persistent");
    row(BLOCKING, 20, LARGE, false, 0, "large, in host memory");
    row(BLOCKING, 20, LARGE, true, served, "large again");
}

/* Ranks that are not connected, and agree on a large call that is not on GPUs, agree next when the
 * number of their calls has doubled: in calls 1, 3 and 7. Before calls of coll_gpuring_agree_size
 * they always agree. */
static void rare_agreements(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    row(BLOCKING, 4, LARGE, false, 0, "the first of a communicator, in host memory");
    row(BLOCKING, 10, LARGE, true, all_agree ? 10 : one_node ? 8 : 1, "then on GPUs");
    MPI_Comm_free(&comm);
    comm = MPI_COMM_WORLD;
}

/* Run phases of calls. Persistent calls are also made in the second half of them. */
static bool run_phases(int phases)
{
    bool good = true;

    lasting.request = MPI_REQUEST_NULL;
    for (int p = 0; p < phases; p++) {
        if (p == phases / 2) {
            make_lasting();
        }
        good = phase(draw(&common, PATTERNS), 1 + draw(&common, 120)) && good;
    }
    good = (!lasting.active || turn_lasting()) && good;
    MPI_Request_free(&lasting.request);
    for (int s = 0; s < UNDER_WAY; s++) {
        good = complete(&slots[s]) && good;
        slots[s].count = 0;
    }
    return good;
}

/* A non-blocking call connects the ranks, and only some of them complete it before they make the
 * next call. The others must not conclude from that call that all ranks are connected. */
static bool connect_by_nonblocking(void)
{
    int *device = slots[0].memory[1][0], *memory = slots[0].memory[0][0];
    MPI_Request request;
    bool good = true;

    for (int i = 0; i < 2; i++) {
        good = MPI_Bcast(memory, LARGE, MPI_INT, 0, comm) == MPI_SUCCESS && good;
    }
    good = MPI_Ibcast(device, LARGE, MPI_INT, 0, comm, &request) == MPI_SUCCESS && good;
    if (harness_rank % 2 == 0) {
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    }
    good = MPI_Bcast(memory, LARGE, MPI_INT, 0, comm) == MPI_SUCCESS && good;
    for (int i = 0; i < 3; i++) {
        good = MPI_Bcast(device, LARGE, MPI_INT, i % harness_size, comm) == MPI_SUCCESS && good;
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
}

/* Run phases on new communicators, which connect in the middle of them. */
static bool run_unconnected(int times)
{
    bool good = true;

    for (int i = 0; i < times; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        good = (i != 0 || connect_by_nonblocking()) && run_phases(2) && good;
        MPI_Comm_free(&comm);
    }
    comm = MPI_COMM_WORLD;
    return good;
}

int main(int argc, char **argv)
{
    const char *agree_size = getenv("OMPI_MCA_coll_gpuring_agree_size");
    int phases, one = 1, *device;
    long long calls;
    bool good, first = argc > 3;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    common = (uint64_t) (argc > 1 ? atoi(argv[1]) : 1);
    own = common * 1000 + (uint64_t) harness_rank;
    one_node = getenv("OMPI_MCA_coll_gpuring_hostid") == NULL; /* see as_nodes.sh */
    all_agree = agree_size != NULL && atoi(agree_size) <= LARGE * (int) sizeof(int);
    phases = argc > 2 ? atoi(argv[2]) : 10;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped);
    MPI_Type_commit(&gapped);
    for (int s = 0; s < UNDER_WAY; s++) {
        for (int k = 0; k < 2; k++) {
            slots[s].memory[0][k] = malloc(sizeof host);
            slots[s].memory[1][k] = harness_alloc(sizeof host);
        }
    }
    lasting.input = harness_alloc(sizeof(int));
    lasting.output = harness_alloc(sizeof(int));
    comm = MPI_COMM_WORLD;
    if (!first) { /* the first call without a root connects the ranks */
        device = slots[0].memory[1][0];
        harness_write(device, &one, sizeof one);
        MPI_Allreduce(MPI_IN_PLACE, device, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    rows(!first);
    if (first) {
        rare_agreements();
        harness_check(run_unconnected(phases), "communicators that begin with calls with a root");
    }
    calls = harness_pvar("coll_gpuring_calls");
    good = queued_gathers();
    calls = harness_pvar("coll_gpuring_calls") - calls;
    harness_check(good && calls == (one_node || all_agree ? 3 : 1),
                  "gathers that wait in the queue: %lld calls served", calls);
    harness_check(run_phases(phases), "%d phases of calls with buffers here and there", phases);
    for (int s = 0; s < UNDER_WAY; s++) {
        for (int k = 0; k < 2; k++) {
            free(slots[s].memory[0][k]);
            harness_free(slots[s].memory[1][k]);
        }
    }
    harness_free(lasting.input);
    harness_free(lasting.output);
    MPI_Type_free(&gapped);
    return harness_finish();
}
