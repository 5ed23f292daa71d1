/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Proof of a job's rings and trees. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"
#include "test/unit/pci_proof.h"

struct check {
    const struct pci_connect *connect;
    uint32_t *next;                 /* rank -> next in the ring */
    struct pci_tree_position *tree; /* rank -> place */
    int32_t *depth;                 /* rank -> hops from the root, -1: not known */
    char *why;
    size_t size;
};

#define refuse(check, ...) pci_proof_refuse((check)->why, (check)->size, __VA_ARGS__)

/* Walk a ring from the rank of index 0: each step must lead to the next index, and the walk back to
 * its start after all ranks. */
static int check_ring(struct check *check, uint32_t c)
{
    uint32_t nranks = check->connect->nranks, start = nranks, at;

    for (uint32_t rank = 0; rank < nranks; rank++) {
        struct pci_ring_position place, neighbour;

        pci_connect_ring(check->connect, rank, c, &place);
        if (place.next >= nranks || place.prev >= nranks || place.index >= nranks) {
            return refuse(check, "ring %u: rank %u has a neighbour that does not exist", c, rank);
        }
        pci_connect_ring(check->connect, place.next, c, &neighbour);
        if (neighbour.prev != rank || neighbour.index != (place.index + 1) % nranks) {
            return refuse(check, "ring %u: rank %u and its next, %u, disagree", c, rank,
                          place.next);
        }
        check->next[rank] = place.next;
        start = 0 == place.index ? rank : start;
    }
    at = start;
    for (uint32_t i = 0; i < nranks; i++) {
        if (at >= nranks || (i > 0 && at == start)) {
            return refuse(check, "ring %u ends after %u of %u ranks", c, i, nranks);
        }
        at = check->next[at];
    }
    return at == start ? 0 : refuse(check, "ring %u does not close", c);
}

static bool is_child(const struct pci_tree_position *place, int32_t rank)
{
    for (int i = 0; i < PCI_CONNECT_DOWN; i++) {
        if (place->down[i] == rank) {
            return true;
        }
    }
    return false;
}

/* Compute the depth of a rank by following its parents up to one whose depth is known. */
static int check_depth(struct check *check, uint32_t rank)
{
    uint32_t nranks = check->connect->nranks, hops = 0;
    int32_t at = (int32_t) rank, depth;

    while (check->depth[at] < 0) {
        if (check->tree[at].up < 0) {
            check->depth[at] = 0;
            break;
        }
        if (++hops > nranks) {
            return refuse(check, "rank %u is in a loop", rank);
        }
        at = check->tree[at].up;
    }
    depth = check->depth[at] + (int32_t) hops;
    for (at = (int32_t) rank; check->depth[at] < 0; at = check->tree[at].up) {
        check->depth[at] = depth--;
    }
    return 0;
}

static int check_tree(struct check *check, uint32_t c, uint32_t which)
{
    uint32_t nranks = check->connect->nranks, roots = 0, children = 0;
    int rc = 0;

    for (uint32_t rank = 0; rank < nranks; rank++) {
        pci_connect_tree(check->connect, rank, c, which, &check->tree[rank]);
        check->depth[rank] = -1;
    }
    for (uint32_t rank = 0; rank < nranks; rank++) {
        int32_t up = check->tree[rank].up;

        roots += up < 0 ? 1 : 0;
        if (up >= (int32_t) nranks || (up >= 0 && !is_child(&check->tree[up], (int32_t) rank))) {
            return refuse(check, "tree %u.%u: rank %u's parent does not know it", c, which, rank);
        }
        for (int i = 0; i < PCI_CONNECT_DOWN; i++) {
            children += check->tree[rank].down[i] >= 0 ? 1 : 0;
        }
    }
    if (1 != roots || children != nranks - 1) {
        return refuse(check, "tree %u.%u has %u roots and %u children for %u ranks", c, which,
                      roots, children, nranks);
    }
    for (uint32_t rank = 0; 0 == rc && rank < nranks; rank++) {
        rc = check_depth(check, rank);
    }
    return rc;
}

