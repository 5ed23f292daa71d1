/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The simulator computes the time of the plans of all ranks on links with given latency and
 * bandwidth. It runs every step of every lane in the order of time. The model of a step that starts
 * at t with a chunk of b bytes is:
 *
 *   the lane is busy until     t + step_us + b / lane_bandwidth
 *   each send occupies a link  from max(t, link free) for b x wire_factor / link bandwidth
 *   the chunk has arrived at   max(lane done, link done) + link latency
 *   a received slot is free    when the lane is done; the sender knows it one latency later
 *
 * A step starts when its lane is free, its operands have arrived and its destinations have free
 * slots. Links that share a wire (a NIC, a PCI link) share a `resource`, which serves one chunk at
 * a time, first come first served.
 *
 * On hosts (`host`), one thread runs all lanes of a rank in turn. It copies a chunk into the slot
 * of each destination and into the output, and folds each further operand. A link gets the chunk
 * when the step is done.
 */
#ifndef GPURING_TEST_PLAN_SIMULATE_H
#define GPURING_TEST_PLAN_SIMULATE_H

#include "mca/coll_gpuring/plan/plan.h"

struct gpuring_simulate_link {
    double latency_us;
    double message_us; /* time of the resource for each chunk, in addition to that of its bytes */
    double bandwidth;  /* bytes per microsecond (MB/s); > 0 */
    uint32_t resource; /* < nresources */
};

struct gpuring_simulate_config {
    uint64_t bytes;        /* of the vector */
    uint64_t chunk_bytes;  /* maximum bytes of a chunk, a multiple of 128 */
    uint32_t slots;        /* per connection */
    double wire_factor;    /* bytes on the wire per byte of data: Simple 1, LL 2, LL128 128/120 */
    double step_us;        /* fixed cost of a step */
    double lane_bandwidth; /* bytes per microsecond that a lane moves; > 0 */
    bool host;
    uint32_t nresources;
    /* Get the link for a connection of lane `lane` from rank `from` to rank `to`. */
    void (*link)(void *context, int from, uint32_t lane, int to,
                 struct gpuring_simulate_link *link);
    void *context;
};

struct gpuring_simulate_result {
    double us;      /* until the last lane is done */
    double busiest; /* share of that time in which the busiest resource was in use */
    uint32_t busiest_resource;
    uint64_t chunks_sent; /* by all ranks */
    uint64_t bytes_sent;  /* data, without the wire factor */
};

/*
 * Return 0 with *result; GPURING_ERR_ARG if the configuration is out of range; GPURING_ERR_DATA
 * with the reason in text if the plans do not fit together or deadlock; GPURING_ERR_NOMEM.
 */
int gpuring_plan_simulate(const struct gpuring_plan *const *plans, int nranks,
                          const struct gpuring_simulate_config *config,
                          struct gpuring_simulate_result *result, char *text, size_t size);

#endif
