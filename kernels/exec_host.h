/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The host executor of one protocol: the common executor with one thread per lane. It is compiled
 * once per protocol, because branches on the protocol dominate the time of small calls. The
 * includer defines EXEC_PROTOCOL before this header, and exec_data and exec_run after it.
 */
#ifndef GPURING_EXEC_HOST_H
#define GPURING_EXEC_HOST_H

#include <string.h>

#include "kernels/fold.h"
#include "kernels/work.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Run a work of the protocol like gpuring_work_run_host. `fold` is for its type and operation. */
typedef int gpuring_run_host(struct gpuring_work *work, const struct gpuring_type_info *type,
                             gpuring_fold_fn fold);
gpuring_run_host gpuring_run_host_simple, gpuring_run_host_ll, gpuring_run_host_ll128;

#if defined(EXEC_PROTOCOL)

/* The execution header of a lane that is one host thread; see executor.h. */
#define EXEC_FN   static inline
#define EXEC_SLOW static inline
#define EXEC      struct exec

struct exec {
    const struct gpuring_work *work;
    const struct gpuring_lane *lane;
    const struct gpuring_lane_state *state; /* equal to home */
    struct gpuring_lane_state *home;
    uint64_t type_size, line_bytes, first, rest, bytes;
    uint32_t step;
    uint32_t type_shift; /* type_size is 1 << type_shift */
    uint64_t polls;      /* remaining polls of this lane */
    uint32_t pauses;     /* pauses after each poll */
    gpuring_fold_fn fold;
    int beyond; /* with Simple: input and output are larger than the caches */
};

EXEC_FN uint32_t exec_thread(const struct exec *x)
{
    (void) x;
    return 0;
}

EXEC_FN uint32_t exec_nthreads(const struct exec *x)
{
    (void) x;
    return 1;
}

EXEC_FN uint32_t exec_protocol(const struct exec *x)
{
    (void) x;
    return EXEC_PROTOCOL;
}

EXEC_FN void exec_barrier(const struct exec *x)
{
    (void) x;
}

EXEC_FN int exec_all(const struct exec *x, int ok)
{
    (void) x;
    return ok;
}

/* The single thread of a lane does everything. */
#define exec_owner                       exec_thread
#define exec_owners                      exec_nthreads
#define exec_agree                       exec_all
#define exec_posted(x)                   ((void) (x))
#define exec_overlaps(x)                 0
#define exec_serial(x)                   1
#define exec_copies_step(x)              0
#define exec_list(x, k)                  ((struct exec_list *) NULL)
#define exec_begin(x)                    ((void) (x))
#define exec_end(x)                      ((void) (x))
#define exec_single_batch(x)             0
#define exec_note_single_batch(x, piece) ((void) 0)

/* Return the number of steps of a lane that may run ahead. */
EXEC_FN uint32_t host_leading_steps(const struct gpuring_lane *lane)
{
    uint32_t count = 0;

    while (count < lane->nsteps && (lane->steps[count].flags & GPURING_STEP_AHEAD) != 0) {
        count++;
    }
    return count;
}

/* Skip the steps that have run ahead. */
EXEC_FN uint32_t host_first_step(const struct exec *x)
{
    if (x->home->ahead == 0) {
        return 0;
    }
    x->home->ahead--;
    return host_leading_steps(x->lane);
}
#define exec_first_step host_first_step

#define MANY_SLOTS 64

/* If there are many slots, give them back in groups whose short slots share a cache line. Otherwise
 * the sender, which is up to one round of slots ahead, could write into the line that is read next.
 * Because of this, the sender may have up to three slots fewer. */
EXEC_FN int exec_gives_back(const struct exec *x, const struct gpuring_fifo_end *from)
{
    (void) x;
    return from->local || from->nslots < MANY_SLOTS ||
           from->posted % (64 / GPURING_FIFO_SHORT) == 0;
}

#include "kernels/exec_memory.h"

EXEC_FN int exec_poll(struct exec *x)
{
    if (x->polls <= 1 || exec_aborted(x)) {
        x->polls = 0;
        return 0;
    }
    x->polls--;
    for (uint32_t i = 0; i < x->pauses; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield" ::: "memory");
#endif
    }
    return 1;
}

/* Do not restore the polls after progress, because lanes take turns in this thread. */
EXEC_FN void exec_progress(struct exec *x)
{
    (void) x;
}

struct exec_piece;
EXEC_FN int exec_data(struct exec *x, const struct exec_piece *piece);
EXEC_FN int exec_run(struct exec *x, const struct exec_piece *piece);
EXEC_FN int exec_each(struct exec *x, const struct exec_piece *piece);

