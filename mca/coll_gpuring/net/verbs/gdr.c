/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Slots in a GPU's memory: registering it, and seeing to it that what a NIC wrote is there.
 *
 * A NIC's write to a GPU and its completion in host memory take different ways, and the completion
 * may be seen first. A read of the last byte by the same NIC pushes the writes before it
 * (PCI Express: a read's completion does not pass posted writes). So a receiving rail has a queue
 * pair that is connected with itself, and a slot counts as arrived when a read that was posted
 * after its arrival is done. One read serves all slots that landed until it was posted.
 *
 * Written after the specifications and tested with devices of our own only (test/unit).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

#define REMEDY "the device failed to read from it: see the kernel's log (dmesg)"

struct ibv_mr *gpuring_verbs_register(const struct gpuring_verbs_adapter *adapter,
                                      const struct gpuring_net_memory *memory, const char **tried)
{
    const struct gpuring_net_device_memory *device = memory->device;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

    *tried = device == NULL ? "memory" : "GPU memory (peer memory)";
    if (device != NULL && device->flush) {
        access |= IBV_ACCESS_REMOTE_READ;
    }
    if (device != NULL && device->dmabuf >= 0 && gpuring_verbs.reg_dmabuf_mr != NULL) {
        struct ibv_mr *mr = gpuring_verbs.reg_dmabuf_mr(
            adapter->pd, device->dmabuf_offset, memory->bytes, (uint64_t) (uintptr_t) memory->base,
            device->dmabuf, access);

        if (mr != NULL) {
            return mr;
        }
        *tried = "GPU memory (dma-buf, then peer memory)";
    }
    return gpuring_verbs.reg_mr(adapter->pd, memory->base, memory->bytes, access);
}

/* One port's device. */
static int try_port(const struct gpuring_net *net, const struct gpuring_verbs_port *port,
                    const struct gpuring_net_memory *memory)
{
    const char *tried;
    struct ibv_mr *mr = gpuring_verbs_register(port->adapter, memory, &tried);

    if (mr == NULL) {
        gpuring_info(
            "[no-gdr] device %s of %s does not reach the GPU's memory, so data go through the "
            "host's: %s: %s; is the kernel module nvidia-peermem loaded, or do the kernel "
            "and the driver support dma-buf?",
            port->adapter->name, net->base.host, tried, strerror(errno));
        return GPURING_ERR_UNSUPPORTED;
    }
    gpuring_verbs.dereg_mr(mr);
    return GPURING_OK;
}

int gpuring_verbs_device_memory(struct gpuring_net *net, int device,
                                const struct gpuring_net_memory *memory)
{
    int status = GPURING_OK;

    if (device < 0 || device >= net->devices.count || memory->device == NULL) {
        return GPURING_ERR_ARG;
    }
    /* Also by the spares of a link on it. */
    for (int i = 0; i <= net->config.verbs_spares && status == GPURING_OK; i++) {
        status = try_port(net, &net->ports[(device + i) % net->devices.count], memory);
    }
    net->devices.device[device].gdr = status == GPURING_OK;
    return status;
}

static int connect_with_itself(const struct gpuring_net_link *link,
                               const struct gpuring_verbs_rail *rail)
{
    const struct gpuring_verbs_port *port = rail->port;
    struct gpuring_verbs_address self = {
        .qpn = rail->flush_qp->qp_num, .lid = port->lid, .link_layer = port->link_layer};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .port_num = port->number,
                               .pkey_index = port->pkey_index,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .path_mtu = port->mtu,
                                  .dest_qp_num = self.qpn,
                                  .max_dest_rd_atomic = 1,
                                  .min_rnr_timer = GPURING_VERBS_RNR_TIMER};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = GPURING_VERBS_TIMEOUT,
                               .retry_cnt = GPURING_VERBS_RETRY,
                               .rnr_retry = GPURING_VERBS_RNR_RETRY,
                               .max_rd_atomic = 1};
    int error;

    memcpy(self.gid, port->gid.raw, sizeof self.gid);
    gpuring_verbs_address_fill(link, rail, &self, &receive.ah_attr);
    error = gpuring_verbs.modify_qp(rail->flush_qp, &init,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS);
    if (error == 0) {
        error = gpuring_verbs.modify_qp(rail->flush_qp, &receive,
                                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                            IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    }
    if (error == 0) {
        error =
            gpuring_verbs.modify_qp(rail->flush_qp, &send,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    return error;
}

int gpuring_verbs_flush_create(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    static uint64_t sink; /* of all adapters; what is read is of no interest */
    struct gpuring_verbs_adapter *adapter = rail->port->adapter;
    struct ibv_qp_init_attr attr = {
        .send_cq = rail->cq->cq,
        .recv_cq = rail->cq->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    int error = 0;

    if (adapter->sink == NULL) {
        adapter->sink =
            gpuring_verbs.reg_mr(adapter->pd, &sink, sizeof sink, IBV_ACCESS_LOCAL_WRITE);
    }
    if (adapter->sink != NULL) {
        rail->flush_qp = gpuring_verbs.create_qp(adapter->pd, &attr);
    }
    error = rail->flush_qp == NULL ? errno : connect_with_itself(link, rail);
    if (error != 0) {
        gpuring_error("%s cannot prepare device %s port %d for flushing GPU memory: %s",
                      link->base.net->host, adapter->name, rail->port->number, strerror(error));
        return error == ENOMEM ? GPURING_ERR_NOMEM : GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Read a byte of what the device wrote. 0 or an errno. */
static int post_read(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                     uint64_t address)
{
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) rail->port->adapter->sink->addr,
                            .length = 1,
                            .lkey = rail->port->adapter->sink->lkey};
    struct ibv_send_wr wr = {.wr_id = gpuring_verbs_flush_id(link, rail),
                             .sg_list = &piece,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = address, .rkey = rail->mr->mr->rkey}};
    struct ibv_send_wr *bad;
    int error = ibv_post_send(rail->flush_qp, &wr, &bad);

    rail->flush_busy = error == 0;
    return error;
}

/* Everything that landed before is flushed with it. 0 or an errno. */
static int start_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint64_t address)
{
    int error = post_read(link, rail, address);

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT && error == 0; p++) {
        rail->flushing[p] |= rail->landed[p];
        rail->landed[p] = 0;
    }
    return error;
}

