/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "staged_data.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct data_buffers data;
MPI_Datatype data_types[DATA_TYPES];
MPI_Op data_op;

const struct data_layout data_gaps[DATA_GAPS] = {
    {1, {0}, 0, 1},           {6, {0, 1, 4, 5, 8, 9}, 0, 10}, /* a vector */
    {3, {-3, -2, 1}, -4, 9},                                  /* begins before its address */
    {1, {1}, 0, 3},                                           /* a gap on either side */
    {4, {5, 2, 0, 1}, -1, 7},                                 /* out of order */
};

static const struct data_layout *layouts;
static int types;
static size_t area;
static char *seen;  /* copy of the content of the GPU buffer */
static size_t room; /* size of `seen` in bytes */

const struct data_layout *data_layout_of(MPI_Datatype type)
{
    for (int t = 0; t < types; t++) {
        if (data_types[t] == type) {
            return &layouts[t];
        }
    }
    printf("Bail out! the operation was called with an unknown type\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

/* Associative, but not commutative: a pair of 16 bits each, (factor,
 * term), represents the function x -> factor * x + term. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    uint32_t factor = (a & 0xffff) * (b & 0xffff), term = (a >> 16) * (b & 0xffff) + (b >> 16);

    return (factor & 0xffff) | term << 16;
}

static void combine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const struct data_layout *layout = data_layout_of(*type);
    const uint32_t *a = in;
    uint32_t *b = inout;

    for (int i = 0; i < *count; i++) {
        for (int k = 0; k < layout->n; k++) {
            int at = i * layout->extent + layout->at[k];

            b[at] = compose(a[at], b[at]);
        }
    }
}

static void make_types(void)
{
    int ones[6] = {1, 1, 1, 1, 1, 1};

    data_types[0] = MPI_INT;
    for (int t = 1; t < types; t++) {
        const struct data_layout *layout = &layouts[t];
        MPI_Datatype indexed;

        MPI_Type_indexed(layout->n, ones, layout->at, MPI_INT, &indexed);
        MPI_Type_create_resized(indexed, layout->lower * (MPI_Aint) sizeof(int),
                                layout->extent * (MPI_Aint) sizeof(int), &data_types[t]);
        MPI_Type_free(&indexed);
        MPI_Type_commit(&data_types[t]);
    }
    MPI_Op_create(combine, 0, &data_op);
}

void data_open(const struct data_layout *all, int n, size_t bytes)
{
    layouts = all;
    types = n;
    area = bytes;
    make_types();
    data.gpu_send = harness_alloc(area);
    data.gpu_receive = harness_alloc(area);
    data.host_send = malloc(area);
    data.host_receive = malloc(area);
    data.other_send = malloc(area);
    data.other_receive = malloc(area);
    seen = NULL;
    room = 0;
}

void data_close(void)
{
    harness_free(data.gpu_send);
    harness_free(data.gpu_receive);
    free(data.host_send);
    free(data.host_receive);
    free(data.other_send);
    free(data.other_receive);
    free(seen);
    for (int t = 1; t < types; t++) {
        MPI_Type_free(&data_types[t]);
    }
    MPI_Op_free(&data_op);
}

unsigned data_seed(void)
{
    static unsigned calls;

    return 10 * (unsigned) harness_rank + 1000 * ++calls;
}

/* Return host memory for a copy of GPU memory. */
static char *need(size_t bytes)
{
    if (bytes > room) {
        char *more = realloc(seen, bytes);

        if (more == NULL) {
            printf("Bail out! out of memory\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
            exit(2);
        }
        seen = more;
        room = bytes;
    }
    return seen;
}

void data_fill(char *buffer, bool on_gpu, char *reference, size_t bytes, unsigned seed)
{
    char *values = reference != NULL ? reference : need(bytes);

    for (size_t i = 0; i < bytes / sizeof(int); i++) {
        int value = (int) ((i * 2654435761u + seed * 40503u) >> 7) & 0x3ffff;

        memcpy(values + i * sizeof value, &value, sizeof value);
    }
    if (on_gpu) {
        harness_write(buffer, values, bytes);
    } else {
        memcpy(buffer, values, bytes);
    }
}

bool data_same(const char *buffer, bool on_gpu, const char *reference, size_t bytes)
{
    if (on_gpu) {
        harness_read(need(bytes), buffer, bytes);
    }
    return memcmp(reference, on_gpu ? seen : buffer, bytes) == 0;
}
