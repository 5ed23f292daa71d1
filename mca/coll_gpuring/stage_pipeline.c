/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Large blocking calls, cut into chunks of coll_gpuring_stage_size bytes, so that copies and
 * messages overlap and pinned memory stays bounded:
 *
 *     chunk       0    1    2    3
 *     copy in     0    1    2    3
 *     call             0    1    2    3
 *     copy out              0    1    2    3
 *
 * One call of many parts is not what one whole call of another rank can be matched with, and ranks
 * may differ in where their buffers are. So the ranks agree on it first, in a small allreduce,
 * whenever a call is large enough, which is the same on all ranks, and afterwards on whether all
 * copies went well. It costs microseconds in a call that takes milliseconds.
 */
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/memory.h"
#include "mca/coll_gpuring/stage.h"
#include "mca/coll_gpuring/stage_pipeline.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define SLOTS 3 /* chunks under way: copied in, called, copied out */

/* A call in chunks. Chunk k is of units k * step to (k + 1) * step - 1. */
struct pipeline {
    mca_coll_gpuring_module_t *module;
    size_t units; /* elements; bytes of a broadcast */
    size_t step;
    void (*describe)(struct gpuring_stage *stage, const struct pipeline *pipeline, size_t first,
                     size_t count);
    int (*call)(const struct pipeline *pipeline, const struct gpuring_stage *stage, size_t count);
    const void *sbuf;
    void *rbuf;
    struct ompi_datatype_t *type;
    struct ompi_op_t *op;
    int root;
};

struct slot {
    struct gpuring_stage stage;
    size_t count;
    bool applies, filling, returning; /* staged; its copies were started */
};

/* Do all ranks see that the call can be cut, and does any stage? */
static int agree(mca_coll_gpuring_module_t *module, bool stages, bool can_cut, bool *cut)
{
    int mine[2] = {stages, !can_cut}, all[2] = {0, 1};
    int result =
        GPURING_CALL_PREVIOUS(module, allreduce, mine, all, 2, MPI_INT, MPI_MAX, module->comm);

    *cut = all[0] != 0 && all[1] == 0;
    return result;
}

static void keep_first(int *failed, int status)
{
    *failed = *failed == GPURING_OK ? status : *failed;
}

/* Begin to copy a chunk in. MPI error code: without memory this rank cannot take part. */
static int slot_fill(struct slot *slot, const struct pipeline *pipeline, size_t chunk)
{
    size_t first = chunk * pipeline->step, left = pipeline->units - first;
    int status = GPURING_OK;

    slot->count = left < pipeline->step ? left : pipeline->step;
    pipeline->describe(&slot->stage, pipeline, first, slot->count);
    slot->applies = gpuring_memory_possible() && gpuring_stage_applies(&slot->stage);
    if (slot->applies) {
        slot->stage.module = pipeline->module;
        slot->returning = false;
        status = gpuring_stage_reserve(&slot->stage);
        slot->filling = status == GPURING_OK && slot->stage.failed == GPURING_OK &&
                        gpuring_stage_start_in(&slot->stage) == GPURING_OK;
    }
    return gpuring_compat_error(status);
}

/* The copy in has ended; a second try if it failed. */
static void slot_wait(struct slot *slot)
{
    if (slot->applies && (!slot->filling || gpuring_stage_wait(&slot->stage) != GPURING_OK)) {
        (void) gpuring_stage_fetch(&slot->stage);
    }
}

static void slot_return(struct slot *slot)
{
    slot->returning = slot->applies && gpuring_stage_failure(&slot->stage) == GPURING_OK;
    if (slot->returning && gpuring_stage_start_out(&slot->stage) != GPURING_OK) {
        slot->stage.failed = gpuring_stage_deliver(&slot->stage);
    }
}

/* Wait for what runs, and give the memory back. A status: of all that the slot did. */
static int slot_empty(struct slot *slot)
{
    int status = GPURING_OK;

    if (slot->applies) {
        if (slot->stage.stream != NULL && gpuring_stage_wait(&slot->stage) != GPURING_OK &&
            slot->returning) {
            slot->stage.failed = gpuring_stage_deliver(&slot->stage);
        }
        status = gpuring_stage_failure(&slot->stage);
        gpuring_stage_release(&slot->stage);
        slot->applies = false;
    }
    return status;
}

