/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Devices and contexts. Each thread has a stack of current contexts. */
#include "test/standin/standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS  64
#define MAX_MORE  16
#define MAX_DEPTH 32

static struct CUctx_st contexts[MAX_GPUS + MAX_MORE]; /* primary contexts first */
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct CUctx_st *stack[MAX_DEPTH];
static _Thread_local int depth;

#define ATTRIBUTE_MPS 133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, CUDA 12 */

/* Return a number from the environment (default: 1), limited to `least` to `most`. */
static int number(const char *name, int least, int most)
{
    const char *text = getenv(name);
    int value = text != NULL ? atoi(text) : 1;

    return value < least ? least : value > most ? most : value;
}

/* Return the number of instances of a GPU, which is 1 if it is not divided. */
static int instances(void)
{
    return number("GPURING_STANDIN_MIG", 1, MAX_GPUS);
}

static void make_uuid(int gpu, CUuuid *uuid)
{
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[0] = 's';
    uuid->bytes[15] = (char) gpu;
}

/* Write the name of a GPU for CUDA_VISIBLE_DEVICES, which is also the name that nvidia-smi
 * prints. */
static void name_of(int gpu, char *text, size_t size)
{
    const unsigned char *b;
    CUuuid uuid;

    make_uuid(gpu, &uuid);
    b = (const unsigned char *) uuid.bytes;
    snprintf(text, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             instances() > 1 ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8],
             b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* Return the GPU of an entry of CUDA_VISIBLE_DEVICES (a number or a name), or -1. */
static int find_gpu(const char *entry, int total)
{
    char *end, name[64];
    long value = strtol(entry, &end, 10);

    if (end != entry && *end == '\0') {
        return value >= 0 && value < total ? (int) value : -1;
    }
    for (int gpu = 0; gpu < total; gpu++) {
        name_of(gpu, name, sizeof name);
        if (strcmp(entry, name) == 0) {
            return gpu;
        }
    }
    return -1;
}

/* Write the visible GPUs in the order of CUDA_VISIBLE_DEVICES, and return their number. Like the
 * real driver, stop at the first invalid entry. */
static int visible(int gpus[MAX_GPUS])
{
    const char *wish = getenv("CUDA_VISIBLE_DEVICES");
    int total = number("GPURING_STANDIN_GPUS", 0, MAX_GPUS / instances()) * instances(), count = 0;
    char *list, *rest, *entry;

    if (wish == NULL) {
        for (; count < total; count++) {
            gpus[count] = count;
        }
        return count;
    }
    list = strdup(wish);
    for (entry = strtok_r(list, ",", &rest); entry != NULL && count < MAX_GPUS;
         entry = strtok_r(NULL, ",", &rest)) {
        gpus[count] = find_gpu(entry, total);
        if (gpus[count] < 0) {
            break;
        }
        count++;
    }
    free(list);
    return count;
}

int standin_gpus(void)
{
    int gpus[MAX_GPUS];

    return visible(gpus);
}

int standin_number(int device)
{
    int gpus[MAX_GPUS];

    return device < visible(gpus) ? gpus[device] : -1;
}

bool standin_reach(int gpu, int other)
{
    return gpu == other || (!standin_refuses_peers() && instances() == 1);
}

/* Return a number from the environment, or `otherwise` if it is not set. */
static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : otherwise;
}

int standin_gdr(void)
{
    return setting("GPURING_STANDIN_GDR", 0);
}

int standin_turn_us(void)
{
    return setting("GPURING_STANDIN_TURN_US", 0);
}

int standin_linger(void)
{
    return setting("GPURING_STANDIN_LINGER", 1);
}

static bool exists(const struct CUctx_st *context)
{
    bool active;

    pthread_mutex_lock(&context_lock);
    active = context->references > 0;
    pthread_mutex_unlock(&context_lock);
    return active;
}

