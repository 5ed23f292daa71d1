/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Create and free fabrics and sets of channels. */
#include "mca/topo_pci/search/pci_channels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/xml/doc.h"

#define PCI_NAME(id, name) [PCI_PATTERN_##id] = name,
static const char *const pattern_names[] = {PCI_PATTERNS(PCI_NAME)};
#undef PCI_NAME

const char *pci_pattern_name(enum pci_pattern pattern)
{
    return (unsigned) pattern < PCI_PATTERN_COUNT ? pattern_names[pattern] : "UNKNOWN";
}

static struct pci_way *ways_alloc(size_t count)
{
    struct pci_way *ways = calloc(count + 1, sizeof *ways);

    for (size_t i = 0; ways != NULL && i < count; i++) {
        ways[i].class = PCI_PATH_DIS;
    }
    return ways;
}

int pci_fabric_init(struct pci_fabric *fabric, uint32_t ngpus, uint32_t nnets, uint32_t nlinks)
{
    struct pci_fabric result = {.ngpus = ngpus, .nnets = nnets, .nlinks = nlinks};

    if (ngpus > PCI_GRAPH_MAX_GPUS || nnets > PCI_GRAPH_MAX_NETS) {
        return -E2BIG;
    }
    result.capacity = calloc((size_t) nlinks + 1, sizeof *result.capacity);
    result.gpus = ways_alloc((size_t) ngpus * ngpus);
    result.out = ways_alloc((size_t) ngpus * nnets);
    result.in = ways_alloc((size_t) nnets * ngpus);
    if (result.capacity == NULL || result.gpus == NULL || result.out == NULL || result.in == NULL) {
        pci_fabric_fini(&result);
        return -ENOMEM;
    }
    *fabric = result;
    return 0;
}

void pci_fabric_fini(struct pci_fabric *fabric)
{
    free(fabric->capacity);
    free(fabric->gpus);
    free(fabric->out);
    free(fabric->in);
    free(fabric->uses);
    memset(fabric, 0, sizeof *fabric);
}

void pci_fabric_way(struct pci_fabric *fabric, struct pci_way *way, enum pci_path_class class,
                    uint32_t hops)
{
    *way = (struct pci_way){.first = fabric->nuses, .hops = hops, .class = class};
}

int pci_fabric_use(struct pci_fabric *fabric, struct pci_way *way, uint32_t link, double factor)
{
    if (link >= fabric->nlinks || !(factor > 0)) {
        return -EINVAL;
    }
    if (pci_array_reserve(&fabric->uses, &fabric->uses_room, fabric->nuses + 1,
                          sizeof *fabric->uses) != 0) {
        return -ENOMEM;
    }
    fabric->uses[fabric->nuses++] = (struct pci_use){.link = link, .factor = factor};
    way->count++;
    return 0;
}

void pci_channels_fini(struct pci_channels *channels)
{
    free(channels->intra);
    free(channels->nets);
    memset(channels, 0, sizeof *channels);
}

void pci_search_init(struct pci_search *search)
{
    *search = (struct pci_search){.pattern = PCI_PATTERN_RING,
                                  .nodes = 1,
                                  .max_steps = PCI_SEARCH_STEPS,
                                  .cross_nic = true,
                                  .max_intra = PCI_PATH_SYS,
                                  .max_inter = PCI_PATH_SYS};
}

bool pci_channel_leg(const struct pci_fabric *fabric, const struct pci_channels *channels,
                     uint32_t c, uint32_t i, struct pci_leg *leg)
{
    uint32_t n = channels->ngpus;
    const uint32_t *order = channels->intra + (size_t) c * n;
    const uint32_t *nets = channels->nets[c];
    bool ring = channels->pattern == PCI_PATTERN_RING;
    bool balanced = channels->pattern == PCI_PATTERN_BALANCED_TREE && n > 1;

    uint32_t inside = ring ? n - 1 : 2 * (n - 1);

    *leg = (struct pci_leg){.inside = i < inside, .part = ring || i >= inside ? 1 : 0.5};
    if (i < inside) {
        uint32_t at = i % (n - 1), back = i / (n - 1);

        leg->way = &fabric->gpus[(size_t) order[at + back] * n + order[at + 1 - back]];
        return true;
    }
    i -= inside;
    if (channels->nodes == 1 || nets[0] == PCI_NO_NET) {
        leg->inside = true;
        leg->way = &fabric->gpus[(size_t) order[n - 1] * n + order[0]];
        return i == 0 && ring && n > 1;
    }
    if (i == 0) {
        leg->way = &fabric->in[(size_t) nets[0] * n + order[0]];
        return true;
    }
    leg->part = balanced ? 0.5 : 1;
    leg->way = &fabric->out[(size_t) order[ring ? n - 1 : i - 1] * fabric->nnets + nets[1]];
    return i <= (balanced ? 2u : 1u);
}