#include "kernels/executor.h"

/* Run a step with GPURING_STEP_EACH for one peer after another. Receive in the opposite order,
 * because the previous rank sends to this one first. */
EXEC_FN int exec_each(struct exec *x, const struct exec_piece *each)
{
    uint32_t sends = each->step->nsends, npeers = gpuring_step_peers(each->step);
    const struct gpuring_step step = {.noperands = 1,
                                      .nsends = sends > 0,
                                      .flags = (uint16_t) (each->step->flags & ~GPURING_STEP_EACH)};

    for (; x->home->peer < npeers; x->home->peer++) {
        uint32_t i = sends > 0 ? x->home->peer : npeers - 1 - x->home->peer;
        struct exec_peer peer = exec_peer_at(
            x->work, x->lane, gpuring_step_chunk(each->step->chunk, i, x->lane->nchunks), sends > 0,
            x->first, x->rest, each->count, 0, 0, x->type_size);
        struct exec_piece piece = {.step = &step,
                                   .operands = each->operands + (sends > 0 ? 0 : i),
                                   .sends = each->sends + i,
                                   .input = peer.offset,
                                   .output = peer.offset,
                                   .count = peer.bytes / x->type_size,
                                   .bytes = peer.bytes};
        int result = peer.bytes > 0 ? exec_step(x, &piece) : EXEC_OK;

        if (result != EXEC_OK) {
            return result;
        }
    }
    x->home->peer = 0;
    return EXEC_OK;
}

/* Defined by each protocol. host_send copies the bytes [at, at + bytes) of a piece into the slot of
 * a connection. host_store stores a value in the output, unless it is already there. */
EXEC_FN void host_send(const struct exec *x, const struct exec_piece *piece,
                       const struct gpuring_fifo_end *send, uint64_t at, const uint8_t *value,
                       uint64_t bytes);
EXEC_FN void host_store(const struct exec *x, uint8_t *output, const uint8_t *value,
                        uint64_t bytes);

/* Like exec_wait, but with fewer instructions, because this thread owns all connections. */
EXEC_FN int host_wait_sends(struct exec *x, const struct exec_piece *piece)
{
    const uint16_t *sends = piece->sends;
    uint32_t nsends = piece->step->nsends;

    for (uint32_t i = 0; i < nsends; i++) {
        if (exec_wait_send(x, &x->lane->sends[sends[i]]) != EXEC_OK) {
            exec_note_wait(x, GPURING_WAIT_SEND, sends[i]);
            return EXEC_WAIT;
        }
    }
    return EXEC_OK;
}

/* Return true if the lane chooses where a piece is received (fifo.h). */
EXEC_FN int host_wants(const struct gpuring_fifo_end *recv, uint64_t used)
{
    return EXEC_PROTOCOL == GPURING_PROTOCOL_SIMPLE && used > GPURING_FIFO_WANTED &&
           recv->local == GPURING_FIFO_NET_ANY;
}

/* Return the address at which a wanted piece is received: the output, if the step only stores the
 * piece there, or only folds it with an input that is elsewhere. Otherwise the slot. */
EXEC_FN uint8_t *host_wanted_at(const struct exec *x, const struct exec_piece *piece,
                                const struct gpuring_fifo_end *recv)
{
    uint32_t other = gpuring_ref_own(piece->operands[0]) ? 0 : 1;
    int fits = piece->step->noperands == 1 ||
               (piece->step->noperands == 2 && piece->operands[other] == GPURING_REF_INPUT &&
                x->work->input != x->work->output);
    uint8_t *output = exec_output(x, piece);

    return fits && output != NULL ? output : gpuring_fifo_slot(recv);
}

EXEC_FN int host_wait_recv(struct exec *x, const struct exec_piece *piece, uint32_t ref,
                           uint64_t used)
{
    struct gpuring_fifo_end *recv = &x->lane->recvs[ref];
    int result;

    if (recv->local == GPURING_FIFO_NET_ANY && recv->head->wanted != recv->step + 1) {
        recv->head->to = host_wanted_at(x, piece, recv);
        recv->head->room = used;
        exec_store_release(&recv->head->wanted, recv->step + 1); /* partner: the net, which polls
                                                                    `wanted` */
    }
    result = exec_wait_recv(x, recv, used);
    if (result != EXEC_OK) {
        exec_note_wait(x, GPURING_WAIT_RECV, ref);
    }
    return result;
}

EXEC_FN int host_wait(struct exec *x, const struct exec_piece *piece, uint64_t used)
{
    const uint16_t *operands = piece->operands;
    uint32_t noperands = piece->step->noperands;
    int result = host_wait_sends(x, piece);

    for (uint32_t i = 0; i < noperands && result == EXEC_OK; i++) {
        if (!gpuring_ref_own(operands[i])) {
            result = host_wait_recv(x, piece, operands[i], used);
        }
    }
    return result;
}

