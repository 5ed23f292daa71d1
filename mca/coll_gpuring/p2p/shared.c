/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/p2p/shared.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/coll_gpuring/p2p/p2p_state.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define BUFFERS  8                   /* messages at the same time, enough for a node of 8 GPUs */
#define ANSWERED 2                   /* of these, for messages that were answered */
#define PROOF    ((size_t) 64 << 10) /* bytes of the pattern */
#define FRONT    (PROOF + 4096)      /* bytes in front of the buffers: also the signals */
#define PAGE     ((size_t) 4096)
#define CLOSE_NS (2 * GPURING_SECOND) /* processes end at about the same time */
#define NAP_NS   100000L

/* Nanoseconds that a kernel waits for the sender's: some ten times as long as a message takes.
 * While it waits, it occupies multiprocessors, and afterwards the driver copies the message. */
#define PATIENCE_NS UINT64_C(200000)

/* A slot in host memory is shorter, because all of them are pinned, also by each receiver. */
static const size_t slot_bytes[GPURING_P2P_PLACES] = {
    [GPURING_P2P_HOST] = (size_t) 1 << 20, [GPURING_P2P_GPU] = (size_t) 2 << 20};

/* A word of each block of a kernel, in a cache line that one process writes. */
struct words {
    uint64_t of[GPURING_MOVE_BLOCKS];
};
_Static_assert(sizeof(struct words) == 128, "travels between processes");
_Static_assert(PROOF + (BUFFERS + 1) * sizeof(struct words) <= FRONT, "the buffers follow");

/* The page in host memory, which both processes map. Slots in host memory are in the same mapping,
 * and the page is in front of them. */
struct page {
    union {
        uint32_t mappings; /* by other processes; atomic */
        struct words line;
    };
    struct {
        struct gpuring_p2p_flow flow;
        char pad[128 - sizeof(struct gpuring_p2p_flow)];
        struct words ends[2]; /* of the sender's blocks, and of the receiver's */
    } buffer[BUFFERS];
};
_Static_assert(sizeof(struct page) <= PAGE, "kernels write there");

struct gpuring_p2p_slots {
    enum gpuring_p2p_place place;
    char *memory; /* NULL if there is none or it cannot be mapped */
    struct page *page;
    bool tried;
    bool pinned; /* the GPU reaches the page, and the slots if they are in host memory */
};

/* Guarded by gpuring_p2p.lock: */
static struct gpuring_device *host; /* for host memory; NULL until needed */
static struct gpuring_p2p_slots own[GPURING_P2P_PLACES];
static struct gpuring_p2p_shared own_shared[GPURING_P2P_PLACES];
static bool lent[GPURING_P2P_PLACES][BUFFERS];
static uint64_t uses = 1; /* number of the last use of a buffer; 1: that of the pattern */

/* Slots of other processes, by rank in MPI_COMM_WORLD. */
static struct gpuring_p2p_slots (*mapped)[GPURING_P2P_PLACES];
static int senders; /* length of `mapped` */

size_t gpuring_p2p_slot_bytes(const struct gpuring_p2p_slots *slots)
{
    return slot_bytes[slots->place];
}

char *gpuring_p2p_slot(const struct gpuring_p2p_slots *slots, int buffer, uint64_t number)
{
    return slots->memory + FRONT +
           ((size_t) buffer * GPURING_P2P_SLOTS + number % GPURING_P2P_SLOTS) *
               slot_bytes[slots->place];
}

struct gpuring_p2p_flow *gpuring_p2p_flow(const struct gpuring_p2p_slots *slots, int buffer)
{
    return &slots->page->buffer[buffer].flow;
}

static uint64_t patience_ns(void)
{
    return gpuring_params.patience > 0 ? 1000 * (uint64_t) gpuring_params.patience : PATIENCE_NS;
}

/* Return the signals of a buffer, or with BUFFERS those of the pattern. */
static uint64_t *signals_of(const struct gpuring_p2p_slots *slots, int buffer)
{
    return ((struct words *) (void *) (slots->memory + PROOF))[buffer].of;
}

bool gpuring_p2p_slots_kernel(const struct gpuring_p2p_slots *slots)
{
    return slots->place == GPURING_P2P_GPU && slots->pinned;
}

