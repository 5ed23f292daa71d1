/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The tasks of streams: copies, fills and kernels. The host executor runs the work of a kernel, or
 * the interpreter runs its PTX (ptx.h).
 */
#include "test/standin/task.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "kernels/work.h"
#include "test/unit/block_threads.h"

static _Atomic(long long) copied; /* bytes of all copies */

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * UINT64_C(1000000000) + (uint64_t) time.tv_nsec;
}

/* Take the lock of a GPU on which processes cannot run concurrently. Return -1 if there is no
 * lock. */
static int gpu_acquire(void)
{
    const char *path = getenv("GPURING_STANDIN_EXCLUSIVE");
    int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        flock(fd, LOCK_EX);
    }
    return fd;
}

static void gpu_release(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static bool imported(const void *address)
{
    enum standin_kind kind;
    int gpu;

    return standin_memory_kind(address, &kind, &gpu) && kind == STANDIN_IMPORTED;
}

/* Return the number of chunks that a work has sent into memory of other processes. */
static uint64_t sent_to_others(const struct gpuring_work *work)
{
    uint64_t chunks = 0;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane *lane = &work->lanes[i];
        uint32_t nsteps = gpuring_steps_stored(lane->steps, lane->nsteps);

        for (uint32_t s = 0; s < nsteps; s++) {
            const uint16_t *sends = lane->refs + lane->steps[s].refs + lane->steps[s].noperands;

            for (uint32_t k = 0; k < lane->steps[s].nsends; k++) {
                const struct gpuring_fifo_end *send = &lane->sends[sends[k]];

                chunks += imported(send->slots) ? send->step : 0;
            }
        }
    }
    return chunks;
}

/* Flip a bit in the last chunk that each lane has sent into memory of another process. */
static void corrupt_sent(const struct gpuring_work *work)
{
    for (uint32_t i = 0; i < work->nlanes; i++) {
        const struct gpuring_lane *lane = &work->lanes[i];
        const struct gpuring_step *step =
            &lane->steps[gpuring_steps_stored(lane->steps, lane->nsteps) - 1];

        for (uint32_t k = 0; k < step->nsends; k++) {
            const struct gpuring_fifo_end *send =
                &lane->sends[lane->refs[step->refs + step->noperands + k]];
            uint64_t slot = (send->step - 1) % send->nslots;

            if (send->step > 0 && imported(send->slots) && send->tail->size[slot] > 0) {
                send->slots[slot * send->slot_bytes + send->tail->size[slot] / 2] ^= 1;
            }
        }
    }
}

static bool all_done(const struct gpuring_work *work)
{
    uint32_t i = 0;

    while (i < work->nlanes && work->states[i].status == GPURING_LANE_DONE) {
        i++;
    }
    return i == work->nlanes;
}

static bool on_host(const struct gpuring_fifo_end *end)
{
    enum standin_kind kind;
    int gpu;

    return standin_memory_kind(end->slots, &kind, &gpu) && kind == STANDIN_REGISTERED;
}

/* Return true if the work has connections in host memory. */
static bool uses_host(const struct gpuring_work *work)
{
    const struct gpuring_lane *lane = &work->lanes[0];

    return (lane->nrecvs > 0 && on_host(&lane->recvs[0])) ||
           (lane->nsends > 0 && on_host(&lane->sends[0]));
}

/* Flip a bit in the result of each finished lane that stores one. Among lanes with blocks, only
 * those with a single step store one. */
