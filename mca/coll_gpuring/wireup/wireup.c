/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/wireup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/topology/local_channels.h"
#include "mca/coll_gpuring/topology/channels.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/connect.h"
#include "mca/coll_gpuring/wireup/hello.h"
#include "mca/coll_gpuring/wireup/net_select.h"
#include "mca/coll_gpuring/wireup/views.h"

/* What is under way, in this order: its text for messages. */
#define STAGES(X)                                                                               \
    X(ID, "wire-up, broadcast of the unique id (have all ranks the same coll_gpuring_priority " \
          "and coll_gpuring_device?)")                                                          \
    X(HELLO, "wire-up, AllGather 1 (who is where)")                                             \
    X(VIEWS_READY, "wire-up, agreement before views of nodes")                                  \
    X(VIEWS, "wire-up, views of this node")                                                     \
    X(GRAPH, "wire-up, AllGather 2 (channels)")                                                 \
    X(READY, "wire-up, AllGather 2 (agreement on channels)")                                    \
    X(HANDLES, "wire-up, AllGather 2 (handles of connections)")                                 \
    X(WRITTEN, "wire-up, probe of peer memory (written)")                                       \
    X(ARRIVED, "wire-up, probe of peer memory (arrived)")                                       \
    X(AGREE, "wire-up, agreement on connections")                                               \
    X(TRY, "wire-up, first chunks between nodes")                                               \
    X(TRIED, "wire-up, agreement on first chunks")

#define MARK_CONNECTING 1 /* of failures after AllGather 1 and 2 */

#define STAGE_NAME(name, text) STAGE_##name,
enum wireup_stage { STAGES(STAGE_NAME) STAGE_COUNT };

struct gpuring_wireup {
    enum wireup_stage stage;
    uint64_t id[2];
    const void *buffer;                  /* of the first call, on this rank's GPU if it has one */
    struct gpuring_gathered hellos;      /* AllGather 1, complete */
    struct pci_wire *wires;              /* of all ranks, from STAGE_GRAPH; NULL if left out */
    struct gpuring_local_channels local; /* of this node */
    bool same_model;                     /* all ranks have the same model choices */
    struct gpuring_node_map members;
    struct gpuring_channels layout;
    struct gpuring_net_choice net; /* with several nodes */
    struct gpuring_engine *engine; /* handed to the module at the end */
    struct gpuring_letters letters;
};

struct gpuring_wireup *gpuring_wireup_create(void)
{
    return calloc(1, sizeof(struct gpuring_wireup));
}

/* This rank cannot go on. */
static void fail(mca_coll_gpuring_module_t *module, int status)
{
    gpuring_oob_fail(module->oob,
                     gpuring_process_copies(module->wireup->buffer) ? status : GPURING_ERR_DEVICE);
}

void gpuring_wireup_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call)
{
    struct gpuring_wireup *wireup = module->wireup;
    int status;

    wireup->buffer = gpuring_pointer_on_gpu(call->output_at.kind) ? call->output : call->input;
    status = gpuring_process_attach(wireup->buffer);
    if (status != GPURING_OK) {
        fail(module, status);
    }
    if (module->rank == 0) {
        gpuring_identity_unique(wireup->id);
    }
    module->state = GPURING_STATE_WIRING;
    wireup->stage = STAGE_ID;
    gpuring_oob_broadcast(module->oob, wireup->id);
}

/* One process does, that no two write to a file at once. */
static bool writes_dumps(const mca_coll_gpuring_module_t *module)
{
    return module->rank == 0 && gpuring_process.world_rank == 0;
}

/* Channels are known as far as they can be: make plans and connections' ends; can all go on? */
static int start_ready(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_wireup_known known = {
        .id = wireup->id,
        .hellos = &wireup->hellos,
        .members = &wireup->members,
        .layout = &wireup->layout,
        .routes = &wireup->local.nics,
        .net = &wireup->net,
    };
    int status;

    module->oob->mark = MARK_CONNECTING;
    gpuring_channels_init(&wireup->layout, &wireup->members, wireup->wires,
                          wireup->same_model ? &wireup->local.model : NULL);
    if (writes_dumps(module) && gpuring_param_given(gpuring_params.graph_dump_file)) {
        gpuring_channels_dump(&wireup->layout);
    }
    status = gpuring_wireup_service(module, &known, &wireup->engine);
    if (status == GPURING_OK) {
        status = gpuring_wireup_transport(module, &known, wireup->engine);
    }
    if (status == GPURING_OK) {
        status = gpuring_wireup_letters(wireup->engine->transport, module->oob, &wireup->letters);
    }
    if (status == GPURING_OK) {
        wireup->stage = STAGE_READY;
        gpuring_oob_agree(module->oob, 0);
    }
    return status;
}

