/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Describe a call to the engine. stage/stage_describe.c derives the blocks that a collective reads
 * and writes from its arguments, and this file converts them to addresses and extents. If the data
 * has gaps, or would be overwritten before it is read, the engine gets a packed copy. Each rank
 * packs independently of the others.
 */
#include "mca/coll_gpuring/calls/calls.h"

#include <stdlib.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/util/status.h"

#define ROW(name, collective, text, reduces, votes, sizes) \
    [GPURING_STAGED_##                                     \
        name] = {GPURING_COLLECTIVE_##collective, text, reduces, votes, GPURING_SIZES_##sizes}
const struct gpuring_served gpuring_served[GPURING_STAGED_COUNT] = {
    ROW(allreduce, ALLREDUCE, "MPI_Allreduce", true, false, VECTOR),
    ROW(bcast, BCAST, "MPI_Bcast", false, true, VECTOR),
    ROW(reduce, REDUCE, "MPI_Reduce", true, true, VECTOR),
    ROW(scan, SCAN, "MPI_Scan", true, false, VECTOR),
    ROW(exscan, EXSCAN, "MPI_Exscan", true, false, VECTOR),
    ROW(allgather, ALLGATHER, "MPI_Allgather", false, false, EVEN),
    ROW(allgatherv, ALLGATHER, "MPI_Allgatherv", false, false, COUNTS),
    ROW(reduce_scatter_block, REDUCE_SCATTER, "MPI_Reduce_scatter_block", true, false, EVEN),
    ROW(reduce_scatter, REDUCE_SCATTER, "MPI_Reduce_scatter", true, false, COUNTS),
    ROW(alltoall, ALLTOALL, "MPI_Alltoall", false, false, EVEN),
    ROW(alltoallv, ALLTOALL, "MPI_Alltoallv", false, true, UNKNOWN),
    ROW(alltoallw, ALLTOALL, "MPI_Alltoallw", false, true, UNKNOWN),
    ROW(gather, GATHER, "MPI_Gather", false, true, EVEN),
    ROW(gatherv, GATHER, "MPI_Gatherv", false, true, UNKNOWN),
    ROW(scatter, SCATTER, "MPI_Scatter", false, true, EVEN),
    ROW(scatterv, SCATTER, "MPI_Scatterv", false, true, UNKNOWN),
    ROW(barrier, ALLREDUCE, "MPI_Barrier", false, false, VECTOR),
};

/* Return the number of elements of the vector or of the longest block, if all ranks know it, and
 * GPURING_COUNT_UNKNOWN otherwise. */
static uint64_t known_count(const struct gpuring_served *served,
                            const mca_coll_gpuring_module_t *module,
                            const struct gpuring_arguments *a)
{
    bool at_root = a->root == module->rank;
    bool sends = served->collective == GPURING_COLLECTIVE_GATHER    ? !at_root
                 : served->collective == GPURING_COLLECTIVE_SCATTER ? at_root
                                                                    : false;
    const struct ompi_datatype_t *type = sends ? a->stype : a->rtype;
    uint64_t count = (uint64_t) (sends ? a->scount : a->rcount);

    if (served->sizes == GPURING_SIZES_UNKNOWN) {
        return GPURING_COUNT_UNKNOWN;
    }
    for (int i = 0; served->sizes == GPURING_SIZES_COUNTS && i < module->nranks; i++) {
        uint64_t other = GPURING_COUNT_AT(a->rcounts, i);

        count = i == 0 || other > count ? other : count;
    }
    return served->reduces ? count : count * type->super.size;
}

/* One buffer of a call. */
struct source {
    const struct gpuring_part *part;
    size_t element; /* bytes of an element of a reduction, whose blocks are adjacent; 0 if the
                       collective only moves data */
    int without;    /* index of a block that is treated as empty; -1: none */
    bool pack;      /* the engine works on a packed copy */
    bool adjacent;  /* it needs blocks without gaps between them, see GPURING_ROOT_BETWEEN_NODES */
    struct gpuring_span span; /* of its blocks */
};

static bool is_many(const struct source *source)
{
    return source->part->end - source->part->first > 1;
}

static ptrdiff_t begin_of(const struct source *source, const struct gpuring_block *block)
{
    return block->offset + (source->element > 0 ? 0 : block->type->super.true_lb);
}

/* Return the number of bytes of a block. */
static size_t length_of(const struct source *source, const struct gpuring_block *block)
{
    if (block->next <= source->part->first || block->count == 0) {
        return 0;
    }
    return block->count * (source->element > 0 ? source->element : block->type->super.size);
}

static struct gpuring_span span_of(const struct source *source)
{
    struct gpuring_span span = {.bytes = 0};
    struct gpuring_block block = {.next = 0};

    while (gpuring_part_next(source->part, &block)) {
        size_t bytes = length_of(source, &block);

        if (bytes > 0) {
            ptrdiff_t begin = begin_of(source, &block), end = begin + (ptrdiff_t) bytes;

            span.low = span.bytes == 0 || begin < span.low ? begin : span.low;
            span.high = span.bytes == 0 || end > span.high ? end : span.high;
            span.bytes += bytes;
        }
    }
    return span;
}

/* Return a table with the offset and length of each block. Offsets are relative to `span.low`, or
 * to the packed copy. */
static struct gpuring_blocks table_of(const struct source *source, struct gpuring_extent *extents)
{
    size_t element = source->element > 0 ? source->element : 1;
    struct gpuring_block block = {.next = 0};
    uint64_t before = 0;

    while (gpuring_part_next(source->part, &block)) {
        size_t bytes = length_of(source, &block);
        struct gpuring_extent *extent = &extents[block.next - 1];

        extent->offset = source->pack ? before
                         : bytes > 0  ? (uint64_t) (begin_of(source, &block) - source->span.low)
                                      : 0;
        extent->count = block.next - 1 == source->without ? 0 : bytes / element;
        before += bytes;
    }
    return (struct gpuring_blocks){.table = extents};
}

/* Return the blocks as a count and a stride instead of a table. There is a single block, or all
 * lengths and distances are equal. */
static struct gpuring_blocks stride_of(const struct source *source)
{
    uint64_t element = source->element > 0 ? source->element : 1;
    struct gpuring_blocks blocks = {.stride = 0};

    if (source->span.bytes > 0) {
        blocks.count =
            source->span.bytes / element / (uint64_t) (source->part->end - source->part->first);
    }
    if (source->span.bytes > 0 && is_many(source)) {
        blocks.stride =
            source->pack ? blocks.count * element : (uint64_t) gpuring_part_distance(source->part);
    }
    return blocks;
}

/* Return true if the GPU of this process, or the host device, reaches this memory. */
static bool is_reached(const struct gpuring_pointer *at)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    return ops->kind == GPURING_DEVICE_HOST ||
           (gpuring_process.gpu >= 0 && gpuring_device_reaches(ops, gpuring_process.device, at));
}

