/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * NVML, loaded with dlopen. Prototypes, constants and the layout of nvmlPciInfo_t follow the NVML
 * API reference (docs.nvidia.com/deploy/nvml-api). Only functions that exist since driver 450 are
 * required.
 */

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/topo_pci/discover/pci_driver.h"

typedef struct nvml_device *nvml_device_t;

enum {
    NVML_OK = 0,
    NVML_TOPOLOGY_P2P_READ = 0, /* nvmlGpuP2PCapsIndex_t */
    NVML_TOPOLOGY_P2P_WRITE = 1,
    NVML_P2P_STATUS_OK = 0, /* nvmlGpuP2PStatus_t */
    NVML_REMOTE_GPU = 0,    /* nvmlIntNvLinkDeviceType_t */
    NVML_REMOTE_NPU = 1,
    NVML_REMOTE_SWITCH = 2,
    NVLINKS_MAX = 256, /* more than any GPU has; the library ends the search earlier */
};

/*
 * nvmlPciInfo_t, as nvmlDeviceGetPciInfo_v3 and nvmlDeviceGetNvLinkRemotePciInfo_v2 fill it:
 *
 *     0        16      20   24      28           32             36        68
 *     | legacy | domain | bus | device | pciDeviceId | subSystemId | busId |
 */
struct nvml_pci_info {
    char legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char busid[32];
};
static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");

/*
 * nvmlFieldValue_t, as nvmlDeviceGetFieldValues reads its first two members and fills the others:
 *
 *     0       4       8           16        24     28       32
 *     | field | scope | timestamp | latency | type | result | value (8 bytes) |
 */
struct nvml_field {
    unsigned field;
    unsigned scope; /* number of the link */
    long long timestamp;
    long long latency;
    int type;
    int result;
    union {
        unsigned number;
        double widest;
    } value;
};
static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");

/* Fields: number of chip-to-chip links of a GPU; state, and bandwidth in MB/s, of one of them. */
enum { NVML_C2C_COUNT = 170, NVML_C2C_STATE = 171, NVML_C2C_BANDWIDTH = 172 };

/* Name in the library, required or not, result and arguments. */
#define NVML_FUNCTIONS(X)                                                                        \
    X(init, nvmlInit_v2, 1, (void) )                                                             \
    X(shutdown, nvmlShutdown, 1, (void) )                                                        \
    X(count, nvmlDeviceGetCount_v2, 1, (unsigned *) )                                            \
    X(by_index, nvmlDeviceGetHandleByIndex_v2, 1, (unsigned, nvml_device_t *) )                  \
    X(by_busid, nvmlDeviceGetHandleByPciBusId_v2, 1, (const char *, nvml_device_t *) )           \
    X(pci_info, nvmlDeviceGetPciInfo_v3, 1, (nvml_device_t, struct nvml_pci_info *) )            \
    X(capability, nvmlDeviceGetCudaComputeCapability, 1, (nvml_device_t, int *, int *) )         \
    X(link_state, nvmlDeviceGetNvLinkState, 0, (nvml_device_t, unsigned, unsigned *) )           \
    X(link_remote, nvmlDeviceGetNvLinkRemotePciInfo_v2, 0,                                       \
      (nvml_device_t, unsigned, struct nvml_pci_info *) )                                        \
    X(link_kind, nvmlDeviceGetNvLinkRemoteDeviceType, 0, (nvml_device_t, unsigned, unsigned *) ) \
    X(p2p_status, nvmlDeviceGetP2PStatus, 0, (nvml_device_t, nvml_device_t, int, int *) )        \
    X(link_gen, nvmlDeviceGetMaxPcieLinkGeneration, 0, (nvml_device_t, unsigned *) )             \
    X(link_width, nvmlDeviceGetMaxPcieLinkWidth, 0, (nvml_device_t, unsigned *) )                \
    X(fields, nvmlDeviceGetFieldValues, 0, (nvml_device_t, int, struct nvml_field *) )

struct pci_nvml {
    void *library;
    int initialised;
    const char *(*error_string)(int);
#define MEMBER(FIELD, NAME, NEEDED, ARGUMENTS) int(*FIELD) ARGUMENTS;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
};

