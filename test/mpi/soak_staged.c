/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Make a long random sequence of all collectives in all forms, on communicators of every kind that
 * are created and freed, many in flight, with buffers on GPUs and in host memory, types with gaps,
 * in place and out of place, from 0 to some million bytes. All ranks draw the same calls from the
 * seed, but choose the memory of their buffers, and complete and restart calls in different orders.
 * The expected result of a call is computed before it begins, by the same call on host memory on a
 * communicator without the component.
 *
 *   soak_staged [-s SEED] [-c CALLS] [-m BYTES]
 *     -m   maximum size of a buffer
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "staged_data.h"
#include "staged_places.h"

#define SLOTS   24
#define ORIGIN  20 /* offset of a buffer in its memory, in bytes: aligned only for int */
#define LONGEST 12 /* maximum elements of a block before scaling, with gaps between blocks */

struct buffer {
    char *memory, *expected;
    bool on_gpu;
};

enum state { FREE, PLANNED, ACTIVE, IDLE };

struct slot {
    enum state state;
    const struct collective *what;
    int number, where, factor, root;
    bool in_place, alike; /* alike: buffers on GPUs everywhere or nowhere */
    int starts;           /* remaining starts of a persistent call */
    int until;            /* round in which it is completed */
    unsigned seed;        /* seed of the data */
    size_t bytes;
    struct call x;
    struct buffer send, receive;
};

static const enum place_kind kinds[] = {PLACE_ALL,   PLACE_ALL,      PLACE_BETWEEN,
                                        PLACE_LINE,  PLACE_GRAPH,    PLACE_PARTS,
                                        PLACE_PARTS, PLACE_REVERSED, PLACE_GRID};
#define WHERE ((int) (sizeof kinds / sizeof *kinds))

static struct place places[WHERE], references[PLACE_KINDS];
static MPI_Comm copies[WHERE]; /* by MPI_Comm_idup, under way while copying[] is a request */
static MPI_Request copying[WHERE];
static struct slot slots[SLOTS];
static uint64_t shared, own; /* states of the random numbers: of all ranks, of this one */
static bool together;        /* coll_gpuring_agree=always */
static size_t most = 1 << 20;
static int calls = 500, planned, renewed;

static int draw(int below)
{
    return (int) (harness_draw(&shared) % (uint64_t) below);
}

static int draw_own(int below)
{
    return (int) (harness_draw(&own) % (uint64_t) below);
}

static int call_barrier(struct call *x)
{
    return x->form == BLOCKING      ? MPI_Barrier(x->comm)
           : x->form == NONBLOCKING ? MPI_Ibarrier(x->comm, &x->request)
                                    : HARNESS_INIT(Barrier)(x->comm, MPI_INFO_NULL, &x->request);
}

static const struct collective barrier = {"barrier", ONE_BLOCK, call_barrier};

/* Report a failure and abort the job, because the other ranks would wait. */
static void fail(const struct slot *slot, const char *what)
{

    printf("# rank %d: call %d, %s %s of %zu bytes (factor %d), %s, in place %d, root %d, "
           "on a GPU: send %d, receive %d, own operation %d, %d starts left: %s\n",
           harness_rank, slot->number, harness_forms[slot->x.form], slot->what->name, slot->bytes,
           slot->factor, places[slot->where].name, slot->in_place, slot->x.root, slot->send.on_gpu,
           slot->receive.on_gpu, slot->x.op == data_op, slot->starts, what);
    printf("not ok - all calls are right\n");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void need(const struct slot *slot, int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING + 64], error[MPI_MAX_ERROR_STRING];
        int length;

        MPI_Error_string(code, error, &length);
        snprintf(text, sizeof text, "%s: %s", what, error);
        fail(slot, text);
    }
}

static void buffer_open(struct buffer *buffer, size_t bytes, bool on_gpu)
{
    buffer->on_gpu = on_gpu && harness_on_gpu();
    buffer->memory = buffer->on_gpu ? harness_alloc(bytes) : malloc(bytes);
    buffer->expected = malloc(bytes);
}

static void buffer_close(struct buffer *buffer)
{
    if (buffer->on_gpu) {
        harness_free(buffer->memory);
    } else {
        free(buffer->memory);
    }
    free(buffer->expected);
}

/* Fill both buffers of a call. If `expected`, also compute the expected result. */
static void fill(struct slot *slot, bool expected)
{
    struct buffer *send = &slot->send, *receive = &slot->receive;

    data_fill(send->memory, send->on_gpu, expected ? send->expected : NULL, slot->bytes,
              slot->seed + 1);
    data_fill(receive->memory, receive->on_gpu, expected ? receive->expected : NULL, slot->bytes,
              slot->seed + 2);
}

