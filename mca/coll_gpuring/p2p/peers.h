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

/* A receive that an offer fits, non-blocking or persistent, was given to the PML unseen: from now
 * on no process gets a yes. */
void gpuring_p2p_peers_unseen_receive(void);

/* A blocking probe is with the PML (1), or not any more (-1): no process gets a yes meanwhile.
 * Nothing to do in single-threaded programs. */
void gpuring_p2p_peers_blind(int by);

/* A message of so many bytes has arrived: if it is large, answer those that ask, now or when the
 * next one arrives. */
void gpuring_p2p_peers_received(size_t bytes);

/* May offers arrive, now or later? Then receives in host memory are to be looked at. */
bool gpuring_p2p_peers_watch(void);

/* Before the PML forgets MPI_COMM_WORLD: nothing of ours is under way there. */
void gpuring_p2p_peers_close(void);

#endif
