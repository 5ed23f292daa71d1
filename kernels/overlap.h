/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Simple in a block: three duties that overlap. While some threads move a slice, a warp waits for
 * the next one and another posts the last one, whose fence takes as long as a hop:
 *
 *   waits   | look for 1 |  look for 2  |  look for 3  |
 *           0            1              2              3         they meet: "ready"
 *   moves                |    move 1    |    move 2    |
 *                                       1              2         "moved"
 *   posts                                | fence, tails, heads 1 |
 *
 * Ready k: the slice is there, and the slots of slice k - 2 are posted; movers and the waiter meet
 * there, the poster arrives after it has posted slice k - 2. Moved k: movers arrive, the poster
 * waits. Both have two barriers in turn, so nobody arrives twice before the others have come.
 *
 * Included after executor.h. Besides what that lists, the execution header defines:
 *   exec_duty(x)                        EXEC_MOVES, EXEC_WAITS or EXEC_POSTS
 *   exec_meet_ready(x, k), exec_arrive_ready(x, k)
 *   exec_meet_moved(x, k), exec_arrive_moved(x, k)
 *   exec_list(x, k)                     struct exec_list of slice k, of EXEC_LISTS in turn, which
 *                                       all threads of the block share
 */
#ifndef GPURING_OVERLAP_H
#define GPURING_OVERLAP_H

/* The waiter enters where the operands and destinations of its slices lie, and goes on to the next
 * slots; the owner of a connection does so for it. */
EXEC_FN void exec_enter(EXEC *x, const struct exec_piece *piece)
{
    struct exec_list *list = exec_list(x, x->slices);
    uint32_t noperands = piece->step->noperands, nsends = piece->step->nsends;

    for (uint32_t i = exec_own_send(x, piece, 0); i < nsends; i = exec_own_send(x, piece, i + 1)) {
        struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];

        list->at[noperands + i] =
            send->slots + (send->step++ & (send->nslots - 1)) * send->slot_bytes;
    }
    for (uint32_t i = exec_own_recv(x, piece, 0); i < noperands;
         i = exec_own_recv(x, piece, i + 1)) {
        struct gpuring_fifo_end *recv = &x->lane->recvs[piece->operands[i]];

        list->at[i] = recv->slots + (recv->step++ & (recv->nslots - 1)) * recv->slot_bytes;
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

/* Nobody is left at a barrier: the poster has arrived for two slices that never came. */
EXEC_FN void exec_overlap_end(EXEC *x)
{
    if (exec_duty(x) != EXEC_POSTS) {
        exec_meet_ready(x, x->slices);
        exec_meet_ready(x, x->slices + 1);
    }
}

#endif
