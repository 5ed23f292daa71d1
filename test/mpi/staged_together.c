/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * staged_together RANK [LOG [SECONDS]]: staged calls while this rank's GPU breaks, before or after
 * the call's messages. With coll_gpuring_agree=always every rank of the communicator returns an
 * error; else that rank does, and each other one does so once, in this call or, if its result is
 * right, in its next staged one. Then calls are right again. Or, with SECONDS, a call to which this
 * rank comes so late. Needs the stand-in driver.
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

static int culprit;   /* the rank */
static bool together; /* coll_gpuring_agree=always */
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

/* A staged call of all ranks, nothing being broken. */
static int another(MPI_Comm comm)
{
    return MPI_Allgather(gpu_send, 1, MPI_INT, gpu_receive, 1, MPI_INT, comm);
}

/* Who agrees on a call; NONE: a notice tells of the failure. */
enum parties { ALL, OTHERS, NONE };

static enum parties usual(void)
{
    return together ? ALL : NONE;
}

/* A call that broke has ended with this status here. Its notice was sent before the culprit told
 * others of it (place_told), on the same communicator, so the next staged call finds it. */
static bool good_status(int status, MPI_Comm comm, enum parties parties)
{
    int next = another(comm);

    if (parties == OTHERS) {
        return status == MPI_SUCCESS && next == MPI_SUCCESS;
    }
    if (parties == ALL) {
        return status != MPI_SUCCESS && next == MPI_SUCCESS;
    }
    return harness_rank == culprit ? status != MPI_SUCCESS && next == MPI_SUCCESS
                                   : (status != MPI_SUCCESS) != (next != MPI_SUCCESS);
}

/* Open MPI need not hand on blocking calls of ranks with nothing to do in them: bystanders, and
 * parts of a graph. */
static enum parties parties_of(const struct collective *what, const struct call *x)
{
    if (!together || x->form != BLOCKING) {
        return usual();
    }
    if (place_is_of_graph(what, x)) {
        return NONE;
    }
    return x->bystander && (what->flags & ROOTED) != 0 ? OTHERS : ALL;
}

/* One call while the GPU breaks at the n-th copy; 0: it does not. True: all ranks end as they
 * should, with the right result if it did not break. *broke: did it? */
static bool trial(const struct collective *what, struct call x, enum kinds kinds, int n,
                  bool *broke)
{
    static unsigned seed;
    struct call reference = x;
    bool gpu = on_gpu(kinds), good, right;
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
    right = memcmp(receive, expected, AREA * sizeof *receive) == 0;
    /* No success with void data, but of a request that is the previous module's own. */
    good = good && (status != MPI_SUCCESS || right || (!gpu && x.form != BLOCKING && *broke));
    good = (*broke ? good_status(status, x.comm, parties_of(what, &x)) : status == MPI_SUCCESS) &&
           good;
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
                      "%s calls of %d collectives %s, %s: %d times broken, all ranks get to know",
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

/* Number `bad` failed; -1: none did. Without an agreement another rank has its error in any call
 * that it has completed since, or in the next one. */
static bool one_is_bad(const int *status, int bad, MPI_Comm comm)
{
    bool good = true, exact = together || harness_rank == culprit || bad < 0;
    int errors = 0;

    (void) place_told(0, culprit);
    for (int k = 0; k < CALLS; k++) {
        errors += status[k] != MPI_SUCCESS;
        good = good && (!exact || (status[k] == MPI_SUCCESS) == (k != bad));
    }
    errors += another(comm) != MPI_SUCCESS;
    return another(comm) == MPI_SUCCESS && good && errors == (bad >= 0);
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
        harness_check(one_is_bad(status, bad, MPI_COMM_WORLD),
                      "%d calls under way, broken: number %d", CALLS, bad);
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
        harness_check(one_is_bad(status, bad, MPI_COMM_WORLD),
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
    bool good;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    for (int i = 0; i < 2; i++) {
        int k = harness_rank % 2 ? 1 - i : i;

        status[k] = begin(scan, k, 1, comm[k], &requests[k]);
    }
    keep_first(&status[0], finish(&requests[0]));
    keep_first(&status[1], finish(&requests[1]));
    (void) place_told(0, culprit);
    good = good_status(status[1], comm[1], usual());
    good = another(comm[0]) == MPI_SUCCESS && good;
    harness_check(good && status[0] == MPI_SUCCESS,
                  "calls on two communicators in different order, one broken");
    MPI_Comm_free(&comm[0]);
    MPI_Comm_free(&comm[1]);
}

/* A communicator that ends with a call that breaks, and another one of the same ranks, to which
 * Open MPI gives the same number: what may still arrive of the first is not for the second. */
static void freed(void)
{
    bool good = true;

    for (int i = 0; i < 10; i++) {
        MPI_Comm comm[2];
        int status;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
        if (harness_rank == culprit) {
            break_at(1);
        }
        status = MPI_Bcast(gpu_send, FEW, MPI_INT, (culprit + 1) % harness_size, comm[0]);
        if (harness_rank == culprit) {
            good = repair(1) && status != MPI_SUCCESS && good;
        }
        MPI_Comm_free(&comm[0]);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
        (void) place_told(0, culprit);
        good = another(comm[1]) == MPI_SUCCESS && good;
        MPI_Comm_free(&comm[1]);
    }
    harness_check(good, "a communicator of the same number after one that was freed at an error");
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
    const char *agree = getenv("OMPI_MCA_coll_gpuring_agree");

    together = agree != NULL && strcmp(agree, "always") == 0;
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
        freed();
    }
    harness_free(gpu_send);
    harness_free(gpu_receive);
    free(send);
    return harness_finish();
}
