/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/topology/model_choice.h"

#include <math.h>
#include <string.h>

#include "kernels/step.h"
#include "mca/coll_gpuring/plan/plan.h"
#include "mca/coll_gpuring/util/hash.h"

#define SAME(v, name, id, text, help)                                            \
    _Static_assert((int) PCI_ALGORITHM_##name == (int) GPURING_ALGORITHM_##name, \
                   "the model's algorithms are the plans' algorithms");
GPURING_ALGORITHMS(SAME, )
#undef SAME
#define SAME(name, text, blocks, rooted)                                           \
    _Static_assert((int) PCI_COLLECTIVE_##name == (int) GPURING_COLLECTIVE_##name, \
                   "the model's collectives are the plans' collectives");
GPURING_PLAN_COLLECTIVES(SAME)
#undef SAME
_Static_assert((int) PCI_PROTOCOL_SIMPLE == (int) GPURING_PROTOCOL_SIMPLE &&
                   (int) PCI_PROTOCOL_LL == (int) GPURING_PROTOCOL_LL &&
                   (int) PCI_PROTOCOL_LL128 == (int) GPURING_PROTOCOL_LL128,
               "the model's protocols are the plans' protocols");

void gpuring_model_choice_find(const struct pci_costs *costs, const struct pci_job *node,
                               enum pci_collective collective, struct gpuring_model_choice *choice)
{
    struct pci_job job = *node;

    job.collective = collective;
    memset(choice, 0, sizeof *choice);
    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        struct pci_choice best;

        choice->algorithm[i] = -1;
        if (pci_predict_best(costs, &job, (1u << PCI_ALGORITHM_COUNT) - 1, UINT64_C(1) << i,
                             &best) == 0) {
            choice->algorithm[i] = (int8_t) best.algorithm;
            choice->protocol[i] = (int8_t) best.protocol;
            choice->channels[i] = (uint8_t) (best.channels < UINT8_MAX ? best.channels : 0);
        }
    }
    for (int a = 0; a < GPURING_ALGORITHM_COUNT; a++) {
        if (isfinite(pci_predict_us(costs, &job, (enum pci_algorithm) a, PCI_PROTOCOL_LL128, 1))) {
            choice->ll128 |= (uint8_t) (1u << a);
        }
    }
    choice->known = true;
}

uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *choice)
{
    uint64_t hash = GPURING_HASH_START;

    hash = gpuring_hash_number(hash, choice->known);
    hash = gpuring_hash_number(hash, choice->ll128);
    for (int i = 0; choice->known && i < GPURING_MODEL_CHOICE_SIZES; i++) {
        hash = gpuring_hash_number(hash, (uint64_t) choice->algorithm[i]);
        hash = gpuring_hash_number(hash, (uint64_t) choice->protocol[i]);
        hash = gpuring_hash_number(hash, choice->channels[i]);
    }
    return hash != 0 ? hash : 1;
}
