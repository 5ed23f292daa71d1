/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The pool of a process: connections of freed communicators. The next communicator of the same
 * processes in the same order takes them over, if all of its ranks offer the same connections. The
 * ranks agree on that with one word each (oob.h), so a reuse costs one agreement. No MPI.
 *
 * Connections that were offered and not taken are destroyed, because one rank does not have them.
 * Therefore ranks whose pools differ, for example because one of them was full, have equal pools
 * again after an offer. If a pool has several connections of the same processes, it offers those
 * with the lowest identity, so that ranks that have freed communicators in different orders make
 * the same offer.
 *
 * Threads: any.
 */
#ifndef GPURING_WIREUP_POOL_H
#define GPURING_WIREUP_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/util/list.h"

struct gpuring_engine;
struct gpuring_wireup;

/* The connections of one freed communicator. Allocated by malloc. */
struct gpuring_pooled {
    struct gpuring_list node;
    uint64_t key;      /* of the processes in their order, and of the parameters */
    uint32_t identity; /* of these connections and their state; equal on all of their ranks */
    struct gpuring_engine *engine;
    struct gpuring_wireup *wireup; /* for late connections */
};

struct gpuring_pool {
    pthread_mutex_t lock;
    struct gpuring_list all; /* the oldest first */
    unsigned count;          /* changed with the lock; atomic */
    /* Return true if the connections still work. */
    bool (*works)(const struct gpuring_pooled *pooled);
    void (*destroy)(struct gpuring_pooled *pooled);
};

/* A pool with static storage: struct gpuring_pool pool = GPURING_POOL_INIT(pool, works, destroy);
 */
#define GPURING_POOL_INIT(pool, does_work, does_destroy)                         \
    {                                                                            \
        .lock = PTHREAD_MUTEX_INITIALIZER, .all = GPURING_LIST_INIT((pool).all), \
        .works = (does_work), .destroy = (does_destroy)                          \
    }

/* Add connections that nothing uses, and destroy the oldest ones beyond `limit`. */
void gpuring_pool_put(struct gpuring_pool *pool, struct gpuring_pooled *pooled, unsigned limit);

/* Remove and return the connections with this key to offer, or NULL. Destroys those with the key
 * that no longer work. */
struct gpuring_pooled *gpuring_pool_take(struct gpuring_pool *pool, uint64_t key);

/* Destroy all connections of the pool. */
void gpuring_pool_clear(struct gpuring_pool *pool);

static inline unsigned gpuring_pool_count(const struct gpuring_pool *pool)
{
    return __atomic_load_n(&pool->count, __ATOMIC_RELAXED);
}

/*
 * gpuring_pool_word returns the word with which a rank offers connections or a survey.
 * GPURING_POOL_NOTHING is that of a rank that offers nothing. gpuring_pool_agreed returns true if
 * the bitwise OR of the words of all ranks means that all offer the same. A word consists of an
 * identity and its complement: if two identities differ in a bit, the OR has this bit in both
 * halves.
 */
#define GPURING_POOL_NOTHING UINT64_MAX
uint64_t gpuring_pool_word(uint32_t identity);
bool gpuring_pool_agreed(uint64_t word);

#endif