/* Shorter chunks are copied, because MPI completes the send of a short message immediately. */
#define LEAST_BY_ADDRESS (32 << 10)

/* Return the memory from which the net can send the value of a piece, or NULL if the value must be
 * copied into the slot. A stored value is final unless it is PARTIAL. The input is final unless the
 * output overwrites it. */
EXEC_FN const uint8_t *host_address(const struct exec *x, const struct exec_piece *piece,
                                    const struct gpuring_fifo_end *send)
{
    const uint8_t *output = exec_output(x, piece);

    if (EXEC_PROTOCOL != GPURING_PROTOCOL_SIMPLE || send->local != GPURING_FIFO_NET_ANY ||
        piece->bytes < LEAST_BY_ADDRESS || (piece->step->flags & GPURING_STEP_PARTIAL) != 0) {
        return NULL;
    }
    if (piece->step->noperands == 1 && piece->operands[0] == GPURING_REF_INPUT) {
        const uint8_t *value = exec_operand(x, piece, 0);

        return x->work->input != x->work->output || value == output ? value : NULL;
    }
    return output;
}

/* Like exec_publish. The stores are releases. */
EXEC_FN void host_post_send(struct exec *x, const struct exec_piece *piece,
                            struct gpuring_fifo_end *to, uint64_t used)
{
    const uint8_t *address = host_address(x, piece, to);

    if (address != NULL) {
        memcpy(gpuring_fifo_slot(to), &address, sizeof address);
        used |= GPURING_FIFO_ADDRESS;
    }
    if (exec_has_tail(x, to)) {
        exec_post_size(x, to, (uint32_t) used);
    }
    exec_post_send(x, to);
}

EXEC_FN void host_post(struct exec *x, const struct exec_piece *piece, uint64_t used)
{
    const struct gpuring_lane *lane = x->lane;
    const uint16_t *operands = piece->operands, *sends = piece->sends;
    uint32_t noperands = piece->step->noperands, nsends = piece->step->nsends;

    for (uint32_t i = 0; i < nsends; i++) {
        host_post_send(x, piece, &lane->sends[sends[i]], used);
    }
    for (uint32_t i = 0; i < noperands; i++) {
        if (!gpuring_ref_own(operands[i])) {
            exec_post_recv(x, &lane->recvs[operands[i]]);
        }
    }
}

/* Run a step whose operand is in the user's buffers. Send first and store the output afterwards,
 * because peers wait for the data. */
EXEC_FN int host_run_own(struct exec *x, const struct exec_piece *piece, uint64_t used)
{
    const uint8_t *value = exec_operand(x, piece, 0);
    const uint16_t *sends = piece->sends;
    uint32_t nsends = piece->step->nsends;
    uint8_t *output = exec_output(x, piece);

    if (host_wait_sends(x, piece) != EXEC_OK) {
        return EXEC_WAIT;
    }
    for (uint32_t i = 0; i < nsends; i++) {
        struct gpuring_fifo_end *send = &x->lane->sends[sends[i]];

        if (host_address(x, piece, send) == NULL) {
            host_send(x, piece, send, 0, value, piece->bytes);
        }
        host_post_send(x, piece, send, used);
    }
    if (output != NULL) {
        host_store(x, output, value, piece->bytes);
    }
    return EXEC_OK;
}

/*
 * While a lane between nodes waits for data, it sends its input for up to MOST_AHEAD more windows,
 * so that the network transfers them while this thread folds. These sends read their input earlier
 * than they would otherwise, so MPI_IN_PLACE stays safe. They use connections on which no other
 * step of the lane sends, so each connection carries the same chunks in the same order. A lane with
 * more than MOST_LEADING such steps does not run ahead, because it would check for room too often.
 */
#define MOST_AHEAD   4
#define MOST_LEADING 64

static inline int has_room(struct exec *x, uint32_t nsteps)
{
    for (uint32_t k = 0; k < nsteps; k++) {
        const struct gpuring_step *step = &x->lane->steps[k];
        const uint16_t *sends = x->lane->refs + step->refs + step->noperands;

        for (uint32_t i = 0; i < step->nsends; i++) {
            x->polls = 1;
            if (exec_wait_send(x, &x->lane->sends[sends[i]]) != EXEC_OK) {
                return 0;
            }
        }
    }
    return 1;
}

static inline int is_between_nodes(const struct gpuring_lane *lane)
{
    for (uint32_t i = 0; i < lane->nsends; i++) {
        if (lane->sends[i].local) {
            return 1;
        }
    }
    return 0;
}

