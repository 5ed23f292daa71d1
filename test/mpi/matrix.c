/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test MPI_Allreduce with every type and operation that MPI allows, in place and out of place, with
 * guards around the receive buffer.
 *
 *   matrix [-n COUNTS] [-t TYPE] [-o OP] [-f N] [-m] [-s] [ALGORITHM-PROTOCOL...]
 *     -n 0,1,1024   counts (default 0,1,2,3,1023,1024,1025)
 *     -t, -o        only this type, this operation (MPI names)
 *     -f N          every N-th combination only, starting at a different one for each count
 *     -m            misaligned buffers: at every offset from 0 to 15 in turn
 *     -s            the calls must be served by coll/gpuring: checks its counters
 *     ring-ll ...   repeat all on a new communicator for each of these selections
 */
#include "harness.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUARD 64 /* bytes before and after the receive buffer */

static const char *counts = "0,1,2,3,1023,1024,1025";
static const char *only_type, *only_op;
static int every = 1;
static bool must_serve, misaligned;
static MPI_Comm comm = MPI_COMM_WORLD;
static const char *selected = ""; /* algorithm and protocol */

struct tally {
    long calls;     /* with a nonzero count */
    long handed_on; /* calls on a GPU with types that no GPU reduces */
    int wrong_combinations;
    char first[256]; /* description of the first wrong call */
};

static void note_wrong(struct tally *tally, const struct harness_type *type,
                       const struct harness_op *op, size_t count, bool in_place, const char *what,
                       size_t at)
{
    if (tally->wrong_combinations++ == 0) {
        snprintf(tally->first, sizeof tally->first, "%s %s count %zu%s: %s %zu", type->name,
                 op->name, count, in_place ? " in place" : "", what, at);
    }
}

static bool guards_hold(const uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (memory[i] != 0xc3 || memory[GUARD + bytes + i] != 0xc3) {
            return false;
        }
    }
    return true;
}

/* Return true if no GPU reduces this type. */
static bool host_only(const struct harness_type *type)
{
    return type->handle == MPI_LONG_DOUBLE || type->handle == MPI_C_LONG_DOUBLE_COMPLEX ||
           type->handle == MPI_CXX_LONG_DOUBLE_COMPLEX || type->handle == MPI_LONG_DOUBLE_INT ||
           type->handle == MPI_REAL16 || type->handle == MPI_COMPLEX32;
}

