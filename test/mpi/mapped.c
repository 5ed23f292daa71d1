/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test persistent allreduces whose buffers all ranks map.
 *
 *   mapped yes|no|any
 *                    whether the buffers can be mapped
 *   mapped few       they can be mapped; only a few sizes
 *   mapped odd       rank 1 alone has a buffer that cannot be mapped
 *   mapped faults    each driver call of a mapping fails on the last rank
 *   mapped late      the last rank starts a call after the others have failed
 *   mapped before|after
 *                    the last rank is killed before or after it has started a call
 */
#include "harness.h"
#include "standin_find.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE  (1 << 18) /* elements of 4 bytes, a size from which buffers are mapped */
#define STARTS 4

/* Entry points of the stand-in driver. */
static void (*arm)(const char *faults);
static int (*standin_reached)(void);

static bool mapped, any; /* whether the buffers can be mapped; any: it is not known */

/* A persistent sum of 32-bit integers. */
struct reduction {
    int count;
    int32_t *input, *output; /* equal: in place */
    MPI_Request request;
};

static int32_t value_of(int rank, int start, int i)
{
    return 7 * rank + 1000 * start + i % 911;
}

/* Fill the input for the start with this number, and the output with something else. */
static void prepare(const struct reduction *reduction, int start)
{
    int32_t *host = malloc((size_t) reduction->count * sizeof *host);

    for (int i = 0; i < reduction->count; i++) {
        host[i] = -1;
    }
    harness_write(reduction->output, host, (size_t) reduction->count * sizeof *host);
    for (int i = 0; i < reduction->count; i++) {
        host[i] = value_of(harness_rank, start, i);
    }
    harness_write(reduction->input, host, (size_t) reduction->count * sizeof *host);
    free(host);
}

static bool is_right(const struct reduction *reduction, int start)
{
    int32_t *host = malloc((size_t) reduction->count * sizeof *host);
    bool right = true;

    harness_read(host, reduction->output, (size_t) reduction->count * sizeof *host);
    for (int i = 0; i < reduction->count && right; i++) {
        int32_t sum = 0;

        for (int rank = 0; rank < harness_size; rank++) {
            sum += value_of(rank, start, i);
        }
        right = host[i] == sum;
    }
    free(host);
    return right;
}

static bool create(struct reduction *reduction, MPI_Comm comm)
{
    const void *input =
        reduction->input == reduction->output ? MPI_IN_PLACE : (const void *) reduction->input;

    return HARNESS_INIT(Allreduce)(input, reduction->output, reduction->count, MPI_INT32_T, MPI_SUM,
                                   comm, MPI_INFO_NULL, &reduction->request) == MPI_SUCCESS;
}

