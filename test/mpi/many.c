/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test collectives that use connections between all pairs of ranks, with many ranks: data of every
 * block, uneven blocks, the first, a middle and the last root, in place and out of place. Calls
 * that coll/gpuring can serve must not be delegated or staged.
 *
 *   many [LONGEST]     elements of the longest block (default 9001)
 */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

enum what {
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    SCAN,
    EXSCAN,
    ALLGATHER,
    ALLGATHERV,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    END
};
static const char *const names[END] = {
    "alltoall",      "alltoallv", "alltoallw", "gather",    "gatherv",    "scatter",
    "scatterv",      "scan",      "exscan",    "allgather", "allgatherv", "reduce_scatter_block",
    "reduce_scatter"};

#define MOST 128 /* maximum number of ranks */

static int longest = 9001, root, count;
static unsigned *input, *output; /* buffers of the calls */
static unsigned *host;
static bool in_place, uneven;
static enum what now;

/* Return true if a rank sends the same block to all ranks. */
static bool gathers_all(enum what what)
{
    return what == ALLGATHER || what == ALLGATHERV;
}

static bool folds_blocks(enum what what)
{
    return what == REDUCE_SCATTER_BLOCK || what == REDUCE_SCATTER;
}

static unsigned element(int from, int to, int i)
{
    to = gathers_all(now) ? 0 : to;
    return (unsigned) from * 1000003u + (unsigned) to * 1009u + (unsigned) i * 17u;
}

/* Return the length of the block from one rank to another. A scan counts as one block to rank 0. */
static int length(int from, int to)
{
    to = gathers_all(now) ? 0 : to;
    from = folds_blocks(now) ? 0 : from;
    return uneven ? count * ((from + 2 * to) % 4) / 3 : count;
}

/* The blocks of one side: from this rank to each rank, or from each rank to this rank. */
struct side {
    int counts[MOST], at[MOST], bytes_at[MOST];
};

static void lay_out(struct side *side, bool sends)
{
    int end = 0;

    for (int r = 0; r < harness_size; r++) {
        side->counts[r] = sends ? length(harness_rank, r) : length(r, harness_rank);
        side->at[r] = end;
        side->bytes_at[r] = end * (int) sizeof *host;
        end += side->counts[r];
    }
}

static bool scatters(enum what what)
{
    return what == SCATTER || what == SCATTERV;
}

static bool gathers(enum what what)
{
    return what == GATHER || what == GATHERV;
}

static bool reduces(enum what what)
{
    return what == SCAN || what == EXSCAN;
}

/* Write this rank's send buffer: one block per rank, or one in all. */
static void fill(enum what what, const struct side *to, unsigned *buffer)
{
    bool many = what <= ALLTOALLW || scatters(what) || folds_blocks(what);
    int at = gathers_all(what) && in_place ? to->at[harness_rank] : 0;

    for (int r = 0; r < (many ? harness_size : 1); r++) {
        int peer = gathers(what) ? root : r;

        for (int i = 0; i < length(harness_rank, peer); i++) {
            host[(many ? to->at[r] : at) + i] = element(harness_rank, peer, i);
        }
    }
    harness_write(buffer, host, sizeof *host * (size_t) longest * (size_t) harness_size);
}

static bool check_block(int at, int from, int to)
{
    for (int i = 0; i < length(from, to); i++) {
        if (host[at + i] != element(from, to, i)) {
            return false;
        }
    }
    return true;
}

static bool check_sum(int end, int to)
{
    for (int i = 0; i < length(0, to) && end > 0; i++) {
        unsigned sum = 0;

        for (int r = 0; r < end; r++) {
            sum += element(r, to, i);
        }
        if (host[i] != sum) {
            return false;
        }
    }
    return true;
}

static bool check(enum what what, const struct side *from)
{
    bool good = true;

    harness_read(host, output, sizeof *host * (size_t) longest * (size_t) harness_size);
    if (reduces(what)) {
        return check_sum(harness_rank + (what == SCAN), 0);
    }
    if (folds_blocks(what)) {
        return check_sum(harness_size, harness_rank);
    }
    if (scatters(what)) {
        return check_block(0, root, harness_rank);
    }
    for (int r = 0; r < harness_size && (!gathers(what) || harness_rank == root); r++) {
        good = good && check_block(from->at[r], r, harness_rank);
    }
    return good;
}

