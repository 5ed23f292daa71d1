/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test large messages on GPU memory, which use offers (p2p/offer.h): the path of the data, and
 * messages that look like offers. Odd ranks send to the even ranks before them.
 *
 *   p2p_offers direct|chunks|staged   the expected path of large messages
 *   p2p_offers staged question|reply  the same, because a message has another version
 *   p2p_offers early                  a receive starts before the driver is loaded, so it is staged
 *   p2p_offers fails                  a copy fails
 *   p2p_offers crowd                  rank 0 sends more messages to all others than there are slots
 *   p2p_offers first                  a short message settles consent for the first large one
 *   p2p_offers self                   each rank sends to itself
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define LARGE     2500000 /* ints: five slots on a GPU, ten in host memory */
#define MEDIUM    16384   /* ints: staged between nodes, and through slots on one node */
#define UNTOUCHED 4711    /* value of MPI_ERROR, which calls with one status do not set */
#define ALIKE     3907    /* size of an offer in bytes */

static int *gpu, *host;
static char *small_gpu;
static int other; /* rank of the pair */
static bool sends;

static int value(int i, int round)
{
    return i * 7 + round * 1000003;
}

static void fill(int *to, bool on_gpu, int round)
{
    int *from = malloc(LARGE * sizeof *from);

    for (int i = 0; i < LARGE; i++) {
        from[i] = value(i, round);
    }
    if (on_gpu) {
        harness_write(to, from, LARGE * sizeof *from);
    } else {
        memcpy(to, from, LARGE * sizeof *from);
    }
    free(from);
}

/* Return true if a buffer has the first n ints of a round, followed by ints of another round. */
static bool holds(const int *from, bool on_gpu, int n, int round, int behind)
{
    int *to = malloc(LARGE * sizeof *to), wrong = -1;

    if (on_gpu) {
        harness_read(to, from, LARGE * sizeof *to);
    } else {
        memcpy(to, from, LARGE * sizeof *to);
    }
    for (int i = LARGE - 1; i >= 0; i--) {
        wrong = to[i] != value(i, i < n ? round : behind) ? i : wrong;
    }
    if (wrong >= 0) {
        printf("# rank %d: element %d is %d\n", harness_rank, wrong, to[wrong]);
    }
    free(to);
    return wrong < 0;
}

static bool counted(const MPI_Status *status, int ints)
{
    int count;

    MPI_Get_count(status, MPI_INT, &count);
    return count == ints && status->MPI_SOURCE == other;
}

/* Transfer one large message to a GPU or to host memory, and check it. */
static bool passes(int round, bool to_gpu)
{
    int *to = to_gpu ? gpu : host;
    MPI_Status status;

    fill(sends ? gpu : to, sends || to_gpu, sends ? round : -1);
    if (sends) {
        MPI_Send(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD);
        return true;
    }
    MPI_Recv(to, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &status);
    return counted(&status, LARGE) && holds(to, to_gpu, LARGE, round, -1);
}

static long long counts(const char *what)
{
    char name[64];

    snprintf(name, sizeof name, "coll_gpuring_%s_messages", what);
    return harness_pvar(name);
}

