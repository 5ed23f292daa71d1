/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Two nets `verbs`, which act as two processes, on devices that exist only in this process
 * (fake_verbs.h), with links between them, lanes that use the links, and the log of both.
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
/* Devices for three paths: RoCE, and InfiniBand without inline data. */
extern const struct fake_device world_paths[2][3];
extern const struct fake_faults world_no_faults;
extern const struct gpuring_net_config world_defaults;

extern uint64_t world_slot_bytes; /* of links opened from now on; WORLD_SLOT_BYTES at first */

/* Process 0 has the sending end of each link, and process 1 the receiving end. */
struct world {
    struct gpuring_net *net[2];
    struct gpuring_proxy *proxy[2];
    const struct gpuring_device_nic *gpu; /* the slots are in GPU memory; NULL: they are not */
    struct lane_end send[WORLD_LINKS], recv[WORLD_LINKS];
    int nlinks;
};

/* Open the nets and connect links. Link n is on device n % ndevices. If `config` is NULL, use
 * defaults. */
void world_open(struct world *world, const struct fake_device *devices, int ndevices, int nlinks,
                const struct gpuring_net_config *config);
/* The same with slots in GPU memory. The caller has reset the devices. */
void world_open_in(struct world *world, int ndevices, int nlinks,
                   const struct gpuring_net_config *config, const struct gpuring_device_nic *gpu);
/* Close everything. Check that nothing is leaked, and that the devices have seen no violation. */
void world_close(struct world *world);
/* Open or close link n on device 0, as one communicator of several. Closing waits until both ends
 * know of it. Links that share an endpoint must be closed with this function before world_close.
 * world_link_open returns the number of attempts that GPURING_ERR_STALE took. */
int world_link_open(struct world *world, int n);
void world_link_close(struct world *world, int n);

/* Transfer `count` chunks over a link. *sent and *received are the statuses of its ends. */
void world_transfer(struct world *world, int link, enum gpuring_protocol protocol, int count,
                    int *sent, int *received);
/* The same until one end has failed. The other end gets a report, like that of a transport, because
 * it would need seconds to detect the failure itself. */
void world_break(struct world *world, int link, enum gpuring_protocol protocol, int count,
                 int *sent, int *received);
/* Call world_transfer with each protocol. It must succeed. */
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

/* Return a copy of a rail. The proxy's thread changes rails while it holds the gate. */
struct gpuring_verbs_rail world_rail(const struct lane_end *end, unsigned rail);

/* Wait until an end has failed, at most until a deadline. */
void until_failed(struct lane_end *end);
void until_sleeping(const struct gpuring_proxy *proxy);
/* Wait until the log has a text, and keep both proxies awake. */
void until_logged(struct world *world, const char *text);

bool log_has(const char *text);
/* Return how often the warnings have a text. */
unsigned log_warnings(const char *text);
/* For cmocka's setup of a test. Also resets world_slot_bytes and lane_process. */
int clear_log(void **state);

#endif
