/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Test the tables of types and operations and their uses: folds with every instruction set of this
 * processor, compared with the reference, 16-bit floats, copies, and the names of the CUDA kernels.
 */
#include "test/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/copy.h"
#include "kernels/fold.h"
#include "kernels/image.h"
#include "kernels/kernels.h"
#include "kernels/step.h"
#include "test/unit/reference.h"

TEST(test_tables)
{
    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        const struct gpuring_type_info *info = gpuring_type_info(type);
        uint32_t allowed = 0;

        assert_true(info->size > 0 && info->size <= 32);
        assert_int_equal(info->size & (info->size - 1), 0); /* chunks rely on that */
        assert_true(info->align > 0 && info->size % info->align == 0);
        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            allowed += gpuring_op_allows(op, type) != 0;
            assert_int_equal(gpuring_op_allows(op, type), gpuring_fold_find(type, op) != NULL);
        }
        assert_true(allowed >= 2); /* a type without operations is no use */
    }
    assert_null(gpuring_type_info(GPURING_TYPE_COUNT));
    assert_null(gpuring_op_info(GPURING_OP_COUNT));
    assert_null(gpuring_fold_find(GPURING_TYPE_COUNT, 0));
    assert_null(gpuring_fold_find(0, GPURING_OP_COUNT));
    assert_false(gpuring_op_allows(GPURING_OP_COUNT, 0));
    /* As the MPI standard groups them. */
    assert_true(gpuring_op_allows(GPURING_OP_BAND, GPURING_TYPE_BYTE));
    assert_false(gpuring_op_allows(GPURING_OP_SUM, GPURING_TYPE_BYTE));
    assert_false(gpuring_op_allows(GPURING_OP_BAND, GPURING_TYPE_FLOAT));
    assert_false(gpuring_op_allows(GPURING_OP_MAX, GPURING_TYPE_COMPLEX_DOUBLE));
    assert_true(gpuring_op_allows(GPURING_OP_PROD, GPURING_TYPE_COMPLEX_DOUBLE));
    assert_false(gpuring_op_allows(GPURING_OP_SUM, GPURING_TYPE_LOGICAL32));
    assert_true(gpuring_op_allows(GPURING_OP_LXOR, GPURING_TYPE_LOGICAL32));
    assert_true(gpuring_op_allows(GPURING_OP_MINLOC, GPURING_TYPE_FLOAT_INT));
    assert_false(gpuring_op_allows(GPURING_OP_MAXLOC, GPURING_TYPE_INT32));
}

#define FOLD_COUNT 133 /* vectors and a rest */

/* Test one fold on buffers shifted by `shift` bytes, into a separate output and in place on either
 * side. */
static void fold_check(gpuring_fold_fn fold, uint32_t type, uint32_t op, size_t shift)
{
    size_t size = gpuring_type_info(type)->size;
    uint8_t *memory = calloc(3, 64 + FOLD_COUNT * size), *a, *b, *to, expected[64];

    assert_non_null(memory);
    a = memory + shift;
    b = a + 16 + FOLD_COUNT * size;
    to = b + 17 + FOLD_COUNT * size;
    for (size_t i = 0; i < FOLD_COUNT; i++) {
        reference_input(type, op, 0, i, a + i * size);
        reference_input(type, op, 1, i, b + i * size);
    }
    fold(to, a, b, FOLD_COUNT);
    fold(a, a, b, FOLD_COUNT);
    for (size_t i = 0; i < FOLD_COUNT; i++) {
        reference_result(type, op, 2, i, expected);
        if (!reference_equal(type, expected, to + i * size) ||
            !reference_equal(type, expected, a + i * size)) {
            fail_msg("%s %s: element %zu is wrong", gpuring_type_info(type)->name,
                     gpuring_op_info(op)->name, i);
        }
    }
    free(memory);
}

