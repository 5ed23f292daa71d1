/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Modules and launches. The parameters of a kernel are checked before it runs (task.c). */
#include "test/standin/standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/image.h"
#include "kernels/move.h"
#include "kernels/work.h"
#include "test/standin/task.h"

#define FATBIN_MAGIC UINT32_C(0xba55ed50)

struct CUmod_st {
    struct standin_owner owner;
};

struct CUfunc_st {
    char name[128];
    struct standin_owner owner; /* same as that of the module */
    struct CUfunc_st *next;
};

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    STANDIN_ENTER(module_load);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(image == NULL || (uintptr_t) image % 8 != 0 ||
                          *(const uint32_t *) image != FATBIN_MAGIC,
                      CUDA_ERROR_INVALID_IMAGE, "the image is no fatbin");
    if (standin_ptx_refused()) {
        return CUDA_ERROR_INVALID_PTX;
    }
    *module = calloc(1, sizeof **module);
    if (*module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*module)->owner = standin_own();
    standin_count((*module)->owner, STANDIN_MODULE, 1);
    return CUDA_SUCCESS;
}

static CUresult unload(CUmodule module)
{
    STANDIN_NEED_OWNER(module->owner);
    standin_count(module->owner, STANDIN_MODULE, -1);
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    STANDIN_RELEASE(module_unload, unload(module));
}