/* The views of this node are here: what follows from its topology. */
static int start_graph(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct pci_doc *doc;
    bool from_file, graph;
    int status = gpuring_node_topology_document(&wireup->hellos, &wireup->members, module->rank,
                                                &wireup->letters, &doc, &from_file);

    if (status != GPURING_OK) {
        return status;
    }
    gpuring_letters_free(&wireup->letters);
    if (writes_dumps(module) && doc != NULL && gpuring_param_given(gpuring_params.topo_dump_file)) {
        gpuring_local_channels_dump(doc);
    }
    graph = (gpuring_hello_common(&wireup->hellos) & GPURING_CAPABILITY_GRAPH) != 0;
    if (graph && doc != NULL) {
        gpuring_local_channels_find(&wireup->hellos, &wireup->members, module->rank, doc, from_file,
                                    PCI_PEER_OK, &wireup->local);
    }
    pci_doc_free(doc);
    if (!graph) {
        return start_ready(module, wireup);
    }
    wireup->stage = STAGE_GRAPH;
    gpuring_oob_gather(module->oob, &wireup->local.block, sizeof wireup->local.block);
    return GPURING_OK;
}

/* ---- What follows on each stage: 0, or why this rank cannot go on ---- */

static int after_id(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_hello_block block;
    int status = gpuring_hello_fill(&block);

    wireup->id[0] = module->oob->words[0];
    wireup->id[1] = module->oob->words[1];
    if (status == GPURING_OK) {
        wireup->stage = STAGE_HELLO;
        gpuring_oob_gather(module->oob, &block, gpuring_hello_bytes(block.hello.nnics));
    }
    return status;
}

/* AllGather 1 is complete: compare, find the nodes. */
static int after_hello(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int status;

    wireup->hellos = gpuring_oob_take(module->oob);
    status = gpuring_hello_compare(module, &wireup->hellos);
    if (status == GPURING_OK) {
        status = gpuring_node_map_find(&wireup->hellos, &wireup->members);
    }
    if (status == GPURING_OK && wireup->members.nnodes > 1) {
        status = gpuring_network_choose(&wireup->hellos, wireup->members.node, module->rank, NULL,
                                        &wireup->net);
    }
    if (status != GPURING_OK || !gpuring_node_topology_differ(&wireup->hellos, &wireup->members)) {
        return status != GPURING_OK ? status : start_graph(module, wireup);
    }
    status = gpuring_node_topology_letters(&wireup->hellos, &wireup->members, module->rank,
                                           module->oob, &wireup->letters);
    if (status == GPURING_OK) {
        wireup->stage = STAGE_VIEWS_READY;
        gpuring_oob_agree(module->oob, 0);
    }
    return status;
}

/* All ranks have room for the letters of their node. */
static int after_views_ready(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    (void) module;
    wireup->stage = STAGE_VIEWS;
    return GPURING_OK;
}

static int after_graph(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered blocks = gpuring_oob_take(module->oob);
    int status =
        gpuring_channels_gathered(&blocks, module->nranks, &wireup->wires, &wireup->same_model);

    gpuring_gathered_clear(&blocks);
    return status == GPURING_OK ? start_ready(module, wireup) : status;
}

/* All ranks have their ends, and room for the letters. */
static int after_ready(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    (void) module;
    wireup->stage = STAGE_HANDLES;
    return GPURING_OK;
}

/* Connected: bind the plans. */
static int start_agreement(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int status = gpuring_engine_bind(wireup->engine);

    if (status == GPURING_OK) {
        wireup->stage = STAGE_AGREE;
        gpuring_oob_agree(module->oob, 0);
    }
    return status;
}

/* Tell this rank's part of the probe of peer memory. */
static int start_report(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                        enum wireup_stage stage)
{
    const struct gpuring_transport *transport = wireup->engine->transport;
    size_t bytes = gpuring_transport_probe_bytes(transport);
    void *report = malloc(bytes);

    if (report == NULL) {
        gpuring_error("out of memory for the probe of peer memory");
        return GPURING_ERR_NOMEM;
    }
    gpuring_transport_probe_report(transport, GPURING_OK, report);
    wireup->stage = stage;
    gpuring_oob_gather(module->oob, report, bytes);
    free(report);
    return GPURING_OK;
}

