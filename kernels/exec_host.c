/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The host executor: the common executor with one thread per lane, and the data phase of the three
 * protocols in terms of the folding functions.
 */
#include <string.h>

#include "kernels/copy.h"
#include "kernels/fold.h"
#include "kernels/work.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* The execution header of a lane that is one host thread; see executor.h. */
#define EXEC_FN static inline
#define EXEC    struct exec

struct exec {
    const struct gpuring_work *work;
    const struct gpuring_lane *lane; /* the same as home */
    struct gpuring_lane *home;
    uint64_t type_size, line_bytes, done, bytes;
    uint32_t step;
    uint32_t type_shift; /* type_size is 1 << type_shift */
    uint64_t polls;      /* that this lane may still spend */
    uint32_t pauses;     /* after each */
    gpuring_fold_fn fold;
    int beyond; /* input and output are larger than the caches */
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
    return x->work->protocol;
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

/* The one thread does everything, in turn. */
#define exec_owner                exec_thread
#define exec_owners               exec_nthreads
#define exec_agree                exec_all
#define exec_posted(x)            ((void) (x))
#define exec_overlaps(x)          0
#define exec_list(x, k)           ((struct exec_list *) NULL)
#define exec_begin(x)             ((void) (x))
#define exec_end(x)               ((void) (x))
#define exec_brief(x)             0
#define exec_note_brief(x, piece) ((void) 0)

/* Many slots are given back by the cache line of short ones: the sender, a ring ahead, would else
 * write into the line that is read next. It may have three slots fewer so. */
EXEC_FN int exec_gives_back(const struct exec *x, const struct gpuring_fifo_end *from)
{
    (void) x;
    return from->local || from->nslots < GPURING_FIFO_MAX_SLOTS ||
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

/* Polls are the lane's, until it returns: lanes take turns. */
EXEC_FN void exec_progress(struct exec *x)
{
    (void) x;
}

struct exec_piece;
EXEC_FN int exec_data(struct exec *x, const struct exec_piece *piece);
#define exec_run exec_in_turn

#include "kernels/executor.h"

/* LL and LL128 unpack that much at a time, so that it stays in the L1 cache: a multiple of every
 * line's data. */
#define BLOCK_BYTES 3360
_Static_assert(BLOCK_BYTES % 120 == 0 && BLOCK_BYTES % 112 == 0 && BLOCK_BYTES % 96 == 0 &&
                   BLOCK_BYTES % 32 == 0,
               "blocks hold whole lines and whole elements");

/*
 * Of a call with more input and output than this the output goes around the caches, where it is
 * copied from a slot or from the input: a store through the caches loads the line first, and
 * pushes another one out. Measured with an L3 cache of 32 MiB, which other cores share: 8 MiB of
 * output were slower so, 16 MiB faster. Cache sizes that processors give to virtual machines are
 * those of all their caches together.
 */
#define CACHED_BYTES (UINT64_C(12) << 20)

static int is_apart(const uint8_t *a, const uint8_t *b, uint64_t bytes)
{
    return a + bytes <= b || b + bytes <= a;
}

static void store_output(const struct exec *x, uint8_t *output, const uint8_t *value,
                         uint64_t bytes)
{
    if (!is_apart(output, value, bytes)) {
        memmove(output, value, bytes);
    } else if (x->beyond) {
        gpuring_copy_stream(output, value, bytes);
    } else {
        gpuring_copy(output, value, bytes);
    }
}

/* Where operand `index` of a piece of Simple lies, and where it goes: slots may be spread. */
static const uint8_t *simple_operand(const struct exec *x, const struct exec_piece *piece,
                                     uint32_t index)
{
    uint32_t ref = piece->operands[index];

    return exec_operand(x, piece, index) +
           (gpuring_ref_own(ref) ? 0 : gpuring_fifo_spread(&x->lane->recvs[ref], piece->bytes));
}

static uint8_t *simple_send(const struct exec *x, const struct exec_piece *piece, uint32_t index)
{
    return exec_send_slot(x, piece, index) +
           gpuring_fifo_spread(&x->lane->sends[piece->sends[index]], piece->bytes);
}

/* Sums go block by block, so that they are sent and added to from the L1 cache; copies, and sums of
 * two operands that are only stored, go as a whole. */
static int data_simple(struct exec *x, const struct exec_piece *piece)
{
    uint8_t sum[8192] __attribute__((aligned(64)));
    uint8_t *output = exec_output(x, piece);
    uint32_t last = piece->step->noperands - 1u;
    int simple = last == 0 || (last == 1 && piece->step->nsends == 0 && output != NULL);
    uint64_t block = simple ? piece->bytes : sizeof sum;

    for (uint64_t at = 0; at < piece->bytes; at += block) {
        uint64_t bytes = piece->bytes - at < block ? piece->bytes - at : block;
        const uint8_t *value = simple_operand(x, piece, 0) + at;
        uint8_t *end = output != NULL ? output + at : sum;

        for (uint32_t i = 1; i <= last; i++) {
            uint8_t *to = i == last ? end : sum;

            x->fold(to, value, simple_operand(x, piece, i) + at, bytes >> x->type_shift);
            value = to;
        }
        if (output != NULL && value != end) {
            store_output(x, end, value, bytes);
        }
        for (uint32_t i = 0; i < piece->step->nsends; i++) {
            gpuring_copy_to_slot(simple_send(x, piece, i) + at, value, bytes);
        }
    }
    if (x->beyond) {
        gpuring_copy_stream_end();
    }
    return EXEC_OK;
}

/*
 * LL: lines of {data32, flag32}, each loaded and stored whole. Relaxed: flag and data come in one
 * load, which pairs with the store.
 */
static int ll_load(const uint64_t *lines, uint32_t flag, uint8_t *to)
{
    uint64_t line = __atomic_load_n(lines, __ATOMIC_RELAXED);
    uint32_t data = (uint32_t) line;

    if (line >> 32 != flag) {
        return 0;
    }
    memcpy(to, &data, sizeof data);
    return 1;
}

static void ll_store(uint64_t *lines, uint32_t flag, const uint8_t *from, uint64_t bytes)
{
    uint32_t data = 0;

    memcpy(&data, from, bytes);
    __atomic_store_n(lines, (uint64_t) flag << 32 | data, __ATOMIC_RELAXED);
}

/*
 * Four lines in two vectors, of which these processors load and store each half whole, too. Half as
 * many stores are what it is good for: 512 bytes between two cores take 0.12 us in place of 0.6.
 */
#if (defined(__x86_64__) || defined(__AARCH64EL__)) && !defined(__SANITIZE_THREAD__)
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (words_t){__VA_ARGS__})
#endif
typedef uint32_t words_t __attribute__((vector_size(16)));
typedef uint64_t halves_t __attribute__((vector_size(16)));

static int ll_load_four(const uint64_t *lines, uint32_t flag, uint8_t *to)
{
    const volatile words_t *vectors = (const volatile words_t *) (const volatile void *) lines;
    words_t low = vectors[0], high = vectors[1];
    halves_t wrong = (halves_t) (SHUFFLE(low, high, 1, 3, 5, 7) ^ flag);
    words_t data = SHUFFLE(low, high, 0, 2, 4, 6);

    if ((wrong[0] | wrong[1]) != 0) {
        return 0;
    }
    memcpy(to, &data, sizeof data);
    return 1;
}

static void ll_store_four(uint64_t *lines, uint32_t flag, const uint8_t *from)
{
    volatile words_t *vectors = (volatile words_t *) (volatile void *) lines;
    words_t flags = {flag, flag, flag, flag}, data;

    memcpy(&data, from, sizeof data);
    vectors[0] = SHUFFLE(data, flags, 0, 4, 1, 5);
    vectors[1] = SHUFFLE(data, flags, 2, 6, 3, 7);
}
#else
static int ll_load_four(const uint64_t *lines, uint32_t flag, uint8_t *to)
{
    int good = 1;

    for (uint32_t i = 0; i < 4; i++) {
        good &= ll_load(&lines[i], flag, to + 4 * i);
    }
    return good;
}

static void ll_store_four(uint64_t *lines, uint32_t flag, const uint8_t *from)
{
    for (uint32_t i = 0; i < 4; i++) {
        ll_store(&lines[i], flag, from + 4 * i, 4);
    }
}
#endif

static int ll_unpack(struct exec *x, const uint64_t *lines, uint32_t flag, uint8_t *to,
                     uint64_t bytes)
{
    uint64_t nlines = (bytes + 3) / 4, i = 0;

    for (; i + 4 <= nlines; i += 4) {
        while (!ll_load_four(&lines[i], flag, to + 4 * i)) {
            if (!exec_poll(x)) {
                return EXEC_WAIT;
            }
        }
    }
    for (; i < nlines; i++) {
        while (!ll_load(&lines[i], flag, to + 4 * i)) {
            if (!exec_poll(x)) {
                return EXEC_WAIT;
            }
        }
    }
    return EXEC_OK;
}

static void ll_pack(uint64_t *lines, uint32_t flag, const uint8_t *from, uint64_t bytes)
{
    uint64_t at = 0;

    for (; at + 16 <= bytes; at += 16, lines += 4) {
        ll_store_four(lines, flag, from + at);
    }
    for (; at < bytes; at += 4, lines++) {
        ll_store(lines, flag, from + at, bytes - at < 4 ? bytes - at : 4);
    }
}

/* LL128 on a host: 120 bytes (or whole elements) of data, then the flag, written last. */
static int ll128_unpack(struct exec *x, const uint8_t *lines, uint64_t flag, uint8_t *to,
                        uint64_t bytes)
{
    uint64_t line_bytes = x->line_bytes;

    for (uint64_t at = 0; at < bytes; at += line_bytes, lines += 128) {
        /* Acquire: pairs with the release in ll128_pack. */
        while (exec_load_acquire((const uint64_t *) (const void *) (lines + 120)) != flag) {
            if (!exec_poll(x)) {
                return EXEC_WAIT;
            }
        }
        memcpy(to + at, lines, bytes - at < line_bytes ? bytes - at : line_bytes);
    }
    return EXEC_OK;
}

static void ll128_pack(const struct exec *x, uint8_t *lines, uint64_t flag, const uint8_t *from,
                       uint64_t bytes)
{
    uint64_t line_bytes = x->line_bytes;

    for (uint64_t at = 0; at < bytes; at += line_bytes, lines += 128) {
        memcpy(lines, from + at, bytes - at < line_bytes ? bytes - at : line_bytes);
        exec_store_release((uint64_t *) (void *) (lines + 120), flag);
    }
}

/* One block of an operand that is received, unpacked into `scratch` once it is there. */
static int received_lines(struct exec *x, const struct exec_piece *piece, uint32_t index,
                          uint64_t bytes, uint8_t *scratch)
{
    const struct gpuring_fifo_end *recv = &x->lane->recvs[piece->operands[index]];
    const uint8_t *lines = exec_operand(x, piece, index) + exec_slot_used(x, x->bytes);
    int result;

    if (!gpuring_fifo_is_short((enum gpuring_protocol) x->work->protocol, recv, piece->bytes)) {
        __builtin_prefetch(recv->slots +
                           ((recv->step + 1) & (recv->nslots - 1)) * recv->slot_bytes);
    }
    result = x->work->protocol == GPURING_PROTOCOL_LL
                 ? ll_unpack(x, (const uint64_t *) (const void *) lines,
                             (uint32_t) (recv->step + 1), scratch, bytes)
                 : ll128_unpack(x, lines, recv->step + 1, scratch, bytes);
    if (result != EXEC_OK) {
        exec_note_wait(x, GPURING_WAIT_RECV, piece->operands[index]);
    }
    return result;
}

/* One block of an operand: from the input, or received. */
static inline int operand_lines(struct exec *x, const struct exec_piece *piece, uint32_t index,
                                uint64_t bytes, uint8_t *scratch, const uint8_t **value)
{
    if (gpuring_ref_own(piece->operands[index])) {
        *value = exec_operand(x, piece, index) + x->bytes;
        return EXEC_OK;
    }
    *value = scratch;
    return received_lines(x, piece, index, bytes, scratch);
}

static void clean_lines(uint8_t *slot, uint64_t from, uint64_t to, uint64_t step)
{
    uint64_t *lines = (uint64_t *) (void *) slot;

    for (uint64_t i = from; i < to; i++) {
        __atomic_store_n(&lines[i], (uint64_t) (uint32_t) (step + 1) << 32, __ATOMIC_RELAXED);
    }
}

/* Lines of LL that a piece of so many bytes does not use, see fifo.h: those that were not written
 * for 2^32 steps would seem to be new. */
static void ll_clean(const struct exec *x, const struct gpuring_fifo_end *send, uint64_t bytes)
{
    uint64_t used = exec_slot_used(x, bytes) / 8;
    int is_short = gpuring_fifo_is_short(GPURING_PROTOCOL_LL, send, bytes);

    clean_lines(gpuring_fifo_slot(send), is_short ? 0 : used, send->slot_bytes / 8, send->step);
    clean_lines(gpuring_fifo_short(send), is_short ? used : 0, GPURING_FIFO_SHORT / 8, send->step);
}

static void send_lines(const struct exec *x, const struct exec_piece *piece, const uint8_t *value,
                       uint64_t bytes)
{
    for (uint32_t i = 0; i < piece->step->nsends; i++) {
        const struct gpuring_fifo_end *send = &x->lane->sends[piece->sends[i]];
        uint8_t *lines = exec_send_slot(x, piece, i) + exec_slot_used(x, x->bytes);

        if (x->work->protocol == GPURING_PROTOCOL_LL) {
            if (gpuring_fifo_cleans(send) && x->bytes == 0) {
                ll_clean(x, send, piece->bytes);
            }
            ll_pack((uint64_t *) (void *) lines, (uint32_t) (send->step + 1), value, bytes);
        } else {
            ll128_pack(x, lines, send->step + 1, value, bytes);
        }
    }
}

/*
 * Block by block: nothing is written before all operands of a block have arrived, so a lane that
 * gives up in between (x->bytes: what is done) starts the block again, in place too.
 */
static int data_lines(struct exec *x, const struct exec_piece *piece)
{
    uint8_t scratch[2][BLOCK_BYTES + 4] __attribute__((aligned(64)));
    uint32_t last = piece->step->noperands - 1u;

    while (x->bytes < piece->bytes) {
        uint64_t rest = piece->bytes - x->bytes;
        uint64_t bytes = rest < BLOCK_BYTES ? rest : BLOCK_BYTES;
        uint8_t *output = exec_output(x, piece), *first = scratch[0];
        const uint8_t *value, *operand;

        output = output != NULL ? output + x->bytes : NULL;
        if (last == 0 && output != NULL && bytes % 4 == 0) { /* LL unpacks whole words */
            first = output;
        }
        if (operand_lines(x, piece, 0, bytes, first, &value) != EXEC_OK) {
            return EXEC_WAIT;
        }
        for (uint32_t i = 1; i <= last; i++) {
            uint8_t *to = i == last && output != NULL ? output : scratch[0];

            if (operand_lines(x, piece, i, bytes, scratch[1], &operand) != EXEC_OK) {
                return EXEC_WAIT;
            }
            x->fold(to, value, operand, bytes >> x->type_shift);
            value = to;
        }
        if (output != NULL && value != output) {
            memcpy(output, value, bytes);
        }
        send_lines(x, piece, value, bytes);
        x->bytes += bytes;
    }
    return EXEC_OK;
}

EXEC_FN int exec_data(struct exec *x, const struct exec_piece *piece)
{
    return x->work->protocol == GPURING_PROTOCOL_SIMPLE ? data_simple(x, piece)
                                                        : data_lines(x, piece);
}

/*
 * A lane that sends nothing, as of a bcast's last ranks, looks less often: each look takes the
 * cache line from the sender, who may be about to write more into it. Of 1, 3, 5 and 9 pauses 3
 * were the fewest with which small bcasts one after the other were faster; with 9 a single one took
 * longer.
 */
#define PAUSES_ALONE 3

static uint32_t lane_run(struct exec *x, struct gpuring_lane *lane, uint64_t polls)
{
    x->lane = x->home = lane;
    x->polls = polls;
    x->pauses = lane->nsends > 0 ? 1 : PAUSES_ALONE;
    return exec_lane(x);
}

/* A number that changes as a rule when a lane gets on; where it does not, patience ends a round
 * earlier. */
static uint64_t lane_progress(const struct gpuring_lane *lane)
{
    return lane->done + lane->bytes + lane->step + lane->status;
}

/* Of the work, when a lane has returned with this status. */
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
        gpuring_error("lane %u step %u: a slot of connection %u holds another size than expected; "
                      "did a rank call with another count, type, operation or algorithm?",
                      lane, work->lanes[lane].step, work->lanes[lane].wait_ref);
        return GPURING_ERR_DATA;
    }
}

