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
 *   BLOCK_ROLLED                        pragma that keeps the next loop rolled, or nothing
 *   exec_list(x, k)                     struct exec_list of slice k, one of EXEC_LISTS, which all
 *                                       threads of the block share
 */
#ifndef GPURING_OVERLAP_H
#define GPURING_OVERLAP_H

/*
 * Reference k of a step, an operand or a destination, belongs to owner k modulo the number of
 * owners. The threads that wait and post handle operands and destinations together, because a warp
 * would execute separate code for each kind in turn, and each instruction adds to the time of a
 * call.
 */

/* Return the connection of reference k, or NULL if there is none. */
EXEC_FN struct gpuring_fifo_end *exec_connection(const EXEC *x, const struct exec_piece *piece,
                                                 uint32_t k)
{
    uint32_t noperands = piece->step->noperands;
    uint32_t ref;

    if (k >= noperands + piece->step->nsends) {
        return NULL;
    }
    ref = piece->operands[k]; /* the destinations follow */
    return k >= noperands         ? &x->lane->sends[ref]
           : gpuring_ref_own(ref) ? NULL
                                  : &x->lane->recvs[ref];
}

/* Return the bytes that a step exchanges over the connection of reference k. */
GPURING_INLINE uint32_t exec_listed_bytes(const struct exec_list *list,
                                          const struct exec_piece *piece, uint32_t k)
{
    uint32_t noperands = piece->step->noperands;

    return !piece->each ? (uint32_t) piece->bytes : list->bytes[k < noperands ? k : k - noperands];
}

/* Store the chunk of peer i in the list of a slice, and return its bytes. */
EXEC_FN uint32_t exec_list_peer(const EXEC *x, const struct exec_piece *piece,
                                struct exec_list *list, uint32_t i, int sends)
{
    struct exec_peer peer = exec_peer_find(
        x->work, x->lane, gpuring_step_chunk(piece->step->chunk, i, x->lane->nchunks), sends,
        x->first, x->rest, piece->count, x->work->slice, x->bytes, x->type_size);

    list->own[i] = (uint8_t *) (uintptr_t) (sends ? x->work->input : x->work->output) + peer.offset;
    list->bytes[i] = (uint32_t) peer.bytes;
    return (uint32_t) peer.bytes;
}

/* Wait until a connection has room for another chunk, or has a chunk of this size. */
EXEC_FN int exec_wait_connection(EXEC *x, struct gpuring_fifo_end *end, int sends, uint32_t bytes)
{
    const uint64_t *counter = sends ? &end->head->head : &end->tail->tail;
    const uint64_t step = end->step, room = sends ? end->nslots : 0;
    const uint32_t *size = &end->tail->size[step & (end->nslots - 1)];
    uint64_t seen = end->seen;

    while (seen + room <= step) {
        /* Acquire: pairs with exec_post_listed and exec_post_end of the peer, or its proxy. */
        seen = exec_load_acquire(counter);
        if (seen + room <= step && !exec_poll(x)) {
            return EXEC_WAIT;
        }
    }
    end->seen = seen;
    if (!sends && exec_load_size(size) != bytes) {
        return EXEC_CORRUPT;
    }
    /* On mapped buffers, sends have no slots and never wait for room. */
    end->step = sends && exec_mapped(x) ? step : step + 1;
    return EXEC_OK;
}

/* Fill in reference k in the list of a slice, wait for its connection, and advance the connection
 * to its next slot. */
