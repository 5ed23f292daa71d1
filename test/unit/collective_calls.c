/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/collective_calls.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/status.h"

#define GUARD 0x5a

static struct gpuring_extent *extents_of(const struct collective_call *call, int rank, int output)
{
    return call->extents + (size_t) ((2 * rank + output) * call->nranks);
}

static uint32_t element(int rank, uint64_t block, uint64_t at)
{
    return (uint32_t) (1000003u * (unsigned) (rank + 1) + 10007u * block + 7u * at);
}

/* Return the count of a block in a rank's input, or in its output. */
static uint64_t in_count(const struct collective_call *call, int rank, int block)
{
    switch (call->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        return block == rank ? call->counts[rank][0] : 0;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
        return call->counts[block][0];
    case GPURING_COLLECTIVE_SCATTER:
        return rank == call->root ? call->counts[block][0] : 0;
    case GPURING_COLLECTIVE_ALLTOALL:
        return call->counts[rank][block];
    default:
        return block == 0 ? call->count : 0;
    }
}

static uint64_t out_count(const struct collective_call *call, int rank, int block)
{
    switch (call->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
        return call->counts[block][0];
    case GPURING_COLLECTIVE_GATHER:
        return rank == call->root ? call->counts[block][0] : 0;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
    case GPURING_COLLECTIVE_SCATTER:
        return block == rank ? call->counts[rank][0] : 0;
    case GPURING_COLLECTIVE_ALLTOALL:
        return call->counts[block][rank];
    default:
        return block == 0 ? call->count : 0;
    }
}

/* Return the expected contributions of element `at` of block `block` of a rank's output; 0 if there
 * are none. */
static int expected(const struct collective_call *call, int rank, int block, uint64_t at,
                    uint32_t *value)
{
    int first = 0, end = call->nranks, from = block;

    switch (call->collective) {
    case GPURING_COLLECTIVE_BCAST:
        first = call->root;
        end = rank == call->root ? first : first + 1;
        break;
    case GPURING_COLLECTIVE_REDUCE:
        end = rank == call->root ? end : 0;
        break;
    case GPURING_COLLECTIVE_SCAN:
        end = rank + 1;
        break;
    case GPURING_COLLECTIVE_EXSCAN:
        end = rank;
        break;
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        first = block;
        end = block + 1;
        break;
    case GPURING_COLLECTIVE_ALLTOALL:
        first = block;
        end = block + 1;
        from = rank;
        break;
    case GPURING_COLLECTIVE_SCATTER:
        first = call->root;
        end = first + 1;
        break;
    default:
        break;
    }
    *value = 0;
    for (int i = first; i < end; i++) {
        *value += element(i, (uint64_t) from, at);
    }
    return first < end;
}

/* Place blocks one after another with a gap of 3 elements, so that nothing is aligned. */
static uint64_t lay_out(const struct collective_call *call, int rank,
                        uint64_t (*count)(const struct collective_call *, int, int),
                        struct gpuring_extent *extents)
{
    uint64_t end = 0;

    for (int block = 0; block < call->nranks; block++) {
        extents[block] = (struct gpuring_extent){4 * end, count(call, rank, block)};
        end += extents[block].count > 0 ? extents[block].count + (call->uneven ? 3 : 0) : 0;
    }
    return end;
}

static struct gpuring_blocks blocks_of(const struct collective_call *call,
                                       const struct gpuring_extent *extents, bool many)
{
    if (call->uneven) {
        return (struct gpuring_blocks){.table = extents};
    }
    return (struct gpuring_blocks){.stride = many ? 4 * call->count : 0, .count = call->count};
}

static bool has_many(const struct collective_call *call, bool output)
{
    switch (call->collective) {
    case GPURING_COLLECTIVE_ALLGATHER:
    case GPURING_COLLECTIVE_GATHER:
        return output;
    case GPURING_COLLECTIVE_REDUCE_SCATTER:
    case GPURING_COLLECTIVE_SCATTER:
        return !output;
    default:
        return true;
    }
}

static uint32_t *make_buffer(uint64_t elements)
{
    size_t bytes = 4 * elements + 16;

    return memset(fabric_memory->alloc(bytes, 0), GUARD, bytes);
}

