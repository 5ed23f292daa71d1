/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Consent to offers (p2p/offer.h) between processes of this job. An offer is received where the
 * program expects its data. Therefore a process may get offers only if it checks every receive that
 * an offer could match. A sender asks for consent before its first message from a GPU, of any
 * length. The receiver answers when it has received a message of this sender on its GPU, or a large
 * one in host memory. A yes is valid until MPI_Finalize. The question contains the sender's node
 * and GPU, and the answer the best place of slots (shared.h) between the two processes. Threads:
 * any.
 */
#ifndef GPURING_P2P_PEERS_H
#define GPURING_P2P_PEERS_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/p2p/shared.h"

struct gpuring_p2p_envelope;
struct gpuring_p2p_message;

/* Return the rank in MPI_COMM_WORLD of a process, or -1 if it belongs to another job. `rank` is a
 * rank that messages are sent to, in the remote group of an intercommunicator. */
int gpuring_p2p_peer_of(struct ompi_communicator_t *comm, int rank);

/* Return true if a message from GPU memory should be offered, and set *peer to the rank of the
 * receiver in MPI_COMM_WORLD. The first call for a receiver asks it. */
bool gpuring_p2p_peer_takes(const struct gpuring_p2p_message *message,
                            const struct gpuring_p2p_envelope *to, int *peer);

/* gpuring_p2p_peer_place and gpuring_p2p_peer_pid return what a process that has consented has
 * reported: the best place of slots for the next messages to it, and its process id.
 * gpuring_p2p_peer_set_place records another place. */
enum gpuring_p2p_place gpuring_p2p_peer_place(int peer);
int gpuring_p2p_peer_pid(int peer);
void gpuring_p2p_peer_set_place(int peer, enum gpuring_p2p_place place);

/* Record that the PML got a non-blocking or persistent receive, large enough for an offer, that
 * this component cannot check. From now on every question is answered with no. */
void gpuring_p2p_peers_unseen_receive(void);

/* Enter or leave a blocking probe of the PML. No question is answered with yes in between. Does
 * nothing in single-threaded programs. */
void gpuring_p2p_blocking_probe_enter(void);
void gpuring_p2p_blocking_probe_leave(void);

/* Record the arrival of a message on a GPU (`gpu` is an address there) or in host memory (NULL).
 * Answer its sender's question, or keep it for the next arrival if that is not possible now. */
void gpuring_p2p_peers_received(struct ompi_communicator_t *comm,
                                const ompi_status_public_t *status, const void *gpu);

/* Return true if offers may arrive now or later, so that receives in host memory must be checked.
 */
bool gpuring_p2p_peers_watch(void);

/* End all messages of this file. Must be called before the PML releases MPI_COMM_WORLD. */
void gpuring_p2p_peers_close(void);

#endif
