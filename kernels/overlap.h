/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Simple in a block, with three overlapping duties. While most threads move a slice, one warp waits
 * for the next slice, and another warp posts the previous one, whose fence takes as long as a hop:
 *
 *   waits   | look for 1 |  look for 2  |  look for 3  |
 *           0            1              2              3         "ready"
 *   moves                |    move 1    |    move 2    |
 *                                       1              2         "moved"
 *   posts                                | fence, tails, heads 1 |
 *
 * Barrier "ready k": slice k has arrived, and the slots of slice k - 2 are posted. The movers and
 * the waiter wait there, and the poster arrives after it has posted slice k - 2. Barrier "moved k":
 * the movers arrive, and the poster waits. Both alternate between two barriers, so that no thread
 * arrives twice before the others have arrived.
 *
 * Included after executor.h. In addition to the list there, the execution header defines:
 *   exec_duty(x)                        EXEC_MOVES, EXEC_WAITS or EXEC_POSTS
 *   exec_meet_ready(x, k), exec_arrive_ready(x, k)
 *   exec_meet_moved(x, k), exec_arrive_moved(x, k)
 *   exec_list(x, k)                     struct exec_list of slice k, one of EXEC_LISTS, which all
 *                                       threads of the block share
 */
#ifndef GPURING_OVERLAP_H
#define GPURING_OVERLAP_H

/* Store the chunk of peer i in the list of a slice. */
EXEC_FN void exec_list_peer(EXEC *x, const struct exec_piece *piece, uint32_t i, uint8_t *buffer)
{
    struct exec_list *list = exec_list(x, x->slices);
    struct exec_peer peer = exec_peer_of(x, piece, i);

    list->own[i] = buffer + peer.offset;
    list->bytes[i] = (uint32_t) peer.bytes;
}

/* Fill in the list of the next slice, except for the result. The owner of each connection does this
 * in the waiting warp before it waits. */
EXEC_FN void exec_list_fill(EXEC *x, const struct exec_piece *piece)
{
    struct exec_list *list = exec_list(x, x->slices);
    uint32_t noperands = piece->step->noperands, nsends = piece->step->nsends;
    uint8_t *input = (uint8_t *) (uintptr_t) x->work->input, *output = (uint8_t *) x->work->output;
    const uint64_t offset = exec_mapped(x) ? piece->input : 0; /* in the buffers of peers */

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        list->at[noperands + i] = gpuring_fifo_slot(&x->lane->sends[piece->sends[i]]) + offset;
        if (piece->each) {
            exec_list_peer(x, piece, i, input);
        }
    }
    for (uint32_t i = exec_owner(x); i < noperands; i += exec_owners(x)) {
        uint32_t ref = piece->operands[i];

        list->at[i] = ref == GPURING_REF_INPUT ? input + piece->input
                      : ref == GPURING_REF_OUTPUT
                          ? output + piece->output
                          : gpuring_fifo_slot(&x->lane->recvs[ref]) + offset;
        if (piece->each && nsends == 0) {
            exec_list_peer(x, piece, i, output);
        }
    }
    if (exec_owner(x) == 0) {
        list->at[noperands + nsends] = output + piece->output;
        list->last = piece->last && nsends == 0;
    }
}

/* Advance to the next slots after a successful wait. In the next step, the connections may have
 * other owners. On mapped buffers, sends have no slots and never wait for room. */
EXEC_FN void exec_advance(EXEC *x, const struct exec_piece *piece)
{
    uint32_t noperands = piece->step->noperands;
    uint32_t nsends = exec_mapped(x) ? 0 : piece->step->nsends;

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        x->lane->sends[piece->sends[i]].step += exec_has_data(x, piece, i) ? 1 : 0;
    }
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands;
         i = exec_own_recv(x, piece, i + 1)) {
        x->lane->recvs[piece->operands[i]].step += exec_has_data(x, piece, i) ? 1 : 0;
    }
    exec_posted(x);
}

/*
 * On mapped buffers, look at the abort word before the data is moved. A rank that has failed waits
 * for a time in which each kernel moves its data or runs out of patience. A kernel that is launched
 * later must not access the buffers of that rank. The load from the host's memory takes as long as
 * a wait.
 */
EXEC_FN int exec_waits(EXEC *x, const struct exec_piece *piece)
{
    int aborted = exec_mapped(x) && exec_aborted(x), result;

    exec_progress(x);
    exec_list_fill(x, piece);
    result = exec_wait(x, piece);
    if (exec_mapped(x) && result == EXEC_OK && !exec_agree(x, !aborted)) {
        result = EXEC_WAIT;
    }
    if (exec_owner(x) == 0) {
        exec_list(x, x->slices)->result = result;
    }
    exec_meet_ready(x, x->slices);
    if (result == EXEC_OK) {
        exec_advance(x, piece);
    }
    return result;
}

EXEC_FN int exec_moves(EXEC *x, const struct exec_piece *piece)
{
    int result;

    exec_meet_ready(x, x->slices);
    result = exec_list(x, x->slices)->result;
    if (result == EXEC_OK) {
        (void) exec_data(x, piece);
    }
    exec_arrive_moved(x, x->slices);
    return result;
}

/* Let exec_post_end give the slots of the last slice of a lane back, so that the fence at the end
 * of the lane is the only one. */
EXEC_FN void exec_defer(EXEC *x, const struct exec_piece *piece)
{
    uint32_t noperands = piece->step->noperands;

    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands;
         i = exec_own_recv(x, piece, i + 1)) {
        x->lane->recvs[piece->operands[i]].posted += exec_has_data(x, piece, i) ? 1 : 0;
    }
    exec_posted(x);
}

