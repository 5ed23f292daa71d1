/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/block_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/util/status.h"

/* The execution header, see executor.h and block.h. */
#define EXEC_FN    static inline
#define EXEC_SLOW  static inline
#define BLOCK_FN   static inline
#define BLOCK_SLOW static
#define EXEC       struct block_thread
#define BLOCK_UNROLL
#define BLOCK_ROLLED
#define BLOCK_PACKS        2
#define BLOCK_COPY_PACKS   3
#define BLOCK_WIDE         4u
#define BLOCK_STORES       2
#define BLOCK_LINES        2
#define BLOCK_OPERANDS     4
#define BLOCK_LINE_THREADS 1
#define BLOCK_ITEMS        16
#define BLOCK_ONES(word)   ((uint32_t) __builtin_popcountll(word))

struct exec_pack {
    uint64_t w[2];
} __attribute__((aligned(16)));

/* A barrier at which threads wait, or arrive. */
struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t complete;
    uint32_t here;
    uint64_t times;
};

/* State that the threads of a block share. */
struct block_shared {
    pthread_barrier_t barrier;
    int votes[2]; /* exec_all alternates between them: threads with ok == 0 */
    gpuring_fold_fn fold;
    struct meeting ready[2], moved[2];
    struct exec_list *lists;
    struct exec_pack units[2 * BLOCK_ITEMS];
};

struct block_thread {
    const struct gpuring_work *work;
    const struct gpuring_lane *lane;
    const struct gpuring_lane_state *state;
    struct gpuring_lane_state *home;
    uint64_t type_size, line_bytes, first, rest, bytes;
    uint32_t step, slices, single_batch, turn;
    uint64_t used_recvs, used_sends;
    struct exec_pack *units;

    struct gpuring_lane_state copy; /* target of `state`, like the kernels' copy */
    struct block_shared *shared;
    uint32_t thread,
        nthreads; /* threads that move data; Simple: the next one waits, the last one posts */
    uint64_t polls, ballots;
};

EXEC_FN uint32_t exec_thread(const EXEC *x)
{
    return x->thread;
}

EXEC_FN uint32_t exec_nthreads(const EXEC *x)
{
    return x->nthreads;
}

EXEC_FN uint32_t exec_protocol(const EXEC *x)
{
    return x->work->protocol;
}

EXEC_FN void exec_barrier(EXEC *x)
{
    pthread_barrier_wait(&x->shared->barrier);
}

/* Calls alternate between two counters. Each is reset between the barriers of the other one's
 * call. */
EXEC_FN int exec_all(EXEC *x, int ok)
{
    int *votes = x->shared->votes, box = (int) (x->ballots++ % 2), against;

    if (!ok) {
        __atomic_add_fetch(&votes[box], 1, __ATOMIC_RELAXED);
    }
    exec_barrier(x);
    against = __atomic_load_n(&votes[box], __ATOMIC_RELAXED);
    if (x->thread == 0) {
        __atomic_store_n(&votes[1 - box], 0, __ATOMIC_RELAXED);
    }
    exec_barrier(x);
    return against == 0;
}

static void arrive(struct meeting *meeting, uint32_t needed, int waits)
{
    uint64_t times;

    pthread_mutex_lock(&meeting->lock);
    times = meeting->times;
    if (++meeting->here == needed) {
        meeting->here = 0;
        meeting->times++;
        pthread_cond_broadcast(&meeting->complete);
    }
    while (waits && meeting->times == times) {
        pthread_cond_wait(&meeting->complete, &meeting->lock);
    }
    pthread_mutex_unlock(&meeting->lock);
}

EXEC_FN int exec_overlaps(const EXEC *x)
{
    return x->work->protocol == GPURING_PROTOCOL_SIMPLE;
}

EXEC_FN int exec_copies_step(const EXEC *x)
{
    return !exec_overlaps(x);
}

EXEC_FN uint32_t exec_owner(const EXEC *x)
{
    return exec_overlaps(x) ? 0 : x->thread;
}

#define exec_owners(x)           1u
#define exec_posted(x)           ((void) (x))
#define exec_gives_back(x, from) 1

EXEC_FN int exec_agree(EXEC *x, int ok)
{
    return exec_overlaps(x) ? ok : exec_all(x, ok);
}

EXEC_FN void exec_meet_ready(const EXEC *x, uint32_t k)
{
    arrive(&x->shared->ready[k % 2], x->nthreads + 2, 1);
}

EXEC_FN void exec_arrive_ready(const EXEC *x, uint32_t k)
{
    arrive(&x->shared->ready[k % 2], x->nthreads + 2, 0);
}

EXEC_FN void exec_meet_moved(const EXEC *x, uint32_t k)
{
    arrive(&x->shared->moved[k % 2], x->nthreads + 1, 1);
}