/* Return the address of one byte of the data, which shows where the buffer is. With MPI_BOTTOM the
 * data may be in several kinds of memory. A byte on a GPU is then preferred. */
static const void *sample_of(const struct source *source)
{
    const void *found = source->part->user == MPI_BOTTOM && gpuring_memory_possible()
                            ? gpuring_part_find_on_gpu(source->part)
                            : NULL;

    return found != NULL ? found : gpuring_stage_address(source->part->user, source->span.low);
}

static void locate(struct source *source, struct gpuring_call_buffer *buffer)
{
    source->span = span_of(source);
    *buffer = (struct gpuring_call_buffer){.bytes = source->span.bytes};
    if (source->span.bytes > 0) {
        buffer->sample = sample_of(source);
    }
}

/* Return true if this buffer must be packed. buffer->at is set. */
static bool must_pack(const struct source *source, const struct gpuring_call_buffer *buffer)
{
    struct gpuring_span span = source->span;

    if (source->pack || span.bytes == 0) {
        return source->pack;
    }
    if (source->element == 0 &&
        (source->part->user == MPI_BOTTOM || !gpuring_part_contiguous(source->part))) {
        return true;
    }
    return span.bytes < (size_t) (span.high - span.low) &&
           (source->adjacent || !is_reached(&buffer->at));
}

