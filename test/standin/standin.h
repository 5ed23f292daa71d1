/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The stand-in CUDA driver: a test double of libcuda.so.1 with exactly the entry points that
 * device/cuda_driver.h lists, over host memory, running the host executor on threads. It is never
 * installed, and nothing that it runs is a GPU result.
 *
 * Environment:
 *   GPURING_STANDIN_GPUS=N        how many GPUs there are (default 1, at most 64)
 *   GPURING_STANDIN_MIG=N         each of them is divided into N instances, which are devices of
 *                                 their own and do not reach each other (default 1: not divided)
 *   GPURING_STANDIN_SMS=N         each has N multiprocessors (default 12)
 *   GPURING_STANDIN_CAPABILITY=N  each has compute capability N / 10 . N % 10 (default 90)
 *   GPURING_STANDIN_CONCURRENT=0  none lets the host touch managed memory before it has told that
 *                                 all kernels ended (default 1)
 *   GPURING_STANDIN_MPS=0         each says that MPS does not run (default 1, but 0 with
 *                                 GPURING_STANDIN_EXCLUSIVE)
 *   GPURING_STANDIN_TURN_US=US    a copy of one row and less than 32 KiB to a GPU waits US
 *                                 microseconds, as without MPS
 *   CUDA_VISIBLE_DEVICES=LIST     numbers, or names as nvidia-smi prints them: GPU-... or MIG-...
 *   GPURING_STANDIN_FAULTS=LIST   faults, with commas:
 *       SYMBOL=N[:CODE[:sticky]]
 *                        the N-th call of that entry point fails with CODE (default 999, unknown),
 *                        sticky: and every call after it, as below; one that releases something
 *                        does so nevertheless
 *       sticky=N         from the N-th launch on every call fails with CUDA_ERROR_LAUNCH_FAILED,
 *                        but for the stack of contexts; what releases something does so
 *       slow=US          every kernel slice takes US microseconds longer
 *       corrupt=N        from the N-th on, every copy or kernel slice that writes into another
 *                        process's memory, or copies from there, flips one bit of what it wrote
 *       torn=N           from the N-th on, every kernel with lines of LL128 to or from another
 *                        process ends with a wrong bit in its result, as if it had seen the flag of
 *                        a line before its data
 *       nopeer=1         GPUs do not reach each other's memory
 *       nomemops=1       synchronous operations are never made to wait (CU_POINTER_ATTRIBUTE_SYNC_
 *                        MEMOPS, CU_CTX_SYNC_MEMOPS)
 *       moved=1          the GPU has host memory at other addresses than the host has
 *   GPURING_STANDIN_GDR=BITS      GPUDirect RDMA: 1 supported, 2 by descriptors (dma-buf), 4 writes
 *                                 are seen in order by the GPU, 8 by all of them (default 0)
 *   GPURING_STANDIN_PROTECT=0     leave device memory readable by the host (default: a host access
 *                                 while nothing runs on the GPU is a segmentation fault)
 *   GPURING_STANDIN_EXCLUSIVE=FILE  kernels of all processes run one at a time (a lock on FILE), as
 *                                 those of processes that share a GPU without MPS
 *   GPURING_STANDIN_PTX=FILE      kernels run from this PTX, interpreted (ptx.h), in place of the
 *                                 host executor
 *   GPURING_STANDIN_PTX_SEED=N    of the order in which its threads run (default: any)
 *   GPURING_STANDIN_REPORT=FILE   append, one line each: what was left behind at exit ("leaks"),
 *                                 what no driver would let pass ("misuses"; also memory that is
 *                                 freed while other processes have it mapped), and faults that were
 *                                 not reached ("never calls SYMBOL N times")
 *
 * Besides the driver's entry points it exports what is declared here as gpuring_standin_*, for a
 * program that wants many faults in one process.
 */
#ifndef GPURING_STANDIN_H
#define GPURING_STANDIN_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "mca/coll_gpuring/device/cuda/driver.h"

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags); /* not in cuda.h before CUDA 12.1 */
CUresult CUDAAPI cuFuncLoad(CUfunction function);   /* nor this before 12.4 */

/* What applications call of it, and the component does not. */
#define STANDIN_EVENT_CALLS(X) X(event_query, cuEventQuery, (CUevent))

struct standin_events {
#define STANDIN_MEMBER(member, symbol, arguments) CUresult(CUDAAPI *member) arguments;
    STANDIN_EVENT_CALLS(STANDIN_MEMBER)
#undef STANDIN_MEMBER
};

