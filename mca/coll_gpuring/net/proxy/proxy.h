/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The proxy sends and receives the slots of all network connections of a process. It reads only the
 * counters of the FIFOs and knows nothing of operations. It never calls Open MPI. For each
 * connection and protocol (layout in fifo.h, contract in net.h):
 *
 *   sending end                                    receiving end
 *   lane raised tail: post steps while the peer    slot s was received: set size, tail = s + 1
 *     has free slots (posted < credit + nslots)    lane raised head: return it as credit, when
 *   slot s was sent: head = s + 1                    half of the ring is free, or with the next
 *   credit h was received: peer has free slots       slot that is posted to that peer
 *
 * Returning half of the ring at a time saves small operations most of the credit messages. It
 * cannot starve the sender, whose lane has nslots local slots in addition to the half at the peer.
 *
 * begin and end bracket each operation that uses the network. A thread that waits for the end of
 * its operation drives the proxy itself, and meanwhile the proxy's thread sleeps. The proxy's
 * thread works while operations are in progress for which no thread waits, and after the end of an
 * operation until all posts and credits are sent. While it is awake and has nothing to do, it
 * polls, then yields, then naps. When only completions of posts are outstanding, it looks every 20
 * ms, because a failure of the last post of an operation must not wait for the next operation.
 *
 * Threads: create and destroy from one thread; add, remove, begin, end and error from any thread,
 * without the gate; help and nap from the thread that drives the group's operation. A forked child
 * has no progress thread and must not use the proxy.
 */
#ifndef GPURING_NET_PROXY_PROXY_H
#define GPURING_NET_PROXY_PROXY_H

#include <pthread.h>

#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_proxy;

/* Counters for the performance variables: payload bytes that were posted, and the number of posts
 * and credits that had to be repeated because the net's queue was full or after a fault. Atomic. */
struct gpuring_proxy_counts {
    uint64_t net_bytes, net_retries;
};

/*
 * The configuration of the thread. While an operation runs but nothing happens, the thread polls
 * for spin_us microseconds without yielding, then for yield_us with yields, then takes increasingly
 * long naps. Negative values select the defaults. The default of spin_us depends on whether the
 * thread has a core for itself.
 */
struct gpuring_proxy_config {
    struct gpuring_gate *gate; /* shared with the nets; NULL: the proxy's own */
    /* NULL: the proxy has a thread. Otherwise this function, called without the gate, progresses
     * what the nets depend on, and the proxy has a thread only if `threaded` is set, in which case
     * any thread may call the function. Without a thread, gpuring_proxy_help does all the work. */
    void (*progress)(void);
    bool threaded;
    struct gpuring_proxy_counts *counts; /* of the process; NULL: the proxy's own */
    const char *cores; /* "auto", "none" or a list (cores.h); NULL: none; not copied */
    cpu_set_t taken;   /* cores on which the application's processes run */
    cpu_set_t near;    /* cores near the network device; empty if unknown */
    int spin_us, yield_us;
};

int gpuring_proxy_create(const struct gpuring_proxy_config *config, struct gpuring_proxy **proxy);
/*
 * Join the thread, which abandons transfers in flight after `seconds`. Remaining links are removed
 * from the proxy but still belong to the caller. proxy may be NULL. Returns GPURING_ERR_TIMEOUT if
 * the thread does not return from a call of the net's library. In this case nothing was freed, and
 * the component's code must stay loaded.
 */
int gpuring_proxy_destroy(struct gpuring_proxy *proxy, double seconds);

/* Return the gate, for the configuration of a net. */
struct gpuring_gate *gpuring_proxy_gate(struct gpuring_proxy *proxy);

/* Poll this net from now on. It may only be closed after the proxy was destroyed. */
void gpuring_proxy_add_net(struct gpuring_proxy *proxy, struct gpuring_net *net);

/*
 * The links of a communicator, which work together. A group is at work from the begin of an
 * operation until its posts have completed and its credits are sent. A pass looks only at groups at
 * work, so that idle ones cost nothing. The owner provides the memory. Only the proxy uses the
 * members.
 */
struct gpuring_proxy_group {
    struct gpuring_list node;    /* in the proxy's list of groups at work, or of idle ones */
    struct gpuring_proxy *proxy; /* NULL if there is none, or if it was destroyed */
    struct gpuring_list links;
    struct gpuring_net_traffic traffic;
    uint64_t seen;    /* traffic.wakes at the last help */
    unsigned running; /* operations in progress; atomic */
    bool unposts;     /* atomic; see gpuring_proxy_unpost */
    /* Under the gate: */
    unsigned assisted; /* operations in progress that the proxy's thread progresses */
    bool at_work;      /* the list that `node` is in */
};
void gpuring_proxy_group_init(struct gpuring_proxy *proxy, struct gpuring_proxy_group *group);

