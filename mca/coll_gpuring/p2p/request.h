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

/* How the PML gets the message. */
struct gpuring_p2p_envelope {
    struct ompi_communicator_t *comm;
    struct ompi_message_t **matched; /* of a receive after a matching probe; else NULL */
    int peer, tag;
    bool sends;
    mca_pml_base_send_mode_t mode; /* of a send */
};

/* These take the message, whose bounce buffer is reserved, over, or release it and return an MPI
 * error. A persistent request is not started. */
int gpuring_p2p_request_start(struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope,
                              ompi_request_t **request);
int gpuring_p2p_request_init(struct gpuring_p2p_message *message,
                             const struct gpuring_p2p_envelope *envelope, ompi_request_t **request);

/*
 * A receive of a message that has come already, as GPURING_P2P_OFFER_BYTES bytes at `data`, with
 * its status: an offer or what is as long. Takes the message over, likewise.
 */
int gpuring_p2p_request_given(struct gpuring_p2p_message *message,
                              const struct gpuring_p2p_envelope *envelope, const void *data,
                              const ompi_status_public_t *status, ompi_request_t **request);

/* Wait for a request of ours, and free it: its MPI error code. */
int gpuring_p2p_request_wait(ompi_request_t *request, ompi_status_public_t *status);

/* Is this request one of ours? */
bool gpuring_p2p_request_ours(const ompi_request_t *request);

/*
 * Sends whose data is still copied have not reached the PML. Nothing may overtake them: every other
 * send to the same process in the same communicator waits for its turn first.
 */
extern int gpuring_p2p_requests_copying; /* how many sends; read without the lock */
void gpuring_p2p_request_wait_turn(const struct ompi_communicator_t *comm, int peer);
/* From now on there may be sends that cannot wait: none is left to be copied. */
void gpuring_p2p_request_unseen_sends(void);

void gpuring_p2p_requests_close(void);

#endif
