/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP */
#endif
#include "mca/coll_gpuring/p2p/p2p_state.h"

#include "mca/coll_gpuring/util/status.h"

struct gpuring_p2p_state gpuring_p2p = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .copying = GPURING_LIST_INIT(gpuring_p2p.copying),
    .probing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
    .probed = GPURING_LIST_INIT(gpuring_p2p.probed),
};

bool gpuring_p2p_is_first(const struct gpuring_list *node, const struct ompi_communicator_t *comm,
                          int peer)
{
    for (struct gpuring_list *n = gpuring_p2p.copying.next; n != node; n = n->next) {
        const struct gpuring_p2p_turn *other = GPURING_LIST_ENTRY(n, struct gpuring_p2p_turn, node);

        if (other->to->comm == comm && other->to->peer == peer) {
            return false;
        }
    }
    return true;
}

void gpuring_p2p_wait_turn_slowly(const struct ompi_communicator_t *comm, int peer)
{
    bool first = false;

    while (!first) {
        pthread_mutex_lock(&gpuring_p2p.lock);
        first = gpuring_p2p_is_first(&gpuring_p2p.copying, comm, peer);
        pthread_mutex_unlock(&gpuring_p2p.lock);
        if (!first) {
            opal_progress();
        }
    }
}

int gpuring_p2p_previous_receive(void *buffer, size_t count, struct ompi_datatype_t *type,
                                 const struct gpuring_p2p_envelope *from, ompi_request_t **request)
{
    return from->matched != NULL
               ? gpuring_p2p.previous.pml_imrecv(buffer, count, type, from->matched, request)
               : gpuring_p2p.previous.pml_irecv(buffer, count, type, from->peer, from->tag,
                                                from->comm, request);
}

static int status_of(int code, ompi_request_t **request)
{
    if (code != MPI_SUCCESS) {
        *request = MPI_REQUEST_NULL;
    }
    return code == MPI_SUCCESS ? GPURING_OK : GPURING_ERR_IO;
}

int gpuring_p2p_world_isend(const void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request)
{
    return status_of(gpuring_p2p.previous.pml_isend(data, bytes, MPI_BYTE, peer, tag,
                                                    MCA_PML_BASE_SEND_STANDARD, MPI_COMM_WORLD,
                                                    request),
                     request);
}

int gpuring_p2p_world_irecv(void *data, size_t bytes, int peer, enum gpuring_p2p_tag tag,
                            ompi_request_t **request)
{
    return status_of(
        gpuring_p2p.previous.pml_irecv(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request),
        request);
}
