/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The state of p2p/ in this process, the PML below this component, and the component's own
 * messages. These are sent between processes of MPI_COMM_WORLD, with tags that neither programs nor
 * Open MPI's components use.
 */
#ifndef GPURING_P2P_STATE_H
#define GPURING_P2P_STATE_H

#include <pthread.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_p2p_peer;

struct gpuring_p2p_state {
    bool installed;                 /* the PML's table has our functions */
    mca_pml_base_module_t previous; /* the table before that; never changed afterwards */

    /* The PML is called without this lock, because it may call components that send. The lock
     * guards requests in progress (p2p_request.h), the slots (shared.c), and: */
    pthread_mutex_t lock;
    struct gpuring_list copying;    /* turns of sends in phase P2P_COPYING_IN, in order */
    struct gpuring_p2p_peer *peers; /* by rank in MPI_COMM_WORLD; NULL before the first message */

    /* The PML starts a receive under this lock, which is therefore separate and recursive, and is
     * only taken in programs with threads (probed.h). */
    pthread_mutex_t probing;
    struct gpuring_list probed;
    int nprobed; /* length of the list; may be read without the lock; atomic */

    /* Atomic: */
    int blocking_probes;  /* of the PML, in progress */
    bool unseen_sends;    /* the PML may start sends without calling this component */
    bool unseen_receives; /* there may be receives that could match an offer, but are not checked */
    bool consented;       /* this process has consented to offers at least once */
};
extern struct gpuring_p2p_state gpuring_p2p;

/* Envelope of a message for the PML. */
struct gpuring_p2p_envelope {
    struct ompi_communicator_t *comm;
    struct ompi_message_t **matched; /* for a receive after a matching probe; otherwise NULL */
    int peer, tag;
    bool sends;
    mca_pml_base_send_mode_t mode; /* of a send */
};

/*
 * The place of a send among those that have not reached the PML yet, because their data is being
 * copied. Later sends to the same process in the same communicator must not overtake it.
 */
struct gpuring_p2p_turn {
    struct gpuring_list node;
    const struct gpuring_p2p_envelope *to;
};

/* Return true if no send in the list before `node` has this destination. The caller holds the
 * lock. */
bool gpuring_p2p_is_first(const struct gpuring_list *node, const struct ompi_communicator_t *comm,
                          int peer);

/* Wait until no earlier send to this process is still being copied. This costs one load while there
 * are none. */
void gpuring_p2p_wait_turn_slowly(const struct ompi_communicator_t *comm, int peer);
static inline void gpuring_p2p_wait_turn(const struct ompi_communicator_t *comm, int peer)
{
    if (__atomic_load_n(&gpuring_p2p.copying.next, __ATOMIC_RELAXED) != &gpuring_p2p.copying) {
        gpuring_p2p_wait_turn_slowly(comm, peer);
    }
}

/* The PML's irecv or imrecv. */
int gpuring_p2p_previous_receive(void *buffer, size_t count, struct ompi_datatype_t *type,
                                 const struct gpuring_p2p_envelope *from, ompi_request_t **request);

enum gpuring_p2p_tag {
    GPURING_P2P_TAG_ASK = -4,    /* request for consent to offers (peers.h) */
    GPURING_P2P_TAG_REPLY = -5,  /* yes or no */
    GPURING_P2P_TAG_ANSWER = -6, /* to an offer (offer.h) */
    GPURING_P2P_TAG_CHUNK = -7,  /* of its data */
};

/* Return 0, or GPURING_ERR_IO with *request set to MPI_REQUEST_NULL. */
int gpuring_p2p_world_isend(const void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request);
int gpuring_p2p_world_irecv(void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request);

/* Copy a status for the program, which may have passed MPI_STATUS_IGNORE. MPI_ERROR is not changed,
 * because only calls that return several statuses set it. */
static inline void gpuring_status_copy(ompi_status_public_t *status,
                                       const ompi_status_public_t *found)
{
    if (status != MPI_STATUS_IGNORE) {
        int code = status->MPI_ERROR;

        *status = *found;
        status->MPI_ERROR = code;
    }
}

/* Return true if the request is complete, and free it then. MPI_REQUEST_NULL is complete. */
static inline bool gpuring_p2p_ended(ompi_request_t **request)
{
    if (*request != MPI_REQUEST_NULL && gpuring_request_done(*request)) {
        ompi_request_free(request);
    }
    return *request == MPI_REQUEST_NULL;
}

#endif