static void check(struct slot *slot)
{
    size_t defined = place_defines_all(slot->what, slot->in_place)
                         ? slot->bytes
                         : ORIGIN - 16 + (size_t) place_defined_bytes(&slot->x);

    if (!data_same(slot->send.memory, slot->send.on_gpu, slot->send.expected, slot->bytes)) {
        fail(slot, "the send buffer has changed");
    }
    if (!data_same(slot->receive.memory, slot->receive.on_gpu, slot->receive.expected, defined)) {
        fail(slot, "wrong result");
    }
}

/* Handle a slot whose request is complete. */
static void completed(struct slot *slot)
{
    check(slot);
    if (slot->x.form == PERSISTENT) {
        slot->state = IDLE;
    } else {
        slot->state = FREE;
        buffer_close(&slot->send);
        buffer_close(&slot->receive);
    }
}

static void wait_for(struct slot *slot)
{
    if (slot->state == ACTIVE) {
        need(slot, MPI_Wait(&slot->x.request, MPI_STATUS_IGNORE), "MPI_Wait");
        completed(slot);
    }
}

static void start(struct slot *slot)
{
    slot->starts--;
    slot->state = ACTIVE;
    need(slot, MPI_Start(&slot->x.request), "MPI_Start");
}

/* Finish all remaining work of this slot. The other ranks do this at the same place in their
 * calls. */
static void finish(struct slot *slot)
{
    wait_for(slot);
    if (slot->state != IDLE) {
        return;
    }
    while (slot->starts > 0) {
        fill(slot, false);
        start(slot);
        wait_for(slot);
    }
    need(slot, MPI_Request_free(&slot->x.request), "MPI_Request_free");
    buffer_close(&slot->send);
    buffer_close(&slot->receive);
    slot->state = FREE;
}

/* Complete some requests in flight. This rank chooses which, and the MPI call for it. */
static void complete_some(void)
{
    MPI_Request requests[SLOTS];
    struct slot *of[SLOTS];
    int n = 0, done = 0, at[SLOTS], how = draw_own(9), code = MPI_SUCCESS, flag;

    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].state == ACTIVE && (n == 0 || draw_own(3) > 0)) {
            of[n] = &slots[i];
            requests[n++] = slots[i].x.request;
        }
    }
    if (n == 0 || how < 2) {
        return;
    }
    if (how == 2) {
        code = MPI_Waitsome(n, requests, &done, at, MPI_STATUSES_IGNORE);
    } else if (how == 3) {
        code = MPI_Testsome(n, requests, &done, at, MPI_STATUSES_IGNORE);
    } else if (how == 4) {
        code = MPI_Waitany(n, requests, at, MPI_STATUS_IGNORE);
        done = 1;
    } else if (how == 5) {
        code = MPI_Testany(n, requests, at, &flag, MPI_STATUS_IGNORE);
        done = flag ? 1 : 0;
    } else if (how == 6) {
        int k = draw_own(n);

        code = MPI_Test(&requests[k], &flag, MPI_STATUS_IGNORE);
        done = flag ? 1 : 0;
        at[0] = k;
    } else {
        flag = 1;
        code = how == 7 ? MPI_Waitall(n, requests, MPI_STATUSES_IGNORE)
                        : MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
        for (done = 0; flag && done < n; done++) {
            at[done] = done;
        }
    }
    need(of[0], code, "one of several requests");
    for (int i = 0; i < n; i++) {
        of[i]->x.request = requests[i];
    }
    for (int i = 0; i < done; i++) {
        completed(of[at[i]]);
    }
}

/* Start persistent calls again, each rank in a different order. */
static void start_some(void)
{
    struct slot *chosen[SLOTS];
    int n = 0;

    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[i];

        if (slot->x.form == PERSISTENT && (slot->state == ACTIVE || slot->state == IDLE) &&
            slot->starts > 0 && draw(2) == 0) {
            chosen[n++] = slot;
        }
    }
    for (int i = 0; i < n; i++) {
        wait_for(chosen[i]);
        fill(chosen[i], false);
    }
    for (int left = n; left > 0; left--) {
        int k = draw_own(left);
        struct slot *slot = chosen[k];

        chosen[k] = chosen[left - 1];
        start(slot);
    }
}

