/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/node_map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/topo_pci/predict/pci_predict.h"
#include "mca/topo_pci/search/pci_connect.h"

struct rank_key {
    uint64_t node; /* equal only for ranks of the same node */
    int rank;
};

static int compare_keys(const void *a, const void *b)
{
    const struct rank_key *left = a, *right = b;

    if (left->node != right->node) {
        return left->node < right->node ? -1 : 1;
    }
    return (left->rank > right->rank) - (left->rank < right->rank);
}

/* Number the nodes in the order of their first ranks. `sorted`: the ranks sorted by identity. */
static void number_nodes(const struct rank_key *sorted, struct gpuring_node_map *map)
{
    int first = 0;

    for (int i = 0; i < map->nranks; i++) {
        first = i > 0 && sorted[i].node == sorted[i - 1].node ? first : sorted[i].rank;
        map->node[sorted[i].rank] = first;
    }
    for (int rank = 0; rank < map->nranks; rank++) {
        first = map->node[rank];
        map->node[rank] = first == rank ? map->nnodes++ : map->node[first];
    }
}

/* List the ranks of the numbered nodes in order. */
static void order_ranks(struct rank_key *sorted, struct gpuring_node_map *map)
{
    for (int i = 0; i < map->nranks; i++) {
        sorted[i].node = (uint64_t) map->node[sorted[i].rank];
    }
    qsort(sorted, (size_t) map->nranks, sizeof *sorted, compare_keys);
    for (int i = 0; i < map->nranks; i++) {
        map->order[i] = sorted[i].rank;
        map->position[sorted[i].rank] = i;
    }
}

/* Build the map from the ranks with the identities of their nodes, in any order, and free these.
 * sorted: NULL if they could not be allocated. */
static int map_ranks(struct rank_key *sorted, int nranks, struct gpuring_node_map *map)
{
    size_t n = (size_t) nranks;
    bool room;

    *map = (struct gpuring_node_map){
        .nranks = nranks,
        .node = malloc(n * sizeof *map->node),
        .order = malloc(n * sizeof *map->order),
        .position = malloc(n * sizeof *map->position),
    };
    room = sorted != NULL && map->node != NULL && map->order != NULL && map->position != NULL;
    if (room) {
        qsort(sorted, n, sizeof *sorted, compare_keys);
        number_nodes(sorted, map);
        order_ranks(sorted, map);
    } else {
        gpuring_error("out of memory for a communicator of %d ranks", nranks);
        gpuring_node_map_clear(map);
    }
    free(sorted);
    return room ? GPURING_OK : GPURING_ERR_NOMEM;
}

int gpuring_node_map_find(const struct gpuring_gathered *rank_infos, struct gpuring_node_map *map)
{
    struct rank_key *keys = malloc((size_t) rank_infos->nranks * sizeof *keys);

    for (int rank = 0; keys != NULL && rank < rank_infos->nranks; rank++) {
        keys[rank] =
            (struct rank_key){.node = gpuring_rank_info_of(rank_infos, rank)->node, .rank = rank};
    }
    return map_ranks(keys, rank_infos->nranks, map);
}

int gpuring_node_map_divide(const struct gpuring_node_map *map, const struct pci_wire *wires,
                            struct gpuring_node_map *parts)
{
    struct rank_key *keys = malloc((size_t) map->nranks * sizeof *keys);

    for (int rank = 0; keys != NULL && rank < map->nranks; rank++) {
        keys[rank] = (struct rank_key){.node = (uint64_t) map->node[rank] << 32 | wires[rank].node,
                                       .rank = rank};
    }
    return map_ranks(keys, map->nranks, parts);
}

int gpuring_node_map_size(const struct gpuring_node_map *map)
{
    int size = map->nranks / map->nnodes;

    for (int i = 0; i < map->nranks; i++) {
        if (map->node[map->order[i]] != i / size) {
            return 0;
        }
    }
    return size;
}

void gpuring_node_map_clear(struct gpuring_node_map *map)
{
    free(map->node);
    free(map->order);
    free(map->position);
    *map = (struct gpuring_node_map){.nranks = 0};
}

struct gpuring_node_ranks gpuring_node_ranks_of(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map, int rank)
{
    int first = map->position[rank], end = first + 1;

