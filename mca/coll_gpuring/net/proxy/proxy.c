/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The proxy's thread, its groups and its links. The gate guards the lists of nets and links and
 * everything in them. The bell wakes the thread.
 */
#include "mca/coll_gpuring/net/proxy/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/net/proxy/proxy_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define JOIN_GRACE_SECONDS 2.0 /* for a call of the net's library that has begun */

static void *proxy_main(void *argument)
{
    struct gpuring_proxy *proxy = argument;
    struct gpuring_proxy_wait wait;
    uint64_t helped = 0, watched = 0;

    gpuring_proxy_wait_init(&wait, &proxy->config, gpuring_proxy_thread_setup(&proxy->config));
    for (;;) {
        struct gpuring_proxy_nap nap = {.nfds = 0};
        bool armed = false, pending = true, outstanding = true, running;
        int done;
        uint64_t begun = __atomic_load_n(&proxy->bell.begun, __ATOMIC_SEQ_CST);
        /* Partner: the store in proxy_join. */
        int stop = __atomic_load_n(&proxy->bell.stop, __ATOMIC_ACQUIRE);

        if (proxy->config.progress != NULL) {
            proxy->config.progress();
        }
        gpuring_gate_reenter(proxy->config.gate);
        if (helped != proxy->helped) {
            gpuring_proxy_wait_skip(&wait);
            helped = proxy->helped;
        }
        done = gpuring_proxy_pass(proxy, NULL);
        /* Partner: the release in gpuring_proxy_end. */
        running = __atomic_load_n(&proxy->bell.ended, __ATOMIC_ACQUIRE) != begun;
        if (done == 0) {
            pending = (running && !stop) || gpuring_proxy_any_pending(proxy);
            outstanding = !gpuring_list_empty(&proxy->working);
            armed = wait.nap_ns != 0 && gpuring_proxy_arm(proxy, &nap);
        }
        gpuring_gate_leave(proxy->config.gate);

        if (stop && ((!pending && !outstanding) || gpuring_now_ns() >= proxy->stop_ns)) {
            return NULL;
        }
        if (done == 0 && (running || pending || stop)) {
            gpuring_proxy_wait_step(&wait, &proxy->bell, armed ? &nap : NULL, running || stop,
                                    begun);
            continue;
        }
        if (done == 0) {
            /* While calls follow each other, watch, so that none of them has to wake this thread to
             * leave it completions. */
            gpuring_proxy_bell_sleep(&proxy->bell, begun, outstanding || begun != watched);
            watched = outstanding ? watched : begun;
        }
        wait.since = wait.nap_ns = 0;
    }
}

int gpuring_proxy_create(const struct gpuring_proxy_config *config, struct gpuring_proxy **result)
{
    struct gpuring_proxy *proxy = calloc(1, sizeof *proxy);
    int error;

    if (proxy == NULL) {
        gpuring_error("out of memory for the progress thread");
        return GPURING_ERR_NOMEM;
    }
    gpuring_list_init(&proxy->working);
    gpuring_list_init(&proxy->idle);
    proxy->config = *config;
    if (config->counts == NULL) {
        proxy->config.counts = &proxy->own_counts;
    }
    if (config->gate == NULL) {
        pthread_mutex_init(&proxy->own_gate.mutex, NULL);
        proxy->config.gate = &proxy->own_gate;
    }
    proxy->pid = getpid();
    if (!gpuring_proxy_has_thread(proxy)) {
        *result = proxy;
        return GPURING_OK;
    }
    proxy->bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    error =
        proxy->bell.fd < 0 ? errno : gpuring_proxy_thread_start(&proxy->thread, proxy_main, proxy);
    if (error != 0) {
        bool full = error == EMFILE || error == ENFILE;

        gpuring_error("[%s] cannot start the progress thread: %s; raise the limit on %s",
                      full ? "no-descriptor" : "no-thread", strerror(error),
                      full ? "open files (ulimit -n)" : "processes and threads (ulimit -u)");
        if (proxy->bell.fd >= 0) {
            close(proxy->bell.fd);
        }
        free(proxy);
        return full ? GPURING_ERR_FILES : GPURING_ERR_IO;
    }
    *result = proxy;
    return GPURING_OK;
}

static int proxy_join(struct gpuring_proxy *proxy, double seconds)
{
    struct timespec until;

    if (proxy->pid != getpid() || !gpuring_proxy_has_thread(proxy)) {
        return GPURING_OK; /* a forked child has no thread */
    }
    proxy->stop_ns = gpuring_now_ns() + (uint64_t) (seconds * 1e9);
    /* Partners: the loads in proxy_main and bell_says. */
    __atomic_store_n(&proxy->bell.stop, 1, __ATOMIC_SEQ_CST);
    gpuring_proxy_bell_ring(&proxy->bell);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t) (seconds + JOIN_GRACE_SECONDS) + 1;
    if (pthread_timedjoin_np(proxy->thread, NULL, &until) != 0) {
        gpuring_error("the progress thread does not end, because it hangs in a network "
                      "library; its memory is not freed");
        return GPURING_ERR_TIMEOUT;
    }
    return GPURING_OK;
}

