/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large blocking collectives on device memory, which are cut into chunks: sizes around the limit
 * and the ends of chunks, against the same call on host memory; all bytes of both buffers must be
 * equal afterwards. Every rank must have run the expected number of chunks. coll_gpuring_stage_size
 * is 4096.
 *
 *   staged_large [-f N]    every N-th combination
 *   staged_large -e [LOG]  the driver fails at one rank, at every call of copies in turn
 *   staged_large -m [LOG]  one rank gets no memory, from every call for it on (needs scarce.la)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "staged_data.h"
#include "staged_large.h"

#define AREA   ((size_t) 384 << 10) /* bytes of a buffer */
#define ORIGIN ((size_t) 64 << 10)  /* where the buffers of calls begin in it */

/* Which buffers are on the GPU. */
enum kinds { BOTH_ON_GPU, SEND_ON_GPU, RECEIVE_ON_GPU, EVEN_RANKS, ALL_BUT_ROOT, NONE, KINDS };

/* A combination. */
struct choice {
    int kinds, in_place, last_root, layout, size;
};

/* In place, a scattered reduction leaves anything behind its result. */
static size_t defined_bytes(const struct large_call *large)
{
    return large->sends || strncmp(large->what->name, "reduce_scatter", 14) != 0
               ? AREA
               : ORIGIN + (size_t) large_own_ints(large) * sizeof(int);
}

static bool on_gpu(const struct large_call *large, enum kinds kinds, enum kinds alone)
{
    return harness_on_gpu() && (kinds == BOTH_ON_GPU || kinds == alone ||
                                (kinds == EVEN_RANKS && harness_rank % 2 == 0) ||
                                (kinds == ALL_BUT_ROOT && !large->x.root_here));
}

/* Is this so at any rank? By messages and calls on host memory that are small. */
static bool anywhere(bool here)
{
    int mine = here, all = 0;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all != 0;
}

static long long chunks_run(void)
{
    return harness_on_gpu() && harness_have_component() ? harness_pvar("coll_gpuring_staged_chunks")
                                                        : 0;
}

/* One combination: on the host, on the GPU, and compared. *chunks: how many it was cut into. */
static bool compare(struct large_call *large, enum kinds kinds, long long *chunks)
{
    struct call reference = large->x, *x = &large->x;
    bool s = on_gpu(large, kinds, SEND_ON_GPU), r = on_gpu(large, kinds, RECEIVE_ON_GPU);
    bool staged = anywhere((s && large->sends) || (r && large->receives));
    long long expected = staged && harness_have_component() ? large_chunks(large) : 0;
    unsigned seed = data_seed();
    char *send = s ? data.gpu_send : data.other_send,
         *receive = r ? data.gpu_receive : data.other_receive;
    bool good;

    data_fill(send, s, data.host_send, AREA, seed + 1);
    data_fill(receive, r, data.host_receive, AREA, seed + 2);
    reference.send = large->send_in_place ? MPI_IN_PLACE : data.host_send + ORIGIN;
    reference.receive = large->receive_in_place ? MPI_IN_PLACE : data.host_receive + ORIGIN;
    x->send = large->send_in_place ? MPI_IN_PLACE : send + ORIGIN;
    x->receive = large->receive_in_place ? MPI_IN_PLACE : receive + ORIGIN;
    *chunks = chunks_run();
    good = large->what->call(&reference) == MPI_SUCCESS && chunks_run() == *chunks;
    good = large->what->call(x) == MPI_SUCCESS && good;
    *chunks = chunks_run() - *chunks;
    if (*chunks != expected) {
        printf("# rank %d: %lld chunks, expected %lld\n", harness_rank, *chunks, expected);
    }
    return good && *chunks == expected && data_same(send, s, data.host_send, AREA) &&
           data_same(receive, r, data.host_receive, defined_bytes(large));
}

static bool sensible(const struct choice *choice, const struct collective *what)
{
    return (!choice->in_place || (what->flags & (IN_PLACE | SCATTERS)) != 0) &&
           (!choice->last_root || (what->flags & ROOTED) != 0) &&
           (choice->kinds != ALL_BUT_ROOT || (what->flags & ROOTED) != 0);
}

/* A combination of everything by its number; false: there is no such. */
static bool choose(struct choice *choice, unsigned number)
{
    choice->size = (int) (number % LARGE_SIZES);
    number /= LARGE_SIZES;
    choice->layout = (int) (number % LARGE_LAYOUTS);
    number /= LARGE_LAYOUTS;
    choice->kinds = (int) (number % KINDS);
    number /= KINDS;
    choice->in_place = (int) (number % 2);
    number /= 2;
    choice->last_root = (int) number;
    return number < 2;
}

static void check_collective(const struct collective *what, unsigned every)
{
    static unsigned running; /* over all collectives, so that each gets others */
    long long chunks, all = 0;
    int combinations = 0, cut = 0;
    struct choice choice;
    bool good = true;

    for (unsigned number = 0; choose(&choice, number); number++) {
        struct large_call large;

        if (!sensible(&choice, what) || running++ % every != 0) {
            continue;
        }
        combinations++;
        large_prepare(&large, what, choice.layout, choice.size, choice.in_place, choice.last_root);
        if (!compare(&large, (enum kinds) choice.kinds, &chunks)) {
            printf("# rank %d: %s, layout %d, size %d, buffers %d, in place %d, last root %d\n",
                   harness_rank, what->name, choice.layout, choice.size, choice.kinds,
                   choice.in_place, choice.last_root);
            good = false;
        }
        cut += chunks > 0;
        all += chunks;
    }
    harness_check(good, "large %s: %d combinations, %d of them in %lld chunks", what->name,
                  combinations, cut, all);
    if (harness_on_gpu() && harness_have_component() && harness_size > 1) {
        harness_check(cut > 0 && cut < combinations && all > 2 * cut, "large %s: some were cut",
                      what->name);
    }
}

