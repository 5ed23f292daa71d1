/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Inside of the stand-in driver: what streams run, between stream.c and task.c. */
#ifndef GPURING_STANDIN_TASK_H
#define GPURING_STANDIN_TASK_H

#include "kernels/image.h"
#include "test/standin/standin.h"

enum standin_task_kind { TASK_COPY, TASK_SET, TASK_KERNEL, TASK_WAIT };

struct standin_task {
    enum standin_task_kind kind;
    uint8_t *to;
    const uint8_t *from;
    void *staged; /* memory that is freed after it; NULL: none */
    bool late;    /* see standin_copy_late */
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* of a copy */
    unsigned char value;
    struct gpuring_launch *launch; /* a copy of the parameters */
    const char *kernel;            /* its name */
    int ms;                        /* of a copy: it begins this much later */
    CUstream after;                /* of a wait: until that stream has finished so many tasks */
    uint64_t position;
    struct standin_task *next;
};

/* task.c: on the stream's thread. *machine: the interpreter's, made when it is needed. *waiting:
 * the kernels that have not begun. */
void standin_task_run(const struct standin_task *task, struct ptx_machine **machine,
                      struct CUctx_st *context, atomic_int *waiting);

/* stream.c: behind what the stream has to do already. */
CUresult standin_stream_queue(CUstream stream, struct standin_task description);
/* The context that it was made in. */
struct standin_owner standin_stream_owner(CUstream stream);
int standin_stream_priority(CUstream stream);
/* The default stream of the calling thread in the current context; NULL: no memory. */
CUstream standin_stream_of_thread(void);

#endif
