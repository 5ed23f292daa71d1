/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/hash.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/state.h"

/* Fill in one port per network. Returns 0 or GPURING_ERR_NOMEM. Opening the devices takes
 * milliseconds, so they are only opened if ranks may be on other nodes. */
static int fill_nics(struct ompi_communicator_t *comm, struct gpuring_rank_info *rank_info)
{
    struct gpuring_nic found[GPURING_NICS_MAX];
    int count = gpuring_nics_find("/sys", gpuring_params.verbs_hca,
                                  gpuring_params.verbs_gid_index + 1, found);

    count = count > 0 && gpuring_ranks_may_leave_node(comm) ? gpuring_network_prove(found, count)
                                                            : count;
    for (int i = 0; i < count && rank_info->nnics < GPURING_RANK_INFO_NICS; i++) {
        uint32_t known = 0;

        while (known < rank_info->nnics &&
               !gpuring_nic_same_network(&found[i], &rank_info->nics[known])) {
            known++;
        }
        if (known == rank_info->nnics) {
            rank_info->nics[rank_info->nnics++] = found[i];
        }
    }
    return count < 0 ? count : GPURING_OK;
}

/* Return true if the ports that the rank announces are emulated by software. */
static bool is_emulated(const struct gpuring_rank_info *rank_info)
{
    enum { UNKNOWN, HARDWARE, EMULATED };
    static int known; /* relaxed: threads that find it at the same time find the same */
    int kind = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (rank_info->nnics > 0 && kind == UNKNOWN) {
        kind = gpuring_net_only_software("/sys") ? EMULATED : HARDWARE;
        __atomic_store_n(&known, kind, __ATOMIC_RELAXED);
    }
    return rank_info->nnics > 0 && kind == EMULATED;
}

/* Fill in this rank's block, without its id, and compute its hash. */
static int rank_info_fill(const mca_coll_gpuring_module_t *module,
                          const struct gpuring_wireup *wireup, struct gpuring_rank_info *rank_info,
                          uint64_t *hash)
{
    struct gpuring_local_topology view;
    int status;

    *rank_info = (struct gpuring_rank_info){
        .node = gpuring_identity_node(gpuring_params.hostid),
        .tuning = gpuring_process.tuning_fingerprint,
        .pid = (uint32_t) getpid(),
        .capabilities = gpuring_identity_capabilities(),
    };
    gpuring_local_topology_own(&view);
    if (view.bytes > 0 && view.bytes <= GPURING_VIEW_BYTES_MAX) {
        rank_info->view = view.fingerprint;
        rank_info->view_bytes = (uint32_t) view.bytes;
    }
    rank_info->capabilities |= gpuring_local_topology_of_gpus() ? GPURING_CAPABILITY_GRAPH : 0;
    rank_info->capabilities |= view.from_file ? GPURING_CAPABILITY_FILE : 0;
    rank_info->capabilities |= gpuring_network_has_failed() ? GPURING_CAPABILITY_RDMA_FAILED : 0;
    rank_info->capabilities |= wireup->large ? GPURING_CAPABILITY_LARGE_CALL : 0;
    gpuring_identity_hostname(rank_info->hostname, sizeof rank_info->hostname);
    gpuring_params_shared(rank_info->shared);
    status = fill_nics(module->comm, rank_info);
    rank_info->capabilities |= is_emulated(rank_info) ? GPURING_CAPABILITY_RDMA_EMULATED : 0;
    if (status == GPURING_OK) {
        status = gpuring_process.device_ops->identity(gpuring_process.device, &rank_info->device);
    }
    *hash = gpuring_hash_bytes(GPURING_HASH_START, rank_info, sizeof *rank_info);
    return status;
}

int gpuring_rank_info_hash(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_wireup *wireup, uint64_t *hash)
{
    struct gpuring_rank_info rank_info;

    return rank_info_fill(module, wireup, &rank_info, hash);
}

int gpuring_rank_info_send(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_rank_info *rank_info = gpuring_oob_gather(module->oob, sizeof *rank_info);
    int status;

    wireup->survey = gpuring_survey_create();
    if (rank_info == NULL || wireup->survey == NULL) {
        return GPURING_ERR_NOMEM;
    }
    status = rank_info_fill(module, wireup, rank_info, &wireup->survey->own);
    wireup->survey->key = wireup->key;
    gpuring_identity_unique(rank_info->id);
    return status;
}

#define VALUE_SIZE 64

/* Write a rank's value of the parameter in which the ranks differ. */
static void value_text(const struct gpuring_gathered *rank_infos, int rank,
                       enum gpuring_disagreement what, int parameter, char text[VALUE_SIZE])
{
    const struct gpuring_rank_info *rank_info = gpuring_rank_info_of(rank_infos, rank);

    if (what == GPURING_DISAGREE_PARAMETER) {
        gpuring_params_shared_text(parameter, rank_info->shared[parameter], text, VALUE_SIZE);
    } else if (rank_info->tuning > GPURING_TUNING_BROKEN) {
        snprintf(text, VALUE_SIZE, "rules with fingerprint %016llx",
                 (unsigned long long) rank_info->tuning);
    } else {
        snprintf(text, VALUE_SIZE, "%s",
                 rank_info->tuning == GPURING_TUNING_NONE ? "no tuning file"
                                                          : "a tuning file that it could not use");
    }
}

/* Log a difference between two ranks. All ranks know it, but only these two log it. */
static void report_disagreement(const mca_coll_gpuring_module_t *module,
                                const struct gpuring_gathered *rank_infos,
                                enum gpuring_disagreement what, int rank, int parameter)
{
    char zero_value[VALUE_SIZE], value[VALUE_SIZE];
    const char *zero_host = gpuring_rank_info_of(rank_infos, 0)->hostname;
    const char *host = gpuring_rank_info_of(rank_infos, rank)->hostname, *name;

