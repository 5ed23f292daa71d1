/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test messages on GPU memory that kernels copy (p2p/shared.h). Odd ranks send to the even ranks
 * before them, and then all ranks do both.
 *
 *   p2p_kernels all
 *       Kernels copy every message that is not too large. This needs a long patience.
 *   p2p_kernels late
 *       All ranks are on one GPU. The sender's kernel waits for work of the program, so the driver
 *       copies the messages.
 *   p2p_kernels none
 *       No kernel copies a message.
 *   p2p_kernels fails
 *       A call of the driver fails, so that a call returns an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "standin_find.h"

#define MOST   ((size_t) 3 << 20)
#define KERNEL ((size_t) 1 << 20) /* GPURING_P2P_KERNEL */
#define ROOM   (MOST + 64)

static unsigned char *gpu, *gpu_too, *host;
static int other; /* rank of the pair */
static bool sends;
static const char *mode;
static int (*retain)(void **context, int gpu), (*push)(void *context);
static long (*calls)(const char *symbol);
static void (*kernel)(int per_thread, void *to, const void *from, size_t bytes, int ms);

static unsigned char value(size_t i, int rank, int round)
{
    return (unsigned char) ((i * 7 + (size_t) round * 31 + (size_t) rank * 101) ^ i >> 9);
}

static void fill(unsigned char *to, int rank, int round)
{
    for (size_t i = 0; i < ROOM; i++) {
        host[i] = value(i, rank, round);
    }
    harness_write(to, host, ROOM);
}

/* Return true if a buffer has `bytes` bytes of the other rank from `at` on, and its old data before
 * and after them. */
static bool holds(const unsigned char *from, size_t at, size_t bytes, int round)
{
    harness_read(host, from, ROOM);
    for (size_t i = 0; i < ROOM; i++) {
        bool in = i >= at && i < at + bytes;

        if (host[i] != (in ? value(i - at, other, round) : value(i, harness_rank, -round))) {
            printf("# rank %d: byte %zu of %zu at %zu is wrong\n", harness_rank, i, bytes, at);
            return false;
        }
    }
    return true;
}

/* Return the counter of messages that a kernel copied. */
static long long by_kernels(void)
{
    return harness_pvar("coll_gpuring_kernel_messages");
}

static bool expect_kernels(long long before, int messages)
{
    long long found = by_kernels() - before;
    bool right = strcmp(mode, "all") == 0 ? found == messages : found == 0;

    if (!right) {
        printf("# rank %d: kernels copied %lld of %d messages\n", harness_rank, found, messages);
    }
    return right;
}

/* Send one message from `gpu` + from to `gpu` + to. */
static bool pass(size_t bytes, size_t from, size_t to, int round)
{
    MPI_Status status;
    int count;

    if (sends) {
        for (size_t i = 0; i < ROOM; i++) {
            host[i] = value(i, harness_rank, round);
        }
        harness_write(gpu + from, host, bytes);
        MPI_Send(gpu + from, (int) bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        return true;
    }
    fill(gpu, harness_rank, -round);
    MPI_Recv(gpu + to, (int) bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    return (size_t) count == bytes && holds(gpu, to, bytes, round);
}

/* Lengths and alignments. */
static void single(void)
{
    static const size_t sizes[] = {16384, 16385, 20001, 65536, 131071, 262144, 1000003, KERNEL};
    long long before = by_kernels();
    bool good = true;
    int round = 1;

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t i = 0; i < 4; i++) {
            good = pass(sizes[s], i * 5 % 16, i * i * 3 % 16, round++) && good;
        }
    }
    harness_check(good, "messages of all lengths and alignments are right");
    harness_check(expect_kernels(before, sends ? 0 : round - 1), "kernels copy them: %s", mode);
    before = by_kernels();
    good = pass(KERNEL + 1, 0, 0, round) && pass(MOST, 1, 2, round + 1);
    harness_check(good && by_kernels() == before, "the driver copies larger ones");
}

