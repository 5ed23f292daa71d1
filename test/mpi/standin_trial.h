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
extern int trial_calls;   /* calls per communicator */

/* Results of this rank since the last reset. */
extern struct trial_seen {
    long trials;
    long errors;     /* calls that returned an error */
    long wrong;      /* calls that succeeded with wrong data */
    long leaks;      /* trials that did not release all resources */
    long unreported; /* faults that struck and are not in the log */
    bool at_release; /* the last fault struck when the communicator was freed */
} trial_seen;
void trial_reset(void);

/* Find the driver and allocate buffers. The program ends if it is not the stand-in driver. */
void trial_start(bool staged);
void trial_finish(void);
/* The process keeps its current resources forever. Anything more is a leak. */
void trial_is_usual(void);

/* Run a trial on one communicator with this fault, or NULL, on this rank. Return true if the fault
 * was reached. If `last`, this rank frees the communicator later than the others. */
bool trial_here(const char *fault, bool last);
/* The rank that gets faults that are not for all ranks. trial_start sets it to the last rank. */
extern int trial_culprit;
/* True: a trial begins with its small call, and that rank makes the next one, which needs more
 * connections, only after the time limit of the others (2 s). */
extern bool trial_is_late;
/* Run a trial on one communicator with this fault on trial_culprit, or on all ranks. */
bool trial_run(const char *fault, bool everywhere);

#endif
