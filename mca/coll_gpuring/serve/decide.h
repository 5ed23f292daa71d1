/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What becomes of a call: asked when it is made, and again when it is the next of its queue. A pure
 * function of what is known of the call and the module; no MPI.
 *
 * All ranks must decide alike on each call. They do, because the answer depends on what MPI makes
 * equal on all ranks (type, operation, count), on where the buffers are (coll_gpuring_agree), and
 * on what the ranks learn together: the end of the wire-up, an agreement, or a vote. Calls wait for
 * these in the queue, and may be delegated from there, non-blocking ones, too. A persistent call
 * waits when it is made, so that it can be started.
 */
#ifndef GPURING_SERVE_DECIDE_H
#define GPURING_SERVE_DECIDE_H

#include <stdbool.h>

#include "mca/coll_gpuring/module_state.h"

/* Why a call is not served: X(NAME, code and text for the log). */
#define GPURING_REASONS(X)                                                                       \
    X(NONE, "[served] served")                                                                   \
    X(TYPE, "[datatype] the datatype is not a predefined one that can be reduced")               \
    X(OP, "[operation] the operation is user-defined, or MPI does not define it for the "        \
          "datatype")                                                                            \
    X(MEMORY, "[host-memory] the buffers are in host memory and coll_gpuring_device is not "     \
              "host")                                                                            \
    X(NO_DRIVER, "[no-driver] no CUDA driver is loaded in this process: the buffers are in "     \
                 "host memory")                                                                  \
    X(MIXED, "[mixed-memory] not all ranks have a buffer on a GPU")                              \
    X(HOST_TYPE, "[host-datatype] the buffers are on a GPU, which does not reduce the datatype") \
    X(DEAD, "[not-connected] the ranks of the communicator could not be connected")              \
    X(TUNED, "[tuned] calls of this size are delegated by the tuning file, by "                  \
             "coll_gpuring_algorithm, or because they pass too many ranks, or ranks that take "  \
             "turns on a GPU ([shared-gpu])")                                                    \
    X(UNKNOWN, "[no-vote] each rank may have its buffer on a GPU or not, and not all "           \
               "processes had loaded a CUDA driver when the ranks asked for it; they ask again " \
               "after as many calls; or coll_gpuring_agree_size is 0, or "                       \
               "coll_gpuring_algorithm is previous")                                             \
    X(EXPECTED, "[expected-host] not all ranks had a buffer on a GPU in the last such calls on " \
                "which they agreed; they agree again after as many, 64 at most")

enum gpuring_reason {
#define GPURING_REASON_ENUM(name, text) GPURING_REASON_##name,
    GPURING_REASONS(GPURING_REASON_ENUM)
#undef GPURING_REASON_ENUM
        GPURING_REASON_COUNT
};

const char *gpuring_reason_text(enum gpuring_reason reason);

enum gpuring_form {
    GPURING_FORM_CALL,   /* blocking or not */
    GPURING_FORM_MAKE,   /* of a persistent call, which is to run later */
    GPURING_FORM_STARTED /* persistent call: it is delegated no more */
};

enum gpuring_decision {
    GPURING_RUN,      /* now, by the engine */
    GPURING_WAIT,     /* in the queue: for calls before it, an agreement, or the wire-up */
    GPURING_DELEGATE, /* the previous module runs it; staged if a buffer is on a GPU */
    GPURING_REFUSE,   /* the module has failed: the call returns that error */
};

/* What is known of a call. */
struct gpuring_circumstances {
    enum gpuring_form form;
    enum gpuring_state state;   /* of the module */
    enum gpuring_reason reason; /* not NONE: the call is not eligible, or the ranks agreed so */
    bool must_agree;            /* the ranks have not agreed yet on where the buffers are */
    bool tuned;                 /* its size is delegated, which all ranks know */
    bool unconnected;           /* READY: it goes by connections that are still to be made */
    bool unconnectable;         /* .. which could not be made */
    bool busy;                  /* other calls come before it, or it is to be checked */
};

/* *reason: why it is delegated; unchanged else. RUN of one that is made: it can be started. Inline,
 * for callers that know half of the answers. */
static inline enum gpuring_decision gpuring_decide(const struct gpuring_circumstances *known,
                                                   enum gpuring_reason *reason)
{
    if (known->reason != GPURING_REASON_NONE) {
        *reason = known->reason;
        return GPURING_DELEGATE;
    }
    /* Also if the module has failed since: ranks that do not know that delegate, too. */
    if (known->tuned && !known->must_agree && known->form != GPURING_FORM_STARTED) {
        *reason = GPURING_REASON_TUNED;
        return GPURING_DELEGATE;
    }
    if (known->state == GPURING_STATE_DEAD || known->unconnectable) {
        /* Other ranks may not have known it yet when they made the call: then it is queued there,
         * and has to be here if it needs its turn. */
        if (known->busy) {
            return GPURING_WAIT;
        }
        *reason = GPURING_REASON_DEAD;
        return GPURING_DELEGATE;
    }
    switch (known->state) {
    case GPURING_STATE_READY:
        return known->busy || known->must_agree || known->unconnected ? GPURING_WAIT : GPURING_RUN;
    case GPURING_STATE_FAILED:
        return GPURING_REFUSE;
    default:
        return GPURING_WAIT;
    }
}

#endif
