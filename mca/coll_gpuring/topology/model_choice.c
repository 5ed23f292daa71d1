/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/model_choice.h"

#include <string.h>

#include "kernels/step.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/topo_pci/predict/pci_predict.h"

_Static_assert((int) PCI_ALGORITHM_RING == (int) GPURING_ALGORITHM_RING &&
                   (int) PCI_ALGORITHM_TREE == (int) GPURING_ALGORITHM_TREE &&
                   (int) PCI_ALGORITHM_DIRECT == (int) GPURING_ALGORITHM_DIRECT &&
                   (int) PCI_ALGORITHM_PACKED == (int) GPURING_ALGORITHM_PACKED &&
                   (int) PCI_PROTOCOL_SIMPLE == (int) GPURING_PROTOCOL_SIMPLE &&
                   (int) PCI_PROTOCOL_LL == (int) GPURING_PROTOCOL_LL &&
                   (int) PCI_PROTOCOL_LL128 == (int) GPURING_PROTOCOL_LL128,
               "the engine's names are the plans' names");

static void predict(const struct pci_graph *graph, int nnodes, const struct pci_channels *ring,
                    const struct pci_channels *tree, struct gpuring_model_choice *advice)
{
    uint32_t channels = ring->nchannels > tree->nchannels ? ring->nchannels : tree->nchannels;
    const struct pci_pack *pack = advice->pack.ntrees > 0 ? &advice->pack : NULL;
    struct pci_costs costs;
    struct pci_job job;

    if (pci_costs_gpu(&costs) != 0 ||
        pci_job_of_graph(graph, (uint32_t) nnodes, ring, tree, 2 * channels, pack, &job) != 0) {
        gpuring_debug("the cost model has no answer for this topology");
        return;
    }
    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        struct pci_choice choice;

        advice->algorithm[i] = -1;
        if (pci_predict_best(&costs, &job, (1u << PCI_ALGORITHM_COUNT) - 1, UINT64_C(1) << i,
                             &choice) == 0) {
            advice->algorithm[i] = (int8_t) choice.algorithm;
            advice->protocol[i] = (int8_t) choice.protocol;
        }
    }
    advice->predicted = true;
}

void gpuring_model_choice_find(const struct pci_graph *graph, int nnodes, int local,
                               const struct pci_channels *ring, const struct pci_channels *tree,
                               struct gpuring_model_choice *advice)
{
    memset(advice, 0, sizeof *advice);
    if (nnodes == 1 && pci_pack_of_graph(graph, PCI_PACK_TREES, &advice->pack) != 0) {
        gpuring_debug("no packed trees over this topology");
        advice->pack.ntrees = 0;
    }
    predict(graph, nnodes, ring, tree, advice);
    gpuring_routes_find(graph, local, ring, tree, &advice->routes);
}

uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *advice)
{
    uint64_t hash = GPURING_HASH_START;

    hash = gpuring_hash_number(hash, advice->pack.ntrees);
    hash = gpuring_hash_number(hash, advice->pack.ngpus);
    for (uint32_t t = 0; t < advice->pack.ntrees; t++) {
        hash = gpuring_hash_number(hash, advice->pack.trees[t].share);
        for (uint32_t g = 0; g < advice->pack.ngpus; g++) {
            hash = gpuring_hash_number(hash, (uint64_t) advice->pack.trees[t].parent[g]);
        }
    }
    hash = gpuring_hash_number(hash, advice->predicted);
    for (int i = 0; advice->predicted && i < GPURING_MODEL_CHOICE_SIZES; i++) {
        hash = gpuring_hash_number(hash, (uint64_t) advice->algorithm[i]);
        hash = gpuring_hash_number(hash, (uint64_t) advice->protocol[i]);
    }
    return hash != 0 ? hash : 1;
}

void gpuring_model_choice_place(const struct gpuring_model_choice *advice,
                                const struct gpuring_node_map *members, int rank,
                                struct gpuring_model_choice_places *places)
{
    int32_t self = members->position[rank];

    places->count = advice->pack.ntrees;
    for (uint32_t t = 0; t < places->count; t++) {
        const struct pci_pack_tree *tree = &advice->pack.trees[t];
        struct gpuring_packed_place *place = &places->place[t];

        *place = (struct gpuring_packed_place){
            .weight = tree->share,
            .up = tree->parent[self] == PCI_PACK_ROOT ? -1 : members->order[tree->parent[self]],
            .down = places->down[t],
        };
        for (uint32_t g = 0; g < advice->pack.ngpus; g++) {
            if (tree->parent[g] == self) {
                places->down[t][place->ndown++] = members->order[g];
            }
        }
    }
}
