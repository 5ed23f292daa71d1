/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Open MPI 5.0 and later include a header with this name, which Debian's libopenmpi-dev lacks. This
 * file replaces it (GPURING_CHECK_COLL_HEADERS) and defines Open MPI's mutexes and conditions as
 * those of POSIX. The types are part of Open MPI's binary interface. They only differ if Open MPI
 * was built with another thread library (--with-threads=qthreads, argobots), and then it includes
 * another header.
 */
#ifndef GPURING_THREADS_PTHREADS_MUTEX_H
#define GPURING_THREADS_PTHREADS_MUTEX_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/sys/atomic.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER  PTHREAD_COND_INITIALIZER
#if defined(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                                  bool recursive)
{
    pthread_mutexattr_t attributes;
    int error;

    if (!recursive) {
        return pthread_mutex_init(mutex, NULL);
    }
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    error = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error;
}

#define opal_thread_internal_mutex_lock(mutex)    ((void) pthread_mutex_lock(mutex))
#define opal_thread_internal_mutex_trylock(mutex) (pthread_mutex_trylock(mutex) == 0 ? 0 : 1)
#define opal_thread_internal_mutex_unlock(mutex)  ((void) pthread_mutex_unlock(mutex))
#define opal_thread_internal_mutex_destroy(mutex) ((void) pthread_mutex_destroy(mutex))

#define opal_thread_internal_cond_init(cond)        pthread_cond_init(cond, NULL)
#define opal_thread_internal_cond_wait(cond, mutex) ((void) pthread_cond_wait(cond, mutex))
#define opal_thread_internal_cond_signal(cond)      ((void) pthread_cond_signal(cond))
#define opal_thread_internal_cond_broadcast(cond)   ((void) pthread_cond_broadcast(cond))
#define opal_thread_internal_cond_destroy(cond)     ((void) pthread_cond_destroy(cond))

#endif