static int after_handles(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_transport *transport = wireup->engine->transport;
    int status = gpuring_wireup_connect(transport, &wireup->letters);

    if (status != GPURING_OK) {
        return status;
    }
    return gpuring_transport_probe_bytes(transport) > 0
               ? start_report(module, wireup, STAGE_WRITTEN)
               : start_agreement(module, wireup);
}

/* All ranks' reports in their order; the caller frees them. */
static void *take_reports(mca_coll_gpuring_module_t *module, const struct gpuring_wireup *wireup)
{
    struct gpuring_gathered gathered = gpuring_oob_take(module->oob);
    void *reports =
        gpuring_gathered_even(&gathered, gpuring_transport_probe_bytes(wireup->engine->transport));

    gpuring_gathered_clear(&gathered);
    return reports;
}

static int after_written(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    void *reports = take_reports(module, wireup);
    int status = GPURING_ERR_NOMEM;

    if (reports != NULL) {
        status = gpuring_transport_probe_verify(wireup->engine->transport, reports);
        free(reports);
    }
    return status == GPURING_OK ? start_report(module, wireup, STAGE_ARRIVED) : status;
}

static int after_arrived(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    void *reports = take_reports(module, wireup);
    int status = GPURING_ERR_NOMEM;

    if (reports != NULL) {
        status = gpuring_transport_probe_finish(wireup->engine->transport, reports);
        free(reports);
    }
    return status == GPURING_OK ? start_agreement(module, wireup) : status;
}

static int after_tried(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    gpuring_transport_settle(wireup->engine->transport);
    __atomic_store_n(&module->engine, wireup->engine, __ATOMIC_RELEASE); /* see left.h */
    wireup->engine = NULL;
    module->state = GPURING_STATE_READY;
    gpuring_pvar_set(GPURING_PVAR_nodes, (unsigned long long) wireup->members.nnodes);
    gpuring_pvar_add(GPURING_PVAR_wireups, 1);
    return GPURING_OK;
}

static int after_agree(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    if (wireup->members.nnodes == 1) {
        return after_tried(module, wireup);
    }
    wireup->stage = STAGE_TRY;
    return GPURING_OK;
}

static int after_try(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    wireup->stage = STAGE_TRIED;
    gpuring_oob_agree(module->oob, 0);
    return GPURING_OK;
}

/* ---- The chain ---- */

/* All ranks know of the failure of one: the communicator is not served. */
static void give_up(mca_coll_gpuring_module_t *module, int rank, int status)
{
    char text[256];

    gpuring_oob_forget(module->oob);
    if (status != GPURING_ERR_DISAGREE && (module->rank == 0 || module->rank == rank)) {
        gpuring_module_text(module, text, sizeof text);
        gpuring_warn("%s: %s: rank %d reports: %s", text,
                     status == GPURING_ERR_DEVICE ? "calls on GPU memory return errors"
                                                  : "not served, other components take over",
                     rank, gpuring_status_text(status));
    }
    if (status == GPURING_ERR_DISAGREE || status == GPURING_ERR_DEVICE) {
        gpuring_module_fail(module, status);
    } else {
        module->state = GPURING_STATE_DEAD;
    }
}

/*
 * The network that was chosen does not connect the ranks, as all of them know: begin anew with the
 * one that can take its place. False if there is none, or a rank failed before it came to that: it
 * may not even know the others.
 */
static bool try_spare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup, int rank,
                      int status)
{
    char why[160];

    if (!wireup->net.spare || module->oob->failure.mark != MARK_CONNECTING) {
        return false;
    }
    snprintf(why, sizeof why, "rank %d on %s reports: %s", rank,
             gpuring_hello_of(&wireup->hellos, rank)->hostname, gpuring_status_text(status));
    wireup->net.spare = false;
    gpuring_oob_forget(module->oob);
    gpuring_letters_free(&wireup->letters);
    gpuring_engine_destroy(wireup->engine);
    wireup->engine = NULL;
    gpuring_channels_fini(&wireup->layout);
    status = gpuring_network_choose(&wireup->hellos, wireup->members.node, module->rank, why,
                                    &wireup->net);
    if (status == GPURING_OK) {
        status = start_ready(module, wireup);
    }
    if (status != GPURING_OK) { /* the others hear of it in their next agreement */
        gpuring_oob_fail(module->oob, status);
        gpuring_oob_agree(module->oob, 0);
    }
    return true;
}

