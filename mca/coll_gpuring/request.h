/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The common part of all MPI requests of this component. */
#ifndef GPURING_REQUEST_H
#define GPURING_REQUEST_H

#include <stdbool.h>

#include "mca/coll_gpuring/compat.h"

/*
 * Construct, free or activate a request. A persistent request holds a reference to its
 * communicator. gpuring_request_free releases this reference and the request, or returns
 * MPI_ERR_REQUEST if the request is active. A free function of a particular kind of request must
 * call it last.
 */
void gpuring_request_construct(struct gpuring_collective_request *self,
                               struct ompi_communicator_t *comm, bool persistent,
                               ompi_request_free_fn_t free_request, ompi_request_start_fn_t start);
int gpuring_request_free(ompi_request_t **request);
void gpuring_request_activate(ompi_request_t *request);

/* Return true if a request, of any component, is complete. Its results can then be read. */
static inline bool gpuring_request_done(const ompi_request_t *request)
{
    bool done = REQUEST_COMPLETE(request);

    if (done) {
        opal_atomic_rmb(); /* partner: Open MPI completes a request after writing its results */
    }
    return done;
}

#endif
