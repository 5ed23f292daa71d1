/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Graphs of the application: the tasks of a stream while it was captured, which never run
 * themselves. One thread captures one stream at a time. */
#include <stdlib.h>

#include "kernels/work.h"
#include "test/standin/task.h"

static struct {
    CUstream stream; /* NULL: none is captured */
    struct standin_task *first, **last;
} capture;

CUstream standin_captured(void)
{
    return capture.stream;
}

void standin_graph_append(struct standin_task *task)
{
    *capture.last = task;
    capture.last = &task->next;
}

void gpuring_standin_graph_begin(void *stream)
{
    capture.first = NULL;
    capture.last = &capture.first;
    capture.stream = stream;
}

void *gpuring_standin_graph_end(void)
{
    capture.stream = NULL;
    return capture.first;
}

bool gpuring_standin_graph_update(void *graph)
{
    struct standin_task *task = graph, *other = gpuring_standin_graph_end(), *next;
    bool same = true;

    for (; other != NULL; other = next) {
        next = other->next;
        same = same && task != NULL && task->kind == other->kind;
        if (same) {
            struct standin_task old = *task;

            *task = *other;
            task->next = old.next;
            other->work = old.work;
            task = task->next;
        }
        free(other->work);
        free(other);
    }
    return same && task == NULL;
}

void gpuring_standin_graph_launch(void *graph, void *stream)
{
    for (const struct standin_task *task = graph; task != NULL; task = task->next) {
        struct standin_task copy = *task;

        if (task->kind == TASK_KERNEL) { /* which frees its work */
            copy.work = malloc(sizeof *copy.work);
            if (copy.work == NULL) {
                standin_report("pid %d has no memory for a graph\n", (int) getpid());
                return;
            }
            *copy.work = *task->work;
        }
        (void) standin_stream_queue(stream, copy);
    }
}

void gpuring_standin_graph_free(void *graph)
{
    struct standin_task *task = graph, *next;

    for (; task != NULL; task = next) {
        next = task->next;
        free(task->work);
        free(task);
    }
}
