/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * gpuring-perf --selftest: check that every path between the ranks delivers correct data.
 *
 * A pass has two stages. First all ranks form pairs in several rounds, with a different partner in
 * each round (the circle method). All pairs of a round exchange data at the same time, with
 * messages and with allreduces of two ranks with each protocol. Then all ranks call every algorithm
 * and collective. The result of each call is checked. Passes with different data are repeated until
 * the time is over. The parameters that select a path apply when a communicator is wired up, so
 * each path has a separate communicator.
 */
#include "gpuring-perf-selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 3 /* calls of each size in a pass */

static const struct way {
    bool cuda;
    const char *protocol, *level;
} ways[SELFTEST_WAY_COUNT] = {
#define WAY(name, column, cuda, protocol, level, hint) {cuda, protocol, level},
    SELFTEST_WAYS(WAY)
#undef WAY
};

/* ---- Before MPI_Init ---- */

bool perf_selftest_asked(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--selftest") == 0) {
            return true;
        }
    }
    return false;
}

/* Return the value of --memory, or "". */
static const char *memory_asked(int argc, char **argv)
{
    const char *memory = "";

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--memory=", 9) == 0) {
            memory = argv[i] + 9;
        } else if (i + 1 < argc &&
                   (strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--memory") == 0)) {
            memory = argv[i + 1];
        } else if (strncmp(argv[i], "-m", 2) == 0) {
            memory = argv[i] + 2;
        }
    }
    return memory;
}

void perf_selftest_environment(int argc, char **argv)
{
    const char *memory = memory_asked(argc, argv);

    if (!perf_selftest_asked(argc, argv)) {
        return;
    }
    if (strcmp(memory, "host") == 0 || (memory[0] == '\0' && perf_memory_gpus() == 0)) {
        (void) setenv("OMPI_MCA_coll_gpuring_device", "host", 0);
    }
    (void) setenv("OMPI_MCA_coll_gpuring_priority", "90", 0);
    (void) setenv("OMPI_MCA_coll_gpuring_timeout", "60", 0);
}

/* ---- Parameters ---- */

/* The user's parameters, which each part of the test restores. */
static struct {
    char algorithm[32], protocol[32], p2p_level[32];
} as_set;

static void remember_parameters(void)
{
    perf_counters_parameter("algorithm", as_set.algorithm, sizeof as_set.algorithm);
    perf_counters_parameter("protocol", as_set.protocol, sizeof as_set.protocol);
    perf_counters_parameter("p2p_level", as_set.p2p_level, sizeof as_set.p2p_level);
}

/* Set parameters. "" or NULL selects the user's value. */
static void set_parameters(const char *algorithm, const char *protocol, const char *level)
{
#define GIVEN(value, otherwise) ((value) != NULL && (value)[0] != '\0' ? (value) : (otherwise))
    (void) perf_counters_set("algorithm", GIVEN(algorithm, as_set.algorithm));
    (void) perf_counters_set("protocol", GIVEN(protocol, as_set.protocol));
    (void) perf_counters_set("p2p_level", GIVEN(level, as_set.p2p_level));
#undef GIVEN
}

/* ---- Pairs ---- */

/* Return the partner of a rank in a round, or -1. All nranks - 1 (or nranks) rounds differ. */
static int partner_of(int rank, int nranks, int round)
{
    int last = nranks + nranks % 2 - 1; /* this rank does not move; it may not exist */
    int partner = rank == last ? (int) ((long) round * ((last + 1) / 2) % last)
                               : (round - rank + last) % last;

    if (partner == rank) {
        partner = last;
    }
    return partner < nranks ? partner : -1;
}

static int rounds_of(int nranks)
{
    return nranks + nranks % 2 - 1;
}

/* Return true if the call since `before` used this path. The MPI library sends host messages
 * itself. */
static bool took_way(const struct selftest *test, enum selftest_way way,
                     const struct perf_counts *before, const struct perf_counts *after)
{
    static const enum perf_counter counters[SELFTEST_WAY_COUNT] = {
        PERF_COUNTER_staged_messages, PERF_COUNTER_direct_messages, PERF_COUNTER_chunked_messages,
        PERF_COUNTER_calls_simple,    PERF_COUNTER_calls_ll,        PERF_COUNTER_calls_ll128,
        PERF_COUNTER_calls_simple};

    return after->value[counters[way]] > before->value[counters[way]] ||
           (way == SELFTEST_MESSAGES && test->options.memory == PERF_MEMORY_HOST);
}