    while (first > 0 && map->node[map->order[first - 1]] == map->node[rank]) {
        first--;
    }
    while (end < map->nranks && map->node[map->order[end]] == map->node[rank]) {
        end++;
    }
    return (struct gpuring_node_ranks){.rank_infos = rank_infos,
                                       .rank = map->order + first,
                                       .count = end - first,
                                       .self = map->position[rank] - first};
}

void gpuring_rank_info_compact(struct gpuring_gathered *rank_infos)
{
    size_t kept = offsetof(struct gpuring_rank_info, device);
    uint8_t *blocks;

    for (int rank = 1; rank < rank_infos->nranks; rank++) {
        memmove(rank_infos->blocks + (size_t) rank * kept, gpuring_gathered_block(rank_infos, rank),
                kept);
    }
    rank_infos->bytes = kept;
    blocks = realloc(rank_infos->blocks, (size_t) rank_infos->nranks * kept);
    rank_infos->blocks = blocks != NULL ? blocks : rank_infos->blocks;
}

int gpuring_node_map_sharing(const struct gpuring_gathered *rank_infos, int rank)
{
    const struct gpuring_rank_info *mine = gpuring_rank_info_of(rank_infos, rank);
    int count = 0;

    for (int i = 0; i < rank_infos->nranks; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, i);

        count += rank_info->node == mine->node && rank_info->device.kind == GPURING_DEVICE_CUDA &&
                 memcmp(rank_info->device.uuid, mine->device.uuid, sizeof mine->device.uuid) == 0;
    }
    return count > 0 ? count : 1;
}

struct gpuring_gpu_parts gpuring_node_map_parts(const struct gpuring_gathered *rank_infos,
                                                const struct gpuring_node_map *map)
{
    struct gpuring_gpu_parts parts = {.blocks = UINT32_MAX, .capability = UINT32_MAX};

    for (int rank = 0; rank < map->nranks && parts.blocks > 0; rank++) {
        const struct gpuring_device_identity *gpu = &gpuring_rank_info_of(rank_infos, rank)->device;
        struct gpuring_node_ranks node = gpuring_node_ranks_of(rank_infos, map, rank);
        int sharing = 0;
        uint32_t blocks;

        for (int i = 0; i < node.count && gpu->kind == GPURING_DEVICE_CUDA; i++) {
            sharing += memcmp(gpuring_node_ranks_rank_info(&node, i)->device.uuid, gpu->uuid,
                              sizeof gpu->uuid) == 0;
        }
        blocks = sharing > 0 ? gpu->sms / (uint32_t) sharing : 0;
        parts.blocks = blocks < parts.blocks ? blocks : parts.blocks;
        parts.capability = gpu->capability < parts.capability ? gpu->capability : parts.capability;
        parts.shared = parts.shared || sharing > 1;
        if (sharing > 1 && !gpu->mps && sharing > parts.time_sliced_ranks) {
            parts.time_sliced_ranks = sharing;
        }
    }
    return parts;
}

uint32_t gpuring_node_map_lanes(const struct gpuring_gpu_parts *parts, uint32_t found, double gbps)
{
    struct pci_costs costs;
    uint32_t unknown, lanes;

    if (pci_costs_gpu(&costs) != 0) {
        return found; /* the tests check that the built-in table parses */
    }
    unknown = pci_lanes(&costs, (int) parts->capability, parts->blocks, found, 0);
    lanes = pci_lanes(&costs, (int) parts->capability, parts->blocks, found, gbps);
    return parts->shared && lanes < unknown ? unknown : lanes;
}

enum gpuring_disagreement gpuring_node_map_compare(const struct gpuring_gathered *rank_infos,
                                                   int *rank, int *parameter)
{
    const struct gpuring_rank_info *first = gpuring_rank_info_of(rank_infos, 0);

    for (int i = 0; i < rank_infos->nranks; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, i);

        *rank = i;
        for (int p = 0; p < GPURING_SHARED_COUNT; p++) {
            if (rank_info->shared[p] != first->shared[p]) {
                *parameter = p;
                return GPURING_DISAGREE_PARAMETER;
            }
        }
        if (rank_info->tuning != first->tuning) {
            return GPURING_DISAGREE_TUNING;
        }
    }
    return GPURING_AGREED;
}

