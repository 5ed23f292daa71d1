/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The data path of the stand-in: sends arrive immediately, unless the cable is pulled. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/fake_verbs_internal.h"

static int device_of(const struct fake_qp *qp)
{
    return (int) (qp->qp.context->device - fake.handle);
}

/* Numbers of queue pairs are unique within a device only. */
static struct fake_qp *find_qp(int device, uint32_t number)
{
    struct fake_qp *qp = fake.qps;

    while (qp != NULL && (qp->qp.qp_num != number || device_of(qp) != device)) {
        qp = qp->next;
    }
    return qp;
}

/* Add a completion to a queue. The caller holds the lock. */
static void push(struct ibv_cq *cq, const struct ibv_wc *wc)
{
    struct fake_cq *mine = (struct fake_cq *) cq;
    const uint64_t one = 1;

    if (mine->count == mine->room) {
        fake.violations++;
        return;
    }
    mine->wc[(mine->first + mine->count++) % mine->room] = *wc;
    if (mine->notify) {
        mine->notify = false;
        if (write(cq->channel->fd, &one, sizeof one) < 0) {
            fake.violations++;
        }
    }
}

static void push_status(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status,
                        enum ibv_wc_opcode opcode)
{
    const struct ibv_wc wc = {
        .wr_id = wr_id, .status = status, .opcode = opcode, .qp_num = qp->qp.qp_num};

    push(qp->qp.send_cq, &wc);
}

static void resume_peers(int device, uint32_t number);

static struct held_send *take_waiting(struct fake_qp *qp)
{
    struct held_send *first = qp->waiting;

    qp->waiting = first != NULL ? first->next : NULL;
    return first;
}

