/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Calls on vectors: a chunk is a piece of them, of bytes or, of a reduction, of elements. */
#include "mca/coll_gpuring/stage_pipeline.h"

#include "mca/coll_gpuring/util/status.h"

static int call_bcast(const struct gpuring_cut *cut, const void *send, void *receive, size_t chunk)
{
    (void) send;
    return GPURING_CALL_PREVIOUS(cut->module, bcast, receive,
                                 (gpuring_count_t) gpuring_cut_units(cut, 0, chunk), MPI_BYTE,
                                 cut->root, cut->module->comm);
}

/* Counts and types may differ between ranks, so only bytes can be counted. */
int gpuring_pipeline_bcast(GPURING_ARGUMENTS_BCAST, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_cut cut;
    bool is_root, done;
    int result;

    if (!gpuring_pipeline_large(self, rcount, rtype)) {
        return gpuring_stage_bcast(GPURING_VALUES_BCAST, comm, module);
    }
    is_root = self->rank == root;
    cut = (struct gpuring_cut){
        .module = self,
        .what = GPURING_STAGED_bcast,
        .call = call_bcast,
        .possible = gpuring_cut_contiguous(rcount, rtype),
        .blocks = 1,
        .each = gpuring_cut_bytes(rcount, rtype),
        .size = 1,
        .extent = 1,
        .receive = {.user = gpuring_cut_at(rbuf, rtype->super.true_lb),
                    .in = is_root ? GPURING_CUT_ALONE : GPURING_CUT_NOTHING,
                    .out = is_root ? GPURING_CUT_NOTHING : GPURING_CUT_ALONE},
        .root = root,
    };
    gpuring_describe_bcast(&cut.whole, comm, GPURING_VALUES_BCAST);
    result = gpuring_cut_run(&cut, &done);
    return done ? result : gpuring_stage_bcast(GPURING_VALUES_BCAST, comm, module);
}

/* Count and type of a reduction are the same on all ranks: elements can be counted. */
static struct gpuring_cut reduction(mca_coll_base_module_t *module, enum gpuring_staged what,
                                    gpuring_cut_call_fn call, GPURING_ARGUMENTS_REDUCTION)
{
    bool in_place = sbuf == MPI_IN_PLACE, contiguous = gpuring_cut_contiguous(rcount, rtype);

    return (struct gpuring_cut){
        .module = (mca_coll_gpuring_module_t *) module,
        .what = what,
        .call = call,
        .possible = true,
        .gaps = !contiguous,
        .blocks = 1,
        .each = (size_t) rcount,
        .size = rtype->super.size,
        .extent = (size_t) (rtype->super.ub - rtype->super.lb),
        .lead = rtype->super.true_lb,
        .send = {.user = sbuf, .in = in_place ? GPURING_CUT_NOTHING : GPURING_CUT_ALONE},
        .receive = {.user = rbuf,
                    .in = in_place ? GPURING_CUT_ALONE : GPURING_CUT_NOTHING,
                    .out = GPURING_CUT_ALONE},
        .type = rtype,
        .op = op,
    };
}

static int call_reduce(const struct gpuring_cut *cut, const void *send, void *receive, size_t chunk)
{
    return GPURING_CALL_PREVIOUS(cut->module, reduce, send, receive,
                                 (gpuring_count_t) gpuring_cut_units(cut, 0, chunk), cut->type,
                                 cut->op, cut->root, cut->module->comm);
}

int gpuring_pipeline_reduce(GPURING_ARGUMENTS_REDUCE, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_cut cut;
    bool done;
    int result;

    if (!gpuring_pipeline_large(self, rcount, rtype)) {
        return gpuring_stage_reduce(GPURING_VALUES_REDUCE, comm, module);
    }
    cut = reduction(module, GPURING_STAGED_reduce, call_reduce, GPURING_VALUES_REDUCTION);
    cut.root = root;
    if (self->rank != root) {
        cut.receive = (struct gpuring_cut_buffer){.user = rbuf};
    }
    gpuring_describe_reduce(&cut.whole, comm, GPURING_VALUES_REDUCE);
    result = gpuring_cut_run(&cut, &done);
    return done ? result : gpuring_stage_reduce(GPURING_VALUES_REDUCE, comm, module);
}

/* Reductions whose results all ranks get, or all but the first. */
#define DEFINE(name)                                                                           \
    static int call_##name(const struct gpuring_cut *cut, const void *send, void *receive,     \
                           size_t chunk)                                                       \
    {                                                                                          \
        return GPURING_CALL_PREVIOUS(cut->module, name, send, receive,                         \
                                     (gpuring_count_t) gpuring_cut_units(cut, 0, chunk),       \
                                     cut->type, cut->op, cut->module->comm);                   \
    }                                                                                          \
                                                                                               \
    int gpuring_pipeline_##name(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING)             \
    {                                                                                          \
        mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;                \
        struct gpuring_cut cut;                                                                \
        bool done;                                                                             \
        int result;                                                                            \
                                                                                               \
        if (!gpuring_pipeline_large(self, rcount, rtype)) {                                    \
            return gpuring_stage_##name(GPURING_VALUES_REDUCTION, comm, module);               \
        }                                                                                      \
        cut = reduction(module, GPURING_STAGED_##name, call_##name, GPURING_VALUES_REDUCTION); \
        gpuring_describe_##name(&cut.whole, comm, GPURING_VALUES_REDUCTION);                   \
        if (cut.whole.receive.in.end > 0) { /* exscan leaves the first rank's as it was */     \
            cut.receive.in = GPURING_CUT_ALONE;                                                \
        }                                                                                      \
        result = gpuring_cut_run(&cut, &done);                                                 \
        return done ? result : gpuring_stage_##name(GPURING_VALUES_REDUCTION, comm, module);   \
    }

DEFINE(allreduce)
DEFINE(scan)
DEFINE(exscan)
