/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests of ours that are under way. The progress callback moves them on, in one thread at a
 * time:
 *
 *     IDLE          of a persistent request that is not started
 *     COPYING_IN    of a send: until its data is in the bounce buffer, and its turn has come
 *     MOVING        until the PML's request is complete
 *     COPYING_OUT   of a receive: until the data is with the user
 *     OFFERED       of a send: until the receiver has the data
 *     FETCHING      of a receive that got an offer: until the data have come
 *
 * Large sends alone are seen COPYING_IN; others wait for the copy, which takes about as long as to
 * ask for its end.
 */
#ifndef GPURING_P2P_PROGRESS_H
#define GPURING_P2P_PROGRESS_H

#include <pthread.h>

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/request.h"
#include "mca/coll_gpuring/util/list.h"
#include "ompi/mca/pml/base/pml_base_request.h"

struct p2p_request {
    mca_pml_base_request_t super; /* what Open MPI's fault tolerance reads of any such request */
    struct gpuring_p2p_message message;
    struct gpuring_p2p_envelope envelope;
    ompi_request_t *inner; /* the PML's */
    ompi_status_public_t status;
    struct gpuring_p2p_sending *sending; /* OFFERED */
    struct gpuring_p2p_fetch *fetch;     /* FETCHING */
    enum { IDLE, COPYING_IN, MOVING, COPYING_OUT, OFFERED, FETCHING } phase;
    bool freed;     /* by the program, before it was complete */
    bool finishing; /* by this thread, without the lock: */
    pthread_t finisher;
    struct gpuring_list node; /* of `copying` or `moving` */
};
typedef struct p2p_request p2p_request_t;
OBJ_CLASS_DECLARATION(p2p_request_t);

static inline ompi_request_t *gpuring_p2p_base(p2p_request_t *self)
{
    return &self->super.req_ompi;
}

/* Guards requests but those of phase IDLE. */
extern pthread_mutex_t gpuring_p2p_lock;

/* The PML gets the message, or the user's buffer if that is in host memory. An MPI error code. */
int gpuring_p2p_issue(p2p_request_t *self);

/* From here on the progress callback moves it on. A send that is COPYING_IN waits for its turn. */
void gpuring_p2p_enlist(p2p_request_t *self);

/* These are called by `begin` of request.c, and here. True: the receive ends now. */
bool gpuring_p2p_accept_offer(p2p_request_t *self, const struct gpuring_p2p_offer *offer);
bool gpuring_p2p_take_data(p2p_request_t *self);
/* The PML's request ends. True: so does ours. */
bool gpuring_p2p_end_inner(p2p_request_t *self);

void gpuring_p2p_release(p2p_request_t *self);

#endif
