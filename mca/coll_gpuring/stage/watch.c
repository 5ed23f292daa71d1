/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staged calls whose previous module may wait for other ranks. A progress callback watches all of
 * them, and moves those on that have a request.
 */
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"

#define LOOKS_PER_CLOCK 64
#define REPORT_SECONDS  300                  /* without coll_gpuring_timeout */
#define AWAY            (5 * GPURING_SECOND) /* MPI was not called for so long: waits begin anew */

static struct {
    pthread_mutex_t lock; /* guards all */
    struct gpuring_list list;
    bool registered;
    unsigned looks;
    uint64_t last; /* time of the last look at the clock */
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .list = GPURING_LIST_INIT(calls.list)};

/* The previous module waits, and nothing ends that but the other ranks. */
static void report(struct gpuring_stage *stage, uint64_t waited)
{
    char text[320];

    stage->reported = true;
    gpuring_warn("[stage-stalled] %s, staged through host memory, has waited %llu s for other "
                 "ranks and goes on waiting; look in their logs for one that failed, or does not "
                 "make this call",
                 gpuring_stage_text(stage->module, stage->what, text),
                 (unsigned long long) (waited / GPURING_SECOND));
}

static void look(uint64_t now)
{
    uint64_t limit =
        gpuring_params.timeout > 0 ? (uint64_t) gpuring_params.timeout : REPORT_SECONDS;
    bool away = now - calls.last >= AWAY;
    struct gpuring_stage *stage;

    calls.last = now;
    GPURING_LIST_EACH(stage, &calls.list, struct gpuring_stage, node)
    {
        if (away) {
            stage->since = now;
        } else if (!stage->reported && now - stage->since >= limit * GPURING_SECOND) {
            report(stage, now - stage->since);
        }
    }
}

/* Outside of the lock: it may end in a user's callback or free a communicator. */
static int complete_all(struct gpuring_list *done)
{
    struct gpuring_stage *stage;
    int count = 0;

    while ((stage = GPURING_LIST_FIRST(done, struct gpuring_stage, node)) != NULL) {
        gpuring_list_remove(&stage->node);
        stage->complete(stage);
        count++;
    }
    return count;
}

/* Called by opal_progress, by several threads at once. */
static int progress_callback(void)
{
    struct gpuring_list done = GPURING_LIST_INIT(done), *next;

    if (__atomic_load_n(&calls.list.next, __ATOMIC_RELAXED) == &calls.list ||
        pthread_mutex_trylock(&calls.lock) != 0) {
        return 0;
    }
    for (struct gpuring_list *node = calls.list.next; node != &calls.list; node = next) {
        struct gpuring_stage *stage = GPURING_LIST_ENTRY(node, struct gpuring_stage, node);

        next = node->next;
        if (stage->advance != NULL && stage->advance(stage)) {
            gpuring_list_remove(node);
            gpuring_list_append(&done, node);
        }
    }
    if (++calls.looks % LOOKS_PER_CLOCK == 0) {
        look(gpuring_now_ns());
    }
    pthread_mutex_unlock(&calls.lock);
    return complete_all(&done);
}

void gpuring_stage_wait_begin(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&calls.lock);
    stage->since = gpuring_now_ns();
    stage->reported = false;
    if (gpuring_list_empty(&calls.list)) {
        calls.last = stage->since;
    }
    gpuring_list_append(&calls.list, &stage->node);
    if (!calls.registered) {
        calls.registered = opal_progress_register(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&calls.lock);
}

void gpuring_stage_wait_end(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&calls.lock);
    gpuring_list_remove(&stage->node);
    pthread_mutex_unlock(&calls.lock);
}

void gpuring_stage_close(void)
{
    if (calls.registered) {
        opal_progress_unregister(progress_callback);
        calls.registered = false;
    }
}
