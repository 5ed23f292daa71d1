/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The operations of a device, which provides memory and runs plans. `host` (host.c) uses ordinary
 * memory and runs plans in the calling thread. `cuda` (cuda.c) uses the driver API through dlopen.
 *
 * The host device does not have the optional functions, which are NULL: its executors are threads
 * of this process, access all of its memory, and read tables in place.
 *
 * Threads: open and close from one thread. All other functions may be called from any thread, but
 * only one thread at a time may use a stream or a work. Functions return 0 or a negative
 * gpuring_status, and log an error when they first detect it.
 */
#ifndef GPURING_DEVICE_DEVICE_H
#define GPURING_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/move.h"
#include "kernels/work.h"

struct gpuring_device; /* an opened device of a process */
struct gpuring_stream;
struct gpuring_runs; /* bytes of a user's buffer: runs.h */

enum gpuring_pointer_kind {
    GPURING_POINTER_HOST,       /* unknown to the device's driver */
    GPURING_POINTER_REGISTERED, /* host memory that the device can reach */
    GPURING_POINTER_DEVICE,     /* exportable device memory */
    GPURING_POINTER_POOL,       /* device memory that cannot be exported (stream-ordered pools) */
    GPURING_POINTER_VMM,        /* device memory mapped with the virtual memory functions */
    GPURING_POINTER_MANAGED,
};

struct gpuring_pointer {
    enum gpuring_pointer_kind kind;
    int ordinal;   /* device of the memory, -1 for the host */
    void *context; /* driver context of its allocation, NULL if it has none */
};

/* Return true for memory that kernels use and that must not be passed to other components: device
 * memory of every kind, and managed memory, which on some systems the host must not access while a
 * GPU runs. */
static inline bool gpuring_pointer_on_gpu(enum gpuring_pointer_kind kind)
{
    return kind != GPURING_POINTER_HOST && kind != GPURING_POINTER_REGISTERED;
}

/* This process's device in AllGather 1. The layout is fixed, because it is sent between ranks. */
struct gpuring_device_identity {
    char pci_bus_id[16]; /* "0000:17:00.0"; empty for the host device */
    uint8_t uuid[16];    /* GPU or MIG instance; zero for the host device */
    uint32_t kind;       /* enum gpuring_device_kind */
    uint32_t capability; /* compute capability, major * 10 + minor; 0 for the host */
    uint32_t gdr;        /* bit 0: peer memory, bit 1: dma-buf */
    uint16_t sms;        /* multiprocessors that this process may use; 0 for the host */
    uint16_t mps;        /* 1: kernels of several processes run simultaneously on the GPU */
};
_Static_assert(sizeof(struct gpuring_device_identity) == 48, "travels between ranks");

enum gpuring_device_kind { GPURING_DEVICE_HOST, GPURING_DEVICE_CUDA };

/* Exported memory, valid in other processes of the node while the exporter keeps it. */
struct gpuring_device_handle {
    uint64_t size;
    uint8_t bytes[72]; /* host: {pid, fd, cookie}; cuda: CUipcMemHandle */
};
_Static_assert(sizeof(struct gpuring_device_handle) == 80, "travels between ranks");

/* GPU memory that network devices access directly (GPUDirect RDMA). */
struct gpuring_device_nic {
    int dmabuf; /* a descriptor of the memory, which the caller closes; -1: none */
    bool flush; /* the GPU sees data that a network device wrote only after a read by that device */
};

/* Treatment of the application's work that is still running on the default stream at a call
 * (coll_gpuring_default_stream). */
enum gpuring_default_stream {
    GPURING_DEFAULT_STREAM_WAIT, /* kernels and copies of the call wait for it */
    GPURING_DEFAULT_STREAM_WARN, /* one message, if one of the first 100 calls detects it */
    GPURING_DEFAULT_STREAM_NONE,
};

enum gpuring_copy_how {
    GPURING_COPY_IN = 1,     /* from the user's buffer; otherwise to it */
    GPURING_COPY_PACKED = 2, /* runs are packed in the other buffer; otherwise at their offsets */
    GPURING_COPY_WAIT = 4,   /* wait for the end of all copies of the stream */
};

struct gpuring_device_ops {
    const char *name;
    enum gpuring_device_kind kind;
    int toolkit; /* CUDA_VERSION of the toolkit that compiled the kernels; 0: there are none */

