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

#include "mca/coll_gpuring/transport/internal.h"

#define NAP_NS 100000L

struct kept {
    const struct gpuring_device_ops *ops;
    struct gpuring_device *device;
    void *region;
    struct gpuring_device *host; /* of the page, for it alone */
    struct gpuring_status_page *page;
    struct kept *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct kept *all;

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
        kept->next = all;
        all = kept;
        pthread_mutex_unlock(&lock);
        transport->page = NULL;
        transport->own_host = false;
    }
    transport->region = NULL;
}

static void give_back(struct kept *kept)
{
    kept->ops->free(kept->device, kept->region);
    gpuring_device_host.free(kept->host, kept->page);
    gpuring_device_host.close(kept->host);
    free(kept);
}

void gpuring_region_look(void)
{
    struct kept **link = &all, *unmapped = NULL;

    pthread_mutex_lock(&lock);
    while (*link != NULL) {
        struct kept *kept = *link;

        if (still_mapped(kept->page)) {
            link = &kept->next;
        } else {
            *link = kept->next;
            kept->next = unmapped;
            unmapped = kept;
        }
    }
    pthread_mutex_unlock(&lock);
    while (unmapped != NULL) {
        struct kept *next = unmapped->next;

        give_back(unmapped);
        unmapped = next;
    }
}

void gpuring_transport_finish(unsigned int milliseconds)
{
    long naps = (long) milliseconds * (1000000L / NAP_NS);

    gpuring_region_look();
    for (; all != NULL && naps > 0; naps--) {
        (void) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        gpuring_region_look();
    }
    while (all != NULL) { /* a process died with it, or hangs: the end of this one frees it */
        struct kept *kept = all;

        all = kept->next;
        gpuring_device_host.free(kept->host, kept->page);
        gpuring_device_host.close(kept->host);
        free(kept);
    }
}
