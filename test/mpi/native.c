/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test every collective in every form: types with and without gaps, counts from 0 to several
 * windows of the FIFOs, equal and very uneven blocks, all roots, in place and out of place. Each
 * rank computes the expected content of its buffers and compares all bytes of both, including bytes
 * around and between the data. Calls that coll/gpuring can serve must not be delegated or staged.
 *
 *   native [-f N] [-l BYTES] [-s SEED] [-m N]
 *     -f   every N-th combination; the seed selects the first one
 *     -l   size of the longest block (default 70021), for tests with many ranks; at least three
 *          combinations of each collective and form
 *     -s   seed, also for the data
 *     -m   then make N groups of concurrent calls, with buffers in host memory on some ranks if MPI
 *          programs may do that
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "native_expect.h"
#include "staged_places.h"

/* A combination. */
struct choice {
    int type, length, in_place, root, blocks;
};

enum { LENGTHS = 5 };
static int lengths[LENGTHS] = {0, 1, 7, 1021}; /* elements; the longest depends on the type */
static int longest = 70021;                    /* bytes */
#define BLOCK ((size_t) longest * 3 / 2 + 600) /* bytes of a block with gaps */

static struct native native;
static void *send_buffer, *receive_buffer; /* of the calls */
static char *seen;                         /* capacity of one of them */
static size_t area;
static uint64_t random_state;
static bool few; /* -l */

/* Return true if a buffer is as expected. Otherwise print a comment with the first byte that
 * differs. */
static bool same(const char *which, const void *buffer, const char *expected)
{
    size_t at = 0;

    harness_read(seen, buffer, native.bytes);
    if (memcmp(seen, expected, native.bytes) == 0) {
        return true;
    }
    while (seen[at] == expected[at]) {
        at++;
    }
    printf("# rank %d: byte %ld of %zu of the %s buffer is 0x%02x, not 0x%02x\n", harness_rank,
           (long) at - NATIVE_ORIGIN, native.bytes - (size_t) 2 * NATIVE_ORIGIN, which,
           (unsigned char) seen[at], (unsigned char) expected[at]);
    return false;
}

/* Describe the calls of all ranks. Only the call of this rank has buffers. */
static struct call prepare(const struct collective *what, const struct choice *choice,
                           enum form form)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    size_t bytes = native_types[choice->type].packed;
    MPI_Op op = ops[harness_draw(&random_state) % 3];
    int count = lengths[choice->length];

    op = count == 1 ? MPI_SUM : op; /* MPI_MAX of one int may be Open MPI's own call */
    if (choice->length == LENGTHS - 1) {
        count = longest / (int) bytes + 1;
    }
    native_describe(&native, &native_types[choice->type], count, choice->root,
                    (enum native_blocks) choice->blocks, op);
    for (int r = 0; r < harness_size; r++) {
        struct call *x = &native.calls[r];

        x->form = form;
        x->comm = MPI_COMM_WORLD;
        place_buffers(what, x, choice->in_place, (char *) send_buffer + NATIVE_ORIGIN,
                      (char *) receive_buffer + NATIVE_ORIGIN);
    }
    return native.calls[harness_rank];
}

