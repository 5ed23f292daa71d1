/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/exchange.h"
#include "mca/coll_gpuring/gpuring.h"
#include "mca/coll_gpuring/identity.h"
#include "mca/coll_gpuring/layout.h"
#include "mca/coll_gpuring/network.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup_check.h"
#include "mca/coll_gpuring/wireup_format.h"

enum wireup_stage {
    STAGE_HELLO,
    STAGE_GRAPH,
    STAGE_OFFER,
    STAGE_BLOBS,
    STAGE_WRITTEN,
    STAGE_ARRIVED,
    STAGE_AGREE
};

struct gpuring_wireup {
    enum wireup_stage stage;
    int status;                        /* of this rank: 0, or why it cannot serve */
    struct gpuring_exchange *exchange; /* under way; NULL if it could not start */
    struct gpuring_exchange *hellos;   /* AllGather 1, complete */
    struct pci_wire *wires;            /* of all ranks, from STAGE_GRAPH; NULL if left out */
    struct gpuring_advice advice;      /* this rank's */
    bool advised;                      /* all ranks have the same */
    struct gpuring_members members;
    struct gpuring_layout layout;
    struct gpuring_service *service; /* handed to the module at the end */
    struct gpuring_hello hello;      /* this rank's */
};

static const struct gpuring_hello *all_hellos(const struct gpuring_wireup *wireup)
{
    return gpuring_exchange_data(wireup->hellos);
}

static void fill_hello(struct gpuring_hello *hello)
{
    *hello = (struct gpuring_hello){
        .magic = GPURING_HELLO_MAGIC,
        .version = GPURING_WIRE_VERSION,
        .bytes = sizeof *hello,
        .node = gpuring_identity_node(gpuring_params.hostid),
        .pid = (uint32_t) getpid(),
        .capabilities = gpuring_identity_capabilities(),
    };
    if (gpuring_machine_known()) {
        hello->capabilities |= GPURING_CAPABILITY_GRAPH;
    }
    gpuring_identity_unique(hello->id);
    gpuring_identity_hostname(hello->hostname, sizeof hello->hostname);
    gpuring_params_shared(hello->shared);
    hello->status = gpuring_process.device_ops->identity(gpuring_process.device, &hello->device);
}

void gpuring_wireup_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_wireup *wireup = calloc(1, sizeof *wireup);
    int status;

    module->state = GPURING_STATE_WIRING;
    module->wireup = wireup;
    if (wireup == NULL) {
        gpuring_error("out of memory for a wire-up");
        gpuring_module_fail(module, GPURING_ERR_NOMEM);
        return;
    }
    status = gpuring_process_attach(call->input_gpu >= 0 && call->output_gpu < 0 ? call->input
                                                                                 : call->output);
    fill_hello(&wireup->hello);
    if (status != GPURING_OK) {
        wireup->hello.status = status;
    }
    wireup->status = wireup->hello.status;
    status = gpuring_exchange_start_even(module->comm, &wireup->hello, sizeof wireup->hello,
                                         &wireup->exchange);
    if (status != GPURING_OK) {
        gpuring_module_fail(module, status);
    }
}

/* The ranks disagree: say so on the two ranks concerned; every rank knows. */
static void report_disagreement(const mca_coll_gpuring_module_t *module,
                                const struct gpuring_hello *hellos, int rank, int parameter)
{
    char first[16], other[16], first_value[32], other_value[32];
    const char *name;

    if (module->rank != 0 && module->rank != rank) {
        return;
    }
    snprintf(first, sizeof first, "%d", 0);
    snprintf(other, sizeof other, "%d", rank);
    if (parameter < 0) {
        snprintf(first_value, sizeof first_value, "%u", hellos[0].version);
        snprintf(other_value, sizeof other_value, "%u", hellos[rank].version);
        gpuring_compat_help("versions differ", first, hellos[0].hostname, first_value, other,
                            hellos[rank].hostname, other_value);
        return;
    }
    name = gpuring_params_shared_name(parameter);
    gpuring_params_shared_text(parameter, hellos[0].shared[parameter], first_value,
                               sizeof first_value);
    gpuring_params_shared_text(parameter, hellos[rank].shared[parameter], other_value,
                               sizeof other_value);
    gpuring_compat_help("ranks disagree", name, first, hellos[0].hostname, first_value, other,
                        hellos[rank].hostname, other_value, name);
}

