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

/* Store the addresses of the operands and destinations of a slice, and advance to the next slots.
 * The owner of each connection does this in the waiting warp. */
EXEC_FN void exec_enter(EXEC *x, const struct exec_piece *piece)
{
    struct exec_list *list = exec_list(x, x->slices);
    uint32_t noperands = piece->step->noperands, nsends = piece->step->nsends;

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];

        if (exec_has_data(x, piece, i)) {
            list->at[noperands + i] =
                send->slots + (send->step++ & (send->nslots - 1)) * send->slot_bytes;
        }
    }
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands;
         i = exec_own_recv(x, piece, i + 1)) {
        struct gpuring_fifo_end *recv = &x->lane->recvs[piece->operands[i]];

        if (exec_has_data(x, piece, i)) {
            list->at[i] = recv->slots + (recv->step++ & (recv->nslots - 1)) * recv->slot_bytes;
        }
    }
}

EXEC_FN int exec_waits(EXEC *x, const struct exec_piece *piece)
{
    int result;

    exec_progress(x);
    result = exec_wait(x, piece);
    if (result == EXEC_OK) {
        exec_enter(x, piece);
    }
    if (exec_owner(x) == 0) {
        exec_list(x, x->slices)->result = result;
    }
    exec_meet_ready(x, x->slices);
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

EXEC_FN int exec_posts(EXEC *x, const struct exec_piece *piece)
{
    int result;

    exec_meet_moved(x, x->slices);
    result = exec_list(x, x->slices)->result;
    if (result == EXEC_OK) {
        exec_publish(x, piece);
    }
    exec_arrive_ready(x, x->slices + 2);
    return result;
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
