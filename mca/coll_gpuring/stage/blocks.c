/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls with a block for each rank: a chunk is a piece of every block, of bytes or, of a reduction,
 * of elements. Types may differ between ranks, but not the bytes of a block.
 */
#include <stdlib.h>

#include "mca/coll_gpuring/stage/pipeline.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static ptrdiff_t extent_of(const struct ompi_datatype_t *type)
{
    return type->super.ub - type->super.lb;
}

/* This rank's block, alone in its buffer. */
static struct gpuring_cut_buffer alone(const void *user, const struct ompi_datatype_t *type)
{
    return (struct gpuring_cut_buffer){.user = gpuring_cut_at(user, type->super.true_lb)};
}

/* Those of all ranks, one after the other. */
static struct gpuring_cut_buffer blocks(const void *user, gpuring_count_t count,
                                        const struct ompi_datatype_t *type)
{
    struct gpuring_cut_buffer buffer = alone(user, type);

    buffer.stride = (ptrdiff_t) count * extent_of(type);
    return buffer;
}

/* A call that moves blocks of as many bytes each. */
static struct gpuring_cut bytes_of_blocks(mca_coll_gpuring_module_t *self, enum gpuring_staged what,
                                          gpuring_cut_call_fn call, size_t each)
{
    return (struct gpuring_cut){
        .module = self,
        .what = what,
        .call = call,
        .possible = true,
        .blocks = self->nranks,
        .own = self->rank,
        .each = each,
        .size = 1,
        .extent = 1,
    };
}

/* What a rank gives in a gathering: its send buffer, or its block of the receive buffer in place.
 */
static void give(struct gpuring_cut *cut, const void *sbuf, gpuring_count_t scount,
                 const struct ompi_datatype_t *stype)
{
    if (sbuf == MPI_IN_PLACE) {
        cut->send.user = sbuf;
        cut->receive.in = GPURING_CUT_MINE;
    } else {
        cut->send = alone(sbuf, stype);
        cut->send.in = GPURING_CUT_ALONE;
        cut->possible = cut->possible && gpuring_cut_contiguous(scount, stype);
    }
}

/* What a rank gets from all ranks, and what it has for each of them. */
static void collect(struct gpuring_cut *cut, void *rbuf, gpuring_count_t rcount,
                    const struct ompi_datatype_t *rtype)
{
    cut->receive = blocks(rbuf, rcount, rtype);
    cut->receive.out = GPURING_CUT_ALL;
    cut->possible = cut->possible && gpuring_cut_contiguous(rcount, rtype);
}

static void distribute(struct gpuring_cut *cut, const void *sbuf, gpuring_count_t scount,
                       const struct ompi_datatype_t *stype)
{
    cut->send = blocks(sbuf, scount, stype);
    cut->send.in = GPURING_CUT_ALL;
    cut->possible = cut->possible && gpuring_cut_contiguous(scount, stype);
}

static gpuring_count_t units_of_each(const struct gpuring_cut *cut, size_t chunk)
{
    return (gpuring_count_t) gpuring_cut_units(cut, cut->own, chunk);
}

/* A chunk's call, of bytes; behind the name what follows the types. */
#define DEFINE_CALL(name, ...)                                                                 \
    static int call_##name(const struct gpuring_cut *cut, const void *send, void *receive,     \
                           size_t chunk)                                                       \
    {                                                                                          \
        gpuring_count_t bytes = units_of_each(cut, chunk);                                     \
                                                                                               \
        return GPURING_CALL_PREVIOUS(cut->module, name, send, bytes, MPI_BYTE, receive, bytes, \
                                     MPI_BYTE, __VA_ARGS__);                                   \
    }

DEFINE_CALL(allgather, cut->module->comm)
DEFINE_CALL(alltoall, cut->module->comm)
DEFINE_CALL(gather, cut->root, cut->module->comm)
DEFINE_CALL(scatter, cut->root, cut->module->comm)

static struct gpuring_cut cut_allgather(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_EXCHANGE)
{
    struct gpuring_cut cut = bytes_of_blocks(self, GPURING_STAGED_allgather, call_allgather,
                                             gpuring_cut_bytes(rcount, rtype));

    collect(&cut, rbuf, rcount, rtype);
    give(&cut, sbuf, scount, stype);
    return cut;
}

static struct gpuring_cut cut_alltoall(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_EXCHANGE)
{
    struct gpuring_cut cut = bytes_of_blocks(self, GPURING_STAGED_alltoall, call_alltoall,
                                             gpuring_cut_bytes(rcount, rtype));

    collect(&cut, rbuf, rcount, rtype);
    if (sbuf == MPI_IN_PLACE) {
        cut.send.user = sbuf;
        cut.receive.in = GPURING_CUT_ALL;
    } else {
        distribute(&cut, sbuf, scount, stype);
    }
    return cut;
}

/* Bytes of a block: the root knows them by its arguments for all blocks, which say nothing
 * elsewhere. 0 where nothing is cut. */