/* Return true if the image has a kernel of this name. */
static bool is_kernel(const char *name)
{
    int number = 0;

    if (strcmp(name, GPURING_MOVE_KERNEL) == 0) {
        return true;
    }
    while (number < GPURING_KERNELS && strcmp(name, gpuring_kernel_numbered(number)) != 0) {
        number++;
    }
    return number < GPURING_KERNELS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct CUfunc_st *known; /* never freed, like the functions of a real driver */
    struct CUfunc_st *found;

    STANDIN_ENTER(module_function);
    STANDIN_NEED_OWNER(module->owner);
    STANDIN_REFUSE_IF(!is_kernel(name), CUDA_ERROR_NOT_FOUND, "there is no such kernel");
    pthread_mutex_lock(&lock);
    for (found = known; found != NULL && (strcmp(found->name, name) != 0 ||
                                          !standin_same(found->owner, module->owner));
         found = found->next) {
    }
    if (found == NULL && strlen(name) < sizeof found->name) {
        found = calloc(1, sizeof *found);
        if (found != NULL) {
            strcpy(found->name, name);
            found->owner = module->owner;
            found->next = known;
            known = found;
        }
    }
    pthread_mutex_unlock(&lock);
    *function = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncLoad(CUfunction function)
{
    STANDIN_ENTER(function_load);
    STANDIN_NEED_OWNER(function->owner);
    return CUDA_SUCCESS;
}

/* Return true if a GPU could access this memory, which must be pinned host memory or its own
 * memory. */
static bool reaches(const void *address, size_t bytes)
{
    return standin_memory_reached(address, bytes, standin_current());
}

/* Return true if a GPU could access the part of a buffer that a step reads or writes. */
static bool reaches_data(const struct gpuring_work *work, const struct gpuring_lane *lane,
                         uint32_t chunk, const void *buffer, const struct gpuring_blocks *blocks)
{
    size_t size = gpuring_type_info(work->type)->size;
    struct gpuring_extent block = {.count = 0};
    uint64_t first, count;

    gpuring_lane_range(work, lane, size, &first, &count);
    if (work->has_blocks) {
        if (blocks->table != NULL && !reaches(&blocks->table[chunk], sizeof block)) {
            return false;
        }
        block = gpuring_block_at(blocks, chunk);
        gpuring_block_share(block.count, lane->part_begin, work->parts, size, &first, &count);
    }
    return count == 0 ||
           reaches((const uint8_t *) buffer + block.offset + first * size, count * size);
}

/* Return true if a GPU could access the data of a step. A block that is read and stored has the
 * same size in both buffers, so only its input is checked. */
static bool reaches_step(const struct gpuring_work *work, const struct gpuring_lane *lane,
                         const struct gpuring_step *step)
{
    bool in = (step->flags & GPURING_STEP_INPUT) != 0, ok = true;
    bool out = (step->flags & GPURING_STEP_STORE) != 0;
    uint32_t nchunks = (step->flags & GPURING_STEP_EACH) != 0 ? gpuring_step_peers(step) : 1;

    for (uint32_t i = 0; ok && i < nchunks; i++) {
        uint32_t chunk = i == 0 ? step->chunk : gpuring_step_chunk(step->chunk, i, lane->nchunks);

        ok = (!in || reaches_data(work, lane, chunk, work->input, &work->in)) &&
             (!out || (work->has_blocks && in) ||
              reaches_data(work, lane, chunk, work->output, &work->out));
    }
    return ok;
}

static bool reaches_lane(const struct gpuring_work *work, const struct gpuring_lane *lane)
{
    bool ok = reaches(lane->steps, sizeof *lane->steps);
    uint32_t nsteps = ok ? gpuring_steps_stored(lane->steps, lane->nsteps) : 0;

    ok = ok && reaches(lane->steps, nsteps * sizeof *lane->steps) && reaches(lane->refs, 1);

    for (uint32_t s = 0; ok && s < nsteps; s++) {
        const struct gpuring_step *step = &lane->steps[s];
        uint32_t nrefs = step->noperands + step->nsends;

        ok = (nrefs == 0 || reaches(lane->refs + step->refs, nrefs * sizeof *lane->refs)) &&
             reaches_step(work, lane, step);
        for (uint32_t i = 0; ok && i < nrefs; i++) {
            uint16_t ref = lane->refs[step->refs + i];

            ok = i >= step->noperands
                     ? reaches(&lane->sends[ref], sizeof *lane->sends)
                     : gpuring_ref_own(ref) || reaches(&lane->recvs[ref], sizeof *lane->recvs);
        }
    }
    return ok;
}

/* The first lane is in the work, too. */
static bool reaches_work(const struct gpuring_work *work)
{
    bool ok = reaches(work->lanes, work->nlanes * sizeof *work->lanes) &&
              reaches(work->states, work->nlanes * sizeof *work->states) &&
              (work->command == NULL || reaches(work->command, sizeof *work->command)) &&
              (work->abort == NULL ||
               reaches((const void *) (uintptr_t) work->abort, sizeof *work->abort));

    standin_memory_open(); /* because tables are in GPU memory */
    ok = ok && memcmp(&work->first, work->lanes, sizeof work->first) == 0;
    for (uint32_t i = 0; ok && i < work->nlanes; i++) {
        ok = reaches_lane(work, &work->lanes[i]);
    }
    standin_memory_close();
    return ok;
}

bool standin_kernel_owned(CUfunction function)
{
    return standin_owned(function->owner);
}

bool standin_kernel_moves(CUfunction function)
{
    return strcmp(function->name, GPURING_MOVE_KERNEL) == 0;
}

static bool reaches_words(const uint64_t *words, uint32_t count)
{
    return reaches(words, count * sizeof *words);
}

/* Check a kernel that copies, and queue it. */
static CUresult launch_move(CUstream stream, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    const struct gpuring_move *move = kernel->kernelParams[0];
    uint32_t blocks = gpuring_move_blocks(move);

    STANDIN_REFUSE_IF(!reaches(move->to, move->bytes) || !reaches(move->from, move->bytes) ||
                          !reaches_words(move->ends, blocks) ||
                          (move->awaited != NULL && !reaches_words(move->awaited, blocks)) ||
                          (move->signals != NULL && !reaches_words(move->signals, blocks)),
                      CUDA_ERROR_ILLEGAL_ADDRESS,
                      "a copy refers to memory that its context does not reach");
    if (kernel->gridDimX != blocks || kernel->blockDimX != GPURING_MOVE_THREADS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return standin_enqueue_move(stream, move);
}

CUresult standin_kernel_launch(CUstream stream, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel,
                               int priority)
{
    const struct gpuring_work *work = kernel->kernelParams[0];
    const char *name;

    if (kernel->extra != NULL || kernel->sharedMemBytes != 0 || kernel->gridDimY != 1 ||
        kernel->gridDimZ != 1 || kernel->blockDimY != 1 || kernel->blockDimZ != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    STANDIN_REFUSE_IF(!standin_kernel_owned(kernel->func), CUDA_ERROR_INVALID_HANDLE,
                      "the kernel was loaded in another context");
    STANDIN_REFUSE_IF(priority >= 0, CUDA_ERROR_INVALID_VALUE,
                      "the kernel has no priority over others");
    if (standin_kernel_moves(kernel->func)) {
        return launch_move(stream, kernel);
    }
    STANDIN_REFUSE_IF(
        !reaches_work(work), CUDA_ERROR_ILLEGAL_ADDRESS,
        "the work refers to memory that its context does not reach, or to another lane");
    name = gpuring_kernel_name(work->type, work->op, work->protocol);
    if (kernel->gridDimX != work->nlanes || name == NULL || strcmp(name, kernel->func->name) != 0 ||
        kernel->blockDimX != gpuring_kernel_threads(work)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return standin_enqueue(stream, kernel->func->name, work);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **arguments, void **extra)
{
    CUDA_KERNEL_NODE_PARAMS_v1 kernel = {.func = function,
                                         .gridDimX = grid_x,
                                         .gridDimY = grid_y,
                                         .gridDimZ = grid_z,
                                         .blockDimX = block_x,
                                         .blockDimY = block_y,
                                         .blockDimZ = block_z,
                                         .sharedMemBytes = shared,
                                         .kernelParams = arguments,
                                         .extra = extra};
    const struct gpuring_work *work = arguments[0];
    bool endless;

    STANDIN_ENTER(launch);
    STANDIN_NEED_CONTEXT();
    /* Works in a stream of the application have its priority. */
    endless = !standin_kernel_moves(function) && work->patience == GPURING_PATIENCE_ENDLESS;
    return standin_kernel_launch(stream, &kernel, endless ? -1 : standin_stream_priority(stream));
}