static void corrupt_result(const struct gpuring_work *work)
{
    uint8_t *output = work->output;

    for (uint32_t i = 0; i < work->nlanes; i++) {
        uint64_t size = gpuring_type_info((enum gpuring_type) work->type)->size, first, count;
        struct gpuring_extent block = {.offset = 0};
        const struct gpuring_lane *lane = &work->lanes[i];
        const struct gpuring_step *last =
            &lane->steps[gpuring_steps_stored(lane->steps, lane->nsteps) - 1];

        gpuring_lane_range(work, lane, size, &first, &count);
        if (work->has_blocks) {
            block = gpuring_block_at(&work->out, last->chunk);
            gpuring_block_share(lane->nsteps == 1 ? block.count : 0, lane->part_begin, work->parts,
                                size, &first, &count);
        }
        if (work->states[i].status == GPURING_LANE_DONE && count > 0 && output != NULL &&
            (last->flags & GPURING_STEP_STORE) != 0) {
            output[block.offset + first * size] ^= 1;
        }
    }
}

/* Run all lanes until each has ended or waited for a short time. The host executor does not know
 * mapped buffers, so the block executor runs such works, with one thread that moves data. */
static int run_slice(struct gpuring_work *slice)
{
    return slice->mapped != NULL ? block_work_run(slice, 1) : gpuring_work_run_host(slice);
}

/* Run a work until it has ended or its patience is over. Like a kernel, read the lanes' states only
 * if the work is resumed. */
static void run_on_host(const struct gpuring_work *work)
{
    bool endless = work->patience == GPURING_PATIENCE_ENDLESS;
    uint64_t end = endless ? 0 : now_ns() + work->patience;
    struct gpuring_work slice = *work; /* shares the states, so they persist */
    int status;

    slice.patience = 64;
    for (uint32_t i = 0; i < work->nlanes && work->resumed == 0; i++) {
        work->states[i].status = GPURING_LANE_NEW;
    }
    while ((status = run_slice(&slice)) > 0 && (endless || now_ns() < end)) {
        sched_yield();
    }
    /* If one lane fails, the host executor does not run the others. A kernel does. */
    for (uint32_t i = 0; i < work->nlanes && status < 0; i++) {
        if (work->states[i].status <= GPURING_LANE_RUNNING) {
            work->states[i].status = GPURING_LANE_ABORTED;
        }
    }
}

/* Read the line of commands once. Return true if the next call is there, and set its buffers. */
static bool take_command(struct gpuring_work *work, bool *leaves)
{
    uint32_t next = work->launch_seq + 1, halves[GPURING_COMMAND_WORDS];

    *leaves = false;
    for (int i = 0; i < GPURING_COMMAND_WORDS; i++) {
        uint64_t word = __atomic_load_n(&work->command->words[i], __ATOMIC_ACQUIRE);

        *leaves = word >> 32 == next + GPURING_COMMAND_LEAVE;
        halves[i] = (uint32_t) word;
        if (word >> 32 != next) {
            return false;
        }
    }
    work->input = (const void *) (uintptr_t) (halves[0] | (uint64_t) halves[1] << 32);
    work->output = (void *) (uintptr_t) (halves[2] | (uint64_t) halves[3] << 32);
    work->launch_seq = next;
    return true;
}

/* Wait for the next call, like a kernel that lingers. Return false if there is none. The kernel
 * then makes no further access. */
static bool lingers(struct gpuring_work *work)
{
    uint64_t end = now_ns() + work->linger * (uint64_t) standin_linger();
    bool leaves;

    do {
        if (take_command(work, &leaves)) {
            return true;
        }
        sched_yield();
    } while (!leaves && now_ns() < end);
    __atomic_store_n(&work->command->left, work->launch_seq, __ATOMIC_RELEASE);
    return false;
}

/* Inject faults after a slice of a kernel, which had sent `sent` chunks to others before. */
static void corrupt(const struct gpuring_work *work, uint64_t sent)
{
    if (sent_to_others(work) > sent && standin_corrupts()) {
        corrupt_sent(work);
    }
    if (all_done(work) &&
        ((sent_to_others(work) > 0 && standin_tears((enum gpuring_protocol) work->protocol)) ||
         (uses_host(work) && standin_corrupts_host()))) {
        corrupt_result(work);
    }
}

