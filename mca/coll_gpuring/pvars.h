/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The list of performance variables coll_gpuring_*, which are read through MPI_T. Except for levels
 * and texts, they are counters of this process since MPI_Init. MPI_T counts from the allocation of
 * a handle.
 */
#ifndef GPURING_PVARS_H
#define GPURING_PVARS_H

#include "kernels/kernels.h"
#include "kernels/step.h"
#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/process.h"

#define GPURING_PVAR_OF_ALGORITHM(X, name, id, text, help) X(calls_##id, "Operations run by " help)
#define GPURING_PVAR_OF_PROTOCOL(name, id, X)              X(calls_##id, "Operations run with protocol " #id)
/* The counters of algorithms and protocols are in the order of their enumerations. */
#define GPURING_PVARS(X)                                                                           \
    X(calls, "Collective operations that coll/gpuring ran")                                        \
    X(fallbacks, "Collective calls delegated to another component")                                \
    X(staged, "Collective calls on GPU memory that were staged through host memory")               \
    X(staged_messages, "Point-to-point sends and receives that were staged through host memory")   \
    X(direct_messages, "Point-to-point messages received from another GPU's memory directly")      \
    X(kernel_messages, "Of the directly received messages, those that a kernel copied")            \
    X(chunked_messages, "Point-to-point messages received in chunks through host memory")          \
    X(mapped_calls,                                                                                \
      "Of the operations that coll/gpuring ran, those on mapped buffers of all ranks")             \
    X(bytes, "Bytes of the vectors of the operations that coll/gpuring ran")                       \
    GPURING_ALGORITHMS(GPURING_PVAR_OF_ALGORITHM, X)                                               \
    KERNELS_PROTOCOLS(GPURING_PVAR_OF_PROTOCOL, X)                                                 \
    X(resumed, "Kernels that were launched again after they had waited for their patience")        \
    X(silent_peers,                                                                                \
      "Ranks whose GPU memory is mapped, but does not receive what is written to it")              \
    X(torn_peers,                                                                                  \
      "Ranks whose lines of LL128 were received torn, so that it is not used with them")           \
    X(wireups, "Communicators and persistent calls that were wired up")                            \
    X(gathered, "Wire-ups in which the ranks exchanged their locations and devices (AllGather 1)") \
    X(reused, "Communicators and persistent calls that use the connections of a freed "            \
              "communicator")

/* Counters of the proxies, in gpuring_process.net_counts. */
#define GPURING_NET_PVARS(X)                                    \
    X(net_bytes, "Bytes that this process sent over a network") \
    X(net_retries, "Network transfers that were repeated after a fault")

/* Levels: current values. */
#define GPURING_LEVEL_PVARS(X)                                   \
    X(nodes, "Nodes of the communicator that was wired up last") \
    X(pooled, "Sets of connections of freed communicators that are kept (coll_gpuring_pool_size)")

/* Texts, which are printed when they are read. At most GPURING_PVAR_TEXT characters including the
 * terminating zero. */
#define GPURING_TEXT_PVARS(X)                                                                   \
    X(previous, "Components that would serve MPI_COMM_WORLD without coll/gpuring: a word like " \
                "allreduce=tuned for each function")
#define GPURING_PVAR_TEXT 4096

/* Prints the value of `previous`. Set by the component before it registers the variables. */
extern void (*gpuring_pvar_previous_text)(char *text, size_t room);

enum gpuring_pvar {
#define GPURING_PVAR_ENUM(name, help) GPURING_PVAR_##name,
    GPURING_PVARS(GPURING_PVAR_ENUM) GPURING_LEVEL_PVARS(GPURING_PVAR_ENUM)
#undef GPURING_PVAR_ENUM
        GPURING_PVAR_COUNT
};

extern unsigned long long gpuring_pvar_values[GPURING_PVAR_COUNT];

static inline void gpuring_pvar_add(enum gpuring_pvar pvar, unsigned long long amount)
{
    if (gpuring_process.threads) {
        __atomic_fetch_add(&gpuring_pvar_values[pvar], amount, __ATOMIC_RELAXED);
    } else {
        gpuring_pvar_values[pvar] += amount;
    }
}

static inline void gpuring_pvar_set(enum gpuring_pvar pvar, unsigned long long value)
{
    __atomic_store_n(&gpuring_pvar_values[pvar], value, __ATOMIC_RELAXED);
}

/* Register the performance variables. Returns 0 or GPURING_ERR_IO. */
int gpuring_pvars_register(const mca_base_component_t *component);

/* Register the parameters. It is declared here because params.h needs no headers of Open MPI. An
 * invalid value is reported with a help text and replaced with the default. Returns 0,
 * GPURING_ERR_NOMEM or GPURING_ERR_IO. */
int gpuring_params_register(const mca_base_component_t *component);

#endif