static void make_buffers(struct collective_call *call)
{
    size_t n = (size_t) call->nranks;

    call->extents = fabric_memory->alloc(2 * n * n * sizeof *call->extents, 0);
    for (int rank = 0; rank < call->nranks; rank++) {
        struct gpuring_extent *in = extents_of(call, rank, 0);

        call->in_end[rank] = lay_out(call, rank, in_count, in);
        call->out_end[rank] = lay_out(call, rank, out_count, extents_of(call, rank, 1));
        call->output[rank] = make_buffer(call->out_end[rank]);
        call->input[rank] = call->in_place ? call->output[rank] : make_buffer(call->in_end[rank]);
        for (int block = 0; block < call->nranks; block++) {
            for (uint64_t i = 0; i < in[block].count; i++) {
                call->input[rank][in[block].offset / 4 + i] = element(rank, (uint64_t) block, i);
            }
        }
        call->before[rank] = malloc(4 * call->out_end[rank] + 16);
        assert_non_null(call->before[rank]);
        memcpy(call->before[rank], call->output[rank], 4 * call->out_end[rank] + 16);
    }
}

/* Check every element, and that nothing was written between or after blocks. */
static void check_output(const struct collective_call *call, int rank)
{
    size_t bytes = 4 * call->out_end[rank] + 16;
    uint8_t *wanted = call->before[rank];

    for (int block = 0; block < call->nranks; block++) {
        const struct gpuring_extent *extent = &extents_of(call, rank, 1)[block];

        for (uint64_t i = 0; i < extent->count; i++) {
            uint32_t value;

            if (expected(call, rank, block, i, &value)) {
                memcpy(wanted + extent->offset + 4 * i, &value, 4);
            }
        }
    }
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *) call->output[rank])[i] != wanted[i]) {
            fail_msg("%s by %s, protocol %d, %d ranks, root %d, %s, %s, count %llu: rank %d has a "
                     "wrong byte %zu of %zu",
                     gpuring_collective_text(call->collective),
                     gpuring_algorithm_text(call->algorithm), (int) call->protocol, call->nranks,
                     call->root, call->uneven ? "uneven" : "even",
                     call->in_place ? "in place" : "not in place", (unsigned long long) call->count,
                     rank, i, bytes);
        }
    }
}

/* Return the longest block of this rank. Other ranks may have longer ones. */
static uint64_t longest(const struct gpuring_work *work)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < work->nblocks; i++) {
        uint64_t in = gpuring_block_at(&work->in, i).count;
        uint64_t out = gpuring_block_at(&work->out, i).count;

        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    return most;
}

static void begin(struct fabric *fabric, const struct collective_call *call, int rank,
                  uint64_t chunk, uint64_t patience)
{
    struct gpuring_work *work = &fabric->ranks[rank].work;

    fabric_work(fabric, rank, GPURING_TYPE_UINT32, GPURING_OP_SUM, call->count, call->input[rank],
                call->output[rank], patience);
    if (gpuring_collective_has_blocks(call->collective)) {
        uint64_t most, share;

        work->has_blocks = 1;
        work->nblocks = (uint32_t) call->nranks;
        work->in =
            blocks_of(call, extents_of(call, rank, 0), has_many(call, false) || call->in_place);
        work->out = blocks_of(call, extents_of(call, rank, 1), has_many(call, true));
        most = longest(work);
        share = gpuring_block_part(most, work->parts, sizeof(uint32_t));
        work->count = share < most ? share : most;
    }
    work->chunk = work->chunk < chunk ? work->chunk : chunk;
}

void collective_call_begin(struct fabric *fabric, struct collective_call *call, uint64_t chunk,
                           uint64_t patience)
{
    make_buffers(call);
    for (int rank = 0; rank < call->nranks; rank++) {
        begin(fabric, call, rank, chunk, patience);
    }
}

void collective_call_end(struct collective_call *call)
{
    for (int rank = 0; rank < call->nranks; rank++) {
        check_output(call, rank);
        free(call->before[rank]);
        fabric_memory->release(call->output[rank], 0);
        if (!call->in_place) {
            fabric_memory->release(call->input[rank], 0);
        }
    }
    fabric_memory->release(call->extents, 0);
}
