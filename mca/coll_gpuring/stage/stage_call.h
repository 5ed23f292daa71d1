/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Staging makes every collective accept GPU memory, even if it does not run on the GPU itself. The
 * previous module gets a bounce buffer in host memory instead of each buffer that is on a GPU:
 *
 *     user's buffer (GPU)            bounce buffer (pinned host memory)
 *     +----+---+----+---+    copy    +----+---+----+---+
 *     | a  |gap| b  |gap|  ------->  | a  |   | b  |   |   before the call: the bytes it reads
 *     +----+---+----+---+  <-------  +----+---+----+---+   after the call: the bytes it writes
 *
 * The bytes have the same offsets in both buffers, so datatypes and displacements keep their
 * meaning. Only the bytes that the datatypes touch are copied, because the application may change
 * the gaps of its buffer during the call.
 *
 * Failures. If the data of a rank cannot be copied, the rank logs that, sends bytes of 0xff (NaN,
 * or -1) instead, takes part in the call, and returns the error. The other ranks return no error.
 * A rank without host memory for the call logs that and returns MPI_ERR_NO_MEM without taking part.
 * The other ranks wait for it, as for any rank that does not make the call, and report a long wait.
 *
 * Threads: the same rules apply as for calls of MPI.
 *
 * The steps of a staged call:
 *
 *     describe         list the blocks of the buffers that the call reads and writes
 *                      (stage_describe.c)
 *     begin            find out where the blocks are, and get bounce buffers; without a block on a
 *                      GPU, nothing is staged
 *     copy in
 *     call previous    call the previous module on the bounce buffers
 *     copy out
 *     release
 *
 * gpuring_stage_blocking performs these steps for blocking calls, and stage_request.c for
 * non-blocking and persistent ones. Functions return 0 or a gpuring_status.
 */
#ifndef GPURING_STAGE_CALL_H
#define GPURING_STAGE_CALL_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/progress/task.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/part.h"

#define GPURING_POISON 0xff /* bytes that replace data that could not be copied: NaN, or -1 */

/* A buffer of a call, and its bounce buffer, which has the alignment of the user's buffer, up to 64
 * bytes. Functions of buffers log nothing. */
struct gpuring_stage_buffer {
    const char *user;
    const void *on_gpu; /* a byte that is on a GPU and that the call touches, or NULL */

    /* Passed to the previous module instead of `user`: `user`, or an address in `bounce`. */
    const char *address;
    struct gpuring_stage_bounce *bounce;
    struct gpuring_runs in_runs, out_runs; /* what the call reads and writes */
};

/* Find out whether a buffer is on a GPU, and if it is, get its bounce buffer. in, out: the blocks
 * that the call reads and writes, which may overlap; NULL: none. Returns GPURING_ERR_NOMEM if
 * `*lacking` bytes of host memory could not be allocated. The buffer must be released in this case,
 * too. */
int gpuring_stage_buffer_get(struct gpuring_stage_buffer *buffer, const void *user,
                             const struct gpuring_part *in, const struct gpuring_part *out,
                             size_t *lacking);

/* Copy the runs that the call reads to the bounce buffer (GPURING_COPY_IN), or those that it writes
 * from it. how: see copy_runs in device.h. Does nothing without such runs. */
int gpuring_stage_buffer_copy(const struct gpuring_stage_buffer *buffer,
                              struct gpuring_stream *stream, unsigned how);

/* Fill the part `in` of the bounce buffer with GPURING_POISON. */
void gpuring_stage_buffer_poison(const struct gpuring_stage_buffer *buffer);

/* Return the bounce buffer to the pool. No copy may be running. A zeroed buffer may be released. */
void gpuring_stage_buffer_release(struct gpuring_stage_buffer *buffer);

enum gpuring_staged {
#define GPURING_STAGED_ENUM(name, arguments) GPURING_STAGED_##name,
    GPURING_STAGED_COLLECTIVES(GPURING_STAGED_ENUM) GPURING_STAGED_reduce_local,
    GPURING_STAGED_barrier,
#undef GPURING_STAGED_ENUM
    GPURING_STAGED_COUNT
};

/* The arguments of any collective. Those that a collective does not have are zero. */
struct gpuring_arguments {
    struct ompi_communicator_t *comm;
    const void *sbuf;
    void *rbuf;
    gpuring_count_t scount, rcount;
    struct ompi_datatype_t *stype, *rtype;
    struct ompi_op_t *op;
    int root;
    /* for each rank: */
    gpuring_counts_t scounts, rcounts;
    gpuring_displs_t sdispls, rdispls;
    gpuring_byte_displs_t saddresses, raddresses;
    struct ompi_datatype_t *const *stypes, *const *rtypes;
};