static void flush_landed(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    int error = start_flush(link, rail, rail->last_landed);

    if (error != 0) {
        gpuring_verbs_rail_fail(link, rail, strerror(error), REMEDY);
    }
}

void gpuring_verbs_flush_failed(struct gpuring_net_link *link,
                                const struct gpuring_verbs_rail *rail)
{
    gpuring_verbs_link_fail(link, rail, GPURING_ERR_NET,
                            "what had arrived in GPU memory could not be flushed", REMEDY);
}

bool gpuring_verbs_flush_last(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    if (!rail->flush_busy && !rail->flush_last) {
        rail->flush_last = true;
        if (start_flush(link, rail, (uint64_t) (uintptr_t) rail->mr->base) != 0) {
            gpuring_verbs_flush_failed(link, rail);
        }
    }
    return !rail->flush_busy;
}

void gpuring_verbs_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint64_t step, uint32_t bytes)
{
    const struct gpuring_net_ring *ring = &link->base.count[protocol].memory;

    rail->landed[protocol] |= UINT64_C(1) << (step % 64);
    rail->last_landed = (uint64_t) (uintptr_t) ring->slots +
                        step % ring->nslots * ring->slot_bytes + (bytes > 0 ? bytes - 1 : 0);
    if (!rail->flush_busy && rail->state == GPURING_VERBS_UP) {
        flush_landed(link, rail);
    }
}

/* Also of a failed rail: the peer may have been told that they arrived. */
void gpuring_verbs_flushed(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    bool more = false;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t arrived = link->base.count[p].arrived;

        for (; rail->flushing[p] != 0; rail->flushing[p] &= rail->flushing[p] - 1) {
            unsigned bit = (unsigned) __builtin_ctzll(rail->flushing[p]);

            gpuring_verbs_slot_arrived(link, p, arrived + ((bit - arrived) & 63));
        }
        more = more || rail->landed[p] != 0;
    }
    if (more && rail->state == GPURING_VERBS_UP) {
        flush_landed(link, rail);
    }
}