static bool run(const struct collective *what, const struct choice *choice, enum form form)
{
    struct call x = prepare(what, choice, form);
    bool good = true;

    if (native.bytes > area) {
        printf("Bail out! a call needs %zu bytes\n", native.bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int round = 0; round < (form == PERSISTENT ? 2 : 1); round++) {
        native_fill(&native, harness_draw(&random_state));
        harness_write(send_buffer, native.send, native.bytes);
        harness_write(receive_buffer, native.receive, native.bytes);
        good = (round == 0 ? complete_call(&x, what) : start_again(&x)) && good;
        harness_read(seen, receive_buffer, native.bytes);
        native_expect(&native, what, seen);
        good = same("receive", receive_buffer, native.expected) &&
               same("send", send_buffer, native.send) && good;
    }
    if (form == PERSISTENT) {
        MPI_Request_free(&x.request);
    }
    return good;
}

/* Choose a combination by its number. Return false if it does not exist. */
static bool choose(struct choice *choice, unsigned number)
{
    choice->length = (int) (number % LENGTHS);
    number /= LENGTHS;
    choice->type = (int) (number % NATIVE_TYPES);
    number /= NATIVE_TYPES;
    choice->blocks = (int) (number % NATIVE_BLOCKS);
    number /= NATIVE_BLOCKS;
    choice->in_place = (int) (number % 2);
    number /= 2;
    /* With many ranks, only the first, the middle and the last one are roots. */
    choice->root = harness_size > 8 ? (int) number * (harness_size - 1) / 2 : (int) number;
    return number < (harness_size > 8 ? 3 : (unsigned) harness_size);
}

static bool sensible(const struct choice *choice, const struct collective *what)
{
    return (!choice->in_place || (what->flags & (IN_PLACE | SCATTERS)) != 0) &&
           (choice->root == 0 || (what->flags & ROOTED) != 0) &&
           ((what->flags & REDUCES) == 0 || native_reduces(&native_types[choice->type])) &&
           (choice->blocks == NATIVE_EQUAL || native_has_lengths(what));
}

/* Return true for a broadcast of an int, which could be an internal call of Open MPI. */
static bool may_be_open_mpis(const struct collective *what, const struct choice *choice,
                             enum form form)
{
    return form == NONBLOCKING && strcmp(what->name, "bcast") == 0 && choice->length == 1 &&
           native_types[choice->type].packed == sizeof(int);
}

/* Return true for persistent calls with a root on host memory, where the previous component lets
 * ranks run ahead, and for broadcasts and reductions that pass many ranks. Large reductions, and
 * all calls if an algorithm is selected, are served. */
static bool may_be_left(const struct collective *what, enum form form)
{
    bool one_block = (what->flags & ONE_BLOCK) != 0;

    return (what->flags & ROOTED) != 0 &&
           (one_block && harness_size > 8 ? true : form == PERSISTENT && !harness_on_gpu());
}

static bool is_served(void)
{
    return harness_have_component() && harness_size > 1;
}

/* Return the distance of the combinations of a collective that are tested. With -l, few of them
 * exist, and at least three are tested. */
static unsigned distance(const struct collective *what, unsigned every)
{
    struct choice choice;
    unsigned all = 0;

    for (unsigned number = 0; choose(&choice, number); number++) {
        all += sensible(&choice, what);
    }
    return few && every > all / 3 ? all / 3 : every;
}

static void check_form(const struct collective *what, enum form form, unsigned every)
{
    static unsigned running; /* counts over all collectives, so that each gets different ones */
    long long fallbacks = harness_pvar("coll_gpuring_fallbacks"),
              staged = harness_pvar("coll_gpuring_staged"),
              calls = harness_pvar("coll_gpuring_calls");
    int combinations = 0, empty = 0; /* empty: without elements, or delegated for another reason */
    struct choice choice;
    bool good = true;

    every = distance(what, every);
    for (unsigned number = 0; choose(&choice, number); number++) {
        if (!sensible(&choice, what) || running++ % every != 0) {
            continue;
        }
        combinations++;
        empty +=
            choice.length == 0 || may_be_open_mpis(what, &choice, form) || may_be_left(what, form);
        if (!run(what, &choice, form)) {
            printf("# rank %d: %s %s, %s, length %d, in place %d, root %d, blocks %d\n",
                   harness_rank, harness_forms[form], what->name, native_types[choice.type].name,
                   choice.length, choice.in_place, choice.root, choice.blocks);
            good = false;
        }
    }
    harness_check(good, "%s %s: %d combinations", harness_forms[form], what->name, combinations);
    fallbacks = harness_pvar("coll_gpuring_fallbacks") - fallbacks;
    staged = harness_pvar("coll_gpuring_staged") - staged;
    calls = harness_pvar("coll_gpuring_calls") - calls;
    if (is_served()) {
        harness_check(fallbacks <= empty && staged <= empty && (calls > 0 || combinations == empty),
                      "%s %s: %lld calls served, %lld delegated, %lld staged", harness_forms[form],
                      what->name, calls, fallbacks, staged);
    }
}

/* The ranks connect at the first blocking call
 * without a root. Earlier calls may be delegated. */
static void connect_ranks(void)
{
    const struct collective *what = collectives;
    const struct choice first = {.length = 1};

    while ((what->flags & ROOTED) != 0) {
        what++;
    }
    harness_check(run(what, &first, BLOCKING), "a first call");
}

/* ---- Several calls at the same time ---- */

enum { GROUP = 6 };
static MPI_Comm group_comm = MPI_COMM_NULL; /* not connected before the first group */

/* One call of a group. */
static struct job {
    struct native native;
    const struct collective *what;
    struct call call;
    bool on_host; /* this rank's buffers */
    void *send, *receive, *gpu[2], *host[2];
} jobs[GROUP];

static void job_open(struct job *job)
{
    size_t bytes = native_open(&job->native, BLOCK);

    for (int i = 0; i < 2; i++) {
        job->gpu[i] = harness_alloc(bytes);
        job->host[i] = malloc(bytes);
    }
}

static void job_close(struct job *job)
{
    native_close(&job->native);
    for (int i = 0; i < 2; i++) {
        harness_free(job->gpu[i]);
        free(job->host[i]);
    }
}

static void job_copy(const struct job *job, void *to, const void *from, bool read)
{
    if (job->on_host) {
        memcpy(to, from, job->native.bytes);
    } else if (read) {
        harness_read(to, from, job->native.bytes);
    } else {
        harness_write(to, from, job->native.bytes);
    }
}

/* Draw a call that is equal on all ranks, except for the location of its buffers. */
static void job_draw(struct job *job, bool blocking)
{
    static const int group_lengths[] = {1, 300, 4000};
    uint64_t hosts;
    int root, type, blocks, in_place, length;
    MPI_Op op = harness_draw(&random_state) % 2 ? MPI_SUM : MPI_MAX;

    do {
        job->what = &collectives[harness_draw(&random_state) % 16];
    } while (!native_knows(job->what));
    root = (int) (harness_draw(&random_state) % (uint64_t) harness_size);
    type = (int) (harness_draw(&random_state) %
                  ((job->what->flags & REDUCES) != 0 ? 2 : NATIVE_TYPES));
    length = group_lengths[harness_draw(&random_state) % 3];
    blocks = native_has_lengths(job->what) ? (int) (harness_draw(&random_state) % NATIVE_BLOCKS)
                                           : NATIVE_EQUAL;
    in_place =
        (job->what->flags & (IN_PLACE | SCATTERS)) != 0 && harness_draw(&random_state) % 3 == 0;
    /* No rank, all ranks, or some. */
    hosts = harness_draw(&random_state) % 3;
    hosts = hosts == 0 ? 0 : hosts == 1 ? UINT64_MAX : harness_draw(&random_state);
    job->on_host = harness_on_gpu() && (hosts >> harness_rank & 1) != 0;
    if ((job->what->flags & SYMMETRIC) != 0) {
        job->on_host = harness_on_gpu() && hosts == UINT64_MAX;
    }
    job->send = job->on_host ? job->host[0] : job->gpu[0];
    job->receive = job->on_host ? job->host[1] : job->gpu[1];
    native_describe(&job->native, &native_types[type], length, root, (enum native_blocks) blocks,
                    op);
    for (int r = 0; r < harness_size; r++) {
        struct call *x = &job->native.calls[r];

        x->form = blocking ? BLOCKING : NONBLOCKING;
        x->comm = group_comm;
        place_buffers(job->what, x, in_place, (char *) job->send + NATIVE_ORIGIN,
                      (char *) job->receive + NATIVE_ORIGIN);
    }
    native_fill(&job->native, harness_draw(&random_state));
    job->call = job->native.calls[harness_rank];
    job_copy(job, job->send, job->native.send, false);
    job_copy(job, job->receive, job->native.receive, false);
}

static bool job_check(struct job *job)
{
    bool good;

    job_copy(job, seen, job->receive, true);
    native_expect(&job->native, job->what, seen);
    good = memcmp(seen, job->native.expected, job->native.bytes) == 0;
    if (!good) {
        printf("# rank %d: %s, %s, %s memory is wrong\n", harness_rank, job->what->name,
               job->native.type->name, job->on_host ? "host" : "device");
    }
    return good;
}

/* Make other calls in between, which do not use buffers of the harness. */
static void draw_other(MPI_Request *request)
{
    switch (harness_draw(&random_state) % 6) {
    case 0:
        MPI_Ibarrier(group_comm, request);
        break;
    case 1: {
        MPI_Comm copy; /* Open MPI itself makes collective calls */

        MPI_Comm_dup(group_comm, &copy);
        MPI_Comm_free(&copy);
        break;
    }
    case 2:
        MPI_Barrier(group_comm);
        break;
    default:
        break;
    }
}

/* Run a group of calls. `started` is a persistent call, which each rank starts at a different
 * place. */
static bool run_group(MPI_Request *started)
{
    MPI_Request requests[2 * GROUP];
    uint64_t begin = (harness_draw(&random_state) + 5 * (uint64_t) harness_rank) % GROUP;
    bool good = true;
    int n = 0;

    for (int i = 0; i < GROUP; i++) {
        struct job *job = &jobs[i];

        if (*started != MPI_REQUEST_NULL && begin == (uint64_t) i) {
            good = MPI_Start(started) == MPI_SUCCESS && good;
        }
        requests[n] = requests[n + 1] = MPI_REQUEST_NULL;
        job_draw(job, harness_draw(&random_state) % 5 == 0);
        if (harness_draw(&random_state) % 4 == (uint64_t) harness_rank) {
            usleep(300); /* a late rank */
        }
        good = job->what->call(&job->call) == MPI_SUCCESS && good;
        if (job->call.form == NONBLOCKING) {
            requests[n] = job->call.request;
        }
        draw_other(&requests[n + 1]);
        n += 2;
    }
    good = MPI_Wait(started, MPI_STATUS_IGNORE) == MPI_SUCCESS && good;
    good = MPI_Waitall(n, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && good;
    for (int i = 0; i < GROUP; i++) {
        good = job_check(&jobs[i]) && good;
    }
    return good;
}

static void renew(MPI_Request *started)
{
    if (*started != MPI_REQUEST_NULL) {
        MPI_Request_free(started);
    }
    if (group_comm != MPI_COMM_NULL) {
        MPI_Comm_free(&group_comm);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &group_comm);
}

static void check_groups(int groups)
{
    MPI_Request started = MPI_REQUEST_NULL;
    bool good = true;

    for (int i = 0; i < GROUP; i++) {
        job_open(&jobs[i]);
    }
    for (int i = 0; i < groups; i++) {
        if (i % 5 == 0) {
            renew(&started);
        } else if (i % 5 == 2 && i % 10 > 5) {
            HARNESS_INIT(Allreduce)
            (MPI_IN_PLACE, send_buffer, 1000, MPI_INT, MPI_MAX, group_comm, MPI_INFO_NULL,
             &started);
        }
        if (!run_group(&started)) {
            printf("# rank %d: group %d\n", harness_rank, i);
            good = false;
        }
    }
    renew(&started);
    MPI_Comm_free(&group_comm);
    harness_check(good, "%d groups of calls under way at the same time", groups);
    for (int i = 0; i < GROUP; i++) {
        job_close(&jobs[i]);
    }
}

int main(int argc, char **argv)
{
    unsigned every = 1;
    uint64_t seed = 1;
    int groups = 0;

    for (int i = 1; i + 1 < argc; i++) {
        every = strcmp(argv[i], "-f") == 0 ? (unsigned) atoi(argv[i + 1]) : every;
        seed = strcmp(argv[i], "-s") == 0 ? strtoull(argv[i + 1], NULL, 10) : seed;
        groups = strcmp(argv[i], "-m") == 0 ? atoi(argv[i + 1]) : groups;
        few = strcmp(argv[i], "-l") == 0 || few;
        longest = strcmp(argv[i], "-l") == 0 ? atoi(argv[i + 1]) : longest;
    }
    lengths[3] = longest / 20 < lengths[3] ? longest / 20 : lengths[3];
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    random_state = seed;
    area = native_open(&native, BLOCK);
    send_buffer = harness_alloc(area);
    receive_buffer = harness_alloc(area);
    seen = malloc(area);
    connect_ranks();
    for (const struct collective *what = collectives; what->name != NULL; what++) {
        for (int form = BLOCKING; form < FORMS && native_knows(what); form++) {
            check_form(what, (enum form) form, every);
        }
    }
    if (groups > 0) {
        check_groups(groups);
    }
    harness_free(send_buffer);
    harness_free(receive_buffer);
    free(seen);
    native_close(&native);
    native_free_types();
    return harness_finish();
}
