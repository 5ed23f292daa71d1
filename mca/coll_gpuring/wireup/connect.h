/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* From what the ranks told to the engine of a communicator. */
#ifndef GPURING_WIREUP_CONNECT_H
#define GPURING_WIREUP_CONNECT_H

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/wireup/net_select.h"

/* What all ranks know of each other by then. */
struct gpuring_wireup_known {
    const uint64_t *id; /* two words, of the communicator */
    const struct gpuring_gathered *hellos;
    const struct gpuring_node_map *members;
    const struct gpuring_channels *layout;
    const struct gpuring_nic_select *routes; /* this node's, of its topology */
    const struct gpuring_net_choice *net;    /* with several nodes */
};

/* Plans and FIFO sizes of this rank; the transport is still to be added. */
int gpuring_wireup_service(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_wireup_known *known,
                           struct gpuring_engine **engine);

/* Add the transport: this rank's ends of the connections. */
int gpuring_wireup_transport(const mca_coll_gpuring_module_t *module,
                             const struct gpuring_wireup_known *known,
                             struct gpuring_engine *engine);

/* Room for the letters to and from all neighbours: before they are relied upon. */
int gpuring_wireup_letters(const struct gpuring_transport *transport, const struct gpuring_oob *oob,
                           struct gpuring_letters *letters);

/* They are complete: connect. */
int gpuring_wireup_connect(struct gpuring_transport *transport,
                           const struct gpuring_letters *letters);

#endif