/* Set the address that the engine uses, and the blocks. Returns 0 or GPURING_ERR_NOMEM. */
static int lay_out(const struct source *source, struct gpuring_extent *extents,
                   struct gpuring_runs *runs, struct gpuring_call_buffer *buffer,
                   const void **address)
{
    struct gpuring_span span = source->span;
    int status = GPURING_OK;

    if (source->pack) {
        status = source->element > 0 ? gpuring_runs_add(runs, span.low, span.bytes)
                                     : gpuring_part_runs(source->part, runs);
        gpuring_runs_end(runs);
        buffer->runs = runs;
        *address = source->part->user;
    } else {
        buffer->bytes = span.bytes > 0 ? (uint64_t) (span.high - span.low) : 0;
        *address = span.bytes > 0 ? gpuring_stage_address(source->part->user, span.low) : NULL;
    }
    buffer->blocks =
        extents != NULL && is_many(source) ? table_of(source, extents) : stride_of(source);
    return status;
}

/* The buffers of a call while it is being described. */
struct sources {
    struct source in, out;
    bool tables; /* blocks need a table of extents */
    bool keeps;  /* in place: the root's block is already where it belongs */
};

/* Return true if an alltoall may run by node. Before the ranks are connected, this is unknown. */
static bool may_exchange(const mca_coll_gpuring_module_t *module)
{
    /* Partner: complete in wireup.c. */
    const struct gpuring_engine *engine = __atomic_load_n(&module->engine, __ATOMIC_ACQUIRE);

    return engine == NULL || engine->base[GPURING_SET_NODES].plan != NULL;
}

static void find_sources(struct gpuring_description *d, const struct gpuring_call *call,
                         struct sources *found)
{
    const struct gpuring_served *served = gpuring_served_of(d->what);
    size_t element = served->reduces ? call->element_size : 0;
    bool at_root = d->arguments.root == d->module->rank, in_place;

    gpuring_description_parts(d);
    in_place = d->receive_in.end > 0 && d->receive_out.end > 0 && d->send.user == MPI_IN_PLACE;
    found->in = (struct source){
        .part = d->send.end > 0 ? &d->send : &d->receive_in, .element = element, .without = -1};
    found->out = (struct source){.part = &d->receive_out, .element = element, .without = -1};
    found->in.adjacent = found->out.adjacent =
        d->what == GPURING_STAGED_alltoall && may_exchange(d->module);
    found->tables = served->sizes >= GPURING_SIZES_COUNTS;
    found->keeps = served->collective == GPURING_COLLECTIVE_GATHER && in_place;
    if (served->collective == GPURING_COLLECTIVE_SCATTER && at_root && d->receive_out.end == 0) {
        found->in.without = d->module->rank;
        found->tables = true;
    }
    /* In place, the result overwrites contributions to the blocks of other ranks. */
    found->in.pack = d->what == GPURING_STAGED_reduce_scatter && in_place;
}

static int adapt(const struct gpuring_description *d, struct sources *sources,
                 struct gpuring_call *call)
{
    const mca_coll_gpuring_module_t *module = d->module;
    size_t bytes =
        sizeof *call->memory + 2 * (size_t) module->nranks * sizeof *call->memory->extents;
    struct gpuring_extent *extents = NULL;
    struct gpuring_runs *in_runs = NULL, *out_runs = NULL;
    const void *output;
    int status;

