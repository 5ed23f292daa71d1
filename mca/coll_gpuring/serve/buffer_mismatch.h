/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls to which some ranks give GPU buffers and others host buffers, without
 * coll_gpuring_agree=always: the former wait in kernels, the latter in another component, and no
 * message would ever come. So every rank counts its calls on a communicator and shows on its status
 * page where the buffers of the last ones were, and a rank that waits looks there. It then fails
 * with GPURING_ERR_MIXED, and takes part in the other component's call all the same, which ends the
 * wait of the others.
 *
 * Seen between ranks of one node. Elsewhere the wait is reported as any other (watchdog.h).
 */
#ifndef GPURING_SERVE_BUFFER_MISMATCH_H
#define GPURING_SERVE_BUFFER_MISMATCH_H

#include "mca/coll_gpuring/serve/decide.h"

struct gpuring_call;
struct mca_coll_gpuring_module_t;

/* Show the module's last call. reason: NONE if a GPU is to serve it; call->number is set then. */
void gpuring_buffer_mismatch_note(struct mca_coll_gpuring_module_t *module,
                                  enum gpuring_reason reason, struct gpuring_call *call);

/* The call that runs, or that is to run next, waits: 0, or GPURING_ERR_MIXED with a help text. */
int gpuring_buffer_mismatch_look(const struct mca_coll_gpuring_module_t *module);

#endif
