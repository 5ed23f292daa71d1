/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Device memory for other processes (CUDA IPC) and network devices (dma-buf). */
#include "test/standin/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ipc {
    int pid, fd;
    int gpu; /* number from standin_number */
    size_t bytes, lead, mapped;
    unsigned long long id; /* makes handles unique, also over time */
};
_Static_assert(sizeof(struct ipc) <= sizeof(CUipcMemHandle), "travels in the handle");

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct block block;
    struct ipc ipc;

    STANDIN_ENTER(ipc_get);
    STANDIN_NEED_CONTEXT();
    if (!standin_block_find((void *) (uintptr_t) pointer, &block) || block.kind != STANDIN_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    STANDIN_REFUSE_IF(block.address != (void *) (uintptr_t) pointer, CUDA_ERROR_INVALID_VALUE,
                      "not the beginning of an allocation");
    memset(&ipc, 0, sizeof ipc);
    ipc.pid = (int) getpid();
    ipc.fd = block.fd;
    ipc.gpu = standin_number(block.gpu);
    ipc.bytes = block.bytes;
    ipc.lead = block.lead;
    ipc.mapped = block.mapped;
    ipc.id = block.id;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ipc, sizeof ipc);
    return CUDA_SUCCESS;
}

/* Return true if the block is memory of another process in this file. */
static bool maps_file(const struct block *block, const void *context)
{
    const struct stat *wanted = context;
    struct stat file;

    return block->kind == STANDIN_IMPORTED && fstat(block->fd, &file) == 0 &&
           file.st_dev == wanted->st_dev && file.st_ino == wanted->st_ino;
}

static bool opened_before(int fd)
{
    struct stat file;

    return fstat(fd, &file) == 0 && standin_block_any(maps_file, &file);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    struct ipc ipc;
    uint8_t *address;
    char path[64];
    int fd;

    STANDIN_ENTER(ipc_open);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE,
                      "flags that are none");
    memcpy(&ipc, &handle, sizeof ipc);
    if (!standin_reach(ipc.gpu, standin_number(standin_current()->gpu))) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (ipc.pid == (int) getpid()) {
        return CUDA_ERROR_INVALID_CONTEXT; /* like the real driver, not in the exporting process */
    }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", ipc.pid, ipc.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return CUDA_ERROR_MAP_FAILED;
    }
    if (opened_before(fd)) {
        close(fd);
        STANDIN_REFUSE_IF(true, CUDA_ERROR_ALREADY_MAPPED, "the handle is open");
    }
    address = mmap(NULL, ipc.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED || standin_count_mappings(fd, ipc.mapped, 1) < 0) {
        close(fd);
        return CUDA_ERROR_MAP_FAILED;
    }
    *pointer = (CUdeviceptr) (uintptr_t) (address + ipc.lead);
    return standin_block_add((struct block){.address = address + ipc.lead,
                                            .bytes = ipc.bytes,
                                            .lead = ipc.lead,
                                            .mapped = ipc.mapped,
                                            .kind = STANDIN_IMPORTED,
                                            .gpu = standin_current()->gpu,
                                            .owner = standin_own(),
                                            .fd = fd});
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    STANDIN_RELEASE(ipc_close,
                    standin_block_release((void *) (uintptr_t) pointer, STANDIN_IMPORTED));
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    struct block block;
    int fd = -1;

    STANDIN_ENTER(range_handle);
    STANDIN_NEED_CONTEXT();
    if ((standin_gdr() & STANDIN_GDR_DMABUF) == 0 || flags != 0 ||
        type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    STANDIN_REFUSE_IF((pointer | bytes) % PAGE != 0 || bytes == 0, CUDA_ERROR_INVALID_VALUE,
                      "not whole pages");
    if (standin_block_find((void *) (uintptr_t) pointer, &block) && block.kind == STANDIN_DEVICE &&
        block.address == (void *) (uintptr_t) pointer && bytes <= block.mapped) {
        fd = fcntl(block.fd, F_DUPFD_CLOEXEC, 0);
    }
    *(int *) handle = fd;
    return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
