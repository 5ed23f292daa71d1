/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Shared by the files of gpuring-perf, an ordinary MPI program that works with every MPI library.
 * It accesses coll/gpuring only through MPI_T, and with --enqueue through gpuring-stream.c.
 *
 *   gpuring-perf.c             the measurement
 *   gpuring-perf-bench.c       .. sizes, buffers, calls and their check
 *   gpuring-perf-variants.c    measuring several ways to serve alternately
 *   gpuring-perf-compare.c     .. as set, and without coll/gpuring (--compare)
 *   gpuring-perf-tune.c        .. all algorithms and protocols (--tuning)
 *   gpuring-perf-rules.c       writing tuning files
 *   gpuring-perf-selftest.c    testing all paths (gpuring-perf-selftest.h)
 *   gpuring-perf-options.c     the command line
 *   gpuring-perf-values.c      .. values of options
 *   gpuring-perf-message.c     messages
 *   gpuring-perf-enqueue.c     calls in a CUDA stream (--enqueue)
 *   gpuring-perf-collective.c  the collectives, their shapes and bus bandwidth factors
 *   gpuring-perf-data.c        types, operations, predictable inputs and the check
 *   gpuring-perf-memory.c      host memory and CUDA memory
 *   gpuring-perf-counters.c    performance variables and parameters by MPI_T
 *   gpuring-perf-report.c      table and JSON
 *   gpuring-perf-json.c        .. JSON files
 *
 * One thread. Functions return 0 or print a message and return -1.
 */
#ifndef GPURING_PERF_H
#define GPURING_PERF_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/step.h"

/* ---- types and operations ---------------------------------------------------------------- */

enum perf_class { PERF_INTEGER, PERF_FLOATING, PERF_COMPLEX };

struct perf_type {
    const char *name;
    MPI_Datatype mpi;
    size_t bytes;
    enum perf_class class;
    int64_t exact; /* integers 0 .. exact are represented exactly */
    void (*store)(void *buffer, size_t at, int64_t value);
    bool (*equal)(const void *buffer, size_t at, int64_t value);
};

enum perf_op_kind {
    PERF_SUM,
    PERF_PROD,
    PERF_MAX,
    PERF_MIN,
    PERF_LAND,
    PERF_LOR,
    PERF_LXOR,
    PERF_BAND,
    PERF_BOR,
    PERF_BXOR
};

struct perf_op {
    const char *name;
    MPI_Op mpi;
    enum perf_op_kind kind;
};

/* Return NULL after the last one. */
const struct perf_type *perf_type_at(size_t index);
const struct perf_op *perf_op_at(size_t index);
bool perf_op_fits(const struct perf_op *op, const struct perf_type *type);

/* ---- collectives ------------------------------------------------------------------------- */

enum perf_shape {
    PERF_REDUCE_ALL, /* every rank: fold of all ranks' vectors */
    PERF_REDUCE_ROOT,
    PERF_REDUCE_BLOCK, /* rank r: block r of the fold */
    PERF_SCAN,         /* rank r: fold of the vectors of ranks 0 to r */
    PERF_EXSCAN,       /* .. to r - 1 */
    PERF_BCAST,
    PERF_GATHER_ALL,
    PERF_GATHER,
    PERF_SCATTER,
    PERF_ALLTOALL,
    PERF_NO_DATA,
};

/* A prepared call. In a collective with a block for each rank, count is that of a block. */
struct perf_call {
    const void *send; /* MPI_IN_PLACE if requested */
    void *recv;
    int count;
    const int *counts, *displs; /* count of each block (all equal), and the blocks' offsets */
    const struct perf_type *type;
    const struct perf_op *op; /* NULL: the collective does not reduce */
    int root;
    MPI_Comm comm;
    MPI_Request request; /* persistent calls: between prepare and finish */
};

struct perf_collective {
    const char *name;
    enum perf_shape shape;
    int (*blocking)(struct perf_call *call); /* the blocking form of this collective */
    int (*prepare)(struct perf_call *call);  /* NULL: nothing to do */
    int (*run)(struct perf_call *call);
    int (*finish)(struct perf_call *call);
};

const struct perf_collective *perf_collective_find(const char *name);
const struct perf_collective *perf_collective_at(size_t index);
bool perf_collective_reduces(const struct perf_collective *collective);
bool perf_collective_has_root(const struct perf_collective *collective);

/* Return the number of blocks of `count` elements in the send buffer and in the receive buffer. */
size_t perf_collective_send_blocks(const struct perf_collective *collective, size_t nranks);
size_t perf_collective_recv_blocks(const struct perf_collective *collective, size_t nranks);

/* Return a description of the size column. */
const char *perf_collective_size(const struct perf_collective *collective);

