/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What all MPI requests of this component have in common. */
#ifndef GPURING_REQUEST_H
#define GPURING_REQUEST_H

#include <stdbool.h>

#include "mca/coll_gpuring/compat.h"

/*
 * A persistent request keeps its communicator until it is freed by gpuring_request_free, which
 * refuses active ones and is the last step of any other function to free a request.
 */
void gpuring_request_construct(struct gpuring_collective_request *self,
                               struct ompi_communicator_t *comm, bool persistent,
                               ompi_request_free_fn_t free_request, ompi_request_start_fn_t start);
int gpuring_request_free(ompi_request_t **request);
void gpuring_request_activate(ompi_request_t *request);

/* Is a request of any component complete? Then all that was written for it can be read. */
static inline bool gpuring_request_done(const ompi_request_t *request)
{
    bool done = REQUEST_COMPLETE(request);

    if (done) {
        opal_atomic_rmb(); /* partner: Open MPI's, which sets it complete behind its results */
    }
    return done;
}

#endif