/* Move a queue pair to the error state, and return its receives and waiting sends with an error. */
void fake_enter_error(struct fake_qp *qp)
{
    struct held_send *waiting;

    qp->state = IBV_QPS_ERR;
    while ((waiting = take_waiting(qp)) != NULL) {
        if (!fake.mute[device_of(qp)]) {
            push_status(qp, waiting->wr.wr_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_WRITE);
        }
        free(waiting);
    }
    while (qp->receives > 0 && !fake.mute[device_of(qp)]) {
        push_status(qp, qp->receive_id[qp->first_receive], IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
        qp->first_receive = (qp->first_receive + 1) % qp->receive_room;
        qp->receives--;
    }
    resume_peers(device_of(qp), qp->qp.qp_num);
}

void fake_forget(const struct ibv_qp *qp)
{
    struct fake_qp *gone = (struct fake_qp *) qp;
    struct held_send *waiting;

    while ((waiting = take_waiting(gone)) != NULL) {
        free(waiting);
    }
    resume_peers(device_of(gone), qp->qp_num);
}

static const struct fake_mr *find_mr(bool remote, uint32_t key, uint64_t address, uint32_t bytes)
{
    for (const struct fake_mr *mr = fake.mrs; mr != NULL; mr = mr->next) {
        uint64_t base = (uint64_t) (uintptr_t) mr->mr.addr;

        if ((remote ? mr->mr.rkey : mr->mr.lkey) == key) {
            return address >= base && address + bytes <= base + mr->mr.length ? mr : NULL;
        }
    }
    return NULL;
}

static void move(void *to, const void *from, size_t bytes)
{
    if (fake.copy != NULL) {
        fake.copy(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
}

/* Make all writes of this device to GPUs visible. */
static void land(int device)
{
    struct lazy_write **at = &fake.writes;

    while (*at != NULL) {
        struct lazy_write *write = *at;

        if (write->device == device) {
            move((void *) (uintptr_t) write->address, write->bytes, write->length);
            *at = write->next;
            free(write);
        } else {
            at = &write->next;
        }
    }
    fake.writes_end = at;
}

static void store(const struct fake_mr *mr, int device, uint64_t address, const void *data,
                  uint32_t bytes)
{
    struct lazy_write *write;

    if (!mr->gpu || !fake.lazy || bytes > FAKE_SLOT_BYTES) {
        move((void *) (uintptr_t) address, data, bytes);
        return;
    }
    write = calloc(1, sizeof *write);
    write->device = device;
    write->address = address;
    write->length = bytes;
    move(write->bytes, data, bytes);
    *fake.writes_end = write;
    fake.writes_end = &write->next;
}

/* Read memory of the device itself. */
static enum ibv_wc_status read_back(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *piece = wr->sg_list;
    const struct fake_mr *from =
        find_mr(true, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, piece->length);

    fake.reads++;
    if (qp->peer != qp->qp.qp_num || qp->peer_device != device_of(qp) || from == NULL ||
        (from->access & IBV_ACCESS_REMOTE_READ) == 0 ||
        find_mr(false, piece->lkey, piece->addr, piece->length) == NULL) {
        fake.violations++;
        return IBV_WC_REM_ACCESS_ERR;
    }
    land(device_of(qp));
    return IBV_WC_SUCCESS;
}

/* Handle a write at the responder. Returns the status that the sender gets. */
static enum ibv_wc_status respond(int from_device, uint32_t from, struct fake_qp *to,
                                  const struct ibv_send_wr *wr, const void *data, uint32_t bytes)
{
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS,
                        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .byte_len = bytes,
                        .imm_data = wr->imm_data,
                        .wc_flags = IBV_WC_WITH_IMM};

    if (to == NULL || to->peer != from || to->peer_device != from_device ||
        to->state < IBV_QPS_RTR || to->state == IBV_QPS_ERR) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (bytes > 0) {
        const struct fake_mr *mr = find_mr(true, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, bytes);

        if (mr == NULL) {
            fake.violations++;
            return IBV_WC_REM_ACCESS_ERR;
        }
        store(mr, device_of(to), wr->wr.rdma.remote_addr, data, bytes);
    }
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        if (to->receives == 0) {
            fake.violations++;
            return IBV_WC_RNR_RETRY_EXC_ERR;
        }
        wc.wr_id = to->receive_id[to->first_receive];
        wc.qp_num = to->qp.qp_num;
        to->first_receive = (to->first_receive + 1) % to->receive_room;
        to->receives--;
        push(to->qp.recv_cq, &wc);
    }
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status deliver(const struct fake_qp *from, const struct ibv_send_wr *wr)
{
    const struct ibv_sge *piece = wr->sg_list;
    uint32_t bytes = wr->num_sge > 0 ? piece->length : 0;

    if (wr->opcode == IBV_WR_RDMA_READ) {
        return read_back(from, wr);
    }
    if (bytes > 0) {
        const struct fake_mr *mr = find_mr(false, piece->lkey, piece->addr, bytes);

        if (mr == NULL || (mr->gpu && (wr->send_flags & IBV_SEND_INLINE) != 0)) {
            fake.violations++;
            return IBV_WC_LOC_PROT_ERR;
        }
    }
    return respond(device_of(from), from->qp.qp_num, find_qp(from->peer_device, from->peer), wr,
                   bytes > 0 ? (const void *) (uintptr_t) piece->addr : NULL, bytes);
}

static struct held_send *keep(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct held_send *held = calloc(1, sizeof *held);

    *held = (struct held_send){.qp = qp,
                               .number = qp->qp.qp_num,
                               .peer = qp->peer,
                               .device = device_of(qp),
                               .peer_device = qp->peer_device,
                               .wr = *wr};
    held->wr.sg_list = NULL;
    if (wr->num_sge > 0 && wr->sg_list->length <= sizeof held->bytes) {
        held->length = wr->sg_list->length;
        move(held->bytes, (void *) (uintptr_t) wr->sg_list->addr, wr->sg_list->length);
    }
    return held;
}

/* Keep a send in flight for an unknown time. */
static void hold(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct held_send *held = keep(qp, wr);

    held->next = fake.held;
    fake.held = held;
}

/* Return true if the peer has no receive for a send with this operation, but may post one. */
static bool not_ready(const struct fake_qp *qp, enum ibv_wr_opcode opcode)
{
    const struct fake_qp *to = find_qp(qp->peer_device, qp->peer);

    return opcode == IBV_WR_RDMA_WRITE_WITH_IMM && to != NULL && to->peer == qp->qp.qp_num &&
           to->state >= IBV_QPS_RTR && to->state != IBV_QPS_ERR && to->receives == 0;
}

/* Return true if a send need not wait for others or for a receive. */
static bool may_deliver(const struct fake_qp *qp, enum ibv_wr_opcode opcode)
{
    return !fake.retry || (qp->waiting == NULL && !not_ready(qp, opcode));
}

/* Let a send wait if it must. Returns false if it need not. */
static bool wait_for_receive(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct held_send *waiting;

    if (wr->opcode == IBV_WR_RDMA_READ || may_deliver(qp, wr->opcode)) {
        return false;
    }
    waiting = keep(qp, wr);
    fake.not_ready++;
    if (qp->waiting == NULL) {
        qp->waiting = waiting;
    } else {
        qp->last->next = waiting;
    }
    qp->last = waiting;
    return true;
}

/* Deliver the waiting sends of a queue pair until one must wait again. */
static void resume(struct fake_qp *qp)
{
    while (qp->waiting != NULL && !not_ready(qp, qp->waiting->wr.opcode)) {
        struct held_send *first = take_waiting(qp);
        enum ibv_wc_status status =
            respond(device_of(qp), qp->qp.qp_num, find_qp(qp->peer_device, qp->peer), &first->wr,
                    first->bytes, first->length);

        if (status != IBV_WC_SUCCESS || (first->wr.send_flags & IBV_SEND_SIGNALED) != 0) {
            push_status(qp, first->wr.wr_id, status, IBV_WC_RDMA_WRITE);
        }
        free(first);
        if (status != IBV_WC_SUCCESS && qp->state != IBV_QPS_ERR) {
            fake_enter_error(qp);
        }
    }
}

/* Resume the queue pairs whose peer is this one, after it got receives or can get none. */
static void resume_peers(int device, uint32_t number)
{
    for (struct fake_qp *qp = fake.qps; qp != NULL; qp = qp->next) {
        if (qp->waiting != NULL && qp->peer == number && qp->peer_device == device) {
            resume(qp);
        }
    }
}

/* splitmix64 of a counter (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static uint64_t next_random(void)
{
    uint64_t z = fake.faults.seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Return 0, or 1 or 2 if this send kills its queue pair before or after it has arrived. */
static int doom(const struct fake_qp *qp)
{
    uint64_t random;

    if ((fake.faults.doomed >> (device_of(qp)) & 1) == 0) {
        return 0;
    }
    random = next_random();
    if (random % 1000 >= fake.faults.doom) {
        return 0;
    }
    fake.kills++;
    return 1 + (int) (random >> 32 & 1);
}

static void count_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    fake.sends++;
    fake.inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
    fake.plain += wr->opcode == IBV_WR_RDMA_WRITE && wr->num_sge > 0;
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
        fake.reported++;
        qp->unreported = 0;
    } else if (++qp->unreported >= qp->send_room) {
        fake.violations++; /* nothing would ever empty the queue */
    }
    if ((wr->send_flags & IBV_SEND_INLINE) != 0 && wr->num_sge > 0 &&
        wr->sg_list->length > fake_device_of(qp->qp.context)->max_inline) {
        fake.violations++;
    }
}