EXEC_FN int exec_wait_listed(EXEC *x, const struct exec_piece *piece, struct exec_list *list,
                             uint32_t k)
{
    const int sends = k >= piece->step->noperands;
    struct gpuring_fifo_end *end = exec_connection(x, piece, k);
    uint32_t bytes = (uint32_t) piece->bytes;
    int result = EXEC_OK;

    if (end == NULL) {
        list->at[k] = piece->operands[k] == GPURING_REF_INPUT
                          ? (uint8_t *) (uintptr_t) x->work->input + piece->input
                          : (uint8_t *) x->work->output + piece->output;
        return EXEC_OK;
    }
    list->at[k] = gpuring_fifo_slot(end) + (exec_mapped(x) ? piece->input : 0);
    if (piece->each) {
        bytes = exec_list_peer(x, piece, list, sends ? k - piece->step->noperands : k, sends);
    }
    if (bytes > 0) {
        result = exec_wait_connection(x, end, sends, bytes);
    }
    if (result != EXEC_OK) {
        exec_note_wait(x, sends ? GPURING_WAIT_SEND : GPURING_WAIT_RECV, piece->operands[k]);
    }
    return result;
}

/* Undo the advances of exec_wait_listed for this thread's references below `limit`. */
EXEC_FN void exec_take_back(EXEC *x, const struct exec_piece *piece, const struct exec_list *list,
                            uint32_t limit)
{
    BLOCK_ROLLED
    for (uint32_t k = exec_owner(x); k < limit; k += exec_owners(x)) {
        struct gpuring_fifo_end *connection = exec_connection(x, piece, k);
        int has_slots = k < piece->step->noperands || !exec_mapped(x);

        if (connection != NULL && has_slots && exec_listed_bytes(list, piece, k) > 0) {
            connection->step--;
        }
    }
}

/*
 * On mapped buffers, look at the abort word before the data is moved. A rank that has failed waits
 * for a time in which each kernel moves its data or runs out of patience. A kernel that is launched
 * later must not access the buffers of that rank. The load from the host's memory takes as long as
 * a wait.
 */
EXEC_FN int exec_waits(EXEC *x, const struct exec_piece *piece)
{
    struct exec_list *list = exec_list(x, x->slices);
    const uint32_t owners = exec_owners(x), noperands = piece->step->noperands;
    const uint32_t n = noperands + piece->step->nsends;
    uint32_t k = exec_owner(x);
    int aborted = exec_mapped(x) && exec_aborted(x), result = EXEC_OK;

    exec_progress(x);
    if (k == 0) {
        list->at[n] = (uint8_t *) x->work->output + piece->output;
        list->last = piece->last && n == noperands ? n : 0;
    }
    BLOCK_ROLLED
    for (; k < n && result == EXEC_OK; k += owners) {
        result = exec_wait_listed(x, piece, list, k);
    }
    if (!exec_agree(x, result == EXEC_OK && !aborted)) {
        exec_take_back(x, piece, list, result == EXEC_OK ? k : k - owners);
        result = exec_agree(x, result != EXEC_CORRUPT) ? EXEC_WAIT : EXEC_CORRUPT;
    }
    if (exec_owner(x) == 0) {
        list->result = result;
    }
    exec_meet_ready(x, x->slices);
    return result;
}

/* Wait until the slice may be moved, and return the result of the waiting warp. exec_data calls
 * this in the threads that move, after everything that does not depend on the wait. */
EXEC_FN int exec_ready(EXEC *x)
{
    const struct exec_list *list = exec_list(x, x->slices);

    exec_meet_ready(x, x->slices);
    return list->result;
}

EXEC_FN int exec_moves(EXEC *x, const struct exec_piece *piece)
{
    int result = exec_data(x, piece);

    exec_arrive_moved(x, x->slices);
    return result;
}

/* The stores of a thread that posts a slot or gives it back. */
struct exec_post {
    struct gpuring_fifo_end *end;
    uint64_t posted; /* of `end`, before */
    uint64_t *counter;
    uint32_t *size; /* NULL if the slot is given back */
    uint32_t bytes; /* 0: nothing is stored */
};

/* Prepare to post the connection of reference k. This does not depend on the list of the slice. */
EXEC_FN struct exec_post exec_post_of(const EXEC *x, const struct exec_piece *piece, uint32_t k)
{
    struct exec_post post = {exec_connection(x, piece, k), 0, NULL, NULL, 0};
    struct gpuring_fifo_end *end = post.end;

    if (end != NULL) {
        post.posted = end->posted;
        if (k >= piece->step->noperands) {
            post.counter = &end->tail->tail;
            post.size = &end->tail->size[post.posted & (end->nslots - 1)];
        } else {
            post.counter = &end->head->head;
        }
    }
    return post;
}

