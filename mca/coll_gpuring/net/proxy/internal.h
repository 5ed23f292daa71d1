/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Inside of the proxy: the thread (net/proxy/proxy.c) and the connections' state machines
 * (net/proxy/conn.c). */
#ifndef GPURING_NET_PROXY_INTERNAL_H
#define GPURING_NET_PROXY_INTERNAL_H

#include "mca/coll_gpuring/net/gate.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"
#include "mca/coll_gpuring/util/list.h"

/* Counts of steps; all only grow. sent <= posted <= credit + nslots, posted <= the lane's tail. */
struct gpuring_proxy_ring {
    struct gpuring_fifo_tail *tail;
    struct gpuring_fifo_head *head;
    uint32_t nslots;   /* 0: protocol not used */
    uint64_t posted;   /* sending: given to the net */
    uint64_t sent;     /* sending: local slots given back to the lane */
    uint64_t credit;   /* sending: the peer's head; receiving: what was returned of ours */
    uint64_t received; /* receiving: published to the lane */
};

struct gpuring_proxy_conn {
    struct gpuring_list node;
    struct gpuring_proxy *proxy;
    const struct gpuring_net_ops *ops;
    struct gpuring_net_link *link;
    enum gpuring_net_direction direction;
    struct gpuring_proxy_conn *pair; /* of the other direction, with the same peer; NULL: none */
    struct gpuring_proxy_ring ring[GPURING_PROTOCOL_COUNT];
    int status;  /* 0, or why it failed */
    int *failed; /* the owner's copy of status, stored with release after `error` */
    char error[512];
};

/* Give the net what the lanes have produced and consumed. Returns how many calls it took. */
int gpuring_proxy_conn_pump(struct gpuring_proxy_conn *conn, uint64_t *bytes, uint64_t *again);

/* Handle one event of the conn's link. */
void gpuring_proxy_conn_event(struct gpuring_proxy_conn *conn,
                              const struct gpuring_net_event *event);

/*
 * True if a live connection has slots or credits that are not out yet. posted: what was given to
 * the net counts as out.
 */
bool gpuring_proxy_conn_pending(const struct gpuring_proxy_conn *conn, bool posted);

#endif