unsigned fake_verbs_plain(void)
{
    unsigned plain;

    LOCK;
    plain = fake.plain;
    UNLOCK;
    return plain;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *mine = (struct fake_qp *) qp;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    int fate;

    LOCK;
    if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? FAILS(post_send) : FAILS(post_probe)) {
        UNLOCK;
        *bad = wr;
        return fake.faults.post_send_error;
    }
    count_send(mine, wr);
    if (mine->state == IBV_QPS_ERR) {
        status = IBV_WC_WR_FLUSH_ERR;
    } else if (FAILS(complete)) {
        status = fake.faults.status;
        if (fake.faults.delivered && may_deliver(mine, wr->opcode)) {
            deliver(mine, wr);
        }
    } else if (fake.pulled[qp->context->device - fake.handle]) {
        hold(mine, wr);
        UNLOCK;
        return 0;
    } else if (wr->opcode != IBV_WR_RDMA_READ && (fate = doom(mine)) != 0) {
        if (fate == 2 && may_deliver(mine, wr->opcode)) {
            deliver(mine, wr);
        }
        status = IBV_WC_RETRY_EXC_ERR;
    } else if (wait_for_receive(mine, wr)) {
        UNLOCK;
        return 0;
    } else {
        status = deliver(mine, wr);
    }
    if (status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED) != 0) {
        push_status(mine, wr->wr_id, status, IBV_WC_RDMA_WRITE);
    }
    if (status != IBV_WC_SUCCESS && mine->state != IBV_QPS_ERR) {
        fake_enter_error(mine);
    }
    UNLOCK;
    return 0;
}