    if (call->collective == GPURING_COLLECTIVE_EXSCAN && module->rank == 0) {
        /* rank 0 stores nothing; only the location of its output was needed */
        sources->out.span = (struct gpuring_span){.bytes = 0};
    }
    sources->in.pack = must_pack(&sources->in, &call->in);
    sources->out.pack = must_pack(&sources->out, &call->out);
    /* The root's block is where it belongs, so it is copied only if the output is a packed copy. */
    if (sources->keeps && !sources->out.pack && is_reached(&call->out.at)) {
        sources->in.span = (struct gpuring_span){.bytes = 0};
    }
    if (sources->tables || sources->in.pack || sources->out.pack) {
        call->memory = calloc(1, bytes);
        if (call->memory == NULL) {
            return gpuring_stage_log_memory(d->module, d->what, bytes);
        }
        extents = sources->tables ? call->memory->extents : NULL;
        in_runs = &call->memory->in_runs;
        out_runs = &call->memory->out_runs;
    }
    status = lay_out(&sources->in, extents, in_runs, &call->in, &call->input);
    if (status == GPURING_OK) {
        status = lay_out(&sources->out, extents != NULL ? extents + module->nranks : NULL, out_runs,
                         &call->out, &output);
        call->output = (void *) (uintptr_t) output;
    }
    return status == GPURING_OK
               ? status
               : gpuring_stage_log_memory(d->module, d->what, call->in.bytes + call->out.bytes);
}

/* Return true if the arguments alone define the layout of this buffer, in any kind of memory. */
static bool is_plain(const struct source *source)
{
    const struct gpuring_part *part = source->part;

    if (source->span.bytes == 0) {
        return part->end <= part->first || ompi_datatype_is_predefined(part->type);
    }
    return !source->pack && source->part->user != MPI_BOTTOM &&
           ompi_datatype_is_predefined(part->type) &&
           (source->element > 0 || gpuring_part_contiguous(part)) &&
           source->span.bytes == (size_t) (source->span.high - source->span.low);
}

static bool has_plain_layout(const mca_coll_gpuring_module_t *module, const struct sources *sources,
                             const struct gpuring_call *call)
{
    /* Rank 0 of an exclusive scan writes nothing; only the location of its output matters (see
     * adapt). */
    bool exscan_first = call->collective == GPURING_COLLECTIVE_EXSCAN && module->rank == 0;

    return !sources->tables && !sources->keeps && !exscan_first && is_plain(&sources->in) &&
           is_plain(&sources->out);
}

enum gpuring_reason gpuring_call_describe(struct gpuring_description *d, struct gpuring_call *call,
                                          struct gpuring_layout *layout, int *status)
{
    const struct gpuring_served *served = gpuring_served_of(d->what);
    const struct gpuring_arguments *arguments = &d->arguments;
    enum gpuring_reason reason = GPURING_REASON_NONE;
    struct sources sources;

    *call = (struct gpuring_call){.collective = served->collective,
                                  .name = served->name,
                                  .root = arguments->root,
                                  .counts = served->sizes == GPURING_SIZES_COUNTS,
                                  .type = GPURING_TYPE_BYTE,
                                  .op = GPURING_OP_BOR,
                                  .element_size = 1};
    *layout = (struct gpuring_layout){.plain = false};
    if (served->reduces) {
        reason = gpuring_eligible_types(arguments->rtype, arguments->op, call);
    }
    if (reason != GPURING_REASON_NONE) {
        return reason;
    }
    call->count = known_count(served, d->module, arguments);
    call->made = gpuring_differ_word((int) d->what, call);
    find_sources(d, call, &sources);
    locate(&sources.in, &call->in);
    locate(&sources.out, &call->out);
    reason = call->count == 0 ? GPURING_REASON_MEMORY : gpuring_eligible_memory(call);
    layout->plain = call->count > 0 && has_plain_layout(d->module, &sources, call);
    if (layout->plain || reason == GPURING_REASON_NONE) {
        *status = adapt(d, &sources, call);
    }
    layout->in_low = sources.in.span.low;
    layout->out_low = sources.out.span.low;
    layout->reads_send = sources.in.part == &d->send;
    return reason;
}
