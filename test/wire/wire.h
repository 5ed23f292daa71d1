/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A stand-in for libibverbs.so.1 with devices that connect the processes of one machine through a
 * file of shared memory. It has the functions that the net `verbs` and test/bench/verbs_exchange.c
 * use, and the files of the devices in /sys. It is preloaded. It is never installed, and its times
 * are those of a model, never those of hardware.
 *
 * The model: a message occupies the sender's port and the receiver's port for its bytes divided by
 * the bandwidth, beginning when both are free. It arrives one latency after its last byte, and its
 * send completes one more latency later. No processor works in the meantime: all times are known
 * when the message is posted, and a completion can be polled from its time on.
 *
 * A send is refused, as by a full queue, while the peer has no receive for it (a device would
 * retry).
 *
 * The poster copies the bytes to the peer (process_vm_writev). A program that measures
 * turns this off with gpuring_wire_data when its ranks are connected; results of calls are wrong
 * then.
 *
 *   GPURING_WIRE_FILE      the file; not set: there is no device. A job needs a new one.
 *   GPURING_WIRE_HOST      name of the host of this process (default: coll_gpuring_hostid)
 *   GPURING_WIRE_DEVICES   devices of a host, wire0, wire1 ..., each with one port (default: 1)
 *   GPURING_WIRE_LINK      ib: ports are InfiniBand instead of RoCE
 *   GPURING_WIRE_GBPS      bandwidth of a port in each direction (default: 100)
 *   GPURING_WIRE_LATENCY   in ns (default: 2000)
 *   GPURING_WIRE_FLIGHT    messages of a port that are posted and not complete; the next ones wait
 *                          (default: 0, any number)
 *   GPURING_WIRE_SLOWER    factor for all times of the wire (default: 1), which makes processors
 *                          and memory faster in comparison
 *   GPURING_WIRE_DATA      0: do not copy data
 *   GPURING_WIRE_FAULT     no-open: devices cannot be opened; few-pairs: a host has one queue pair
 *                          at most; down: port wire0 of the first host goes down after
 *                          GPURING_WIRE_FAULT_AFTER messages with data
 */
#ifndef TEST_WIRE_WIRE_H
#define TEST_WIRE_WIRE_H

#include <stdint.h>

/* Counts of the host of this process since the last call of gpuring_wire_counts. The library
 * exports all functions. A message is one with data. Times are in ns and multiplied by
 * GPURING_WIRE_SLOWER. */
struct gpuring_wire_counts {
    uint64_t messages, bytes;
    uint64_t posts, signalled; /* all sends, and those that report a completion */
    uint64_t busy, idle;       /* of the ports, between their first and last bytes */
    uint64_t flight;           /* sum of the times from the post of a message to its completion */
    uint64_t span;             /* from the first post to the last completion */
    uint64_t not_ready;        /* sends that were refused because the peer had no receive */
    uint64_t polls, empty;     /* of this process */
    uint64_t queue_pairs;      /* that exist now */
    uint64_t registered;       /* bytes of memory that are registered now */
};
typedef void gpuring_wire_counts_function(struct gpuring_wire_counts *counts);
typedef void gpuring_wire_data_function(int on);
/* Let port wire0 of this host fail. */
typedef void gpuring_wire_fail_function(void);

#endif
