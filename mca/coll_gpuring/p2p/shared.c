/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/shared.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFERS  8                   /* messages at the same time, enough for a node of 8 GPUs */
#define PROOF    ((size_t) 64 << 10) /* bytes in front of the buffers */
#define BUFFER   (GPURING_P2P_SLOTS * GPURING_P2P_SLOT)
#define CLOSE_NS (2 * GPURING_SECOND) /* processes end at about the same time */
#define NAP_NS   100000L

/* The page in host memory, which both processes map. */
struct page {
    uint32_t mappings; /* by other processes; atomic */
    struct {
        struct gpuring_p2p_flow flow;
        char pad[128 - sizeof(struct gpuring_p2p_flow)];
    } buffer[BUFFERS];
};

struct gpuring_p2p_slots {
    char *memory; /* NULL if there is none or it cannot be mapped */
    struct page *page;
    bool tried;
};

/* Guarded by gpuring_p2p.lock: */
static struct gpuring_device *host; /* for all pages; NULL until needed */
static struct gpuring_p2p_slots own;
static struct gpuring_p2p_shared own_shared;
static bool lent[BUFFERS];

static struct gpuring_p2p_slots *mapped; /* of other processes, by rank in MPI_COMM_WORLD */
static int senders;                      /* length of `mapped` */

bool gpuring_p2p_slots_reach(const char *gpu)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_pointer pointer = gpuring_memory_of(gpu);

    return (gpuring_params.p2p_level == GPURING_PARAM_LEVEL_AUTO ||
            gpuring_params.p2p_level == GPURING_PARAM_LEVEL_SYS) &&
           ops->reaches(gpuring_process.device, &pointer) && !ops->lost(gpuring_process.device);
}

uint64_t gpuring_p2p_node(void)
{
    static uint64_t node; /* all threads store the same value */

    if (node == 0) {
        node = gpuring_identity_node(gpuring_params.hostid);
    }
    return node;
}

char *gpuring_p2p_slot(const struct gpuring_p2p_slots *slots, int buffer, uint64_t number)
{
    return slots->memory + PROOF + (size_t) buffer * BUFFER +
           number % GPURING_P2P_SLOTS * GPURING_P2P_SLOT;
}

struct gpuring_p2p_flow *gpuring_p2p_flow(const struct gpuring_p2p_slots *slots, int buffer)
{
    return &slots->page->buffer[buffer].flow;
}

/* Fill memory with a pattern in which every byte depends on its position and on the number. */
static void fill_proof(char *bytes, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        bytes[i] = (char) (number >> 56);
    }
}

/* Open the host device. Call with the lock held. */
static int open_host(void)
{
    return host != NULL ? GPURING_OK : gpuring_device_host.open(&host);
}

static int make(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    char *proof = malloc(PROOF);
    void *memory = NULL, *page = NULL;
    int status = proof != NULL ? open_host() : GPURING_ERR_NOMEM;

    if (status == GPURING_OK) {
        status = gpuring_device_host.alloc(host, sizeof(struct page), &page);
        own.page = page;
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.export(host, page, &own_shared.page);
    }
    if (status == GPURING_OK) {
        status = ops->alloc(gpuring_process.device, PROOF + BUFFERS * BUFFER, &memory);
        own.memory = memory;
    }
    if (status == GPURING_OK) {
        status = ops->export(gpuring_process.device, memory, &own_shared.memory);
    }
    if (status == GPURING_OK) {
        own_shared.proof = gpuring_now_ns() ^ (uint64_t) gpuring_process.world_rank << 48;
        fill_proof(proof, PROOF, own_shared.proof);
        status = gpuring_device_copy(ops, gpuring_process.device, memory, proof, PROOF);
    }
    free(proof);
    return status;
}

static void free_own(void)
{
    if (own.memory != NULL) {
        gpuring_process.device_ops->free(gpuring_process.device, own.memory);
        own.memory = NULL;
    }
}

const struct gpuring_p2p_slots *gpuring_p2p_slots_open(struct gpuring_p2p_shared *shared)
{
    int status;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (!own.tried) {
        own.tried = true;
        status = make();
        if (status == GPURING_ERR_NOMEM) {
            gpuring_warn(
                "[p2p-by-host] large messages of this process go through host memory: it "
                "lacks %zu MiB of GPU memory for them; leave so much free before the first ones",
                (PROOF + BUFFERS * BUFFER) >> 20);
        } else if (status != GPURING_OK) {
            gpuring_info(
                "[p2p-by-host] large messages of this process go through host memory: other "
                "processes cannot map its GPU memory");
        }
        if (status != GPURING_OK) {
            free_own();
        }
    }
    *shared = own_shared;
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return own.memory != NULL ? &own : NULL;
}

