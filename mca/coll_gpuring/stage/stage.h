/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staging: every collective that does not run on the GPU itself, on GPU memory.
 *
 * The previous module gets host memory in place of each buffer that is on a GPU:
 *
 *     user's buffer (GPU)            place (pinned host memory)
 *     +----+---+----+---+    copy    +----+---+----+---+
 *     | a  |gap| b  |gap|  ------->  | a  | ? | b  | ? |   what the call reads, before it
 *     +----+---+----+---+  <-------  +----+---+----+---+   what the call writes, after it
 *
 * at the same offsets, so that datatypes and displacements keep their meaning. Only the bytes that
 * the datatypes touch are copied: gaps of the user's buffer may change meanwhile.
 *
 * A wrapper describes its buffers (stage/describe.c), asks whether any is on a GPU, and if so
 * reserves places, copies, calls the previous module, and copies back. Non-blocking and persistent
 * calls return a request of ours that holds the places until the previous module's request is
 * complete (stage/request.c).
 *
 * Threads: as MPI's calls. Errors: the MPI functions return MPI error codes, the others 0 or a
 * gpuring_status, logged.
 */
#ifndef GPURING_STAGE_STAGE_H
#define GPURING_STAGE_STAGE_H

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/stage/agree.h"
#include "mca/coll_gpuring/stage/extents.h"
#include "mca/coll_gpuring/collectives.h"
#include "mca/coll_gpuring/stage/notice_box.h"

struct mca_coll_gpuring_module_t;
struct gpuring_notice_receipt;
struct gpuring_stage_block;
struct gpuring_stage_request;
struct gpuring_stream;
struct gpuring_verdict;

enum gpuring_staged {
#define GPURING_STAGED_ENUM(name, arguments) GPURING_STAGED_##name,
    GPURING_STAGED_COLLECTIVES(GPURING_STAGED_ENUM) GPURING_STAGED_reduce_local,
#undef GPURING_STAGED_ENUM
    GPURING_STAGED_COUNT
};

/* One buffer of a call. */
struct gpuring_stage_buffer {
    const char *user;
    struct gpuring_part in, out; /* what the call reads and writes; may overlap */
    bool on_gpu;

    const char *place; /* what the previous module gets: `user`, or memory of ours */
    struct gpuring_stage_block *block;
    struct gpuring_runs in_runs, out_runs;
};

struct gpuring_stage {
    struct gpuring_stage_buffer send, receive;
    struct gpuring_party party; /* who agrees; the root, also where all do */
    struct gpuring_stream *stream;
    struct mca_coll_gpuring_module_t *module;
    enum gpuring_staged what;
    struct gpuring_stage_request *request; /* a persistent call's, before it is given to the user */
    uint64_t call;  /* its number, the same on all ranks: gpuring_stage_calls when it began */
    uint32_t start; /* of a persistent one: how often it was started; or GPURING_STAGE_APART or
                       GPURING_STAGE_BESIDE; or 0 */
    bool beside;    /* it may be a call of Open MPI's own, if it is a non-blocking one */
    bool agrees;    /* the ranks agree at the end of the call on whether all went well */
    bool noticed;   /* the others were told of a failure (stage/notice.h) */
    struct gpuring_notice_receipt *receipt; /* .. and are to answer before the call begins */
    uint64_t told_ns;                       /* .. since then */
    bool deferred; /* a non-blocking one, whose `inner` is a persistent call that waits for that */
    bool stuck;    /* it waits for a rank that takes no part, and that was told */
    bool absent;   /* it has no places: this rank takes no part in it */
    int lacking;   /* 0, or why nothing can be copied between buffers and places: no memory */
    int failed;    /* 0, or why the data could not be copied in: lacking, or a broken GPU */
};

/*
 * The functions for Open MPI's tables: gpuring_stage_<name>, gpuring_stage_i<name>,
 * gpuring_stage_<name>_init. They call the previous module's function, with buffers that are not on
 * a GPU. gpuring_describe_<name> says what the call does with its buffers.
 */
