/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Operations, and the threads that drive the proxy while they wait for the end of one. */
#include "mca/coll_gpuring/net/proxy/proxy_internal.h"

/* Let the proxy's thread look at the groups at work. watch: only completions are outstanding, so a
 * thread that wakes regularly to look for them is not woken. */
static void bell_call(struct gpuring_proxy *proxy, bool watch)
{
    int how;

    /* Partners: the store and load in bell_says. */
    __atomic_fetch_add(&proxy->bell.begun, 1, __ATOMIC_SEQ_CST);
    how = __atomic_load_n(&proxy->bell.sleeping, __ATOMIC_SEQ_CST);
    if (how == GPURING_PROXY_SLEEPING || (!watch && how != GPURING_PROXY_AWAKE)) {
        gpuring_proxy_bell_ring(&proxy->bell);
    }
}

void gpuring_proxy_begin(struct gpuring_proxy_group *group, bool driven)
{
    struct gpuring_proxy *proxy = group->proxy;

    /* Partner: gpuring_proxy_withdraw_all. */
    __atomic_fetch_add(&group->running, 1, __ATOMIC_SEQ_CST);
    if (!driven && gpuring_proxy_has_thread(proxy)) {
        gpuring_gate_enter(proxy->config.gate);
        group->assisted++;
        gpuring_proxy_set_at_work(group, true);
        gpuring_gate_leave(proxy->config.gate);
        bell_call(proxy, false);
    }
}

/* Return true if an event may need a pass. */
static bool has_changed(const struct gpuring_proxy *proxy)
{
    const struct gpuring_net_ops *ops = proxy->nets[0].ops;

    return gpuring_proxy_has_thread(proxy) || ops->changed == NULL ||
           ops->changed(proxy->nets[0].net);
}

bool gpuring_proxy_help(struct gpuring_proxy_group *group, bool ran)
{
    struct gpuring_proxy *proxy = group->proxy;
    /* Relaxed: if several threads help, only one of them learns of an event. */
    uint64_t seen = __atomic_load_n(&group->seen, __ATOMIC_RELAXED), wakes;

    if (!has_changed(proxy) && !ran) {
        return false;
    }
    if (pthread_mutex_trylock(&proxy->config.gate->mutex) == 0) {
        if (ran || !gpuring_proxy_only_polls(group)) {
            gpuring_proxy_pass(proxy, group);
        } else {
            gpuring_proxy_poll(group);
        }
        proxy->helped++;
        gpuring_gate_leave(proxy->config.gate);
    }
    /* Partner: the store in base.c. */
    wakes = __atomic_load_n(&group->traffic.wakes, __ATOMIC_ACQUIRE);
    __atomic_store_n(&group->seen, wakes, __ATOMIC_RELAXED);
    return wakes != seen;
}

void gpuring_proxy_nap(struct gpuring_proxy *proxy, uint64_t ns)
{
    struct gpuring_proxy_nap nap;
    bool armed;

    gpuring_gate_enter(proxy->config.gate);
    armed = gpuring_proxy_arm(proxy, &nap);
    gpuring_gate_leave(proxy->config.gate);
    if (armed) {
        (void) gpuring_proxy_nap_on(&nap, NULL, ns);
    }
}

bool gpuring_proxy_unsent(struct gpuring_proxy_group *group)
{
    struct gpuring_proxy *proxy = group->proxy;
    bool unsent = true;

    if (pthread_mutex_trylock(&proxy->config.gate->mutex) == 0) {
        unsent = gpuring_proxy_group_pending(group, GPURING_PROXY_SENT);
        if (unsent) {
            gpuring_proxy_pass(proxy, group);
            proxy->helped++;
            unsent = gpuring_proxy_group_pending(group, GPURING_PROXY_SENT);
        }
        gpuring_gate_leave(proxy->config.gate);
    }
    return unsent;
}

bool gpuring_proxy_link_unsent(const struct gpuring_net_link *link)
{
    const struct gpuring_net_base_link *base = (const struct gpuring_net_base_link *) link;
    bool unsent;

    gpuring_gate_enter(base->net->gate);
    unsent = gpuring_proxy_pending(base, GPURING_PROXY_SENT) != 0;
    gpuring_gate_leave(base->net->gate);
    return unsent;
}

/*
 * Send the slots and credits that an operation has left unsent. Leave those that cannot be sent
 * now, and posts that have not completed, to the proxy's thread. `ended`: the number of assisted
 * operations that end.
 */
static void end_group(struct gpuring_proxy_group *group, unsigned ended)
{
    struct gpuring_proxy *proxy = group->proxy;
    bool unsent, outstanding;

    gpuring_gate_enter(proxy->config.gate);
    group->assisted -= ended;
    if (gpuring_proxy_group_pending(group, GPURING_PROXY_POSTED)) {
        gpuring_proxy_pass(proxy, group);
    }
    outstanding = gpuring_proxy_group_pending(group, GPURING_PROXY_COMPLETED);
    unsent = (outstanding && gpuring_proxy_group_pending(group, GPURING_PROXY_POSTED)) ||
             gpuring_proxy_nets_busy(proxy);
    gpuring_proxy_set_at_work(group, outstanding || group->assisted > 0);
    gpuring_gate_leave(proxy->config.gate);
    if (outstanding || unsent) {
        bell_call(proxy, !unsent);
        gpuring_proxy_bell_end(proxy);
    }
}

void gpuring_proxy_rest(struct gpuring_proxy_group *group)
{
    gpuring_gate_enter(group->proxy->config.gate);
    gpuring_proxy_withdraw_all(group, false);
    gpuring_gate_leave(group->proxy->config.gate);
}

void gpuring_proxy_unpost(struct gpuring_proxy_group *group)
{
    /* Partner: gpuring_proxy_end. At least one of the two threads sees the other's store. */
    __atomic_store_n(&group->unposts, true, __ATOMIC_SEQ_CST);
    gpuring_proxy_rest(group);
}

void gpuring_proxy_reused(struct gpuring_proxy_group *group)
{
    __atomic_store_n(&group->unposts, false, __ATOMIC_SEQ_CST);
}

void gpuring_proxy_end(struct gpuring_proxy_group *group, bool driven)
{
    bool thread = gpuring_proxy_has_thread(group->proxy);

    if (thread) { /* without a thread, an operation ends when all is sent */
        end_group(group, driven ? 0 : 1);
    }
    __atomic_fetch_sub(&group->running, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&group->unposts, __ATOMIC_SEQ_CST)) {
        gpuring_gate_enter(group->proxy->config.gate);
        gpuring_proxy_withdraw_all(group, true);
        gpuring_gate_leave(group->proxy->config.gate);
    }
    if (!driven && thread) {
        gpuring_proxy_bell_end(group->proxy);
    }
}
