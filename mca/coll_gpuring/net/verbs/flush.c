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
 * A rail records its arrivals in their order, with room for all slots of the links.
 *
 * This was written according to the specifications and tested with fake devices only (test/unit).
 */
#include <string.h>

#include "mca/coll_gpuring/net/verbs/verbs_internal.h"
#include "mca/coll_gpuring/util/status.h"

#define REMEDY "the device failed to read from it: see the kernel's log (dmesg)"

/* Read the first byte of a link's memory, which flushes everything that arrived before. Returns 0
 * or an errno. */
static int start_flush(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail,
                       const struct gpuring_net_link *link)
{
    const struct gpuring_verbs_mr *mr = link->mr[gpuring_verbs_rail_number(ep, rail)];
    const struct ibv_mr *page = rail->port->adapter->page;
    struct ibv_sge piece = {
        .addr = (uint64_t) (uintptr_t) page->addr, .length = 1, .lkey = page->lkey};
    struct ibv_send_wr wr = {
        .wr_id = gpuring_verbs_id(ep, rail, VERBS_ID_FLUSH),
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uint64_t) (uintptr_t) mr->base, .rkey = mr->mr->rkey}};
    struct ibv_send_wr *bad;
    int error = ibv_post_send(rail->flush_qp, &wr, &bad);

    rail->flush_busy = error == 0;
    if (error == 0) {
        rail->flushing = rail->landed_count;
        rail->flush_link = link;
    }
    return error;
}

/* Return a link of the endpoint whose memory a flush may read, or NULL if no link needs flushes. */
static const struct gpuring_net_link *flushed_link(const struct gpuring_verbs_endpoint *ep)
{
    const struct gpuring_net_link *link;

    VERBS_EACH_LINK(ep, link)
    {
        if (link->connected && !link->closing && link->flushes) {
            return link;
        }
    }
    return NULL;
}

/* Flush all slots that have landed. Any link's memory serves, because all of it is in one GPU. */
static void flush_landed(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    const struct gpuring_net_link *link = flushed_link(ep);
    int error;

    if (link == NULL) { /* all of them are about to be closed, so no lane reads the slots */
        rail->flushed = rail->flushing = rail->landed_count;
        return;
    }
    error = start_flush(ep, rail, link);
    if (error != 0) {
        gpuring_verbs_rail_fail(ep, rail, strerror(error), REMEDY);
    }
}

void gpuring_verbs_flush_failed(struct gpuring_verbs_endpoint *ep,
                                const struct gpuring_verbs_rail *rail)
{
    gpuring_verbs_endpoint_fail(ep, rail, GPURING_ERR_NET,
                                "what had arrived in GPU memory could not be flushed", REMEDY);
}

bool gpuring_verbs_flush_last(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    const struct gpuring_net_link *link = flushed_link(ep);

    if (!rail->flush_busy && !rail->flush_last) {
        rail->flush_last = true;
        if (link != NULL && start_flush(ep, rail, link) != 0) {
            gpuring_verbs_flush_failed(ep, rail);
        }
    }
    return !rail->flush_busy;
}

void gpuring_verbs_flush(struct gpuring_net_link *link, struct gpuring_verbs_rail *rail,
                         unsigned protocol, uint64_t step)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    rail->landed[rail->landed_count++ % rail->landed_room] =
        (struct gpuring_verbs_landed){.link = link, .protocol = (uint8_t) protocol, .step = step};
    if (!rail->flush_busy && rail->state == GPURING_VERBS_UP) {
        flush_landed(ep, rail);
    }
}

/* Also report slots of a failed rail, because the peer may know that they have arrived. */
void gpuring_verbs_flushed(struct gpuring_verbs_endpoint *ep, struct gpuring_verbs_rail *rail)
{
    while (rail->flushed < rail->flushing) {
        const struct gpuring_verbs_landed *landed =
            &rail->landed[rail->flushed++ % rail->landed_room];

        gpuring_net_base_done(&landed->link->base, landed->protocol, landed->step);
    }
    if (rail->landed_count > rail->flushing && rail->state == GPURING_VERBS_UP) {
        flush_landed(ep, rail);
    }
}

bool gpuring_verbs_flush_pending(const struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails && link->flushes; r++) {
        const struct gpuring_verbs_rail *rail = &ep->rail[r];

        for (uint64_t n = rail->flushed; n < rail->landed_count; n++) {
            if (rail->landed[n % rail->landed_room].link == link) {
                return true;
            }
        }
    }
    return false;
}

bool gpuring_verbs_flush_reads(const struct gpuring_net_link *link)
{
    const struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails && link->flushes; r++) {
        if (ep->rail[r].flush_busy && ep->rail[r].flush_link == link) {
            return true;
        }
    }
    return false;
}

void gpuring_verbs_flush_forget(struct gpuring_net_link *link)
{
    struct gpuring_verbs_endpoint *ep = link->endpoint;

    for (unsigned r = 0; r < ep->nrails && link->flushes; r++) {
        struct gpuring_verbs_rail *rail = &ep->rail[r];
        uint64_t to = rail->flushed, flushing = to;

        for (uint64_t n = rail->flushed; n < rail->landed_count; n++) {
            const struct gpuring_verbs_landed landed = rail->landed[n % rail->landed_room];

            if (landed.link != link) {
                rail->landed[to++ % rail->landed_room] = landed;
                flushing += n < rail->flushing;
            }
        }
        rail->flushing = flushing;
        rail->landed_count = to;
    }
}
