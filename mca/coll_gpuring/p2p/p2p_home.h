/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The description of a process that it sends to its peers, and the choice of the memory that
 * carries messages between two processes. Threads: any.
 */
#ifndef GPURING_P2P_HOME_H
#define GPURING_P2P_HOME_H

#include <stdbool.h>
#include <stdint.h>

/* Places of slots, in ascending order of the bandwidth between GPUs. The values are exchanged. */
enum gpuring_p2p_place { GPURING_P2P_NONE, GPURING_P2P_HOST, GPURING_P2P_GPU, GPURING_P2P_PLACES };

/* Where a process is, and how it uses its GPU. The layout is fixed, because it is exchanged. */
struct gpuring_p2p_home {
    uint64_t node;
    uint8_t uuid[16]; /* of the GPU; zero if none is attached */
    uint32_t mps;     /* 1: copies of several processes run simultaneously on the GPU */
    int32_t pid;
    uint32_t version; /* GPURING_WIRE_VERSION */
    uint32_t unused;
};

/* Describe this process. */
void gpuring_p2p_home(struct gpuring_p2p_home *home);

/* Return the best place of slots on which this process can receive messages of a sender, into this
 * GPU memory, or NULL for host memory. Slots on a GPU are not used if both processes share it
 * without MPS, because each of their copies would wait for a time slice. */
enum gpuring_p2p_place gpuring_p2p_best_place(const struct gpuring_p2p_home *sender,
                                              const char *gpu);

/* Return false if a process of the node has ended (logged). Call this while an answer of the
 * process or its progress in a flow is awaited. Only one of 64 calls reads the clock, and it checks
 * the process if the last check was at least 10 ms ago. */
struct gpuring_p2p_watch {
    uint64_t looked; /* ns */
    uint32_t calls;
};
bool gpuring_p2p_lives(int pid, struct gpuring_p2p_watch *watch);

/* Return true if coll_gpuring_p2p_level and the GPU of this process allow copies between this
 * memory and slots on a GPU. */
bool gpuring_p2p_slots_reach(const char *gpu);

#endif