TEST(test_folds)
{
    int tables = 0;

    for (unsigned set = 0; set < 3; set++) {
        const gpuring_fold_table *table = gpuring_fold_table_get(set);

        for (uint32_t type = 0; table != NULL && type < GPURING_TYPE_COUNT; type++) {
            for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
                if ((*table)[type][op] != NULL) {
                    fold_check((*table)[type][op], type, op, set + type % 5);
                }
            }
        }
        tables += table != NULL;
    }
    print_message("# %d of 3 instruction sets are on this processor\n", tables);
    assert_true(tables >= 1);
}

/* Products of complex numbers have the same bits with all instruction sets, because no operation is
 * fused. */
TEST(test_complex_products)
{
    enum { COUNT = 1003 };
    double a[2 * COUNT], b[2 * COUNT], first[2 * COUNT], other[2 * COUNT];
    unsigned random = 1;

    for (int i = 0; i < 2 * COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        a[i] = (double) random / 3 - 5e8;
        random = random * 1664525u + 1013904223u;
        b[i] = (double) random / 7 - 2e8;
    }
    gpuring_fold_table_base[GPURING_TYPE_COMPLEX_DOUBLE][GPURING_OP_PROD](first, a, b, COUNT);
    for (unsigned set = 1; set < 3; set++) {
        const gpuring_fold_table *table = gpuring_fold_table_get(set);

        if (table != NULL) {
            (*table)[GPURING_TYPE_COMPLEX_DOUBLE][GPURING_OP_PROD](other, a, b, COUNT);
            assert_memory_equal(first, other, sizeof first);
        }
    }
}

/* The value of a binary16, by its definition. */
static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                    : ldexp(1024 + mantissa, exponent - 25);

    return bits & 0x8000 ? -value : value;
}

/* Compute x op y in binary16 with a search: the nearest value, and of two the one with an even last
 * bit. */
static uint16_t half_nearest(double exact)
{
    uint16_t best = 0;
    double magnitude = fabs(exact);

    if (magnitude >= 65520) {
        best = 0x7c00;
    } else {
        for (uint16_t low = 0, high = 0x7bff; low <= high;) {
            uint16_t middle = (uint16_t) ((low + high) / 2);

            if (half_value(middle) <= magnitude) {
                best = middle;
                low = (uint16_t) (middle + 1);
            } else {
                high = (uint16_t) (middle - 1);
            }
        }
        if (best < 0x7bff) {
            double below = magnitude - half_value(best), above = half_value(best + 1) - magnitude;

            best = (uint16_t) (best + (above < below || (above == below && best % 2 != 0)));
        } else {
            best = magnitude > 65504 + 16 ? 0x7c00 : best;
        }
    }
    return (uint16_t) (best | (signbit(exact) ? 0x8000 : 0));
}

/* Every binary16 is read right (sum with -0 gives itself), and sums are rounded to nearest even. */
TEST(test_float16)
{
    gpuring_fold_fn sum = gpuring_fold_find(GPURING_TYPE_FLOAT16, GPURING_OP_SUM);
    gpuring_fold_fn prod = gpuring_fold_find(GPURING_TYPE_FLOAT16, GPURING_OP_PROD);

    for (uint32_t i = 0; i < 0x10000; i++) {
        uint16_t a = (uint16_t) i, b = (uint16_t) (i * 40503u + 77), zero = 0x8000, result;

        sum(&result, &a, &zero, 1);
        if (isnan(half_value(a))) {
            assert_true(isnan(half_value(result)));
            continue;
        }
        assert_int_equal(result, a);
        if (isfinite(half_value(a)) && isfinite(half_value(b))) {
            double exact = half_value(a) + half_value(b);

            sum(&result, &a, &b, 1);
            assert_int_equal(result, exact == 0 ? result & 0x8000 : half_nearest(exact));
            prod(&result, &a, &b, 1);
            assert_int_equal(result, half_nearest(half_value(a) * half_value(b)));
        }
    }
}

