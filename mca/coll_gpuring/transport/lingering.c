/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Links whose peers have not closed their ends yet. With the net verbs, the links of all
 * communicators of two processes share queue pairs, so closing a link does not stop the peer, which
 * may close its end much later. The link and its memory are kept until then. The list is checked
 * whenever a transport is created or destroyed, like the regions that peers have mapped (region.c).
 * If a peer dies, the check also makes the net find out (link_holds).
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/list.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

struct gpuring_lingering {
    struct gpuring_list node;
    const struct gpuring_net_ops *net_ops;
    const struct gpuring_device_ops *device_ops;
    struct gpuring_device *device;
    void *region, *direct;
    uint32_t nlinks; /* 0: they are closed */
    struct gpuring_net_link *link[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct gpuring_list all = GPURING_LIST_INIT(all);

int gpuring_linger_prepare(struct gpuring_transport *transport)
{
    transport->lingering = malloc(sizeof *transport->lingering +
                                  transport->nconns * sizeof(struct gpuring_net_link *));
    if (transport->lingering == NULL) {
        gpuring_error("out of memory for a transport");
        return GPURING_ERR_NOMEM;
    }
    return GPURING_OK;
}

void gpuring_linger_add(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct gpuring_lingering *added = transport->lingering;

    *added = (struct gpuring_lingering){.net_ops = config->net_ops,
                                        .device_ops = config->device_ops,
                                        .device = config->device,
                                        .region = transport->net_region,
                                        .direct = transport->direct_region};
    for (uint32_t i = 0; i < transport->nconns; i++) {
        if (transport->conns[i].link != NULL) {
            added->link[added->nlinks++] = transport->conns[i].link;
        }
        transport->conns[i].link = NULL;
        transport->conns[i].failed = GPURING_OK;
    }
    transport->lingering = NULL;
    transport->net_region = transport->direct_region = NULL;
    pthread_mutex_lock(&lock);
    gpuring_list_append(&all, &added->node);
    pthread_mutex_unlock(&lock);
}

/* Return true if the net holds a link. All links are queried, so that all of them leave. */
static bool holds(const struct gpuring_lingering *lingering)
{
    bool held = false;

    for (uint32_t i = 0; i < lingering->nlinks; i++) {
        held = lingering->net_ops->link_holds(lingering->link[i]) || held;
    }
    return held;
}

static void close_links(struct gpuring_lingering *lingering)
{
    while (lingering->nlinks > 0) {
        lingering->net_ops->link_close(lingering->link[--lingering->nlinks]);
    }
}

static void release(struct gpuring_lingering *lingering)
{
    if (lingering->direct != NULL) {
        lingering->device_ops->free(lingering->device, lingering->direct);
    }
    if (lingering->region != NULL) {
        lingering->device_ops->free_pinned(lingering->device, lingering->region);
    }
    free(lingering);
}

/* Move the entries that the net does not hold to another list. Returns true if none is left. */
static bool take_free(struct gpuring_list *taken)
{
    struct gpuring_list *next;
    bool none;

    pthread_mutex_lock(&lock);
    for (struct gpuring_list *node = all.next; node != &all; node = next) {
        next = node->next;
        if (!holds(GPURING_LIST_ENTRY(node, struct gpuring_lingering, node))) {
            gpuring_list_remove(node);
            gpuring_list_append(taken, node);
        }
    }
    none = gpuring_list_empty(&all);
    pthread_mutex_unlock(&lock);
    return none;
}

bool gpuring_linger_look(void)
{
    struct gpuring_list taken = GPURING_LIST_INIT(taken);
    struct gpuring_lingering *lingering;
    bool none = take_free(&taken);

    while ((lingering = GPURING_LIST_FIRST(&taken, struct gpuring_lingering, node)) != NULL) {
        gpuring_list_remove(&lingering->node);
        close_links(lingering);
        release(lingering);
    }
    return none;
}

void gpuring_transport_unlink(unsigned int milliseconds)
{
    long naps = (long) milliseconds * (1000000L / GPURING_NAP_NS);
    struct gpuring_lingering *lingering;

    while (!gpuring_linger_look() && naps-- > 0) {
        (void) nanosleep(&(struct timespec){.tv_nsec = GPURING_NAP_NS}, NULL);
    }
    GPURING_LIST_EACH(lingering, &all, struct gpuring_lingering, node)
    {
        close_links(lingering);
    }
}

void gpuring_linger_finish(void)
{
    struct gpuring_lingering *lingering;

    while ((lingering = GPURING_LIST_FIRST(&all, struct gpuring_lingering, node)) != NULL) {
        gpuring_list_remove(&lingering->node);
        if (lingering->nlinks == 0) { /* otherwise the net is open, because its thread hangs */
            release(lingering);
        }
    }
}
