/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which processes of this job may be sent offers (p2p/offer.h). An offer stands in a receive where
 * the program expects data, so only a process that looks at each receive in which one could arrive
 * may get them. A sender asks once, before its first large message; the receiver answers when that
 * message has arrived, and keeps to a yes until MPI_Finalize.
 * Threads: any.
 */
#ifndef GPURING_P2P_PEERS_H
#define GPURING_P2P_PEERS_H

#include "mca/coll_gpuring/compat.h"

/* The rank in MPI_COMM_WORLD of another process, -1: it is of another job, or it is this one. */
int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank);

/* May this process be sent offers? Asks it, if that has not been done. */
bool gpuring_p2p_peer_consents(int peer);

/* A non-blocking receive as long as an offer was given to the PML unseen: from now on no process
 * gets a yes. */
void gpuring_p2p_peers_unseen_receive(void);

/* A message of so many bytes has arrived: if it is large, answer those that ask. */
void gpuring_p2p_peers_received(size_t bytes);

/* Are receives in host memory to be looked at? */
bool gpuring_p2p_peers_watch(void);

/* Has this process said yes to any? Only then an offer may arrive. */
extern bool gpuring_p2p_peers_replied;

/* Before the PML forgets MPI_COMM_WORLD: nothing of ours is under way there. */
void gpuring_p2p_peers_close(void);

#endif
