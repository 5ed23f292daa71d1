/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * walk CASE FIRST AGAIN: make a call of a new shape, and the same call again. Write the functions
 * that rank 0 is in to the files FIRST and AGAIN, one line whenever a function begins or ends. Run
 * by walk.py, in a build with -finstrument-functions.
 */
#include "test/mpi/harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *stack[256], *buffer;
static int depth;
static FILE *record; /* NULL: do not record */
static pthread_t caller;

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

/* Write where this thread is now, as a library and an offset. */
static __attribute__((no_instrument_function)) void write_top(void)
{
    Dl_info info;

    if (depth > 0 && depth < 256 && dladdr(stack[depth - 1], &info) != 0) {
        fprintf(record, "%s %#lx\n", info.dli_fname,
                (unsigned long) ((char *) stack[depth - 1] - (char *) info.dli_fbase));
    }
}

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *site)
{
    (void) site;
    if (record != NULL && pthread_equal(pthread_self(), caller)) {
        stack[depth++ % 256] = function;
        write_top();
    }
}

__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *site)
{
    (void) function;
    (void) site;
    if (record != NULL && pthread_equal(pthread_self(), caller) && depth > 0) {
        depth--;
        write_top();
    }
}

static __attribute__((no_instrument_function)) void call(const char *name, int count)
{
    int counts[] = {count, count}, displs[] = {0, 2};

    if (strcmp(name, "allreduce") == 0) {
        MPI_Allreduce(buffer, (char *) buffer + 1024, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else if (strcmp(name, "alltoallv") == 0) {
        MPI_Alltoallv(buffer, counts, displs, MPI_INT, (char *) buffer + 1024, counts, displs,
                      MPI_INT, MPI_COMM_WORLD);
    } else if (harness_rank == 0) {
        MPI_Send(buffer, count, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer, count, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

__attribute__((no_instrument_function)) int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    buffer = harness_alloc(4096);
    caller = pthread_self();
    for (int i = 0; i < 5; i++) {
        usleep(harness_rank == 0 ? 300000 : 0); /* the call need not wait for the other rank */
        record = harness_rank == 0 && i >= 3 && argc > 3 ? fopen(argv[i - 1], "w") : NULL;
        call(name, i >= 3 ? 1 : 2);
        if (record != NULL) {
            fclose(record);
            record = NULL;
        }
    }
    harness_free(buffer);
    return harness_finish();
}