static int functions_find(struct pci_nvml *nvml, const char **missing)
{
    *missing = NULL;
    *(void **) &nvml->error_string = dlsym(nvml->library, "nvmlErrorString");
#define FIND(FIELD, NAME, NEEDED, ARGUMENTS)               \
    *(void **) &nvml->FIELD = dlsym(nvml->library, #NAME); \
    if (!nvml->FIELD && (NEEDED) && !*missing) {           \
        *missing = #NAME;                                  \
    }
    NVML_FUNCTIONS(FIND)
#undef FIND
    return *missing ? -ELIBBAD : 0;
}

static const char *reason(const struct pci_nvml *nvml, int code)
{
    return nvml->error_string ? nvml->error_string(code) : "unknown error";
}

int pci_nvml_open(const char *library, struct pci_nvml **result, char *message, size_t size)
{
    struct pci_nvml *nvml = calloc(1, sizeof *nvml);
    const char *missing;
    int rc;

    if (size > 0) {
        message[0] = '\0';
    }
    if (!nvml) {
        return -ENOMEM;
    }
    library = library ? library : "libnvidia-ml.so.1";
    nvml->library = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    rc = nvml->library ? functions_find(nvml, &missing) : -ENOENT;
    if (rc == -ELIBBAD) {
        snprintf(message, size,
                 "%s lacks %s: the NVIDIA driver is too old; NVLinks are not detected (name a "
                 "topology file that has them)",
                 library, missing);
    }
    if (rc == 0) {
        int code = nvml->init();

        nvml->initialised = code == NVML_OK;
        if (code != NVML_OK) {
            snprintf(message, size,
                     "NVML does not start: %s; NVLinks are not detected (see nvidia-smi)",
                     reason(nvml, code));
            rc = -EIO;
        }
    }
    if (rc != 0) {
        pci_nvml_close(nvml);
        return rc;
    }
    *result = nvml;
    return 0;
}

void pci_nvml_close(struct pci_nvml *nvml)
{
    if (!nvml) {
        return;
    }
    if (nvml->initialised) {
        nvml->shutdown();
    }
    if (nvml->library) {
        dlclose(nvml->library);
    }
    free(nvml);
}

static void busid_copy(const struct nvml_pci_info *info, char *busid)
{
    snprintf(busid, PCI_BUSID_SIZE, "%.*s", PCI_BUSID_SIZE - 1, info->busid);
}

static int hook_gpu(void *context, unsigned index, struct pci_gpu_facts *facts)
{
    struct pci_nvml *nvml = context;
    struct nvml_pci_info info;
    nvml_device_t device;
    unsigned count, value;
    int major, minor;

    if (nvml->count(&count) != NVML_OK) {
        return -EIO;
    }
    if (index >= count) {
        return 0;
    }
    memset(&info, 0, sizeof info);
    if (nvml->by_index(index, &device) != NVML_OK || nvml->pci_info(device, &info) != NVML_OK) {
        return -EIO;
    }
    busid_copy(&info, facts->busid);
    if (nvml->capability(device, &major, &minor) == NVML_OK) {
        facts->sm = 10 * major + minor;
    }
    if (nvml->link_gen && nvml->link_gen(device, &value) == NVML_OK) {
        facts->link_gen = (int) value;
    }
    if (nvml->link_width && nvml->link_width(device, &value) == NVML_OK) {
        facts->link_width = (int) value;
    }
    return 1;
}

static const char *class_of(const struct pci_nvml *nvml, nvml_device_t device, unsigned link)
{
    static const char *const classes[] = {[NVML_REMOTE_GPU] = PCI_NVLINK_GPU,
                                          [NVML_REMOTE_NPU] = PCI_NVLINK_CPU,
                                          [NVML_REMOTE_SWITCH] = PCI_NVLINK_SWITCH};
    unsigned kind;

    return nvml->link_kind && nvml->link_kind(device, link, &kind) == NVML_OK &&
                   kind < sizeof classes / sizeof classes[0]
               ? classes[kind]
               : NULL;
}

static int hook_nvlink(void *context, const char *busid, unsigned index,
                       struct pci_nvlink_facts *facts)
{
    struct pci_nvml *nvml = context;
    nvml_device_t device;
    unsigned active, found = 0;

    if (!nvml->link_state || !nvml->link_remote) {
        return 0;
    }
    if (nvml->by_busid(busid, &device) != NVML_OK) {
        return -EIO;
    }
    for (unsigned link = 0; link < NVLINKS_MAX; link++) {
        struct nvml_pci_info info;

        if (nvml->link_state(device, link, &active) != NVML_OK) {
            return 0; /* the GPU has no further link */
        }
        if (!active || found++ < index) {
            continue;
        }
        memset(&info, 0, sizeof info);
        if (nvml->link_remote(device, link, &info) != NVML_OK) {
            return -EIO;
        }
        busid_copy(&info, facts->target);
        facts->class = class_of(nvml, device, link);
        return 1;
    }
    return 0;
}

static int hook_p2p(void *context, const char *a, const char *b)
{
    struct pci_nvml *nvml = context;
    nvml_device_t first, second;
    int reads, writes;

    if (!nvml->p2p_status || nvml->by_busid(a, &first) != NVML_OK ||
        nvml->by_busid(b, &second) != NVML_OK ||
        nvml->p2p_status(first, second, NVML_TOPOLOGY_P2P_READ, &reads) != NVML_OK ||
        nvml->p2p_status(first, second, NVML_TOPOLOGY_P2P_WRITE, &writes) != NVML_OK) {
        return -1;
    }
    return reads == NVML_P2P_STATUS_OK && writes == NVML_P2P_STATUS_OK;
}

/* Read a field of a device. Return false if this GPU or driver does not support it. */
static bool field_get(const struct pci_nvml *nvml, nvml_device_t device, unsigned field,
                      unsigned scope, unsigned *value)
{
    struct nvml_field request = {.field = field, .scope = scope, .result = NVML_OK};

    if (!nvml->fields || nvml->fields(device, 1, &request) != NVML_OK ||
        request.result != NVML_OK) {
        return false;
    }
    *value = request.value.number;
    return true;
}

static int hook_c2c(void *context, const char *busid, struct pci_c2c_facts *facts)
{
    struct pci_nvml *nvml = context;
    nvml_device_t device;
    unsigned links;

    if (nvml->by_busid(busid, &device) != NVML_OK) {
        return -EIO;
    }
    if (!field_get(nvml, device, NVML_C2C_COUNT, 0, &links)) {
        return 0;
    }
    facts->count = 0;
    for (unsigned link = 0; link < links && link < NVLINKS_MAX; link++) {
        unsigned active, mbytes;

        if (field_get(nvml, device, NVML_C2C_STATE, link, &active) && active == 1 &&
            field_get(nvml, device, NVML_C2C_BANDWIDTH, link, &mbytes)) {
            facts->mbytes = mbytes;
            facts->count++;
        }
    }
    return facts->count > 0;
}

struct pci_discover_hooks pci_nvml_hooks(struct pci_nvml *nvml)
{
    return (struct pci_discover_hooks){
        .context = nvml, .gpu = hook_gpu, .nvlink = hook_nvlink, .p2p = hook_p2p, .c2c = hook_c2c};
}
