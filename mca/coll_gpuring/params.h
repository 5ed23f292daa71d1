/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The list of the parameters coll_gpuring_*. Registration, checks of values, the comparison between
 * ranks and tests are generated from it.
 *
 *   INT(name, default, level, scope, low, high, help)    a number from low to high
 *   SIZE(name, default, level, scope, low, high, help)   bytes; suffixes k, m, g
 *   CHOICE(name, default, level, scope, values, help)    one of a list (GPURING_VALUES_...)
 *   TEXT(name, default, level, scope, help)              free text; "" if it is not set
 *
 * level: 1-3 user, 4-6 tuner, 7-9 developer. scope SHARED: must be equal on all ranks of a
 * communicator (compared when it is wired up); LOCAL: may differ.
 */
#ifndef GPURING_PARAMS_H
#define GPURING_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/step.h"

/* Values of the choices: V(NAME, text). The first is 0. */
#define GPURING_VALUE_OF_ALGORITHM(V, name, id, text, help) V(ALGORITHM_##name, text)
#define GPURING_VALUE_OF_PROTOCOL(name, id, V)              V(PROTOCOL_##name, #id)
#define GPURING_VALUES_device(V) \
    V(DEVICE_AUTO, "auto") V(DEVICE_CUDA, "cuda") V(DEVICE_HOST, "host") V(DEVICE_OFF, "off")
#define GPURING_VALUES_algorithm(V) \
    V(ALGORITHM_AUTO, "auto")       \
    GPURING_ALGORITHMS(GPURING_VALUE_OF_ALGORITHM, V) V(ALGORITHM_PREVIOUS, "previous")
#define GPURING_VALUES_protocol(V) \
    V(PROTOCOL_AUTO, "auto")       \
    KERNELS_PROTOCOLS(GPURING_VALUE_OF_PROTOCOL, V)
#define GPURING_VALUES_level(V) \
    V(LEVEL_AUTO, "auto")       \
    V(LEVEL_LOC, "LOC")         \
    V(LEVEL_NVL, "NVL")         \
    V(LEVEL_PIX, "PIX") V(LEVEL_PXB, "PXB") V(LEVEL_PHB, "PHB") V(LEVEL_SYS, "SYS")
#define GPURING_VALUES_net(V) \
    V(NET_AUTO, "auto")       \
    V(NET_VERBS, "verbs") V(NET_UCX, "ucx") V(NET_MPI, "mpi") V(NET_NONE, "none")
#define GPURING_VALUES_mtu(V) /* in the order of enum ibv_mtu */ \
    V(MTU_AUTO, "auto")                                          \
    V(MTU_256, "256")                                            \
    V(MTU_512, "512")                                            \
    V(MTU_1024, "1024")                                          \
    V(MTU_2048, "2048")                                          \
    V(MTU_4096, "4096")
#define GPURING_VALUES_agree(V)          V(AGREE_SYMMETRIC, "symmetric") V(AGREE_ALWAYS, "always")
#define GPURING_VALUES_p2p(V)            V(P2P_AUTO, "auto") V(P2P_ON, "on") V(P2P_OFF, "off")
#define GPURING_VALUES_default_stream(V) /* in the order of enum gpuring_default_stream */ \
    V(DEFAULT_STREAM_WAIT, "wait") V(DEFAULT_STREAM_WARN, "warn") V(DEFAULT_STREAM_NONE, "none")
#define GPURING_VALUES_check(V) V(CHECK_OFF, "off") V(CHECK_PLANS, "plans") V(CHECK_DATA, "data")

#define GPURING_PARAM_VALUE(name, text) GPURING_PARAM_##name,
enum gpuring_param_device { GPURING_VALUES_device(GPURING_PARAM_VALUE) };
enum gpuring_param_algorithm { GPURING_VALUES_algorithm(GPURING_PARAM_VALUE) };
enum gpuring_param_protocol { GPURING_VALUES_protocol(GPURING_PARAM_VALUE) };
enum gpuring_param_level { GPURING_VALUES_level(GPURING_PARAM_VALUE) };
enum gpuring_param_net { GPURING_VALUES_net(GPURING_PARAM_VALUE) };
enum gpuring_param_mtu { GPURING_VALUES_mtu(GPURING_PARAM_VALUE) };
enum gpuring_param_agree { GPURING_VALUES_agree(GPURING_PARAM_VALUE) };
enum gpuring_param_p2p { GPURING_VALUES_p2p(GPURING_PARAM_VALUE) };
enum gpuring_param_default_stream { GPURING_VALUES_default_stream(GPURING_PARAM_VALUE) };
enum gpuring_param_check { GPURING_VALUES_check(GPURING_PARAM_VALUE) };
#undef GPURING_PARAM_VALUE

