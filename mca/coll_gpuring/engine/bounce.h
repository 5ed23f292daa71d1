/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Bounce buffers. A call works on copies in the device's context if some of its buffers are in host
 * memory, in another CUDA context or on another GPU. If its datatype has gaps, it works on packed
 * copies. Other ranks do not notice this.
 */
#ifndef GPURING_ENGINE_BOUNCE_H
#define GPURING_ENGINE_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>

struct gpuring_engine;
struct gpuring_call;

/*
 * Maximum size of copies whose memory the engine keeps. From 16 MiB on, a copy between GPUs (1 ms
 * over PCI Express) takes longer than an allocation, which waits for the GPU. Larger copies are
 * freed after the call. An engine keeps at most two, for input and output.
 */
#define GPURING_BOUNCE_KEEP ((size_t) 16 << 20)

/* The bounce buffer of one buffer. */
struct gpuring_bounce {
    void *kept; /* between calls, until gpuring_bounce_clear; NULL: not needed yet */
    size_t room;
    void *large; /* only for this call; NULL: none */
    void *used;  /* by the current call: kept, large or NULL */
};

/* Replace *input, *output or both, which are the buffers of the call, with copies. The engine's
 * stream fills those of the input. */
int gpuring_bounce_start(struct gpuring_engine *engine, const struct gpuring_call *call,
                         bool copy_in, bool copy_out, const void **input, void **output);

/* Copy the result to the user's buffer after the work, and wait for completion. */
int gpuring_bounce_deliver(struct gpuring_engine *engine, const struct gpuring_call *call);

/* Release the copies after the call, when the stream is idle. */
void gpuring_bounce_end(struct gpuring_engine *engine);

/* Free what is kept between calls. */
void gpuring_bounce_clear(struct gpuring_engine *engine);

#endif
