/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Common parts of the nets and the proxy: the counts of steps of a link, and a table of links by
 * id. A net's own struct gpuring_net and struct gpuring_net_link begin with the structs here. Nets
 * report events with the functions done, credit and fail, which immediately update the counters
 * that lanes read. All functions except init, destroy and load are called under the gate.
 */
#ifndef GPURING_NET_BASE_H
#define GPURING_NET_BASE_H

#include "mca/coll_gpuring/net/gate.h"
#include "mca/coll_gpuring/net/net.h"
#include "mca/coll_gpuring/util/list.h"

/* Counts of steps, which only grow. On a sending link, done <= posted <= credit + window, and
 * posted <= the lane's tail. */
struct gpuring_net_count {
    struct gpuring_net_ring memory;
    uint32_t window;   /* steps that may be posted beyond the peer's head: nslots, unless the net
                          can store more at the peer */
    uint64_t posted;   /* sending: steps that the proxy has posted to the net */
    uint64_t done;     /* sending: the net no longer reads the slots before it; receiving: slots
                          before it have arrived */
    uint64_t credit;   /* sending: the peer's head; receiving: the head that was last returned to
                          the peer */
    uint64_t returned; /* sending: credit of the pair that the link had; see below */
    uint64_t early;    /* bits step % 64: steps done out of order */
};

struct gpuring_net_base_link {
    struct gpuring_net_base *net;
    uint64_t id; /* never used twice in a process; low 32 bits: index in the table */
    enum gpuring_net_direction direction;
    struct gpuring_net_count count[GPURING_PROTOCOL_COUNT];
    int status; /* 0, or why the link failed */
    char peer_name[128];
    char text[640];
    /* Valid from gpuring_proxy_add() to gpuring_proxy_remove(): */
    struct gpuring_list node;            /* in the group's list, links in use first */
    uint32_t used;                       /* bits 1 << protocol; see gpuring_proxy_use */
    struct gpuring_proxy_group *group;   /* NULL: the proxy does not have the link */
    struct gpuring_net_traffic *traffic; /* of the group */
    struct gpuring_net_base_link *pair;  /* see gpuring_proxy_pair; NULL: none */
    int *failed; /* the owner's copy of status, stored with release after `text` */
};

struct gpuring_net_base {
    const struct gpuring_net_ops *ops;
    struct gpuring_gate *gate;
    char host[64];
    struct gpuring_net_base_link **links; /* NULL: free entry */
    uint32_t nlinks;
    uint64_t created; /* links so far: high 32 bits of the next id */
    int events;       /* number of events since the last poll */
};

/* All links must be closed before destroy. */
void gpuring_net_base_init(struct gpuring_net_base *net, const struct gpuring_net_ops *ops,
                           const struct gpuring_net_config *config);
void gpuring_net_base_destroy(struct gpuring_net_base *net);

/* Return a table of pointers with twice as many entries as before, or `first` if it had none. The
 * new entries are NULL. *count: their number. If memory is out, report that and return NULL; the
 * table then remains as it is. */
void *gpuring_net_grow(void *table, uint32_t *count, uint32_t first);

/* Give the link an id and an entry in the table. Returns 0 or GPURING_ERR_NOMEM. */
int gpuring_net_base_add(struct gpuring_net_base *net, struct gpuring_net_base_link *link,
                         enum gpuring_net_direction direction,
                         const struct gpuring_net_memory *memory);
void gpuring_net_base_remove(struct gpuring_net_base_link *link);

/* Return the link with an id or at an index, or NULL if it was closed. */
struct gpuring_net_base_link *gpuring_net_base_find(const struct gpuring_net_base *net,
                                                    uint64_t id);
struct gpuring_net_base_link *gpuring_net_base_at(const struct gpuring_net_base *net,
                                                  uint32_t index);

/* Loop over all links of a net. net and link have the net's own types. */
#define GPURING_NET_EACH_LINK(net, link)                          \
    for (uint32_t each_ = 0; each_ < (net)->base.nlinks; each_++) \
        if (((link) = (struct gpuring_net_link *) (net)->base.links[each_]) != NULL)

/* Record that the peer of a sending link has consumed all steps before `head`. Older heads are
 * ignored. */
void gpuring_net_base_credit(struct gpuring_net_base_link *link, unsigned protocol, uint64_t head);

/* Return the credit that was returned for the link's pair, by the pair itself or when it was
 * removed. 0 if there was no pair. */
static inline uint64_t gpuring_net_base_returned(const struct gpuring_net_base_link *link,
                                                 unsigned protocol)
{
    return link->pair != NULL ? link->pair->count[protocol].credit : link->count[protocol].returned;
}

/* Record that the slot of this step was sent, or that it has arrived and its data and size are
 * visible. Steps may be reported out of order. At most 63 are in flight. */
void gpuring_net_base_done(struct gpuring_net_base_link *link, unsigned protocol, uint64_t step);

/* Mark the link as failed. The first reason is kept in `text`. */
void gpuring_net_base_fail(struct gpuring_net_base_link *link, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Return the number of events since the last call. Used by the nets' poll. */
int gpuring_net_base_events(struct gpuring_net_base *net);

/* A function of a library that is loaded at run time. */
struct gpuring_net_symbol {
    const char *name;
    size_t offset; /* of its pointer in the table */
    bool optional; /* NULL if the library is too old for it */
};

/*
 * Load a library and store its functions in `table`, so that the component also loads where the
 * library is not installed. The library is never unloaded, because others may use it. Returns 0, or
 * GPURING_ERR_UNSUPPORTED and the missing library or function in `why`.
 */
int gpuring_net_load(const char *library, const struct gpuring_net_symbol *symbols, size_t count,
                     void *table, char *why, size_t size);

#endif