/* Between groups nothing is cut. */
static void between_groups(void)
{
    int color = harness_rank % 2, theirs, count = 9000;
    long long chunks = chunks_run();
    MPI_Comm half, both;
    bool good;

    if (harness_size == 1) {
        return;
    }
    MPI_Comm_split(MPI_COMM_WORLD, color, harness_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 5, &both);
    MPI_Comm_remote_size(both, &theirs);
    data_fill(data.gpu_send, harness_on_gpu(), data.host_send, AREA, (unsigned) harness_rank);
    data_fill(data.gpu_receive, harness_on_gpu(), data.host_receive, AREA, 99);
    good = MPI_Allgather(data.host_send, count, MPI_INT, data.host_receive, count, MPI_INT, both) ==
               MPI_SUCCESS &&
           MPI_Allgather(data.gpu_send, count, MPI_INT, data.gpu_receive, count, MPI_INT, both) ==
               MPI_SUCCESS &&
           data_same(data.gpu_receive, harness_on_gpu(), data.host_receive, AREA);
    harness_check(good && chunks_run() == chunks,
                  "between groups: large blocks of %d ranks, not cut", theirs);
    MPI_Comm_free(&half);
    MPI_Comm_free(&both);
}

/* A call on the GPU at all ranks while something fails at one. True: the ranks ended alike, and if
 * they ended well, with the right result. */
static bool survives(const struct collective *what, const struct large_trouble *trouble,
                     bool last_root, long n, struct large_outcome *outcome, bool *struck)
{
    struct large_call large;
    bool culprit = harness_rank == harness_size - 1, good, done;
    unsigned seed = data_seed();

    large_prepare(&large, what, LARGE_PLAIN, LARGE_MANY_CHUNKS, false, last_root);
    data_fill(data.gpu_send, true, data.host_send, AREA, seed + 1);
    data_fill(data.gpu_receive, true, data.host_receive, AREA, seed + 2);
    large.x.send = data.host_send + ORIGIN;
    large.x.receive = data.host_receive + ORIGIN;
    good = what->call(&large.x) == MPI_SUCCESS;
    large.x.send = data.gpu_send + ORIGIN;
    large.x.receive = data.gpu_receive + ORIGIN;
    MPI_Barrier(MPI_COMM_WORLD);
    if (culprit) {
        trouble->begin(trouble, n);
    }
    done = what->call(&large.x) == MPI_SUCCESS;
    *struck = large_rank_says(harness_size - 1, culprit && trouble->end(trouble, n));
    outcome->struck += *struck;
    outcome->errors += *struck && !done;
    outcome->right += *struck && done;
    good = good && (done || *struck) &&
           (!done || (data_same(data.gpu_send, true, data.host_send, AREA) &&
                      data_same(data.gpu_receive, true, data.host_receive, AREA)));
    return large_all_alike(done) && good;
}

static void check_trouble(const struct large_trouble *trouble, const struct collective *what)
{
    struct large_outcome outcome = {.struck = 0};
    bool rooted = (what->flags & ROOTED) != 0, good = true;

    for (int last_root = 0; last_root <= rooted; last_root++) {
        bool struck = true;

        for (long n = 1; struck && n < 200; n++) {
            if (!survives(what, trouble, last_root, n, &outcome, &struck)) {
                printf("# rank %d: %s, time %ld, last root %d\n", harness_rank, trouble->name, n,
                       last_root);
                good = false;
            }
        }
        good = good && !struck;
    }
    harness_check(good && outcome.struck > 0, "large %s, %s, %ld times: all ranks end alike",
                  what->name, trouble->name, outcome.struck);
    if (trouble->effect == LARGE_HARMLESS) {
        harness_check(outcome.errors == 0, "large %s, %s: right nevertheless", what->name,
                      trouble->name);
    } else {
        harness_check(outcome.errors > 0 && (trouble->effect == LARGE_EITHER || outcome.right == 0),
                      "large %s, %s: an error everywhere", what->name, trouble->name);
    }
}

/* What goes wrong in any of its forms, on all calls that it may meet. */
static void check_troubles(const struct large_trouble *trouble)
{
    for (; trouble->name != NULL; trouble++) {
        for (const struct collective *what = collectives; what->name != NULL; what++) {
            if (large_is_cut(what) && large_meets(trouble, what)) {
                check_trouble(trouble, what);
            }
        }
    }
}

int main(int argc, char **argv)
{
    unsigned every = 1;
    bool faults = argc > 1 && strcmp(argv[1], "-e") == 0;
    bool scarce = argc > 1 && strcmp(argv[1], "-m") == 0;

    for (int i = 1; i + 1 < argc; i++) {
        every = strcmp(argv[i], "-f") == 0 ? (unsigned) atoi(argv[i + 1]) : every;
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if ((faults || scarce) && argc > 2 && freopen(argv[2], "a", stderr) == NULL) {
        printf("Bail out! cannot write %s\n", argv[2]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    large_open(AREA);
    if (faults || scarce) {
        check_troubles(scarce ? large_scarcity() : large_faults());
    } else {
        for (const struct collective *what = collectives; what->name != NULL; what++) {
            if (large_is_cut(what)) {
                check_collective(what, every);
            }
        }
        between_groups();
    }
    data_close();
    return harness_finish();
}
