/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * What ranks must share before they wire up: coll_gpuring_priority (is it above 0?) and
 * coll_gpuring_device decide which ranks take part in a wire-up at all. Where these differ, no rank
 * of the communicator serves. All other parameters are compared by AllGather 1.
 */
#ifndef GPURING_WIREUP_PEERS_H
#define GPURING_WIREUP_PEERS_H

#include <stdbool.h>

struct ompi_communicator_t;

/* When the component is opened, before MPI_Init exchanges addresses. */
void gpuring_peers_publish(void);

/* Do the ranks of this communicator share the two? The same answer on all of them; a warning where
 * MPI_COMM_WORLD's do not. Ranks of which nothing is known count as alike. */
bool gpuring_peers_alike(struct ompi_communicator_t *comm);

#endif