/* Return busbw / algbw: the bytes that the busiest link must carry for each byte of the size
 * column. The formulas are those of nccl-tests, so that figures can be compared. Scans, which
 * nccl-tests does not have, use the factor of a chain. */
const char *perf_collective_bus_text(const struct perf_collective *collective);
double perf_collective_bus_factor(const struct perf_collective *collective, size_t nranks);

/* ---- options ----------------------------------------------------------------------------- */

enum perf_memory { PERF_MEMORY_HOST, PERF_MEMORY_CUDA };

#define PERF_MAX_ROUNDS 1000
#define PERF_MAX_CHOSEN 16 /* types or operations */

struct perf_options {
    const struct perf_collective *collective;
    bool all; /* also measure all others that can be tuned */
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    const struct perf_type *types[PERF_MAX_CHOSEN];
    size_t ntypes;
    const struct perf_op *ops[PERF_MAX_CHOSEN];
    size_t nops;
    int root;
    int warmup;
    int settle_ms;  /* duration of calls before the first size */
    int iterations; /* 0: by size */
    bool in_place;
    bool barrier; /* before each timed call, outside its time */
    bool no_check;
    bool percentiles;
    enum perf_memory memory;
    const char *json; /* NULL: none; "-": standard output instead of the table */
    const char *tune; /* tuning file to write, NULL: none */
    bool compare;     /* with the component that would serve without coll/gpuring */
    int rounds;       /* of tune and compare */
    bool enqueue;     /* in a CUDA stream; the collective is its enqueued form */
    bool graph;       /* the timed calls are a CUDA graph; with enqueue */
    bool selftest;
    int seconds;  /* of the selftest */
    bool speaker; /* this process prints messages about the options */
};

/* Return 0, 1 (--help or --version: exit with success) or -1 (error: a message was printed). Only
 * the process with `speaker` prints. */
int perf_options_parse(int argc, char **argv, bool speaker, struct perf_options *options);

/* gpuring-perf-values.c: values of options. 0, or -1 with a message. */
int perf_value_factor(const char *text, double *factor);
int perf_select_types(const char *list, struct perf_options *options);
int perf_select_ops(const char *list, struct perf_options *options);
int perf_select_memory(const char *name, enum perf_memory *memory);
int perf_select_collective(const char *name, struct perf_options *options);

/* ---- memory ------------------------------------------------------------------------------ */

/* Return the number of GPUs that the driver lists, 0 without a driver. Print no message and create
 * no context. */
int perf_memory_gpus(void);
/* local_rank selects the GPU. */
int perf_memory_open(enum perf_memory memory, int local_rank);
void perf_memory_close(void); /* after MPI_Finalize */
const char *perf_memory_name(void);
void *perf_memory_alloc(size_t bytes);
void perf_memory_free(void *pointer);
int perf_memory_write(void *to, const void *host, size_t bytes);
int perf_memory_read(void *host, const void *from, size_t bytes);
/* Return the CUDA stream of the copies, and wait for its end. Only for CUDA memory. */
void *perf_memory_stream(void);

/* CUDA graphs of work in the stream: load the functions (0 or -1), begin a capture, end it and
 * return the graph (NULL after an error), launch the graph, and free it (NULL is allowed). */
int perf_graph_open(void);
int perf_graph_begin(void);
void *perf_graph_end(void);
int perf_graph_launch(void *graph);
void perf_graph_free(void *graph);
int perf_memory_synchronize(void);

/* ---- data -------------------------------------------------------------------------------- */

struct perf_case {
    const struct perf_collective *collective;
    const struct perf_type *type;
    const struct perf_op *op;
    size_t count; /* elements of a block */
    int root, rank, nranks;
    bool in_place;
};

/* Fill a host buffer with the contribution of this rank. */
void perf_data_fill(const struct perf_case *what, void *buffer);
/* Fill a host buffer with bytes that no correct result has. */
void perf_data_poison(void *buffer, size_t bytes);
/* Return the number of wrong elements in this rank's receive buffer. *first: index of the first
 * one. */
size_t perf_data_check(const struct perf_case *what, const void *buffer, size_t *first);

/* ---- counters ---------------------------------------------------------------------------- */

#define PERF_COUNTER_OF_ALGORITHM(X, name, id, text, help) X(calls_##id)
#define PERF_COUNTER_OF_PROTOCOL(name, id, X)              X(calls_##id)
#define PERF_COUNTERS(X)                             \
    X(calls)                                         \
    X(fallbacks)                                     \
    X(staged)                                        \
    X(staged_messages)                               \
    X(direct_messages)                               \
    X(chunked_messages)                              \
    X(bytes)                                         \
    GPURING_ALGORITHMS(PERF_COUNTER_OF_ALGORITHM, X) \
    KERNELS_PROTOCOLS(PERF_COUNTER_OF_PROTOCOL, X)   \
    X(net_bytes)                                     \
    X(net_retries)                                   \
    X(silent_peers)                                  \
    X(torn_peers)                                    \
    X(wireups)