/* Run the first steps of later windows that have room. */
static inline void run_ahead(struct exec *x)
{
    uint32_t count = host_leading_steps(x->lane);
    struct gpuring_lane leading = *x->lane;
    const struct exec before = *x;
    uint32_t peer = x->home->peer;

    if (x->step < count || count > MOST_LEADING || x->work->slice > 0 ||
        !is_between_nodes(x->lane)) {
        return;
    }
    leading.nsteps = count;
    x->lane = &leading;
    x->home->peer = 0; /* of a receiving step, which continues afterwards */
    for (uint32_t number = 0; x->rest > 0 && number <= MOST_AHEAD; number++) {
        uint64_t chunk, window = exec_next_window(x, &chunk);

        if (number > x->home->ahead) {
            if (!has_room(x, count)) {
                break;
            }
            x->step = 0;
            (void) exec_window(x, chunk, window); /* does not wait */
            x->home->ahead++;
        }
        x->first += window;
        x->rest -= window;
    }
    *x = before;
    x->home->peer = peer;
}

/*
 * Pauses after each poll of a lane that sends nothing, for example on the last ranks of a bcast.
 * Such a lane polls less often, because each poll takes the cache line from the sender, which may
 * still be writing to it. Of 1, 3, 5 and 9 pauses, 3 is the smallest number with which successive
 * small bcasts became faster. With 9 pauses, a single bcast took longer.
 */
#define PAUSES_ALONE 3

static inline uint32_t lane_run(struct exec *x, uint32_t lane, uint64_t polls)
{
    uint32_t status;

    x->lane = &x->work->lanes[lane];
    x->state = x->home = &x->work->states[lane];
    x->polls = polls;
    x->pauses = x->lane->nsends > 0 ? 1 : PAUSES_ALONE;
    if (x->home->status == GPURING_LANE_NEW) {
        gpuring_lane_start(x->work, x->lane, x->type_size, x->home);
        x->home->ahead = 0;
    }
    status = exec_lane(x);
    if (status == GPURING_LANE_RUNNING && (x->lane->steps[0].flags & GPURING_STEP_AHEAD) != 0 &&
        x->home->ahead < MOST_AHEAD) {
        run_ahead(x);
    }
    return status;
}

/* Return a number that usually changes when a lane makes progress. If it does not change, patience
 * ends one round earlier. */
static uint64_t lane_progress(const struct gpuring_lane_state *state)
{
    return state->first + state->bytes + state->step + state->peer + state->status + state->ahead;
}

/* Return the status of the work for a lane that has returned with `status`. */
static int work_status(const struct gpuring_work *work, uint32_t lane, uint32_t status)
{
    switch (status) {
    case GPURING_LANE_RUNNING:
        return GPURING_AGAIN;
    case GPURING_LANE_DONE:
        return GPURING_OK;
    case GPURING_LANE_ABORTED:
        return GPURING_ERR_ABORTED;
    default:
        gpuring_error("[counts-differ] lane %u step %u: a slot of connection %u holds another size "
                      "than this rank's call has; all ranks must give the same count and datatype",
                      lane, work->states[lane].step, work->states[lane].wait_ref);
        return GPURING_ERR_COUNTS;
    }
}

/* Run all lanes in turn, until `patience` successive rounds have made no progress. */
static int lanes_run(struct exec *x, struct gpuring_work *work)
{
    uint64_t idle = 0;
    uint32_t running = work->nlanes, last = 0;

    while (running > 1) {
        uint64_t before = 0, after = 0;

        running = 0;
        for (uint32_t i = 0; i < work->nlanes; i++) {
            uint32_t status;

            before += lane_progress(&work->states[i]);
            status = lane_run(x, i, 1);
            after += lane_progress(&work->states[i]);
            if (status == GPURING_LANE_RUNNING) {
                running++;
                last = i;
            } else if (status != GPURING_LANE_DONE) {
                return work_status(work, i, status);
            }
        }
        idle = after != before ? 0 : idle + 1;
        if (running > 1 && idle >= work->patience) {
            return GPURING_AGAIN;
        }
    }
    return running == 0 ? GPURING_OK : work_status(work, last, lane_run(x, last, work->patience));
}

static inline void exec_prepare(struct exec *x, const struct gpuring_work *work,
                                const struct gpuring_type_info *type, gpuring_fold_fn fold)
{
    x->work = work;
    x->fold = fold;
    x->type_size = type->size;
    x->type_shift = (uint32_t) __builtin_ctz(type->size);
    x->line_bytes = gpuring_line_bytes(type->size);
}

#endif
#endif
