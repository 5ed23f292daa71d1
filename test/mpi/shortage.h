/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* What the files of the program shortage share. */
#ifndef GPURING_TEST_SHORTAGE_H
#define GPURING_TEST_SHORTAGE_H

#include "harness.h"
#include "staged_places.h"

#define COUNT  6                                   /* elements of a block, at most */
#define EXTENT 36                                  /* of an element, in doubles */
#define AREA   ((size_t) (PEERS * COUNT * EXTENT)) /* doubles of a buffer */

extern int failing;                    /* the rank that lacks memory */
extern bool together;                  /* coll_gpuring_agree=always */
extern double *gpu_send, *gpu_receive; /* of AREA */
extern void (*arm)(long);              /* scarce.h */
extern long (*disarm)(void);

void keep_first(int *status, int next);

/* The call to its end; a persistent one twice if it can. The first error of all. */
int complete(struct call *x, const struct collective *what);
/* Is that what this rank returns of a call on the communicator, if the failing one lacks memory? If
 * it does, all ranks make another call there, in which one may return it that did not know yet. */
bool good_status(int status, bool lacks, bool agreed, MPI_Comm comm);
/* Every collective, form and layout. */
void each(void);

#endif
