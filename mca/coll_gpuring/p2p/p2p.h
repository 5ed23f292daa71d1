/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Point-to-point calls on GPU memory.
 *
 * Open MPI sends and receives through one table of functions, mca_pml, which belongs to the PML
 * that it has selected. This component replaces the functions that have a buffer, and probes. Most
 * messages on a GPU are staged: the PML gets pinned host memory with the packed bytes of the
 * message, and matches, probes, truncates and cancels as usual. Messages in host memory are passed
 * to the PML unchanged.
 *
 *     user's buffer (GPU)            bounce buffer (pinned host memory)
 *     +----+---+----+---+    copy    +----+----+
 *     | a  |gap| b  |gap|  ------->  | a  | b  |   send: before the PML gets it
 *     +----+---+----+---+  <-------  +----+----+   receive: the number of bytes that have arrived
 *
 * Large messages use a rendezvous (offer.h), with data sent directly from GPU to GPU or in chunks.
 * Messages with tags below 0 belong to collectives of other components, whose buffers were staged
 * before.
 *
 * Failures. A message whose data or memory fails at its sender is not sent, and the call returns an
 * MPI error. At its receiver the message is consumed, and the receive returns an MPI error.
 *
 * Threads: the same rules apply as for calls of MPI.
 */
#ifndef GPURING_P2P_P2P_H
#define GPURING_P2P_P2P_H

#include <stdbool.h>

/*
 * Replace the functions of the PML at the first call. Call it only after Open MPI has enabled the
 * PML: pml/v writes its own functions into the table at that moment and would replace ours.
 */
void gpuring_p2p_open(void);

/* Return true if point-to-point calls accept GPU buffers now. */
bool gpuring_p2p_serves(void);

/* Stop using MPI_COMM_WORLD, which Open MPI is about to release. */
void gpuring_p2p_leave(void);

/* Restore the functions of the PML, and release requests that the program has leaked. */
void gpuring_p2p_close(void);

#endif
