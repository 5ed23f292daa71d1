/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The fallback of an allreduce: gather a piece of all ranks' vectors, fold it with
 * plain loops in the order of ranks, piece by piece. For calls that no engine can run any more
 * (oob/oob.h says why they cannot go to the previous module), and to compare with
 * (coll_gpuring_check=data).
 */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdlib.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A piece of all ranks together, and of one rank, in bytes at most. */
#define ALL_BYTES (UINT64_C(1) << 20)
#define ONE_BYTES (UINT64_C(64) << 10)

struct gpuring_fallback_allreduce {
    struct gpuring_oob *oob;
    struct gpuring_call call;
    uint64_t piece; /* elements at once */
    uint64_t done;  /* elements finished */
    double *scale;  /* NULL, or the magnitudes of all elements */
    void *mine;     /* this rank's piece */
    bool gathering;
};

struct gpuring_fallback_allreduce *gpuring_fallback_allreduce_create(struct gpuring_oob *oob)
{
    struct gpuring_fallback_allreduce *created = calloc(1, sizeof *created);

    if (created != NULL) {
        created->oob = oob;
    }
    return created;
}

void gpuring_fallback_allreduce_start(struct gpuring_fallback_allreduce *fallback,
                                      const struct gpuring_call *call, double *scale)
{
    uint64_t bytes = ALL_BYTES / (uint64_t) fallback->oob->nranks;

    if (bytes > ONE_BYTES) {
        bytes = ONE_BYTES;
    }
    if (bytes < call->element_size) {
        bytes = call->element_size;
    }
    fallback->call = *call;
    fallback->scale = scale;
    fallback->done = 0;
    fallback->gathering = false;
    fallback->piece = bytes / call->element_size;
    fallback->mine = malloc(bytes);
    if (fallback->mine == NULL) {
        gpuring_error("out of memory for the fallback of an allreduce");
        gpuring_oob_fail(fallback->oob, GPURING_ERR_NOMEM);
    }
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
    uint8_t *sum = blocks->data + blocks->offsets[0];

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
    if (fallback->mine != NULL) {
        int status = gpuring_process_copy(fallback->mine,
                                          (const uint8_t *) fallback->call.input + offset, bytes);

        if (status != GPURING_OK) {
            gpuring_oob_fail(fallback->oob, status);
        }
    }
    gpuring_oob_gather(fallback->oob, fallback->mine, bytes);
    fallback->gathering = true;
}

/* All pieces are here, unless a rank failed: add them up. */
static int piece_finish(struct gpuring_fallback_allreduce *fallback, uint8_t *output, size_t bytes)
{
    struct gpuring_gathered blocks = gpuring_oob_take(fallback->oob);
    int status = GPURING_OK;

    fallback->gathering = false;
    if (gpuring_oob_troubled(fallback->oob)) {
        return GPURING_OK;
    }
    for (int rank = 0; rank < fallback->oob->nranks && status == GPURING_OK; rank++) {
        status = blocks.sizes[rank] == bytes ? GPURING_OK : GPURING_ERR_PEER;
    }
    if (status == GPURING_OK) {
        fold(fallback, &blocks);
        status = gpuring_process_copy(output, gpuring_gathered_block(&blocks, 0), bytes);
    }
    gpuring_gathered_clear(&blocks);
    if (status != GPURING_OK) {
        gpuring_oob_fail(fallback->oob, status);
    }
    return status;
}

/*
 * A rank that fails takes part to the end: the others know it after the next piece. After the last
 * one there is none; then the next call of this communicator tells them.
 */
int gpuring_fallback_allreduce_progress(struct gpuring_fallback_allreduce *fallback, void *output)
{
    int own = GPURING_OK;

    while (fallback->done < fallback->call.count) {
        size_t offset = fallback->done * fallback->call.element_size;
        size_t bytes = piece_count(fallback) * fallback->call.element_size;
        int status;

        if (!fallback->gathering) {
            piece_start(fallback, offset, bytes);
        }
        status = gpuring_oob_progress(fallback->oob);
        if (status != GPURING_OK) {
            return status;
        }
        own = piece_finish(fallback, (uint8_t *) output + offset, bytes);
        status = gpuring_oob_failure(fallback->oob, NULL);
        if (status != GPURING_OK) {
            gpuring_oob_forget(fallback->oob);
            return status;
        }
        fallback->done += bytes / fallback->call.element_size;
    }
    return own != GPURING_OK || !gpuring_oob_troubled(fallback->oob) ? own : GPURING_ERR_ABORTED;
}

void gpuring_fallback_allreduce_stop(struct gpuring_fallback_allreduce *fallback)
{
    if (fallback != NULL) {
        free(fallback->mine);
        fallback->mine = NULL;
    }
}

void gpuring_fallback_allreduce_free(struct gpuring_fallback_allreduce *fallback)
{
    gpuring_fallback_allreduce_stop(fallback);
    free(fallback);
}
