/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Detect ranks of a node that make different calls. Each rank packs the properties that MPI
 * requires to be equal on all ranks into one word, and publishes the word on its status page when
 * it starts an operation (transport/activity.c):
 *
 *     bits 0-36   bytes, as gpuring_call_bytes; all ones: unknown, or 128 GiB and more
 *     bits 37-48  root, modulo 4096       bits 49-54  type
 *     bits 55-58  operation               bits 59-63  MPI function, plus 1
 *
 * For calls on GPUs, the engine compares words while it waits for the kernel. The watchdog compares
 * the words of all ranks of the node, and after a second those of other nodes (note.h).
 */
#ifndef GPURING_SERVE_DIFFER_H
#define GPURING_SERVE_DIFFER_H

#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/call.h"

struct mca_coll_gpuring_module_t;
struct gpuring_transport;

/* Return the word of a call of this MPI function (enum gpuring_staged). It is never 0. */
#define GPURING_DIFFER_BYTES ((UINT64_C(1) << 37) - 1)
static inline uint64_t gpuring_differ_word(int function, const struct gpuring_call *call)
{
    uint64_t bytes = gpuring_call_bytes(call);

    bytes = bytes < GPURING_DIFFER_BYTES ? bytes : GPURING_DIFFER_BYTES;
    return bytes | (uint64_t) ((unsigned) call->root & 0xfff) << 37 | (uint64_t) call->type << 49 |
           (uint64_t) call->op << 55 | (uint64_t) (unsigned) (function + 1) << 59;
}

/* Write the text of a word: "MPI_Bcast of 400 bytes, root 0", or "another call" for word 0. */
void gpuring_differ_text(uint64_t word, char *text, size_t size);

/* Describe the last known state of a peer, with its current or last call. Returns its operation, or
 * UINT64_MAX if it is unknown, because the peer is on another node. */
uint64_t gpuring_differ_peer(const struct gpuring_transport *transport, int peer, char *text,
                             size_t size);

/* How the calls of two ranks differ. */
struct gpuring_difference {
    int status;                /* GPURING_ERR_COUNTS if only the number of bytes differs, or
                                  GPURING_ERR_CALLS */
    const char *code;          /* "[calls-differ]" */
    char own[128], other[128]; /* texts of the calls */
};
void gpuring_differ_compare(uint64_t own, uint64_t other, struct gpuring_difference *difference);

/* Report that this rank and another rank make different calls, given the words of both. Returns
 * the status of their difference. Only for threads that may call MPI. */
int gpuring_differ_report(const struct mca_coll_gpuring_module_t *module, uint64_t own, int rank,
                          uint64_t other);

/* Compare the operation that this rank runs, or waits to run, with the operations of the same
 * number on other ranks. The module has an engine with a transport. Returns 0, or the status of
 * gpuring_differ_report. Called with the queue's lock held, or while the calling thread runs an
 * operation. */
int gpuring_differ_look(struct mca_coll_gpuring_module_t *module);

/* Do the same with ranks of other nodes, which exchange notes (note.h). Call this once per second,
 * when the operation has waited for long. */
int gpuring_differ_look_far(const struct mca_coll_gpuring_module_t *module);

#endif
