/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Every collective in every form: types with and without gaps, counts from none to several windows
 * of the FIFOs, equal and very uneven blocks, all roots, in place or not. Each rank computes what
 * its buffers must hold afterwards, and compares all bytes of both, those beside and between the
 * data, too. What coll/gpuring serves must not be delegated, nor staged.
 *
 *   native [-f N] [-s SEED]    every N-th combination; which, and the data, by the seed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "native_expect.h"
#include "staged_places.h"

/* A combination. */
struct choice {
    int type, length, in_place, root, blocks;
};

enum { LENGTHS = 5 };

static struct native native;
static void *send_buffer, *receive_buffer; /* of the calls */
static char *seen;                         /* what one of them holds */
static size_t area;
static uint64_t random_state;

static bool complete_call(struct call *x, const struct collective *what)
{
    bool good = what->call(x) == MPI_SUCCESS;

    if (x->form == NONBLOCKING) {
        good = good && MPI_Wait(&x->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    } else if (x->form == PERSISTENT && good) {
        good = MPI_Start(&x->request) == MPI_SUCCESS &&
               MPI_Wait(&x->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    }
    return good;
}

static bool start_again(struct call *x)
{
    return MPI_Start(&x->request) == MPI_SUCCESS &&
           MPI_Wait(&x->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Equal to what was expected? Else a comment with the first byte that differs. */
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

/* The calls of all ranks, as this one can tell them; the own one has the buffers. */
static struct call prepare(const struct collective *what, const struct choice *choice,
                           enum form form)
{
    static const int lengths[LENGTHS] = {0, 1, 7, 1021, 70021};
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
    size_t bytes = native_types[choice->type].packed;
    int count = lengths[choice->length];

    if (choice->length == LENGTHS - 1) {
        count = count / (int) bytes + 1;
    }
    native_describe(&native, &native_types[choice->type], count, choice->root,
                    (enum native_blocks) choice->blocks, ops[harness_draw(&random_state) % 3]);
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
        harness_write(send_buffer, native.send[harness_rank], native.bytes);
        harness_write(receive_buffer, native.receive[harness_rank], native.bytes);
        good = (round == 0 ? complete_call(&x, what) : start_again(&x)) && good;
        harness_read(seen, receive_buffer, native.bytes);
        native_expect(&native, what, seen);
        good = same("receive", receive_buffer, native.expected) &&
               same("send", send_buffer, native.send[harness_rank]) && good;
    }
    if (form == PERSISTENT) {
        MPI_Request_free(&x.request);
    }
    return good;
}

/* A combination of everything by its number; false: there is no such. */
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
    choice->root = (int) number;
    return number < (unsigned) harness_size;
}

static bool sensible(const struct choice *choice, const struct collective *what)
{
    return (!choice->in_place || (what->flags & (IN_PLACE | SCATTERS)) != 0) &&
           (choice->root == 0 || (what->flags & ROOTED) != 0) &&
           ((what->flags & REDUCES) == 0 || native_reduces(&native_types[choice->type])) &&
           (choice->blocks == NATIVE_EQUAL || native_has_lengths(what));
}

/* Ranks may have some buffers of these in host memory: on a GPU blocking calls find out. */
static bool is_served(const struct collective *what, enum form form)
{
    bool mixed =
        ((what->flags & ROOTED) != 0 || strcmp(what->name, "alltoallv") == 0) && harness_on_gpu();

    return harness_have_component() && harness_size > 1 && (form == BLOCKING || !mixed);
}

static void check_form(const struct collective *what, enum form form, unsigned every)
{
    static const char *const forms[FORMS] = {"blocking", "non-blocking", "persistent"};
    static unsigned running; /* over all collectives, so that each gets others */
    long long fallbacks = harness_pvar("coll_gpuring_fallbacks"),
              staged = harness_pvar("coll_gpuring_staged"),
              calls = harness_pvar("coll_gpuring_calls");
    int combinations = 0, empty = 0; /* empty: of no elements, which may be delegated */
    struct choice choice;
    bool good = true;

    for (unsigned number = 0; choose(&choice, number); number++) {
        if (!sensible(&choice, what) || running++ % every != 0) {
            continue;
        }
        combinations++;
        empty += choice.length == 0;
        if (!run(what, &choice, form)) {
            printf("# rank %d: %s %s, %s, length %d, in place %d, root %d, blocks %d\n",
                   harness_rank, forms[form], what->name, native_types[choice.type].name,
                   choice.length, choice.in_place, choice.root, choice.blocks);
            good = false;
        }
    }
    harness_check(good, "%s %s: %d combinations", forms[form], what->name, combinations);
    fallbacks = harness_pvar("coll_gpuring_fallbacks") - fallbacks;
    staged = harness_pvar("coll_gpuring_staged") - staged;
    calls = harness_pvar("coll_gpuring_calls") - calls;
    if (is_served(what, form)) {
        harness_check(fallbacks <= empty && staged <= empty && (calls > 0 || combinations == empty),
                      "%s %s: %lld calls served, %lld delegated, %lld staged", forms[form],
                      what->name, calls, fallbacks, staged);
    }
}

/* The ranks connect by the first blocking call without a root: what comes before it may be
 * delegated. */
static void connect_ranks(void)
{
    const struct collective *what = collectives;
    const struct choice first = {.length = 1};

    while ((what->flags & ROOTED) != 0) {
        what++;
    }
    harness_check(run(what, &first, BLOCKING), "a first call");
}

int main(int argc, char **argv)
{
    unsigned every = 1;
    uint64_t seed = 1;

    for (int i = 1; i + 1 < argc; i++) {
        every = strcmp(argv[i], "-f") == 0 ? (unsigned) atoi(argv[i + 1]) : every;
        seed = strcmp(argv[i], "-s") == 0 ? strtoull(argv[i + 1], NULL, 10) : seed;
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    random_state = seed;
    area = native_open(&native);
    send_buffer = harness_alloc(area);
    receive_buffer = harness_alloc(area);
    seen = malloc(area);
    connect_ranks();
    for (const struct collective *what = collectives; what->name != NULL; what++) {
        for (int form = BLOCKING; form < FORMS && native_knows(what); form++) {
            check_form(what, (enum form) form, every);
        }
    }
    harness_free(send_buffer);
    harness_free(receive_buffer);
    free(seen);
    native_close(&native);
    return harness_finish();
}
