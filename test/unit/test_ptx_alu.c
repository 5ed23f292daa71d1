/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Compare the arithmetic of the stand-in driver's PTX interpreter with C. */
#include "test/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "test/unit/ptx_kernel.h"

/* Values at the edges, and others. */
static uint64_t value_of(uint32_t i)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     7,
                                     31,
                                     32,
                                     63,
                                     64,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff,
                                     0x8000};

    return i < sizeof edges / sizeof *edges ? edges[i]
                                            : (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ i << 13;
}

static float f32(uint64_t bits)
{
    uint32_t low = (uint32_t) bits;
    float value;

    memcpy(&value, &low, sizeof value);
    return value;
}

static uint64_t f32_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fffffff : bits;
}

static double f64(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t f64_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#define S8(x)  (uint64_t)(int8_t)(x)
#define S32(x) (int32_t)(x)
#define S64(x) (int64_t)(x)
#define U32(x) (uint32_t)(x)
#define U16(x) (uint16_t)(x)

/* X(instruction, expected result of a and b): %rd5 and %rd6 are a and b. %r5 and %r6, %rs5 and
 * %rs6, %f5 and %f6, %fd5 and %fd6 are their lower bits. The result is in register 7 of the same
 * kind. */
#define WIDE(X)                                                                    \
    X("add.s64 %rd7, %rd5, %rd6", a + b)                                           \
    X("sub.s64 %rd7, %rd5, %rd6", a - b)                                           \
    X("mul.lo.s64 %rd7, %rd5, %rd6", a *b)                                         \
    X("mul.hi.u64 %rd7, %rd5, %rd6", (unsigned __int128) a *b >> 64)               \
    X("mul.wide.u32 %rd7, %r5, %r6", (uint64_t) U32(a) * U32(b))                   \
    X("mul.wide.s32 %rd7, %r5, %r6", (int64_t) S32(a) * S32(b))                    \
    X("min.u64 %rd7, %rd5, %rd6", a < b ? a : b)                                   \
    X("max.s64 %rd7, %rd5, %rd6", S64(a) > S64(b) ? a : b)                         \
    X("and.b64 %rd7, %rd5, -4294967296", a & 0xffffffff00000000)                   \
    X("or.b64 %rd7, %rd5, %rd6", a | b)                                            \
    X("xor.b64 %rd7, %rd5, %rd6", a ^ b)                                           \
    X("not.b64 %rd7, %rd5", ~a)                                                    \
    X("shl.b64 %rd7, %rd5, %r6", U32(b) > 63 ? 0 : a << U32(b))                    \
    X("shr.u64 %rd7, %rd5, %r6", U32(b) > 63 ? 0 : a >> U32(b))                    \
    X("shr.s64 %rd7, %rd5, %r6", S64(a) >> (U32(b) > 63 ? 63 : U32(b)))            \
    X("bfi.b64 %rd7, %rd5, %rd6, 32, 32", a << 32 | U32(b))                        \
    X("bfi.b64 %rd7, %rd5, %rd6, 60, 8", a << 60 | (b & 0x0fffffffffffffff))       \
    X("mad.lo.s64 %rd7, %rd5, %rd6, 17", a *b + 17)                                \
    X("neg.s64 %rd7, %rd5", -a)                                                    \
    X("bfe.s64 %rd7, %rd5, 16, 8", S8(a >> 16))                                    \
    X("bfe.s64 %rd7, %rd5, 56, 8", S8(a >> 56))                                    \
    X("bfe.u64 %rd7, %rd5, 60, 8", a >> 60)                                        \
    X("bfe.s64 %rd7, %rd5, 60, 8", S64(a) >> 60)                                   \
    X("bfe.s64 %rd7, %rd5, 8, 0", 0)                                               \
    X("mov.b64 %rd7, {%r5, %r6}", U32(a) | b << 32)                                \
    X("cvt.u64.u32 %rd7, %r5", U32(a))                                             \
    X("cvt.s64.s32 %rd7, %r5", S32(a))                                             \
    X("cvt.u64.u16 %rd7, %rs5", U16(a))                                            \
    X("setp.lt.u64 %p1, %rd5, %rd6; selp.b64 %rd7, %rd5, 9, %p1", a < b ? a : 9)   \
    X("setp.gt.s64 %p1, %rd5, %rd6; selp.u64 %rd7, 1, 0, %p1", S64(a) > S64(b))    \
    X("setp.ne.s64 %p1, %rd6, 0; mov.u64 %rd7, 5; @%p1 div.u64 %rd7, %rd5, %rd6",  \
      b != 0 ? a / b : 5)                                                          \
    X("setp.eq.s64 %p1, %rd6, 0; mov.u64 %rd7, 5; @!%p1 rem.u64 %rd7, %rd5, %rd6", \
      b != 0 ? a % b : 5)                                                          \
    X("setp.lt.f64 %p1, %fd5, %fd6; selp.u64 %rd7, 1, 0, %p1", f64(a) < f64(b))    \
    X("ld.s8 %rd7, [%rd0]", S8(a))                                                 \
    X("ld.u16 %rd7, [%rd0+4]", U16(a >> 32))                                       \
    X("ld.v2.u32 {%r7, %r8}, [%rd0]; mov.b64 %rd7, {%r8, %r7}", a >> 32 | a << 32)
#define NARROW(X)                                                                               \
    X("add.s32 %r7, %r5, %r6", U32(a + b))                                                      \
    X("sub.s32 %r7, %r5, 77", U32(a - 77))                                                      \
    X("mul.lo.s32 %r7, %r5, %r6", U32(a *b))                                                    \
    X("max.u32 %r7, %r5, %r6", U32(a) > U32(b) ? U32(a) : U32(b))                               \
    X("min.s32 %r7, %r5, %r6", U32(S32(a) < S32(b) ? a : b))                                    \
    X("shl.b32 %r7, %r5, %r6", U32(b) > 31 ? 0 : U32(a << U32(b)))                              \
    X("shr.u32 %r7, %r5, %r6", U32(b) > 31 ? 0 : U32(a) >> U32(b))                              \
    X("shr.s32 %r7, %r5, %r6", U32(S32(a) >> (U32(b) > 31 ? 31 : U32(b))))                      \
    X("not.b32 %r7, %r5", U32(~a))                                                              \
    X("mov.b64 {%r8, %r7}, %rd5", U32(a >> 32))                                                 \
    X("mov.b32 %r7, {%rs5, %rs6}", U16(a) | (uint32_t) U16(b) << 16)                            \
    X("mad.lo.s32 %r7, %r5, %r6, %r5", U32(a *b + a))                                           \
    X("bfe.s32 %r7, %r5, 4, 12", U32(S32(a << 16) >> 20))                                       \
    X("popc.b64 %r7, %rd5", __builtin_popcountll(a))                                            \
    X("popc.b32 %r7, %r5", __builtin_popcount(U32(a)))                                          \
    X("prmt.b32 %r7, %r5, %r6, 0x3340U",                                                        \
      U32((a & 0xff) | (b & 0xff) << 8 | (a >> 24 & 0xff) * 0x1010000))                         \
    X("prmt.b32 %r7, %r5, %r6, 0xb", (a >> 31 & 1) * 0xff | (a & 0xff) * 0x1010100)             \
    X("cvt.s8.s64 %rs7, %rd5; cvt.u32.u16 %r7, %rs7", U16(S8(a)))                               \
    X("shr.s16 %rs7, %rs5, 3; cvt.u32.u16 %r7, %rs7", U16((int16_t) a >> 3))                    \
    X("cvt.u32.u64 %r7, %rd5", U32(a))                                                          \
    X("cvt.u32.u16 %r7, %rs5", U16(a))                                                          \
    X("cvt.s16.s8 %rs7, %rs5; cvt.u32.u16 %r7, %rs7", U16(S8(a)))                               \
    X("add.s16 %rs7, %rs5, %rs6; cvt.u32.u16 %r7, %rs7", U16(a + b))                            \
    X("setp.lt.s16 %p1, %rs5, %rs6; selp.u32 %r7, 1, 0, %p1", (int16_t) a < (int16_t) b)        \
    X("setp.ge.u32 %p1, %r5, %r6; not.pred %p2, %p1; selp.b32 %r7, 1, 0, %p2", U32(a) < U32(b)) \
    X("setp.eq.b32 %p1, %r5, 1; mov.pred %p2, 0; xor.pred %p3, %p1, %p2; "                      \
      "selp.u32 %r7, 1, 0, %p3",                                                                \
      U32(a) == 1)
#define SINGLES(X)                                           \
    X("add.rn.f32 %f7, %f5, %f6", f32_bits(f32(a) + f32(b))) \
    X("sub.rn.f32 %f7, %f5, %f6", f32_bits(f32(a) - f32(b))) \
    X("mul.rn.f32 %f7, %f5, %f6", f32_bits(f32(a) * f32(b))) \
    X("setp.gt.f32 %p1, %f5, %f6; selp.f32 %f7, %f5, %f6, %p1", U32(f32(a) > f32(b) ? a : b))
#define DOUBLES(X)                                              \
    X("add.rn.f64 %fd7, %fd5, %fd6", f64_bits(f64(a) + f64(b))) \
    X("sub.rn.f64 %fd7, %fd5, %fd6", f64_bits(f64(a) - f64(b))) \
    X("mul.rn.f64 %fd7, %fd5, %fd6", f64_bits(f64(a) * f64(b)))

#define TEXT(text, expression)   text,
#define EXPECT(text, expression) (uint64_t)(expression),

static void check_one(const char *text, const char *result, size_t place,
                      const uint64_t (*expected)[PTX_TEST_WORDS])
{
    char body[1000];

    snprintf(body, sizeof body,
             "ld.u64 %%rd5, [%%rd0]; ld.u64 %%rd6, [%%rd1];\n"
             "cvt.u32.u64 %%r5, %%rd5; cvt.u32.u64 %%r6, %%rd6;\n"
             "cvt.u16.u64 %%rs5, %%rd5; cvt.u16.u64 %%rs6, %%rd6;\n"
             "ld.f32 %%f5, [%%rd0]; ld.f32 %%f6, [%%rd1];\n"
             "ld.f64 %%fd5, [%%rd0]; ld.f64 %%fd6, [%%rd1];\n"
             "%s;\n%s",
             text, result);
    ptx_run_well("", body);
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        uint64_t is = ptx_memory.out[i], wanted = expected[place][i];
        bool nan = strstr(text, ".f64 %fd7") != NULL && f64(wanted) != f64(wanted);

        if (nan ? f64(is) == f64(is) : is != wanted) {
            fail_msg("%s: of 0x%" PRIx64 " and 0x%" PRIx64 " it makes 0x%" PRIx64
                     ", not 0x%" PRIx64,
                     text, ptx_memory.a[i], ptx_memory.b[i], is, wanted);
        }
    }
}