    int (*open)(struct gpuring_device **device);
    void (*close)(struct gpuring_device *device);

    /*
     * Optional. Select the GPU of this pointer. Called once, before any function that allocates,
     * copies or launches. It creates no context and uses that of the pointer, or the current one of
     * the calling thread, or the device's primary one if that is active. The application must keep
     * this context. After it has been destroyed, all functions except copies fail
     * ([context-destroyed] in the log, GPURING_ERR_CONTEXT).
     */
    int (*attach)(struct gpuring_device *device, const struct gpuring_pointer *pointer);

    /* Optional. Select the treatment once, before any stream is created. The default is WAIT. */
    void (*default_stream)(enum gpuring_default_stream chosen);

    /* Optional. Return true if executors of this device can access the memory at a user's pointer.
     * Otherwise only copies can, through the context of the memory. */
    bool (*reaches)(const struct gpuring_device *device, const struct gpuring_pointer *pointer);

    int (*identity)(struct gpuring_device *device, struct gpuring_device_identity *identity);

    /* Optional. Return false if no pointer of this process can be device memory. Called at every
     * MPI call, so it is cheap and calls neither the system nor the driver. */
    bool (*possible)(void);

    /* Optional. Classify a user's pointer. This takes one driver call, several for a new buffer and
     * for memory without a context, and none before the application has loaded the driver. When it
     * returns, earlier operations on the memory that the application considers synchronous have
     * completed. Never fails. device may be NULL. */
    struct gpuring_pointer (*classify)(struct gpuring_device *device, const void *pointer);

    /* Optional. Classify a pointer without completing earlier operations on its memory. For calls
     * in a stream of the application, which the application orders itself. */
    struct gpuring_pointer (*locate)(struct gpuring_device *device, const void *pointer);

    /* Allocate zeroed, page-aligned memory that can be exported and that executors and peers
     * access. */
    int (*alloc)(struct gpuring_device *device, size_t bytes, void **pointer);
    void (*free)(struct gpuring_device *device, void *pointer);
    /* Export memory from alloc, or an allocation of the application with memory of kind DEVICE.
     * Importing a handle again returns the same pointer, which is unmapped by the last unimport. */
    int (*export)(struct gpuring_device *device, void *pointer,
                  struct gpuring_device_handle *handle);
    int (*import)(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                  void **pointer);
    void (*unimport)(struct gpuring_device *device, void *pointer);
    /* Only for GPUs. Find the beginning of the application's allocation that contains a buffer. */
    int (*allocation)(struct gpuring_device *device, const void *buffer, void **base);
    /* Optional. Release descriptors, because the memory will not be imported again. */
    void (*unexport)(struct gpuring_device *device, void *pointer);

    /* Optional. Prepare launches by loading all kernels. Calls then never wait for a kernel to be
     * loaded, and errors of the driver are detected before any data moves. */
    int (*prepare)(struct gpuring_device *device);

    /* Optional. Allocate device memory for tables, which unload frees, and copy tables there. The
     * executor may change them (they contain the step counters). */
    int (*alloc_table)(struct gpuring_device *device, size_t bytes, void **where);
    int (*upload)(struct gpuring_device *device, void *where, const void *table, size_t bytes);
    void (*unload)(struct gpuring_device *device, void *where);

    /* Optional. Make host memory that is already mapped (status pages) accessible to executors,
     * until unreach. */
    int (*reach)(struct gpuring_device *device, void *memory, size_t bytes);
    void (*unreach)(struct gpuring_device *device, void *memory);

    /* Allocate zeroed, page-aligned host memory from which the device copies at full speed. */
    int (*alloc_pinned)(struct gpuring_device *device, size_t bytes, void **pointer);
    void (*free_pinned)(struct gpuring_device *device, void *pointer);

    /*
     * Optional. Prepare memory from alloc for network devices (GPUDirect RDMA). Return GPURING_OK,
     * or GPURING_ERR_UNSUPPORTED with the reason in a log line of level INFO.
     */
    int (*nic_access)(struct gpuring_device *device, void *memory, size_t bytes,
                      struct gpuring_device_nic *access);

