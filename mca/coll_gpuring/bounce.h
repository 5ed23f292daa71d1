/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Bounce buffers: a call whose buffers are partly in host memory, or on another GPU than the one
 * that this process works with, runs on copies there. A matter of this rank alone: the others see
 * no difference.
 */
#ifndef GPURING_BOUNCE_H
#define GPURING_BOUNCE_H

struct gpuring_service;
struct gpuring_call;

/* The buffers to work on: the call's own where the GPU reaches them, else copies, filled in the
 * order of the service's stream. */
int gpuring_bounce_start(struct gpuring_service *service, const struct gpuring_call *call,
                         const void **input, void **output);

/* The work is done: bring the result to where it belongs. Returns when it is there. */
int gpuring_bounce_deliver(struct gpuring_service *service, const struct gpuring_call *call);

/* Give the copies back; the stream is idle. */
void gpuring_bounce_end(struct gpuring_service *service);

#endif