TEST(test_bfloat16)
{
    gpuring_fold_fn sum = gpuring_fold_find(GPURING_TYPE_BFLOAT16, GPURING_OP_SUM);
    static const struct {
        uint16_t a, b, sum;
    } cases[] = {
        {0x3f80, 0x3f80, 0x4000}, /* 1 + 1 = 2 */
        {0x3f80, 0x3b80, 0x3f80}, /* 1 + 2^-8: half way, to even */
        {0x3f81, 0x3b80, 0x3f82}, /* half way, to even: up */
        {0x3f80, 0x3b81, 0x3f81}, /* above half way */
        {0x7f7f, 0x7f7f, 0x7f80}, /* infinity */
        {0x7f80, 0xff80, 0x7fc0}, /* inf - inf: NaN (sign does not matter) */
        {0x0001, 0x0001, 0x0002}, /* subnormal */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t result;

        sum(&result, &cases[i].a, &cases[i].b, 1);
        assert_int_equal(cases[i].sum == 0x7fc0 ? result & 0x7fc0 : result, cases[i].sum);
    }
}

/* There is a kernel for each reduction that a GPU folds and
 * for nothing else, and the component's list and the kernels' list are equal. */
TEST(test_kernel_names)
{
#define CODE(op, representation, ...) KERNELS_CODE(GPURING_OP_##op, KERNELS_##representation),
#define ROW(type, words, ordered)     [GPURING_TYPE_##type] = {KERNELS_##words, KERNELS_##ordered},
    static const uint32_t codes[] = {KERNELS_REDUCTIONS(CODE)};
    static const uint32_t rows[GPURING_TYPE_COUNT][2] = {KERNELS_TYPES(ROW)};
    size_t ncodes = sizeof codes / sizeof *codes;
    int *used = calloc(ncodes, sizeof *used);

    assert_non_null(used);
    for (uint32_t type = 0; type < GPURING_TYPE_COUNT; type++) {
        for (uint32_t op = 0; op < GPURING_OP_COUNT; op++) {
            const char *name = gpuring_kernel_name(type, op, GPURING_PROTOCOL_LL);
            uint32_t code = KERNELS_CODE(op, rows[type][KERNELS_ORDERED(op)]);
            size_t at = 0;

            assert_int_equal(name != NULL,
                             gpuring_op_allows(op, type) && gpuring_type_info(type)->device);
            while (name != NULL && at < ncodes && codes[at] != code) {
                at++;
            }
            assert_true(at < ncodes);
            used[at] |= name != NULL;
        }
    }
    for (size_t i = 0; i < ncodes; i++) {
        assert_true(used[i]);
    }
    assert_string_equal(gpuring_kernel_name(GPURING_TYPE_FLOAT, GPURING_OP_SUM, 0),
                        "gpuring_simple_sum_f32");
    assert_string_equal(gpuring_kernel_name(GPURING_TYPE_INT32, GPURING_OP_SUM, 0),
                        "gpuring_simple_sum_u32");
    assert_string_equal(gpuring_kernel_name(GPURING_TYPE_INT32, GPURING_OP_MAX, 0),
                        "gpuring_simple_any_8");
    assert_string_equal(gpuring_kernel_name(GPURING_TYPE_DOUBLE_INT, GPURING_OP_MAXLOC, 0),
                        "gpuring_simple_any_16");
    assert_null(gpuring_kernel_name(GPURING_TYPE_FLOAT, GPURING_OP_SUM, GPURING_PROTOCOL_COUNT));
    free(used);
}

/* Test every length around that of the vectors, and pieces of 8 KiB, from any address. No other
 * bytes may be written.
 */
TEST(test_copies)
{
    static uint8_t from[20000], to[20000] __attribute__((aligned(16)));
    static void (*const copies[])(void *, const void *, size_t) = {
        gpuring_copy, gpuring_copy_to_slot, gpuring_copy_stream};

    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t) (i * 7 + i / 256);
    }
    for (size_t n = 0; n < 19000; n += n < 300 || (n > 990 && n < 1300) ? 1 : 37) {
        size_t shift = n % 19, at = 16 * (n % 5);

        for (int c = 0; c < 3; c++) {
            memset(to, 0xee, sizeof to);
            copies[c](to + at, from + shift, n);
            gpuring_copy_stream_end();
            assert_memory_equal(to + at, from + shift, n);
            assert_true((at == 0 || to[at - 1] == 0xee) && to[at + n] == 0xee);
        }
    }
}