static uint64_t serial_of(const struct selftest *test, int part, int size, int repeat)
{
    return (((uint64_t) test->pass * 64 + (uint64_t) part) * 8 + (uint64_t) size) * REPEATS +
           (uint64_t) repeat;
}

/* Return sizes in words. Small messages on a GPU are staged, and large ones use the other paths. */
static int sizes_of(const struct selftest *test, enum selftest_way way, size_t sizes[3])
{
    size_t most = test->options.max_bytes / 8;

    if (way == SELFTEST_DIRECT || way == SELFTEST_CHUNKS) {
        sizes[0] = most;
        sizes[1] = most - 3;
        return 2;
    }
    sizes[0] = 1;
    sizes[1] = most / 64 > 0 ? most / 64 : 1;
    sizes[2] =
        test->options.memory == PERF_MEMORY_CUDA && way == SELFTEST_MESSAGES ? most / 8 : most / 4;
    sizes[2] = sizes[2] > 0 ? sizes[2] : 1;
    return 3;
}

/* Make all calls over one path between two ranks. */
static void pair_calls(struct selftest *test, MPI_Comm comm, int partner, enum selftest_way way)
{
    int rank = test->bench->rank;
    const int ranks[2] = {rank, partner};
    struct selftest_result *result = &test->pairs[partner * SELFTEST_WAY_COUNT + way];
    size_t sizes[3];
    int nsizes = sizes_of(test, way, sizes);

    for (int i = 0; i < nsizes * REPEATS; i++) {
        uint64_t serial = serial_of(test, (int) way, i / REPEATS, i % REPEATS);
        struct perf_counts before, after;

        (void) perf_counters_read(&before);
        if (ways[way].protocol[0] == '\0') {
            selftest_exchange(test, comm, partner, sizes[i / REPEATS], serial, result);
        } else {
            selftest_sum(test, comm, ranks, 2, sizes[i / REPEATS], serial, result);
        }
        (void) perf_counters_read(&after);
        result->used += took_way(test, way, &before, &after);
        result->net += after.value[PERF_COUNTER_net_bytes] > before.value[PERF_COUNTER_net_bytes];
        result->silent += (int) (after.value[PERF_COUNTER_silent_peers] -
                                 before.value[PERF_COUNTER_silent_peers]);
        if (strcmp(ways[way].protocol, "ll128") == 0) {
            result->silent += (int) (after.value[PERF_COUNTER_torn_peers] -
                                     before.value[PERF_COUNTER_torn_peers]);
        }
    }
}

static void test_pairs(struct selftest *test, int round, enum selftest_way way)
{
    int rank = test->bench->rank, partner = partner_of(rank, test->bench->nranks, round);
    int color = partner < 0 ? MPI_UNDEFINED : rank < partner ? rank : partner;
    MPI_Comm comm = MPI_COMM_NULL;

    if (!ways[way].cuda || test->options.memory == PERF_MEMORY_CUDA) {
        set_parameters(NULL, ways[way].protocol, ways[way].level);
        if (MPI_Comm_split(MPI_COMM_WORLD, color, rank, &comm) != MPI_SUCCESS) {
            test->stopped = true;
        }
        if (comm != MPI_COMM_NULL) {
            pair_calls(test, comm, partner, way);
            (void) MPI_Comm_free(&comm);
        }
    }
}

/* ---- All ranks ---- */

static struct selftest_result *row_of(struct selftest *test, const char *name)
{
    for (int i = 0; i < test->nrows; i++) {
        if (strcmp(test->names[i], name) == 0) {
            return &test->rows[i];
        }
    }
    if (test->nrows == SELFTEST_MAX_ROWS) {
        return NULL;
    }
    snprintf(test->names[test->nrows], SELFTEST_NAME, "%s", name);
    return &test->rows[test->nrows++];
}

