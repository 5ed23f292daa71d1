/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The structs that ranks send to each other, and the rings computed from them. */
#include "mca/topo_pci/search/pci_connect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

/* The positions of a GPU in all channels. */
static void positions(const struct pci_channels *channels, uint32_t gpu, uint16_t *at)
{
    for (uint32_t c = 0; c < channels->nchannels; c++) {
        for (uint32_t i = 0; i < channels->ngpus; i++) {
            if (channels->intra[(size_t) c * channels->ngpus + i] == gpu) {
                at[c] = (uint16_t) i;
            }
        }
    }
}

int pci_wire_fill(struct pci_wire *wire, uint32_t node, uint32_t gpu,
                  const struct pci_channels *ring, const struct pci_channels *tree)
{
    if (gpu >= ring->ngpus || ring->ngpus != tree->ngpus || ring->nchannels == 0 ||
        tree->nchannels == 0) {
        return -EINVAL;
    }
    if (ring->ngpus > UINT16_MAX || ring->nchannels > PCI_CHANNELS_MAX ||
        tree->nchannels > PCI_CHANNELS_MAX) {
        return -E2BIG;
    }
    *wire = (struct pci_wire){
        .version = PCI_WIRE_VERSION,
        .count = (uint16_t) ring->ngpus,
        .rings = (uint8_t) ring->nchannels,
        .trees = (uint8_t) tree->nchannels,
        .pattern = (uint8_t) tree->pattern,
        .cross_nic = (uint8_t) ring->cross_nic,
        .node = node,
        .bw = {(float) ring->bw_intra, (float) ring->bw_inter, (float) tree->bw_intra,
               (float) tree->bw_inter},
    };
    positions(ring, gpu, wire->ring);
    positions(tree, gpu, wire->tree);
    return 0;
}

static int check_wire(const struct pci_wire *wire, uint32_t rank, uint32_t nranks,
                      struct pci_error *error)
{
    bool sound = wire->count > 0 && wire->count <= nranks && wire->node < nranks &&
                 wire->rings > 0 && wire->rings <= PCI_CHANNELS_MAX && wire->trees > 0 &&
                 wire->trees <= PCI_CHANNELS_MAX && wire->pattern < PCI_PATTERN_COUNT &&
                 (wire->cross_nic == 0 || (wire->cross_nic == 2 && wire->rings % 2 == 0));

    if (wire->version != PCI_WIRE_VERSION) {
        return pci_error_set(
            error, -EPROTO,
            "rank %u uses version %u of the channel exchange, and this process version %u; "
            "install one version of the component on all nodes",
            rank, wire->version, PCI_WIRE_VERSION);
    }
    for (size_t i = 0; sound && i < 4; i++) {
        sound = wire->bw[i] > 0;
    }
    return sound ? 0
                 : pci_error_set(error, -EPROTO, "rank %u sent channels that make no sense", rank);
}

static void agree_wire(struct pci_agreed *agreed, const struct pci_wire *wire)
{
    agreed->rings = wire->rings < agreed->rings ? wire->rings : agreed->rings;
    agreed->trees = wire->trees < agreed->trees ? wire->trees : agreed->trees;
    for (size_t i = 0; i < 4; i++) {
        agreed->bw[i] = fmin(agreed->bw[i], (double) wire->bw[i]);
    }
    agreed->swap = agreed->swap && wire->cross_nic == 2;
}

static int agree_all(struct pci_connect *connect, struct pci_error *error)
{
    struct pci_agreed agreed = {
        .rings = PCI_CHANNELS_MAX,
        .trees = PCI_CHANNELS_MAX,
        .bw = {PCI_CHANNELS_BW_ONE, PCI_CHANNELS_BW_ONE, PCI_CHANNELS_BW_ONE, PCI_CHANNELS_BW_ONE},
        .swap = true};

    for (uint32_t rank = 0; rank < connect->nranks; rank++) {
        const struct pci_wire *wire = &connect->wires[rank];
        int rc = check_wire(wire, rank, connect->nranks, error);

        if (rc != 0) {
            return rc;
        }
        agree_wire(&agreed, wire);
        connect->nnodes = wire->node >= connect->nnodes ? wire->node + 1 : connect->nnodes;
    }
    agreed.channels = 2 * (agreed.rings > agreed.trees ? agreed.rings : agreed.trees);
    connect->agreed = agreed;
    return 0;
}

/* Sort the ranks by node (counting). */
static int group(struct pci_connect *connect, struct pci_error *error)
{
    connect->first = calloc((size_t) connect->nnodes + 2, sizeof *connect->first);
    connect->members = calloc(connect->nranks, sizeof *connect->members);
    if (connect->first == NULL || connect->members == NULL) {
        return pci_error_set(error, -ENOMEM, "no memory for the ranks of the job");
    }
    for (uint32_t rank = 0; rank < connect->nranks; rank++) {
        connect->first[connect->wires[rank].node + 2]++;
    }
    for (uint32_t node = 2; node <= connect->nnodes; node++) {
        connect->first[node] += connect->first[node - 1];
    }
    for (uint32_t rank = 0; rank < connect->nranks; rank++) {
        connect->members[connect->first[connect->wires[rank].node + 1]++] = rank;
    }
    return 0;
}

