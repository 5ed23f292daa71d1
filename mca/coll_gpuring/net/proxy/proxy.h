/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The proxy: one progress thread per process that moves slots of all network connections. It is
 * driven by the FIFO counters alone and knows no operations. It never calls Open MPI. For each
 * connection and protocol (fifo.h has the layout, net.h the contract):
 *
 *   sending end                                    receiving end
 *   lane raised tail: post steps while the peer    slot s has arrived: size, then tail = s + 1
 *     has free slots (posted < credit + nslots)    lane raised head: return it as credit, when a
 *   slot s has left: head = s + 1                    half of the ring is to be given back, or with
 *   credit h came: more slots at the peer            the next slot posted to that peer
 *
 * Giving back half at a time spares small operations most of these messages, and cannot starve the
 * sender: its lane has nslots slots of its own besides the half at the peer.
 *
 * The thread sleeps, at no cost, when nothing is in flight: begin/end bracket every operation that
 * uses the network, and after the last end it stays awake only until its own posts and credits are
 * out. While awake without anything to do it polls, then yields, then naps.
 *
 * Threads: create/destroy from one thread; add/remove/begin/end/error from any thread, without the
 * gate. After fork() the child has no progress thread: it must not use the proxy.
 */
#ifndef GPURING_NET_PROXY_PROXY_H
#define GPURING_NET_PROXY_PROXY_H

#include <pthread.h>

#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/list.h"

struct gpuring_proxy;

/*
 * How the thread waits while an operation runs and nothing happens: it polls for spin_us without
 * yielding, then for yield_us with yields, then naps, each time for longer. Negative: default. The
 * default of spin_us depends on whether the thread has a core for itself.
 */
struct gpuring_proxy_config {
    struct gpuring_gate *gate; /* that the nets have as well */
    const char *cores;         /* "auto", "none" or a list, see cores.h; NULL: none; must stay */
    cpu_set_t taken;           /* cores on which the application's processes run */
    cpu_set_t near;            /* cores near the network device; empty: not known */
    int spin_us, yield_us;
};

int gpuring_proxy_create(const struct gpuring_proxy_config *config, struct gpuring_proxy **proxy);
/*
 * Joins the thread; transfers in flight are given up after `seconds`. Connections that
 * remain are forgotten, their links stay the caller's. NULL is allowed. GPURING_ERR_TIMEOUT: the
 * thread hangs in a call of the net's library, nothing was freed, and its code must stay loaded.
 */
int gpuring_proxy_destroy(struct gpuring_proxy *proxy, double seconds);

/* The net is polled from here on; it may be closed when the proxy is destroyed. */
void gpuring_proxy_add_net(struct gpuring_proxy *proxy, struct gpuring_net *net);

/*
 * Links that are at work together, those of a communicator: they are looked at only from the begin
 * of an operation that uses them until all that it left is out. What is at rest costs a pass the
 * look at one counter. The owner's; no member is read or written by others.
 */
struct gpuring_proxy_group {
    struct gpuring_list node;    /* among the proxy's */
    struct gpuring_proxy *proxy; /* NULL: none, or it is gone */
    struct gpuring_list links;
    uint64_t begun, ended; /* operations */
    uint64_t idle;         /* how many had begun when all had ended and nothing was left to do */
};
void gpuring_proxy_group_init(struct gpuring_proxy *proxy, struct gpuring_proxy_group *group);

/*
 * Give a connected link of a net that was added to the proxy. `failed` is set (release) to a
 * negative gpuring_status when the link dies; the text is then in gpuring_proxy_error.
 */
void gpuring_proxy_add(struct gpuring_proxy_group *group, struct gpuring_net_link *link,
                       int *failed);
/*
 * The peer to which `send` goes is that from which `receive` comes, and it pairs its ends of these
 * two likewise: what is posted on the one brings the credits of the other along. Once, before
 * anything travels on them; ends when either is removed.
 */
void gpuring_proxy_pair(struct gpuring_net_link *send, struct gpuring_net_link *receive);
/*
 * Waits until posts and credits of all links are out, for half of `seconds` at most, and their
 * peers know that they close, `seconds` at most in all; then forgets group and links in any case.
 * Returns 0, also for a group that no proxy has (zeroed), GPURING_ERR_TIMEOUT, or the status of a
 * failed link. The links stay the caller's.
 */
int gpuring_proxy_remove(struct gpuring_proxy_group *group, double seconds);
/* Give the link up and report that to the other end, if it works; remove is still to be called.
 * Nothing if the proxy does not have the link. */
void gpuring_proxy_abort(struct gpuring_net_link *link, int status);
/* What happened to a failed link: says host, device, port, status and remedy; valid until it is
 * closed. Empty if `failed` does not say that it has failed. */
const char *gpuring_proxy_error(const struct gpuring_net_link *link);

/* An operation that uses these links. */
void gpuring_proxy_begin(struct gpuring_proxy_group *group);
void gpuring_proxy_end(struct gpuring_proxy_group *group);

/*
 * For a thread that waits for an operation's end and has nothing better to do: one pass of the
 * proxy's work in the caller, without waiting for anything. The proxy's own thread steps back while
 * somebody helps, and takes over within milliseconds when nobody does. Where threads outnumber
 * cores this saves two changes of thread for each message.
 */
void gpuring_proxy_help(struct gpuring_proxy *proxy);

/*
 * Counters for the performance variables: payload bytes posted; and posts and credits that had to
 * be repeated, because the net's queue was full or after a fault.
 */
uint64_t gpuring_proxy_bytes(const struct gpuring_proxy *proxy);
uint64_t gpuring_proxy_retries(const struct gpuring_proxy *proxy);

/* True while the thread sleeps for good, that is until the next begin (tests, diagnostics). */
bool gpuring_proxy_sleeping(const struct gpuring_proxy *proxy);

#endif
