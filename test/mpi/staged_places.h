/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Communicators of every kind, and arguments for calls on them. The tests of staging use these. */
#ifndef GPURING_TEST_STAGED_PLACES_H
#define GPURING_TEST_STAGED_PLACES_H

#include "staged.h"

/* A communicator with the peers of this rank in it. */
struct place {
    const char *name;
    MPI_Comm comm; /* MPI_COMM_NULL: not for this many ranks */
    bool inter, topology;
    bool first_group; /* between groups: this rank is in the group of the roots */
    int nsources, ntargets, sources[PEERS], targets[PEERS];
};

enum place_kind {
    PLACE_ALL,
    PLACE_BETWEEN,        /* two groups */
    PLACE_LINE,           /* with neighbours */
    PLACE_GRAPH,          /* with neighbours */
    PLACES,               /* number of kinds for places_open */
    PLACE_PARTS = PLACES, /* even ranks and odd ranks */
    PLACE_REVERSED,
    PLACE_GRID, /* without neighbour collectives */
    PLACE_KINDS
};

/* Collective over the world. */
struct place place_open(enum place_kind kind);
void places_open(struct place places[PLACES]);
void places_close(struct place places[PLACES]);

/* Return true if the collective exists for this kind of communicator. */
bool place_has(const struct place *place, const struct collective *what);

/* Return a call in this place, without buffers and operation. If types may differ between peers,
 * some are `other`, which must not be larger. Blocks have a few elements and are at most 5 extents
 * apart. `root` is a number modulo the number of ranks, or -1 for the last rank. */
struct call place_call(const struct place *place, enum form form, MPI_Datatype type,
                       MPI_Datatype other, int root);

/* Multiply the numbers of elements and their distances by a factor, which may be 0. */
void place_scale(struct call *x, int factor);

/* Set the buffers that this collective needs on this rank. */
void place_buffers(const struct collective *what, struct call *x, bool in_place, char *send,
                   char *receive);

/* Return false if the call may write undefined data after its result, which a scattered reduction
 * in place does. */
bool place_defines_all(const struct collective *what, bool in_place);
long place_defined_bytes(const struct call *x);

/* Return true for calls with one count for all neighbours in a graph. On ranks without neighbours,
 * Open MPI does not have to pass such blocking calls to a component. */
bool place_is_of_graph(const struct collective *what, const struct call *x);

/* Broadcast a value from rank `from` of the world
 * with messages, which do not use the code under test. */
long place_told(long value, int from);

#endif