/* Store that a kernel in a graph has begun, or 0. */
static void begin_in_graph(struct gpuring_work *work, uint32_t begun)
{
    for (uint32_t i = 0; work->launch_seq == 0 && i < work->nlanes; i++) {
        __atomic_store_n(&work->states[i].begun, begun, __ATOMIC_RELAXED);
    }
}

/* Run a kernel with the host executor, and again for each command that it receives. */
static void run_and_linger(struct gpuring_work *work)
{
    bool lingering = work->command != NULL;

    do {
        uint64_t sent = sent_to_others(work);

        begin_in_graph(work, gpuring_begun(work->linger, (uint32_t) (now_ns() >> 10)));
        run_on_host(work);
        begin_in_graph(work, 0);
        corrupt(work, sent);
        lingering = lingering && all_done(work);
        for (uint32_t i = 0; i < work->nlanes; i++) { /* like a kernel at its end */
            __atomic_store_n(&work->states[i].launch_seq, work->launch_seq, __ATOMIC_RELEASE);
        }
    } while (lingering && lingers(work));
}

static void run_kernel(const struct standin_task *task, struct ptx_machine **machine,
                       struct CUctx_st *context, atomic_int *waiting)
{
    struct gpuring_work *work = task->work;
    struct timespec nap = {.tv_nsec = (long) standin_slow_us() % 1000000 * 1000};
    int gpu = gpu_acquire();

    if (nap.tv_nsec > 0) {
        nanosleep(&nap, NULL);
    }
    atomic_fetch_sub(waiting, 1);
    if (standin_ptx()) {
        uint64_t sent = sent_to_others(work);

        standin_ptx_run(machine, context, task->kernel, work);
        if (work->command == NULL) { /* otherwise the host may have freed its lanes */
            corrupt(work, sent);
        }
    } else {
        run_and_linger(work);
    }
    gpu_release(gpu);
    free(task->work);
}

/* Copy the part of a block, or wait until the patience ends at `end`. Return true if it was
 * copied. */
static bool move_block(const struct gpuring_move *move, uint32_t block, uint64_t end)
{
    uint64_t first, bytes = gpuring_move_part(move, block, &first);

    while (move->awaited != NULL &&
           __atomic_load_n(&move->awaited[block], __ATOMIC_ACQUIRE) != move->number) {
        if (now_ns() >= end) {
            return false;
        }
        sched_yield();
    }
    memcpy(move->to + first, move->from + first, bytes);
    if (imported(move->from) && bytes > 0 && standin_corrupts()) {
        move->to[first] ^= 1;
    }
    if (move->signals != NULL) {
        __atomic_store_n(&move->signals[block], move->number, __ATOMIC_RELEASE);
    }
    return true;
}

static void move_on_host(const struct gpuring_move *move)
{
    uint64_t end = now_ns() + move->patience;

    for (uint32_t i = 0; i < gpuring_move_blocks(move); i++) {
        uint64_t word = gpuring_move_end(move->number, move_block(move, i, end));

        __atomic_store_n(&move->ends[i], word, __ATOMIC_RELEASE);
    }
}

static void run_move(const struct standin_task *task, struct ptx_machine **machine,
                     struct CUctx_st *context, atomic_int *waiting)
{
    int gpu = gpu_acquire();

    if (standin_slow_us() > 0) {
        usleep((useconds_t) standin_slow_us());
    }
    if (standin_late_read_us() > 0 && imported(task->move.from)) {
        usleep((useconds_t) standin_late_read_us());
    }
    atomic_fetch_sub(waiting, 1);
    if (standin_ptx()) {
        standin_ptx_move(machine, context, &task->move);
    } else {
        move_on_host(&task->move);
    }
    gpu_release(gpu);
}

#define TURN_BYTES (32 << 10) /* smaller copies are delayed by GPURING_STANDIN_TURN_US */

