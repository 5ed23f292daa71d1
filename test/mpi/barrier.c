/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * barrier FILE: barriers in all forms, among other calls. No rank leaves a barrier before all
 * ranks have entered it. The ranks count in FILE, which all of them map.
 */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 120, MOST = 64 };

static int *come; /* number of barriers that each rank has entered; atomic */

static int start(int form, MPI_Comm comm, MPI_Request *lasting, MPI_Request **request)
{
    static MPI_Request own;

    *request = form == PERSISTENT ? lasting : &own;
    return form == BLOCKING      ? MPI_Barrier(comm)
           : form == NONBLOCKING ? MPI_Ibarrier(comm, &own)
                                 : MPI_Start(lasting);
}

/* Run barriers. Each rank is late in turn, and some barriers follow a call that is still in
 * flight. */
static bool run(MPI_Comm comm, MPI_Request *lasting, int first)
{
    bool good = true;

    for (int i = first; i < first + ROUNDS; i++) {
        int form = i % FORMS, one = 1, sum = 0;
        MPI_Request sums = MPI_REQUEST_NULL, *request;

        if (i % harness_size == harness_rank && i % 5 == 0) {
            usleep(2000);
        }
        if (i % 7 == 0) {
            MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &sums);
        }
        __atomic_store_n(&come[harness_rank], i, __ATOMIC_RELEASE);
        good = start(form, comm, lasting, &request) == MPI_SUCCESS && good;
        if (form != BLOCKING) {
            good = MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        }
        for (int r = 0; r < harness_size; r++) {
            good = __atomic_load_n(&come[r], __ATOMIC_ACQUIRE) >= i && good;
        }
        good = MPI_Wait(&sums, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        good = (i % 7 != 0 || sum == harness_size) && good;
    }
    return good;
}

int main(int argc, char **argv)
{
    int file, one = 1, sum;
    MPI_Request lasting;
    long long calls, expected;
    MPI_Comm comm;
    bool good;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    file = open(argc > 1 ? argv[1] : "", O_RDWR | O_CREAT, 0600);
    good = file >= 0 && ftruncate(file, MOST * sizeof *come) == 0 && harness_size <= MOST;
    come = mmap(NULL, MOST * sizeof *come, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    harness_check(good && come != MAP_FAILED, "counters of all ranks");

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    HARNESS_INIT(Barrier)(comm, MPI_INFO_NULL, &lasting);
    calls = harness_pvar("coll_gpuring_calls");
    good = MPI_Barrier(comm) == MPI_SUCCESS;
    harness_check(good && harness_pvar("coll_gpuring_calls") == calls,
                  "a barrier alone does not connect the ranks");
    harness_check(run(comm, &lasting, 1), "barriers in all forms, of ranks not connected at first");
    MPI_Request_free(&lasting);

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    HARNESS_INIT(Barrier)(comm, MPI_INFO_NULL, &lasting);
    calls = harness_pvar("coll_gpuring_calls");
    harness_check(run(comm, &lasting, ROUNDS + 1), "barriers in all forms, of connected ranks");
    calls = harness_pvar("coll_gpuring_calls") - calls;
    expected = 2 * ROUNDS / 7 - ROUNDS / 7;                                  /* allreduces */
    expected += getenv("OMPI_MCA_coll_gpuring_hostid") == NULL ? ROUNDS : 0; /* see as_nodes.sh */
    harness_check(!harness_have_component() || calls == expected,
                  "they are served on one node: %lld of %lld", calls, expected);
    MPI_Request_free(&lasting);
    MPI_Comm_free(&comm);
    munmap(come, MOST * sizeof *come);
    close(file);
    return harness_finish();
}
