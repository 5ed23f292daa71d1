/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Reports staged calls that wait long. The previous module waits, and nothing ends that but the
 * other ranks; a progress callback sees the time go by.
 */
#include <pthread.h>

#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/stage/call.h"
#include "mca/coll_gpuring/stage/stage.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"

#define LOOKS_PER_CLOCK 64
#define REPORT_SECONDS  300                  /* without coll_gpuring_timeout */
#define AWAY            (5 * GPURING_SECOND) /* MPI was not called for so long: waits begin anew */

static struct {
    pthread_mutex_t lock; /* guards all but looks */
    struct gpuring_list list;
    uint64_t last; /* time of the last look */
    bool registered;
    unsigned looks; /* atomic */
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER, .list = GPURING_LIST_INIT(waits.list)};

static void report(struct gpuring_stage *stage, uint64_t waited)
{
    char text[256], name[64];

    stage->wait.reported = true;
    gpuring_module_text(stage->module, text, sizeof text);
    gpuring_stage_name(stage->what, name, sizeof name);
    gpuring_warn("[stage-stalled] %s: %s, staged through host memory, has waited %llu s for other "
                 "ranks and goes on waiting; look in their logs for one that failed, or does not "
                 "make this call",
                 text, name, (unsigned long long) (waited / GPURING_SECOND));
}

static void look(uint64_t now)
{
    uint64_t limit =
        gpuring_params.timeout > 0 ? (uint64_t) gpuring_params.timeout : REPORT_SECONDS;
    bool away = now - waits.last >= AWAY;
    struct gpuring_stage *stage;

    waits.last = now;
    GPURING_LIST_EACH(stage, &waits.list, struct gpuring_stage, wait.node)
    {
        if (away) {
            stage->wait.since = now;
        } else if (!stage->wait.reported && now - stage->wait.since >= limit * GPURING_SECOND) {
            report(stage, now - stage->wait.since);
        }
    }
}

static int progress_callback(void)
{
    if (__atomic_add_fetch(&waits.looks, 1, __ATOMIC_RELAXED) % LOOKS_PER_CLOCK == 0 &&
        pthread_mutex_trylock(&waits.lock) == 0) {
        if (!gpuring_list_empty(&waits.list)) {
            look(gpuring_now_ns());
        }
        pthread_mutex_unlock(&waits.lock);
    }
    return 0;
}

void gpuring_stage_wait_begin(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&waits.lock);
    stage->wait.since = gpuring_now_ns();
    stage->wait.reported = false;
    if (gpuring_list_empty(&waits.list)) {
        waits.last = stage->wait.since;
    }
    gpuring_list_append(&waits.list, &stage->wait.node);
    if (!waits.registered) {
        waits.registered = opal_progress_register_lp(progress_callback) == OPAL_SUCCESS;
    }
    pthread_mutex_unlock(&waits.lock);
}

void gpuring_stage_wait_end(struct gpuring_stage *stage)
{
    pthread_mutex_lock(&waits.lock);
    gpuring_list_remove(&stage->wait.node);
    pthread_mutex_unlock(&waits.lock);
}

void gpuring_stage_waits_close(void)
{
    pthread_mutex_lock(&waits.lock);
    if (waits.registered) {
        opal_progress_unregister(progress_callback);
        waits.registered = false;
    }
    pthread_mutex_unlock(&waits.lock);
}
