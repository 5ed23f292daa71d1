/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test MPI_Allreduce on communicators of every kind, and with operations and types that are
 * delegated to another component. All results must be right. If coll/gpuring is loaded, its
 * counters must show the calls that it has served.
 */
#include "sums.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5000

/* Return true if exactly these numbers of calls were served and delegated since harness_count. */
static bool counted(long long calls, long long fallbacks)
{
    return !harness_have_component() || harness_counted(calls, fallbacks, -1);
}

static void communicators(void)
{
    MPI_Comm comm, part, pair;
    bool good;

    harness_count();
    good = sum_is_right(BLOCKING, COUNT, MPI_COMM_SELF);
    harness_check(good && counted(0, harness_on_gpu() ? 1 : 0),
                  "a communicator of one rank is not served");

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    harness_count();
    good = sum_is_right(BLOCKING, COUNT, comm) && sum_is_right(BLOCKING, 1, comm);
    harness_check(good && counted(harness_size > 1 ? 2 : 0, 0), "a duplicate");
    MPI_Comm_free(&comm);
    harness_check(comm == MPI_COMM_NULL, "a duplicate is freed");

    MPI_Comm_split(MPI_COMM_WORLD, harness_rank % 2, -harness_rank, &part);
    harness_check(sum_is_right(BLOCKING, COUNT, part), "a split with ranks in reverse order");
    MPI_Comm_split(MPI_COMM_WORLD, harness_rank / 2, harness_rank, &pair);
    harness_check(sum_is_right(BLOCKING, 17, part) && sum_is_right(BLOCKING, COUNT, pair) &&
                      sum_is_right(BLOCKING, COUNT, part),
                  "two splits in turn");
    MPI_Comm_free(&part);
    harness_check(sum_is_right(BLOCKING, COUNT, pair), "one split after the other was freed");
    MPI_Comm_free(&pair);
}

static void many_communicators(void)
{
    bool good = true;

    for (int i = 0; i < 40 && good; i++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        good = sum_is_right(BLOCKING, 100 + i, comm);
        MPI_Comm_free(&comm);
    }
    harness_check(good, "40 communicators one after the other");
}

static void intercommunicator(void)
{
    MPI_Comm half, between;
    int low = harness_rank < harness_size / 2, value = harness_rank + 1, result = -1, expected = 0;
    bool good;

    if (harness_size < 2) {
        harness_skip("needs 2 ranks", "an intercommunicator");
        return;
    }
    MPI_Comm_split(MPI_COMM_WORLD, low, harness_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? harness_size / 2 : 0, 5, &between);
    for (int r = 0; r < harness_size; r++) {
        expected += (r < harness_size / 2) != low ? r + 1 : 0;
    }
    good = MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_SUM, between) == MPI_SUCCESS;
    harness_check(good && result == expected, "an intercommunicator");
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void add_ints(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) {
        ((int *) inout)[i] += ((int *) in)[i];
    }
}

/* Compute x op y = 10 x + y on digits. The result then shows the ranks in their order. */
static void append_digit(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) {
        long left = ((long *) in)[i], right = ((long *) inout)[i], shift = 1;

        while (shift <= right) {
            shift *= 10;
        }
        ((long *) inout)[i] = left * shift + right;
    }
}

