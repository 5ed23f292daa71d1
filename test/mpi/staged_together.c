/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * staged_together RANK [LOG [SECONDS]]: staged calls with coll_gpuring_agree=always while this
 * rank's GPU breaks, before or after the call's messages: every rank of the communicator returns an
 * error, and the next call is right. Or, with SECONDS, a call to which this rank comes so late.
 * Needs the stand-in driver.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi-ext.h>

#include "staged_places.h"
#include "standin_find.h"

#define AREA ((size_t) 4096) /* ints of a buffer */
#define FEW  100             /* of a call of which several are under way */

/* Which buffers are on the GPU. */
enum kinds { EVERYWHERE, AT_CULPRIT, NOT_AT_CULPRIT, KINDS };
static const char *const kinds_text[KINDS] = {"GPU buffers everywhere", "at the broken rank alone",
                                              "at the others"};

static void (*arm)(const char *list);
static long (*calls)(const char *symbol);

static int culprit; /* the rank */
static int *gpu_send, *gpu_receive, *send, *receive, *expected;

static void keep_first(int *status, int next)
{
    *status = *status == MPI_SUCCESS ? next : *status;
}

/* The context breaks at the n-th copy of this rank from now on, of bytes or of rows. */
static void break_at(int n)
{
    char faults[96];

    snprintf(faults, sizeof faults, "cuMemcpyAsync=%d:700:sticky,cuMemcpy2DAsync_v2=%d:700:sticky",
             n, n);
    arm(faults);
}

/* All is well again; did it break? */
static bool repair(int n)
{
    bool broke = calls("cuMemcpyAsync") >= n || calls("cuMemcpy2DAsync_v2") >= n;

    arm(NULL);
    return broke;
}

static int finish(MPI_Request *request)
{
    return MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* The call to its end; Open MPI 4.1 frees a persistent request that completes with an error. */
static int complete(struct call *x, const struct collective *what)
{
    int status = what->call(x);

    if (status == MPI_SUCCESS && x->form == PERSISTENT) {
        status = MPI_Start(&x->request);
    }
    if (status == MPI_SUCCESS && x->form != BLOCKING) {
        status = finish(&x->request);
    }
    if (x->form == PERSISTENT && x->request != MPI_REQUEST_NULL) {
        keep_first(&status, MPI_Request_free(&x->request));
    }
    return status;
}

static void fill(unsigned seed)
{
    for (size_t i = 0; i < AREA; i++) {
        send[i] = (int) ((i * 2654435761u + seed * 40503u) >> 12);
        receive[i] = expected[i] = (int) (i + seed);
    }
    harness_write(gpu_send, send, AREA * sizeof *send);
    harness_write(gpu_receive, receive, AREA * sizeof *receive);
}

static bool on_gpu(enum kinds kinds)
{
    return kinds == EVERYWHERE || (kinds == AT_CULPRIT) == (harness_rank == culprit);
}

/* One call while the GPU breaks at the n-th copy; 0: it does not. True: all ranks end alike, with
 * an error if it broke, else with the right result. *broke: did it? */
static bool trial(const struct collective *what, struct call x, enum kinds kinds, int n,
                  bool *broke)
{
    static unsigned seed;
    struct call reference = x;
    bool gpu = on_gpu(kinds), good;
    int status;

    x.request = reference.request = MPI_REQUEST_NULL;
    fill(++seed * 100 + (unsigned) harness_rank);
    reference.send = send;
    reference.receive = expected;
    x.send = gpu ? gpu_send : send;
    x.receive = gpu ? gpu_receive : receive;
    good = complete(&reference, what) == MPI_SUCCESS;
    if (n > 0 && harness_rank == culprit) {
        break_at(n);
    }
    status = complete(&x, what);
    *broke = place_told(harness_rank == culprit && n > 0 && repair(n), culprit) != 0;
    if (gpu) {
        harness_read(receive, gpu_receive, AREA * sizeof *receive);
    }
    good = good && (*broke ? status != MPI_SUCCESS
                           : status == MPI_SUCCESS &&
                                 memcmp(receive, expected, AREA * sizeof *receive) == 0);
    if (!good) {
        printf("# rank %d: %s, form %d, %s, copy %d, broke %d: status %d\n", harness_rank,
               what->name, (int) x.form, kinds_text[kinds], n, *broke, status);
    }
    return good;
}

/* At every copy in turn, and well again after each. */
static bool every_copy(const struct place *place, const struct collective *what, enum form form,
                       enum kinds kinds, int *broken)
{
    struct call x = place_call(place, form, MPI_INT, MPI_INT, false);
    bool good = true, broke = true, never;

    x.op = MPI_SUM;
    for (int n = 1; broke && n < 40; n++) {
        good = trial(what, x, kinds, n, &broke) && good;
        good = trial(what, x, kinds, 0, &never) && good;
        *broken += broke;
    }
    return good && !broke;
}

/* Those that the component serves itself have agreements of their own. */
static bool is_staged(const struct place *place, const struct collective *what)
{
    return strcmp(what->name, "allreduce") != 0 || place->inter;
}

static void check_form(const struct place *place, enum form form)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};

    for (int kinds = 0; kinds < KINDS; kinds++) {
        bool good = true, breaks = kinds != NOT_AT_CULPRIT;
        int broken = 0, collective_count = 0;

        for (const struct collective *what = collectives; what->name != NULL; what++) {
            if (place_has(place, what) && is_staged(place, what)) {
                collective_count++;
                good = every_copy(place, what, form, (enum kinds) kinds, &broken) && good;
            }
        }
        harness_check(good && (broken > 0) == breaks,
                      "%s calls of %d collectives %s, %s: %d times broken, an error at all ranks",
                      forms[form], collective_count, place->name, kinds_text[kinds], broken);
    }
}

