/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What a gathering brings: one block of bytes from each rank, of any sizes. It travels as a
 * sequence of records, in any order:
 *
 *   | bytes (4) | rank (4) | the block, filled up to a multiple of 8 | bytes | rank | ...
 *
 * Pure functions; no MPI.
 */
#ifndef GPURING_OOB_GATHERED_H
#define GPURING_OOB_GATHERED_H

#include <stddef.h>
#include <stdint.h>

struct gpuring_record {
    uint32_t bytes; /* of the block, without filling */
    uint32_t rank;
};

/* Bytes of a record with a block of `bytes`. */
size_t gpuring_record_bytes(size_t bytes);

/* Write a record of that size. */
void gpuring_record_put(void *record, int rank, const void *block, size_t bytes);

/* Bytes of the first `count` records of a sequence, or 0 if it has less. */
size_t gpuring_records_prefix(const void *records, size_t bytes, int count);

/* Blocks by rank: rank r's at data + offsets[r], its size is sizes[r]; starts on multiples of 8. */
struct gpuring_gathered {
    int nranks;
    uint8_t *data;
    size_t *offsets; /* [nranks] */
    uint32_t *sizes; /* [nranks] */
};

/*
 * Take over a sequence (from malloc) that must hold exactly one record of each rank. 0; or
 * GPURING_ERR_NOMEM, or GPURING_ERR_PEER with a log line: then the sequence stays the caller's.
 */
int gpuring_gathered_take(struct gpuring_gathered *gathered, int nranks, void *records,
                          size_t bytes);
void gpuring_gathered_clear(struct gpuring_gathered *gathered);

/* The blocks in the order of the ranks without gaps, for the caller to free; NULL with a log line:
 * no memory, or a block that is not of `bytes` bytes. */
void *gpuring_gathered_even(const struct gpuring_gathered *gathered, size_t bytes);

static inline const void *gpuring_gathered_block(const struct gpuring_gathered *gathered, int rank)
{
    return gathered->data + gathered->offsets[rank];
}

#endif
