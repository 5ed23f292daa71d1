/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Describe a call, and decide as far as this rank can whether it is served. */
#include "mca/coll_gpuring/calls/calls.h"

#include <stdlib.h>

#include "mca/coll_gpuring/util/status.h"

typedef mca_coll_gpuring_module_t module_t;

/*
 * Programs repeat the same calls in loops. Therefore the descriptions of the last two shapes of
 * calls of each collective are kept. Calls of the same shape differ only in the addresses of their
 * buffers and in the kind of memory. A shape is kept if the arguments alone define the layout:
 * predefined types, counts passed by value, and no block packed or omitted.
 */
#define SHAPES        2
#define BARRIER_SHAPE UINT64_MAX /* other shapes have numbers from 1 */

struct gpuring_shape {
    struct gpuring_arguments arguments;
    struct gpuring_call described; /* its name is NULL if no shape is kept */
    struct gpuring_layout layout;
};

static bool is_alike(const void *a, const void *b)
{
    return a == b || (a != MPI_IN_PLACE && b != MPI_IN_PLACE && a != MPI_BOTTOM && b != MPI_BOTTOM);
}

static bool has_shape(const struct gpuring_shape *shape, const struct gpuring_arguments *a)
{
    const struct gpuring_arguments *last = &shape->arguments;

    return shape->described.name != NULL && a->rcount == last->rcount && a->rtype == last->rtype &&
           a->scount == last->scount && a->stype == last->stype && a->op == last->op &&
           a->root == last->root && is_alike(a->sbuf, last->sbuf) && is_alike(a->rbuf, last->rbuf);
}

static void keep_shape(const struct gpuring_description *d, const struct gpuring_layout *layout,
                       struct gpuring_call *call)
{
    mca_coll_gpuring_module_t *module = d->module;
    struct gpuring_shape *shape;

    if (module->shapes == NULL) {
        module->shapes = calloc(GPURING_STAGED_ALWAYS * SHAPES, sizeof *module->shapes);
    }
    if (module->shapes != NULL) { /* otherwise the next call is described again */
        shape = &module->shapes[d->what * SHAPES];
        shape[1] = shape[0];
        shape->arguments = d->arguments;
        call->shape = ++module->nshapes;
        shape->described = *call;
        shape->layout = *layout;
    }
}

/* Return the kept shape of a call, or NULL. */
static struct gpuring_shape *find_shape(const struct gpuring_description *d)
{
    const mca_coll_gpuring_module_t *module = d->module;

    for (int i = 0; module->shapes != NULL && i < SHAPES; i++) {
        struct gpuring_shape *shape = &module->shapes[d->what * SHAPES + i];

        if (has_shape(shape, &d->arguments)) {
            return shape;
        }
    }
    return NULL;
}

/* Describe a call of a kept shape: set its addresses, and determine their kind of memory. */
static enum gpuring_reason describe_alike(struct gpuring_shape *shape,
                                          const struct gpuring_arguments *a)
{
    struct gpuring_call *call = &shape->described;

    if (call->in.bytes > 0) {
        call->in.sample = call->input = gpuring_stage_address(
            shape->layout.reads_send ? a->sbuf : a->rbuf, shape->layout.in_low);
    }
    if (call->out.bytes > 0) {
        call->output = (void *) (uintptr_t) gpuring_stage_address(a->rbuf, shape->layout.out_low);
        call->out.sample = call->output;
    }
    return gpuring_eligible_memory(call);
}

/* Describe a barrier as an allreduce of a byte with no meaning. */
static enum gpuring_reason describe_barrier(struct gpuring_serve *serve, struct gpuring_call **call)
{
    uint8_t *byte = &serve->barrier_byte;