/* Remove the link from its pair. The peer may still have its pair and read credits from the slots
 * of this link, so keep the credit that was returned last. */
static void unpair(struct gpuring_net_base_link *link)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        link->count[p].returned = gpuring_net_base_returned(link, p);
    }
    link->pair = NULL;
}

/* Remove a link. Under the gate, or when there is no thread. */
static void forget(struct gpuring_net_base_link *link)
{
    gpuring_list_remove(&link->node);
    if (link->pair != NULL) {
        unpair(link->pair);
        unpair(link);
    }
    link->group = NULL;
    link->failed = NULL;
    link->traffic = NULL;
}

/* Remove a group. Under the gate, or when there is no thread. */
static void forget_group(struct gpuring_proxy_group *group)
{
    struct gpuring_net_base_link *link;

    while ((link = GPURING_LIST_FIRST(&group->links, struct gpuring_net_base_link, node)) != NULL) {
        forget(link);
    }
    gpuring_list_remove(&group->node);
    group->proxy = NULL;
}

int gpuring_proxy_destroy(struct gpuring_proxy *proxy, double seconds)
{
    int status = proxy != NULL ? proxy_join(proxy, seconds) : GPURING_OK;
    struct gpuring_proxy_group *group;

    if (proxy == NULL || status != GPURING_OK) {
        return status;
    }
    gpuring_list_append_all(&proxy->idle, &proxy->working);
    while ((group = GPURING_LIST_FIRST(&proxy->idle, struct gpuring_proxy_group, node)) != NULL) {
        forget_group(group);
    }
    if (gpuring_proxy_has_thread(proxy)) {
        close(proxy->bell.fd);
    }
    free(proxy);
    return GPURING_OK;
}

struct gpuring_gate *gpuring_proxy_gate(struct gpuring_proxy *proxy)
{
    return proxy->config.gate;
}

void gpuring_proxy_add_net(struct gpuring_proxy *proxy, struct gpuring_net *net)
{
    gpuring_gate_enter(proxy->config.gate);
    proxy->nets[proxy->nnets++] =
        (struct proxy_net){.ops = ((const struct gpuring_net_base *) net)->ops, .net = net};
    gpuring_gate_leave(proxy->config.gate);
}

void gpuring_proxy_group_init(struct gpuring_proxy *proxy, struct gpuring_proxy_group *group)
{
    *group = (struct gpuring_proxy_group){.proxy = proxy};
    gpuring_list_init(&group->links);
    gpuring_gate_enter(proxy->config.gate);
    gpuring_list_prepend(&proxy->idle, &group->node);
    gpuring_gate_leave(proxy->config.gate);
}

void gpuring_proxy_add(struct gpuring_proxy_group *group, struct gpuring_net_link *added,
                       int *failed)
{
    struct gpuring_net_base_link *link = (struct gpuring_net_base_link *) added;

    gpuring_gate_enter(link->net->gate);
    link->group = group;
    link->failed = failed;
    link->traffic = &group->traffic;
    link->used = 0;
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        link->used |= link->count[p].memory.nslots > 0 ? 1u << p : 0;
    }
    __atomic_store_n(failed, link->status, __ATOMIC_RELEASE); /* partner: gpuring_proxy_error */
    gpuring_list_prepend(&group->links, &link->node);
    gpuring_gate_leave(link->net->gate);
}

void gpuring_proxy_pair(struct gpuring_net_link *send_link, struct gpuring_net_link *receive_link)
{
    struct gpuring_net_base_link *send = (struct gpuring_net_base_link *) send_link;
    struct gpuring_net_base_link *receive = (struct gpuring_net_base_link *) receive_link;

    gpuring_gate_enter(send->net->gate);
    send->pair = receive;
    receive->pair = send;
    gpuring_gate_leave(send->net->gate);
}

void gpuring_proxy_use(struct gpuring_net_link *used, uint32_t protocols)
{
    struct gpuring_net_base_link *link = (struct gpuring_net_base_link *) used;

    gpuring_gate_enter(link->net->gate);
    protocols |= gpuring_proxy_pending(link, GPURING_PROXY_COMPLETED);
    link->used = protocols;
    gpuring_list_remove(&link->node);
    if (protocols != 0) {
        gpuring_list_prepend(&link->group->links, &link->node);
    } else {
        gpuring_list_append(&link->group->links, &link->node);
        if (__atomic_load_n(&link->group->unposts, __ATOMIC_SEQ_CST)) {
            gpuring_proxy_withdraw(link);
        }
    }
    gpuring_gate_leave(link->net->gate);
}

