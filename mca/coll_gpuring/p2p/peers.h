/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Consent to offers (p2p/offer.h) between processes of this job. An offer arrives in a receive that
 * expects the program's data. Therefore a process may get offers only if it checks every receive in
 * which one could arrive. A sender asks once, before its first large message. The receiver answers
 * when that message has arrived. A yes is valid until MPI_Finalize.
 * Threads: any.
 */
#ifndef GPURING_P2P_PEERS_H
#define GPURING_P2P_PEERS_H

#include "mca/coll_gpuring/compat.h"

/* Return the rank in MPI_COMM_WORLD of another process, or -1 if it belongs to another job or is
 * this process. */
int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank);

/* Return true if offers may be sent to this process. The first call asks it. */
bool gpuring_p2p_peer_consents(int peer);

/* Record that the PML got a non-blocking or persistent receive, large enough for an offer, that
 * this component cannot check. From now on every question is answered with no. */
void gpuring_p2p_peers_unseen_receive(void);

/* Enter or leave a blocking probe of the PML. No question is answered with yes in between. Does
 * nothing in single-threaded programs. */
void gpuring_p2p_blocking_probe_enter(void);
void gpuring_p2p_blocking_probe_leave(void);

/* Record the arrival of a message. If it is large, answer pending questions, or keep them for the
 * next arrival if that is not possible now. */
void gpuring_p2p_peers_received(size_t bytes);

/* Return true if offers may arrive now or later, so that receives in host memory must be checked.
 */
bool gpuring_p2p_peers_watch(void);

/* End all messages of this file. Must be called before the PML releases MPI_COMM_WORLD. */
void gpuring_p2p_peers_close(void);

#endif
