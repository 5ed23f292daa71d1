/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The end of a peer region. A driver does not say what becomes of device memory that is freed while
 * other processes have it mapped, and ranks free a communicator when they like. So importers count
 * themselves on the exporter's status page, and memory that is still mapped is kept in a list, with
 * that page, until it is not: looked at whenever a transport comes or goes, and at the end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/list.h"

#define NAP_NS 100000L

struct kept {
    struct gpuring_list node;
    const struct gpuring_device_ops *ops;
    struct gpuring_device *device;
    void *region;
    struct gpuring_device *host; /* of the page, for it alone */
    struct gpuring_status_page *page;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct gpuring_list all = GPURING_LIST_INIT(all);

void gpuring_region_mapped(struct gpuring_status_page *page, int change)
{
    /* Release: the mapping is closed before the exporter sees it so; partner: still_mapped. */
    (void) __atomic_add_fetch(&page->mappings, (uint32_t) change, __ATOMIC_ACQ_REL);
}

static bool still_mapped(const struct gpuring_status_page *page)
{
    return __atomic_load_n(&page->mappings, __ATOMIC_ACQUIRE) != 0;
}

void gpuring_region_give_back(struct gpuring_transport *transport)
{
    const struct gpuring_transport_config *config = &transport->config;
    struct kept *kept = NULL;

    if (transport->region == NULL) {
        return;
    }
    if (transport->own_host && transport->page != NULL && still_mapped(transport->page)) {
        kept = malloc(sizeof *kept);
    }
    if (kept == NULL) {
        config->device_ops->free(config->device, transport->region);
    } else {
        *kept = (struct kept){.ops = config->device_ops,
                              .device = config->device,
                              .region = transport->region,
                              .host = transport->host,
                              .page = transport->page};
        pthread_mutex_lock(&lock);
        gpuring_list_append(&all, &kept->node);
        pthread_mutex_unlock(&lock);
        transport->page = NULL;
        transport->own_host = false;
    }
}

/* The next one that no peer has mapped; NULL: there is none. */
static struct kept *take_unmapped(void)
{
    struct kept *kept, *found = NULL;

    pthread_mutex_lock(&lock);
    GPURING_LIST_EACH(kept, &all, struct kept, node)
    {
        if (!still_mapped(kept->page)) {
            found = kept;
            break;
        }
    }
    if (found != NULL) {
        gpuring_list_remove(&found->node);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void free_page(struct kept *kept)
{
    gpuring_device_host.free(kept->host, kept->page);
    gpuring_device_host.close(kept->host);
    free(kept);
}

void gpuring_region_look(void)
{
    struct kept *kept;

    while ((kept = take_unmapped()) != NULL) {
        kept->ops->free(kept->device, kept->region);
        free_page(kept);
    }
}

void gpuring_transport_finish(unsigned int milliseconds)
{
    long naps = (long) milliseconds * (1000000L / NAP_NS);
    struct kept *kept;

    gpuring_region_look();
    for (; !gpuring_list_empty(&all) && naps > 0; naps--) {
        (void) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        gpuring_region_look();
    }
    /* A process died with it, or hangs: the end of this one frees it. */
    while ((kept = GPURING_LIST_FIRST(&all, struct kept, node)) != NULL) {
        gpuring_list_remove(&kept->node);
        free_page(kept);
    }
}