static bool run_once(struct reduction *reduction, int start)
{
    prepare(reduction, start);
    return MPI_Start(&reduction->request) == MPI_SUCCESS &&
           MPI_Wait(&reduction->request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           is_right(reduction, start);
}

/* Free a request on all ranks, so that the buffers are not mapped any longer. The stand-in driver
 * reports memory that is freed while it is mapped, about which CUDA's manual promises nothing. */
static bool release(struct reduction *reduction)
{
    return MPI_Request_free(&reduction->request) == MPI_SUCCESS &&
           MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* Return the number of mapped calls since the last call of this function. */
static long long mapped_calls(void)
{
    static long long before;
    long long now = harness_pvar("coll_gpuring_mapped_calls"), count = now - before;

    before = now;
    return count;
}

/* Return true if as many mapped calls were made as expected since the last count. */
static bool counted(long long calls)
{
    long long count = mapped_calls();

    return (any && (count == 0 || count == calls)) || count == (mapped ? calls : 0);
}

#define SIZES 5

/* Test the first sizes of the list. */
static void sizes(MPI_Comm comm, int number)
{
    static const int counts[SIZES] = {LARGE + 3, LARGE + 1, LARGE, 3 * LARGE / 2 + 127, 2 * LARGE};

    for (int c = 0; c < number; c++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            size_t bytes = (size_t) counts[c] * sizeof(int32_t);
            struct reduction reduction = {.count = counts[c], .output = harness_alloc(bytes)};
            bool good;

            reduction.input = in_place ? reduction.output : harness_alloc(bytes);
            good = create(&reduction, comm);
            for (int start = 0; start < STARTS && good; start++) {
                good = run_once(&reduction, start);
            }
            good = good && release(&reduction);
            if (!in_place) {
                harness_free(reduction.input);
            }
            harness_free(reduction.output);
            harness_check(good && counted(STARTS), "%d elements%s", counts[c],
                          in_place ? " in place" : "");
        }
    }
}

#define GAP    64 /* elements before and after each buffer of an allocation */
#define SHARED (4 * (LARGE + GAP) + GAP)

/* Return one allocation for two reductions, with zeros before and after all buffers. */
static int32_t *share_allocation(struct reduction *both)
{
    int32_t *memory = harness_alloc(SHARED * sizeof *memory), *next;
    int32_t *zeros = calloc(SHARED, sizeof *zeros);

    harness_write(memory, zeros, SHARED * sizeof *memory);
    free(zeros);
    next = memory + GAP;
    for (int i = 0; i < 2; i++) {
        both[i].count = LARGE - i;
        both[i].input = next;
        both[i].output = next + LARGE + GAP;
        next += 2 * (LARGE + GAP);
    }
    return memory;
}

/* Return true if nothing was stored outside the buffers. The second reduction is one element
 * shorter. */
static bool gaps_are_intact(const int32_t *memory)
{
    int32_t *host = malloc(SHARED * sizeof *host);
    bool intact = true;

    harness_read(host, memory, SHARED * sizeof *host);
    for (int gap = 0; gap <= 4; gap++) {
        const int32_t *begin = host + gap * (LARGE + GAP);

        for (int i = gap < 3 ? 0 : -1; i < GAP; i++) {
            intact = intact && begin[i] == 0;
        }
    }
    free(host);
    return intact;
}

/* The buffers of two calls are in the same allocation. Ranks start the calls in different orders,
 * between other calls, and free one of them early. */
static void shared_allocation(MPI_Comm comm)
{
    struct reduction both[2];
    int32_t *memory = share_allocation(both);
    bool good = create(&both[0], comm) && create(&both[1], comm);
    int own = harness_rank, sum = 0;

    for (int start = 0; start < STARTS && good; start++) {
        MPI_Request requests[2];

        for (int i = 0; i < 2; i++) {
            prepare(&both[i], start);
            requests[i] = both[i].request;
        }
        good = MPI_Start(&requests[harness_rank % 2]) == MPI_SUCCESS &&
               MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS &&
               MPI_Start(&requests[1 - harness_rank % 2]) == MPI_SUCCESS &&
               MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
               is_right(&both[0], start) && is_right(&both[1], start);
    }
    good = good && release(&both[0]);
    good = good && run_once(&both[1], STARTS);
    good = good && release(&both[1]) && gaps_are_intact(memory);
    harness_free(memory);
    harness_check(good && counted(2 * STARTS + 1),
                  "two calls with one allocation, in different orders");
}

/* A small call on the same track, and then a call of the same shape whose buffers cannot be mapped
 * on one rank. */
static void same_track(MPI_Comm comm)
{
    size_t bytes = LARGE * sizeof(int32_t);
    int32_t *memory = harness_alloc(bytes + 16);
    struct reduction reduction = {.count = LARGE, .input = memory, .output = memory};
    bool good = true;

    for (int turn = 0; turn < 3 && good; turn++) {
        reduction.count = turn == 1 ? 10 : LARGE;
        reduction.input = reduction.output = memory + (turn == 2 && harness_rank == 0);
        good = create(&reduction, comm) && run_once(&reduction, turn) &&
               run_once(&reduction, turn + 1) && release(&reduction);
    }
    harness_free(memory);
    harness_check(good && counted(2), "mapped, small, and misaligned calls one after another");
}

/* The communicator is freed before the request, which remains usable. */
static void freed_communicator(void)
{
    struct reduction reduction = {.count = LARGE, .input = harness_alloc(LARGE * sizeof(int32_t))};
    MPI_Comm comm;
    bool good;

    reduction.output = reduction.input;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    good = create(&reduction, comm) && MPI_Comm_free(&comm) == MPI_SUCCESS;
    good = good && run_once(&reduction, 0) && run_once(&reduction, 1);
    good = good && release(&reduction);
    harness_free(reduction.input);
    harness_check(good && counted(2), "a freed communicator");
}

/* Rank 1 alone has a misaligned buffer. */
static void odd_rank(MPI_Comm comm)
{
    size_t bytes = LARGE * sizeof(int32_t);
    int32_t *memory = harness_alloc(bytes + 16);
    struct reduction reduction = {.count = LARGE,
                                  .input = memory + (harness_rank == 1),
                                  .output = memory + (harness_rank == 1)};
    bool good = create(&reduction, comm) && run_once(&reduction, 0) && run_once(&reduction, 1);

    good = good && release(&reduction);
    harness_free(memory);
    harness_check(good && mapped_calls() == 0, "one rank has a misaligned buffer");
}

/* Create a call whose output differs from its input, and start it twice. */
static bool begin(struct reduction *reduction)
{
    size_t bytes = LARGE * sizeof(int32_t);

    *reduction = (struct reduction){
        .count = LARGE, .input = harness_alloc(bytes), .output = harness_alloc(bytes)};
    return create(reduction, MPI_COMM_WORLD) && run_once(reduction, 0) && run_once(reduction, 1) &&
           mapped_calls() == 2;
}

/* After an error, the output belongs to the application again. A rank that starts the call later
 * must not store anything there. */
static void late_rank(void)
{
    bool last = harness_rank == harness_size - 1, good;
    int32_t *kept = calloc(LARGE, sizeof *kept), *now = calloc(LARGE, sizeof *now);
    struct reduction reduction;

    good = begin(&reduction);
    if (last) {
        sleep(5);
    }
    prepare(&reduction, 2);
    good = good && MPI_Start(&reduction.request) == MPI_SUCCESS &&
           MPI_Wait(&reduction.request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    harness_read(kept, reduction.output, LARGE * sizeof *kept);
    harness_check(good, "a late start: an error at all ranks"); /* meets the late rank */
    harness_read(now, reduction.output, LARGE * sizeof *now);
    harness_check(memcmp(kept, now, LARGE * sizeof *now) == 0,
                  "a late start: other ranks' buffers stay as they are");
    free(kept);
    free(now);
}

/* Create and run a call while a call of the driver fails on the last rank. Return false if the
 * fault was not reached. */
static bool trial(const char *fault, bool *good)
{
    int32_t *memory = harness_alloc(2 * LARGE * sizeof *memory);
    struct reduction reduction = {.count = LARGE, .input = memory, .output = memory + LARGE};
    bool last = harness_rank == harness_size - 1;
    int reached;

    if (last) {
        arm(fault);
    }
    *good = *good && create(&reduction, MPI_COMM_WORLD);
    reached = last && fault[0] != '\0' && standin_reached();
    if (last) {
        arm("");
    }
    MPI_Bcast(&reached, 1, MPI_INT, harness_size - 1, MPI_COMM_WORLD);
    *good = *good && run_once(&reduction, 0) && run_once(&reduction, 1) && release(&reduction);
    *good = *good && (reached ? mapped_calls() == 0 : counted(2));
    harness_free(memory);
    return reached != 0;
}

/* A call of the driver fails, and the ranks work without mapped buffers. */
static void faults(void)
{
    static const char *const symbols[] = {"cuMemGetAddressRange_v2", "cuIpcGetMemHandle",
                                          "cuIpcOpenMemHandle_v2", "cuMemAlloc_v2"};
    bool good = true;
    char fault[64];

    standin_find("gpuring_standin_arm", &arm);
    standin_find("gpuring_standin_reached", &standin_reached);
    for (int i = 0; i < 2; i++) { /* make all connections that the trials need */
        (void) trial("", &good);
        same_track(MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        int n = 0;

        do {
            snprintf(fault, sizeof fault, "%s=%d", symbols[i], ++n);
        } while (trial(fault, &good));
        harness_check(good && n > 1, "a failure in any of %d calls of %s", n - 1, symbols[i]);
    }
}

/* Let the last rank die before or after it has started a call. The others get an error. */
static void dying_rank(bool before)
{
    struct reduction reduction;
    bool good = begin(&reduction), last = harness_rank == harness_size - 1;

    prepare(&reduction, 2);
    if (last && before) {
        raise(SIGKILL);
    }
    good = good && MPI_Start(&reduction.request) == MPI_SUCCESS;
    if (last) {
        raise(SIGKILL);
    }
    sleep(1);
    good = good && MPI_Wait(&reduction.request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    printf("rank %d: %s\n", harness_rank, good ? "success" : "error");
    fflush(stdout);
    if (harness_rank == 0) {
        sleep(2); /* the others print */
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    sleep(20);
    _exit(1); /* under --enable-recovery, mpirun 4.1 leaves them alive */
}

int main(int argc, char **argv)
{
    const char *how;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    how = argc > 1 ? argv[1] : "";
    any = strcmp(how, "any") == 0;
    mapped = strcmp(how, "no") != 0;
    (void) mapped_calls();
    if (strcmp(how, "odd") == 0) {
        odd_rank(MPI_COMM_WORLD);
        return harness_finish();
    }
    if (strcmp(how, "faults") == 0) {
        faults();
        return harness_finish();
    }
    if (strcmp(how, "late") == 0) {
        late_rank();
        return harness_finish();
    }
    if (strcmp(how, "before") == 0 || strcmp(how, "after") == 0) {
        dying_rank(strcmp(how, "before") == 0);
    }
    if (strcmp(how, "few") == 0) {
        sizes(MPI_COMM_WORLD, 1);
        return harness_finish();
    }
    sizes(MPI_COMM_WORLD, SIZES);
    shared_allocation(MPI_COMM_WORLD);
    same_track(MPI_COMM_WORLD);
    freed_communicator();
    return harness_finish();
}
