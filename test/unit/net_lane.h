/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The executors' side of the FIFO of a connection, for tests of nets and of the proxy: ends of
 * connections in ordinary memory, and lanes that write, read and check chunks of a known pattern.
 */
#ifndef TEST_NET_LANE_H
#define TEST_NET_LANE_H

#include <pthread.h>

#include "kernels/fifo.h"
#include "mca/coll_gpuring/net/proxy/proxy.h"

#define LANE_DEADLINE_SECONDS \
    60 /* far beyond what any test needs; a lane that waits longer fails */

/* One end of a connection with all its memory, FIFO counters, and link. */
struct lane_end {
    const struct gpuring_net_ops *ops;
    struct gpuring_proxy *proxy;
    struct gpuring_proxy_group group; /* has only this end */
    struct gpuring_net_link *link;
    enum gpuring_net_direction direction;
    int failed;
    bool help; /* waiting lanes do the proxy's work */
    uint8_t *memory;
    size_t bytes;
    uint32_t nslots;
    uint64_t slot_bytes;
    uint8_t *slots[GPURING_PROTOCOL_COUNT];
    struct gpuring_fifo_tail *tail[GPURING_PROTOCOL_COUNT];
    struct gpuring_fifo_head *head[GPURING_PROTOCOL_COUNT];
    uint64_t step[GPURING_PROTOCOL_COUNT];
};

/* The process at the other end of ends that are created from now on, as far as the net knows; 0:
 * each of them has its own. */
extern uint64_t lane_process;

/* Create an end. Return 0 or a negative status. The net must have been added to the proxy (NULL: no
 * proxy). */
int lane_end_create(struct lane_end *end, const struct gpuring_net_ops *ops,
                    struct gpuring_net *net, int device, struct gpuring_proxy *proxy,
                    enum gpuring_net_direction direction, uint32_t nslots, uint64_t slot_bytes);
/* The same with slots in memory that the net treats as GPU memory. */
int lane_end_create_in(struct lane_end *end, const struct gpuring_net_ops *ops,
                       struct gpuring_net *net, int device, struct gpuring_proxy *proxy,
                       enum gpuring_net_direction direction, uint32_t nslots, uint64_t slot_bytes,
                       const struct gpuring_device_nic *memory);
/* Exchange handles between two ends of the same process and give both to their proxies. */
int lane_connect(struct lane_end *sender, struct gpuring_net *sender_net, const char *sender_name,
                 struct lane_end *receiver, struct gpuring_net *receiver_net,
                 const char *receiver_name);
/* Connect one end with the handles of the other process, and add it to its proxy. */
int lane_end_connect(struct lane_end *end, const void *process_handle, size_t process_bytes,
                     const void *handle, size_t bytes, const char *peer_name);
/* Destroy an end. Return the result of gpuring_proxy_remove. */
int lane_end_destroy(struct lane_end *end, double seconds);
/* The same in steps. If other links share the connection, wait between the last two of them until
 * the net no longer holds the link. */
int lane_end_leave(struct lane_end *end, double seconds);
bool lane_end_held(struct lane_end *end);
void lane_end_close(struct lane_end *end);

/* Return the pseudo-random size of the chunk of a step, from 0 to the slot's payload. */
uint32_t lane_chunk_bytes(const struct lane_end *end, enum gpuring_protocol protocol,
                          uint64_t step);

/* Send the next chunk. Return 0, or GPURING_ERR_* if the end failed or the deadline has passed. */
int lane_send(struct lane_end *end, enum gpuring_protocol protocol, uint64_t seed);
/* Receive the next chunk. Return GPURING_ERR_DATA if it differs from the chunk of lane_send with
 * this seed. */
int lane_recv(struct lane_end *end, enum gpuring_protocol protocol, uint64_t seed);

/* A thread that sends a chunk and then receives one, `count` times, as one operation of its proxy.
 * If not `first`, it receives before it sends. lane_exchange_join returns its status. */
struct lane_exchange {
    struct lane_end *send, *receive;
    enum gpuring_protocol protocol;
    uint64_t seed;
    bool first;
    int count, status;
    pthread_t thread;
};
int lane_exchange_start(struct lane_exchange *exchange); /* as pthread_create */
int lane_exchange_join(struct lane_exchange *exchange);

#endif