enum perf_counter {
#define PERF_COUNTER_ENUM(name) PERF_COUNTER_##name,
    PERF_COUNTERS(PERF_COUNTER_ENUM)
#undef PERF_COUNTER_ENUM
        PERF_COUNTER_COUNT
};

struct perf_counts {
    uint64_t value[PERF_COUNTER_COUNT];
};

/* Start counting. perf_counters_present returns false if coll/gpuring is not loaded. */
int perf_counters_open(void);
void perf_counters_close(void);
bool perf_counters_present(void);
/* If perf_counters_present is false, return the reason, the path and the remedy. Static storage. */
const char *perf_counters_absent(void);
int perf_counters_read(struct perf_counts *counts);
/* Read the counters, and set *since to their increase from `before` on. */
int perf_counters_since(const struct perf_counts *before, struct perf_counts *since);
/* Write the value of parameter coll_gpuring_NAME as text, or "" if there is none. */
void perf_counters_parameter(const char *name, char *text, size_t room);
/* Return the number of nodes of the communicator that coll/gpuring wired up last; -1: unknown. */
int perf_counters_nodes(void);
/* Write the name of the component that would serve this collective without coll/gpuring, or
 * "previous" if it is unknown. */
void perf_counters_previous(const char *collective, char *text, size_t room);
/* Set a parameter to one of its named values, for communicators that are wired up later. */
int perf_counters_set(const char *name, const char *value);

/* ---- report ------------------------------------------------------------------------------ */

struct perf_row {
    size_t bytes, count;
    const struct perf_type *type;
    const struct perf_op *op;
    int root;
    int iterations;
    double time;                     /* microseconds per call: the slowest rank's mean */
    double p50, p90, p99, low, high; /* microseconds over the calls, each on its slowest rank */
    double algbw, busbw;             /* GB/s */
    long long wrong;                 /* elements, over all ranks; -1: not checked */
    struct perf_counts served;       /* by this rank during the timed calls */
};

/* Write a JSON file; "-" is standard output. perf_json_try checks before the measurements, which
 * may take hours, that the file can be written, and leaves no new file. */
struct json_t;
int perf_json_try(const char *path);
int perf_json_write(const struct json_t *document, const char *path);

struct perf_report;

struct perf_report *perf_report_open(const struct perf_options *options, int nranks,
                                     const char *mpi_version);
int perf_report_row(struct perf_report *report, const struct perf_row *row);
/* Print the last lines, write the JSON file, free the report. */
int perf_report_close(struct perf_report *report);

/* Write what served the calls: "gpuring ring/ll shm", "other", ... */
void perf_report_served(const struct perf_counts *served, char *text, size_t room);

/* ---- measuring --------------------------------------------------------------------------- */

struct perf_bench {
    const struct perf_options *options;
    struct perf_report *report; /* rank 0, without --tuning and --compare */
    int rank, nranks, local_rank;
    void *send, *recv; /* in options->memory */
    int *counts, *displs;
    void *host; /* staging buffer with the larger of both sizes */
    double *times, *slowest;
    MPI_Comm barriers; /* for --barrier; it makes no other calls, so coll/gpuring serves none */
    int max_iterations;
    bool settled; /* the calls before the first size have been made */
    long long wrong;
};

/* Return true on all ranks if every rank passed true. */
bool perf_all_well(bool well);
/* Return the number of blocks in the larger buffer. */
size_t perf_bench_blocks(const struct perf_bench *bench);
/* Return the elements of a block so that all blocks have at most `bytes`; at least 1 unless bytes
 * is 0. */
size_t perf_bench_count(const struct perf_bench *bench, const struct perf_type *type, size_t bytes);
/* Return a call of options->collective with about `bytes` bytes. op: ignored unless it reduces. */
struct perf_case perf_bench_case(const struct perf_bench *bench, const struct perf_type *type,
                                 const struct perf_op *op, size_t bytes);
/* Return true if an int can count the elements of all blocks. Otherwise print a message. */
bool perf_bench_countable(const struct perf_bench *bench, size_t count);
size_t perf_next_size(const struct perf_options *options, size_t bytes);
int perf_iterations(const struct perf_options *options, size_t bytes);
struct perf_call perf_bench_call(struct perf_bench *bench, const struct perf_case *what);
/* Make a blocking call, which connects the ranks. Non-blocking calls before it may be delegated. */
int perf_bench_connect(const struct perf_case *what, struct perf_call *call);
/* Fill, call, and check. Add this rank's wrong elements to *wrong. */
int perf_bench_checked(struct perf_bench *bench, const struct perf_case *what,
                       struct perf_call *call, long long *wrong);