#define GPURING_STAGE_DECLARE(name, list)                                                       \
    int gpuring_stage_##name(GPURING_ARGUMENTS_##list, GPURING_END_BLOCKING);                   \
    int gpuring_stage_i##name(GPURING_ARGUMENTS_##list, GPURING_END_NONBLOCKING);               \
    int gpuring_stage_##name##_init(GPURING_ARGUMENTS_##list, GPURING_END_PERSISTENT);          \
    void gpuring_describe_##name(struct gpuring_stage *stage, struct ompi_communicator_t *comm, \
                                 GPURING_ARGUMENTS_##list);
GPURING_STAGED_COLLECTIVES(GPURING_STAGE_DECLARE)
#undef GPURING_STAGE_DECLARE

int gpuring_stage_reduce_local(const void *sbuf, void *rbuf, gpuring_count_t count,
                               struct ompi_datatype_t *type, struct ompi_op_t *op,
                               mca_coll_base_module_t *module);

/*
 * The calls of the communicator's collectives so far, the same on all ranks. Every entry counts, as
 * no rank knows which calls are staged at others; those of a blocking or non-blocking allreduce
 * that is served are counted already (buffer_mismatch.h).
 */
#define gpuring_stage_calls(module) ((module)->staging.calls + (module)->calls)
#define gpuring_stage_count(module, what) \
    ((module)->staging.calls += (what) != GPURING_STAGED_allreduce || !(module)->serves)

/*
 * Blocking calls that do not come to all ranks: Open MPI returns at once from these where no
 * elements are given, as those of the root's group may that are not the root, and the ranks of a
 * graph that have no neighbours. They are numbered apart, behind the last one that counts;
 * stage->start is that number with this bit.
 */
#define GPURING_STAGE_APART UINT32_C(0x80000000)

/*
 * stage->start of non-blocking calls that may be Open MPI's own (gpuring_compat_internal). These
 * stand at another place among the application's calls on each rank, so the ranks neither number
 * them nor agree on them: each would wait for the agreement whose turn it is there. They have the
 * number of the last call that counts.
 */
#define GPURING_STAGE_BESIDE UINT32_C(0x40000000)
static inline bool gpuring_stage_is_of_graph(const struct ompi_communicator_t *comm,
                                             enum gpuring_staged what)
{
    /* The ranks of a grid are all connected: all have elements or none. */
    return (what == GPURING_STAGED_neighbor_allgather ||
            what == GPURING_STAGED_neighbor_alltoall) &&
           !OMPI_COMM_IS_CART(comm);
}

static inline bool gpuring_stage_is_apart(const struct ompi_communicator_t *comm,
                                          enum gpuring_staged what)
{
    return gpuring_stage_is_of_graph(comm, what) ||
           (OPAL_UNLIKELY(OMPI_COMM_IS_INTER(comm)) &&
            (what == GPURING_STAGED_bcast || what == GPURING_STAGED_reduce ||
             what == GPURING_STAGED_gather || what == GPURING_STAGED_scatter));
}

/* "MPI_Bcast" */
void gpuring_stage_name(enum gpuring_staged what, char *text, size_t size);

/* What calls that find no memory, nor addresses, are to have: as soon as there may be GPUs, for
 * later there may be a limit. Idempotent. */
void gpuring_stage_prepare(void);

/* Find out which buffers are on a GPU; false: none, hand the call on as it is. */
bool gpuring_stage_applies(struct gpuring_stage *stage);

static inline bool gpuring_stage_uses_gpu(const struct gpuring_stage *stage)
{
    return stage->send.on_gpu || stage->receive.on_gpu;
}

/* Count a call that is staged; the first of each collective on a communicator is logged. */
void gpuring_stage_account(struct mca_coll_gpuring_module_t *module, enum gpuring_staged what);

/*
 * The steps of a stage that applies, in this order. reserve sets the places, where there is no
 * memory such that keep no data (stage->lacking and failed are set then); release may follow any of
 * them, also one that failed, if no copy runs. start_in and start_out begin copies, wait
 * ends them, and poll tells GPURING_AGAIN until they have ended. After rest it can begin again with
 * start_in.
 */
