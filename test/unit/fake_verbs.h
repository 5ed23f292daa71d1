/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A test double of libibverbs and its devices: reliable connections between the nets of one
 * process, with the checks of a real device (keys, ranges, posted receives, room of queues) and
 * with faults on demand. It has only the functions that the net `verbs` uses.
 */
#ifndef TEST_FAKE_VERBS_H
#define TEST_FAKE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"

#define FAKE_DEVICES 3
#define FAKE_GIDS    4

/* Properties of a device. It has port 1 and possibly more ports, which differ in their state only.
 */
struct fake_device {
    const char *name;
    unsigned ports;
    unsigned active; /* bit n: port n is active */
    uint8_t link_layer;
    uint32_t gid_type[FAKE_GIDS];
    uint8_t gid[FAKE_GIDS][16];
    unsigned max_inline;
    bool grh; /* addresses need a global route header */
    uint32_t vendor;
    uint8_t speed, width; /* codes of the link, 0: 4 x 25 Gb/s */
    bool no_rc;           /* has no reliable connections */
};

/* Numbers of the calls that fail, counted over all devices since fake_verbs_reset. 0: none. */
struct fake_faults {
    unsigned open_device, alloc_pd, create_channel, reg_mr, create_cq, create_qp, modify_qp;
    unsigned post_send;        /* the n-th send with an immediate value is refused with ... */
    unsigned post_probe;       /* the n-th send without one is refused with ... */
    int post_send_error;       /* ... this errno */
    unsigned complete;         /* the n-th send completes with ... */
    enum ibv_wc_status status; /* ... this status, ... */
    bool delivered;            /* ... after it has arrived */
    /* About `doom` of 1000 sends on the devices in the mask `doomed` (bit n: device n) kill their
     * queue pair, half of them after they have arrived. A pseudo-random sequence selects the
     * sends. */
    unsigned doom, doomed;
    uint64_t seed;
};

/* Set devices and faults, and reset everything else. No net may be open. */
void fake_verbs_reset(const struct fake_device *devices, int ndevices,
                      const struct fake_faults *faults);
void fake_verbs_set_faults(const struct fake_faults *faults);

/* Call this function in each call that makes a queue pair or a registration, until the reset. */
void fake_verbs_watch(void (*making)(void));

/* Pull the cable of a device. Its sends wait until fake_verbs_expire ends their retries. */
void fake_verbs_pull(int device);
void fake_verbs_expire(void);

/* Raise an asynchronous event of a device, of its newest queue pair, or of port 1. */
void fake_verbs_event(int device, enum ibv_event_type type);

/* Break the device: its queue pairs no longer send, receive or report anything, not even errors. */
void fake_verbs_mute(int device);

/* Deliver the sends that waited while the cable was pulled. They must not change anything, because
 * no process waits for them any longer. Call this only after fake_verbs_expire. */
void fake_verbs_haunt(void);

/*
 * From now on, treat registrations of more than a page as GPU memory. Devices can register it
 * through peer memory, through dma-buf (descriptor FAKE_DMABUF), in both ways or not at all. If
 * `lazy`, the writes of a device are visible only after it has read from the memory.
 */
#define FAKE_DMABUF 77
void fake_verbs_gpu(bool peer_memory, bool dmabuf, bool lazy);
/* Identify GPU memory with this function instead of by size, and copy it with that function. */
void fake_verbs_gpu_memory(int (*on_gpu)(const void *address),
                           void (*copy)(void *to, const void *from, size_t bytes));
/* Return the number of registrations of GPU memory through dma-buf, or of reads, since the
 * reset. */
unsigned fake_verbs_dmabufs(void);
/* Return the number of registrations with relaxed ordering since the reset. */
unsigned fake_verbs_relaxed(void);
unsigned fake_verbs_reads(void);

/* Return the number of existing queue pairs. Let devices refuse further ones from a number on. */
unsigned fake_verbs_queue_pairs(void);
void fake_verbs_limit(unsigned queue_pairs);
/* Limit the queues of queue pairs that are created in nets opened from now on. */
void fake_verbs_queues(int entries);
/* Let sends wait until the peer has a receive, as devices do that retry without limit. Return the
 * number of sends that had to wait since the reset. */
void fake_verbs_retry(void);
unsigned fake_verbs_not_ready(void);
/* Return the number of existing objects: contexts, protection domains, channels, queues, queue
 * pairs, registrations. */
int fake_verbs_objects(void);
/* Return the number of sends since the reset, and how many of them were signaled or inline. */
unsigned fake_verbs_sends(unsigned *reported, unsigned *inlined);
/* Return the number of sends of data without an immediate value since the reset. */
unsigned fake_verbs_plain(void);
/* Return the number of queue pairs that `doom` has killed since the reset. */
unsigned fake_verbs_kills(void);
/* Return the number of sends without a receive, with a wrong key or range, or to a full queue. Must
 * be 0. */
unsigned fake_verbs_violations(void);

#endif
