/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Bounce buffers: a call whose buffers are partly in host memory, or in another CUDA context than
 * the one that this process works in, on its GPU or on another, runs on copies there. So does one
 * whose datatype has gaps, on packed copies. A matter of this rank alone: the others see no
 * difference.
 */
#ifndef GPURING_ENGINE_BOUNCE_H
#define GPURING_ENGINE_BOUNCE_H

#include <stddef.h>

struct gpuring_engine;
struct gpuring_call;

/*
 * Copies of up to so many bytes lie in memory that stays with the engine: 16 MiB, where a copy
 * between GPUs (1 ms over PCI Express) takes longer than to allocate, which waits for the GPU. What
 * is larger is given back after the call, for an engine keeps two at most, input and output.
 */
#define GPURING_BOUNCE_KEEP ((size_t) 16 << 20)

/* Of one buffer. */
struct gpuring_bounce {
    void *kept; /* from call to call, until the engine ends; NULL: not needed yet */
    size_t room;
    void *large; /* for this call alone; NULL: none */
    void *used;  /* by the call that runs: either of these, or NULL */
};

/* The buffers to work on: the call's own where the GPU reaches them, else copies, filled in the
 * order of the engine's stream. */
int gpuring_bounce_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                         const void **input, void **output);

/* The work is done: bring the result to where it belongs. Returns when it is there. */
int gpuring_bounce_deliver(struct gpuring_engine *engine, const struct gpuring_call *call);

/* The call is over; the stream is idle. */
void gpuring_bounce_end(struct gpuring_engine *engine);

#endif
