/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Memory. Device allocations are memory files mapped at addresses that are never used twice, so a
 * use after free faults; they are inaccessible to the host except while something runs on the
 * "GPU". Other processes map them through /proc/PID/fd/FD, as CUDA IPC would; a page behind the
 * memory counts them, for who frees memory that others have mapped has undefined behaviour.
 */
#include "test/standin/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Large allocations begin with a multiple of it, as a driver's, which gives smaller ones parts of
 * such units: they begin anywhere. */
#define UNIT (UINT64_C(2) << 20)
#define PART UINT64_C(512)

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct block *blocks;
static unsigned int running; /* opens not closed yet */

static bool protects(void)
{
    const char *text = getenv("GPURING_STANDIN_PROTECT");

    return text == NULL || strcmp(text, "0") != 0;
}

/* Out of a host's reach. */
static bool is_device(enum standin_kind kind)
{
    return kind != STANDIN_PINNED && kind != STANDIN_REGISTERED && kind != STANDIN_MANAGED;
}

int standin_count_mappings(int fd, size_t mapped, int change)
{
    int *count = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) mapped);
    int now;

    if (count == MAP_FAILED) {
        return -1;
    }
    now = __atomic_add_fetch(count, change, __ATOMIC_SEQ_CST);
    munmap(count, PAGE);
    return now;
}

/* Called with the lock held. */
static void protect(const struct block *block)
{
    int access = running > 0 || !protects() ? PROT_READ | PROT_WRITE : PROT_NONE;

    if (is_device(block->kind) &&
        mprotect(block->address - block->lead, block->mapped, access) != 0) {
        perror("stand-in driver: mprotect");
        abort();
    }
}

static void set_running(int change)
{
    pthread_mutex_lock(&memory_lock);
    running += (unsigned int) change;
    if (running == (change > 0 ? 1 : 0)) {
        for (const struct block *block = blocks; block != NULL; block = block->next) {
            protect(block);
        }
    }
    pthread_mutex_unlock(&memory_lock);
}

void standin_memory_open(void)
{
    set_running(1);
}

void standin_memory_close(void)
{
    set_running(-1);
}

/* The link to the block that holds the address, or to NULL. Called with the lock held. */
static struct block **find(const void *address)
{
    const uint8_t *wanted = address;
    struct block **link = &blocks;

    while (*link != NULL &&
           (wanted < (*link)->address || wanted >= (*link)->address + (*link)->bytes)) {
        link = &(*link)->next;
    }
    return link;
}

bool standin_block_find(const void *address, struct block *found)
{
    const struct block *block;

    pthread_mutex_lock(&memory_lock);
    block = *find(address);
    if (block != NULL) {
        *found = *block;
    }
    pthread_mutex_unlock(&memory_lock);
    return block != NULL;
}

bool standin_block_any(bool (*is)(const struct block *block, const void *context),
                       const void *context)
{
    bool any = false;

    pthread_mutex_lock(&memory_lock);
    for (const struct block *block = blocks; block != NULL && !any; block = block->next) {
        any = is(block, context);
    }
    pthread_mutex_unlock(&memory_lock);
    return any;
}

bool standin_memory_kind(const void *address, enum standin_kind *kind, int *gpu)
{
    struct block block;

    if (!standin_block_find(address, &block)) {
        return false;
    }
    *kind = block.kind;
    *gpu = block.gpu;
    return true;
}

bool standin_memory_within(const void *address, size_t bytes)
{
    struct block block;

    return !standin_block_find(address, &block) ||
           bytes <= (size_t) (block.address + block.bytes - (const uint8_t *) address);
}

bool standin_memory_reached(const void *address, size_t bytes, int gpu)
{
    struct block block;

    return standin_block_find(address, &block) && standin_memory_within(address, bytes) &&
           (!is_device(block.kind) || block.gpu == gpu);
}

long standin_held_blocks(void)
{
    long count = 0;

    pthread_mutex_lock(&memory_lock);
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        count++;
    }
    pthread_mutex_unlock(&memory_lock);
    return count;
}

