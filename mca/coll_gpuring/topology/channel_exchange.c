/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/channel_exchange.h"

#include <stdlib.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

int gpuring_channel_exchange_make(const struct gpuring_gathered *hellos,
                                  const struct gpuring_node_map *members, int rank,
                                  struct pci_doc *doc, bool from_file, enum pci_peer peers,
                                  struct gpuring_graph_offer *offer,
                                  struct gpuring_model_choice *advice)
{
    struct gpuring_device_identity *identities;
    int place = 0, nlocal = gpuring_node_map_local(members, rank, &place);
    const int *mates = members->order + members->position[rank] - place;

    identities = malloc((size_t) nlocal * sizeof *identities);
    if (identities == NULL) {
        gpuring_error("out of memory for the devices of %d ranks", nlocal);
        return GPURING_ERR_NOMEM;
    }
    for (int i = 0; i < nlocal; i++) {
        identities[i] = gpuring_hello_of(hellos, mates[i])->device;
    }
    gpuring_local_channels_wire(doc, from_file, peers, (uint32_t) members->node[rank],
                                members->nnodes, place, nlocal, identities, &offer->wire, advice);
    offer->advice = gpuring_model_choice_fingerprint(advice);
    free(identities);
    return GPURING_OK;
}

int gpuring_channel_exchange_take(const struct gpuring_gathered *offers, int nranks,
                                  struct pci_wire **wires, bool *advised)
{
    const struct gpuring_graph_offer *first = gpuring_gathered_block(offers, 0);

    *wires = malloc((size_t) nranks * sizeof **wires);
    if (*wires == NULL) {
        gpuring_error("out of memory for the channels of %d ranks", nranks);
        return GPURING_ERR_NOMEM;
    }
    *advised = first->advice != 0;
    for (int rank = 0; rank < nranks; rank++) {
        const struct gpuring_graph_offer *offer = gpuring_gathered_block(offers, rank);

        if (offers->sizes[rank] != sizeof *offer) {
            gpuring_error("rank %d told %u bytes of its channels, not %zu", rank,
                          offers->sizes[rank], sizeof *offer);
            return GPURING_ERR_PEER;
        }
        (*wires)[rank] = offer->wire;
        *advised = *advised && offer->advice == first->advice;
    }
    return GPURING_OK;
}
