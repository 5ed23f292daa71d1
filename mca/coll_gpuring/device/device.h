/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The device ops table: where buffers live and where plans run. `host` (host.c): ordinary
 * memory, plans run in the calling thread. `cuda` (cuda.c): driver API through dlopen.
 *
 * Optional functions are NULL for the host device: its executors are threads of this process, use
 * all its memory, and read tables where they are.
 *
 * Threads: open/close from one thread; everything else from any thread, except that one stream or
 * one work is used by one thread at a time. Functions return 0 or a negative gpuring_status and
 * log the first detection of an error.
 */
#ifndef GPURING_DEVICE_DEVICE_H
#define GPURING_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/work.h"

struct gpuring_device; /* one opened device layer of a process */
struct gpuring_stream;

enum gpuring_pointer_kind {
    GPURING_POINTER_HOST,       /* unknown to the device's driver */
    GPURING_POINTER_REGISTERED, /* host memory that the device can reach */
    GPURING_POINTER_DEVICE,     /* exportable device memory */
    GPURING_POINTER_POOL,       /* device memory that cannot be exported (stream-ordered pools) */
    GPURING_POINTER_VMM,        /* device memory mapped by the virtual memory calls */
    GPURING_POINTER_MANAGED,
};

struct gpuring_pointer {
    enum gpuring_pointer_kind kind;
    int ordinal;   /* device of the memory, -1 for the host */
    void *context; /* driver context it was allocated in, NULL if it has none */
};

/* True for memory that kernels serve and that no other component may be given: device memory of
 * every sort, and managed memory, which a host must not touch on every system while a GPU runs. */
static inline bool gpuring_pointer_on_gpu(enum gpuring_pointer_kind kind)
{
    return kind != GPURING_POINTER_HOST && kind != GPURING_POINTER_REGISTERED;
}

/* What this process brings into AllGather 1. Fixed layout: travels between ranks. */
struct gpuring_device_identity {
    char pci_bus_id[16]; /* "0000:17:00.0"; empty for the host device */
    uint8_t uuid[16];    /* GPU or MIG instance; zero for the host device */
    uint32_t kind;       /* enum gpuring_device_kind */
    uint32_t capability; /* compute capability, major * 10 + minor; 0 for the host */
    uint32_t gdr;        /* bit 0: peer memory, bit 1: dma-buf */
    uint16_t sms;        /* multiprocessors that this process may use; 0 for the host */
    uint16_t mps;        /* 1: kernels of several processes run on the GPU side by side */
};
_Static_assert(sizeof(struct gpuring_device_identity) == 48, "travels between ranks");

enum gpuring_device_kind { GPURING_DEVICE_HOST, GPURING_DEVICE_CUDA };

/* An exported piece of memory, valid in other processes of the node while the exporter keeps it. */
struct gpuring_device_handle {
    uint64_t size;
    uint8_t bytes[72]; /* host: {pid, fd, cookie}; cuda: CUipcMemHandle */
};
_Static_assert(sizeof(struct gpuring_device_handle) == 80, "travels between ranks");

/* Memory of a GPU that network devices reach directly (GPUDirect RDMA). */
struct gpuring_device_nic {
    int dmabuf; /* a descriptor that stands for the memory, of the caller to close; -1: none */
    bool flush; /* what a device wrote is there for the GPU only after the device has read */
};

/* What is done about work of the application that is still running on the default stream when a
 * call is made (coll_gpuring_default_stream). */
enum gpuring_default_stream {
    GPURING_DEFAULT_STREAM_WAIT, /* kernels and copies of the call wait for it */
    GPURING_DEFAULT_STREAM_WARN, /* one message, if it is seen in one of the first 100 calls */
    GPURING_DEFAULT_STREAM_NONE,
};

struct gpuring_device_ops {
    const char *name;
    enum gpuring_device_kind kind;
    int toolkit; /* CUDA_VERSION of the toolkit that compiled the kernels; 0: there are none */

    int (*open)(struct gpuring_device **device);
    void (*close)(struct gpuring_device *device);

    /*
     * Optional. Choose the GPU: that of this pointer. Called once, before any function that
     * allocates, copies or launches. It creates no context: it uses the pointer's, else the calling
     * thread's current one, else the device's primary one if that is active. The application keeps
     * that context; after it was destroyed all calls but copies fail
     * ([context-destroyed] in the log, GPURING_ERR_CONTEXT).
     */
    int (*attach)(struct gpuring_device *device, const struct gpuring_pointer *pointer);

    /* Optional. Choose, once and before any stream is made. Until then it is WAIT. */
    void (*default_stream)(enum gpuring_default_stream chosen);

    /* Optional. Do executors of this device reach the memory at a user's pointer? If not, copies
     * do, by way of the memory's own context. */
    bool (*reaches)(const struct gpuring_device *device, const struct gpuring_pointer *pointer);

