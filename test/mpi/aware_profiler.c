/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * A preloaded profiler: it counts some calls, passes them to PMPI_, and prints the counts when MPI
 * ends. With GPURING_TEST_LOOK it also reads the buffers, which must then be in host memory.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int packs, replacements, writes;

static void look(const void *buffer)
{
    if (getenv("GPURING_TEST_LOOK") != NULL) {
        (void) *(const volatile char *) buffer;
    }
}

int MPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int size, int *position,
             MPI_Comm comm)
{
    packs++;
    look(in);
    return PMPI_Pack(in, count, type, out, size, position, comm);
}

int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int send_tag, int from,
                         int receive_tag, MPI_Comm comm, MPI_Status *status)
{
    replacements++;
    look(buffer);
    return PMPI_Sendrecv_replace(buffer, count, type, to, send_tag, from, receive_tag, comm,
                                 status);
}

int MPI_File_write_at_all(MPI_File file, MPI_Offset at, const void *buffer, int count,
                          MPI_Datatype type, MPI_Status *status)
{
    writes++;
    look(buffer);
    return PMPI_File_write_at_all(file, at, buffer, count, type, status);
}

int MPI_Finalize(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        fprintf(stderr, "profiler: %d packs, %d replacements, %d writes\n", packs, replacements,
                writes);
    }
    return PMPI_Finalize();
}
