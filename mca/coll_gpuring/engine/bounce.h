/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Bounce buffers. If some buffers of a call are in host memory, in another CUDA context or on
 * another GPU, the call works on copies in the device's context. If its datatype has gaps, it works
 * on packed copies. Other ranks do not notice this.
 */
#ifndef GPURING_ENGINE_BOUNCE_H
#define GPURING_ENGINE_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_engine;
struct gpuring_call;

/*
 * Largest bounce buffer that the engine keeps between calls. From 16 MiB on, a copy between GPUs
 * takes longer (1 ms over PCI Express) than an allocation, which waits for the GPU, so larger
 * bounce buffers are freed after the call. An engine keeps at most two, for input and output.
 */
#define GPURING_BOUNCE_KEEP ((size_t) 16 << 20)

/* The bounce buffer of one buffer. */
struct gpuring_bounce {
    void *kept; /* kept between calls, until gpuring_bounce_clear; NULL: not needed yet */
    size_t room;
    void *large; /* for this call alone; NULL: none */
    void *used;  /* by the current call: kept, large or NULL */
};

/* Replace *input, *output or both, which are the call's buffers, with bounce buffers. The copy of
 * the input runs on the engine's stream. */
int gpuring_bounce_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                         bool copy_in, bool copy_out, const void **input, void **output);

/* Copy the result to the user's buffer after the work has run, and wait for completion. */
int gpuring_bounce_deliver(struct gpuring_engine *engine, const struct gpuring_call *call);

/* Free what is not kept, after the call, when the stream is idle. */
void gpuring_bounce_end(struct gpuring_engine *engine);

/* Free what is kept between calls. */
void gpuring_bounce_clear(struct gpuring_engine *engine);

#endif