/* Return the position in the order of ranks at which a node begins. The node after the last one
 * begins at the end. */
static int begin_of(const struct gpuring_node_map *map, int node)
{
    int begin = 0, end = map->nranks;

    while (begin < end) {
        int middle = begin + (end - begin) / 2;

        if (map->node[map->order[middle]] < node) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* Return rank number `at` of a node, from the first one in the first tree, and from the last one in
 * the second tree. */
static int rank_at(const struct gpuring_node_map *map, int node, int at, uint32_t which)
{
    int begin = begin_of(map, node), size = begin_of(map, node + 1) - begin;

    return map->order[begin + (which == 0 ? at : size - 1 - at)];
}

static void add_child(struct gpuring_tree_position *tree, int rank)
{
    int i = 0;

    while (tree->down[i] >= 0) {
        i++;
    }
    tree->down[i] = rank;
}

/* Return the root of the tree over `count` positions. */
static int root_of(int count)
{
    int32_t up, down[2], root = 0;

    do {
        pci_connect_node_tree((uint32_t) count, (uint32_t) root, 0, &up, down);
        root = up >= 0 ? up : root;
    } while (up >= 0);
    return root;
}

/* Get a position in one of the two trees over the ranks of a single node. */
static void node_tree_position(const struct gpuring_node_map *map, int position, uint32_t which,
                               struct gpuring_tree_position *result)
{
    int32_t up, down[2];

    pci_connect_node_tree((uint32_t) map->nranks, (uint32_t) position, which, &up, down);
    result->up = up >= 0 ? map->order[up] : -1;
    for (int i = 0; i < 2; i++) {
        if (down[i] >= 0) {
            add_child(result, map->order[down[i]]);
        }
    }
}

/*
 * Get a position in one of the two trees over several nodes. Rank 0 of each node leads it. The
 * leaders form a tree that the topology engine builds over nodes, so that data for a node crosses
 * the network once. The other ranks of a node form a tree below the leader. No position of these
 * trees has more than two children, so a leader has at most three.
 */
static void tree_position(const struct gpuring_node_map *map, int position, uint32_t which,
                          struct gpuring_tree_position *result)
{
    int node = map->node[map->order[position]], begin = begin_of(map, node);
    int size = begin_of(map, node + 1) - begin;
    int at = which == 0 ? position - begin : size - 1 - (position - begin);
    int32_t up, down[2];

    if (at == 0) {
        pci_connect_node_tree((uint32_t) map->nnodes, (uint32_t) node, which, &up, down);
        result->up = up >= 0 ? rank_at(map, up, 0, which) : -1;
    } else {
        pci_connect_node_tree((uint32_t) size - 1, (uint32_t) at - 1, 0, &up, down);
        result->up = rank_at(map, node, up + 1, which); /* up is -1 below the leader */
    }
    for (int i = 0; i < 2; i++) {
        if (down[i] >= 0) {
            add_child(result, at == 0 ? rank_at(map, down[i], 0, which)
                                      : rank_at(map, node, down[i] + 1, which));
        }
    }
    if (at == 0 && size > 1) {
        add_child(result, rank_at(map, node, root_of(size - 1) + 1, which));
    }
}

void gpuring_node_map_channels(const struct gpuring_node_map *map, int rank, uint32_t nchannels,
                               struct gpuring_channel *channels)
{
    int n = map->nranks, position = map->position[rank];
    struct gpuring_channel channel = {
        .ring = {.prev = map->order[(position + n - 1) % n],
                 .next = map->order[(position + 1) % n],
                 .index = position},
    };

    for (uint32_t which = 0; which < 2; which++) {
        struct gpuring_tree_position *tree = &channel.tree[which];

        *tree = (struct gpuring_tree_position){.up = -1, .down = {-1, -1, -1}};
        if (map->nnodes > 1) {
            tree_position(map, position, which, tree);
        } else {
            node_tree_position(map, position, which, tree);
        }
    }
    for (uint32_t i = 0; i < nchannels; i++) {
        channels[i] = channel;
    }
}
