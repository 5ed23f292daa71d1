/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * Two attributes of the CUDA driver, which is loaded with dlopen. Prototypes and numbers follow the
 * CUDA driver API reference (docs.nvidia.com/cuda/cuda-driver-api).
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "mca/topo_pci/discover/pci_driver.h"

enum {
    CUDA_OK = 0,
    CUDA_ATTRIBUTE_GDR = 116,    /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, CUDA 11.3 */
    CUDA_ATTRIBUTE_DMABUF = 124, /* CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CUDA 11.7 */
};

struct pci_cuda {
    void *library;
    int (*init)(unsigned flags);
    int (*by_busid)(int *device, const char *busid);
    int (*attribute)(int *value, int attribute, int device);
};

int pci_cuda_open(const char *library, bool loaded, struct pci_cuda **result)
{
    struct pci_cuda *cuda = calloc(1, sizeof *cuda);
    int rc = 0;

    if (!cuda) {
        return -ENOMEM;
    }
    cuda->library = dlopen(library ? library : "libcuda.so.1",
                           RTLD_LAZY | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
    if (!cuda->library) {
        free(cuda);
        return -ENOENT;
    }
    *(void **) &cuda->init = dlsym(cuda->library, "cuInit");
    *(void **) &cuda->by_busid = dlsym(cuda->library, "cuDeviceGetByPCIBusId");
    *(void **) &cuda->attribute = dlsym(cuda->library, "cuDeviceGetAttribute");
    if (!cuda->init || !cuda->by_busid || !cuda->attribute) {
        rc = -ELIBBAD;
    } else if (cuda->init(0) != CUDA_OK) {
        rc = -EIO;
    }
    if (rc != 0) {
        pci_cuda_close(cuda);
        return rc;
    }
    *result = cuda;
    return 0;
}

void pci_cuda_close(struct pci_cuda *cuda)
{
    if (cuda) {
        dlclose(cuda->library);
        free(cuda);
    }
}

/* Query an attribute. It remains unknown if an older driver does not have it. */
static void attribute_get(const struct pci_cuda *cuda, int device, int attribute, int *fact)
{
    int value = 0;

    if (cuda->attribute(&value, attribute, device) == CUDA_OK) {
        *fact = value != 0;
    }
}

static int hook_gdr(void *context, const char *busid, struct pci_gpu_facts *facts)
{
    const struct pci_cuda *cuda = context;
    int device;

    if (cuda->by_busid(&device, busid) != CUDA_OK) {
        return 0; /* the GPU is hidden from this process */
    }
    attribute_get(cuda, device, CUDA_ATTRIBUTE_GDR, &facts->gdr);
    attribute_get(cuda, device, CUDA_ATTRIBUTE_DMABUF, &facts->dmabuf);
    return 1;
}

void pci_cuda_hook(struct pci_cuda *cuda, struct pci_discover_hooks *hooks)
{
    hooks->gdr_context = cuda;
    hooks->gdr = hook_gdr;
}
