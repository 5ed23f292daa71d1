/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * free_failed ROUNDS: make different calls on some communicators, and free them before or after
 * their calls have ended, while another thread uses and frees other communicators. Calls that are
 * the same on all ranks must succeed on all other communicators. A number of a failed communicator
 * must not be used again, because its messages may still arrive. A call on a failed communicator
 * returns an error and a null request. When a call has failed, MPI no longer accesses its buffers.
 */
#include "harness.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define COMMS 12 /* of each thread, in each round */
#define COUNT 100000

struct worker {
    MPI_Comm comms[COMMS];
    bool differs; /* every second communicator gets different calls */
    bool good;
    int errors;
};

/* Make one more call. Returns false if it returns an error without a null request, so that a
 * program that waits for it would crash. */
static bool ends_in_order(MPI_Comm comm)
{
    int one = 1, sum = 0;
    MPI_Request request = (MPI_Request) (void *) &sum;

    return MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request) == MPI_SUCCESS
               ? MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && sum == harness_size
               : request == MPI_REQUEST_NULL;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Make a call of `count` elements, and another one of 1, on a communicator. Returns true if both
 * succeed with the right results. */
static bool use(MPI_Comm *comm, int count, bool free_early, bool *good)
{
    size_t bytes = (size_t) count * sizeof(int);
    int *in = map(bytes), *out = map(bytes), second = 0, codes[2];
    MPI_Request requests[2];

    for (int i = 0; i < count; i++) {
        in[i] = 1;
        out[i] = 0;
    }
    MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, *comm, &requests[0]);
    MPI_Iallreduce(in, &second, 1, MPI_INT, MPI_SUM, *comm, &requests[1]);
    if (free_early) {
        MPI_Comm_free(comm);
    }
    codes[0] = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    codes[1] = MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    if (!free_early) {
        *good = ends_in_order(*comm) && *good;
        MPI_Comm_free(comm);
    }
    bool right = codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS && second == harness_size &&
                 out[0] == harness_size && out[count - 1] == harness_size;

    munmap(in, bytes);
    munmap(out, bytes);
    return right;
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    for (int i = 0; i < COMMS; i++) {
        bool differs = worker->differs && i % 2 == 0;
        int more = differs && harness_rank == harness_size - 1 ? COUNT : 0;
        bool right =
            use(&worker->comms[i], (i % 4 < 2 ? 1000 : COUNT) + more, i % 3 != 0, &worker->good);

        worker->errors += !right;
        worker->good = worker->good && right != differs;
    }
    return NULL;
}

static int open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

int main(int argc, char **argv)
{
    struct worker workers[2] = {{.differs = true, .good = true}, {.good = true}};
    int rounds = argc > 1 ? atoi(argv[1]) : 1, files = 0, one = 1, sum;
    pthread_t thread;
    bool good = true;

    harness_start(&argc, &argv, MPI_THREAD_MULTIPLE);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2 * COMMS; i++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &workers[i / COMMS].comms[i % COMMS]);
        }
        good = pthread_create(&thread, NULL, work, &workers[1]) == 0 && good;
        work(&workers[0]);
        pthread_join(thread, NULL);
        sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        good = good && sum == harness_size;
        files = round == 0 ? open_files() : files;
    }
    harness_check(workers[0].errors == rounds * COMMS / 2 && workers[0].good,
                  "%d communicators with different calls fail, others do not", rounds * COMMS / 2);
    harness_check(workers[1].good && good, "communicators of another thread work meanwhile");
    harness_check(open_files() == files, "no file is left open");
    return harness_finish();
}