#define CHECK_ALL(LIST, result)                                                                 \
    do {                                                                                        \
        static const char *const texts[] = {LIST(TEXT)};                                        \
        static uint64_t expected[sizeof texts / sizeof *texts][PTX_TEST_WORDS];                 \
                                                                                                \
        for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {                                       \
            const uint64_t a = ptx_memory.a[i], b = ptx_memory.b[i], of_one[] = {LIST(EXPECT)}; \
                                                                                                \
            for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {                         \
                expected[k][i] = of_one[k];                                                     \
            }                                                                                   \
        }                                                                                       \
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {                             \
            check_one(texts[k], result, k, (const uint64_t(*)[PTX_TEST_WORDS]) expected);       \
        }                                                                                       \
    } while (0)

TEST(test_arithmetic)
{
    for (uint32_t shift = 0; shift < 4; shift++) {
        for (uint32_t i = 0; i < PTX_TEST_WORDS; i++) {
            ptx_memory.a[i] = value_of(i / 4);
            ptx_memory.b[i] = value_of((i * 5 + shift * 7) % 48);
        }
        CHECK_ALL(WIDE, "st.u64 [%rd2], %rd7;");
        CHECK_ALL(NARROW, "cvt.u64.u32 %rd7, %r7; st.u64 [%rd2], %rd7;");
        CHECK_ALL(SINGLES, "st.f32 [%rd2], %f7;");
        CHECK_ALL(DOUBLES, "st.f64 [%rd2], %fd7;");
    }
}

