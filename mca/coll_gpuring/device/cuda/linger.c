/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Kernels that linger (coll_gpuring_linger). After a small call, its kernel keeps polling a line in
 * pinned memory for a limited time. The next call of the same shape only writes the addresses of
 * its buffers there, which avoids a launch. doc/hacking/device.md explains why each call runs
 * exactly once, and what orders the application's work before it.
 *
 * A kernel only lingers if it can be expected to get a command: the call has the shape of the last
 * one and began within the time to linger after its end. A command saves 5 us, and an application
 * that waits for the GPU waits for a lingering kernel for up to 20 us (doc/results/gpu.md). If a
 * kernel has run fewer than 4 commands, it may have cost more than it has saved. The next kernels
 * then do not linger, 16 of them at first and at most 1024 if this repeats.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define ENOUGH_SERVED 4
#define FEWEST_PAUSED 16u
#define MOST_DOUBLED  7 /* 1024 */

struct gpuring_linger {
    struct gpuring_command *command;
    uint64_t ns;
    uint64_t ended;           /* time at which the last call ended */
    struct gpuring_work last; /* the last work that was launched or commanded */
    bool lingers;             /* its kernel was launched to linger, and not requested to end */
    bool commanded;           /* the current call is a command */
    uint32_t served;          /* commands since the last launch */
    /* Number of successive kernels that lingered in vain (up to MOST_DOUBLED), and number of
     * launches that will still be made without lingering. */
    uint32_t doubled, paused;
};

int gpuring_cuda_linger(struct gpuring_stream *stream, struct gpuring_command *command, int us)
{
    struct gpuring_linger *created;

    if (stream->stream == NULL || stream->device->needs_driver_completion) {
        return GPURING_OK;
    }
    created = calloc(1, sizeof *created);
    if (created == NULL) {
        gpuring_error("out of memory for a stream");
        return GPURING_ERR_NOMEM;
    }
    created->command = command;
    created->ns = (uint64_t) us * 1000;
    stream->linger = created;
    return GPURING_OK;
}

/* Write the words with a flag. The release orders them after everything that this thread has done
 * and seen; the kernel acquires each word. */
static void write_words(struct gpuring_linger *linger, const struct gpuring_work *work,
                        uint32_t flag)
{
    uint64_t data[2] = {(uintptr_t) work->input, (uintptr_t) work->output};

    for (int i = 0; i < GPURING_COMMAND_WORDS; i++) {
        uint64_t half = data[i / 2] >> 32 * (i % 2) & UINT32_MAX;

        __atomic_store_n(&linger->command->words[i], (uint64_t) flag << 32 | half,
                         __ATOMIC_RELEASE);
    }
}

/* Return true if the kernel has decided to end after the call with this launch number. */
static bool has_left(const struct gpuring_linger *linger, uint32_t launch_seq)
{
    return __atomic_load_n(&linger->command->left, __ATOMIC_ACQUIRE) == launch_seq;
}

void gpuring_cuda_linger_end_early(struct gpuring_stream *stream)
{
    struct gpuring_linger *linger = stream->linger;

    if (linger->lingers) {
        write_words(linger, &linger->last, linger->last.launch_seq + 1 + GPURING_COMMAND_LEAVE);
        linger->lingers = false;
    }
}

/* Return true if the works differ only in what a command carries, or in the launch itself. */
static bool same_shape(const struct gpuring_work *work, const struct gpuring_work *last)
{
    struct gpuring_work same = *last;

    same.input = work->input;
    same.output = work->output;
    same.launch_seq = work->launch_seq;
    same.command = work->command;
    same.linger = work->linger;
    return memcmp(&same, work, sizeof same) == 0;
}

/* Return true if the application has no work that the call must follow, and the context exists. */
static bool may_start(struct gpuring_stream *stream)
{
    struct gpuring_device *device = stream->device;
    bool idle;

    if (stream->event == NULL) {
        return !gpuring_cuda_follow_queries() && !gpuring_cuda_is_lost(device);
    }
    if (gpuring_cuda_enter(device) != GPURING_OK) {
        return false;
    }
    idle = gpuring_cuda_follow_idle(stream);
    gpuring_cuda_leave(device);
    return idle;
}

bool gpuring_cuda_linger_command(struct gpuring_stream *stream, struct gpuring_work *work)
{
    struct gpuring_linger *linger = stream->linger;

    if (linger == NULL || !linger->lingers || has_left(linger, linger->last.launch_seq) ||
        !same_shape(work, &linger->last) || !may_start(stream)) {
        gpuring_cuda_linger_leave(stream);
        return false;
    }
    work->launch_seq = ++stream->launch_seq;
    stream->asked = gpuring_now_ns();
    linger->last.launch_seq = work->launch_seq;
    linger->commanded = true;
    linger->served++;
    write_words(linger, work, work->launch_seq);
    return true;
}

bool gpuring_cuda_linger_missed(const struct gpuring_stream *stream)
{
    const struct gpuring_linger *linger = stream->linger;

    return linger != NULL && linger->commanded && has_left(linger, linger->last.launch_seq - 1);
}

/* Return true if the next kernel should linger, at a launch of this work, which began now. */
static bool expects_command(struct gpuring_linger *linger, const struct gpuring_work *work,
                            uint64_t now)
{
    bool small = work->protocol == GPURING_PROTOCOL_LL && work->nlanes == 1 && work->resumed == 0 &&
                 work->in.table == NULL && work->out.table == NULL;

    if (linger->paused > 0) {
        linger->paused--;
        return false;
    }
    return small && same_shape(work, &linger->last) && now - linger->ended < linger->ns;
}

void gpuring_cuda_linger_launch(struct gpuring_stream *stream, struct gpuring_work *work)
{
    struct gpuring_linger *linger = stream->linger;

    work->command = NULL;
    work->linger = 0;
    if (linger == NULL) {
        return;
    }
    if (linger->last.command != NULL) { /* the last kernel lingered */
        linger->served -= linger->commanded && gpuring_cuda_linger_missed(stream) ? 1 : 0;
        linger->doubled = linger->served >= ENOUGH_SERVED  ? 0
                          : linger->doubled < MOST_DOUBLED ? linger->doubled + 1
                                                           : MOST_DOUBLED;
        linger->paused = linger->doubled > 0 ? FEWEST_PAUSED << (linger->doubled - 1) : 0;
    }
    if (expects_command(linger, work, stream->asked)) {
        work->command = linger->command;
        work->linger = (uint32_t) linger->ns;
        /* Replace flags and number of earlier kernels. To a kernel that still lingers, which has
         * run the call before this one, these words mean that it must end, and it stores the same
         * number. */
        write_words(linger, work, work->launch_seq + GPURING_COMMAND_LEAVE);
        __atomic_store_n(&linger->command->left, work->launch_seq - 1, __ATOMIC_RELEASE);
    }
    linger->last = *work;
    linger->lingers = work->command != NULL;
    linger->commanded = false;
    linger->served = 0;
}

void gpuring_cuda_linger_end(struct gpuring_stream *stream)
{
    if (stream->linger != NULL) {
        stream->linger->commanded = false;
        stream->linger->ended = gpuring_now_ns();
    }
}
