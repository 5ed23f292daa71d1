/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The executor of plans, which runs the steps of a lane. One source is compiled three times: with a
 * host thread per lane, with a CUDA thread block per lane, and for tests with a block of real
 * threads. It is plain C that is also valid C++. Before this header, the includer defines its
 * execution header:
 *
 *   EXEC_FN                         prefix of each function
 *   EXEC_SLOW                       prefix of functions that do not use EXEC and are not inlined
 *   EXEC                            type of one thread's view, with at least these members:
 *       const struct gpuring_work *work; const struct gpuring_lane *lane; const struct
 *       gpuring_lane_state *state (at the launch); all three in fast memory;
 *       struct gpuring_lane_state *home (the state itself);
 *       uint64_t type_size, line_bytes (gpuring_line_bytes of type_size); and the running state:
 *       uint64_t first, rest, bytes; uint32_t step
 *       (In C++ it is a template of the reduction, and EXEC_FN begins with template <...>.)
 *   exec_thread(x), exec_nthreads(x), exec_protocol(x)      for the threads that move data
 *   exec_owner(x), exec_owners(x)   for the threads that wait and post: a power of two, of one
 *                                   warp; threads with greater numbers do neither
 *   exec_agree(x, ok)               nonzero if ok on all threads that wait, or on all threads
 *   exec_posted(x)                  orders earlier accesses of owners before their later ones
 *   exec_gives_back(x, from)        nonzero: give slots back now, not later
 *   exec_overlaps(x)                nonzero: different threads wait, move and post, see overlap.h
 *   exec_copies_step(x)             nonzero: copy each step, because reading its table takes longer
 *   exec_begin(x), exec_end(x)      begin and end of a lane
 *   exec_single_batch(x)            nonzero: all destinations have room from the beginning, and
 *                                   exec_note_single_batch(x, piece) only records a step, which
 *                                   exec_end counts
 *   exec_run(x, piece)              waits, moves and posts: exec_in_turn or a faster equivalent;
 *                                   declared before this header
 *   exec_first_step(x)              first step of the next window; defined only if it may not be 0
 *   exec_mapped(x)                  nonzero: exec_signal(x, piece), which is declared before this
 *                                   header, runs a step with GPURING_STEP_EACH on mapped buffers
 *   exec_serial(x)                  nonzero: exec_each(x, piece), which is declared before this
 *                                   header, runs a step with GPURING_STEP_EACH peer by peer
 *   exec_barrier(x)                 barrier of all threads of the lane; orders memory accesses
 *   exec_all(x, ok)                 a barrier; nonzero if ok on all threads of the lane
 *   exec_load_acquire(p)            acquires 64 bits, ordered system-wide
 *   exec_fence(x), exec_store_counter(p, v)
 *                                   stores 64 bits after all accesses before the fence; the fence
 *                                   may do nothing if the store is a release
 *   exec_load_size(p), exec_store_size(p, v)
 *                                   32 bits, relaxed; ordered by the acquire and the fence
 *   exec_poll(x)                    called after a poll without success: 1: poll again, 0: stop
 *   exec_progress(x)                called after progress; restarts patience
 *   exec_aborted(x)                 reads the abort word
 *   exec_note(p, v)                 relaxed 32-bit store for later readers of the lane's state
 *   exec_data(x, piece)             moves and folds one chunk; EXEC_OK or EXEC_WAIT, equal on all
 *                                   threads; declared before this header, defined after it. If
 *                                   duties overlap, it calls exec_ready of overlap.h first
 *
 * Each connection of a step has an owner, which is one thread of the lane. Only the owner writes
 * the counters of the connection (step, seen), after the barrier that ends the data phase (before
 * it in overlap.h). All threads read them after the barrier that ends the wait. The owners of a
 * step are threads of one warp, so that they wait and publish in parallel, and one fence of that
 * warp is enough. A thread finds its connections from their positions in the step without reading
 * the others, because each instruction here adds to the time of a small call. All values that
 * decide the control flow are equal on all threads, because they come from the plan, the arguments,
 * or the result of a barrier.
 */
