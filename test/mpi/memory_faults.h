/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A preloaded library that lets memory allocations of the component fail while it is armed.
 * Allocations of MPI, libc and the program are not counted.
 */
#ifndef GPURING_TEST_MEMORY_FAULTS_H
#define GPURING_TEST_MEMORY_FAULTS_H

/* Let allocation `number`, counted from 1, fail once. If it is 0, none fails; if it is negative,
 * all allocations from that one on fail. Resets the count. */
void memory_faults_arm(long number);

/* Disarm, and return the number of counted allocations. */
long memory_faults_disarm(void);

#endif