void gpuring_proxy_abort(struct gpuring_net_link *aborted, int status)
{
    struct gpuring_net_base_link *link = (struct gpuring_net_base_link *) aborted;
    struct gpuring_proxy_group *group = link->group;
    struct gpuring_gate *gate = link->net->gate;

    if (group == NULL || group->proxy->pid != getpid()) {
        return; /* in a forked child, the connection belongs to the parent */
    }
    gpuring_proxy_begin(group, false); /* because the message to the peer needs progress */
    gpuring_gate_enter(gate);
    if (link->status == GPURING_OK) {
        link->net->ops->link_abort(aborted, status);
    }
    gpuring_gate_leave(gate);
    gpuring_proxy_end(group, false);
}

bool gpuring_proxy_settle(struct gpuring_proxy_group *group, bool late)
{
    struct gpuring_proxy *proxy = group->proxy;
    struct gpuring_net_base_link *link;
    bool all = true;

    if (proxy == NULL || proxy->pid != getpid()) {
        return true; /* in a forked child, the connections belong to the parent */
    }
    gpuring_gate_enter(proxy->config.gate);
    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        const struct gpuring_net_ops *ops = link->net->ops;

        if (ops->link_settle != NULL &&
            ops->link_settle((struct gpuring_net_link *) link, late) == GPURING_AGAIN) {
            all = false;
        }
    }
    gpuring_gate_leave(proxy->config.gate);
    if (!all && proxy->config.progress != NULL) {
        proxy->config.progress();
    }
    return all;
}

const char *gpuring_proxy_error(const struct gpuring_net_link *link)
{
    const struct gpuring_net_base_link *base = (const struct gpuring_net_base_link *) link;

    /* Partner: the release store of `failed` after the text. */
    return __atomic_load_n(base->failed, __ATOMIC_ACQUIRE) != GPURING_OK ? base->text : "";
}

/*
 * Return true if no link of the group must be waited for any longer. All links are queried, even
 * after one that is not ready, so that they leave at the same time. late: do not wait for slots and
 * credits that are not sent yet. Under the gate.
 */
static bool all_left(const struct gpuring_proxy_group *group, bool late)
{
    struct gpuring_net_base_link *link;
    bool all = true;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        const struct gpuring_net_ops *ops = link->net->ops;

        if ((!late && gpuring_proxy_pending(link, GPURING_PROXY_COMPLETED) != 0) ||
            (ops->link_leave != NULL &&
             ops->link_leave((struct gpuring_net_link *) link) == GPURING_AGAIN)) {
            all = false;
        }
    }
    return all;
}

/* Return the status of the first failed link, or GPURING_ERR_TIMEOUT if data was not sent in time.
 */
static int group_status(const struct gpuring_proxy_group *group)
{
    const struct gpuring_net_base_link *link;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        if (link->status != GPURING_OK) {
            return link->status;
        }
    }
    return gpuring_proxy_group_pending(group, GPURING_PROXY_COMPLETED) ? GPURING_ERR_TIMEOUT
                                                                       : GPURING_OK;
}

int gpuring_proxy_remove(struct gpuring_proxy_group *group, double seconds)
{
    struct gpuring_proxy *proxy = group->proxy;
    uint64_t now = gpuring_now_ns(), wait = (uint64_t) (seconds * 1e9);
    uint64_t late = now + wait / 2, deadline = now + wait;
    const struct timespec nap = {.tv_nsec = 50000};
    int status;

    if (proxy == NULL) {
        return GPURING_OK;
    }
    if (proxy->pid == getpid() && proxy->config.progress != NULL) {
        /* The net's messages hold a communicator. Its destructor calls this function, so there are
         * none, and a pass of the thread must not start any. */
        gpuring_gate_enter(proxy->config.gate);
        (void) all_left(group, true);
        gpuring_gate_leave(proxy->config.gate);
        late = now; /* links that have left send no further slots */
    }
    gpuring_proxy_begin(group, false);
    gpuring_gate_enter(proxy->config.gate);
    /* In a forked child, the connections belong to the parent. */
    while (proxy->pid == getpid() && !all_left(group, now >= late) && now < deadline) {
        gpuring_gate_leave(proxy->config.gate);
        if (proxy->config.progress != NULL) {
            proxy->config.progress();
        } else {
            nanosleep(&nap, NULL);
        }
        gpuring_gate_enter(proxy->config.gate);
        if (proxy->config.progress != NULL) {
            gpuring_proxy_pass(proxy, group);
        }
        now = gpuring_now_ns();
    }
    status = group_status(group);
    forget_group(group);
    gpuring_gate_leave(proxy->config.gate);
    gpuring_proxy_bell_end(proxy);
    return status;
}

uint64_t gpuring_proxy_bytes(const struct gpuring_proxy *proxy)
{
    return __atomic_load_n(&proxy->config.counts->net_bytes, __ATOMIC_RELAXED);
}

uint64_t gpuring_proxy_retries(const struct gpuring_proxy *proxy)
{
    return __atomic_load_n(&proxy->config.counts->net_retries, __ATOMIC_RELAXED);
}

bool gpuring_proxy_sleeping(const struct gpuring_proxy *proxy)
{
    return __atomic_load_n(&proxy->bell.sleeping, __ATOMIC_SEQ_CST) == GPURING_PROXY_SLEEPING;
}
