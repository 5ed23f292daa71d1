/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The lock between one thread that takes it in a loop (the proxy) and others that want it now and
 * then; it guards the proxy and its nets. An ordinary mutex that is released and taken again at
 * once starves the others; here the looping thread stands back while somebody waits.
 */
#ifndef GPURING_NET_GATE_H
#define GPURING_NET_GATE_H

#include <pthread.h>
#include <sched.h>

struct gpuring_gate {
    pthread_mutex_t mutex;
    int waiters; /* threads on their way in; only a hint, hence relaxed */
};

#define GPURING_GATE_INIT                  \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

static inline void gpuring_gate_enter(struct gpuring_gate *gate)
{
    __atomic_fetch_add(&gate->waiters, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&gate->mutex);
    __atomic_fetch_sub(&gate->waiters, 1, __ATOMIC_RELAXED);
}

/* For the looping thread. The wait ends because a waiter needs nothing but the free mutex. */
static inline void gpuring_gate_reenter(struct gpuring_gate *gate)
{
    while (__atomic_load_n(&gate->waiters, __ATOMIC_RELAXED) != 0) {
        sched_yield();
    }
    pthread_mutex_lock(&gate->mutex);
}

static inline void gpuring_gate_leave(struct gpuring_gate *gate)
{
    pthread_mutex_unlock(&gate->mutex);
}

#endif
