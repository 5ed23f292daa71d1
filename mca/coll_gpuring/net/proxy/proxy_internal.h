/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Internals of the proxy: passes (pump.c), operations and the threads that wait for them (drive.c),
 * and the running and waiting of the proxy's own thread, which is independent of nets and links
 * (thread.c).
 *
 * The bell wakes the thread. The thread sets `sleeping` only for long sleeps, so that a thread that
 * begins an operation pays for a system call only if the proxy's thread sleeps. The handshake:
 *
 *   - Before the thread reads any counter, it reads `begun`, the number of operations that have
 *     begun. When all of these have ended and it has found nothing to do, it sets `sleeping` and
 *     then reads `begun` again.
 *   - A thread that begins an operation, or leaves something to send, increments `begun` and then
 *     reads `sleeping`.
 *
 * All these accesses are in one total order (seq_cst). Therefore at least one of the two threads
 * sees the store of the other, even if the operation has already ended by then.
 */
#ifndef GPURING_NET_PROXY_INTERNAL_H
#define GPURING_NET_PROXY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"

#define GPURING_PROXY_NETS 2 /* verbs and ucx */

enum {
    GPURING_PROXY_AWAKE,
    GPURING_PROXY_NAPPING,
    GPURING_PROXY_WATCHING, /* only completions are outstanding */
    GPURING_PROXY_SLEEPING
};

struct gpuring_proxy_bell {
    int fd;                /* an eventfd */
    int sleeping;          /* one of the above; short naps count as awake */
    int stop;              /* the thread must end */
    uint64_t begun, ended; /* number of operations that the thread progresses */
};

/* Descriptors of armed nets that end a nap. */
struct gpuring_proxy_nap {
    int fds[GPURING_PROXY_NETS];
    int nfds;
    bool all_nets; /* each net has a descriptor here, so no net must be polled during a long nap */
};

/* The state of a wait in which nothing happens. */
struct gpuring_proxy_wait {
    uint64_t spin_ns, yield_ns;
    uint64_t since;  /* 0: something happened in the last pass */
    uint64_t nap_ns; /* length of the next nap, for which the caller arms descriptors; 0: no nap */
    uint64_t crowded_until; /* a yield has lost the core, so nap instead until this time */
    uint64_t crowded_ns;    /* length of that time; 0: the last yield has not lost the core */
};

struct proxy_net {
    const struct gpuring_net_ops *ops;
    struct gpuring_net *net;
};

struct gpuring_proxy {
    struct proxy_net nets[GPURING_PROXY_NETS];
    int nnets;
    struct gpuring_list working, idle; /* groups */
    struct gpuring_proxy_config config;
    pthread_t thread;
    pid_t pid; /* of the process that has the thread; a forked child does not have it */
    struct gpuring_proxy_bell bell;
    uint64_t stop_ns; /* time at which to abandon pending transfers; written before stop */
    struct gpuring_proxy_counts own_counts;
    struct gpuring_gate own_gate;
    uint64_t helped; /* passes made by other threads; under the gate */
};

static inline bool gpuring_proxy_has_thread(const struct gpuring_proxy *proxy)
{
    return proxy->config.progress == NULL || proxy->config.threaded;
}

/* ---- pump.c. All under the gate ---- */

/* How far the slots of a link must have come. An operation may end when they are SENT: posted if
 * devices transfer them (`offloads`), and completed otherwise. Credits do not count then, because a
 * peer that has ended the operation takes no messages and needs none. */
enum gpuring_proxy_until {
    GPURING_PROXY_POSTED, /* the net has accepted all slots, and the credits that are due */
    GPURING_PROXY_SENT,
    GPURING_PROXY_COMPLETED /* the net no longer reads the slots, and has accepted the credits */
};

/* Return the protocols of a working link with slots or credits that have not come so far, as bits
 * 1 << protocol. */
uint32_t gpuring_proxy_pending(const struct gpuring_net_base_link *link,
                               enum gpuring_proxy_until until);

/* Withdraw the receives that the net has posted for a link. */
void gpuring_proxy_withdraw(struct gpuring_net_base_link *link);
/* Withdraw the receives of all links of the group, or only of those in use (`used`). While an
 * operation is in progress, those in use keep them. */
