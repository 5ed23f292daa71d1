/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test sessions of MPI 4.0. Twice create a session without MPI_Init and a communicator from its
 * group, and make calls on the communicator. Then do the same after MPI_Init. MPI_COMM_WORLD is not
 * used.
 *
 *   sessions           all of this
 *   sessions first     the first session only
 *   sessions late      the same, and the last rank is late, so that the others begin to ask what it
 *                      does
 *
 * The first rank of the communicator prints one TAP line for each check.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(MPI_SESSION_NULL)
#define COUNT 1000

static int checks;

static void check(MPI_Comm comm, bool good, const char *text)
{
    int rank, mine = good, all = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_MIN, 0, comm);
    if (rank == 0) {
        printf("%sok %d - %s\n", all ? "" : "not ", ++checks, text);
    }
}

/* Check blocking, non-blocking and persistent allreduces. */
static bool sums_right(MPI_Comm comm)
{
    static int in[COUNT], out[3][COUNT];
    MPI_Request request;
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < COUNT; i++) {
        in[i] = i * (rank + 1);
        out[0][i] = out[1][i] = out[2][i] = -1;
    }
    MPI_Allreduce(in, out[0], COUNT, MPI_INT, MPI_SUM, comm);
    MPI_Iallreduce(in, out[1], COUNT, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce_init(in, out[2], COUNT, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    for (int i = 0; i < COUNT; i++) {
        int right = i * (size * (size + 1) / 2);

        if (out[0][i] != right || out[1][i] != right || out[2][i] != right) {
            return false;
        }
    }
    return true;
}

static void session(const char *text, bool late)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, copy;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "gpuring.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    check(comm, sums_right(comm), text);
    MPI_Comm_dup(comm, &copy);
    check(comm, sums_right(copy), "and on a duplicate of its communicator");
    if (late) {
        int rank, size;

        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        sleep(rank == size - 1 ? 3 : 0);
        check(comm, sums_right(comm), "and if a rank is late");
    }
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    session("in a session, without MPI_Init", argc > 1 && strcmp(argv[1], "late") == 0);
    if (argc < 2) {
        session("in a second one", false);
        MPI_Init(&argc, &argv);
        session("in a session beside the world", false);
        MPI_Finalize();
    }
    if (checks > 0) {
        printf("1..%d\n", checks);
    }
    return 0;
}
#else
int main(void)
{
    puts("1..0 # SKIP Open MPI 4.1 has no sessions");
    return 0;
}
#endif