static const struct collective *draw_collective(const struct place *place)
{
    const struct collective *what;
    int n = 0;

    while (collectives[n].name != NULL) {
        n++;
    }
    do {
        int k = draw(n + 4);

        what = k < n ? &collectives[k] : k == n ? &barrier : &collectives[2]; /* allreduce */
    } while (((what->flags & NEIGHBORS) != 0) != place->topology ||
             ((what->flags & ONE_GROUP) != 0 && place->inter));
    return what;
}

/* Elements are scaled such that no buffer is larger than a random size. */
static int draw_factor(const struct collective *what, MPI_Datatype type)
{
    int blocks = (what->flags & ONE_BLOCK) != 0 ? 1 : harness_size, sort = draw(16);
    size_t bytes = sort == 0 ? 0 : sort < 9 ? 2048 : sort < 14 ? 1 << 16 : most;
    MPI_Aint lower, extent;

    MPI_Type_get_extent(type, &lower, &extent);
    bytes = bytes == 0 ? 0 : (size_t) draw((int) bytes);
    return sort == 0 ? 0 : 1 + (int) (bytes / ((size_t) extent * LONGEST * (size_t) blocks));
}

static void draw_call(struct slot *slot)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BAND};
    MPI_Datatype plain[] = {MPI_INT, MPI_UNSIGNED, MPI_UINT64_T, MPI_UINT8_T, MPI_INT32_T};
    int where = draw(WHERE), predefined, form, op = draw(5), layout = draw(DATA_GAPS),
        sort = draw(5);
    const struct place *place = &places[where];
    MPI_Datatype type;

    where = place->comm == MPI_COMM_NULL ? 0 : where;
    place = &references[kinds[where]];
    *slot = (struct slot){.state = PLANNED, .number = planned++, .where = where};
    slot->what = draw_collective(place);
    predefined = draw(3) > 0;
    predefined = predefined && (slot->what->flags & REDUCES) != 0;
    type = predefined ? plain[sort] : data_types[layout];
    slot->root = draw(harness_size);
    slot->in_place = draw(3) == 0 && !place->inter;
    slot->factor = draw_factor(slot->what, type);
    form = draw(FORMS);
    if (strncmp(slot->what->name, "reduce_scatter", 14) == 0 && place->inter) {
        form = BLOCKING; /* with requests sometimes wrong in Open MPI 4.1 itself */
    }
    slot->x = place_call(place, (enum form) form, type, predefined ? type : MPI_INT, slot->root);
    place_scale(&slot->x, slot->factor);
    if (strncmp(slot->what->name, "alltoall", 8) == 0 && slot->x.form != BLOCKING) {
        slot->in_place = false; /* sometimes wrong in Open MPI 4.1 itself */
    }
    /* Open MPI's sums of bytes saturate at 255 if they use AVX, and wrap around otherwise. */
    slot->x.op = !predefined ? data_op : ops[sort == 3 && op == 0 ? 1 : op];
    slot->alike = draw(2) == 0 || ((slot->what->flags & SYMMETRIC) != 0 && !place->inter &&
                                   (predefined || (slot->what->flags & REDUCES) == 0));
    slot->starts = 1 + draw(3);
    slot->until = draw(3);
}

/* Draw a call, and compute its expected result with the stock components. */
static void plan(struct slot *slot, int round)
{
    int blocks, alike;
    MPI_Aint lower, extent;
    struct call reference;

    draw_call(slot);
    slot->until += round;
    alike = draw(4);
    blocks = (slot->what->flags & ONE_BLOCK) != 0 ? 1 : harness_size;
    MPI_Type_get_extent(slot->x.type, &lower, &extent);
    slot->bytes =
        (ORIGIN + (size_t) extent * LONGEST * (size_t) (blocks * slot->factor) + 99) / 4 * 4;
    slot->seed = data_seed();
    if (!slot->alike || together) {
        alike = draw_own(4);
    }
    buffer_open(&slot->send, slot->bytes, alike < 2);
    buffer_open(&slot->receive, slot->bytes, alike % 2 == 0);
    fill(slot, true);
    reference = slot->x;
    reference.form = BLOCKING;
    place_buffers(slot->what, &reference, slot->in_place, slot->send.expected + ORIGIN,
                  slot->receive.expected + ORIGIN);
    place_buffers(slot->what, &slot->x, slot->in_place, slot->send.memory + ORIGIN,
                  slot->receive.memory + ORIGIN);
    need(slot, slot->what->call(&reference), "the reference");
}

/* Finish all calls in flight on a communicator. */
static void finish_place(int where)
{
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].where == where && slots[i].state != PLANNED) {
            finish(&slots[i]);
        }
    }
}