/*
 * Add a connected link of a net that was added to the proxy. When the link fails, *failed is set
 * (release) to a negative gpuring_status, and gpuring_proxy_error returns the text.
 */
void gpuring_proxy_add(struct gpuring_proxy_group *group, struct gpuring_net_link *link,
                       int *failed);
/*
 * Pair a link to a peer with a link from the same peer. The peer must pair its ends of both links,
 * too. Slots posted on one link then also carry the credits of the other. Called once, before any
 * data is sent on the links. The pair ends when either link is removed.
 */
void gpuring_proxy_pair(struct gpuring_net_link *send, struct gpuring_net_link *receive);
/*
 * Set the protocols of a link that the next operations use, as bits 1 << protocol. A pass looks at
 * these, and at others while they have slots or credits to send. After gpuring_proxy_add these are
 * all protocols that have slots.
 */
void gpuring_proxy_use(struct gpuring_net_link *link, uint32_t protocols);
/*
 * Remove the group and its links from the proxy. First wait at most half of `seconds` until the
 * posts and credits of all links are sent, and at most `seconds` in total until the peers know that
 * the links close. The group is removed in any case; its links still belong to the caller. Returns
 * 0, GPURING_ERR_TIMEOUT, or the status of a failed link. A zeroed group, which no proxy has, is
 * allowed and returns 0.
 */
int gpuring_proxy_remove(struct gpuring_proxy_group *group, double seconds);
/* Abandon a working link and report this to the other end. The caller must still remove the group.
 * Does nothing if the proxy does not have the link. */
void gpuring_proxy_abort(struct gpuring_net_link *link, int status);
/* After links were abandoned or have failed, progress the group's links once. Returns true if their
 * nets no longer access memory other than the slots. late: do not wait for this any longer. */
bool gpuring_proxy_settle(struct gpuring_proxy_group *group, bool late);
/* Return the message about a failed link, with host, device, port, status and remedy. It is valid
 * until the link is closed, and empty if `failed` is 0. */
const char *gpuring_proxy_error(const struct gpuring_net_link *link);

/*
 * Try to send the slots of the group, and return true if some are not sent, so that the operation
 * must not end. Slots that a device transfers count as sent when the device has them. If the
 * operation ended earlier, the proxy's thread would have to send the rest, and it may not get a
 * core while the application computes. If another thread is making a pass, this returns true
 * without trying.
 */
bool gpuring_proxy_unsent(struct gpuring_proxy_group *group);
/* Return true if slots of a link are not sent. For messages. */
bool gpuring_proxy_link_unsent(const struct gpuring_net_link *link);

/* Withdraw what the nets have posted for links of the group, except for links that an operation in
 * progress uses. The next operation that uses a link posts it again. */
void gpuring_proxy_rest(struct gpuring_proxy_group *group);

/*
 * From now on, the nets have receives for links of the group only while an operation is in
 * progress, because the communicator was freed, or because the group may be idle for long.
 * Operations may still begin.
 */
void gpuring_proxy_unpost(struct gpuring_proxy_group *group);
/* Undo gpuring_proxy_unpost(), because another communicator uses the group. */
void gpuring_proxy_reused(struct gpuring_proxy_group *group);

/*
 * Begin and end an operation that uses these links. driven: the calling thread calls
 * gpuring_proxy_help or gpuring_proxy_nap until the operation ends, so that the proxy's thread need
 * not progress it. At most one operation of a group is driven. begin and end must specify the same
 * value.
 */
void gpuring_proxy_begin(struct gpuring_proxy_group *group, bool driven);
void gpuring_proxy_end(struct gpuring_proxy_group *group, bool driven);

/*
 * Perform one pass of the proxy's work in the calling thread, without waiting for anything. ran:
 * the group's lanes may have filled or freed slots since the last call. Otherwise the pass is
 * limited to polling the nets, or omitted, if nothing has happened. Returns true if since the last
 * call slots have arrived in the group, or slots have become free that its lanes may wait for. If
 * there are more threads than cores, this saves two thread switches per message.
 */
bool gpuring_proxy_help(struct gpuring_proxy_group *group, bool ran);

/* Sleep in the calling thread for at most `ns` nanoseconds, or until the nets report an event. */
void gpuring_proxy_nap(struct gpuring_proxy *proxy, uint64_t ns);

/* Return the number of slots of the group that have been sent or have arrived. */
static inline uint64_t gpuring_proxy_moved(const struct gpuring_proxy_group *group)
{
    return __atomic_load_n(&group->traffic.moved, __ATOMIC_RELAXED);
}

/* Return the number of bytes that were posted, and of posts and credits that were repeated. */
uint64_t gpuring_proxy_bytes(const struct gpuring_proxy *proxy);
uint64_t gpuring_proxy_retries(const struct gpuring_proxy *proxy);

/* Return true while the thread sleeps until the next begin (for tests and diagnostics). */
bool gpuring_proxy_sleeping(const struct gpuring_proxy *proxy);

#endif
