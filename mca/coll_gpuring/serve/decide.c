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
    if (known->reason != GPURING_REASON_NONE) {
        *reason = known->reason;
        return GPURING_DELEGATE;
    }
    /* Also if the module has failed since: ranks that do not know that delegate, too. */
    if (known->tuned && !known->must_agree && known->form != GPURING_FORM_STARTED) {
        *reason = GPURING_REASON_TUNED;
        return GPURING_DELEGATE;
    }
    switch (known->state) {
    case GPURING_STATE_READY:
        return known->busy || known->must_agree ? GPURING_WAIT : GPURING_RUN;
    case GPURING_STATE_DEAD:
        /* Other ranks may not have known it yet when they made the call: then it is queued there,
         * and has to be here if it needs its turn. */
        if (known->busy) {
            return GPURING_WAIT;
        }
        *reason = GPURING_REASON_DEAD;
        return GPURING_DELEGATE;
    case GPURING_STATE_FAILED:
        return GPURING_REFUSE;
    default:
        return GPURING_WAIT;
    }
}
