/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * There is one fabric with one mutex. The two ends of a connected link point at each other. A
 * message waits in the queue of the receiving end until the net of that end polls it.
 */
#include "test/unit/net_mock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/base.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

enum message_kind { MESSAGE_DATA, MESSAGE_CREDIT };

struct message {
    struct message *next;
    enum message_kind kind;
    enum gpuring_protocol protocol;
    uint64_t step; /* for credits, this is the head */
    uint64_t head; /* for data, the head of the paired link */
    uint32_t bytes;
    uint32_t delay; /* remaining polls of the receiver */
};

struct ring_state {
    uint64_t posted, delivered, credit;
    bool credit_news; /* credit has grown, by the pair's data */
};

/* A link. Its status, text and counts of steps are the view of this process. */
struct gpuring_net_link {
    struct gpuring_net_base_link base;
    struct gpuring_net *net;
    struct gpuring_net_link *next; /* of the net */
    struct gpuring_net_link *peer; /* NULL: not connected, or closed there */
    uint64_t id;
    struct message *queue, **queue_end;
    struct ring_state ring[GPURING_PROTOCOL_COUNT];
    bool connected;
    int status; /* 0, or the error */
    bool error_news;
    char text[400];
};

struct gpuring_net {
    struct gpuring_net_base base;
    struct gpuring_net *next;
    struct gpuring_net_device device;
    struct gpuring_net_devices devices;
    struct gpuring_net_link *links;
    bool dead, stalled;
};

struct handle {
    uint64_t id;
};