/* A call of a collective. The entry function makes this description once. Serving and staging read
 * it, and the parts are found when one of them first needs them. */
struct gpuring_description {
    mca_coll_gpuring_module_t *module;
    enum gpuring_staged what;
    enum gpuring_form form;
    struct ompi_info_t *info;           /* of a persistent call */
    struct gpuring_arguments arguments; /* for the previous module */
    /* The parts are known: what the call reads in the send buffer, and reads and writes in the
     * receive buffer. */
    bool has_parts;
    struct gpuring_part send, receive_in, receive_out;
};

struct gpuring_stage {
    mca_coll_gpuring_module_t *module;
    enum gpuring_staged what;
    struct gpuring_stage_buffer send, receive;
    const void *gpu; /* a byte of these buffers on a GPU; NULL: nothing is staged */
    struct gpuring_stream *stream;
    int failed; /* 0, or the gpuring_status of the copy that failed on this rank */

    /* Used while the previous module may wait for other ranks (gpuring_stage_watch). Times are in
     * nanoseconds. */
    struct gpuring_task task;
    uint64_t since, last; /* when the wait began, and when the clock was last read */
    unsigned looks;
    bool reported; /* the long wait was logged */
};

/* Find the parts of a call, unless they are known (stage_describe.c). */
void gpuring_description_parts(struct gpuring_description *description);

/* Begin a staged call. If stage->gpu is NULL then, the call does not use GPU memory at this rank,
 * and nothing has to be released. Otherwise the description's arguments contain the bounce buffers.
 * Returns GPURING_ERR_NOMEM (logged) if this rank cannot take part. Nothing has to be released
 * then. A GPU that fails is not an error here; gpuring_stage_copy_in records it in stage->failed.
 */
int gpuring_stage_begin(struct gpuring_stage *stage, struct gpuring_description *description);

/* Start the call, or start a persistent call again: attach the GPU, copy in, and wait for the
 * copies. If that fails (logged), stage->failed contains the reason, and the bytes that should have
 * been copied are set to 0xff. */
void gpuring_stage_copy_in(struct gpuring_stage *stage);

/* Copy out, and with `wait`, wait for the copies. Otherwise poll them: poll returns GPURING_AGAIN
 * while they run. */
int gpuring_stage_copy_out(struct gpuring_stage *stage, bool wait);
int gpuring_stage_poll_out(struct gpuring_stage *stage);

/* Start the task of a call, with these functions. Call this before the previous module may begin to
 * wait for other ranks. */
void gpuring_stage_wait_begin(struct gpuring_stage *stage, gpuring_task_advance_t advance,
                              gpuring_task_complete_t complete);
/* Called at each step of the task. Logs a wait of more than coll_gpuring_timeout, or of 300 seconds
 * if that parameter is 0. */
void gpuring_stage_watch(struct gpuring_stage *stage);

/* gpuring_stage_rest returns the stream to the pool. gpuring_stage_release returns the stream and
 * the bounce buffers. No copy may be running. */
void gpuring_stage_rest(struct gpuring_stage *stage);
void gpuring_stage_release(struct gpuring_stage *stage);

/* Log that there is no memory for a call. Returns GPURING_ERR_NOMEM. */
int gpuring_stage_log_memory(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                             size_t bytes);

/* Call the previous module's function. `request` is ignored for blocking calls. Returns an MPI
 * error code. */
int gpuring_stage_call_previous(const struct gpuring_description *description,
                                ompi_request_t **request);

/* Make a call, staged if it uses GPU memory. Both functions return MPI error codes. */
int gpuring_stage_blocking(struct gpuring_description *description);
int gpuring_stage_request(struct gpuring_description *description, ompi_request_t **request);

/* The request of a staged call. */
struct gpuring_stage_request {
    struct gpuring_collective_request super;
    struct gpuring_stage stage;
    ompi_request_t *inner; /* the previous module's */
    enum { GPURING_STAGE_IDLE, GPURING_STAGE_CALLING, GPURING_STAGE_COPYING } phase;
    int outcome; /* MPI error code */
};

/* Pass a non-blocking call, with or without GPU memory, to the previous module after the call has
 * returned to the user with `self` as its active request. The request holds a reference to the
 * communicator. Returns an MPI error code; after an error the caller completes the request. */
int gpuring_stage_later(struct gpuring_stage_request *self,
                        struct gpuring_description *description);

#endif
