/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Single messages of a link of the net `mpi`. */
#include "mca/coll_gpuring/net/mpi/mpi_net.h"
#include "mca/coll_gpuring/util/status.h"

static int tag_at(const struct gpuring_net *net, int32_t tags, unsigned which)
{
    int set = (tags * TAGS + (int) which) * (GPURING_TRACKS + 1) + net->track;

    return net->lowest_tag + set * NETS + net->number;
}

void gpuring_mpi_net_cancel_wanted(struct gpuring_net_link *link)
{
    if (link->any && link->base.direction == GPURING_NET_RECV) {
        (void) net_of(link)->messages->cancel(&link->wanted[0]);
    }
}

void gpuring_mpi_net_fail(struct gpuring_net_link *link, int status, const char *why)
{
    gpuring_mpi_net_cancel_wanted(link);
    gpuring_net_base_fail(&link->base, status, "[mpi-failed] MPI messages %s %s: %s",
                          link->base.direction == GPURING_NET_SEND ? "to" : "from",
                          link->base.peer_name, why);
}

int gpuring_mpi_net_start(struct gpuring_net_link *link, unsigned which,
                          struct gpuring_message *message)
{
    struct gpuring_net *net = net_of(link);
    int tag = tag_at(net, message->sent ? link->peer_tags : own_tags(link), which);

    message->peer = link->peer;
    message->tag = tag;
    message->completed = &net->completed;
    if (net->messages->start(net->comm, tag, message) != GPURING_OK) {
        gpuring_mpi_net_fail(link, GPURING_ERR_NET, "MPI refused a message");
    }
    return link->base.status;
}

int gpuring_mpi_net_finish(struct gpuring_net_link *link, struct gpuring_message *message)
{
    struct gpuring_net *net = net_of(link);
    int status = net->messages->finish(message);

    if (status == GPURING_AGAIN && message->request == NULL) {
        /* No later receive of this tag is posted, so the order is kept. */
        status = net->messages->start(net->comm, message->tag, message);
        status = status == GPURING_OK ? GPURING_AGAIN : status;
    }
    return status;
}

bool gpuring_mpi_net_finished(struct gpuring_net_link *link, struct gpuring_message *message)
{
    int status = gpuring_mpi_net_finish(link, message);

    if (status != GPURING_OK && status != GPURING_AGAIN) {
        gpuring_mpi_net_fail(link, GPURING_ERR_NET, "MPI reported an error");
    }
    return status == GPURING_OK;
}