/* Set the bytes of a post after the slice has been moved. */
EXEC_FN void exec_post_bytes(const EXEC *x, const struct exec_piece *piece, uint32_t k,
                             struct exec_post *post)
{
    post->bytes = post->end == NULL ? 0 : exec_listed_bytes(exec_list(x, x->slices), piece, k);
}

/* Get the post of this thread's reference k. Return false if there is none. */
EXEC_FN int exec_next_post(const EXEC *x, const struct exec_piece *piece, uint32_t k, uint32_t n,
                           struct exec_post *post)
{
    if (k >= n) {
        return 0;
    }
    *post = exec_post_of(x, piece, k);
    exec_post_bytes(x, piece, k, post);
    return 1;
}

/* Post the slots of a slice and give slots back (pairs with exec_wait_connection). `first` is for
 * this thread's first reference. */
EXEC_FN void exec_post_listed(EXEC *x, const struct exec_piece *piece,
                              const struct exec_post *first)
{
    const uint32_t owner = exec_owner(x), owners = exec_owners(x);
    const uint32_t n = piece->step->noperands + piece->step->nsends;
    struct exec_post post = *first;
    uint32_t k = owner, fence = 0;

    BLOCK_ROLLED
    do {
        if (post.bytes > 0 && post.size != NULL) {
            exec_store_size(post.size, post.bytes);
        }
        fence |= post.bytes;
        k += owners;
    } while (exec_next_post(x, piece, k, n, &post));
    if (fence != 0) {
        exec_fence(x);
    }
    post = *first;
    k = owner;
    BLOCK_ROLLED
    do {
        if (post.bytes > 0) {
            exec_store_counter(post.counter, post.posted + 1);
            post.end->posted = post.posted + 1;
        }
        k += owners;
    } while (exec_next_post(x, piece, k, n, &post));
}

/* Let exec_post_end give the slots of the last slice of a lane back, so that the fence at the end
 * of the lane is the only one. The addresses in the list are no longer needed, so it stores the
 * connections instead. */
EXEC_FN void exec_defer(EXEC *x, const struct exec_piece *piece, struct exec_list *list,
                        const struct exec_post *first)
{
    struct exec_post post = *first;
    uint32_t k = exec_owner(x);

    BLOCK_ROLLED
    do {
        if (post.bytes > 0) {
            post.end->posted = post.posted + 1;
        }
        if (k < list->last) {
            list->at[k] = post.bytes > 0 ? post.end : NULL;
        }
        k += exec_owners(x);
    } while (exec_next_post(x, piece, k, list->last, &post));
}

EXEC_FN int exec_posts(EXEC *x, const struct exec_piece *piece)
{
    struct exec_list *list = exec_list(x, x->slices);
    struct exec_post first = exec_post_of(x, piece, exec_owner(x));
    int result;

    exec_meet_moved(x, x->slices);
    result = list->result;
    if (result == EXEC_OK) {
        exec_post_bytes(x, piece, exec_owner(x), &first);
        if (list->last != 0) {
            exec_defer(x, piece, list, &first);
        } else {
            exec_post_listed(x, piece, &first);
        }
    }
    exec_posted(x);
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
    const struct exec_list *list;

    exec_fence(x);
    if (x->slices == 0) {
        return;
    }
    list = exec_list(x, x->slices - 1);
    if (list->result != EXEC_OK) {
        return;
    }
    BLOCK_ROLLED
    for (uint32_t k = exec_owner(x); k < list->last; k += exec_owners(x)) {
        const struct gpuring_fifo_end *end = (const struct gpuring_fifo_end *) list->at[k];

        if (end != NULL) {
            exec_store_counter(&end->head->head, end->posted);
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
