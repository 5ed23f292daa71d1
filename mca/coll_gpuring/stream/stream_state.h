/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The state of a communicator whose calls run in a stream of the application. */
#ifndef GPURING_STREAM_STATE_H
#define GPURING_STREAM_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/stream/stream_calls.h"
#include "mca/coll_gpuring/util/list.h"

/* A call that may not have ended, for messages. */
struct gpuring_stream_record {
    uint64_t operation; /* of the engine */
    uint64_t made;      /* its word, see serve/differ.h */
    bool in_graph;
    int exchange; /* number of its exchange from 1, see stream_exchange.c; 0: it is a collective */
};
#define GPURING_STREAM_RECORDS 256 /* of the last calls */

/* A collective in the order of all collectives. */
struct gpuring_stream_made {
    uint64_t word; /* see serve/differ.h */
    uint64_t hash; /* of its word and all words before it */
};
#define GPURING_STREAM_MADE 2048 /* more than a stream takes before it is full */

struct gpuring_stream_state {
    mca_coll_gpuring_module_t *module;
    void *stream;         /* the application's */
    void *byte;           /* device memory that barriers reduce; NULL with a single rank */
    pthread_mutex_t lock; /* guards all below, and the module's state and engine */

    /* The last call, whose description is kept. The next one often has the same shape. */
    enum gpuring_stream_call what;
    struct gpuring_stream_arguments arguments;
    struct gpuring_call call; /* its name is NULL before the first one */
    uint64_t shapes;          /* number of shapes so far */

    /* The last calls, by number of the launch, and by number of the captured launch. */
    struct gpuring_stream_record records[GPURING_STREAM_RECORDS], captured[GPURING_STREAM_RECORDS];

    /* The last collectives, by number of the operation, and the last hash (stream_notes.c). */
    struct gpuring_stream_made made[GPURING_STREAM_MADE];
    uint64_t hash;
    struct {
        uint64_t time, last; /* of the last note, and the last operation at that time */
    } noted;

    struct gpuring_exchanges *exchanges; /* NULL before the first one */

    struct gpuring_list node; /* stream_watch.c: in the list of all communicators */
    uint64_t current;         /* identifies the call that was running at the last check */
    uint64_t since;           /* time at which it was first seen, ns; 0: none is in flight */
    bool reported;            /* a report that it takes long was logged */
};

/* ---- stream_connect.c ---- */

/* See struct gpuring_stream_functions. */
int gpuring_stream_connect(MPI_Comm comm, void *stream);

/* ---- stream_describe.c ---- */

/*
 * Describe a call for the engine in state->call. Returns 0; GPURING_AGAIN if it does nothing,
 * because it has no data; or GPURING_ERR_ARG or GPURING_ERR_UNSUPPORTED (logged) if it cannot be
 * enqueued. An error changes nothing, so that the program may repeat the call with other arguments.
 */
int gpuring_stream_describe(struct gpuring_stream_state *state, enum gpuring_stream_call what,
                            const struct gpuring_stream_arguments *arguments);

/* Return the name of a function: "MPIX_Allreduce_enqueue". */
const char *gpuring_stream_call_name(enum gpuring_stream_call what);

/* Log that a call is refused, and return GPURING_ERR_UNSUPPORTED. code: for tests. */
int gpuring_stream_refuse(const char *function, const char *code, const char *why);

/* Check that the data of a datatype has no gaps, and that the kernels of this process reach a
 * buffer of `bytes` bytes. which: "send". Return 0 or GPURING_ERR_UNSUPPORTED (logged). */
int gpuring_stream_check_type(const char *function, MPI_Datatype type, size_t count);
int gpuring_stream_check_memory(const char *function, const char *which, const void *address,
                                uint64_t bytes);

/* ---- stream_exchange.c: messages between ranks ---- */

/* See struct gpuring_stream_functions. Does not need the lock. */
int gpuring_stream_check(const struct gpuring_stream_state *state, const char *function,
                         const struct gpuring_stream_message *message);

/* Enqueue messages, or return GPURING_AGAIN, because too many calls are in flight, and enqueue
 * nothing. See struct gpuring_stream_functions. The caller holds the lock. */
int gpuring_stream_exchange(struct gpuring_stream_state *state, const char *function,
                            const struct gpuring_stream_message *messages, int count);

/* ---- stream_headers.c: their headers ---- */

/* Compare the headers that were received with the receives. Returns 0, or an error with one line of
 * text. The caller holds the lock. */
int gpuring_exchanges_differ(struct gpuring_stream_state *state, char *text, size_t size);

/* Describe an exchange: "MPIX_Send_enqueue of 400 bytes with tag 5 to rank 1". */
void gpuring_exchange_text(const struct gpuring_stream_state *state, int number, char *text,
                           size_t size);
/* Return a rank whose message to this one has not arrived, or the rank of another message. */
int gpuring_exchange_peer(const struct gpuring_stream_state *state, int number);

/* Free the memory for exchanges. Nothing runs. */
void gpuring_exchanges_close(struct gpuring_stream_state *state);

/* ---- stream_notes.c: comparison with ranks of other nodes ---- */

/* Record the collective that the engine has just launched. */
void gpuring_stream_notes_add(struct gpuring_stream_state *state);

/* Exchange notes with other ranks. at: the operation that waits, or the last one. Return 0, or the
 * error with one line of text. Only for threads that may call MPI. The caller holds the lock. */
int gpuring_stream_notes(struct gpuring_stream_state *state, uint64_t at, char *why, size_t size);

/* ---- stream_watch.c: a thread that watches the calls that have not ended ---- */

/* Record the launch that the engine has just made. captured: it was captured into a graph.
 * exchange: its number, or 0. The caller holds the state's lock. */
void gpuring_stream_record(struct gpuring_stream_state *state, bool captured, int exchange);

/* Report an error, and let all ranks end. record: the call that waits, or NULL. The caller holds
 * the lock. */
void gpuring_stream_fail(struct gpuring_stream_state *state,
                         const struct gpuring_stream_record *record, int status, const char *why);

/* Look at the calls now, and let the module fail if there is an error. The caller holds the lock.
 */
void gpuring_stream_look(struct gpuring_stream_state *state);

/* Start to watch a communicator. Returns 0 or GPURING_ERR_NOMEM (logged). */
int gpuring_stream_watch(struct gpuring_stream_state *state);
/* End watching it, if it is watched. */
void gpuring_stream_unwatch(struct gpuring_stream_state *state);

#endif
