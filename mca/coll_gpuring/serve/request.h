/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* MPI requests of non-blocking and persistent calls that are served: an item of the queue each. */
#ifndef GPURING_SERVE_REQUEST_H
#define GPURING_SERVE_REQUEST_H

#include "mca/coll_gpuring/compat.h"

struct gpuring_call;
struct mca_coll_gpuring_module_t;

/* Start an operation, and make a persistent request, inactive. MPI error codes. */
int gpuring_serve_start(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                        ompi_request_t **request);
int gpuring_serve_init(struct mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                       ompi_request_t **request);

#endif
