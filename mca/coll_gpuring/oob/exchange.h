/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How the ranks of a communicator talk with each other outside of operations: a broadcast, and
 * gatherings (allgathers) of blocks of any sizes. Nothing here blocks: wire-up and the simple path
 * are made of them.
 *
 * The non-blocking collectives of other modules cannot serve here: they pair calls of the ranks by
 * the order in which they were started, and a step that is started from the progress callback comes
 * at a different place in that order on each rank. So these use point-to-point messages with a tag
 * of their own. A gathering is Bruck's algorithm: log2 n rounds, every block received once:
 *
 *   round with distance d = 1, 2, 4 ..: send the blocks of ranks me .. me+d-1 to rank me-d,
 *                                       receive those of me+d .. me+2d-1 from rank me+d
 *
 * Each message is a header, and the blocks if there are any. A rank that cannot go on (it has no
 * memory, say) still sends headers, with its failure in place of blocks, and so does every rank
 * that got one of these. After log2 n rounds each rank has heard, over some way, of each other: a
 * failure that was there when a gathering began is known to all ranks when it ends. One that comes
 * up in between is known to some; the header says from which gathering on all will know it. So all
 * ranks give up together, after the same gathering, and no rank waits for one that gave up.
 *
 * The broadcast (binomial tree from rank 0) carries no failures. Exchanges of one communicator
 * follow each other in the same order on all ranks, one at a time; the queue of the module sees to
 * that.
 */
#ifndef GPURING_OOB_EXCHANGE_H
#define GPURING_OOB_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/util/gathered.h"

struct gpuring_exchange;

/* Of one communicator and tag (a gpuring_message_tag), for its life; `use` comes before all others.
 * NULL: no memory. */
struct gpuring_exchange *gpuring_exchange_create(void);
void gpuring_exchange_use(struct gpuring_exchange *exchange, struct ompi_communicator_t *comm,
                          int tag);
int gpuring_exchange_ranks(const struct gpuring_exchange *exchange);

/* Rank 0's two words to all: `words` is read on rank 0, written on the others. */
void gpuring_exchange_broadcast(struct gpuring_exchange *exchange, uint64_t words[2]);

/*
 * Begin a gathering: this rank gives `bytes` bytes at `mine` (copied). Never fails: without memory
 * this rank takes part as one that failed.
 */
void gpuring_exchange_gather(struct gpuring_exchange *exchange, const void *mine, size_t bytes);

/*
 * Begin an agreement, a gathering without blocks: it needs no memory. When it is complete, all
 * ranks have the bits that any of them gave, unless there was a failure.
 */
void gpuring_exchange_agree(struct gpuring_exchange *exchange, uint64_t bits);
uint64_t gpuring_exchange_agreed(const struct gpuring_exchange *exchange);

/*
 * This rank cannot go on, for a reason of its own: a negative gpuring_status. The first one counts.
 * The next gathering that begins tells it to all.
 */
void gpuring_exchange_fail(struct gpuring_exchange *exchange, int status);

/* Is an exchange under way? */
bool gpuring_exchange_busy(const struct gpuring_exchange *exchange);

/* Move on. 0: complete; GPURING_AGAIN; GPURING_ERR_NET or _PEER (logged): the ranks lost touch. */
int gpuring_exchange_progress(struct gpuring_exchange *exchange);

/* After completion of a gathering: does this rank know of a failure (all ranks may, or not yet)? */
bool gpuring_exchange_troubled(const struct gpuring_exchange *exchange);

/*
 * The failure that all ranks know by now, the same on all: its status and rank (may be NULL); or
 * 0. forget: the ranks have drawn their conclusion, all of them; later exchanges start afresh.
 */
int gpuring_exchange_failure(const struct gpuring_exchange *exchange, int *rank);
void gpuring_exchange_forget(struct gpuring_exchange *exchange);

/*
 * A number that this rank's failures carry from now on (0 at first), and that of the failure which
 * all ranks know: what the failing rank had done before.
 */
void gpuring_exchange_mark(struct gpuring_exchange *exchange, uint32_t mark);
uint32_t gpuring_exchange_marked(const struct gpuring_exchange *exchange);

/* What the last gathering brought, taken over by the caller; empty after a failure. */
struct gpuring_gathered gpuring_exchange_take(struct gpuring_exchange *exchange);

/* The rank whose message is awaited, for messages; this rank itself: none. */
int gpuring_exchange_awaits(const struct gpuring_exchange *exchange);

/* A number that changes with every message. */
uint64_t gpuring_exchange_steps(const struct gpuring_exchange *exchange);

/* Cancels what is under way. Memory that the network may still write to is kept. NULL is allowed.
 */
void gpuring_exchange_free(struct gpuring_exchange *exchange);

#endif
