/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Upper bounds on the cost of a call, each with its reason. Tests compare counts of the stand-in
 * driver and of the PTX interpreter with them, because no test asserts a time. A change that needs
 * less may lower a bound; one that needs more must have a reason that this file can state.
 */
#ifndef GPURING_TEST_BUDGETS_H
#define GPURING_TEST_BUDGETS_H

/* ---- A kernel that exchanges directly with 7 peers (test/unit/test_kernel_counts.c) ---- */

/* A system fence takes as long as a hop. Lines of LL and LL128 validate themselves, so the only one
 * is before the flag at the end, which the host polls. Simple has one more for each step except the
 * last one, whose slots are given back at the end. */
#define BUDGET_FENCES_LINES  1
#define BUDGET_FENCES_SIMPLE 2

/* The work and its first lane are parameters, so before its first store a warp waits only for the
 * tables and for the input. In the blocks of other lanes, the second warp also loads the lane. */
#define BUDGET_LOADS_BEFORE_STORE 2

/* Instructions of all warps for 8 bytes: threads without data end early. */
#define BUDGET_INSTRUCTIONS_SIMPLE 9500
#define BUDGET_INSTRUCTIONS_LL     2700
#define BUDGET_INSTRUCTIONS_LL128  9500

/* The time of a small call depends on the warp with the most instructions: with up to 128 bytes,
 * with a batch of 2 or 4 KiB, and with 7 peers more than with one, which its threads share. */
#define BUDGET_WARP_SMALL 1150
#define BUDGET_WARP_BATCH 1600
#define BUDGET_WARP_PEERS 300

/* Instructions of the longest warp by which a step that exchanges 128 bytes with each of 7 peers
 * may exceed a step of a ring: its groups of threads find their peers' chunks simultaneously. */
#define BUDGET_EACH 300

/* Instructions of a lane of two-shot with Simple that depend on each other, with up to 8 KiB for
 * each peer. The steps have the packs of 8 operands in flight, and threads without data end early.
 */
#define BUDGET_PATH_TWO_SHOT 1600

/* Fences of an alltoall with Simple: after sending, and at the end. */
#define BUDGET_FENCES_EACH 2

/* Waits for loads, one after another, with a batch: for the tables, for the input, for 4 peers
 * together, for 3 more, and for the input again. */
#define BUDGET_WAITS_FOR_LOADS 5

/* ---- Driver calls of a blocking call, without polls for its end (test/mpi/driver_calls.c) ---- */

#define BUDGET_ENTER  5                  /* identify a context, make it current, leave it */
#define BUDGET_POLL   (BUDGET_ENTER + 1) /* only for long kernels: flags signal the end of others */
#define BUDGET_FOLLOW 3 /* the default stream: query for captures, event, and wait for it */
#define BUDGET_LAUNCH (BUDGET_ENTER + 2 + BUDGET_FOLLOW) /* set a graph, and launch it */
/* Two copies, waits for both, and a check of the stream's context. */
#define BUDGET_STAGED (5 + 2 * BUDGET_FOLLOW)

#define BUDGET_ALLREDUCE (2 + BUDGET_LAUNCH) /* each buffer is queried once */
#define BUDGET_IN_PLACE  (1 + BUDGET_LAUNCH)
#define BUDGET_SCAN      (2 + 2 * BUDGET_ENTER + BUDGET_STAGED) /* once for each copy */
#define BUDGET_BCAST     (1 + 2 * BUDGET_ENTER + BUDGET_STAGED)
#define BUDGET_SENDRECV  (2 + 2 * BUDGET_ENTER + BUDGET_STAGED)

/* A call in a stream (test/mpi/enqueued.c): query for captures, and launch. */
#define BUDGET_ENQUEUE (BUDGET_ENTER + 2)

/* Allocations of GPU memory by a wire-up: they take up to milliseconds each. */
#define BUDGET_ALLOCATIONS 6

/* Bounce buffers in GPU memory that a communicator keeps, for calls on another GPU. */
#define BUDGET_KEPT 2

#endif
