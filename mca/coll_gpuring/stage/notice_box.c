/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/stage/notice_box.h"

#include <pthread.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ROOM 1024

static struct {
    pthread_mutex_t lock; /* guards all; `filled` is atomic, too */
    struct gpuring_notice notices[ROOM];
    int filled;
} box = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool gpuring_notice_box_filled(void)
{
    return __atomic_load_n(&box.filled, __ATOMIC_ACQUIRE) > 0;
}

/* Called with the lock held. */
static void take_out(int i)
{
    memmove(&box.notices[i], &box.notices[i + 1],
            (size_t) (box.filled - i - 1) * sizeof box.notices[0]);
    __atomic_store_n(&box.filled, box.filled - 1, __ATOMIC_RELEASE);
}

void gpuring_notice_box_put(const struct gpuring_notice *notice)
{
    struct gpuring_notice oldest = {.use = 0};
    bool full;

    pthread_mutex_lock(&box.lock);
    full = box.filled == ROOM;
    if (full) {
        oldest = box.notices[0];
        take_out(0);
    }
    box.notices[box.filled] = *notice;
    __atomic_store_n(&box.filled, box.filled + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&box.lock);
    if (full) {
        gpuring_warn("too many failures of other ranks, of which no staged call here could tell: "
                     "forgotten is that of rank %d on host %s: %s",
                     (int) oldest.rank, oldest.host, gpuring_status_text(oldest.failure));
    }
}

bool gpuring_notice_box_take(gpuring_notice_is_fn is, const void *argument, bool remove,
                             struct gpuring_notice *notice)
{
    bool found = false;

    pthread_mutex_lock(&box.lock);
    for (int i = 0; i < box.filled && !found; i++) {
        found = is(&box.notices[i], argument);
        if (found) {
            *notice = box.notices[i];
        }
        if (found && remove) {
            take_out(i);
        }
    }
    pthread_mutex_unlock(&box.lock);
    return found;
}
