/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Shared by the files of the cost model. Internal. */
#ifndef TOPO_PCI_PREDICT_PREDICT_H
#define TOPO_PCI_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/topo_pci/predict/pci_predict.h"

#define PCI_BYTES_PER_US 1e3 /* at 1 GB/s */

/* predict/executor_model.c: return true if the table models the executor and there is one node. */
bool pci_block_models(const struct pci_costs *costs, const struct pci_job *job);
bool pci_block_offers(const struct pci_job *job, enum pci_algorithm algorithm);
/* Find the number of channels with the shortest time, and its parts. The job must offer the
 * algorithm and protocol. */
void pci_block_parts(const struct pci_costs *costs, const struct pci_job *job,
                     enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                     struct pci_parts *parts);

#endif /* TOPO_PCI_PREDICT_PREDICT_H */