    int (*stream_create)(struct gpuring_device *device, struct gpuring_stream **stream);
    /* Optional. Let the kernel of a short call wait for the next call of the stream for this many
     * microseconds, so that the next call needs no launch. The kernel keeps the counters of its
     * connections meanwhile, so all works that use the same connections must be started on this
     * stream. `command` is pinned memory, which the stream uses until it is destroyed. */
    int (*linger)(struct gpuring_stream *stream, struct gpuring_command *command, int us);
    /* Optional. Return false if the application has destroyed the context in which the stream was
     * created. Streams that are created afterwards can only copy between host memory and GPU
     * buffers. */
    bool (*stream_works)(const struct gpuring_stream *stream);
    /* Optional. Return true if the application has destroyed the context in which the device works.
     * May call the driver. */
    bool (*lost)(const struct gpuring_device *device);
    void (*stream_destroy)(struct gpuring_stream *stream); /* after all of its work has ended */
    /* Start a copy. The user's memory may belong to any context and GPU. The caller must wait for
     * copies with `copied` or `synchronize`. The first copy after that follows the application's
     * default stream. */
    int (*copy)(struct gpuring_stream *stream, void *to, const void *from, size_t bytes);
    /* Copy runs between a user's buffer and another one. how: bits of enum gpuring_copy_how. After
     * an error, or with GPURING_COPY_WAIT, all copies of the stream have ended on return. */
    int (*copy_runs)(struct gpuring_stream *stream, const void *user, const void *other,
                     const struct gpuring_runs *runs, unsigned how);
    int (*copied)(struct gpuring_stream *stream); /* for copies: GPURING_AGAIN while they run */
    /* Start or resume a work. poll returns GPURING_OK when all lanes have finished, GPURING_AGAIN
     * while they run, and otherwise an error. The work remains in use until poll returns GPURING_OK
     * or an error. launch follows the application's default stream. */
    int (*launch)(struct gpuring_stream *stream, struct gpuring_work *work);
    int (*poll)(struct gpuring_stream *stream, struct gpuring_work *work);
    /* Optional. Start a copy by a kernel (kernels/move.h), which follows the application's default
     * stream. The kernel can access the memory that `reaches` accepts. moved returns GPURING_AGAIN
     * until all blocks have stored their ends, and otherwise GPURING_OK or an error. Until then,
     * *move stays unchanged, and nothing else is started on the stream. moves returns false if
     * prepare has not loaded the kernel, or if the host could not detect its end. */
    bool (*moves)(const struct gpuring_device *device);
    int (*move)(struct gpuring_stream *stream, const struct gpuring_move *move);
    int (*moved)(struct gpuring_stream *stream, const struct gpuring_move *move);
    /* Wait for copies, or for an abandoned work. The driver limits the time. */
    int (*synchronize)(struct gpuring_stream *stream);

    /*
     * Optional. Streams of the application, which are driver handles (CUstream). The functions do
     * not wait, and nothing that they start follows the default stream.
     *
     * stream_owner: set *owner to the GPU and the context of a stream, as attach needs them.
     * enqueue: launch `work`, or `in_graph` if the stream is being captured into a graph, and set
     * *captured. Both differ only in their states and numbers, and their patience never ends. The
     * driver copies the work. The caller has set launch_seq, which the executor stores in the
     * lanes' states at the end.
     * enqueue_copy: copy within memory that the device reaches.
     * captures: set *captured if the stream is being captured into a graph, which then contains the
     * work or the copy instead of running it. Like enqueue, returns GPURING_ERR_UNSUPPORTED
     * (logged) if the capture of another stream does not allow the use of this one.
     */
    int (*stream_owner)(void *stream, struct gpuring_pointer *owner);
    int (*enqueue)(struct gpuring_device *device, void *stream, struct gpuring_work *work,
                   struct gpuring_work *in_graph, bool *captured);
    int (*enqueue_copy)(struct gpuring_device *device, void *stream, void *to, const void *from,
                        size_t bytes);
    int (*captures)(struct gpuring_device *device, void *stream, bool *captured);
};

extern const struct gpuring_device_ops gpuring_device_host;
extern const struct gpuring_device_ops gpuring_device_cuda;

/* Return true if the device's executors can access this memory. */
static inline bool gpuring_device_reaches(const struct gpuring_device_ops *ops,
                                          const struct gpuring_device *device,
                                          const struct gpuring_pointer *pointer)
{
    return ops->reaches == NULL || ops->reaches(device, pointer);
}

/* Copy with a temporary stream and wait for completion. For rare copies. */
int gpuring_device_copy(const struct gpuring_device_ops *ops, struct gpuring_device *device,
                        void *to, const void *from, size_t bytes);

#endif
