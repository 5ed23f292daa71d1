/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The CUDA driver's entry points, loaded at run time. Nothing is linked with libcuda, so that the
 * component loads on machines without a driver. The list below is the only place that names the
 * entry points, and the stand-in driver of the tests implements exactly this list.
 */
#ifndef GPURING_DEVICE_CUDA_DRIVER_H
#define GPURING_DEVICE_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* cuda.h of CUDA 12 renames these to versions with further parameters, which older drivers lack. */
#undef cuGraphAddKernelNode
#undef cuGraphExecKernelNodeSetParams

#define GPURING_CUDA_SYNC_MEMOPS 0x80u /* CU_CTX_SYNC_MEMOPS, in cuda.h from CUDA 12.1 on */

/*
 * X(member, exported symbol, arguments). The symbol has the version that cuda.h's macros select for
 * CUDA 11 and later. Every driver since CUDA 11.4 has the required entry points. Optional ones may
 * be NULL, which the caller must check.
 */
#define GPURING_CUDA_CALLS(X) GPURING_CUDA_REQUIRED(X) GPURING_CUDA_OPTIONAL(X)
#define GPURING_CUDA_OPTIONAL(X)                                                                  \
    X(pointer_set, cuPointerSetAttribute, (const void *, CUpointer_attribute, CUdeviceptr))       \
    X(ctx_flags, cuCtxGetFlags, (unsigned int *) )                                                \
    X(ctx_set_flags, cuCtxSetFlags, (unsigned int) )          /* CUDA 12.1 */                     \
    X(ctx_id, cuCtxGetId, (CUcontext, unsigned long long *) ) /* CUDA 12.0 */                     \
    X(function_load, cuFuncLoad, (CUfunction))                /* CUDA 12.4 */                     \
    X(host_function, cuLaunchHostFunc, (CUstream, CUhostFn, void *) )                             \
    X(stream_priority, cuStreamGetPriority, (CUstream, int *) )                                   \
    X(graph_create, cuGraphCreate, (CUgraph *, unsigned int) )                                    \
    X(graph_destroy, cuGraphDestroy, (CUgraph))                                                   \
    X(graph_kernel, cuGraphAddKernelNode,                                                         \
      (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *) ) \
    X(graph_attribute, cuGraphKernelNodeSetAttribute, /* the priority: CUDA 11.7 */               \
      (CUgraphNode, CUkernelNodeAttrID, const CUkernelNodeAttrValue *) )                          \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                             \
      (CUgraphExec *, CUgraph, unsigned long long) )                                              \
    X(graph_set, cuGraphExecKernelNodeSetParams,                                                  \
      (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *) )                            \
    X(graph_launch, cuGraphLaunch, (CUgraphExec, CUstream))                                       \
    X(graph_end, cuGraphExecDestroy, (CUgraphExec))                                               \
    X(range_handle, cuMemGetHandleForAddressRange, /* CUDA 11.7 */                                \
      (void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) )
#define GPURING_CUDA_REQUIRED(X)                                                         \
    X(init, cuInit, (unsigned int) )                                                     \
    X(error_name, cuGetErrorName, (CUresult, const char **) )                            \
    X(error_string, cuGetErrorString, (CUresult, const char **) )                        \
    X(device_count, cuDeviceGetCount, (int *) )                                          \
    X(device_get, cuDeviceGet, (CUdevice *, int) )                                       \
    X(device_attribute, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))     \
    X(device_pci, cuDeviceGetPCIBusId, (char *, int, CUdevice))                          \
    X(device_uuid, cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                             \
    X(primary_state, cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *) )     \
    X(primary_retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                 \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                         \
    X(ctx_current, cuCtxGetCurrent, (CUcontext *) )                                      \
    X(ctx_device, cuCtxGetDevice, (CUdevice *) )                                         \
    X(ctx_push, cuCtxPushCurrent_v2, (CUcontext))                                        \
    X(ctx_pop, cuCtxPopCurrent_v2, (CUcontext *) )                                       \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *) )         \
    X(pointer_attributes, cuPointerGetAttributes,                                        \
      (unsigned int, CUpointer_attribute *, void **, CUdeviceptr))                       \
    X(address_range, cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))    \
    X(alloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                     \
    X(free, cuMemFree_v2, (CUdeviceptr))                                                 \
    X(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned int) )              \
    X(host_unregister, cuMemHostUnregister, (void *) )                                   \
    X(set_async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))        \
    X(copy_async, cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))           \
    X(copy_peer_async, cuMemcpyPeerAsync,                                                \
      (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))                \
    X(copy_rows_async, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))            \
    X(stream_create, cuStreamCreateWithPriority, (CUstream *, unsigned int, int) )       \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream))                                    \
    X(stream_sync, cuStreamSynchronize, (CUstream))                                      \
    X(stream_query, cuStreamQuery, (CUstream))                                           \
    X(stream_wait, cuStreamWaitEvent, (CUstream, CUevent, unsigned int) )                \
    X(stream_context, cuStreamGetCtx, (CUstream, CUcontext *) )                          \
    X(is_capturing, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *) )           \
    X(event_create, cuEventCreate, (CUevent *, unsigned int) )                           \
    X(event_destroy, cuEventDestroy_v2, (CUevent))                                       \
    X(event_record, cuEventRecord, (CUevent, CUstream))                                  \
    X(module_load, cuModuleLoadData, (CUmodule *, const void *) )                        \
    X(module_unload, cuModuleUnload, (CUmodule))                                         \
    X(module_function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *) )     \
    X(launch, cuLaunchKernel,                                                            \
      (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
       unsigned int, unsigned int, CUstream, void **, void **) )                         \
    X(ipc_get, cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr))                       \
    X(ipc_open, cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned int) )   \
    X(ipc_close, cuIpcCloseMemHandle, (CUdeviceptr))

struct gpuring_cuda_driver {
#define GPURING_CUDA_MEMBER(member, symbol, arguments) CUresult(CUDAAPI *member) arguments;
    GPURING_CUDA_CALLS(GPURING_CUDA_MEMBER)
#undef GPURING_CUDA_MEMBER
    void *handle; /* the library's handle */
};

/*
 * Return true if the driver's library is loaded in this process. Without it, the process has no
 * device memory. If it is not loaded, this takes a few instructions if no library was loaded since
 * the first call, and otherwise some 10 ns. System calls are only needed if a library was loaded
 * since the last call. Thread-safe.
 */
bool gpuring_cuda_loaded(void);

/*
 * Return the driver of the process, or NULL with the reason in *reason (static storage; NULL: it
 * has been logged). If initialising it fails, the next call tries again. loaded_only: neither load
 * nor initialise the driver. Its functions then fail with CUDA_ERROR_NOT_INITIALIZED until the
 * application has initialised it. Thread-safe.
 */
const struct gpuring_cuda_driver *gpuring_cuda_driver(bool loaded_only, const char **reason);

/* Return name and text of a driver error, "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory". */
const char *gpuring_cuda_error(const struct gpuring_cuda_driver *driver, CUresult result,
                               char *text, size_t size);

#endif
