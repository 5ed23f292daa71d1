/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* From the arguments of a collective to a call of the engine. Internal to calls/. */
#ifndef GPURING_CALLS_DESCRIBE_H
#define GPURING_CALLS_DESCRIBE_H

#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/call.h"

/* What is known to all ranks of the sizes of a call. */
enum gpuring_call_sizes {
    GPURING_SIZES_VECTOR,  /* of the vector */
    GPURING_SIZES_EVEN,    /* of all blocks, which are alike */
    GPURING_SIZES_COUNTS,  /* of each block */
    GPURING_SIZES_UNKNOWN, /* nothing: of each block its sender and its receiver know it */
};

/* A collective that this component serves, beside allreduce. */
struct gpuring_served {
    enum gpuring_collective collective;
    const char *name;
    bool reduces;
    bool votes; /* each rank may have its buffers where it likes, or have none: see vote.c */
    enum gpuring_call_sizes sizes;
};

const struct gpuring_served *gpuring_served_of(enum gpuring_staged what);

/*
 * Fill a call: NONE, or the reason why no rank serves it; *status then is 0, or GPURING_ERR_NOMEM
 * (logged): this rank cannot take part. The call is to be released.
 */
enum gpuring_reason gpuring_call_describe(mca_coll_gpuring_module_t *module,
                                          enum gpuring_staged what,
                                          const struct gpuring_arguments *arguments,
                                          struct gpuring_call *call, int *status);

#endif
