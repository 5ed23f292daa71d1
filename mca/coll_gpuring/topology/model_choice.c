/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/model_choice.h"

#include <math.h>
#include <string.h>

#include "kernels/work.h"
#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/util/hash.h"

#define SAME(v, name, id, text, help)                                            \
    _Static_assert((int) PCI_ALGORITHM_##name == (int) GPURING_ALGORITHM_##name, \
                   "the model's algorithms are the plans' algorithms");
GPURING_ALGORITHMS(SAME, )
#undef SAME
#define SAME(name, text, blocks)                                                   \
    _Static_assert((int) PCI_COLLECTIVE_##name == (int) GPURING_COLLECTIVE_##name, \
                   "the model's collectives are the plans' collectives");
GPURING_PLAN_COLLECTIVES(SAME)
#undef SAME
_Static_assert((int) PCI_PROTOCOL_SIMPLE == (int) GPURING_PROTOCOL_SIMPLE &&
                   (int) PCI_PROTOCOL_LL == (int) GPURING_PROTOCOL_LL &&
                   (int) PCI_PROTOCOL_LL128 == (int) GPURING_PROTOCOL_LL128,
               "the model's protocols are the plans' protocols");

_Static_assert(PCI_SLICE_LEAST == GPURING_SLICE_MIN_BYTES, "the slices of the model");

static struct gpuring_model_entry best_of(const struct pci_costs *costs, const struct pci_job *job,
                                          uint32_t algorithms, uint64_t bytes)
{
    struct pci_choice best;

    if (pci_predict_best(costs, job, algorithms, bytes, &best) != 0) {
        return (struct gpuring_model_entry){.algorithm = -1, .protocol = -1};
    }
    return (struct gpuring_model_entry){
        .algorithm = (int8_t) best.algorithm,
        .protocol = (int8_t) best.protocol,
        .channels = (uint8_t) (best.channels < UINT8_MAX ? best.channels : 0)};
}

/* Return the algorithms that a collective may use. */
static uint32_t allowed(enum gpuring_collective collective, bool in_order)
{
    bool ring = !in_order || !gpuring_collective_reduces(collective);

    return ((1u << PCI_ALGORITHM_COUNT) - 1) & ~(ring ? 0 : 1u << PCI_ALGORITHM_RING);
}

/* Other GPUs are only accessed over NVLink, because reads over PCI Express were not measured. */
void gpuring_model_choice_mapped(const struct pci_costs *costs, const struct pci_job *node,
                                 bool in_order, struct gpuring_model_choice *choice)
{
    struct pci_job job = *node, mapped = *node;

    job.collective = mapped.collective = PCI_COLLECTIVE_ALLREDUCE;
    mapped.mapped = true;
    if (!node->direct.nvlink && node->sharing < node->ranks) {
        return;
    }
    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        uint64_t bytes = UINT64_C(1) << i;
        struct pci_choice best;

        choice->mapped[i] =
            pci_predict_best(costs, &job, allowed(GPURING_COLLECTIVE_ALLREDUCE, in_order), bytes,
                             &best) == 0 &&
            pci_predict_us(costs, &mapped, PCI_ALGORITHM_TWO_SHOT, PCI_PROTOCOL_SIMPLE, bytes) <
                best.us;
    }
}

void gpuring_model_choice_find(const struct pci_costs *costs, const struct pci_job *node,
                               bool in_order, struct gpuring_model_choice *choice)
{
    struct pci_job job = *node;

    memset(choice, 0, sizeof *choice);
    for (int c = 0; c < PCI_COLLECTIVE_COUNT; c++) {
        uint32_t algorithms = allowed((enum gpuring_collective) c, in_order);

        job.collective = (enum pci_collective) c;
        for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
            choice->entry[c][i] = best_of(costs, &job, algorithms, UINT64_C(1) << i);
        }
    }
    job.collective =
        PCI_COLLECTIVE_ALLREDUCE; /* other collectives use the connections of its plans */
    for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
        if (isfinite(pci_predict_us(costs, &job, (enum pci_algorithm) a, PCI_PROTOCOL_LL128, 1))) {
            choice->ll128 |= (uint8_t) (1u << a);
        }
    }
    gpuring_model_choice_mapped(costs, node, in_order, choice);
    choice->known = true;
}

_Static_assert(sizeof(struct gpuring_model_choice) ==
                   2 + (1 + PCI_COLLECTIVE_COUNT * 3) * GPURING_MODEL_CHOICE_SIZES,
               "all of its bytes count");

uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *choice)
{
    uint64_t hash = gpuring_hash_bytes(GPURING_HASH_START, choice, sizeof *choice);

    return hash != 0 ? hash : 1;
}