struct gpuring_move gpuring_p2p_move(const struct gpuring_p2p_slots *slots, int buffer,
                                     size_t bytes, bool sends)
{
    const struct gpuring_p2p_flow *flow = gpuring_p2p_flow(slots, buffer);
    uint8_t *data = (uint8_t *) gpuring_p2p_slot(slots, buffer, 0) + flow->lead;
    struct gpuring_move move = {.bytes = bytes,
                                .lead = flow->lead,
                                .ends = slots->page->buffer[buffer].ends[sends ? 0 : 1].of,
                                .number = flow->number,
                                .patience = patience_ns()};

    if (sends) {
        move.to = data;
        move.signals = signals_of(slots, buffer);
    } else {
        move.from = data;
        move.awaited = signals_of(slots, buffer);
    }
    return move;
}

/* Return the length of the memory of all slots in a place. */
static size_t all_bytes(enum gpuring_p2p_place place)
{
    return FRONT + BUFFERS * GPURING_P2P_SLOTS * slot_bytes[place];
}

/* Fill memory with a pattern in which every byte depends on its position and on the number. */
static void fill_proof(char *bytes, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        bytes[i] = (char) (number >> 56);
    }
}

/* Open the host device. The caller holds the lock. */
static int open_host(void)
{
    return host != NULL ? GPURING_OK : gpuring_device_host.open(&host);
}

/* Let the GPU of this process access slots in host memory, if it has one. */
static int slots_pin(struct gpuring_p2p_slots *slots)
{
    int status = GPURING_OK;

    if (!slots->pinned && __atomic_load_n(&gpuring_process.gpu, __ATOMIC_ACQUIRE) >= 0) {
        status = gpuring_process.device_ops->reach(gpuring_process.device, slots->memory,
                                                   all_bytes(GPURING_P2P_HOST));
        slots->pinned = status == GPURING_OK;
    }
    return status;
}

/* Prepare kernels for slots on a GPU. If that is not possible, which the device logs once, the
 * driver copies all messages. */
static void page_pin(struct gpuring_p2p_slots *slots)
{
    static bool failed; /* atomic */
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;

    if (ops->move == NULL || __atomic_load_n(&failed, __ATOMIC_RELAXED)) {
        return;
    }
    slots->pinned = ops->prepare(gpuring_process.device) == GPURING_OK &&
                    ops->moves(gpuring_process.device) &&
                    ops->reach(gpuring_process.device, slots->page, PAGE) == GPURING_OK;
    __atomic_store_n(&failed, !slots->pinned, __ATOMIC_RELAXED);
}

/* Write the pattern and its signals. */
static int write_proof(const struct gpuring_p2p_slots *slots, uint64_t number)
{
    char *front = calloc(1, FRONT);
    int status = GPURING_ERR_NOMEM;

    if (front != NULL) {
        struct words *signals = (struct words *) (void *) (front + PROOF);

        fill_proof(front, PROOF, number);
        for (uint32_t i = 0; i < GPURING_MOVE_BLOCKS; i++) {
            signals[BUFFERS].of[i] = 1;
        }
        status = gpuring_device_copy(gpuring_process.device_ops, gpuring_process.device,
                                     slots->memory, front, FRONT);
    }
    free(front);
    return status;
}

static int make_on_gpu(struct gpuring_p2p_slots *slots, struct gpuring_p2p_shared *shared)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    void *memory = NULL;
    int status = ops->alloc(gpuring_process.device, all_bytes(GPURING_P2P_GPU), &memory);

    slots->memory = memory;
    if (status == GPURING_OK) {
        status = ops->export(gpuring_process.device, memory, &shared->memory);
    }
    if (status == GPURING_OK) {
        shared->proof = gpuring_now_ns() ^ (uint64_t) gpuring_process.world_rank << 48;
        status = write_proof(slots, shared->proof);
    }
    if (status == GPURING_OK) {
        page_pin(slots);
    }
    return status;
}

/* Allocate the slots of this process in a place. The caller holds the lock. */
static int slots_make(enum gpuring_p2p_place place)
{
    struct gpuring_p2p_slots *slots = &own[place];
    struct gpuring_p2p_shared *shared = &own_shared[place];
    bool on_gpu = place == GPURING_P2P_GPU;
    void *page = NULL;
    int status = open_host();

    if (status == GPURING_OK) {
        status = gpuring_device_host.alloc(host, on_gpu ? PAGE : all_bytes(place), &page);
        slots->page = page;
    }
    if (status == GPURING_OK) {
        status = gpuring_device_host.export(host, page, &shared->page);
    }
    if (status != GPURING_OK || on_gpu) {
        return status == GPURING_OK ? make_on_gpu(slots, shared) : status;
    }
    slots->memory = page;
    return slots_pin(slots);
}

