/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "test/unit/net_lane.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/coll_gpuring/util/status.h"

uint64_t lane_process;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int lane_end_create(struct lane_end *end, const struct gpuring_net_ops *ops,
                    struct gpuring_net *net, int device, struct gpuring_proxy *proxy,
                    enum gpuring_net_direction direction, uint32_t nslots, uint64_t slot_bytes)
{
    return lane_end_create_in(end, ops, net, device, proxy, direction, nslots, slot_bytes, NULL);
}

int lane_end_create_in(struct lane_end *end, const struct gpuring_net_ops *ops,
                       struct gpuring_net *net, int device, struct gpuring_proxy *proxy,
                       enum gpuring_net_direction direction, uint32_t nslots, uint64_t slot_bytes,
                       const struct gpuring_device_nic *gpu)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t counters = GPURING_PROTOCOL_COUNT *
                      (sizeof(struct gpuring_fifo_tail) + sizeof(struct gpuring_fifo_head));
    size_t slots_at = (counters + page - 1) / page * page;
    static uint64_t processes = UINT64_C(1) << 32;
    struct gpuring_net_peer peer = {.process = lane_process, .device = device};
    struct gpuring_net_memory memory;
    uint8_t *at;

    *end = (struct lane_end){.ops = ops,
                             .proxy = proxy,
                             .direction = direction,
                             .nslots = nslots,
                             .slot_bytes = slot_bytes};
    end->bytes = slots_at + GPURING_PROTOCOL_COUNT * nslots * slot_bytes;
    end->bytes = (end->bytes + page - 1) / page * page;
    end->memory = aligned_alloc(page, end->bytes);
    if (end->memory == NULL) {
        return GPURING_ERR_NOMEM;
    }
    memset(end->memory, 0, end->bytes);
    memory = (struct gpuring_net_memory){
        .base = end->memory, .bytes = end->bytes, .device = gpu, .any = ops->any_memory};
    at = end->memory;
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        end->tail[p] = (struct gpuring_fifo_tail *) (void *) at;
        at += sizeof(struct gpuring_fifo_tail);
    }
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        end->head[p] = (struct gpuring_fifo_head *) (void *) at;
        at += sizeof(struct gpuring_fifo_head);
        end->slots[p] = end->memory + slots_at + (size_t) p * nslots * slot_bytes;
        memory.ring[p] = (struct gpuring_net_ring){.slots = end->slots[p],
                                                   .slot_bytes = slot_bytes,
                                                   .nslots = nslots,
                                                   .tail = end->tail[p],
                                                   .head = end->head[p]};
    }
    if (proxy != NULL) {
        gpuring_proxy_group_init(proxy, &end->group);
    }
    if (peer.process == 0) {
        peer.process = __atomic_add_fetch(&processes, 1, __ATOMIC_RELAXED);
    }
    return ops->link_create(net, device, &peer, direction, &memory, &end->link);
}

int lane_end_connect(struct lane_end *end, const void *process_handle, size_t process_bytes,
                     const void *handle, size_t bytes, const char *peer_name)
{
    int status =
        end->ops->link_connect(end->link, process_handle, process_bytes, handle, bytes, peer_name);

    if (status == GPURING_OK && end->proxy != NULL) {
        gpuring_proxy_add(&end->group, end->link, &end->failed);
    }
    return status;
}

static int connect_one(struct lane_end *end, struct lane_end *other, struct gpuring_net *other_net,
                       const char *other_name)
{
    static const size_t process_room = 65536;
    uint8_t handle[GPURING_NET_HANDLE_BYTES];
    uint8_t *process = malloc(process_room);
    size_t process_bytes = process_room;
    int status = process == NULL ? GPURING_ERR_NOMEM : GPURING_OK;

    if (status == GPURING_OK && other->ops->process_handle != NULL) {
        status = other->ops->process_handle(other_net, process, &process_bytes);
    }
    if (status == GPURING_OK) {
        size_t bytes = other->ops->link_handle(other->link, handle);

        status = lane_end_connect(end, process, process_bytes, handle, bytes, other_name);
    }
    free(process);
    return status;
}

int lane_connect(struct lane_end *sender, struct gpuring_net *sender_net, const char *sender_name,
                 struct lane_end *receiver, struct gpuring_net *receiver_net,
                 const char *receiver_name)
{
    int status = connect_one(sender, receiver, receiver_net, receiver_name);

    status = status != GPURING_OK ? status : connect_one(receiver, sender, sender_net, sender_name);
    if (status == GPURING_OK && sender->ops->link_ready != NULL) {
        sender->ops->link_ready(sender->link);
        receiver->ops->link_ready(receiver->link);
    }
    return status;
}

int lane_end_leave(struct lane_end *end, double seconds)
{
    return gpuring_proxy_remove(&end->group, seconds);
}

