/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the locations of the buffers of one call: send and receive buffer in different kinds of
 * memory or on different GPUs of one rank, and different kinds of memory on different ranks.
 *
 *   mixed        what works always
 *   mixed -a     any mixture over the ranks (coll_gpuring_agree=always)
 *   mixed -e     such a mixture without that: an error in time
 *   mixed -u     the same at the first call of a communicator
 */
#include "sums.h"
#include "standin_find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum place { HOST, GPU, OTHER_GPU, PLACES };
static const char *const places[] = {"host memory", "the GPU", "another GPU"};

/* An int vector in any kind of memory. */
struct vector {
    enum place place;
    int *memory;
};

static int (*retain)(void **context, int gpu), (*push)(void *context), (*pop)(void **context);
static int (*current)(void **context), (*alloc)(uint64_t *address, size_t bytes);
static void (*copy_anywhere)(void *to, const void *from, size_t bytes);

static void find_all(void)
{
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuCtxPushCurrent_v2", &push);
    standin_find("cuCtxPopCurrent_v2", &pop);
    standin_find("cuCtxGetCurrent", &current);
    standin_find("cuMemAlloc_v2", &alloc);
    standin_find("gpuring_standin_copy", &copy_anywhere);
}

/* Return the context of a GPU other than the rank's. The harness uses the GPU of the local rank,
 * which is GPU 0 with two GPUs and an even rank. */
static void *other_context(void)
{
    void *context = NULL;

    (void) retain(&context, 1 - harness_rank % 2);
    return context;
}

static int *alloc_on_other_gpu(size_t bytes)
{
    uint64_t address = 0;
    void *popped;

    if (push(other_context()) != 0 || alloc(&address, bytes) != 0 || pop(&popped) != 0) {
        printf("Bail out! no memory on another GPU\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (int *) (uintptr_t) address;
}

static struct vector vector_new(enum place place, size_t bytes)
{
    struct vector vector = {.place = place};

    vector.memory = place == HOST  ? malloc(bytes)
                    : place == GPU ? harness_alloc(bytes)
                                   : alloc_on_other_gpu(bytes);
    return vector;
}

/* Free a vector. The few vectors on other GPUs are never freed. */
static void vector_free(struct vector *vector)
{
    if (vector->place == HOST) {
        free(vector->memory);
    } else if (vector->place == GPU) {
        harness_free(vector->memory);
    }
}

static void vector_write(struct vector *vector, const int *data, size_t bytes)
{
    if (vector->place == HOST) {
        memcpy(vector->memory, data, bytes);
    } else if (vector->place == OTHER_GPU) {
        copy_anywhere(vector->memory, data, bytes);
    } else {
        harness_write(vector->memory, data, bytes);
    }
}

static void vector_read(int *data, const struct vector *vector, size_t bytes)
{
    if (vector->place == HOST) {
        memcpy(data, vector->memory, bytes);
    } else if (vector->place == OTHER_GPU) {
        copy_anywhere(data, vector->memory, bytes);
    } else {
        harness_read(data, vector->memory, bytes);
    }
}

static const char *const calls[] = {"MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_init"};

/* Make one call with buffers in these places. Sets *error to MPI's error code. Returns true if all
 * results on this rank are right. */
static bool sum(enum form call, enum place from, enum place to, bool in_place, int count,
                MPI_Comm comm, int *error)
{
    size_t bytes = (size_t) count * sizeof(int);
    struct vector send = vector_new(from, bytes), receive = vector_new(to, bytes);
    int *data = malloc(bytes);
    bool good;

    for (int i = 0; i < count; i++) {
        data[i] = 3 * i + harness_rank;
    }
    vector_write(&send, data, bytes);
    vector_write(&receive, data, bytes);
    *error = sum_ints(call, 1, in_place ? MPI_IN_PLACE : (void *) send.memory, receive.memory,
                      count, comm);
    good = *error == MPI_SUCCESS;
    vector_read(data, &receive, bytes);
    for (int i = 0; good && i < count; i++) {
        good = data[i] == harness_size * 3 * i + harness_size * (harness_size - 1) / 2;
    }
    vector_free(&send);
    vector_free(&receive);
    free(data);
    return good;
}

static const int counts[] = {1, 1000, 100003};

/* Test mixtures that are equal on all ranks, or have at least a GPU buffer on every rank. */
static void one_rank_mixtures(void)
{
    static const enum place pairs[][2] = {{GPU, GPU},       {HOST, GPU},
                                          {GPU, HOST},      {OTHER_GPU, GPU},
                                          {GPU, OTHER_GPU}, {OTHER_GPU, OTHER_GPU}};
    int error;

    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        for (int call = 0; call < FORMS; call++) {
            bool good = true;

            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                good =
                    sum(call, pairs[p][0], pairs[p][1], false, counts[i], MPI_COMM_WORLD, &error) &&
                    good;
            }
            harness_check(good, "%s from %s to %s", calls[call], places[pairs[p][0]],
                          places[pairs[p][1]]);
        }
    }
    for (int call = 0; call < FORMS; call++) {
        enum place place = harness_rank % 3 == 1 ? OTHER_GPU : GPU;
        bool good = sum(call, place, place, true, 30000, MPI_COMM_WORLD, &error);

        harness_check(good, "%s in place, on another GPU at some ranks", calls[call]);
        good = sum(call, harness_rank % 2 ? HOST : GPU, GPU, false, 30000, MPI_COMM_WORLD, &error);
        harness_check(good, "%s from host memory at some ranks", calls[call]);
    }
}

