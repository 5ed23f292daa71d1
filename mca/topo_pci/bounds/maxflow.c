/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/topo_pci/bounds/maxflow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_EDGE   SIZE_MAX
#define UNREACHED UINT32_MAX

int pci_maxflow_init(struct pci_maxflow *mf, uint32_t nvertices, size_t max_edges)
{
    struct pci_arena *arena = &mf->arena;
    size_t half = 2 * max_edges;

    memset(mf, 0, sizeof *mf);
    mf->nvertices = nvertices;
    mf->head = pci_arena_array(arena, half, sizeof *mf->head);
    mf->residual = pci_arena_array(arena, half, sizeof *mf->residual);
    mf->next = pci_arena_array(arena, half, sizeof *mf->next);
    mf->first = pci_arena_array(arena, nvertices, sizeof *mf->first);
    mf->current = pci_arena_array(arena, nvertices, sizeof *mf->current);
    mf->path = pci_arena_array(arena, nvertices, sizeof *mf->path);
    mf->level = pci_arena_array(arena, nvertices, sizeof *mf->level);
    mf->queue = pci_arena_array(arena, nvertices, sizeof *mf->queue);
    if (arena->failed) {
        pci_arena_free(arena);
        return -ENOMEM;
    }
    for (uint32_t v = 0; v < nvertices; v++) {
        mf->first[v] = NO_EDGE;
    }
    return 0;
}

void pci_maxflow_fini(struct pci_maxflow *mf)
{
    pci_arena_free(&mf->arena);
}

size_t pci_maxflow_edge(struct pci_maxflow *mf, uint32_t from, uint32_t to)
{
    size_t edge = mf->nedges++;

    mf->head[2 * edge] = to;
    mf->next[2 * edge] = mf->first[from];
    mf->first[from] = 2 * edge;
    mf->head[2 * edge + 1] = from;
    mf->next[2 * edge + 1] = mf->first[to];
    mf->first[to] = 2 * edge + 1;
    return edge;
}

void pci_maxflow_set(struct pci_maxflow *mf, size_t edge, int64_t capacity)
{
    mf->residual[2 * edge] = capacity;
    mf->residual[2 * edge + 1] = 0;
}

/* Compute distances over edges with residual capacity, breadth first. Return true if the sink is
 * reached. Otherwise the reached vertices are the source's side of the minimum cut. */
static bool set_levels(struct pci_maxflow *mf, uint32_t source, uint32_t sink)
{
    uint32_t done = 0, queued = 0;

    for (uint32_t v = 0; v < mf->nvertices; v++) {
        mf->level[v] = UNREACHED;
    }
    mf->level[source] = 0;
    mf->queue[queued++] = source;
    while (done < queued) {
        uint32_t v = mf->queue[done++];

        for (size_t h = mf->first[v]; h != NO_EDGE; h = mf->next[h]) {
            uint32_t w = mf->head[h];

            if (mf->residual[h] > 0 && mf->level[w] == UNREACHED) {
                mf->level[w] = mf->level[v] + 1;
                mf->queue[queued++] = w;
            }
        }
    }
    return mf->level[sink] != UNREACHED;
}

/* Subtract the bottleneck of the path from its edges and return it. Set *keep to the number of
 * edges before the first saturated one. */
static int64_t augment(struct pci_maxflow *mf, size_t length, size_t *keep)
{
    int64_t amount = INT64_MAX;

    for (size_t i = 0; i < length; i++) {
        if (mf->residual[mf->path[i]] < amount) {
            amount = mf->residual[mf->path[i]];
        }
    }
    *keep = length;
    for (size_t i = length; i-- > 0;) {
        mf->residual[mf->path[i]] -= amount;
        mf->residual[mf->path[i] ^ 1] += amount;
        if (mf->residual[mf->path[i]] == 0) {
            *keep = i;
        }
    }
    return amount;
}

/* Return the next edge of v that leads one level further, or NO_EDGE. */
static size_t advance(struct pci_maxflow *mf, uint32_t v)
{
    size_t h;

    for (h = mf->current[v]; h != NO_EDGE; h = mf->next[h]) {
        if (mf->residual[h] > 0 && mf->level[mf->head[h]] == mf->level[v] + 1) {
            break;
        }
    }
    mf->current[v] = h;
    return h;
}

/* Find a blocking flow of the level graph, depth first with an explicit path. */
static int64_t blocking_flow(struct pci_maxflow *mf, uint32_t source, uint32_t sink)
{
    int64_t total = 0;
    size_t length = 0;
    uint32_t v = source;

    memcpy(mf->current, mf->first, mf->nvertices * sizeof *mf->current);
    for (;;) {
        size_t h;

        if (v == sink) {
            total += augment(mf, length, &length);
            v = mf->head[mf->path[length] ^ 1];
            continue;
        }
        h = advance(mf, v);
        if (h != NO_EDGE) {
            mf->path[length++] = h;
            v = mf->head[h];
        } else if (length == 0) {
            return total;
        } else {
            mf->level[v] = UNREACHED; /* a dead end for the rest of this phase */
            v = mf->head[mf->path[--length] ^ 1];
        }
    }
}

int64_t pci_maxflow_run(struct pci_maxflow *mf, uint32_t source, uint32_t sink)
{
    int64_t total = 0;

    while (set_levels(mf, source, sink)) {
        total += blocking_flow(mf, source, sink);
    }
    return total;
}

bool pci_maxflow_source_side(const struct pci_maxflow *mf, uint32_t vertex)
{
    return mf->level[vertex] != UNREACHED;
}
