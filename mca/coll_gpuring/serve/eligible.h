/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Eligibility: turns the arguments of a collective into a call of ours, or says why not.
 *
 * The answer depends on what MPI requires to be equal on all ranks (operation, type signature), and
 * on whether any of the buffers is on a GPU, which is assumed to be (coll_gpuring_agree).
 */
#ifndef GPURING_SERVE_ELIGIBLE_H
#define GPURING_SERVE_ELIGIBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/serve/decide.h"

/* Build the table of Open MPI's handles; before any other call, from one thread. */
void gpuring_eligible_init(void);

/*
 * Could any call be served now? false: the reason of all of them is NO_DRIVER. The first question
 * of an entry: the only one that an idle component costs a call.
 */
bool gpuring_eligible_any(void);

/* NONE and a filled call, or the reason; *call is then undefined. */
enum gpuring_reason gpuring_eligible_reduction(const void *sbuf, void *rbuf, gpuring_count_t count,
                                               struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                               struct gpuring_call *call);

#endif
