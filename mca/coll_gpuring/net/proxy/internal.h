/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Inside of the proxy: links (net/proxy/pump.c), and how the thread runs and waits, which
 * knows nothing of nets and links (net/proxy/thread.c).
 *
 * The bell wakes the thread. `sleeping` is set only for long sleeps, so that who begins an
 * operation pays for a system call only then. The handshake: before the thread looks at any counter
 * it notes how many operations have begun; when all of them have ended and nothing was found to do,
 * it says that it sleeps, then looks at `begun` again. Who begins raises `begun`, then looks at
 * `sleeping`. Both in one total order (seq_cst): at least one of them sees the other, even if the
 * operation has already ended when the thread looks.
 */
#ifndef GPURING_NET_PROXY_INTERNAL_H
#define GPURING_NET_PROXY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"

/* Give the net what the lanes have produced and consumed. Returns how many calls it took. */
int gpuring_proxy_pump(struct gpuring_net_base_link *link, uint64_t *bytes, uint64_t *again);

/*
 * True if a live link has slots or credits that are not out yet. posted: what was given to the net
 * counts as out.
 */
bool gpuring_proxy_pending(const struct gpuring_net_base_link *link, bool posted);

#define GPURING_PROXY_NETS 3 /* verbs, ucx, and ucx without RDMA devices */

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
    int fds[GPURING_PROXY_NETS];
    int nfds;
    bool all_nets; /* every net has a descriptor here: no need to look without one */
};

/* How long nothing has happened, and what follows from it. */
struct gpuring_proxy_wait {
    uint64_t spin_ns, yield_ns;
    uint64_t since;  /* 0: something happened in the last pass */
    uint64_t nap_ns; /* of the next nap, for which descriptors should be armed; 0: none yet */
};

/* Start a thread with all signals blocked: handlers belong to the application's threads. Returns
 * 0 or an errno. */
int gpuring_proxy_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* Called by the new thread: name and cores. True if it shares its cores with no process. */
bool gpuring_proxy_thread_setup(const struct gpuring_proxy_config *config);

/* Wake the thread from any sleep or nap. */
void gpuring_proxy_bell_ring(struct gpuring_proxy_bell *bell);
/* Sleep until rung; not at all if an operation has begun since `begun` was noted. */
void gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun);
/* Nap because other threads do the work; only a ring ends it sooner. *ns: how long the last such
 * nap was, 0 at first; they become longer. */
void gpuring_proxy_bell_stand_back(struct gpuring_proxy_bell *bell, uint64_t *ns);

void gpuring_proxy_wait_init(struct gpuring_proxy_wait *wait,
                             const struct gpuring_proxy_config *config, bool alone);
/*
 * Spin, yield, or nap on `nap` (NULL: do not nap). With `running` operations naps stay short, since
 * counters change and no descriptor reports it; else they end when an operation begins.
 */
void gpuring_proxy_wait_step(struct gpuring_proxy_wait *wait, struct gpuring_proxy_bell *bell,
                             const struct gpuring_proxy_nap *nap, bool running, uint64_t begun);

#endif
