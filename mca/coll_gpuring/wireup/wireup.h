/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Wire-up of a module: see topology/format.h for what travels, module.h for the states. */
#ifndef GPURING_WIREUP_WIREUP_H
#define GPURING_WIREUP_WIREUP_H

#include <stdbool.h>
#include <stddef.h>

struct mca_coll_gpuring_module_t;
struct ompi_communicator_t;
struct gpuring_call;
struct gpuring_wireup;

/* What a module needs to be wired up, made with it: a wire-up begins without asking for memory. */
struct gpuring_wireup *gpuring_wireup_create(void);

/*
 * Begin, at the first eligible call, or at the first one that needs the second engine: state
 * WIRING. Never fails: a rank that cannot serve says so in the next gathering (oob.h), so that all
 * ranks learn it.
 */
void gpuring_wireup_start(struct mca_coll_gpuring_module_t *module,
                          const struct gpuring_call *call);

/*
 * Move on. GPURING_AGAIN while WIRING; 0 when the state is READY, DEAD or FAILED.
 * Called with the queue's lock held.
 */
int gpuring_wireup_progress(struct mca_coll_gpuring_module_t *module);

/* What is awaited, for messages: "the wire-up's first gathering (AllGather 1)", and from whom. */
void gpuring_wireup_text(const struct mca_coll_gpuring_module_t *module, char *text, size_t size);

void gpuring_wireup_free(struct gpuring_wireup *wireup); /* NULL is allowed */

/* End the progress thread and close all nets (net_select.c), in bounded time. No engine may exist
 * any more. */
void gpuring_network_close(void);

/*
 * ---- peers.c: what ranks must share before ---- Whether coll_gpuring_priority is above 0, and
 * coll_gpuring_device, decide which ranks take part in a wire-up at all. Where these differ, no
 * rank of the communicator serves. All other parameters are compared by AllGather 1.
 */

/* When the component is opened, before MPI_Init exchanges addresses. */
void gpuring_peers_publish(void);

/* Do the ranks of this communicator share the two? The same answer on all of them; a warning where
 * MPI_COMM_WORLD's do not. Ranks of which nothing is known count as alike. */
bool gpuring_peers_alike(struct ompi_communicator_t *comm);

#endif
