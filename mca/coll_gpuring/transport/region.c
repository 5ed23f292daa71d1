/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Freeing a peer region. The driver does not specify what happens to device memory that is freed
 * while other processes have it mapped, and ranks free a communicator at different times. Therefore
 * importers count themselves on the exporter's status page. Memory that is still mapped is kept in
 * a list together with that page. The list is checked whenever a transport is created or destroyed,
 * and at the end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/list.h"

struct kept {
    struct gpuring_list node;
    const struct gpuring_device_ops *ops;
    struct gpuring_device *device;
    void *region;
    struct gpuring_device *host; /* device of the page only */
    struct gpuring_status_page *page;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct gpuring_list all = GPURING_LIST_INIT(all);

void gpuring_region_mapped(struct gpuring_status_page *page, int change)
{
    /* This release orders closing the mapping before the count. It pairs with still_mapped. */
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

/* Remove and return a region that no peer has mapped; NULL: there is none. */
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
    long naps = (long) milliseconds * (1000000L / GPURING_NAP_NS);
    struct kept *kept;

    gpuring_linger_finish();
    gpuring_region_look();
    for (; !gpuring_list_empty(&all) && naps > 0; naps--) {
        (void) nanosleep(&(struct timespec){.tv_nsec = GPURING_NAP_NS}, NULL);
        gpuring_region_look();
    }
    /* The importing process has died or hangs. The end of this process frees the memory. */
    while ((kept = GPURING_LIST_FIRST(&all, struct kept, node)) != NULL) {
        gpuring_list_remove(&kept->node);
        free_page(kept);
    }
}
