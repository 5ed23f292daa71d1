/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test reductions whose results depend on the order of folding. They are compared bit by bit with a
 * serial fold in the order of ranks, for every reduction, every algorithm and protocol that can be
 * selected (each on a separate communicator), and various sizes, alignments and types, in place and
 * out of place. Must be run with coll_gpuring_deterministic=1.
 *
 *   ordered       with every algorithm, protocol, and some of their combinations
 *   ordered -a    with the algorithm and the protocol that the parameters select
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define LONGEST 20011 /* elements of a vector, or of all blocks */
#define SLACK   64

static const char *const algorithms[] = {"auto", "ring", "tree", "direct", "two-shot", "previous"};
static const char *const protocols[] = {"auto", "simple", "ll", "ll128"};
#define LENGTH(list) ((int) (sizeof(list) / sizeof *(list)))

static uint64_t random_state = 1;
static char *input, *output; /* buffers of the calls */
static char *host, *expected;
static bool called; /* MPI has called our operation */

static double same_double(double x)
{
    return x;
}

static double to_float(double x)
{
    return (double) (float) x;
}

/* Round to nearest even, with this number of fraction bits and an exponent of at least `lowest`. */
static double to_bits(double x, int bits, int lowest)
{
    int exponent = ilogb(x) > lowest ? ilogb(x) : lowest;

    return ldexp(rint(ldexp(x, bits - exponent)), exponent - bits);
}

static double to_half(double x)
{
    double rounded = to_bits(x, 10, -14);

    return fabs(rounded) > 65504 ? copysign(HUGE_VAL, x) : rounded;
}

static double to_bfloat(double x)
{
    return to_bits(x, 7, -126);
}

static void put_double(char *at, double x)
{
    memcpy(at, &x, sizeof x);
}

static void put_float(char *at, double x)
{
    float value = (float) x;

    memcpy(at, &value, sizeof value);
}

static void put_half(char *at, double x)
{
    double magnitude = fabs(x);
    int exponent = isinf(x) ? 16 : magnitude < 0x1p-14 ? -15 : ilogb(x);
    int fraction = isinf(x)         ? 0
                   : exponent < -14 ? (int) ldexp(magnitude, 24)
                                    : (int) ldexp(magnitude, 10 - exponent) - 1024;
    uint16_t bits = (uint16_t) (((exponent + 15) << 10) + fraction + (signbit(x) ? 0x8000 : 0));

    memcpy(at, &bits, sizeof bits);
}

static void put_bfloat(char *at, double x)
{
    float value = (float) x;
    uint32_t bits;
    uint16_t half;

    memcpy(&bits, &value, sizeof bits);
    half = (uint16_t) (bits >> 16);
    memcpy(at, &half, sizeof half);
}

/* Operands of sums and products: {sum, prod}. */
static struct type {
    const char *name;
    size_t size;
    double (*round)(double x);
    void (*put)(char *at, double x);
    MPI_Datatype handle[2];
    MPI_Op op[2];
} types[] = {
    {"float", 4, to_float, put_float, {0}, {0}},
    {"double", 8, same_double, put_double, {0}, {0}},
    {"float16", 2, to_half, put_half, {0}, {0}},
    {"bfloat16", 2, to_bfloat, put_bfloat, {0}, {0}},
};

static void must_not_be_called(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) in;
    (void) inout;
    (void) count;
    (void) type;
    called = true;
}

static void make_types(void)
{
    static const char *const names[] = {"sum", "prod"};

    types[0].handle[0] = types[0].handle[1] = MPI_FLOAT;
    types[1].handle[0] = types[1].handle[1] = MPI_DOUBLE;
    for (int t = 0; t < LENGTH(types); t++) {
        for (int op = 0; op < 2; op++) {
            char name[64];

            types[t].op[op] = op == 0 ? MPI_SUM : MPI_PROD;
            if (types[t].size == 2) {
                snprintf(name, sizeof name, "gpuring:%s:%s", types[t].name, names[op]);
                MPI_Type_dup(MPI_UINT16_T, &types[t].handle[op]);
                MPI_Type_set_name(types[t].handle[op], name);
                MPI_Op_create(must_not_be_called, 1, &types[t].op[op]);
            }
        }
    }
}

/* Return a rank's element. Signs, magnitudes and all bits differ, so that each order gives another
 * rounding. */
static double element(const struct type *type, int rank, size_t i, uint64_t seed)
{
    uint64_t state = seed + (uint64_t) rank * 1000003u + i * 7919u, bits;

    harness_draw(&state);
    bits = harness_draw(&state);
    return type->round(ldexp(1 + (double) (bits >> 20) * 0x1p-44, (int) (bits % 9) - 4) *
                       (bits & 512 ? -1 : 1));
}

enum reduction { ALLREDUCE, IALLREDUCE, REDUCE, SCAN, EXSCAN, BLOCK, SCATTER, REDUCTIONS };

struct run {
    enum reduction what;
    const struct type *type;
    int op, root, count; /* count: elements of the vector or of a block */
    bool in_place;
    uint64_t seed;
    size_t in_at, out_at;       /* bytes by which the buffers are misaligned */
    int counts[64], first, len; /* of reduce_scatter; this rank's part */
};

/* Compute the fold of ranks 0 .. end - 1, from left to right. */
static void expect(const struct run *run, int end)
{
    const struct type *type = run->type;

    for (int i = 0; i < run->len; i++) {
        size_t at = (size_t) (run->first + i);
        double value = element(type, 0, at, run->seed);

        for (int rank = 1; rank < end; rank++) {
            double next = element(type, rank, at, run->seed);

            value = type->round(run->op == 0 ? value + next : value * next);
        }
        type->put(expected + (size_t) i * type->size, value);
    }
}

