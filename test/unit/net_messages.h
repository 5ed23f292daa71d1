/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Messages between ranks in one thread, for tests of the net `mpi`. Small ones are stored until
 * they are received, and large ones complete when they are received.
 */
#ifndef TEST_NET_MESSAGES_H
#define TEST_NET_MESSAGES_H

#include "mca/coll_gpuring/util/message.h"

#define NET_MESSAGES_EAGER 8192 /* larger messages complete when they are received */

/* A communicator, as one rank sees it. */
struct ompi_communicator_t {
    int rank;
    int started; /* messages */
};

extern struct net_messages {
    bool refuse, fail_next; /* the next start fails, or the next message */
    bool cancels;           /* receives can be cancelled */
    bool cancels_late;      /* withdrawn receives are cancelled by net_messages_cancel */
    unsigned posted_receives, looks;
} net_messages;

extern const struct gpuring_message_ops net_messages_ops;

/* Let MPI complete all messages, as it does when a peer is lost. */
void net_messages_complete(void);
/* Cancel the receives that were withdrawn and have received nothing. */
void net_messages_cancel(void);
/* Forget all messages. */
void net_messages_reset(void);

#endif
