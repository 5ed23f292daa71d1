/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test staged calls while copies or allocations fail on one rank (the culprit, which is the last
 * rank). If a copy fails, its call returns the error, and the calls of the others succeed with
 * bytes of 0xff instead of its data. If an allocation fails, its call returns MPI_ERR_NO_MEM and
 * does nothing, so it can be made again. The stand-in driver injects the faults.
 *
 *   staged_failures copies    one call each; coll_gpuring_stage_size is 4096
 *   staged_failures memory    limits the process's address space; stage_size is 16m
 *   staged_failures late      one rank makes its call 3 s later; coll_gpuring_timeout is 1
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "standin_find.h"

#define COUNT 600
#define LARGE 30000 /* ints of a large call */

static void (*arm)(const char *list);
static int (*reached)(void);
static int culprit, *input, *output, *host;

static int value(int rank, int i)
{
    return 1000 * rank + i;
}

static void prepare(void)
{
    for (int i = 0; i < LARGE; i++) {
        host[i] = value(harness_rank, i);
    }
    harness_write(input, host, LARGE * sizeof *host);
    memset(host, 0, LARGE * sizeof *host);
    harness_write(output, host, LARGE * sizeof *host);
}

/* Return true if output elements have the values of a rank, or -1 if they are poisoned. */
static bool holds(int first, int count, int rank, bool poisoned)
{
    harness_read(host, output, LARGE * sizeof *host);
    for (int i = 0; i < count; i++) {
        if (host[first + i] != (poisoned ? -1 : value(rank, i))) {
            printf("# rank %d: element %d is %d\n", harness_rank, first + i, host[first + i]);
            return false;
        }
    }
    return true;
}

/* The culprit sends data to all ranks, in each form. */
static void *root_buffer(void)
{
    return harness_rank == culprit ? input : output;
}

static int bcast(void)
{
    return MPI_Bcast(root_buffer(), COUNT, MPI_INT, culprit, MPI_COMM_WORLD);
}

static int ibcast(void)
{
    MPI_Request request;
    int result = MPI_Ibcast(root_buffer(), COUNT, MPI_INT, culprit, MPI_COMM_WORLD, &request);

    return result == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : result;
}

static int bcast_init(void)
{
    MPI_Request request;
    int result;

    result = HARNESS_INIT(Bcast)(root_buffer(), COUNT, MPI_INT, culprit, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &request);
    result = result == MPI_SUCCESS ? MPI_Start(&request) : result;
    result = result == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : result;
    if (request != MPI_REQUEST_NULL) { /* Open MPI 4.1 frees it with an error */
        MPI_Request_free(&request);
    }
    return result;
}

static bool bcast_right(bool poisoned)
{
    return harness_rank == culprit || holds(0, COUNT, culprit, poisoned);
}

static int large_bcast(void)
{
    return MPI_Bcast(root_buffer(), LARGE, MPI_INT, culprit, MPI_COMM_WORLD);
}

static bool large_right(bool poisoned)
{
    return harness_rank == culprit || holds(0, LARGE, culprit, poisoned);
}

/* One of several blocks is from the culprit. */
static int allgather(void)
{
    return MPI_Allgather(input, COUNT, MPI_INT, output, COUNT, MPI_INT, MPI_COMM_WORLD);
}

static bool allgather_right(bool poisoned)
{
    bool good = true;

    for (int rank = 0; rank < harness_size && !(harness_rank == culprit && poisoned); rank++) {
        good = holds(rank * COUNT, COUNT, rank, poisoned && rank == culprit) && good;
    }
    return good;
}