int gpuring_stage_reserve(struct gpuring_stage *stage);
/* Before a call that was reserved begins again: the GPU is attached, or stage->failed says why. */
void gpuring_stage_attach(struct gpuring_stage *stage);
int gpuring_stage_start_in(struct gpuring_stage *stage);
int gpuring_stage_start_out(struct gpuring_stage *stage);
int gpuring_stage_wait(struct gpuring_stage *stage);
int gpuring_stage_poll(struct gpuring_stage *stage);
void gpuring_stage_rest(struct gpuring_stage *stage);
void gpuring_stage_release(struct gpuring_stage *stage);

/* start_in and wait, start_out and wait; again if that fails, for some failures pass. What fetch
 * cannot copy in (also if stage->failed is set already) it sets to 0xff: NaN for the other ranks.
 */
int gpuring_stage_fetch(struct gpuring_stage *stage);
int gpuring_stage_deliver(struct gpuring_stage *stage);

/* Why the call is an error at this rank although the previous module did its part: 0, or a status.
 * Also where another rank's GPU is known to have failed on this communicator. */
int gpuring_stage_failure(const struct gpuring_stage *stage);

/*
 * The steps before a call, of each form: reserve places, and copy in if the call begins now. They
 * release what they could not do. MPI error codes.
 *
 * Data that cannot be copied in, or for which there is no memory, is no error of them: the other
 * ranks wait for this one, so it takes part with bytes of 0xff, and close (or the request) has the
 * error. Without addresses it takes no part (stage->absent); a blocking call is an error then. The
 * others are told of both (stage/notice.h). With module->together it is an error of open on all
 * ranks: they agree on it, and again at the end. Then all calls come here, also those with no
 * buffer on a GPU. Non-blocking calls cannot agree before they begin, so they do it when they end.
 */
int gpuring_stage_open(struct gpuring_stage *stage, struct mca_coll_gpuring_module_t *module,
                       enum gpuring_staged what);
int gpuring_stage_open_nonblocking(struct gpuring_stage *stage,
                                   struct mca_coll_gpuring_module_t *module,
                                   enum gpuring_staged what);
int gpuring_stage_open_persistent(struct gpuring_stage *stage,
                                  struct mca_coll_gpuring_module_t *module,
                                  enum gpuring_staged what);

/*
 * Behind open_nonblocking: is the call to begin later, when the others know that the data of this
 * rank is void? Then the persistent form takes its place in the order of the previous module's
 * calls, if both forms are of the same module, which numbers them alike.
 */
bool gpuring_stage_defers(struct gpuring_stage *stage, const mca_coll_base_module_t *nonblocking,
                          const mca_coll_base_module_t *persistent);

/* After a blocking call, whose `result` it was: copy back unless that is an error. MPI error code.
 */
int gpuring_stage_close(struct gpuring_stage *stage, int result);

/* The same without the other ranks; a status, also for a `result` that is an error. */
int gpuring_stage_close_here(struct gpuring_stage *stage, int result);

/* At the end of a blocking call whose status it is: that, or what other ranks' notices say of this
 * call or of earlier ones. */
int gpuring_stage_look(const struct gpuring_stage *stage, int status);

/*
 * The end of a blocking call that is not staged here, of that number, whose `result` it was: that,
 * or what other ranks' notices say of it. Not of earlier ones, for it may be a call of the previous
 * module's or of Open MPI's own, which others are in that must not be left alone. MPI error code.
 */
int gpuring_stage_passed_noticed(struct mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                                 uint64_t number, int result);
static inline int gpuring_stage_passed(struct mca_coll_gpuring_module_t *module,
                                       enum gpuring_staged what, uint64_t number, int result)
{
    return OPAL_LIKELY(!gpuring_notice_box_filled())
               ? result
               : gpuring_stage_passed_noticed(module, what, number, result);
}

/* Log a verdict that is a failure; of equal ones that follow each other the first. how: "failed on
 * all ranks" */
void gpuring_stage_tell(struct mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                        const struct gpuring_verdict *verdict, const char *how);

/*
 * Make *request of the previous module's `inner`, or clean up if `result` is an error. Takes over
 * the stage. A persistent request copies in at each start. MPI error codes.
 */
int gpuring_stage_request(struct gpuring_stage *stage, int result, ompi_request_t *inner,
                          ompi_request_t **request);

/* At the end of the process: give back memory and streams. The device is still open. */
void gpuring_stage_finish(void);

#endif
