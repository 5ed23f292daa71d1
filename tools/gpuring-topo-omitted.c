/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/* The unused GPUs of a topology, with the reason. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuring-topo-machine.h"

static const char no_rank[] = "without a rank, where others have one";
static const char not_chosen[] = "not in --gpus";
static const char no_cpu[] = "outside of any cpu element";
static const char no_pci[] = "outside of any pci element";
static const char second[] = "not the first gpu element of its PCI device";

static bool has_rank(const struct pci_elem *gpu)
{
    const char *rank = pci_elem_get(gpu, "rank");

    return rank && rank[0];
}

static bool is_chosen(const struct topo_options *options, long rank)
{
    for (size_t i = 0; i < options->ngpus; i++) {
        if ((long) options->gpus[i] == rank) {
            return true;
        }
    }
    return options->ngpus == 0;
}

static bool is_below_cpu(const struct pci_elem *elem)
{
    while (elem && strcmp(pci_elem_name(elem), "cpu") != 0) {
        elem = pci_elem_parent(elem);
    }
    return elem != NULL;
}

/* Return the reason why the GPU is not used, or NULL if it is used. */
static const char *reason_of(const struct topo_options *options, const struct pci_elem *gpu,
                             long rank)
{
    const struct pci_elem *parent = pci_elem_parent(gpu);

    return rank < 0                                    ? no_rank
           : !is_chosen(options, rank)                 ? not_chosen
           : !is_below_cpu(gpu)                        ? no_cpu
           : strcmp(pci_elem_name(parent), "pci") != 0 ? no_pci
           : pci_elem_child(parent, "gpu") != gpu      ? second
                                                       : NULL;
}

int topo_omitted_find(struct topo_machine *machine)
{
    struct pci_elem *gpu = NULL;
    size_t count = 0;
    bool ranks = false;

    while ((gpu = pci_doc_next(machine->doc, gpu, "gpu")) != NULL) {
        ranks = ranks || has_rank(gpu);
        count++;
    }
    machine->omitted = calloc(count + 1, sizeof *machine->omitted);
    if (!machine->omitted) {
        return -ENOMEM;
    }
    for (long i = 0; (gpu = pci_doc_next(machine->doc, gpu, "gpu")) != NULL; i++) {
        struct topo_omitted *omitted = &machine->omitted[machine->nomitted];
        const char *busid = pci_elem_get(pci_elem_parent(gpu), "busid");

        omitted->rank = ranks ? pci_elem_long(gpu, "rank", -1) : i;
        omitted->dev = pci_elem_long(gpu, "dev", omitted->rank);
        snprintf(omitted->busid, sizeof omitted->busid, "%s", busid ? busid : "unknown");
        omitted->reason = reason_of(machine->options, gpu, omitted->rank);
        machine->nomitted += omitted->reason != NULL;
    }
    return 0;
}
