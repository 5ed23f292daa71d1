/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests of ours for messages on GPU memory: they hold the PML's, which works on the bounce
 * buffer, and look at it in the progress callback. The PML may give one request for all sends that
 * are complete at once, so nothing of ours hangs on it.
 */
#ifndef GPURING_P2P_REQUEST_H
#define GPURING_P2P_REQUEST_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/p2p/message.h"
#include "mca/coll_gpuring/p2p/pml.h"

struct gpuring_p2p_offer;

/* Begin a message, or make a persistent request for it, which is not started. MPI_SUCCESS, or an
 * MPI error, and then nothing is left of it. */
int gpuring_p2p_request_new(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope, bool persistent,
                            ompi_request_t **request);

/* Blocking: from begin to end; or from the offer that a receive has got, which ended with *status.
 */
int gpuring_p2p_request_run(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope,
                            ompi_status_public_t *status);
int gpuring_p2p_request_run_given(const struct gpuring_p2p_message *message,
                                  const struct gpuring_p2p_envelope *envelope,
                                  const struct gpuring_p2p_offer *offer,
                                  ompi_status_public_t *status);

/* Is this request one of ours? */
bool gpuring_p2p_request_ours(const ompi_request_t *request);

/*
 * Sends whose data is still copied have not reached the PML. Nothing may overtake them: every other
 * send to the same process in the same communicator waits for its turn first. Costs a load while
 * there are none.
 */
void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer);
/* From now on there may be sends that cannot wait: none is left to be copied. */
void gpuring_p2p_request_unseen_sends(void);

void gpuring_p2p_requests_close(void);

#endif
