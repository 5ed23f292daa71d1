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
 *
 * A staged call and its steps:
 *
 *     describe      which blocks of which buffers it reads and writes    describe.c
 *     is_on_gpu     where these lie: if none is on a GPU, that was all   call.c, as what follows
 *     reserve       bounce buffers
 *     copy in
 *     the call of the previous module, on the bounce buffers
 *     copy out
 *     release
 *
 * gpuring_stage_blocking and request.c make these steps in each form.
 * Functions return 0 or a gpuring_status.
 */
#ifndef GPURING_STAGE_CALL_H
#define GPURING_STAGE_CALL_H

#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/request.h"
#include "mca/coll_gpuring/stage/host_copy.h"
#include "mca/coll_gpuring/util/list.h"

enum gpuring_staged {
#define GPURING_STAGED_ENUM(name, arguments) GPURING_STAGED_##name,
    GPURING_STAGED_COLLECTIVES(GPURING_STAGED_ENUM) GPURING_STAGED_reduce_local,
    GPURING_STAGED_barrier,
#undef GPURING_STAGED_ENUM
    GPURING_STAGED_COUNT
};

/* The arguments of any collective; each has those of its list, the others are zero. */
struct gpuring_arguments {
    const void *sbuf;
    gpuring_count_t scount;
    gpuring_counts_t scounts;
    gpuring_displs_t sdispls;
    gpuring_byte_displs_t saddresses;
    struct ompi_datatype_t *stype, *const *stypes;
    void *rbuf;
    gpuring_count_t rcount;
    gpuring_counts_t rcounts;
    gpuring_displs_t rdispls;
    gpuring_byte_displs_t raddresses;
    struct ompi_datatype_t *rtype, *const *rtypes;
    struct ompi_op_t *op;
    int root;
    struct ompi_communicator_t *comm;
};

struct gpuring_stage {
    mca_coll_gpuring_module_t *module;
    enum gpuring_staged what;
    struct gpuring_stage_buffer send, receive;
    struct gpuring_stream *stream;
    int failed; /* 0, or why this rank's data could not be copied */

    /* While the previous module may wait for other ranks, see call.c: */
    struct gpuring_list node;
    uint64_t since;
    bool reported; /* that it waits long */
    /* Both NULL for a blocking call. advance: one step, true when the result is with the user;
     * complete: tell Open MPI, without the lock. */
    bool (*advance)(struct gpuring_stage *stage);
    void (*complete)(struct gpuring_stage *stage);
};

void gpuring_stage_describe(struct gpuring_stage *stage, mca_coll_gpuring_module_t *module,
                            enum gpuring_staged what, const struct gpuring_arguments *arguments);
/* The same of the users' buffers and their parts alone; the rest stays as it was. */
void gpuring_stage_parts(struct gpuring_stage *stage, enum gpuring_staged what,
                         const struct gpuring_arguments *arguments);

/* Does the call use GPU memory at this rank? If not, nothing has to be released. */
bool gpuring_stage_is_on_gpu(struct gpuring_stage *stage);

/* The bounce buffers; sets the arguments' buffers to them. GPURING_ERR_NOMEM (logged): this rank
 * cannot take part, and holds nothing. A GPU that fails is no error here, but stage->failed. */
int gpuring_stage_reserve(struct gpuring_stage *stage, struct gpuring_arguments *arguments);

/* Begin (again): attach the GPU, copy in, and wait for that. What cannot be copied is set to 0xff,
 * and stage->failed says why (logged). */
void gpuring_stage_copy_in(struct gpuring_stage *stage);

/* Start to copy out, and ask whether it is done: 0, GPURING_AGAIN, or the failure. */
int gpuring_stage_start_out(struct gpuring_stage *stage);
int gpuring_stage_poll_out(struct gpuring_stage *stage);

/* Watch it while the previous module may wait for other ranks: a wait of 300 seconds, or of
 * coll_gpuring_timeout, is reported. */
void gpuring_stage_wait_begin(struct gpuring_stage *stage);

/* At the end of the process: nothing is watched any more. */
void gpuring_stage_close(void);

/* The stream goes back; and all that the call has. Only while no copy runs. */
void gpuring_stage_rest(struct gpuring_stage *stage);
void gpuring_stage_release(struct gpuring_stage *stage);

/* Log that there is no memory for a call; returns GPURING_ERR_NOMEM. */
int gpuring_stage_log_memory(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                             size_t bytes);

/* The previous module's function in a form, which uses the request and info that it needs. */
enum gpuring_stage_form {
    GPURING_BLOCKING,
    GPURING_NONBLOCKING,
    GPURING_PERSISTENT,
    GPURING_STAGE_FORM_COUNT
};
int gpuring_stage_call_previous(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                                enum gpuring_stage_form form,
                                const struct gpuring_arguments *arguments, struct ompi_info_t *info,
                                ompi_request_t **request);

/* The forms. MPI error codes. */
int gpuring_stage_blocking(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                           struct gpuring_arguments *arguments);
int gpuring_stage_request(mca_coll_gpuring_module_t *module, enum gpuring_staged what,
                          enum gpuring_stage_form form, struct gpuring_arguments *arguments,
                          struct ompi_info_t *info, ompi_request_t **request);

/* The request of a staged call. */
struct gpuring_stage_request {
    struct gpuring_collective_request super;
    struct gpuring_stage stage;
    ompi_request_t *inner; /* the previous module's */
    enum { GPURING_STAGE_IDLE, GPURING_STAGE_CALLING, GPURING_STAGE_COPYING } phase;
    int outcome; /* MPI error code */
};

/* Let the previous module have a non-blocking call, with or without GPU memory, for which the user
 * has this active request already, with a reference to the communicator. MPI error codes; not
 * MPI_SUCCESS: the caller completes the request. */
int gpuring_stage_later(struct gpuring_stage_request *self, mca_coll_gpuring_module_t *module,
                        enum gpuring_staged what, struct gpuring_arguments *arguments);

#endif
