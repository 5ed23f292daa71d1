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

int gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_config *config)
{
    gpuring_list_init(&net->news);
    snprintf(net->host, sizeof net->host, "%s",
             config->local_host != NULL ? config->local_host : "this host");
    return gpuring_gate_init(&net->gate) == 0 ? GPURING_OK : GPURING_ERR_NOMEM;
}

void gpuring_net_base_destroy(struct gpuring_net_base *net)
{
    gpuring_gate_destroy(&net->gate);
    free(net->links);
}

static int table_grow(struct gpuring_net_base *net)
{
    uint32_t count = net->nlinks > 0 ? net->nlinks * 2 : 16;
    struct gpuring_net_base_link **links = realloc(net->links, count * sizeof(*links));

    if (links == NULL) {
        gpuring_error("out of memory for network connections");
        return GPURING_ERR_NOMEM;
    }
    memset(links + net->nlinks, 0, (count - net->nlinks) * sizeof(*links));
    net->links = links;
    net->nlinks = count;
    return GPURING_OK;
}

int gpuring_net_base_add(struct gpuring_net_base *net, struct gpuring_net_base_link *link,
                         enum gpuring_net_direction direction,
                         const struct gpuring_net_memory *memory)
{
    uint32_t i = 0;
    int status;

    while (i < net->nlinks && net->links[i] != NULL) {
        i++;
    }
    if (i == net->nlinks) {
        status = table_grow(net);
        if (status != GPURING_OK) {
            return status;
        }
    }
    net->links[i] = link;
    link->id = ++net->created << 32 | i;
    link->net = net;
    link->direction = direction;
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        link->count[p].memory = memory->ring[p];
    }
    return GPURING_OK;
}

struct gpuring_net_base_link *gpuring_net_base_at(const struct gpuring_net_base *net,
                                                  uint32_t place)
{
    return place < net->nlinks ? net->links[place] : NULL;
}

struct gpuring_net_base_link *gpuring_net_base_find(const struct gpuring_net_base *net, uint64_t id)
{
    struct gpuring_net_base_link *link = gpuring_net_base_at(net, (uint32_t) id);

    return link != NULL && link->id == id ? link : NULL;
}

void gpuring_net_base_remove(struct gpuring_net_base_link *link)
{
    link->net->links[(uint32_t) link->id] = NULL;
    if (link->pair != NULL) {
        link->pair->pair = NULL;
    }
    gpuring_list_remove(&link->news);
}

void gpuring_net_base_news(struct gpuring_net_base_link *link)
{
    if (!gpuring_list_linked(&link->news)) {
        gpuring_list_append(&link->net->news, &link->news);
    }
}

void gpuring_net_base_pair(struct gpuring_net_link *send_link,
                           struct gpuring_net_link *receive_link)
{
    struct gpuring_net_base_link *send = (struct gpuring_net_base_link *) send_link;
    struct gpuring_net_base_link *receive = (struct gpuring_net_base_link *) receive_link;

    gpuring_gate_enter(&send->net->gate);
    send->pair = receive;
    receive->pair = send;
    gpuring_gate_leave(&send->net->gate);
}

void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head)
{
    if (head > link->count[protocol].credit && link->status == GPURING_OK) {
        link->count[protocol].credit = head;
        gpuring_net_base_news(link);
    }
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
    gpuring_net_base_news(link);
}

static int count_events(struct gpuring_net_base_link *link, enum gpuring_protocol protocol,
                        struct gpuring_net_event *events, int max)
{
    struct gpuring_net_count *count = &link->count[protocol];
    struct gpuring_net_event event = {.link = (struct gpuring_net_link *) link,
                                      .protocol = protocol};
    int n = 0;

    if (link->direction == GPURING_NET_RECV) {
        while (n < max && count->done_told < count->done) {
            event.kind = GPURING_NET_RECEIVED;
            event.step = count->done_told++;
            event.bytes = count->size[event.step % count->memory.nslots];
            events[n++] = event;
        }
        return n;
    }
    if (n < max && count->done_told < count->done) {
        count->done_told = count->done;
        event.kind = GPURING_NET_SENT;
        event.step = count->done - 1;
        events[n++] = event;
    }
    if (n < max && count->credit_told < count->credit) {
        count->credit_told = count->credit;
        event.kind = GPURING_NET_CREDIT;
        event.step = count->credit;
        events[n++] = event;
    }
    return n;
}

static int link_events(struct gpuring_net_base_link *link, struct gpuring_net_event *events,
                       int max)
{
    int n = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT && n < max; p++) {
        n += count_events(link, (enum gpuring_protocol) p, events + n, max - n);
    }
    if (link->status != GPURING_OK && !link->error_told && n < max) {
        link->error_told = true;
        events[n++] = (struct gpuring_net_event){.kind = GPURING_NET_ERROR,
                                                 .link = (struct gpuring_net_link *) link,
                                                 .status = link->status,
                                                 .text = link->text};
    }
    return n;
}

int gpuring_net_base_events(struct gpuring_net_base *net, struct gpuring_net_event *events, int max)
{
    struct gpuring_net_base_link *link;
    int n = 0;

    while (n < max &&
           (link = GPURING_LIST_FIRST(&net->news, struct gpuring_net_base_link, news)) != NULL) {
        gpuring_list_remove(&link->news);
        if (link->user == NULL) {
            continue; /* set_user puts it here again */
        }
        n += link_events(link, events + n, max - n);
        if (n == max) {
            gpuring_net_base_news(link); /* there may be more */
        }
    }
    return n;
}

void *gpuring_net_base_user(const struct gpuring_net_link *link)
{
    return ((const struct gpuring_net_base_link *) link)->user;
}

void gpuring_net_base_set_user(struct gpuring_net_link *of, void *user)
{
    struct gpuring_net_base_link *link = (struct gpuring_net_base_link *) of;

    gpuring_gate_enter(&link->net->gate);
    link->user = user;
    if (user != NULL) {
        gpuring_net_base_news(link); /* what came before anybody asked */
    }
    gpuring_gate_leave(&link->net->gate);
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
        /* dlsym's pointer is a function's; copying its bytes is how POSIX reads it. */
        memcpy((char *) table + symbols[i].offset, &function, sizeof function);
    }
    return GPURING_OK;
}
