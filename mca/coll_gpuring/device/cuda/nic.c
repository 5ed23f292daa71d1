/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * GPU memory for network devices (GPUDirect RDMA). This was written according to the driver's
 * documentation and only tested on the stand-in driver. It has never run on hardware.
 */
#include "mca/coll_gpuring/device/cuda/cuda_internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/* Size of the GPU pages that the driver pins for other devices (GPUDirect RDMA, "Pinning GPU
 * memory"). */
#define GPU_PAGE UINT64_C(65536)

/* Export a range as dma-buf, or return -1. If the kernel has peer memory, network devices can also
 * access the memory without a descriptor. */
static int export_range(const struct gpuring_device *device, CUdeviceptr address, size_t bytes)
{
    CUresult result;
    char text[256];
    int fd = -1;

    if (device->driver->range_handle == NULL || /* a driver before CUDA 11.7 */
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0) {
        return -1;
    }
    result =
        device->driver->range_handle(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS) {
        gpuring_info("[no-dmabuf] GPU memory has no descriptor for network devices (dma-buf): %s",
                     gpuring_cuda_error(device->driver, result, text, sizeof text));
        return -1;
    }
    return fd;
}

/* On Grace, the host accesses the GPU over C2C instead of PCI, so counters may overtake data that
 * passes a PCI switch. This layer does not know the links, so the processor decides. */
#if defined(__aarch64__)
#define PAST_PCI true
#else
#define PAST_PCI false
#endif

/*
 * Return true if data from a network device must be flushed before a kernel of this GPU may read
 * it. The driver's "owner" or higher guarantees the order for work that is submitted afterwards.
 * Our kernel is already running and polls a counter; GPUs only guarantee this order from Hopper on.
 * An unknown order counts as none. cuFlushGPUDirectRDMAWrites is not used, because it would block
 * the progress thread (doc/hacking/net.md).
 */
static bool needs_flush(const struct gpuring_device *device)
{
    bool ordered =
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
        CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    bool hopper = gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9;
    uint32_t offered =
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);

    gpuring_debug("the driver %s network devices' writes in order, and offers %s flush by the host",
                  ordered ? "sees" : "does not promise to see",
                  (offered & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0 ? "a" : "no");
    return !ordered || !hopper || PAST_PCI;
}

int gpuring_cuda_nic_access(struct gpuring_device *device, void *memory, size_t bytes,
                            struct gpuring_device_nic *access)
{
    CUdeviceptr address = (CUdeviceptr) (uintptr_t) memory;
    int status;

    if (gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) == 0 &&
        gpuring_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0) {
        gpuring_info("[no-gpudirect] the driver offers no GPUDirect RDMA for this GPU, so "
                     "data between nodes is copied through host memory");
        return GPURING_ERR_UNSUPPORTED;
    }
    if ((address | bytes) % GPU_PAGE != 0) {
        gpuring_info("GPU memory does not begin or end with a page, so data between nodes is "
                     "copied through host memory");
        return GPURING_ERR_UNSUPPORTED;
    }
    status = gpuring_cuda_enter(device);
    if (status != GPURING_OK) {
        return status;
    }
    access->dmabuf = export_range(device, address, bytes);
    access->flush = needs_flush(device);
    gpuring_cuda_leave(device);
    return GPURING_OK;
}
