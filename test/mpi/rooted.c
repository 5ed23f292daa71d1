/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test how calls with a root are served or staged, in which each rank may have its buffers on a GPU
 * or in host memory: series of equal calls with their counters, and special orders of calls.
 * native.c tests random calls of this kind.
 *
 *   rooted [first]
 *
 * first: no other call connects the ranks before these calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sums.h"

enum { LONGEST = 3000, MOST = 8, GATHERS = 4 };
enum { SMALL = 1000, LARGE = 5000 }; /* elements of a broadcast; the limit is 8 KiB */

static int *memory[2][2]; /* [GPU][input, output] */
static MPI_Comm comm = MPI_COMM_WORLD;
static int host[LONGEST * MOST];
static bool one_node;       /* the ranks vote in each call that is not small */
static bool all_agree;      /* the ranks agree before each such call, coll_gpuring_agree_size */
static MPI_Datatype gapped; /* an int, and a gap as long */

/* A gather of some KiB at rank 1, in flight. */
struct gather {
    int *input, *output;
    bool on_gpu;
    MPI_Request request;
};

static struct gather gathers[GATHERS];

static int element(int rank, int i)
{
    return 100003 * rank + 7 * i;
}

/* Begin a gather. */
static bool gather(struct gather *gather, bool on_gpu, bool blocking)
{
    for (int i = 0; i < LONGEST; i++) {
        host[i] = element(harness_rank, i);
    }
    gather->on_gpu = on_gpu;
    gather->input = on_gpu ? harness_alloc(sizeof host) : malloc(sizeof host);
    gather->output = on_gpu ? harness_alloc(sizeof host) : malloc(sizeof host);
    harness_write(gather->input, host, LONGEST * sizeof *host);
    return (blocking ? MPI_Gather(gather->input, LONGEST, MPI_INT, gather->output, LONGEST, MPI_INT,
                                  1, comm)
                     : MPI_Igather(gather->input, LONGEST, MPI_INT, gather->output, LONGEST,
                                   MPI_INT, 1, comm, &gather->request)) == MPI_SUCCESS;
}