struct CUctx_st *standin_current(void)
{
    return depth > 0 && exists(stack[depth - 1]) ? stack[depth - 1] : NULL;
}

struct CUctx_st *standin_primary(int gpu)
{
    return &contexts[gpu];
}

struct standin_owner standin_own(void)
{
    struct CUctx_st *context = standin_current();

    return (struct standin_owner){context, context->generation};
}

bool standin_same(struct standin_owner owner, struct standin_owner other)
{
    return owner.context == other.context && owner.generation == other.generation;
}

bool standin_owned(struct standin_owner owner)
{
    return standin_same(owner, standin_own());
}

void standin_count(struct standin_owner owner, enum standin_object object, int change)
{
    atomic_fetch_add(&owner.context->held[object], change);
}

static long held(enum standin_object object)
{
    long count = 0;

    for (int i = 0; i < MAX_GPUS + MAX_MORE; i++) {
        count += atomic_load(&contexts[i].held[object]);
    }
    return count;
}

long standin_held_objects(void)
{
    return held(STANDIN_STREAM) + held(STANDIN_EVENT) + held(STANDIN_MODULE) + held(STANDIN_GRAPH);
}

/* End a context and everything that was created in it. */
static void end_context(struct CUctx_st *context)
{
    struct standin_owner owner = {context, context->generation};

    standin_end_streams(owner);
    standin_end_memory(owner);
    pthread_mutex_lock(&context_lock);
    context->generation++;
    atomic_store(&context->flags, 0);
    for (int i = 0; i < STANDIN_OBJECTS; i++) {
        atomic_store(&context->held[i], 0);
    }
    pthread_mutex_unlock(&context_lock);
}

void *gpuring_standin_context(int gpu)
{
    struct CUctx_st *context = NULL;

    pthread_mutex_lock(&context_lock);
    for (int i = MAX_GPUS; i < MAX_GPUS + MAX_MORE && context == NULL; i++) {
        context = contexts[i].references == 0 && contexts[i].generation == 0 ? &contexts[i] : NULL;
    }
    if (context != NULL) {
        context->gpu = gpu;
        context->references = 1;
    }
    pthread_mutex_unlock(&context_lock);
    return context;
}

void gpuring_standin_context_end(void *context)
{
    struct CUctx_st *ended = context;

    end_context(ended);
    pthread_mutex_lock(&context_lock);
    ended->references = 0;
    pthread_mutex_unlock(&context_lock);
}

