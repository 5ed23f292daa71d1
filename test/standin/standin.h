/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The stand-in CUDA driver: a test double of libcuda.so.1 with exactly the entry points that
 * device/cuda/driver.h lists. Device memory is host memory, and threads run the host executor
 * instead of kernels, or for mapped buffers the block executor of the unit tests. The library is
 * never installed, and none of its results is a result of a GPU.
 *
 * Environment:
 *   GPURING_STANDIN_GPUS=N        number of GPUs (default 1, at most 64)
 *   GPURING_STANDIN_MIG=N         divide each GPU into N instances, which are separate devices
 *                                 without access to each other (default 1: not divided)
 *   GPURING_STANDIN_SMS=N         multiprocessors per GPU (default 12)
 *   GPURING_STANDIN_CAPABILITY=N  compute capability N / 10 . N % 10 (default 90)
 *   GPURING_STANDIN_CONCURRENT=0  the host must not access managed memory before it has learned
 *                                 that all kernels have ended (default 1)
 *   GPURING_STANDIN_MPS=0         report that MPS does not run (default 1, but 0 with
 *                                 GPURING_STANDIN_EXCLUSIVE)
 *   GPURING_STANDIN_TURN_US=US    delay each copy of one row and less than 32 KiB to a GPU by US
 *                                 microseconds, like a GPU that is shared without MPS
 *   GPURING_STANDIN_LINGER=N      kernels linger N times as long as requested (default 1), because
 *                                 the threads of a busy machine often wait for longer
 *   CUDA_VISIBLE_DEVICES=LIST     numbers, or the names that nvidia-smi prints: GPU-... or MIG-...
 *   GPURING_STANDIN_FAULTS=LIST   faults, separated by commas:
 *       SYMBOL=N[:CODE[:sticky]]
 *                        the N-th call of that entry point fails with CODE (default 999, unknown);
 *                        sticky: every later call fails as well, as below. A call that releases
 *                        something still releases it.
 *       sticky=N         from the N-th launch on, every call fails with CUDA_ERROR_LAUNCH_FAILED,
 *                        except for calls on the stack of contexts. A call that releases something
 *                        still releases it.
 *       slow=US          every kernel slice takes US microseconds longer
 *       late-reads=US    copies from memory of another process begin US microseconds later
 *       corrupt=N        copies from or to memory of another process, and kernel slices that write
 *                        to it, flip one bit of the data, from the N-th of them on
 *       corrupt-host=1   kernels with connections in host memory end with a wrong bit in the result
 *       corrupt-copy=N   copies of N bytes or more to registered memory of the host flip one bit
 *       torn=N           kernels with LL128 lines to or from another process end with a wrong bit
 *                        in their result, from the N-th of them on, as if they had seen the flag of
 *                        a line before its data
 *       wrong-ll=N       the same of LL
 *       nopeer=1         GPUs cannot access each other's memory
 *       nomemops=1       synchronous operations cannot be made to wait (CU_POINTER_ATTRIBUTE_SYNC_
 *                        MEMOPS and CU_CTX_SYNC_MEMOPS are not supported)
 *       moved=1          host memory has other addresses on the GPU than on the host
 *   GPURING_STANDIN_GDR=BITS      GPUDirect RDMA: 1 supported, 2 with descriptors (dma-buf), 4 the
 *                                 GPU that owns the memory sees writes in order, 8 all GPUs do
 *                                 (default 0)
 *   GPURING_STANDIN_PROTECT=0     leave device memory readable by the host (default: an access of
 *                                 the host while nothing runs on the GPU is a segmentation fault)
 *   GPURING_STANDIN_EXCLUSIVE=FILE  run kernels of all processes one at a time (a lock on FILE), as
 *                                 if the processes shared a GPU without MPS
 *   GPURING_STANDIN_PTX=FILE      interpret kernels from this PTX (ptx.h) instead of running the
 *                                 host executor
 *   GPURING_STANDIN_PTX_SEED=N    seed for the order in which threads run (default: any)
 *   GPURING_STANDIN_REPORT=FILE   append one line for each object that was not released at exit
 *                                 ("leaks"), each call that no driver would accept ("misuses"; also
 *                                 for memory that is freed while other processes have it mapped),
 *                                 and each fault that was not reached ("never calls SYMBOL N
 *                                 times")
 *
 * In addition to the driver's entry points, the library exports the functions gpuring_standin_* of
 * this header, for programs that test many faults in one process.
 */
#ifndef GPURING_STANDIN_H
#define GPURING_STANDIN_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "kernels/step.h"
#include "mca/coll_gpuring/device/cuda/driver.h"

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags); /* not in cuda.h before CUDA 12.1 */
CUresult CUDAAPI cuFuncLoad(CUfunction function);   /* nor this before 12.4 */

/* Only for applications, which capture their streams. */
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *graph);

/* cuda.h of CUDA 12 and later only declares later versions of these, see driver.h. */
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                      size_t nafter, const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *params);

