/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/base.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_ops *ops,
                           const struct gpuring_net_config *config)
{
    net->ops = ops;
    net->gate = config->gate;
    snprintf(net->host, sizeof net->host, "%s",
             config->local_host != NULL ? config->local_host : "this host");
}

void gpuring_net_base_destroy(struct gpuring_net_base *net)
{
    free(net->links);
}

void *gpuring_net_grow(void *table, uint32_t *count, uint32_t first)
{
    uint32_t grown_count = *count > 0 ? *count * 2 : first;
    void **grown = realloc(table, grown_count * sizeof(*grown));

    if (grown == NULL) {
        gpuring_error("out of memory for network connections");
        return NULL;
    }
    memset(grown + *count, 0, (grown_count - *count) * sizeof(*grown));
    *count = grown_count;
    return grown;
}

int gpuring_net_base_add(struct gpuring_net_base *net, struct gpuring_net_base_link *link,
                         enum gpuring_net_direction direction,
                         const struct gpuring_net_memory *memory)
{
    uint32_t i = 0;

    while (i < net->nlinks && net->links[i] != NULL) {
        i++;
    }
    if (i == net->nlinks) {
        struct gpuring_net_base_link **links = gpuring_net_grow(net->links, &net->nlinks, 16);

        if (links == NULL) {
            return GPURING_ERR_NOMEM;
        }
        net->links = links;
    }
    net->links[i] = link;
    link->id = ++net->created << 32 | i;
    link->net = net;
    link->direction = direction;
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        link->count[p].memory = memory->ring[p];
        link->count[p].window = memory->ring[p].nslots;
    }
    return GPURING_OK;
}

struct gpuring_net_base_link *gpuring_net_base_at(const struct gpuring_net_base *net,
                                                  uint32_t index)
{
    return index < net->nlinks ? net->links[index] : NULL;
}

struct gpuring_net_base_link *gpuring_net_base_find(const struct gpuring_net_base *net, uint64_t id)
{
    struct gpuring_net_base_link *link = gpuring_net_base_at(net, (uint32_t) id);

    return link != NULL && link->id == id ? link : NULL;
}

void gpuring_net_base_remove(struct gpuring_net_base_link *link)
{
    link->net->links[(uint32_t) link->id] = NULL;
}

void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head)
{
    struct gpuring_net_count *count = &link->count[protocol];

    if (head > count->posted) {
        gpuring_net_base_fail(link, GPURING_ERR_NET, "the network delivered an impossible credit");
    } else if (head > count->credit) {
        count->credit = head;
        link->net->events++;
    }
}

/* Count an event of the link's group. The gate makes this the only thread that stores. */
static void count_traffic(const struct gpuring_net_base_link *link, bool awaited)
{
    struct gpuring_net_traffic *traffic = link->traffic;

    if (traffic != NULL) {
        __atomic_store_n(&traffic->moved, traffic->moved + 1, __ATOMIC_RELAXED);
        /* Partner: the load in gpuring_proxy_help. */
        __atomic_store_n(&traffic->wakes, traffic->wakes + awaited, __ATOMIC_RELEASE);
    }
}

/* Return true if a lane may wait for the next step: for its arrival, or for its slot. */
static bool is_awaited(const struct gpuring_net_base_link *link,
                       const struct gpuring_net_count *count)
{
    /* Relaxed, without a partner: a lane that stores its tail at this moment is run again later
     * (engine/operation.c). */
    return link->direction == GPURING_NET_RECV ||
           __atomic_load_n(&count->memory.tail->tail, __ATOMIC_RELAXED) - count->done >=
               count->memory.nslots;
}

void gpuring_net_base_done(struct gpuring_net_base_link *link, unsigned protocol, uint64_t step)
{
    struct gpuring_net_count *count = &link->count[protocol];
    bool awaited;

    if (step < count->done || link->status != GPURING_OK) {
        return;
    }
    awaited = is_awaited(link, count);
    count->early |= UINT64_C(1) << (step % 64);
    while ((count->early >> (count->done % 64) & 1) != 0) {
        count->early &= ~(UINT64_C(1) << (count->done++ % 64));
    }
    if (link->direction == GPURING_NET_SEND) {
        /* Partner: the lane's acquire load of head, before it writes the slot again. */
        __atomic_store_n(&count->memory.head->head, count->done, __ATOMIC_RELEASE);
    } else {
        /* Partner: the lane's acquire load of tail, before it reads size and slot. */
        __atomic_store_n(&count->memory.tail->tail, count->done, __ATOMIC_RELEASE);
    }
    link->net->events++;
    count_traffic(link, awaited);
}

void gpuring_net_base_fail(struct gpuring_net_base_link *link, int status, const char *format, ...)
{
    va_list arguments;

    if (link->status != GPURING_OK) {
        return;
    }
    link->status = status;
    va_start(arguments, format);
    vsnprintf(link->text, sizeof link->text, format, arguments);
    va_end(arguments);
    link->net->events++;
    count_traffic(link, true);
    if (link->failed != NULL) {
        /* Partner: the acquire load of `failed` by the owner, which then reads the text. */
        __atomic_store_n(link->failed, status, __ATOMIC_RELEASE);
    }
}

int gpuring_net_base_events(struct gpuring_net_base *net)
{
    int events = net->events;

    net->events = 0;
    return events;
}

int gpuring_net_load(const char *library_name, const struct gpuring_net_symbol *symbols,
                     size_t count, void *table, char *why, size_t size)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        snprintf(why, size, "%s", dlerror());
        return GPURING_ERR_UNSUPPORTED;
    }
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, symbols[i].name);

        if (function == NULL && !symbols[i].optional) {
            snprintf(why, size, "%s lacks %s", library_name, symbols[i].name);
            return GPURING_ERR_UNSUPPORTED;
        }
        /* dlsym returns an object pointer. POSIX converts it to a function pointer by its bytes. */
        memcpy((char *) table + symbols[i].offset, &function, sizeof function);
    }
    return GPURING_OK;
}
