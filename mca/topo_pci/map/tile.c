/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Order the cells of a grid so that the consecutive cells of each host form a compact box. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/map/map_internal.h"

/* Maximum number of shapes that are compared. A host size has far fewer divisors. */
enum {
    SHAPES_MAX = 200000,
};

/* Return the next divisor of LENGTH above SIDE, or 0. */
static int divisor_next(int length, int side)
{
    for (int next = side + 1; next <= length; next++) {
        if (length % next == 0) {
            return next;
        }
    }
    return 0;
}

/* Return the number of faces of a box that have a neighbour, in cells times VOLUME. */
static double shape_surface(int ndims, const int *dims, const int *sides, double volume)
{
    double surface = 0;

    for (int d = 0; d < ndims; d++) {
        surface += sides[d] < dims[d] ? 2 * volume / sides[d] : 0;
    }
    return surface;
}

/*
 * Find the sides of the box of VOLUME cells with the smallest surface that tiles a grid of DIMS, by
 * trying all divisors. Return -EDOM if no box tiles the grid.
 */
static int shape_find(int ndims, const int *dims, uint32_t volume, int *best)
{
    int *sides = malloc(((size_t) ndims + 1) * sizeof *sides), d = 0, rc = -EDOM;
    double least = 0;

    if (!sides) {
        return -ENOMEM;
    }
    for (int i = 0; i < ndims; i++) {
        sides[i] = 1;
    }
    for (int tried = 0; d < ndims && tried < SHAPES_MAX; tried++) {
        uint64_t cells = 1;

        for (int i = 0; i < ndims && cells <= volume; i++) {
            cells *= (uint64_t) sides[i];
        }
        if (cells == volume) {
            double surface = shape_surface(ndims, dims, sides, volume);

            if (rc != 0 || surface < least) {
                least = surface;
                memcpy(best, sides, (size_t) ndims * sizeof *best);
                rc = 0;
            }
        }
        for (d = 0; d < ndims && (sides[d] = divisor_next(dims[d], sides[d])) == 0; d++) {
            sides[d] = 1;
        }
    }
    free(sides);
    return rc;
}

/* Return the index of the cell at COORDS if boxes OUTER contain boxes INNER, each level
 * row-major. */
static uint64_t cell_index(int ndims, const int *dims, const int *outer, const int *inner,
                           const int *coords)
{
    uint64_t index = 0;

    for (int d = 0; d < ndims; d++) {
        index = index * (uint64_t) (dims[d] / outer[d]) + (uint64_t) (coords[d] / outer[d]);
    }
    for (int d = 0; d < ndims; d++) {
        index =
            index * (uint64_t) (outer[d] / inner[d]) + (uint64_t) (coords[d] % outer[d] / inner[d]);
    }
    for (int d = 0; d < ndims; d++) {
        index = index * (uint64_t) inner[d] + (uint64_t) (coords[d] % inner[d]);
    }
    return index;
}

/* Advance to the next cell in row-major order. Returns 0 after the last one. */
static int coords_next(int ndims, const int *dims, int *coords)
{
    for (int d = ndims - 1; d >= 0; d--) {
        if (++coords[d] < dims[d]) {
            return 1;
        }
        coords[d] = 0;
    }
    return 0;
}

int map_order_blocks(int ndims, const int *dims, uint32_t host_size, uint32_t domain_size,
                     uint32_t *order)
{
    size_t n = (size_t) ndims + 1;
    int *outer = malloc(n * sizeof(int)), *inner = malloc(n * sizeof(int));
    int *coords = calloc(n, sizeof(int));
    uint32_t cell = 0;
    int rc = outer && inner && coords ? shape_find(ndims, dims, host_size, outer) : -ENOMEM;

    if (rc == 0 && (domain_size == 0 || shape_find(ndims, outer, domain_size, inner) != 0)) {
        memcpy(inner, outer, (size_t) ndims * sizeof *inner);
    }
    if (rc == 0) {
        do {
            order[cell_index(ndims, dims, outer, inner, coords)] = cell++;
        } while (coords_next(ndims, dims, coords));
    }
    free(outer);
    free(inner);
    free(coords);
    return rc;
}

/* A stack of boxes that must be halved. Each box has ndims lower corners, then ndims lengths. */
struct boxes {
    int ndims;
    size_t count;
    size_t room;
    int *box;
};

static int *box_push(struct boxes *boxes)
{
    size_t width = 2 * (size_t) boxes->ndims;

    if (boxes->count == boxes->room) {
        size_t room = boxes->room ? 2 * boxes->room : 32;
        int *more = realloc(boxes->box, room * width * sizeof *more + 1);

        if (!more) {
            return NULL;
        }
        boxes->box = more;
        boxes->room = room;
    }
    return boxes->box + boxes->count++ * width;
}

/* Return the position at which a box of LENGTHS and CELLS is cut along D: near the middle, and
 * between whole hosts if possible. */
static int cut_position(int length, uint64_t cells, uint32_t host_size, int *whole)
{
    int best = length / 2;

    *whole = 0;
    for (int k = 1; k < length; k++) {
        if (cells / (uint64_t) length * (uint64_t) k % host_size == 0 &&
            (!*whole || abs(2 * k - length) < abs(2 * best - length))) {
            best = k;
            *whole = 1;
        }
    }
    return best;
}

/* Return the dimension to cut: the longest one that leaves whole hosts, otherwise the longest one,
 * or -1 for a single cell.
 */
static int box_cut(int ndims, const int *lengths, uint32_t host_size, int *at)
{
    int dim = -1, dim_whole = 0;
    uint64_t cells = 1;

    for (int d = 0; d < ndims; d++) {
        cells *= (uint64_t) lengths[d];
    }
    for (int d = 0; d < ndims; d++) {
        int whole,
            position = lengths[d] > 1 ? cut_position(lengths[d], cells, host_size, &whole) : 0;

        if (position == 0) {
            continue;
        }
        if (dim < 0 || whole > dim_whole || (whole == dim_whole && lengths[d] > lengths[dim])) {
            dim = d;
            dim_whole = whole;
            *at = position;
        }
    }
    return dim;
}

static uint32_t box_cell(int ndims, const int *dims, const int *corner)
{
    uint64_t cell = 0;

    for (int d = 0; d < ndims; d++) {
        cell = cell * (uint64_t) dims[d] + (uint64_t) corner[d];
    }
    return (uint32_t) cell;
}

int map_order_bisect(int ndims, const int *dims, uint32_t host_size, uint32_t *order)
{
    struct boxes boxes = {.ndims = ndims};
    size_t width = 2 * (size_t) ndims;
    uint32_t next = 0;
    int *box = box_push(&boxes);

    if (!box) {
        return -ENOMEM;
    }
    memset(box, 0, (size_t) ndims * sizeof *box);
    memcpy(box + ndims, dims, (size_t) ndims * sizeof *box);
    while (boxes.count > 0) {
        int at = 0, dim;
        int *upper;

        box = boxes.box + (boxes.count - 1) * width;
        dim = box_cut(ndims, box + ndims, host_size, &at);
        if (dim < 0) {
            order[next++] = box_cell(ndims, dims, box);
            boxes.count--;
            continue;
        }
        upper = box_push(&boxes);
        if (!upper) {
            free(boxes.box);
            return -ENOMEM;
        }
        /* Push the lower half, so that it is numbered first. The upper half stays in its entry.
         */
        box = upper - width;
        memcpy(upper, box, width * sizeof *box);
        upper[ndims + dim] = at;
        box[dim] += at;
        box[ndims + dim] -= at;
    }
    free(boxes.box);
    return 0;
}