/* Sums, products, minima and maxima of pairs, computed by hand. */
TEST(test_halves)
{
    static const struct {
        const char *op;
        uint32_t a, b, result;
    } cases[] = {
        {"add.rn.f16x2", 0x3c003c00, 0x3c003c00, 0x40004000},  /* 1 + 1 */
        {"add.rn.f16x2", 0x7bff7bff, 0x4c004bff, 0x7c007bff},  /* 65504 + 16, + 15.99 */
        {"add.rn.f16x2", 0x3c003c01, 0x10001000, 0x3c003c02},  /* half a unit: to even */
        {"add.rn.f16x2", 0x00010001, 0x00018001, 0x00020000},  /* the least ones */
        {"add.rn.f16x2", 0x03ff0400, 0x00018001, 0x040003ff},  /* around the least normal one */
        {"add.rn.f16x2", 0x7c007c00, 0xfc003c00, 0x7fff7c00},  /* infinities */
        {"mul.rn.f16x2", 0x04000400, 0x38003400, 0x02000100},  /* to less than normal */
        {"mul.rn.f16x2", 0x00010003, 0x38003800, 0x00000002},  /* 0.5 and 1.5 units: to even */
        {"mul.rn.f16x2", 0xc0003e00, 0x42003e00, 0xc6004080},  /* -2 * 3, 1.5 * 1.5 */
        {"min.f16x2", 0x7e003c00, 0xc000bc00, 0xc000bc00},     /* a NaN and a number */
        {"max.f16x2", 0x80003c00, 0x0000bc00, 0x00003c00},     /* -0 and 0 */
        {"max.f16x2", 0x7e003c00, 0x7e007e00, 0x7fff3c00},     /* two NaN */
        {"add.rn.bf16x2", 0x3f803f80, 0x3f803b80, 0x40003f80}, /* 1 + 1, 1 + 2^-8: to even */
        {"add.rn.bf16x2", 0x3f817f7f, 0x3b807f7f, 0x3f827f80},
        {"mul.rn.bf16x2", 0x40003fc0, 0x40403fc0, 0x40c04010},
        {"min.bf16x2", 0x3f807fc0, 0xbf803f80, 0xbf803f80},
        {"max.bf16x2", 0x3f807fc0, 0xbf807fc0, 0x3f807fff},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[300];

        for (uint32_t t = 0; t < PTX_TEST_THREADS; t++) {
            ptx_memory.a[t] = cases[i].a;
            ptx_memory.b[t] = cases[i].b;
        }
        snprintf(body, sizeof body,
                 "ld.u32 %%r5, [%%rd0]; ld.u32 %%r6, [%%rd1]; {%s %%r7, %%r5, %%r6; }\n"
                 "cvt.u64.u32 %%rd7, %%r7; st.u64 [%%rd2], %%rd7;",
                 cases[i].op);
        ptx_run_well("", body);
        if (ptx_memory.out[PTX_TEST_THREADS - 1] != cases[i].result) {
            fail_msg("%s of 0x%08x and 0x%08x is 0x%08x, not 0x%08x", cases[i].op, cases[i].a,
                     cases[i].b, (unsigned) ptx_memory.out[PTX_TEST_THREADS - 1], cases[i].result);
        }
    }
}