/* One chunk: what follows it is on its way in meanwhile, what precedes it on its way out. *failed:
 * what a copy failed with; the other ranks wait for all chunks nevertheless. */
static int run_chunk(const struct pipeline *pipeline, struct slot *slots, size_t chunk,
                     size_t chunks, int *failed)
{
    struct slot *slot = &slots[chunk % SLOTS];
    int result = MPI_SUCCESS;

    if (chunk + 1 < chunks) {
        struct slot *following = &slots[(chunk + 1) % SLOTS];

        keep_first(failed, slot_empty(following));
        result = slot_fill(following, pipeline, chunk + 1);
    }
    slot_wait(slot);
    if (result == MPI_SUCCESS) {
        result = pipeline->call(pipeline, &slot->stage, slot->count);
    }
    if (result == MPI_SUCCESS) {
        slot_return(slot);
    }
    return result;
}

/* All chunks are through: if any rank's copies failed, the call has failed on all. */
static int agree_on_end(const struct pipeline *pipeline, int failed)
{
    int mine = -failed, most = 0;
    int result = GPURING_CALL_PREVIOUS(pipeline->module, allreduce, &mine, &most, 1, MPI_INT,
                                       MPI_MAX, pipeline->module->comm);

    if (result == MPI_SUCCESS && most > 0) {
        gpuring_error("a large collective failed: a rank could not copy between host and GPU");
    }
    return result == MPI_SUCCESS ? gpuring_compat_error(-most) : result;
}

static int run(const struct pipeline *pipeline, enum gpuring_staged what)
{
    size_t chunks = (pipeline->units + pipeline->step - 1) / pipeline->step;
    struct slot slots[SLOTS] = {{.applies = false}};
    int result = slot_fill(&slots[0], pipeline, 0), failed = GPURING_OK;

    gpuring_stage_account(pipeline->module, what);
    for (size_t chunk = 0; chunk < chunks && result == MPI_SUCCESS; chunk++) {
        result = run_chunk(pipeline, slots, chunk, chunks, &failed);
    }
    for (int i = 0; i < SLOTS; i++) {
        keep_first(&failed, slot_empty(&slots[i]));
    }
    return result == MPI_SUCCESS ? agree_on_end(pipeline, failed) : result;
}

static void describe_bcast(struct gpuring_stage *stage, const struct pipeline *pipeline,
                           size_t first, size_t count)
{
    gpuring_describe_bcast(stage, pipeline->module->comm, (char *) pipeline->rbuf + first,
                           (gpuring_count_t) count, MPI_BYTE, pipeline->root);
}

static int call_bcast(const struct pipeline *pipeline, const struct gpuring_stage *stage,
                      size_t count)
{
    return GPURING_CALL_PREVIOUS(pipeline->module, bcast, (void *) (uintptr_t) stage->receive.place,
                                 (gpuring_count_t) count, MPI_BYTE, pipeline->root,
                                 pipeline->module->comm);
}

int gpuring_pipeline_bcast(GPURING_ARGUMENTS_BCAST, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_stage stage;
    bool stages, cut;
    int result;

    if (!gpuring_pipeline_large(self, rcount, rtype)) {
        return gpuring_stage_bcast(GPURING_VALUES_BCAST, comm, module);
    }
    gpuring_describe_bcast(&stage, comm, GPURING_VALUES_BCAST);
    stages = gpuring_memory_possible() && gpuring_stage_applies(&stage);
    /* Counts and types may differ between ranks, so only bytes can be counted. */
    result =
        agree(self, stages,
              opal_datatype_is_contiguous_memory_layout(&rtype->super, rcount > 1 ? 2 : 1), &cut);
    if (result != OMPI_SUCCESS) {
        return result;
    }
    if (!cut) {
        return gpuring_stage_bcast(GPURING_VALUES_BCAST, comm, module);
    }
    return run(
        &(struct pipeline){
            .module = self,
            .units = gpuring_pipeline_bytes(rcount, rtype),
            .step = gpuring_params.stage_size,
            .describe = describe_bcast,
            .call = call_bcast,
            .rbuf = (char *) rbuf + rtype->super.true_lb,
            .root = root,
        },
        GPURING_STAGED_bcast);
}

/* Where element `first` of a buffer is; MPI_IN_PLACE stays itself. */
static void *element(const struct pipeline *pipeline, const void *buffer, size_t first)
{
    ptrdiff_t extent = pipeline->type->super.ub - pipeline->type->super.lb;

    return buffer == MPI_IN_PLACE
               ? MPI_IN_PLACE
               : (void *) ((uintptr_t) buffer + (uintptr_t) ((ptrdiff_t) first * extent));
}

