/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Interpreted kernels of the stand-in driver. GPURING_STANDIN_PTX names the file with their PTX. */
#include "test/ptx/ptx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/image.h"
#include "kernels/move.h"
#include "kernels/work.h"
#include "test/standin/standin.h"

/* Maximum number of warp instructions in a launch: ten times that of the longest test. */
#define LIMIT UINT64_C(2000000000)

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static struct ptx_program *program;
static bool refused;
static uint64_t seed;
static atomic_ulong launches;

static uint64_t choose_seed(void)
{
    const char *wish = getenv("GPURING_STANDIN_PTX_SEED");
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return wish != NULL ? strtoull(wish, NULL, 10)
                        : (uint64_t) (now.tv_nsec / 1000 + getpid()) % 1000000;
}

static void load(void)
{
    const char *path = getenv("GPURING_STANDIN_PTX");
    char why[400] = "";

    if (path == NULL || path[0] == '\0') {
        return;
    }
    seed = choose_seed();
    program = ptx_program_read(path, why, sizeof why);
    refused = program == NULL;
    if (refused) {
        fprintf(stderr, "stand-in driver: %s: %s\n", path, why);
    }
}

bool standin_ptx(void)
{
    pthread_once(&loaded, load);
    return program != NULL;
}

bool standin_ptx_refused(void)
{
    pthread_once(&loaded, load);
    return refused;
}

static CUresult code_of(enum ptx_error error)
{
    switch (error) {
    case PTX_ADDRESS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case PTX_MISALIGNED:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case PTX_LIMIT:
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    case PTX_NO_KERNEL:
        return CUDA_ERROR_NOT_FOUND;
    case PTX_NO_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static bool reach(void *context, uint64_t address, uint64_t *begin, uint64_t *end)
{
    return standin_memory_range((void *) (uintptr_t) address, context, begin, end);
}

static void run(struct ptx_machine **machine, struct CUctx_st *context, struct ptx_launch launch)
{
    struct ptx_fault fault = {.error = PTX_NO_MEMORY, .text = "no memory for the interpreter"};

    launch.seed = seed + (atomic_fetch_add(&launches, 1) << 20);
    launch.limit = LIMIT;
    launch.reach = reach;
    launch.context = context;
    if (*machine == NULL) {
        *machine = ptx_machine_create(program);
    }
    if (*machine != NULL && ptx_machine_run(*machine, &launch, &fault) == PTX_OK) {
        return;
    }
    fprintf(stderr, "stand-in driver: GPU %d: %s (GPURING_STANDIN_PTX_SEED=%llu)\n", context->gpu,
            fault.text, (unsigned long long) seed);
    standin_report("pid %d misuses a GPU: %s\n", (int) getpid(), fault.text);
    standin_break(code_of(fault.error));
}

void standin_ptx_run(struct ptx_machine **machine, struct CUctx_st *context, const char *kernel,
                     const struct gpuring_work *work)
{
    run(machine, context,
        (struct ptx_launch){.kernel = kernel,
                            .blocks = work->nlanes,
                            .threads = gpuring_kernel_threads(work),
                            .parameters = work,
                            .bytes = sizeof *work});
}

void standin_ptx_move(struct ptx_machine **machine, struct CUctx_st *context,
                      const struct gpuring_move *move)
{
    run(machine, context,
        (struct ptx_launch){.kernel = GPURING_MOVE_KERNEL,
                            .blocks = gpuring_move_blocks(move),
                            .threads = GPURING_MOVE_THREADS,
                            .parameters = move,
                            .bytes = sizeof *move});
}
