/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test every collective on device memory in every form, with types with gaps and explicit bounds.
 * Each call is compared with the same call on host memory. All bytes of both buffers must be equal
 * afterwards, including gaps. With the stand-in driver, an access of the host to device memory is a
 * fault.
 *
 *   staged [-f N]    every N-th combination
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "staged_data.h"
#include "staged_places.h"

#define AREA   ((size_t) 32 << 10) /* bytes of a buffer */
#define ORIGIN ((size_t) 8196)     /* offset of the calls' buffers in it */

/* The buffers that are on the GPU. */
enum kinds { BOTH_ON_GPU, SEND_ON_GPU, RECEIVE_ON_GPU, EVEN_RANKS, KINDS };

static long long staged_calls;

static void *at(char *buffer)
{
    return buffer + ORIGIN;
}

/* A buffer of the call under test: on the GPU, or host memory that takes its place. */
struct buffer {
    char *memory;
    bool on_gpu;
};

static void fill(const struct buffer *buffer, char *reference, unsigned seed)
{
    data_fill(buffer->memory, buffer->on_gpu, reference, AREA, seed);
}

/* Return true if the first bytes are equal to the reference. Stock components may change the
 * others. */
static bool same(const struct buffer *buffer, const char *reference, size_t bytes)
{
    return data_same(buffer->memory, buffer->on_gpu, reference, bytes);
}

static bool on_gpu(enum kinds kinds, enum kinds alone)
{
    return kinds == BOTH_ON_GPU || kinds == alone || (kinds == EVEN_RANKS && harness_rank % 2 == 0);
}

/* Run one combination on the host and on the GPU, and compare the results. */
static bool compare(const struct collective *what, struct call x, enum kinds kinds, bool in_place)
{
    struct buffer s = {data.other_send, false}, r = {data.other_receive, false};
    struct call reference = x;
    bool good = true;

    if (on_gpu(kinds, SEND_ON_GPU)) {
        s = (struct buffer){data.gpu_send, true};
    }
    if (on_gpu(kinds, RECEIVE_ON_GPU)) {
        r = (struct buffer){data.gpu_receive, true};
    }
    place_buffers(what, &reference, in_place, at(data.host_send), at(data.host_receive));
    place_buffers(what, &x, in_place, at(s.memory), at(r.memory));
    for (int round = 0; round < (x.form == PERSISTENT ? 2 : 1); round++) {
        unsigned seed = data_seed();

        fill(&s, data.host_send, seed + 1);
        fill(&r, data.host_receive, seed + 2);
        if (round == 0) {
            good = complete_call(&reference, what) && complete_call(&x, what);
        } else {
            good = good && start_again(&reference) && start_again(&x);
        }
        good = good && same(&s, data.host_send, AREA) &&
               same(&r, data.host_receive,
                    place_defines_all(what, in_place)
                        ? AREA
                        : ORIGIN - 16 + (size_t) place_defined_bytes(&x));
    }
    if (x.form == PERSISTENT) {
        MPI_Request_free(&reference.request);
        MPI_Request_free(&x.request);
    }
    return good;
}

struct choice {
    int type, kinds, in_place, last_root, predefined;
};

/* Choose a combination by its number. Return false if it does not exist. */
static bool choose(struct choice *choice, unsigned number)
{
    choice->type = (int) (number % DATA_GAPS);
    number /= DATA_GAPS;
    choice->kinds = (int) (number % KINDS);
    number /= KINDS;
    choice->in_place = (int) (number % 2);
    number /= 2;
    choice->last_root = (int) (number % 2);
    number /= 2;
    choice->predefined = (int) number;
    return number < 2;
}

static bool agrees(void)
{
    const char *agree = getenv("OMPI_MCA_coll_gpuring_agree");

    return agree != NULL && strcmp(agree, "always") == 0;
}

static bool sensible(const struct choice *choice, const struct collective *what, bool inter)
{
    bool reduces = (what->flags & REDUCES) != 0;

    return (!choice->in_place || ((what->flags & (IN_PLACE | SCATTERS)) != 0 && !inter)) &&
           (!choice->last_root || (what->flags & ROOTED) != 0) &&
           (!choice->predefined || (reduces && choice->type == 0)) &&
           /* Served: all ranks have a buffer on the GPU, or none has, unless they agree. */
           !((what->flags & SYMMETRIC) != 0 && (!reduces || choice->predefined) && !inter &&
             choice->kinds == EVEN_RANKS && !agrees());
}

static struct call prepare(const struct place *place, const struct choice *choice, enum form form)
{
    struct call x =
        place_call(place, form, data_types[choice->type], MPI_INT, choice->last_root ? -1 : 0);

    x.op = choice->predefined ? MPI_SUM : data_op;
    return x;
}

static void check_collective(const struct place *place, const struct collective *what,
                             enum form form, unsigned every)
{
    static unsigned running; /* counts over all collectives, so that each gets different ones */
    long long before = harness_pvar("coll_gpuring_staged");
    int combinations = 0;
    bool good = true;
    struct choice choice;

    for (unsigned number = 0; choose(&choice, number); number++) {
        if (!sensible(&choice, what, place->inter) || running++ % every != 0) {
            continue;
        }
        combinations++;
        if (!compare(what, prepare(place, &choice, form), (enum kinds) choice.kinds,
                     choice.in_place)) {
            printf("# rank %d: %s, type %d, buffers %d, in place %d, last root %d, predefined %d\n",
                   harness_rank, what->name, choice.type, choice.kinds, choice.in_place,
                   choice.last_root, choice.predefined);
            good = false;
        }
    }
    harness_check(good, "%s %s, %s: %d combinations", harness_forms[form], what->name, place->name,
                  combinations);
    staged_calls += harness_pvar("coll_gpuring_staged") - before;
}

static void check_place(const struct place *place, unsigned every)
{
    for (const struct collective *what = collectives; what->name != NULL; what++) {
        for (int form = BLOCKING; form < FORMS && place_has(place, what); form++) {
            check_collective(place, what, (enum form) form, every);
        }
    }
}

static void check_matrix(unsigned every)
{
    struct place places[PLACES];

    places_open(places);
    for (int i = 0; i < PLACES; i++) {
        check_place(&places[i], every);
    }
    places_close(places);
    harness_check(!harness_on_gpu() || staged_calls > 0, "calls were staged: %s",
                  staged_calls > 0 ? "yes" : "no");
}

int main(int argc, char **argv)
{
    unsigned every = 1;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-f") == 0 && i + 1 < argc) {
            every = (unsigned) atoi(argv[++i]);
        }
    }
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    data_open(data_gaps, DATA_GAPS, AREA);
    check_matrix(every);
    data_close();
    return harness_finish();
}
