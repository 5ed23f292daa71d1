/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/fallback_allreduce.h"

#include <stdlib.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/oob/exchange.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A piece of all ranks together, and of one rank, in bytes at most. */
#define ALL_BYTES (UINT64_C(1) << 20)
#define ONE_BYTES (UINT64_C(64) << 10)

struct gpuring_fallback_allreduce {
    struct gpuring_exchange *exchange;
    int nranks;
    struct gpuring_call call;
    uint64_t piece; /* elements at once */
    uint64_t done;  /* elements finished */
    double *scale;  /* NULL, or the magnitudes of all elements */
    void *staged;   /* this rank's piece */
    bool gathering;
};

struct gpuring_fallback_allreduce *gpuring_fallback_allreduce_create(
    struct gpuring_exchange *exchange)
{
    struct gpuring_fallback_allreduce *created = calloc(1, sizeof *created);

    if (created != NULL) {
        created->exchange = exchange;
    }
    return created;
}

void gpuring_fallback_allreduce_start(struct gpuring_fallback_allreduce *simple,
                                      const struct gpuring_call *call, double *scale)
{
    int nranks = gpuring_exchange_ranks(simple->exchange);
    uint64_t bytes = ALL_BYTES / (uint64_t) nranks;

    if (bytes > ONE_BYTES) {
        bytes = ONE_BYTES;
    }
    if (bytes < call->element_size) {
        bytes = call->element_size;
    }
    simple->nranks = nranks;
    simple->call = *call;
    simple->scale = scale;
    simple->done = 0;
    simple->gathering = false;
    simple->piece = bytes / call->element_size;
    simple->staged = malloc(bytes);
    if (simple->staged == NULL) {
        gpuring_error("out of memory for the simple path");
        gpuring_exchange_fail(simple->exchange, GPURING_ERR_NOMEM);
    }
}

static uint64_t piece_count(const struct gpuring_fallback_allreduce *simple)
{
    uint64_t rest = simple->call.count - simple->done;

    return rest < simple->piece ? rest : simple->piece;
}

/*
 * r0 op r1 op r2 .., by the plain loops of the processor's baseline. Not by MPI's own operations:
 * those of Open MPI 4.1 compute REAL*16 as long double, and with op/avx sums of short integers
 * saturate instead of wrapping.
 */
static void fold(const struct gpuring_fallback_allreduce *simple,
                 const struct gpuring_gathered *blocks)
{
    gpuring_fold_fn op = gpuring_fold_table_base[simple->call.type][simple->call.op];
    uint8_t *sum = blocks->data + blocks->offsets[0];

    for (int rank = 0; rank < simple->nranks && simple->scale != NULL; rank++) {
        gpuring_verify_scale(simple->scale + simple->done, gpuring_gathered_block(blocks, rank),
                             piece_count(simple), simple->call.type, simple->call.op, rank == 0);
    }
    for (int rank = 1; rank < simple->nranks; rank++) {
        op(sum, NULL, sum, gpuring_gathered_block(blocks, rank), piece_count(simple));
    }
}

/* Give this rank's piece; without one, its failure. */
static void piece_start(struct gpuring_fallback_allreduce *simple, size_t offset, size_t bytes)
{
    if (simple->staged != NULL) {
        int status = gpuring_process_copy(simple->staged,
                                          (const uint8_t *) simple->call.input + offset, bytes);

        if (status != GPURING_OK) {
            gpuring_exchange_fail(simple->exchange, status);
        }
    }
    gpuring_exchange_gather(simple->exchange, simple->staged, bytes);
    simple->gathering = true;
}

/* All pieces are here, unless a rank failed: add them up. */
static int piece_finish(struct gpuring_fallback_allreduce *simple, uint8_t *output, size_t bytes)
{
    struct gpuring_gathered blocks = gpuring_exchange_take(simple->exchange);
    int status = GPURING_OK;

    simple->gathering = false;
    if (gpuring_exchange_troubled(simple->exchange)) {
        return GPURING_OK;
    }
    for (int rank = 0; rank < simple->nranks && status == GPURING_OK; rank++) {
        status = blocks.sizes[rank] == bytes ? GPURING_OK : GPURING_ERR_PEER;
    }
    if (status == GPURING_OK) {
        fold(simple, &blocks);
        status = gpuring_process_copy(output, gpuring_gathered_block(&blocks, 0), bytes);
    }
    gpuring_gathered_clear(&blocks);
    if (status != GPURING_OK) {
        gpuring_exchange_fail(simple->exchange, status);
    }
    return status;
}

/*
 * A rank that fails takes part to the end: the others know it after the next piece. After the last
 * one there is none; then the next call of this communicator tells them.
 */
int gpuring_fallback_allreduce_progress(struct gpuring_fallback_allreduce *simple, void *output)
{
    int own = GPURING_OK;

    while (simple->done < simple->call.count) {
        size_t offset = simple->done * simple->call.element_size;
        size_t bytes = piece_count(simple) * simple->call.element_size;
        int status;

        if (!simple->gathering) {
            piece_start(simple, offset, bytes);
        }
        status = gpuring_exchange_progress(simple->exchange);
        if (status != GPURING_OK) {
            return status;
        }
        own = piece_finish(simple, (uint8_t *) output + offset, bytes);
        status = gpuring_exchange_failure(simple->exchange, NULL);
        if (status != GPURING_OK) {
            gpuring_exchange_forget(simple->exchange);
            return status;
        }
        simple->done += bytes / simple->call.element_size;
    }
    return own != GPURING_OK || !gpuring_exchange_troubled(simple->exchange) ? own
                                                                             : GPURING_ERR_ABORTED;
}

void gpuring_fallback_allreduce_stop(struct gpuring_fallback_allreduce *simple)
{
    if (simple != NULL) {
        free(simple->staged);
        simple->staged = NULL;
    }
}

void gpuring_fallback_allreduce_free(struct gpuring_fallback_allreduce *simple)
{
    gpuring_fallback_allreduce_stop(simple);
    free(simple);
}

int gpuring_fallback_allreduce_awaits(const struct gpuring_fallback_allreduce *simple)
{
    return simple->gathering ? gpuring_exchange_awaits(simple->exchange) : -1;
}
