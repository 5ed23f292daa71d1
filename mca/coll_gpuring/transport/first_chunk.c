/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The first chunk of every connection between nodes, sent before any operation, proves that the
 * network delivers data to the right end. It is step 0 of the FIFO of protocol simple; operations
 * begin with step 1.
 *
 *   0        16     20   24       28    32
 *   | id[2]  | from | to | plan   | key |
 *
 * A rank that has finished keeps its progress thread active until all ranks have finished, because
 * a peer may not know yet that its chunk has been received, and needs an answer if its path has
 * failed.
 */
#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/transport/transport_internal.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * Longer than the nominal timeouts of the nets, whose messages contain more information. verbs
 * abandons a path after its timeout times its tries, about 4.3 s x 7 by default, and then uses a
 * spare. A device may wait four times as long; this limit then ends the wait first.
 */
#define TRY_SECONDS 60.0

struct note {
    uint64_t id[2]; /* of the communicator */
    int32_t from, to;
    int32_t plan;
    uint32_t key;
};
_Static_assert(sizeof(struct note) == 32, "travels between ranks");

static struct note make_note(const struct gpuring_transport *transport,
                             const struct gpuring_conn *conn)
{
    const struct gpuring_transport_config *config = &transport->config;
    bool sends = conn->direction == GPURING_NET_SEND;

    return (struct note){.id = {config->unique_id[0], config->unique_id[1]},
                         .from = sends ? config->rank : conn->peer,
                         .to = sends ? conn->peer : config->rank,
                         .plan = conn->plan,
                         .key = conn->key};
}

static const struct gpuring_fifo_end *fifo_of(const struct gpuring_transport *transport,
                                              const struct gpuring_conn *conn)
{
    return transport->fifos + GPURING_PROTOCOL_SIMPLE * transport->nconns +
           (conn - transport->conns);
}

/* Copy to or from slots in any memory, and wait for completion. */
static int chunk_copy(const struct gpuring_transport *transport, const struct gpuring_conn *conn,
                      void *to, const void *from)
{
    const struct gpuring_transport_config *config = &transport->config;

    if (conn->direct != NULL) {
        return gpuring_device_copy(config->device_ops, config->device, to, from,
                                   sizeof(struct note));
    }
    memcpy(to, from, sizeof(struct note));
    return GPURING_OK;
}

static int chunks_begin(struct gpuring_transport *transport)
{
    const struct gpuring_net_ops *ops = transport->config.net_ops;
    int status = GPURING_OK;

    gpuring_transport_begin(transport, false);
    for (uint32_t i = 0; i < transport->nconns && ops->link_ready != NULL; i++) {
        if (transport->conns[i].link != NULL) {
            ops->link_ready(transport->conns[i].link);
        }
    }
    for (uint32_t i = 0; status == GPURING_OK && i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];

        if (conn->remote && conn->direction == GPURING_NET_SEND) {
            const struct gpuring_fifo_end *send = fifo_of(transport, conn);
            const struct note note = make_note(transport, conn);

            status = chunk_copy(transport, conn, send->slots, &note);
            send->tail->size[0] = sizeof note;
            /* Pairs with the proxy's acquire load. */
            __atomic_store_n(&send->tail->tail, GPURING_TRY_STEPS, __ATOMIC_RELEASE);
        }
    }
    return status;
}

/* Check a connection. Return 0 if its chunk was sent and its slot is free again, or if it was
 * received; GPURING_AGAIN; or an error if the chunk is wrong. */
static int chunk_look(struct gpuring_transport *transport, const struct gpuring_conn *conn)
{
    const struct note note = make_note(transport, conn);
    const struct gpuring_fifo_end *recv;
    struct note come;
    int status;

    /* Pairs with the proxy's release stores. */
    if (conn->direction == GPURING_NET_SEND) {
        return __atomic_load_n(&fifo_of(transport, conn)->head->head, __ATOMIC_ACQUIRE) > 0
                   ? GPURING_OK
                   : GPURING_AGAIN;
    }
    recv = fifo_of(transport, conn);
    if (__atomic_load_n(&recv->head->head, __ATOMIC_RELAXED) >
        0) { /* already checked: this is our store */
        return GPURING_OK;
    }
    if (__atomic_load_n(&recv->tail->tail, __ATOMIC_ACQUIRE) == 0) {
        return GPURING_AGAIN;
    }
    status = chunk_copy(transport, conn, &come, recv->slots);
    if (status != GPURING_OK) {
        return status;
    }
    if (recv->tail->size[0] != sizeof note || memcmp(&come, &note, sizeof note) != 0) {
        return GPURING_ERR_DATA;
    }
    __atomic_store_n(&recv->head->head, GPURING_TRY_STEPS, __ATOMIC_RELEASE);
    return GPURING_OK;
}

static int look_at_all(struct gpuring_transport *transport, const struct gpuring_conn **which)
{
    for (uint32_t i = 0; i < transport->nconns; i++) {
        const struct gpuring_conn *conn = &transport->conns[i];
        int status = conn->remote ? chunk_look(transport, conn) : GPURING_OK;

        if (status != GPURING_OK) {
            *which = conn;
            return status;
        }
    }
    return GPURING_OK;
}

int gpuring_transport_try(struct gpuring_transport *transport, char *text, size_t size)
{
    const struct gpuring_conn *which = NULL;
    double limit = transport->config.try_seconds > 0 ? transport->config.try_seconds : TRY_SECONDS;
    int status = GPURING_OK;

    if (transport->nremote == 0) {
        return GPURING_OK;
    }
    if (transport->try_until == 0) {
        transport->try_until = gpuring_now() + limit;
        status = chunks_begin(transport);
    }
    (void) gpuring_transport_help(transport, true);
    status = status == GPURING_OK ? look_at_all(transport, &which) : status;
    if (status == GPURING_ERR_DATA) {
        snprintf(text, size, "%s delivered another message than rank %d sent",
                 transport->config.net_ops->name, which->peer);
    } else if (status == GPURING_AGAIN) {
        status = gpuring_remote_health(transport, text, size);
        if (status == GPURING_OK && gpuring_now() < transport->try_until) {
            return GPURING_AGAIN;
        }
        if (status == GPURING_OK) {
            const struct gpuring_peer *peer = gpuring_peer_find(transport, which->peer);

            snprintf(text, size,
                     "[first-chunk] %s delivered nothing %s rank %d on %s within %.1f s",
                     transport->config.net_ops->name,
                     which->direction == GPURING_NET_SEND ? "to" : "from", which->peer,
                     peer->hostname, limit);
            status = GPURING_ERR_TIMEOUT;
        }
    }
    return status;
}
