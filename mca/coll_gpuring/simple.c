/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/simple.h"

#include <stdlib.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/compare.h"
#include "mca/coll_gpuring/exchange.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* A piece of all ranks together, and of one rank, in bytes at most. */
#define ALL_BYTES (UINT64_C(1) << 20)
#define ONE_BYTES (UINT64_C(64) << 10)

struct gpuring_simple {
    struct ompi_communicator_t *comm;
    struct gpuring_call call;
    uint64_t piece; /* elements at once */
    uint64_t done;  /* elements finished */
    double *scale;  /* NULL, or the magnitudes of all elements */
    void *staged;   /* this rank's piece */
    struct gpuring_exchange *exchange;
};

int gpuring_simple_start(struct ompi_communicator_t *comm, const struct gpuring_call *call,
                         double *scale, struct gpuring_simple **simple)
{
    struct gpuring_simple *created = calloc(1, sizeof *created);
    uint64_t bytes = ALL_BYTES / (uint64_t) ompi_comm_size(comm);

    if (bytes > ONE_BYTES) {
        bytes = ONE_BYTES;
    }
    if (bytes < call->element_size) {
        bytes = call->element_size;
    }
    if (created != NULL) {
        created->comm = comm;
        created->call = *call;
        created->scale = scale;
        created->piece = bytes / call->element_size;
        created->staged = malloc(bytes);
    }
    if (created == NULL || created->staged == NULL) {
        gpuring_error("out of memory for the simple path");
        free(created);
        return GPURING_ERR_NOMEM;
    }
    *simple = created;
    return GPURING_OK;
}

static uint64_t piece_count(const struct gpuring_simple *simple)
{
    uint64_t rest = simple->call.count - simple->done;

    return rest < simple->piece ? rest : simple->piece;
}

/*
 * r0 op r1 op r2 .., by the plain loops of the processor's baseline. Not by MPI's own operations:
 * those of Open MPI 4.1 compute REAL*16 as long double, and with op/avx sums of short integers
 * saturate instead of wrapping.
 */
static void fold(const struct gpuring_simple *simple, uint8_t *blocks, size_t bytes)
{
    gpuring_fold_fn op = gpuring_fold_table_base[simple->call.type][simple->call.op];
    int n = ompi_comm_size(simple->comm);

    for (int rank = 0; rank < n && simple->scale != NULL; rank++) {
        gpuring_compare_scale(simple->scale + simple->done, blocks + (size_t) rank * bytes,
                              piece_count(simple), simple->call.type, simple->call.op, rank == 0);
    }
    for (int rank = 1; rank < n; rank++) {
        op(blocks, NULL, blocks, blocks + (size_t) rank * bytes, piece_count(simple));
    }
}

int gpuring_simple_progress(struct gpuring_simple *simple, void *output)
{
    while (simple->done < simple->call.count) {
        size_t offset = simple->done * simple->call.element_size;
        size_t bytes = piece_count(simple) * simple->call.element_size;
        uint8_t *blocks;
        int status = GPURING_OK;

        if (simple->exchange == NULL) {
            status = gpuring_process_copy(simple->staged,
                                          (const uint8_t *) simple->call.input + offset, bytes);
            if (status == GPURING_OK) {
                status = gpuring_exchange_start_even(simple->comm, simple->staged, bytes,
                                                     &simple->exchange);
            }
        }
        if (status == GPURING_OK) {
            status = gpuring_exchange_progress(simple->exchange);
        }
        if (status != GPURING_OK) {
            return status;
        }
        blocks = (uint8_t *) (uintptr_t) gpuring_exchange_data(simple->exchange);
        fold(simple, blocks, bytes);
        status = gpuring_process_copy((uint8_t *) output + offset, blocks, bytes);
        gpuring_exchange_free(simple->exchange);
        simple->exchange = NULL;
        if (status != GPURING_OK) {
            return status;
        }
        simple->done += bytes / simple->call.element_size;
    }
    return GPURING_OK;
}

void gpuring_simple_free(struct gpuring_simple *simple)
{
    if (simple == NULL) {
        return;
    }
    gpuring_exchange_free(simple->exchange);
    free(simple->staged);
    free(simple);
}

int gpuring_simple_awaits(const struct gpuring_simple *simple)
{
    return simple->exchange != NULL ? gpuring_exchange_awaits(simple->exchange) : -1;
}
