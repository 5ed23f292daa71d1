/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* AllGather 1: what this process tells of itself, and what the ranks do not agree in. */
#ifndef GPURING_WIREUP_HELLO_H
#define GPURING_WIREUP_HELLO_H

#include "mca/coll_gpuring/topology/format.h"

struct mca_coll_gpuring_module_t;

/* This rank's block. */
struct gpuring_hello_block {
    struct gpuring_hello hello;
    struct gpuring_nic nics[GPURING_NICS_MAX];
};
_Static_assert(sizeof(struct gpuring_hello_block) ==
                   sizeof(struct gpuring_hello) + GPURING_NICS_MAX * sizeof(struct gpuring_nic),
               "ports follow at once");

/* Fill it. 0, or why this rank cannot serve. */
int gpuring_hello_fill(struct gpuring_hello_block *block);

/*
 * 0, or GPURING_ERR_DISAGREE: the two ranks concerned say in what. All ranks that have all blocks
 * find the same.
 */
int gpuring_hello_compare(const struct mca_coll_gpuring_module_t *module,
                          const struct gpuring_gathered *hellos);

/* Capabilities that all ranks have. */
uint32_t gpuring_hello_common(const struct gpuring_gathered *hellos);

#endif
