/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/block_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fold.h"
#include "mca/coll_gpuring/util/status.h"

/* The execution header: executor.h and block.h say what each of these is. */
#define EXEC_FN    static inline
#define BLOCK_FN   static inline
#define BLOCK_SLOW static
#define EXEC       struct block_thread
#define BLOCK_UNROLL
#define BLOCK_ROLLED
#define BLOCK_PACKS        2
#define BLOCK_LINES        2
#define BLOCK_OPERANDS     4
#define BLOCK_LINE_THREADS 1

struct exec_pack {
    uint64_t w[2];
} __attribute__((aligned(16)));

/* What the threads of a block share. */
struct block_shared {
    pthread_barrier_t barrier;
    int votes[2]; /* of exec_all, in turn: how many threads said no */
    gpuring_fold_fn fold;
};

struct block_thread {
    const struct gpuring_work *work;
    const struct gpuring_lane *lane;
    struct gpuring_lane *home;
    uint64_t type_size, line_bytes, done, bytes;
    uint32_t step;

    struct gpuring_lane copy; /* what lane points to: the kernels' copy in shared memory */
    struct block_shared *shared;
    uint32_t thread, nthreads;
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

/* Ballots alternate between two boxes; a box is emptied between the barriers of the other's. */
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

    x->shared->fold(&result, NULL, &a, &b, 16 / x->type_size);
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

EXEC_FN int block_line_load(const EXEC *x, const uint8_t *line, int active, uint64_t flag,
                            struct exec_pack *v)
{
    (void) x;
    if (active) {
        if (exec_load_acquire((const uint64_t *) (const void *) (line + 120)) != flag) {
            return 0;
        }
        memcpy(v, line, 120);
    }
    return 1;
}

EXEC_FN void block_line_store(const EXEC *x, uint8_t *line, uint64_t flag,
                              const struct exec_pack *v)
{
    (void) x;
    memcpy(line, v, 120);
    exec_store_release((uint64_t *) (void *) (line + 120), flag);
}

struct exec_piece;
EXEC_FN int exec_data(EXEC *x, const struct exec_piece *piece);

#include "kernels/executor.h"

#include "kernels/block.h"

static void *thread_main(void *argument)
{
    EXEC *x = argument;

    (void) exec_lane(x);
    return NULL;
}

/* One lane by nthreads threads, like a thread block. */
static int lane_run(struct gpuring_work *work, struct gpuring_lane *lane, uint32_t nthreads)
{
    uint64_t size = gpuring_type_info(work->type)->size;
    struct block_shared shared = {.fold = gpuring_fold_find(work->type, work->op)};
    struct block_thread *threads = calloc(nthreads, sizeof *threads);
    pthread_t *ids = calloc(nthreads, sizeof *ids);
    uint32_t started = 0;

    if (threads != NULL && ids != NULL) {
        pthread_barrier_init(&shared.barrier, NULL, nthreads);
        for (; started < nthreads; started++) {
            threads[started] = (struct block_thread){.work = work,
                                                     .home = lane,
                                                     .type_size = size,
                                                     .line_bytes = gpuring_line_bytes(size),
                                                     .copy = *lane,
                                                     .shared = &shared,
                                                     .thread = started,
                                                     .nthreads = nthreads,
                                                     .polls = work->patience};
            threads[started].lane = &threads[started].copy;
        }
        for (started = 0; started < nthreads; started++) {
            if (pthread_create(&ids[started], NULL, thread_main, &threads[started]) != 0) {
                abort(); /* the others wait at the barrier: nothing to be saved in a test */
            }
        }
        for (uint32_t i = 0; i < nthreads; i++) {
            pthread_join(ids[i], NULL);
        }
        pthread_barrier_destroy(&shared.barrier);
    }
    free(threads);
    free(ids);
    return started == nthreads ? GPURING_OK : GPURING_ERR_NOMEM;
}

int block_work_run(struct gpuring_work *work, uint32_t nthreads)
{
    int running = 0;

    if (gpuring_fold_find(work->type, work->op) == NULL ||
        gpuring_type_info(work->type)->size > 16 || work->protocol >= GPURING_PROTOCOL_COUNT) {
        return GPURING_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < work->nlanes; i++) {
        struct gpuring_lane *lane = &work->lanes[i];

        if (lane->status == GPURING_LANE_RUNNING) {
            int status = lane_run(work, lane, nthreads);

            if (status != GPURING_OK) {
                return status;
            }
        }
        if (lane->status == GPURING_LANE_ABORTED) {
            return GPURING_ERR_ABORTED;
        }
        if (lane->status == GPURING_LANE_CORRUPT) {
            return GPURING_ERR_DATA;
        }
        running += lane->status == GPURING_LANE_RUNNING;
    }
    return running == 0 ? GPURING_OK : GPURING_AGAIN;
}
