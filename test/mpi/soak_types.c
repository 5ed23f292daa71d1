/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "soak_types.h"

#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define TRIED 3 /* elements that Open MPI itself packs */

const int soak_signatures = 6;

struct soak_signature soak_signature(int i)
{
    const struct soak_signature all[] = {
        {1, {MPI_BYTE}, {1}},
        {1, {MPI_SHORT}, {2}},
        {1, {MPI_INT}, {4}},
        {1, {MPI_DOUBLE}, {8}},
        {1, {MPI_C_DOUBLE_COMPLEX}, {16}},
        {4, {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_FLOAT}, {1, 8, 2, 4}},
    };

    return all[i];
}

static int below(uint64_t *state, int n)
{
    return (int) (harness_draw(state) % (uint64_t) n);
}

/* Set new bounds, and compute the first and the last byte of the numbers. */
static void set_bounds(struct soak_type *type, MPI_Aint lower, MPI_Aint extent)
{
    type->lower = lower;
    type->extent = extent;
    type->low = type->at[0];
    type->high = type->at[0];
    for (int i = 0; i < type->numbers; i++) {
        MPI_Aint end = type->at[i] + soak_type_size(type, i);

        type->low = type->at[i] < type->low ? type->at[i] : type->low;
        type->high = end > type->high ? end : type->high;
    }
}

/* Replace a type with one derived from it. */
static void replace(struct soak_type *type, MPI_Datatype handle)
{
    if (type->made) {
        MPI_Type_free(&type->handle);
    }
    type->handle = handle;
    type->made = true;
}

static void resize(struct soak_type *type, MPI_Aint lower, MPI_Aint extent)
{
    MPI_Datatype handle;

    MPI_Type_create_resized(type->handle, lower, extent, &handle);
    replace(type, handle);
    set_bounds(type, lower, extent);
}

/* Draw one cell: a number, or a structure of numbers in any order, with gaps. */
static struct soak_type draw_cell(const struct soak_signature *signature, uint64_t *state)
{
    struct soak_type type = {.handle = signature->types[0],
                             .cells = 1,
                             .signature = signature,
                             .numbers = signature->numbers};
    int lengths[4] = {1, 1, 1, 1}, first = below(state, 4), end = 0;

    if (signature->numbers == 1) {
        set_bounds(&type, 0, signature->sizes[0]);
        return type;
    }
    for (int k = 0; k < 4; k++) {
        int i = (first + 3 * k) % 4;

        type.at[i] = end;
        end += signature->sizes[i] + below(state, 3);
    }
    MPI_Type_create_struct(4, lengths, type.at, signature->types, &type.handle);
    type.made = true;
    resize(&type, 0, end);
    return type;
}

/* Combine `n` copies of a type at these offsets, in bytes. */
static struct soak_type copies(const struct soak_type *inner, int n, const MPI_Aint *at)
{
    struct soak_type type = {.cells = n * inner->cells,
                             .signature = inner->signature,
                             .numbers = n * inner->numbers,
                             .made = true};
    MPI_Aint lower = at[0], upper = at[0];

    for (int c = 0; c < n; c++) {
        for (int i = 0; i < inner->numbers; i++) {
            type.at[c * inner->numbers + i] = at[c] + inner->at[i];
        }
        lower = at[c] < lower ? at[c] : lower;
        upper = at[c] > upper ? at[c] : upper;
    }
    set_bounds(&type, lower + inner->lower, upper - lower + inner->extent);
    return type;
}

static struct soak_type draw_copies(const struct soak_type *inner, int n, uint64_t *state)
{
    int step = 1, how = below(state, 5), lengths[SOAK_CELLS], places[SOAK_CELLS];
    int first = below(state, n), turn = 0;
    MPI_Aint at[SOAK_CELLS];
    MPI_Datatype parts[SOAK_CELLS];
    struct soak_type type;

