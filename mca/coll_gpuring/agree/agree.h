/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Find out whether all ranks have GPU buffers in a call. In most calls, either all ranks have them
 * or none has. But a root may broadcast from host memory to GPU arrays, or gather GPU arrays into a
 * host array, and in MPI_Alltoallv and MPI_Alltoallw a rank may have no data. A rank cannot know
 * alone whether all ranks can work on GPUs. There are three cases, and all ranks know which one
 * applies:
 *
 *   small calls   No rank asks. Ranks with GPU buffers stage the call, which is correct wherever
 *                 the buffers of the other ranks are. Calls with a root are small if they are
 *                 faster staged (engine/select.h). Between nodes, all calls below
 *                 coll_gpuring_agree_size are small.
 *   votes         Ranks of one node that are connected vote through their status pages
 *                 (transport/votes.c). A rank with host buffers delegates the call immediately. On
 *                 the other ranks the call waits in the queue until all ranks have voted.
 *   agreements    Other ranks exchange a round of small messages (oob/oob.h) while the call waits
 *                 in the queue.
 *
 * The first call in which all ranks have GPU buffers connects them. Until then, the ranks agree
 * before each call of coll_gpuring_agree_size bytes or more, because an agreement costs little
 * compared with such a call. Before smaller calls they agree only in calls 1, 3, 7, 15 ... of the
 * communicator, and they stage the others. If a process has no CUDA driver, this holds for calls of
 * any size, so that programs whose buffers are in host memory pay for 20 rounds in a million calls.
 *
 * With coll_gpuring_agree=always, the ranks agree before every call of every collective.
 */
#ifndef GPURING_AGREE_AGREE_H
#define GPURING_AGREE_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/agree/pending.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/engine/reason.h"

/* The number of every persistent call. The ranks agree on such a call when it is created. */
#define GPURING_AGREE_PERSISTENT UINT64_MAX

/* Return true if the ranks of this communicator vote: they are on one node, they are connected, and
 * all of them know that. */
bool gpuring_can_vote_locally(const struct mca_coll_gpuring_module_t *module);

/* Return true if the ranks vote or agree in the call with this number. All ranks get the same
 * answer, unless an earlier call still waits for an agreement; see gpuring_agree_ask. */
bool gpuring_agree_possible(const struct mca_coll_gpuring_module_t *module, uint64_t number);
/* Return the reason for delegating a call because this is not possible. */
enum gpuring_reason gpuring_agree_not_possible(void);

/* Return the number of bytes of the call's vector, or of all ranks' blocks together. Either all
 * ranks know this number, or none does. 0: it is unknown, or there is no data. */
uint64_t gpuring_agree_bytes(const struct mca_coll_gpuring_module_t *module,
                             const struct gpuring_call *call);

/*
 * Begin to find out where the buffers of a call are. All ranks call this for the same calls in the
 * same order. number: module->calls, or GPURING_AGREE_PERSISTENT. queued: the call waits for other
 * calls. Returns the reason for delegating the call, if it is already known that all ranks will
 * delegate or stage it. Returns NONE if the call is served, or if it must wait in the queue for
 * pending->asks.
 */
enum gpuring_reason gpuring_agree_begin(struct mca_coll_gpuring_module_t *module,
                                        const struct gpuring_call *call,
                                        struct gpuring_pending *pending, uint64_t number,
                                        bool queued);

/* Decide whether the ranks will agree on a call. Called when all earlier calls have been agreed on.
 * Returns NONE if they will, otherwise the reason for delegating the call. */
enum gpuring_reason gpuring_agree_ask(const struct mca_coll_gpuring_module_t *module,
                                      const struct gpuring_call *call,
                                      struct gpuring_pending *pending);

/* gpuring_agree_word returns the bits that this rank contributes to an agreement.
 * gpuring_agree_take applies the result, which combines the bits of all ranks. It returns NONE or
 * the reason for delegating the call. */
uint64_t gpuring_agree_word(const struct gpuring_call *call);
enum gpuring_reason gpuring_agree_take(struct mca_coll_gpuring_module_t *module,
                                       const struct gpuring_pending *pending, uint64_t word);

/* Count the votes on a call. Returns false if there is no result yet, because rank *missing has not
 * voted. Otherwise sets *reason to NONE, or to the reason for delegating the call. */
bool gpuring_vote_poll(const struct mca_coll_gpuring_module_t *module,
                       const struct gpuring_call *call, struct gpuring_pending *pending,
                       int *missing, enum gpuring_reason *reason);

#endif
