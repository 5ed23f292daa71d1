/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/decide.h"

const char *gpuring_reason_text(enum gpuring_reason reason)
{
    static const char *const texts[] = {
#define REASON_TEXT(name, text) text,
        GPURING_REASONS(REASON_TEXT)
#undef REASON_TEXT
    };

    return texts[reason];
}

enum gpuring_decision gpuring_decide(const struct gpuring_circumstances *known,
                                     enum gpuring_reason *reason)
{
    bool requested = known->form == GPURING_FORM_REQUEST;

    if (known->form == GPURING_FORM_CONNECT) {
        return known->state == GPURING_STATE_UNWIRED || known->state == GPURING_STATE_WIRING
                   ? GPURING_WAIT
                   : GPURING_DELEGATE;
    }
    if (known->reason != GPURING_REASON_NONE &&
        !(requested && known->state == GPURING_STATE_FAILED)) {
        *reason = known->reason;
        return requested ? GPURING_FALL_BACK : GPURING_DELEGATE;
    }
    /* Also if the module has failed since: ranks that do not know that delegate, too. */
    if (known->tuned && !known->must_agree && !requested) {
        *reason = GPURING_REASON_TUNED;
        return GPURING_DELEGATE;
    }
    switch (known->state) {
    case GPURING_STATE_READY:
        return known->busy || known->must_agree || known->form == GPURING_FORM_NONBLOCKING
                   ? GPURING_WAIT
                   : GPURING_RUN;
    case GPURING_STATE_DEAD:
        /* Other ranks may not have known it yet when they made the call: then it is queued there,
         * and has to be here if it is a non-blocking one, or needs its turn. */
        if (known->form == GPURING_FORM_NONBLOCKING || known->busy) {
            return GPURING_WAIT;
        }
        *reason = GPURING_REASON_DEAD;
        return requested ? GPURING_FALL_BACK : GPURING_DELEGATE;
    case GPURING_STATE_FAILED:
        return GPURING_REFUSE;
    default:
        return GPURING_WAIT;
    }
}
