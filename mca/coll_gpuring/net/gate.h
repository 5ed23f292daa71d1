/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The lock that guards the proxy and its nets. One thread, the proxy, takes it in a loop; other
 * threads need it occasionally. If the proxy released an ordinary mutex and took it again
 * immediately, the other threads would starve. With a gate, the looping thread yields while another
 * thread waits.
 */
#ifndef GPURING_NET_GATE_H
#define GPURING_NET_GATE_H

#include <pthread.h>
#include <sched.h>

struct gpuring_gate {
    pthread_mutex_t mutex;
    int waiters; /* threads that want to enter; only a hint, therefore relaxed */
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

/* For the looping thread: let waiting threads in, then enter again. The wait ends because a waiter
 * needs nothing except the mutex, which is free. */
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
