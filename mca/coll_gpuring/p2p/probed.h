/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages that a probe has found. An offer in the PML's queue looks like a message of
 * GPURING_P2P_OFFER_BYTES bytes; only its data shows the length of the message that it announces.
 * Therefore a probe that finds this length takes the message, and all earlier ones from the same
 * sender, out of the PML's queue and keeps them here in order. Later receives and probes search
 * here first.
 *
 * Threads: any. A receive holds the lock while it searches here and until the PML has it, so that
 * no probe takes its message in between. Single-threaded programs take no lock.
 */
#ifndef GPURING_P2P_PROBED_H
#define GPURING_P2P_PROBED_H

#include "mca/coll_gpuring/p2p/offer.h"
#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_p2p_probed {
    struct gpuring_list node;
    struct ompi_communicator_t *comm;
    ompi_status_public_t status;
    struct ompi_message_t *message; /* the PML's; NULL if the data is received here */
    ompi_request_t *receive;        /* the receive of the data, until it completes */
    struct ompi_message_t *given;   /* the program's, from improbe; NULL if it has none */
    char data[GPURING_P2P_OFFER_BYTES];
};

void gpuring_p2p_probed_lock(void);
void gpuring_p2p_probed_unlock(void);

/* Remove and return the message that a receive matches, or NULL. The caller holds the lock, and
 * frees the message. */
struct gpuring_p2p_probed *gpuring_p2p_probed_take(const struct gpuring_p2p_envelope *from);
void gpuring_p2p_probed_free(struct gpuring_p2p_probed *probed);

/* Replacements of the PML's functions of these names. */
int gpuring_p2p_probed_iprobe(const struct gpuring_p2p_envelope *from, int *matched,
                              ompi_status_public_t *status);
int gpuring_p2p_probed_improbe(const struct gpuring_p2p_envelope *from, int *matched,
                               struct ompi_message_t **message, ompi_status_public_t *status);

#endif