/* The first chunks of this rank's connections: 0 when all have come and gone, GPURING_AGAIN, or
 * the network does not carry them. */
static int try_progress(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    char text[640];
    int status = gpuring_transport_try(wireup->engine->transport, text, sizeof text);

    if (status < 0) {
        gpuring_warn("the network between the nodes does not work: %s", text);
        gpuring_oob_fail(module->oob, status);
        return GPURING_OK;
    }
    return status;
}

/* Are letters under way, or an exchange? */
static bool by_letters(const mca_coll_gpuring_module_t *module)
{
    enum wireup_stage stage = module->wireup->stage;

    return (stage == STAGE_VIEWS || stage == STAGE_HANDLES) && !gpuring_oob_troubled(module->oob);
}

/* What is under way: 0 when it is complete, GPURING_AGAIN, or the ranks have lost touch. */
static int stage_progress(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int status;

    if (wireup->stage == STAGE_TRY && !gpuring_oob_troubled(module->oob)) {
        return try_progress(module, wireup);
    }
    if (!by_letters(module)) {
        return gpuring_oob_progress(module->oob);
    }
    status = gpuring_letters_progress(&wireup->letters);
    if (status < 0) {
        gpuring_oob_fail(module->oob, status);
        return GPURING_OK;
    }
    return status;
}

/*
 * On to the next stage. A rank that cannot go on, or has heard of one, takes part in the gathering
 * that comes next, whichever it is, after which all ranks know (exchange.h).
 */
static void stage_next(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    static int (*const after[])(mca_coll_gpuring_module_t *, struct gpuring_wireup *) = {
        after_id,      after_hello,   after_views_ready, start_graph, after_graph, after_ready,
        after_handles, after_written, after_arrived,     after_agree, after_try,   after_tried};
    int rank = 0, status = gpuring_oob_failure(module->oob, &rank);

    if (status != GPURING_OK) {
        if (!try_spare(module, wireup, rank, status)) {
            give_up(module, rank, status);
        }
        return;
    }
    if (!gpuring_oob_troubled(module->oob)) {
        status = after[wireup->stage](module, wireup);
    }
    if (status != GPURING_OK) {
        fail(module, status);
    }
    if (gpuring_oob_troubled(module->oob) && !gpuring_oob_busy(module->oob)) {
        gpuring_oob_agree(module->oob, 0);
    }
}

int gpuring_wireup_progress(mca_coll_gpuring_module_t *module)
{
    struct gpuring_wireup *wireup = module->wireup;

    while (module->state == GPURING_STATE_WIRING) {
        int status = stage_progress(module, wireup);

        if (status == GPURING_AGAIN) {
            return GPURING_AGAIN;
        }
        if (status == GPURING_OK) {
            stage_next(module, wireup);
        } else {
            gpuring_module_fail(module, status);
        }
    }
    if (module->state != GPURING_STATE_FAILED) {
        gpuring_wireup_free(wireup);
        module->wireup = NULL;
    }
    return GPURING_OK;
}

void gpuring_wireup_text(const mca_coll_gpuring_module_t *module, char *text, size_t size)
{
#define STAGE_TEXT(name, text) text,
    static const char *const stages[] = {STAGES(STAGE_TEXT)};
    const struct gpuring_wireup *wireup = module->wireup;

    if (wireup->stage == STAGE_TRY && !gpuring_oob_troubled(module->oob)) {
        snprintf(text, size, "%s", stages[STAGE_TRY]);
        return;
    }
    snprintf(text, size, "%s: a message from or to rank %d", stages[wireup->stage],
             by_letters(module) ? gpuring_letters_awaits(&wireup->letters)
                                : gpuring_oob_awaits(module->oob));
}

void gpuring_wireup_free(struct gpuring_wireup *wireup)
{
    if (wireup == NULL) {
        return;
    }
    gpuring_letters_free(&wireup->letters);
    gpuring_gathered_clear(&wireup->hellos);
    gpuring_channels_fini(&wireup->layout);
    free(wireup->wires);
    gpuring_node_map_clear(&wireup->members);
    gpuring_engine_destroy(wireup->engine);
    free(wireup);
}
