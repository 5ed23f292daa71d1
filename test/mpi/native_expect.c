/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "native_expect.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct native_type native_types[NATIVE_TYPES] = {
    {"int", MPI_DATATYPE_NULL, 1, {0}, {4}, 4, 4},
    {"double", MPI_DATATYPE_NULL, 1, {0}, {8}, 8, 8},
    {"bytes", MPI_DATATYPE_NULL, 1, {0}, {1}, 1, 1},
    {"a vector", MPI_DATATYPE_NULL, 2, {0, 12}, {8, 8}, 24, 16},
    {"a structure", MPI_DATATYPE_NULL, 2, {1, 8}, {3, 8}, 16, 11},
};

static void make_types(void)
{
    int lengths[2] = {3, 1};
    MPI_Aint at[2] = {1, 8};
    MPI_Datatype parts[2] = {MPI_CHAR, MPI_DOUBLE}, type;

    native_types[0].handle = MPI_INT;
    native_types[1].handle = MPI_DOUBLE;
    native_types[2].handle = MPI_BYTE;
    MPI_Type_vector(2, 2, 3, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 24, &native_types[3].handle);
    MPI_Type_free(&type);
    MPI_Type_create_struct(2, lengths, at, parts, &type);
    MPI_Type_create_resized(type, 0, 16, &native_types[4].handle);
    MPI_Type_free(&type);
    MPI_Type_commit(&native_types[3].handle);
    MPI_Type_commit(&native_types[4].handle);
}

size_t native_open(struct native *native, size_t longest)
{
    size_t area = (size_t) 2 * NATIVE_ORIGIN + (size_t) harness_size * 2 * longest;

    if (native_types[0].handle == MPI_DATATYPE_NULL) {
        make_types();
    }
    native->send = malloc(area);
    native->receive = malloc(area);
    native->expected = malloc(area);
    return area;
}

void native_close(struct native *native)
{
    free(native->send);
    free(native->receive);
    free(native->expected);
}

void native_free_types(void)
{
    MPI_Type_free(&native_types[3].handle);
    MPI_Type_free(&native_types[4].handle);
}

bool native_reduces(const struct native_type *type)
{
    return type - native_types < 2;
}

static bool named(const struct collective *what, const char *name)
{
    return strcmp(what->name, name) == 0;
}

bool native_has_lengths(const struct collective *what)
{
    char last = what->name[strlen(what->name) - 1];

    return named(what, "reduce_scatter") || last == 'v' || last == 'w';
}

/* ---- Describing a call ---- */

/* Return the number of elements of block i. */
static int block_length(enum native_blocks blocks, int count, int i)
{
    return blocks == NATIVE_EQUAL  ? count
           : blocks == NATIVE_SOME ? (i % 2 ? 0 : count + (count > 1 ? i % 3 : 0))
           : i == harness_size - 1 ? count
                                   : 0;
}

/* Set the displacements of blocks, in extents: in descending or ascending order, with gaps. Return
 * the end of all blocks. */
static int set_displs(const int *counts, int *displs, bool back)
{
    int at = 2;

    for (int k = 0; k < harness_size; k++) {
        int i = back ? harness_size - 1 - k : k;

        displs[i] = at;
        at += counts[i] + 1;
    }
    return at;
}

void native_describe(struct native *native, const struct native_type *type, int count, int root,
                     enum native_blocks blocks, MPI_Op op)
{
    int n = harness_size, end = 0, most = count * n;

    native->type = type;
    for (int r = 0; r < n; r++) {
        struct call *x = &native->calls[r];

        *x = (struct call){.rank = r,
                           .size = n,
                           .sources = n,
                           .targets = n,
                           .root = root,
                           .root_here = r == root,
                           .type = type->handle,
                           .op = op,
                           .count = count,
                           .part = count,
                           .give = block_length(blocks, count, r)};
        for (int i = 0; i < n; i++) {
            x->from_counts[i] = x->parts[i] = block_length(blocks, count, i);
            x->s_counts[i] = x->r_counts[i] = block_length(blocks, count, (r + i) % n);
        }
        end = set_displs(x->from_counts, x->from_displs, true);
        most = end > most ? end : most;
        end = set_displs(x->r_counts, x->r_displs, true);
        most = end > most ? end : most;
        (void) set_displs(x->s_counts, x->s_displs, false);
        for (int i = 0; i < n; i++) {
            x->s_types[i] = x->r_types[i] = type->handle;
            x->s_bytes[i] = x->s_displs[i] * (int) type->extent;
            x->r_bytes[i] = x->r_displs[i] * (int) type->extent;
        }
    }
    native->bytes = ((size_t) most * type->extent + 2 * NATIVE_ORIGIN + 7) / 8 * 8;
}

