/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf: what its files share. An ordinary MPI program: it works with every MPI library, and
 * knows of coll/gpuring what MPI_T shows.
 *
 *   gpuring-perf.c             the measurement
 *   gpuring-perf-bench.c       .. sizes, buffers, calls and their check
 *   gpuring-perf-variants.c    measuring several ways to serve in turns
 *   gpuring-perf-compare.c     .. what serves and what would serve without coll/gpuring
 *   gpuring-perf-tune.c        .. and all ways, for tuning files
 *   gpuring-perf-rules.c       writing these
 *   gpuring-perf-selftest.c    testing all paths (gpuring-perf-selftest.h)
 *   gpuring-perf-options.c     the command line
 *   gpuring-perf-values.c      .. values of options
 *   gpuring-perf-message.c     messages
 *   gpuring-perf-collective.c  the collectives, their shapes and bus bandwidth factors
 *   gpuring-perf-data.c        types, operations, predictable inputs and the check
 *   gpuring-perf-memory.c      host memory and CUDA memory
 *   gpuring-perf-counters.c    performance variables and parameters by MPI_T
 *   gpuring-perf-report.c      table and JSON
 *   gpuring-perf-json.c        .. files of JSON
 *
 * One thread. Functions return 0 or print a message and return -1.
 */
#ifndef GPURING_PERF_H
#define GPURING_PERF_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* NULL if there is no such name. perf_type_at and perf_op_at: NULL after the last one. */
const struct perf_type *perf_type_find(const char *name);
const struct perf_type *perf_type_at(size_t index);
const struct perf_op *perf_op_find(const char *name);
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

