/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/channels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/predict/pci_predict.h"

_Static_assert(GPURING_CHANNEL_MAX_DOWN == PCI_CONNECT_DOWN, "trees of the engine fit into plans");
_Static_assert(GPURING_MAX_CHANNELS >= PCI_CHANNELS_MAX, "so do its channels");

static uint32_t within_limits(uint32_t channels)
{
    uint32_t low = (uint32_t) gpuring_params.min_channels;
    uint32_t high = (uint32_t) gpuring_params.max_channels;

    if (high > 0 && channels > high) {
        channels = high;
    }
    return channels < low ? low : channels;
}

static bool all_known(const struct pci_wire *wires, int nranks)
{
    for (int rank = 0; rank < nranks; rank++) {
        if (wires[rank].version == 0) {
            return false;
        }
    }
    return true;
}

struct pci_wire *gpuring_channels_gathered(struct gpuring_gathered *blocks, bool *same_model)
{
    const struct gpuring_channel_block *first = gpuring_gathered_block(blocks, 0);
    uint64_t model = first->model;
    size_t bytes = (size_t) blocks->nranks * sizeof(struct pci_wire);
    void *wires = blocks->blocks, *fitting;

    *same_model = model != 0;
    for (int rank = 0; rank < blocks->nranks; rank++) {
        struct gpuring_channel_block block;

        memcpy(&block, gpuring_gathered_block(blocks, rank), sizeof block);
        *same_model = *same_model && block.model == model;
        memcpy((struct pci_wire *) wires + rank, &block.wire, sizeof block.wire);
    }
    *blocks = (struct gpuring_gathered){.nranks = 0};
    fitting = realloc(wires, bytes);
    return fitting != NULL ? fitting : wires;
}

int gpuring_channels_divide(const struct gpuring_node_map *map, struct pci_wire *wires,
                            struct gpuring_node_map *parts)
{
    bool divided = false;
    int status = GPURING_OK;

    *parts = (struct gpuring_node_map){.nranks = 0};
    for (int rank = 0; rank < map->nranks; rank++) {
        divided = divided || wires[rank].node > 0;
    }
    if (divided && all_known(wires, map->nranks)) {
        status = gpuring_node_map_divide(map, wires, parts);
    }
    for (int rank = 0; status == GPURING_OK && rank < map->nranks; rank++) {
        wires[rank].node = (uint32_t) (parts->nranks > 0 ? parts : map)->node[rank];
    }
    return status;
}

/* Rings between nodes of hosts. While the thread of a rank works on one ring, the network transfers
 * data of the other. More than two were not faster in the model (doc/results/scale.md). */
#define HOST_RINGS 2

/* Set the numbers of channels. If they exceed the number of channels that the engine has found,
 * those are used several times. A channel of trees has up to four lanes. Between nodes, each lane
 * has a network connection of its own, but the lanes of direct share the connections of their
 * stripe. */
static void count_lanes(struct gpuring_channels *channels, const struct gpuring_gpu_parts *gpus)
{
    const struct pci_agreed *agreed = &channels->connect.agreed;
    bool hosts = gpus->blocks == 0 && channels->map->nnodes > 1;
    uint32_t rings = channels->engine ? agreed->rings : hosts ? HOST_RINGS : 1;
    uint32_t trees = channels->engine ? agreed->trees : 1,
             nranks = (uint32_t) channels->map->nranks;

    if (gpus->blocks > 0 && channels->map->nnodes == 1) {
        rings = gpuring_node_map_lanes(gpus, rings, channels->engine ? agreed->bw[0] * rings : 0);
        trees = trees > rings / 4 ? trees : rings / 4;
    }
    channels->nrings = within_limits(rings);
    channels->ntrees = within_limits(trees);
    channels->ndirect = channels->ntwo_shot = 1;
    channels->direct_lanes =
        gpus->blocks > 0 ? within_limits(gpuring_node_map_lanes(gpus, rings, 0)) : 1;
    if (channels->map->nnodes == 1 && nranks > 1) {
        channels->ndirect = pci_direct_stripes(nranks, channels->nrings);
        channels->ntwo_shot = pci_two_shot_stripes(nranks, channels->nrings);
        channels->direct_lanes = gpus->blocks > 0 ? pci_direct_lanes(nranks, channels->nrings) : 1;
    }
}

void gpuring_channels_init(struct gpuring_channels *channels, const struct gpuring_gpu_parts *gpus,
                           const struct gpuring_node_map *map, const struct pci_wire *wires,
                           const struct gpuring_model_choice *model)
{
    struct pci_error error = {.text = ""};

    *channels = (struct gpuring_channels){.map = map};
    if (wires != NULL && all_known(wires, map->nranks)) {
        if (pci_connect_init(&channels->connect, wires, (uint32_t) map->nranks, &error) == 0 &&
            channels->connect.agreed.rings > 0 && channels->connect.agreed.trees > 0) {
            channels->engine = true;
            channels->model = model;
        } else {
            gpuring_warn("[no-channels] the channels of the nodes do not match (%s): ranks are "
                         "connected in rank order",
                         error.text);
            pci_connect_fini(&channels->connect);
            channels->connect = (struct pci_connect){.nranks = 0};
        }
    }
    count_lanes(channels, gpus);
}

void gpuring_channels_fini(struct gpuring_channels *channels)
{
    pci_connect_fini(&channels->connect);
    *channels = (struct gpuring_channels){.map = NULL};
}