static size_t rooted_each(const mca_coll_gpuring_module_t *self, int root,
                          gpuring_count_t all_count, const struct ompi_datatype_t *all_type,
                          gpuring_count_t own_count, const struct ompi_datatype_t *own_type)
{
    if (!self->stages || OMPI_COMM_IS_INTER(self->comm)) {
        return 0;
    }
    return root == self->rank ? gpuring_cut_bytes(all_count, all_type)
                              : gpuring_cut_bytes(own_count, own_type);
}

static struct gpuring_cut cut_gather(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_ROOTED)
{
    struct gpuring_cut cut = bytes_of_blocks(self, GPURING_STAGED_gather, call_gather,
                                             rooted_each(self, root, rcount, rtype, scount, stype));

    cut.root = root;
    cut.receive.user = rbuf;
    if (root == self->rank) {
        collect(&cut, rbuf, rcount, rtype);
    }
    give(&cut, sbuf, scount, stype);
    return cut;
}

static struct gpuring_cut cut_scatter(mca_coll_gpuring_module_t *self, GPURING_ARGUMENTS_ROOTED)
{
    struct gpuring_cut cut = bytes_of_blocks(self, GPURING_STAGED_scatter, call_scatter,
                                             rooted_each(self, root, scount, stype, rcount, rtype));

    cut.root = root;
    cut.send.user = sbuf;
    cut.receive.user = rbuf;
    if (root == self->rank) {
        distribute(&cut, sbuf, scount, stype);
    }
    if (rbuf != MPI_IN_PLACE) {
        cut.possible = cut.possible && gpuring_cut_contiguous(rcount, rtype);
        cut.receive = alone(rbuf, rtype);
        cut.receive.out = GPURING_CUT_ALONE;
    }
    return cut;
}

/* Reductions: the element types are the same on all ranks. Gaps are not worth their many copies. */
static struct gpuring_cut scattered_reduction(mca_coll_gpuring_module_t *self,
                                              enum gpuring_staged what, gpuring_cut_call_fn call,
                                              const void *sbuf, void *rbuf,
                                              struct ompi_datatype_t *type, struct ompi_op_t *op)
{
    bool in_place = sbuf == MPI_IN_PLACE;

    return (struct gpuring_cut){
        .module = self,
        .what = what,
        .call = call,
        .possible = gpuring_cut_contiguous(2, type),
        .blocks = self->nranks,
        .own = self->rank,
        .size = type->super.size,
        .extent = (size_t) extent_of(type),
        .lead = type->super.true_lb,
        .send = {.user = sbuf, .in = in_place ? GPURING_CUT_NOTHING : GPURING_CUT_ALL},
        .receive = {.user = rbuf,
                    .in = in_place ? GPURING_CUT_ALL : GPURING_CUT_NOTHING,
                    .out = GPURING_CUT_ALONE},
        .type = type,
        .op = op,
    };
}

static int call_reduce_scatter_block(const struct gpuring_cut *cut, const void *send, void *receive,
                                     size_t chunk)
{
    return GPURING_CALL_PREVIOUS(cut->module, reduce_scatter_block, send, receive,
                                 units_of_each(cut, chunk), cut->type, cut->op, cut->module->comm);
}

static struct gpuring_cut cut_reduce_scatter_block(mca_coll_gpuring_module_t *self,
                                                   GPURING_ARGUMENTS_REDUCTION)
{
    struct gpuring_cut cut = scattered_reduction(self, GPURING_STAGED_reduce_scatter_block,
                                                 call_reduce_scatter_block, sbuf, rbuf, rtype, op);

    cut.each = (size_t) rcount;
    cut.send.stride = cut.receive.stride = (ptrdiff_t) rcount * extent_of(rtype);
    return cut;
}

/* Elements of all blocks together. */
static size_t sum(const mca_coll_gpuring_module_t *self, gpuring_counts_t counts)
{
    size_t elements = 0;

    for (int i = 0; i < self->nranks; i++) {
        elements += GPURING_COUNT_AT(counts, i);
    }
    return elements;
}

/* What the chunks need to know of blocks that differ in their lengths. */
struct lengths {
    ptrdiff_t *offsets;
    size_t *counts;
};

/* Without memory, {NULL}, this rank cannot take part. */
static struct lengths lengths_for(struct gpuring_cut *cut)
{
    size_t n = (size_t) cut->blocks;
    struct lengths lengths = {NULL, NULL};

    cut->lengths = malloc(n * (sizeof *lengths.offsets + sizeof *lengths.counts + 2 * sizeof(int)));
    if (cut->lengths == NULL) {
        gpuring_error("out of memory for the counts of a collective of %d ranks", cut->blocks);
        cut->failed = GPURING_ERR_NOMEM;
        return lengths;
    }
    lengths.offsets = cut->lengths;
    lengths.counts = (size_t *) (lengths.offsets + n);
    cut->counts = lengths.counts;
    cut->chunk_counts = (int *) (lengths.counts + n);
    cut->chunk_displs = cut->chunk_counts + n;
    return lengths;
}