/* One call, prepared. With several ranks in a block-wise collective, count is that of a block. */
struct perf_call {
    const void *send; /* MPI_IN_PLACE where asked */
    void *recv;
    int count;
    const int *counts, *displs; /* the same of each block, and where they begin */
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

/* Blocks of `count` elements that the send and the receive buffer hold. */
size_t perf_collective_send_blocks(const struct perf_collective *collective, size_t nranks);
size_t perf_collective_recv_blocks(const struct perf_collective *collective, size_t nranks);

/* What the size column counts. */
const char *perf_collective_size(const struct perf_collective *collective);

/* busbw / algbw. Source: the bytes that the busiest link must carry, per byte of the size column;
 * the formulas are those of nccl-tests, so that figures can be compared; scans, which it does not
 * have, count as a chain. */
const char *perf_collective_bus_text(const struct perf_collective *collective);
double perf_collective_bus_factor(const struct perf_collective *collective, size_t nranks);

/* ---- options ----------------------------------------------------------------------------- */

enum perf_memory { PERF_MEMORY_HOST, PERF_MEMORY_CUDA };

#define PERF_MAX_ROUNDS 1000

struct perf_options {
    const struct perf_collective *collective;
    bool all; /* and all others that can be tuned */
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    const struct perf_type **types; /* ntypes, owned */
    size_t ntypes;
    const struct perf_op **ops; /* nops, owned */
    size_t nops;
    int root;
    int warmup;
    int settle_ms;  /* of calls before the first size */
    int iterations; /* 0: by size */
    int in_place;   /* 0 no, 1 yes */
    bool barrier;   /* before each timed call, outside its time */
    bool check;
    bool percentiles;
    enum perf_memory memory;
    const char *json; /* NULL: none; "-": standard output instead of the table */
    const char *tune; /* tuning file to write, NULL: none */
    bool compare;     /* with what would serve without coll/gpuring */
    int rounds;       /* for these two */
    bool selftest;
    int seconds; /* for it */
};

/* Returns 0, 1 (--help or --version were answered: end with success) or -1 (wrong: message given).
 * Only the process with `speaker` prints. */
int perf_options_parse(int argc, char **argv, bool speaker, struct perf_options *options);
void perf_options_free(struct perf_options *options);

/* gpuring-perf-values.c: values of options. 0, or -1 with a message. */
int perf_value_bytes(const char *option, const char *text, size_t *bytes);
int perf_value_count(const char *option, const char *text, int least, int *count);
int perf_value_factor(const char *text, double *factor);
int perf_select_types(const char *list, struct perf_options *options);
int perf_select_ops(const char *list, struct perf_options *options);
int perf_select_memory(const char *name, enum perf_memory *memory);
int perf_select_collective(const char *name, struct perf_options *options);

/* ---- memory ------------------------------------------------------------------------------ */

/* Number of GPUs that the driver lists; 0 without a driver. No message, and no context. */
int perf_memory_gpus(void);
/* local_rank chooses the GPU. */
int perf_memory_open(enum perf_memory memory, int local_rank);
void perf_memory_close(void); /* after MPI_Finalize */
const char *perf_memory_name(void);
void *perf_memory_alloc(size_t bytes);
void perf_memory_free(void *pointer);
int perf_memory_write(void *to, const void *host, size_t bytes);
int perf_memory_read(void *host, const void *from, size_t bytes);

/* ---- data -------------------------------------------------------------------------------- */

struct perf_case {
    const struct perf_collective *collective;
    const struct perf_type *type;
    const struct perf_op *op;
    size_t count; /* elements of a block */
    int root, rank, nranks;
    bool in_place;
};

/* Fill `elements` elements of a host buffer with what this rank contributes. */
void perf_data_fill(const struct perf_case *what, void *buffer);
/* Fill a host buffer with bytes that no right result has. */
void perf_data_poison(void *buffer, size_t bytes);
/* Number of wrong elements in the receive buffer of this rank; *first: index of the first one. */
size_t perf_data_check(const struct perf_case *what, const void *buffer, size_t *first);

/* ---- counters ---------------------------------------------------------------------------- */

#define PERF_COUNTER_OF_ALGORITHM(X, name, id, text, help) X(calls_##id)
#define PERF_COUNTERS(X)                             \
    X(calls)                                         \
    X(fallbacks)                                     \
    X(staged)                                        \
    X(staged_messages)                               \
    X(direct_messages)                               \
    X(chunked_messages)                              \
    X(bytes)                                         \
    GPURING_ALGORITHMS(PERF_COUNTER_OF_ALGORITHM, X) \
    X(calls_simple)                                  \
    X(calls_ll)                                      \
    X(calls_ll128)                                   \
    X(net_bytes)                                     \
    X(net_retries)                                   \
    X(silent_peers)                                  \
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

/* Begin to count; false from perf_counters_present: coll/gpuring is not loaded. */
int perf_counters_open(void);
void perf_counters_close(void);
bool perf_counters_present(void);
/* The reason, the path and the remedy where perf_counters_present returns false. Static storage. */
const char *perf_counters_absent(void);
int perf_counters_read(struct perf_counts *counts);
/* The value of parameter coll_gpuring_NAME as text; "" if there is none. */
void perf_counters_parameter(const char *name, char *text, size_t room);
/* Nodes of the communicator that coll/gpuring wired up last; -1: not known. */
int perf_counters_nodes(void);
/* The component that would serve this collective without coll/gpuring; "previous": not known. */
void perf_counters_previous(const char *collective, char *text, size_t room);
/* Set it, of a list, to one of its values. Counts for communicators that are wired up later. */
int perf_counters_set(const char *name, const char *value);

/* ---- report ------------------------------------------------------------------------------ */

struct perf_row {
    size_t bytes, count;
    const struct perf_type *type;
    const struct perf_op *op;
    int root;
    int iterations;
    double time;                     /* microseconds a call: the slowest rank's mean */
    double p50, p90, p99, low, high; /* microseconds: over the calls, each at its slowest rank */
    double algbw, busbw;             /* GB/s */
    long long wrong;                 /* elements, over all ranks; -1: not checked */
    struct perf_counts served;       /* by this rank during the timed calls */
};

/* A file of JSON; "-" is standard output. Try to write it before the measurements, which may take
 * hours: no new file is left. */
struct json_t;
int perf_json_try(const char *path);
int perf_json_write(const struct json_t *document, const char *path);

struct perf_report;

struct perf_report *perf_report_open(const struct perf_options *options, int nranks,
                                     const char *mpi_version);
int perf_report_row(struct perf_report *report, const struct perf_row *row);
/* Print the last lines, write the JSON file, free the report. */
int perf_report_close(struct perf_report *report);

/* "gpuring ring/ll shm", "other", ...: who served the calls. */
void perf_report_served(const struct perf_counts *served, char *text, size_t room);

/* ---- measuring --------------------------------------------------------------------------- */

struct perf_bench {
    const struct perf_options *options;
    struct perf_report *report; /* rank 0, without --tuning and --compare */
    int rank, nranks, local_rank;
    void *send, *recv; /* of options->memory */
    int *counts, *displs;
    void *host; /* staging: the larger of both */
    double *times, *slowest;
    MPI_Comm barriers; /* of --barrier: makes no other calls, so that coll/gpuring serves none */
    int max_iterations;
    bool settled; /* the calls before the first size are done */
    long long wrong;
};

/* Everyone learns whether someone failed. */
bool perf_all_well(bool well);
/* Blocks that the larger buffer has. */
size_t perf_bench_blocks(const struct perf_bench *bench);
/* Elements of a block so that the whole is at most `bytes`; at least 1 if bytes is not 0. */
size_t perf_bench_count(const struct perf_bench *bench, const struct perf_type *type, size_t bytes);
/* Can MPI's ints count the elements of all blocks? Else with a message. */
bool perf_bench_countable(const struct perf_bench *bench, size_t count);
size_t perf_next_size(const struct perf_options *options, size_t bytes);
int perf_iterations(const struct perf_options *options, size_t bytes);
struct perf_call perf_bench_call(struct perf_bench *bench, const struct perf_case *what);
/* A blocking call, with which ranks connect: non-blocking ones before it may be delegated. */
int perf_bench_connect(const struct perf_case *what, struct perf_call *call);
/* Fill, call, and check; *wrong grows by this rank's wrong elements. */
int perf_bench_checked(struct perf_bench *bench, const struct perf_case *what,
                       struct perf_call *call, long long *wrong);

/* ---- variants ---------------------------------------------------------------------------- */

#define PERF_MAX_VARIANTS   16
#define PERF_MAX_SIZES      256 /* those beyond are not measured */
#define PERF_VARIANT_AS_SET (-1)
#define PERF_CONFIDENCE     0.95

/* A way to serve the collective. Add what is as set first: the others set parameters. */
struct perf_variant {
    int algorithm, protocol; /* enum gpuring_param_algorithm, PERF_VARIANT_AS_SET; .._protocol */
    const char *algorithm_name, *protocol_name;
    MPI_Comm comm;
    struct perf_call call;     /* of the size that is measured */
    bool active;               /* measured in all rounds, not in the first one alone */
    struct perf_counts served; /* by this rank: one call of the last size */
    double *times;             /* microseconds a call of the slowest rank, a round each; rank 0 */
};

struct perf_variants {
    struct perf_bench *bench;
    struct perf_variant at[PERF_MAX_VARIANTS];
    int count;
};

/* A median of rounds, and what holds the true one with PERF_CONFIDENCE (if fewer than 6: all). */
struct perf_median {
    double value, low, high;
};

/* 0, 1 (not offered here; not added), or -1 (a call failed). Collective. */
int perf_variant_add(struct perf_variants *set, int algorithm, int protocol);
void perf_variants_close(struct perf_variants *set);

/* Measure all at each size; rank 0 calls report after each. Those behind the first one that
 * take twice the time of the best of them are left out after the first round. 0 or -1. */
typedef void perf_variants_fn(void *argument, size_t bytes);
int perf_variants_sweep(struct perf_variants *set, perf_variants_fn *report, void *argument);

/* Rank 0: the median time of one, and of the rounds' ratios of two. */
double perf_variant_time(const struct perf_variants *set, int v);
struct perf_median perf_variants_ratio(const struct perf_variants *set, int v, int by);

/* ---- comparing --------------------------------------------------------------------------- */

/* 0, 1 (it cannot be done, as all ranks know), or -1 (a call failed at this rank: the others may
 * be inside of it). */
int perf_compare(struct perf_bench *bench);

/* ---- selftest ---------------------------------------------------------------------------- */

/* Is there --selftest? It changes defaults, so it must be known before the other options. */
bool perf_selftest_asked(int argc, char **argv);
/* Before MPI_Init: turn coll/gpuring on for the memory that will be tested, with a time limit,
 * unless the environment does so already. */
void perf_selftest_environment(int argc, char **argv);
/* Test every path until options->seconds are over, and report; bench->wrong grows by the number of
 * paths that are not right. Returns as perf_compare. */
int perf_selftest(struct perf_bench *bench);

/* ---- tuning ------------------------------------------------------------------------------ */

/* Measure and write options->tune. Returns as perf_compare; of `all`, what is not served here is
 * passed over with a message. */
int perf_tune(struct perf_bench *bench);
/* The collective of tuning rules, -1: none has its name. */
int perf_tune_number(const struct perf_collective *collective);

struct gpuring_tuning_rule;

/* The file as it is, before anything is measured; NULL: it cannot be used, or not be written. */
struct perf_rules *perf_rules_open(const char *path);
/* Replace the rules of their collective, memory, nodes and ranks by these, and write it. Frees
 * `file`. A remark for each rule, or NULL. */
int perf_rules_write(struct perf_rules *file, const struct gpuring_tuning_rule *rules,
                     char *const *remarks, size_t count);
void perf_rules_close(struct perf_rules *file);

/* A message on standard error, in the shape of all messages of the tool. Between silence(true) and
 * silence(false) none is printed: all ranks read the command line, but one reports. */
void perf_message_silence(bool silent);
void perf_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
