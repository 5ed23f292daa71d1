/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Test a wire-up when the process has no file descriptor left: calls must be delegated and
 * right. */
#include "harness.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_OPEN 64

int main(int argc, char **argv)
{
    struct rlimit old, low;
    int value, opened[MAX_OPEN], count = 0;
    bool good;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    value = harness_rank + 1;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    /* Set the limit to the lowest free descriptor, so that no further file can be opened. */
    opened[0] = open("/dev/null", O_RDONLY);
    low.rlim_cur = opened[0] >= 0 ? (rlim_t) opened[0] + 1 : old.rlim_cur;
    while (setrlimit(RLIMIT_NOFILE, &low) == 0 && count + 1 < MAX_OPEN &&
           (opened[count + 1] = open("/dev/null", O_RDONLY)) >= 0) {
        count++;
    }
    good = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
    setrlimit(RLIMIT_NOFILE, &old);
    for (int i = 0; i <= count; i++) {
        close(opened[i]);
    }
    harness_check(good && value == harness_size * (harness_size + 1) / 2,
                  "the call is right all the same");
    value = harness_rank + 1;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    harness_check(value == harness_size * (harness_size + 1) / 2, "and so is the next one");
    return harness_finish();
}