/* All lanes in turn, until a round has nothing done `patience` times in a row. */
static int lanes_run(struct exec *x, struct gpuring_work *work)
{
    uint64_t idle = 0;
    uint32_t running = work->nlanes, last = 0;

    while (running > 1) {
        uint64_t before = 0, after = 0;

        running = 0;
        for (uint32_t i = 0; i < work->nlanes; i++) {
            struct gpuring_lane *lane = &work->lanes[i];
            uint32_t status;

            before += lane_progress(lane);
            status = lane_run(x, lane, 1);
            after += lane_progress(lane);
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
    return running == 0 ? GPURING_OK
                        : work_status(work, last, lane_run(x, &work->lanes[last], work->patience));
}

static int has_many(const struct gpuring_blocks *blocks)
{
    return blocks->table != NULL || blocks->stride > 0;
}

/* Bytes of the vector, or of the blocks of input and output: at most, for lanes know their share of
 * the longest one. */
static uint64_t bytes_of(const struct gpuring_work *work, uint64_t type_size)
{
    uint64_t blocks = work->parts == 0 ? 1
                                       : (uint64_t) (has_many(&work->in) ? work->nblocks : 1) +
                                             (has_many(&work->out) ? work->nblocks : 1);
    uint64_t elements = 0;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        elements += work->lanes[i].count;
    }
    return blocks * elements * type_size;
}

int gpuring_work_run_host(struct gpuring_work *work)
{
    const struct gpuring_type_info *type = gpuring_type_info(work->type);
    struct exec x = {.work = work, .fold = gpuring_fold_find(work->type, work->op)};

    if (x.fold == NULL || work->protocol >= GPURING_PROTOCOL_COUNT) {
        gpuring_error("no fold of type %u by operation %u over protocol %u", work->type, work->op,
                      work->protocol);
        return GPURING_ERR_UNSUPPORTED;
    }
    x.type_size = type->size;
    x.type_shift = (uint32_t) __builtin_ctz(type->size);
    x.line_bytes = gpuring_line_bytes(type->size);
    x.beyond =
        work->protocol == GPURING_PROTOCOL_SIMPLE && bytes_of(work, type->size) > CACHED_BYTES;
    return lanes_run(&x, work);
}
