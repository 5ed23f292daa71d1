/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * owed COMMUNICATORS: a call ends although this rank cannot send its credit. Rank 0 first starts
 * large non-blocking bcasts, one on each communicator, until rank 1, which is in MPI_Recv, can take
 * no more messages. It then receives a bcast from rank 1, which has ended that call and needs no
 * credit, and sends the message that rank 1 waits for. A program for two ranks.
 */
#include "test/mpi/harness.h"

#include <stdlib.h>
#include <unistd.h>

#define LARGE (1 << 18) /* elements of the bcasts that are started */
#define COUNT (1 << 16) /* elements of the bcast that must end */
#define TESTS 1000      /* which send what the peer can take */

int main(int argc, char **argv)
{
    int ncomms = argc > 1 ? atoi(argv[1]) : 60, token = 0, done;
    MPI_Request *requests = calloc((size_t) ncomms, sizeof *requests);
    MPI_Comm *comms = calloc((size_t) ncomms, sizeof *comms);
    int *large = calloc((size_t) ncomms * LARGE, sizeof *large),
        *data = calloc(COUNT, sizeof *data);
    bool right = true;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (requests == NULL || comms == NULL || large == NULL || data == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    for (int i = 0; i < ncomms; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Bcast(large, LARGE, MPI_INT, 0, comms[i]);
    }
    for (int root = 0; root < 2; root++) {
        MPI_Bcast(data, COUNT, MPI_INT, root, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT && harness_rank == 1; i++) {
        data[i] = 3 * i + 1;
    }
    if (harness_rank == 1) {
        right = MPI_Bcast(data, COUNT, MPI_INT, 1, MPI_COMM_WORLD) == MPI_SUCCESS && right;
        MPI_Recv(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    usleep(harness_rank == 0 ? 300000 : 0); /* rank 1 ends its bcast, and its threads sleep */
    for (int i = 0; i < ncomms; i++) {
        MPI_Ibcast(large + (size_t) i * LARGE, LARGE, MPI_INT, 0, comms[i], &requests[i]);
    }
    if (harness_rank == 0) {
        for (int i = 0; i < TESTS; i++) {
            MPI_Testall(ncomms, requests, &done, MPI_STATUSES_IGNORE);
        }
        right = MPI_Bcast(data, COUNT, MPI_INT, 1, MPI_COMM_WORLD) == MPI_SUCCESS && right;
        MPI_Send(&token, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    }
    MPI_Waitall(ncomms, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        right = right && data[i] == 3 * i + 1;
    }
    harness_check(right, "a call ends whose credits the peer cannot take");
    for (int i = 0; i < ncomms; i++) {
        MPI_Comm_free(&comms[i]);
    }
    free(large);
    free(data);
    free(comms);
    free(requests);
    return harness_finish();
}