/* The pieces of a chunk follow one another. */
static void count_chunk(const struct gpuring_cut *cut, size_t chunk)
{
    int displ = 0;

    for (int i = 0; i < cut->blocks; i++) {
        cut->chunk_counts[i] = (int) gpuring_cut_units(cut, i, chunk);
        cut->chunk_displs[i] = displ;
        displ += cut->chunk_counts[i];
    }
}

static int call_allgatherv(const struct gpuring_cut *cut, const void *send, void *receive,
                           size_t chunk)
{
    gpuring_counts_t counts;
    gpuring_displs_t displs;

    count_chunk(cut, chunk);
    GPURING_COUNTS_OF(&counts, cut->chunk_counts);
    GPURING_DISPLS_OF(&displs, cut->chunk_displs);
    return GPURING_CALL_PREVIOUS(cut->module, allgatherv, send, units_of_each(cut, chunk), MPI_BYTE,
                                 receive, counts, displs, MPI_BYTE, cut->module->comm);
}

static struct gpuring_cut cut_allgatherv(mca_coll_gpuring_module_t *self,
                                         GPURING_ARGUMENTS_ALLGATHERV)
{
    struct gpuring_cut cut = bytes_of_blocks(self, GPURING_STAGED_allgatherv, call_allgatherv, 0);
    struct lengths lengths = lengths_for(&cut);

    for (int i = 0; i < self->nranks && cut.counts != NULL; i++) {
        lengths.counts[i] = GPURING_COUNT_AT(rcounts, i) * rtype->super.size;
        lengths.offsets[i] = GPURING_DISPL_AT(rdispls, i) * extent_of(rtype);
    }
    cut.possible = gpuring_cut_contiguous(2, rtype);
    cut.receive = alone(rbuf, rtype);
    cut.receive.offsets = lengths.offsets;
    cut.receive.out = GPURING_CUT_ALL;
    give(&cut, sbuf, scount, stype);
    return cut;
}

static int call_reduce_scatter(const struct gpuring_cut *cut, const void *send, void *receive,
                               size_t chunk)
{
    gpuring_counts_t counts;

    count_chunk(cut, chunk);
    GPURING_COUNTS_OF(&counts, cut->chunk_counts);
    return GPURING_CALL_PREVIOUS(cut->module, reduce_scatter, send, receive, counts, cut->type,
                                 cut->op, cut->module->comm);
}

/* In place, results go where the input of earlier chunks was: chunk k's ends before (k + 1) * step,
 * and no later input begins before that. */
static struct gpuring_cut cut_reduce_scatter(mca_coll_gpuring_module_t *self,
                                             GPURING_ARGUMENTS_REDUCE_SCATTER)
{
    struct gpuring_cut cut = scattered_reduction(self, GPURING_STAGED_reduce_scatter,
                                                 call_reduce_scatter, sbuf, rbuf, rtype, op);
    struct lengths lengths = lengths_for(&cut);
    ptrdiff_t offset = 0;

    for (int i = 0; i < self->nranks && cut.counts != NULL; i++) {
        lengths.counts[i] = GPURING_COUNT_AT(rcounts, i);
        lengths.offsets[i] = offset;
        offset += (ptrdiff_t) lengths.counts[i] * extent_of(rtype);
    }
    cut.send.offsets = cut.receive.offsets = lengths.offsets;
    return cut;
}

/* Blocks of so many bytes at each rank, or in all; the counts are the other group's between groups.
 */
#define LARGE_EACH(bytes) gpuring_cut_large(self, self->nranks, (size_t) self->nranks *(bytes))
#define LARGE_SUM()               \
    (!OMPI_COMM_IS_INTER(comm) && \
     gpuring_cut_large(self, self->nranks, sum(self, rcounts) * rtype->super.size))

GPURING_PIPELINE_DEFINE(allgather, EXCHANGE, LARGE_EACH(gpuring_cut_bytes(rcount, rtype)))
GPURING_PIPELINE_DEFINE(alltoall, EXCHANGE, LARGE_EACH(gpuring_cut_bytes(rcount, rtype)))
GPURING_PIPELINE_DEFINE(gather, ROOTED,
                        LARGE_EACH(rooted_each(self, root, rcount, rtype, scount, stype)))
GPURING_PIPELINE_DEFINE(scatter, ROOTED,
                        LARGE_EACH(rooted_each(self, root, scount, stype, rcount, rtype)))
GPURING_PIPELINE_DEFINE(reduce_scatter_block, REDUCTION,
                        LARGE_EACH(gpuring_cut_bytes(rcount, rtype)))
GPURING_PIPELINE_DEFINE(allgatherv, ALLGATHERV, LARGE_SUM())
GPURING_PIPELINE_DEFINE(reduce_scatter, REDUCE_SCATTER, LARGE_SUM())
