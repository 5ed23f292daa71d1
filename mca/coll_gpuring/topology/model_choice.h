/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The algorithm, protocol and number of channels that the cost model considers best for each
 * collective and size. Every rank computes them from the topology of its node, and they are only
 * used if the fingerprints of all ranks are equal. No MPI.
 */
#ifndef GPURING_TOPOLOGY_MODEL_CHOICE_H
#define GPURING_TOPOLOGY_MODEL_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/topo_pci/predict/pci_predict.h"

/* Entry i of a table applies to more than 2^(i-1) and at most 2^i bytes of the vector, or of all
 * ranks' blocks together. */
#define GPURING_MODEL_CHOICE_SIZES 48

struct gpuring_model_entry {
    int8_t algorithm; /* enum gpuring_algorithm, -1: none */
    int8_t protocol;  /* enum gpuring_protocol, -1: none */
    uint8_t channels; /* of the plan to use; 0: as many as the number of bytes can fill */
};

struct gpuring_model_choice {
    bool mapped[GPURING_MODEL_CHOICE_SIZES]; /* an allreduce is faster on the mapped buffers of all
                                                ranks (mapping.h) */
    bool known;    /* the members below are filled in; they are not if ranks share GPUs */
    uint8_t ll128; /* bit 1 << enum gpuring_algorithm: its links keep 128-byte stores whole */
    struct gpuring_model_entry entry[PCI_COLLECTIVE_COUNT][GPURING_MODEL_CHOICE_SIZES];
};

/* Return the index of the entries for a size. */
static inline int gpuring_model_index(uint64_t bytes)
{
    int i = 0;

    while (i < GPURING_MODEL_CHOICE_SIZES - 1 && (UINT64_C(1) << i) < bytes) {
        i++;
    }
    return i;
}

/* Compute the choices for a job that describes the node. in_order: reductions must add in rank
 * order, so that they do not use the ring. The predictions for trees also hold for chains in rank
 * order, because trees inside a node are chains. */
void gpuring_model_choice_find(const struct pci_costs *costs, const struct pci_job *node,
                               bool in_order, struct gpuring_model_choice *choice);

/* Find only the sizes for which mapped buffers are faster, for ranks that share GPUs. */
void gpuring_model_choice_mapped(const struct pci_costs *costs, const struct pci_job *node,
                                 bool in_order, struct gpuring_model_choice *choice);

/* Return a fingerprint, which is equal for equal choices and never 0. */
uint64_t gpuring_model_choice_fingerprint(const struct gpuring_model_choice *choice);

#endif
