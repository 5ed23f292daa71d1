/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * staged_void ROUNDS MILLISECONDS [LOG]: small staged calls in which the GPU of one rank after the
 * other breaks before its data is copied in, or of all ranks but one at once. Its own call is an
 * error, and no other rank returns success with results that its data would be in. In each round
 * every collective of a list, blocking, non-blocking and persistent; buffers of the others are on
 * their GPUs, or, in every third round, in host memory. Notices come so late. Needs the stand-in
 * driver.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi-ext.h>

#include "late_notices.h"
#include "staged.h"
#include "standin_find.h"

#define FEW 5 /* ints of a block */
#define ALL (FEW * PEERS)

static void (*arm)(const char *list);
static int *gpu_send, *gpu_receive, send[ALL], receive[ALL];
static MPI_Op sum; /* of ours: MPI's would be served, not staged */

/* The arguments of one call. */
struct trial {
    enum form form;
    int first, failing; /* the ranks that break */
    const void *send;
    void *receive;
    MPI_Request request;
};

static bool breaks(const struct trial *x, int rank)
{
    return (rank - x->first + harness_size) % harness_size < x->failing;
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const int *from = in;
    int *to = inout;

    (void) type;
    for (int i = 0; i < *count; i++) {
        to[i] = (int) ((unsigned) to[i] + (unsigned) from[i]);
    }
}

static int value(int rank, int i)
{
    return 1000 * (rank + 1) + i;
}

/* Persistent ones are extensions in Open MPI 4.1. */
#if MPI_VERSION >= 4
#define INIT(name, ...) MPI_##name##_init(__VA_ARGS__, MPI_COMM_WORLD, MPI_INFO_NULL, &x->request)
#else
#define INIT(name, ...) MPIX_##name##_init(__VA_ARGS__, MPI_COMM_WORLD, MPI_INFO_NULL, &x->request)
#endif

#define CALL(function, name, ...)                                             \
    static int function(struct trial *x)                                      \
    {                                                                         \
        switch (x->form) {                                                    \
        case BLOCKING:                                                        \
            return MPI_##name(__VA_ARGS__, MPI_COMM_WORLD);                   \
        case NONBLOCKING:                                                     \
            return MPI_I##function(__VA_ARGS__, MPI_COMM_WORLD, &x->request); \
        default:                                                              \
            return INIT(name, __VA_ARGS__);                                   \
        }                                                                     \
    }

#define BUFFERS x->send, FEW, MPI_INT, x->receive, FEW, MPI_INT
CALL(bcast, Bcast, x->receive, FEW, MPI_INT, x->first)
CALL(allgather, Allgather, BUFFERS)
CALL(alltoall, Alltoall, BUFFERS)
CALL(allreduce, Allreduce, x->send, x->receive, FEW, MPI_INT, sum)
CALL(scan, Scan, x->send, x->receive, FEW, MPI_INT, sum)
CALL(reduce, Reduce, x->send, x->receive, FEW, MPI_INT, sum, 0)
CALL(gather, Gather, BUFFERS, harness_size - 1)
CALL(scatter, Scatter, BUFFERS, x->first)

/* What a rank gets: element i, if any, of the collectives' receive buffers. */
static int of_bcast(const struct trial *x, int i)
{
    return value(x->first, i);
}

static int of_allgather(const struct trial *x, int i)
{
    (void) x;
    return value(i / FEW, i % FEW);
}

static int of_alltoall(const struct trial *x, int i)
{
    (void) x;
    return value(i / FEW, harness_rank * FEW + i % FEW);
}

static int of_scatter(const struct trial *x, int i)
{
    return value(x->first, harness_rank * FEW + i);
}

static int of_scan(const struct trial *x, int i)
{
    int all = 0;

    (void) x;
    for (int rank = 0; rank <= harness_rank; rank++) {
        all += value(rank, i);
    }
    return all;
}

static int of_sum(const struct trial *x, int i)
{
    int all = 0;

    (void) x;
    for (int rank = 0; rank < harness_size; rank++) {
        all += value(rank, i);
    }
    return all;
}

static const struct {
    const char *name;
    int (*call)(struct trial *x);
    int (*expected)(const struct trial *x, int i);
    int root; /* the only rank with a result, from the end if negative; ANY: all have one */
    bool many, from_root; /* blocks of all ranks; only the root gives data, the first that breaks */
} calls[] = {
#define ANY PEERS
    {"bcast", bcast, of_bcast, ANY, false, true},
    {"allgather", allgather, of_allgather, ANY, true, false},
    {"alltoall", alltoall, of_alltoall, ANY, true, false},
    {"allreduce", allreduce, of_sum, ANY, false, false},
    {"scan", scan, of_scan, ANY, false, false},
    {"reduce", reduce, of_sum, 0, false, false},
    {"gather", gather, of_allgather, -1, true, false},
    {"scatter", scatter, of_scatter, ANY, false, true},
};
#define CALLS ((int) (sizeof calls / sizeof *calls))

