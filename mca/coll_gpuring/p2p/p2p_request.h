/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests for messages on GPU memory, and for receives in host memory that may get an offer. Each
 * contains the PML's request for the bounce buffer. The PML may return one shared request for all
 * sends that complete immediately, so no callback or other state of ours is attached to it.
 *
 * A task (progress/task.h) advances each request through its phases (p2p_phases.c):
 *
 *     phase             what is in progress                                next
 *     P2P_IDLE          nothing, or a persistent request not started
 *     P2P_COPYING_IN    a send's data is copied to the bounce buffer,      P2P_MOVING
 *                       or waits for earlier sends
 *     P2P_OFFERED       a send's receiver does not have all data yet       P2P_IDLE
 *     P2P_MOVING        the PML's request                                  P2P_FETCHING
 *     P2P_FETCHING      a receive that got an offer gets the data          P2P_COPYING_OUT
 *     P2P_COPYING_OUT   a receive's data is copied to the user's buffer    P2P_IDLE
 *
 * A send ends with P2P_MOVING, and a receive skips phases in which it has nothing to do. Only large
 * sends enter P2P_COPYING_IN. Smaller ones wait for the copy, because polling for its end takes
 * about as long.
 */
#ifndef GPURING_P2P_REQUEST_H
#define GPURING_P2P_REQUEST_H

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/p2p_message.h"
#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/progress/task.h"
#include "ompi/mca/pml/base/pml_base_request.h"

enum p2p_phase {
    P2P_IDLE,
    P2P_COPYING_IN,
    P2P_OFFERED,
    P2P_MOVING,
    P2P_FETCHING,
    P2P_COPYING_OUT,
    P2P_PHASES
};

struct p2p_request {
    mca_pml_base_request_t super; /* what Open MPI's fault tolerance reads of any such request */
    struct gpuring_p2p_message message;
    struct gpuring_p2p_envelope envelope;
    ompi_request_t *inner; /* the PML's in P2P_MOVING, otherwise MPI_REQUEST_NULL */
    ompi_status_public_t status;
    struct gpuring_p2p_sending *sending; /* P2P_OFFERED */
    struct gpuring_p2p_fetch *fetch;     /* P2P_FETCHING */
    enum p2p_phase phase;
    bool freed;     /* the program has freed it before it was complete */
    bool finishing; /* `finisher` is completing it, without the lock */
    pthread_t finisher;
    struct gpuring_task task; /* while the request is not P2P_IDLE */
    struct gpuring_p2p_turn turn;
};
typedef struct p2p_request p2p_request_t;
OBJ_CLASS_DECLARATION(p2p_request_t);

static inline ompi_request_t *gpuring_p2p_base(p2p_request_t *self)
{
    return &self->super.req_ompi;
}

/* ---- p2p_request.c ---- */

/* Begin a message, or create a persistent request without starting it. The request owns the message
 * then. Returns MPI_SUCCESS, or an MPI error after everything was released. */
int gpuring_p2p_request_new(struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope, bool persistent,
                            ompi_request_t **request);

/* Perform a blocking message from begin to end. A receive may begin with an offer, which was
 * received with *status. */
int gpuring_p2p_request_run(struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *envelope,
                            ompi_status_public_t *status);
int gpuring_p2p_request_run_given(struct gpuring_p2p_message *message,
                                  const struct gpuring_p2p_envelope *envelope,
                                  const struct gpuring_p2p_offer *offer,
                                  ompi_status_public_t *status);

/* Return true if a request belongs to this component. */
bool gpuring_p2p_request_ours(const ompi_request_t *request);

/* ---- p2p_phases.c ---- */

/* Begin a message: enter its first phase. Returns an MPI error code. After an error nothing is in
 * progress. Otherwise the request is complete, or its task advances it. */
int gpuring_p2p_begin(p2p_request_t *self);

/* Begin a receive in P2P_FETCHING, whose offer has been received. */
void gpuring_p2p_begin_given(p2p_request_t *self, const struct gpuring_p2p_offer *offer);

/* Complete a request before the program gets it. */
void gpuring_p2p_end(p2p_request_t *self);

void gpuring_p2p_release(p2p_request_t *self);

#endif