/* The context of another GPU is current in the calling thread, and stays current. */
static void in_other_context(void)
{
    void *other = other_context(), *after = NULL;
    int error;
    bool good = push(other) == 0;

    for (int call = 0; call < FORMS; call++) {
        good = sum(call, GPU, GPU, false, 1000, MPI_COMM_WORLD, &error) && good;
        good = sum(call, OTHER_GPU, GPU, false, 1000, MPI_COMM_WORLD, &error) && good;
    }
    good = current(&after) == 0 && after == other && pop(&after) == 0 && good;
    harness_check(good, "the context of another GPU is current");
}

/* Test all combinations of host and GPU buffers over the ranks. */
static void rank_mixtures(void)
{
    int error;

    for (unsigned bits = 0; bits < 1u << harness_size; bits++) {
        enum place place = bits >> harness_rank & 1 ? GPU : HOST;

        for (int call = 0; call < FORMS; call++) {
            bool good = true;

            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                good = sum(call, place, place, i == 1, counts[i], MPI_COMM_WORLD, &error) && good;
            }
            harness_check(good, "%s, GPU buffers at ranks with a bit in %x", calls[call], bits);
        }
    }
}

static void is_an_error(bool first)
{
    enum place place = harness_rank == harness_size - 1 ? HOST : GPU;
    MPI_Comm comm, other;
    int error = 0;
    bool good;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    good = first || sum(BLOCKING, GPU, GPU, false, 1000, comm, &error);
    harness_check(good, "a call with GPU buffers on all ranks");
    good = sum(BLOCKING, place, place, false, 1000, comm, &error);
    if (first && place == GPU) {
        /* The last rank waits in the previous component's call, which no other rank enters. */
        printf("# rank %d: %s after all\n", harness_rank, error != 0 ? "an MPI error" : "success");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    harness_check(place == GPU ? error != MPI_SUCCESS : good,
                  "then one with host buffers at the last rank: an error at the others");
    good = sum(BLOCKING, place, place, false, 1000, comm, &error);
    harness_check(place == GPU ? error != MPI_SUCCESS : good, "and again");
    harness_check(sum(BLOCKING, GPU, GPU, false, 1000, other, &error),
                  "another communicator still works");
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
}

/*
 * Rank 1 reaches a call with host buffers while other ranks still wait for the last one in
 * a call with GPU buffers, which all ranks made before the communicator was connected. This is not
 * a mixture.
 */
static void ahead_on_hosts(void)
{
    struct vector in[3], out[3];
    MPI_Request requests[3];
    bool good = true, last = harness_rank == harness_size - 1;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++) {
        int one = 1 + i;

        in[i] = vector_new(i < 2 ? GPU : HOST, sizeof one);
        out[i] = vector_new(i < 2 ? GPU : HOST, sizeof one);
        vector_write(&in[i], &one, sizeof one);
    }
#define ADD(i) MPI_Iallreduce(in[i].memory, out[i].memory, 1, MPI_INT, MPI_SUM, comm, &requests[i])
    ADD(0);
    if (!last) {
        ADD(1);
    }
    good = MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS;
    if (harness_rank == 1) {
        ADD(2);
    }
    if (last) {
        usleep(1500000);
        ADD(1);
    }
    good = MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    if (harness_rank != 1) {
        ADD(2);
    }
#undef ADD
    good = MPI_Wait(&requests[2], MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    for (int i = 0; i < 3; i++) {
        int sum = 0;

        vector_read(&sum, &out[i], sizeof sum);
        good = sum == (1 + i) * harness_size && good;
        vector_free(&in[i]);
        vector_free(&out[i]);
    }
    MPI_Comm_free(&comm);
    harness_check(good, "a rank that is ahead, with host buffers, of calls with GPU buffers");
}

int main(int argc, char **argv)
{
    int option;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    find_all();
    option = getopt(argc, argv, "aeu");
    if (option == 'a') {
        rank_mixtures();
    } else if (option == 'e' || option == 'u') {
        is_an_error(option == 'u');
    } else {
        one_rank_mixtures();
        in_other_context();
        if (harness_size > 2) {
            ahead_on_hosts();
        }
    }
    return harness_finish();
}
