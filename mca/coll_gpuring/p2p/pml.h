/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The PML below this component, and the component's own messages. These are sent between processes
 * of MPI_COMM_WORLD, with tags that neither programs nor Open MPI's components use.
 */
#ifndef GPURING_P2P_PML_H
#define GPURING_P2P_PML_H

#include "mca/coll_gpuring/compat.h"

/* The PML's table before this component changed it. Set once and never changed. */
extern mca_pml_base_module_t gpuring_p2p_previous;

/* Envelope of a message for the PML. */
struct gpuring_p2p_envelope {
    struct ompi_communicator_t *comm;
    struct ompi_message_t **matched; /* for a receive after a matching probe; otherwise NULL */
    int peer, tag;
    bool sends;
    mca_pml_base_send_mode_t mode; /* of a send */
};

/* The PML's irecv or imrecv. */
int gpuring_p2p_previous_receive(void *buffer, size_t count, struct ompi_datatype_t *type,
                                 const struct gpuring_p2p_envelope *from, ompi_request_t **request);

enum gpuring_p2p_tag {
    GPURING_P2P_TAG_ASK = -4,    /* request for consent to offers (p2p_peers.h) */
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
void gpuring_status_copy(ompi_status_public_t *status, const ompi_status_public_t *found);

/* Return true if the request is complete, and free it then. MPI_REQUEST_NULL is complete. */
bool gpuring_p2p_ended(ompi_request_t **request);

#endif