static void run_copy(const struct standin_task *task)
{
    enum standin_kind kind;
    int gpu;

    if (task->ms > 0) {
        usleep((useconds_t) task->ms * 1000);
    }
    if (standin_late_read_us() > 0 && imported(task->from)) {
        usleep((useconds_t) standin_late_read_us());
    }
    if (task->rows == 1 && task->bytes < TURN_BYTES && standin_turn_us() > 0 &&
        standin_memory_kind(task->to, &kind, &gpu) && kind != STANDIN_REGISTERED) {
        usleep((useconds_t) standin_turn_us());
    }
    for (size_t row = 0; row < task->rows; row++) {
        memmove(task->to + row * task->to_pitch, task->from + row * task->from_pitch, task->bytes);
    }
    if (task->bytes > 0 && (imported(task->to) || imported(task->from)) && standin_corrupts()) {
        task->to[task->bytes / 2] ^= 1;
    }
    if (standin_corrupts_copy(task->bytes) && standin_memory_kind(task->to, &kind, &gpu) &&
        kind == STANDIN_REGISTERED) {
        task->to[task->bytes / 2] ^= 1;
    }
}

void standin_task_run(const struct standin_task *task, struct ptx_machine **machine,
                      struct CUctx_st *context, atomic_int *waiting)
{
    standin_memory_open();
    switch (task->kind) {
    case TASK_COPY:
        run_copy(task);
        break;
    case TASK_SET:
        memset(task->to, task->value, task->bytes);
        break;
    case TASK_KERNEL:
        run_kernel(task, machine, context, waiting);
        break;
    case TASK_MOVE:
        run_move(task, machine, context, waiting);
        break;
    case TASK_WAIT: /* stream.c has already waited */
        break;
    }
    standin_memory_close();
}

CUresult standin_enqueue(CUstream stream, const char *kernel, const struct gpuring_work *work)
{
    struct gpuring_work *copy = malloc(sizeof *copy);

    if (copy == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *work;
    return standin_stream_queue(
        stream, (struct standin_task){.kind = TASK_KERNEL, .work = copy, .kernel = kernel});
}

CUresult standin_enqueue_move(CUstream stream, const struct gpuring_move *move)
{
    atomic_fetch_add(&copied, (long long) move->bytes);
    return standin_stream_queue(stream, (struct standin_task){.kind = TASK_MOVE, .move = *move});
}

CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char value, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(set_async);
    STANDIN_NEED_CONTEXT();
    if (stream != NULL) {
        STANDIN_NEED_OWNER(standin_stream_owner(stream));
    }
    STANDIN_REFUSE_IF(
        !standin_memory_reached((void *) (uintptr_t) pointer, bytes, standin_current()),
        CUDA_ERROR_INVALID_VALUE, "no such memory of this context");
    return standin_stream_queue(stream, (struct standin_task){.kind = TASK_SET,
                                                              .to = (uint8_t *) (uintptr_t) pointer,
                                                              .bytes = bytes,
                                                              .value = value});
}

/*
 * Copies are stricter here than in a driver with unified addresses, which finds the context of an
 * address itself, but only for memory of cuMemAlloc.
 */
#define OUT_OF_REACH "beyond the end of an allocation, or of another context"

long long gpuring_standin_copied(void)
{
    return atomic_load(&copied);
}

static CUresult copy_between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                             CUcontext from_context, size_t bytes, CUstream stream)
{
    STANDIN_REFUSE_IF(!standin_memory_copied((void *) (uintptr_t) to, bytes, to_context) ||
                          !standin_memory_copied((void *) (uintptr_t) from, bytes, from_context),
                      CUDA_ERROR_INVALID_VALUE, OUT_OF_REACH);
    atomic_fetch_add(&copied, (long long) bytes);
    return standin_stream_queue(stream,
                                (struct standin_task){.kind = TASK_COPY,
                                                      .to = (uint8_t *) (uintptr_t) to,
                                                      .from = (const uint8_t *) (uintptr_t) from,
                                                      .bytes = bytes,
                                                      .rows = 1});
}

