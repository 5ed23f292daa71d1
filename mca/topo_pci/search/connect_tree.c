/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The double binary tree over nodes, and a rank's position in it. */
#include "mca/topo_pci/search/pci_connect.h"

/*
 * A full binary tree over an odd number of positions, in order. Every second position is a leaf,
 * and the others have two children. For five positions:
 *
 *          3
 *        /   \
 *       1     4
 *      / \
 *     0   2
 *
 * The root of positions begin .. begin+count-1 splits them in two odd parts, as even as possible.
 */
static uint32_t span_root(uint32_t begin, uint32_t count)
{
    uint32_t half = count / 2;

    return count == 1 ? begin : begin + (half % 2 == 0 ? half + 1 : half);
}

static void span_find(uint32_t count, uint32_t position, int32_t *up, int32_t down[2])
{
    uint32_t begin = 0, root = span_root(0, count);

    *up = -1;
    while (root != position) {
        uint32_t left = root - begin;

        *up = (int32_t) root;
        if (position < root) {
            count = left;
        } else {
            begin = root + 1;
            count -= left + 1;
        }
        root = span_root(begin, count);
    }
    down[0] = down[1] = -1;
    if (count > 1) {
        down[0] = (int32_t) span_root(begin, root - begin);
        down[1] = (int32_t) span_root(root + 1, count - (root - begin) - 1);
    }
}

/* The first tree. An odd number of nodes forms a full tree. With an even number, node 0 is the
 * root, and the others form a full tree below it. The inner nodes are either the odd or the even
 * ones. */
static void first_tree(uint32_t nnodes, uint32_t node, int32_t *up, int32_t down[2])
{
    if (nnodes % 2 == 1) {
        span_find(nnodes, node, up, down);
        return;
    }
    if (node == 0) {
        *up = down[1] = -1;
        down[0] = (int32_t) span_root(1, nnodes - 1);
        return;
    }
    span_find(nnodes - 1, node - 1, up, down);
    *up += 1; /* -1, the root of the others, becomes 0 */
    for (int i = 0; i < 2; i++) {
        down[i] += down[i] >= 0 ? 1 : 0;
    }
}

/* The second tree is the first one with nodes renamed so that inner nodes become leaves. The order
 * is mirrored if the number of nodes is even, and otherwise shifted by one. */
static uint32_t renamed(uint32_t nnodes, uint32_t node)
{
    return nnodes % 2 == 0 ? nnodes - 1 - node : (node + 1) % nnodes;
}

static int32_t renamed_back(uint32_t nnodes, int32_t node)
{
    if (node < 0) {
        return -1;
    }
    return (int32_t) (nnodes % 2 == 0 ? nnodes - 1 - (uint32_t) node
                                      : ((uint32_t) node + nnodes - 1) % nnodes);
}

void pci_connect_node_tree(uint32_t nnodes, uint32_t node, uint32_t which, int32_t *up,
                           int32_t down[2])
{
    if (which == 0) {
        first_tree(nnodes, node, up, down);
        return;
    }
    first_tree(nnodes, renamed(nnodes, node), up, down);
    *up = renamed_back(nnodes, *up);
    down[0] = renamed_back(nnodes, down[0]);
    down[1] = renamed_back(nnodes, down[1]);
}

static int32_t tree_rank(const struct pci_connect *connect, uint32_t node, uint32_t c, uint32_t at)
{
    uint32_t i = connect->first[node];

    while (connect->wires[connect->members[i]].tree[c] != at) {
        i++; /* pci_connect_init() has checked that there is one */
    }
    return (int32_t) connect->members[i];
}

/* Return the position in a node's chain to which its children are attached. */
static uint32_t children_at(const struct pci_connect *connect, uint32_t node)
{
    const struct pci_wire *wire = &connect->wires[connect->members[connect->first[node]]];

    return wire->pattern == PCI_PATTERN_BALANCED_TREE && wire->count > 1 ? 1 : 0;
}

static void chain_alone(const struct pci_connect *connect, uint32_t c, uint32_t which, uint32_t at,
                        struct pci_tree_position *position)
{
    uint32_t count = connect->nranks, root = (count - which % 2) / 2;
    int ndown = 0;

    root = root < count ? root : 0;
    if (at != root) {
        position->up = tree_rank(connect, 0, c, at < root ? at + 1 : at - 1);
    }
    if (at > 0 && at <= root) {
        position->down[ndown++] = tree_rank(connect, 0, c, at - 1);
    }
    if (at + 1 < count && at >= root) {
        position->down[ndown] = tree_rank(connect, 0, c, at + 1);
    }
}

void pci_connect_tree(const struct pci_connect *connect, uint32_t rank, uint32_t c, uint32_t which,
                      struct pci_tree_position *position)
{
    const struct pci_wire *wire = &connect->wires[rank];
    uint32_t at = wire->tree[c], ndown = 0;
    int32_t up, down[2];

    *position = (struct pci_tree_position){.up = -1, .down = {-1, -1, -1}};
    if (connect->nnodes == 1) {
        chain_alone(connect, c, which, at, position);
        return;
    }
    pci_connect_node_tree(connect->nnodes, wire->node, which, &up, down);
    if (at > 0) {
        position->up = tree_rank(connect, wire->node, c, at - 1);
    } else if (up >= 0) {
        position->up = tree_rank(connect, (uint32_t) up, c, children_at(connect, (uint32_t) up));
    }
    if (at + 1 < wire->count) {
        position->down[ndown++] = tree_rank(connect, wire->node, c, at + 1);
    }
    for (int i = 0; i < 2; i++) {
        if (at == children_at(connect, wire->node) && down[i] >= 0) {
            position->down[ndown++] = tree_rank(connect, (uint32_t) down[i], c, 0);
        }
    }
}
