/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Replaces another missing header, like threads_pthreads_mutex.h, with the function of the thread
 * library that Open MPI's headers use. */
#ifndef GPURING_THREADS_PTHREADS_THREADS_H
#define GPURING_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
