/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The end of a link after a failure. MPI cannot cancel a send. It reads the memory of a long one
 * when the receiver has posted a receive for it, which may have happened before the receiver gave
 * up. The program may free this memory when its call has returned an error. Therefore both ends
 * complete the messages of Simple, which may be in the user's memory:
 *
 *   - Each end reports that it has given up, after which it sends nothing more.
 *   - The receiver receives all that was sent before this report, in a slot. MPI matches messages
 *     in the order of their sending. A receive that is withdrawn after the report was received
 *     therefore means that nothing is left on its tag.
 *   - The sender waits until its sends are complete.
 *
 * If the other end does not take part in time, the receiver withdraws its receives, so that a
 * message of the sender finds none later.
 */
#include "mca/coll_gpuring/net/mpi/mpi_net.h"
#include "mca/coll_gpuring/util/status.h"

/* Return true if the message is complete, or has failed. */
static bool has_ended(struct gpuring_net_link *link, struct gpuring_message *message)
{
    return message->request == NULL || gpuring_mpi_net_finish(link, message) != GPURING_AGAIN;
}

void gpuring_mpi_net_abort(struct gpuring_net_link *link, int status)
{
    struct control_message *out = &link->abort;

    gpuring_mpi_net_cancel_wanted(link);
    link->left = true;
    if (link->peer < 0 || out->message.request != NULL) {
        return;
    }
    out->status = status;
    out->message =
        (struct gpuring_message){.sent = true, .data = &out->status, .bytes = sizeof out->status};
    (void) gpuring_mpi_net_start(link, TAG_CONTROL, &out->message);
    (void) has_ended(link, &out->message);
}

static bool sends_ended(struct gpuring_net_link *link)
{
    bool all = true;

    for (uint32_t i = 0; i < link->base.count[GPURING_PROTOCOL_SIMPLE].memory.nslots; i++) {
        all = has_ended(link, &link->ring[GPURING_PROTOCOL_SIMPLE].messages[i]) && all;
    }
    return all;
}

/* Look for the peer's report that it has given up. */
static void look_for_end(struct gpuring_net_link *link)
{
    struct control_message *in = &link->in;

    if (in->message.request == NULL) {
        in->message = (struct gpuring_message){.data = &in->status, .bytes = sizeof in->status};
        (void) gpuring_mpi_net_start(link, TAG_CONTROL, &in->message);
    }
    link->ended = has_ended(link, &in->message);
}

/* Receive the messages of a tag. Return true if no receive is left. */
static bool drain_tag(struct gpuring_net_link *link, unsigned tag, struct gpuring_message *messages,
                      uint32_t count, bool late)
{
    const struct gpuring_net_ring *memory = &link->base.count[GPURING_PROTOCOL_SIMPLE].memory;
    bool *empty = &link->empty[tag == TAG_WANTED], posted = false;

    for (uint32_t i = 0; i < count; i++) {
        if (has_ended(link, &messages[i])) {
            *empty = *empty || messages[i].request != NULL; /* the peer is lost */
            continue;
        }
        if ((link->ended || late) && net_of(link)->messages->withdraw(&messages[i])) {
            *empty = true;
        } else {
            posted = true;
        }
    }
    if (!posted && !*empty && !late) {
        messages[0] = (struct gpuring_message){.data = memory->slots, .bytes = memory->slot_bytes};
        (void) gpuring_mpi_net_start(link, tag, &messages[0]);
        posted = messages[0].request != NULL;
    }
    return !posted;
}

int gpuring_mpi_net_settle(struct gpuring_net_link *link, bool late)
{
    struct ring *ring = &link->ring[GPURING_PROTOCOL_SIMPLE];
    uint32_t nslots = link->base.count[GPURING_PROTOCOL_SIMPLE].memory.nslots;
    bool all;

    if (!link->any || link->peer < 0 || nslots == 0) {
        return GPURING_OK; /* nothing is sent from other memory than the slots */
    }
    if (!link->left) {
        gpuring_mpi_net_abort(link, link->base.status); /* it has failed before the call */
    }
    if (link->base.direction == GPURING_NET_SEND) {
        return sends_ended(link) ? GPURING_OK : GPURING_AGAIN;
    }
    if (!link->ended) {
        look_for_end(link);
    }
    all = drain_tag(link, GPURING_PROTOCOL_SIMPLE, ring->messages, nslots, late);
    all = drain_tag(link, TAG_WANTED, &link->wanted[0], 1, late) && all;
    return all ? GPURING_OK : GPURING_AGAIN;
}
