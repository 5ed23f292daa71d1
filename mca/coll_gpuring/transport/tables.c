/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* Steps and connections, put where the executors read them fast (device.h: upload). */
#include <stdlib.h>

#include "mca/coll_gpuring/transport/internal.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"

static int upload(struct gpuring_transport *transport, const void *table, size_t bytes,
                  void **where)
{
    const struct gpuring_transport_config *config = &transport->config;

    return bytes == 0 ? GPURING_OK
                      : config->device_ops->upload(config->device, (void *) (uintptr_t) table,
                                                   bytes, where);
}

static int upload_plan(struct gpuring_transport *transport, int plan)
{
    const struct gpuring_plan *p = transport->plans[plan];
    struct gpuring_plan_ends *ends = &transport->ends[plan];
    int status = GPURING_OK;

    ends->steps = calloc(p->nlanes + 1, sizeof *ends->steps);
    ends->refs = calloc(p->nlanes + 1, sizeof *ends->refs);
    if (ends->steps == NULL || ends->refs == NULL) {
        gpuring_error("out of memory for the tables of %u lanes", p->nlanes);
        return GPURING_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == GPURING_OK && i < p->nlanes; i++) {
        const struct gpuring_plan_lane *lane = &p->lanes[i];
        void *where = NULL;

        status = upload(transport, lane->steps, lane->nsteps * sizeof *lane->steps, &where);
        ends->steps[i] = where;
        if (status == GPURING_OK) {
            where = NULL;
            status = upload(transport, lane->refs, lane->nrefs * sizeof *lane->refs, &where);
            ends->refs[i] = where;
        }
    }
    return status;
}

int gpuring_tables_upload(struct gpuring_transport *transport)
{
    int status = GPURING_OK;

    for (int plan = 0; status == GPURING_OK && plan < transport->nplans; plan++) {
        status = upload_plan(transport, plan);
    }
    for (unsigned p = 0; status == GPURING_OK && p < GPURING_PROTOCOL_COUNT; p++) {
        void *where = NULL;

        status = upload(transport, transport->recvs[p],
                        transport->nrecvs * sizeof *transport->recvs[p], &where);
        transport->exec_recvs[p] = where;
        if (status == GPURING_OK) {
            where = NULL;
            status = upload(transport, transport->sends[p],
                            transport->nsends * sizeof *transport->sends[p], &where);
            transport->exec_sends[p] = where;
        }
    }
    return status;
}

static void unload(struct gpuring_transport *transport, const void *where)
{
    if (where != NULL) {
        transport->config.device_ops->unload(transport->config.device, (void *) (uintptr_t) where);
    }
}

void gpuring_tables_unload(struct gpuring_transport *transport)
{
    for (unsigned p = 0; p < GPURING_PROTOCOL_COUNT; p++) {
        unload(transport, transport->exec_recvs[p]);
        unload(transport, transport->exec_sends[p]);
    }
    for (int plan = 0;
         transport->plans != NULL && transport->ends != NULL && plan < transport->nplans; plan++) {
        struct gpuring_plan_ends *ends = &transport->ends[plan];

        for (uint32_t i = 0; i < transport->plans[plan]->nlanes; i++) {
            unload(transport, ends->steps != NULL ? ends->steps[i] : NULL);
            unload(transport, ends->refs != NULL ? ends->refs[i] : NULL);
        }
        free(ends->steps);
        free(ends->refs);
    }
}