/* Entry points of the stand-in driver that applications call and the component does not. */
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

struct gpuring_move;
struct gpuring_work;

/* Objects that belong to a context and end with it. Memory is handled separately. */
enum standin_object {
    STANDIN_STREAM,
    STANDIN_EVENT,
    STANDIN_MODULE,
    STANDIN_GRAPH, /* also an executable one */
    STANDIN_OBJECTS
};

struct CUctx_st {
    int gpu;
    int references;      /* 0: the context does not exist; guarded by the lock of context.c */
    unsigned generation; /* number of contexts that had this handle; guarded, too */
    atomic_int held[STANDIN_OBJECTS];
    atomic_uint flags; /* only CU_CTX_SYNC_MEMOPS has an effect */
};

/* The context in which an object was created. A later context may have the same handle. */
struct standin_owner {
    struct CUctx_st *context; /* NULL: all contexts of the GPU, or any */
    unsigned generation;
};

/* faults.c. Wait for all running work, repair broken contexts, reset all counters, and inject the
 * faults of `list` (as in the environment, or NULL) from now on. No other thread may use the driver
 * during the call. */
void gpuring_standin_arm(const char *list);
/* Return 1 if every armed fault has been injected. */
int gpuring_standin_reached(void);
/* Return the number of objects that were not released: memory, registrations, mappings, streams,
 * events and modules. */
long gpuring_standin_held(void);

/* Simulate that a thread of the application captures a stream into a graph (1: a non-blocking
 * stream, 2: a blocking stream), or ends the capture (0). Calls that could disturb a capture are
 * refused on threads whose capture mode is not relaxed. While a blocking stream is captured, calls
 * that use the legacy stream are refused on all threads. */
void gpuring_standin_capture(int capturing);
/* Run a kernel of the application on a default stream of the current context, either the legacy
 * stream or the stream of the thread. The kernel waits `ms` milliseconds, and then copies GPU
 * memory. */
void gpuring_standin_kernel(int per_thread, void *to, const void *from, size_t bytes, int ms);
/* The same on a stream of the current context. */
void gpuring_standin_kernel_in(void *stream, void *to, const void *from, size_t bytes, int ms);
/* Let the application capture one of its streams into a graph. Tasks of the stream are appended to
 * the graph until the capture ends. launch queues them in a stream, any number of times. */
void gpuring_standin_graph_begin(void *stream);
void *gpuring_standin_graph_end(void);
void gpuring_standin_graph_launch(void *graph, void *stream);
/* End a capture, and give a graph its parameters. Returns false if it has other kinds of nodes. */
bool gpuring_standin_graph_update(void *graph);
void gpuring_standin_graph_free(void *graph);

/* For a network device: return 1 if this is memory of a GPU, and copy data from or to such
 * memory. */
int gpuring_standin_on_gpu(const void *address);
void gpuring_standin_copy(void *to, const void *from, size_t bytes);

/* Return the name of entry point number `call`, counted from 0, or NULL after the last one. */
const char *gpuring_standin_symbol(int call);
/* Return the number of calls of an entry point, or of all of them (NULL), since the start or the
 * last arm. */
long gpuring_standin_calls(const char *symbol);
/* Return the number of bytes in all copies since the start. */
long long gpuring_standin_copied(void);
/* Allocate memory that would need further entry points of a driver: "managed", "pool"
 * (stream-ordered pools), "vmm" (virtual memory calls) or "registered" (host memory). Return NULL
 * on failure. */
void *gpuring_standin_alloc(const char *sort, int gpu, size_t bytes);
void gpuring_standin_free(void *memory);
/* Create a context in addition to the primary one, without making it current. Return NULL if there
 * are too many. gpuring_standin_context_end also ends everything that was created in the context.
 * Its handle is not reused. */
void *gpuring_standin_context(int gpu);
void gpuring_standin_context_end(void *context);

/* Begin an entry point. The caller must return the result if it is not CUDA_SUCCESS. */
CUresult standin_enter(enum standin_call call);
unsigned int standin_slow_us(void);
unsigned int standin_late_read_us(void);
bool standin_corrupts(void); /* also counts copies and kernel slices for corrupt=N */
bool standin_corrupts_host(void);
bool standin_corrupts_copy(size_t bytes);
bool standin_tears(enum gpuring_protocol protocol); /* also counts kernels for torn=N */
bool standin_refuses_peers(void);
/* Break the context: from now on, calls fail with `code` unless they also work after errors. */
void standin_break(CUresult code);
bool standin_moves_host_memory(void);
/* Append a line to the report. */
void standin_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* memory.c and context.c: return the number of blocks and objects that were not released. */
long standin_held_blocks(void);
long standin_held_objects(void);

/* faults.c: return true if a blocking stream is captured. A call that uses the legacy stream would
 * end the capture. */
bool standin_captures_blocking(void);

/* stream.c: return the legacy default stream of the current context, which is created at its first
 * use, or NULL if there is no memory. */