/* Write these bytes of a buffer before the call. */
static void data_of(const struct native *native, uint64_t seed, size_t at, size_t length, char *to)
{
    bool doubles = native->type->handle == MPI_DOUBLE;

    while (length > 0) {
        uint64_t x = (at / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed;
        size_t part = 8 - at % 8 < length ? 8 - at % 8 : length;

        x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
        if (doubles) {
            double value = (double) (int32_t) (x >> 44);

            memcpy(&x, &value, 8);
        } else {
            x &= UINT64_C(0x007fffff007fffff); /* sums of 128 are ints */
        }
        memcpy(to, (char *) &x + at % 8, part);
        at += part;
        to += part;
        length -= part;
    }
}

void native_fill(struct native *native, uint64_t seed)
{
    for (int r = 0; r < harness_size; r++) {
        uint64_t state = seed + (uint64_t) r * 2;

        native->sends[r] = harness_draw(&state);
        native->receives[r] = harness_draw(&state);
    }
    data_of(native, native->sends[harness_rank], 0, native->bytes, native->send);
    data_of(native, native->receives[harness_rank], 0, native->bytes, native->receive);
}

/* ---- Expected results ---- */

/* Return the seed of a rank's input. */
static uint64_t input(const struct native *native, int rank)
{
    return native->calls[rank].send == MPI_IN_PLACE ? native->receives[rank] : native->sends[rank];
}

/* Copy elements from the data of a seed to this rank's receive buffer. */
static void move(struct native *native, int to, uint64_t seed, int from, int count)
{
    const struct native_type *type = native->type;
    char *output = native->expected + NATIVE_ORIGIN + (size_t) to * type->extent;
    size_t source = NATIVE_ORIGIN + (size_t) from * type->extent;

    if (type->packed == type->extent) {
        data_of(native, seed, source, (size_t) count * type->extent, output);
        return;
    }
    for (int i = 0; i < count; i++) {
        for (int p = 0; p < type->pieces; p++) {
            size_t at = (size_t) i * type->extent + (size_t) type->at[p];

            data_of(native, seed, source + at, (size_t) type->length[p], output + at);
        }
    }
}

static double fold_one(MPI_Op op, double a, double b)
{
    return op == MPI_SUM ? a + b : op == MPI_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

/* Return element i of a rank's input of ints or doubles. A double represents both exactly. */
static double value_of(const struct native *native, int rank, int i)
{
    size_t size = native->type->extent, at = NATIVE_ORIGIN + (size_t) i * size;
    double value;
    int whole = 0;

    if (size == sizeof value) {
        data_of(native, input(native, rank), at, size, (char *) &value);
        return value;
    }
    data_of(native, input(native, rank), at, size, (char *) &whole);
    return whole;
}

/* Fold the elements of the first ranks into the beginning of the receive buffer. */
static void fold(struct native *native, int ranks, int from, int count)
{
    char *output = native->expected + NATIVE_ORIGIN;

    for (int i = 0; i < count; i++) {
        double value = value_of(native, 0, from + i);
        int whole;

        for (int r = 1; r < ranks; r++) {
            value = fold_one(native->calls[0].op, value, value_of(native, r, from + i));
        }
        whole = (int) value;
        if (native->type->extent == sizeof value) {
            memcpy(output + (size_t) i * sizeof value, &value, sizeof value);
        } else {
            memcpy(output + (size_t) i * sizeof whole, &whole, sizeof whole);
        }
    }
}

static void expect_bcast(struct native *native, const struct call *x)
{
    move(native, 0, native->receives[x->root], 0, x->count);
}

static void expect_reduce(struct native *native, const struct call *x)
{
    if (x->root_here) {
        fold(native, x->size, 0, x->count);
    }
}

static void expect_allreduce(struct native *native, const struct call *x)
{
    fold(native, x->size, 0, x->count);
}

static void expect_scan(struct native *native, const struct call *x)
{
    fold(native, x->rank + 1, 0, x->count);
}

static void expect_exscan(struct native *native, const struct call *x)
{
    if (x->rank > 0) {
        fold(native, x->rank, 0, x->count);
    }
}

static void expect_reduce_scatter_block(struct native *native, const struct call *x)
{
    fold(native, x->size, x->rank * x->part, x->part);
}

static void expect_reduce_scatter(struct native *native, const struct call *x)
{
    int from = 0;

    for (int r = 0; r < x->rank; r++) {
        from += x->parts[r];
    }
    fold(native, x->size, from, x->parts[x->rank]);
}

static void expect_allgather(struct native *native, const struct call *x)
{
    for (int s = 0; s < x->size; s++) {
        bool in_place = native->calls[s].send == MPI_IN_PLACE;

        move(native, s * x->count, input(native, s), in_place ? s * x->count : 0, x->count);
    }
}

static void expect_allgatherv(struct native *native, const struct call *x)
{
    for (int s = 0; s < x->size; s++) {
        bool in_place = native->calls[s].send == MPI_IN_PLACE;

        move(native, x->from_displs[s], input(native, s), in_place ? x->from_displs[s] : 0,
             x->from_counts[s]);
    }
}

static void expect_gather(struct native *native, const struct call *x)
{
    if (x->root_here) {
        expect_allgather(native, x);
    }
}

static void expect_gatherv(struct native *native, const struct call *x)
{
    if (x->root_here) {
        expect_allgatherv(native, x);
    }
}

static void expect_scatter(struct native *native, const struct call *x)
{
    if (x->receive != MPI_IN_PLACE) {
        move(native, 0, input(native, x->root), x->rank * x->count, x->count);
    }
}

static void expect_scatterv(struct native *native, const struct call *x)
{
    if (x->receive != MPI_IN_PLACE) {
        move(native, 0, input(native, x->root), x->from_displs[x->rank], x->give);
    }
}

static void expect_alltoall(struct native *native, const struct call *x)
{
    for (int s = 0; s < x->size; s++) {
        move(native, s * x->count, input(native, s), x->rank * x->count, x->count);
    }
}

static void expect_alltoallv(struct native *native, const struct call *x)
{
    for (int s = 0; s < x->size; s++) {
        const struct call *theirs = &native->calls[s];
        const int *displs = theirs->send == MPI_IN_PLACE ? theirs->r_displs : theirs->s_displs;

        move(native, x->r_displs[s], input(native, s), displs[x->rank], x->r_counts[s]);
    }
}

static const struct {
    const char *name;
    void (*expect)(struct native *native, const struct call *x);
} known[] = {
    {"bcast", expect_bcast},
    {"reduce", expect_reduce},
    {"allreduce", expect_allreduce},
    {"scan", expect_scan},
    {"exscan", expect_exscan},
    {"reduce_scatter_block", expect_reduce_scatter_block},
    {"reduce_scatter", expect_reduce_scatter},
    {"allgather", expect_allgather},
    {"allgatherv", expect_allgatherv},
    {"gather", expect_gather},
    {"gatherv", expect_gatherv},
    {"scatter", expect_scatter},
    {"scatterv", expect_scatterv},
    {"alltoall", expect_alltoall},
    {"alltoallv", expect_alltoallv},
    {"alltoallw", expect_alltoallv},
};

static int number_of(const struct collective *what)
{
    for (int i = 0; i < (int) (sizeof known / sizeof *known); i++) {
        if (named(what, known[i].name)) {
            return i;
        }
    }
    return -1;
}

bool native_knows(const struct collective *what)
{
    /* With one rank, Open MPI 4.1's own alltoallw (coll/self) ignores displacements. */
    return number_of(what) >= 0 && !(harness_size == 1 && named(what, "alltoallw"));
}

/* Accept any data between the result and the end of the input of a scattered reduction in place. */
static void excuse_rest(struct native *native, const struct call *x, const char *seen, int own)
{
    size_t extent = native->type->extent, begin = NATIVE_ORIGIN + (size_t) own * extent;
    int all = 0;

    for (int r = 0; r < x->size; r++) {
        all += x->parts[r];
    }
    memcpy(native->expected + begin, seen + begin, (size_t) (all - own) * extent);
}

void native_expect(struct native *native, const struct collective *what, const char *seen)
{
    const struct call *x = &native->calls[harness_rank];

    memcpy(native->expected, native->receive, native->bytes);
    known[number_of(what)].expect(native, x);
    if (x->send == MPI_IN_PLACE && strncmp(what->name, "reduce_scatter", 14) == 0) {
        excuse_rest(native, x, seen, x->parts[x->rank]);
    }
}
