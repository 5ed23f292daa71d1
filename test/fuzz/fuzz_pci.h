/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef FUZZ_PCI_H
#define FUZZ_PCI_H

#include <stddef.h>
#include <stdint.h>

/* Run one input through the topology engine, and abort if a check fails. libFuzzer requires this
 * name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
