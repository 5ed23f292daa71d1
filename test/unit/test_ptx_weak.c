/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The modelled memory of the interpreter: small programs of two blocks with results that PTX allows
 * or forbids. No seed may give a forbidden result. Some seed must give each allowed one, because
 * otherwise a missing fence in our kernels would not be detected.
 */
#include "test/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/ptx_kernel.h"

#define SEEDS 100

/* Numbers of runs that ended with an error, or with a value other than 7 in a thread of the second
 * grid. */
struct found {
    unsigned errors, wrong;
};

static struct found run_seeds(const char *body, bool one_gpu, bool ascending)
{
    struct found found = {0, 0};

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct ptx_pair pair = {.seed = seed, .one_gpu = one_gpu, .ascending = ascending};
        enum ptx_error error = ptx_run_pair(ptx_module_of("", body), &pair);
        bool wrong = false;

        if (error != PTX_OK && error != PTX_ORDER) {
            fail_msg("seed %" PRIu64 ": %s", seed, ptx_fault_told.text);
        }
        for (int i = 0; error == PTX_OK && i < 32; i++) {
            wrong = wrong || (ptx_memory.out[i] != 7 && ptx_memory.out[i] != 0);
        }
        found.errors += error != PTX_OK;
        found.wrong += wrong;
    }
    return found;
}

static void expect_right(const char *body, bool one_gpu)
{
    struct found found = run_seeds(body, one_gpu, true);

    if (found.errors != 0 || found.wrong != 0) {
        fail_msg("%u errors, the last one \"%s\", and %u wrong values: %s", found.errors,
                 ptx_fault_told.text, found.wrong, body);
    }
}

/* An ordinary access is not ordered; the message names both. */
static void expect_error(const char *body, bool one_gpu)
{
    struct found found = run_seeds(body, one_gpu, true);

    if (found.errors == 0 || found.wrong != 0) {
        fail_msg("%u errors, %u wrong values: %s", found.errors, found.wrong, body);
    }
}

/* Thread 0 of the first grid writes, and thread 0 of the second grid reads. */
#define WRITER(does)                                                                               \
    "setp.ne.s32 %p1, %r0, 0; @%p1 bra $end; ld.param.u64 %rd6, [pb]; setp.ne.s64 %p2, %rd6, 0;\n" \
    "@%p2 bra $takes;\n" does "\nbra.uni $end;\n$takes:\n"
#define TAKER(looks, reads) \
    "$again:\n" looks " setp.eq.s64 %p3, %rd7, 0; @%p3 bra $again;\n" reads "\n$end:\nbar.sync 0;"
#define DATA  "st.global.u64 [%rd0+64], 7;\n"
#define READS "ld.global.u64 %rd8, [%rd0+64]; st.global.u64 [%rd2], %rd8;"

