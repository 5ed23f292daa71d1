/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Passes of the proxy: convert changes of the lanes' counters to posts and credits, link by link.
 * All functions run under the gate. Only the lanes access the same counters without it.
 */
#include "mca/coll_gpuring/net/proxy/proxy_internal.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/status.h"

/* Return the credit that the next slot can carry to its peer: the number of steps of the paired
 * link that the lane has consumed. */
static uint64_t head_of_pair(const struct gpuring_net_base_link *link,
                             enum gpuring_protocol protocol)
{
    uint64_t known = gpuring_net_base_returned(link, protocol), head;
    const struct gpuring_net_count *count;

    if (link->pair == NULL || link->pair->count[protocol].memory.nslots == 0) {
        return known;
    }
    count = &link->pair->count[protocol];
    /* Partner: see pump_recv, which also reports an impossible head. */
    head = __atomic_load_n(&count->memory.head->head, __ATOMIC_ACQUIRE);
    return head <= count->done && head > known ? head : known;
}

static int look_at_link(struct gpuring_net_base_link *link, enum gpuring_protocol protocol)
{
    if (link->net->ops->look == NULL) {
        return 0;
    }
    link->net->ops->look((struct gpuring_net_link *) link, protocol);
    return gpuring_net_base_events(link->net);
}

static int pump_send(struct gpuring_net_base_link *link, enum gpuring_protocol protocol,
                     uint64_t *bytes, uint64_t *again)
{
    struct gpuring_net_count *count = &link->count[protocol];
    const struct gpuring_net_ring *ring = &count->memory;
    /* Partner: the lane's release store of tail after payload and size. */
    uint64_t tail = __atomic_load_n(&ring->tail->tail, __ATOMIC_ACQUIRE), end;
    int calls = 0;

    if (count->done < count->posted &&
        (count->posted == tail || count->posted >= count->credit + count->window)) {
        calls += look_at_link(link, protocol);
        if (link->status != GPURING_OK) {
            return calls;
        }
    }
    if (tail - count->done > ring->nslots) {
        gpuring_net_base_fail(link, GPURING_ERR_DATA,
                              "the sending lane ran over its slots: the FIFO's memory is corrupt");
        return 1;
    }
    end = tail < count->credit + count->window ? tail : count->credit + count->window;
    while (count->posted < end) {
        uint64_t step = count->posted++; /* before the call, which may report its completion */
        uint32_t size = ring->tail->size[step % ring->nslots] & ~GPURING_FIFO_ADDRESS;
        uint64_t head = head_of_pair(link, protocol);
        int status = link->net->ops->post((struct gpuring_net_link *) link, protocol, step, size,
                                          step + 1 < end, head);

        if (status == GPURING_AGAIN) {
            count->posted = step;
            (*again)++;
            break;
        }
        calls++;
        if (status != GPURING_OK) {
            break;
        }
        if (link->pair != NULL) {
            link->pair->count[protocol].credit = head;
        }
        *bytes += size;
    }
    return calls;
}

/*
 * Return credits when half of the window is free, so that a stream of slots does not wait for them.
 * For small slots the number of messages dominates the cost. Their credits are returned later, when
 * only two slots are left that the peer can fill in the meantime.
 */
#define SMALL_BYTES 4096

static bool credit_due(const struct gpuring_net_count *count, uint64_t head)
{
    const struct gpuring_net_ring *ring = &count->memory;
    uint64_t slots = head - count->credit;
    uint32_t window = count->window, half = window >= 4 ? window / 2 : 1;

    return slots >= half &&
           (slots + 2 >= window || ring->tail->size[(head - 1) % ring->nslots] > SMALL_BYTES);
}

