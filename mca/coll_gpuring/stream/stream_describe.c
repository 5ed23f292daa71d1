/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Describe a call in a stream to the engine. Other calls may be staged, packed or delegated
 * (calls/describe.c). A call in a stream is launched as it is, or refused. Its buffers are in
 * memory that the kernels of this process reach, and its data has no gaps.
 */
#include "mca/coll_gpuring/stream/stream_state.h"

#include "kernels/types.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/stage/stage_call.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Number of blocks of a buffer: one, or one for each rank. */
enum blocks { ONE, ALL };

static const struct row {
    enum gpuring_staged function;
    enum gpuring_collective collective;
    enum blocks in, out;
    bool reduces;
} rows[] = {
#define ROW(name, collective, in, out, reduces) \
    [GPURING_STREAM_##                          \
        name] = {GPURING_STAGED_##name, GPURING_COLLECTIVE_##collective, in, out, reduces}
    ROW(allreduce, ALLREDUCE, ONE, ONE, true),
    ROW(bcast, BCAST, ONE, ONE, false),
    ROW(reduce, REDUCE, ONE, ONE, true),
    ROW(allgather, ALLGATHER, ONE, ALL, false),
    ROW(reduce_scatter_block, REDUCE_SCATTER, ALL, ONE, true),
    ROW(alltoall, ALLTOALL, ALL, ALL, false),
    ROW(barrier, ALLREDUCE, ONE, ONE, true),
};
#undef ROW

const char *gpuring_stream_call_name(enum gpuring_stream_call what)
{
#define NAME(name, text) text,
    static const char *const names[] = {GPURING_STREAM_CALLS(NAME)};
#undef NAME

    return names[what];
}

int gpuring_stream_refuse(const char *function, const char *code, const char *why)
{
    gpuring_error("[%s] %s is not enqueued: %s", code, function, why);
    return GPURING_ERR_UNSUPPORTED;
}

static int refuse(enum gpuring_stream_call what, const char *code, const char *why)
{
    return gpuring_stream_refuse(gpuring_stream_call_name(what), code, why);
}

/* Set the type, the operation and the number of elements of a reduction. */
static int describe_reduction(enum gpuring_stream_call what,
                              const struct gpuring_stream_arguments *a, struct gpuring_call *call)
{
    switch (gpuring_eligible_types(a->rtype, a->op, call)) {
    case GPURING_REASON_NONE:
        break;
    case GPURING_REASON_OP:
        return refuse(
            what, "stream-operation",
            "MPI does not define the operation for the datatype, or it is user-defined, and "
            "GPUs cannot call the program's function; use a predefined operation, or the "
            "call without _enqueue after cudaStreamSynchronize");
    default:
        return refuse(
            what, "stream-datatype",
            "a reduction needs a predefined datatype; use one, or the call without _enqueue "
            "after cudaStreamSynchronize");
    }
    if (!gpuring_type_info(call->type)->device) {
        return refuse(what, "stream-datatype",
                      "GPUs do not have this datatype (long double); use the call without _enqueue "
                      "after cudaStreamSynchronize");
    }
    call->count = a->rcount;
    return GPURING_OK;
}

int gpuring_stream_check_type(const char *function, MPI_Datatype type, size_t count)
{
    if (count == 0 ||
        (ompi_datatype_is_contiguous_memory_layout(type, (int32_t) (count > 1 ? 2 : 1)) &&
         type->super.true_lb == 0)) {
        return GPURING_OK;
    }
    return gpuring_stream_refuse(function, "stream-datatype",
                                 "the datatype has gaps; pack the data in a kernel before, or use "
                                 "the call without _enqueue after cudaStreamSynchronize");
}

/* Set the number of bytes of a block that is moved. */
static int describe_bytes(enum gpuring_stream_call what, const struct gpuring_stream_arguments *a,
                          bool sends, struct gpuring_call *call)
{
    const char *function = gpuring_stream_call_name(what);
    int status = gpuring_stream_check_type(function, a->rtype, a->rcount);

    if (status == GPURING_OK && sends) {
        status = gpuring_stream_check_type(function, a->stype, a->scount);
    }
    if (status != GPURING_OK) {
        return status;
    }
    call->type = GPURING_TYPE_BYTE;
    call->op = GPURING_OP_BOR;
    call->element_size = 1;
    call->count = a->rcount * a->rtype->super.size;
    if (sends && a->scount * a->stype->super.size != call->count) {
        return refuse(what, "stream-counts",
                      "a block that is sent and a block that is received have different sizes");
    }
    return GPURING_OK;
}

static struct gpuring_call_buffer buffer_of(const struct gpuring_call *call, enum blocks blocks,
                                            int nranks)
{
    uint64_t block = call->count * call->element_size;

    return (struct gpuring_call_buffer){
        .bytes = blocks == ALL ? block * (uint64_t) nranks : block,
        .blocks = {.stride = blocks == ALL ? block : 0, .count = call->count},
    };
}

/* Describe everything but the addresses. */
static int describe_shape(const struct gpuring_stream_state *state, enum gpuring_stream_call what,
                          const struct gpuring_stream_arguments *a, struct gpuring_call *call)
{
    const struct row *row = &rows[what];
    int rank = state->module->rank, nranks = state->module->nranks, status = GPURING_OK;
    bool sends = a->sbuf != MPI_IN_PLACE && what != GPURING_STREAM_bcast;

    *call = (struct gpuring_call){.collective = row->collective,
                                  .name = gpuring_stream_call_name(what),
                                  .root = a->root,
                                  .type = GPURING_TYPE_BYTE,
                                  .op = GPURING_OP_BOR,
                                  .element_size = 1,
                                  .count = 1};
    if (what != GPURING_STREAM_barrier) {
        status =
            row->reduces ? describe_reduction(what, a, call) : describe_bytes(what, a, sends, call);
    }
    call->made = gpuring_differ_word((int) row->function, call);
    call->in = buffer_of(call, row->in, nranks);
    call->out = buffer_of(call, row->out, nranks);
    if (what == GPURING_STREAM_bcast) { /* the root reads, the others write */
        *(rank == a->root ? &call->out : &call->in) = (struct gpuring_call_buffer){.bytes = 0};
    }
    if (what == GPURING_STREAM_reduce && rank != a->root) {
        call->out = (struct gpuring_call_buffer){.bytes = 0};
    }
    return status;
}

/* Return true if a call differs from the last one in addresses alone. Only predefined datatypes are
 * compared, because MPI may give a new datatype the handle of one that was freed. */
static bool has_last_shape(const struct gpuring_stream_state *state, enum gpuring_stream_call what,
                           const struct gpuring_stream_arguments *a)
{
    const struct gpuring_stream_arguments *last = &state->arguments;

    return state->call.name != NULL && what == state->what && a->rcount == last->rcount &&
           a->rtype == last->rtype && ompi_datatype_is_predefined(a->rtype) &&
           a->scount == last->scount && a->stype == last->stype &&
           (a->stype == NULL || ompi_datatype_is_predefined(a->stype)) && a->op == last->op &&
           a->root == last->root && (a->sbuf == MPI_IN_PLACE) == (last->sbuf == MPI_IN_PLACE);
}

/* Find the addresses of the data. */
static void find_addresses(const struct gpuring_stream_state *state, enum gpuring_stream_call what,
                           const struct gpuring_stream_arguments *a,
                           const struct gpuring_call *call, const void **input, void **output)
{
    size_t own = (size_t) state->module->rank * call->count; /* offset of this rank's block in an
                                                                allgather in place */

    *input = a->sbuf;
    *output = a->rbuf;
    if (what == GPURING_STREAM_barrier) {
        *input = *output = state->byte;
    } else if (what == GPURING_STREAM_bcast || a->sbuf == MPI_IN_PLACE) {
        *input = what == GPURING_STREAM_allgather ? (const char *) a->rbuf + own : a->rbuf;
    }
}

int gpuring_stream_check_memory(const char *function, const char *which, const void *address,
                                uint64_t bytes)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer at;

    if (bytes == 0) {
        return GPURING_OK;
    }
    at = ops->locate(gpuring_process.device, address);
    if (gpuring_device_reaches(ops, gpuring_process.device, &at)) {
        return GPURING_OK;
    }
    if (!gpuring_pointer_on_gpu(at.kind)) {
        gpuring_error(
            "[stream-host-buffer] %s is not enqueued: the %s buffer is in host memory, and "
            "calls in a stream need memory of GPU %d (cudaMalloc); copy the data in the "
            "stream (cudaMemcpyAsync), or use the call without _enqueue",
            function, which, gpuring_process.gpu);
    } else {
        gpuring_error(
            "[stream-other-gpu] %s is not enqueued: the %s buffer is on GPU %d or in another "
            "context, and the stream is on GPU %d; allocate it on the GPU of the stream, or "
            "use the call without _enqueue after cudaStreamSynchronize",
            function, which, at.ordinal, gpuring_process.gpu);
    }
    return GPURING_ERR_UNSUPPORTED;
}