/* Compare two doubles, for qsort. */
int perf_compare_doubles(const void *a, const void *b);

/* ---- variants ---------------------------------------------------------------------------- */

#define PERF_MAX_VARIANTS   16
#define PERF_MAX_SIZES      256 /* further sizes are not measured */
#define PERF_VARIANT_AS_SET (-1)
#define PERF_CONFIDENCE     0.95

/* A way to serve the collective. Add the variant with the user's parameters first, because the
 * others set parameters. */
struct perf_variant {
    int algorithm, protocol; /* enum gpuring_param_algorithm, PERF_VARIANT_AS_SET; .._protocol */
    const char *algorithm_name, *protocol_name;
    MPI_Comm comm;
    struct perf_call call;     /* of the current size */
    bool active;               /* measured in all rounds, not only in the first one */
    struct perf_counts served; /* counters of this rank for one call of the last size */
    double *times; /* of each round: microseconds per call of the slowest rank; rank 0 */
};

struct perf_variants {
    struct perf_bench *bench;
    struct perf_variant at[PERF_MAX_VARIANTS];
    int count;
};

/* Median over rounds, and an interval that contains the true one with PERF_CONFIDENCE, or the range
 * of all rounds if there are fewer than 6. */
struct perf_median {
    double value, low, high;
};

/* Add a variant. Return 0, 1 (not offered here, not added), or -1 (a call failed). Collective. */
int perf_variant_add(struct perf_variants *set, int algorithm, int protocol);
void perf_variants_close(struct perf_variants *set);

/* Measure all variants at each size; rank 0 calls report after each size. Variants that take twice
 * the time of the best one are omitted after the first round, except the first one. Return 0 or -1.
 */
typedef void perf_variants_fn(void *argument, size_t bytes);
int perf_variants_sweep(struct perf_variants *set, perf_variants_fn *report, void *argument);

/* On rank 0, return the median time of a variant, and the median of the rounds' ratios of two. */
double perf_variant_time(const struct perf_variants *set, int v);
struct perf_median perf_variants_ratio(const struct perf_variants *set, int v, int by);

/* ---- enqueued calls ---------------------------------------------------------------------- */

/* Return the form of a collective that enqueues it and waits for the stream, or NULL if it cannot
 * be enqueued. For one collective. */
const struct perf_collective *perf_enqueue_form(const struct perf_collective *collective);
/* Connect the ranks. Collective. */
int perf_enqueue_open(void);
void perf_enqueue_close(void);
/* Enqueue calls, wait for the stream, and set *mean to the time per call in microseconds. in_graph:
 * launch them as a graph, which was captured and launched once before the time begins. */
int perf_enqueue_timed(struct perf_call *call, int iterations, bool in_graph, double *mean);

/* ---- comparing --------------------------------------------------------------------------- */

/* Return 0, 1 (impossible, on all ranks), or -1 (a call failed on this rank; the others may still
 * be inside it). */
int perf_compare(struct perf_bench *bench);

/* ---- selftest ---------------------------------------------------------------------------- */

/* Return true if --selftest is given. It changes defaults, so it must be known before the other
 * options are read. */
bool perf_selftest_asked(int argc, char **argv);
/* Before MPI_Init: turn coll/gpuring on for the memory that will be tested, with a time limit,
 * unless the environment does so already. */
void perf_selftest_environment(int argc, char **argv);
/* Test every path until options->seconds are over, and report. Add the number of paths with errors
 * to bench->wrong. Returns as perf_compare. */
int perf_selftest(struct perf_bench *bench);

/* ---- tuning ------------------------------------------------------------------------------ */

/* Measure and write options->tune. Returns as perf_compare. With `all`, collectives that are not
 * served here are skipped with a message. */
int perf_tune(struct perf_bench *bench);
/* Return the number of the collective in tuning rules, or -1 if they do not have it. */
int perf_tune_number(const struct perf_collective *collective);

struct gpuring_tuning_rule;

/* Load the file before the measurements. NULL: it cannot be used or written. */
struct perf_rules *perf_rules_open(const char *path);
/* Replace the rules for the same collective, memory, nodes and ranks by these, and write the file.
 * A remark for each rule, or NULL. Frees `file`. */
int perf_rules_write(struct perf_rules *file, const struct gpuring_tuning_rule *rules,
                     char *const *remarks, size_t count);
void perf_rules_close(struct perf_rules *file);

/* Print a message to standard error in the common form, and return -1. Between silence(true) and
 * silence(false) no message is printed, because all ranks read the command line but only one
 * reports errors. */
void perf_message_silence(bool silent);
int perf_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
