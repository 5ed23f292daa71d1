/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages that a probe has found. An offer in the PML's queue looks like a message of
 * GPURING_P2P_OFFER_BYTES bytes; what it stands for is seen only in its data. So a probe that finds
 * that length takes the message out, and those of the same sender before it, in their order. Later
 * receives and probes look here first.
 *
 * Threads: any. A receive holds the lock from its look to when the PML has it, so that no probe
 * takes its message out in between. Single-threaded programs have no lock.
 */
#ifndef GPURING_P2P_PROBED_H
#define GPURING_P2P_PROBED_H

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/pml.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_p2p_probed {
    struct gpuring_list node;
    struct ompi_communicator_t *comm;
    ompi_status_public_t status;
    struct ompi_message_t *message; /* the PML's; NULL: its data are here */
    ompi_request_t *receive;        /* of these data, until they are */
    struct ompi_message_t *given;   /* to the program, by improbe; NULL: it has not been */
    char data[GPURING_P2P_OFFER_BYTES];
};

/* How many there are; nearly always 0. Read without a lock. */
extern int gpuring_p2p_probed_count;

void gpuring_p2p_probed_lock(void);
void gpuring_p2p_probed_unlock(void);

/* With the lock: take out the one that a receive matches, NULL: none. It is of the caller to free.
 */
struct gpuring_p2p_probed *gpuring_p2p_probed_take(const struct gpuring_p2p_envelope *from);
void gpuring_p2p_probed_free(struct gpuring_p2p_probed *probed);

/* As the PML's functions of these names. */
int gpuring_p2p_probed_iprobe(const struct gpuring_p2p_envelope *from, int *matched,
                              ompi_status_public_t *status);
int gpuring_p2p_probed_improbe(const struct gpuring_p2p_envelope *from, int *matched,
                               struct ompi_message_t **message, ompi_status_public_t *status);

#endif
