/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/shared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFERS  8 /* messages to so many processes at once, which a node of 8 GPUs needs */
#define PROOF    ((size_t) 64 << 10) /* bytes in front of the buffers */
#define BUFFER   (GPURING_P2P_SLOTS * GPURING_P2P_SLOT)
#define CLOSE_NS (2 * GPURING_SECOND) /* processes come to their end at about the same time */
#define NAP_NS   100000L

/* The page: in host memory, mapped by both. */
struct page {
    uint32_t mappings; /* by other processes; atomic */
    struct {
        struct gpuring_p2p_flow flow;
        char pad[128 - sizeof(struct gpuring_p2p_flow)];
    } buffer[BUFFERS];
};

static struct { /* this process's */
    pthread_mutex_t lock;
    bool tried;
    struct gpuring_p2p_shared shared;
    char *memory;                /* NULL: there is none */
    struct gpuring_device *host; /* of the page */
    struct page *page;
    bool lent[BUFFERS];
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Another process's. */
struct mapping {
    char *memory; /* NULL: refused */
    struct page *page;
};
static struct mapping **mappings;        /* by rank in MPI_COMM_WORLD, */
static int senders;                      /* of so many */
static struct gpuring_device *page_host; /* maps the pages */

/* Every byte depends on its place and the number. */
static void fill_proof(char *bytes, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        bytes[i] = (char) (number >> 56);
    }
}

static void give_back(void)
{
    if (own.memory != NULL) {
        gpuring_process.device_ops->free(gpuring_process.device, own.memory);
    }
    if (own.page != NULL) {
        gpuring_device_host.free(own.host, own.page);
    }
    if (own.host != NULL) {
        gpuring_device_host.close(own.host);
    }
    own.memory = NULL;
    own.page = NULL;
    own.host = NULL;
}

static int make(void)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    char *proof = malloc(PROOF);
    void *memory = NULL, *page = NULL;
    int status = proof != NULL ? GPURING_OK : GPURING_ERR_NOMEM;

    own.shared.proof = gpuring_now_ns() ^ (uint64_t) gpuring_process.world_rank << 48;
    if (status == GPURING_OK) {
        fill_proof(proof, PROOF, own.shared.proof);
        status = gpuring_device_host.open(&own.host);
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.alloc(own.host, sizeof *own.page, &page);
        own.page = page;
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.export(own.host, page, &own.shared.page);
    }
    if (status == GPURING_OK) {
        status = ops->alloc(gpuring_process.device, PROOF + BUFFERS * BUFFER, &memory);
        own.memory = memory;
    }
    if (status == GPURING_OK) {
        status = ops->export(gpuring_process.device, memory, &own.shared.memory);
    }
    if (status == GPURING_OK) {
        status = gpuring_device_copy(ops, gpuring_process.device, memory, proof, PROOF);
    }
    free(proof);
    return status;
}

bool gpuring_p2p_shared_open(struct gpuring_p2p_shared *shared)
{
    int status;
    bool have;

    pthread_mutex_lock(&own.lock);
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
            give_back();
        }
    }
    have = own.memory != NULL;
    *shared = own.shared;
    pthread_mutex_unlock(&own.lock);
    return have;
}

int gpuring_p2p_shared_lend(void)
{
    int free_one = -1;

    pthread_mutex_lock(&own.lock);
    for (int i = 0; i < BUFFERS && free_one < 0; i++) {
        free_one = own.lent[i] ? -1 : i;
    }
    if (free_one >= 0) {
        own.lent[free_one] = true;
        own.page->buffer[free_one].flow = (struct gpuring_p2p_flow){.filled = 0};
    }
    pthread_mutex_unlock(&own.lock);
    return free_one;
}

void gpuring_p2p_shared_return(int buffer)
{
    if (buffer >= 0) {
        pthread_mutex_lock(&own.lock);
        own.lent[buffer] = false;
        pthread_mutex_unlock(&own.lock);
    }
}

static size_t slot_at(int buffer, uint64_t number)
{
    return PROOF + (size_t) buffer * BUFFER + number % GPURING_P2P_SLOTS * GPURING_P2P_SLOT;
}

char *gpuring_p2p_shared_slot(int buffer, uint64_t number)
{
    return own.memory + slot_at(buffer, number);
}

struct gpuring_p2p_flow *gpuring_p2p_shared_flow(int buffer)
{
    return &own.page->buffer[buffer].flow;
}

/* ---- The receiver's side ---- */