EXEC_FN void exec_arrive_moved(const EXEC *x, uint32_t k)
{
    arrive(&x->shared->moved[k % 2], x->nthreads + 1, 0);
}

struct exec_list;
EXEC_FN struct exec_list *exec_list(const EXEC *x, uint32_t k);

#include "kernels/exec_memory.h"

EXEC_FN int exec_poll(EXEC *x)
{
    if (x->polls <= 1 || exec_aborted(x)) {
        x->polls = 0;
        return 0;
    }
    x->polls--;
    sched_yield();
    return 1;
}

EXEC_FN void exec_progress(EXEC *x)
{
    x->polls = x->work->patience;
}

EXEC_FN struct exec_pack exec_fold(const EXEC *x, struct exec_pack a, struct exec_pack b)
{
    struct exec_pack result;

    x->shared->fold(&result, &a, &b, 16 / x->type_size);
    return result;
}

BLOCK_FN struct exec_pack block_load_pack(const void *p)
{
    return *(const struct exec_pack *) p;
}

BLOCK_FN void block_store_pack(void *p, struct exec_pack v)
{
    *(struct exec_pack *) p = v;
}

BLOCK_FN void block_load_lines(const uint64_t *p, uint64_t *w)
{
    w[0] = __atomic_load_n(&p[0], __ATOMIC_RELAXED);
    w[1] = __atomic_load_n(&p[1], __ATOMIC_RELAXED);
}

BLOCK_FN void block_store_lines(uint64_t *p, const uint64_t *w)
{
    __atomic_store_n(&p[0], w[0], __ATOMIC_RELAXED);
    __atomic_store_n(&p[1], w[1], __ATOMIC_RELAXED);
}

EXEC_FN int block_warp_all(const EXEC *x, int ok)
{
    (void) x;
    return ok;
}

EXEC_FN int block_line_ready(const EXEC *x, const uint8_t *line, uint64_t flag)
{
    (void) x;
    return exec_load_acquire((const uint64_t *) (const void *) (line + 120)) == flag;
}

EXEC_FN void block_line_load(const EXEC *x, const uint8_t *line, struct exec_pack *v)
{
    (void) x;
    memcpy(v, line, 120);
}

EXEC_FN void block_line_store(const EXEC *x, uint8_t *line, uint64_t flag,
                              const struct exec_pack *v)
{
    (void) x;
    memcpy(line, v, 120);
    exec_store_release((uint64_t *) (void *) (line + 120), flag);
}

EXEC_FN uint32_t exec_single_batch(const EXEC *x)
{
    return x->single_batch;
}

struct exec_piece;
EXEC_FN void exec_note_single_batch(EXEC *x, const struct exec_piece *piece);
EXEC_FN int exec_data(EXEC *x, const struct exec_piece *piece);
EXEC_FN int exec_run(EXEC *x, const struct exec_piece *piece);
#define exec_serial(x)      0
#define exec_each(x, piece) EXEC_OK
#define exec_mapped(x)      (exec_overlaps(x) && (x)->work->mapped != NULL)
EXEC_FN int exec_signal(EXEC *x, const struct exec_piece *piece);
EXEC_FN void exec_begin(EXEC *x);
EXEC_FN void exec_end(EXEC *x);

#include "kernels/executor.h"

EXEC_FN enum exec_duty exec_duty(const EXEC *x)
{
    return x->thread < x->nthreads    ? EXEC_MOVES
           : x->thread == x->nthreads ? EXEC_WAITS
                                      : EXEC_POSTS;
}

EXEC_FN struct exec_list *exec_list(const EXEC *x, uint32_t k)
{
    return &x->shared->lists[k % EXEC_LISTS];
}

#include "kernels/overlap.h"

#include "kernels/block.h"

static void *thread_main(void *argument)
{
    EXEC *x = argument;

    (void) exec_lane(x);
    if (exec_overlaps(x) && exec_duty(x) == EXEC_POSTS) {
        exec_post_end(x); /* the others have moved everything before the last slice was posted */
    }
    return NULL;
}

static void meeting_create(struct meeting *meeting)
{
    pthread_mutex_init(&meeting->lock, NULL);
    pthread_cond_init(&meeting->complete, NULL);
}

static void meeting_destroy(struct meeting *meeting)
{
    if (meeting->here != 0) {
        abort(); /* a GPU might hang: a thread has arrived, but no thread waits */
    }
    pthread_cond_destroy(&meeting->complete);
    pthread_mutex_destroy(&meeting->lock);
}

