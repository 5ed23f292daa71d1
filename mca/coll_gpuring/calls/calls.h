/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The entries of the collectives that this component serves, as they stand in Open MPI's table. */
#ifndef GPURING_CALLS_H
#define GPURING_CALLS_H

#include "mca/coll_gpuring/collectives.h"
#include "mca/coll_gpuring/compat.h"

int mca_coll_gpuring_allreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING);
int mca_coll_gpuring_iallreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_NONBLOCKING);
int mca_coll_gpuring_allreduce_init(GPURING_ARGUMENTS_REDUCTION, GPURING_END_PERSISTENT);

#endif
