/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/exchange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

/*
 * Open MPI's collectives use the tags from -10 downwards (ompi/mca/coll/base/coll_tags.h), -1 is
 * MPI_ANY_TAG; wildcard receives of users match no negative tag.
 */
#define TAG (-9)

struct gpuring_exchange {
    struct ompi_communicator_t *comm;
    int rank, nranks;
    int distance;     /* of the round under way */
    size_t *offsets;  /* [n + 1], by position: (rank - me) mod n, or by rank when complete */
    uint8_t *blocks;  /* by position */
    uint8_t *ordered; /* by rank: complete */
    ompi_request_t *send, *recv;
};

static int rank_at(const struct gpuring_exchange *exchange, int position)
{
    int rank = exchange->rank + position;

    return rank < exchange->nranks ? rank : rank - exchange->nranks;
}

int gpuring_exchange_start(struct ompi_communicator_t *comm, const void *mine, const size_t *bytes,
                           struct gpuring_exchange **exchange)
{
    struct gpuring_exchange *created = calloc(1, sizeof *created);
    int nranks = ompi_comm_size(comm);

    if (created == NULL) {
        goto nomem;
    }
    created->comm = comm;
    created->rank = ompi_comm_rank(comm);
    created->nranks = nranks;
    created->distance = 1;
    created->offsets = calloc((size_t) nranks + 1, sizeof *created->offsets);
    if (created->offsets == NULL) {
        goto nomem;
    }
    for (int position = 0; position < nranks; position++) {
        created->offsets[position + 1] =
            created->offsets[position] + bytes[rank_at(created, position)];
    }
    created->blocks = malloc(created->offsets[nranks] + 1);
    if (created->blocks == NULL) {
        goto nomem;
    }
    memcpy(created->blocks, mine, bytes[created->rank]);
    *exchange = created;
    return GPURING_OK;
nomem:
    gpuring_error("out of memory to gather data of %d ranks", nranks);
    gpuring_exchange_free(created);
    return GPURING_ERR_NOMEM;
}

int gpuring_exchange_start_even(struct ompi_communicator_t *comm, const void *mine, size_t bytes,
                                struct gpuring_exchange **exchange)
{
    int nranks = ompi_comm_size(comm), status;
    size_t *each = malloc((size_t) nranks * sizeof *each);

    if (each == NULL) {
        gpuring_error("out of memory to gather data of %d ranks", nranks);
        return GPURING_ERR_NOMEM;
    }
    for (int i = 0; i < nranks; i++) {
        each[i] = bytes;
    }
    status = gpuring_exchange_start(comm, mine, each, exchange);
    free(each);
    return status;
}

static int round_start(struct gpuring_exchange *x)
{
    int d = x->distance, n = x->nranks;
    int blocks = d < n - d ? d : n - d;
    size_t *offsets = x->offsets;
    int to = rank_at(x, n - d), from = rank_at(x, d);
    int code;

    code = MCA_PML_CALL(irecv(x->blocks + offsets[d], offsets[d + blocks] - offsets[d], MPI_BYTE,
                              from, TAG, x->comm, &x->recv));
    if (code == OMPI_SUCCESS) {
        code = MCA_PML_CALL(isend(x->blocks, offsets[blocks], MPI_BYTE, to, TAG,
                                  MCA_PML_BASE_SEND_STANDARD, x->comm, &x->send));
    }
    if (code != OMPI_SUCCESS) {
        gpuring_error("MPI could not start a message to rank %d or from rank %d (code %d)", to,
                      from, code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Free a completed request; GPURING_AGAIN if it is not complete. */
static int request_finish(ompi_request_t **request)
{
    int code;

    if (*request == NULL) {
        return GPURING_OK;
    }
    if (!REQUEST_COMPLETE(*request)) {
        return GPURING_AGAIN;
    }
    opal_atomic_rmb();
    code = (*request)->req_status.MPI_ERROR;
    ompi_request_free(request);
    *request = NULL;
    if (code != MPI_SUCCESS) {
        gpuring_error("MPI could not deliver a message of the wire-up (code %d)", code);
        return GPURING_ERR_NET;
    }
    return GPURING_OK;
}

/* Blocks by position -> blocks by rank. */
static int unrotate(struct gpuring_exchange *x)
{
    int n = x->nranks, split = n - x->rank; /* position of rank 0 */
    size_t total = x->offsets[n], head = split < n ? x->offsets[split] : total;
    size_t *offsets = calloc((size_t) n + 1, sizeof *offsets);

    x->ordered = malloc(total + 1);
    if (offsets == NULL || x->ordered == NULL) {
        gpuring_error("out of memory to gather data of %d ranks", n);
        free(offsets);
        return GPURING_ERR_NOMEM;
    }
    memcpy(x->ordered, x->blocks + head, total - head);
    memcpy(x->ordered + (total - head), x->blocks, head);
    for (int position = 0; position < n; position++) {
        offsets[rank_at(x, position) + 1] = x->offsets[position + 1] - x->offsets[position];
    }
    for (int rank = 0; rank < n; rank++) {
        offsets[rank + 1] += offsets[rank];
    }
    free(x->offsets);
    free(x->blocks);
    x->blocks = NULL;
    x->offsets = offsets;
    return GPURING_OK;
}

int gpuring_exchange_progress(struct gpuring_exchange *exchange)
{
    int status;

    if (exchange->ordered != NULL) {
        return GPURING_OK;
    }
    for (;;) {
        if (exchange->distance >= exchange->nranks) {
            return unrotate(exchange);
        }
        if (exchange->recv == NULL && exchange->send == NULL) {
            status = round_start(exchange);
            if (status != GPURING_OK) {
                return status;
            }
        }
        status = request_finish(&exchange->recv);
        if (status == GPURING_OK) {
            status = request_finish(&exchange->send);
        }
        if (status != GPURING_OK) {
            return status;
        }
        exchange->distance *= 2;
    }
}

const void *gpuring_exchange_data(const struct gpuring_exchange *exchange)
{
    return exchange->ordered;
}

const size_t *gpuring_exchange_offsets(const struct gpuring_exchange *exchange)
{
    return exchange->offsets;
}

int gpuring_exchange_awaits(const struct gpuring_exchange *exchange)
{
    if (exchange->distance >= exchange->nranks) {
        return exchange->rank;
    }
    return exchange->recv != NULL ? rank_at(exchange, exchange->distance)
                                  : rank_at(exchange, exchange->nranks - exchange->distance);
}

/* True if the request is out of the way. */
static bool request_stop(ompi_request_t **request)
{
    if (*request == NULL) {
        return true;
    }
    if (!REQUEST_COMPLETE(*request)) {
        ompi_request_cancel(*request);
    }
    if (!REQUEST_COMPLETE(*request)) {
        return false;
    }
    ompi_request_free(request);
    *request = NULL;
    return true;
}

void gpuring_exchange_free(struct gpuring_exchange *exchange)
{
    bool received, sent;

    if (exchange == NULL) {
        return;
    }
    received = request_stop(&exchange->recv);
    sent = request_stop(&exchange->send);
    if (received && sent) {
        free(exchange->blocks); /* else a message may still arrive: it must find its memory */
    }
    free(exchange->ordered);
    free(exchange->offsets);
    free(exchange);
}
