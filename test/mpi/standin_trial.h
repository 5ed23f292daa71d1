/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A trial: one communicator, from its first call to its end, while the stand-in driver fails,
 * and its outcome. For standin_faults.
 */
#ifndef GPURING_TEST_STANDIN_TRIAL_H
#define GPURING_TEST_STANDIN_TRIAL_H

#include "harness.h"

/* Functions of test/standin/standin.h. */
struct trial_driver {
    void (*arm)(const char *list);
    int (*reached)(void);
    long (*held)(void);
    long (*calls)(const char *symbol);
    const char *(*symbol)(int call);
};
extern struct trial_driver trial_driver;

extern bool trial_staged; /* test staged collectives instead of MPI_Allreduce */
extern int trial_calls;   /* of a communicator */

/* Results of this rank since the last reset. */
extern struct trial_seen {
    long trials;
    long errors;     /* calls that ended with one */
    long wrong;      /* calls that succeeded with wrong data */
    long leaks;      /* trials after which more was held than before */
    long unreported; /* faults that struck and were in no line of the log */
} trial_seen;
void trial_reset(void);

/* Buffers and the driver. Program ends if that is not the stand-in. */
void trial_start(bool staged);
void trial_finish(void);
/* The process keeps its current resources forever. Anything more is a leak. */
void trial_is_usual(void);

/* One communicator, with this fault here; NULL: none. True if it was reached. last: this rank
 * frees the communicator some time after the others. */
bool trial_here(const char *fault, bool last);
/* The rank that a fault meets where it does not meet all; from trial_start on the last one. */
extern int trial_culprit;
/* One communicator with this fault at that rank, or everywhere. */
bool trial_run(const char *fault, bool everywhere);

#endif
