/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The PTX interpreter of the stand-in driver: instructions that threads run together. Each of its
 * checks is also tested with a text that violates it, because a check that never fails proves
 * nothing.
 */
#include "test/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/ptx_kernel.h"

/* Every thread of a segment of eight gets the value of the last thread, as in the kernels. In a
 * second shuffle, threads arrive from different branches. */
TEST(test_shuffle)
{
    ptx_run_well("", "shfl.sync.idx.b32 %r5|%p1, %r0, 7, 6175, -1;\n"
                     "cvt.u64.u32 %rd7, %r5; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], i | 7);
    }
    ptx_run_well("", "and.b32 %r5, %r0, 1; setp.eq.s32 %p1, %r5, 0; mov.u32 %r6, %r0;\n"
                     "@%p1 bra $there;\n"
                     "add.s32 %r6, %r0, 100;\n"
                     "$there:\n"
                     "xor.b32 %r8, %r0, 1;\n"
                     "shfl.sync.idx.b32 %r7, %r6, %r8, 31, -1;\n"
                     "cvt.u64.u32 %rd7, %r7; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], i % 2 == 0 ? i + 101 : i - 1);
    }
}

TEST(test_vote)
{
    ptx_run_well("", "setp.ne.s32 %p1, %r0, 40; vote.sync.all.pred %p2, %p1, -1;\n"
                     "selp.u64 %rd7, 1, 2, %p2; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], i < 32 ? 1 : 2);
    }
}

/* Threads exchange data through shared memory, and the result of the barrier covers all threads. */
TEST(test_barrier)
{
    /* A parameter whose number is computed. */
    ptx_run_well("", "mov.b64 %rd5, pa; add.s64 %rd5, %rd5, 16; ld.param.u64 %rd6, [%rd5];\n"
                     "mul.wide.u32 %rd5, %r0, 8; add.s64 %rd6, %rd6, %rd5; st.u64 [%rd6], 7;");
    assert_int_equal(ptx_memory.out[PTX_TEST_THREADS - 1], 7);
    ptx_run_well("", "mov.u32 %r5, shared; shl.b32 %r6, %r0, 3; add.s32 %r5, %r5, %r6;\n"
                     "cvt.u64.u32 %rd5, %r0; st.shared.u64 [%r5], %rd5;\n"
                     "bar.sync 0;\n"
                     "add.s32 %r7, %r0, 1; rem.u32 %r7, %r7, 64; shl.b32 %r7, %r7, 3;\n"
                     "mov.u32 %r8, shared; add.s32 %r8, %r8, %r7; ld.shared.u64 %rd6, [%r8];\n"
                     "setp.ne.s64 %p1, %rd6, 33;\n"
                     "{ .reg .pred %p1; .reg .pred %p2; setp.ne.s64 %p1, %rd6, 99;\n"
                     "bar.red.and.pred %p2, 0, %p1; selp.u64 %rd7, 1, 0, %p2; }\n"
                     "bar.red.and.pred %p3, 0, %p1; selp.u64 %rd8, 1, 0, %p3;\n"
                     "shl.b64 %rd7, %rd7, 8; shl.b64 %rd8, %rd8, 9; or.b64 %rd7, %rd7, %rd8;\n"
                     "or.b64 %rd7, %rd7, %rd6; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], 256 + (i + 1) % 64);
    }
}

/* A shared variable of the module belongs to the block, in addition to the variables of the
 * kernel. */
TEST(test_module_variable)
{
    ptx_run_well(".shared .align 8 .u64 common;\n",
                 "setp.ne.s32 %p1, %r0, 33; @!%p1 st.shared.u64 [common], 77;\n"
                 "@!%p1 st.shared.u64 [shared], 88;\nbar.sync 0;\n"
                 "ld.shared.u64 %rd7, [common]; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], 77);
    }
}

static const char function[] =
    ".func (.param .align 8 .b8 result[16]) twice(.param .b32 x, .param .align 8 .b8 y[16])\n"
    "{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"
    "ld.param.u32 %r1, [x]; ld.param.u64 %rd1, [y+8]; cvt.u64.u32 %rd2, %r1;\n"
    "add.s64 %rd1, %rd1, %rd2; st.param.v2.b64 [result], {%rd1, %rd2};\nret;\n}\n";
#define CALL(number, wide)                                               \
    "{\n.param .b32 p0; st.param.b32 [p0+0], " number ";\n"              \
    ".param .align 8 .b8 p1[16]; st.param.v2.b64 [p1], {" wide ", " wide \
    "};\n.param .align 8 .b8 r[16];\n"                                   \
    "call.uni (r), twice, (p0, p1);\n"                                   \
    "ld.param.b64 %rd5, [r]; ld.param.b64 %rd6, [r+8];\n}\n"

