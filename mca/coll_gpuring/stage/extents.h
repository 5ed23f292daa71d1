/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Which bytes a collective reads or writes in a buffer: as its arguments say it (a part), and as
 * runs of bytes to be copied.
 */
#ifndef GPURING_STAGE_EXTENTS_H
#define GPURING_STAGE_EXTENTS_H

#include "mca/coll_gpuring/compat.h"

/* Where the blocks of a part begin. */
enum gpuring_placing {
    GPURING_IN_SEQUENCE,    /* block i at i * count elements */
    GPURING_BY_EXTENTS,     /* displacements in extents of the type */
    GPURING_BY_BYTES,       /* displacements in bytes, of type int where counts are */
    GPURING_BY_BYTE_DISPLS, /* displacements in bytes, of type MPI_Aint */
};

/*
 * Blocks first to end - 1 of a buffer, one for each rank or neighbour; first == end: the buffer is
 * not touched and its pointer and types mean nothing. It points to arguments of the call.
 */
struct gpuring_part {
    int first, end;
    bool many;               /* counts, not count */
    size_t count;            /* elements of every block */
    gpuring_counts_t counts; /* elements of each */
    enum gpuring_placing placing;
    gpuring_displs_t displs;
    gpuring_byte_displs_t byte_displs;
    struct ompi_datatype_t *type; /* of every block, or: */
    struct ompi_datatype_t *const *types;
};

/* rows pieces of `bytes` bytes, `stride` apart; the first is at `offset` from the buffer. */
struct gpuring_run {
    ptrdiff_t offset;
    size_t bytes;
    size_t rows;
    ptrdiff_t stride;
};

/* A list of runs; zeroed: empty. Few of them need no memory. */
#define GPURING_RUNS_FEW 4
struct gpuring_runs {
    struct gpuring_run few[GPURING_RUNS_FEW];
    struct gpuring_run *many; /* instead of these, if not NULL */
    size_t count, room;
};

static inline const struct gpuring_run *gpuring_runs_at(const struct gpuring_runs *runs, size_t i)
{
    return &(runs->many != NULL ? runs->many : runs->few)[i];
}

/* Every byte is at an offset from low to high - 1; bytes: so many are touched, 0: none is. */
struct gpuring_span {
    ptrdiff_t low, high;
    size_t bytes;
};

/* Blocks of `count` elements each, from block `first` of `n` that follow one another. */
struct gpuring_part gpuring_part_blocks(int first, int n, size_t count,
                                        struct ompi_datatype_t *type);
static inline struct gpuring_part gpuring_part_whole(size_t count, struct ompi_datatype_t *type)
{
    return gpuring_part_blocks(0, 1, count, type);
}

/* True, and the offset of a byte that the part touches; false if it touches none. */
bool gpuring_part_touches(const struct gpuring_part *part, ptrdiff_t *offset);

/* By the bounds of the types: needs no memory. */
struct gpuring_span gpuring_part_span(const struct gpuring_part *part);
/* That of two parts together. */
struct gpuring_span gpuring_span_join(struct gpuring_span one, struct gpuring_span other);

/* Set every byte of the part to `byte`; needs no memory. */
void gpuring_part_fill(const struct gpuring_part *part, char *buffer, int byte);

/* The runs of a part: bytes that it does not touch are in none. 0 or GPURING_ERR_NOMEM. */
int gpuring_runs_build(struct gpuring_runs *runs, const struct gpuring_part *part);
void gpuring_runs_free(struct gpuring_runs *runs);

#endif
