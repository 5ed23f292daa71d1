/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The fallback of an allreduce: gather a piece of all ranks' vectors, fold it with
 * plain loops in the order of ranks, piece by piece. For calls that no engine can run any more
 * (oob/oob.h says why they cannot go to the previous module), and to compare with
 * (coll_gpuring_check=data).
 */
#ifndef GPURING_SERVE_FALLBACK_ALLREDUCE_H
#define GPURING_SERVE_FALLBACK_ALLREDUCE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/serve/eligible.h"

struct gpuring_oob;
struct gpuring_fallback_allreduce;

/* One a communicator, for its life, made with it: starting needs no memory that others wait for. */
struct gpuring_fallback_allreduce *gpuring_fallback_allreduce_create(struct gpuring_oob *oob);

/*
 * Begin with a call; its input must stay until the end. The same order on all ranks as for
 * exchanges. scale: NULL, or room for the magnitudes of verify.h.
 */
void gpuring_fallback_allreduce_start(struct gpuring_fallback_allreduce *fallback,
                                      const struct gpuring_call *call, double *scale);

/* Move on; the result goes to `output`, which may be the call's input. 0, GPURING_AGAIN, error. */
int gpuring_fallback_allreduce_progress(struct gpuring_fallback_allreduce *fallback, void *output);

/* The call is over, in whatever way. NULL is allowed. */
void gpuring_fallback_allreduce_stop(struct gpuring_fallback_allreduce *fallback);

void gpuring_fallback_allreduce_free(
    struct gpuring_fallback_allreduce *fallback); /* NULL is allowed */

#endif