enum standin_call {
#define STANDIN_CALL(member, symbol, arguments) STANDIN_##member,
    GPURING_CUDA_CALLS(STANDIN_CALL) STANDIN_EVENT_CALLS(STANDIN_CALL)
#undef STANDIN_CALL
        STANDIN_CALLS
};

struct gpuring_work;

/* What belongs to a context and goes with it, besides memory. */
enum standin_object { STANDIN_STREAM, STANDIN_EVENT, STANDIN_MODULE, STANDIN_OBJECTS };

struct CUctx_st {
    int gpu;
    int references;      /* 0: it does not exist; guarded by the lock of context.c */
    unsigned generation; /* counts the contexts that had this handle; guarded, too */
    atomic_int held[STANDIN_OBJECTS];
    atomic_uint flags; /* CU_CTX_SYNC_MEMOPS is the only one that means something */
};

/* The context that something was made in; another one may have its handle now. */
struct standin_owner {
    struct CUctx_st *context; /* NULL: all contexts of the GPU, or any */
    unsigned generation;
};

/* faults.c. Other faults from now on (a list as in the environment, NULL: none), all calls counted
 * from zero, no context broken any more, and nothing runs that was begun before. While no other
 * thread uses the driver. */
void gpuring_standin_arm(const char *list);
/* 1 if every fault that was armed has struck. */
int gpuring_standin_reached(void);
/* All that was made and not released: memory, registrations, mappings, streams, events, modules. */
long gpuring_standin_held(void);

/* A thread of the application captures a stream into a graph (1: a non-blocking one, 2: a blocking
 * one), or does not any more (0). What might disturb it is refused on threads that do not say that
 * they know what they do. Of a blocking one also what uses the legacy stream, on all threads. */
void gpuring_standin_capture(int capturing);
/* A kernel of the application on a default stream of the current context, the legacy one or that of
 * a thread: `ms` milliseconds after it began it copies from one memory of the GPU to another. */
void gpuring_standin_kernel(int per_thread, void *to, const void *from, size_t bytes, int ms);

/* What a network device does: is this memory of a GPU, and copying to or from it. */
int gpuring_standin_on_gpu(const void *address);
void gpuring_standin_copy(void *to, const void *from, size_t bytes);

/* The entry points by number, from 0 on; NULL: there are no more. */
const char *gpuring_standin_symbol(int call);
/* How often an entry point was called since the start or the last arm; NULL: all of them. */
long gpuring_standin_calls(const char *symbol);
/* How many bytes were to be copied since the start. */
long long gpuring_standin_copied(void);
/* Memory of the sorts that other entry points of a driver give: "managed", "pool" (stream-ordered
 * pools), "vmm" (mapped by the virtual memory calls), "registered" (the host's). NULL: none. */
void *gpuring_standin_alloc(const char *sort, int gpu, size_t bytes);
void gpuring_standin_free(void *memory);
/* A context beside the primary one, which is not made current; NULL: none left. The end takes all
 * with it that was made in it; no other one gets its handle. */
void *gpuring_standin_context(int gpu);
void gpuring_standin_context_end(void *context);

/* Every entry point begins with this; not CUDA_SUCCESS: return it. */
CUresult standin_enter(enum standin_call call);
unsigned int standin_slow_us(void);
bool standin_corrupts(void); /* counts what is written into other processes' memory */
bool standin_tears(void);    /* counts kernels that end with lines of LL128 */
bool standin_refuses_peers(void);
/* From now on all calls fail with this, but for those that outlive errors. */
void standin_break(CUresult code);
bool standin_moves_host_memory(void);
/* One line in the report. */
void standin_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* memory.c and context.c: what is held of each. */
long standin_held_blocks(void);
long standin_held_objects(void);

/* faults.c: a blocking stream is captured; a call that uses the legacy stream ends that. */
bool standin_captures_blocking(void);

/* stream.c: the legacy default stream of the current context, made when it is first needed. NULL:
 * no memory. */
CUstream standin_stream_legacy(void);
/* It and the context's legacy stream wait for each other. */
void standin_stream_block(CUstream stream);
/* stream.c: all that was queued before has run. */
void standin_wait_for_streams(void);
/* The same for what was queued late in the current context. */
void standin_wait_for_late(void);
/* task.c: copies and fills whose caller does not wait. The stream begins them late: when somebody
 * waits for it, or after LATE_MS. The source is read at once where it is the host's. */
