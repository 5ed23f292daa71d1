/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * Slots in GPU memory: making sure that the NIC's writes have reached the GPU.
 *
 * A NIC's write to a GPU and the completion in host memory take different paths, so the completion
 * may be visible first. If the same NIC then reads the last byte, the read pushes the earlier
 * writes (PCI Express: the completion of a read does not pass posted writes). Therefore a receiving
 * rail has a queue pair that is connected with itself. A slot counts as arrived when a read that
 * was posted after its completion is done. One read serves all slots that have arrived before it is
 * posted.
 *
 * This was written according to the specifications and tested with fake devices only (test/unit).
 */
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/status.h"

#define REMEDY "the device failed to read from it: see the kernel's log (dmesg)"

/* Read one byte that the device has written, which flushes everything that arrived before. Returns
 * 0 or an errno. */
static int start_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                       uint64_t address)
{
    struct ibv_sge piece = {.addr = (uint64_t) (uintptr_t) rail->port->adapter->discard->addr,
                            .length = 1,
                            .lkey = rail->port->adapter->discard->lkey};
    struct ibv_send_wr wr = {.wr_id = gpuring_verbs_id(link, rail, VERBS_ID_FLUSH),
                             .sg_list = &piece,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = address, .rkey = rail->mr->mr->rkey}};
    struct ibv_send_wr *bad;
    int error = ibv_post_send(rail->flush_qp, &wr, &bad);

    rail->flush_busy = error == 0;
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

/* Also report slots of a failed rail, because the peer may know that they have arrived. */
void gpuring_verbs_flushed(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail)
{
    bool more = false;

    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        uint64_t arrived = link->base.count[p].done;

        for (; rail->flushing[p] != 0; rail->flushing[p] &= rail->flushing[p] - 1) {
            unsigned bit = (unsigned) __builtin_ctzll(rail->flushing[p]);

            gpuring_net_base_done(&link->base, p, arrived + ((bit - arrived) & 63));
        }
        more = more || rail->landed[p] != 0;
    }
    if (more && rail->state == GPURING_VERBS_UP) {
        flush_landed(link, rail);
    }
}
