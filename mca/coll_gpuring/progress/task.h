/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Progress of the calls that are in flight. Open MPI calls opal_progress whenever a thread waits in
 * MPI, and opal_progress calls one function of this component, which advances all tasks:
 *
 *     requests    staged calls (stage/) and messages on GPU memory (p2p/). Their steps are short.
 *                 One thread at a time advances all of them, in the order of their start.
 *     queues      the calls of a communicator (serve/). A step may be long. Each call of
 *                 opal_progress advances one queue, in turn. Several threads may advance different
 *                 queues at the same time.
 *
 *     start --> waiting --> advancing --> idle, complete
 *                  ^            |
 *                  +--- false --+
 *
 * All functions are called without a lock, so `advance` may call the PML, which may call other
 * components, and `complete` may call a user's callback, start tasks and free the task. A task is
 * advanced by one thread at a time, and never from within its own `advance`.
 *
 * The callback is registered when the first task starts, and it remains registered. While no task
 * is in flight, it costs two loads. No Open MPI. Threads: any.
 */
#ifndef GPURING_PROGRESS_TASK_H
#define GPURING_PROGRESS_TASK_H

#include <stdbool.h>

#include "mca/coll_gpuring/util/list.h"

enum gpuring_task_kind { GPURING_TASK_REQUEST, GPURING_TASK_QUEUE, GPURING_TASK_KINDS };

struct gpuring_task;

/* Perform the steps that are possible now. Return true if the task ends. A queue appends its calls
 * that have finished to `items`, and ends whenever it has appended some. */
typedef bool (*gpuring_task_advance_t)(struct gpuring_task *task, struct gpuring_list *items);
/* Complete the request, or the items of the queue. The task is idle and may be started again. */
typedef void (*gpuring_task_complete_t)(struct gpuring_task *task, struct gpuring_list *items);

/* A member of the structure that it advances. All zero: idle. */
struct gpuring_task {
    enum gpuring_task_kind kind;
    gpuring_task_advance_t advance;
    gpuring_task_complete_t complete;

    /* Guarded by the lock of task.c: */
    struct gpuring_list node;
    enum { GPURING_TASK_IDLE, GPURING_TASK_WAITING, GPURING_TASK_ADVANCING } state;
};

typedef int (*gpuring_tasks_enroll_t)(int (*callback)(void));

/* Set Open MPI's functions that register and unregister a progress callback. They return 0 or an
 * error. If registering fails, the next start tries again. */
void gpuring_tasks_open(gpuring_tasks_enroll_t enroll, gpuring_tasks_enroll_t withdraw);

/* Unregister the callback. Called at the end of the process. */
void gpuring_tasks_close(void);

/* Start a task. Returns false and does nothing if it is not idle. */
bool gpuring_task_start(struct gpuring_task *task);

/* Stop a task without completing it, if it is not idle. Waits until no other thread advances it, so
 * it must not be called from `advance`. */
void gpuring_task_stop(struct gpuring_task *task);

#endif