int gpuring_stream_describe(struct gpuring_stream_state *state, enum gpuring_stream_call what,
                            const struct gpuring_stream_arguments *arguments)
{
    struct gpuring_call made;
    const struct gpuring_call *call = &state->call;
    bool is_new = !has_last_shape(state, what, arguments);
    const void *input;
    void *output;
    int status = GPURING_OK;

    if (is_new) {
        status = describe_shape(state, what, arguments, &made);
        call = &made;
    }
    if (status != GPURING_OK || call->count == 0) {
        return status != GPURING_OK ? status : GPURING_AGAIN;
    }
    find_addresses(state, what, arguments, call, &input, &output);
    if (what != GPURING_STREAM_barrier) {
        const char *function = gpuring_stream_call_name(what);

        status = gpuring_stream_check_memory(function, "send", input, call->in.bytes);
        if (status == GPURING_OK && (output != input || call->in.bytes == 0)) {
            status = gpuring_stream_check_memory(function, "receive", output, call->out.bytes);
        }
    }
    if (status == GPURING_OK && is_new) {
        state->what = what;
        state->arguments = *arguments;
        state->call = made;
        state->call.shape = ++state->shapes;
    }
    state->call.input = status == GPURING_OK ? input : state->call.input;
    state->call.output = status == GPURING_OK ? output : state->call.output;
    return status;
}