static void own_operations(void)
{
    static int data[COUNT];
    long digits[3], expected = 0;
    bool good;
    MPI_Op op;

    MPI_Op_create(add_ints, 1, &op);
    for (int i = 0; i < COUNT; i++) {
        data[i] = i + harness_rank;
    }
    harness_count();
    good = MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    for (int i = 0; i < COUNT; i++) {
        good = good && data[i] == harness_size * i + harness_size * (harness_size - 1) / 2;
    }
    harness_check(good && counted(0, harness_size > 1), "a commutative operation of the user's");
    MPI_Op_free(&op);

    MPI_Op_create(append_digit, 0, &op);
    for (int i = 0; i < 3; i++) {
        digits[i] = harness_rank + 1;
    }
    for (int r = 0; r < harness_size; r++) {
        expected = 10 * expected + r + 1;
    }
    good = MPI_Allreduce(MPI_IN_PLACE, digits, 3, MPI_LONG, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    harness_check(good && digits[0] == expected && digits[2] == expected,
                  "an operation that does not commute keeps the order of ranks");
    MPI_Op_free(&op);
}

/* Add every second int of a strided vector. Gaps must not change. */
static void add_strided(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint low, extent;

    MPI_Type_get_extent(*type, &low, &extent);
    for (int e = 0; e < *count; e++) {
        int *from = (int *) ((char *) in + e * extent), *to = (int *) ((char *) inout + e * extent);

        for (int i = 0; i < 4; i++) {
            to[2 * i] += from[2 * i];
        }
    }
}

static void derived_types(void)
{
    MPI_Datatype strided, four;
    int send[8 * 10], receive[8 * 10];
    bool good;
    MPI_Op op;

    MPI_Type_vector(4, 1, 2, MPI_INT, &strided);
    MPI_Type_create_resized(strided, 0, 8 * sizeof(int), &four);
    MPI_Type_commit(&four);
    MPI_Op_create(add_strided, 1, &op);
    for (int i = 0; i < 80; i++) {
        send[i] = i % 2 ? -1 : i + harness_rank;
        receive[i] = -7;
    }
    harness_count();
    good = MPI_Allreduce(send, receive, 10, four, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    for (int i = 0; i < 80; i++) {
        good = good && receive[i] ==
                           (i % 2 ? -7 : harness_size * i + harness_size * (harness_size - 1) / 2);
    }
    harness_check(good && counted(0, harness_size > 1), "a derived type with gaps");
    MPI_Type_free(&four);
    MPI_Type_free(&strided);

    MPI_Type_contiguous(8, MPI_INT, &four);
    MPI_Type_commit(&four);
    for (int i = 0; i < 80; i++) {
        send[i] = i + harness_rank;
    }
    good = MPI_Allreduce(send, receive, 10, four, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    for (int i = 0; i < 80; i += 2) {
        good = good && receive[i] == harness_size * i + harness_size * (harness_size - 1) / 2;
    }
    harness_check(good, "a contiguous derived type");
    MPI_Type_free(&four);
    MPI_Op_free(&op);
}

/*
 * 16-bit floats with a named type and an operation of the user. The values are small whole numbers,
 * which both formats represent exactly. The exponent is above the fraction_bits bits of the
 * fraction.
 */
static int fraction_bits, bias;

static uint16_t half_put(unsigned value)
{
    unsigned exponent = 0;

    if (value == 0) {
        return 0;
    }
    while (value >> (exponent + 1) != 0) {
        exponent++;
    }
    return (uint16_t) (((exponent + (unsigned) bias) << fraction_bits) +
                       ((value - (1u << exponent)) << fraction_bits >> exponent));
}

static unsigned half_get(uint16_t bits)
{
    unsigned exponent = (bits >> fraction_bits) - (unsigned) bias;
    unsigned fraction = bits & ((1u << fraction_bits) - 1);

    return bits == 0 ? 0 : (1u << exponent) + (fraction << exponent >> fraction_bits);
}

static void add_halves(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint16_t *to = inout;
    const uint16_t *from = in;

    (void) type;
    for (int i = 0; i < *count; i++) {
        to[i] = half_put(half_get(to[i]) + half_get(from[i]));
    }
}

static void sixteen_bits(const char *name, int fraction, int exponent_bias, bool known)
{
    uint16_t data[COUNT], *buffer = harness_alloc(sizeof data);
    MPI_Datatype type;
    bool good;
    MPI_Op op;

    fraction_bits = fraction;
    bias = exponent_bias;
    for (int i = 0; i < COUNT; i++) {
        data[i] = half_put((unsigned) (i % 16 + harness_rank));
    }
    harness_write(buffer, data, sizeof data);
    MPI_Type_dup(MPI_UINT16_T, &type);
    MPI_Type_set_name(type, name);
    MPI_Op_create(add_halves, 1, &op);
    harness_count();
    good = MPI_Allreduce(MPI_IN_PLACE, buffer, COUNT, type, op, MPI_COMM_WORLD) == MPI_SUCCESS;
    harness_read(data, buffer, sizeof data);
    for (int i = 0; i < COUNT && good; i++) {
        good = half_get(data[i]) ==
               (unsigned) (harness_size * (i % 16) + harness_size * (harness_size - 1) / 2);
    }
    harness_check(good && counted(known && harness_size > 1, !known && harness_size > 1),
                  "a type of the name %s with an operation of the user's", name);
    harness_free(buffer);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

static void arguments(void)
{
    MPI_Request request;
    int value = 5;

    harness_count();
    harness_check(MPI_Allreduce(MPI_IN_PLACE, &value, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
                          MPI_SUCCESS &&
                      value == 5 && counted(0, 0),
                  "a zero count touches nothing");
    harness_check(
        MPI_Allreduce(NULL, NULL, 0, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS &&
            MPI_Iallreduce(NULL, NULL, 0, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request) ==
                MPI_SUCCESS &&
            MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS,
        "a zero count allows null buffers");
    harness_check(MPI_Allreduce(&value, &value + 1, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD) !=
                      MPI_SUCCESS,
                  "an operation that MPI does not allow on the type is an error");
}

/* Mix other collectives with ours. They must still work. */
static void other_collectives(void)
{
    int all[64], one = harness_rank, sum = -1;
    bool good = true;

    for (int i = 0; i < 20 && good; i++) {
        int root = i % harness_size, value = root == harness_rank ? 100 + i : -1;

        MPI_Bcast(&value, 1, MPI_INT, root, MPI_COMM_WORLD);
        MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        good = value == 100 + i && all[harness_size - 1] == harness_size - 1 &&
               (root != harness_rank || sum == harness_size * (harness_size - 1) / 2) &&
               sum_is_right(BLOCKING, 1 + i * 37, MPI_COMM_WORLD);
    }
    harness_check(good, "bcast, allgather, reduce and barrier between allreduces");
}

/* Send elements with gaps (every second of four numbers, three times) and receive them without
 * gaps. */
static void gaps_keep_the_order(void)
{
    int values[12], all[64 * 6];
    MPI_Datatype two, element;
    bool good = true;

    for (int i = 0; i < 12; i++) {
        values[i] = 100 * harness_rank + i;
    }
    MPI_Type_vector(2, 1, 2, MPI_INT, &two);
    MPI_Type_create_resized(two, 0, 4 * sizeof(int), &element);
    MPI_Type_commit(&element);
    MPI_Allgather(values, 3, element, all, 6, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < 6 * harness_size; i++) {
        good &= all[i] == 100 * (i / 6) + 2 * (i % 6);
    }
    MPI_Type_free(&element);
    MPI_Type_free(&two);
    harness_check(good, "elements with gaps are sent in the order of their type");
}

/* Exchange blocks of two numbers, which on even ranks are followed by a gap of one number. */
static void gaps_between_blocks_are_kept(void)
{
    int distance = harness_rank % 2 == 0 ? 3 : 2, values[64 * 3], all[64 * 3];
    MPI_Datatype two, element;
    bool good = true;

    for (int i = 0; i < harness_size * distance; i++) {
        values[i] = 1000 * harness_rank + 10 * (i / distance) + i % distance;
        all[i] = -1;
    }
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_create_resized(two, 0, distance * (MPI_Aint) sizeof(int), &element);
    MPI_Type_commit(&element);
    MPI_Alltoall(values, 1, element, all, 1, element, MPI_COMM_WORLD);
    for (int i = 0; i < harness_size * distance; i++) {
        int right = 1000 * (i / distance) + 10 * harness_rank + i % distance;

        good &= all[i] == (i % distance < 2 ? right : -1);
    }
    MPI_Type_free(&element);
    MPI_Type_free(&two);
    harness_check(good, "gaps between the blocks of an alltoall are not written");
}

/* Make calls that differ from the previous call in a single argument. A new type may have the
 * handle of a freed type. */
static void calls_alike(void)
{
    int values[8], all[64], parts[64], sum;
    bool good = true;

    for (int i = 0; i < 24 && good; i++) {
        int root = i / 3 % harness_size, step = 1 + i % 3;
        MPI_Datatype two;

        MPI_Type_vector(2, 1, step, MPI_INT, &two);
        MPI_Type_commit(&two);
        for (int k = 0; k < 8; k++) {
            values[k] = harness_rank == root ? 100 * i + k : -1;
        }
        MPI_Bcast(values, 1, two, root, MPI_COMM_WORLD);
        MPI_Type_free(&two);
        for (int k = 0; k < 8; k++) {
            bool moved = harness_rank == root || k == 0 || k == step;

            good = good && values[k] == (moved ? 100 * i + k : -1);
        }
        for (int k = 0; k < harness_size; k++) {
            all[k] = parts[k] = k == harness_rank ? harness_rank + i : -1;
        }
        MPI_Allgather(i % 2 ? MPI_IN_PLACE : &parts[harness_rank], 1, MPI_INT, all, 1, MPI_INT,
                      MPI_COMM_WORLD);
        sum = parts[harness_rank];
        MPI_Exscan(i % 4 < 2 ? MPI_IN_PLACE : &parts[harness_rank], &sum, 1, MPI_INT, MPI_SUM,
                   MPI_COMM_WORLD);
        for (int k = 0; k < harness_size; k++) {
            good = good && all[k] == k + i;
        }
        good = good && (harness_rank == 0 ||
                        sum == harness_rank * (harness_rank - 1) / 2 + harness_rank * i);
    }
    harness_check(good, "calls that differ from the last one in one thing");
}

/* The host executor stores 17 MiB of output on each rank with non-temporal stores. */
static void output_beyond_the_caches(void)
{
    int n = harness_size, block = (17 << 20) / (int) sizeof(int) / n + 3;
    size_t all = (size_t) n * (size_t) block;
    int *in = malloc(all * sizeof *in), *out = malloc(all * sizeof *out);
    bool good = in != NULL && out != NULL;

    for (size_t i = 0; good && i < all; i++) {
        in[i] = harness_rank * 1000003 + (int) i;
        out[i] = -1;
    }
    if (good) {
        MPI_Alltoall(in, block, MPI_INT, out, block, MPI_INT, MPI_COMM_WORLD);
    }
    for (size_t i = 0; good && i < all; i++) {
        size_t rank = i / (size_t) block, at = i % (size_t) block;

        good = out[i] == (int) rank * 1000003 + harness_rank * block + (int) at;
    }
    for (int in_place = 0; good && in_place < 2; in_place++) {
        int *mine = out + (size_t) harness_rank * (size_t) block;

        memset(out, 0, all * sizeof *out);
        memcpy(mine, in, (size_t) block * sizeof *mine);
        MPI_Allgather(in_place ? MPI_IN_PLACE : in, block, MPI_INT, out, block, MPI_INT,
                      MPI_COMM_WORLD);
        for (size_t i = 0; good && i < all; i++) {
            good = out[i] == (int) (i / (size_t) block) * 1000003 + (int) (i % (size_t) block);
        }
    }
    if (good) {
        MPI_Bcast(harness_rank == n - 1 ? in : out, (int) all, MPI_INT, n - 1, MPI_COMM_WORLD);
    }
    for (size_t i = 0; good && i < all && harness_rank != n - 1; i++) {
        good = out[i] == (n - 1) * 1000003 + (int) i;
    }
    harness_check(good, "output that is larger than the caches");
    free(in);
    free(out);
}

/* Test uneven blocks in place, with a predefined type that has a gap. */
static void pairs_in_place(void)
{
    struct {
        short value;
        int index;
    } pairs[64 * 3];
    int counts[64], first = 0;
    bool good;

    for (int i = 0; i < harness_size; i++) {
        counts[i] = i % 3;
        first += i < harness_rank ? counts[i] : 0;
    }
    for (int i = 0; i < 64 * 3; i++) {
        pairs[i].value = (short) ((i + harness_rank) % harness_size);
        pairs[i].index = harness_rank;
    }
    good = MPI_Reduce_scatter(MPI_IN_PLACE, pairs, counts, MPI_SHORT_INT, MPI_MAXLOC,
                              MPI_COMM_WORLD) == MPI_SUCCESS;
    for (int i = 0; i < counts[harness_rank]; i++) {
        int owner = (2 * harness_size - 1 - (first + i) % harness_size) % harness_size;

        good = good && pairs[i].value == harness_size - 1 && pairs[i].index == owner;
    }
    harness_check(good, "MPI_Reduce_scatter of pairs in place");
}

static unsigned long progressed; /* calls of opal_progress */

/* Replaces Open MPI's function for all libraries of the process. */
void opal_progress(void);
void opal_progress(void)
{
    static void (*original)(void);

    if (original == NULL) {
        *(void **) &original = dlsym(RTLD_NEXT, "opal_progress");
    }
    progressed++;
    original();
}

/* Blocking calls progress MPI now and then, although each of them waits for a late peer, but not
 * long enough to progress MPI for that reason. */
static void progress_beside_calls(void)
{
    unsigned long before;

    MPI_Barrier(MPI_COMM_WORLD);
    before = progressed;
    for (int i = 0; i < 5120; i++) {
        int sum = 1;

        for (double end = MPI_Wtime() + 5e-6; harness_rank == 0 && MPI_Wtime() < end;) {
        }
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    harness_check(!harness_have_component() || progressed - before >= 20,
                  "one in 256 blocking calls progresses MPI");
}

int main(int argc, char **argv)
{
    MPI_Comm leaked;

    harness_start(&argc, &argv, MPI_THREAD_SINGLE);
    communicators();
    many_communicators();
    intercommunicator();
    own_operations();
    derived_types();
    sixteen_bits("gpuring:float16:sum", 10, 15, true);
    sixteen_bits("gpuring:bfloat16:sum", 7, 127, true);
    sixteen_bits("gpuring:bfloat16:band", 7, 127, false);
    sixteen_bits("gpuring:float16", 10, 15, false);
    arguments();
    other_collectives();
    gaps_keep_the_order();
    gaps_between_blocks_are_kept();
    calls_alike();
    output_beyond_the_caches();
    pairs_in_place();
    if (harness_size > 1) {
        progress_beside_calls();
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &leaked);
    harness_check(sum_is_right(BLOCKING, COUNT, leaked), "a communicator that is never freed");
    /* Finalize immediately after the last call: no rank may still need a peer. */
    harness_check(sum_is_right(BLOCKING, COUNT, MPI_COMM_WORLD), "traffic up to the end");
    (void) sum_is_right(BLOCKING, 200000, MPI_COMM_WORLD);
    return harness_finish();
}
