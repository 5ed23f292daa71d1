/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * How the proxy's thread runs and waits; knows nothing of nets and connections.
 *
 * The bell wakes the thread. `sleeping` is set only for long sleeps, so that who begins an
 * operation pays for a system call only then. The handshake: before the thread looks at any counter
 * it notes how many operations have begun; when all of them have ended and nothing was found to do,
 * it says that it sleeps, then looks at `begun` again. Who begins raises `begun`, then looks at
 * `sleeping`. Both in one total order (seq_cst): at least one of them sees the other, even if the
 * operation has already ended when the thread looks.
 */
#ifndef GPURING_NET_PROXY_THREAD_H
#define GPURING_NET_PROXY_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/proxy/proxy.h"

#define GPURING_PROXY_NAP_FDS 8

enum {
    GPURING_PROXY_AWAKE,
    GPURING_PROXY_STANDING_BACK, /* for a short while; begin need not ring */
    GPURING_PROXY_NAPPING,
    GPURING_PROXY_SLEEPING
};

struct gpuring_proxy_bell {
    int fd;                /* an eventfd */
    int sleeping;          /* one of the above; short naps count as awake */
    int stop;              /* the thread is to end */
    uint64_t begun, ended; /* operations */
};

/* What to nap on: descriptors of nets that were armed. */
struct gpuring_proxy_nap {
    int fds[GPURING_PROXY_NAP_FDS];
    int nfds;
    bool all_nets; /* every net has a descriptor here: no need to look without one */
};

/* How long nothing has happened, and what follows from it. */
struct gpuring_proxy_wait {
    uint64_t spin_ns, yield_ns;
    uint64_t since; /* 0: something happened in the last pass */
    uint64_t nap_ns;
};

/* Start a thread with all signals blocked: handlers belong to the application's threads. Returns
 * 0 or an errno. */
int gpuring_proxy_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* Called by the new thread: name and cores. True if it shares its cores with no process. */
bool gpuring_proxy_thread_setup(const struct gpuring_proxy_config *config);

/* Wake the thread from any sleep or nap. */
void gpuring_proxy_bell_ring(struct gpuring_proxy_bell *bell);
bool gpuring_proxy_bell_sleeping(const struct gpuring_proxy_bell *bell);

void gpuring_proxy_bell_begin(struct gpuring_proxy_bell *bell);
void gpuring_proxy_bell_end(struct gpuring_proxy_bell *bell);
void gpuring_proxy_bell_stop(struct gpuring_proxy_bell *bell);

/* To be noted before looking for work. */
uint64_t gpuring_proxy_bell_begun(const struct gpuring_proxy_bell *bell);
/* True if all operations that had begun at the time of `begun` have ended (or so many others, but
 * then the functions below do not sleep); their counters are then visible. */
bool gpuring_proxy_bell_ended(const struct gpuring_proxy_bell *bell, uint64_t begun);

/* Sleep until rung; not at all if an operation has begun since. */
void gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun);

/* Nap because other threads do the work; only a ring ends it sooner. *ns: how long the last such
 * nap was, 0 at first; they become longer. */
void gpuring_proxy_bell_stand_back(struct gpuring_proxy_bell *bell, uint64_t *ns);
bool gpuring_proxy_bell_stands_back(const struct gpuring_proxy_bell *bell);

void gpuring_proxy_wait_init(struct gpuring_proxy_wait *wait,
                             const struct gpuring_proxy_config *config, bool alone);
void gpuring_proxy_wait_reset(struct gpuring_proxy_wait *wait);
/* True if the next step will be a nap, so that descriptors should be armed. */
bool gpuring_proxy_wait_naps(const struct gpuring_proxy_wait *wait);
/*
 * Spin, yield, or nap on `nap` (NULL: do not nap). With `running` operations naps stay short, since
 * counters change without a descriptor telling; else they end when an operation begins.
 */
void gpuring_proxy_wait_step(struct gpuring_proxy_wait *wait, struct gpuring_proxy_bell *bell,
                             const struct gpuring_proxy_nap *nap, bool running, uint64_t begun);

#endif
