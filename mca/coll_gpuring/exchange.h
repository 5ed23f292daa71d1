/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * An allgather among the ranks of a communicator that never blocks: what wire-up and the simple
 * path are made of.
 *
 * The non-blocking collectives of other modules cannot serve here: they pair calls of the ranks by
 * the order in which they were started, and a step that is started from the progress callback comes
 * at a different place in that order on each rank. So this one uses point-to-point messages with a
 * tag of its own (Bruck's algorithm: log2 n rounds, every byte received once):
 *
 *   round with distance d = 1, 2, 4 ..: send blocks me .. me+d-1 to rank me-d,
 *                                       receive blocks me+d .. me+2d-1 from rank me+d
 *
 * Exchanges of one communicator must follow each other in the same order on all ranks, one at a
 * time; the queue of the module sees to that.
 */
#ifndef GPURING_EXCHANGE_H
#define GPURING_EXCHANGE_H

#include <stddef.h>

#include "mca/coll_gpuring/compat.h"

struct gpuring_exchange;

/*
 * Start: this rank gives bytes[rank] bytes at `mine` (copied). bytes[n] tells what each rank gives,
 * and must be the same on all ranks; it is copied. Nothing is sent yet. 0 or GPURING_ERR_NOMEM.
 */
int gpuring_exchange_start(struct ompi_communicator_t *comm, const void *mine, const size_t *bytes,
                           struct gpuring_exchange **exchange);

/* The same with `bytes` from every rank. */
int gpuring_exchange_start_even(struct ompi_communicator_t *comm, const void *mine, size_t bytes,
                                struct gpuring_exchange **exchange);

/* Move on. 0: complete; GPURING_AGAIN; GPURING_ERR_NET (logged). */
int gpuring_exchange_progress(struct gpuring_exchange *exchange);

/* Complete: all blocks in the order of ranks, rank r's at data + offsets[r] .. offsets[r + 1]. */
const void *gpuring_exchange_data(const struct gpuring_exchange *exchange);
const size_t *gpuring_exchange_offsets(const struct gpuring_exchange *exchange);

/* The rank whose message is awaited, for messages. */
int gpuring_exchange_awaits(const struct gpuring_exchange *exchange);

/* Cancels what is under way. Memory that the network may still write to is kept. NULL is allowed.
 */
void gpuring_exchange_free(struct gpuring_exchange *exchange);

#endif