/* Release the memory of slots, which other processes may still map. */
static void slots_release(struct gpuring_p2p_slots *slots)
{
    if (slots->place == GPURING_P2P_GPU && slots->memory != NULL) {
        gpuring_process.device_ops->free(gpuring_process.device, slots->memory);
    }
    if (slots->pinned) {
        gpuring_process.device_ops->unreach(gpuring_process.device, slots->page);
    }
    slots->memory = NULL;
    slots->pinned = false;
}

static void log_not_made(enum gpuring_p2p_place place, int status)
{
    const char *next = place == GPURING_P2P_GPU
                           ? "large messages of this process go through host memory"
                           : "large messages of this process are sent through Open MPI";

    if (status == GPURING_ERR_NOMEM) {
        gpuring_warn("[p2p-by-host] %s: %zu MiB of %s memory for them could not be allocated; "
                     "leave that much free for the first large message",
                     next, all_bytes(place) >> 20, place == GPURING_P2P_GPU ? "GPU" : "host");
    } else {
        gpuring_info("[p2p-by-host] %s: other processes cannot map its memory", next);
    }
}

const struct gpuring_p2p_slots *gpuring_p2p_slots_open(enum gpuring_p2p_place place,
                                                       struct gpuring_p2p_shared *shared)
{
    struct gpuring_p2p_slots *slots = &own[place];
    int status;

    pthread_mutex_lock(&gpuring_p2p.lock);
    if (!slots->tried) {
        slots->tried = true;
        slots->place = place;
        status = slots_make(place);
        if (status != GPURING_OK) {
            log_not_made(place, status);
            slots_release(slots);
        }
    }
    *shared = own_shared[place];
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return slots->memory != NULL ? slots : NULL;
}

int gpuring_p2p_slots_lend(enum gpuring_p2p_place place, const struct gpuring_p2p_flow *use,
                           bool answered)
{
    int buffer = -1, available = 0;

    pthread_mutex_lock(&gpuring_p2p.lock);
    for (int i = 0; i < BUFFERS; i++) {
        if (!lent[place][i]) {
            buffer = i;
            available++;
        }
    }
    if (!answered && available <= ANSWERED) {
        buffer = -1;
    }
    if (buffer >= 0) {
        struct gpuring_p2p_flow *flow = gpuring_p2p_flow(&own[place], buffer);

        lent[place][buffer] = true;
        *flow =
            (struct gpuring_p2p_flow){.number = ++uses, .lead = use->lead, .kernel = use->kernel};
        /* Release, because the other members must be set before. Partner:
         * gpuring_p2p_slots_find. */
        __atomic_store_n(&flow->sending, use->sending, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&gpuring_p2p.lock);
    return buffer;
}

void gpuring_p2p_slots_return(enum gpuring_p2p_place place, int buffer)
{
    if (buffer >= 0) {
        pthread_mutex_lock(&gpuring_p2p.lock);
        lent[place][buffer] = false;
        __atomic_store_n(&gpuring_p2p_flow(&own[place], buffer)->sending, 0, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&gpuring_p2p.lock);
    }
}

/* ---- The receiver's side ---- */

/* Copy the pattern with a kernel. */
static int move_proof(const struct gpuring_p2p_slots *slots, char *scratch, size_t bytes)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_move move = {.to = (uint8_t *) scratch,
                                .from = (const uint8_t *) slots->memory,
                                .bytes = bytes,
                                .awaited = signals_of(slots, BUFFERS),
                                .number = 1,
                                .patience = patience_ns()};
    struct gpuring_stream *stream = NULL;
    void *ends;
    int status = ops->alloc_pinned(gpuring_process.device, PAGE, &ends);

    if (status != GPURING_OK) {
        return status;
    }
    move.ends = ends;
    status = ops->stream_create(gpuring_process.device, &stream);
    if (status == GPURING_OK) {
        status = ops->move(stream, &move);
    }
    while (status == GPURING_OK && (status = ops->moved(stream, &move)) == GPURING_AGAIN) {
        status = GPURING_OK;
        sched_yield();
    }
    ops->stream_destroy(stream);
    ops->free_pinned(gpuring_process.device, ends);
    return status;
}

