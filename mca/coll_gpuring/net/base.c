/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/net/base.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_config *config)
{
    net->gate = config->gate;
    snprintf(net->host, sizeof net->host, "%s",
             config->local_host != NULL ? config->local_host : "this host");
}

void gpuring_net_base_destroy(struct gpuring_net_base *net)
{
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
    if (link->pair != NULL) {
        link->pair->pair = NULL;
    }
}

void gpuring_net_base_pair(struct gpuring_net_link *send_link,
                           struct gpuring_net_link *receive_link)
{
    struct gpuring_net_base_link *send = (struct gpuring_net_base_link *) send_link;
    struct gpuring_net_base_link *receive = (struct gpuring_net_base_link *) receive_link;

    send->pair = receive;
    receive->pair = send;
}

void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head)
{
    if (head > link->count[protocol].credit && link->conn != NULL) {
        link->count[protocol].credit = head;
        link->net->events++;
        gpuring_proxy_credited(link->conn, protocol, head);
    }
}

static void arrived(const struct gpuring_net_base_link *link, unsigned protocol, uint64_t step)
{
    const struct gpuring_net_count *count = &link->count[protocol];

    if (link->conn != NULL && link->direction == GPURING_NET_RECV) {
        gpuring_proxy_arrived(link->conn, protocol, step, count->size[step % count->memory.nslots]);
    }
}

void gpuring_net_base_done(struct gpuring_net_base_link *link, unsigned protocol, uint64_t step)
{
    struct gpuring_net_count *count = &link->count[protocol];

    if (step < count->done) {
        return;
    }
    count->early |= UINT64_C(1) << (step % 64);
    while ((count->early >> (count->done % 64) & 1) != 0) {
        count->early &= ~(UINT64_C(1) << (count->done % 64));
        arrived(link, protocol, count->done++);
    }
    if (link->conn != NULL && link->direction == GPURING_NET_SEND) {
        gpuring_proxy_sent(link->conn, protocol, count->done);
    }
    link->net->events++;
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
    if (link->conn != NULL) {
        gpuring_proxy_failed(link->conn, status, link->text);
    }
}

void gpuring_net_base_attach(struct gpuring_net_link *of, struct gpuring_proxy_conn *conn)
{
    struct gpuring_net_base_link *link = (struct gpuring_net_base_link *) of;

    link->conn = conn;
    if (conn == NULL) {
        return;
    }
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) { /* what came before */
        for (uint64_t step = 0; step < link->count[p].done; step++) {
            arrived(link, p, step);
        }
    }
    if (link->status != GPURING_OK) {
        gpuring_proxy_failed(conn, link->status, link->text);
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
        /* dlsym's pointer is a function's; copying its bytes is how POSIX reads it. */
        memcpy((char *) table + symbols[i].offset, &function, sizeof function);
    }
    return GPURING_OK;
}