/* Check the trees over nodes: their depth, and that no node is inner in both. */
static int check_node_trees(struct check *check)
{
    uint32_t nnodes = check->connect->nnodes;
    double most = 2 + 1.5 * log2(nnodes);

    for (uint32_t node = 0; nnodes > 1 && node < nnodes; node++) {
        uint32_t inner = 0;

        for (uint32_t which = 0; which < PCI_CONNECT_TREES; which++) {
            int32_t up, down[2], further[2];
            uint32_t depth = 0;

            pci_connect_node_tree(nnodes, node, which, &up, down);
            inner += down[0] >= 0 || down[1] >= 0 ? 1 : 0;
            while (up >= 0 && depth <= most) {
                pci_connect_node_tree(nnodes, (uint32_t) up, which, &up, further);
                depth++;
            }
            if (depth > most) {
                return refuse(check, "node %u is too deep in tree %u of %u nodes", node, which,
                              nnodes);
            }
        }
        if (inner > 1) {
            return refuse(check, "node %u is inner in both trees", node);
        }
    }
    return 0;
}

static int check_all(struct check *check)
{
    int rc = check_node_trees(check);

    for (uint32_t c = 0; 0 == rc && c < check->connect->agreed.rings; c++) {
        rc = check_ring(check, c);
    }
    for (uint32_t c = 0; 0 == rc && c < check->connect->agreed.trees; c++) {
        for (uint32_t which = 0; 0 == rc && which < PCI_CONNECT_TREES; which++) {
            rc = check_tree(check, c, which);
        }
    }
    return rc;
}

int pci_connect_check(const struct pci_connect *connect, char *why, size_t size)
{
    struct check check = {.connect = connect, .why = why, .size = size};
    int rc = -ENOMEM;

    if (size > 0) {
        snprintf(why, size, "not enough memory");
    }
    check.next = calloc(connect->nranks, sizeof(*check.next));
    check.tree = calloc(connect->nranks, sizeof(*check.tree));
    check.depth = calloc(connect->nranks, sizeof(*check.depth));
    if (NULL != check.next && NULL != check.tree && NULL != check.depth) {
        rc = check_all(&check);
        if (0 == rc && size > 0) {
            why[0] = '\0';
        }
    }
    free(check.next);
    free(check.tree);
    free(check.depth);
    return rc;
}

int pci_connect_uniform(struct pci_connect *connect, uint32_t nodes,
                        const struct pci_channels *ring, const struct pci_channels *tree,
                        struct pci_error *error)
{
    uint32_t count = ring->ngpus, nranks = nodes * count;
    struct pci_wire *wires;
    int rc = 0;

    if (0 == nodes || 0 == count || nodes > INT32_MAX / count) {
        return pci_error_set(error, -EINVAL, "%u nodes of %u GPUs are no job", nodes, count);
    }
    wires = calloc(nranks, sizeof(*wires));
    if (NULL == wires) {
        return pci_error_set(error, -ENOMEM, "no memory for %u ranks", nranks);
    }
    for (uint32_t gpu = 0; 0 == rc && gpu < count; gpu++) {
        rc = pci_wire_fill(&wires[gpu], 0, gpu, ring, tree);
    }
    if (0 != rc) {
        (void) pci_error_set(error, rc, "the channels of a node do not fit the format");
    }
    for (uint32_t rank = count; 0 == rc && rank < nranks; rank++) {
        wires[rank] = wires[rank % count];
        wires[rank].node = rank / count;
    }
    rc = 0 == rc ? pci_connect_init(connect, wires, nranks, error) : rc;
    if (0 != rc) {
        free(wires);
        return rc;
    }
    return 0;
}

void pci_connect_uniform_fini(struct pci_connect *connect)
{
    free((void *) connect->wires);
    pci_connect_fini(connect);
}