EXEC_FN int exec_posts(EXEC *x, const struct exec_piece *piece)
{
    int result;

    exec_meet_moved(x, x->slices);
    result = exec_list(x, x->slices)->result;
    if (result == EXEC_OK && exec_list(x, x->slices)->last) {
        exec_defer(x, piece);
    } else if (result == EXEC_OK) {
        exec_publish(x, piece);
    }
    exec_arrive_ready(x, x->slices + 2);
    return result;
}

/* Return the bytes of chunk i of a step with GPURING_STEP_EACH, which one peer folds. Unlike
 * exec_peer_of, it is the whole chunk and not a slice, because nothing passes through slots. */
EXEC_FN uint32_t exec_chunk_bytes(const EXEC *x, const struct exec_piece *piece, uint32_t i)
{
    uint64_t first = gpuring_step_chunk(piece->step->chunk, i, x->lane->nchunks) * piece->count;
    uint64_t rest = first < x->rest ? x->rest - first : 0;

    return (uint32_t) ((rest < piece->count ? rest : piece->count) * x->type_size);
}

/* Let the peers read the input. */
EXEC_FN void exec_allow_reads(EXEC *x, const struct exec_piece *piece)
{
    uint32_t nsends = piece->step->nsends;

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        exec_post_size(x, &x->lane->sends[piece->sends[i]], exec_chunk_bytes(x, piece, i));
    }
    exec_fence(x);
    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        if (exec_chunk_bytes(x, piece, i) > 0) {
            exec_post_send(x, &x->lane->sends[piece->sends[i]]);
        }
    }
    exec_posted(x);
}

/* Wait until the peers have stored their chunks in the output. */
EXEC_FN int exec_await_results(EXEC *x, const struct exec_piece *piece)
{
    uint32_t noperands = piece->step->noperands;
    int result = EXEC_OK;

    exec_progress(x);
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands && result == EXEC_OK;
         i = exec_own_recv(x, piece, i + 1)) {
        uint32_t bytes = exec_chunk_bytes(x, piece, i);

        if (bytes > 0) {
            result = exec_wait_recv(x, &x->lane->recvs[piece->operands[i]], bytes);
        }
        if (result != EXEC_OK) {
            exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[i]);
        }
    }
    if (!exec_agree(x, result == EXEC_OK)) {
        return exec_agree(x, result != EXEC_CORRUPT) ? EXEC_WAIT : EXEC_CORRUPT;
    }
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands;
         i = exec_own_recv(x, piece, i + 1)) {
        x->lane->recvs[piece->operands[i]].step += exec_chunk_bytes(x, piece, i) > 0 ? 1 : 0;
    }
    exec_posted(x);
    return EXEC_OK;
}

/* Run a step with GPURING_STEP_EACH on mapped buffers, which moves no data. Only the posting warp
 * sends, while the others begin the next step. */
EXEC_FN int exec_signal(EXEC *x, const struct exec_piece *piece)
{
    int result = EXEC_OK;

    if (piece->step->nsends > 0) {
        if (exec_duty(x) == EXEC_POSTS) {
            exec_allow_reads(x, piece);
        }
        return EXEC_OK;
    }
    if (exec_duty(x) == EXEC_WAITS) {
        result = exec_await_results(x, piece);
    }
    if (exec_all(x, result == EXEC_OK)) {
        return EXEC_OK;
    }
    return exec_all(x, result != EXEC_CORRUPT) ? EXEC_WAIT : EXEC_CORRUPT;
}

EXEC_FN int exec_overlapped(EXEC *x, const struct exec_piece *piece)
{
    int result;

    switch (exec_duty(x)) {
    case EXEC_WAITS:
        result = exec_waits(x, piece);
        break;
    case EXEC_POSTS:
        result = exec_posts(x, piece);
        break;
    default:
        result = exec_moves(x, piece);
        break;
    }
    x->slices++;
    return result;
}

EXEC_FN void exec_overlap_begin(EXEC *x)
{
    x->slices = 0;
    if (exec_duty(x) == EXEC_POSTS) {
        exec_arrive_ready(x, 0);
        exec_arrive_ready(x, 1);
    }
}

/* Order everything that the lane has done before the end of the lane, and give the last slots back.
 * The posting threads call this after all threads have finished. */
EXEC_FN void exec_post_end(EXEC *x)
{
    const struct gpuring_lane *lane = x->lane;
    uint32_t number;
    struct exec_piece piece;

    exec_fence(x);
    if (x->slices == 0) {
        return;
    }
    x->slices--;
    if (exec_list(x, x->slices)->result != EXEC_OK || !exec_list(x, x->slices)->last) {
        return;
    }
    piece.step =
        &lane->steps[gpuring_step_at(lane->steps, lane->nsteps - 1, lane->nchunks, &number)];
    piece.operands = lane->refs + piece.step->refs;
    piece.each = (piece.step->flags & GPURING_STEP_EACH) != 0;
    piece.bytes = 1;
    for (uint32_t i = exec_own_recv(x, &piece, 0); i < piece.step->noperands;
         i = exec_own_recv(x, &piece, i + 1)) {
        const struct gpuring_fifo_end *from = &lane->recvs[piece.operands[i]];

        if (exec_has_data(x, &piece, i)) {
            exec_store_counter(&from->head->head, from->posted);
        }
    }
}

/* Complete the two "ready" barriers at which the poster has already arrived for slices that do not
 * exist. */
EXEC_FN void exec_overlap_end(EXEC *x)
{
    if (exec_duty(x) != EXEC_POSTS) {
        exec_meet_ready(x, x->slices);
        exec_meet_ready(x, x->slices + 1);
    }
}

#endif
