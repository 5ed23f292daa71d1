/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The state of a module. Its functions are in the communicator's table from creation, but it is
 * wired up (connected with the other ranks) only when the first call comes that it can serve:
 *
 *             first eligible call          all ranks connected
 *   UNWIRED -----------------------> WIRING -----------------> READY <--> WIRING (a call needs the
 *                                      |                         |         second engine, engine.h)
 *                                      |                         | an operation failed
 *                                      | cannot be served        v
 *                                      +----------> DEAD       FAILED <-- (also from WIRING: ranks
 *                                                                          disagree, or no answer)
 *   DEAD: all ranks agreed on that; every call is delegated to the previous module.
 *   FAILED: data may have moved on some ranks; calls that we would serve return an MPI error.
 */
#ifndef GPURING_MODULE_STATE_H
#define GPURING_MODULE_STATE_H

#include <stddef.h>

struct mca_coll_gpuring_module_t;

enum gpuring_state {
    GPURING_STATE_UNWIRED,
    GPURING_STATE_WIRING,
    GPURING_STATE_READY,
    GPURING_STATE_DEAD,
    GPURING_STATE_FAILED,
};

/* State FAILED: calls return `status`, and other ranks of this node learn it. */
void gpuring_module_fail(struct mca_coll_gpuring_module_t *module, int status);

/* "communicator MPI_COMM_WORLD (0), rank 2 of 4" */
void gpuring_module_text(const struct mca_coll_gpuring_module_t *module, char *text, size_t size);

#endif
