/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef GPURING_TOPO_JSON_H
#define GPURING_TOPO_JSON_H

/*
 * Parts of the report as JSON values. Each function returns a new reference, or NULL without
 * memory, like jansson. Because jansson refuses to set a NULL value, callers only check the final
 * result.
 */

#include <jansson.h>
#include <math.h>

#include "gpuring-topo-machine.h"

/* Return a number without an unnecessary fraction, or null if it is not finite. */
static inline json_t *topo_json_number(double value)
{
    if (!isfinite(value)) {
        return json_null();
    }
    if (fabs(value - nearbyint(value)) < 1e-9 * fabs(value) && fabs(value) < 1e15) {
        return json_integer((json_int_t) nearbyint(value));
    }
    return json_real(value);
}

json_t *topo_json_cpu(const struct topo_machine *machine);
json_t *topo_json_gpus(const struct topo_machine *machine);
json_t *topo_json_nets(const struct topo_machine *machine);
/* The GPUs of the topology that are not used: {dev, rank, busid, reason}. */
json_t *topo_json_omitted(const struct topo_machine *machine);
/* [class, GB/s, hops] from each node of one kind to each of another. */
json_t *topo_json_paths(const struct topo_machine *machine, enum pci_node_type from,
                        enum pci_node_type to);

/* The rank of each GPU, or the dev of each net, in the order of these rows and columns. */
json_t *topo_json_order(const struct topo_machine *machine, enum pci_node_type type);

json_t *topo_json_channels(const struct topo_machine *machine, const struct pci_channels *set);
json_t *topo_json_final(const struct topo_machine *machine);
json_t *topo_json_bound(const struct topo_machine *machine);

#endif
