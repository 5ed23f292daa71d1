/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Mapped buffers of persistent allreduces on the GPUs of a node. MPI_Allreduce_init fixes the
 * buffers until the request is freed, so each rank maps those of all others once. In each start,
 * the kernels read the inputs and store the results in the outputs of all ranks, and no data passes
 * through slots (gpuring_work.mapped). Calls that are not persistent map nothing, because mapping
 * takes the driver milliseconds.
 *
 * Each rank offers its buffers, the caller exchanges the offers, and each rank accepts them. If any
 * rank cannot offer its buffers, or cannot map those of others, no rank uses mapped buffers. No
 * MPI. Functions may be called from any thread, but from one at a time for each mapping.
 *
 * A rank may free its request, and then the buffers, while others still have them mapped. CUDA's
 * manual calls this undefined. We rely on the driver to keep the memory until the last process has
 * unmapped it, as UCX does.
 */
#ifndef GPURING_ENGINE_MAPPING_H
#define GPURING_ENGINE_MAPPING_H

#include "mca/coll_gpuring/engine/engine.h"

struct gpuring_mapping;

/* A rank's buffers. The layout is fixed, because it is sent between ranks of a node. */
struct gpuring_buffer_offer {
    uint64_t able;  /* 0: the rank cannot offer its buffers */
    uint64_t bytes; /* of each buffer */
    struct {
        struct gpuring_device_handle memory; /* the allocation with the buffer */
        uint64_t offset;                     /* of the buffer, in bytes */
    } input, output;                         /* in place: equal */
};

/* Return true if calls of a communicator may use mapped buffers: its GPUs are on one node and work
 * at the same time, and the cost model predicts for some sizes that this is faster. */
bool gpuring_mapping_wanted(const struct gpuring_engine_config *config);

/* Let calls select mapped buffers if the engine has the plan. Its slots have the smallest size,
 * because they carry no data. */
void gpuring_mapping_enable(struct gpuring_engine *engine);

/* Offer the buffers of a call on the engine's device. */
void gpuring_mapping_offer(const struct gpuring_engine *engine, const struct gpuring_call *call,
                           struct gpuring_buffer_offer *offer);

/* Map the buffers of all other ranks. offers: of all ranks, in rank order. Returns NULL if
 * that fails. */
struct gpuring_mapping *gpuring_mapping_accept(const struct gpuring_engine *engine,
                                               const struct gpuring_buffer_offer *offers);

/* Return the mapped buffers, for gpuring_work.mapped. */
const struct gpuring_mapped *gpuring_mapping_table(const struct gpuring_mapping *mapping);

/* Unmap the buffers, after the last operation that uses them. NULL is allowed. */
void gpuring_mapping_free(struct gpuring_mapping *mapping);

#endif
