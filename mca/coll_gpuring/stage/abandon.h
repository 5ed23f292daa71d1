/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls with a request that a rank takes no part in, as it has no addresses for them. At the others
 * they end for the user but not in the previous module, which waits for that rank. Its request, and
 * the places that it works on, are kept until it is complete or the process ends: messages of other
 * ranks may still go there.
 *
 * Callers see to it that one thread at a time looks for absence or clears.
 */
#ifndef GPURING_STAGE_ABANDON_H
#define GPURING_STAGE_ABANDON_H

#include "mca/coll_gpuring/stage/stage.h"

/*
 * A call with a request that this rank takes no part in (stage->absent), as it has no addresses for
 * it: what keeps the previous module's calls in step with the other ranks', in place of the call.
 * Of the module that was to get the call; persistent or not. MPI error code.
 */
int gpuring_stage_skip(struct gpuring_stage *stage, const mca_coll_base_module_t *previous,
                       ompi_request_t **inner);
int gpuring_stage_skip_init(struct gpuring_stage *stage, const mca_coll_base_module_t *previous,
                            ompi_request_t **inner);

/*
 * The previous module is not done with a call. Does it wait for a rank that takes no part? Then the
 * places and the request are taken over, *inner is NULL, and why it is so is returned; else 0. Not
 * a call that uses memory of the user, too: it goes on waiting, and that is logged.
 */
int gpuring_stage_look_for_absence(struct gpuring_stage *stage, ompi_request_t **inner);

bool gpuring_stage_abandoned_any(void);
/* Give back what is complete. */
void gpuring_stage_abandoned_clear(void);
/* At the end of the process: give back the rest. The requests are gone, and the communicators,
 * which they have kept alive, are of no use any more: so are our modules. */
void gpuring_stage_abandoned_close(void);

#endif