/* Replace a communicator with its copy. */
static void end_copy(int where)
{
    if (copying[where] == MPI_REQUEST_NULL) {
        return;
    }
    MPI_Wait(&copying[where], MPI_STATUS_IGNORE);
    finish_place(where);
    MPI_Comm_free(&places[where].comm);
    places[where].comm = copies[where];
    renewed++;
}

static void issue(struct slot *slot)
{
    if (slot->x.form != BLOCKING) {
        end_copy(slot->where); /* libnbc would mix up our calls and those of Open MPI 4.1 */
    }
    slot->x.comm = places[slot->where].comm;
    slot->x.request = MPI_REQUEST_NULL;
    need(slot, slot->what->call(&slot->x), "the call");
    if (slot->x.form == BLOCKING) {
        slot->state = ACTIVE;
        completed(slot);
    } else {
        slot->state = slot->x.form == PERSISTENT ? IDLE : ACTIVE;
    }
}

/* Communicators are duplicated or replaced during calls. */
static void renew(void)
{
    int where = draw(WHERE), how = draw(48);
    MPI_Comm copy;

    if (places[where].comm == MPI_COMM_NULL || how > 2) {
        return;
    }
    end_copy(where);
    if (how == 0) {
        MPI_Comm_idup(places[where].comm, &copies[where], &copying[where]);
    } else if (how == 1) {
        MPI_Comm_dup(places[where].comm, &copy);
        finish_place(where);
        MPI_Comm_free(&places[where].comm);
        places[where].comm = copy;
    } else {
        finish_place(where);
        MPI_Comm_free(&places[where].comm);
        places[where] = place_open(kinds[where]);
    }
    renewed++;
}

static void one_round(int round)
{
    int n = 3 + draw(SLOTS - 3), order[SLOTS], count = 0;

    for (int i = 0; i < SLOTS && count < n; i++) {
        if (slots[i].until < round) {
            plan(&slots[i], round);
            order[count++] = i;
        }
    }
    for (int i = 0; i < count; i++) {
        issue(&slots[order[i]]);
        complete_some();
        if (draw(3) == 0) {
            start_some();
        }
        complete_some();
        renew();
    }
    while (draw_own(4) > 0) {
        complete_some();
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].until <= round) {
            finish(&slots[i]);
        }
    }
}

static void options(int argc, char **argv, uint64_t *seed)
{
    int option;

    while ((option = getopt(argc, argv, "s:c:m:")) != -1) {
        switch (option) {
        case 's':
            *seed = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            calls = atoi(optarg);
            break;
        case 'm':
            most = strtoull(optarg, NULL, 0);
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

int main(int argc, char **argv)
{
    const char *agree = getenv("OMPI_MCA_coll_gpuring_agree");
    uint64_t seed = 1;

    together = agree != NULL && strcmp(agree, "always") == 0;
    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    options(argc, argv, &seed);
    shared = seed;
    own = seed + (uint64_t) harness_rank + 1;
    data_open(data_gaps, DATA_GAPS, sizeof(int));
    harness_set_component(false);
    for (int i = 0; i < PLACE_KINDS; i++) {
        references[i] = place_open((enum place_kind) i);
    }
    harness_set_component(true);
    for (int i = 0; i < WHERE; i++) {
        places[i] = place_open(kinds[i]);
        copying[i] = MPI_REQUEST_NULL;
    }
    for (int round = 1; planned < calls; round++) {
        one_round(round);
    }
    for (int i = 0; i < SLOTS; i++) {
        finish(&slots[i]);
    }
    harness_check(true, "%d calls, %d communicators made anew, seed %llu: all results right",
                  planned, renewed, (unsigned long long) seed);
    if (harness_have_component() && calls >= 100 && harness_size > 1) {
        harness_check(harness_pvar("coll_gpuring_staged") > (harness_on_gpu() ? calls / 8 : -1) &&
                          harness_pvar("coll_gpuring_calls") > (together ? 0 : calls / 32),
                      "%lld calls staged, %lld served", harness_pvar("coll_gpuring_staged"),
                      harness_pvar("coll_gpuring_calls"));
    }
    for (int i = 0; i < WHERE; i++) {
        end_copy(i);
        if (places[i].comm != MPI_COMM_NULL) {
            MPI_Comm_free(&places[i].comm);
        }
    }
    for (int i = 0; i < PLACE_KINDS; i++) {
        if (references[i].comm != MPI_COMM_NULL) {
            MPI_Comm_free(&references[i].comm);
        }
    }
    data_close();
    return harness_finish();
}
