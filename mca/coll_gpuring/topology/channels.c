/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/topo_pci/xml/pci_file.h"

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

void gpuring_channels_init(struct gpuring_channels *layout, const struct gpuring_node_map *members,
                           const struct pci_wire *wires, const struct gpuring_model_choice *advice)
{
    struct pci_error error = {.text = ""};

    *layout = (struct gpuring_channels){.members = members};
    if (wires != NULL && all_known(wires, members->nranks)) {
        if (pci_connect_init(&layout->connect, wires, (uint32_t) members->nranks, &error) == 0 &&
            layout->connect.agreed.rings > 0 && layout->connect.agreed.trees > 0) {
            layout->engine = true;
            layout->advice = advice;
        } else {
            gpuring_warn("the channels of the nodes do not fit together (%s): ranks are connected "
                         "in their order instead",
                         error.text);
            pci_connect_fini(&layout->connect);
            layout->connect = (struct pci_connect){.nranks = 0};
        }
    }
    /* More channels than were found: they are used several times. */
    layout->nrings = within_limits(layout->engine ? layout->connect.agreed.rings : 1);
    layout->ntrees = within_limits(layout->engine ? layout->connect.agreed.trees : 1);
}

void gpuring_channels_fini(struct gpuring_channels *layout)
{
    pci_connect_fini(&layout->connect);
    *layout = (struct gpuring_channels){.members = NULL};
}

static void engine_ring(const struct pci_connect *connect, int rank, uint32_t c,
                        struct gpuring_ring_place *place)
{
    struct pci_ring_place found;

    pci_connect_ring(connect, (uint32_t) rank, c, &found);
    *place = (struct gpuring_ring_place){
        .prev = (int) found.prev, .next = (int) found.next, .index = (int) found.index};
}

static void engine_tree(const struct pci_connect *connect, int rank, uint32_t c, uint32_t which,
                        struct gpuring_tree_place *place)
{
    struct pci_tree_place found;

    pci_connect_tree(connect, (uint32_t) rank, c, which, &found);
    place->up = found.up;
    for (int i = 0; i < GPURING_CHANNEL_MAX_DOWN; i++) {
        place->down[i] = found.down[i];
    }
}

void gpuring_channels_channels(const struct gpuring_channels *layout, int rank,
                               struct gpuring_channel *channels)
{
    const struct pci_agreed *agreed = &layout->connect.agreed;
    uint32_t n = layout->nrings > layout->ntrees ? layout->nrings : layout->ntrees;

    if (!layout->engine) {
        gpuring_node_map_channels(layout->members, rank, n, channels);
        return;
    }
    memset(channels, 0, n * sizeof *channels);
    for (uint32_t c = 0; c < layout->nrings; c++) {
        engine_ring(&layout->connect, rank, c % agreed->rings, &channels[c].ring);
    }
    for (uint32_t c = 0; c < layout->ntrees; c++) {
        engine_tree(&layout->connect, rank, c % agreed->trees, 0, &channels[c].tree[0]);
        engine_tree(&layout->connect, rank, c % agreed->trees, 1, &channels[c].tree[1]);
    }
}

void gpuring_channels_devices(const struct gpuring_channels *layout, int rank,
                              const struct gpuring_routes *routes,
                              const struct gpuring_net_device *devices, int ndevices,
                              struct gpuring_route_devices *result)
{
    const struct pci_agreed *agreed = &layout->connect.agreed;

    if (layout->engine) {
        gpuring_routes_devices(routes, agreed->rings, agreed->trees,
                               agreed->swap && layout->members->node[rank] % 2 == 1, devices,
                               ndevices, result);
    } else {
        gpuring_routes_devices(NULL, 0, 0, false, devices, ndevices, result);
    }
}

/* One ring in its order, or one tree as "rank<parent" pairs; all ranks' channels are given. */
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

static void dump_all(FILE *file, const struct gpuring_channels *layout,
                     const struct gpuring_channel *all, uint32_t stride)
{
    const struct pci_agreed *agreed = &layout->connect.agreed;
    int n = layout->members->nranks;

    fprintf(file, "<graphs version=\"1\" ranks=\"%d\" nodes=\"%d\" source=\"%s\">\n", n,
            layout->members->nnodes, layout->engine ? "topology" : "order of ranks");
    for (int ring = 1; ring >= 0; ring--) {
        uint32_t count = ring ? layout->nrings : layout->ntrees;

        fprintf(file, "  <graph pattern=\"%s\" nchannels=\"%u\"", ring ? "ring" : "tree", count);
        if (layout->engine) {
            fprintf(file, " speedintra=\"%g\" speedinter=\"%g\"",
                    ring ? agreed->ring_bw_intra : agreed->tree_bw_intra,
                    ring ? agreed->ring_bw_inter : agreed->tree_bw_inter);
        }
        fprintf(file, ">\n");
        for (uint32_t c = 0; c < count; c++) {
            dump_channel(file, all, n, stride, c, ring);
        }
        fprintf(file, "  </graph>\n");
    }
    fprintf(file, "</graphs>\n");
}

void gpuring_channels_dump(const struct gpuring_channels *layout)
{
    const char *path = gpuring_params.graph_dump_file;
    uint32_t stride = layout->nrings > layout->ntrees ? layout->nrings : layout->ntrees;
    size_t n = (size_t) layout->members->nranks;
    struct gpuring_channel *all = malloc(n * stride * sizeof *all);
    char why[128] = "";
    FILE *file;

    if (all == NULL) {
        gpuring_warn("coll_gpuring_graph_dump_file: out of memory for the channels of %zu ranks",
                     n);
        return;
    }
    for (size_t rank = 0; rank < n; rank++) {
        gpuring_channels_channels(layout, (int) rank, all + rank * stride);
    }
    file = pci_file_create(path, why, sizeof why);
    if (file != NULL) {
        bool failed;

        dump_all(file, layout, all, stride);
        failed = ferror(file) != 0;
        if (fclose(file) != 0 || failed) {
            gpuring_warn("coll_gpuring_graph_dump_file: cannot write %s: %s", path,
                         strerror(errno));
        }
    } else {
        gpuring_warn("coll_gpuring_graph_dump_file: cannot write %s: %s", path, why);
    }
    free(all);
}
