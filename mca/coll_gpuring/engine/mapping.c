/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/engine/mapping.h"

#include <stdlib.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFER_ALIGN 16 /* kernels access aligned packs */

_Static_assert(GPURING_DIRECT_MAX_VECTOR_RANKS - 1 <= GPURING_MAPPED_MOST, "room for all peers");

struct gpuring_mapping {
    const struct gpuring_device_ops *ops;
    struct gpuring_device *device;
    struct gpuring_mapped *table; /* on the GPU */
    uint32_t nimports;
    void *imports[]; /* two for each other rank: the allocations with its input and its output */
};

bool gpuring_mapping_wanted(const struct gpuring_engine_config *config)
{
    const struct gpuring_select_config *select = &config->select;
    bool faster = false;

    for (int i = 0; i < GPURING_MODEL_CHOICE_SIZES; i++) {
        faster = faster || select->model.mapped[i];
    }
    return faster && gpuring_params.map_buffers && select->nnodes == 1 && select->gpu_blocks > 0 &&
           select->time_sliced_ranks == 0 && select->nranks <= GPURING_DIRECT_MAX_VECTOR_RANKS;
}

void gpuring_mapping_enable(struct gpuring_engine *engine)
{
    struct gpuring_select_config *config = &engine->choice_config;
    const struct gpuring_plan *plan = engine->base[GPURING_SET_MAPPED].plan;

    if (plan != NULL) {
        config->channels[GPURING_SET_MAPPED] = gpuring_plan_channels(plan);
        config->slot_bytes[GPURING_SET_MAPPED][GPURING_PROTOCOL_SIMPLE] = GPURING_CHUNK_ALIGN_BYTES;
    }
}

/* Export the allocation that contains a buffer. Returns false if other processes cannot map it. */
static bool offer_buffer(const struct gpuring_engine *engine,
                         const struct gpuring_call_buffer *buffer, const void *address,
                         struct gpuring_device_handle *memory, uint64_t *offset)
{
    void *base;

    if (buffer->at.kind != GPURING_POINTER_DEVICE || buffer->runs != NULL ||
        (uintptr_t) address % BUFFER_ALIGN != 0 ||
        !gpuring_device_reaches(engine->device_ops, engine->device, &buffer->at) ||
        engine->device_ops->allocation(engine->device, address, &base) != GPURING_OK ||
        engine->device_ops->export(engine->device, base, memory) != GPURING_OK) {
        return false;
    }
    *offset = (uint64_t) ((const char *) address - (const char *) base);
    return true;
}

void gpuring_mapping_offer(const struct gpuring_engine *engine, const struct gpuring_call *call,
                           struct gpuring_buffer_offer *offer)
{
    *offer = (struct gpuring_buffer_offer){.able = 0};
    if (!gpuring_transport_maps_all(engine->transports[0]) ||
        !offer_buffer(engine, &call->out, call->output, &offer->output.memory,
                      &offer->output.offset)) {
        return;
    }
    offer->bytes = gpuring_call_bytes(call);
    offer->input = offer->output;
    offer->able =
        call->input == call->output ||
        offer_buffer(engine, &call->in, call->input, &offer->input.memory, &offer->input.offset);
}

/* Map one buffer, and return its address; NULL: that failed. */
static uint8_t *map_buffer(struct gpuring_mapping *mapping,
                           const struct gpuring_device_handle *memory, uint64_t offset,
                           uint64_t bytes)
{
    void **base = &mapping->imports[mapping->nimports];

    if (offset > memory->size || memory->size - offset < bytes ||
        mapping->ops->import(mapping->device, memory, base) != GPURING_OK) {
        return NULL;
    }
    mapping->nimports++;
    return (uint8_t *) *base + offset;
}

/* Map the buffers of all other ranks into the table, which has the order of the connections of a
 * lane (build_direct.c). */
static bool map_all(struct gpuring_mapping *mapping, const struct gpuring_select_config *config,
                    int rank, const struct gpuring_buffer_offer *offers,
                    struct gpuring_mapped *table)
{
    for (int i = 1; i < config->nranks; i++) {
        const struct gpuring_buffer_offer *offer = &offers[(rank + i) % config->nranks];

        table[i - 1].input =
            map_buffer(mapping, &offer->input.memory, offer->input.offset, offer->bytes);
        table[i - 1].output =
            map_buffer(mapping, &offer->output.memory, offer->output.offset, offer->bytes);
        if (table[i - 1].input == NULL || table[i - 1].output == NULL) {
            return false;
        }
    }
    return true;
}

/* Copy the table to the GPU. */
static bool upload_mapped(struct gpuring_mapping *mapping, const struct gpuring_mapped *table,
                          int count)
{
    size_t bytes = (size_t) count * sizeof *table;
    void *memory = NULL;

    if (mapping->ops->alloc_table(mapping->device, bytes, &memory) != GPURING_OK) {
        return false;
    }
    mapping->table = memory;
    return mapping->ops->upload(mapping->device, memory, table, bytes) == GPURING_OK;
}

struct gpuring_mapping *gpuring_mapping_accept(const struct gpuring_engine *engine,
                                               const struct gpuring_buffer_offer *offers)
{
    const struct gpuring_select_config *config = &engine->choice_config;
    int rank = engine->base[GPURING_SET_MAPPED].plan->rank, others = config->nranks - 1;
    struct gpuring_mapped table[GPURING_DIRECT_MAX_VECTOR_RANKS];
    struct gpuring_mapping *mapping;

    for (int i = 0; i < config->nranks; i++) {
        if (!offers[i].able || offers[i].bytes != offers[rank].bytes) {
            return NULL;
        }
    }
    mapping = calloc(1, sizeof *mapping + 2 * (size_t) others * sizeof *mapping->imports);
    if (mapping == NULL) {
        return NULL;
    }
    mapping->ops = engine->device_ops;
    mapping->device = engine->device;
    if (!map_all(mapping, config, rank, offers, table) || !upload_mapped(mapping, table, others)) {
        gpuring_mapping_free(mapping);
        return NULL;
    }
    return mapping;
}

const struct gpuring_mapped *gpuring_mapping_table(const struct gpuring_mapping *mapping)
{
    return mapping->table;
}

void gpuring_mapping_free(struct gpuring_mapping *mapping)
{
    if (mapping == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mapping->nimports; i++) {
        mapping->ops->unimport(mapping->device, mapping->imports[i]);
    }
    mapping->ops->unload(mapping->device, mapping->table);
    free(mapping);
}
