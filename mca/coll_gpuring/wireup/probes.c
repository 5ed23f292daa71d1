/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/* The stages of a wire-up that prove direct access to the memory of peers. */
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/state.h"

int gpuring_probes_report(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_transport *transport = wireup->transport;
    void *report = gpuring_oob_gather(module->oob, gpuring_transport_probe_bytes(transport));

    if (report != NULL) {
        gpuring_transport_probe_report(transport, report);
    }
    return GPURING_OK;
}

int gpuring_probes_take_written(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered reports = gpuring_oob_take(module->oob);
    int status = gpuring_transport_probe_verify(wireup->transport, reports.blocks);

    gpuring_gathered_clear(&reports);
    return status;
}

/* Decide how pairs of ranks are connected, from the last reports. */
static int finish_probe(const struct gpuring_wireup *wireup, const struct gpuring_gathered *reports)
{
    struct gpuring_transport *transport = wireup->transport;
    int status = gpuring_transport_probe_finish(transport, reports->blocks);

    if (status == GPURING_OK) {
        gpuring_pvar_add(GPURING_PVAR_silent_peers, gpuring_transport_silent(transport));
        gpuring_pvar_add(GPURING_PVAR_torn_peers, gpuring_transport_torn(transport));
    }
    return status;
}

int gpuring_probes_take_arrived(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered reports = gpuring_oob_take(module->oob);
    int status = GPURING_OK;

    wireup->test_lines = gpuring_transport_test_due(wireup->transport, reports.blocks);
    if (!wireup->test_lines) {
        status = finish_probe(wireup, &reports);
    }
    gpuring_gathered_clear(&reports);
    return status;
}

int gpuring_probes_take_tested(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered reports = gpuring_oob_take(module->oob);
    int status = finish_probe(wireup, &reports);

    gpuring_gathered_clear(&reports);
    return status;
}
