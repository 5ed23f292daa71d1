/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Make a long random sequence of messages in all forms and of collectives, many in flight, between
 * buffers on GPUs and in host memory, with types with and without gaps, from 0 bytes to megabytes,
 * on several communicators. All ranks draw the same messages from the seed and complete them in
 * different orders.
 *
 *   p2p_soak [-s SEED] [-r ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p2p_data.h"

#define MESSAGES 24 /* messages per round */
#define TAGS     2
#define COMMS    3

struct passage {
    int number, from, to, comm, ints;
    const struct sending *send;
    const struct receiving *receive;
    struct area sent, received;
    struct message s, r;
};

static MPI_Comm comms[COMMS];
static uint64_t shared, own;
static struct passage passages[MESSAGES];
static unsigned seed;

static int draw(int below)
{
    return (int) (harness_draw(&shared) % (uint64_t) below);
}

static unsigned seed_of(const struct passage *p, bool receives)
{
    return seed * 7919 + (unsigned) p->number * 2 + receives;
}

static void fail(const struct passage *p, const char *what)
{
    printf("# rank %d: message %d, from %d (%s, %s, %s) to %d (%s, %s, %s), communicator %d, tag "
           "%d, %d ints: %s\n",
           harness_rank, p->number, p->from, p->send->name, p2p_types[p->sent.type].name,
           p->sent.on_gpu ? "GPU" : "host", p->to, p->receive->name,
           p2p_types[p->received.type].name, p->received.on_gpu ? "GPU" : "host", p->comm, p->s.tag,
           p->ints, what);
    printf("not ok - all messages are right\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static const struct sending *draw_send(void)
{
    for (;;) {
        const struct sending *s = &sendings[draw(13)];

        if (!s->blocks && !s->ready && strcmp(s->name, "freed isend") != 0) {
            return s;
        }
    }
}

/* Return the form of a receive. It is equal for all messages with the same sender, tag and
 * communicator, so that they are received in the order of the sends. */
static const struct receiving *receive_of(const struct passage *p, int round)
{
    static const int posted[] = {2, 3, 5}, later[] = {0, 6, 7};
    int way = (p->from * 5 + p->to * 3 + p->comm * 7 + p->s.tag * 11 + round) % 2;

    return &receivings[way == 0 ? posted[draw(3)] : later[draw(3)]];
}

static void plan(struct passage *p, int number, int round)
{
    static const int units[] = {1, 1, 20, 400, 4000};
    int size = units[draw(5)], send_type = draw(P2P_TYPES), receive_type = draw(P2P_TYPES);
    bool send_gpu = draw(3) > 0, receive_gpu = draw(3) > 0;

    *p = (struct passage){.number = number,
                          .from = draw(harness_size),
                          .to = draw(harness_size),
                          .comm = draw(COMMS),
                          .ints = 60 * size};
    p->send = draw_send();
    p->s.tag = p->r.tag = draw(TAGS);
    p->receive = receive_of(p, round);
    if (draw(4) == 0) {
        p->ints -= p2p_types[send_type].ints * (draw(p->ints / 6) + 1);
        p->ints = p->ints < 0 ? 0 : p->ints;
    }
    p->s.comm = p->r.comm = comms[p->comm];
    if (p->from == harness_rank) {
        p->sent = area_open(send_type, size, send_gpu);
        area_fill(&p->sent, seed_of(p, false));
        p->s.buffer = p->sent.begin;
    }
    if (p->to == harness_rank) {
        p->received = area_open(receive_type, size, receive_gpu);
        area_fill(&p->received, seed_of(p, true));
        p->r.buffer = p->received.begin;
    }
    p->sent.type = send_type;
    p->received.type = receive_type;
    p->s.type = p2p_types[send_type].type;
    p->r.type = p2p_types[receive_type].type;
    p->s.count = p->ints / p2p_types[send_type].ints;
    p->r.count = 60 * size / p2p_types[receive_type].ints;
    p->s.peer = p->comm == 2 ? harness_size - 1 - p->to : p->to;
    p->r.peer = p->comm == 2 ? harness_size - 1 - p->from : p->from;
}

static void receive(struct passage *p)
{
    if (p->receive->finish(&p->r) != MPI_SUCCESS) {
        fail(p, "the receive is an error");
    }
    if (!message_status_right(&p->r, p->received.type, p->ints)) {
        fail(p, "the status is wrong");
    }
    if (!area_received(&p->received, seed_of(p, true), p->sent.type, seed_of(p, false), p->ints)) {
        fail(p, "the data is wrong");
    }
    area_close(&p->received);
}

static void finish_send(struct passage *p)
{
    p->send->finish(&p->s);
    if (!area_unchanged(&p->sent, seed_of(p, false))) {
        fail(p, "the send buffer has changed");
    }
    area_close(&p->sent);
}

/* Complete all messages in an order that differs between ranks. */
static void finish(void)
{
    bool sends[MESSAGES], receives[MESSAGES];
    int open = 0;

    for (int i = 0; i < MESSAGES; i++) {
        sends[i] = passages[i].from == harness_rank;
        receives[i] = passages[i].to == harness_rank && passages[i].receive->post != NULL;
        open += sends[i] + receives[i];
    }
    while (open > 0) {
        int i = (int) (harness_draw(&own) % MESSAGES);

        if (receives[i]) {
            receives[i] = false;
            receive(&passages[i]);
            open--;
        } else if (sends[i]) {
            sends[i] = false;
            finish_send(&passages[i]);
            open--;
        }
    }
}

/* Collectives between the messages. Block b of the send buffer of rank r has the values value(r, b,
 * i). */
enum what { BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, ALLREDUCE, SCAN, WHATS };

struct collective {
    enum what what;
    int n, root;
    int *send, *receive; /* of as many blocks as there are ranks */
    bool send_gpu, receive_gpu;
    MPI_Request request;
};

static int value(int rank, int block, int i)
{
    return rank * 1000003 + block * 1009 + i;
}

static size_t bytes_of(const struct collective *c)
{
    return (size_t) harness_size * (size_t) c->n * sizeof(int);
}

static int call_blocking(struct collective *c)
{
    int n = c->n, root = c->root;
    MPI_Comm world = MPI_COMM_WORLD;

    switch (c->what) {
    case BCAST:
        return MPI_Bcast(c->receive, n, MPI_INT, root, world);
    case GATHER:
        return MPI_Gather(c->send, n, MPI_INT, c->receive, n, MPI_INT, root, world);
    case SCATTER:
        return MPI_Scatter(c->send, n, MPI_INT, c->receive, n, MPI_INT, root, world);
    case ALLGATHER:
        return MPI_Allgather(c->send, n, MPI_INT, c->receive, n, MPI_INT, world);
    case ALLTOALL:
        return MPI_Alltoall(c->send, n, MPI_INT, c->receive, n, MPI_INT, world);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(c->send, c->receive, n, MPI_INT, MPI_SUM, world);
    case ALLREDUCE:
        return MPI_Allreduce(c->send, c->receive, n, MPI_INT, MPI_SUM, world);
    default:
        return MPI_Scan(c->send, c->receive, n, MPI_INT, MPI_SUM, world);
    }
}

static int call_nonblocking(struct collective *c)
{
    int n = c->n, root = c->root;
    MPI_Request *r = &c->request;
    MPI_Comm world = MPI_COMM_WORLD;

    switch (c->what) {
    case BCAST:
        return MPI_Ibcast(c->receive, n, MPI_INT, root, world, r);
    case GATHER:
        return MPI_Igather(c->send, n, MPI_INT, c->receive, n, MPI_INT, root, world, r);
    case SCATTER:
        return MPI_Iscatter(c->send, n, MPI_INT, c->receive, n, MPI_INT, root, world, r);
    case ALLGATHER:
        return MPI_Iallgather(c->send, n, MPI_INT, c->receive, n, MPI_INT, world, r);
    case ALLTOALL:
        return MPI_Ialltoall(c->send, n, MPI_INT, c->receive, n, MPI_INT, world, r);
    case REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(c->send, c->receive, n, MPI_INT, MPI_SUM, world, r);
    case ALLREDUCE:
        return MPI_Iallreduce(c->send, c->receive, n, MPI_INT, MPI_SUM, world, r);
    default:
        return MPI_Iscan(c->send, c->receive, n, MPI_INT, MPI_SUM, world, r);
    }
}

/* Return the expected element i of block b of the receive buffer. */
static int expected(const struct collective *c, int b, int i)
{
    int me = harness_rank, ranks = c->what == SCAN ? me + 1 : harness_size, sum = 0;

    for (int r = 0; r < ranks; r++) {
        sum += value(r, c->what == REDUCE_SCATTER ? me : 0, i);
    }
    if (b > 0 && c->what != GATHER && c->what != ALLGATHER && c->what != ALLTOALL) {
        return -1;
    }
    switch (c->what) {
    case BCAST:
        return value(c->root, 0, i);
    case GATHER:
        return me == c->root ? value(b, 0, i) : -1;
    case SCATTER:
        return value(c->root, me, i);
    case ALLGATHER:
        return value(b, 0, i);
    case ALLTOALL:
        return value(b, me, i);
    default:
        return sum;
    }
}

static void collective_start(struct collective *c)
{
    bool blocking = draw(2) == 0, gpu = draw(4) > 0, mixes, root;
    int *host;

    *c = (struct collective){.what = (enum what) draw(WHATS),
                             .n = draw(2) == 0 ? 100 : 20000,
                             .root = draw(harness_size),
                             .request = MPI_REQUEST_NULL};
    mixes = draw(2) == 0 && c->what <= SCATTER;
    c->send_gpu = mixes ? harness_draw(&own) % 2 == 0 : gpu;
    c->receive_gpu = mixes ? harness_draw(&own) % 2 == 0 : gpu;
    c->send = c->send_gpu ? harness_alloc(bytes_of(c)) : malloc(bytes_of(c));
    c->receive = c->receive_gpu ? harness_alloc(bytes_of(c)) : malloc(bytes_of(c));
    host = malloc(bytes_of(c));
    for (int k = 0; k < harness_size * c->n; k++) {
        host[k] = value(harness_rank, k / c->n, k % c->n);
    }
    c->send_gpu ? harness_write(c->send, host, bytes_of(c))
                : (void) memcpy(c->send, host, bytes_of(c));
    root = c->what == BCAST && harness_rank == c->root;
    memset(host + (root ? c->n : 0), 0xff, bytes_of(c) - (root ? (size_t) c->n * sizeof(int) : 0));
    c->receive_gpu ? harness_write(c->receive, host, bytes_of(c))
                   : (void) memcpy(c->receive, host, bytes_of(c));
    free(host);
    if ((blocking ? call_blocking(c) : call_nonblocking(c)) != MPI_SUCCESS) {
        printf("not ok - rank %d: collective %d is no error\n", harness_rank, (int) c->what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void collective_finish(struct collective *c)
{
    int *host = malloc(bytes_of(c));
    bool good = MPI_Wait(&c->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;

    c->receive_gpu ? harness_read(host, c->receive, bytes_of(c))
                   : (void) memcpy(host, c->receive, bytes_of(c));
    for (int k = 0; k < harness_size * c->n; k++) {
        good = good && host[k] == expected(c, k / c->n, k % c->n);
    }
    free(host);
    c->send_gpu ? harness_free(c->send) : free(c->send);
    c->receive_gpu ? harness_free(c->receive) : free(c->receive);
    if (!good) {
        printf("not ok - rank %d: collective %d of %d ints, root %d, is right\n", harness_rank,
               (int) c->what, c->n, c->root);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void play(int round)
{
    int first = draw(MESSAGES), second = draw(MESSAGES);
    struct collective collectives[2];

    for (int i = 0; i < MESSAGES; i++) {
        plan(&passages[i], round * MESSAGES + i, round);
        if (passages[i].to == harness_rank && passages[i].receive->post != NULL) {
            passages[i].receive->post(&passages[i].r);
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        if (passages[i].from == harness_rank) {
            passages[i].send->start(&passages[i].s);
        }
        for (int k = 0; k < 2; k++) {
            if (i == (k == 0 ? first : second)) {
                collective_start(&collectives[k]);
            }
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        if (passages[i].to == harness_rank && passages[i].receive->post == NULL) {
            receive(&passages[i]);
        }
    }
    finish();
    collective_finish(&collectives[1]);
    collective_finish(&collectives[0]);
}

int main(int argc, char **argv)
{
    char *attached = malloc(256 << 20);
    int option, rounds = 20;

    seed = 1;
    while ((option = getopt(argc, argv, "s:r:")) != -1) {
        *(option == 's' ? (int *) &seed : &rounds) = atoi(optarg);
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    p2p_types_open();
    MPI_Buffer_attach(attached, 256 << 20);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -harness_rank, &comms[2]);
    shared = seed;
    own = seed + 1000 + (uint64_t) harness_rank;
    for (int i = 0; i < rounds; i++) {
        play(i);
    }
    harness_check(true, "%d messages and %d collectives, seed %u", rounds * MESSAGES, 2 * rounds,
                  seed);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    MPI_Buffer_detach(&attached, &option);
    free(attached);
    p2p_types_close();
    return harness_finish();
}