/* Duplicate the world while the parameters are set. */
static bool copy_world(struct selftest *test, MPI_Comm *comm)
{
    if (MPI_Comm_dup(MPI_COMM_WORLD, comm) != MPI_SUCCESS) {
        test->stopped = true;
        return false;
    }
    return true;
}

/* Make allreduces with one algorithm and protocol. */
static void test_algorithm(struct selftest *test, int algorithm, int protocol)
{
#define TEXT(v, name, id, text, help) text,
    static const char *const algorithms[] = {GPURING_ALGORITHMS(TEXT, )};
#undef TEXT
#define TEXT(name, id, ...) #id,
    static const char *const protocols[] = {KERNELS_PROTOCOLS(TEXT)};
#undef TEXT
    int nranks = test->bench->nranks, *ranks = malloc((size_t) nranks * sizeof *ranks);
    size_t most = test->options.max_bytes / 8;
    const size_t sizes[3] = {1, most / 64 + 1, most / 4 + 1};
    char name[SELFTEST_NAME];
    struct selftest_result *result;
    MPI_Comm comm;

    snprintf(name, sizeof name, "allreduce %s/%s", algorithms[algorithm], protocols[protocol]);
    result = row_of(test, name);
    set_parameters(algorithms[algorithm], protocols[protocol], NULL);
    if (result != NULL && ranks != NULL && copy_world(test, &comm)) {
        for (int r = 0; r < nranks; r++) {
            ranks[r] = r;
        }
        for (int i = 0; i < 3 * REPEATS; i++) {
            struct perf_counts before, after;

            (void) perf_counters_read(&before);
            selftest_sum(test, comm, ranks, nranks, sizes[i / REPEATS],
                         serial_of(test, SELFTEST_WAY_COUNT + algorithm * 3 + protocol, i / REPEATS,
                                   i % REPEATS),
                         result);
            (void) perf_counters_read(&after);
            result->used += after.value[PERF_COUNTER_calls_ring + algorithm] >
                                before.value[PERF_COUNTER_calls_ring + algorithm] &&
                            after.value[PERF_COUNTER_calls_simple + protocol] >
                                before.value[PERF_COUNTER_calls_simple + protocol];
        }
        (void) MPI_Comm_free(&comm);
    }
    free(ranks);
}

/* Call every blocking collective with data. level: limit for P2P and GPUDirect, or NULL. */
static void test_collectives(struct selftest *test, const char *level)
{
    const struct perf_collective *collective;
    MPI_Comm comm;

    set_parameters(NULL, NULL, level);
    if (!copy_world(test, &comm)) {
        return;
    }
    for (size_t i = 0; (collective = perf_collective_at(i)) != NULL; i++) {
        const size_t sizes[2] = {64, test->options.max_bytes};
        char name[SELFTEST_NAME];
        struct selftest_result *result;

        if (collective->run != collective->blocking || collective->shape == PERF_NO_DATA) {
            continue;
        }
        snprintf(name, sizeof name, "%s%s", collective->name,
                 level != NULL ? " through host memory" : "");
        result = row_of(test, name);
        for (int size = 0; size < 2 && result != NULL; size++) {
            struct perf_counts before, after;

            test->options.collective = collective;
            (void) perf_counters_read(&before);
            selftest_collective(test, comm, collective, sizes[size], result);
            (void) perf_counters_read(&after);
            result->used++; /* the result must be right with every component */
            result->net +=
                after.value[PERF_COUNTER_net_bytes] > before.value[PERF_COUNTER_net_bytes];
        }
    }
    (void) MPI_Comm_free(&comm);
}

/* With CUDA memory, also test paths through host memory, between GPUs and between GPUs and NICs. */
static void test_through_hosts(struct selftest *test)
{
    char gdr_level[32];

    if (test->options.memory != PERF_MEMORY_CUDA) {
        return;
    }
    perf_counters_parameter("gdr_level", gdr_level, sizeof gdr_level);
    (void) perf_counters_set("gdr_level", "LOC");
    test_collectives(test, "LOC");
    (void) perf_counters_set("gdr_level", gdr_level);
}

/* ---- Passes ---- */

#define ALGORITHM_PARTS (GPURING_ALGORITHM_COUNT * 3)

