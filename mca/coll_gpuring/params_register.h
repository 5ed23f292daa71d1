/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Registration of the parameters with Open MPI; apart from params.h, which needs none of its
 * headers. */
#ifndef GPURING_PARAMS_REGISTER_H
#define GPURING_PARAMS_REGISTER_H

#include "mca/coll_gpuring/compat.h"

/*
 * Register every parameter and check the values given: a bad one is reported with a help text and
 * replaced by the default. Returns 0, or GPURING_ERR_NOMEM / GPURING_ERR_IO.
 */
int gpuring_params_register(const mca_base_component_t *component);

#endif
