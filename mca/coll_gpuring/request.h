/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The MPI requests of non-blocking and persistent operations: an item of the module's queue each.
 */
#ifndef GPURING_REQUEST_H
#define GPURING_REQUEST_H

#include "mca/coll_gpuring/gpuring.h"

/* Start an operation; returns an MPI error code. */
int gpuring_request_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          ompi_request_t **request);

/* Make a persistent request, inactive; returns an MPI error code. */
int gpuring_request_init(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         ompi_request_t **request);

#endif