static int copy_now(struct gpuring_stream *stream, void *to, const void *from, size_t bytes)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    int status = ops->copy(stream, to, from, bytes);
    int done = ops->synchronize(stream);

    return status == GPURING_OK ? done : status;
}

/* Are the first bytes what the sender has written? */
static bool prove(const struct mapping *mapping, uint64_t proof, struct gpuring_stream *stream,
                  char *scratch, size_t room)
{
    size_t bytes = room < PROOF ? room : PROOF;
    char *expected = malloc(bytes), *found = calloc(1, bytes);
    bool good = expected != NULL && found != NULL;

    if (good) {
        fill_proof(expected, bytes, proof);
        good = copy_now(stream, scratch, found, bytes) == GPURING_OK &&
               copy_now(stream, scratch, mapping->memory, bytes) == GPURING_OK &&
               copy_now(stream, found, scratch, bytes) == GPURING_OK &&
               memcmp(found, expected, bytes) == 0;
    }
    free(expected);
    free(found);
    return good;
}

static void unmap(struct mapping *mapping)
{
    if (mapping->memory != NULL) {
        gpuring_process.device_ops->unimport(gpuring_process.device, mapping->memory);
        mapping->memory = NULL;
    }
    if (mapping->page != NULL) {
        /* Release: the memory is unmapped before its owner sees it so; partner: close. */
        (void) __atomic_sub_fetch(&mapping->page->mappings, 1, __ATOMIC_RELEASE);
        gpuring_device_host.unimport(page_host, mapping->page);
        mapping->page = NULL;
    }
}

static bool map(struct mapping *mapping, const struct gpuring_p2p_shared *shared)
{
    void *memory, *page;

    if ((page_host == NULL && gpuring_device_host.open(&page_host) != GPURING_OK) ||
        gpuring_device_host.import(page_host, &shared->page, &page) != GPURING_OK) {
        return false;
    }
    mapping->page = page;
    (void) __atomic_add_fetch(&mapping->page->mappings, 1, __ATOMIC_RELAXED);
    if (gpuring_process.device_ops->import(gpuring_process.device, &shared->memory, &memory) !=
        GPURING_OK) {
        return false;
    }
    mapping->memory = memory;
    return true;
}

bool gpuring_p2p_shared_map(int sender, const struct gpuring_p2p_shared *shared,
                            struct gpuring_stream *stream, char *scratch, size_t room)
{
    struct mapping *mapping;

    if (mappings == NULL) {
        senders = ompi_comm_size(MPI_COMM_WORLD);
        mappings = calloc((size_t) senders, sizeof(struct mapping *));
    }
    if (mappings == NULL) {
        return false;
    }
    if (mappings[sender] == NULL) {
        mapping = mappings[sender] = calloc(1, sizeof *mapping);
        if (mapping != NULL &&
            !(map(mapping, shared) && prove(mapping, shared->proof, stream, scratch, room))) {
            unmap(mapping);
            gpuring_info("[p2p-by-host] messages from rank %d go through host memory: its GPU "
                         "memory cannot be mapped, or is not read right",
                         sender);
        }
    }
    return mappings[sender] != NULL && mappings[sender]->memory != NULL;
}

const char *gpuring_p2p_shared_mapped_slot(int sender, int buffer, uint64_t number)
{
    return mappings[sender]->memory + slot_at(buffer, number);
}

struct gpuring_p2p_flow *gpuring_p2p_shared_mapped_flow(int sender, int buffer)
{
    return &mappings[sender]->page->buffer[buffer].flow;
}

static void unmap_all(void)
{
    for (int r = 0; r < senders && mappings != NULL; r++) {
        if (mappings[r] != NULL) {
            unmap(mappings[r]);
            free(mappings[r]);
        }
    }
    free(mappings);
    mappings = NULL;
    if (page_host != NULL) {
        gpuring_device_host.close(page_host);
        page_host = NULL;
    }
}

/* A driver does not say what becomes of memory that is freed while others have it mapped. What a
 * process has mapped that died or hangs is freed with this one. */
void gpuring_p2p_shared_close(void)
{
    uint64_t end = gpuring_now_ns() + CLOSE_NS;

    unmap_all();
    while (own.page != NULL && __atomic_load_n(&own.page->mappings, __ATOMIC_ACQUIRE) > 0) {
        if (gpuring_now_ns() >= end) {
            own.memory = NULL;
            break;
        }
        (void) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    give_back();
}
