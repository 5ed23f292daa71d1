/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Functions that the files of the cost model share. Internal. */
#ifndef TOPO_PCI_PREDICT_PREDICT_H
#define TOPO_PCI_PREDICT_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/topo_pci/predict/pci_predict.h"

#define PCI_BYTES_PER_US 1e3 /* of 1 GB/s */

enum pci_span pci_job_span(const struct pci_job *job);
bool pci_job_offers(const struct pci_job *job, enum pci_algorithm algorithm);

/* predict/executor_model.c: does the table model the executor, and the job run on GPUs of one node?
 */
bool pci_block_models(const struct pci_costs *costs, const struct pci_job *job);
bool pci_block_offers(const struct pci_job *job, enum pci_algorithm algorithm);
/* The least parts of all numbers of channels. The algorithm and protocol are offered. */
void pci_block_parts(const struct pci_costs *costs, const struct pci_job *job,
                     enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                     struct pci_parts *parts);

#endif /* TOPO_PCI_PREDICT_PREDICT_H */