#define GPURING_MAX_CHANNELS 64

#define GPURING_PARAMS(INT, SIZE, CHOICE, TEXT)                                                    \
    INT(priority, 0, 1, LOCAL, 0, 100,                                                             \
        "Priority among the collective components; 0, the default, selects other components, 90 "  \
        "is recommended")                                                                          \
    CHOICE(device, 0, 1, SHARED, device,                                                           \
           "Memory whose calls are served: cuda (GPU buffers), host (ordinary memory, by the "     \
           "CPU), off (none), or auto (cuda, without a message if the build has no CUDA)")         \
    CHOICE(algorithm, 0, 2, SHARED, algorithm,                                                     \
           "Algorithm of the collectives that have it; auto selects by the tuning file and by "    \
           "size; previous delegates all calls to the component that serves without this one")     \
    INT(deterministic, 0, 2, SHARED, 0, 1,                                                         \
        "1 folds reductions in the order of the ranks, so that results depend only on the inputs " \
        "and the number of ranks; 0 uses the fastest order")                                       \
    CHOICE(protocol, 0, 2, SHARED, protocol,                                                       \
           "Protocol of chunks: simple (bandwidth), ll (latency), ll128 (latency; on GPUs where "  \
           "128-byte stores stay whole, otherwise as auto), or auto (by size)")                    \
    TEXT(tuning_file, "", 2, LOCAL,                                                                \
         "File that selects the algorithm and protocol by collective and size, as gpuring-perf "   \
         "--tuning writes it; all ranks must have equal rules")                                    \
    INT(min_channels, 0, 4, SHARED, 0, GPURING_MAX_CHANNELS,                                       \
        "Smallest number of channels (rings or trees); 0: the topology decides")                   \
    INT(max_channels, 0, 4, SHARED, 0, GPURING_MAX_CHANNELS,                                       \
        "Largest number of channels (rings or trees); 0: the topology decides")                    \
    INT(direct_ranks, 16, 4, SHARED, 2, 1024,                                                      \
        "Largest number of ranks that are all connected with each other from the start; larger "   \
        "communicators make these connections when a call first needs them")                       \
    INT(connect_after, 64, 3, SHARED, 0, 127,                                                      \
        "Number of first calls that other components run on a communicator except "                \
        "MPI_COMM_WORLD, where a KiB counts as a call; 0 or deterministic: none")                  \
    INT(pool_size, 8, 4, LOCAL, 0, 1024,                                                           \
        "Number of freed communicators whose connections this process keeps for later "            \
        "communicators of the same ranks; 0: none")                                                \
    SIZE(buffer_size, 1048576, 4, SHARED, 8192, 1073741824,                                        \
         "Bytes of the buffer of each connection with protocol simple, shared by 8 slots; with "   \
         "coll_gpuring_device=host on one node, twice that for all direct connections of a rank")  \
    SIZE(chunk_size, 0, 4, SHARED, 0, 1073741824,                                                  \
         "Largest number of bytes that are sent as one chunk; 0: one slot of the buffer")          \
    INT(patience, 0, 5, LOCAL, 0, 1000000,                                                         \
        "Microseconds that a kernel waits for other ranks before it ends, to be launched again "   \
        "by the next MPI call; 0: 50 where ranks share the GPU, 1000 with MPS, otherwise 20000")   \
    INT(linger, 20, 5, LOCAL, 0, 1000,                                                             \
        "Microseconds that the kernel of a small call within a node waits for the next call, "     \
        "which then needs no launch; 0: it ends")                                                  \
    INT(map_buffers, 1, 4, SHARED, 0, 1,                                                           \
        "1: the GPUs of a node access each other's buffers in persistent allreduces if the cost "  \
        "model predicts that this is faster; 0: data is sent through slots")                       \
    CHOICE(                                                                                        \
        default_stream, 0, 2, LOCAL, default_stream,                                               \
        "Work of the program on the CUDA default stream: wait (calls on GPU buffers follow it), "  \
        "warn (one message if a call finds it running), none")                                     \
    CHOICE(p2p, 0, 2, LOCAL, p2p,                                                                  \
           "Accept GPU buffers in point-to-point calls: on, off, or auto (on, unless Open MPI "    \
           "was built with CUDA and uses its PML ob1)")                                            \
    SIZE(p2p_rendezvous, 1048576, 4, LOCAL, 0, 1099511627776,                                      \
         "Smallest message in bytes from contiguous GPU memory that is sent in chunks between "    \
         "nodes; within a node at most 16 KiB; 0: all messages are staged whole")                  \
    SIZE(p2p_kernels, 1048576, 5, LOCAL, 0, 1048576,                                               \
         "Largest message in bytes between GPUs of a node that kernels copy; the driver copies "   \
         "larger ones; 0: none")                                                                   \
    TEXT(topo_file, "", 3, LOCAL,                                                                  \
         "File with the topology of the node (XML as NCCL dumps it), read instead of detecting "   \
         "the topology")                                                                           \
    TEXT(topo_dump_file, "", 3, LOCAL,                                                             \
         "File to which rank 0 of MPI_COMM_WORLD writes the topology of its node")                 \
    TEXT(graph_dump_file, "", 3, LOCAL,                                                            \
         "File to which rank 0 of MPI_COMM_WORLD writes the channels of the communicator that "    \
         "was connected last, of those in which it is rank 0")                                     \
    TEXT(hostid, "", 3, LOCAL,                                                                     \
         "Identity of the node; processes with different identities connect by network; default: " \
         "boot id, host name and namespaces")                                                      \
    CHOICE(p2p_level, 0, 4, SHARED, level,                                                         \
           "Farthest path on which ranks of a node map each other's GPU memory; LOC: none; auto: " \
           "as the topology engine plans channels, or all if the topology is unknown")             \
    CHOICE(gdr_level, 0, 4, SHARED, level,                                                         \
           "Farthest path on which a network device accesses GPU memory directly; auto: the "      \
           "topology decides")                                                                     \
    CHOICE(net, 0, 2, SHARED, net,                                                                 \
           "Network between nodes: verbs, ucx, mpi, none, or auto (verbs or ucx where an RDMA "    \
           "device connects all nodes, otherwise messages of MPI)")                                \
    TEXT(                                                                                          \
        verbs_hca, "", 3, LOCAL,                                                                   \
        "Network devices to use, or after ^ not to use: mlx5_0:1,mlx5_2 or ^mlx5_1; default: all") \
    INT(verbs_timeout, -1, 5, LOCAL, -1, 31,                                                       \
        "Exponent N of the time to wait for an acknowledgement, 4.096 us x 2^N; -1: 20, which is " \
        "4.3 s")                                                                                   \
    INT(verbs_retry_count, -1, 5, LOCAL, -1, 7,                                                    \
        "Number of times that a packet without acknowledgement is sent again; -1: 7, or 6 with "   \
        "devices made by software")                                                                \
    INT(verbs_qps, 1, 5, SHARED, 1, 4,                                                             \
        "Queue pairs of each verbs connection, used in turn; more than the default of 1 can be "   \
        "faster where the network spreads traffic by queue pair")                                  \
    INT(verbs_spares, 1, 5, SHARED, 0, 3,                                                          \
        "Number of other ports of the host to which a verbs connection can fail over; 0: it "      \
        "fails with its port")                                                                     \
    INT(verbs_gid_index, -1, 5, LOCAL, -1, 255,                                                    \
        "Index of the GID (ibv_devinfo -v) that verbs connections use on every port; -1: the "     \
        "best one for RoCE v2, IPv4 first")                                                        \
    INT(verbs_sl, 0, 5, LOCAL, 0, 15,                                                              \
        "Service level of verbs connections; with RoCE, the priority of the VLAN tag")             \
    INT(verbs_tc, 0, 5, LOCAL, 0, 255,                                                             \
        "Traffic class of verbs connections with a GRH; with RoCE v2, 4 times the DSCP of the IP " \
        "header")                                                                                  \
    INT(verbs_pkey, 0, 5, LOCAL, 0, 32767,                                                         \
        "Partition key of verbs connections without the membership bit, as 0x123; ports without "  \
        "it are not used; 0: the first one in the port's table")                                   \
    CHOICE(verbs_mtu, 0, 5, LOCAL, mtu,                                                            \
           "Largest packet of verbs connections in bytes, where the smaller value of both ends "   \
           "counts; auto: the setting of the port")                                                \
    TEXT(proxy_cpu, "auto", 5, LOCAL,                                                              \
         "Cores of the progress thread: auto (near the network device and without a rank, if "     \
         "there are any), none (those of the process), or a list, 3 or 0,4-7")                     \
    INT(proxy_spin, -1, 6, LOCAL, -1, 1000000,                                                     \
        "Microseconds that the progress thread polls before it yields its core; -1: 50 with a "    \
        "core of its own, otherwise 2")                                                            \
    INT(proxy_yield, -1, 6, LOCAL, -1, 1000000,                                                    \
        "Microseconds that the progress thread polls and yields before it sleeps; -1: 200")        \
    INT(timeout, 0, 2, LOCAL, 0, 2147483,                                                          \
        "Seconds without progress after which a collective returns an MPI error (a staged one is " \
        "only reported); 0: never, with a report after 300 s")                                     \
    CHOICE(agree, 0, 3, SHARED, agree,                                                             \
           "Memory of the ranks in one call: symmetric (all on GPUs or all on hosts) or always "   \
           "(any mixture, for a small message round before each call)")                            \
    SIZE(agree_size, 262144, 3, SHARED, 0, 1099511627776,                                          \
         "Smallest call with a root in bytes before which nodes agree by messages where the "      \
         "buffers are; smaller calls on GPU memory are staged, with 0 all calls with a root")      \
    CHOICE(check, 0, 3, SHARED, check,                                                             \
           "plans: prove the allreduce plans of all ranks before use; data: compare each "         \
           "allreduce with one by MPI messages (slow); off: neither")                              \
    INT(verbose, 0, 1, LOCAL, 0, 3,                                                                \
        "Amount of log output: 1: what was selected and why calls are delegated; 2: connections; " \
        "3: every operation; 0: warnings and errors")                                              \
    TEXT(log_file, "", 1, LOCAL,                                                                   \
         "File to which log lines are appended with their time; %h is the host, %p the process "   \
         "id; errors and warnings also go to standard error")