#ifndef GPURING_EXECUTOR_H
#define GPURING_EXECUTOR_H

#include "kernels/work.h"

#if !defined(exec_first_step)
#define exec_first_step(x) 0
#endif
#if !defined(exec_mapped)
#define exec_mapped(x)        0
#define exec_signal(x, piece) EXEC_OK
#endif

enum exec_result {
    EXEC_OK,
    EXEC_WAIT,    /* data or room is missing, and patience is over or the abort word is set */
    EXEC_CORRUPT, /* a slot has a size other than expected */
};

/* A step with a chunk of this window, or with a slice of it. */
struct exec_piece {
    const struct gpuring_step *step;
    const uint16_t *operands, *sends;
    uint64_t input, output; /* offsets of the chunk in the user's buffers, in bytes */
    uint64_t count;         /* elements */
    uint64_t bytes;
    /* Nonzero: the step has GPURING_STEP_EACH. count and bytes are those of the longest possible
     * chunk, also for each of its slices, and the offsets are not used: see exec_peer_of. */
    int each;
    int last; /* nonzero: nothing follows in the lane */
};

/* The same as exec_peer_find, but not inlined. */
EXEC_SLOW struct exec_peer exec_peer_at(const struct gpuring_work *work,
                                        const struct gpuring_lane *lane, uint32_t number, int reads,
                                        uint64_t first, uint64_t rest, uint64_t chunk,
                                        uint64_t slot, uint64_t done, uint64_t type_size)
{
    return exec_peer_find(work, lane, number, reads, first, rest, chunk, slot, done, type_size);
}

/* Return the chunk of peer i of a step with GPURING_STEP_EACH, or the current slice of it. Read the
 * step from its table, so that other steps need no registers for this. */
EXEC_FN struct exec_peer exec_peer_of(const EXEC *x, const struct exec_piece *piece, uint32_t i)
{
    const struct gpuring_step *step = &x->lane->steps[x->step];

    return exec_peer_at(x->work, x->lane, gpuring_step_chunk(step->chunk, i, x->lane->nchunks),
                        (step->flags & GPURING_STEP_INPUT) != 0, x->first, x->rest, piece->count,
                        x->work->slice, x->bytes, x->type_size);
}

/* Return the bytes that a step exchanges with peer i. */
EXEC_FN uint64_t exec_peer_bytes(const EXEC *x, const struct exec_piece *piece, uint32_t i)
{
    return piece->each ? exec_peer_of(x, piece, i).bytes : piece->bytes;
}

/* Return true if a step exchanges data with peer i. */
EXEC_FN int exec_has_data(const EXEC *x, const struct exec_piece *piece, uint32_t i)
{
    return !piece->each || exec_peer_bytes(x, piece, i) > 0;
}

/* Return the bytes of a slot that are needed for `bytes` bytes of data. */
EXEC_FN uint64_t exec_slot_used(const EXEC *x, uint64_t bytes)
{
    uint64_t line = x->line_bytes;

    switch (exec_protocol(x)) {
    case GPURING_PROTOCOL_LL:
        return (bytes + 3) / 4 * 8;
    case GPURING_PROTOCOL_LL128:
        return (bytes + line - 1) / line * 128;
    default:
        return bytes;
    }
}

/* Return the slot of a connection for a piece of `bytes` bytes, see fifo.h. */
EXEC_FN uint8_t *exec_slot(const EXEC *x, const struct gpuring_fifo_end *end, uint64_t bytes)
{
    return gpuring_fifo_is_short((enum gpuring_protocol) exec_protocol(x), end, bytes)
               ? gpuring_fifo_short(end)
               : gpuring_fifo_slot(end);
}

/* Return the address of an operand or a destination from the list of the current slice. The read is
 * volatile so that addresses occupy no registers; otherwise kernels would spill. */
EXEC_FN void *exec_listed(const EXEC *x, uint32_t index)
{
    (void) x;
    return *(void *volatile *) &exec_list(x, x->slices)->at[index];
}

