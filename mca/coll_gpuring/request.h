/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The MPI requests of non-blocking and persistent operations: an item of the module's queue each.
 */
#ifndef GPURING_REQUEST_H
#define GPURING_REQUEST_H

#include "mca/coll_gpuring/module.h"

/*
 * What all our requests have in common. A persistent one keeps its communicator until it is freed
 * by gpuring_request_free, which refuses active ones and is the last step of any other function to
 * free a request.
 */
void gpuring_request_construct(struct gpuring_collective_request *self,
                               struct ompi_communicator_t *comm, bool persistent,
                               ompi_request_free_fn_t free_request, ompi_request_start_fn_t start);
int gpuring_request_free(ompi_request_t **request);
void gpuring_request_activate(ompi_request_t *request);
bool gpuring_request_active(ompi_request_t *request);

/*
 * Keep a request in the module (module->spare; NULL: no memory) for a call that finds no memory.
 * Without its call the other ranks would wait for this one.
 */
void gpuring_request_reserve(mca_coll_gpuring_module_t *module);

/*
 * Start an operation; returns an MPI error code. Without memory for a request, if the spare one is
 * in use, too, the operation runs before this returns, and the request is Open MPI's empty one.
 */
int gpuring_request_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          ompi_request_t **request);

/* Make a persistent request, inactive; returns an MPI error code. */
int gpuring_request_init(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                         ompi_request_t **request);

#endif
