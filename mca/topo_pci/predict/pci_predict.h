/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The cost model: predict the time of a collective with each algorithm and protocol, and select the
 * best combination and its number of channels. There are two formulas.
 *
 * For the GPUs of one node, it follows the thread blocks of our executor step by step
 * (predict/executor_model.c), with the latencies and bandwidths of the GPU:
 *
 *     time = launch + steps + data + end
 *
 * For several nodes:
 *
 *     time = base + sum of hop latencies + bytes / (channel bandwidth x factor x correction)
 *
 * The constants are in a table (struct pci_costs). There are two built-in tables: one for GPUs,
 * with published measurements of GPUs, counts of our kernels and, between nodes, the figures of
 * NCCL 2.30.7's model as derived from its answers on real machines; and one with only the latter. A
 * text file overrides any of the constants (pci_costs_parse). doc/cost-model.md derives them.
 *
 * Units: microseconds, bytes, GB/s (1e9 bytes per second).
 * Threads: no shared state. Only pci_costs_load() allocates memory.
 */
#ifndef TOPO_PCI_PREDICT_PCI_PREDICT_H
#define TOPO_PCI_PREDICT_PCI_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/topo_pci/search/pci_channels.h"

/* Name of the constant, name in files, name in reports. The order is that of the plans. */
#define PCI_ALGORITHMS(X)         \
    X(RING, "ring", "Ring")       \
    X(TREE, "tree", "Tree")       \
    X(DIRECT, "direct", "Direct") \
    X(TWO_SHOT, "two-shot", "Two-shot")
#define PCI_PROTOCOLS(X)          \
    X(SIMPLE, "simple", "Simple") \
    X(LL, "ll", "LL")             \
    X(LL128, "ll128", "LL128")
/* Kind of link between two neighbours. */
#define PCI_HOPS(X)               \
    X(NVLINK, "nvlink", "NVLink") \
    X(PCI, "pci", "PCI")          \
    X(NET, "net", "Net")
/* Number of nodes that take part. */
#define PCI_SPANS(X)     \
    X(ONE, "one", "One") \
    X(TWO, "two", "Two") \
    X(MORE, "more", "More")
/* GPU generations by compute capability: below 8.0, 8.x, 9.x, 10 and above. */
#define PCI_GENERATIONS(X)  \
    X(SM70, "sm70", "sm70") \
    X(SM80, "sm80", "sm80") \
    X(SM90, "sm90", "sm90") \
    X(SM100, "sm100", "sm100")
/* Vendors of the host processor whose networks differ. */
#define PCI_HOSTS(X)           \
    X(INTEL, "intel", "Intel") \
    X(AMD, "amd", "AMD")       \
    X(OTHER, "other", "Other")

/* Compute capabilities in the model of the executor. Others use the next lower one. */
#define PCI_CAPABILITIES(X) \
    X(70, "sm70", )         \
    X(75, "sm75", )         \
    X(80, "sm80", )         \
    X(86, "sm86", ) X(89, "sm89", ) X(90, "sm90", ) X(100, "sm100", ) X(120, "sm120", )
/* Figures of a GPU. A block has 512 threads. */
#define PCI_GPU_FIGURES(X)                                                                \
    X(LAUNCH, "launch", "us from the call of the driver to a block's first instruction")  \
    X(HOST, "host", "us of a load from the host's memory")                                \
    X(SEEN, "seen", "us from a block's store to the host's memory until the host has it") \
    X(LOAD, "load", "us of a load from device memory")                                    \
    X(L2, "l2", "us of a load from the L2 cache, where data of a peer is")                \
    X(BARRIER, "barrier", "us of a barrier of the block")                                 \
    X(PORT, "port", "GB/s between a multiprocessor and the L2 cache")                     \
    X(MEMORY, "memory", "GB/s of device memory, reached")                                 \
    X(SMS, "sms", "multiprocessors, unless the job specifies them")
/* Kind of path between the blocks of two ranks. */
#define PCI_WAYS(X)         \
    X(LOCAL, "local", "")   \
    X(NVLINK, "nvlink", "") \
    X(PCI, "pci", "")
#define PCI_WAY_FIGURES(X)                                                \
    X(STORE, "store", "us from a store until the peer's L2 cache has it") \
    X(FENCE, "fence", "us of a system fence after such stores")
