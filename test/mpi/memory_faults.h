/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A library to preload: lets calls for memory fail, among those that the component makes while
 * the library is armed. Calls of others (MPI, libc, the program) are not counted.
 */
#ifndef GPURING_TEST_MEMORY_FAULTS_H
#define GPURING_TEST_MEMORY_FAULTS_H

/* The call with this number, from 1, fails once. 0: no call fails. Negative: this
 * call and all later ones fail. Resets the count. */
void memory_faults_arm(long number);

/* Stop; how many calls were counted. */
long memory_faults_disarm(void);

#endif
