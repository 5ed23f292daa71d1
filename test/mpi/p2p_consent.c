/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Calls that are in progress when a process consents to offers (p2p/offer.h), and threads that
 * probe and receive at the same time afterwards. 2 ranks; rank 1 sends.
 *
 *   p2p_consent probe|mprobe   a blocking probe is in progress
 *   p2p_consent early          a thread started a blocking receive before the driver was loaded
 *   p2p_consent threads        one thread probes, others receive
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define COUNT  300000 /* ints: more than coll_gpuring_p2p_rendezvous */
#define ASKS   20     /* large messages until one is offered; fewer are needed */
#define ROUNDS 2000
#define ALIKE  3907 /* size of an offer in bytes */

static int *gpu, *host;
static int other;
static bool sends;

static void fill(int *to)
{
    for (int i = 0; i < COUNT; i++) {
        host[i] = 3 * i;
    }
    harness_write(to, host, COUNT * sizeof *host);
    memset(host, 0, COUNT * sizeof *host);
}

static bool holds(const int *from)
{
    bool good = true;

    for (int i = 0; i < COUNT; i++) {
        good = good && from[i] == 3 * i;
    }
    return good;
}

static bool counted(const MPI_Status *status, int ints)
{
    int count;

    MPI_Get_count(status, MPI_INT, &count);
    if (count != ints) {
        printf("# rank %d: %d ints\n", harness_rank, count);
    }
    return count == ints;
}

/* Send large messages with tag 1 until one is offered. Returns their number. */
static int send_until_offered(void)
{
    long long before;
    int n = 0;

    do {
        before = harness_pvar("coll_gpuring_staged_messages");
        MPI_Send(gpu, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD);
        n++;
    } while (n < ASKS && harness_pvar("coll_gpuring_staged_messages") > before);
    return n;
}

/* Exchange messages on both ranks until there is consent. */
static void agree(void)
{
    MPI_Status status;
    int count = COUNT;

    if (sends) {
        send_until_offered();
        MPI_Send(gpu, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    }
    while (!sends && count > 1) {
        MPI_Recv(gpu, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
    }
}

/* Receives of tag 1 end while this process waits in a probe of tag 2. */
static bool probe(bool matched)
{
    MPI_Request requests[ASKS];
    MPI_Message message;
    MPI_Status status;
    bool good;

    for (int i = 0; i < ASKS; i++) {
        MPI_Irecv(gpu + (size_t) i * COUNT, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[i]);
    }
    if (matched) {
        MPI_Mprobe(other, 2, MPI_COMM_WORLD, &message, &status);
        good = counted(&status, COUNT);
        MPI_Mrecv(host, COUNT, MPI_INT, &message, &status);
    } else {
        MPI_Probe(other, 2, MPI_COMM_WORLD, &status);
        good = counted(&status, COUNT);
        MPI_Recv(host, COUNT, MPI_INT, other, 2, MPI_COMM_WORLD, &status);
    }
    MPI_Waitall(ASKS, requests, MPI_STATUSES_IGNORE);
    return good && counted(&status, COUNT) && holds(host);
}

static void be_probed(void)
{
    MPI_Request request;
    int n;

    fill(gpu);
    n = send_until_offered();
    MPI_Isend(gpu, COUNT, MPI_INT, other, 2, MPI_COMM_WORLD, &request);
    while (n++ < ASKS) {
        MPI_Send(gpu, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void *receive_early(void *good)
{
    MPI_Status status;

    MPI_Recv(host, COUNT, MPI_INT, other, 9, MPI_COMM_WORLD, &status);
    *(bool *) good = counted(&status, COUNT) && holds(host);
    return NULL;
}

static void early(void)
{
    pthread_t thread;
    bool good = true;

    if (!sends) {
        pthread_create(&thread, NULL, receive_early, &good);
        usleep(300000); /* it has begun */
    }
    harness_buffers_close();
    setenv("GPURING_TEST_MEMORY", "cuda", 1);
    harness_buffers_open();
    gpu = harness_alloc(COUNT * sizeof *gpu);
    agree();
    if (sends) {
        fill(gpu);
        MPI_Send(gpu, COUNT, MPI_INT, other, 9, MPI_COMM_WORLD);
    } else {
        pthread_join(thread, NULL);
    }
    harness_check(good, "a blocking receive from before the driver gets its data");
}

/* Messages of the threads, by their tags: */
enum { SHORT = 5, MATCHED, AS_AN_OFFER };

static void *receive(void *good)
{
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request request;
        int got = -1;

        if (i % 2 == 0) {
            MPI_Recv(&got, 1, MPI_INT, other, SHORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(&got, 1, MPI_INT, other, SHORT, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        *(bool *) good = *(bool *) good && got == i;
    }
    return NULL;
}

static void *receive_matched(void *good)
{
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Message message;
        int got = -1;

        MPI_Mprobe(other, MATCHED, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        *(bool *) good = *(bool *) good && got == i;
    }
    return NULL;
}

static void *receive_probed(void *good)
{
    char data[ALIKE];

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Status status;
        int count, got;

        MPI_Probe(other, AS_AN_OFFER, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        MPI_Recv(data, ALIKE, MPI_CHAR, other, AS_AN_OFFER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&got, data, sizeof got);
        *(bool *) good = *(bool *) good && count == ALIKE && got == i;
    }
    return NULL;
}

static void threads(void)
{
    static void *(*const bodies[])(void *) = {receive, receive_matched, receive_probed};
    bool good[] = {true, true, true};
    char data[ALIKE] = "";
    pthread_t thread[3];

    agree();
    for (int i = 0; i < ROUNDS && sends;
         i++) { /* each round waits for the threads, so they meet often */
        memcpy(data, &i, sizeof i);
        MPI_Send(&i, 1, MPI_INT, other, SHORT, MPI_COMM_WORLD);
        MPI_Send(&i, 1, MPI_INT, other, MATCHED, MPI_COMM_WORLD);
        MPI_Send(data, ALIKE, MPI_CHAR, other, AS_AN_OFFER, MPI_COMM_WORLD);
    }
    if (sends) {
        MPI_Send(NULL, 0, MPI_INT, other, 9, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 3 && !sends; i++) {
        pthread_create(&thread[i], NULL, bodies[i], &good[i]);
    }
    for (int i = 0; i < 3 && !sends; i++) {
        pthread_join(thread[i], NULL);
    }
    harness_check(good[0], "while a thread probes, another receives messages in their order");
    harness_check(good[1], "likewise by matching probes");
    harness_check(good[2], "and the message that it has probed");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool matched = strcmp(what, "mprobe") == 0, good = true;

    harness_start(&argc, &argv,
                  matched || strcmp(what, "probe") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
    other = harness_rank ^ 1;
    sends = harness_rank == 1;
    host = calloc(COUNT, sizeof *host);
    if (strcmp(what, "early") == 0) {
        early();
    } else {
        gpu = harness_alloc((size_t) ASKS * COUNT * sizeof *gpu);
        if (strcmp(what, "threads") == 0) {
            threads();
        } else if (sends) {
            be_probed();
            harness_check(good, "a %s under way finds the length of a large message", what);
        } else {
            good = probe(matched);
            harness_check(good, "a %s under way finds the length of a large message", what);
        }
    }
    harness_free(gpu);
    free(host);
    return harness_finish();
}