static void check_places(void)
{
    struct place places[PLACES];

    places_open(places);
    for (int i = 0; i < PLACES; i++) {
        for (int form = 0; form < FORMS && places[i].comm != MPI_COMM_NULL; form++) {
            check_form(&places[i], (enum form) form);
        }
    }
    places_close(places);
}

#define CALLS 4

/* A scan, of call number k among several under way. */
static int scan(int k, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Iscan(gpu_send + k * FEW, gpu_receive + k * FEW, FEW, MPI_INT, MPI_SUM, comm,
                     request);
}

static int scan_init(int k, MPI_Comm comm, MPI_Request *request)
{
#if MPI_VERSION >= 4
    return MPI_Scan_init(gpu_send + k * FEW, gpu_receive + k * FEW, FEW, MPI_INT, MPI_SUM, comm,
                         MPI_INFO_NULL, request);
#else
    return MPIX_Scan_init(gpu_send + k * FEW, gpu_receive + k * FEW, FEW, MPI_INT, MPI_SUM, comm,
                          MPI_INFO_NULL, request);
#endif
}

/* Begin one call, with a broken GPU if it is number `bad`. */
static int begin(int (*start)(int k, MPI_Comm comm, MPI_Request *request), int k, int bad,
                 MPI_Comm comm, MPI_Request *request)
{
    int status;

    if (k == bad && harness_rank == culprit) {
        break_at(1);
    }
    status = start(k, comm, request);
    if (k == bad && harness_rank == culprit) {
        (void) repair(1);
    }
    return status;
}

/* Each rank waits in an order of its own. */
static void finish_all(int *status, MPI_Request *requests)
{
    for (int i = 0; i < CALLS; i++) {
        int k = (i + harness_rank * 3) % CALLS;

        keep_first(&status[k], finish(&requests[k]));
    }
}

static bool one_is_bad(const int *status, int bad)
{
    bool good = true;

    for (int k = 0; k < CALLS; k++) {
        good = good && (status[k] == MPI_SUCCESS) == (k != bad);
    }
    return good;
}

/* Several calls of one communicator under way: an error of the broken one alone. */
static void several(void)
{
    for (int bad = -1; bad < CALLS; bad++) {
        MPI_Request requests[CALLS];
        int status[CALLS];

        for (int k = 0; k < CALLS; k++) {
            status[k] = begin(scan, k, bad, MPI_COMM_WORLD, &requests[k]);
        }
        finish_all(status, requests);
        harness_check(one_is_bad(status, bad), "%d calls under way, broken: number %d", CALLS, bad);
    }
}

static int start_scan(int k, MPI_Comm comm, MPI_Request *request)
{
    (void) k;
    (void) comm;
    return MPI_Start(request);
}

/* Persistent ones, started in another order on each rank. */
static void several_persistent(void)
{
    for (int bad = -1; bad < CALLS; bad++) {
        MPI_Request requests[CALLS];
        int status[CALLS];

        for (int k = 0; k < CALLS; k++) {
            status[k] = scan_init(k, MPI_COMM_WORLD, &requests[k]);
        }
        for (int i = 0; i < CALLS; i++) {
            int k = (i + harness_rank) % CALLS;

            keep_first(&status[k], begin(start_scan, k, bad, MPI_COMM_WORLD, &requests[k]));
        }
        finish_all(status, requests);
        for (int k = 0; k < CALLS; k++) {
            if (requests[k] != MPI_REQUEST_NULL) {
                MPI_Request_free(&requests[k]);
            }
        }
        harness_check(one_is_bad(status, bad),
                      "%d persistent calls started in different order, broken: number %d", CALLS,
                      bad);
    }
}

/* Two communicators in different order. */
static void two_communicators(void)
{
    MPI_Request requests[2];
    int status[2];
    MPI_Comm comm[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    for (int i = 0; i < 2; i++) {
        int k = harness_rank % 2 ? 1 - i : i;

        status[k] = begin(scan, k, 1, comm[k], &requests[k]);
    }
    keep_first(&status[0], finish(&requests[0]));
    keep_first(&status[1], finish(&requests[1]));
    harness_check(status[0] == MPI_SUCCESS && status[1] != MPI_SUCCESS,
                  "calls on two communicators in different order, one broken");
    MPI_Comm_free(&comm[0]);
    MPI_Comm_free(&comm[1]);
}

/* The others wait in MPI_Wait for its outcome. */
static void come_late(unsigned seconds)
{
    MPI_Request request;
    int status;

    harness_check(true, "the ranks are connected");
    if (harness_rank == culprit) {
        sleep(seconds);
    }
    status = MPI_Iscan(gpu_send, gpu_receive, FEW, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    keep_first(&status, finish(&request));
    harness_check(status == MPI_SUCCESS, "a rank comes %u seconds late", seconds);
}

int main(int argc, char **argv)
{
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    culprit = argc > 1 ? atoi(argv[1]) % harness_size : 0;
    if (argc > 2 && freopen(argv[2], "a", stderr) == NULL) {
        printf("Bail out! cannot write %s\n", argv[2]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    standin_find("gpuring_standin_arm", &arm);
    standin_find("gpuring_standin_calls", &calls);
    gpu_send = harness_alloc(AREA * sizeof *gpu_send);
    gpu_receive = harness_alloc(AREA * sizeof *gpu_receive);
    send = malloc(3 * AREA * sizeof *send);
    if (send == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    receive = send + AREA;
    expected = receive + AREA;
    fill(1);
    if (argc > 3) {
        come_late((unsigned) atoi(argv[3]));
    } else {
        check_places();
        several();
        several_persistent();
        two_communicators();
    }
    harness_free(gpu_send);
    harness_free(gpu_receive);
    free(send);
    return harness_finish();
}