bool lane_end_held(struct lane_end *end)
{
    return end->ops->link_holds != NULL && end->ops->link_holds(end->link);
}

void lane_end_close(struct lane_end *end)
{
    end->ops->link_close(end->link);
    free(end->memory);
    memset(end, 0, sizeof *end);
}

int lane_end_destroy(struct lane_end *end, double seconds)
{
    int status = lane_end_leave(end, seconds);

    lane_end_close(end);
    return status;
}

uint32_t lane_chunk_bytes(const struct lane_end *end, enum gpuring_protocol protocol, uint64_t step)
{
    uint64_t most = gpuring_fifo_payload(protocol, end->slot_bytes);

    return (uint32_t) (step % 5 == 0 ? most : mix(step + 1) % (most + 1));
}

/* Fill a slot with a pattern. It needs no valid lines, because nets do not read them. */
static void fill(uint8_t *slot, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        slot[i] = (uint8_t) mix(seed + i / 64) + (uint8_t) i;
    }
}

static int check(const uint8_t *slot, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (slot[i] != (uint8_t) ((uint8_t) mix(seed + i / 64) + (uint8_t) i)) {
            return GPURING_ERR_DATA;
        }
    }
    return GPURING_OK;
}

/* Wait until *counter > limit (as a difference that is at least 1). */
static int wait_above(struct lane_end *end, const uint64_t *counter, uint64_t limit)
{
    const time_t deadline = time(NULL) + LANE_DEADLINE_SECONDS;
    const struct timespec nap = {.tv_nsec = 50000};

    for (int looks = 0;; looks++) {
        int failed;

        if (__atomic_load_n(counter, __ATOMIC_ACQUIRE) > limit) {
            return GPURING_OK;
        }
        failed = __atomic_load_n(&end->failed, __ATOMIC_ACQUIRE);
        if (failed != GPURING_OK) {
            return failed;
        }
        if (time(NULL) > deadline) {
            return GPURING_ERR_TIMEOUT;
        }
        if (end->help) {
            (void) gpuring_proxy_help(&end->group, true);
        }
        if (looks < 1000) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL); /* nothing will arrive soon */
        }
    }
}

int lane_send(struct lane_end *end, enum gpuring_protocol protocol, uint64_t seed)
{
    uint64_t step = end->step[protocol];
    uint32_t bytes = lane_chunk_bytes(end, protocol, step);
    int status = step < end->nslots
                     ? GPURING_OK
                     : wait_above(end, &end->head[protocol]->head, step - end->nslots);

    if (status != GPURING_OK) {
        return status;
    }
    fill(end->slots[protocol] + step % end->nslots * end->slot_bytes, bytes, seed + step * 1000);
    end->tail[protocol]->size[step % end->nslots] = bytes;
    __atomic_store_n(&end->tail[protocol]->tail, step + 1, __ATOMIC_RELEASE);
    end->step[protocol]++;
    return GPURING_OK;
}

int lane_recv(struct lane_end *end, enum gpuring_protocol protocol, uint64_t seed)
{
    uint64_t step = end->step[protocol];
    uint32_t bytes = lane_chunk_bytes(end, protocol, step);
    int status = wait_above(end, &end->tail[protocol]->tail, step);

    if (status == GPURING_OK && end->tail[protocol]->size[step % end->nslots] != bytes) {
        status = GPURING_ERR_DATA;
    }
    if (status == GPURING_OK) {
        status = check(end->slots[protocol] + step % end->nslots * end->slot_bytes, bytes,
                       seed + step * 1000);
    }
    if (status == GPURING_OK) {
        __atomic_store_n(&end->head[protocol]->head, step + 1, __ATOMIC_RELEASE);
        end->step[protocol]++;
    }
    return status;
}

static void *exchange_main(void *argument)
{
    struct lane_exchange *exchange = argument;

    gpuring_proxy_begin(&exchange->send->group, exchange->send->help);
    gpuring_proxy_begin(&exchange->receive->group, exchange->receive->help);
    for (int turn = 0; turn < 2 * exchange->count && exchange->status == GPURING_OK; turn++) {
        exchange->status = (turn % 2 == 0) == exchange->first
                               ? lane_send(exchange->send, exchange->protocol, exchange->seed)
                               : lane_recv(exchange->receive, exchange->protocol, exchange->seed);
    }
    gpuring_proxy_end(&exchange->receive->group, exchange->receive->help);
    gpuring_proxy_end(&exchange->send->group, exchange->send->help);
    return NULL;
}

int lane_exchange_start(struct lane_exchange *exchange)
{
    return pthread_create(&exchange->thread, NULL, exchange_main, exchange);
}

int lane_exchange_join(struct lane_exchange *exchange)
{
    pthread_join(exchange->thread, NULL);
    return exchange->status;
}