/* Complete a gather, and check the result. */
static bool complete(struct gather *gather)
{
    bool good = MPI_Wait(&gather->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;

    harness_read(host, gather->output, sizeof *host * LONGEST * (size_t) harness_size);
    for (int i = 0; harness_rank == 1 && i < harness_size * LONGEST; i++) {
        good = host[i] == element(i / LONGEST, i % LONGEST) && good;
    }
    for (int k = 0; k < 2; k++) {
        int *buffer = k == 0 ? gather->input : gather->output;

        if (gather->on_gpu) {
            harness_free(buffer);
        } else {
            free(buffer);
        }
    }
    return good;
}

/* Gathers with buffers in different kinds of memory wait in the queue, because rank 0 is late for
 * the call before them. */
static bool queued_gathers(void)
{
    MPI_Request request;
    bool good = true;

    for (int i = 0; i < 2; i++) {
        gathers[0].request = MPI_REQUEST_NULL;
        good = gather(&gathers[0], false, true) && complete(&gathers[0]) && good;
    }
    if (harness_rank == 0) {
        usleep(300000);
    }
    MPI_Iallreduce(MPI_IN_PLACE, memory[1][1], 10, MPI_INT, MPI_SUM, comm, &request);
    for (int i = 0; i < GATHERS; i++) {
        good = gather(&gathers[i], i == 1 || i == 2, false) && good;
    }
    good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    for (int i = 0; i < GATHERS; i++) {
        good = complete(&gathers[i]) && good;
    }
    return good;
}

static int broadcast(enum form form, int *buffer, int count, MPI_Datatype type, int root)
{
    MPI_Request request;
    int status;

    if (form == BLOCKING) {
        return MPI_Bcast(buffer, count, type, root, comm);
    }
    if (form == NONBLOCKING) {
        status = MPI_Ibcast(buffer, count, type, root, comm, &request);
        return status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    }
    status = HARNESS_INIT(Bcast)(buffer, count, type, root, comm, MPI_INFO_NULL, &request);
    status = status == MPI_SUCCESS ? MPI_Start(&request) : status;
    status = status == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : status;
    MPI_Request_free(&request);
    return status;
}

/*
 * Make `calls` broadcasts of `count` elements, in types with gaps on ranks with odd numbers. Checks
 * that `served` of them are served, and that those on GPU memory that are not are staged.
 */
static void row(enum form form, int calls, int count, bool on_gpu, int served, const char *text)
{
    long long were_served = harness_pvar("coll_gpuring_calls");
    long long staged = harness_pvar("coll_gpuring_staged");
    MPI_Datatype type = form == BLOCKING && harness_rank % 2 ? gapped : MPI_INT;
    int *buffer = memory[on_gpu][0], step = type == gapped ? 2 : 1;
    bool good = true;

    for (int i = 0; i < calls; i++) {
        for (int k = 0; k < count * step; k++) {
            host[k] = harness_rank == i % harness_size && k % step == 0 ? 3 * k / step + i : -1;
        }
        harness_write(buffer, host, sizeof(int) * (size_t) (count * step));
        good = broadcast(form, buffer, count, type, i % harness_size) == MPI_SUCCESS && good;
        harness_read(host, buffer, sizeof(int) * (size_t) (count * step));
        for (int k = 0; k < count * step; k++) {
            good = host[k] == (k % step == 0 ? 3 * k / step + i : -1) && good;
        }
    }
    were_served = harness_pvar("coll_gpuring_calls") - were_served;
    staged = harness_pvar("coll_gpuring_staged") - staged;
    harness_check(good && were_served == served && staged == (on_gpu ? calls - served : 0),
                  "%d broadcasts of %d bytes, %s: %lld served, %lld staged", calls, 4 * count, text,
                  were_served, staged);
}

/* connected: a call has connected the ranks. Otherwise the first large one does. */
static void rows(bool connected)
{
    int served = one_node || all_agree ? 20 : 0; /* of 20 large ones between connected ranks */

    row(BLOCKING, 20, SMALL, true, 0, "small");
    row(NONBLOCKING, 5, SMALL, true, 0, "small, non-blocking");
    row(PERSISTENT, 2, SMALL, true, 0, "small, persistent");
    row(BLOCKING, 20, SMALL, false, 0, "small, in host memory");
    row(BLOCKING, 20, LARGE, true, served > 0 || connected ? served : 1, "large");
    row(NONBLOCKING, 20, LARGE, true, served, "large, non-blocking");
    row(PERSISTENT, 2, LARGE, true, 2, "large, persistent");
    row(BLOCKING, 20, LARGE, false, 0, "large, in host memory");
    row(BLOCKING, 20, LARGE, true, served, "large again");
}

/* Ranks that are not connected, and agree on a large call that is not on GPUs, agree next when the
 * number of their calls has doubled: in calls 1, 3 and 7. Before calls of coll_gpuring_agree_size
 * they always agree. */
static void rare_agreements(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    row(BLOCKING, 4, LARGE, false, 0, "the first of a communicator, in host memory");
    row(BLOCKING, 10, LARGE, true, all_agree ? 10 : one_node ? 8 : 1, "then on GPUs");
    MPI_Comm_free(&comm);
    comm = MPI_COMM_WORLD;
}

/* A non-blocking call connects the ranks, and only some of them complete it before they make the
 * next call. The others must not conclude from that call that all ranks are connected. */
static bool connect_by_nonblocking(void)
{
    int *device = memory[1][0], *in_host = memory[0][0];
    MPI_Request request;
    bool good = true;

    for (int i = 0; i < 2; i++) {
        good = MPI_Bcast(in_host, LARGE, MPI_INT, 0, comm) == MPI_SUCCESS && good;
    }
    good = MPI_Ibcast(device, LARGE, MPI_INT, 0, comm, &request) == MPI_SUCCESS && good;
    if (harness_rank % 2 == 0) {
        good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    }
    good = MPI_Bcast(in_host, LARGE, MPI_INT, 0, comm) == MPI_SUCCESS && good;
    for (int i = 0; i < 3; i++) {
        good = MPI_Bcast(device, LARGE, MPI_INT, i % harness_size, comm) == MPI_SUCCESS && good;
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
}

int main(int argc, char **argv)
{
    const char *agree_size = getenv("OMPI_MCA_coll_gpuring_agree_size");
    long long calls;
    bool good, first = argc > 1;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    one_node = getenv("OMPI_MCA_coll_gpuring_hostid") == NULL; /* see as_nodes.sh */
    all_agree = agree_size != NULL && atoi(agree_size) <= LARGE * (int) sizeof(int);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped);
    MPI_Type_commit(&gapped);
    for (int k = 0; k < 2; k++) {
        memory[0][k] = malloc(sizeof host);
        memory[1][k] = harness_alloc(sizeof host);
    }
    if (!first) { /* the first call without a root connects the ranks */
        harness_check(sum_is_right(BLOCKING, 1, MPI_COMM_WORLD), "a first call");
    }
    rows(!first);
    if (first) {
        rare_agreements();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        harness_check(connect_by_nonblocking(),
                      "a non-blocking call with a root connects the ranks");
        MPI_Comm_free(&comm);
        comm = MPI_COMM_WORLD;
    }
    calls = harness_pvar("coll_gpuring_calls");
    good = queued_gathers();
    calls = harness_pvar("coll_gpuring_calls") - calls;
    harness_check(good && calls == (one_node || all_agree ? 3 : 1),
                  "gathers that wait in the queue: %lld calls served", calls);
    for (int k = 0; k < 2; k++) {
        free(memory[0][k]);
        harness_free(memory[1][k]);
    }
    MPI_Type_free(&gapped);
    return harness_finish();
}
