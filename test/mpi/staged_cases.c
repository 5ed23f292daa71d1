/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test properties of staged calls beyond the bytes of one call (staged.c): several calls in flight,
 * types and communicators that are freed before the call is complete, communicators that are
 * duplicated in the meantime, addresses in types, large vectors, and failing copies.
 *
 *   staged_cases       all of these
 *   staged_cases -t    threads
 *   staged_cases -e    one rank, one fault in its copies: one call fails, the others do not
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define COUNT 1000
#define LARGE 20011 /* elements */

static int *gpu, *gpu_too, *host;

static int value(int rank, int i)
{
    return (rank + 1) * 1000000 + i;
}

static void fill(int *to, int n, int rank)
{
    for (int i = 0; i < n; i++) {
        host[i] = value(rank, i);
    }
    harness_write(to, host, (size_t) n * sizeof *host);
}

/* Return true if every step-th element from `first` on has the value of the rank. */
static bool holds(const int *from, int n, int rank, int first, int step)
{
    harness_read(host, from, (size_t) n * sizeof *host);
    for (int i = first; i < n; i += step) {
        if (host[i] != value(rank, i)) {
            printf("# rank %d: element %d is %d\n", harness_rank, i, host[i]);
            return false;
        }
    }
    return true;
}

static MPI_Datatype every_other(void)
{
    MPI_Datatype type;

    MPI_Type_vector(COUNT / 2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Two broadcasts into the even and the odd elements of one buffer. */
static void interleaved(void)
{
    MPI_Datatype type = every_other();
    int last = harness_size - 1;
    MPI_Request requests[2];

    fill(gpu, COUNT, harness_rank);
    MPI_Ibcast(gpu, 1, type, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(gpu + 1, 1, type, last, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Type_free(&type);
    harness_check(holds(gpu, COUNT, 0, 0, 2) && holds(gpu, COUNT, last, 1, 2),
                  "two calls under way in the gaps of one another");
}

/* The program changes the gaps between the call and its completion. */
static void gaps_change(void)
{
    MPI_Datatype type = every_other();
    MPI_Request request;
    char token = 0;

    fill(gpu, COUNT, harness_rank);
    if (harness_rank == 0) {
        for (int r = 1; r < harness_size; r++) {
            MPI_Recv(&token, 1, MPI_CHAR, r, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Ibcast(gpu, 1, type, 0, MPI_COMM_WORLD, &request);
    } else {
        MPI_Ibcast(gpu, 1, type, 0, MPI_COMM_WORLD, &request);
        fill(gpu, COUNT, 77);
        MPI_Send(&token, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    harness_check(holds(gpu, COUNT, 0, 0, 2) && holds(gpu, COUNT, harness_rank == 0 ? 0 : 77, 1, 2),
                  "gaps that change while the call is under way");
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < 2 * *count; i++) {
        ((int *) inout)[i] += ((int *) in)[i];
    }
}

/* The program frees type, operation and communicator as soon as the call has returned. */
static void freed_early(void)
{
    MPI_Datatype pair;
    MPI_Request request;
    MPI_Comm comm;
    MPI_Op op;
    bool good = true;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add, 1, &op);
    fill(gpu, COUNT, harness_rank);
    MPI_Iallreduce(gpu, gpu_too, COUNT / 2, pair, op, comm, &request);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    if (harness_on_gpu()) {
        MPI_Comm_free(&comm);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!harness_on_gpu()) {
        MPI_Comm_free(&comm); /* Open MPI's own calls fail in the other order */
    }
    harness_read(host, gpu_too, COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++) {
        good =
            good && host[i] == harness_size * (harness_size + 1) / 2 * 1000000 + harness_size * i;
    }
    harness_check(good, "type, operation and communicator freed during the call");
}

/* MPI_BOTTOM: one element on the GPU, one on the host, in one type. */
static void addresses_in_types(void)
{
    int lengths[2] = {COUNT, 1}, on_host = harness_rank == 0 ? 4711 : 0;
    MPI_Aint addresses[2];
    MPI_Datatype type;

    MPI_Get_address(gpu, &addresses[0]);
    MPI_Get_address(&on_host, &addresses[1]);
    MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &type);
    MPI_Type_commit(&type);
    fill(gpu, COUNT, harness_rank);
    MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    harness_check(holds(gpu, COUNT, 0, 0, 1) && on_host == 4711,
                  "MPI_BOTTOM with addresses on the GPU and on the host");
}

static void reduce_local(void)
{
    bool good = true;

    fill(gpu, COUNT, 1);
    fill(gpu_too, COUNT, 2);
    good = MPI_Reduce_local(gpu, gpu_too, COUNT, MPI_INT, MPI_SUM) == MPI_SUCCESS;
    harness_read(host, gpu_too, COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++) {
        good = good && host[i] == value(1, i) + value(2, i);
    }
    harness_check(good, "MPI_Reduce_local");
}

static void nothing_to_do(void)
{
    int zeros[64] = {0};
    bool good = MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
                MPI_Allgatherv(NULL, 0, MPI_INT, NULL, zeros, zeros, MPI_INT, MPI_COMM_WORLD) ==
                    MPI_SUCCESS &&
                MPI_Alltoallv(gpu, zeros, zeros, MPI_INT, NULL, zeros, zeros, MPI_INT,
                              MPI_COMM_WORLD) == MPI_SUCCESS &&
                MPI_Gather(NULL, 0, MPI_INT, gpu, 0, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
                MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS;

    harness_check(good, "zero counts and null buffers");
}

/* An operation of the user, which the component does not know. */
static void add_ints(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) {
        ((int *) inout)[i] += ((int *) in)[i];
    }
}

/* Return true if every element is the sum over all ranks. */
static bool summed(const int *result)
{
    int ranks = harness_size * (harness_size + 1) / 2;

    for (int i = 0; i < LARGE; i++) {
        if (result[i] != ranks * 1000000 + harness_size * i) {
            printf("# rank %d: element %d is %d\n", harness_rank, i, result[i]);
            return false;
        }
    }
    return true;
}

/* Test large reductions. If only_even, only even ranks have GPU buffers. */
static void large_reductions(bool only_even)
{
    static int own[LARGE], result[LARGE];
    bool here = harness_on_gpu() && (!only_even || harness_rank % 2 == 0);
    int *in = here ? gpu : own, *out = here ? gpu_too : result, root = harness_size - 1;
    MPI_Op op;
    bool good;

    MPI_Op_create(add_ints, 1, &op);
    for (int i = 0; i < LARGE; i++) {
        own[i] = value(harness_rank, i);
    }
    harness_write(gpu, own, sizeof own);
    good = MPI_Allreduce(in, out, LARGE, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    if (here) {
        harness_read(result, gpu_too, sizeof result);
    }
    good = good && summed(result);
    good = MPI_Reduce(harness_rank == root ? MPI_IN_PLACE : in, in, LARGE, MPI_INT, op, root,
                      MPI_COMM_WORLD) == MPI_SUCCESS &&
           good;
    if (here) {
        harness_read(own, gpu, sizeof own);
    }
    good = good && (harness_rank != root || summed(own));
    harness_check(good, "large reductions, %s", only_even ? "even ranks on the GPU" : "all on it");
    MPI_Op_free(&op);
}

/* Test large broadcasts. Ranks specify count and type in different ways, one of them with a gap. */
static void large_broadcasts(bool only_even, bool with_gap)
{
    static int own[2 * LARGE];
    bool here = harness_on_gpu() && (!only_even || harness_rank % 2 == 0);
    bool gap = with_gap && harness_rank == 0;
    MPI_Datatype whole;
    bool good = true;

    if (gap) {
        MPI_Type_vector(LARGE, 1, 2, MPI_INT, &whole);
    } else {
        MPI_Type_contiguous(LARGE, MPI_INT, &whole);
    }
    MPI_Type_commit(&whole);
    for (int root = 0; root<harness_size; root += harness_size - 1> 0 ? harness_size - 1 : 1) {
        for (int i = 0; i < 2 * LARGE; i++) {
            own[i] = value(harness_rank, gap ? i / 2 : i);
        }
        harness_write(gpu, own, sizeof own);
        good = MPI_Bcast(here ? gpu : own, harness_rank % 2 ? LARGE : 1,
                         harness_rank % 2 ? MPI_INT : whole, root, MPI_COMM_WORLD) == MPI_SUCCESS &&
               good;
        if (here) {
            harness_read(own, gpu, sizeof own);
        }
        for (int i = 0; i < LARGE; i++) {
            good = good && own[gap ? 2 * i : i] == value(root, i);
        }
    }
    MPI_Type_free(&whole);
    harness_check(good, "large broadcasts, %s%s", only_even ? "even ranks on the GPU" : "all on it",
                  with_gap ? ", one type with gaps" : "");
}

/* Make calls on one rank that copy rows, and count failures. */
static void count_failures(void)
{
    MPI_Datatype type = every_other();
    int failed = 0, wrong = 0;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int n = 0; n < 6; n++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int result;

        fill(gpu, COUNT, 5 + n);
        fill(gpu_too, COUNT, 90);
        if (n % 2 == 0) {
            result = MPI_Allgather(gpu, 1, type, gpu_too, 1, type, MPI_COMM_SELF);
        } else {
            result = MPI_Iallgather(gpu, 1, type, gpu_too, 1, type, MPI_COMM_SELF, &request);
            if (result == MPI_SUCCESS) {
                result = MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
        failed += result != MPI_SUCCESS;
        wrong += result == MPI_SUCCESS && !holds(gpu_too, COUNT, 5 + n, 0, 2);
    }
    MPI_Type_free(&type);
    harness_check(failed == 1 && wrong == 0, "of six calls %d fails and %d are wrong", failed,
                  wrong);
}

#define THREADS 3
#define ROUNDS  40

struct job {
    pthread_t thread;
    MPI_Comm comm;
    int number, *in, *out;
    bool good;
};

/* Several non-blocking calls at the same time, on a separate communicator for this thread. */
static void *thread_main(void *argument)
{
    struct job *job = argument;
    int data[64], result[64];

    job->good = true;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2];
        int all = job->number + round;

        for (int i = 0; i < 64; i++) {
            data[i] = harness_rank == 0 ? all * 64 + i : -1;
        }
        harness_write(job->in, data, sizeof data);
        MPI_Ibcast(job->in, 32, MPI_INT, 0, job->comm, &requests[0]);
        MPI_Ibcast(job->in + 32, 32, MPI_INT, 0, job->comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Scan(job->in, job->out, 64, MPI_INT, MPI_SUM, job->comm);
        harness_read(result, job->out, sizeof result);
        for (int i = 0; i < 64; i++) {
            job->good = job->good && result[i] == (harness_rank + 1) * (all * 64 + i);
        }
    }
    return NULL;
}

static void threads(void)
{
    struct job jobs[THREADS];
    bool good = true;

    for (int t = 0; t < THREADS; t++) {
        jobs[t] = (struct job){
            .number = 1000 * t, .in = gpu + 64 * t, .out = gpu_too + 64 * t, .good = false};
        MPI_Comm_dup(MPI_COMM_WORLD, &jobs[t].comm);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_create(&jobs[t].thread, NULL, thread_main, &jobs[t]);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(jobs[t].thread, NULL);
        MPI_Comm_free(&jobs[t].comm);
        good = good && jobs[t].good;
    }
    harness_check(good, "%d threads with calls on communicators of their own", THREADS);
}

/* The last of several ranks has no neighbours and
 * contributes no elements: Open MPI returns from its calls immediately.
 */
static void without_neighbors(void)
{
    int ring = harness_size > 1 ? harness_size - 1 : 1;
    int before = (harness_rank + ring - 1) % ring, next = (harness_rank + 1) % ring;
    int degree = harness_rank < ring, weight = 0;
    bool good = true;
    MPI_Comm comm;

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, &before, &weight, degree, &next, &weight,
                                   MPI_INFO_NULL, 0, &comm);
    for (int i = 0; i < 4; i++) {
        fill(gpu, COUNT, harness_rank + i);
        good =
            (i % 2 == 0 ? MPI_Neighbor_alltoall(gpu, degree * COUNT, MPI_INT, gpu_too,
                                                degree * COUNT, MPI_INT, comm)
                        : MPI_Neighbor_allgather(gpu, degree * COUNT, MPI_INT, gpu_too,
                                                 degree * COUNT, MPI_INT, comm)) == MPI_SUCCESS &&
            (degree == 0 || holds(gpu_too, COUNT, before + i, 0, 1)) && good;
    }
    harness_check(good, "a rank without neighbours");
    MPI_Comm_free(&comm);
}

/* Let MPI make progress before the next call on some ranks only. */
static void move_on(MPI_Request *request, int round)
{
    int done = 0;

    for (int i = 0; (harness_rank / 2 + round) % 2 == 0 && i < 100; i++) {
        usleep(10);
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

/*
 * Open MPI assigns a number to a copy with calls on the communicator or, between groups, on each
 * group. It makes them in its progress function, so their place among the other calls differs
 * between ranks.
 */
static void copied_between_groups(void)
{
    int half = harness_rank % 2, others = (harness_size + half) / 2;
    MPI_Comm group, between, copy;
    MPI_Request requests[2];
    bool good = true;

    MPI_Comm_split(MPI_COMM_WORLD, half, harness_rank, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, 1 - half, 7, &between);
    for (int round = 0; round < 8; round++) {
        fill(gpu, 10, harness_rank + round);
        MPI_Comm_idup(between, &copy, &requests[0]);
        move_on(&requests[0], round);
        good = MPI_Iallgather(gpu, 10, MPI_INT, gpu_too, 10, MPI_INT, between, &requests[1]) ==
                   MPI_SUCCESS &&
               MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && good;
        for (int i = 0; i < others; i++) {
            good = holds(gpu_too + (ptrdiff_t) 10 * i, 10, 2 * i + 1 - half + round, 0, 1) && good;
        }
        MPI_Comm_free(&copy);
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&group);
    harness_check(good, "copies of a communicator between groups amid calls");
}

/* Calls in between that have no elements need nothing from other ranks. */
static void copied_amid_calls(void)
{
    bool good = true;

    for (int round = 0; round < 8; round++) {
        MPI_Request copying, request;
        MPI_Comm copy;
        int done;

        good = MPI_Comm_idup(MPI_COMM_WORLD, &copy, &copying) == MPI_SUCCESS && good;
        if ((harness_rank + round) % 2 == 0) {
            good = MPI_Wait(&copying, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        }
        good =
            MPI_Iscan(gpu, gpu_too, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request) == MPI_SUCCESS &&
            MPI_Wait(&copying, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
        MPI_Comm_free(&copy);
        /* One element, like calls of Open MPI, but made by the application. */
        fill(gpu, 1, harness_rank);
        MPI_Iallreduce(gpu, gpu_too, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
               holds(gpu_too, 1, harness_size - 1, 0, 1) && good;
    }
    harness_check(good, "copies of a communicator amid calls without elements");
}

int main(int argc, char **argv)
{
    bool faults = argc > 1 && strcmp(argv[1], "-e") == 0;
    bool threaded = argc > 1 && strcmp(argv[1], "-t") == 0;

    harness_start(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    gpu = harness_alloc(2 * LARGE * sizeof *gpu);
    gpu_too = harness_alloc(2 * LARGE * sizeof *gpu);
    host = malloc(2 * LARGE * sizeof *host);
    if (faults) {
        count_failures();
    } else if (threaded) {
        threads();
    } else {
        interleaved();
        gaps_change();
        freed_early();
        addresses_in_types();
        reduce_local();
        nothing_to_do();
        without_neighbors();
        if (harness_size > 1) {
            copied_between_groups();
        }
        copied_amid_calls();
        for (int only_even = 0; only_even < 2; only_even++) {
            large_reductions(only_even);
            large_broadcasts(only_even, false);
            large_broadcasts(only_even, true);
        }
    }
    harness_free(gpu);
    harness_free(gpu_too);
    free(host);
    return harness_finish();
}
