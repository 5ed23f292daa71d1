/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Requests of staged calls. Each holds the previous module's request on the places:
 *
 *     HELD       until the others know that the data of this rank is void (stage/notice.h)
 *     RUNNING    until that one is complete        COPYING  until the result is with the user
 *     WAITING    until it is its turn to agree     AGREEING with the other ranks on the outcome
 *
 * The last two with module->together. Non-blocking calls of a communicator agree one after the
 * other, in the order of the calls; persistent ones, which may be started in any order, have an
 * agreement each.
 *
 * A call that another rank takes no part in may never be complete: when its notice comes, the
 * request ends with the error, and leaves the previous module's request and the places behind
 * (abandoned).
 *
 * The data is copied in before the previous module's function or its start is called, not
 * asynchronously: the order of those calls is what pairs them with the other ranks'.
 */
#ifndef GPURING_STAGE_REQUEST_STATE_H
#define GPURING_STAGE_REQUEST_STATE_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/stage/stage.h"

struct gpuring_stage_request {
    struct gpuring_collective_request super;
    struct gpuring_stage stage;
    ompi_request_t *inner; /* the previous module's; a persistent one also where it was deferred */
    enum { HELD, RUNNING, COPYING, WAITING, AGREEING } state;
    int status;                          /* of this rank's part; 0 or a gpuring_status */
    int error;                           /* MPI error code of the call */
    uint32_t turn;                       /* among the non-blocking calls of the communicator; or: */
    struct gpuring_agreement *agreement; /* a persistent one's own */
    struct gpuring_stage_request *next;
    struct gpuring_stage_request *next_kept, **link; /* a persistent one: until it is freed */
};
typedef struct gpuring_stage_request gpuring_stage_request_t;
OBJ_CLASS_DECLARATION(gpuring_stage_request_t);

static inline ompi_request_t *gpuring_stage_request_base(gpuring_stage_request_t *self)
{
    return &self->super.super;
}

/* The previous module's part begins: MPI error code. */
int gpuring_stage_request_begin(gpuring_stage_request_t *self);

/* It is moved on from now on, from HELD or RUNNING. */
void gpuring_stage_request_activate(gpuring_stage_request_t *self);

/* A persistent one is there, until it is freed: notices may be for it. */
void gpuring_stage_request_keep(gpuring_stage_request_t *self);
void gpuring_stage_request_forget(gpuring_stage_request_t *self);

/* Of Open MPI's request functions, of a persistent one. */
int gpuring_stage_request_free(ompi_request_t **request);

/* At the end of the process. */
void gpuring_stage_spares_close(void);

#endif