/* Call a function from two places, which depend on the number of the thread. */
TEST(test_call)
{
    ptx_run_well(
        function,
        "cvt.u64.u32 %rd8, %r0; setp.gt.u32 %p1, %r0, 20; @%p1 bra $other;\n" CALL(
            "%r0", "%rd8") "bra.uni $end;\n$other:\n" CALL("1000",
                                                           "%rd8") "$end:\nadd.s64 %rd7, %rd5, "
                                                                   "%rd6; st.u64 [%rd2], %rd7;");
    for (uint32_t i = 0; i < PTX_TEST_THREADS; i++) {
        assert_int_equal(ptx_memory.out[i], i > 20 ? 2000 + i : 3 * i);
    }
}

/* A thread waits for another thread of its warp with a lower program counter, because each thread
 * has a separate one. */
TEST(test_waiting)
{
    ptx_run_well("", "setp.ne.s32 %p1, %r0, 5; @%p1 bra $wait;\n"
                     "st.volatile.global.u64 [%rd3], 1;\nbra.uni $end;\n"
                     "$wait:\nld.volatile.global.u64 %rd5, [%rd3]; setp.eq.s64 %p2, %rd5, 0;\n"
                     "@%p2 bra $wait;\n$end:\nbar.sync 0;");
    assert_int_equal(ptx_memory.out[0], 1);
    ptx_run_well("", "setp.eq.s32 %p1, %r0, 5; @%p1 bra $write;\n"
                     "$wait:\nld.acquire.sys.global.u64 %rd5, [%rd3]; setp.eq.s64 %p2, %rd5, 0;\n"
                     "@%p2 bra $wait;\nbra.uni $end;\n"
                     "$write:\nst.release.sys.global.u64 [%rd3], 1;\n$end:\nbar.sync 0;");
}

TEST(test_order)
{
    /* The first thread takes a number. The clock counts the instructions before it. */
    static const char body[] = "mov.u64 %rd5, %globaltimer; st.u64 [%rd2], %rd5;";
    uint64_t first[PTX_TEST_THREADS];

    assert_int_equal(ptx_run_grid(ptx_module_of("", body), 1, PTX_TEST_THREADS, 7), PTX_OK);
    memcpy(first, ptx_memory.out, sizeof first);
    assert_int_equal(ptx_run_grid(ptx_module_of("", body), 1, PTX_TEST_THREADS, 7), PTX_OK);
    assert_memory_equal(ptx_memory.out, first, sizeof first);
    for (uint64_t seed = 8; memcmp(ptx_memory.out, first, sizeof first) == 0; seed++) {
        assert_true(seed < 100);
        assert_int_equal(ptx_run_grid(ptx_module_of("", body), 1, PTX_TEST_THREADS, seed), PTX_OK);
    }
}

TEST(test_alignment)
{
    ptx_run_badly("ld.v2.u64 {%rd5, %rd6}, [%rd3+8];", PTX_MISALIGNED, "reads 16 bytes");
    ptx_run_badly("setp.eq.s32 %p1, %r0, 37; mov.u64 %rd5, 0; @%p1 mov.u64 %rd5, 2;\n"
                  "add.s64 %rd5, %rd5, %rd3; ld.volatile.u32 %r5, [%rd5];",
                  PTX_MISALIGNED, "thread 37 reads 4 bytes");
    ptx_run_badly("st.shared.u16 [shared+1], 1;", PTX_MISALIGNED, "writes 2 bytes");
}

TEST(test_addresses)
{
    ptx_run_badly("ld.u64 %rd5, [%rd3+2048];", PTX_ADDRESS, "does not reach");
    ptx_run_badly("mov.u64 %rd5, 0; st.global.u8 [%rd5], 1;", PTX_ADDRESS,
                  "writes 1 bytes at 0x0,");
    ptx_run_badly("st.shared.u64 [shared+512], 1;", PTX_ADDRESS, "no variable is there");
    ptx_run_badly("mov.u32 %r5, 0; ld.shared.u64 %rd5, [%r5];", PTX_ADDRESS, "of shared memory");
    ptx_run_badly("mov.b64 %rd5, pb; ld.param.u64 %rd6, [%rd5+16];", PTX_ADDRESS,
                  "24 of the kernel's parameters");
}

TEST(test_barriers)
{
    ptx_run_badly("setp.eq.s32 %p1, %r0, 50; @%p1 bra $end;\nbar.sync 0;\n$end:", PTX_BARRIER,
                  "barrier");
    ptx_run_badly("setp.eq.s32 %p1, %r0, 3; @%p1 bra $other;\nbar.sync 0;\nbra.uni $end;\n"
                  "$other:\nbar.sync 0;\n$end:",
                  PTX_BARRIER, "while other threads wait at that of line");
    ptx_run_badly("setp.eq.s32 %p1, %r0, 3; @%p1 bra $end;\n"
                  "vote.sync.all.pred %p2, 1, -1;\n$end:\nbar.sync 0;",
                  PTX_SYNC, "lanes that never come");
}

