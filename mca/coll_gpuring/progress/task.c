/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/progress/task.h"

#include <pthread.h>
#include <sched.h>

/* The tasks of one kind. */
struct lane {
    struct gpuring_list waiting;
    bool any;    /* the list is not empty; atomic, because the callback reads it without the lock */
    bool serial; /* one thread advances all tasks; otherwise each thread advances one */
    bool busy;   /* a thread advances the tasks of this serial lane */
};

static struct lane lanes[GPURING_TASK_KINDS] = {
    [GPURING_TASK_REQUEST] = {.waiting = GPURING_LIST_INIT(lanes[GPURING_TASK_REQUEST].waiting),
                              .serial = true},
    [GPURING_TASK_QUEUE] = {.waiting = GPURING_LIST_INIT(lanes[GPURING_TASK_QUEUE].waiting)},
};

/* Guards the lanes, the states of tasks and `registered`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool registered;
static gpuring_tasks_enroll_t enroll, withdraw;

/* Call after each change of the list, with the lock held. */
static void update_any(struct lane *lane)
{
    __atomic_store_n(&lane->any, !gpuring_list_empty(&lane->waiting), __ATOMIC_RELAXED);
}

/* Take the tasks that the calling thread must advance now. The caller holds the lock. */
static void take_tasks(struct lane *lane, struct gpuring_list *taken)
{
    struct gpuring_task *task;

    if (lane->busy || gpuring_list_empty(&lane->waiting)) {
        return;
    }
    lane->busy = lane->serial;
    while ((task = GPURING_LIST_FIRST(&lane->waiting, struct gpuring_task, node)) != NULL) {
        gpuring_list_remove(&task->node);
        gpuring_list_append(taken, &task->node);
        task->state = GPURING_TASK_ADVANCING;
        if (!lane->serial) {
            break;
        }
    }
    update_any(lane);
}

/* Advance tasks, and move those that end to another list. */
static void advance_tasks(struct gpuring_list *taken, struct gpuring_list *ended,
                          struct gpuring_list *items)
{
    struct gpuring_list *next;

    for (struct gpuring_list *node = taken->next; node != taken; node = next) {
        struct gpuring_task *task = GPURING_LIST_ENTRY(node, struct gpuring_task, node);

        next = node->next;
        if (task->advance(task, items)) {
            gpuring_list_remove(node);
            gpuring_list_append(ended, node);
        }
    }
}

/* Return tasks that have not ended to the list: requests before newer requests, and a queue after
 * the other queues. The caller holds the lock. */
static void return_tasks(struct lane *lane, struct gpuring_list *taken)
{
    struct gpuring_task *task;

    GPURING_LIST_EACH(task, taken, struct gpuring_task, node)
    {
        task->state = GPURING_TASK_WAITING;
    }
    if (lane->serial) {
        gpuring_list_append_all(taken, &lane->waiting);
        lane->busy = false;
    }
    gpuring_list_append_all(&lane->waiting, taken);
    update_any(lane);
}

/* Complete tasks. The caller holds the lock, but the function releases it before it completes a
 * task. Returns the number of tasks. */
static int complete_tasks(struct gpuring_list *ended, struct gpuring_list *items)
{
    struct gpuring_task *task;
    int count = 0;

    while ((task = GPURING_LIST_FIRST(ended, struct gpuring_task, node)) != NULL) {
        if (count++ > 0) {
            pthread_mutex_lock(&lock);
        }
        gpuring_list_remove(&task->node);
        task->state = GPURING_TASK_IDLE;
        pthread_mutex_unlock(&lock);
        task->complete(task, items);
    }
    if (count == 0) {
        pthread_mutex_unlock(&lock);
    }
    return count;
}

static int lane_progress(struct lane *lane)
{
    struct gpuring_list taken = GPURING_LIST_INIT(taken), ended = GPURING_LIST_INIT(ended);
    struct gpuring_list items = GPURING_LIST_INIT(items);

    if (!__atomic_load_n(&lane->any, __ATOMIC_RELAXED) || pthread_mutex_trylock(&lock) != 0) {
        return 0;
    }
    take_tasks(lane, &taken);
    if (gpuring_list_empty(&taken)) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_unlock(&lock);
    advance_tasks(&taken, &ended, &items);
    pthread_mutex_lock(&lock);
    return_tasks(lane, &taken);
    return complete_tasks(&ended, &items);
}

/* Called by opal_progress, possibly by several threads at the same time, and from within `advance`
 * and `complete`. */
static int progress_callback(void)
{
    return lane_progress(&lanes[GPURING_TASK_REQUEST]) + lane_progress(&lanes[GPURING_TASK_QUEUE]);
}

void gpuring_tasks_open(gpuring_tasks_enroll_t enroll_function,
                        gpuring_tasks_enroll_t withdraw_function)
{
    enroll = enroll_function;
    withdraw = withdraw_function;
}

void gpuring_tasks_close(void)
{
    pthread_mutex_lock(&lock);
    if (registered) {
        (void) withdraw(progress_callback);
        registered = false;
    }
    pthread_mutex_unlock(&lock);
}

bool gpuring_task_start(struct gpuring_task *task)
{
    struct lane *lane = &lanes[task->kind];
    bool idle;

    pthread_mutex_lock(&lock);
    idle = task->state == GPURING_TASK_IDLE;
    if (idle) {
        task->state = GPURING_TASK_WAITING;
        gpuring_list_append(&lane->waiting, &task->node);
        update_any(lane);
    }
    if (!registered) {
        registered = enroll(progress_callback) == 0;
    }
    pthread_mutex_unlock(&lock);
    return idle;
}

void gpuring_task_stop(struct gpuring_task *task)
{
    pthread_mutex_lock(&lock);
    while (task->state == GPURING_TASK_ADVANCING) {
        pthread_mutex_unlock(&lock);
        sched_yield();
        pthread_mutex_lock(&lock);
    }
    gpuring_list_remove(&task->node);
    task->state = GPURING_TASK_IDLE;
    update_any(&lanes[task->kind]);
    pthread_mutex_unlock(&lock);
}