/* Return the address of operand `index`, or of its lines if the protocol has lines. */
EXEC_FN const uint8_t *exec_operand(const EXEC *x, const struct exec_piece *piece, uint32_t index)
{
    if (exec_overlaps(x)) {
        return (const uint8_t *) exec_listed(x, index);
    }
    if (piece->operands[index] == GPURING_REF_INPUT) {
        return (const uint8_t *) x->work->input + piece->input;
    }
    if (piece->operands[index] == GPURING_REF_OUTPUT) {
        return (const uint8_t *) x->work->output + piece->output;
    }
    return exec_slot(x, &x->lane->recvs[piece->operands[index]], piece->bytes);
}

EXEC_FN uint8_t *exec_send_slot(const EXEC *x, const struct exec_piece *piece, uint32_t index)
{
    if (exec_overlaps(x)) {
        return (uint8_t *) exec_listed(x, piece->step->noperands + index);
    }
    return exec_slot(x, &x->lane->sends[piece->sends[index]], piece->bytes);
}

/* Return the address of the output, or NULL if the step does not store. */
EXEC_FN uint8_t *exec_output(const EXEC *x, const struct exec_piece *piece)
{
    return piece->step->flags & GPURING_STEP_STORE ? (uint8_t *) x->work->output + piece->output
                                                   : NULL;
}

/* Operand i belongs to owner i, and destination i to owner EXEC_FIRST_SEND + i, modulo the number
 * of owners (overlap.h has another rule). */
#define EXEC_FIRST_SEND 16

/* Return the index of this thread's next connection in refs[from ...], or at least n if there is
 * none. */
EXEC_FN uint32_t exec_own(const EXEC *x, const uint16_t *refs, uint32_t first, uint32_t from,
                          uint32_t n)
{
    uint32_t owners = exec_owners(x), owner = exec_owner(x);

    if (owner >= owners) {
        return n;
    }
    from += (owner - first - from) % owners;
    while (from < n && gpuring_ref_own(refs[from])) {
        from += owners;
    }
    return from;
}

EXEC_FN uint32_t exec_own_recv(const EXEC *x, const struct exec_piece *piece, uint32_t from)
{
    return exec_own(x, piece->operands, 0, from, piece->step->noperands);
}

EXEC_FN uint32_t exec_own_send(const EXEC *x, const struct exec_piece *piece, uint32_t from)
{
    return exec_own(x, piece->sends, EXEC_FIRST_SEND, from, piece->step->nsends);
}

EXEC_FN int exec_wait_recv(EXEC *x, struct gpuring_fifo_end *recv, uint64_t used)
{
    if (exec_protocol(x) != GPURING_PROTOCOL_SIMPLE && !recv->local) {
        return EXEC_OK; /* lines validate themselves */
    }
    while (recv->seen <= recv->step) {
        /* Acquire: pairs with the store of the tail in exec_publish or in the proxy. */
        recv->seen = exec_load_acquire(&recv->tail->tail);
        if (recv->seen <= recv->step && !exec_poll(x)) {
            return EXEC_WAIT;
        }
    }
    return exec_load_size(&recv->tail->size[recv->step & (recv->nslots - 1)]) == used
               ? EXEC_OK
               : EXEC_CORRUPT;
}

EXEC_FN int exec_wait_send(EXEC *x, struct gpuring_fifo_end *send)
{
    while (send->seen + send->nslots <= send->step) {
        /* Acquire: pairs with the store of the head, after which the receiver no longer reads the
         * slot. */
        send->seen = exec_load_acquire(&send->head->head);
        if (send->seen + send->nslots <= send->step && !exec_poll(x)) {
            return EXEC_WAIT;
        }
    }
    return EXEC_OK;
}

EXEC_FN void exec_note_wait(EXEC *x, uint32_t wait, uint32_t ref)
{
    exec_note(&x->home->wait, wait);
    exec_note(&x->home->wait_ref, ref);
}