static int param_or_auto(int value)
{
    return value - 1; /* auto is 0; the others follow the core's order */
}
_Static_assert(GPURING_PARAM_ALGORITHM_RING - 1 == (int) GPURING_ALGORITHM_RING &&
                   GPURING_PARAM_ALGORITHM_PACKED - 1 == (int) GPURING_ALGORITHM_PACKED &&
                   GPURING_PARAM_PROTOCOL_SIMPLE - 1 == (int) GPURING_PROTOCOL_SIMPLE &&
                   GPURING_PARAM_PROTOCOL_LL128 - 1 == (int) GPURING_PROTOCOL_LL128,
               "choices of the parameters in the order of the core");

/* Capabilities that all ranks have. */
static uint32_t common_capabilities(const struct gpuring_wireup *wireup)
{
    uint32_t common = ~UINT32_C(0);

    for (int rank = 0; rank < wireup->members.nranks; rank++) {
        common &= all_hellos(wireup)[rank].capabilities;
    }
    return common;
}

static int make_service(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_channel channels[GPURING_MAX_CHANNELS];
    struct gpuring_advice_places packed = {.count = 0};
    const struct gpuring_members *members = &wireup->members;
    const struct gpuring_layout *layout = &wireup->layout;
    struct gpuring_service_config config = {
        .rank = module->rank,
        .nranks = module->nranks,
        .nnodes = members->nnodes,
        .nrings = layout->nrings,
        .ntrees = layout->ntrees,
        .channels = channels,
        .advice = layout->advice,
        .packed = &packed,
        .oversubscribed =
            gpuring_members_local(members, module->rank, NULL) > sysconf(_SC_NPROCESSORS_ONLN),
        .gpu = gpuring_process.gpu,
        .shared_gpu = gpuring_members_sharing(all_hellos(wireup), module->nranks, module->rank) > 1,
        .patience_us = gpuring_params.patience,
        .algorithm = param_or_auto(gpuring_params.algorithm),
        .protocol = param_or_auto(gpuring_params.protocol),
        .buffer_bytes = gpuring_params.buffer_size,
        .chunk_bytes = gpuring_params.chunk_size,
    };
    int status;

    gpuring_layout_channels(layout, module->rank, channels);
    if (layout->advice != NULL) {
        gpuring_advice_place(layout->advice, members, module->rank, &packed);
    }
    status = gpuring_service_create(&config, gpuring_process.device_ops, gpuring_process.device,
                                    &wireup->service);
    if (status == GPURING_OK && gpuring_params.check == GPURING_PARAM_CHECK_PLANS) {
        status = gpuring_wireup_check_plans(layout);
    }
    return status;
}

static int open_network(const mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                        struct gpuring_network *network)
{
    const int *node = wireup->members.node;
    uint32_t *pids = malloc((size_t) module->nranks * sizeof *pids);
    int npids = 0, status;

    if (pids == NULL) {
        gpuring_error("out of memory for a wire-up");
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < module->nranks; rank++) {
        if (node[rank] == node[module->rank]) {
            pids[npids++] = all_hellos(wireup)[rank].pid;
        }
    }
    status = gpuring_network_open(common_capabilities(wireup), pids, npids, network);
    free(pids);
    return status;
}

static int make_transport(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_members *members = &wireup->members;
    struct gpuring_transport_config config = {
        .rank = module->rank,
        .nranks = module->nranks,
        .node = members->node,
        .hostname = wireup->hello.hostname,
        .unique_id = {all_hellos(wireup)[0].id[0], all_hellos(wireup)[0].id[1]},
    };

    if (members->nnodes > 1) {
        struct gpuring_network network;
        int status = open_network(module, wireup, &network);

        if (status != GPURING_OK) {
            return status;
        }
        config.net_ops = network.ops;
        config.net = network.net;
        config.proxy = gpuring_process.proxy;
    }
    return gpuring_service_transport(wireup->service, &config);
}

