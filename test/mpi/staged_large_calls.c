/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "staged_large.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "staged_data.h"

#define STAGE 4096 /* coll_gpuring_stage_size */

static const struct data_layout layouts[LARGE_LAYOUTS] = {
    [LARGE_PLAIN] = {1, {0}, 0, 1},
    [LARGE_TRIPLES] = {3, {0, 1, 2}, 0, 3},
    [LARGE_SHIFTED] = {1, {2}, 2, 1},
    [LARGE_GAPS] = {2, {0, 2}, 0, 3},
};

void large_open(size_t area)
{
    data_open(layouts, LARGE_LAYOUTS, area);
}

/* Those that are cut; are their blocks of different lengths? */
static const struct kind {
    const char *name;
    bool lengths;
} kinds[] = {
    {"bcast", false},     {"reduce", false},    {"allreduce", false},
    {"scan", false},      {"exscan", false},    {"reduce_scatter_block", false},
    {"gather", false},    {"scatter", false},   {"reduce_scatter", true},
    {"allgather", false}, {"allgatherv", true}, {"alltoall", false},
};

static const struct kind *kind_of(const struct collective *what)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, what->name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

bool large_is_cut(const struct collective *what)
{
    return kind_of(what) != NULL;
}

static bool reduces(const struct large_call *large)
{
    return (large->what->flags & REDUCES) != 0;
}

static bool any_gap(const struct large_call *large)
{
    return large->layout == LARGE_GAPS;
}

/* Blocks that differ, by the number of the size: all alike, one alone, growing, one far longer, not
 * quite enough to be cut, the first and last empty. */
static int length(int size, int block, int blocks, int piece)
{
    switch (size % 6) {
    case 0:
        return 3 * piece;
    case 1:
        return block == blocks - 1 ? 5 * blocks * piece : 0;
    case 2:
        return block * 2 * piece + 6;
    case 3:
        return block == 0 ? 7 * piece : 12;
    case 4:
        return 2 * piece;
    default:
        return block == 0 || block == blocks - 1 ? 0 : 9 * piece + 18;
    }
}

/* Lengths in ints that whole elements of every type make. */
static void set_lengths(struct large_call *large, int size)
{
    const struct kind *kind = kind_of(large->what);
    int piece = STAGE / large->blocks / 64 * 64 / (int) sizeof(int); /* that a chunk takes */
    int most = 2 * STAGE / large->blocks / (int) sizeof(int);        /* that is not cut */
    const int sizes[LARGE_SIZES] = {6,
                                    most,
                                    most + 1,
                                    3 * piece,
                                    3 * piece + 1,
                                    3 * piece - 1,
                                    7 * piece + 3,
                                    4 * piece + 6,
                                    11 * piece};

    for (int i = 0; i < large->blocks; i++) {
        int ints =
            kind->lengths ? length(size, i, large->blocks, piece) : sizes[size % LARGE_SIZES];

        large->ints[i] = large->layout == LARGE_PLAIN || large->layout == LARGE_SHIFTED
                             ? ints
                             : (ints + 5) / 6 * 6;
    }
}

int large_own_ints(const struct large_call *large)
{
    return large->ints[large->blocks == 1 ? 0 : large->x.rank];
}

/* What this rank takes as an element. */
static int own_layout(const struct large_call *large)
{
    if (reduces(large)) {
        return large->layout;
    }
    if (large->layout == LARGE_GAPS) {
        return large->x.rank == large->x.size - 1 ? LARGE_GAPS : LARGE_PLAIN;
    }
    return large->layout == LARGE_TRIPLES && large->x.rank % 2 ? LARGE_PLAIN : large->layout;
}

/* Blocks where they are received: one after the other, or the last one first, at odd distances. */
static void set_displs(struct large_call *large, bool in_order)
{
    struct call *x = &large->x;
    int displ = 3;

    for (int k = 0; k < x->size; k++) {
        int i = in_order ? k : x->size - 1 - k;

        x->from_displs[i] = displ;
        displ += x->from_counts[i] + (in_order ? 2 : i);
    }
}

static void set_arguments(struct large_call *large, int size)
{
    const struct data_layout *layout = &layouts[own_layout(large)];
    struct call *x = &large->x;

    x->type = data_types[layout - layouts];
    x->count = large->ints[0] / layout->n;
    x->part = x->count;
    x->give = large_own_ints(large) / layout->n;
    for (int i = 0; i < large->blocks; i++) {
        x->parts[i] = x->from_counts[i] = large->ints[i] / layout->n;
    }
    set_displs(large, size % 2 == 0);
}

/* Which buffers this rank has, and which of them are touched. */
static void set_buffers(struct large_call *large, bool in_place)
{
    const char *name = large->what->name;
    unsigned flags = large->what->flags;
    bool root = large->x.root_here, rooted = (flags & ROOTED) != 0;
    bool scatter = strcmp(name, "scatter") == 0;
    bool nothing = strcmp(name, "reduce_scatter") == 0 && large_own_ints(large) == 0;
    bool no_part = strcmp(name, "allgatherv") == 0 && large_own_ints(large) == 0;

    large->send_in_place = in_place && (flags & IN_PLACE) != 0 && (!rooted || root);
    large->receive_in_place = in_place && (flags & SCATTERS) != 0 && root;
    large->sends =
        !large->send_in_place && strcmp(name, "bcast") != 0 && (!scatter || root) && !no_part;
    large->receives = !large->receive_in_place && !nothing &&
                      (!rooted || root || scatter || strcmp(name, "bcast") == 0);
    if (large->send_in_place && (flags & REDUCES) != 0) {
        large->receives = true; /* it has the input */
    }
}

void large_prepare(struct large_call *large, const struct collective *what, int layout, int size,
                   bool in_place, bool last_root)
{
    struct call *x = &large->x;

    memset(large, 0, sizeof *large);
    large->what = what;
    large->layout = layout;
    x->comm = MPI_COMM_WORLD;
    x->form = BLOCKING;
    x->rank = harness_rank;
    x->size = x->sources = x->targets = harness_size;
    x->op = data_op;
    x->root = last_root ? harness_size - 1 : 0;
    x->root_here = x->rank == x->root;
    large->blocks = (what->flags & ONE_BLOCK) != 0 ? 1 : harness_size;
    set_lengths(large, size);
    set_arguments(large, size);
    set_buffers(large, in_place);
}

static int minimum(int a, int b)
{
    return a < b ? a : b;
}

/* By trying all lengths of pieces, where the component computes. */
long long large_chunks(const struct large_call *large)
{
    int unit = reduces(large) ? layouts[large->layout].n * (int) sizeof(int) : 1;
    int limit = STAGE / unit, step = 0, sum = 0, longest = 0;

    for (int i = 0; i < large->blocks; i++) {
        int units = large->ints[i] * (int) sizeof(int) / unit;

        sum += units * unit;
        longest = units > longest ? units : longest;
    }
    if (harness_size == 1 || sum <= 2 * STAGE || any_gap(large)) {
        return 0;
    }
    for (int all = 0; all <= limit; step++) {
        all = 0;
        for (int i = 0; i < large->blocks; i++) {
            all += minimum(large->ints[i] * (int) sizeof(int) / unit, step + 1);
        }
        if (all > limit) {
            break;
        }
    }
    step = unit == 1 && step > 64 ? step / 64 * 64 : step;
    return (longest + step - 1) / step;
}