/* Figures of the executor (kernels/), by protocol. */
#define PCI_EXECUTOR_FIGURES(X)                                                           \
    X(CHUNK, "chunk", "bytes of data in a slot")                                          \
    X(BATCH, "batch", "bytes of an operand that a block has in flight")                   \
    X(OPERANDS, "operands", "operands in flight together")                                \
    X(NARROW, "narrow", "bytes of an operand in flight if a step has more than 2")        \
    X(WIDE, "wide", "operands in flight together in such a step")                         \
    X(ROUND, "round", "barriers of the block for each batch")                             \
    X(STEP, "step", "barriers of the block for each step")                                \
    X(POLLS, "polls", "loads, one after the other, until a step has seen its data")       \
    X(FENCES, "fences", "system fences of a step that sends")                             \
    X(EXPAND, "expand", "bytes in a slot for each byte of data")                          \
    X(SLICES, "slices", "parts of a chunk; waiting, moving and posting of them overlap")  \
    X(AHEAD, "ahead", "1: a batch is loaded while the one before is stored")              \
    X(WORK, "work", "us of instructions for each step")                                   \
    X(POST, "post", "us of instructions to post what a step sends")                       \
    X(ITEM, "item", "us of instructions for each operand, destination and store")         \
    X(EACH, "each", "us of instructions to find the chunks if each peer has its own")     \
    X(ONCE, "once", "us of `work` in a direct exchange")                                  \
    X(FILL, "fill", "us of instructions to prepare a step that does not wait for a peer") \
    X(SIGNAL, "signal", "us of instructions of the steps without data on mapped buffers")
/* Figures of a call, before its first step and after its last one. */
#define PCI_CALL_FIGURES(X)                                                              \
    X(ENTRY, "entry", "us of the host's side: entry, classification of buffers, driver") \
    X(HOST_LOADS, "host-loads", "loads from the host's memory, one after the other")     \
    X(LOADS, "loads", "loads from device memory, one after the other")                   \
    X(BARRIERS, "barriers", "barriers of the block")                                     \
    X(FETCH, "fetch", "us of instructions that no cache has")                            \
    X(FENCES, "fences", "system fences before a block reports its end")
/* Parts of a time, see struct pci_parts. */
#define PCI_PARTS(X)        \
    X(LAUNCH, "launch", "") \
    X(STEPS, "steps", "")   \
    X(DATA, "data", "")     \
    X(END, "end", "")
/* Collectives in the order of the plans, with the factor of their bus bandwidth for n ranks. The
 * size is that of all ranks' blocks together, or of one rank's vector if there are no blocks (as in
 * allreduce and bcast). */
#define PCI_COLLECTIVES(X)                           \
    X(ALLREDUCE, "allreduce", 2 * (n - 1) / n)       \
    X(BCAST, "bcast", 1)                             \
    X(REDUCE, "reduce", 1)                           \
    X(SCAN, "scan", 1)                               \
    X(EXSCAN, "exscan", 1)                           \
    X(ALLGATHER, "allgather", (n - 1) / n)           \
    X(REDUCE_SCATTER, "reduce_scatter", (n - 1) / n) \
    X(ALLTOALL, "alltoall", (n - 1) / n)             \
    X(GATHER, "gather", (n - 1) / n)                 \
    X(SCATTER, "scatter", (n - 1) / n)