void gpuring_proxy_withdraw_all(struct gpuring_proxy_group *group, bool used);

/* Return true if gpuring_proxy_pending() finds a protocol of any link of the group. */
bool gpuring_proxy_group_pending(const struct gpuring_proxy_group *group,
                                 enum gpuring_proxy_until until);

/* Move the group to the list of groups at work, or of idle ones. */
void gpuring_proxy_set_at_work(struct gpuring_proxy_group *group, bool at_work);

/*
 * Do everything that can be done now, first for the group `own`, which need not be at work (NULL:
 * none). Its slots are posted before the nets are polled, because polling takes as long as a
 * message. Returns the number of events and calls.
 */
int gpuring_proxy_pass(struct gpuring_proxy *proxy, const struct gpuring_proxy_group *own);

/* Return true if gpuring_proxy_poll does everything: no other group is at work, and no net needs
 * calls for each link. */
bool gpuring_proxy_only_polls(const struct gpuring_proxy_group *group);

/* Poll the nets. Do what their events permit for the group, whose lanes have not run since the last
 * pass. This omits most of a pass that would find nothing. */
void gpuring_proxy_poll(const struct gpuring_proxy_group *group);

/* Return true if a net may need further polls to send everything that was posted. */
bool gpuring_proxy_nets_busy(const struct gpuring_proxy *proxy);

/* Return true if slots or credits have not been given to the nets, or nets need polls. */
bool gpuring_proxy_any_pending(const struct gpuring_proxy *proxy);

/* Arm the descriptors of the nets for a nap. Returns false if a net already has something to do. */
bool gpuring_proxy_arm(const struct gpuring_proxy *proxy, struct gpuring_proxy_nap *nap);

/* ---- thread.c ---- */

/* Start a thread with all signals blocked, because signal handlers must run in the application's
 * threads. Returns 0 or an errno. */
int gpuring_proxy_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* Set the name and the cores of the calling thread. Returns true if it shares its cores with no
 * process. */
bool gpuring_proxy_thread_setup(const struct gpuring_proxy_config *config);

/* End an operation that has incremented `begun`. */
static inline void gpuring_proxy_bell_end(struct gpuring_proxy *proxy)
{
    /* Partner: the load of `ended` in proxy_main. */
    __atomic_fetch_add(&proxy->bell.ended, 1, __ATOMIC_RELEASE);
}

/* Wake the thread from any sleep or nap. */
void gpuring_proxy_bell_ring(struct gpuring_proxy_bell *bell);
/* Sleep until the bell rings. Returns immediately if an operation has begun since `begun` was read.
 * watch: sleep for a limited time, because completions are outstanding. */
void gpuring_proxy_bell_sleep(struct gpuring_proxy_bell *bell, uint64_t begun, bool watch);

void gpuring_proxy_wait_init(struct gpuring_proxy_wait *wait,
                             const struct gpuring_proxy_config *config, bool alone);
/* Nap in the next step, because another thread does the work. */
void gpuring_proxy_wait_skip(struct gpuring_proxy_wait *wait);
/*
 * Spin, yield, or nap on `nap` (NULL: do not nap). While operations are running, naps are short,
 * because no descriptor reports changes of the lanes' counters. Otherwise the begin of an operation
 * ends the nap.
 */
void gpuring_proxy_wait_step(struct gpuring_proxy_wait *wait, struct gpuring_proxy_bell *bell,
                             const struct gpuring_proxy_nap *nap, bool running, uint64_t begun);

/* Return the longest nap, in ns, if nothing has happened for `waited` ns. running: a lane may fill
 * a slot. all_nets: each net has a descriptor that ends the nap. */
uint64_t gpuring_proxy_longest_nap(uint64_t waited, bool running, bool all_nets);

/* Sleep for at most `ns` nanoseconds, or until one of the descriptors is readable. bell: an
 * additional descriptor, or NULL. Returns true if the bell has rung. */
bool gpuring_proxy_nap_on(const struct gpuring_proxy_nap *nap, struct gpuring_proxy_bell *bell,
                          uint64_t ns);

#endif
