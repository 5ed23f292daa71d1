/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Where the parts of a connection's block lie (pictures in internal.h). */
#include "mca/coll_gpuring/transport/internal.h"

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static size_t add_slots(const struct gpuring_fifo_config *fifo, size_t at,
                        struct gpuring_block_layout *layout)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        at = round_up(at, GPURING_TRANSPORT_PAGE);
        layout->slots[p] = at;
        at += (size_t) fifo->nslots * fifo->slot_bytes[p];
    }
    return round_up(at, GPURING_TRANSPORT_PAGE);
}

void gpuring_channels_peer_recv(const struct gpuring_fifo_config *fifo,
                                struct gpuring_block_layout *layout)
{
    *layout = (struct gpuring_block_layout){.tail = 0};
    layout->bytes =
        add_slots(fifo, GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_tail), layout);
}

void gpuring_channels_peer_send(const struct gpuring_fifo_config *fifo,
                                struct gpuring_block_layout *layout)
{
    (void) fifo;
    *layout = (struct gpuring_block_layout){.head = 0};
    layout->bytes = GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_head);
}

void gpuring_channels_remote(const struct gpuring_fifo_config *fifo,
                             struct gpuring_block_layout *layout)
{
    *layout = (struct gpuring_block_layout){.head = 0};
    layout->tail = GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_head);
    layout->bytes = add_slots(
        fifo, layout->tail + GPURING_PROTOCOL_COUNT * sizeof(struct gpuring_fifo_tail), layout);
}

struct gpuring_fifo_tail *gpuring_block_tail(uint8_t *block,
                                             const struct gpuring_block_layout *layout,
                                             unsigned protocol)
{
    return (struct gpuring_fifo_tail *) (void *) (block + layout->tail) + protocol;
}

struct gpuring_fifo_head *gpuring_block_head(uint8_t *block,
                                             const struct gpuring_block_layout *layout,
                                             unsigned protocol)
{
    return (struct gpuring_fifo_head *) (void *) (block + layout->head) + protocol;
}

static uint64_t first_step(const struct gpuring_conn *conn, unsigned protocol)
{
    return conn->remote && protocol == GPURING_PROTOCOL_SIMPLE ? GPURING_TRY_STEPS : 0;
}

void gpuring_conn_bind_recv(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                            uint8_t *own_block, const struct gpuring_block_layout *layout,
                            uint8_t *head_block, const struct gpuring_block_layout *head_layout)
{
    const struct gpuring_fifo_config *fifo = &transport->config.fifo;
    uint32_t at = transport->ends[conn->plan].first_recv + conn->index;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t step = first_step(conn, p);

        transport->recvs[p][at] = (struct gpuring_recv){
            .slots = conn->remote ? gpuring_slots_of(transport, conn, layout, p)
                                  : own_block + layout->slots[p],
            .tail = gpuring_block_tail(own_block, layout, p),
            .head = gpuring_block_head(head_block, head_layout, p),
            .slot_bytes = fifo->slot_bytes[p],
            .nslots = fifo->nslots,
            .local = conn->remote,
            .step = step,
            .seen = step,
        };
    }
}

void gpuring_conn_bind_send(struct gpuring_transport *transport, const struct gpuring_conn *conn,
                            uint8_t *slots_block, const struct gpuring_block_layout *layout,
                            uint8_t *own_block, const struct gpuring_block_layout *own_layout)
{
    const struct gpuring_fifo_config *fifo = &transport->config.fifo;
    uint32_t at = transport->ends[conn->plan].first_send + conn->index;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t step = first_step(conn, p);

        transport->sends[p][at] = (struct gpuring_send){
            .slots = conn->remote ? gpuring_slots_of(transport, conn, layout, p)
                                  : slots_block + layout->slots[p],
            .tail = gpuring_block_tail(slots_block, layout, p),
            .head = gpuring_block_head(own_block, own_layout, p),
            .slot_bytes = fifo->slot_bytes[p],
            .nslots = fifo->nslots,
            .local = conn->remote,
            .step = step,
            .seen = step,
        };
    }
}
