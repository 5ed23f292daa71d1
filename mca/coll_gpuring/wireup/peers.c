/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#include "gpuring_config.h"

/* What a process publishes: is its priority above 0, and its device. */
#define PRIORITY UINT32_C(0x100)
#define DEVICE   UINT32_C(0x0ff)

#define TEXT(name, text) text,
static const char *const devices[] = {GPURING_VALUES_device(TEXT)};
#undef TEXT

static bool world_alike; /* MPI_COMM_WORLD was looked at: the other communicators need no look */

static uint32_t own_word(void)
{
    enum gpuring_param_device device = gpuring_params.device;

    if (device == GPURING_PARAM_DEVICE_AUTO) {
        device = GPURING_HAVE_CUDA ? GPURING_PARAM_DEVICE_CUDA : GPURING_PARAM_DEVICE_OFF;
    }
    return (gpuring_params.priority > 0 ? PRIORITY : 0) | (uint32_t) device;
}

void gpuring_peers_publish(void)
{
    gpuring_compat_publish(own_word());
}

/* Rank 0 and the rank that differs from it say so, as far as they have the component. */
static void report(struct ompi_communicator_t *comm, int rank, uint32_t first, uint32_t other)
{
    bool priority = ((first ^ other) & PRIORITY) != 0;

    if (ompi_comm_rank(comm) != 0 && ompi_comm_rank(comm) != rank) {
        return;
    }
    gpuring_warn("[ranks-differ] rank 0 on host %s and rank %d on host %s have different values of "
                 "coll_gpuring_%s (%s and %s): communicators with such ranks are served by other "
                 "components. Give all ranks the same value, as by mpirun --mca",
                 gpuring_compat_host(comm, 0), rank, gpuring_compat_host(comm, rank),
                 priority ? "priority" : "device",
                 priority ? (first & PRIORITY ? "above 0" : "0") : devices[first & DEVICE],
                 priority ? (other & PRIORITY ? "above 0" : "0") : devices[other & DEVICE]);
}

bool gpuring_peers_alike(struct ompi_communicator_t *comm)
{
    uint32_t first, other;

    if (world_alike || !gpuring_compat_published(comm, 0, &first)) {
        return true;
    }
    for (int rank = 1; rank < ompi_comm_size(comm); rank++) {
        if (gpuring_compat_published(comm, rank, &other) && other != first) {
            if (comm == MPI_COMM_WORLD) {
                report(comm, rank, first, other);
            }
            return false;
        }
    }
    world_alike = comm == MPI_COMM_WORLD;
    return true;
}