static void engine_ring(const struct pci_connect *connect, int rank, uint32_t c,
                        struct gpuring_ring_position *position)
{
    struct pci_ring_position found;

    pci_connect_ring(connect, (uint32_t) rank, c, &found);
    *position = (struct gpuring_ring_position){
        .prev = (int) found.prev, .next = (int) found.next, .index = (int) found.index};
}

static void engine_tree(const struct pci_connect *connect, int rank, uint32_t c, uint32_t which,
                        struct gpuring_tree_position *position)
{
    struct pci_tree_position found;

    pci_connect_tree(connect, (uint32_t) rank, c, which, &found);
    position->up = found.up;
    for (int i = 0; i < GPURING_CHANNEL_MAX_DOWN; i++) {
        position->down[i] = found.down[i];
    }
}

void gpuring_channels_of(const struct gpuring_channels *channels, int rank,
                         struct gpuring_channel *result)
{
    const struct pci_agreed *agreed = &channels->connect.agreed;
    uint32_t n = channels->nrings > channels->ntrees ? channels->nrings : channels->ntrees;

    if (!channels->engine) {
        gpuring_node_map_channels(channels->map, rank, n, result);
        return;
    }
    memset(result, 0, n * sizeof *result);
    for (uint32_t c = 0; c < channels->nrings; c++) {
        engine_ring(&channels->connect, rank, c % agreed->rings, &result[c].ring);
    }
    for (uint32_t c = 0; c < channels->ntrees; c++) {
        engine_tree(&channels->connect, rank, c % agreed->trees, 0, &result[c].tree[0]);
        engine_tree(&channels->connect, rank, c % agreed->trees, 1, &result[c].tree[1]);
    }
}

void gpuring_channels_nics(const struct gpuring_channels *channels, int rank,
                           const struct gpuring_nic_select *nics,
                           const struct gpuring_net_device *devices, int ndevices,
                           struct gpuring_channel_nics *result)
{
    const struct pci_agreed *agreed = &channels->connect.agreed;

    gpuring_nic_select_channels(nics, agreed->rings, agreed->trees,
                                agreed->swap && channels->map->node[rank] % 2 == 1, devices,
                                ndevices, result);
}

/* Write one ring in its order, or the parents of all ranks in the two trees of a channel. `all`:
 * the channels of all ranks. */
static void dump_channel(FILE *file, const struct gpuring_channel *all, int nranks, uint32_t stride,
                         uint32_t c, bool ring)
{
    int rank = 0;

    fprintf(file, "    <channel id=\"%u\"%s", c, ring ? " ring=\"" : "");
    for (int i = 0; ring && i < nranks; i++) {
        fprintf(file, "%s%d", i == 0 ? "" : " ", rank);
        rank = all[(size_t) rank * stride + c].ring.next;
    }
    for (int tree = 0; !ring && tree < 2; tree++) {
        fprintf(file, " parents%d=\"", tree);
        for (rank = 0; rank < nranks; rank++) {
            fprintf(file, "%s%d", rank == 0 ? "" : " ",
                    all[(size_t) rank * stride + c].tree[tree].up);
        }
        fprintf(file, "\"");
    }
    fprintf(file, "%s/>\n", ring ? "\"" : "");
}

static void dump_all(FILE *file, const struct gpuring_channels *channels,
                     const struct gpuring_channel *all, uint32_t stride)
{
    const struct pci_agreed *agreed = &channels->connect.agreed;
    int n = channels->map->nranks;

    fprintf(file, "<graphs version=\"1\" ranks=\"%d\" nodes=\"%d\" source=\"%s\">\n", n,
            channels->map->nnodes, channels->engine ? "topology" : "order of ranks");
    for (int ring = 1; ring >= 0; ring--) {
        uint32_t count = ring ? channels->nrings : channels->ntrees;

        fprintf(file, "  <graph pattern=\"%s\" nchannels=\"%u\"", ring ? "ring" : "tree", count);
        if (channels->engine) {
            fprintf(file, " speedintra=\"%g\" speedinter=\"%g\"", agreed->bw[ring ? 0 : 2],
                    agreed->bw[ring ? 1 : 3]);
        }
        fprintf(file, ">\n");
        for (uint32_t c = 0; c < count; c++) {
            dump_channel(file, all, n, stride, c, ring);
        }
        fprintf(file, "  </graph>\n");
    }
    fprintf(file, "</graphs>\n");
}

void gpuring_channels_dump(const struct gpuring_channels *channels)
{
    uint32_t stride = channels->nrings > channels->ntrees ? channels->nrings : channels->ntrees;
    size_t n = (size_t) channels->map->nranks, size = 0;
    struct gpuring_channel *all = malloc(n * stride * sizeof *all);
    char *text = NULL;
    FILE *stream = all != NULL ? open_memstream(&text, &size) : NULL;

    if (stream != NULL) {
        for (size_t rank = 0; rank < n; rank++) {
            gpuring_channels_of(channels, (int) rank, all + rank * stride);
        }
        dump_all(stream, channels, all, stride);
    }
    if (stream != NULL && fclose(stream) == 0) {
        gpuring_local_channels_write("graph_dump_file", gpuring_params.graph_dump_file, text, size);
    } else {
        gpuring_warn("coll_gpuring_graph_dump_file: out of memory for the channels of %zu ranks",
                     n);
    }
    free(text);
    free(all);
}
