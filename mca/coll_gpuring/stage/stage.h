/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staging: every collective that does not run on the GPU itself, on GPU memory.
 *
 * The previous module gets host memory in place of each buffer that is on a GPU:
 *
 *     user's buffer (GPU)            bounce buffer (pinned host memory)
 *     +----+---+----+---+    copy    +----+---+----+---+
 *     | a  |gap| b  |gap|  ------->  | a  | ? | b  | ? |   what the call reads, before it
 *     +----+---+----+---+  <-------  +----+---+----+---+   what the call writes, after it
 *
 * at the same offsets, so that datatypes and displacements keep their meaning. Only the bytes that
 * the datatypes touch are copied: gaps of the user's buffer may change meanwhile.
 *
 * Failures. A rank whose data cannot be copied logs that, gives bytes of 0xff (NaN, or -1) in place
 * of data that it owes, takes part in the call, and returns the error; other ranks return none. A
 * rank without host memory for the call logs that and returns MPI_ERR_NO_MEM without taking part:
 * the others wait for it, as for any rank that does not make the call; they report that wait.
 *
 * Threads: as MPI's calls.
 */
#ifndef GPURING_STAGE_STAGE_H
#define GPURING_STAGE_STAGE_H

#include "mca/coll_gpuring/collectives.h"
#include "mca/coll_gpuring/compat.h"

struct mca_coll_gpuring_module_t;

/*
 * The functions for Open MPI's tables: gpuring_stage_<name>, gpuring_stage_i<name>,
 * gpuring_stage_<name>_init. They call the previous module's function, with buffers that are not on
 * a GPU.
 */
#define GPURING_STAGE_DECLARE(name, list)                                         \
    int gpuring_stage_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING);     \
    int gpuring_stage_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING); \
    int gpuring_stage_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT);
GPURING_STAGED_COLLECTIVES(GPURING_STAGE_DECLARE)
#undef GPURING_STAGE_DECLARE

int gpuring_stage_reduce_local(GPURING_ARGUMENTS_REDUCTION, mca_coll_base_module_t *module);

/* At the end of the process: no progress callback any more. */
void gpuring_stage_close(void);

#endif