CUresult cuInit(unsigned int flags)
{
    STANDIN_ENTER(init);
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return standin_gpus() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    STANDIN_ENTER(error_name);
    switch (error) {
    case CUDA_SUCCESS:
        *name = "CUDA_SUCCESS";
        break;
    case CUDA_ERROR_OUT_OF_MEMORY:
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        break;
    case CUDA_ERROR_LAUNCH_FAILED:
        *name = "CUDA_ERROR_LAUNCH_FAILED";
        break;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
        *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
        break;
    case CUDA_ERROR_MISALIGNED_ADDRESS:
        *name = "CUDA_ERROR_MISALIGNED_ADDRESS";
        break;
    case CUDA_ERROR_INVALID_CONTEXT:
        *name = "CUDA_ERROR_INVALID_CONTEXT";
        break;
    default:
        *name = "CUDA_ERROR_UNKNOWN";
        break;
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    STANDIN_ENTER(error_string);
    (void) error;
    *text = "an error of the stand-in driver";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    STANDIN_ENTER(device_count);
    *count = standin_gpus();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    STANDIN_ENTER(device_get);
    if (ordinal < 0 || ordinal >= standin_gpus()) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    STANDIN_ENTER(device_attribute);
    if (device < 0 || device >= standin_gpus()) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    switch ((int) attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = setting("GPURING_STANDIN_CAPABILITY", 90) / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = setting("GPURING_STANDIN_CAPABILITY", 90) % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        *value = !standin_moves_host_memory();
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = setting("GPURING_STANDIN_SMS", 12);
        break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        *value = setting("GPURING_STANDIN_CONCURRENT", 1);
        break;
    case ATTRIBUTE_MPS:
        *value = setting("GPURING_STANDIN_MPS", getenv("GPURING_STANDIN_EXCLUSIVE") == NULL);
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        *value = (standin_gdr() & STANDIN_GDR_SUPPORTED) != 0;
        break;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        *value = (standin_gdr() & STANDIN_GDR_DMABUF) != 0;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        *value = (standin_gdr() & STANDIN_GDR_ORDERED_ALL) != 0
                     ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES
                 : (standin_gdr() & STANDIN_GDR_ORDERED) != 0
                     ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                     : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
        break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        *value = CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST; /* its call is missing here */
        break;
    default:
        *value = 0;
        break;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
    STANDIN_ENTER(device_pci);
    snprintf(text, (size_t) size, "0000:%02X:00.0", standin_number(device) / instances() + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    STANDIN_ENTER(device_uuid);
    make_uuid(standin_number(device), uuid);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    STANDIN_ENTER(primary_state);
    *flags = 0;
    pthread_mutex_lock(&context_lock);
    *active = contexts[device].references > 0;
    pthread_mutex_unlock(&context_lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    STANDIN_ENTER(primary_retain);
    if (device < 0 || device >= standin_gpus()) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&context_lock);
    contexts[device].gpu = device;
    contexts[device].references++;
    pthread_mutex_unlock(&context_lock);
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = CUDA_SUCCESS;
    bool last = false;

    STANDIN_ENTER(primary_release);
    pthread_mutex_lock(&context_lock);
    if (contexts[device].references > 0) {
        last = --contexts[device].references == 0;
    } else {
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_unlock(&context_lock);
    if (last) {
        end_context(&contexts[device]);
    }
    return result;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    STANDIN_ENTER(ctx_current);
    *context = standin_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    STANDIN_ENTER(ctx_device);
    if (standin_current() == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT; /* the caller tests for this */
    }
    *device = standin_current()->gpu;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    STANDIN_ENTER(ctx_flags);
    STANDIN_NEED_CONTEXT();
    *flags = atomic_load(&standin_current()->flags);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    STANDIN_ENTER(ctx_set_flags);
    STANDIN_NEED_CONTEXT();
    STANDIN_REFUSE_IF((atomic_load(&standin_current()->flags) & ~flags) != 0,
                      CUDA_ERROR_INVALID_VALUE, "it takes back flags of the application");
    atomic_store(&standin_current()->flags, flags);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    STANDIN_ENTER(ctx_push);
    if (context < contexts || context >= contexts + MAX_GPUS + MAX_MORE || depth == MAX_DEPTH) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    /* A primary context may have been reset and can still be pushed, as seen on an H200 with CUDA
     * 13.0. */
    if (!exists(context) && (context >= contexts + MAX_GPUS || context->generation == 0)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    STANDIN_ENTER(ctx_id);
    if (context < contexts || context >= contexts + MAX_GPUS + MAX_MORE || !exists(context)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *id = 1 + (unsigned long long) (context - contexts) + (context->generation * 1000ull);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    STANDIN_ENTER(ctx_pop);
    STANDIN_REFUSE_IF(depth == 0, CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

__attribute__((destructor)) static void report_leaks(void)
{
    static const char *const names[STANDIN_OBJECTS] = {[STANDIN_STREAM] = "streams",
                                                       [STANDIN_EVENT] = "events",
                                                       [STANDIN_MODULE] = "modules",
                                                       [STANDIN_GRAPH] = "graphs"};

    for (int i = 0; i < STANDIN_OBJECTS; i++) {
        if (held((enum standin_object) i) != 0) {
            standin_report("pid %d leaks %ld %s\n", (int) getpid(), held((enum standin_object) i),
                           names[i]);
        }
    }
}