static void part_run(struct selftest *test, int part)
{
    int rounds = rounds_of(test->bench->nranks);

    if (part < rounds * SELFTEST_WAY_COUNT) {
        test_pairs(test, part / SELFTEST_WAY_COUNT, (enum selftest_way)(part % SELFTEST_WAY_COUNT));
        return;
    }
    part -= rounds * SELFTEST_WAY_COUNT;
    if (part < ALGORITHM_PARTS) {
        test_algorithm(test, part / 3, part % 3);
    } else if (part == ALGORITHM_PARTS) {
        test_collectives(test, NULL);
    } else {
        test_through_hosts(test);
    }
}

/* Run passes until the time is over. Return 0, or -1 if a communicator could not be created. */
static int passes(struct selftest *test)
{
    int parts = rounds_of(test->bench->nranks) * SELFTEST_WAY_COUNT + ALGORITHM_PARTS + 2;
    bool more = true;

    test->all = parts;
    while (more) {
        test->seed = (uint64_t) test->pass;
        for (int part = 0; part < parts && more; part++) {
            part_run(test, part);
            test->done++;
            selftest_bar_draw(test);
            set_parameters(NULL, NULL, NULL);
            if (!perf_all_well(!test->stopped)) {
                return -1;
            }
            more =
                test->pass == 0 || perf_all_well(MPI_Wtime() - test->begin < test->options.seconds);
        }
        test->pass++;
        more = perf_all_well(MPI_Wtime() - test->begin < test->options.seconds);
    }
    return 0;
}

/* Gather the results, and report on rank 0. Return 0, 1 (an error on all ranks) or -1. *bad: number
 * of paths with errors. */
static int selftest_finish(struct selftest *test, int *bad)
{
    int n = test->bench->nranks, status = 0;
    size_t each = (size_t) n * SELFTEST_WAY_COUNT, row_bytes = sizeof test->rows;
    bool root = test->bench->rank == 0;
    struct selftest_result *pairs = root ? calloc((size_t) n * each, sizeof *pairs) : NULL;
    struct selftest_result *rows = root ? calloc((size_t) n, row_bytes) : NULL;

    if (!perf_all_well(!root || (pairs != NULL && rows != NULL))) {
        perf_message("out of memory for the results");
        status = 1;
    } else if (MPI_Gather(test->pairs, (int) (each * sizeof *pairs), MPI_BYTE, pairs,
                          (int) (each * sizeof *pairs), MPI_BYTE, 0,
                          MPI_COMM_WORLD) != MPI_SUCCESS ||
               MPI_Gather(test->rows, (int) row_bytes, MPI_BYTE, rows, (int) row_bytes, MPI_BYTE, 0,
                          MPI_COMM_WORLD) != MPI_SUCCESS) {
        status = -1;
    } else if (root) {
        for (int r = 1; r < n; r++) {
            for (int row = 0; row < test->nrows; row++) {
                selftest_merge(&rows[row], &rows[r * SELFTEST_MAX_ROWS + row]);
            }
        }
        *bad = selftest_report(test, pairs, rows);
        status = *bad < 0;
    }
    free(pairs);
    free(rows);
    return status;
}

int perf_selftest(struct perf_bench *bench)
{
    struct selftest test = {.bench = bench, .options = *bench->options, .begin = MPI_Wtime()};
    int status, bad = 0;

    if (!perf_all_well(perf_counters_present())) {
        if (bench->rank == 0) {
            perf_message("[selftest-off] coll/gpuring is not loaded on all ranks: run with "
                         "gpuring-run, or check that it is installed for this Open MPI");
        }
        return 1;
    }
    test.pairs = calloc((size_t) bench->nranks * SELFTEST_WAY_COUNT, sizeof *test.pairs);
    if (!perf_all_well(test.pairs != NULL)) {
        perf_message("out of memory for the results");
        free(test.pairs);
        return 1;
    }
    bench->options = &test.options;
    remember_parameters();
    selftest_bar_open(&test);
    status = passes(&test);
    selftest_bar_close(&test);
    if (status == 0) {
        status = selftest_finish(&test, &bad);
    }
    (void) MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    bench->wrong += bad;
    bench->options = NULL;
    free(test.pairs);
    return status;
}
