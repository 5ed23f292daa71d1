/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The data phase of steps with GPURING_STEP_EACH in a block of threads: a part of block.h. The
 * threads form groups of equal size, one for each peer, which copy the chunks of all peers
 * simultaneously. If there are more peers than groups, each group serves several peers, one after
 * another.
 *
 * A step can start again at any time, also in place. It only copies from memory that it does not
 * write to, and it posts slots and gives them back only at its end.
 */
#ifndef GPURING_BLOCK_EACH_H
#define GPURING_BLOCK_EACH_H

struct block_group {
    uint32_t peer;    /* of this thread's group, in the first round; may be beyond the last peer */
    uint32_t thread;  /* in the group */
    uint32_t threads; /* of each group: a multiple of those that share a line of LL128 */
    uint32_t groups;
};

EXEC_FN struct block_group block_group_of(const EXEC *x, const struct exec_piece *piece)
{
    uint32_t all = exec_nthreads(x), share = all / gpuring_step_peers(piece->step);
    struct block_group group;

    share -= share % BLOCK_LINE_THREADS;
    group.threads = share > 0 ? share : BLOCK_LINE_THREADS;
    group.groups = all / group.threads;
    group.peer = exec_thread(x) / group.threads;
    group.thread = exec_thread(x) - group.peer * group.threads;
    return group;
}

/* Return the piece of one peer, which has no bytes if there is no such peer. */
EXEC_FN struct exec_piece block_peer_piece(const EXEC *x, const struct exec_piece *piece,
                                           uint32_t peer)
{
    struct exec_piece own = *piece;
    struct exec_peer chunk = {0, 0};

    if (peer < gpuring_step_peers(piece->step)) {
        chunk = exec_peer_of(x, piece, peer);
    }
    own.input = own.output = chunk.offset;
    own.bytes = chunk.bytes;
    return own;
}

/* Packs in flight for each thread that copies between a slot and the user's buffer. */
#define BLOCK_EACH_PACKS 8

/* Copy a chunk between a slot, which has room for whole packs, and the user's buffer, with thread
 * `thread` of `threads`. `sends`: to the slot. */
BLOCK_SLOW void block_copy_chunk(uint8_t *to, const uint8_t *from, uint32_t bytes, int sends,
                                 uint32_t thread, uint32_t threads)
{
    uint32_t stride = 16 * threads;
    uint32_t end = ((uintptr_t) from | (uintptr_t) to) % 16 == 0 ? bytes / 16 * 16 : 0;
    struct exec_pack packs[BLOCK_EACH_PACKS];

    if (end <= stride) {
        block_round_load(from, 16 * thread, end, stride, packs, 1);
        block_round_store(to, 16 * thread, end, stride, packs, 1);
    } else {
        BLOCK_ROLLED
        for (uint32_t at = 16 * thread; at < end; at += BLOCK_EACH_PACKS * stride) {
            block_round_load(from, at, end, stride, packs, BLOCK_EACH_PACKS);
            block_round_store(to, at, end, stride, packs, BLOCK_EACH_PACKS);
        }
    }
    BLOCK_ROLLED
    for (uint32_t at = end + 16 * thread; at < bytes; at += stride) {
        if (sends) {
            int interior = at >= 4 && bytes - at >= 20;

            block_store_pack(to + at, block_load(from + at, bytes - at, interior));
        } else {
            block_store(to + at, block_load_pack(from + at), bytes - at);
        }
    }
}

EXEC_FN int block_simple_each(EXEC *x, const struct exec_piece *piece)
{
    const struct block_group group = block_group_of(x, piece);
    const struct exec_list *list = exec_list(x, x->slices);
    const uint32_t npeers = gpuring_step_peers(piece->step);
    int sends = piece->step->nsends > 0, result = exec_ready(x);

    if (result != EXEC_OK) {
        return result;
    }
    BLOCK_ROLLED
    for (uint32_t peer = group.peer; peer < npeers; peer += group.groups) {
        void *slot = list->at[sends ? peer + 1 : peer], *own = list->own[peer];

        block_copy_chunk((uint8_t *) (sends ? slot : own), (const uint8_t *) (sends ? own : slot),
                         list->bytes[peer], sends, group.thread, group.threads);
    }
    return EXEC_OK;
}

/* Copy the chunk of a peer with LL, one unit per thread at a time. All threads of the block make
 * the same number of passes, because they meet at a barrier before received units are stored (see
 * single-batch lanes in block_ll.h). */
EXEC_FN int block_ll_chunk(EXEC *x, const struct block_group *group, const struct exec_piece *own,
                           uint32_t peer, uint64_t most)
{
    uint64_t unit = 8 * block_unit_words(x);

    for (uint64_t at = unit * group->thread; at - unit * group->thread < most;
         at += unit * group->threads) {
        int active = at < own->bytes, ready = 1;
        struct exec_pack value = {{0, 0}};

        exec_progress(x);
        if (own->step->nsends > 0) {
            if (active) {
                block_unit_post(x, own, peer, at, block_unit_own(x, own, 0, at));
            }
            continue;
        }
        if (active) {
            struct block_unit lines = {{0, 0, 0, 0}};

            block_unit_fetch(x, own, peer, at, &lines);
            ready = block_unit_take(x, own, peer, at, &lines, &value);
        }
        if (!exec_all(x, ready)) {
            return EXEC_WAIT;
        }
        if (active) {
            block_unit_store(x, own, at, value);
        }
    }
    return EXEC_OK;
}

/* Copy the chunk of a peer with LL128. */
EXEC_FN int block_ll128_chunk(EXEC *x, const struct block_group *group,
                              const struct exec_piece *own, uint32_t peer, uint64_t most)
{
    uint64_t batch = (uint64_t) BLOCK_LINES * (group->threads / BLOCK_LINE_THREADS) * x->line_bytes;
    struct block_span span = {0, group->thread, group->threads};

    for (; span.base < most; span.base += batch) {
        int idle = block_warp_all(x, block_line_at(x, &span, 0) >= own->bytes);
        struct block_lines lines = {0};

        exec_progress(x);
        if (own->step->nsends > 0) {
            if (!idle) {
                block_lines_input(x, &span, own, exec_operand(x, own, 0), &lines);
                block_lines_send(x, &span, own, peer, &lines);
            }
            continue;
        }
        if (!exec_all(x, idle || block_lines_receive(x, &span, own, peer, &lines))) {
            return EXEC_WAIT;
        }
        if (!idle) {
            block_lines_store(x, &span, own, &lines);
        }
    }
    return EXEC_OK;
}

EXEC_FN int block_lines_each(EXEC *x, const struct exec_piece *piece)
{
    const struct block_group group = block_group_of(x, piece);

    if (exec_protocol(x) == GPURING_PROTOCOL_LL && !exec_single_batch(x)) {
        block_ll_clean(x, piece);
    }
    BLOCK_ROLLED
    for (uint32_t base = 0; base < gpuring_step_peers(piece->step); base += group.groups) {
        const struct exec_piece own = block_peer_piece(x, piece, base + group.peer);
        uint32_t peer = own.bytes > 0 ? base + group.peer : 0;
        int result = exec_protocol(x) == GPURING_PROTOCOL_LL
                         ? block_ll_chunk(x, &group, &own, peer, piece->bytes)
                         : block_ll128_chunk(x, &group, &own, peer, piece->bytes);

        if (result != EXEC_OK) {
            return result;
        }
    }
    return EXEC_OK;
}

#endif