static struct {
    pthread_mutex_t mutex;
    struct gpuring_net *nets;
    struct gpuring_mock_faults faults;
    uint64_t random, next_id;
    uint64_t posts, credits, creates, connects, violations;
} fabric = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* splitmix64, by its published recurrence: every seed gives a good sequence. */
static uint64_t next_random(void)
{
    uint64_t z = fabric.random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void link_fail(struct gpuring_net_link *link, int status, const char *why)
{
    if (link->status != GPURING_OK) {
        return;
    }
    link->status = status;
    link->error_news = true;
    snprintf(link->text, sizeof link->text, "mock connection from %s to %s, device %s: %s",
             link->net->base.host, link->base.peer_name, link->net->device.name, why);
}

static int mock_open(const struct gpuring_net_config *config, struct gpuring_net **result)
{
    struct gpuring_net *net = calloc(1, sizeof *net);

    if (net == NULL) {
        gpuring_error("out of memory for the mock network");
        return GPURING_ERR_NOMEM;
    }
    net->device = (struct gpuring_net_device){.name = "mock0", .port = 1};
    net->devices = (struct gpuring_net_devices){.device = &net->device, .count = 1};
    gpuring_net_base_init(&net->base, &gpuring_net_mock, config);
    pthread_mutex_lock(&fabric.mutex);
    net->next = fabric.nets;
    fabric.nets = net;
    pthread_mutex_unlock(&fabric.mutex);
    *result = net;
    return GPURING_OK;
}

static void mock_close(struct gpuring_net *net)
{
    struct gpuring_net **at = &fabric.nets;

    pthread_mutex_lock(&fabric.mutex);
    while (*at != net) {
        at = &(*at)->next;
    }
    *at = net->next;
    pthread_mutex_unlock(&fabric.mutex);
    gpuring_net_base_destroy(&net->base);
    free(net);
}

static const struct gpuring_net_devices *mock_devices(const struct gpuring_net *net)
{
    return &net->devices;
}

static int mock_link_create(struct gpuring_net *net, int device,
                            const struct gpuring_net_peer *peer,
                            enum gpuring_net_direction direction,
                            const struct gpuring_net_memory *memory,
                            struct gpuring_net_link **result)
{
    struct gpuring_net_link *link;
    bool fail;

    (void) peer;
    if (device != 0) {
        gpuring_error("the mock network has no device %d", device);
        return GPURING_ERR_ARG;
    }
    pthread_mutex_lock(&fabric.mutex);
    fail = ++fabric.creates == fabric.faults.fail_create;
    pthread_mutex_unlock(&fabric.mutex);
    link = fail ? NULL : calloc(1, sizeof *link);
    if (link == NULL) {
        gpuring_error("mock network on %s: cannot register memory", net->base.host);
        return GPURING_ERR_NOMEM;
    }
    link->net = net;
    link->queue_end = &link->queue;
    pthread_mutex_lock(&fabric.mutex);
    if (gpuring_net_base_add(&net->base, &link->base, direction, memory) != GPURING_OK) {
        abort();
    }
    link->id = ++fabric.next_id;
    link->next = net->links;
    net->links = link;
    pthread_mutex_unlock(&fabric.mutex);
    *result = link;
    return GPURING_OK;
}

static size_t mock_link_handle(const struct gpuring_net_link *link, void *handle)
{
    const struct handle mine = {.id = link->id};

    memcpy(handle, &mine, sizeof mine);
    return sizeof mine;
}

static struct gpuring_net_link *find_link(uint64_t id)
{
    for (struct gpuring_net *net = fabric.nets; net != NULL; net = net->next) {
        for (struct gpuring_net_link *link = net->links; link != NULL; link = link->next) {
            if (link->id == id) {
                return link;
            }
        }
    }
    return NULL;
}

static int mock_link_connect(struct gpuring_net_link *link, const void *process_handle,
                             size_t process_bytes, const void *bytes, size_t size,
                             const char *peer_name)
{
    struct gpuring_net_link *peer = NULL;
    struct handle handle;

    (void) process_handle;
    (void) process_bytes;
    pthread_mutex_lock(&fabric.mutex);
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "%s", peer_name);
    if (size == sizeof handle && ++fabric.connects != fabric.faults.fail_connect) {
        memcpy(&handle, bytes, sizeof handle);
        peer = find_link(handle.id);
    }
    if (peer != NULL && peer->base.direction != link->base.direction) {
        link->peer = peer;
        link->connected = true;
    }
    pthread_mutex_unlock(&fabric.mutex);
    if (link->peer == NULL) {
        gpuring_error("mock network: %s cannot connect to %s", link->net->base.host, peer_name);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Forget a link that is about to be freed, so that no pointer to it remains. Call with the mutex
 * held. */
static void forget_peer(const struct gpuring_net_link *gone)
{
    for (struct gpuring_net *net = fabric.nets; net != NULL; net = net->next) {
        for (struct gpuring_net_link *link = net->links; link != NULL; link = link->next) {
            if (link->peer == gone) {
                link->peer = NULL;
            }
        }
    }
}

static void mock_link_close(struct gpuring_net_link *link)
{
    struct gpuring_net_link **at;

    if (link == NULL) {
        return;
    }
    pthread_mutex_lock(&fabric.mutex);
    for (at = &link->net->links; *at != link; at = &(*at)->next) {
    }
    *at = link->next;
    forget_peer(link);
    gpuring_net_base_remove(&link->base);
    pthread_mutex_unlock(&fabric.mutex);
    while (link->queue != NULL) {
        struct message *message = link->queue;

        link->queue = message->next;
        free(message);
    }
    free(link);
}

static void mock_link_abort(struct gpuring_net_link *link, int status)
{
    char why[80];

    snprintf(why, sizeof why, "the peer gave up: %s", gpuring_status_text(status));
    pthread_mutex_lock(&fabric.mutex);
    if (link->peer != NULL && !link->net->dead) {
        link_fail(link->peer, GPURING_ERR_ABORTED, why);
    }
    pthread_mutex_unlock(&fabric.mutex);
}

/* Under the mutex: put a message into the peer's queue. Takes what mock_post checked. */
static int enqueue(struct gpuring_net_link *link, const struct message *content)
{
    struct message *message;

    if (next_random() % 1000 < fabric.faults.again_permille) {
        return GPURING_AGAIN;
    }
    message = malloc(sizeof *message);
    if (message == NULL) {
        return GPURING_AGAIN;
    }
    *message = *content;
    message->next = NULL;
    message->delay = fabric.faults.delay_polls > 0
                         ? (uint32_t) (next_random() % (fabric.faults.delay_polls + 1))
                         : 0;
    *link->peer->queue_end = message;
    link->peer->queue_end = &message->next;
    return GPURING_OK;
}

static struct gpuring_net_link *pair_of(const struct gpuring_net_link *link)
{
    return (struct gpuring_net_link *) link->base.pair;
}

static bool head_breaks_contract(const struct gpuring_net_link *pair,
                                 enum gpuring_protocol protocol, uint64_t head)
{
    return pair != NULL &&
           (head < pair->ring[protocol].credit || head > pair->ring[protocol].delivered);
}

static bool post_breaks_contract(const struct gpuring_net_link *link,
                                 enum gpuring_protocol protocol, uint64_t step, uint32_t bytes,
                                 uint64_t head)
{
    const struct gpuring_net_ring *ring = &link->base.count[protocol].memory;
    const struct ring_state *state = &link->ring[protocol];

    return head_breaks_contract(pair_of(link), protocol, head) ||
           link->base.direction != GPURING_NET_SEND || step != state->posted ||
           step - state->credit >= ring->nslots || bytes > ring->slot_bytes;
}

static int mock_post(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t step,
                     uint32_t bytes, bool more, uint64_t head)
{
    const struct message message = {
        .kind = MESSAGE_DATA, .protocol = protocol, .step = step, .head = head, .bytes = bytes};
    int status;

    (void) more;
    pthread_mutex_lock(&fabric.mutex);
    /* A process may still post messages until it learns that the link has failed. A dead net never
     * reports a failure. */
    if (link->status == GPURING_OK && post_breaks_contract(link, protocol, step, bytes, head)) {
        fabric.violations++;
        link_fail(link, GPURING_ERR_ARG, "a post that the contract forbids");
    } else if (link->peer == NULL) {
        link_fail(link, GPURING_ERR_PEER, "the peer has closed the connection");
    } else if (link->status == GPURING_OK && ++fabric.posts == fabric.faults.lose_post) {
        link_fail(link, GPURING_ERR_NET, "a chunk was lost");
        link_fail(link->peer, GPURING_ERR_NET, "a chunk was lost");
    }
    status = link->status != GPURING_OK ? link->status : enqueue(link, &message);
    if (status == GPURING_OK) {
        link->ring[protocol].posted++;
        if (link->base.pair != NULL) {
            pair_of(link)->ring[protocol].credit = head;
        }
    }
    pthread_mutex_unlock(&fabric.mutex);
    return status;
}

static int mock_credit(struct gpuring_net_link *link, enum gpuring_protocol protocol, uint64_t head)
{
    const struct message message = {.kind = MESSAGE_CREDIT, .protocol = protocol, .step = head};
    struct ring_state *state = &link->ring[protocol];
    int status;

    pthread_mutex_lock(&fabric.mutex);
    if (link->base.direction != GPURING_NET_RECV || head <= state->credit ||
        head > state->delivered) {
        fabric.violations++;
        link_fail(link, GPURING_ERR_ARG, "a credit that the contract forbids");
    }
    status = link->status;
    if (status == GPURING_OK && link->peer != NULL) { /* a closed sender needs none */
        status = enqueue(link, &message);
    }
    if (status == GPURING_OK) {
        state->credit = head;
        fabric.credits++;
    }
    pthread_mutex_unlock(&fabric.mutex);
    return status;
}

static void deliver_data(struct gpuring_net_link *link, const struct message *message)
{
    const struct gpuring_net_ring *to = &link->base.count[message->protocol].memory;
    const struct gpuring_net_ring *from = &link->peer->base.count[message->protocol].memory;
    struct ring_state *pair =
        link->base.pair != NULL ? &pair_of(link)->ring[message->protocol] : NULL;
    size_t bytes = message->bytes;

    memcpy(to->slots + message->step % to->nslots * to->slot_bytes,
           from->slots + message->step % from->nslots * from->slot_bytes, bytes);
    link->ring[message->protocol].delivered = message->step + 1;
    link->peer->ring[message->protocol].delivered = message->step + 1;
    to->tail->size[message->step % to->nslots] = message->bytes;
    gpuring_net_base_done(&link->base, message->protocol, message->step);
    if (pair != NULL && message->head > pair->credit) {
        pair->credit = message->head;
        pair->credit_news = true;
    }
}

static void deliver(struct gpuring_net_link *link, const struct message *message)
{
    uint64_t *credit = &link->ring[message->protocol].credit;

    if (message->kind == MESSAGE_DATA) {
        deliver_data(link, message);
        return;
    }
    /* A head in the data of the pair may have overtaken this credit. */
    *credit = message->step > *credit ? message->step : *credit;
    gpuring_net_base_credit(&link->base, message->protocol, *credit);
}

/* Deliver the messages of one link that are due. Messages of one protocol stay in order. */
static int poll_queue(struct gpuring_net_link *link)
{
    bool blocked[GPURING_PROTOCOL_COUNT] = {false};
    struct message **at = &link->queue;
    int count = 0;

    while (*at != NULL) {
        struct message *message = *at;

        if (message->delay > 0) {
            message->delay--;
            blocked[message->protocol] = true;
        }
        if (blocked[message->protocol] || (message->kind == MESSAGE_DATA && link->peer == NULL)) {
            at = &message->next;
            continue;
        }
        deliver(link, message);
        count++;
        *at = message->next;
        if (*at == NULL) {
            link->queue_end = at;
        }
        free(message);
    }
    return count;
}

/* Handle the events from other processes: credits and sends of all protocols, then the error.
 */
static int poll_news(struct gpuring_net_link *link)
{
    int count = 0;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        struct ring_state *ring = &link->ring[p];

        if (ring->credit_news) {
            gpuring_net_base_credit(&link->base, p, ring->credit);
            count++;
        }
        while (link->base.status == GPURING_OK && link->base.direction == GPURING_NET_SEND &&
               link->base.count[p].done < ring->delivered) {
            gpuring_net_base_done(&link->base, p, link->base.count[p].done);
            count++;
        }
        ring->credit_news = false;
    }
    if (link->error_news) {
        link->error_news = false;
        gpuring_net_base_fail(&link->base, link->status, "%s", link->text);
        count++;
    }
    return count;
}

static bool cut_off(const struct gpuring_net_link *link)
{
    return link->peer != NULL && (link->peer->net->stalled || link->peer->net->dead);
}

static int mock_poll(struct gpuring_net *net)
{
    int count = 0;

    pthread_mutex_lock(&fabric.mutex);
    for (struct gpuring_net_link *link = net->links; link != NULL; link = link->next) {
        if (net->dead || net->stalled || link->base.group == NULL) {
            continue;
        }
        if (link->connected && link->status == GPURING_OK && !cut_off(link)) {
            count += poll_queue(link);
        }
        count += poll_news(link);
    }
    pthread_mutex_unlock(&fabric.mutex);
    return count;
}

static int mock_quiet(struct gpuring_net *net)
{
    (void) net;
    return GPURING_OK; /* messages are with the fabric once they are posted */
}

static int mock_arm(struct gpuring_net *net, int *fd)
{
    (void) net;
    *fd = -1;
    return GPURING_OK;
}

void gpuring_mock_reset(const struct gpuring_mock_faults *faults)
{
    pthread_mutex_lock(&fabric.mutex);
    fabric.faults = *faults;
    fabric.random = faults->seed;
    fabric.posts = fabric.credits = fabric.creates = fabric.connects = fabric.violations = 0;
    pthread_mutex_unlock(&fabric.mutex);
}

void gpuring_mock_kill(struct gpuring_net *dying)
{
    pthread_mutex_lock(&fabric.mutex);
    dying->dead = true;
    for (struct gpuring_net_link *link = dying->links; link != NULL; link = link->next) {
        if (link->peer != NULL) {
            link_fail(link->peer, GPURING_ERR_PEER, "the peer process has died");
        }
    }
    pthread_mutex_unlock(&fabric.mutex);
}

void gpuring_mock_stall(struct gpuring_net *net, bool stalled)
{
    pthread_mutex_lock(&fabric.mutex);
    net->stalled = stalled;
    pthread_mutex_unlock(&fabric.mutex);
}

static uint64_t counted(const uint64_t *counter)
{
    uint64_t value;

    pthread_mutex_lock(&fabric.mutex);
    value = *counter;
    pthread_mutex_unlock(&fabric.mutex);
    return value;
}

uint64_t gpuring_mock_violations(void)
{
    return counted(&fabric.violations);
}

uint64_t gpuring_mock_credits(void)
{
    return counted(&fabric.credits);
}

const struct gpuring_net_ops gpuring_net_mock = {
    .name = "mock",
    .open = mock_open,
    .close = mock_close,
    .devices = mock_devices,
    .link_create = mock_link_create,
    .link_handle = mock_link_handle,
    .link_connect = mock_link_connect,
    .link_close = mock_link_close,
    .link_abort = mock_link_abort,
    .post = mock_post,
    .credit = mock_credit,
    .poll = mock_poll,
    .quiet = mock_quiet,
    .arm = mock_arm,
};