CUresult standin_block_add(struct block description)
{
    struct block *block = malloc(sizeof *block);

    if (block == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = description;
    pthread_mutex_lock(&memory_lock);
    block->next = blocks;
    blocks = block;
    protect(block);
    pthread_mutex_unlock(&memory_lock);
    return CUDA_SUCCESS;
}

/* Forget the block that starts at the address if it is of this kind. */
static CUresult take(const void *address, enum standin_kind kind, struct block *taken)
{
    struct block **link, *block;

    pthread_mutex_lock(&memory_lock);
    link = find(address);
    block = *link;
    if (block == NULL || block->kind != kind || block->address != address) {
        pthread_mutex_unlock(&memory_lock);
        standin_report("pid %d misuses memory: %p is no block of this kind, or not any more\n",
                       (int) getpid(), address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *link = block->next;
    pthread_mutex_unlock(&memory_lock);
    *taken = *block;
    free(block);
    return CUDA_SUCCESS;
}

/* Leave the address range reserved and inaccessible for ever. */
static void retire(const struct block *block)
{
    mmap(block->address - block->lead, block->mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (block->fd >= 0) {
        int left = standin_count_mappings(block->fd, block->mapped,
                                          block->kind == STANDIN_IMPORTED ? -1 : 0);

        if (block->kind == STANDIN_DEVICE && left > 0) {
            standin_report("pid %d misuses memory: it is freed while %d others have it mapped\n",
                           (int) getpid(), left);
        }
        close(block->fd);
    }
}

CUresult standin_block_release(void *pointer, enum standin_kind kind)
{
    struct block block;
    CUresult result;

    STANDIN_NEED_CONTEXT();
    standin_wait_for_streams(); /* freeing waits for what runs */
    result = take(pointer, kind, &block);
    if (result == CUDA_SUCCESS && block.mapped > 0) {
        retire(&block);
    }
    return result;
}

/* Addresses for so many bytes, reserved; NULL: none left. */
static void *reserve(size_t bytes)
{
    size_t unit = bytes >= UNIT ? UNIT : PAGE;
    void *address =
        mmap(NULL, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return address == MAP_FAILED
               ? NULL
               : (void *) (uintptr_t) (((uintptr_t) address + unit - 1) / unit * unit);
}

static CUresult allocate(enum standin_kind kind, int gpu, size_t bytes, void **memory)
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
    memset(address, 0xa5, mapped); /* fresh device memory holds anything */
    *memory = address + lead;
    return standin_block_add((struct block){.address = address + lead,
                                            .bytes = bytes,
                                            .lead = lead,
                                            .mapped = mapped,
                                            .kind = kind,
                                            .gpu = gpu,
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
    result = allocate(STANDIN_DEVICE, standin_current()->gpu, bytes, &memory);
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
            allocate(sorts[i].kind, gpu, bytes, &memory) != CUDA_SUCCESS) {
            memory = NULL;
        }
    }
    return memory;
}

void gpuring_standin_free(void *memory)
{
    enum standin_kind kind;
    struct block block;
    int gpu;

    standin_wait_for_streams();
    if (standin_memory_kind(memory, &kind, &gpu) && take(memory, kind, &block) == CUDA_SUCCESS) {
        retire(&block);
    }
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    STANDIN_RELEASE(free, standin_block_release((void *) (uintptr_t) pointer, STANDIN_DEVICE));
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    void *address;

    STANDIN_ENTER(host_alloc);
    STANDIN_NEED_CONTEXT();
    (void) flags;
    if (bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    address = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pointer = address;
    return standin_block_add((struct block){
        .address = address, .bytes = bytes, .mapped = mapped, .kind = STANDIN_PINNED, .fd = -1});
}

CUresult cuMemFreeHost(void *pointer)
{
    STANDIN_RELEASE(host_free, standin_block_release(pointer, STANDIN_PINNED));
}

/* Are all pages of these bytes mapped? */
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
    uintptr_t first, last; /* pages */
};

static struct range pages_of(const void *pointer, size_t bytes)
{
    return (struct range){(uintptr_t) pointer / PAGE, ((uintptr_t) pointer + bytes - 1) / PAGE};
}

/* Whole pages are registered. */
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
    return standin_block_add(
        (struct block){.address = pointer, .bytes = bytes, .kind = STANDIN_REGISTERED, .fd = -1});
}

CUresult cuMemHostUnregister(void *pointer)
{
    STANDIN_RELEASE(host_unregister, standin_block_release(pointer, STANDIN_REGISTERED));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    struct block *block;

    STANDIN_ENTER(address_range);
    STANDIN_NEED_CONTEXT();
    pthread_mutex_lock(&memory_lock);
    block = *find((void *) (uintptr_t) pointer);
    if (block != NULL) {
        *base = (CUdeviceptr) (uintptr_t) block->address;
        *bytes = block->bytes;
    }
    pthread_mutex_unlock(&memory_lock);
    return block != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *names, void **values,
                                CUdeviceptr pointer)
{
    enum standin_kind kind = STANDIN_PINNED;
    int gpu = 0;
    bool known = standin_memory_kind((void *) (uintptr_t) pointer, &kind, &gpu);
    bool managed = known && kind == STANDIN_MANAGED, device = known && is_device(kind);
    CUcontext context = NULL;

    STANDIN_ENTER(pointer_attributes);
    device = device || managed;
    if (device && kind != STANDIN_POOL && kind != STANDIN_VMM) {
        context = standin_primary(gpu);
    }
    for (unsigned int i = 0; i < count; i++) {
        switch (names[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(CUmemorytype *) values[i] = device  ? CU_MEMORYTYPE_DEVICE
                                          : known ? CU_MEMORYTYPE_HOST
                                                  : (CUmemorytype) 0;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned int *) values[i] = managed;
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *(unsigned int *) values[i] =
                known && (kind == STANDIN_DEVICE || kind == STANDIN_IMPORTED);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *) values[i] = device ? gpu : known ? 0 : -2;
            break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *(CUcontext *) values[i] = context;
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            *(CUmemoryPool *) values[i] =
                known && kind == STANDIN_POOL ? (CUmemoryPool) (void *) &memory_lock : NULL;
            break;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

int gpuring_standin_on_gpu(const void *address)
{
    enum standin_kind kind;
    int gpu;

    return standin_memory_kind(address, &kind, &gpu) && kind == STANDIN_DEVICE;
}

void gpuring_standin_copy(void *to, const void *from, size_t bytes)
{
    standin_memory_open();
    memcpy(to, from, bytes);
    standin_memory_close();
}

__attribute__((destructor)) static void report_leaks(void)
{
    static const char *const names[] = {"device memory",  "an imported mapping", "pinned memory",
                                        "a registration", "managed memory",      "memory of a pool",
                                        "mapped memory"};

    for (const struct block *block = blocks; block != NULL; block = block->next) {
        standin_report("pid %d leaks %s of %zu bytes\n", (int) getpid(), names[block->kind],
                       block->bytes);
    }
}
