/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the nets have in common: a table of links by id, the counts of steps of a link, and the turn
 * of counts into events. A net's own struct gpuring_net and struct gpuring_net_link begin with the
 * structs here. Everything is guarded by the gate of the net unless it says otherwise.
 */
#ifndef GPURING_NET_BASE_H
#define GPURING_NET_BASE_H

#include "mca/coll_gpuring/net/gate.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/list.h"

/* Counts of steps: what has happened, and how much of it the proxy was told. */
struct gpuring_net_count {
    struct gpuring_net_ring memory;
    uint64_t done, done_told; /* slots before `done` are no longer read; receiving: have arrived */
    uint64_t credit, credit_told;          /* sending: the peer's head */
    uint64_t early;                        /* bits step % 64: done before one that comes earlier */
    uint32_t size[GPURING_FIFO_MAX_SLOTS]; /* bytes of what has arrived */
};

struct gpuring_net_base_link {
    struct gpuring_net_base *net;
    void *user;
    uint64_t id; /* never used twice in a process; low 32 bits: place in the table */
    enum gpuring_net_direction direction;
    struct gpuring_net_count count[GPURING_PROTOCOL_COUNT];
    struct gpuring_net_base_link *pair; /* see net.h; NULL: none */
    int status;
    bool error_told;
    struct gpuring_list news; /* in the net's list, while it has events */
    char peer_name[128];
    char text[640];
};

struct gpuring_net_base {
    struct gpuring_gate gate;
    char host[64];
    struct gpuring_net_base_link **links; /* NULL: free place */
    uint32_t nlinks;
    uint64_t created; /* links so far: high 32 bits of the next id */
    struct gpuring_list news;
};

/* Without the gate: the life of the base. The links are all gone before destroy. */
int gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_config *config);
void gpuring_net_base_destroy(struct gpuring_net_base *net);

/* Give the link an id and a place. 0 or GPURING_ERR_NOMEM. */
int gpuring_net_base_add(struct gpuring_net_base *net, struct gpuring_net_base_link *link,
                         enum gpuring_net_direction direction,
                         const struct gpuring_net_memory *memory);
void gpuring_net_base_remove(struct gpuring_net_base_link *link);

/* The link of an id or of a place; NULL if it is gone. */
struct gpuring_net_base_link *gpuring_net_base_find(const struct gpuring_net_base *net,
                                                    uint64_t id);
struct gpuring_net_base_link *gpuring_net_base_at(const struct gpuring_net_base *net,
                                                  uint32_t place);

/* Each link of the net, in the body of a loop; net and link are a net's own structures. */
#define GPURING_NET_EACH_LINK(net, link)                          \
    for (uint32_t each_ = 0; each_ < (net)->base.nlinks; each_++) \
        if (((link) = (struct gpuring_net_link *) (net)->base.links[each_]) != NULL)

/* The peer of a sending link has consumed all before `head`. Older news than others is none. */
void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head);

/* The link has events. */
void gpuring_net_base_news(struct gpuring_net_base_link *link);

/* The slot of this step has left, or has arrived and can be seen. Steps may come out of turn; fewer
 * than 64 are under way. */
static inline void gpuring_net_base_done(struct gpuring_net_base_link *link, unsigned protocol,
                                         uint64_t step)
{
    struct gpuring_net_count *count = &link->count[protocol];

    if (step >= count->done) {
        count->early |= UINT64_C(1) << (step % 64);
        while ((count->early >> (count->done % 64) & 1) != 0) {
            count->early &= ~(UINT64_C(1) << (count->done % 64));
            count->done++;
        }
    }
    gpuring_net_base_news(link);
}

/* The link is dead, for the first reason given: what stands in `text`. */
void gpuring_net_base_fail(struct gpuring_net_base_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Events of all links that have some; what does not fit keeps its place. Returns how many. */
int gpuring_net_base_events(struct gpuring_net_base *net, struct gpuring_net_event *events,
                            int max);

/* A function of a library that is loaded at run time. */
struct gpuring_net_symbol {
    const char *name;
    size_t offset; /* of its pointer in the table */
    bool optional; /* NULL if the library is too old for it */
};

/*
 * Load a library, for good since others may use it too, and its functions into `table`: so the
 * component loads where the library is not installed. 0, or GPURING_ERR_UNSUPPORTED and in `why`
 * what is missing.
 */
int gpuring_net_load(const char *library, const struct gpuring_net_symbol *symbols, size_t count,
                     void *table, char *why, size_t size);

/* For the ops table; these take the gate. */
void gpuring_net_base_pair(struct gpuring_net_link *send, struct gpuring_net_link *receive);
void gpuring_net_base_set_user(struct gpuring_net_link *link, void *user);
void *gpuring_net_base_user(const struct gpuring_net_link *link); /* without the gate */

#endif