static int pump_recv(struct gpuring_net_base_link *link, enum gpuring_protocol protocol,
                     uint64_t *again)
{
    struct gpuring_net_count *count = &link->count[protocol];
    int calls = look_at_link(link, protocol), status;
    /* Partner: the lane's release store of head after its last read of the slot. */
    uint64_t head = __atomic_load_n(&count->memory.head->head, __ATOMIC_ACQUIRE);

    if (head > count->done) {
        gpuring_net_base_fail(
            link, GPURING_ERR_DATA,
            "the receiving lane gave back slots that had not arrived: the FIFO's memory is "
            "corrupt");
        return calls + 1;
    }
    if (link->status != GPURING_OK || !credit_due(count, head)) {
        return calls;
    }
    status = link->net->ops->credit((struct gpuring_net_link *) link, protocol, head);
    if (status == GPURING_AGAIN) {
        (*again)++;
        return calls;
    }
    if (status == GPURING_OK) {
        count->credit = head;
    }
    return calls + 1;
}

/* Post the slots that the lanes have filled, and return credits for the slots that they have
 * consumed. Returns the number of events and of calls to the net. */
static int pump_link(struct gpuring_net_base_link *link, uint64_t *bytes, uint64_t *again)
{
    int calls = 0;

    for (uint32_t rest = link->used; rest != 0 && link->status == GPURING_OK; rest &= rest - 1) {
        enum gpuring_protocol protocol = (enum gpuring_protocol) __builtin_ctz(rest);

        calls += link->direction == GPURING_NET_SEND ? pump_send(link, protocol, bytes, again)
                                                     : pump_recv(link, protocol, again);
    }
    return calls;
}

static bool protocol_pending(const struct gpuring_net_base_link *link,
                             const struct gpuring_net_count *count, bool posted)
{
    /* Partners: see pump_send and pump_recv. */
    return link->direction == GPURING_NET_SEND
               ? (posted ? count->posted : count->done) <
                     __atomic_load_n(&count->memory.tail->tail, __ATOMIC_ACQUIRE)
               : credit_due(count, __atomic_load_n(&count->memory.head->head, __ATOMIC_ACQUIRE));
}

uint32_t gpuring_proxy_pending(const struct gpuring_net_base_link *link,
                               enum gpuring_proxy_until until)
{
    bool posted =
        until == GPURING_PROXY_POSTED || (until == GPURING_PROXY_SENT && link->net->ops->offloads);
    uint32_t pending = 0;

    if (until == GPURING_PROXY_SENT && link->direction == GPURING_NET_RECV) {
        return 0;
    }
    for (uint32_t rest = link->status == GPURING_OK ? link->used : 0; rest != 0; rest &= rest - 1) {
        int p = __builtin_ctz(rest);

        pending |= protocol_pending(link, &link->count[p], posted) ? 1u << p : 0;
    }
    return pending;
}

void gpuring_proxy_withdraw(struct gpuring_net_base_link *link)
{
    if (link->net->ops->link_withdraw != NULL) {
        (void) link->net->ops->link_withdraw((struct gpuring_net_link *) link);
    }
}

void gpuring_proxy_withdraw_all(struct gpuring_proxy_group *group, bool used)
{
    struct gpuring_net_base_link *link;
    /* Partners: gpuring_proxy_begin and gpuring_proxy_end. */
    bool running = __atomic_load_n(&group->running, __ATOMIC_SEQ_CST) != 0;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        if (used && (link->used == 0 || running)) {
            break; /* links in use are first */
        }
        if (link->used == 0 || !running) {
            gpuring_proxy_withdraw(link);
        }
    }
    if (!running && group->at_work &&
        !gpuring_proxy_group_pending(group, GPURING_PROXY_COMPLETED)) {
        gpuring_proxy_set_at_work(group, false); /* so that no thread posts them again */
    }
}

bool gpuring_proxy_group_pending(const struct gpuring_proxy_group *group,
                                 enum gpuring_proxy_until until)
{
    const struct gpuring_net_base_link *link;

    GPURING_LIST_EACH(link, &group->links, struct gpuring_net_base_link, node)
    {
        if (link->used == 0) {
            break; /* links in use are first */
        }
        if (gpuring_proxy_pending(link, until) != 0) {
            return true;
        }
    }
    return false;
}

