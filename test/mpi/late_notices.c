/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "late_notices.h"

#include <stdio.h>
#include <string.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/stage/notice_mail.h"

#define HELD 256

/* A message that is to leave. */
static struct held {
    enum { FREE, HELD_BACK, SENT } state;
    struct gpuring_notice notice;
    double due;
    int to;
    struct ompi_communicator_t *comm;
    ompi_request_t *request;
} held[HELD];

static double seconds_late;
static long sent;
static mca_pml_base_module_isend_fn_t send_now;

static struct held *free_place(void)
{
    for (int i = 0; i < HELD; i++) {
        if (held[i].state == SENT && REQUEST_COMPLETE(held[i].request)) {
            ompi_request_free(&held[i].request);
            held[i].state = FREE;
        }
        if (held[i].state == FREE) {
            return &held[i];
        }
    }
    return NULL;
}

static int send_late(const void *data, size_t count, ompi_datatype_t *type, int to, int tag,
                     mca_pml_base_send_mode_t mode, struct ompi_communicator_t *comm,
                     ompi_request_t **request)
{
    struct held *place = tag == GPURING_TAG_NOTICE ? free_place() : NULL;

    if (place == NULL || count != sizeof place->notice) {
        return send_now(data, count, type, to, tag, mode, comm, request);
    }
    memcpy(&place->notice, data, count);
    place->due = MPI_Wtime() + seconds_late;
    place->to = to;
    place->comm = comm;
    place->state = HELD_BACK;
    *request = &ompi_request_empty;
    return OMPI_SUCCESS;
}

static int send_due(void)
{
    for (int i = 0; i < HELD; i++) {
        struct held *place = &held[i];

        if (place->state == HELD_BACK && MPI_Wtime() >= place->due) {
            place->state = SENT;
            sent++;
            send_now(&place->notice, sizeof place->notice, MPI_BYTE, place->to, GPURING_TAG_NOTICE,
                     MCA_PML_BASE_SEND_STANDARD, place->comm, &place->request);
        }
    }
    return 0;
}

void late_notices(double seconds)
{
    seconds_late = seconds;
    send_now = mca_pml.pml_isend;
    mca_pml.pml_isend = send_late;
    opal_progress_register(send_due);
}

long late_notices_sent(void)
{
    return sent;
}