CUresult standin_copy_late(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    enum standin_kind kind;
    void *staged = NULL;
    int gpu;

    STANDIN_REFUSE_IF(!standin_memory_copied((void *) (uintptr_t) to, bytes, standin_current()),
                      CUDA_ERROR_INVALID_VALUE, OUT_OF_REACH);
    if (!standin_memory_kind((void *) (uintptr_t) from, &kind, &gpu)) {
        staged = malloc(bytes);
        if (staged == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(staged, (void *) (uintptr_t) from, bytes);
        from = (CUdeviceptr) (uintptr_t) staged;
    }
    return standin_stream_queue(stream,
                                (struct standin_task){.kind = TASK_COPY,
                                                      .to = (uint8_t *) (uintptr_t) to,
                                                      .from = (const uint8_t *) (uintptr_t) from,
                                                      .staged = staged,
                                                      .late = true,
                                                      .bytes = bytes,
                                                      .rows = 1});
}

CUresult standin_set_late(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    STANDIN_REFUSE_IF(!standin_memory_reached((void *) (uintptr_t) to, bytes, standin_current()),
                      CUDA_ERROR_INVALID_VALUE, OUT_OF_REACH);
    return standin_stream_queue(stream, (struct standin_task){.kind = TASK_SET,
                                                              .to = (uint8_t *) (uintptr_t) to,
                                                              .late = true,
                                                              .bytes = bytes,
                                                              .value = value});
}

void gpuring_standin_kernel_in(void *stream, void *to, const void *from, size_t bytes, int ms)
{
    if (stream == NULL ||
        standin_stream_queue(
            stream,
            (struct standin_task){
                .kind = TASK_COPY, .to = to, .from = from, .bytes = bytes, .rows = 1, .ms = ms}) !=
            CUDA_SUCCESS) {
        standin_report("pid %d cannot run a kernel on a stream\n", (int) getpid());
    }
}

void gpuring_standin_kernel(int per_thread, void *to, const void *from, size_t bytes, int ms)
{
    gpuring_standin_kernel_in(per_thread ? standin_stream_of_thread() : standin_stream_legacy(), to,
                              from, bytes, ms);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(copy_async);
    STANDIN_NEED_CONTEXT();
    return copy_between(to, standin_current(), from, standin_current(), bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream)
{
    STANDIN_ENTER(copy_peer_async);
    STANDIN_NEED_CONTEXT();
    return copy_between(to, to_context, from, from_context, bytes, stream);
}

/* Return true if all rows are within one allocation. */
static bool rows_copied(CUdeviceptr first, size_t pitch, const CUDA_MEMCPY2D *copy)
{
    return copy->Height == 0 ||
           standin_memory_copied((void *) (uintptr_t) first,
                                 (copy->Height - 1) * pitch + copy->WidthInBytes,
                                 standin_current());
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    STANDIN_ENTER(copy_rows_async);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(!rows_copied(copy->dstDevice, copy->dstPitch, copy) ||
                          !rows_copied(copy->srcDevice, copy->srcPitch, copy),
                      CUDA_ERROR_INVALID_VALUE, OUT_OF_REACH);
    if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED || copy->WidthInBytes > copy->srcPitch ||
        copy->WidthInBytes > copy->dstPitch || copy->srcPitch > INT32_MAX ||
        copy->dstPitch > INT32_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    atomic_fetch_add(&copied, (long long) (copy->WidthInBytes * copy->Height));
    return standin_stream_queue(
        stream, (struct standin_task){.kind = TASK_COPY,
                                      .to = (uint8_t *) (uintptr_t) copy->dstDevice +
                                            copy->dstXInBytes + copy->dstY * copy->dstPitch,
                                      .from = (const uint8_t *) (uintptr_t) copy->srcDevice +
                                              copy->srcXInBytes + copy->srcY * copy->srcPitch,
                                      .bytes = copy->WidthInBytes,
                                      .rows = copy->Height,
                                      .to_pitch = copy->dstPitch,
                                      .from_pitch = copy->srcPitch});
}