/* Copy the pattern to the GPU as data is copied, and return true if it is right. */
static bool prove_way(const struct gpuring_p2p_slots *slots, const char *expected, char *scratch,
                      size_t bytes, bool kernel)
{
    const struct gpuring_device_ops *ops = gpuring_process.device_ops;
    struct gpuring_device *device = gpuring_process.device;
    char *found = calloc(1, bytes);
    bool good =
        found != NULL && gpuring_device_copy(ops, device, scratch, found, bytes) == GPURING_OK &&
        (kernel ? move_proof(slots, scratch, bytes)
                : gpuring_device_copy(ops, device, scratch, slots->memory, bytes)) == GPURING_OK &&
        gpuring_device_copy(ops, device, found, scratch, bytes) == GPURING_OK &&
        memcmp(found, expected, bytes) == 0;

    free(found);
    return good;
}

/* Return true if the first bytes are the pattern that the sender has written. */
static bool prove_memory(const struct gpuring_p2p_slots *slots, uint64_t proof, char *scratch,
                         size_t room)
{
    size_t bytes = room < PROOF ? room : PROOF;
    char *expected = malloc(bytes);
    bool good = expected != NULL;

    if (good) {
        fill_proof(expected, bytes, proof);
        good = prove_way(slots, expected, scratch, bytes, false) &&
               (!slots->pinned || prove_way(slots, expected, scratch, bytes, true));
    }
    free(expected);
    return good;
}

/* Unmap the slots. The page stays mapped until the host device is closed. */
static void unmap(struct gpuring_p2p_slots *slots)
{
    if (slots->place == GPURING_P2P_GPU && slots->memory != NULL) {
        gpuring_process.device_ops->unimport(gpuring_process.device, slots->memory);
        slots->memory = NULL;
    }
    slots_release(slots);
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
    if (slots->place == GPURING_P2P_HOST) {
        slots->memory = page;
        return true;
    }
    if (gpuring_process.device_ops->import(gpuring_process.device, &shared->memory, &memory) !=
        GPURING_OK) {
        return false;
    }
    slots->memory = memory;
    page_pin(slots);
    return true;
}

/* Map the slots and check that they can be used. */
static bool map_first(struct gpuring_p2p_slots *slots, const struct gpuring_p2p_shared *shared,
                      char *scratch, size_t room)
{
    return map(slots, shared) &&
           (slots->place == GPURING_P2P_HOST || prove_memory(slots, shared->proof, scratch, room));
}

const struct gpuring_p2p_slots *gpuring_p2p_slots_map(enum gpuring_p2p_place place, int sender,
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
    slots = &mapped[sender][place];
    if (!slots->tried) {
        slots->tried = true;
        slots->place = place;
        if (!map_first(slots, shared, scratch, room)) {
            unmap(slots);
            gpuring_info("[p2p-by-host] messages from rank %d do not use its %s memory, "
                         "because it cannot be mapped, or a test pattern was not read "
                         "correctly",
                         sender, place == GPURING_P2P_GPU ? "GPU" : "shared host");
        }
    }
    if (slots->memory != NULL && place == GPURING_P2P_HOST && slots_pin(slots) != GPURING_OK) {
        unmap(slots); /* it has been logged */
    }
    return slots->memory != NULL ? slots : NULL;
}

int gpuring_p2p_slots_find(const struct gpuring_p2p_slots *slots, uint64_t sending)
{
    for (int i = 0; i < BUFFERS; i++) {
        /* Acquire. Partner: gpuring_p2p_slots_lend. */
        if (__atomic_load_n(&gpuring_p2p_flow(slots, i)->sending, __ATOMIC_ACQUIRE) == sending) {
            return i;
        }
    }
    return -1;
}

/* Wait for other processes to unmap memory before it is freed, because CUDA does not define what
 * happens otherwise. If a process has died or hangs, the memory is freed when this process ends. */
static void close_own(struct gpuring_p2p_slots *slots, uint64_t end)
{
    while (slots->place == GPURING_P2P_GPU && slots->page != NULL &&
           __atomic_load_n(&slots->page->mappings, __ATOMIC_ACQUIRE) > 0) {
        if (gpuring_now_ns() >= end) {
            slots->memory = NULL;
            break;
        }
        (void) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    slots_release(slots);
    *slots = (struct gpuring_p2p_slots){.memory = NULL};
}

void gpuring_p2p_slots_close(void)
{
    uint64_t end = gpuring_now_ns() + CLOSE_NS;

    for (int i = 0; i < senders * GPURING_P2P_PLACES && mapped != NULL; i++) {
        unmap(&mapped[i / GPURING_P2P_PLACES][i % GPURING_P2P_PLACES]);
    }
    free(mapped);
    mapped = NULL;
    for (int place = 0; place < GPURING_P2P_PLACES; place++) {
        close_own(&own[place], end);
    }
    if (host != NULL) {
        gpuring_device_host.close(host);
        host = NULL;
    }
}