static void way(const char *expected)
{
    enum { ROUNDS = 6 };
    long long staged, direct, chunked;
    bool good = true, right = true;

    for (int round = 0; round < 3; round++) { /* for consent, and for the check of direct copies */
        good = passes(round, true) && good;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    staged = counts("staged");
    direct = counts("direct");
    chunked = counts("chunked");
    for (int round = 0; round < ROUNDS; round++) {
        good = passes(round, true) && good;
    }
    staged = counts("staged") - staged;
    direct = counts("direct") - direct;
    chunked = counts("chunked") - chunked;
    if (strcmp(expected, "direct") == 0) {
        right = staged == 0 && chunked == 0 && direct == (sends ? 0 : ROUNDS);
    } else if (strcmp(expected, "chunks") == 0) {
        right = staged == 0 && direct == 0 && chunked == (sends ? 0 : ROUNDS);
    } else {
        right = staged == ROUNDS && direct == 0 && chunked == 0;
    }
    if (!right) {
        printf("# rank %d: %lld staged, %lld direct, %lld in chunks\n", harness_rank, staged,
               direct, chunked);
    }
    harness_check(good, "large messages are right");
    harness_check(right, "and go so: %s", expected);
}

static void into_host(void)
{
    bool good = true;

    for (int round = 0; round < 3; round++) {
        good = passes(round, false) && good;
    }
    harness_check(good, "likewise into host memory");
}

/* Types with gaps, in host memory and on a GPU. */
static void gaps(void)
{
    MPI_Datatype type;
    bool good = true;

    MPI_Type_vector(LARGE / 10, 4, 5, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int to_gpu = 0; to_gpu < 2; to_gpu++) {
        int n = LARGE / 10 * 4, *to = to_gpu ? gpu : host, *got = malloc(LARGE * sizeof *got);
        MPI_Status status;

        fill(sends ? gpu : to, sends || to_gpu, sends ? 1 : 2);
        if (sends) {
            MPI_Send(gpu, n, MPI_INT, other, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(to, 1, type, other, 1, MPI_COMM_WORLD, &status);
            good = counted(&status, n) && good;
            if (to_gpu) {
                harness_read(got, to, LARGE * sizeof *got);
            } else {
                memcpy(got, to, LARGE * sizeof *got);
            }
            for (int i = 0; i < LARGE && good; i++) {
                bool gap = i % 5 == 4 || i >= LARGE / 2;

                good = got[i] == (gap ? value(i, 2) : value(i / 5 * 4 + i % 5, 1));
            }
        }
        free(got);
    }
    MPI_Type_free(&type);
    harness_check(good, "and into types with gaps");
}

static void truncated(void)
{
    enum { SHORT = LARGE / 3 };
    int code, class = MPI_SUCCESS;
    bool good = true;

    fill(gpu, true, sends ? 3 : 4);
    if (sends) {
        MPI_Send(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        code = MPI_Recv(gpu, SHORT, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        good = class == MPI_ERR_TRUNCATE && holds(gpu, true, SHORT, 3, 4);
    }
    harness_check(good, "a receive that is too short is an error, and gets the first bytes");
}

/* Receives that have no room for an offer return an error, and their senders do not wait. */
static void much_truncated(void)
{
    static const int sizes[] = {6, 100, ALIKE / 4};
    bool good = true;

    for (int i = 0; i < 6; i++) {
        int class, count = sizes[i / 2];
        MPI_Request receive;

        if (sends) {
            MPI_Send(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD);
            continue;
        }
        if (i % 2 == 0) {
            class = MPI_Recv(host, count, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(gpu, count, MPI_INT, other, 1, MPI_COMM_WORLD, &receive);
            class = MPI_Wait(&receive, MPI_STATUS_IGNORE);
        }
        MPI_Error_class(class, &class);
        good = good && class == MPI_ERR_TRUNCATE;
    }
    harness_check(good, "so is one without room for an offer, and the sender does not wait");
}

/* A copy fails. The call that needs it returns an error at the sender, at the receiver or at both,
 * and the next message is right again. If a message is not sent at all, its receive is
 * cancelled. */
static void fails(void)
{
    enum { ROUNDS = 8 };
    int errors = 0, all = 0, lost, code;
    bool good = true;

    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;

        fill(gpu, true, sends ? round : -1);
        if (sends) {
            lost = MPI_Send(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD) != MPI_SUCCESS;
            MPI_Send(&lost, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
            MPI_Recv(NULL, 0, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            errors += lost;
        } else {
            MPI_Status status;
            int cancelled;

            MPI_Irecv(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &request);
            MPI_Recv(&lost, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (lost) {
                MPI_Cancel(&request);
            }
            code = MPI_Wait(&request, &status);
            MPI_Send(NULL, 0, MPI_INT, other, 3, MPI_COMM_WORLD); /* no receive awaits the next */
            MPI_Test_cancelled(&status, &cancelled);
            errors += code != MPI_SUCCESS;
            good = good && (code != MPI_SUCCESS || cancelled || holds(gpu, true, LARGE, round, -1));
            good = good && ((code == MPI_SUCCESS && !cancelled) || round < ROUNDS - 1);
        }
    }
    MPI_Sendrecv(&errors, 1, MPI_INT, other, 2, &all, 1, MPI_INT, other, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    harness_check(good, "messages are right, or an error");
    harness_check(errors + all > 0, "there was one");
}

/* Send a message with the size of an offer. */
static void send_alike(bool on_gpu, int tag, int number)
{
    char data[ALIKE];

    memset(data, number, sizeof data);
    if (on_gpu) {
        harness_write(small_gpu, data, sizeof data);
    }
    MPI_Send(on_gpu ? small_gpu : data, ALIKE, MPI_CHAR, other, tag, MPI_COMM_WORLD);
}

static bool is_alike(const char *buffer, bool on_gpu, const MPI_Status *status, int number)
{
    char data[ALIKE];
    int count;

    if (on_gpu) {
        harness_read(data, buffer, sizeof data);
    } else {
        memcpy(data, buffer, sizeof data);
    }
    MPI_Get_count(status, MPI_CHAR, &count);
    return count == ALIKE && data[0] == number && memcmp(data, data + 1, ALIKE - 1) == 0;
}

/* Send messages with tags 1 (large), 2 (size of an offer), 1 (large), 3 (size of an offer), 3 (two
 * bytes), 1 (large). Probes and receives must find them in MPI's order. */
static void probes(bool to_gpu)
{
    char buffer[ALIKE], two[2];
    char *alike = to_gpu ? small_gpu : buffer;
    int *to = to_gpu ? gpu : host;
    MPI_Request requests[3];
    MPI_Status status;
    MPI_Message message;
    bool good = true;
    int flag = 0;

    fill(sends ? gpu : to, sends || to_gpu, sends ? 5 : -1);
    if (sends) {
        MPI_Isend(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
        send_alike(false, 2, 42);
        MPI_Isend(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[1]);
        send_alike(true, 3, 43);
        MPI_Send("z", 2, MPI_CHAR, other, 3, MPI_COMM_WORLD);
        MPI_Isend(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else {
        status.MPI_ERROR = UNTOUCHED;
        while (!flag) {
            MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, &status);
        }
        good = status.MPI_TAG == 3 && status.MPI_SOURCE == other;
        MPI_Probe(other, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        good = good && status.MPI_TAG == 1 && counted(&status, LARGE);
        MPI_Recv(to, LARGE, MPI_INT, other, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        good = good && status.MPI_TAG == 1 && counted(&status, LARGE) &&
               holds(to, to_gpu, LARGE, 5, -1);
        MPI_Recv(alike, ALIKE, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        good = good && status.MPI_TAG == 2 && is_alike(alike, to_gpu, &status, 42);
        MPI_Mprobe(other, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        good = good && status.MPI_TAG == 1 && counted(&status, LARGE);
        fill(to, to_gpu, -1);
        MPI_Mrecv(to, LARGE, MPI_INT, &message, &status);
        good = good && message == MPI_MESSAGE_NULL && counted(&status, LARGE) &&
               holds(to, to_gpu, LARGE, 5, -1);
        MPI_Mprobe(other, 3, MPI_COMM_WORLD, &message, &status);
        MPI_Imrecv(alike, ALIKE, MPI_CHAR, &message, &requests[0]);
        MPI_Wait(&requests[0], &status);
        good = good && is_alike(alike, to_gpu, &status, 43);
        MPI_Irecv(two, 2, MPI_CHAR, other, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], &status);
        good = good && two[0] == 'z';
        fill(to, to_gpu, -1);
        MPI_Recv_init(to, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], &status);
        MPI_Request_free(&requests[0]);
        good = good && counted(&status, LARGE) && holds(to, to_gpu, LARGE, 5, -1) &&
               status.MPI_ERROR == UNTOUCHED;
    }
    harness_check(good, "probes find large messages and those as long as an offer, into %s",
                  to_gpu ? "a GPU" : "host memory");
}

/* Chunks of two messages of one sender are not mixed up, in whichever order they are received. */
static void several(void)
{
    enum { MESSAGES = 4 };
    MPI_Request requests[MESSAGES];
    int *buffers[MESSAGES];
    bool good = true;

    for (int i = 0; i < MESSAGES; i++) {
        buffers[i] = i % 2 == 0 ? harness_alloc(LARGE * sizeof(int)) : malloc(LARGE * sizeof(int));
        fill(buffers[i], i % 2 == 0, sends ? i : -1);
    }
    for (int i = 0; i < MESSAGES; i++) {
        int tag = sends ? i : MESSAGES - 1 - i;

        if (sends) {
            MPI_Isend(buffers[i], LARGE, MPI_INT, other, tag, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(buffers[i], LARGE, MPI_INT, other, tag, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++) {
        good = good && (sends || holds(buffers[i], i % 2 == 0, LARGE, MESSAGES - 1 - i, -1));
        if (i % 2 == 0) {
            harness_free(buffers[i]);
        } else {
            free(buffers[i]);
        }
    }
    harness_check(good, "several at the same time, received in another order");
}

/* A send ends when its own message has been received, also if that of an earlier one has not. */
static void independent(void)
{
    MPI_Request requests[2];
    int word = 0;

    fill(gpu, true, sends ? 6 : -1);
    if (sends) {
        MPI_Isend(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(gpu, LARGE, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(gpu, LARGE, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&word, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    harness_check(holds(gpu, true, LARGE, 6, -1), "a send does not wait for an earlier one");
}

static void crowd(void)
{
    enum { ROUNDS = 5, FIRST = 2 };
    MPI_Request *requests = malloc((size_t) harness_size * sizeof *requests);
    long long direct = 0;
    bool good = true;

    requests[0] = MPI_REQUEST_NULL;
    for (int round = 0; round < ROUNDS; round++) {
        direct = round == FIRST ? counts("direct") : direct;
        fill(gpu, true, harness_rank == 0 ? round : -1);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int r = 1; r < harness_size && harness_rank == 0; r++) {
            MPI_Isend(gpu, LARGE, MPI_INT, r, 1, MPI_COMM_WORLD, &requests[r]);
        }
        if (harness_rank == 0) {
            MPI_Waitall(harness_size, requests, MPI_STATUSES_IGNORE);
        } else {
            MPI_Recv(gpu, LARGE, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good = holds(gpu, true, LARGE, round, -1) && good;
        }
    }
    direct = counts("direct") - direct;
    printf("# rank %d: %lld direct, %lld in chunks\n", harness_rank, counts("direct"),
           counts("chunked"));
    harness_check(good && direct == (harness_rank == 0 ? 0 : ROUNDS - FIRST),
                  "to all others at the same time: right, and directly, in turn");
    free(requests);
}

/* Check the paths of the messages since the counters were read. */
static void read_counts(long long *counters)
{
    counters[0] = counts("staged");
    counters[1] = counts("direct");
    counters[2] = counts("chunked");
}

static bool went(const long long *before, int staged, int direct, int chunked)
{
    long long now[3];

    read_counts(now);
    if (now[0] - before[0] == staged && now[1] - before[1] == direct &&
        now[2] - before[2] == chunked) {
        return true;
    }
    printf("# rank %d: %lld staged, %lld direct, %lld in chunks\n", harness_rank,
           now[0] - before[0], now[1] - before[1], now[2] - before[2]);
    return false;
}

/* A short message is staged. The large one after it is copied directly, and so is one of medium
 * length. */
static void first(void)
{
    long long before[3];
    bool good;

    fill(gpu, true, sends ? 8 : -1);
    read_counts(before);
    if (sends) {
        MPI_Send(gpu, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(gpu, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    harness_check(went(before, 1, 0, 0), "a short message is staged");
    MPI_Barrier(MPI_COMM_WORLD);
    read_counts(before);
    good = passes(9, true);
    harness_check(good && went(before, 0, !sends, 0), "the first large message is not");
    MPI_Barrier(MPI_COMM_WORLD);
    read_counts(before);
    fill(gpu, true, sends ? 10 : -1);
    if (sends) {
        MPI_Send(gpu, MEDIUM, MPI_INT, other, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(gpu, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    harness_check(holds(gpu, true, sends ? LARGE : MEDIUM, 10, -1) && went(before, 0, !sends, 0),
                  "nor is one of 64 KiB");
}

/* Send `n` ints to this rank, to receive up to `limit` of them in a buffer. */
static void to_self(int n, int limit, int *to, bool to_gpu, const char *what)
{
    int *from = harness_alloc(LARGE * sizeof *from), code, class, count;
    MPI_Request request;
    MPI_Status status;
    long long before[3];
    bool good;

    fill(from, true, 11);
    fill(to, to_gpu, -1);
    read_counts(before);
    MPI_Isend(from, n, MPI_INT, harness_rank, 1, MPI_COMM_WORLD, &request);
    code = MPI_Recv(to, limit, MPI_INT, harness_rank, 1, MPI_COMM_WORLD, &status);
    good = MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && went(before, 0, 1, 0);
    MPI_Error_class(code, &class);
    MPI_Get_count(&status, MPI_INT, &count);
    good = good && class == (limit < n ? MPI_ERR_TRUNCATE : MPI_SUCCESS) &&
           count == (limit < n ? limit : n) && holds(to, to_gpu, count, 11, -1);
    harness_check(good, "to itself: %s", what);
    harness_free(from);
}

static void self(void)
{
    to_self(LARGE, LARGE, gpu, true, "one copy within the GPU");
    to_self(MEDIUM, LARGE, gpu, true, "likewise of 64 KiB");
    to_self(LARGE, LARGE, host, false, "into host memory");
    to_self(LARGE, LARGE / 3, gpu, true, "a receive that is too short gets an error");
}

static bool over_ucx(void)
{
    const char *pml = getenv("OMPI_MCA_pml");

    return pml != NULL && strcmp(pml, "ucx") == 0;
}

/* Send a request for consent, or a reply, of another version to the other rank before the right
 * one. The program must be started with mpi_param_check=0, because their tags are negative. */
static void send_other_version(bool question)
{
    const int32_t words[10] = {1, 1, 1};

    if (question == sends) {
        MPI_Send(words, question ? 40 : 16, MPI_BYTE, other, question ? -4 : -5, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *expected = argc > 1 ? argv[1] : "staged";
    bool early = strcmp(expected, "early") == 0;
    bool offers = strcmp(expected, "direct") == 0 || strcmp(expected, "chunks") == 0;
    MPI_Request request;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    other = harness_rank ^ 1;
    sends = harness_rank % 2 == 1;
    host = malloc(LARGE * sizeof *host);
    if (early) {
        MPI_Irecv(host, LARGE, MPI_INT, other, 9, MPI_COMM_WORLD, &request);
        harness_buffers_close();
        setenv("GPURING_TEST_MEMORY", "cuda", 1);
        harness_buffers_open();
    }
    gpu = harness_alloc(LARGE * sizeof *gpu);
    small_gpu = harness_alloc(ALIKE);
    if (argc > 2) {
        send_other_version(strcmp(argv[2], "question") == 0);
    }
    if (strcmp(expected, "fails") == 0) {
        fails();
    } else if (strcmp(expected, "crowd") == 0) {
        crowd();
    } else if (strcmp(expected, "first") == 0) {
        first();
    } else if (strcmp(expected, "self") == 0) {
        self();
    } else {
        way(early ? "staged" : expected);
    }
    if (early) {
        int word = 77;

        MPI_Send(&word, 1, MPI_INT, other, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        harness_check(host[0] == 77, "and the early receive gets its message");
    }
    if (early || offers || strcmp(expected, "staged") == 0) {
        into_host();
        gaps();
        if (offers) { /* of whole messages ob1 of Open MPI 4.1.4 writes all bytes */
            truncated();
        }
        if (offers && !over_ucx()) { /* which does not deliver a part of a message */
            much_truncated();
        }
        probes(true);
        probes(false);
        several();
        independent();
    }
    harness_free(gpu);
    harness_free(small_gpu);
    free(host);
    return harness_finish();
}
