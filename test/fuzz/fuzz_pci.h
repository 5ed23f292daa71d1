/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef FUZZ_PCI_H
#define FUZZ_PCI_H

#include <stddef.h>
#include <stdint.h>

/* Runs one input through the topology engine; aborts on what must not be. libFuzzer wants the name.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