    if (serve->barrier.name == NULL) {
        serve->barrier = (struct gpuring_call){
            .collective = GPURING_COLLECTIVE_ALLREDUCE,
            .name = gpuring_served_of(GPURING_STAGED_barrier)->name,
            .input = byte,
            .output = byte,
            .count = 1,
            .type = GPURING_TYPE_BYTE,
            .op = GPURING_OP_BOR,
            .element_size = 1,
            .in = {.sample = byte, .bytes = 1, .blocks = {.count = 1}},
            .shape = BARRIER_SHAPE,
        };
        serve->barrier.out = serve->barrier.in;
        serve->barrier.made = gpuring_differ_word(GPURING_STAGED_barrier, &serve->barrier);
    }
    *call = &serve->barrier;
    return gpuring_eligible_memory(*call);
}

/* Describe a call, or find its kept description. The result, *call and *status are those of
 * gpuring_call_begin. */
static enum gpuring_reason describe_call(struct gpuring_description *d, struct gpuring_call **call,
                                         int *status)
{
    enum gpuring_reason reason;
    struct gpuring_layout layout;
    struct gpuring_shape *shape;

    if (d->what == GPURING_STAGED_barrier) {
        return describe_barrier(d->module->serve, call);
    }
    shape = find_shape(d);
    if (shape != NULL) {
        *call = &shape->described; /* copying it would take longer than a small call */
        return describe_alike(shape, &d->arguments);
    }
    reason = gpuring_call_describe(d, *call, &layout, status);
    if (layout.plain && *status == GPURING_OK) {
        keep_shape(d, &layout, *call);
    }
    return reason;
}

/*
 * Many communicators are created for a few small calls. These take less time in another component
 * than connecting the ranks would. Therefore the first calls are delegated, unless they are large.
 * The decision depends only on the number of the call and on a size that all ranks know.
 * MPI_COMM_WORLD is excepted, because it exists once and most programs use it. Calls with a count
 * for each rank are excepted, because coll/tuned hangs in MPI_Allgatherv if ranks use datatypes of
 * different sizes with the same signature.
 */
#define EARLY_BYTES 1024 /* count like one call */

static bool is_early(const module_t *self, const struct gpuring_served *served,
                     const struct gpuring_call *call, uint64_t number)
{
    uint64_t first = (uint64_t) gpuring_params.connect_after;

    return OPAL_UNLIKELY(number <= first) && self->comm != MPI_COMM_WORLD &&
           served->sizes < GPURING_SIZES_COUNTS &&
           gpuring_agree_bytes(self, call) < (first - number + 1) * EARLY_BYTES;
}

/* Vote in a call in which some ranks may use GPU buffers and others host buffers. The ranks vote in
 * every call in which all of them are able to. Returns NONE, or the reason for delegating the
 * call. */
static enum gpuring_reason vote(module_t *self, struct gpuring_call *call,
                                struct gpuring_pending *pending, enum gpuring_reason reason,
                                uint64_t number)
{
    if (reason != GPURING_REASON_NONE && reason != GPURING_REASON_MEMORY) {
        return reason;
    }
    if (call->count == 0 || !gpuring_type_info(call->type)->device ||
        !gpuring_agree_possible(self, number)) {
        return reason == GPURING_REASON_NONE ? gpuring_agree_not_possible() : reason;
    }
    /* Before all ranks are connected, some may not know which sizes are delegated. */
    if (self->agree.connected && gpuring_serve_select(self, call) &&
        call->choice.delegated != GPURING_REASON_NONE) {
        return reason == GPURING_REASON_NONE ? call->choice.delegated : reason;
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
    enum gpuring_asks asks = gpuring_always_agree() ? GPURING_ASKS_MESSAGES : GPURING_ASKS_NOBODY;
    uint64_t number = gpuring_agree_number(self, d->form);
    enum gpuring_reason reason;

    *status = GPURING_OK;
    *pending = (struct gpuring_pending){.asks = asks};
    if (votes && !served->reduces && !gpuring_agree_possible(self, number)) {
        (*call)->memory = NULL;
        return gpuring_agree_not_possible(); /* holds wherever the buffers are */
    }
    reason = describe_call(d, call, status);
    if (*status == GPURING_OK &&
        (reason == GPURING_REASON_NONE || reason == GPURING_REASON_MEMORY) &&
        is_early(self, served, *call, number)) {
        return reason == GPURING_REASON_NONE ? GPURING_REASON_EARLY : reason;
    }
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