static void start(struct block_thread *threads, uint32_t all, pthread_t *ids)
{
    struct block_shared *shared = threads->shared;

    pthread_barrier_init(&shared->barrier, NULL, all);
    for (int i = 0; i < 2; i++) {
        meeting_create(&shared->ready[i]);
        meeting_create(&shared->moved[i]);
    }
    for (uint32_t i = 0; i < all; i++) {
        threads[i].state = &threads[i].copy;
        if (pthread_create(&ids[i], NULL, thread_main, &threads[i]) != 0) {
            abort(); /* the other threads wait at the barrier, so the test cannot continue */
        }
    }
    for (uint32_t i = 0; i < all; i++) {
        pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < 2; i++) {
        meeting_destroy(&shared->ready[i]);
        meeting_destroy(&shared->moved[i]);
    }
    pthread_barrier_destroy(&shared->barrier);
}

/* Copies of a lane's connections, which lead to the buffers of its peers if these are mapped. */
struct connections {
    struct gpuring_lane lane;
    struct gpuring_fifo_end recvs[GPURING_MAPPED_MOST], sends[GPURING_MAPPED_MOST];
};

static const struct gpuring_lane *map_lane(const struct gpuring_work *work, uint32_t lane,
                                           struct connections *copies)
{
    const struct gpuring_lane *original = &work->lanes[lane];

    if (work->mapped == NULL) {
        return original;
    }
    copies->lane = *original;
    copies->lane.recvs = copies->recvs;
    copies->lane.sends = copies->sends;
    for (uint32_t i = 0; i < original->nrecvs; i++) {
        copies->recvs[i] = original->recvs[i];
        copies->sends[i] = original->sends[i];
        copies->recvs[i].slots = work->mapped[i].input;
        copies->sends[i].slots = work->mapped[i].output;
        copies->recvs[i].slot_bytes = copies->sends[i].slot_bytes = 0;
    }
    return &copies->lane;
}

static void keep_counters(struct gpuring_fifo_end *to, const struct gpuring_fifo_end *from)
{
    to->step = from->step;
    to->posted = from->posted;
    to->seen = from->seen;
}

/* Run one lane with nthreads threads that move data, like a thread block. */
static int lane_run(struct gpuring_work *work, uint32_t lane, uint32_t nthreads)
{
    struct connections copies;
    const struct gpuring_lane *mapped = map_lane(work, lane, &copies);
    uint64_t size = gpuring_type_info(work->type)->size;
    struct exec_list lists[EXEC_LISTS];
    struct block_shared shared = {.fold = gpuring_fold_find(work->type, work->op), .lists = lists};
    uint32_t all = nthreads + (work->protocol == GPURING_PROTOCOL_SIMPLE ? 2 : 0);
    struct block_thread *threads = calloc(all, sizeof *threads);
    pthread_t *ids = calloc(all, sizeof *ids);
    int status = threads != NULL && ids != NULL ? GPURING_OK : GPURING_ERR_NOMEM;

    for (uint32_t i = 0; i < all && status == GPURING_OK; i++) {
        threads[i] = (struct block_thread){.work = work,
                                           .lane = mapped,
                                           .home = &work->states[lane],
                                           .type_size = size,
                                           .line_bytes = gpuring_line_bytes(size),
                                           .copy = work->states[lane],
                                           .shared = &shared,
                                           .units = shared.units,
                                           .thread = i,
                                           .nthreads = nthreads,
                                           .polls = work->patience};
    }
    if (status == GPURING_OK) {
        start(threads, all, ids);
    }
    for (uint32_t i = 0; mapped == &copies.lane && i < mapped->nrecvs; i++) {
        keep_counters(&work->lanes[lane].recvs[i], &copies.recvs[i]);
        keep_counters(&work->lanes[lane].sends[i], &copies.sends[i]);
    }
    free(threads);
    free(ids);
    return status;
}

int block_work_run(struct gpuring_work *work, uint32_t nthreads)
{
    int running = 0;

    if (gpuring_fold_find(work->type, work->op) == NULL ||
        gpuring_type_info(work->type)->size > 16 || work->protocol >= GPURING_PROTOCOL_COUNT) {
        return GPURING_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < work->nlanes; i++) {
        struct gpuring_lane_state *state = &work->states[i];

        if (state->status == GPURING_LANE_NEW) {
            gpuring_lane_start(work, &work->lanes[i], gpuring_type_info(work->type)->size, state);
        }
        if (state->status == GPURING_LANE_RUNNING) {
            int status = lane_run(work, i, nthreads);

            if (status != GPURING_OK) {
                return status;
            }
        }
        if (state->status == GPURING_LANE_ABORTED) {
            return GPURING_ERR_ABORTED;
        }
        if (state->status == GPURING_LANE_CORRUPT) {
            return GPURING_ERR_COUNTS;
        }
        running += state->status == GPURING_LANE_RUNNING;
    }
    return running == 0 ? GPURING_OK : GPURING_AGAIN;
}
