/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * An allreduce by messages, to compare with (coll_gpuring_check=data): gather a piece of all ranks'
 * vectors, fold it with plain loops in the order of ranks, piece by piece.
 */
#include "mca/coll_gpuring/serve/serve.h"

#include "kernels/fold.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/util/status.h"

/* A piece of all ranks together, and of one rank, in bytes at most. */
#define ALL_BYTES (UINT64_C(1) << 20)
#define ONE_BYTES (UINT64_C(64) << 10)

void gpuring_fallback_allreduce_start(struct gpuring_fallback_allreduce *fallback,
                                      struct gpuring_oob *oob, const struct gpuring_call *call,
                                      double *scale)
{
    uint64_t bytes = ALL_BYTES / (uint64_t) oob->nranks;

    bytes = bytes > ONE_BYTES ? ONE_BYTES : bytes < call->element_size ? call->element_size : bytes;
    *fallback = (struct gpuring_fallback_allreduce){
        .oob = oob, .call = *call, .scale = scale, .piece = bytes / call->element_size};
}

static uint64_t piece_count(const struct gpuring_fallback_allreduce *fallback)
{
    uint64_t rest = fallback->call.count - fallback->done;

    return rest < fallback->piece ? rest : fallback->piece;
}

/*
 * r0 op r1 op r2 .., by the plain loops of the processor's baseline. Not by MPI's own operations:
 * those of Open MPI 4.1 compute REAL*16 as long double, and with op/avx sums of short integers
 * saturate instead of wrapping.
 */
static void fold(const struct gpuring_fallback_allreduce *fallback,
                 const struct gpuring_gathered *blocks)
{
    gpuring_fold_fn op = gpuring_fold_table_base[fallback->call.type][fallback->call.op];
    uint8_t *sum = blocks->blocks;

    for (int rank = 0; rank < fallback->oob->nranks && fallback->scale != NULL; rank++) {
        gpuring_verify_scale(fallback->scale + fallback->done, gpuring_gathered_block(blocks, rank),
                             piece_count(fallback), fallback->call.type, fallback->call.op,
                             rank == 0);
    }
    for (int rank = 1; rank < fallback->oob->nranks; rank++) {
        op(sum, NULL, sum, gpuring_gathered_block(blocks, rank), piece_count(fallback));
    }
}

/* Give this rank's piece; without one, its failure. */
static void piece_start(struct gpuring_fallback_allreduce *fallback, size_t offset, size_t bytes)
{
    void *mine = gpuring_oob_gather(fallback->oob, bytes);
    int status =
        mine == NULL
            ? GPURING_OK
            : gpuring_process_copy(mine, (const uint8_t *) fallback->call.input + offset, bytes);

    if (status != GPURING_OK) {
        gpuring_oob_fail(fallback->oob, status);
    }
}

/* All pieces are here, unless a rank failed: add them up. */
static int piece_finish(struct gpuring_fallback_allreduce *fallback, uint8_t *output)
{
    struct gpuring_gathered blocks = gpuring_oob_take(fallback->oob);
    int status = GPURING_OK;

    if (blocks.nranks > 0) {
        fold(fallback, &blocks);
        status = gpuring_process_copy(output, blocks.blocks, blocks.bytes);
    }
    gpuring_gathered_clear(&blocks);
    if (status != GPURING_OK) {
        gpuring_oob_fail(fallback->oob, status);
    }
    return status;
}

/*
 * A rank that fails takes part to the end: the others know it after the next piece. After the last
 * one there is none; then they learn it in the next call of this communicator.
 */
int gpuring_fallback_allreduce_progress(struct gpuring_fallback_allreduce *fallback, void *output)
{
    int own = GPURING_OK;

    while (fallback->done < fallback->call.count) {
        size_t offset = fallback->done * fallback->call.element_size;
        size_t bytes = piece_count(fallback) * fallback->call.element_size;
        int status;

        if (!gpuring_oob_busy(fallback->oob)) {
            piece_start(fallback, offset, bytes);
        }
        status = gpuring_oob_progress(fallback->oob);
        if (status != GPURING_OK) {
            return status;
        }
        own = piece_finish(fallback, (uint8_t *) output + offset);
        status = gpuring_oob_failure(fallback->oob, NULL);
        if (status != GPURING_OK) {
            gpuring_oob_forget(fallback->oob);
            return status;
        }
        fallback->done += bytes / fallback->call.element_size;
    }
    return own != GPURING_OK || !gpuring_oob_troubled(fallback->oob) ? own : GPURING_ERR_ABORTED;
}
