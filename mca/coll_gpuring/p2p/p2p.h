/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Point-to-point calls on GPU memory.
 *
 * Open MPI sends and receives through one table of functions, mca_pml, of the PML that it selected.
 * Functions of ours take the place of those that have a buffer, and of probes. A message whose
 * buffer is on a GPU is staged, as a rule: the PML gets pinned host memory with the message's bytes
 * in it, packed, and matches, probes, truncates and cancels as ever. All others are the PML's,
 * untouched.
 *
 *     user's buffer (GPU)            bounce buffer (pinned host memory)
 *     +----+---+----+---+    copy    +----+----+
 *     | a  |gap| b  |gap|  ------->  | a  | b  |   of a send, before the PML gets it
 *     +----+---+----+---+  <-------  +----+----+   of a receive: as many bytes as have arrived
 *
 * Large ones go by rendezvous (offer.h): directly from GPU to GPU, or in chunks. Messages with tags
 * below 0 are other components', of collectives; these have staged buffers already.
 *
 * Failures. A message whose data or memory fails at its sender is not sent, and the call returns an
 * MPI error. At its receiver the message is consumed, and the receive returns an MPI error.
 *
 * Threads: as MPI's calls.
 */
#ifndef GPURING_P2P_P2P_H
#define GPURING_P2P_P2P_H

#include <stdbool.h>

/* Once, when the PML has been selected. */
void gpuring_p2p_open(void);

/* Do point-to-point calls take GPU buffers now? */
bool gpuring_p2p_serves(void);

/* MPI_COMM_WORLD ends. */
void gpuring_p2p_leave(void);

/* No function of ours is in the table any more; requests that the program has lost end here. */
void gpuring_p2p_close(void);

#endif
