/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Selects the algorithm, the protocol and the chunk size of a call. The selection is a pure
 * function of values that are equal on all ranks, so all ranks select the same.
 */
#ifndef GPURING_ENGINE_SELECT_H
#define GPURING_ENGINE_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/fifo.h"
#include "kernels/step.h"
#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/engine/tuning.h"
#include "mca/coll_gpuring/topology/model_choice.h"

/* Value of the member `algorithm` below that delegates all calls to the previous component. */
#define GPURING_SELECT_PREVIOUS ((int) GPURING_ALGORITHM_COUNT)

struct gpuring_select_config {
    int algorithm; /* enum gpuring_algorithm, GPURING_SELECT_PREVIOUS, or -1: by size */
    int protocol;  /* enum gpuring_protocol, or -1: by size */
    int nranks, nnodes;
    bool host;                                /* plans run on the CPU */
    uint64_t agree_size;                      /* see gpuring_select_small_limit */
    uint32_t plans[GPURING_COLLECTIVE_COUNT]; /* plans that exist: bits 1 << algorithm */
    bool in_order; /* reductions fold in the order of the ranks; `plans` contains only plans that
                      do */
    uint32_t gpu_blocks;   /* co-resident thread blocks of a rank, the fewest of any; 0: no GPUs */
    int time_sliced_ranks; /* largest number of ranks that take turns on one GPU; 0: none do */
    uint32_t channels[GPURING_SET_COUNT];                           /* number of channels in the
                                                                       plan */
    uint32_t min_channels;                                          /* lower limit of the
                                                                       channels that are used; 0:
                                                                       by size */
    uint64_t slot_bytes[GPURING_SET_COUNT][GPURING_PROTOCOL_COUNT]; /* 0: no slots */
    uint64_t chunk_bytes;                                           /* upper limit, 0: by size */
    bool doubling;     /* direct performs allreduces by doubling, with a set of its own .. */
    bool direct_first; /* .. except for those that are faster as direct exchanges */
    bool any_memory;   /* the net accesses any host memory: GPURING_FIFO_NET_ANY */
    bool offloads;     /* see struct gpuring_net_ops; false if software emulates the devices */

    const struct gpuring_tuning *tuning; /* the rules for this communicator; NULL: none */
    struct gpuring_model_choice model;   /* predictions, if the topology is known */
};

/*
 * Select how a collective runs on a vector, or on blocks, of `count` elements of `type_size` bytes.
 * GPURING_COUNT_UNKNOWN is treated as the largest size. The first rule that applies decides, in
 * this order: parameters, the tuning file, sizes at which the previous component is faster, the
 * cost model if the topology of GPUs is known, and the built-in limits by size in select.c. On the
 * host device the cost model selects only the algorithm, because it does not model the time that a
 * CPU takes for a protocol. Rules that name an algorithm or protocol that does not exist here are
 * skipped. A delegated call also gets an algorithm, because a persistent call that has been started
 * can no longer be delegated.
 */
void gpuring_select(const struct gpuring_select_config *config, enum gpuring_collective collective,
                    uint64_t count, uint32_t type_size, struct gpuring_selection *choice);

/* Return true if an allreduce should run on mapped buffers, if all ranks can map them (mapping.h).
 * Select how it then runs. */
bool gpuring_select_maps(const struct gpuring_select_config *config,
                         enum gpuring_collective collective, uint64_t bytes);
void gpuring_select_mapped(const struct gpuring_select_config *config, uint64_t bytes,
                           uint32_t type_size, struct gpuring_selection *choice);

/*
 * Return the number of bytes, of all ranks' blocks together, below which a call with a root on GPU
 * memory is faster staged than served. Return 0 if staging is not faster at any size. agree_size:
 * the value of coll_gpuring_agree_size, which can lower the limit; 0: it is not set.
 */
uint64_t gpuring_select_small_limit(enum gpuring_collective collective, uint64_t agree_size);

/* Return true if the previous component is faster in blocking calls, although plans are faster in
 * other ones (select_blocking.c). bytes: size of the vector or of one block. */
bool gpuring_select_leaves_blocking(const struct gpuring_select_config *config,
                                    enum gpuring_collective collective, uint64_t bytes);

/* Bytes that take as long as a hop on hosts, in the model of doc/results/scale.md. */
#define GPURING_SELECT_FAR_BYTES  (8 << 10) /* between nodes */
#define GPURING_SELECT_NEAR_BYTES (2 << 10) /* in a node */

/* The least number of ranks, each on a node of its own, for an allreduce with trees by messages of
 * MPI. */
#define GPURING_SELECT_TREE_RANKS_BY_MPI 4

/* Return the number of ranks of the largest node if ranks are spread evenly. */
static inline int gpuring_select_node_ranks(const struct gpuring_select_config *config)
{
    return (config->nranks + config->nnodes - 1) / config->nnodes;
}

/* Return the largest size of an allreduce by doubling (select_doubling.c). nodewise: the other
 * algorithm is two-shot between nodes. */
uint64_t gpuring_select_doubling_limit(const struct gpuring_select_config *config, bool nodewise);
/* Return the number of stripes of an allreduce by doubling, or 0 if a direct exchange is faster. */
uint32_t gpuring_select_stripes(const struct gpuring_select_config *config, uint64_t bytes);

/* Return true if a plan of an algorithm must be made. wanted: bits 1 << enum gpuring_algorithm, of
 * the algorithms that the parameter, the tuning file or the cost model names. */
bool gpuring_select_eligible(enum gpuring_algorithm algorithm, int nranks, int nnodes,
                             uint32_t wanted);

#endif