/* Wait for all operands, and for room at all destinations. The result is equal on all owners. */
EXEC_FN int exec_wait(EXEC *x, const struct exec_piece *piece)
{
    uint32_t nsends = piece->step->nsends, noperands = piece->step->noperands;
    int result = EXEC_OK;

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends && result == EXEC_OK;
         i = exec_own_send(x, piece, i + 1)) {
        if (exec_has_data(x, piece, i)) {
            result = exec_wait_send(x, &x->lane->sends[piece->sends[i]]);
        }
        if (result != EXEC_OK) {
            exec_note_wait(x, GPURING_WAIT_SEND, piece->sends[i]);
        }
    }
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands && result == EXEC_OK;
         i = exec_own_recv(x, piece, i + 1)) {
        uint64_t bytes = exec_peer_bytes(x, piece, i);

        if (bytes > 0) {
            result =
                exec_wait_recv(x, &x->lane->recvs[piece->operands[i]], exec_slot_used(x, bytes));
        }
        if (result != EXEC_OK) {
            exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[i]);
        }
    }
    if (exec_agree(x, result == EXEC_OK)) {
        return EXEC_OK;
    }
    return exec_agree(x, result != EXEC_CORRUPT) ? EXEC_WAIT : EXEC_CORRUPT;
}

/* Return true if the receiver reads the tail. Flagged lines within a node validate themselves. */
EXEC_FN int exec_has_tail(const EXEC *x, const struct gpuring_fifo_end *send)
{
    return exec_protocol(x) == GPURING_PROTOCOL_SIMPLE || send->local;
}

/* Post a slot to the receiver, after its data and size were stored (pairs with exec_wait_recv). */
EXEC_FN void exec_post_send(const EXEC *x, struct gpuring_fifo_end *to)
{
    to->posted++;
    if (exec_has_tail(x, to)) {
        exec_store_counter(&to->tail->tail, to->posted);
    }
    if (!exec_overlaps(x)) {
        to->step = to->posted;
    }
}

/* Give a slot back to the sender, after it was read (pairs with exec_wait_send). */
EXEC_FN void exec_post_recv(const EXEC *x, struct gpuring_fifo_end *from)
{
    (void) x;
    from->posted++;
    if (exec_gives_back(x, from)) {
        exec_store_counter(&from->head->head, from->posted);
    }
    from->step = from->posted;
}

/* Store the number of bytes in a slot before it is posted. */
EXEC_FN void exec_post_size(const EXEC *x, const struct gpuring_fifo_end *to, uint32_t used)
{
    (void) x;
    exec_store_size(&to->tail->size[to->posted & (to->nslots - 1)], used);
}

/*
 * Post slots and give slots back, after a barrier at which all threads have moved their data. A
 * fence of the owners orders tails after the accesses of the block. Heads of flagged lines need no
 * fence, because every load of the slot has returned its flag before the barrier. (Simple in a
 * block has functions of its own, see overlap.h.)
 */
EXEC_FN void exec_publish(EXEC *x, const struct exec_piece *piece)
{
    uint32_t nsends = piece->step->nsends, noperands = piece->step->noperands;
    uint32_t send = exec_own_send(x, piece, 0), recv = exec_own_recv(x, piece, 0);
    int fence = 0;

    for (uint32_t i = send; i < nsends; i = exec_own_send(x, piece, i + 1)) {
        const struct gpuring_fifo_end *to = &x->lane->sends[piece->sends[i]];
        uint64_t bytes = exec_peer_bytes(x, piece, i);

        if (bytes > 0 && exec_has_tail(x, to)) {
            exec_post_size(x, to, (uint32_t) exec_slot_used(x, bytes));
            fence = 1;
        }
    }
    if (fence) {
        exec_fence(x);
    }
    for (uint32_t i = send; i < nsends; i = exec_own_send(x, piece, i + 1)) {
        if (exec_has_data(x, piece, i)) {
            exec_post_send(x, &x->lane->sends[piece->sends[i]]);
        }
    }
    for (uint32_t i = recv; i < noperands; i = exec_own_recv(x, piece, i + 1)) {
        if (exec_has_data(x, piece, i)) {
            exec_post_recv(x, &x->lane->recvs[piece->operands[i]]);
        }
    }
    exec_posted(x);
}