/* Poisoned data makes a sum NaN. */
static int reduce(void)
{
    return MPI_Reduce(input, output, COUNT, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static bool reduce_right(bool poisoned)
{
    if (harness_rank != 0) {
        return true;
    }
    harness_read(host, output, COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++) {
        float element;

        memcpy(&element, &host[i], sizeof element);
        if (poisoned != (isnan(element) != 0)) {
            return false;
        }
    }
    return true;
}

/* Only the result of the culprit is lost. */
static int gather(void)
{
    return MPI_Gather(input, COUNT, MPI_INT, output, COUNT, MPI_INT, culprit, MPI_COMM_WORLD);
}

static bool gather_right(bool poisoned)
{
    bool good = true;

    for (int rank = 0; rank < harness_size && harness_rank == culprit && !poisoned; rank++) {
        good = holds(rank * COUNT, COUNT, rank, false) && good;
    }
    return good;
}

static const struct {
    const char *name, *fault;
    int (*call)(void);
    bool (*right)(bool poisoned);
} calls[] = {
    {"MPI_Bcast", "cuMemcpyAsync=1:700", bcast, bcast_right},
    {"MPI_Bcast whose wait fails", "cuStreamSynchronize=1:700", bcast, bcast_right},
    {"MPI_Ibcast", "cuMemcpyAsync=1:700", ibcast, bcast_right},
    {"MPI_Bcast_init", "cuMemcpyAsync=1:700", bcast_init, bcast_right},
    {"a large MPI_Bcast", "cuMemcpyAsync=1:700", large_bcast, large_right},
    {"MPI_Allgather", "cuMemcpyAsync=1:700", allgather, allgather_right},
    {"MPI_Reduce", "cuMemcpyAsync=1:700", reduce, reduce_right},
    {"MPI_Gather, on its way out", "cuMemcpyAsync=2:700", gather, gather_right},
};

static void copies(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool here = harness_rank == culprit, struck = true;
        int result;

        prepare();
        MPI_Barrier(MPI_COMM_WORLD);
        if (here) {
            arm(calls[i].fault);
        }
        result = calls[i].call();
        if (here) {
            struck = reached() != 0;
            arm(NULL);
        }
        harness_check(struck && (result != MPI_SUCCESS) == here && calls[i].right(true),
                      "%s: an error where a copy fails, 0xff elsewhere", calls[i].name);
        prepare();
        result = calls[i].call();
        harness_check(result == MPI_SUCCESS && calls[i].right(false), "%s: the next one is right",
                      calls[i].name);
    }
}

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    if (file == NULL || fscanf(file, "%zu", &pages) != 1) {
        printf("Bail out! no /proc/self/statm\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fclose(file);
    return pages * (size_t) sysconf(_SC_PAGESIZE);
}

/* Limit memory to the current use and some room for Open MPI's messages, or remove the limit. */
static void limit(bool limited)
{
    struct rlimit limits;

    getrlimit(RLIMIT_AS, &limits);
    limits.rlim_cur = limited ? address_space() + ((size_t) 8 << 20) : limits.rlim_max;
    setrlimit(RLIMIT_AS, &limits);
}

#define BIG ((40 << 20) / (int) sizeof(int)) /* ints of a call that finds no memory */

static int *big, *big_too;

/* Make a call on the culprit alone. */
static int self_gather(void)
{
    return MPI_Allgather(big, BIG, MPI_INT, big_too, BIG, MPI_INT, MPI_COMM_SELF);
}

static int self_igather(void)
{
    MPI_Request request;
    int result = MPI_Iallgather(big, BIG, MPI_INT, big_too, BIG, MPI_INT, MPI_COMM_SELF, &request);

    return result == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : result;
}

/* The other ranks wait in the call until the culprit makes it again. */
static int big_gatherv(void)
{
    int counts[64] = {0}, displs[64] = {0};

    counts[culprit] = BIG;
    return MPI_Gatherv(big, counts[harness_rank], MPI_INT, big_too, counts, displs, MPI_INT, 0,
                       MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    int (*call)(void);
    enum { SELF, CULPRIT } fails;
} short_calls[] = {
    {"MPI_Allgather of one rank", self_gather, SELF},
    {"MPI_Iallgather of one rank", self_igather, SELF},
    {"MPI_Gatherv", big_gatherv, CULPRIT},
};

static bool lacks_memory(int result)
{
    int class;

    MPI_Error_class(result, &class);
    return class == MPI_ERR_NO_MEM;
}

static void memory(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    big = harness_alloc(BIG * sizeof *big);
    big_too = harness_alloc(BIG * sizeof *big);
    prepare();
    for (size_t i = 0; i < sizeof short_calls / sizeof *short_calls; i++) {
        bool here = harness_rank == culprit, good = true;

        if (here) {
            limit(true);
            good = lacks_memory(short_calls[i].call());
            limit(false);
        }
        if (here || short_calls[i].fails != SELF) {
            good = short_calls[i].call() == MPI_SUCCESS && good;
        }
        harness_check(good, "%s: MPI_ERR_NO_MEM without memory, and right with it",
                      short_calls[i].name);
    }
    harness_free(big);
    harness_free(big_too);
}

static int iallgather(void)
{
    MPI_Request request;
    int result =
        MPI_Iallgather(input, COUNT, MPI_INT, output, COUNT, MPI_INT, MPI_COMM_WORLD, &request);

    return result == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : result;
}

/* The culprit is late, and the log of the others reports that they wait. */
static void late(void)
{
    int (*const forms[])(void) = {allgather, iallgather};

    for (int form = 0; form < 2; form++) {
        prepare();
        MPI_Barrier(MPI_COMM_WORLD);
        if (harness_rank == culprit) {
            sleep(3);
        }
        harness_check(forms[form]() == MPI_SUCCESS && allgather_right(false),
                      "a call that waits for a rank is right in the end");
    }
}

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    culprit = harness_size - 1;
    standin_find("gpuring_standin_arm", &arm);
    standin_find("gpuring_standin_reached", &reached);
    input = harness_alloc(LARGE * sizeof *input);
    output = harness_alloc(LARGE * sizeof *output);
    host = malloc(LARGE * sizeof *host);
    prepare();
    (void) allgather(); /* the communicator is connected, and Open MPI takes what memory it keeps */
    if (argc > 1 && strcmp(argv[1], "memory") == 0) {
        memory();
    } else if (argc > 1 && strcmp(argv[1], "late") == 0) {
        late();
    } else {
        copies();
    }
    harness_free(input);
    harness_free(output);
    free(host);
    return harness_finish();
}