/* The second warp produces data, and the first warp consumes it after a barrier at which only the
 * first warp waits. The same in the other direction. */
#define PRODUCER(arrive, sync)                                             \
    "and.b32 %r5, %r0, 31; shl.b32 %r5, %r5, 3; mov.u32 %r6, shared;\n"    \
    "add.s32 %r5, %r5, %r6; setp.lt.u32 %p1, %r0, 32; @!%p1 bra $first;\n" \
    "st.shared.u64 [%r5], 4;\n$first:\nbar.sync 0; @%p1 bra $takes;\n"     \
    "st.shared.u64 [%r5], 5;\n" arrive "\n"                                \
    "bar.sync 2, 64; st.shared.u64 [%r5], 6;\nbra.uni $end;\n"             \
    "$takes:\nmov.u32 %r7, 1;\n" sync "\n"                                 \
    "ld.shared.u64 %rd5, [%r5+0];\nst.u64 [%rd2], %rd5; bar.arrive 2, 64;\n$end:\n"

TEST(test_named_barriers)
{
    ptx_run_well("", PRODUCER("bar.arrive 1, 64;", "bar.sync %r7, 64;"));
    assert_int_equal(ptx_memory.out[31], 5);
    ptx_run_badly(PRODUCER("", ""), PTX_RACE, "since the last barrier");
    ptx_run_badly(PRODUCER("bar.sync 1, 64;", "bar.arrive %r7, 64;"), PTX_RACE,
                  "since the last barrier");
    ptx_run_badly(PRODUCER("bar.arrive 1, 64;", "bar.sync %r7, 48;"), PTX_BARRIER,
                  "for 48 threads");
    ptx_run_badly(PRODUCER("bar.arrive 1, 64; bar.arrive 1, 64;", "bar.sync %r7, 64;"), PTX_BARRIER,
                  "barrier");
    ptx_run_badly("setp.ge.u32 %p1, %r0, 32; @%p1 bra $end;\nbar.arrive 3, 64;\n$end:\n",
                  PTX_BARRIER, "barrier");
    ptx_run_badly("mov.u32 %r7, 16; bar.sync %r7, 64;", PTX_BARRIER, "names barrier 16");
}

/* All threads of the first warp read a word, and then it writes the word. The second warp has
 * already arrived at the barrier in between, so it must no longer read this word, but may read
 * others. */
#define MANY_READERS(reads)                                          \
    "setp.ge.u32 %p1, %r0, 32; @!%p1 bra $all;\nbar.arrive 1, 64;\n" \
    "$all:\nbar.sync 0; @%p1 bra $second;\n"                         \
    "ld.u64 %rd5, [%rd3]; bar.sync 1, 64; st.u64 [%rd2], 7;\n"       \
    "bra.uni $end;\n$second:\n" reads "\n$end:\nbar.sync 0;\n"

TEST(test_many_readers)
{
    ptx_run_well("", MANY_READERS(""));
    assert_int_equal(ptx_memory.out[31], 7);
    ptx_run_well("", MANY_READERS("ld.u64 %rd5, [%rd0];"));
    ptx_run_badly(MANY_READERS("ld.u64 %rd5, [%rd3];"), PTX_RACE, "since the last barrier");
}

TEST(test_groups)
{
    ptx_run_badly("setp.eq.s32 %p1, %r0, 9; @%p1 bra $end;\n"
                  "shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;\n$end:",
                  PTX_SYNC, "lanes that never come");
    ptx_run_badly("and.b32 %r5, %r0, 31; setp.eq.s32 %p1, %r5, 9; @%p1 bra $other;\n"
                  "shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;\nbra.uni $end;\n"
                  "$other:\nshfl.sync.idx.b32 %r5, %r0, 0, 31, -1;\n$end:",
                  PTX_SYNC, "lanes that never come");
    ptx_run_badly("shfl.sync.idx.b32 %r5, %r0, 0, 31, 255;", PTX_SYNC, "names other lanes");
    ptx_run_badly("and.b32 %r5, %r0, 16; setp.ne.s32 %p1, %r5, 0; @%p1 bra $end;\n"
                  "shfl.sync.idx.b32 %r5, %r0, 20, 31, 65535;\n$end:",
                  PTX_SYNC, "takes from lane 20, which does not take part");
}

TEST(test_unwritten)
{
    ptx_run_badly("add.s64 %rd7, %rd5, 1;", PTX_UNWRITTEN, "reads a register");
    ptx_run_badly("setp.eq.s32 %p1, %r0, 33; @!%p1 mov.u64 %rd5, 1;\nst.u64 [%rd2], %rd5;",
                  PTX_UNWRITTEN, "thread 33 reads a register");
    ptx_run_badly("@%p5 mov.u64 %rd5, 1;", PTX_UNWRITTEN, "reads a register");
    ptx_run_badly("ld.shared.u32 %r5, [shared+8];", PTX_UNWRITTEN, "no thread has written");
}

