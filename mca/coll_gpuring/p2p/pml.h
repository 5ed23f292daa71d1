/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The PML below us, and messages of our own: between processes of MPI_COMM_WORLD, by their ranks
 * there, with tags that neither programs nor Open MPI's components use.
 */
#ifndef GPURING_P2P_PML_H
#define GPURING_P2P_PML_H

#include "mca/coll_gpuring/compat.h"

/* The PML's table before ours: set once, never taken back. */
extern mca_pml_base_module_t gpuring_p2p_previous;

/* How the PML gets a message. */
struct gpuring_p2p_envelope {
    struct ompi_communicator_t *comm;
    struct ompi_message_t **matched; /* of a receive after a matching probe; else NULL */
    int peer, tag;
    bool sends;
    mca_pml_base_send_mode_t mode; /* of a send */
};

/* The PML's irecv or imrecv. */
int gpuring_p2p_previous_receive(void *buffer, size_t count, struct ompi_datatype_t *type,
                                 const struct gpuring_p2p_envelope *from, ompi_request_t **request);

enum gpuring_p2p_tag {
    GPURING_P2P_TAG_ASK = -4,    /* may offers be sent? (peers.h) */
    GPURING_P2P_TAG_REPLY = -5,  /* yes or no */
    GPURING_P2P_TAG_ANSWER = -6, /* to an offer (offer.h) */
    GPURING_P2P_TAG_CHUNK = -7,  /* of its data */
};

/* 0, or GPURING_ERR_IO, and then *request is MPI_REQUEST_NULL. */
int gpuring_p2p_world_isend(const void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request);
int gpuring_p2p_world_irecv(void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request);

/* A status for the program (it may be MPI_STATUS_IGNORE): MPI_ERROR stays what it is, for only
 * calls that return several statuses set it. */
void gpuring_p2p_tell(ompi_status_public_t *status, const ompi_status_public_t *found);

/* Has it ended? Then it is freed. MPI_REQUEST_NULL has. */
bool gpuring_p2p_ended(ompi_request_t **request);

#endif
