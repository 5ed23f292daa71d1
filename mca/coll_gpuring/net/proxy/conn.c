/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One connection of the proxy: from counters to posts and credits, from reports of the net to
 * counters. Everything here runs under the gate; only the lanes work on the same counters.
 */
#include "mca/coll_gpuring/net/proxy/internal.h"
#include "mca/coll_gpuring/util/status.h"

void gpuring_proxy_failed(struct gpuring_proxy_conn *conn, int status, const char *text)
{
    if (conn->status != GPURING_OK) {
        return;
    }
    conn->error = text;
    conn->status = status;
    /* Partner: the acquire load of who watches `failed` and then reads the text. */
    __atomic_store_n(conn->failed, status, __ATOMIC_RELEASE);
}

/* What the next slot can say to the peer that it sends to: how far its own slots are consumed. */
static uint64_t head_of_pair(const struct gpuring_proxy_conn *pair, enum gpuring_protocol protocol)
{
    const struct gpuring_proxy_ring *ring;
    uint64_t head;

    if (pair == NULL || pair->ring[protocol].nslots == 0) {
        return 0;
    }
    ring = &pair->ring[protocol];
    /* Partner as in pump_recv, which also finds a head that is impossible. */
    head = __atomic_load_n(&ring->head->head, __ATOMIC_ACQUIRE);
    return head <= ring->received && head > ring->credit ? head : ring->credit;
}

static int pump_send(struct gpuring_proxy_conn *conn, enum gpuring_protocol protocol,
                     uint64_t *bytes, uint64_t *again)
{
    struct gpuring_proxy_ring *ring = &conn->ring[protocol];
    /* Partner: the lane's release store of tail after payload and size. */
    uint64_t tail = __atomic_load_n(&ring->tail->tail, __ATOMIC_ACQUIRE), end;
    int calls = 0;

    if (tail - ring->sent > ring->nslots) {
        gpuring_proxy_failed(conn, GPURING_ERR_DATA,
                             "the sending lane ran over its slots: the FIFO's memory is corrupt");
        return 1;
    }
    end = tail < ring->credit + ring->nslots ? tail : ring->credit + ring->nslots;
    while (ring->posted < end) {
        uint64_t step = ring->posted++; /* before the call, which may report that it is sent */
        uint32_t size = ring->tail->size[step % ring->nslots];
        uint64_t head = head_of_pair(conn->pair, protocol);
        int status = conn->ops->post(conn->link, protocol, step, size, step + 1 < end, head);

        if (status == GPURING_AGAIN) {
            ring->posted = step;
            (*again)++;
            break;
        }
        calls++;
        if (status != GPURING_OK) {
            break;
        }
        if (conn->pair != NULL) {
            conn->pair->ring[protocol].credit = head;
        }
        *bytes += size;
    }
    return calls;
}

/*
 * Slots are given back by halves, so that a stream of them does not wait for credit. Small ones,
 * whose cost is the number of messages, later: two stay free for what the peer sends meanwhile.
 */
#define SMALL_BYTES 4096

static bool credit_due(const struct gpuring_proxy_ring *ring, uint64_t head)
{
    uint64_t slots = head - ring->credit;
    uint32_t half = ring->nslots >= 4 ? ring->nslots / 2 : 1;

    return slots >= half &&
           (slots + 2 >= ring->nslots || ring->tail->size[(head - 1) % ring->nslots] > SMALL_BYTES);
}

static int pump_recv(struct gpuring_proxy_conn *conn, enum gpuring_protocol protocol,
                     uint64_t *again)
{
    struct gpuring_proxy_ring *ring = &conn->ring[protocol];
    /* Partner: the lane's release store of head after its last read of the slot. */
    uint64_t head = __atomic_load_n(&ring->head->head, __ATOMIC_ACQUIRE);
    int status;

    if (head > ring->received) {
        gpuring_proxy_failed(
            conn, GPURING_ERR_DATA,
            "the receiving lane gave back slots that had not arrived: the FIFO's memory is "
            "corrupt");
        return 1;
    }
    if (!credit_due(ring, head)) {
        return 0;
    }
    status = conn->ops->credit(conn->link, protocol, head);
    if (status == GPURING_AGAIN) {
        (*again)++;
        return 0;
    }
    if (status == GPURING_OK) {
        ring->credit = head;
    }
    return 1;
}

int gpuring_proxy_conn_pump(struct gpuring_proxy_conn *conn, uint64_t *bytes, uint64_t *again)
{
    int calls = 0;

    for (int p = 0; p < GPURING_PROTOCOL_COUNT && conn->status == GPURING_OK; p++) {
        if (conn->ring[p].nslots == 0) {
            continue;
        }
        calls += conn->direction == GPURING_NET_SEND
                     ? pump_send(conn, (enum gpuring_protocol) p, bytes, again)
                     : pump_recv(conn, (enum gpuring_protocol) p, again);
    }
    return calls;
}

void gpuring_proxy_arrived(struct gpuring_proxy_conn *conn, unsigned protocol, uint64_t step,
                           uint32_t bytes)
{
    struct gpuring_proxy_ring *ring = &conn->ring[protocol];

    if (conn->status != GPURING_OK) {
        return;
    }
    if (step != ring->received) {
        gpuring_proxy_failed(conn, GPURING_ERR_NET,
                             "the network delivered a chunk twice or out of order");
        return;
    }
    ring->tail->size[step % ring->nslots] = bytes;
    ring->received = step + 1;
    /* Partner: the lane's acquire load of tail, before it reads size and slot. */
    __atomic_store_n(&ring->tail->tail, ring->received, __ATOMIC_RELEASE);
}

void gpuring_proxy_sent(struct gpuring_proxy_conn *conn, unsigned protocol, uint64_t sent)
{
    struct gpuring_proxy_ring *ring = &conn->ring[protocol];

    if (conn->status != GPURING_OK) {
        return;
    }
    if (sent > ring->posted || sent < ring->sent) {
        gpuring_proxy_failed(conn, GPURING_ERR_NET,
                             "the network reported a chunk as sent that was not posted");
        return;
    }
    ring->sent = sent;
    /* Partner: the lane's acquire load of head, before it writes the slot again. */
    __atomic_store_n(&ring->head->head, sent, __ATOMIC_RELEASE);
}

void gpuring_proxy_credited(struct gpuring_proxy_conn *conn, unsigned protocol, uint64_t head)
{
    struct gpuring_proxy_ring *ring = &conn->ring[protocol];

    if (conn->status == GPURING_OK && (head > ring->posted || head < ring->credit)) {
        gpuring_proxy_failed(conn, GPURING_ERR_NET, "the network delivered an impossible credit");
    } else if (conn->status == GPURING_OK) {
        ring->credit = head;
    }
}

bool gpuring_proxy_conn_pending(const struct gpuring_proxy_conn *conn, bool posted)
{
    if (conn->status != GPURING_OK) {
        return false;
    }
    for (int p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        const struct gpuring_proxy_ring *ring = &conn->ring[p];

        if (ring->nslots == 0) {
            continue;
        }
        /* Partners as in pump_send and pump_recv. */
        if (conn->direction == GPURING_NET_SEND) {
            if ((posted ? ring->posted : ring->sent) <
                __atomic_load_n(&ring->tail->tail, __ATOMIC_ACQUIRE)) {
                return true;
            }
        } else if (credit_due(ring, __atomic_load_n(&ring->head->head, __ATOMIC_ACQUIRE))) {
            return true;
        }
    }
    return false;
}
