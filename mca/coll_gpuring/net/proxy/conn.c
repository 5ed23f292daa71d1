/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * One connection of the proxy: from counters to posts and credits, from events to counters.
 * Everything here runs under the proxy's gate; only the lanes work on the same counters.
 */
#include <stdio.h>

#include "mca/coll_gpuring/net/proxy/internal.h"
#include "mca/coll_gpuring/util/status.h"

static void conn_fail(struct gpuring_proxy_conn *conn, int status, const char *text)
{
    if (conn->status != GPURING_OK) {
        return;
    }
    snprintf(conn->error, sizeof conn->error, "%s", text);
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
        conn_fail(conn, GPURING_ERR_DATA,
                  "the sending lane ran over its slots: the FIFO's memory is corrupt");
        return 1;
    }
    end = tail < ring->credit + ring->nslots ? tail : ring->credit + ring->nslots;
    while (ring->posted < end) {
        uint32_t size = ring->tail->size[ring->posted % ring->nslots];
        uint64_t head = head_of_pair(conn->pair, protocol);
        int status =
            conn->ops->post(conn->link, protocol, ring->posted, size, ring->posted + 1 < end, head);

        if (status == GPURING_AGAIN) {
            (*again)++;
            break;
        }
        calls++;
        if (status != GPURING_OK) {
            break; /* the ERROR event with its text follows */
        }
        if (conn->pair != NULL) {
            conn->pair->ring[protocol].credit = head;
        }
        ring->posted++;
        *bytes += size;
    }
    return calls;
}

/*
 * Slots are given back by halves, so that a stream of them does not wait for credit. Small ones,
 * whose cost is the number of messages, later: two are left for what the peer sends meanwhile.
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
        conn_fail(conn, GPURING_ERR_DATA,
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

static void arrived(struct gpuring_proxy_conn *conn, struct gpuring_proxy_ring *ring,
                    const struct gpuring_net_event *event)
{
    if (conn->direction != GPURING_NET_RECV || event->step != ring->received) {
        conn_fail(conn, GPURING_ERR_NET, "the network delivered a chunk twice or out of order");
        return;
    }
    ring->tail->size[event->step % ring->nslots] = event->bytes;
    ring->received = event->step + 1;
    /* Partner: the lane's acquire load of tail, before it reads size and slot. */
    __atomic_store_n(&ring->tail->tail, ring->received, __ATOMIC_RELEASE);
}

static void sent(struct gpuring_proxy_conn *conn, struct gpuring_proxy_ring *ring, uint64_t step)
{
    if (conn->direction != GPURING_NET_SEND || step >= ring->posted || step < ring->sent) {
        conn_fail(conn, GPURING_ERR_NET,
                  "the network reported a chunk as sent that was not posted");
        return;
    }
    ring->sent = step + 1;
    /* Partner: the lane's acquire load of head, before it writes the slot again. */
    __atomic_store_n(&ring->head->head, ring->sent, __ATOMIC_RELEASE);
}

static void credited(struct gpuring_proxy_conn *conn, struct gpuring_proxy_ring *ring,
                     uint64_t head)
{
    if (conn->direction != GPURING_NET_SEND || head > ring->posted || head < ring->credit) {
        conn_fail(conn, GPURING_ERR_NET, "the network delivered an impossible credit");
        return;
    }
    ring->credit = head;
}

void gpuring_proxy_conn_event(struct gpuring_proxy_conn *conn,
                              const struct gpuring_net_event *event)
{
    struct gpuring_proxy_ring *ring;

    if (event->kind == GPURING_NET_ERROR) {
        conn_fail(conn, event->status, event->text);
        return;
    }
    if ((unsigned) event->protocol >= GPURING_PROTOCOL_COUNT ||
        conn->ring[event->protocol].nslots == 0) {
        conn_fail(conn, GPURING_ERR_NET, "the network reported an event of an unused protocol");
        return;
    }
    if (conn->status != GPURING_OK) {
        return;
    }
    ring = &conn->ring[event->protocol];
    switch (event->kind) {
    case GPURING_NET_RECEIVED:
        arrived(conn, ring, event);
        break;
    case GPURING_NET_SENT:
        sent(conn, ring, event->step);
        break;
    default:
        credited(conn, ring, event->step);
        break;
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
