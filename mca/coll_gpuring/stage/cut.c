/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/cut.h"

#define MANY 256                /* blocks: with more, chunks grow, not pieces shrink */
#define MOST ((size_t) 1 << 30) /* bytes of a chunk: counts are of type int */
#define LINE ((size_t) 64)      /* bytes: pieces begin at whole lines where they can */

static size_t at_most(size_t count, size_t most)
{
    return count < most ? count : most;
}

size_t gpuring_cut_limit(int blocks, size_t stage_size)
{
    return at_most(stage_size * (((size_t) blocks + MANY - 1) / MANY), MOST);
}

/* Units of the first chunk if it takes `step` of every block. */
static size_t all_units(const struct gpuring_cut *cut, size_t step)
{
    size_t units = 0;

    for (int i = 0; i < cut->blocks; i++) {
        units += at_most(cut->units[i], step);
    }
    return units;
}

void gpuring_cut_find(struct gpuring_cut *cut, size_t limit)
{
    size_t low = 1, high = limit / cut->size, longest = 0;

    while (low < high) {
        size_t middle = high - (high - low) / 2;

        if (all_units(cut, middle) <= limit / cut->size) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    cut->step = cut->size == 1 && low > LINE ? low / LINE * LINE : low;
    for (int i = 0; i < cut->blocks; i++) {
        longest = cut->units[i] > longest ? cut->units[i] : longest;
    }
    cut->chunks = (longest + cut->step - 1) / cut->step;
}

size_t gpuring_cut_units(const struct gpuring_cut *cut, int block, size_t chunk)
{
    size_t first = chunk * cut->step;

    return first < cut->units[block] ? at_most(cut->units[block] - first, cut->step) : 0;
}

size_t gpuring_cut_bytes(const struct gpuring_cut *cut)
{
    return all_units(cut, cut->step) * cut->size;
}
