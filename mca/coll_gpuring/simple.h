/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * An allreduce on a second, simple path: gather a piece of all ranks' vectors, fold it with
 * plain loops in the order of ranks, piece by piece. For calls that no service can run any more
 * (exchange.h says why they cannot go to the previous module), and to compare with
 * (coll_gpuring_check=data).
 */
#ifndef GPURING_SIMPLE_H
#define GPURING_SIMPLE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/eligible.h"

struct gpuring_exchange;
struct gpuring_simple;

/* One a communicator, for its life, made with it: starting needs no memory that others wait for. */
struct gpuring_simple *gpuring_simple_create(struct gpuring_exchange *exchange);

/*
 * Begin with a call; its input must stay until the end. The same order on all ranks as for
 * exchanges. scale: NULL, or room for the magnitudes of compare.h.
 */
void gpuring_simple_start(struct gpuring_simple *simple, const struct gpuring_call *call,
                          double *scale);

/* Move on; the result goes to `output`, which may be the call's input. 0, GPURING_AGAIN, error. */
int gpuring_simple_progress(struct gpuring_simple *simple, void *output);

/* The rank whose message is awaited, for messages; -1: none. */
int gpuring_simple_awaits(const struct gpuring_simple *simple);

/* The call is over, in whatever way. NULL is allowed. */
void gpuring_simple_stop(struct gpuring_simple *simple);

void gpuring_simple_free(struct gpuring_simple *simple); /* NULL is allowed */

#endif
