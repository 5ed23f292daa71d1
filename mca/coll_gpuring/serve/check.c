/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * coll_gpuring_check=data: repeat each allreduce with MPI messages, and compare the results. First
 * the ranks check that all of them make the same call. Then, piece by piece, they gather the
 * vectors of all ranks and fold them with plain loops in the order of the ranks.
 */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/verify.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Maximum size of a piece in bytes, for all ranks together and for one rank. */
#define ALL_BYTES (UINT64_C(1) << 20)
#define ONE_BYTES (UINT64_C(64) << 10)

/* All arrays are in one allocation of host memory. */
struct gpuring_check {
    uint8_t *input; /* a copy of the input, which the operation may overwrite; later the result */
    uint8_t *expected;
    double *scale; /* the magnitudes of verify.h; NULL if results must be equal */
    uint64_t done; /* number of elements in `expected` */
    bool alike;    /* this rank knows that all ranks make the same call */
};

int gpuring_check_prepare(struct gpuring_item *item)
{
    const struct gpuring_call *call = &item->call;
    size_t bytes = gpuring_call_bytes(call);
    size_t scales = gpuring_verify_rounds(call->type, call->op) ? call->count : 0;
    struct gpuring_check *check = malloc(sizeof *check + scales * sizeof *check->scale + 2 * bytes);

    if (check == NULL) {
        gpuring_error("out of memory for coll_gpuring_check=data: it needs three times the vector");
        return GPURING_ERR_NOMEM;
    }
    item->check = check;
    check->scale = scales > 0 ? (double *) (check + 1) : NULL;
    check->input = (uint8_t *) (check + 1) + scales * sizeof *check->scale;
    check->expected = check->input + bytes;
    check->done = 0;
    check->alike = false;
    return gpuring_process_copy(check->input, call->input, bytes);
}

/* Gather a block from each rank. Returns 0 with the result, which the caller must clear (empty
 * after a failure), GPURING_AGAIN, or an error. */
static int gather_blocks(struct gpuring_oob *oob, const void *own, size_t bytes,
                         struct gpuring_gathered *blocks)
{
    int status;

    if (!gpuring_oob_busy(oob)) {
        void *mine = gpuring_oob_gather(oob, bytes);

        if (mine != NULL) {
            memcpy(mine, own, bytes);
        }
    }
    status = gpuring_oob_progress(oob);
    if (status == GPURING_OK) {
        *blocks = gpuring_oob_take(oob);
    }
    return status;
}

/* Gather the words of all ranks' calls, and compare them. Unlike serve/differ.h this includes ranks
 * of other nodes, and ranks that have already ended the operation. */
static int calls_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    struct gpuring_oob *oob = module->oob;
    uint64_t own = item->call.made, other = own;
    struct gpuring_gathered words;
    int rank = 0, status = gather_blocks(oob, &own, sizeof own, &words);

    if (status != GPURING_OK) {
        return status;
    }
    while (rank < words.nranks && other == own) {
        memcpy(&other, gpuring_gathered_block(&words, rank++), sizeof other);
    }
    gpuring_gathered_clear(&words);
    status = gpuring_oob_failure(oob).status;
    if (status == GPURING_OK && other != own) {
        status = gpuring_differ_report(module, own, rank - 1, other);
        gpuring_module_fail(module, status);
    }
    item->check->alike = status == GPURING_OK;
    return status;
}

/* Return the number of elements of the next piece. */
static uint64_t piece_count(const struct gpuring_item *item, int nranks)
{
    uint64_t bytes = ALL_BYTES / (uint64_t) nranks, rest = item->call.count - item->check->done;
    uint64_t piece = (bytes > ONE_BYTES ? ONE_BYTES : bytes) / item->call.element_size;

    piece = piece > 0 ? piece : 1;
    return rest < piece ? rest : piece;
}

/*
 * Compute r0 op r1 op r2 .. with the plain loops for the baseline of the processor. MPI's own
 * operations are not suitable: those of Open MPI 4.1 compute REAL*16 as long double, and in op/avx
 * sums of short integers saturate instead of wrapping.
 */
