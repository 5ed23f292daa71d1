/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The functions that Open MPI calls. They serve, stage or delegate each call. Internal to calls/.
 *
 * A non-blocking call returns its request before this rank knows whether the call is served,
 * because the ranks may still connect, agree or vote. Therefore the request supports both outcomes:
 * either the engine completes it, or the call is delegated later and the previous module's request
 * completes it. Until this is decided, later non-blocking calls that are delegated wait in the
 * queue, because the previous module must get the calls of a communicator in the same order on all
 * ranks.
 *
 * The decision on a persistent call is made when the call is created. Therefore its creation waits
 * for other ranks.
 */
#ifndef GPURING_CALLS_CALLS_H
#define GPURING_CALLS_CALLS_H

#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/stage_call.h"

/* The sizes of a call that all ranks know. */
enum gpuring_call_sizes {
    GPURING_SIZES_VECTOR,  /* the size of the vector */
    GPURING_SIZES_EVEN,    /* the size of all blocks, which is equal */
    GPURING_SIZES_COUNTS,  /* the size of each block */
    GPURING_SIZES_UNKNOWN, /* none: only the sender and the receiver of a block know its size */
};

/* A collective that this component serves. */
struct gpuring_served {
    enum gpuring_collective collective;
    const char *name; /* NULL: it is always staged */
    bool reduces;
    bool votes; /* some ranks may have GPU buffers, and others host buffers or none: agree.h */
    enum gpuring_call_sizes sizes;
};

extern const struct gpuring_served gpuring_served[GPURING_STAGED_COUNT];

static inline const struct gpuring_served *gpuring_served_of(enum gpuring_staged what)
{
    return &gpuring_served[what];
}

/* Return true if this collective may be served on this communicator. Otherwise it is always staged.
 */
static inline bool gpuring_call_is_served(const mca_coll_gpuring_module_t *module,
                                          enum gpuring_staged what)
{
    return module->serve != NULL && gpuring_served[what].name != NULL;
}

/* Return the number of the call that this rank makes now, as agree/ expects it. */
static inline uint64_t gpuring_agree_number(const mca_coll_gpuring_module_t *module,
                                            enum gpuring_form form)
{
    return form == GPURING_PERSISTENT ? GPURING_AGREE_PERSISTENT : module->calls;
}

/* Return true if the call with this number can be passed to the previous module without further
 * checks, because this process has no GPU memory and the other ranks do not vote in this call. */
static inline bool gpuring_call_bypasses(const mca_coll_gpuring_module_t *module,
                                         enum gpuring_staged what, uint64_t number)
{
    return !gpuring_eligible_any() &&
           !(gpuring_call_is_served(module, what) && gpuring_served[what].votes &&
             gpuring_agree_possible(module, number));
}

/* ---- calls_begin.c ---- */

/*
 * Describe a call to the engine, and decide what this rank can decide about it now. Returns NONE,
 * or the reason for delegating the call. On entry *call points to memory for the call. On return it
 * points to the call, which is either in that memory or belongs to the module. In the second case
 * it is valid until the next call of the same collective. Sets *status to 0, or to
 * GPURING_ERR_NOMEM (logged) if this rank cannot take part, and sets *pending. The caller must
 * release the call in all cases.
 */
enum gpuring_reason gpuring_call_begin(struct gpuring_description *description,
                                       struct gpuring_call **call, struct gpuring_pending *pending,
                                       int *status);

/* Count a delegated call. For a reduction, warn if the order of operations that
 * coll_gpuring_deterministic promises is lost, because other components use a different order. */
void gpuring_call_delegated(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                            enum gpuring_reason reason);

/* Return true if this reason for delegating a call implies that none of its buffers is on a GPU. */
static inline bool gpuring_reason_on_host(enum gpuring_reason reason)
{
    return gpuring_process.device_ops->kind == GPURING_DEVICE_HOST ||
           reason == GPURING_REASON_MEMORY || reason == GPURING_REASON_NO_DRIVER;
}

/* ---- describe.c ---- */

/* Where the data of a call is, relative to the user's buffers. */
struct gpuring_layout {
    bool plain;                /* the arguments alone define it, in any kind of memory */
    ptrdiff_t in_low, out_low; /* offsets of the call's buffers from the user's, in bytes */
    bool reads_send;           /* the input is the send buffer; otherwise the receive buffer */
};

/* Describe a call to the engine. Returns NONE, or the reason for delegating it. Sets *status to
 * GPURING_ERR_NOMEM (logged) if memory is lacking, and otherwise leaves it as it is. */
enum gpuring_reason gpuring_call_describe(struct gpuring_description *description,
                                          struct gpuring_call *call, struct gpuring_layout *layout,
                                          int *status);

/* ---- calls_request.c. The functions return MPI error codes ---- */

/* Make a non-blocking or persistent call. */
int gpuring_call_request(struct gpuring_description *description, ompi_request_t **request);

/* Delegate a non-blocking or persistent call. The caller must already have counted it. */
int gpuring_call_delegate(struct gpuring_description *description, enum gpuring_reason reason,
                          ompi_request_t **request);

#endif