static void call(const struct run *run, const void *in, void *out, MPI_Comm comm)
{
    MPI_Datatype type = run->type->handle[run->op];
    MPI_Op op = run->type->op[run->op];
    MPI_Request request;

    switch (run->what) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, run->count, type, op, comm);
        break;
    case IALLREDUCE:
        MPI_Iallreduce(in, out, run->count, type, op, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case REDUCE:
        MPI_Reduce(in, out, run->count, type, op, run->root, comm);
        break;
    case SCAN:
        MPI_Scan(in, out, run->count, type, op, comm);
        break;
    case EXSCAN:
        MPI_Exscan(in, out, run->count, type, op, comm);
        break;
    case BLOCK:
        MPI_Reduce_scatter_block(in, out, run->count, type, op, comm);
        break;
    default:
        MPI_Reduce_scatter(in, out, run->counts, type, op, comm);
        break;
    }
}

/* Return the number of ranks whose contributions this rank gets. */
static int contributors(const struct run *run)
{
    switch (run->what) {
    case REDUCE:
        return harness_rank == run->root ? harness_size : 0;
    case SCAN:
        return harness_rank + 1;
    case EXSCAN:
        return harness_rank;
    default:
        return harness_size;
    }
}

/* Choose even blocks, or uneven ones of which one is empty. Return the elements of a rank's
 * input. */
static int divide(struct run *run)
{
    bool blocks = run->what == BLOCK || run->what == SCATTER;
    int all = run->count;

    run->first = 0;
    run->len = run->count;
    if (!blocks) {
        return all;
    }
    run->count = all / harness_size + 1;
    all = 0;
    for (int rank = 0; rank < harness_size; rank++) {
        run->counts[rank] = run->what == BLOCK ? run->count : run->count * (rank % 3 + 1) / 2;
        run->first = rank == harness_rank ? all : run->first;
        all += run->counts[rank];
    }
    run->len = run->counts[harness_rank];
    return all;
}

static bool run_one(struct run *run, MPI_Comm comm)
{
    int n = divide(run), end = contributors(run);
    size_t size = run->type->size, bytes = (size_t) n * size;
    bool replaces = run->in_place && (run->what != REDUCE || harness_rank == run->root);
    char *in = (replaces ? output + run->out_at : input + run->in_at), *out = output + run->out_at;

    for (int i = 0; i < n; i++) {
        run->type->put(host + (size_t) i * size,
                       element(run->type, harness_rank, (size_t) i, run->seed));
    }
    harness_write(in, host, bytes);
    call(run, replaces ? MPI_IN_PLACE : in, out, comm);
    if (end == 0) {
        return true;
    }
    expect(run, end);
    harness_read(host, out, (size_t) run->len * size);
    if (memcmp(host, expected, (size_t) run->len * size) == 0) {
        return true;
    }
    printf("# rank %d: reduction %d of %s, operation %d, %d elements, in place %d, root %d\n",
           harness_rank, (int) run->what, run->type->name, run->op, run->count, run->in_place,
           run->root);
    return false;
}

/* Run every reduction with every size. Other properties alternate. */
static bool run_all(MPI_Comm comm)
{
    static const int counts[] = {1, 7, 1023, LONGEST};
    bool good = true;

    for (int what = 0; what < REDUCTIONS; what++) {
        for (int c = 0; c < LENGTH(counts); c++) {
            uint64_t draw = harness_draw(&random_state);
            struct run run = {.what = (enum reduction) what,
                              .type = &types[draw % 4],
                              .op = draw >> 2 & 1,
                              .count = counts[c],
                              .in_place = draw >> 3 & 1,
                              .seed = draw,
                              .root = (int) ((draw >> 8) % (uint64_t) harness_size)};

            run.in_at = (draw >> 4 & 3) * run.type->size;
            run.out_at = (draw >> 6 & 3) * run.type->size;
            good = run_one(&run, comm) && good;
        }
    }
    return good;
}

static void check_selection(int algorithm, int protocol)
{
    MPI_Comm comm;

    harness_choose("coll_gpuring_algorithm", algorithms[algorithm]);
    harness_choose("coll_gpuring_protocol", protocols[protocol]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    harness_check(run_all(comm), "%s, %s: in the order of the ranks", algorithms[algorithm],
                  protocols[protocol]);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    bool selected = argc > 1 && strcmp(argv[1], "-a") == 0;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    make_types();
    input = harness_alloc((LONGEST + 128) * 8 + SLACK);
    output = harness_alloc((LONGEST + 128) * 8 + SLACK);
    host = malloc((LONGEST + 128) * 8);
    expected = malloc((LONGEST + 128) * 8);
    if (selected) {
        harness_check(run_all(MPI_COMM_WORLD), "in the order of the ranks");
    }
    for (int algorithm = 0; algorithm < LENGTH(algorithms) && !selected; algorithm++) {
        for (int protocol = 0; protocol < LENGTH(protocols); protocol++) {
            if (algorithm == 0 || protocol == 0 || protocol == 1 + algorithm % 3) {
                check_selection(algorithm, protocol);
            }
        }
    }
    harness_check(!called && harness_pvar("coll_gpuring_fallbacks") == 0, "nothing was delegated");
    harness_free(input);
    harness_free(output);
    free(host);
    free(expected);
    return harness_finish();
}
