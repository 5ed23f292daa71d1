/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The functions of the CUDA driver that the test of enqueued calls uses as an application: of the
 * stand-in driver, or of a GPU, on which copies represent kernels. */
#ifndef GPURING_TEST_ENQUEUED_DRIVER_H
#define GPURING_TEST_ENQUEUED_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

extern struct driver {
    int (*stream_create)(void **stream, unsigned int flags, int priority);
    int (*stream_destroy)(void *stream), (*stream_sync)(void *stream);
    int (*stream_query)(void *stream);
    /* Wait some milliseconds in a stream, and then copy GPU memory. */
    void (*kernel)(void *stream, void *to, const void *from, size_t bytes, int ms);
    /* Capture a stream into a graph, and launch it. */
    void (*graph_begin)(void *stream);
    void *(*graph_end)(void);
    void (*graph_launch)(void *graph, void *stream);
    /* End a capture, and set the parameters of a graph. */
    bool (*graph_update)(void *graph);
    void (*graph_free)(void *graph);
} driver;

/* End the program if `good` is false, because it cannot do `what`. */
void driver_need(bool good, const char *what);

/* Find the functions, and make the context of this rank's buffers current. */
void driver_open(void);
void driver_close(void);

#endif