    if (module->rank != 0 && module->rank != rank) {
        return;
    }
    value_text(rank_infos, 0, what, parameter, zero_value);
    value_text(rank_infos, rank, what, parameter, value);
    if (what == GPURING_DISAGREE_PARAMETER) {
        name = gpuring_params_shared_name(parameter);
        gpuring_compat_help("ranks disagree", name, 0, zero_host, zero_value, rank, host, value,
                            name);
    } else {
        gpuring_compat_help("tuning differs", 0, zero_host, zero_value, rank, host, value);
    }
}

static int compare(const mca_coll_gpuring_module_t *module,
                   const struct gpuring_gathered *rank_infos)
{
    int rank = 0, parameter = -1;
    enum gpuring_disagreement what = gpuring_node_map_compare(rank_infos, &rank, &parameter);

    if (what == GPURING_AGREED) {
        return GPURING_OK;
    }
    report_disagreement(module, rank_infos, what, rank, parameter);
    return GPURING_ERR_DISAGREE;
}

int gpuring_views_prepare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->survey->rank_infos, &wireup->survey->map, module->rank);
    uint64_t mine = gpuring_node_ranks_rank_info(&ranks, ranks.self)->view;
    struct gpuring_local_topology own;
    int status = GPURING_OK;

    gpuring_local_topology_own(&own);
    for (int i = 0; i < ranks.count && status == GPURING_OK; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_node_ranks_rank_info(&ranks, i);

        if (rank_info->view == mine) {
            continue;
        }
        if (gpuring_node_topology_first_view(&ranks, i)) {
            status =
                gpuring_connect_infos_add(module->oob, ranks.rank[i], NULL, rank_info->view_bytes);
        }
        if (status == GPURING_OK && gpuring_node_topology_first_view(&ranks, ranks.self)) {
            status = gpuring_connect_infos_add(module->oob, ranks.rank[i], own.text, own.bytes);
        }
    }
    return status;
}

/* Return the view received from a rank. Its size is 0 if it is not the one announced in
 * AllGather 1. */
static struct gpuring_local_topology view_from(const struct gpuring_oob *oob, int rank,
                                               const struct gpuring_rank_info *rank_info)
{
    for (int i = 0; i < oob->connect_infos; i++) {
        const struct gpuring_message *connect_info = &oob->connect_info[i];

        if (!connect_info->sent && connect_info->peer == rank &&
            connect_info->bytes == rank_info->view_bytes &&
            gpuring_local_topology_fingerprint(connect_info->data, connect_info->bytes) ==
                rank_info->view) {
            return (struct gpuring_local_topology){.text = connect_info->data,
                                                   .bytes = connect_info->bytes,
                                                   .fingerprint = rank_info->view};
        }
    }
    return (struct gpuring_local_topology){.bytes = 0};
}

static int unite_views(const mca_coll_gpuring_module_t *module, const struct gpuring_wireup *wireup,
                       struct pci_doc **doc, bool *from_file)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->survey->rank_infos, &wireup->survey->map, module->rank);
    uint64_t mine = gpuring_node_ranks_rank_info(&ranks, ranks.self)->view;
    struct gpuring_local_topology *seen = malloc((size_t) ranks.count * sizeof *seen), own;
    int status;

    if (seen == NULL) {
        gpuring_error("out of memory for the topology of a node");
        return GPURING_ERR_NOMEM;
    }
    gpuring_local_topology_own(&own);
    for (int i = 0; i < ranks.count; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_node_ranks_rank_info(&ranks, i);

        seen[i] = rank_info->view == mine ? own : view_from(module->oob, ranks.rank[i], rank_info);
    }
    status = gpuring_node_topology_unite(&ranks, seen, doc, from_file);
    free(seen);
    return status;
}

bool gpuring_views_differ(const struct gpuring_wireup *wireup)
{
    return gpuring_node_topology_differ(&wireup->survey->rank_infos, &wireup->survey->map);
}

int gpuring_views_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct pci_doc *doc;
    bool from_file, parts;
    int status = unite_views(module, wireup, &doc, &from_file);

    if (status != GPURING_OK) {
        return status;
    }
    gpuring_connect_infos_free(module->oob);
    if (gpuring_wireup_writes_dumps(module) && doc != NULL &&
        gpuring_param_given(gpuring_params.topo_dump_file)) {
        gpuring_local_channels_dump(doc);
    }
    parts = doc != NULL && gpuring_survey_has_topology(wireup->survey) &&
            gpuring_network_inside(wireup, module->rank);
    gpuring_survey_local(wireup->survey, module->rank, doc, from_file, PCI_PEER_OK, parts);
    pci_doc_free(doc);
    return GPURING_OK;
}

int gpuring_rank_info_take(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int status;

    wireup->survey->rank_infos = gpuring_oob_take(module->oob);
    status = compare(module, &wireup->survey->rank_infos);
    if (status != GPURING_OK) {
        return status;
    }
    memcpy(wireup->id, gpuring_rank_info_of(&wireup->survey->rank_infos, 0)->id, sizeof wireup->id);
    gpuring_pvar_add(GPURING_PVAR_gathered, 1);
    status = gpuring_survey_nodes(wireup->survey);
    if (status == GPURING_OK) {
        status = gpuring_network_choose(wireup, module->rank, NULL);
    }
    return status != GPURING_OK || gpuring_views_differ(wireup)
               ? status
               : gpuring_views_take(module, wireup);
}
