/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/ptx_kernel.h"
#include "test/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/ptx/ptx_weak.h"

struct ptx_test_memory ptx_memory;
struct ptx_fault ptx_fault_told;

struct ptx_program *ptx_kernels(void)
{
    static struct ptx_program *program;
    const char *folder = getenv("top_builddir");
    char path[4096], head[2048], why[300] = "";
    size_t length = 0;
    FILE *file;

    if (program != NULL) {
        return program;
    }
    snprintf(path, sizeof path, "%s/test/ptx/kernels.ptx", folder != NULL ? folder : ".");
    file = fopen(path, "r");
    if (file != NULL) {
        length = fread(head, 1, sizeof head - 1, file);
        fclose(file);
    }
    head[length] = '\0';
    if (strstr(head, "\n.target sm_8") != NULL || strstr(head, "\n.target sm_7") != NULL) {
        skip();
    }
    program = ptx_program_read(path, why, sizeof why);
    if (program == NULL) {
        fail_msg("%s: %s", path, why);
    }
    return program;
}

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    (void) context;
    *begin = (uintptr_t) &ptx_memory;
    *end = *begin + sizeof ptx_memory;
    return address >= *begin && address < *end;
}

char *ptx_module_of(const char *functions, const char *body)
{
    static char text[16384];
    int length = snprintf(
        text, sizeof text,
        ".version 8.0\n.target sm_90\n.address_size 64\n%s\n"
        ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pout)\n"
        ".maxntid 512, 1, 1\n{\n"
        ".reg .pred %%p<10>;\n.reg .b16 %%rs<20>;\n.reg .b32 %%r<20>;\n.reg .b64 %%rd<20>;\n"
        ".reg .f32 %%f<10>;\n.reg .f64 %%fd<10>;\n.shared .align 8 .b8 shared[512];\n"
        "mov.u32 %%r0, %%tid.x;\nmul.wide.u32 %%rd4, %%r0, 8;\n"
        "ld.param.u64 %%rd0, [pa];\nadd.s64 %%rd0, %%rd0, %%rd4;\n"
        "ld.param.u64 %%rd1, [pb];\nadd.s64 %%rd1, %%rd1, %%rd4;\n"
        "ld.param.u64 %%rd3, [pout];\nadd.s64 %%rd2, %%rd3, %%rd4;\n"
        "%s\nret;\n}\n",
        functions, body);

    assert_true(length > 0 && (size_t) length < sizeof text);
    return text;
}

static struct ptx_program *parse(const char *text)
{
    char why[300] = "";
    struct ptx_program *program = ptx_program_parse(text, why, sizeof why);

    if (program == NULL) {
        fail_msg("%s", why);
    }
    return program;
}

enum ptx_error ptx_run_grid(const char *text, uint32_t blocks, uint32_t threads, uint64_t seed)
{
    const uint64_t parameters[] = {(uintptr_t) ptx_memory.a, (uintptr_t) ptx_memory.b,
                                   (uintptr_t) ptx_memory.out};
    struct ptx_program *program = parse(text);
    struct ptx_machine *machine = ptx_machine_create(program);
    struct ptx_launch launch = {.kernel = "k",
                                .blocks = blocks,
                                .threads = threads,
                                .parameters = parameters,
                                .bytes = sizeof parameters,
                                .seed = seed,
                                .limit = 1000000,
                                .reach = reach};
    enum ptx_error error;

    assert_non_null(machine);
    error = ptx_machine_run(machine, &launch, &ptx_fault_told);
    ptx_machine_free(machine);
    ptx_program_free(program);
    return error;
}

/* Run both machines in turns, until both have ended or one was stopped. */
static enum ptx_error run_both(struct ptx_machine *const machines[2], uint64_t random)
{
    bool ended[2] = {false, false};
    enum ptx_error error = PTX_OK;

    while (error == PTX_OK && !(ended[0] && ended[1])) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (!ended[random >> 63]) {
            error = ptx_machine_turn(machines[random >> 63], &ended[random >> 63]);
        }
    }
    return error;
}

enum ptx_error ptx_run_pair(const char *text, const struct ptx_pair *pair)
{
    uint64_t parameters[2][3];
    struct ptx_program *program = parse(text);
    struct ptx_weak_options options = {.program = program,
                                       .memory = &ptx_memory,
                                       .bytes = sizeof ptx_memory,
                                       .agents = 4,
                                       .seed = pair->seed,
                                       .ascending = pair->ascending};
    struct ptx_weak *weak = ptx_weak_create(&options);
    struct ptx_machine *machines[2];
    struct ptx_launch launches[2];
    enum ptx_error error = PTX_OK;

    memset(&ptx_memory, 0, sizeof ptx_memory);
    assert_non_null(weak);
    for (uint32_t i = 0; i < 2; i++) {
        parameters[i][0] = (uintptr_t) ptx_memory.a;
        parameters[i][1] = i;
        parameters[i][2] = (uintptr_t) ptx_memory.out;
        ptx_weak_host(weak, 2 + i, i);
        launches[i] = (struct ptx_launch){.kernel = "k",
                                          .blocks = 1,
                                          .threads = 32,
                                          .parameters = parameters[i],
                                          .bytes = sizeof parameters[i],
                                          .seed = 2 * pair->seed + i,
                                          .limit = 1000000,
                                          .reach = reach,
                                          .weak = weak,
                                          .rank = i,
                                          .gpu = pair->one_gpu ? 0 : i,
                                          .agent = i,
                                          .host = 2 + i};
        machines[i] = ptx_machine_create(program);
        assert_non_null(machines[i]);
        assert_int_equal(ptx_machine_start(machines[i], &launches[i], &ptx_fault_told), PTX_OK);
    }
    error = run_both(machines, pair->seed);
    ptx_machine_free(machines[0]);
    ptx_machine_free(machines[1]);
    ptx_weak_free(weak);
    ptx_program_free(program);
    return error;
}

void ptx_run_well(const char *functions, const char *body)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        memset(ptx_memory.out, 0, sizeof ptx_memory.out);
        if (ptx_run_grid(ptx_module_of(functions, body), 1, PTX_TEST_THREADS, seed) != PTX_OK) {
            fail_msg("seed %" PRIu64 ": %s", seed, ptx_fault_told.text);
        }
    }
}

void ptx_run_badly(const char *body, enum ptx_error expected, const char *says)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        enum ptx_error error = ptx_run_grid(ptx_module_of("", body), 1, PTX_TEST_THREADS, seed);

        if (error != expected || strstr(ptx_fault_told.text, says) == NULL ||
            strstr(ptx_fault_told.text, "kernel k, PTX line ") == NULL) {
            fail_msg("seed %" PRIu64 ": error %d, \"%s\" without \"%s\"", seed, error,
                     ptx_fault_told.text, says);
        }
    }
}
