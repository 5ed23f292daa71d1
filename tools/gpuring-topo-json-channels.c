/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* Channels, connected rings and trees, and bounds as JSON. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-json.h"

static json_t *net_number(const struct topo_machine *machine, uint32_t net)
{
    return net == PCI_NO_NET
               ? json_integer(-1)
               : json_integer(pci_graph_node(machine->graph, PCI_NODE_NET, net)->net.dev);
}

static json_t *channel(const struct topo_machine *machine, const struct pci_channels *set,
                       uint32_t c)
{
    json_t *order = json_array(), *object;

    for (uint32_t i = 0; i < set->ngpus; i++) {
        json_array_append_new(order, json_integer(set->intra[c * set->ngpus + i]));
    }
    object = json_pack("{s:o}", "intra", order);
    if (set->nodes > 1) {
        json_object_set_new(object, "nets",
                            json_pack("[o,o]", net_number(machine, set->nets[c][0]),
                                      net_number(machine, set->nets[c][1])));
    }
    return object;
}

json_t *topo_json_channels(const struct topo_machine *machine, const struct pci_channels *set)
{
    json_t *list = json_array();

    if (!machine->searched) {
        json_decref(list);
        return json_null();
    }
    for (uint32_t c = 0; c < set->nchannels; c++) {
        json_array_append_new(list, channel(machine, set, c));
    }
    return json_pack(
        "{s:s,s:i,s:o,s:o,s:s,s:s,s:i,s:i,s:o}", "pattern", pci_pattern_name(set->pattern),
        "nChannels", (int) set->nchannels, "bwIntra", topo_json_number(set->bw_intra), "bwInter",
        topo_json_number(set->bw_inter), "typeIntra", pci_path_class_name(set->type_intra),
        "typeInter", pci_path_class_name(set->type_inter), "sameChannels",
        set->same_channels ? 1 : 0, "crossNic", (int) set->cross_nic, "channels", list);
}

/* Larger jobs are not written, because the output is for people and scripts. */
enum {
    FINAL_RANKS_MAX = 65536,
};

/* Return the ring of a channel, following its links from rank 0. */
static json_t *final_ring(const struct topo_machine *machine, uint32_t c)
{
    json_t *list = json_array();
    uint32_t rank = 0;

    for (uint32_t i = 0; i < machine->connect.nranks; i++) {
        struct pci_ring_position position;

        json_array_append_new(list, json_integer(rank));
        pci_connect_ring(&machine->connect, rank, c, &position);
        rank = position.next;
    }
    return list;
}

static void final_tree(const struct topo_machine *machine, uint32_t c, uint32_t which, json_t *ups,
                       json_t *downs)
{
    json_t *up = json_array(), *down = json_array();

    for (uint32_t rank = 0; rank < machine->connect.nranks; rank++) {
        struct pci_tree_position position;
        json_t *children = json_array();

        pci_connect_tree(&machine->connect, rank, c, which, &position);
        json_array_append_new(up, json_integer(position.up));
        for (int i = 0; i < PCI_CONNECT_DOWN; i++) {
            json_array_append_new(children, json_integer(position.down[i]));
        }
        json_array_append_new(down, children);
    }
    json_array_append_new(ups, up);
    json_array_append_new(downs, down);
}

/* Return two entries per channel, as in the reference: the same ring twice, and the two trees. */
json_t *topo_json_final(const struct topo_machine *machine)
{
    const struct pci_agreed *agreed = &machine->connect.agreed;
    uint32_t half = agreed->channels / PCI_CONNECT_TREES;
    json_t *rings, *ups, *downs;

    if (!machine->searched || agreed->rings == 0 || agreed->trees == 0) {
        return json_null();
    }
    if (machine->connect.nranks > FINAL_RANKS_MAX) {
        topo_message("\"final\" is not part of reports on more than %d ranks", FINAL_RANKS_MAX);
        return json_null();
    }
    rings = json_array();
    ups = json_array();
    downs = json_array();
    for (uint32_t i = 0; i < agreed->channels; i++) {
        uint32_t c = i % half;

        json_array_append_new(rings, final_ring(machine, c % agreed->rings));
        final_tree(machine, c % agreed->trees, i / half, ups, downs);
    }
    return json_pack("{s:i,s:o,s:o,s:o}", "nChannels", (int) agreed->channels, "rings", rings,
                     "treeUp", ups, "treeDown", downs);
}

static json_t *ratio(const struct pci_bound *bound, const struct pci_ratio *value)
{
    return bound->connected ? topo_json_number(value->gbps) : json_null();
}

json_t *topo_json_bound(const struct topo_machine *machine)
{
    const struct pci_bound *nvlink = &machine->bounds.nvlink, *all = &machine->bounds.all;

    return json_pack("{s:o,s:o,s:o,s:o}", "ag_nvlink", ratio(nvlink, &nvlink->ag), "ar_nvlink",
                     ratio(nvlink, &nvlink->ar), "ag_all", ratio(all, &all->ag), "ar_all",
                     ratio(all, &all->ar));
}
