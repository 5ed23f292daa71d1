/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Allocations and registrations. Device memory is a memory file, which other processes map through
 * /proc/PID/fd/FD. The last page of the file, after the memory, counts their mappings (memory.c).
 */
#include "test/standin/memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As with a real driver, large allocations begin at a multiple of UNIT. Smaller ones are parts of
 * such units, so they may begin anywhere. */
#define UNIT (UINT64_C(2) << 20)
#define PART UINT64_C(512)

/* Reserve a range of addresses. Return NULL if there is no room. */
static void *reserve(size_t bytes)
{
    size_t unit = bytes >= UNIT ? UNIT : PAGE;
    void *address =
        mmap(NULL, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return address == MAP_FAILED
               ? NULL
               : (void *) (uintptr_t) (((uintptr_t) address + unit - 1) / unit * unit);
}

static CUresult allocate(enum standin_kind kind, int gpu, struct standin_owner owner, size_t bytes,
                         void **memory)
{
    size_t lead = kind == STANDIN_DEVICE && bytes < UNIT ? PART : 0;
    size_t mapped = (lead + bytes + PAGE - 1) / PAGE * PAGE;
    uint8_t *address;
    int fd;

    fd = memfd_create("standin", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t) (mapped + PAGE)) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    address = reserve(mapped);
    if (address == NULL || mmap(address, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                                0) == MAP_FAILED) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(address, 0xa5, mapped); /* new device memory has undefined content */
    *memory = address + lead;
    return standin_block_add((struct block){.address = address + lead,
                                            .bytes = bytes,
                                            .lead = lead,
                                            .mapped = mapped,
                                            .kind = kind,
                                            .gpu = gpu,
                                            .owner = owner,
                                            .fd = fd});
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    void *memory = NULL;
    CUresult result;

    STANDIN_ENTER(alloc);
    STANDIN_NEED_CONTEXT();
    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = allocate(STANDIN_DEVICE, standin_current()->gpu, standin_own(), bytes, &memory);
    *pointer = (CUdeviceptr) (uintptr_t) memory;
    return result;
}

void *gpuring_standin_alloc(const char *sort, int gpu, size_t bytes)
{
    static const struct {
        const char *sort;
        enum standin_kind kind;
    } sorts[] = {{"managed", STANDIN_MANAGED},
                 {"pool", STANDIN_POOL},
                 {"vmm", STANDIN_VMM},
                 {"registered", STANDIN_REGISTERED}};
    void *memory = NULL;

    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        if (strcmp(sort, sorts[i].sort) == 0 &&
            allocate(sorts[i].kind, gpu, (struct standin_owner){0}, bytes, &memory) !=
                CUDA_SUCCESS) {
            memory = NULL;
        }
    }
    return memory;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    STANDIN_RELEASE(free, standin_block_release((void *) (uintptr_t) pointer, STANDIN_DEVICE));
}

void gpuring_standin_free(void *memory)
{
    enum standin_kind kind;
    int gpu;

    if (standin_memory_kind(memory, &kind, &gpu)) {
        standin_block_free(memory, kind);
    }
}

/* Return true if all pages of these bytes are mapped. */
static bool mapped_by_host(const void *pointer, size_t bytes)
{
    uintptr_t begin = (uintptr_t) pointer / PAGE * PAGE, end = (uintptr_t) pointer + bytes;
    unsigned char resident;

    while (begin < end && mincore((void *) begin, PAGE, &resident) == 0) {
        begin += PAGE;
    }
    return begin >= end;
}

struct range {
    uintptr_t first, last; /* page numbers */
};

static struct range pages_of(const void *pointer, size_t bytes)
{
    return (struct range){(uintptr_t) pointer / PAGE, ((uintptr_t) pointer + bytes - 1) / PAGE};
}

/* Return true if a block shares a page with a range. Registration applies to whole pages. */
static bool shares_page(const struct block *block, const void *context)
{
    const struct range *wanted = context;
    struct range pages = pages_of(block->address, block->bytes);

    return pages.first <= wanted->last && pages.last >= wanted->first;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    struct range pages = pages_of(pointer, bytes);

    STANDIN_ENTER(host_register);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF(
        (flags & ~(unsigned) (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) != 0,
        CUDA_ERROR_INVALID_VALUE, "flags that are none, or not for ordinary memory");
    STANDIN_REFUSE_IF(pointer == NULL || bytes == 0 || !mapped_by_host(pointer, bytes),
                      CUDA_ERROR_INVALID_VALUE, "there is no such memory");
    STANDIN_REFUSE_IF(standin_block_any(shares_page, &pages),
                      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                      "a page of it is registered already");
    return standin_block_add((struct block){.address = pointer,
                                            .bytes = bytes,
                                            .kind = STANDIN_REGISTERED,
                                            .owner = standin_own(),
                                            .portable = (flags & CU_MEMHOSTREGISTER_PORTABLE) != 0,
                                            .fd = -1});
}

CUresult cuMemHostUnregister(void *pointer)
{
    STANDIN_RELEASE(host_unregister, standin_block_release(pointer, STANDIN_REGISTERED));
}
