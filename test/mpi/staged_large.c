/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large blocking collectives on device memory, which are cut into chunks: sizes around the limit
 * and the ends of chunks, against the same call on host memory; all bytes of both buffers must be
 * equal afterwards. Every rank must have run the expected number of chunks. coll_gpuring_stage_size
 * is 4096.
 *
 *   staged_large [-f N]    every N-th combination
 *   staged_large -e        the driver fails at one rank, at every call of copies in turn
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "staged_data.h"
#include "staged_large.h"
#include "standin_find.h"

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

static void (*arm)(const char *list);
static int (*reached)(void);

/* A call on the GPU at all ranks while something fails at the last one: that has the error, if it
 * was struck, and the others have none. */
static bool survives(const struct collective *what, const char *fault, bool last_root, bool *struck)
{
    struct large_call large;
    bool culprit = harness_rank == harness_size - 1, done;
    int word = 0;

    large_prepare(&large, what, LARGE_PLAIN, LARGE_MANY_CHUNKS, false, last_root);
    data_fill(data.gpu_send, true, data.host_send, AREA, data_seed() + 1);
    large.x.send = data.gpu_send + ORIGIN;
    large.x.receive = data.gpu_receive + ORIGIN;
    if (culprit) {
        arm(fault);
    }
    done = what->call(&large.x) == MPI_SUCCESS;
    if (culprit) {
        word = reached();
        arm(NULL);
    }
    MPI_Bcast(&word, 1, MPI_INT, harness_size - 1, MPI_COMM_WORLD);
    *struck = word != 0;
    return done == !(culprit && *struck);
}

/* The n-th of its calls of the driver fails, until it makes no such call. */
static void check_faults(const struct collective *what)
{
    static const char *const faults[] = {"cuMemcpyAsync=%d:700", "cuMemcpy2DAsync_v2=%d:700",
                                         "cuStreamSynchronize=%d:700",
                                         "cuStreamSynchronize=%d:700:sticky"};
    bool good = true, struck = true;
    char fault[64];
    int trials = 0;

    for (size_t i = 0; i < 2 * sizeof faults / sizeof *faults; i++) {
        struck = true;
        for (int n = 1; struck && n < 200; n++) {
            snprintf(fault, sizeof fault, faults[i / 2], n);
            if (!survives(what, fault, i % 2 != 0, &struck)) {
                printf("# rank %d: %s, last root %zu\n", harness_rank, fault, i % 2);
                good = false;
            }
            trials += struck;
        }
        good = good && !struck;
    }
    harness_check(good && trials > 4, "large %s, a fault at one rank, %d times: an error there",
                  what->name, trials);
}

int main(int argc, char **argv)
{
    unsigned every = 1;
    bool faults = argc > 1 && strcmp(argv[1], "-e") == 0;

    for (int i = 1; i + 1 < argc; i++) {
        every = strcmp(argv[i], "-f") == 0 ? (unsigned) atoi(argv[i + 1]) : every;
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    large_open(AREA);
    if (faults) {
        standin_find("gpuring_standin_arm", &arm);
        standin_find("gpuring_standin_reached", &reached);
    }
    for (const struct collective *what = collectives; what->name != NULL; what++) {
        if (large_is_cut(what) && faults) {
            check_faults(what);
        } else if (large_is_cut(what)) {
            check_collective(what, every);
        }
    }
    if (!faults) {
        between_groups();
    }
    data_close();
    return harness_finish();
}
