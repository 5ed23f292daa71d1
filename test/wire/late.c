/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * late SECONDS [MILLISECONDS]: begin with non-blocking calls during which the last rank leaves MPI,
 * at a different time in each of the communicators, so that it is late for the first chunks of one
 * of them. It must not be taken for a network that delivers nothing. MILLISECONDS: time that the
 * other ranks get for each stage of the wire-up before (default: 50).
 */
#include "test/mpi/harness.h"

#include <stdlib.h>
#include <unistd.h>

#define MOST 5 /* stages of the wire-up after which the rank leaves MPI */

int main(int argc, char **argv)
{
    const unsigned pause = argc > 1 ? (unsigned) atoi(argv[1]) : 3;
    const unsigned stage = argc > 2 ? (unsigned) atoi(argv[2]) : 50;
    bool good = true;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    for (int stages = 1; stages <= MOST; stages++) {
        int one = 1, sum = 0, done;
        MPI_Request request;
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
        if (harness_rank == harness_size - 1) {
            for (int i = 0; i < stages; i++) {
                usleep(1000 * stage); /* the other ranks reach the end of the stage */
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            }
            sleep(pause);
        }
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum == harness_size && good;
        MPI_Comm_free(&comm);
    }
    harness_check(good, "calls of a rank that is late have right results");
    return harness_finish();
}