/* Find chunk `number` of this window in a vector, and return its number of elements. */
EXEC_FN uint64_t exec_find_chunk(const EXEC *x, uint32_t number, uint64_t chunk, uint64_t window,
                                 struct exec_piece *piece)
{
    uint64_t begin = number * chunk;

    if (begin >= window) {
        return 0;
    }
    piece->input = piece->output = (x->first + begin) * x->type_size;
    return window - begin < chunk ? window - begin : chunk;
}

/* Find the next chunk in the lane's share of block `number`, and return its number of elements. If
 * a step reads and stores, its block has the same size in both buffers. */
EXEC_FN uint64_t exec_find_block(const EXEC *x, uint32_t number, uint64_t chunk,
                                 struct exec_piece *piece)
{
    int reads = (piece->step->flags & GPURING_STEP_INPUT) != 0;
    struct gpuring_extent block = gpuring_block_at(reads ? &x->work->in : &x->work->out, number);
    uint64_t first, count, at;

    gpuring_block_share(block.count, x->lane->part_begin, x->work->parts, x->type_size, &first,
                        &count);
    if (x->first >= count) {
        return 0;
    }
    at = (first + x->first) * x->type_size;
    piece->input = piece->output = block.offset + at;
    if (reads && (piece->step->flags & GPURING_STEP_STORE)) {
        piece->output = gpuring_block_at(&x->work->out, number).offset + at;
    }
    return count - x->first < chunk ? count - x->first : chunk;
}

/* Wait, move and post, one after the other, with all threads. */
EXEC_FN int exec_in_turn(EXEC *x, const struct exec_piece *piece)
{
    int result;

    exec_progress(x);
    result = exec_single_batch(x) ? EXEC_OK : exec_wait(x, piece);
    if (result == EXEC_OK) {
        result = exec_data(x, piece);
    }
    if (result == EXEC_OK && exec_single_batch(x)) {
        exec_note_single_batch(x, piece);
    } else if (result == EXEC_OK) {
        exec_barrier(x);
        exec_publish(x, piece);
    }
    return result;
}

/* Run the slices of a chunk. x->bytes counts the finished bytes. With GPURING_STEP_EACH, they are
 * those of the longest chunk, because no chunk has more slices than that. */
EXEC_FN int exec_slices(EXEC *x, const struct exec_piece *chunk)
{
    uint64_t bytes = gpuring_slice(chunk->count, x->work->slice, x->type_size) * x->type_size;

    for (; x->bytes < chunk->bytes; x->bytes += bytes) {
        struct exec_piece piece = *chunk;
        int result;

        piece.input += x->bytes;
        piece.output += x->bytes;
        if (bytes < chunk->bytes && !chunk->each) {
            piece.bytes = chunk->bytes - x->bytes < bytes ? chunk->bytes - x->bytes : bytes;
            piece.count = piece.bytes / x->type_size;
        }
        piece.last = chunk->last && x->bytes + bytes >= chunk->bytes;
        result = exec_run(x, &piece);
        if (result != EXEC_OK) {
            return result;
        }
    }
    return EXEC_OK;
}

/* Run a step on one chunk, or on the chunks of all its peers. */
EXEC_FN int exec_step(EXEC *x, const struct exec_piece *chunk)
{
    int cut =
        exec_protocol(x) == GPURING_PROTOCOL_SIMPLE && (exec_overlaps(x) || x->work->slice > 0);
    int result = cut ? exec_slices(x, chunk) : exec_run(x, chunk);

    if (result == EXEC_OK) {
        x->bytes = 0;
    }
    return result;
}

