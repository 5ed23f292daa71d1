/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * From Open MPI's functions to calls that are served or staged. Internal to calls/.
 *
 * A non-blocking call has its request before it is known what becomes of it: the ranks may still
 * connect, agree, or vote. So its request is made for both outcomes: the engine completes it, or
 * the previous module's request does, which is begun when that is known. Meanwhile other
 * non-blocking calls that are delegated wait behind it, for the previous module must get those of a
 * communicator in one order on all ranks.
 *
 * A persistent call is decided when it is made, which waits for other ranks.
 */
#ifndef GPURING_CALLS_CALLS_H
#define GPURING_CALLS_CALLS_H

#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/call.h"

/* What is known to all ranks of the sizes of a call. */
enum gpuring_call_sizes {
    GPURING_SIZES_VECTOR,  /* of the vector */
    GPURING_SIZES_EVEN,    /* of all blocks, which are alike */
    GPURING_SIZES_COUNTS,  /* of each block */
    GPURING_SIZES_UNKNOWN, /* nothing: of each block its sender and its receiver know it */
};

/* A collective that this component serves. */
struct gpuring_served {
    enum gpuring_collective collective;
    const char *name; /* NULL: it is always staged */
    bool reduces;
    bool votes; /* each rank may have its buffers where it likes, or have none: mixed_memory.c */
    enum gpuring_call_sizes sizes;
};

extern const struct gpuring_served gpuring_served[GPURING_STAGED_COUNT];

static inline const struct gpuring_served *gpuring_served_of(enum gpuring_staged what)
{
    return &gpuring_served[what];
}

/* Else the call is always staged. */
static inline bool gpuring_call_is_served(const mca_coll_gpuring_module_t *module,
                                          enum gpuring_staged what)
{
    return module->serve != NULL && gpuring_served[what].name != NULL;
}

/* Is the call of this number the previous component's without another look? This process has no GPU
 * memory, and the others do not ask. */
static inline bool gpuring_call_idle(const mca_coll_gpuring_module_t *module,
                                     enum gpuring_staged what, uint64_t number)
{
    return !gpuring_eligible_any() &&
           !(gpuring_call_is_served(module, what) && gpuring_served[what].votes &&
             gpuring_vote_possible(module, number));
}

/* ---- collective.c ---- */

/*
 * What is known when a call is made: NONE, or why it is delegated. *call points to room for it, and
 * then to the call: there, or in the module, which keeps it until the next call of its collective.
 * *status: 0, or GPURING_ERR_NOMEM (logged): this rank cannot take part. The call is to be
 * released.
 */
enum gpuring_reason gpuring_call_begin(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                                       enum gpuring_stage_form form,
                                       const struct gpuring_arguments *arguments,
                                       struct gpuring_call **call, int *status);

/* Count a call that is delegated. Whatever other component serves a reduction folds in an order of
 * its own. */
void gpuring_call_delegated(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                            enum gpuring_reason reason);

/* Is it known that no buffer of a delegated call is on a GPU? */
static inline bool gpuring_reason_on_host(enum gpuring_reason reason)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           reason == GPURING_REASON_MEMORY || reason == GPURING_REASON_NO_DRIVER;
}

/* ---- describe.c: as gpuring_call_begin ---- */
enum gpuring_reason gpuring_call_describe(mca_coll_gpuring_module_t *module,
                                          enum gpuring_staged what,
                                          const struct gpuring_arguments *arguments,
                                          struct gpuring_call **call, int *status);

/* ---- request.c: a non-blocking or persistent call. MPI error codes ---- */
int gpuring_call_request(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                         enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                         struct ompi_info_t *info, ompi_request_t **request);

/* Delegate such a call, which has been counted if it is to be. */
int gpuring_call_delegate(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                          enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                          enum gpuring_reason reason, struct ompi_info_t *info,
                          ompi_request_t **request);

#endif