static bool has_result(int call)
{
    int root = calls[call].root;

    return root == ANY || harness_rank == (root + harness_size) % harness_size;
}

static bool is_right(int call, const struct trial *x)
{
    int count = calls[call].many ? FEW * harness_size : FEW;

    for (int i = 0; i < count && has_result(call); i++) {
        if (receive[i] != calls[call].expected(x, i)) {
            return false;
        }
    }
    return true;
}

/* The call to its end; Open MPI 4.1 frees a persistent request that completes with an error. */
static int complete(int call, struct trial *x)
{
    int status = calls[call].call(x);

    if (status == MPI_SUCCESS && x->form == PERSISTENT) {
        status = MPI_Start(&x->request);
    }
    if (status == MPI_SUCCESS && x->form != BLOCKING) {
        status = MPI_Wait(&x->request, MPI_STATUS_IGNORE);
    }
    if (x->request != MPI_REQUEST_NULL) {
        MPI_Request_free(&x->request);
    }
    return status;
}

static void fill(int call, const struct trial *x, bool gpu)
{
    for (int i = 0; i < ALL; i++) {
        send[i] = value(harness_rank, i);
        receive[i] = calls[call].call == bcast && harness_rank == x->first ? send[i] : -2;
    }
    if (gpu) {
        harness_write(gpu_send, send, sizeof send);
        harness_write(gpu_receive, receive, sizeof receive);
    }
}

/* What is told late is told in a call that nobody looks at. */
static void settle(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    (void) MPI_Allgather(gpu_send, 1, MPI_INT, gpu_receive, 1, MPI_INT, MPI_COMM_WORLD);
}

/* One call; false: success with wrong data here, or at a rank that broke. */
static bool is_told(int call, struct trial x, bool mixed)
{
    bool mine = breaks(&x, harness_rank), gpu = !mixed || mine;
    bool gives = !calls[call].from_root || harness_rank == x.first;
    int status;

    fill(call, &x, gpu);
    x.send = gpu ? gpu_send : send;
    x.receive = gpu ? gpu_receive : receive;
    if (mine) {
        arm("cuMemcpyAsync=1:700:sticky,cuMemcpy2DAsync_v2=1:700:sticky");
    }
    status = complete(call, &x);
    if (mine) {
        arm(NULL);
    }
    if (gpu) {
        harness_read(receive, gpu_receive, sizeof receive);
    }
    settle();
    if (mine) {
        return status != MPI_SUCCESS || !gives;
    }
    return status != MPI_SUCCESS || is_right(call, &x);
}

/* Every form and collective of a round; how many calls were as they must not be. */
static void rounds(int count)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};

    for (int form = 0; form < FORMS; form++) {
        for (int call = 0; call < CALLS; call++) {
            int bad = 0;

            for (int round = 0; round < count; round++) {
                bool mixed = form == BLOCKING && round % 3 == 2;
                struct trial x = {.form = (enum form) form,
                                  .first = round % harness_size,
                                  .failing = round % 5 == 4 ? harness_size - 1 : 1,
                                  .request = MPI_REQUEST_NULL};

                bad += !is_told(call, x, mixed);
            }
            if (bad > 0) {
                printf("# rank %d: %d of %d calls\n", harness_rank, bad, count);
            }
            harness_check(bad == 0, "%s %s, %d calls: none is a success with void data",
                          forms[form], calls[call].name, count);
        }
    }
}

int main(int argc, char **argv)
{
    double late = argc > 2 ? atof(argv[2]) : 0;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 3 && freopen(argv[3], "a", stderr) == NULL) {
        printf("Bail out! cannot write %s\n", argv[3]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    standin_find("gpuring_standin_arm", &arm);
    gpu_send = harness_alloc(sizeof send);
    gpu_receive = harness_alloc(sizeof receive);
    MPI_Op_create(add, 1, &sum);
    if (late > 0) {
        late_notices(late / 1000);
    }
    rounds(argc > 1 ? atoi(argv[1]) : 10);
    harness_check(late <= 0 || late_notices_sent() > 0, "notices came late");
    MPI_Op_free(&sum);
    harness_free(gpu_send);
    harness_free(gpu_receive);
    return harness_finish();
}