/* A receive that is too short gets the first bytes, which the driver copies. */
static void truncated(void)
{
    long long before = by_kernels();
    int code, class = MPI_SUCCESS;
    bool good = true;

    fill(gpu, harness_rank, sends ? 9 : -9);
    if (sends) {
        MPI_Send(gpu, 100000, MPI_BYTE, other, 1, MPI_COMM_WORLD);
    } else {
        code = MPI_Recv(gpu, 40000, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        good = class == MPI_ERR_TRUNCATE && holds(gpu, 0, 40000, 9);
    }
    harness_check(good && by_kernels() == before, "a receive that is too short");
}

/* More messages in both directions than there are buffers, received in another order. */
static void many(void)
{
    enum { MESSAGES = 20, BYTES = 100000 };
    MPI_Request requests[2 * MESSAGES];
    long long before = by_kernels();
    bool good = true;

    fill(gpu, harness_rank, 3);
    fill(gpu_too, harness_rank, -3);
    for (int i = 0; i < MESSAGES; i++) {
        int number = (i * 7 + 3) % MESSAGES;

        MPI_Irecv(gpu_too + number * BYTES, BYTES, MPI_BYTE, other, number, MPI_COMM_WORLD,
                  &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Isend(gpu + i * BYTES, BYTES, MPI_BYTE, other, i, MPI_COMM_WORLD,
                  &requests[MESSAGES + i]);
    }
    MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
    good = holds(gpu_too, 0, MESSAGES * BYTES, 3);
    harness_check(good, "many messages in both directions");
    harness_check(expect_kernels(before, MESSAGES), "kernels copy them, too: %s", mode);
}

static long launches(void)
{
    return calls("cuLaunchKernel") + calls("cuGraphLaunch");
}

/*
 * The send buffer is filled by work on the default stream that is still running at the call. The
 * receiver's kernel runs out of patience. Therefore the receiver launches kernels only for messages
 * 1, 3 and 7.
 */
static void late(void)
{
    enum { BYTES = 300000, ROUNDS = 7, KERNEL_MS = 400 };
    long long before = by_kernels();
    long launched;
    void *context;
    bool good = true;

    standin_find("gpuring_standin_kernel", &kernel);
    standin_find("gpuring_standin_calls", &calls);
    standin_find("cuDevicePrimaryCtxRetain", &retain);
    standin_find("cuCtxPushCurrent_v2", &push);
    harness_check(retain(&context, 0) == 0 && push(context) == 0, "a current context");
    launched = launches();
    for (int round = 1; round <= ROUNDS; round++) {
        fill(gpu_too, harness_rank, sends ? round : -round);
        fill(gpu, harness_rank, -round);
        MPI_Barrier(MPI_COMM_WORLD);
        if (sends) {
            kernel(0, gpu, gpu_too, BYTES, KERNEL_MS);
            MPI_Send(gpu, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(gpu, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good = holds(gpu, 0, BYTES, round) && good;
        }
    }
    harness_check(good, "messages whose data is written late are right");
    harness_check(expect_kernels(before, 0), "kernels run out of patience");
    launched = launches() - launched;
    harness_check(launched == (sends ? ROUNDS : 3), "and are not launched for each message");
}

/* A message returns an error at one rank or at both, and later ones are right again. */
static void fails(void)
{
    enum { ROUNDS = 6, BYTES = 70000 };
    int errors = 0, all = 0, code;
    bool good = true;

    for (int round = 1; round <= ROUNDS; round++) {
        fill(gpu, harness_rank, sends ? round : -round);
        MPI_Barrier(MPI_COMM_WORLD);
        if (sends) {
            code = MPI_Send(gpu, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        } else {
            code = MPI_Recv(gpu, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good = good && (code != MPI_SUCCESS || holds(gpu, 0, BYTES, round));
        }
        errors += code != MPI_SUCCESS;
        good = good && (code == MPI_SUCCESS || round < ROUNDS);
    }
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("# rank %d: %d errors\n", harness_rank, errors);
    harness_check(good, "messages are right, or an error (%d)", all);
}

/* Let short messages settle consent, and the first large ones the place of the slots. */
static void begin(void)
{
    for (int i = 0; i < 3; i++) {
        MPI_Sendrecv(gpu, i == 0 ? 1 : 20000, MPI_BYTE, other, 0, gpu_too, i == 0 ? 1 : 20000,
                     MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "all";
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    other = harness_rank ^ 1;
    sends = harness_rank % 2 == 1;
    gpu = harness_alloc(ROOM);
    gpu_too = harness_alloc(ROOM);
    host = malloc(ROOM);
    if (strcmp(mode, "fails") == 0) {
        fails();
    } else {
        begin();
        if (strcmp(mode, "late") == 0) {
            late();
        } else {
            single();
            truncated();
            many();
        }
    }
    harness_free(gpu);
    harness_free(gpu_too);
    free(host);
    return harness_finish();
}
