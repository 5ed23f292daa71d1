/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What the nets and the proxy have in common: a link's counts of steps, and a table of links by id.
 * A net's own struct gpuring_net and struct gpuring_net_link begin with the structs here. The nets
 * report by done, credit and fail what happens; what lanes are to know of it is in their counters
 * at once. All functions are called under the gate, but init, destroy and load.
 */
#ifndef GPURING_NET_BASE_H
#define GPURING_NET_BASE_H

#include "mca/coll_gpuring/net/gate.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/list.h"

/* Counts of steps; all only grow. Sending: done <= posted <= credit + nslots, posted <= the lane's
 * tail. */
struct gpuring_net_count {
    struct gpuring_net_ring memory;
    uint64_t posted;   /* sending: given to the net by the proxy */
    uint64_t done;     /* sending: before it, slots are no longer read; receiving: have arrived */
    uint64_t credit;   /* sending: the peer's head; receiving: what was returned of ours */
    uint64_t returned; /* sending: credit of the pair that the link had; see below */
    uint64_t early;    /* bits step % 64: done before one that comes earlier */
};

struct gpuring_net_base_link {
    struct gpuring_net_base *net;
    uint64_t id; /* never used twice in a process; low 32 bits: index in the table */
    enum gpuring_net_direction direction;
    struct gpuring_net_count count[GPURING_PROTOCOL_COUNT];
    int status; /* 0, or why it failed */
    char peer_name[128];
    char text[640];
    /* From gpuring_proxy_add to _remove: */
    struct gpuring_list node;
    struct gpuring_proxy_group *group;  /* NULL: the proxy does not have the link */
    struct gpuring_net_base_link *pair; /* see gpuring_proxy_pair; NULL: none */
    int *failed; /* the owner's copy of status, stored with release after `text` */
};

struct gpuring_net_base {
    const struct gpuring_net_ops *ops;
    struct gpuring_gate *gate;
    char host[64];
    struct gpuring_net_base_link **links; /* NULL: free entry */
    uint32_t nlinks;
    uint64_t created; /* links so far: high 32 bits of the next id */
    int events;       /* since the last poll */
};

/* The links are all gone before destroy. */
void gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_ops *ops,
                           const struct gpuring_net_config *config);
void gpuring_net_base_destroy(struct gpuring_net_base *net);

/* Give the link an id and an entry in the table. 0 or GPURING_ERR_NOMEM. */
int gpuring_net_base_add(struct gpuring_net_base *net, struct gpuring_net_base_link *link,
                         enum gpuring_net_direction direction,
                         const struct gpuring_net_memory *memory);
void gpuring_net_base_remove(struct gpuring_net_base_link *link);

/* The link of an id or at an index; NULL if it is gone. */
struct gpuring_net_base_link *gpuring_net_base_find(const struct gpuring_net_base *net,
                                                    uint64_t id);
struct gpuring_net_base_link *gpuring_net_base_at(const struct gpuring_net_base *net,
                                                  uint32_t index);

/* Each link of the net, in the body of a loop; net and link are a net's own structures. */
#define GPURING_NET_EACH_LINK(net, link)                          \
    for (uint32_t each_ = 0; each_ < (net)->base.nlinks; each_++) \
        if (((link) = (struct gpuring_net_link *) (net)->base.links[each_]) != NULL)

/* The peer of a sending link has consumed all before `head`; nothing if more is known. */
void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head);

/* How far what comes on the link's pair is known to be given back: by the pair, or when that was
 * removed; 0 if there was none. */
static inline uint64_t gpuring_net_base_returned(const struct gpuring_net_base_link *link,
                                                 unsigned protocol)
{
    return link->pair != NULL ? link->pair->count[protocol].credit : link->count[protocol].returned;
}

/* The slot of this step has left, or has arrived and can be seen, with its size in the tail. Steps
 * may come out of turn; fewer than 64 are under way. */
void gpuring_net_base_done(struct gpuring_net_base_link *link, unsigned protocol, uint64_t step);

/* The link is dead, for the first reason given: what stands in `text`. */
void gpuring_net_base_fail(struct gpuring_net_base_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For a net's poll: how much has happened since the last one. */
int gpuring_net_base_events(struct gpuring_net_base *net);

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

#endif
