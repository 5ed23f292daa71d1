/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/pool.h"

#include <stddef.h>

/* Remove an entry. The caller holds the lock. */
static void remove_entry(struct gpuring_pool *pool, struct gpuring_pooled *pooled)
{
    gpuring_list_remove(&pooled->node);
    __atomic_store_n(&pool->count, pool->count - 1, __ATOMIC_RELAXED);
}

/* Destroy the oldest entries until `limit` are left, without the lock, because this takes long. */
static void shrink(struct gpuring_pool *pool, unsigned limit)
{
    struct gpuring_pooled *oldest;

    do {
        pthread_mutex_lock(&pool->lock);
        oldest = pool->count > limit ? GPURING_LIST_FIRST(&pool->all, struct gpuring_pooled, node)
                                     : NULL;
        if (oldest != NULL) {
            remove_entry(pool, oldest);
        }
        pthread_mutex_unlock(&pool->lock);
        if (oldest != NULL) {
            pool->destroy(oldest);
        }
    } while (oldest != NULL);
}

void gpuring_pool_put(struct gpuring_pool *pool, struct gpuring_pooled *pooled, unsigned limit)
{
    pthread_mutex_lock(&pool->lock);
    gpuring_list_append(&pool->all, &pooled->node);
    __atomic_store_n(&pool->count, pool->count + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool->lock);
    shrink(pool, limit);
}

/* Remove and return the entry with this key and the lowest identity, or NULL. */
static struct gpuring_pooled *take_lowest(struct gpuring_pool *pool, uint64_t key)
{
    struct gpuring_pooled *entry, *lowest = NULL;

    pthread_mutex_lock(&pool->lock);
    GPURING_LIST_EACH(entry, &pool->all, struct gpuring_pooled, node)
    {
        if (entry->key == key && (lowest == NULL || entry->identity < lowest->identity)) {
            lowest = entry;
        }
    }
    if (lowest != NULL) {
        remove_entry(pool, lowest);
    }
    pthread_mutex_unlock(&pool->lock);
    return lowest;
}

struct gpuring_pooled *gpuring_pool_take(struct gpuring_pool *pool, uint64_t key)
{
    struct gpuring_pooled *pooled;

    while ((pooled = take_lowest(pool, key)) != NULL && !pool->works(pooled)) {
        pool->destroy(pooled);
    }
    return pooled;
}

void gpuring_pool_clear(struct gpuring_pool *pool)
{
    shrink(pool, 0);
}

uint64_t gpuring_pool_word(uint32_t identity)
{
    return (uint64_t) identity << 32 | ~identity;
}

bool gpuring_pool_agreed(uint64_t word)
{
    return ((word >> 32) & (word & UINT32_MAX)) == 0;
}