static void describe_reduce(struct gpuring_stage *stage, const struct pipeline *pipeline,
                            size_t first, size_t count)
{
    gpuring_describe_reduce(stage, pipeline->module->comm, element(pipeline, pipeline->sbuf, first),
                            element(pipeline, pipeline->rbuf, first), (gpuring_count_t) count,
                            pipeline->type, pipeline->op, pipeline->root);
}

static int call_reduce(const struct pipeline *pipeline, const struct gpuring_stage *stage,
                       size_t count)
{
    return GPURING_CALL_PREVIOUS(pipeline->module, reduce, stage->send.place,
                                 (void *) (uintptr_t) stage->receive.place, (gpuring_count_t) count,
                                 pipeline->type, pipeline->op, pipeline->root,
                                 pipeline->module->comm);
}

static void describe_allreduce(struct gpuring_stage *stage, const struct pipeline *pipeline,
                               size_t first, size_t count)
{
    gpuring_describe_allreduce(stage, pipeline->module->comm,
                               element(pipeline, pipeline->sbuf, first),
                               element(pipeline, pipeline->rbuf, first), (gpuring_count_t) count,
                               pipeline->type, pipeline->op);
}

static int call_allreduce(const struct pipeline *pipeline, const struct gpuring_stage *stage,
                          size_t count)
{
    return GPURING_CALL_PREVIOUS(pipeline->module, allreduce, stage->send.place,
                                 (void *) (uintptr_t) stage->receive.place, (gpuring_count_t) count,
                                 pipeline->type, pipeline->op, pipeline->module->comm);
}

/* Count and type of a reduction are the same on all ranks: elements can be counted. */
static size_t elements_of_a_chunk(const struct ompi_datatype_t *type)
{
    return type->super.size < gpuring_params.stage_size
               ? gpuring_params.stage_size / type->super.size
               : 1;
}

int gpuring_pipeline_reduce(GPURING_ARGUMENTS_REDUCE, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_stage stage;
    bool cut;
    int result;

    if (!gpuring_pipeline_large(self, rcount, rtype)) {
        return gpuring_stage_reduce(GPURING_VALUES_REDUCE, comm, module);
    }
    gpuring_describe_reduce(&stage, comm, GPURING_VALUES_REDUCE);
    result = agree(self, gpuring_memory_possible() && gpuring_stage_applies(&stage), true, &cut);
    if (result != OMPI_SUCCESS) {
        return result;
    }
    if (!cut) {
        return gpuring_stage_reduce(GPURING_VALUES_REDUCE, comm, module);
    }
    return run(
        &(struct pipeline){
            .module = self,
            .units = (size_t) rcount,
            .step = elements_of_a_chunk(rtype),
            .describe = describe_reduce,
            .call = call_reduce,
            .sbuf = sbuf,
            .rbuf = rbuf,
            .type = rtype,
            .op = op,
            .root = root,
        },
        GPURING_STAGED_reduce);
}

int gpuring_pipeline_allreduce(GPURING_ARGUMENTS_REDUCTION, GPURING_END_BLOCKING)
{
    mca_coll_gpuring_module_t *self = (mca_coll_gpuring_module_t *) module;
    struct gpuring_stage stage;
    bool cut;
    int result;

    if (!gpuring_pipeline_large(self, rcount, rtype)) {
        return gpuring_stage_allreduce(GPURING_VALUES_REDUCTION, comm, module);
    }
    gpuring_describe_allreduce(&stage, comm, GPURING_VALUES_REDUCTION);
    result = agree(self, gpuring_memory_possible() && gpuring_stage_applies(&stage), true, &cut);
    if (result != OMPI_SUCCESS) {
        return result;
    }
    if (!cut) {
        return gpuring_stage_allreduce(GPURING_VALUES_REDUCTION, comm, module);
    }
    return run(
        &(struct pipeline){
            .module = self,
            .units = (size_t) rcount,
            .step = elements_of_a_chunk(rtype),
            .describe = describe_allreduce,
            .call = call_allreduce,
            .sbuf = sbuf,
            .rbuf = rbuf,
            .type = rtype,
            .op = op,
        },
        GPURING_STAGED_allreduce);
}
