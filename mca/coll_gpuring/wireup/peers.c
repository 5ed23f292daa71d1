/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <stdio.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#include "gpuring_config.h"

/*
 * The word that a process publishes: its parameters as the user set them, for messages, and their
 * effect, which must be equal on all ranks.
 *
 *     bits 0-7    coll_gpuring_device      bits 16-23  the device that this selects
 *     bits 8-15   coll_gpuring_priority    bit 24      the priority is above 0
 *                                          bits 25-31  coll_gpuring_connect_after
 */
#define DEVICE(word)   ((word) &0xff)
#define PRIORITY(word) ((word) >> 8 & 0xff)
#define EFFECT(word)   ((word) >> 16)
#define EFFECT_DEVICE  UINT32_C(0xff)
#define EFFECT_SERVES  UINT32_C(0x100)
#define AFTER(word)    ((word) >> 25)

#define TEXT(name, text) text,
static const char *const devices[] = {GPURING_VALUES_device(TEXT)};
#undef TEXT

static bool world_alike; /* all ranks of MPI_COMM_WORLD agree: no need to compare others */

static uint32_t own_word(void)
{
    uint32_t set = (uint32_t) gpuring_params.device, priority = (uint32_t) gpuring_params.priority;
    uint32_t selected = set;

    if (set == GPURING_PARAM_DEVICE_AUTO) {
        selected = GPURING_HAVE_CUDA ? GPURING_PARAM_DEVICE_CUDA : GPURING_PARAM_DEVICE_OFF;
    }
    return set | priority << 8 | selected << 16 | (priority > 0 ? UINT32_C(1) << 24 : 0) |
           (uint32_t) gpuring_params.connect_after << 25;
}

void gpuring_peers_publish(void)
{
    gpuring_compat_publish(own_word());
}

/* The device as it was set, and what auto selects. Returns text. */
static const char *device_text(uint32_t word, char text[32])
{
    bool chosen = DEVICE(word) == GPURING_PARAM_DEVICE_AUTO;

    snprintf(text, 32, chosen ? "%s, which selects %s" : "%s", devices[DEVICE(word)],
             devices[EFFECT(word) & EFFECT_DEVICE]);
    return text;
}

/* Log the difference, at rank 0 and at the rank that differs from it. */
static void report_peer(struct ompi_communicator_t *comm, int rank, uint32_t first, uint32_t other)
{
    uint32_t differ = EFFECT(first) ^ EFFECT(other);
    const char *name = "connect_after";
    char values[2][32];

    if (ompi_comm_rank(comm) != 0 && ompi_comm_rank(comm) != rank) {
        return;
    }
    if ((differ & EFFECT_DEVICE) != 0) {
        name = "device";
        (void) device_text(first, values[0]);
        (void) device_text(other, values[1]);
    } else if ((differ & EFFECT_SERVES) != 0) {
        name = "priority";
        snprintf(values[0], sizeof values[0], "%u", PRIORITY(first));
        snprintf(values[1], sizeof values[1], "%u", PRIORITY(other));
    } else {
        snprintf(values[0], sizeof values[0], "%u", AFTER(first));
        snprintf(values[1], sizeof values[1], "%u", AFTER(other));
    }
    gpuring_warn("[ranks-differ] coll_gpuring_%s is %s at rank 0 (host %s) and %s at rank %d (host "
                 "%s): other components serve communicators with such ranks. Give all ranks the "
                 "same value (mpirun --mca)",
                 name, values[0], gpuring_compat_host(comm, 0), values[1], rank,
                 gpuring_compat_host(comm, rank));
}

bool gpuring_peers_alike(struct ompi_communicator_t *comm)
{
    uint32_t first, other;

    if (world_alike || !gpuring_compat_published(comm, 0, &first)) {
        return true;
    }
    for (int rank = 1; rank < ompi_comm_size(comm); rank++) {
        if (gpuring_compat_published(comm, rank, &other) && EFFECT(other) != EFFECT(first)) {
            if (comm == MPI_COMM_WORLD) {
                report_peer(comm, rank, first, other);
            }
            return false;
        }
    }
    world_alike = comm == MPI_COMM_WORLD;
    return true;
}