/* Send ordinary data with a flag, using a fence and an acquire of sufficient scope. */
TEST(test_messages)
{

    expect_right(WRITER(DATA "fence.acq_rel.sys; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_right(WRITER(DATA "st.release.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_right(WRITER(DATA "fence.acq_rel.gpu; st.relaxed.gpu.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.gpu.global.u64 %rd7, [%rd0];", READS),
                 true);
    expect_error(WRITER(DATA "st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_error(WRITER(DATA "fence.acq_rel.gpu; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_error(WRITER(DATA "fence.acq_rel.sys; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.relaxed.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_error(WRITER(DATA "fence.acq_rel.sys; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.gpu.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_error(WRITER(DATA "fence.acq_rel.sys; st.relaxed.gpu.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 false);
    expect_error(WRITER(DATA "fence.acq_rel.cta; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", READS),
                 true);
    assert_non_null(strstr(ptx_fault_told.text, "reads 0x"));
    assert_non_null(strstr(ptx_fault_told.text, "k, PTX line"));
}

/* A slot is written again once it has been given back. */
TEST(test_credits)
{
    expect_right(WRITER("ld.global.u64 %rd8, [%rd0+64]; fence.acq_rel.sys;\n"
                        "st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", DATA),
                 false);
    expect_error(WRITER("ld.global.u64 %rd8, [%rd0+64]; st.relaxed.sys.global.u64 [%rd0], 1;")
                     TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", DATA),
                 false);
}

/* Two strong stores: the second one may become visible before the first one unless a fence or a
 * release is between them. The reader may read an old value unless the load that found the flag is
 * an acquire. */
TEST(test_strong_words)
{
    expect_right(
        WRITER("st.relaxed.sys.global.u64 [%rd0+64], 6; fence.acq_rel.sys;\n"
               "st.relaxed.sys.global.u64 [%rd0+64], 7; fence.acq_rel.sys;\n"
               "st.relaxed.sys.global.u64 [%rd0], 1;")
            TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];",
                  "ld.relaxed.sys.global.u64 %rd8, [%rd0+64]; st.global.u64 [%rd2], %rd8;"),
        false);
    assert_true(run_seeds(WRITER("st.relaxed.sys.global.u64 [%rd0+64], 6; fence.acq_rel.sys;\n"
                                 "st.relaxed.sys.global.u64 [%rd0+64], 7;\n"
                                 "st.relaxed.sys.global.u64 [%rd0], 1;")
                              TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];",
                                    "ld.relaxed.sys.global.u64 %rd8, [%rd0+64];"
                                    " st.global.u64 [%rd2], %rd8;"),
                          false, true)
                    .wrong > 0);
    assert_true(run_seeds(WRITER("st.relaxed.sys.global.u64 [%rd0+64], 6; fence.acq_rel.sys;\n"
                                 "st.relaxed.sys.global.u64 [%rd0+64], 7; fence.acq_rel.sys;\n"
                                 "st.relaxed.sys.global.u64 [%rd0], 1;")
                              TAKER("ld.relaxed.sys.global.u64 %rd7, [%rd0];",
                                    "ld.relaxed.sys.global.u64 %rd8, [%rd0+64];"
                                    " st.global.u64 [%rd2], %rd8;"),
                          false, true)
                    .wrong > 0);
}

/* A load may be performed after a later store of its thread, unless the store depends on its value
 * or is ordered after it. The second grid stores 6 once it has seen the later store. */
#define LATE(between)                                                               \
    WRITER("ld.volatile.global.u64 %rd8, [%rd0+64]; mov.u64 %rd9, 1;\n" between     \
           "\nst.relaxed.sys.global.u64 [%rd0], %rd9; st.global.u64 [%rd2], %rd8;") \
    TAKER("ld.acquire.sys.global.u64 %rd7, [%rd0];", "st.relaxed.sys.global.u64 [%rd0+64], 6;")

TEST(test_late_loads)
{
    static const char late[] = LATE(""), fence[] = LATE("fence.acq_rel.sys;"),
                      value[] = LATE("and.b64 %rd9, %rd8, 0; or.b64 %rd9, %rd9, 1;"),
                      branch[] = LATE("setp.ne.s64 %p4, %rd8, 0; @%p4 bra $end;"),
                      same[] = LATE("ld.volatile.global.u64 %rd10, [%rd0+64];");

    (void) state;
    assert_true(run_seeds(late, false, true).wrong > 0);
    expect_right(fence, false);
    expect_right(value, false);
    expect_right(branch, false);
    expect_right(same, false);
}

/* Eight threads store a line of 128 bytes of 7 with the flag 1 over a line of 6. Each thread of the
 * reader loads 16 bytes. */
#define LINES(store, take)                                                             \
    "ld.param.u64 %rd6, [pb]; and.b32 %r5, %r0, 7; setp.eq.s32 %p1, %r5, 7;\n"         \
    "mul.wide.u32 %rd9, %r0, 8; add.s64 %rd0, %rd0, %rd9; setp.ne.s64 %p2, %rd6, 0;\n" \
    "@%p2 bra $takes;\nmov.u64 %rd10, 6; selp.u64 %rd11, 0, %rd10, %p1;\n"             \
    "st.volatile.global.v2.u64 [%rd0], {%rd10, %rd11}; fence.acq_rel.sys;\n"           \
    "mov.u64 %rd10, 7; selp.u64 %rd11, 1, %rd10, %p1;\nbar.warp.sync -1;\n" store      \
    "\nbra.uni $end;\n$takes:\n" take "\nst.global.u64 [%rd2], %rd12;\n$end:\nbar.sync 0;"
#define STORE "st.volatile.global.v2.u64 [%rd0], {%rd10, %rd11};"
/* Repeat a load until all flags have arrived. %rd13 is the upper half of the bytes of each
 * thread. */
#define UNTIL(load)                                                                            \
    "$again:\n" load " setp.eq.s64 %p3, %rd13, 1; not.pred %p4, %p1; or.pred %p3, %p3, %p4;\n" \
    "vote.sync.all.pred %p5, %p3, -1; @!%p5 bra $again;\n"
#define LOAD "ld.volatile.global.v2.u64 {%rd12, %rd13}, [%rd0];"

TEST(test_lines)
{
    /* Use the data of the load that has found the flag; or load the data again. */
    static const char together[] = LINES(STORE, UNTIL(LOAD)),
                      again[] = LINES(STORE, UNTIL(LOAD) LOAD),
                      apart[] = LINES("@!%p1 st.volatile.global.v2.u64 [%rd0], {%rd10, %rd11};\n"
                                      "@%p1 st.volatile.global.v2.u64 [%rd0], {%rd10, %rd11};",
                                      UNTIL(LOAD) LOAD);

    assert_true(run_seeds(together, false, true).wrong > 0);
    expect_right(again, false);
    expect_right(again, true);
    assert_true(run_seeds(apart, false, true).wrong > 0);
    assert_true(run_seeds(again, false, false).wrong > 0); /* in any order, as over PCIe */
}

/* A word of data and flag together, as of LL, is whole. */
TEST(test_whole_words)
{
    static const char text[] = WRITER("mov.u64 %rd10, 4294967303;\n"
                                      "st.volatile.global.v2.u64 [%rd0], {%rd10, %rd10};")
        TAKER("ld.volatile.global.v2.u64 {%rd12, %rd13}, [%rd0]; shr.u64 %rd7, %rd13, 32;",
              "and.b64 %rd8, %rd13, 255; st.global.u64 [%rd2], %rd8;");

    expect_right(text, false);
}
