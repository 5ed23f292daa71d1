/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Types, buffers and forms of point-to-point calls that the programs p2p, p2p_cases and p2p_soak
 * share. */
#ifndef GPURING_TEST_P2P_DATA_H
#define GPURING_TEST_P2P_DATA_H

#include "harness.h"

/* A type of ints. A multiple of 60 ints is a whole number of elements of each type. */
struct p2p_type {
    const char *name;
    MPI_Datatype type;
    int ints;
    MPI_Aint extent;
};
#define P2P_TYPES 5
extern struct p2p_type p2p_types[P2P_TYPES]; /* the first is MPI_INT */
void p2p_types_open(void);
void p2p_types_close(void);

/* Memory with a buffer for units * 60 ints of a type. MPI gets the address `begin`. */
struct area {
    char *memory, *begin;
    size_t bytes;
    int type, units;
    bool on_gpu;
};
struct area area_open(int type, int units, bool on_gpu);
void area_close(struct area *area);
void area_fill(struct area *area, unsigned seed);
/* Return true if the buffer is unchanged since it was filled. */
bool area_unchanged(const struct area *area, unsigned seed);
/* Return true if two buffers have the same bytes. */
bool area_same(const struct area *area, const struct area *expected);
/* Return true if the buffer is unchanged after the first elements. */
bool area_same_behind(const struct area *area, int type, int elements, unsigned seed);
/* Copy the first `ints` ints of a message between two areas on the host. */
void area_move(struct area *to, const struct area *from, int ints);

/* Return true if the buffer has the initial content, overwritten by a message of this number of
 * ints from such an area. */
bool area_received(const struct area *to, unsigned seed, int from_type, unsigned from_seed,
                   int ints);

struct message {
    void *buffer;
    int count, peer, tag;
    MPI_Datatype type;
    MPI_Comm comm; /* 0: MPI_COMM_WORLD */
    MPI_Request request;
    MPI_Status status;
};

/* Return true if the status of a receive of this type is that of a message of this number of ints.
 */
bool message_status_right(const struct message *m, int type, int ints);

struct sending {
    const char *name;
    bool blocks; /* may not end before the receive has begun */
    bool ready;  /* needs a receive that has begun */
    void (*start)(struct message *message);
    void (*finish)(struct message *message);
};
extern const struct sending sendings[]; /* the end has no name */

struct receiving {
    const char *name;
    void (*post)(struct message *message); /* NULL: nothing to post before the message */
    int (*finish)(struct message *message);
};
extern const struct receiving receivings[];

#endif
