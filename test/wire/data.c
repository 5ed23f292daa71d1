/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data path of the stand-in for libibverbs, and the model of the wire. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "test/wire/internal.h"

static uint64_t polls, empty; /* of this process; under the lock of the caller, as a device's CQ */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void notify(struct wire_cq *cq)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint32_t number = (uint32_t) (cq - wire_here.wire->cq);

    if (cq->armed) {
        cq->armed = false;
        memcpy(address.sun_path + 1, cq->socket, WIRE_NAME);
        /* If the queue of the socket is full, it is readable. */
        (void) sendto(wire_here.notifier, &number, sizeof number, MSG_DONTWAIT,
                      (struct sockaddr *) &address,
                      (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + WIRE_NAME));
    }
}

static void push(unsigned cq, bool arrival, const struct wire_entry *entry)
{
    struct wire_cq *to = &wire_here.wire->cq[cq];
    struct wire_ring *ring = arrival ? &to->arrivals : &to->sends;
    uint64_t at = ring->written;

    /* Partner: the release store in take. */
    if (at - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= WIRE_ENTRIES) {
        wire_stop("a completion queue is full");
    }
    ring->entry[at % WIRE_ENTRIES] = *entry;
    __atomic_store_n(&ring->written, at + 1, __ATOMIC_RELEASE); /* partner: the load in take */
    notify(to);
}

void wire_enter_error(struct wire_qp *qp)
{
    const struct wire_entry flushed = {
        .qp = qp->number, .status = IBV_WC_WR_FLUSH_ERR, .receive = true};

    qp->state = IBV_QPS_ERR;
    while (qp->delivered < qp->receives) {
        qp->delivered++;
        push(qp->cq, true, &flushed);
    }
}

static struct wire_port *port_of(const struct wire_qp *qp)
{
    return &wire_here.wire->host[qp->host].port[qp->device];
}

/* Copy data to the peer. Returns the status that the sender gets. */
static enum ibv_wc_status copy(const struct wire_qp *to, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *piece = wr->sg_list;
    const struct wire_mr *mr = &wire_here.wire->mr[wr->wr.rdma.rkey % WIRE_MRS];
    uint64_t address = wr->wr.rdma.remote_addr;
    struct iovec from = {.iov_base = (void *) (uintptr_t) piece->addr, .iov_len = piece->length};
    struct iovec into = {.iov_base = (void *) (uintptr_t) address, .iov_len = piece->length};
    ssize_t copied = piece->length;

    if (mr->pid != to->pid || (mr->access & IBV_ACCESS_REMOTE_WRITE) == 0 || address < mr->base ||
        address + piece->length > mr->base + mr->bytes) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!wire_here.no_data) {
        copied = process_vm_writev(to->pid, &from, 1, &into, 1, 0);
    }
    return copied == (ssize_t) piece->length ? IBV_WC_SUCCESS
           : errno == ESRCH                  ? IBV_WC_RETRY_EXC_ERR
                                             : IBV_WC_REM_OP_ERR;
}

/* Send a message through the ports. Returns the time of its arrival; it completes one latency
 * later. */
static uint64_t cross(const struct wire_qp *from, const struct wire_qp *to, uint64_t bytes)
{
    struct wire_port *out = port_of(from), *in = port_of(to);
    struct wire_host *host = &wire_here.wire->host[from->host];
    struct gpuring_wire_counts *counts = &host->counts;
    uint64_t now = wire_now(), begin = later(now, later(out->out, in->in)), end, done;

    if (wire_here.flight > 0 && out->sent >= wire_here.flight) {
        begin = later(begin, out->done[(out->sent - wire_here.flight) % WIRE_FLIGHT]);
    }
    end = begin + (uint64_t) ((double) bytes * wire_here.ns_per_byte);
    done = end + 2 * wire_here.latency;
    out->done[out->sent++ % WIRE_FLIGHT] = done;
    if (bytes > 0) {
        counts->idle += counts->messages > 0 && begin > out->out ? begin - out->out : 0;
        counts->messages++;
        counts->bytes += bytes;
        counts->busy += end - begin;
        counts->flight += done - now;
        host->first = host->first == 0 ? now : host->first;
        host->last = later(host->last, done);
    }
    out->out = in->in = end;
    return end + wire_here.latency;
}

/* Let a port fail, once. The caller holds the lock. */
static void fail_port(struct wire_port *port)
{
    if (port->changes == 0) {
        port->down = true;
        port->changes++;
    }
}

/* Let a port fail when the host has sent its messages. */
static void count_to_failure(const struct wire_qp *from)
{
    static uint64_t messages;

    if (wire_here.fails && from->host == 0 && from->device == 0 &&
        ++messages > wire_here.fails_after) {
        fail_port(port_of(from));
    }
}

/* Send a message. Returns the status that the sender gets, and when. */
static enum ibv_wc_status deliver(struct wire_qp *from, const struct ibv_send_wr *wr,
                                  uint64_t *time)
{
    uint32_t bytes = wr->num_sge > 0 ? wr->sg_list->length : 0;
    struct wire_qp *to = wire_find(from->peer);
    struct wire_entry arrival = {.imm = wr->imm_data, .bytes = bytes, .receive = true};
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    if (bytes > 0) {
        count_to_failure(from);
    }
    if (to == NULL || to->peer != from->number || to->state < IBV_QPS_RTR ||
        to->state == IBV_QPS_ERR || port_of(from)->down || port_of(to)->down) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (wr->opcode == IBV_WR_RDMA_READ) { /* to flush memory: the device reads from its own host */
        *time = wire_now() + wire_here.latency;
        return from == to ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR;
    }
    if (bytes > 0) {
        status = copy(to, wr);
    }
    if (status != IBV_WC_SUCCESS) {
        return status;
    }
    arrival.time = cross(from, to, bytes);
    *time = arrival.time + wire_here.latency;
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        to->delivered++;
        arrival.qp = to->number;
        push(to->cq, true, &arrival);
    }
    return IBV_WC_SUCCESS;
}

