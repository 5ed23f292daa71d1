/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Two processes' nets `verbs`, both in this one, on devices that exist in it only (fake_verbs.h),
 * with links between them and lanes that use the links; and the log that they write.
 */
#ifndef TEST_VERBS_WORLD_H
#define TEST_VERBS_WORLD_H

#include <stdbool.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "test/unit/fake_verbs.h"
#include "test/unit/net_lane.h"

#define WORLD_NSLOTS     8
#define WORLD_SLOT_BYTES 2048
#define WORLD_LINKS      3

#define V4_GID(last)                                     \
    {                                                    \
        [10] = 0xff, [11] = 0xff, [12] = 10, [15] = last \
    }
#define V6_GID                           \
    {                                    \
        0x20, 0x01, 0x0d, 0xb8, [15] = 1 \
    }
#define LL_GID               \
    {                        \
        0xfe, 0x80, [15] = 1 \
    }

extern const struct fake_device world_roce, world_roce_next, world_roce_last, world_infiniband;
extern const struct fake_faults world_no_faults;
extern const struct gpuring_net_config world_defaults;

/* The first of each pair of ends sends; it is of process 0. */
struct world {
    struct gpuring_net *net[2];
    struct gpuring_proxy *proxy[2];
    struct lane_end send[WORLD_LINKS], recv[WORLD_LINKS];
    int nlinks;
};

/* Link n is on device n % ndevices. config: NULL for the defaults. */
void world_open(struct world *world, const struct fake_device *devices, int ndevices, int nlinks,
                const struct gpuring_net_config *config);
/* With slots in a GPU's memory; the caller has reset the devices. */
void world_open_in(struct world *world, int ndevices, int nlinks,
                   const struct gpuring_net_config *config, const struct gpuring_device_nic *gpu);
/* Nothing is left, and the devices saw nothing wrong. */
void world_close(struct world *world);

/* Both ends of a link at work with `count` chunks; *sent and *received: how it ended. */
void world_transfer(struct world *world, int link, enum gpuring_protocol protocol, int count,
                    int *sent, int *received);
/* The same until one end has failed; the other gets a report, as a transport would send it, and
 * need not find out by itself, which takes seconds. */
void world_break(struct world *world, int link, enum gpuring_protocol protocol, int count,
                 int *sent, int *received);
/* As world_transfer with each protocol, one after the other; it must end well. */
void world_transfer_well(struct world *world, int link, int count);
/* The same with all protocols at the same time. Returns true if it succeeded with the right data.
 */
bool world_transfer_together(struct world *world, int link, int count);

/* The reverse link of link 0, with which it forms a pair, on device `device`. */
struct world_back {
    struct lane_end send, recv; /* of processes 1 and 0 */
};
void world_back_open(struct world *world, int device, struct world_back *back);
void world_back_close(struct world_back *back);
/* Exchange `count` chunks of each protocol in both directions, all protocols at
 * the same time. Returns true if it succeeded with the right data. */
bool world_exchange(struct world *world, struct world_back *back, int count);

/* A rail as it is now: the proxy's thread changes it under the gate. */
struct gpuring_verbs_rail world_rail(const struct lane_end *end, unsigned rail);

/* Waits with a deadline. */
void until_failed(struct lane_end *end);
void until_sleeping(const struct gpuring_proxy *proxy);
/* Both are kept awake meanwhile. */
void until_logged(struct world *world, const char *text);

bool log_has(const char *text);
/* For cmocka's setup of a test. */
int clear_log(void **state);

#endif
