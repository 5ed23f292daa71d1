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

/* Where a process is, and how it uses its GPU. The layout is fixed, because it is exchanged. */
struct gpuring_p2p_home {
    uint64_t node;
    uint8_t uuid[16]; /* of the GPU; zero if none is attached */
    uint32_t mps;     /* 1: copies of several processes run simultaneously on the GPU */
    int32_t pid;
    uint32_t version; /* GPURING_WIRE_VERSION */
    uint32_t unused;
};

/* Describe this process. */
void gpuring_p2p_home(struct gpuring_p2p_home *home);

/* Return the best place of slots on which this process can receive messages of a sender, into this
 * GPU memory, or NULL for host memory. Slots on a GPU are not used if both processes share it
 * without MPS, because each of their copies would wait for a time slice. */
enum gpuring_p2p_place gpuring_p2p_best_place(const struct gpuring_p2p_home *sender,
                                              const char *gpu);

/* Return false if a process of the node has ended (logged). Call this while an answer of the
 * process or its progress in a flow is awaited. Only one of 64 calls reads the clock, and it checks
 * the process if the last check was at least 10 ms ago. */
struct gpuring_p2p_watch {
    uint64_t looked; /* ns */
    uint32_t calls;
};
bool gpuring_p2p_lives(int pid, struct gpuring_p2p_watch *watch);

/* Return true if coll_gpuring_p2p_level and the GPU of this process allow copies between this
 * memory and slots on a GPU. */
bool gpuring_p2p_slots_reach(const char *gpu);

/* Return the rank in MPI_COMM_WORLD of a process, or -1 if it belongs to another job. */
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