static void call(enum what what, const struct side *to, const struct side *from)
{
    const int *sends = to->counts, *receives = from->counts;
    const void *in = in_place ? MPI_IN_PLACE : input;
    int n = length(harness_rank, root), m = length(root, harness_rank);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype types[MOST];

    for (int r = 0; r < harness_size; r++) {
        types[r] = MPI_UNSIGNED;
    }
    switch (what) {
    case ALLTOALL:
        MPI_Alltoall(in, count, MPI_UNSIGNED, output, count, MPI_UNSIGNED, world);
        break;
    case ALLTOALLV:
        MPI_Ialltoallv(input, sends, to->at, MPI_UNSIGNED, output, receives, from->at, MPI_UNSIGNED,
                       world, &request);
        break;
    case ALLTOALLW:
        MPI_Alltoallw(input, sends, to->bytes_at, types, output, receives, from->bytes_at, types,
                      world);
        break;
    case GATHER:
        MPI_Gather(input, count, MPI_UNSIGNED, output, count, MPI_UNSIGNED, root, world);
        break;
    case GATHERV:
        MPI_Igatherv(input, n, MPI_UNSIGNED, output, receives, from->at, MPI_UNSIGNED, root, world,
                     &request);
        break;
    case SCATTER:
        MPI_Iscatter(input, count, MPI_UNSIGNED, output, count, MPI_UNSIGNED, root, world,
                     &request);
        break;
    case SCATTERV:
        MPI_Scatterv(input, sends, to->at, MPI_UNSIGNED, output, m, MPI_UNSIGNED, root, world);
        break;
    case ALLGATHER:
        MPI_Allgather(in, count, MPI_UNSIGNED, output, count, MPI_UNSIGNED, world);
        break;
    case ALLGATHERV:
        MPI_Iallgatherv(in, n, MPI_UNSIGNED, output, receives, from->at, MPI_UNSIGNED, world,
                        &request);
        break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(in, output, count, MPI_UNSIGNED, MPI_SUM, world);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter(in, output, sends, MPI_UNSIGNED, MPI_SUM, world, &request);
        break;
    case SCAN:
        MPI_Scan(in, output, count, MPI_UNSIGNED, MPI_SUM, world);
        break;
    default:
        MPI_Exscan(in, output, count, MPI_UNSIGNED, MPI_SUM, world);
        break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static bool run(enum what what)
{
    struct side to, from;

    lay_out(&to, true);
    lay_out(&from, false);
    fill(what, gathers_all(what) ? &from : &to, in_place ? output : input);
    call(what, &to, &from);
    return check(what, &from);
}

static void check_all(enum what what)
{
    const int counts[] = {3, longest / 20 + 1, longest};
    long long staged = harness_pvar("coll_gpuring_staged"),
              fallbacks = harness_pvar("coll_gpuring_fallbacks");
    bool good = true;

    now = what;
    uneven = what == ALLTOALLV || what == ALLTOALLW || what == GATHERV || what == SCATTERV ||
             what == ALLGATHERV || what == REDUCE_SCATTER;
    for (int i = 0; i < (gathers(what) || scatters(what) ? 9 : 6); i++) {
        count = counts[i % 3];
        root = i / 3 * (harness_size - 1) / 2;
        in_place = i % 2 == 1 && (what == ALLTOALL || what >= SCAN);
        if (!run(what)) {
            printf("# rank %d: %s of %d elements, root %d, in place %d\n", harness_rank,
                   names[what], count, root, in_place);
            good = false;
        }
    }
    staged = harness_pvar("coll_gpuring_staged") - staged;
    fallbacks = harness_pvar("coll_gpuring_fallbacks") - fallbacks;
    harness_check(good, "%s", names[what]);
    harness_check(!harness_have_component() || (staged == 0 && fallbacks == 0),
                  "%s: %lld staged, %lld delegated", names[what], staged, fallbacks);
}

int main(int argc, char **argv)
{
    size_t bytes;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    longest = argc > 1 ? atoi(argv[1]) : longest;
    bytes = sizeof *host * (size_t) longest * (size_t) harness_size;
    input = harness_alloc(bytes);
    output = harness_alloc(bytes);
    host = calloc(1, bytes);
    for (int what = 0; what < END; what++) {
        check_all((enum what) what);
    }
    harness_free(input);
    harness_free(output);
    free(host);
    return harness_finish();
}
