/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A module serves one communicator. Its functions are in the communicator's table from creation,
 * but it is wired up (connected with the other ranks) only when the first call comes that it can
 * serve:
 *
 *             first eligible call          all ranks connected
 *   UNWIRED -----------------------> WIRING -----------------> READY
 *                                      |                         | an operation failed
 *                                      | cannot be served        v
 *                                      +----------> DEAD       FAILED <-- (also from WIRING: ranks
 *                                                                          disagree, or no answer)
 *   DEAD: all ranks agreed on that; every call goes to the previous module.
 *   FAILED: data may have moved on some ranks; calls that we would serve return an MPI error.
 */
#ifndef GPURING_MODULE_H
#define GPURING_MODULE_H

#include "mca/coll_gpuring/compat.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/serve/delegate.h"
#include "mca/coll_gpuring/serve/eligible.h"
#include "mca/coll_gpuring/serve/queue.h"
#include "mca/coll_gpuring/serve/watchdog.h"
#include "mca/coll_gpuring/stage/list.h"

/* The functions that this component serves: one entry file each. All others that get GPU memory
 * are staged (stage/list.h). */
#define GPURING_COLLECTIVES(X) \
    X(allreduce)               \
    X(iallreduce)              \
    X(allreduce_init)

enum gpuring_state {
    GPURING_STATE_UNWIRED,
    GPURING_STATE_WIRING,
    GPURING_STATE_READY,
    GPURING_STATE_DEAD,
    GPURING_STATE_FAILED,
};

/* The functions that ours replaced, with the modules that they belong to (one reference each);
 * NULL: not replaced. */
struct gpuring_previous {
#define GPURING_PREVIOUS(name)                                       \
    __typeof__(((mca_coll_base_module_t *) NULL)->coll_##name) name; \
    mca_coll_base_module_t *name##_module;
#define GPURING_PREVIOUS_FORMS(name, list) GPURING_FORMS(GPURING_PREVIOUS, name)
    GPURING_STAGED_COLLECTIVES(GPURING_PREVIOUS_FORMS) GPURING_PREVIOUS(reduce_local)
#undef GPURING_PREVIOUS_FORMS
#undef GPURING_PREVIOUS
};

struct gpuring_agreement;
struct gpuring_exchange;
struct gpuring_fallback_allreduce;
struct gpuring_wireup;

/* Of staged calls on a communicator: how its ranks agree (stage/agree.h), or get to know of what
 * fails at one of them. */
struct gpuring_staging {
    struct gpuring_agreement *blocking, *nonblocking;
    uint32_t begun, ended; /* non-blocking calls: they agree in the order of the calls */
    uint32_t persistent;   /* calls of that form so far */
    uint64_t calls;        /* entries so far, see gpuring_stage_calls */
    uint32_t apart;        /* .. that are not counted, since the last that was */
    uint64_t name;         /* of the communicator, for notices (stage/notice.h) */
    uint32_t use;          /* .. the how manieth of that name; 0: it sends none */
    int given;             /* this rank's failure that was logged last */
    int told;              /* the others' failure that was logged last */
    int told_rank, told_what;
};

struct mca_coll_gpuring_module_t {
    mca_coll_base_module_t super;
    struct ompi_communicator_t *comm;
    int rank, nranks;
    enum gpuring_state state; /* changed by the thread that progresses the queue */
    int failure;              /* FAILED: the gpuring_status that calls return */
    bool enabled, ended;
    bool serves;   /* GPURING_COLLECTIVES; not between groups, and not for a single rank */
    bool stages;   /* the others, and those where it does not serve */
    bool together; /* coll_gpuring_agree=always: the ranks agree in all staged calls */
    bool settled;  /* a call has passed after which all ranks are READY; see left.h */
    struct gpuring_previous previous;
    uint32_t seen_reasons;  /* bits of enum gpuring_reason: the first call of each is logged */
    uint32_t logged_staged; /* bits of enum gpuring_staged that were logged */

    struct gpuring_engine *engine; /* READY: what runs operations */
    struct gpuring_wireup *wireup; /* UNWIRED and WIRING */
    struct gpuring_exchange *exchange;
    struct gpuring_fallback_allreduce *simple;
    ompi_request_t *spare; /* see request.h */
    struct gpuring_staging staging;
    struct gpuring_queue queue;
    struct gpuring_watchdog watchdog;

    struct mca_coll_gpuring_module_t *next, **link; /* list of live modules */
};
typedef struct mca_coll_gpuring_module_t mca_coll_gpuring_module_t;
OBJ_CLASS_DECLARATION(mca_coll_gpuring_module_t);

/* Give all back that the module has of its own. */
void gpuring_module_end(mca_coll_gpuring_module_t *module);
/* Keep a module for times without memory, if there is none; and give it back at close. */
void gpuring_module_reserve(void);
void gpuring_module_unreserve(void);

/* A number that changes with every step forward, of operations and of the wire-up. */
uint64_t gpuring_module_progress(const mca_coll_gpuring_module_t *module);

/* The module serves no more: calls return `status`; other ranks are told. */
void gpuring_module_fail(mca_coll_gpuring_module_t *module, int status);

/* "communicator MPI_COMM_WORLD (0), rank 2 of 4" */
void gpuring_module_text(const mca_coll_gpuring_module_t *module, char *text, size_t size);

#endif
