/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The proxy's thread: its loop, its waiting, and the functions that other threads call. The gate
 * guards the lists of nets and links and everything in them. The bell wakes the thread.
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

/* Return true if slots or credits of the group are not sent yet. posted: see gpuring_proxy_pending.
 * Under the gate. */
static bool group_pending(const struct gpuring_proxy_group *group, bool posted)
{
    const struct gpuring_net_base_link *link;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        if (link->used == 0) {
            break; /* links in use are first */
        }
        if (gpuring_proxy_pending(link, posted) != 0) {
            return true;
        }
    }
    return false;
}

/* Move the group to the list of groups at work, or of idle ones. Under the gate. */
static void set_at_work(struct gpuring_proxy_group *group, bool at_work)
{
    if (group->at_work != at_work) {
        group->at_work = at_work;
        gpuring_list_remove(&group->node);
        gpuring_list_prepend(at_work ? &group->proxy->working : &group->proxy->idle, &group->node);
    }
}

static int pump_group(const struct gpuring_proxy_group *group, uint64_t *bytes, uint64_t *again)
{
    struct gpuring_net_base_link *link;
    int done = 0;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        if (link->used == 0) {
            break;
        }
        done += gpuring_proxy_pump(link, bytes, again);
    }
    return done;
}

/*
 * Do everything that can be done now, first for the group `own`, which need not be at work (NULL:
 * none). Its slots are posted before the nets are polled, because polling takes as long as a
 * message. Returns the number of events and calls. Under the gate.
 */
static int proxy_pass(struct gpuring_proxy *proxy, const struct gpuring_proxy_group *own)
{
    struct gpuring_list *next;
    uint64_t bytes = 0, again = 0;
    int done = own != NULL ? pump_group(own, &bytes, &again) : 0;

    for (int i = 0; i < proxy->nnets; i++) {
        done += proxy->nets[i].ops->poll(proxy->nets[i].net);
    }
    for (struct gpuring_list *node = proxy->working.next; node != &proxy->working; node = next) {
        struct gpuring_proxy_group *group =
            GPURING_LIST_ENTRY(node, struct gpuring_proxy_group, node);

        next = node->next;
        done += group != own ? pump_group(group, &bytes, &again) : 0;
        if (group->assisted == 0 && group != own && !group_pending(group, false)) {
            set_at_work(group, false);
        }
    }
    /* Counters for display only: no partner, relaxed. */
    if (bytes > 0 || again > 0) {
        __atomic_fetch_add(&proxy->config.counts->net_bytes, bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&proxy->config.counts->net_retries, again, __ATOMIC_RELAXED);
    }
    return done;
}

/* Return true if a net may need polls before all that was posted has left. Under the gate. */
static bool nets_busy(const struct gpuring_proxy *proxy)
{
    for (int i = 0; i < proxy->nnets; i++) {
        if (proxy->nets[i].ops->quiet(proxy->nets[i].net) == GPURING_AGAIN) {
            return true;
        }
    }
    return false;
}

/* Return true if slots or credits have not been given to the nets, or nets need polls. Under the
 * gate. */
static bool proxy_pending(const struct gpuring_proxy *proxy)
{
    const struct gpuring_proxy_group *group;

    GPURING_LIST_EACH(group, &proxy->working, struct gpuring_proxy_group, node)
    {
        if (group_pending(group, true)) {
            return true;
        }
    }
    return nets_busy(proxy);
}

/* Arm the descriptors of the nets for a nap. Returns false if a net already has something to do.
 * Under the gate. */
static bool proxy_arm(const struct gpuring_proxy *proxy, struct gpuring_proxy_nap *nap)
{
    nap->nfds = 0;
    nap->all_nets = true;
    for (int i = 0; i < proxy->nnets; i++) {
        int fd = -1;

        if (proxy->nets[i].ops->arm(proxy->nets[i].net, &fd) == GPURING_AGAIN) {
            return false;
        }
        if (fd < 0) {
            nap->all_nets = false;
        } else {
            nap->fds[nap->nfds++] = fd;
        }
    }
    return true;
}