#define PCI_ENUM(id, file, report) PCI_ALGORITHM_##id,
enum pci_algorithm { PCI_ALGORITHMS(PCI_ENUM) PCI_ALGORITHM_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, report) PCI_PROTOCOL_##id,
enum pci_protocol { PCI_PROTOCOLS(PCI_ENUM) PCI_PROTOCOL_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, report) PCI_HOP_##id,
enum pci_hop { PCI_HOPS(PCI_ENUM) PCI_HOP_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, report) PCI_SPAN_##id,
enum pci_span { PCI_SPANS(PCI_ENUM) PCI_SPAN_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, report) PCI_GENERATION_##id,
enum pci_generation { PCI_GENERATIONS(PCI_ENUM) PCI_GENERATION_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, report) PCI_HOST_##id,
enum pci_host { PCI_HOSTS(PCI_ENUM) PCI_HOST_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_CAPABILITY_##id,
enum pci_capability { PCI_CAPABILITIES(PCI_ENUM) PCI_CAPABILITY_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_GPU_##id,
enum pci_gpu_figure { PCI_GPU_FIGURES(PCI_ENUM) PCI_GPU_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_WAY_##id,
enum pci_way_kind { PCI_WAYS(PCI_ENUM) PCI_WAY_COUNT };
enum pci_way_figure { PCI_WAY_FIGURES(PCI_ENUM) PCI_WAY_FIGURE_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_EXECUTOR_##id,
enum pci_executor_figure { PCI_EXECUTOR_FIGURES(PCI_ENUM) PCI_EXECUTOR_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_CALL_##id,
enum pci_call_figure { PCI_CALL_FIGURES(PCI_ENUM) PCI_CALL_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, meaning) PCI_PART_##id,
enum pci_part_kind { PCI_PARTS(PCI_ENUM) PCI_PART_COUNT };
#undef PCI_ENUM
#define PCI_ENUM(id, file, factor) PCI_COLLECTIVE_##id,
enum pci_collective { PCI_COLLECTIVES(PCI_ENUM) PCI_COLLECTIVE_COUNT };
#undef PCI_ENUM

#define PCI_SIZE_COUNT 40 /* sizes by their binary logarithm */

/* The tables: name in files, member, dimensions from the outermost on, meaning. Dimensions:
 * Algorithm, Protocol, kind of Hop, Span, Generation, Vendor of the host processor, Logarithm of
 * the size; compute Capability, Way, and the figures of a GPU (F), a way (X), the Executor and a
 * call (K). */
#define PCI_COST_TABLES(X)                                                                       \
    X("base", base, "AP", "us of a call before anything moves")                                  \
    X("hop", hop, "APH", "us per hop")                                                           \
    X("factor", factor, "APS", "share of the channels' bandwidth that a protocol can use")       \
    X("cap", cap, "APG", "most GB/s in all on one node; 0: no limit")                            \
    X("net_cap", net_cap, "APVS", "most GB/s in all on several nodes; 0: no limit")              \
    X("channel_cap", channel_cap, "APGS", "most GB/s of one channel; 0: no limit")               \
    X("correction", correction, "APL", "share of the bandwidth reached at 2^n bytes")            \
    X("channel_bytes", channel_bytes, "AP", "bytes that a further channel needs")                \
    X("channel_rank_bytes", channel_rank_bytes, "AP", "bytes that it needs for each rank")       \
    X("net_hop", net_hop, "PV", "us: least of a ring's hop inside a node, on several nodes")     \
    X("plateau", plateau, "G", "times longer are a Simple ring's hops with data, several nodes") \
    X("chain_tree", chain_tree, "S",                                                             \
      "share of the bandwidth when a tree's chain starts at its NIC")                            \
    X("gpu", gpu, "CF", "of a GPU; 0: the executor is not modelled")                             \
    X("way", way, "WX", "of a path between two ranks")                                           \
    X("executor", executor, "PE", "of the executor")                                             \
    X("call", call, "K", "of a call")

struct pci_costs {
    double base[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT];
    double hop[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_HOP_COUNT];
    double factor[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_SPAN_COUNT];
    double cap[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_GENERATION_COUNT];
    double net_cap[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_HOST_COUNT][PCI_SPAN_COUNT];
    double channel_cap[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_GENERATION_COUNT]
                      [PCI_SPAN_COUNT];
    double correction[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT][PCI_SIZE_COUNT];
    double channel_bytes[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT];
    double channel_rank_bytes[PCI_ALGORITHM_COUNT][PCI_PROTOCOL_COUNT];
    double net_hop[PCI_PROTOCOL_COUNT][PCI_HOST_COUNT];
    double plateau[PCI_GENERATION_COUNT];
    double chain_tree[PCI_SPAN_COUNT];
    double gpu[PCI_CAPABILITY_COUNT][PCI_GPU_COUNT];
    double way[PCI_WAY_COUNT][PCI_WAY_FIGURE_COUNT];
    double executor[PCI_PROTOCOL_COUNT][PCI_EXECUTOR_COUNT];
    double call[PCI_CALL_COUNT];
};

/* Description of a job for the model. An algorithm with zero channels (or bandwidth) is not
 * offered. */
struct pci_job_graph {
    uint32_t channels; /* found by the search; connecting doubles them */
    double bw_intra;   /* GB/s of one channel inside a node */
    double bw_inter;   /* GB/s of one channel between nodes */
    bool nvlink;       /* path class inside a node is NVL; all others count as PCI */
    bool ll128;        /* 128-byte stores stay whole on the way, see pci_ll128_whole() */
    bool chain;        /* tree only: the GPU with the NIC is the chain's end, not in its middle */
};

struct pci_job {
    enum pci_collective collective; /* to predict; 0: allreduce */
    uint32_t nodes;
    uint32_t ranks;
    uint32_t sharing;  /* ranks that share each GPU under CUDA MPS; 0, 1: no sharing */
    int sm;            /* the lowest compute capability; 0: that of the generation */
    uint32_t channels; /* after connecting: maximum for a call */
    enum pci_generation generation;
    enum pci_host host;
    struct pci_job_graph ring, tree;
    double latency_inter; /* us that the NICs add to each hop between nodes */
    struct {
        double algbw; /* if every GPU sends the vector to every other on one node */
        bool nvlink;
    } direct;           /* of both direct exchanges */
    bool mapped;        /* two-shot with Simple works on the buffers of all ranks, without slots */
    uint32_t protocols; /* bit mask 1 << pci_protocol of the allowed ones */
};

/*
 * Describe a job on identical nodes. channels is the number of global channels after connecting.
 * The direct exchanges are offered if there is one node whose GPUs all have paths to all others.
 * All protocols are allowed at first. Returns -EINVAL (no node, or no GPU), -E2BIG or -ENOMEM.
 */
int pci_job_of_graph(const struct pci_graph *graph, uint32_t nodes, const struct pci_channels *ring,
                     const struct pci_channels *tree, uint32_t channels, struct pci_job *job);

/* Reduce each figure of a job to that of another job whose ranks take part in the same calls. The
 * numbers of ranks and channels remain unchanged. */
void pci_job_join(struct pci_job *job, const struct pci_job *other);

/* Let `sharing` ranks use each GPU of the job, with kernels that run simultaneously. */
void pci_job_share(struct pci_job *job, uint32_t sharing);

struct pci_choice {
    enum pci_algorithm algorithm;
    enum pci_protocol protocol;
    uint32_t channels;
    double us;
};

/* Return names for reports ("Ring"); NULL for an invalid number. */
const char *pci_algorithm_label(enum pci_algorithm algorithm);
const char *pci_protocol_label(enum pci_protocol protocol);

/* Return the generation of a compute capability (70, 86, 90, ...). */
enum pci_generation pci_generation_of(int sm);

/*
 * Return true if LL128 works over channels with these path classes on GPUs with this compute
 * capability, because its 128-byte stores stay whole. They do from sm70 on over NVLink, also
 * through a GPU in between. Between nodes they do if the path to the NIC avoids the CPU; from sm90
 * on this may include a relay GPU. These are the rules of the reference.
 */
bool pci_ll128_whole(int sm, enum pci_path_class intra, enum pci_path_class inter);

/* Return true if rings of this job must not use LL128 although the paths allow it, because NCCL
 * excludes it (src/graph/tuning.cc of 2.30): kernels compiled by CUDA 11.8 (toolkit 11080, as
 * CUDA_VERSION), two ranks, compute capability 9.0. */
bool pci_ll128_ring_excluded(const struct pci_job *job, int toolkit);

/* Fill in the built-in table. Return 0. (-EINVAL would mean that the table does not parse, which
 * the tests exclude.) */
int pci_costs_gpu(struct pci_costs *costs);
int pci_costs_reference(struct pci_costs *costs); /* NCCL's constants, without our executor */

/* Return the name ("allreduce") or NULL; the number of a name or -1; and the factor from bandwidth
 * to bus bandwidth. */
const char *pci_collective_name(enum pci_collective collective);
int pci_collective_parse(const char *name);
double pci_collective_bus(enum pci_collective collective, uint32_t ranks);

/* Return the microseconds of the job's collective, or INFINITY if the job does not offer it. */
double pci_predict_us(const struct pci_costs *costs, const struct pci_job *job,
                      enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes);

/* Return the parts of that time if the executor is modelled, otherwise false. Launch: until a block
 * has its lane; steps: their waiting time; data: moving it; end: from the last store to the return.
 */
struct pci_parts {
    double us[PCI_PART_COUNT], total, blocks; /* blocks: time for data, without links and memory */
    const char *limit;                        /* of the data: "blocks", "links" or "memory" */
    uint32_t channels;                        /* number for these times */
};
bool pci_predict_parts(const struct pci_costs *costs, const struct pci_job *job,
                       enum pci_algorithm algorithm, enum pci_protocol protocol, uint64_t bytes,
                       struct pci_parts *parts);

/* Return the number of channels for a node's plans, on GPUs of this compute capability: as many as
 * their thread blocks need for `gbps` (0: unknown), at most `blocks`, but at least `found`, the
 * number that the search has found. pci_sms: return the multiprocessors of such a GPU in the table.
 */
uint32_t pci_lanes(const struct pci_costs *costs, int sm, uint32_t blocks, uint32_t found,
                   double gbps);
uint32_t pci_sms(const struct pci_costs *costs, int sm);

/* Minimum bytes of the slices of a chunk, see kernels/work.h. */
#define PCI_SLICE_LEAST 32768

/* Return the number of stripes of an exchange between all ranks if `channels` lanes are wanted: as
 * many as the memory of their connections allows, at least 1. Those of two-shot have smaller slots:
 * pci_two_shot_slot returns the size of slots that have `bytes` bytes with few connections. */
uint32_t pci_direct_stripes(uint32_t ranks, uint32_t channels);
uint32_t pci_two_shot_stripes(uint32_t ranks, uint32_t channels);
uint64_t pci_two_shot_slot(uint32_t connections, uint64_t bytes);

/* Return the number of lanes of a stripe of direct, each for some of the peers, for collectives
 * with separate steps for each peer: the ratio of channels to stripes. */
uint32_t pci_direct_lanes(uint32_t ranks, uint32_t channels);

/* Return the number of channels for a call of this size: 1 .. job->channels. */
uint32_t pci_predict_channels(const struct pci_costs *costs, const struct pci_job *job,
                              enum pci_algorithm algorithm, enum pci_protocol protocol,
                              uint64_t bytes);

/* Find the fastest combination among the algorithms of a bit mask (1 << pci_algorithm). Return 0,
 * or -ENOENT if none is offered. */
int pci_predict_best(const struct pci_costs *costs, const struct pci_job *job, uint32_t algorithms,
                     uint64_t bytes, struct pci_choice *choice);

/* The best times of rings and trees for sizes from 1 KiB to 1 GiB; INFINITY if the job offers none.
 * They use the formula for several nodes, so that nodes can be compared with their parts. */
#define PCI_CURVE_FIRST 10u
#define PCI_CURVE_SIZES 21u
struct pci_curve {
    double us[PCI_CURVE_SIZES];
};
void pci_predict_curve(const struct pci_costs *costs, const struct pci_job *job,
                       struct pci_curve *curve);

/* Return true if `curve` is faster in the geometric mean, and either no size is slower by more than
 * 2 % or the largest size is faster by at least a quarter. */
bool pci_curve_better(const struct pci_curve *curve, const struct pci_curve *than);

/* Search for several rings and trees of a node, and return those with the best times on NODES nodes
 * with the built-in table for GPUs. Errors as pci_channels_search() and pci_job_of_graph(). */
int pci_channels_of_graph(const struct pci_graph *graph, uint32_t nodes, struct pci_channels *ring,
                          struct pci_channels *tree);

/*
 * A set of GPUs that exchange data directly: all GPUs of a node, or one of its parts
 * (graph/parts.c), which NICs connect like nodes.
 */
struct pci_part {
    const struct pci_graph
        *graph; /* of the part's GPUs, in the order of their ranks, and all NICs */
    struct pci_channels ring, tree;
    struct pci_graph *own; /* the part's graph, to be freed; NULL: the graph is that of the node */
};
struct pci_chosen {
    uint32_t nparts; /* 1: all GPUs */
    struct pci_part *part;
    struct pci_job job; /* on limits->nodes such nodes */
};

/*
 * Search for the channels of a node within LIMITS, whose pattern and preferred number are ignored.
 * Return those of the whole node or those of its parts, whichever pci_curve_better() prefers. DOC:
 * the document of GRAPH; NULL: do not consider parts. GRAPH must keep its NICs and outlive the
 * result.
 */
int pci_choose(const struct pci_graph *graph, const struct pci_doc *doc,
               const struct pci_costs *costs, const struct pci_search *limits,
               struct pci_chosen *chosen, struct pci_error *error);
void pci_chosen_fini(struct pci_chosen *chosen); /* a zeroed structure is allowed */

/*
 * Override constants. One per line:
 *     TABLE INDEX ... VALUE ...     # e.g. "hop ring ll nvlink 0.6", "cap * ll * 39 87.7 141 282"
 * An index is a name of its dimension, several names separated by commas, or * for all. Sizes are
 * numbers or ranges (10-24). One value sets all selected elements; several values set the elements
 * of the last index. # starts a comment. Values are finite and not negative.
 *
 * Returns 0 or -EINVAL. After an error, costs is unchanged, and error (may be NULL with size 0)
 * contains "line N: ...". pci_costs_load() also returns the errors of pci_file_read(), with a text
 * that does not contain the path. Files have at most 1 MiB.
 */
int pci_costs_parse(const char *text, size_t length, struct pci_costs *costs, char *error,
                    size_t size);
int pci_costs_load(const char *path, struct pci_costs *costs, char *error, size_t size);

#endif /* TOPO_PCI_PREDICT_PCI_PREDICT_H */
