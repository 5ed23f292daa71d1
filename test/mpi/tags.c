/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Make so many non-blocking barriers that Open MPI's tags for them run out, among allreduces whose
 * connections use tags of the same communicator. The PML transmits fewer tags from the beginning
 * on, so that this takes a moment instead of minutes.
 */
#include "harness.h"

#include "ompi/mca/pml/pml.h"

#define TAGS     (1 << 16)
#define CALLS    (TAGS + TAGS / 4)
#define BARRIERS 500 /* between two allreduces */
#define COUNT    1000

int main(int argc, char **argv)
{
    static int from[COUNT], to[COUNT];
    bool right = true;
    MPI_Request request;
    MPI_Comm comm;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    mca_pml.pml_max_tag = TAGS - 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < CALLS && right; call++) {
        MPI_Ibarrier(comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (call % BARRIERS == 0) {
            for (int i = 0; i < COUNT; i++) {
                from[i] = call + i + harness_rank;
            }
            right =
                MPI_Iallreduce(from, to, COUNT, MPI_INT, MPI_MIN, comm, &request) == MPI_SUCCESS &&
                MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
            for (int i = 0; i < COUNT; i++) {
                right = right && to[i] == call + i;
            }
        }
    }
    harness_check(right, "%d non-blocking barriers with %d tags, and allreduces", CALLS, TAGS);
    harness_check(harness_pvar("coll_gpuring_calls") > CALLS / BARRIERS,
                  "the allreduces are served");
    MPI_Comm_free(&comm);
    return harness_finish();
}
