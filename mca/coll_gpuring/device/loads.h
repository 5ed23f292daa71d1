/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Has the process loaded another library since the last look? Asked by every MPI call of a process
 * without the CUDA driver, so it must cost next to nothing: dl_iterate_phdr takes a lock and tens
 * of nanoseconds. The loader appends what it loads to a list. We load a library of ours with
 * nothing in it, and look whether it is still the last:
 *
 *     program -> libmpi -> ... -> mark              nothing was loaded after it
 *     program -> libmpi -> ... -> mark -> libcuda   something was: look, and set another mark
 *
 * A mark is never unloaded while others may look at it.
 */
#ifndef GPURING_DEVICE_LOADS_H
#define GPURING_DEVICE_LOADS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

extern struct link_map *gpuring_loads_mark; /* NULL: there is none; atomic */

/* True also if nobody knows. Threads: any. */
static inline bool gpuring_loads_changed(void)
{
    const struct link_map *mark = __atomic_load_n(&gpuring_loads_mark, __ATOMIC_ACQUIRE);

    return mark == NULL || __atomic_load_n(&mark->l_next, __ATOMIC_RELAXED) != NULL;
}

/* A new mark, and what is asked for from now on: loads after this one. NULL, also for a process
 * that loads libraries again and again. Threads: one at a time. */
struct link_map *gpuring_loads_new_mark(void);
static inline void gpuring_loads_set_mark(struct link_map *mark)
{
    __atomic_store_n(&gpuring_loads_mark, mark, __ATOMIC_RELEASE);
}

/* No thread looks any more. */
void gpuring_loads_close(void);

#endif
