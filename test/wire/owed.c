/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The end of a call between two ranks. Rank 0 first starts large non-blocking bcasts, one on each
 * of many communicators, until rank 1, which is in MPI_Recv, can take no more messages. It then
 * makes a call, and afterwards sends the message that rank 1 waits for:
 *
 *   owed credits COMMUNICATORS   a bcast from rank 1, which has ended this call and needs no
 *                                credit: it must end
 *   owed data COMMUNICATORS      a bcast to rank 1, whose data have room in the slots. The port of
 *                                rank 0 fails while the call waits for the network to take them: it
 *                                must return an error
 */
#include "test/mpi/harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/wire/exists.h"

#define LARGE (1 << 18) /* elements of the bcasts that are started */
#define COUNT (1 << 16) /* elements of the bcast that must end */
#define TESTS 1000      /* which send what the peer can take */

static bool has_failed; /* the port */

static void *fail_later(void *argument)
{
    gpuring_wire_fail_function *fail =
        (gpuring_wire_fail_function *) wire_function("gpuring_wire_fail");

    (void) argument;
    usleep(500000);
    __atomic_store_n(&has_failed, true, __ATOMIC_RELEASE); /* partner: send_until_failure */
    if (fail != NULL) {
        fail();
    }
    return NULL;
}

/* Make a bcast of rank 0 while its port fails. Return its code. *waited: it ended after that. */
static int send_until_failure(int *data, bool *waited)
{
    pthread_t thread;
    int code;

    if (pthread_create(&thread, NULL, fail_later, NULL) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    code = MPI_Bcast(data, COUNT, MPI_INT, 0, MPI_COMM_WORLD);
    *waited = __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE); /* partner: fail_later */
    pthread_join(thread, NULL);
    return code;
}

int main(int argc, char **argv)
{
    const bool fails = argc > 1 && strcmp(argv[1], "data") == 0;
    const int ncomms = argc > 2 ? atoi(argv[2]) : 60;
    MPI_Request *requests = calloc((size_t) ncomms, sizeof *requests);
    MPI_Comm *comms = calloc((size_t) ncomms, sizeof *comms);
    int *large = calloc((size_t) ncomms * LARGE, sizeof *large),
        *data = calloc(COUNT, sizeof *data);
    int token = 0, done, code = MPI_SUCCESS;
    bool right = true, waited = true;

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
        code = fails ? code : MPI_Bcast(data, COUNT, MPI_INT, 1, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        code = fails ? MPI_Bcast(data, COUNT, MPI_INT, 0, MPI_COMM_WORLD) : code;
    }
    usleep(harness_rank == 0 ? 300000 : 0); /* rank 1 is in MPI_Recv, and its threads sleep */
    for (int i = 0; i < ncomms; i++) {
        MPI_Ibcast(large + (size_t) i * LARGE, LARGE, MPI_INT, 0, comms[i], &requests[i]);
    }
    if (harness_rank == 0) {
        for (int i = 0; i < TESTS; i++) {
            MPI_Testall(ncomms, requests, &done, MPI_STATUSES_IGNORE);
        }
        code = fails ? send_until_failure(data, &waited)
                     : MPI_Bcast(data, COUNT, MPI_INT, 1, MPI_COMM_WORLD);
        MPI_Send(&token, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    }
    MPI_Waitall(ncomms, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT && !fails; i++) {
        right = right && data[i] == 3 * i + 1;
    }
    if (fails) {
        harness_check(waited, "the call of a root waits for the network to take its data");
        harness_check(code != MPI_SUCCESS, "it returns an error if the network fails then");
    } else {
        harness_check(right && code == MPI_SUCCESS,
                      "a call ends whose credits the peer cannot take");
    }
    for (int i = 0; i < ncomms; i++) {
        MPI_Comm_free(&comms[i]);
    }
    free(large);
    free(data);
    free(comms);
    free(requests);
    return harness_finish();
}
