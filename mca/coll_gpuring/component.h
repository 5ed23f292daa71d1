/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The component: what Open MPI sees of it. */
#ifndef GPURING_COMPONENT_H
#define GPURING_COMPONENT_H

#include "mca/coll_gpuring/compat.h"

typedef struct {
    mca_coll_base_component_t super;
} mca_coll_gpuring_component_t;
extern mca_coll_gpuring_component_t mca_coll_gpuring_component;

/* Offers a module for a communicator; NULL: none. */
mca_coll_base_module_t *mca_coll_gpuring_comm_query(struct ompi_communicator_t *comm,
                                                    int *priority);

#endif