CUresult standin_copy_late(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult standin_set_late(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
/* A context has ended, whose name is `owner`; what runs there is waited for. */
void standin_end_streams(struct standin_owner owner);
void standin_end_memory(struct standin_owner owner);
/* task.c: a kernel, behind what the stream has to do already. */
struct gpuring_launch;
CUresult standin_enqueue(CUstream stream, const char *kernel, const struct gpuring_launch *launch);

/* ptx_driver.c: are kernels interpreted from PTX; is there a text that is not understood (it has
 * been told); and one kernel. What it does wrong breaks the context, as on a GPU. */
struct ptx_machine;
bool standin_ptx(void);
bool standin_ptx_refused(void);
void standin_ptx_run(struct ptx_machine **machine, struct CUctx_st *context, const char *kernel,
                     const struct gpuring_launch *parameters);

/* context.c */
enum {
    STANDIN_GDR_SUPPORTED = 1,
    STANDIN_GDR_DMABUF = 2,
    STANDIN_GDR_ORDERED = 4,
    STANDIN_GDR_ORDERED_ALL = 8
};
int standin_gdr(void);
int standin_turn_us(void);
int standin_gpus(void);         /* that this process sees */
int standin_number(int device); /* of the device, among all there are; the same everywhere */
bool standin_reach(int gpu, int other); /* these two, by such numbers: each other's memory */
struct CUctx_st *standin_current(void); /* NULL: none */
struct CUctx_st *standin_primary(int gpu);
struct standin_owner standin_own(void);         /* the current context */
bool standin_owned(struct standin_owner owner); /* it exists and is the current one */
bool standin_same(struct standin_owner owner, struct standin_owner other);
/* So many more, or fewer, objects of a context. */
void standin_count(struct standin_owner owner, enum standin_object object, int change);

/* memory.c */
enum standin_kind {
    STANDIN_DEVICE,
    STANDIN_IMPORTED,
    STANDIN_REGISTERED,
    STANDIN_MANAGED, /* a host may touch it */
    STANDIN_POOL,    /* these two belong to no context, and no other process can map them */
    STANDIN_VMM,
};
/* Must a synchronous operation on the address wait for its end (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
 * CU_CTX_SYNC_MEMOPS)? */
bool standin_memory_synchronous(const void *address);
/* Kind and GPU of an address; false: ordinary host memory, which a GPU does not reach. */
bool standin_memory_kind(const void *address, enum standin_kind *kind, int *gpu);
/* The same for so many bytes that a kernel in this context uses: all within one block that it
 * reaches. */
bool standin_memory_reached(const void *address, size_t bytes, const struct CUctx_st *context);
/* The block of the address, if it is reached in this context. */
bool standin_memory_range(const void *address, const struct CUctx_st *context, uint64_t *begin,
                          uint64_t *end);
/* And that a copy uses, which also takes memory that the driver does not know, or that the host has
 * registered in another context: it is not pinned there, but the host's. */
bool standin_memory_copied(const void *address, size_t bytes, const struct CUctx_st *context);
/* Device memory is accessible between open and close; calls nest and may come from any thread. */
void standin_memory_open(void);
void standin_memory_close(void);

#define STANDIN_ENTER(call)                                 \
    do {                                                    \
        CUresult injected_ = standin_enter(STANDIN_##call); \
        if (injected_ != CUDA_SUCCESS) {                    \
            return injected_;                               \
        }                                                   \
    } while (0)

/* For calls that release something: `released` after `release` was evaluated. */
#define STANDIN_RELEASE(call, release)                            \
    do {                                                          \
        CUresult injected_ = standin_enter(STANDIN_##call);       \
        CUresult released_ = (release);                           \
        return injected_ != CUDA_SUCCESS ? injected_ : released_; \
    } while (0)

/* What no driver lets pass; the result alone might be survived, so it is told in the report. */
#define STANDIN_REFUSE_IF(wrong, result, what)                                         \
    do {                                                                               \
        if (wrong) {                                                                   \
            standin_report("pid %d misuses %s: %s\n", (int) getpid(), __func__, what); \
            return result;                                                             \
        }                                                                              \
    } while (0)

#define STANDIN_NEED_CONTEXT()                                                           \
    do {                                                                                 \
        if (standin_current() == NULL) {                                                 \
            standin_report("pid %d misuses %s: no context is current\n", (int) getpid(), \
                           __func__);                                                    \
            return CUDA_ERROR_INVALID_CONTEXT;                                           \
        }                                                                                \
    } while (0)

/* For what belongs to a context: that one must be current. */
#define STANDIN_NEED_OWNER(owner)                                                             \
    do {                                                                                      \
        STANDIN_NEED_CONTEXT();                                                               \
        if (!standin_owned(owner)) {                                                          \
            standin_report("pid %d misuses %s: another context is current\n", (int) getpid(), \
                           __func__);                                                         \
            return CUDA_ERROR_INVALID_CONTEXT;                                                \
        }                                                                                     \
    } while (0)

#endif