static void *proxy_main(void *argument)
{
    struct gpuring_proxy *proxy = argument;
    struct gpuring_proxy_wait wait;
    uint64_t helped = 0;

    gpuring_proxy_wait_init(&wait, &proxy->config, gpuring_proxy_thread_setup(&proxy->config));
    for (;;) {
        struct gpuring_proxy_nap nap = {.nfds = 0};
        bool armed = false, pending = true, outstanding = true, running;
        int done;
        uint64_t begun = __atomic_load_n(&proxy->bell.begun, __ATOMIC_SEQ_CST);
        /* Partner: the store in proxy_join. */
        int stop = __atomic_load_n(&proxy->bell.stop, __ATOMIC_ACQUIRE);

        gpuring_gate_reenter(proxy->config.gate);
        if (helped != proxy->helped) {
            gpuring_proxy_wait_skip(&wait);
            helped = proxy->helped;
        }
        done = proxy_pass(proxy, NULL);
        /* Partner: the release in gpuring_proxy_end. */
        running = __atomic_load_n(&proxy->bell.ended, __ATOMIC_ACQUIRE) != begun;
        if (done == 0) {
            pending = (running && !stop) || proxy_pending(proxy);
            outstanding = !gpuring_list_empty(&proxy->working);
            armed = wait.nap_ns != 0 && proxy_arm(proxy, &nap);
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
            gpuring_proxy_bell_sleep(&proxy->bell, begun, outstanding);
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
    if (config->progress != NULL) {
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

    if (proxy->pid != getpid() || proxy->config.progress != NULL) {
        return GPURING_OK; /* a forked child has no thread */
    }
    proxy->stop_ns = gpuring_now_ns() + (uint64_t) (seconds * 1e9);
    /* Partners: the loads in proxy_main and bell_says. */
    __atomic_store_n(&proxy->bell.stop, 1, __ATOMIC_SEQ_CST);
    gpuring_proxy_bell_ring(&proxy->bell);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t) (seconds + JOIN_GRACE_SECONDS) + 1;
    if (pthread_timedjoin_np(proxy->thread, NULL, &until) != 0) {
        gpuring_error("the progress thread does not end: it hangs in a network library; its memory "
                      "is not freed");
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
    if (proxy->config.progress == NULL) {
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
    protocols |= gpuring_proxy_pending(link, false);
    link->used = protocols;
    gpuring_list_remove(&link->node);
    if (protocols != 0) {
        gpuring_list_prepend(&link->group->links, &link->node);
    } else {
        gpuring_list_append(&link->group->links, &link->node);
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

const char *gpuring_proxy_error(const struct gpuring_net_link *link)
{
    const struct gpuring_net_base_link *base = (const struct gpuring_net_base_link *) link;

    /* Partner: the release store of `failed` after the text. */
    return __atomic_load_n(base->failed, __ATOMIC_ACQUIRE) != GPURING_OK ? base->text : "";
}

/* Let the thread look at the groups at work. watch: only completions are outstanding, for which a
 * thread that looks regularly need not wake. */
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

static void bell_end(struct gpuring_proxy *proxy)
{
    /* Partner: the load of `ended` in proxy_main. */
    __atomic_fetch_add(&proxy->bell.ended, 1, __ATOMIC_RELEASE);
}

void gpuring_proxy_begin(struct gpuring_proxy_group *group, bool driven)
{
    struct gpuring_proxy *proxy = group->proxy;

    /* Partner: gpuring_proxy_withdraw. */
    __atomic_fetch_add(&group->running, 1, __ATOMIC_SEQ_CST);
    if (!driven) {
        gpuring_gate_enter(proxy->config.gate);
        group->assisted++;
        set_at_work(group, true);
        gpuring_gate_leave(proxy->config.gate);
        if (proxy->config.progress == NULL) {
            bell_call(proxy, false);
        }
    }
}

/* Return true if an event may need a pass. */
static bool has_changed(const struct gpuring_proxy *proxy)
{
    const struct gpuring_net_ops *ops = proxy->nets[0].ops;

    return proxy->config.progress == NULL || ops->changed == NULL ||
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
        proxy_pass(proxy, group);
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
    armed = proxy_arm(proxy, &nap);
    gpuring_gate_leave(proxy->config.gate);
    if (armed) {
        gpuring_proxy_nap_on(&nap, NULL, ns);
    }
}

bool gpuring_proxy_unsent(struct gpuring_proxy_group *group)
{
    struct gpuring_proxy *proxy = group->proxy;
    bool unsent = true;

    if (proxy->config.progress == NULL) {
        return false;
    }
    if (pthread_mutex_trylock(&proxy->config.gate->mutex) == 0) {
        unsent = group_pending(group, false);
        if (unsent) {
            proxy_pass(proxy, group);
            unsent = group_pending(group, false);
        }
        gpuring_gate_leave(proxy->config.gate);
    }
    return unsent;
}

/*
 * Send the slots and credits that an operation has left. Leave what is not sent, and posts that
 * have not completed, to the proxy's thread. `ended`: the number of assisted operations that end.
 */
static void end_group(struct gpuring_proxy_group *group, unsigned ended)
{
    struct gpuring_proxy *proxy = group->proxy;
    bool unsent, outstanding;

    gpuring_gate_enter(proxy->config.gate);
    group->assisted -= ended;
    if (group_pending(group, true)) {
        proxy_pass(proxy, group);
    }
    outstanding = group_pending(group, false);
    unsent = (outstanding && group_pending(group, true)) || nets_busy(proxy);
    set_at_work(group, outstanding || group->assisted > 0);
    gpuring_gate_leave(proxy->config.gate);
    if ((outstanding || unsent) && proxy->config.progress == NULL) {
        bell_call(proxy, !unsent);
        bell_end(proxy);
    }
}

void gpuring_proxy_rest(struct gpuring_proxy_group *group)
{
    gpuring_gate_enter(group->proxy->config.gate);
    gpuring_proxy_withdraw(group);
    gpuring_gate_leave(group->proxy->config.gate);
}

void gpuring_proxy_freed(struct gpuring_proxy_group *group)
{
    /* Partner: gpuring_proxy_end. At least one of two threads sees what the other has stored. */
    __atomic_store_n(&group->freed, true, __ATOMIC_SEQ_CST);
    gpuring_proxy_rest(group);
}

void gpuring_proxy_end(struct gpuring_proxy_group *group, bool driven)
{
    /* Without a thread, a driven operation ends when all is sent. */
    if (!driven || group->proxy->config.progress == NULL) {
        end_group(group, driven ? 0 : 1);
    }
    __atomic_fetch_sub(&group->running, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&group->freed, __ATOMIC_SEQ_CST)) {
        gpuring_proxy_rest(group);
    }
    if (!driven) {
        bell_end(group->proxy);
    }
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

        if ((!late && gpuring_proxy_pending(link, false) != 0) ||
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
    return group_pending(group, false) ? GPURING_ERR_TIMEOUT : GPURING_OK;
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
            proxy_pass(proxy, NULL);
        }
        now = gpuring_now_ns();
    }
    status = group_status(group);
    forget_group(group);
    gpuring_gate_leave(proxy->config.gate);
    /* Partner: the load of `ended` in proxy_main. */
    __atomic_fetch_add(&proxy->bell.ended, 1, __ATOMIC_RELEASE);
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
