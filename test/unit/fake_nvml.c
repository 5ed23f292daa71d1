/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * A stand-in for libnvidia-ml.so.1 and libcuda.so.1: the entry points that nvlink_nvml.c and
 * gdr_cuda.c use, over an invented machine. Two GPUs (compute capability 8.0) with four NVLinks:
 * two to each other, one to a switch that only the library knows, one that is down. The first
 * supports GPUDirect RDMA by dma-buf, the second does not. A test double; never installed.
 *
 *     GPURING_FAKE_NVML=no-driver   nvmlInit_v2 fails
 *     GPURING_FAKE_NVML=no-p2p      GPUs may not reach each other
 *     GPURING_FAKE_NVML=old         the kind of a link's far end is unknown
 *     GPURING_FAKE_NVML=c2c         the first GPU has three links to its CPU, one of them is down
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    DRIVER_NOT_LOADED = 9,
    GPUS = 2,
    LINKS = 4,
    C2C_LINKS = 3,
};

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char busid[32];
};

struct field {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    union {
        unsigned number;
        double widest;
    } value;
};

static const char *const busids[GPUS] = {"00000000:19:00.0", "00000000:65:00.0"};
static int handles[GPUS];

static int mode(const char *name)
{
    const char *value = getenv("GPURING_FAKE_NVML");

    return value && strcmp(value, name) == 0;
}

static int index_of(const void *device)
{
    return device == &handles[1];
}

#define ENTRY __attribute__((visibility("default"))) int

ENTRY nvmlInit_v2(void);
ENTRY nvmlShutdown(void);
ENTRY nvmlDeviceGetCount_v2(unsigned *count);
ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
ENTRY nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device);
ENTRY nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info);
ENTRY nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
ENTRY nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
ENTRY nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *info);
ENTRY nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *kind);
ENTRY nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status);
ENTRY nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation);
ENTRY nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width);
ENTRY nvmlDeviceGetFieldValues(void *device, int count, struct field *fields);
__attribute__((visibility("default"))) const char *nvmlErrorString(int code);
ENTRY cuInit(unsigned flags);
ENTRY cuDeviceGetByPCIBusId(int *device, const char *busid);
ENTRY cuDeviceGetAttribute(int *value, int attribute, int device);

ENTRY nvmlInit_v2(void)
{
    return mode("no-driver") ? DRIVER_NOT_LOADED : OK;
}

ENTRY nvmlShutdown(void)
{
    return OK;
}

const char *nvmlErrorString(int code)
{
    return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

ENTRY nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = GPUS;
    return OK;
}

ENTRY nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index >= GPUS) {
        return INVALID_ARGUMENT;
    }
    *device = &handles[index];
    return OK;
}

/* The library accepts short domains as well. */
ENTRY nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device)
{
    for (unsigned i = 0; i < GPUS; i++) {
        if (strcmp(busid, busids[i]) == 0 || strcmp(busid, busids[i] + 4) == 0) {
            *device = &handles[i];
            return OK;
        }
    }
    return NOT_FOUND;
}

static int info_fill(struct pci_info *info, const char *busid)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->busid, sizeof(info->busid), "%s", busid);
    return OK;
}

ENTRY nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info)
{
    return info_fill(info, busids[index_of(device)]);
}

ENTRY nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    (void) device;
    *major = 8;
    *minor = 0;
    return OK;
}

ENTRY nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
    (void) device;
    if (link >= LINKS) {
        return INVALID_ARGUMENT;
    }
    *active = link != 1;
    return OK;
}

ENTRY nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci_info *info)
{
    return info_fill(info, link == 3 ? "00000000:C0:00.0" : busids[!index_of(device)]);
}

ENTRY nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *kind)
{
    (void) device;
    *kind = link == 3 ? 2 : 0;
    return mode("old") ? NOT_SUPPORTED : OK;
}

ENTRY nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status)
{
    (void) index;
    *status = a != b && mode("no-p2p") ? 4 : 0;
    return OK;
}

ENTRY nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *generation)
{
    (void) device;
    *generation = 4;
    return OK;
}

ENTRY nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width)
{
    *width = index_of(device) ? 8 : 16;
    return OK;
}

ENTRY nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    for (int i = 0; i < count; i++) {
        struct field *field = &fields[i];

        field->result = mode("c2c") && index_of(device) == 0 ? OK : NOT_SUPPORTED;
        if (field->field == 170) {
            field->value.number = C2C_LINKS;
        } else if (field->scope >= C2C_LINKS) {
            field->result = INVALID_ARGUMENT;
        } else {
            field->value.number = field->field == 171 ? field->scope != 1 : 22500;
        }
    }
    return OK;
}

ENTRY cuInit(unsigned flags)
{
    return mode("no-driver") || flags != 0;
}

ENTRY cuDeviceGetByPCIBusId(int *device, const char *busid)
{
    void *handle;
    int rc = nvmlDeviceGetHandleByPciBusId_v2(busid, &handle);

    *device = rc == OK ? index_of(handle) : -1;
    return rc;
}

/* GPUDirect RDMA and dma-buf. */
ENTRY cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = device == 0;
    return attribute == 116 || attribute == 124 ? OK : INVALID_ARGUMENT;
}
