/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests of this component that are in progress. Tasks (progress/task.h) advance them. The
 * phases:
 *
 *     P2P_IDLE          a persistent request that is not started
 *     P2P_COPYING_IN    a send whose data is being copied to the bounce buffer, or which waits for
 *                   earlier sends
 *     P2P_MOVING        the PML's request is not complete yet
 *     P2P_COPYING_OUT   a receive whose data is being copied to the user's buffer
 *     P2P_OFFERED       a send whose receiver does not have all data yet
 *     P2P_FETCHING      a receive that got an offer and does not have all data yet
 *
 * Only large sends enter P2P_COPYING_IN. Smaller ones wait for the copy, because polling for its
 * end takes about as long.
 */
#ifndef GPURING_P2P_PROGRESS_H
#define GPURING_P2P_PROGRESS_H

#include <pthread.h>

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/p2p_request.h"
#include "mca/coll_gpuring/progress/task.h"
#include "ompi/mca/pml/base/pml_base_request.h"

struct p2p_request {
    mca_pml_base_request_t super; /* what Open MPI's fault tolerance reads of any such request */
    struct gpuring_p2p_message message;
    struct gpuring_p2p_envelope envelope;
    ompi_request_t *inner; /* the PML's */
    ompi_status_public_t status;
    struct gpuring_p2p_sending *sending; /* P2P_OFFERED */
    struct gpuring_p2p_fetch *fetch;     /* P2P_FETCHING */
    enum { P2P_IDLE, P2P_COPYING_IN, P2P_MOVING, P2P_COPYING_OUT, P2P_OFFERED, P2P_FETCHING } phase;
    bool freed;     /* the program has freed it before it was complete */
    bool finishing; /* `finisher` is completing it, without the lock */
    pthread_t finisher;
    struct gpuring_task task; /* while the request is not P2P_IDLE */
    struct gpuring_list turn; /* among the sends in phase P2P_COPYING_IN */
};
typedef struct p2p_request p2p_request_t;
OBJ_CLASS_DECLARATION(p2p_request_t);

static inline ompi_request_t *gpuring_p2p_base(p2p_request_t *self)
{
    return &self->super.req_ompi;
}

/* Guards all requests except those in phase P2P_IDLE. */
extern pthread_mutex_t gpuring_p2p_lock;

/* Pass the message to the PML, from the bounce buffer or from a user's buffer in host memory.
 * Returns an MPI error code. */
int gpuring_p2p_issue(p2p_request_t *self);

/* Start the request's task. A send in phase P2P_COPYING_IN waits for earlier sends. */
void gpuring_p2p_enlist(p2p_request_t *self);

/* Called by `begin` in p2p_request.c and by p2p_progress.c. The result is true if the receive ends
 * now. */
bool gpuring_p2p_accept_offer(p2p_request_t *self, const struct gpuring_p2p_offer *offer);
bool gpuring_p2p_take_data(p2p_request_t *self);
/* Handle the end of the PML's request. Returns true if this ends our request as well. */
bool gpuring_p2p_end_inner(p2p_request_t *self);

void gpuring_p2p_release(p2p_request_t *self);

#endif