    if (how == 1 || how == 2) { /* forth or back */
        step = (step + below(state, 4)) * (below(state, 4) == 0 ? -1 : 1);
    }
    for (int c = 0; c < n; c++) {
        places[c] = how == 0 ? c : how < 3 ? c * step : turn;
        turn += step + below(state, 3);
    }
    for (int c = 0; c < n && how >= 3; c++) { /* in any order */
        int other = (c + first) % n, place = places[c];

        places[c] = places[other];
        places[other] = place;
    }
    for (int c = 0; c < n; c++) {
        at[c] = places[c] * inner->extent;
        lengths[c] = 1;
        parts[c] = inner->handle;
    }
    type = copies(inner, n, at);
    switch (how) {
    case 0:
        MPI_Type_contiguous(n, inner->handle, &type.handle);
        break;
    case 1:
        MPI_Type_vector(n, 1, step, inner->handle, &type.handle);
        break;
    case 2:
        MPI_Type_create_hvector(n, 1, step * inner->extent, inner->handle, &type.handle);
        break;
    case 3:
        MPI_Type_indexed(n, lengths, places, inner->handle, &type.handle);
        break;
    default:
        MPI_Type_create_struct(n, lengths, at, parts, &type.handle);
        resize(&type, type.lower, type.extent); /* without padding */
        break;
    }
    return type;
}

/* Make a column of a matrix with `columns` columns, so that elements are interleaved. */
static struct soak_type column(const struct soak_type *inner, int n, int columns)
{
    MPI_Aint at[SOAK_CELLS];
    struct soak_type type;

    for (int c = 0; c < n; c++) {
        at[c] = c * columns * inner->extent;
    }
    type = copies(inner, n, at);
    MPI_Type_vector(n, 1, columns, inner->handle, &type.handle);
    resize(&type, inner->lower, inner->extent);
    return type;
}

static struct soak_type draw_type(const struct soak_signature *signature, int cells, int elements,
                                  uint64_t *state)
{
    static const int divisors[] = {2, 3, 4, 6, 12};
    struct soak_type type = draw_cell(signature, state);
    bool columns = false;

    while (type.cells < cells) {
        int left = cells / type.cells, n = divisors[below(state, 5)];
        struct soak_type inner = type;

        n = left % n == 0 ? n : left;
        columns = n == left && below(state, 3) == 0;
        type = columns ? column(&inner, n, (elements > TRIED ? elements : TRIED) + below(state, 3))
                       : draw_copies(&inner, n, state);
        if (inner.made) {
            MPI_Type_free(&inner.handle);
        }
    }
    if (!columns && below(state, 3) == 0) {
        resize(&type, type.low - below(state, 40), type.high - type.low + below(state, 40));
    }
    if (type.made) {
        MPI_Type_commit(&type.handle);
    }
    return type;
}

/* Return true if Open MPI packs and unpacks the type in the order of its numbers.
 * 4.1 does not if a type without gaps has its pieces in another order than in memory. */
static bool is_packed_right(const struct soak_type *type)
{
    int bytes = 0, at = 0, end = 0;
    size_t room = (size_t) (type->high - type->low + TRIED * type->extent);
    unsigned char *memory = malloc(room), *begin = memory - type->low, *packed, *next;
    unsigned char *back = calloc(1, room);
    bool right = true;

    for (size_t i = 0; i < room; i++) {
        memory[i] = (unsigned char) (i * 167 + i / 256 * 59 + i / 65536);
    }
    MPI_Pack_size(TRIED, type->handle, MPI_COMM_SELF, &bytes);
    next = packed = malloc((size_t) bytes + 1);
    MPI_Pack(begin, TRIED, type->handle, packed, bytes, &end, MPI_COMM_SELF);
    MPI_Unpack(packed, end, &at, back - type->low, TRIED, type->handle, MPI_COMM_SELF);
    for (long i = 0; i < TRIED * type->numbers; i++) {
        size_t size = (size_t) soak_type_size(type, i);
        MPI_Aint place = soak_type_at(type, i);

        right = right && memcmp(next, begin + place, size) == 0 &&
                memcmp(back - type->low + place, begin + place, size) == 0;
        next += size;
    }
    free(memory);
    free(packed);
    free(back);
    return right;
}

struct soak_type soak_type_draw(const struct soak_signature *signature, int cells, int elements,
                                uint64_t *state)
{
    struct soak_type type = draw_type(signature, cells, elements, state);

    while (!is_packed_right(&type)) {
        soak_type_free(&type);
        type = draw_type(signature, cells, elements, state);
    }
    return type;
}

void soak_type_absolute(struct soak_type *type, void *address)
{
    MPI_Datatype handle;
    MPI_Aint at;
    int one = 1;

    MPI_Get_address(address, &at);
    MPI_Type_create_hindexed(1, &one, &at, type->handle, &handle);
    replace(type, handle);
    MPI_Type_commit(&type->handle);
}

void soak_type_free(struct soak_type *type)
{
    if (type->made) {
        MPI_Type_free(&type->handle);
    }
}
