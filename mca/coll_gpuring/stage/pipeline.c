/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Calls on vectors: a chunk is a piece of them, of bytes or, of a reduction, of elements. */
#include "mca/coll_gpuring/stage/pipeline.h"

#include "mca/coll_gpuring/util/status.h"

static int call_bcast(const struct gpuring_cut *cut, const void *send, void *receive, size_t chunk)
{
    (void) send;
    return GPURING_CALL_PREVIOUS(cut->module, bcast, receive,
                                 (gpuring_count_t) gpuring_cut_units(cut, 0, chunk), MPI_BYTE,
                                 cut->root, cut->module->comm);
}

/* Counts and types may differ between ranks, so only bytes can be counted. */
static struct gpuring_cut cut_bcast(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_BCAST)
{
    bool is_root = self->rank == root;

    return (struct gpuring_cut){
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
}

/* Count and type of a reduction are the same on all ranks: elements can be counted. */
static struct gpuring_cut reduction(mca_coll_gpuring_module_t *self, enum gpuring_staged what,
                                    gpuring_cut_call_fn call, GPURING_ARGUMENTS_REDUCTION)
{
    bool in_place = sbuf == MPI_IN_PLACE, contiguous = gpuring_cut_contiguous(rcount, rtype);

    return (struct gpuring_cut){
        .module = self,
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

static struct gpuring_cut cut_reduce(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_REDUCE)
{
    struct gpuring_cut cut =
        reduction(self, GPURING_STAGED_reduce, call_reduce, GPURING_VALUES_REDUCTION);

    cut.root = root;
    if (self->rank != root) {
        cut.receive = (struct gpuring_cut_buffer){.user = rbuf};
    }
    return cut;
}

/* Reductions whose results all ranks get, or all but the first. */
#define DEFINE_REDUCTION(name)                                                             \
    static int call_##name(const struct gpuring_cut *cut, const void *send, void *receive, \
                           size_t chunk)                                                   \
    {                                                                                      \
        return GPURING_CALL_PREVIOUS(cut->module, name, send, receive,                     \
                                     (gpuring_count_t) gpuring_cut_units(cut, 0, chunk),   \
                                     cut->type, cut->op, cut->module->comm);               \
    }                                                                                      \
                                                                                           \
    static struct gpuring_cut cut_##name(mca_coll_gpuring_module_t *self,                  \
                                         GPURING_ARGUMENTS_REDUCTION)                      \
    {                                                                                      \
        struct gpuring_cut cut =                                                           \
            reduction(self, GPURING_STAGED_##name, call_##name, GPURING_VALUES_REDUCTION); \
                                                                                           \
        if (GPURING_STAGED_##name == GPURING_STAGED_exscan && self->rank == 0) {           \
            cut.receive.in = GPURING_CUT_ALONE; /* it is left as it was */                 \
        }                                                                                  \
        return cut;                                                                        \
    }                                                                                      \
                                                                                           \
    GPURING_PIPELINE_DEFINE(name, REDUCTION, gpuring_pipeline_large(self, rcount, rtype))

GPURING_PIPELINE_DEFINE(bcast, BCAST, gpuring_pipeline_large(self, rcount, rtype))
GPURING_PIPELINE_DEFINE(reduce, REDUCE, gpuring_pipeline_large(self, rcount, rtype))
DEFINE_REDUCTION(allreduce)
DEFINE_REDUCTION(scan)
DEFINE_REDUCTION(exscan)