static void log_dead(const mca_coll_gpuring_module_t *module, int rank, int status)
{
    char text[256];

    gpuring_module_text(module, text, sizeof text);
    gpuring_warn("%s: not served, other components take over: rank %d reports: %s", text, rank,
                 gpuring_status_text(status));
}

/* All ranks know of the failure of one: the communicator is not served. */
static int become_dead(mca_coll_gpuring_module_t *module, int rank, int status)
{
    if (module->rank == 0 || module->rank == rank) {
        log_dead(module, rank, status);
    }
    gpuring_service_destroy(module->wireup->service);
    module->wireup->service = NULL;
    module->state = GPURING_STATE_DEAD;
    return GPURING_OK;
}

/* Channels are known as far as they can be: make plans and connections' ends, tell the outcome. */
static int start_offer(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_offer offer = {.status = wireup->status};
    const void *blob;
    size_t bytes = 0;
    int status = wireup->status;

    if (status == GPURING_OK) {
        gpuring_layout_init(&wireup->layout, &wireup->members, wireup->wires);
        if (wireup->layout.engine && wireup->advised) {
            wireup->layout.advice = &wireup->advice;
        }
        if (module->rank == 0 && gpuring_param_given(gpuring_params.graph_dump_file)) {
            gpuring_layout_dump(&wireup->layout);
        }
        status = make_service(module, wireup);
    }
    if (status == GPURING_OK) {
        status = make_transport(module, wireup);
    }
    if (status == GPURING_OK) {
        status = gpuring_transport_blob(wireup->service->transport, &blob, &bytes);
    }
    wireup->status = offer.status = status;
    offer.blob_bytes = status == GPURING_OK ? bytes : 0;
    wireup->stage = STAGE_OFFER;
    return gpuring_exchange_start_even(module->comm, &offer, sizeof offer, &wireup->exchange);
}

/* Search this node's channels and tell this rank's places in them. */
static int start_graph(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_members *members = &wireup->members;
    const struct gpuring_hello *hellos = all_hellos(wireup);
    struct gpuring_device_identity *identities;
    struct gpuring_graph_offer offer = {.advice = 0};
    int place = 0, nlocal = gpuring_members_local(members, module->rank, &place), found = 0;

    identities = malloc((size_t) nlocal * sizeof *identities);
    for (int rank = 0; identities != NULL && rank < module->nranks; rank++) {
        if (members->node[rank] == members->node[module->rank]) {
            identities[found++] = hellos[rank].device;
        }
    }
    if (identities != NULL) {
        gpuring_machine_wire((uint32_t) members->node[module->rank], members->nnodes, place, nlocal,
                             identities, module->rank == 0, &offer.wire, &wireup->advice);
        offer.advice = gpuring_advice_fingerprint(&wireup->advice);
    }
    free(identities);
    wireup->stage = STAGE_GRAPH;
    return gpuring_exchange_start_even(module->comm, &offer, sizeof offer, &wireup->exchange);
}

/* AllGather 1 is complete: compare, find the nodes. */
static int consume_hellos(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_hello *hellos;
    int rank = 0, parameter = -1, status;
    enum gpuring_disagreement disagreement;

    wireup->hellos = wireup->exchange;
    wireup->exchange = NULL;
    hellos = all_hellos(wireup);
    disagreement = gpuring_members_compare(hellos, module->nranks, &rank, &parameter);
    if (disagreement != GPURING_AGREED) {
        report_disagreement(module, hellos, rank, parameter);
        return GPURING_ERR_ARG;
    }
    for (rank = 0; rank < module->nranks; rank++) {
        if (hellos[rank].status != GPURING_OK) {
            return become_dead(module, rank, hellos[rank].status);
        }
    }
    status = gpuring_members_find(hellos, module->nranks, &wireup->members);
    if (status != GPURING_OK) {
        return status;
    }
    if ((common_capabilities(wireup) & GPURING_CAPABILITY_GRAPH) != 0) {
        return start_graph(module, wireup);
    }
    if (module->rank == 0 && gpuring_param_given(gpuring_params.topo_dump_file)) {
        struct pci_wire unused;

        gpuring_machine_wire(0, 1, 0, 1, &wireup->hello.device, true, &unused, &wireup->advice);
    }
    return start_offer(module, wireup);
}