/* Without its barrier, the exchange of test_barrier is a race in any order of threads. */
TEST(test_races)
{
    ptx_run_badly("mov.u32 %r5, shared; shl.b32 %r6, %r0, 3; add.s32 %r5, %r5, %r6;\n"
                  "st.shared.u64 [%r5], 1; st.shared.u32 [shared+36], 2;",
                  PTX_RACE, "since the last barrier");
    ptx_run_badly("st.u64 [%rd2], 1; ld.u64 %rd5, [%rd3+256];", PTX_RACE, "since the last barrier");
    ptx_run_badly("add.s64 %rd5, %rd3, 64; cvt.u64.u32 %rd6, %r0; add.s64 %rd5, %rd5, %rd6;\n"
                  "st.u8 [%rd5], 1; ld.u32 %r5, [%rd3+100];",
                  PTX_RACE, "since the last barrier");
    /* Accesses to adjacent bytes, and volatile accesses, are no races. */
    ptx_run_well("", "add.s64 %rd5, %rd3, 64; cvt.u64.u32 %rd6, %r0; add.s64 %rd5, %rd5, %rd6;\n"
                     "st.u8 [%rd5], 1; ld.u8 %r5, [%rd5];\n"
                     "st.relaxed.sys.global.u32 [%rd3], 1; ld.volatile.u32 %r6, [%rd3];");
}

TEST(test_limits)
{
    ptx_run_badly("$again:\nbra.uni $again;", PTX_LIMIT, "has run 1000000 instructions");
    ptx_run_badly("mov.u32 %r5, 0; div.u32 %r6, %r0, %r5;", PTX_ARITHMETIC, "divides by zero");
    assert_int_equal(ptx_run_grid(ptx_module_of("", ""), 1, 48, 1), PTX_NO_KERNEL);
    assert_int_equal(ptx_run_grid(ptx_module_of("", ""), 1, 544, 1), PTX_NO_KERNEL);
}

/* Unknown text is refused with its line and word. */
TEST(test_refusals)
{
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"sin.approx.f32 %f1, %f2;", "\"sin.approx.f32\""},
        {"fma.rn.f32 %f1, %f2, %f3, %f4;", "\"fma.rn.f32\""},
        {"add.f32 %f1, %f2, %f3;", "\"add.f32\""},
        {"add.rn.ftz.f32 %f1, %f2, %f3;", "\"add.rn.ftz.f32\""},
        {"ld.global.nc.u64 %rd5, [%rd0];", "\"ld.global.nc.u64\""},
        {"ld.acquire.cluster.global.u64 %rd5, [%rd0];", "\"ld.acquire.cluster.global.u64\""},
        {"fence.acq_rel.cluster;", "\"fence.acq_rel.cluster\""},
        {"ld.v8.u32 {%r1, %r2, %r3, %r4}, [%rd0];", "\"ld.v8.u32\""},
        {"add.s32 %rd5, %r1, %r2;", "\"%rd5\""},
        {"add.s32 %r5, %r1, %r99;", "\"%r99\""},
        {"bra.uni $nowhere;", "\"$nowhere\""},
        {"bar.arrive 1;", "a number of threads"},
        {"membar.sys;", "\"membar.sys\""},
        {"mov.u32 %r5, %laneid;", "\"%laneid\""},
        {"call.uni k, (p0);", "\"k\""},
        {".local .align 8 .b8 depot[8];", "\".local\""},
        {"@%p1 bar.sync 0;", "guarded"},
        {"ld.param.u64 %rd5, [pa+8];", "beyond the end"},
        {"ld.u64 %rd5, [shared];", "\"shared\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[300] = "";

        assert_null(ptx_program_parse(ptx_module_of("", cases[i].body), why, sizeof why));
        if (strstr(why, cases[i].says) == NULL || strstr(why, "PTX line ") == NULL) {
            fail_msg("%s: refused by \"%s\"", cases[i].body, why);
        }
    }
}

/* A text that is cut off at any place is refused unless it is complete. */
TEST(test_ends)
{
    char *text = strdup(ptx_module_of(function, "{ .reg .pred %p1; mov.u32 %r5, 1; }\n"));
    char why[300];

    for (size_t length = strlen(text) - 2; length > 0; length--) {
        struct ptx_program *program;

        text[length] = '\0';
        program = ptx_program_parse(text, why, sizeof why);
        assert_true(program == NULL || !ptx_program_has(program, "k"));
        ptx_program_free(program);
    }
    free(text);
}