CUstream standin_stream_legacy(void);
/* Let this stream and the context's legacy stream wait for each other. */
void standin_stream_block(CUstream stream);
/* stream.c: wait until all queued work has run. */
void standin_wait_for_streams(void);
/* Wait for the streams of the current context that have had late work. */
void standin_wait_for_late(void);
/* task.c: queue a copy or a fill whose caller does not wait. The stream starts it late: when a
 * thread waits for the stream, or after LATE_MS. A source in host memory is read immediately. */
CUresult standin_copy_late(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult standin_set_late(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
/* End the streams and the memory of a context that ends. Waits for its running work. */
void standin_end_streams(struct standin_owner owner);
void standin_end_memory(struct standin_owner owner);
/* kernel.c: check a kernel with one parameter, and queue it. */
CUresult standin_kernel_launch(CUstream stream, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel,
                               int priority);
/* Return true if the kernel was loaded in the current context. */
bool standin_kernel_owned(CUfunction function);
/* Return true if the kernel is gpuring_move. */
bool standin_kernel_moves(CUfunction function);
/* task.c: queue a kernel. */
CUresult standin_enqueue(CUstream stream, const char *kernel, const struct gpuring_work *work);
CUresult standin_enqueue_move(CUstream stream, const struct gpuring_move *move);

/* ptx_driver.c: return true if kernels are interpreted from PTX; return true if the PTX is invalid,
 * which has been reported; run a kernel. A fault of a kernel breaks the context, as on a GPU. */
struct ptx_machine;
bool standin_ptx(void);
bool standin_ptx_refused(void);
void standin_ptx_run(struct ptx_machine **machine, struct CUctx_st *context, const char *kernel,
                     const struct gpuring_work *work);
void standin_ptx_move(struct ptx_machine **machine, struct CUctx_st *context,
                      const struct gpuring_move *move);

/* context.c */
enum {
    STANDIN_GDR_SUPPORTED = 1,
    STANDIN_GDR_DMABUF = 2,
    STANDIN_GDR_ORDERED = 4,
    STANDIN_GDR_ORDERED_ALL = 8
};
int standin_gdr(void);
int standin_turn_us(void);
int standin_linger(void);
int standin_gpus(void);         /* number of GPUs that this process sees */
int standin_number(int device); /* index of the device among all GPUs, equal in all processes */
bool standin_reach(int gpu,
                   int other); /* true if two GPUs (standin_number) can access each other */
struct CUctx_st *standin_current(void); /* current context or NULL */
struct CUctx_st *standin_primary(int gpu);
struct standin_owner standin_own(void);         /* the current context */
bool standin_owned(struct standin_owner owner); /* true if it exists and is the current context */
bool standin_same(struct standin_owner owner, struct standin_owner other);
/* Add `change` to the number of objects of a context. */
void standin_count(struct standin_owner owner, enum standin_object object, int change);

/* memory.c */
enum standin_kind {
    STANDIN_DEVICE,
    STANDIN_IMPORTED,
    STANDIN_REGISTERED,
    STANDIN_MANAGED, /* the host may access it */
    STANDIN_POOL,    /* this and VMM belong to no context, and no other process can map them */
    STANDIN_VMM,
};
/* Return true if a synchronous operation on the address must wait for its end
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS or CU_CTX_SYNC_MEMOPS). */
bool standin_memory_synchronous(const void *address);
/* Get the kind and the GPU of an address. Return false for ordinary host memory, which a GPU cannot
 * access. */
bool standin_memory_kind(const void *address, enum standin_kind *kind, int *gpu);
/* Return true if a kernel in this context can access all these bytes, which must be in one
 * block. */
bool standin_memory_reached(const void *address, size_t bytes, const struct CUctx_st *context);
/* Get the block of the address. Return false if this context cannot access it. */
bool standin_memory_range(const void *address, const struct CUctx_st *context, uint64_t *begin,
                          uint64_t *end);
/* Return true if a copy in this context can access all these bytes. Copies also accept memory that
 * the driver does not know, and host memory that is registered in another context. */
bool standin_memory_copied(const void *address, size_t bytes, const struct CUctx_st *context);
/* Let the host access device memory between open and close. Any thread may call these, and calls
 * nest. */
void standin_memory_open(void);
void standin_memory_close(void);

#define STANDIN_ENTER(call)                                 \
    do {                                                    \
        CUresult injected_ = standin_enter(STANDIN_##call); \
        if (injected_ != CUDA_SUCCESS) {                    \
            return injected_;                               \
        }                                                   \
    } while (0)

/* Begin a call that releases something. `release` is evaluated even if a fault is injected. */
#define STANDIN_RELEASE(call, release)                            \
    do {                                                          \
        CUresult injected_ = standin_enter(STANDIN_##call);       \
        CUresult released_ = (release);                           \
        return injected_ != CUDA_SUCCESS ? injected_ : released_; \
    } while (0)

/* Refuse a call that no driver accepts. Also report it, because the caller might ignore the
 * result. */
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

/* Require that the context of an object is current. */
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