void gpuring_proxy_set_at_work(struct gpuring_proxy_group *group, bool at_work)
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
        done += pump_link(link, bytes, again);
    }
    return done;
}

static int poll_nets(const struct gpuring_proxy *proxy)
{
    int done = 0;

    for (int i = 0; i < proxy->nnets; i++) {
        done += proxy->nets[i].ops->poll(proxy->nets[i].net);
    }
    return done;
}

/* Add to the counters of the process. They are for display only: no partner, relaxed. */
static void count_posts(const struct gpuring_proxy *proxy, uint64_t bytes, uint64_t again)
{
    if (bytes > 0 || again > 0) {
        __atomic_fetch_add(&proxy->config.counts->net_bytes, bytes, __ATOMIC_RELAXED);
        __atomic_fetch_add(&proxy->config.counts->net_retries, again, __ATOMIC_RELAXED);
    }
}

bool gpuring_proxy_only_polls(const struct gpuring_proxy_group *group)
{
    const struct gpuring_list *working = &group->proxy->working;

    for (int i = 0; i < group->proxy->nnets; i++) {
        if (group->proxy->nets[i].ops->look != NULL) {
            return false;
        }
    }
    return working->next == working ||
           (working->next == &group->node && group->node.next == working);
}

void gpuring_proxy_poll(const struct gpuring_proxy_group *group)
{
    uint64_t bytes = 0, again = 0;

    if (poll_nets(group->proxy) > 0) {
        pump_group(group, &bytes, &again);
        count_posts(group->proxy, bytes, again);
    }
}

int gpuring_proxy_pass(struct gpuring_proxy *proxy, const struct gpuring_proxy_group *own)
{
    struct gpuring_list *next;
    uint64_t bytes = 0, again = 0;
    int done = own != NULL ? pump_group(own, &bytes, &again) : 0;

    done += poll_nets(proxy);
    for (struct gpuring_list *node = proxy->working.next; node != &proxy->working; node = next) {
        struct gpuring_proxy_group *group =
            GPURING_LIST_ENTRY(node, struct gpuring_proxy_group, node);

        next = node->next;
        done += group != own ? pump_group(group, &bytes, &again) : 0;
        if (group->assisted == 0 && group != own &&
            !gpuring_proxy_group_pending(group, GPURING_PROXY_COMPLETED)) {
            gpuring_proxy_set_at_work(group, false);
            if (__atomic_load_n(&group->unposts, __ATOMIC_SEQ_CST)) {
                gpuring_proxy_withdraw_all(group, true);
            }
        }
    }
    count_posts(proxy, bytes, again);
    return done;
}

bool gpuring_proxy_nets_busy(const struct gpuring_proxy *proxy)
{
    for (int i = 0; i < proxy->nnets; i++) {
        const struct gpuring_net_ops *ops = proxy->nets[i].ops;

        if (ops->quiet != NULL && ops->quiet(proxy->nets[i].net) == GPURING_AGAIN) {
            return true;
        }
    }
    return false;
}

bool gpuring_proxy_any_pending(const struct gpuring_proxy *proxy)
{
    const struct gpuring_proxy_group *group;

    GPURING_LIST_EACH(group, &proxy->working, struct gpuring_proxy_group, node)
    {
        if (gpuring_proxy_group_pending(group, GPURING_PROXY_POSTED)) {
            return true;
        }
    }
    return gpuring_proxy_nets_busy(proxy);
}

bool gpuring_proxy_arm(const struct gpuring_proxy *proxy, struct gpuring_proxy_nap *nap)
{
    nap->nfds = 0;
    nap->all_nets = true;
    for (int i = 0; i < proxy->nnets; i++) {
        const struct gpuring_net_ops *ops = proxy->nets[i].ops;
        int fd = -1;

        if (ops->arm != NULL && ops->arm(proxy->nets[i].net, &fd) == GPURING_AGAIN) {
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
