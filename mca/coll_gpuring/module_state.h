/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The state of a module. Its functions are in the communicator's table from the beginning, but it
 * is wired up (connected with the other ranks) only by the first call that it can serve:
 *
 *             first eligible call          all ranks connected
 *   UNWIRED -----------------------> WIRING -----------------> READY <--> WIRING (a call needs
 *                                      |                         |   late connections, engine.h)
 *                                      |                         | an operation failed
 *                                      | cannot be served        v
 *                                      +----------> DEAD       FAILED <-- (also from WIRING: ranks
 *                                                                          disagree, or no answer)
 *   DEAD: all ranks have agreed on this state. All calls are delegated to the previous module.
 *   FAILED: some ranks may have moved data. Calls that would be served return an MPI error.
 */
#ifndef GPURING_MODULE_STATE_H
#define GPURING_MODULE_STATE_H

#include <stddef.h>

struct mca_coll_gpuring_module_t;
struct gpuring_engine;

enum gpuring_state {
    GPURING_STATE_UNWIRED,
    GPURING_STATE_WIRING,
    GPURING_STATE_READY,
    GPURING_STATE_DEAD,
    GPURING_STATE_FAILED,
};

/* Set the state to FAILED, so that calls return `status` from now on, and stop the operations of
 * this rank and of the ranks that it is connected with. If `status` is GPURING_ERR_ABORTED, calls
 * return the reason of the rank that aborted first. */
void gpuring_module_fail(struct mca_coll_gpuring_module_t *module, int status);

/* Return the engine whose connections show the state of the other ranks: the module's own, or that
 * of its owner while a track is being connected. NULL: none yet. */
const struct gpuring_engine *gpuring_module_connected(
    const struct mca_coll_gpuring_module_t *module);

/* Write "communicator MPI_COMM_WORLD (0), rank 2 of 4". Of a track: "communicator MPI_COMM_WORLD
 * (0), persistent call 1, rank 2 of 4". There must be room for 128 characters. */
void gpuring_module_text(const struct mca_coll_gpuring_module_t *module, char *text, size_t size);

#endif
