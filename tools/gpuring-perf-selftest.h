/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Shared by the files of gpuring-perf --selftest.
 *
 *   gpuring-perf-selftest.c         the passes: pairs of ranks, then all ranks
 *   gpuring-perf-selftest-data.c    the data of a call, and calls whose result is checked
 *   gpuring-perf-selftest-table.c   progress bar, table and JSON
 */
#ifndef GPURING_PERF_SELFTEST_H
#define GPURING_PERF_SELFTEST_H

#include "gpuring-perf.h"

enum selftest_verdict {
    SELFTEST_UNUSED,
    SELFTEST_RIGHT,
    SELFTEST_SILENT,
    SELFTEST_WRONG,
    SELFTEST_FAILED
};

/* Results of one path, at one rank or merged over ranks. */
struct selftest_result {
    int calls;
    int failed;                 /* calls that returned an MPI error */
    int used;                   /* calls that took the path */
    int silent;                 /* mapped memory that did not receive the data written to it */
    int net;                    /* calls that sent data over a network */
    long long wrong;            /* words, or elements, over all calls */
    double microseconds, bytes; /* of the fastest call with the largest size */
};

/*
 * The ways in which two ranks exchange data: X(NAME, column, cuda, protocol, p2p_level, hint).
 * cuda: only with CUDA memory. protocol "": messages. hint: option that avoids the path.
 */
#define SELFTEST_WAYS(X)                                                         \
    X(MESSAGES, "messages", false, "", "", "--mca coll_gpuring_p2p off")         \
    X(DIRECT, "direct", true, "", "", "--mca coll_gpuring_p2p_rendezvous 0")     \
    X(CHUNKS, "chunks", true, "", "LOC", "--mca coll_gpuring_p2p_rendezvous 0")  \
    X(SIMPLE, "simple", false, "simple", "", "--mca coll_gpuring_p2p_level LOC") \
    X(LL, "ll", false, "ll", "", "--mca coll_gpuring_p2p_level LOC")             \
    X(LL128, "ll128", false, "ll128", "", "--mca coll_gpuring_protocol simple")  \
    X(HOSTS, "hosts", true, "simple", "LOC", "--mca coll_gpuring_priority 0")
enum selftest_way {
#define SELFTEST_WAY_ENUM(name, ...) SELFTEST_##name,
    SELFTEST_WAYS(SELFTEST_WAY_ENUM)
#undef SELFTEST_WAY_ENUM
        SELFTEST_WAY_COUNT
};

#define SELFTEST_MAX_ROWS 64
#define SELFTEST_NAME     48

struct selftest {
    struct perf_bench *bench;
    struct perf_options options; /* of the bench, with the tested collective */
    double begin;                /* MPI_Wtime */
    int pass;
    uint64_t seed;
    long done, all;                /* parts of the first pass */
    struct selftest_result *pairs; /* [ranks][SELFTEST_WAY_COUNT]: of this rank and each other */
    struct selftest_result rows[SELFTEST_MAX_ROWS]; /* of all ranks */
    char names[SELFTEST_MAX_ROWS][SELFTEST_NAME];
    int nrows;
    int bar;      /* a terminal, or -1 */
    bool stopped; /* a communicator could not be created */
};

/* ---- data: calls with a checked result, which is added to *result ---- */

/* Exchange `words` 64-bit words with the other rank of `comm`, in both directions. */
void selftest_exchange(struct selftest *test, MPI_Comm comm, int partner, size_t words,
                       uint64_t serial, struct selftest_result *result);
/* Sum `words` 64-bit words over the ranks of `comm`, which are `ranks` of the world. */
void selftest_sum(struct selftest *test, MPI_Comm comm, const int *ranks, int nranks, size_t words,
                  uint64_t serial, struct selftest_result *result);
/* Call a collective on the world with the data of gpuring-perf. */
void selftest_collective(struct selftest *test, MPI_Comm comm,
                         const struct perf_collective *collective, size_t bytes,
                         struct selftest_result *result);

/* ---- table: rank 0 ---- */

void selftest_bar_open(struct selftest *test);
void selftest_bar_draw(struct selftest *test);
void selftest_bar_close(struct selftest *test);

enum selftest_verdict selftest_verdict(const struct selftest_result *result);
void selftest_merge(struct selftest_result *into, const struct selftest_result *from);

/* Print the results. pairs: [ranks][ranks][SELFTEST_WAY_COUNT]; rows: merged over the ranks. Return
 * the number of paths with wrong data or errors, or -1 after a message. */
int selftest_report(const struct selftest *test, const struct selftest_result *pairs,
                    const struct selftest_result *rows);

#endif