/* Return true if the peer has no receive for a message. The device would retry, and meanwhile its
 * send queue would fill. In this model the queue is full immediately. */
static bool not_ready(const struct wire_qp *from)
{
    const struct wire_qp *to = wire_find(from->peer);

    return from->state != IBV_QPS_ERR && to != NULL && to->peer == from->number &&
           to->state >= IBV_QPS_RTR && to->state != IBV_QPS_ERR && to != from &&
           to->delivered == to->receives && !port_of(from)->down && !port_of(to)->down;
}

int wire_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct wire_own_qp *mine = (struct wire_own_qp *) qp;
    struct wire_qp *shared = mine->shared;
    struct wire_entry sent = {.qp = shared->number, .id = wr->wr_id};
    struct gpuring_wire_counts *counts = &wire_here.wire->host[shared->host].counts;
    bool asked = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;

    wire_lock();
    if (not_ready(shared)) {
        counts->not_ready++;
        wire_unlock();
        *bad = wr;
        return ENOMEM;
    }
    counts->posts++;
    counts->signalled += asked;
    if (shared->state != IBV_QPS_ERR) {
        status = deliver(shared, wr, &sent.time);
    }
    sent.status = (uint16_t) status;
    if (asked || status != IBV_WC_SUCCESS) {
        push(((struct wire_own_cq *) qp->send_cq)->number, false, &sent);
    }
    if (status != IBV_WC_SUCCESS && shared->state != IBV_QPS_ERR) {
        wire_enter_error(shared);
    }
    wire_unlock();
    return 0;
}

int wire_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct wire_own_qp *mine = (struct wire_own_qp *) qp;

    wire_lock();
    for (; wr != NULL; wr = wr->next) {
        if (mine->posted - mine->taken == mine->room) {
            *bad = wr;
            break;
        }
        mine->receive[mine->posted++ % mine->room] = wr->wr_id;
        mine->shared->receives++;
    }
    if (mine->shared->state == IBV_QPS_ERR) {
        wire_enter_error(mine->shared);
    }
    wire_unlock();
    return wr == NULL ? 0 : ENOMEM;
}

/* Take the next completion of an existing queue pair, if its time has passed. */
static bool take(struct wire_ring *ring, uint64_t *now, struct ibv_wc *wc)
{
    struct wire_entry entry;
    struct wire_own_qp *qp;

    do {
        if (ring->taken == __atomic_load_n(&ring->written, __ATOMIC_ACQUIRE)) { /* partner: push */
            return false;
        }
        *now = *now == 0 ? wire_now() : *now;
        entry = ring->entry[ring->taken % WIRE_ENTRIES];
        if (entry.time > *now) {
            return false;
        }
        __atomic_store_n(&ring->taken, ring->taken + 1, __ATOMIC_RELEASE); /* partner: push */
        qp = wire_own(entry.qp);
    } while (qp == NULL);
    *wc = (struct ibv_wc){.wr_id = entry.id,
                          .status = (enum ibv_wc_status) entry.status,
                          .opcode = entry.receive ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RDMA_WRITE,
                          .byte_len = entry.bytes,
                          .imm_data = entry.imm,
                          .wc_flags = entry.receive ? IBV_WC_WITH_IMM : 0,
                          .qp_num = entry.qp};
    if (entry.receive) {
        wc->wr_id = qp->receive[qp->taken++ % qp->room];
    }
    return true;
}

int wire_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct wire_cq *mine = &wire_here.wire->cq[((struct wire_own_cq *) cq)->number];
    uint64_t now = 0;
    int n = 0;

    while (n < count && take(&mine->arrivals, &now, &wc[n])) {
        n++;
    }
    while (n < count && take(&mine->sends, &now, &wc[n])) {
        n++;
    }
    polls++;
    empty += n == 0;
    return n;
}

int wire_req_notify_cq(struct ibv_cq *cq, int solicited)
{
    struct wire_cq *mine = &wire_here.wire->cq[((struct wire_own_cq *) cq)->number];

    (void) solicited;
    wire_lock();
    mine->armed = true;
    if (mine->arrivals.written != mine->arrivals.taken ||
        mine->sends.written != mine->sends.taken) {
        notify(mine); /* a completion at a later time */
    }
    wire_unlock();
    return 0;
}

void gpuring_wire_counts(struct gpuring_wire_counts *counts)
{
    struct wire_host *host = &wire_here.wire->host[wire_here.host];

    wire_lock();
    *counts = host->counts;
    counts->span = host->last - host->first;
    counts->polls = polls;
    counts->empty = empty;
    host->counts = (struct gpuring_wire_counts){.queue_pairs = counts->queue_pairs,
                                                .registered = counts->registered};
    host->first = host->last = polls = empty = 0;
    wire_unlock();
}

void gpuring_wire_data(int on)
{
    wire_here.no_data = on == 0;
}

void gpuring_wire_fail(void)
{
    wire_lock();
    fail_port(&wire_here.wire->host[wire_here.host].port[0]);
    wire_unlock();
}