static void fold_blocks(const struct gpuring_item *item, const struct gpuring_gathered *blocks,
                        uint64_t count)
{
    const struct gpuring_call *call = &item->call;
    gpuring_fold_fn op = gpuring_fold_table_base[call->type][call->op];
    struct gpuring_check *check = item->check;
    uint8_t *sum = blocks->blocks;

    for (int rank = 0; rank < blocks->nranks && check->scale != NULL; rank++) {
        gpuring_verify_scale(check->scale + check->done, gpuring_gathered_block(blocks, rank),
                             count, call->type, call->op, rank == 0);
    }
    for (int rank = 1; rank < blocks->nranks; rank++) {
        op(sum, sum, gpuring_gathered_block(blocks, rank), count);
    }
    memcpy(check->expected + check->done * call->element_size, sum, blocks->bytes);
}

/* Gather and fold the next piece. A rank that fails takes part to the end; the other ranks learn of
 * its failure after the next piece. */
static int piece_progress(struct gpuring_oob *oob, struct gpuring_item *item)
{
    uint64_t count = piece_count(item, oob->nranks);
    size_t offset = item->check->done * item->call.element_size;
    size_t bytes = count * item->call.element_size;
    struct gpuring_gathered blocks;
    int status = gather_blocks(oob, item->check->input + offset, bytes, &blocks);

    if (status != GPURING_OK) {
        return status;
    }
    if (blocks.nranks > 0) {
        fold_blocks(item, &blocks, count);
    }
    gpuring_gathered_clear(&blocks);
    status = gpuring_oob_failure(oob).status;
    item->check->done += status == GPURING_OK ? count : 0;
    return status;
}

static void report_wrong(const mca_coll_gpuring_module_t *module, const struct gpuring_item *item,
                         uint64_t at)
{
    const struct gpuring_call *call = &item->call;
    char where[512], module_text[256], is[64], should[64];

    gpuring_module_text(module, module_text, sizeof module_text);
    snprintf(where, sizeof where, "%s, %s, operation %llu (%s of %s by %s, %s)", module_text,
             call->name, (unsigned long long) module->engine->operation,
             gpuring_op_info(call->op)->name, gpuring_type_info(call->type)->name,
             gpuring_algorithm_text(module->engine->current->choice.algorithm),
             gpuring_protocol_text(module->engine->current->choice.protocol));
    gpuring_verify_text(item->check->expected, at, call->type, should, sizeof should);
    gpuring_verify_text(item->check->input, at, call->type, is, sizeof is);
    gpuring_compat_help("wrong data", gpuring_process.hostname, (int) getpid(), where,
                        (unsigned long long) at, (unsigned long long) call->count, should, is);
}

/* Compare the results. Report a wrong result, and replace it with the expected one. */
static int compare_calls(const mca_coll_gpuring_module_t *module, const struct gpuring_item *item)
{
    const struct gpuring_check *check = item->check;
    size_t bytes = gpuring_call_bytes(&item->call);
    uint64_t at;
    int status = gpuring_process_copy(check->input, item->call.output, bytes);

    if (status != GPURING_OK) {
        return status;
    }
    at = gpuring_verify(check->input, check->expected, check->scale, item->call.count,
                        item->call.type, module->nranks);
    if (at == item->call.count) {
        return GPURING_OK;
    }
    report_wrong(module, item, at);
    status = gpuring_process_copy(item->call.output, check->expected, bytes);
    return status != GPURING_OK ? status : GPURING_ERR_DATA;
}

int gpuring_check_progress(mca_coll_gpuring_module_t *module, struct gpuring_item *item)
{
    if (!item->check->alike) {
        int status = calls_progress(module, item);

        if (status != GPURING_OK) {
            return status;
        }
    }
    while (item->check->done < item->call.count) {
        int status = piece_progress(module->oob, item);

        if (status != GPURING_OK) {
            return status;
        }
    }
    /* The other ranks learn of a failure in the last piece in the next call of the communicator. */
    return gpuring_oob_troubled(module->oob) ? GPURING_ERR_ABORTED : compare_calls(module, item);
}
