/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define NOT_SEEN SIZE_MAX

size_t gpuring_record_bytes(size_t bytes)
{
    return sizeof(struct gpuring_record) + (bytes + 7) / 8 * 8;
}

void gpuring_record_put(void *record, int rank, const void *block, size_t bytes)
{
    struct gpuring_record head = {.bytes = (uint32_t) bytes, .rank = (uint32_t) rank};
    uint8_t *at = record;

    memset(at + gpuring_record_bytes(bytes) - 8, 0, 8); /* the filling */
    memcpy(at, &head, sizeof head);
    if (bytes > 0) {
        memcpy(at + sizeof head, block, bytes);
    }
}

/* The record at `at`, or 0 if none is there. */
static size_t record_at(const uint8_t *records, size_t bytes, size_t at,
                        struct gpuring_record *head)
{
    if (bytes - at < sizeof *head) {
        return 0;
    }
    memcpy(head, records + at, sizeof *head);
    return gpuring_record_bytes(head->bytes) <= bytes - at ? gpuring_record_bytes(head->bytes) : 0;
}

size_t gpuring_records_prefix(const void *records, size_t bytes, int count)
{
    size_t at = 0;

    for (int i = 0; i < count; i++) {
        struct gpuring_record head;
        size_t next = record_at(records, bytes, at, &head);

        if (next == 0) {
            return 0;
        }
        at += next;
    }
    return at;
}

static int index_records(struct gpuring_gathered *gathered, const uint8_t *records, size_t bytes)
{
    int found = 0;

    for (size_t at = 0; at < bytes;) {
        struct gpuring_record head;
        size_t next = record_at(records, bytes, at, &head);

        if (next == 0 || head.rank >= (uint32_t) gathered->nranks ||
            gathered->offsets[head.rank] != NOT_SEEN) {
            return GPURING_ERR_PEER;
        }
        gathered->offsets[head.rank] = at + sizeof head;
        gathered->sizes[head.rank] = head.bytes;
        at += next;
        found++;
    }
    return found == gathered->nranks ? GPURING_OK : GPURING_ERR_PEER;
}

int gpuring_gathered_take(struct gpuring_gathered *gathered, int nranks, void *records,
                          size_t bytes)
{
    size_t n = (size_t) nranks;
    int status;

    *gathered = (struct gpuring_gathered){.nranks = nranks,
                                          .offsets = malloc(n * sizeof *gathered->offsets),
                                          .sizes = malloc(n * sizeof *gathered->sizes)};
    if (gathered->offsets == NULL || gathered->sizes == NULL) {
        gpuring_error("out of memory for the blocks of %d ranks", nranks);
        gpuring_gathered_clear(gathered);
        return GPURING_ERR_NOMEM;
    }
    for (size_t rank = 0; rank < n; rank++) {
        gathered->offsets[rank] = NOT_SEEN;
    }
    status = index_records(gathered, records, bytes);
    if (status != GPURING_OK) {
        gpuring_error("the blocks of %d ranks do not hold one of each: all ranks must load the "
                      "same version of coll/gpuring",
                      nranks);
        gpuring_gathered_clear(gathered);
        return status;
    }
    gathered->data = records;
    return GPURING_OK;
}

void gpuring_gathered_clear(struct gpuring_gathered *gathered)
{
    free(gathered->data);
    free(gathered->offsets);
    free(gathered->sizes);
    *gathered = (struct gpuring_gathered){.nranks = 0};
}

void *gpuring_gathered_even(const struct gpuring_gathered *gathered, size_t bytes)
{
    uint8_t *blocks = malloc((size_t) gathered->nranks * bytes + 1);

    for (int rank = 0; rank < gathered->nranks; rank++) {
        if (blocks == NULL || gathered->sizes[rank] != bytes) {
            gpuring_error("out of memory for %d blocks of %zu bytes, or rank %d sent %u",
                          gathered->nranks, bytes, rank, gathered->sizes[rank]);
            free(blocks);
            return NULL;
        }
        memcpy(blocks + (size_t) rank * bytes, gpuring_gathered_block(gathered, rank), bytes);
    }
    return blocks;
}
