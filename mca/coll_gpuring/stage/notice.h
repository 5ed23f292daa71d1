/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Failure notices: how the ranks of a communicator get to know that a staged call has failed at one
 * of them, where they do not agree on that. A rank whose data is void sends them before that data,
 * and begins the call when all ranks that get of it have answered; so these have the notice when
 * they end it, however data and notices travel:
 *
 *     rank that fails   call 7: notice ... answers, void data         error
 *     the others        call 7: answer when they are in MPI, data     look at the end: error
 *
 * Nobody waits for a notice of a result that only its sender has lost: where it is late,
 *
 *     the others        call 9: look at the end: error, of call 7
 *
 * A blocking call waits for the answers; one with a request is begun by its progress. Who does not
 * answer for half a minute (or coll_gpuring_timeout) is not waited for any longer, and that is
 * told.
 *
 * Each call of a communicator has a number, the same on all ranks: they count the entries of its
 * collectives, also of calls that are not staged, which MPI has all ranks make in the same order.
 * Persistent calls, whose starts are in any order, have the number of their _init and count their
 * starts.
 *
 * A call that a rank takes no part in for want of addresses is ended at the others by its notice
 * (stage/request.c), in the forms that have a request.
 */
#ifndef GPURING_STAGE_NOTICE_H
#define GPURING_STAGE_NOTICE_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/stage/notice_mail.h"
#include "mca/coll_gpuring/stage/stage.h"

/* A communicator begins: name it so that notices find it. And it ends. */
void gpuring_notices_open(struct gpuring_staging *staging, struct ompi_communicator_t *comm);
void gpuring_notices_close(mca_coll_gpuring_module_t *module);

/* The staged call failed at this rank: tell the others, once. They need no notice where all agree
 * on the end of the call. GPURING_NOTICE_VOID: before the call is begun; stage->receipt may be set,
 * and it is to be begun when answered() tells true. */
void gpuring_notice_give(struct gpuring_stage *stage, int failure, enum gpuring_notice_kind kind);

/* No more answers are awaited; or wait for that; or leave it. */
bool gpuring_notices_answered(struct gpuring_stage *stage);
void gpuring_notices_wait(struct gpuring_stage *stage);
void gpuring_notices_drop(struct gpuring_stage *stage);

/* Is that call of the communicator under way at this rank, or will it be? Then it answers for its
 * notices itself. */
typedef bool (*gpuring_notice_is_open_fn)(const mca_coll_gpuring_module_t *module,
                                          const struct gpuring_notice *notice);

/* The end of a staged call, whose status here it is: that, or what the notices say of this call or
 * of earlier ones (logged). */
int gpuring_notices_settle(const struct gpuring_stage *stage, int status,
                           gpuring_notice_is_open_fn is_open);

/* The same of this call alone, which is not staged here. */
int gpuring_notices_settle_own(const struct gpuring_stage *stage);

/* 0, or why a rank takes no part in this call, in *notice; it is not taken out of the box. */
int gpuring_notice_of_absence(const struct gpuring_stage *stage, struct gpuring_notice *notice);

#endif