int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *mine = (struct fake_qp *) qp;
    int error = 0;

    LOCK;
    for (; wr != NULL && error == 0; wr = wr->next) {
        if (mine->receives == mine->receive_room) {
            fake.violations++;
            *bad = wr;
            error = ENOMEM;
        } else {
            unsigned at = (mine->first_receive + mine->receives++) % mine->receive_room;

            mine->receive_id[at] = wr->wr_id;
        }
    }
    resume_peers(device_of(mine), qp->qp_num);
    UNLOCK;
    return error;
}

int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct fake_cq *mine = (struct fake_cq *) cq;
    int n = 0;

    LOCK;
    while (n < count && mine->count > 0) {
        wc[n++] = mine->wc[mine->first];
        mine->first = (mine->first + 1) % mine->room;
        mine->count--;
    }
    UNLOCK;
    return n;
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void) solicited;
    LOCK;
    ((struct fake_cq *) cq)->notify = true;
    UNLOCK;
    return 0;
}

void fake_verbs_expire(void)
{
    LOCK;
    while (fake.held != NULL) {
        struct held_send *held = fake.held;

        fake.held = held->next;
        push_status(held->qp, held->wr.wr_id, IBV_WC_RETRY_EXC_ERR, IBV_WC_RDMA_WRITE);
        if (held->qp->state != IBV_QPS_ERR) {
            fake_enter_error(held->qp);
        }
        held->next = fake.late;
        fake.late = held;
    }
    UNLOCK;
}

void fake_verbs_haunt(void)
{
    LOCK;
    while (fake.late != NULL) {
        struct held_send *late = fake.late;

        fake.late = late->next;
        respond(late->device, late->number, find_qp(late->peer_device, late->peer), &late->wr,
                late->bytes, late->length);
        free(late);
    }
    UNLOCK;
}

int fake_verbs_objects(void)
{
    int objects;

    LOCK;
    objects = fake.objects;
    UNLOCK;
    return objects;
}

unsigned fake_verbs_sends(unsigned *reported, unsigned *inlined)
{
    unsigned sends;

    LOCK;
    sends = fake.sends;
    *reported = fake.reported;
    *inlined = fake.inlined;
    UNLOCK;
    return sends;
}

unsigned fake_verbs_queue_pairs(void)
{
    return fake_count(&fake.nqps);
}

void fake_verbs_limit(unsigned queue_pairs)
{
    LOCK;
    fake.limit = queue_pairs;
    UNLOCK;
}

void fake_verbs_queues(int entries)
{
    LOCK;
    fake.max_wr = entries;
    UNLOCK;
}

void fake_verbs_retry(void)
{
    LOCK;
    fake.retry = true;
    UNLOCK;
}

unsigned fake_verbs_not_ready(void)
{
    return fake_count(&fake.not_ready);
}
