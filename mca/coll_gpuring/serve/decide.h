/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Decide whether a call runs, waits or is delegated. The decision is made when the program makes
 * the call, and again when the call is the next one in its queue. It is a pure function of the
 * known facts about the call and the module, and calls no MPI.
 *
 * All ranks must reach the same decision on each call. They do, because the decision depends only
 *
 *   - on properties that MPI requires to be equal on all ranks (type, operation, count),
 *   - on where the buffers are (coll_gpuring_agree),
 *   - and on facts that all ranks learn: the end of the wire-up, an agreement, or a vote.
 *
 * Calls wait for these facts in the queue and may be delegated from there, including non-blocking
 * calls. A persistent call waits when it is created, so that starting it needs no decision.
 */
#ifndef GPURING_SERVE_DECIDE_H
#define GPURING_SERVE_DECIDE_H

#include <stdbool.h>

#include "mca/coll_gpuring/collectives.h"
#include "mca/coll_gpuring/module_state.h"
#include "mca/coll_gpuring/engine/reason.h"

enum gpuring_decision {
    GPURING_RUN,      /* the engine runs the call now */
    GPURING_WAIT,     /* the call waits in the queue for earlier calls, an agreement, or the
                         wire-up */
    GPURING_DELEGATE, /* the previous module runs it; staged if a buffer is on a GPU */
    GPURING_REFUSE,   /* the module has failed, and the call returns its error */
};

/* The facts about a call. */
struct gpuring_circumstances {
    enum gpuring_form form;
    enum gpuring_state state;   /* of the module */
    enum gpuring_reason reason; /* not NONE: not eligible, or the ranks agreed to delegate it */
    bool must_agree;            /* the ranks must still find out where the buffers are */
    enum gpuring_reason left;   /* not NONE: the selection delegates it, as all ranks know */
    bool unconnected;           /* READY, but it needs connections that do not exist yet */
    bool unconnectable;         /* these connections could not be established */
    bool busy;                  /* earlier calls have not ended, or the result must be checked */
};

/* Decide on a call. Sets *reason only if the call is delegated. For the creation of a persistent
 * call, RUN means that the call can be started later. Inline, because callers know some of the
 * facts at compile time. */
static inline enum gpuring_decision gpuring_decide(const struct gpuring_circumstances *known,
                                                   enum gpuring_reason *reason)
{
    if (known->reason != GPURING_REASON_NONE) {
        *reason = known->reason;
        return GPURING_DELEGATE;
    }
    /* Delegate even if the module has failed, because ranks that do not know that delegate, too. */
    if (known->left != GPURING_REASON_NONE && !known->must_agree &&
        known->form != GPURING_STARTED) {
        *reason = known->left;
        return GPURING_DELEGATE;
    }
    if (known->state == GPURING_STATE_DEAD || known->unconnectable) {
        /* Other ranks may have queued the call before they knew this. If the call needs its turn
         * in the queue, it must be queued here, too. */
        if (known->busy) {
            return GPURING_WAIT;
        }
        *reason = GPURING_REASON_DEAD;
        return GPURING_DELEGATE;
    }
    switch (known->state) {
    case GPURING_STATE_READY:
        /* With `||`, gcc packs these values into a word before it compares them. */
        return (known->busy | known->must_agree | known->unconnected) ? GPURING_WAIT : GPURING_RUN;
    case GPURING_STATE_FAILED:
        return GPURING_REFUSE;
    default:
        return GPURING_WAIT;
    }
}

#endif
