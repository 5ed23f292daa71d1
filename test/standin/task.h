/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Tasks of streams inside the stand-in driver: the interface between stream.c and task.c. */
#ifndef GPURING_STANDIN_TASK_H
#define GPURING_STANDIN_TASK_H

#include "kernels/image.h"
#include "kernels/move.h"
#include "test/standin/standin.h"

enum standin_task_kind { TASK_COPY, TASK_SET, TASK_KERNEL, TASK_MOVE, TASK_WAIT };

struct standin_task {
    enum standin_task_kind kind;
    uint8_t *to;
    const uint8_t *from;
    void *staged; /* memory to free after the task, or NULL */
    bool late;    /* see standin_copy_late */
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* only for copies */
    unsigned char value;
    struct gpuring_work *work; /* copy of the parameters of a kernel */
    const char *kernel;        /* name of a kernel */
    struct gpuring_move move;  /* parameters of gpuring_move */
    int ms;                    /* delay of a copy */
    CUstream after;            /* for waits: wait until this stream has finished `position` tasks */
    uint64_t position;
    struct standin_task *next;
};

/* task.c: run a task on the stream's thread. *machine is the interpreter, which is created at its
 * first use. *waiting is the number of kernels that have not started. */
void standin_task_run(const struct standin_task *task, struct ptx_machine **machine,
                      struct CUctx_st *context, atomic_int *waiting);

/* capture.c: return the stream that the application captures, or NULL; append a task to its graph.
 */
CUstream standin_captured(void);
void standin_graph_append(struct standin_task *task);

/* stream.c: append a task to the queue of a stream. */
CUresult standin_stream_queue(CUstream stream, struct standin_task description);
/* Return the context in which the stream was created. */
struct standin_owner standin_stream_owner(CUstream stream);
int standin_stream_priority(CUstream stream);
/* Return the default stream of the calling thread in the current context, or NULL if there is no
 * memory. */
CUstream standin_stream_of_thread(void);

#endif
