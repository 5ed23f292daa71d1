/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests for messages on GPU memory. Each contains the PML's request for the bounce buffer, which
 * the progress callback polls. The PML may return one shared request for all sends that complete
 * immediately, so no callback or other state of ours is attached to the PML's request.
 */
#ifndef GPURING_P2P_REQUEST_H
#define GPURING_P2P_REQUEST_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/p2p/p2p_message.h"
#include "mca/coll_gpuring/p2p/pml.h"

struct gpuring_p2p_offer;

/* Begin a message, or create a persistent request without starting it. Returns MPI_SUCCESS, or an
 * MPI error after everything was released. */
int gpuring_p2p_request_new(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope, bool persistent,
                            ompi_request_t **request);

/* Perform a blocking message from begin to end. A receive may begin with an offer, which was
 * received with *status. */
int gpuring_p2p_request_run(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope,
                            ompi_status_public_t *status);
int gpuring_p2p_request_run_given(const struct gpuring_p2p_message *message,
                                  const struct gpuring_p2p_envelope *envelope,
                                  const struct gpuring_p2p_offer *offer,
                                  ompi_status_public_t *status);

/* Return true if a request belongs to this component. */
bool gpuring_p2p_request_ours(const ompi_request_t *request);

/*
 * Wait until no earlier send to the same process in the same communicator is still being copied.
 * Such a send has not reached the PML yet, and later sends must not overtake it. This costs one
 * load while there are none.
 */
void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer);
/* From now on the PML may start sends without calling this component, so each send finishes its
 * copy before the call returns. */
void gpuring_p2p_request_unseen_sends(void);

#endif