static int consume_wires(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_graph_offer *offers = gpuring_exchange_data(wireup->exchange);

    wireup->wires = malloc((size_t) module->nranks * sizeof *wireup->wires);
    if (wireup->wires == NULL) {
        gpuring_error("out of memory for the channels of %d ranks", module->nranks);
        return GPURING_ERR_NOMEM;
    }
    wireup->advised = offers[0].advice != 0;
    for (int rank = 0; rank < module->nranks; rank++) {
        wireup->wires[rank] = offers[rank].wire;
        wireup->advised = wireup->advised && offers[rank].advice == offers[0].advice;
    }
    gpuring_exchange_free(wireup->exchange);
    wireup->exchange = NULL;
    return start_offer(module, wireup);
}

static int consume_offers(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_offer *offers = gpuring_exchange_data(wireup->exchange);
    struct gpuring_exchange *next = NULL;
    const void *blob = NULL;
    size_t *bytes, own = 0;
    int status;

    for (int rank = 0; rank < module->nranks; rank++) {
        if (offers[rank].status != GPURING_OK) {
            return become_dead(module, rank, offers[rank].status);
        }
    }
    bytes = malloc((size_t) module->nranks * sizeof *bytes);
    if (bytes == NULL) {
        gpuring_error("out of memory to gather data of %d ranks", module->nranks);
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < module->nranks; rank++) {
        bytes[rank] = offers[rank].blob_bytes;
    }
    gpuring_transport_blob(wireup->service->transport, &blob, &own);
    status = gpuring_exchange_start(module->comm, blob, bytes, &next);
    free(bytes);
    gpuring_exchange_free(wireup->exchange);
    wireup->exchange = next;
    wireup->stage = STAGE_BLOBS;
    return status;
}

/* Connected as far as it goes, and the plans bound: tell the outcome. */
static int start_agreement(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int32_t status = wireup->status;

    if (status == GPURING_OK) {
        status = gpuring_service_bind(wireup->service);
    }
    gpuring_exchange_free(wireup->exchange);
    wireup->exchange = NULL;
    wireup->status = status;
    wireup->stage = STAGE_AGREE;
    return gpuring_exchange_start_even(module->comm, &status, sizeof status, &wireup->exchange);
}

/* Tell this rank's part of the probe of peer memory. */
static int start_report(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                        enum wireup_stage stage)
{
    const struct gpuring_transport *transport = wireup->service->transport;
    size_t bytes = gpuring_transport_probe_bytes(transport);
    void *report = malloc(bytes);
    int status;

    if (report == NULL) {
        gpuring_error("out of memory for the probe of peer memory");
        return GPURING_ERR_NOMEM;
    }
    gpuring_transport_probe_report(transport, wireup->status, report);
    gpuring_exchange_free(wireup->exchange);
    wireup->exchange = NULL;
    wireup->stage = stage;
    status = gpuring_exchange_start_even(module->comm, report, bytes, &wireup->exchange);
    free(report);
    return status;
}

/* The first rank whose report tells of an error, or -1; *status: the error. */
static int failed_report(const mca_coll_gpuring_module_t *module,
                         const struct gpuring_wireup *wireup, int32_t *status)
{
    const uint8_t *reports = gpuring_exchange_data(wireup->exchange);
    size_t bytes = gpuring_transport_probe_bytes(wireup->service->transport);

    for (int rank = 0; rank < module->nranks; rank++) {
        memcpy(status, reports + (size_t) rank * bytes, sizeof *status);
        if (*status != GPURING_OK) {
            return rank;
        }
    }
    return -1;
}

