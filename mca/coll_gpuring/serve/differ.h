/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Do the ranks of a node make the same call? What MPI requires to be equal on all ranks is packed
 * into one word, which each rank publishes on its status page when it starts an operation
 * (transport/made.c):
 *
 *     bits 0-36   bytes, as gpuring_call_bytes; all ones: unknown, or 128 GiB and more
 *     bits 37-48  root, modulo 4096       bits 49-54  type
 *     bits 55-58  operation               bits 59-63  MPI function, plus 1
 *
 * The engine compares words of calls on GPUs while it waits for the kernel, and the watchdog
 * compares those of all ranks of the node. Ranks of other nodes are not compared.
 */
#ifndef GPURING_SERVE_DIFFER_H
#define GPURING_SERVE_DIFFER_H

#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/call.h"

struct mca_coll_gpuring_module_t;

/* The word of a call of this MPI function (enum gpuring_staged); never 0. */
uint64_t gpuring_differ_word(int function, const struct gpuring_call *call);

/* "MPI_Bcast of 400 bytes, root 0"; "another call" for word 0. */
void gpuring_differ_text(uint64_t word, char *text, size_t size);

/* Report that another rank makes another call, by the words of both. Returns GPURING_ERR_CALLS, or
 * GPURING_ERR_COUNTS if only the number of bytes differs. */
int gpuring_differ_report(const struct mca_coll_gpuring_module_t *module, uint64_t own, int rank,
                          uint64_t other);

/* Compare what this rank does, or waits to do, with the operations of the same number on other
 * ranks. Returns 0, or what gpuring_differ_report returns. Called with the queue's lock held, or
 * while the calling thread runs an operation. */
int gpuring_differ_look(struct mca_coll_gpuring_module_t *module);

#endif