int gpuring_p2p_slots_lend(void)
{
    int buffer = 0;

    pthread_mutex_lock(&gpuring_p2p.lock);
    while (buffer < BUFFERS && lent[buffer]) {
        buffer++;
    }
    if (buffer < BUFFERS) {
        lent[buffer] = true;
        *gpuring_p2p_flow(&own, buffer) = (struct gpuring_p2p_flow){.filled = 0};
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return buffer < BUFFERS ? buffer : -1;
}

void gpuring_p2p_slots_return(int buffer)
{
    if (buffer >= 0) {
        pthread_mutex_lock(&gpuring_p2p.lock);
        lent[buffer] = false;
        pthread_mutex_unlock(&gpuring_p2p.lock);
    }
}

/* ---- The receiver's side ---- */

/* Return true if the first bytes are the pattern that the sender has written. */
static bool prove(const char *memory, uint64_t proof, char *scratch, size_t room)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_device *device = gpuring_process.device;
    size_t bytes = room < PROOF ? room : PROOF;
    char *expected = malloc(bytes), *found = calloc(1, bytes);
    bool good = expected != NULL && found != NULL;

    if (good) {
        fill_proof(expected, bytes, proof);
        good = gpuring_device_copy(ops, device, scratch, found, bytes) == GPURING_OK &&
               gpuring_device_copy(ops, device, scratch, memory, bytes) == GPURING_OK &&
               gpuring_device_copy(ops, device, found, scratch, bytes) == GPURING_OK &&
               memcmp(found, expected, bytes) == 0;
    }
    free(expected);
    free(found);
    return good;
}

/* Unmap the slots. The page stays mapped until the host device is closed. */
static void unmap(struct gpuring_p2p_slots *slots)
{
    if (slots->memory != NULL) {
        gpuring_process.device_ops->unimport(gpuring_process.device, slots->memory);
        slots->memory = NULL;
    }
    if (slots->page != NULL) {
        /* Release, because the memory must be unmapped before its owner sees the new count.
         * Partner: gpuring_p2p_slots_close. */
        (void) __atomic_sub_fetch(&slots->page->mappings, 1, __ATOMIC_RELEASE);
        slots->page = NULL;
    }
}

static bool map(struct gpuring_p2p_slots *slots, const struct gpuring_p2p_shared *shared)
{
    void *memory, *page;
    int status;

    pthread_mutex_lock(&gpuring_p2p.lock);
    status = open_host();
    pthread_mutex_unlock(&gpuring_p2p.lock);
    if (status != GPURING_OK ||
        gpuring_device_host.import(host, &shared->page, &page) != GPURING_OK) {
        return false;
    }
    slots->page = page;
    (void) __atomic_add_fetch(&slots->page->mappings, 1, __ATOMIC_RELAXED);
    if (gpuring_process.device_ops->import(gpuring_process.device, &shared->memory, &memory) !=
        GPURING_OK) {
        return false;
    }
    slots->memory = memory;
    return true;
}

const struct gpuring_p2p_slots *gpuring_p2p_slots_map(int sender,
                                                      const struct gpuring_p2p_shared *shared,
                                                      char *scratch, size_t room)
{
    struct gpuring_p2p_slots *slots;

    if (mapped == NULL) {
        senders = ompi_comm_size(MPI_COMM_WORLD);
        mapped = calloc((size_t) senders, sizeof *mapped);
    }
    if (mapped == NULL) {
        return NULL;
    }
    slots = &mapped[sender];
    if (!slots->tried) {
        slots->tried = true;
        if (!map(slots, shared) || !prove(slots->memory, shared->proof, scratch, room)) {
            unmap(slots);
            gpuring_info("[p2p-by-host] messages from rank %d go through host memory: its GPU "
                         "memory cannot be mapped, or is not read right",
                         sender);
        }
    }
    return slots->memory != NULL ? slots : NULL;
}

/* Wait for other processes to unmap the memory before it is freed, because CUDA does not define
 * what happens otherwise. If a process has died or hangs, the memory is freed when this process
 * ends. */
void gpuring_p2p_slots_close(void)
{
    uint64_t end = gpuring_now_ns() + CLOSE_NS;

    for (int r = 0; r < senders && mapped != NULL; r++) {
        unmap(&mapped[r]);
    }
    free(mapped);
    mapped = NULL;
    while (own.page != NULL && __atomic_load_n(&own.page->mappings, __ATOMIC_ACQUIRE) > 0) {
        if (gpuring_now_ns() >= end) {
            own.memory = NULL;
            break;
        }
        (void) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    free_own();
    own.page = NULL;
    if (host != NULL) {
        gpuring_device_host.close(host);
        host = NULL;
    }
}
