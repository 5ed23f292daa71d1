/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The decision whether a call is served, as far as this rank knows when it is made. */
#include "mca/coll_gpuring/calls/calls.h"
#include "mca/coll_gpuring/util/status.h"

typedef mca_coll_gpuring_module_t module_t;

/* Vote in a call in which some ranks may use GPU buffers and others host buffers. Returns NONE, or
 * the reason for delegating it. The ranks vote in every call in which all of them are able to. */
static enum gpuring_reason vote(module_t *self, struct gpuring_call *call,
                                struct gpuring_pending *pending, enum gpuring_reason reason,
                                uint64_t number)
{
    if (reason != GPURING_REASON_NONE && reason != GPURING_REASON_MEMORY) {
        return reason;
    }
    if (call->count == 0 || !gpuring_type_info(call->type)->device ||
        !gpuring_agree_possible(self, number)) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_UNKNOWN : reason;
    }
    /* Before all ranks are connected, some may not know which sizes are delegated. */
    if (self->agree.connected && gpuring_serve_select(self, call) && call->choice.delegated) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_TUNED : reason;
    }
    return gpuring_agree_begin(self, call, pending, number,
                               !gpuring_queue_empty(&self->serve->queue));
}

enum gpuring_reason gpuring_call_begin(struct gpuring_description *d, struct gpuring_call **call,
                                       struct gpuring_pending *pending, int *status)
{
    const struct gpuring_served *served = gpuring_served_of(d->what);
    module_t *self = d->module;
    bool decide = gpuring_buffers_decide(), votes = served->votes && decide;
    uint64_t number = gpuring_agree_number(self, d->form);
    enum gpuring_reason reason;

    *status = GPURING_OK;
    *pending = (struct gpuring_pending){.asks = gpuring_always_agree() ? GPURING_ASKS_MESSAGES
                                                                       : GPURING_ASKS_NOBODY};
    if (votes && !served->reduces && !gpuring_agree_possible(self, number)) {
        (*call)->memory = NULL;
        return GPURING_REASON_UNKNOWN; /* independent of where the buffers are */
    }
    reason = gpuring_call_describe(d, call, status);
    if (votes) {
        return *status == GPURING_OK ? vote(self, *call, pending, reason, number) : reason;
    }
    if (decide && d->form != GPURING_PERSISTENT) {
        gpuring_mixed_memory_note(self, reason, pending);
    }
    return reason;
}

void gpuring_call_delegated(module_t *self, enum gpuring_staged what, enum gpuring_reason reason)
{
    const struct gpuring_served *served = gpuring_served_of(what);

    gpuring_serve_delegated(self, reason);
    if (served->reduces) {
        gpuring_serve_order_lost(self, reason, served->name);
    }
}