/* Check that the ranks of a node have different positions in every channel and agree in everything
 * else. */
static int check_node(const struct pci_connect *connect, uint32_t node, uint32_t *seen,
                      struct pci_error *error)
{
    uint32_t begin = connect->first[node], count = connect->first[node + 1] - begin;
    const struct pci_wire *head = &connect->wires[connect->members[begin]];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = connect->members[begin + i];
        const struct pci_wire *wire = &connect->wires[rank];

        if (wire->count != count || memcmp(wire, head, offsetof(struct pci_wire, ring)) != 0) {
            return pci_error_set(
                error, -EPROTO,
                "rank %u and rank %u are on node %u, but found different channels; do they "
                "see different devices?",
                connect->members[begin], rank, node);
        }
        for (uint32_t c = 0; c < (uint32_t) head->rings + head->trees; c++) {
            uint32_t at = c < head->rings ? wire->ring[c] : wire->tree[c - head->rings];
            uint32_t mark = c * connect->nnodes + node + 1; /* below 64 x 2^26 */

            if (at >= count || seen[(size_t) at * 2 * PCI_CHANNELS_MAX + c] == mark) {
                return pci_error_set(error, -EPROTO, "rank %u sent a position that is taken", rank);
            }
            seen[(size_t) at * 2 * PCI_CHANNELS_MAX + c] = mark;
        }
    }
    return 0;
}

static int check_nodes(const struct pci_connect *connect, struct pci_error *error)
{
    uint32_t most = 0, *seen;
    int rc = 0;

    for (uint32_t node = 0; node < connect->nnodes; node++) {
        uint32_t count = connect->first[node + 1] - connect->first[node];

        if (count == 0) {
            return pci_error_set(error, -EPROTO, "no rank is of node %u", node);
        }
        most = count > most ? count : most;
    }
    seen = calloc((size_t) most * 2 * PCI_CHANNELS_MAX, sizeof *seen);
    if (seen == NULL) {
        return pci_error_set(error, -ENOMEM, "no memory for the ranks of a node");
    }
    for (uint32_t node = 0; rc == 0 && node < connect->nnodes; node++) {
        rc = check_node(connect, node, seen, error);
    }
    free(seen);
    return rc;
}

int pci_connect_init(struct pci_connect *connect, const struct pci_wire *wires, uint32_t nranks,
                     struct pci_error *error)
{
    struct pci_connect result = {.nranks = nranks, .wires = wires};
    int rc;

    if (nranks == 0 || nranks > INT32_MAX) {
        return pci_error_set(error, -EINVAL, "%u ranks are no job", nranks);
    }
    rc = agree_all(&result, error);
    if (rc == 0) {
        rc = group(&result, error);
    }
    if (rc == 0) {
        rc = check_nodes(&result, error);
    }
    if (rc != 0) {
        pci_connect_fini(&result);
        return rc;
    }
    *connect = result;
    return 0;
}

void pci_connect_fini(struct pci_connect *connect)
{
    free(connect->first);
    free(connect->members);
    memset(connect, 0, sizeof *connect);
}

/* Return the channel of a node that ring C uses. */
static uint32_t ring_channel(const struct pci_connect *connect, uint32_t node, uint32_t c)
{
    return connect->agreed.swap && node % 2 == 1 ? c ^ 1u : c;
}

static uint32_t ring_rank(const struct pci_connect *connect, uint32_t node, uint32_t c, uint32_t at)
{
    uint32_t i = connect->first[node];

    c = ring_channel(connect, node, c);
    while (connect->wires[connect->members[i]].ring[c] != at) {
        i++; /* one of the node's ranks has this position: pci_connect_init() has checked it */
    }
    return connect->members[i];
}

void pci_connect_ring(const struct pci_connect *connect, uint32_t rank, uint32_t c,
                      struct pci_ring_position *position)
{
    const struct pci_wire *wire = &connect->wires[rank];
    uint32_t node = wire->node, at = wire->ring[ring_channel(connect, node, c)];
    uint32_t before = (node + connect->nnodes - 1) % connect->nnodes;
    uint32_t after = (node + 1) % connect->nnodes;
    uint32_t before_count = connect->first[before + 1] - connect->first[before];

    position->prev = at > 0 ? ring_rank(connect, node, c, at - 1)
                            : ring_rank(connect, before, c, before_count - 1);
    position->next = at + 1 < wire->count ? ring_rank(connect, node, c, at + 1)
                                          : ring_rank(connect, after, c, 0);
    position->index = connect->first[node] + at;
}