static int consume_blobs(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_transport *transport = wireup->service->transport;

    wireup->status = gpuring_transport_connect(transport, gpuring_exchange_data(wireup->exchange),
                                               gpuring_exchange_offsets(wireup->exchange));
    return gpuring_transport_probe_bytes(transport) > 0
               ? start_report(module, wireup, STAGE_WRITTEN)
               : start_agreement(module, wireup);
}

static int consume_written(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int32_t status;
    int failed = failed_report(module, wireup, &status);

    if (failed >= 0) {
        return become_dead(module, failed, status);
    }
    wireup->status = gpuring_transport_probe_verify(wireup->service->transport,
                                                    gpuring_exchange_data(wireup->exchange));
    return start_report(module, wireup, STAGE_ARRIVED);
}

static int consume_arrived(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int32_t status;
    int failed = failed_report(module, wireup, &status);

    if (failed >= 0) {
        return become_dead(module, failed, status);
    }
    wireup->status = gpuring_transport_probe_finish(wireup->service->transport,
                                                    gpuring_exchange_data(wireup->exchange));
    return start_agreement(module, wireup);
}

static int consume_agreement(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const int32_t *statuses = gpuring_exchange_data(wireup->exchange);

    for (int rank = 0; rank < module->nranks; rank++) {
        if (statuses[rank] != GPURING_OK) {
            return become_dead(module, rank, statuses[rank]);
        }
    }
    gpuring_transport_settle(wireup->service->transport);
    module->service = wireup->service;
    wireup->service = NULL;
    module->state = GPURING_STATE_READY;
    gpuring_pvar_add(GPURING_PVAR_wireups, 1);
    return GPURING_OK;
}

int gpuring_wireup_progress(mca_coll_gpuring_module_t *module)
{
    static int (*const consume[])(mca_coll_gpuring_module_t *, struct gpuring_wireup *) = {
        consume_hellos,  consume_wires,   consume_offers,   consume_blobs,
        consume_written, consume_arrived, consume_agreement};
    struct gpuring_wireup *wireup = module->wireup;

    while (module->state == GPURING_STATE_WIRING) {
        int status = gpuring_exchange_progress(wireup->exchange);

        if (status == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        if (status == GPURING_OK) {
            status = consume[wireup->stage](module, wireup);
        }
        if (status != GPURING_OK) {
            gpuring_module_fail(module, status);
        }
    }
    if (module->state != GPURING_STATE_FAILED) {
        gpuring_wireup_free(wireup);
        module->wireup = NULL;
    }
    return GPURING_OK;
}

void gpuring_wireup_text(const struct gpuring_wireup *wireup, char *text, size_t size)
{
    static const char *const stages[] = {"wire-up, AllGather 1 (who is where)",
                                         "wire-up, AllGather 2 (channels)",
                                         "wire-up, AllGather 2 (sizes)",
                                         "wire-up, AllGather 2 (connection handles)",
                                         "wire-up, probe of peer memory (written)",
                                         "wire-up, probe of peer memory (arrived)",
                                         "wire-up, agreement"};

    if (wireup->exchange == NULL) {
        snprintf(text, size, "%s", stages[wireup->stage]);
        return;
    }
    snprintf(text, size, "%s: a message from or to rank %d", stages[wireup->stage],
             gpuring_exchange_awaits(wireup->exchange));
}

void gpuring_wireup_free(struct gpuring_wireup *wireup)
{
    if (wireup == NULL) {
        return;
    }
    gpuring_exchange_free(wireup->exchange);
    gpuring_exchange_free(wireup->hellos);
    gpuring_layout_fini(&wireup->layout);
    free(wireup->wires);
    gpuring_members_clear(&wireup->members);
    gpuring_service_destroy(wireup->service);
    free(wireup);
}