static void one_call(struct tally *tally, const struct harness_type *type,
                     const struct harness_op *op, size_t count, bool in_place)
{
    size_t bytes = count * type->size, room = bytes + 2 * GUARD, first = 0, wrong;
    /* Both buffers get every offset, in many combinations, in place and out of place. */
    static size_t number;
    size_t at = misaligned ? (number + number / 16) % 16 : 0;
    size_t from = misaligned ? (3 * number + number / 16) % 16 : 0;
    uint8_t *before = malloc(room), *after = malloc(room); /* content of the buffers */
    uint8_t *send = harness_alloc(bytes + 16), *memory = harness_alloc(room + 16);
    void *send_base = send, *memory_base = memory;
    int status;

    if (before == NULL || after == NULL) {
        printf("Bail out! out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    number++;
    send += from;
    memory += at;
    memset(before, 0xc3, room);
    harness_write(memory, before, room);
    harness_fill(type, op, harness_rank, before, count);
    harness_write(in_place ? memory + GUARD : send, before, bytes);
    status = MPI_Allreduce(in_place ? MPI_IN_PLACE : send, memory + GUARD, (int) count,
                           type->handle, op->handle, comm);
    harness_read(after, memory, room);
    wrong = status == MPI_SUCCESS
                ? harness_wrong(type, op, harness_size, after + GUARD, count, &first)
                : 0;
    if (status != MPI_SUCCESS) {
        note_wrong(tally, type, op, count, in_place, "MPI error", (size_t) status);
    } else if (wrong > 0) {
        note_wrong(tally, type, op, count, in_place, "first wrong element", first);
    } else if (!guards_hold(after, bytes)) {
        note_wrong(tally, type, op, count, in_place, "wrote outside of the buffer, bytes", bytes);
    } else if (!in_place) {
        harness_read(after, send, bytes);
        if (memcmp(before, after, bytes) != 0) {
            note_wrong(tally, type, op, count, in_place, "changed the send buffer of", count);
        }
    }
    tally->calls += count > 0;
    tally->handed_on += count > 0 && harness_on_gpu() && host_only(type);
    harness_free(send_base);
    harness_free(memory_base);
    free(before);
    free(after);
}

/*
 * Open MPI 4.1's own operations compute Fortran's REAL*16 as C's long double, which gives garbage
 * where that is the 80-bit format: tested only if coll/gpuring serves.
 */
static bool wanted(const struct harness_type *type, const struct harness_op *op)
{
    if ((!must_serve || harness_on_gpu()) &&
        (type->handle == MPI_REAL16 || type->handle == MPI_COMPLEX32)) {
        return false;
    }
    return type->handle != MPI_DATATYPE_NULL && (op->classes & (1u << type->class)) != 0 &&
           (only_type == NULL || strcmp(only_type, type->name) == 0) &&
           (only_op == NULL || strcmp(only_op, op->name) == 0);
}

static int all_combinations(struct tally *tally, size_t count, int phase)
{
    int combination = 0, done = 0;

    for (const struct harness_type *type = harness_types(); type->name != NULL; type++) {
        for (const struct harness_op *op = harness_ops(); op->name != NULL; op++) {
            if (wanted(type, op) && (combination++ + phase) % every == 0) {
                one_call(tally, type, op, count, false);
                one_call(tally, type, op, count, true);
                done++;
            }
        }
    }
    return done;
}

static void one_count(size_t count, int phase)
{
    long long calls = harness_pvar("coll_gpuring_calls");
    long long fallbacks = harness_pvar("coll_gpuring_fallbacks");
    struct tally tally = {0};
    int combinations = all_combinations(&tally, count, phase);

    if (tally.wrong_combinations > 0) {
        printf("# rank %d: %d wrong, first %s\n", harness_rank, tally.wrong_combinations,
               tally.first);
    }
    harness_check(tally.wrong_combinations == 0 && combinations > 0,
                  "allreduce of %zu elements, %d ranks, %d combinations of type and operation%s%s",
                  count, harness_size, combinations, *selected != '\0' ? ", " : "", selected);
    if (must_serve) {
        calls = harness_pvar("coll_gpuring_calls") - calls;
        fallbacks = harness_pvar("coll_gpuring_fallbacks") - fallbacks;
        if (calls != tally.calls - tally.handed_on || fallbacks != tally.handed_on) {
            printf("# rank %d: %lld served and %lld delegated of %ld calls\n", harness_rank, calls,
                   fallbacks, tally.calls);
        }
        harness_check(calls == tally.calls - tally.handed_on && fallbacks == tally.handed_on,
                      "coll/gpuring served all %ld calls of %zu elements, but %ld that no GPU can",
                      tally.calls, count, tally.handed_on);
    }
}

static void all_counts(void)
{
    int phase = 0;
    char *end;

    for (const char *text = counts; *text != '\0'; text = *end == ',' ? end + 1 : end) {
        one_count(strtoul(text, &end, 10), phase++);
        if (end == text) {
            printf("Bail out! bad count %s\n", text);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

/* Repeat all with an algorithm and a protocol. */
static void with_selection(char *selection)
{
    char *protocol = strrchr(selection, '-'); /* there is a hyphen in two-shot */

    selected = selection;
    harness_choose("coll_gpuring_protocol", protocol + 1);
    *protocol = '\0';
    harness_choose("coll_gpuring_algorithm", selection);
    *protocol = '-';
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    all_counts();
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int option;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    while ((option = getopt(argc, argv, "n:t:o:f:ms")) != -1) {
        switch (option) {
        case 'n':
            counts = optarg;
            break;
        case 't':
            only_type = optarg;
            break;
        case 'o':
            only_op = optarg;
            break;
        case 'f':
            every = atoi(optarg) > 0 ? atoi(optarg) : 1;
            break;
        case 'm':
            misaligned = true;
            break;
        case 's':
            must_serve = true;
            break;
        default:
            printf("Bail out! unknown option\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    if (optind == argc) {
        all_counts();
    }
    for (int i = optind; i < argc; i++) {
        with_selection(argv[i]);
    }
    return harness_finish();
}