/* Run a step with one chunk. All ranks skip an empty chunk. */
EXEC_FN int exec_step_one(EXEC *x, struct exec_piece *piece, uint32_t number, uint64_t chunk,
                          uint64_t window)
{
    piece->count = x->work->has_blocks ? exec_find_block(x, number, chunk, piece)
                                       : exec_find_chunk(x, number, chunk, window, piece);
    piece->bytes = piece->count * x->type_size;
    piece->each = 0;
    return piece->count > 0 ? exec_step(x, piece) : EXEC_OK;
}

/* Run a step with GPURING_STEP_EACH. */
EXEC_FN int exec_step_each(EXEC *x, struct exec_piece *piece, uint64_t chunk)
{
    piece->input = piece->output = 0;
    piece->count = chunk;
    piece->bytes = chunk * x->type_size;
    piece->each = 1;
    return exec_mapped(x)   ? exec_signal(x, piece)
           : exec_serial(x) ? exec_each(x, piece)
                            : exec_step(x, piece);
}

/* Run the steps of one window, beginning with x->step. chunk: number of elements of a chunk.
 * window: number of elements of the window. */
EXEC_FN int exec_window(EXEC *x, uint64_t chunk, uint64_t window)
{
    for (; x->step < x->lane->nsteps; x->step++) {
        struct exec_piece piece;
        struct gpuring_step copy;
        uint32_t number;
        int result;

        piece.step =
            &x->lane->steps[gpuring_step_at(x->lane->steps, x->step, x->lane->nchunks, &number)];
        if (exec_copies_step(x)) {
            copy = *piece.step;
            piece.step = &copy;
        }
        piece.operands = x->lane->refs + piece.step->refs;
        piece.sends = piece.operands + piece.step->noperands;
        piece.last = x->step + 1 == x->lane->nsteps && window == x->rest;
        result = (piece.step->flags & GPURING_STEP_EACH) != 0
                     ? exec_step_each(x, &piece, chunk)
                     : exec_step_one(x, &piece, number, chunk, window);
        if (result != EXEC_OK) {
            return result;
        }
    }
    return EXEC_OK;
}

/* Return the number of elements of the next window, and set *chunk to that of each of its
 * chunks. */
EXEC_FN uint64_t exec_next_window(const EXEC *x, uint64_t *chunk)
{
    uint64_t nchunks =
        x->work->has_blocks ? 1 : x->lane->nchunks; /* a window has one chunk of each block */
    uint64_t window;

    *chunk = gpuring_window_chunk(x->rest, nchunks, x->work->chunk, x->type_size);
    window = *chunk * nchunks;
    return window < x->rest ? window : x->rest;
}

EXEC_FN uint32_t exec_windows(EXEC *x)
{
    while (x->rest > 0) {
        uint64_t chunk, window = exec_next_window(x, &chunk);
        int result = exec_window(x, chunk, window);

        if (result == EXEC_CORRUPT) {
            return GPURING_LANE_CORRUPT;
        }
        if (result != EXEC_OK) {
            /* Threads may have read different values of the abort word, so they must agree. */
            return exec_all(x, !exec_aborted(x)) ? GPURING_LANE_RUNNING : GPURING_LANE_ABORTED;
        }
        x->first += window;
        x->rest -= window;
        x->step = exec_first_step(x);
    }
    return GPURING_LANE_DONE;
}

/* Run a lane that was started until it is final or its patience is over. work, lane, state, home
 * and type_size must be set. */
EXEC_FN uint32_t exec_lane(EXEC *x)
{
    uint32_t status = x->state->status;

    if (status != GPURING_LANE_RUNNING) {
        return status;
    }
    x->first = x->state->first;
    x->rest = x->state->rest;
    x->bytes = x->state->bytes;
    x->step = x->state->step;
    exec_begin(x);
    status = exec_windows(x);
    exec_end(x);
    if (exec_thread(x) == 0) {
        if (status == GPURING_LANE_DONE) {
            exec_note(&x->home->wait, GPURING_WAIT_NONE);
        } else {
            x->home->first = x->first;
            x->home->rest = x->rest;
            x->home->bytes = x->bytes;
            x->home->step = x->step;
        }
        exec_note(&x->home->status, status);
    }
    return status;
}

#endif