    int (*identity)(struct gpuring_device *device, struct gpuring_device_identity *identity);

    /* Optional. Could a pointer of this process be anything but host memory? Asked at every call:
     * cheap, and of neither the system nor the driver. */
    bool (*possible)(void);

    /* Optional. Classify a user's pointer; one driver call, a few at the first sight of a buffer
     * and for memory without a context, none while the application has not loaded the driver. What
     * the application did to the memory before, and takes for done, is done when it returns. Never
     * fails. device may be NULL. */
    struct gpuring_pointer (*classify)(struct gpuring_device *device, const void *pointer);

    /* Zeroed memory that can be exported and that executors and peers reach. Page aligned. */
    int (*alloc)(struct gpuring_device *device, size_t bytes, void **pointer);
    void (*free)(struct gpuring_device *device, void *pointer);
    int (*export)(struct gpuring_device *device, void *pointer,
                  struct gpuring_device_handle *handle);
    int (*import)(struct gpuring_device *device, const struct gpuring_device_handle *handle,
                  void **pointer);
    void (*unimport)(struct gpuring_device *device, void *pointer);
    /* Optional. Nobody will import this memory any more: gives back descriptors. */
    void (*unexport)(struct gpuring_device *device, void *pointer);

    /* Optional. Make launches possible: loads all kernels, so that a call waits for none to be
     * loaded and what the driver refuses is found before any data moves. */
    int (*prepare)(struct gpuring_device *device);

    /* Optional. A copy of tables in device memory, which the executor may change (step counters
     * live there then). unload takes the pointer that upload gave. */
    int (*upload)(struct gpuring_device *device, const void *table, size_t bytes, void **where);
    void (*unload)(struct gpuring_device *device, void *where);

    /* Optional. Let executors reach host memory that is mapped already (status pages); undone by
     * unreach. */
    int (*reach)(struct gpuring_device *device, void *memory, size_t bytes);
    void (*unreach)(struct gpuring_device *device, void *memory);

    /* Zeroed host memory from which the device copies at full speed. Page aligned. */
    int (*alloc_pinned)(struct gpuring_device *device, size_t bytes, void **pointer);
    void (*free_pinned)(struct gpuring_device *device, void *pointer);

    /*
     * May network devices be given memory that came from alloc (GPUDirect RDMA)? GPURING_OK, or
     * GPURING_ERR_UNSUPPORTED with a log line (level INFO) that says why not. Optional.
     */
    int (*nic_access)(struct gpuring_device *device, void *memory, size_t bytes,
                      struct gpuring_device_nic *access);

    int (*stream_create)(struct gpuring_device *device, struct gpuring_stream **stream);
    /* Optional. False if the application has destroyed the context in which the stream was made.
     * Streams that are made afterwards copy between host memory and GPU buffers, and do nothing
     * else. */
    bool (*stream_works)(const struct gpuring_stream *stream);
    /* Optional. Has the application destroyed the context that the device works in? May call the
     * driver. */
    bool (*lost)(const struct gpuring_device *device);
    void (*stream_destroy)(struct gpuring_stream *stream); /* when what it was given has ended */
    /* The user's memory may be of any context and GPU. What was begun is to be waited for: by
     * copied or synchronize. The first copy since then follows the application's default stream. */
    int (*copy)(struct gpuring_stream *stream, void *to, const void *from, size_t bytes);
    /* `rows` pieces of `bytes` bytes, as far apart as each side's pitch says; bytes <= pitch <
     * 2^31.
     */
    int (*copy_rows)(struct gpuring_stream *stream, void *to, size_t to_pitch, const void *from,
                     size_t from_pitch, size_t bytes, size_t rows);
    int (*copied)(struct gpuring_stream *stream); /* copies only: GPURING_AGAIN while they run */
    /* Start (or resume) a work; poll returns GPURING_OK when all lanes are done, GPURING_AGAIN
     * while they run, an error else. The work stays in use until poll has returned something final.
     * launch follows the application's default stream. */
    int (*launch)(struct gpuring_stream *stream, struct gpuring_work *work);
    int (*poll)(struct gpuring_stream *stream, struct gpuring_work *work);
    /* For copies, and for a work that was given up; bounded by the driver. */
    int (*synchronize)(struct gpuring_stream *stream);
};

extern const struct gpuring_device_ops gpuring_device_host;
extern const struct gpuring_device_ops gpuring_device_cuda;

/* Do its executors reach this memory? */
static inline bool gpuring_device_reaches(const struct gpuring_device_ops *ops,
                                          const struct gpuring_device *device,
                                          const struct gpuring_pointer *pointer)
{
    return ops->reaches == NULL || ops->reaches(device, pointer);
}

/* One copy, to its end, by a stream of its own: for what is done once. */
int gpuring_device_copy(const struct gpuring_device_ops *ops, struct gpuring_device *device,
                        void *to, const void *from, size_t bytes);

#endif