#define GPURING_PARAM_INT(name, def, level, scope, low, high, help)  int name;
#define GPURING_PARAM_SIZE(name, def, level, scope, low, high, help) size_t name;
#define GPURING_PARAM_CHOICE(name, def, level, scope, values, help)  int name;
#define GPURING_PARAM_TEXT(name, def, level, scope, help)            char *name;
struct gpuring_params {
    GPURING_PARAMS(GPURING_PARAM_INT, GPURING_PARAM_SIZE, GPURING_PARAM_CHOICE, GPURING_PARAM_TEXT)
};
#undef GPURING_PARAM_INT
#undef GPURING_PARAM_SIZE
#undef GPURING_PARAM_CHOICE
#undef GPURING_PARAM_TEXT

/* The values of this process: the defaults before registration, constant afterwards. */
extern struct gpuring_params gpuring_params;

/* Return true if a TEXT parameter was set. */
static inline bool gpuring_param_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Number of SHARED parameters, their values in the order of the list, and a value's text. */
enum {
#define GPURING_PARAM_LOCAL(name)
#define GPURING_PARAM_SHARED(name)                                   GPURING_SHARED_##name,
#define GPURING_PARAM_INT(name, def, level, scope, low, high, help)  GPURING_PARAM_##scope(name)
#define GPURING_PARAM_SIZE(name, def, level, scope, low, high, help) GPURING_PARAM_##scope(name)
#define GPURING_PARAM_CHOICE(name, def, level, scope, values, help)  GPURING_PARAM_##scope(name)
#define GPURING_PARAM_TEXT(name, def, level, scope, help)            GPURING_PARAM_##scope(name)
    GPURING_PARAMS(GPURING_PARAM_INT, GPURING_PARAM_SIZE, GPURING_PARAM_CHOICE, GPURING_PARAM_TEXT)
#undef GPURING_PARAM_INT
#undef GPURING_PARAM_SIZE
#undef GPURING_PARAM_CHOICE
#undef GPURING_PARAM_TEXT
#undef GPURING_PARAM_SHARED
#undef GPURING_PARAM_LOCAL
        GPURING_SHARED_COUNT
};

/* Warn about each variable OMPI_MCA_coll_gpuring_* of the environment that is not a parameter. */
void gpuring_params_warn_unknown(void);

void gpuring_params_shared(int64_t values[GPURING_SHARED_COUNT]);
const char *gpuring_params_shared_name(int index);
/* Write a value as a user would ("ring", "1048576"). */
void gpuring_params_shared_text(int index, int64_t value, char *text, size_t size);

#endif
