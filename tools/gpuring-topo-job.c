/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */

/*
 * The wire-up of a rank without messages. It calls the component's functions with the data that N
 * copies of this machine would send: compare the ranks, number the nodes, merge the views of a
 * node's ranks, search for its channels, connect those of all nodes, and build the engine with its
 * plans.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "gpuring-topo-job.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/transport/transport.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/survey.h"

/* Data of a rank between the stages. */
struct rank_state {
    const struct topo_job *job;
    struct topo_figures *figures;
    int rank;
    struct gpuring_survey survey;
};

static double resident_mib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double) usage.ru_maxrss / 1024;
}

static int errno_of(int status)
{
    return status == GPURING_OK ? 0 : status == GPURING_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

/* ---- AllGather 1 ---- */

/* Fill in a rank's block, with ports on one network. */
static void rank_info_fill(const struct topo_job *job, size_t rank,
                           struct gpuring_rank_info *rank_info)
{
    const struct topo_machine *machine = job->machine;
    uint32_t position = (uint32_t) (rank % machine->gpus);

    memset(rank_info, 0, sizeof *rank_info);
    /* Identities of hosts are hashes and have no order. */
    rank_info->node = (rank / machine->gpus + 1) * UINT64_C(0x9e3779b97f4a7c15);
    rank_info->pid = (uint32_t) rank;
    rank_info->capabilities =
        GPURING_CAPABILITY_GRAPH | (job->views[position].from_file ? GPURING_CAPABILITY_FILE : 0);
    rank_info->view = job->views[position].fingerprint;
    rank_info->view_bytes = (uint32_t) job->views[position].bytes;
    snprintf(rank_info->hostname, sizeof rank_info->hostname, "node%zu", rank / machine->gpus);
    if (!job->views[position].from_file) {
        snprintf(rank_info->device.pci_bus_id, sizeof rank_info->device.pci_bus_id, "%s",
                 pci_graph_node(machine->graph, PCI_NODE_GPU, position)->busid);
    }
    rank_info->nnics = 1;
    rank_info->nics[0] =
        (struct gpuring_nic){.port = 1, .link = GPURING_NIC_INFINIBAND, .name = "mlx5_0"};
}

/* Create the result of AllGather 1. */
static int rank_infos_make(const struct topo_job *job, uint32_t ranks,
                           struct gpuring_gathered *rank_infos)
{
    rank_infos->bytes = sizeof(struct gpuring_rank_info);
    rank_infos->blocks = malloc(ranks * rank_infos->bytes);
    rank_infos->nranks = (int) ranks;
    for (size_t r = 0; rank_infos->blocks && r < ranks; r++) {
        rank_info_fill(job, r, gpuring_gathered_block(rank_infos, (int) r));
    }
    return rank_infos->blocks ? 0 : -ENOMEM;
}

/* Process the result of AllGather 1: compare the ranks and find the ranks of each node. */
static int rank_infos_consume(struct rank_state *state)
{
    struct topo_figures *figures = state->figures;
    int rank, parameter,
        rc = rank_infos_make(state->job, figures->ranks, &state->survey.rank_infos);
    double since = topo_cpu_ms();

    if (rc != 0) {
        return rc;
    }
    if (gpuring_node_map_compare(&state->survey.rank_infos, &rank, &parameter) != GPURING_AGREED) {
        return -EPROTO;
    }
    rc = errno_of(gpuring_survey_nodes(&state->survey));
    if (rc == 0 && state->survey.map.nnodes != (int) figures->nodes) {
        rc = -EPROTO;
    }
    figures->compare_ms = topo_cpu_ms() - since;
    figures->rank_info_bytes = figures->ranks * state->survey.rank_infos.bytes;
    return rc;
}

/* ---- Views, and the channels of this node ---- */

/* Count the messages with views that this rank sends and receives. */
static void views_count(struct topo_figures *figures, const struct gpuring_node_ranks *ranks)
{
    const struct gpuring_rank_info *own = gpuring_node_ranks_rank_info(ranks, ranks->self);
    bool first = gpuring_node_topology_first_view(ranks, ranks->self);

    for (int i = 0; i < ranks->count; i++) {
        const struct gpuring_rank_info *rank_info = gpuring_node_ranks_rank_info(ranks, i);
        bool new_view = gpuring_node_topology_first_view(ranks, i);

        if (rank_info->view != own->view) {
            figures->view_bytes +=
                (new_view ? rank_info->view_bytes : 0) + (first ? own->view_bytes : 0);
        }
    }
}

static int views_consume(struct rank_state *state)
{
    const struct topo_options *options = state->job->machine->options;
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&state->survey.rank_infos, &state->survey.map, state->rank);
    struct pci_doc *doc = NULL;
    bool from_file = false;
    double since = topo_cpu_ms(), united;
    int rc = errno_of(gpuring_node_topology_unite(&ranks, state->job->views, &doc, &from_file));

    views_count(state->figures, &ranks);
    united = topo_cpu_ms();
    state->figures->views_ms = united - since;
    if (rc == 0) {
        gpuring_survey_local(&state->survey, state->rank, doc, from_file,
                             options->p2p == 0 ? PCI_PEER_NO_P2P : PCI_PEER_OK, true);
        state->figures->search_ms = topo_cpu_ms() - united;
    }
    pci_doc_free(doc);
    return rc;
}

/* ---- AllGather 2 ---- */

/* Create its result. */
static int blocks_make(const struct topo_job *job, uint32_t ranks, struct gpuring_gathered *blocks)
{
    blocks->bytes = sizeof(struct gpuring_channel_block);
    blocks->blocks = malloc(ranks * blocks->bytes);
    blocks->nranks = (int) ranks;
    for (size_t r = 0; blocks->blocks && r < ranks; r++) {
        struct gpuring_channel_block *block = gpuring_gathered_block(blocks, (int) r);

        *block = job->blocks[r % job->machine->gpus];
    }
    return blocks->blocks ? 0 : -ENOMEM;
}

static int blocks_consume(struct rank_state *state)
{
    struct topo_figures *figures = state->figures;
    struct gpuring_gathered blocks = {0};
    int rc = blocks_make(state->job, figures->ranks, &blocks);
    double since = topo_cpu_ms();
    bool divided;

    if (rc != 0) {
        return rc;
    }
    rc = errno_of(gpuring_survey_divide(&state->survey, &blocks, &divided));
    if (rc == 0) {
        gpuring_survey_connect(&state->survey);
    }
    figures->connect_ms = topo_cpu_ms() - since;
    figures->wire_bytes = figures->ranks * sizeof(struct gpuring_channel_block);
    figures->rings = state->survey.channels.nrings;
    figures->trees = state->survey.channels.ntrees;
    return rc;
}

/* ---- Plans, and the messages to neighbours ---- */

static uint64_t plan_bytes(const struct gpuring_plan *plan)
{
    return sizeof *plan + plan->nlanes * sizeof *plan->lanes +
           (plan->nrecvs + plan->nsends) * sizeof *plan->recvs +
           plan->nsteps * sizeof *plan->steps + plan->nrefs * sizeof *plan->refs;
}

static int by_peer(const void *a, const void *b)
{
    int left = ((const struct gpuring_plan_conn *) a)->peer;
    int right = ((const struct gpuring_plan_conn *) b)->peer;

    return (left > right) - (left < right);
}

/* Count the maximum size of the messages to neighbours. Sorts CONNS, this rank's connections. */
static void connect_infos_count(const struct rank_state *state, struct gpuring_plan_conn *conns)
{
    const int *node = state->survey.map.node;
    struct topo_figures *figures = state->figures;
    uint32_t same = 0;

    qsort(conns, figures->connections, sizeof *conns, by_peer);
    for (uint32_t i = 0; i < figures->connections; i++) {
        same++;
        if (i + 1 == figures->connections || conns[i + 1].peer != conns[i].peer) {
            figures->connect_info_bytes +=
                gpuring_transport_connect_info_room(same, node[conns[i].peer] != node[state->rank]);
            figures->neighbours++;
            same = 0;
        }
    }
}

static int plans_count(const struct rank_state *state, const struct gpuring_engine *service)
{
    struct topo_figures *figures = state->figures;
    struct gpuring_plan_conn *conns;
    size_t room = 0;

    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        const struct gpuring_plan *plan = service->base[i].plan;

        room += plan ? plan->nrecvs + plan->nsends : 0;
        figures->plan_bytes += plan ? plan_bytes(plan) : 0;
    }
    conns = malloc((room + 1) * sizeof *conns);
    if (!conns) {
        return -ENOMEM;
    }
    for (int i = 0; i < GPURING_ALGORITHM_COUNT; i++) {
        const struct gpuring_plan *plan = service->base[i].plan;

        if (plan && !(service->late & 1u << i)) {
            memcpy(conns + figures->connections, plan->recvs, plan->nrecvs * sizeof *conns);
            figures->connections += plan->nrecvs;
            memcpy(conns + figures->connections, plan->sends, plan->nsends * sizeof *conns);
            figures->connections += plan->nsends;
        }
    }
    connect_infos_count(state, conns);
    free(conns);
    return 0;
}

static int service_make(struct rank_state *state)
{
    struct gpuring_device *device = NULL;
    struct gpuring_engine *service = NULL;
    struct gpuring_channel positions[GPURING_MAX_CHANNELS];
    struct gpuring_engine_config config;
    double since = topo_cpu_ms();
    int rc = errno_of(gpuring_device_host.open(&device));

    if (rc != 0) {
        return rc;
    }
    config = gpuring_plans_config(&state->survey.channels, &state->survey.facts,
                                  &(struct gpuring_tuning){.count = 0}, state->rank, positions);
    rc = errno_of(gpuring_engine_create(&config, &gpuring_device_host, device, &service));
    state->figures->plan_ms = topo_cpu_ms() - since;
    if (rc == 0) {
        rc = plans_count(state, service);
    }
    gpuring_engine_destroy(service);
    gpuring_device_host.close(device);
    return rc;
}

/* ---- The stages ---- */

/* Execute the stages up to AllGather 2. */
static int state_begin(struct rank_state *state)
{
    int rc = rank_infos_consume(state);

    return rc ? rc : views_consume(state);
}

void topo_job_run(const struct topo_job *job, struct topo_figures *figures)
{
    uint32_t gpus = job->machine->gpus;
    struct rank_state state = {.job = job, .figures = figures};
    double before = resident_mib();
    int rc;

    memset(figures, 0, sizeof *figures);
    figures->nodes = job->nodes;
    figures->ranks = job->nodes * gpus;
    state.rank = (int) (job->nodes / 2 * gpus + gpus - 1);
    rc = state_begin(&state);
    rc = rc ? rc : blocks_consume(&state);
    if (rc == 0 && gpuring_param_given(gpuring_params.graph_dump_file)) {
        gpuring_channels_dump(&state.survey.channels);
    }
    /* A single rank is not served, because it has no peer. */
    figures->rc = rc || figures->ranks == 1 ? rc : service_make(&state);
    figures->memory_mib = resident_mib() - before;
    gpuring_survey_fini(&state.survey);
}

/* ---- Data that the ranks of a node would send ---- */

/* Remove all other GPUs from the document. */
static void doc_narrow(struct pci_doc *doc, uint32_t index)
{
    struct pci_elem *kept = NULL, *gpu;
    uint32_t number = 0;

    while ((gpu = pci_doc_next(doc, kept, "gpu")) != NULL) {
        if (number++ == index) {
            kept = gpu;
        } else {
            (void) pci_elem_remove(doc, gpu);
        }
    }
}

/* Write the machine as text, or the part that the rank at INDEX sees in a container. */
static int text_make(const struct topo_job *job, uint32_t index, char **text, size_t *bytes)
{
    struct pci_error error = {""};
    struct pci_doc *doc = NULL;
    char *whole = NULL;
    int rc = pci_doc_format(job->machine->doc, &whole, bytes, &error);

    if (rc != 0 || !job->machine->options->containers) {
        *text = whole;
        return rc;
    }
    rc = pci_doc_parse(whole, *bytes, &doc, &error);
    free(whole);
    if (rc == 0) {
        doc_narrow(doc, index);
        rc = pci_doc_format(doc, text, bytes, &error);
    }
    pci_doc_free(doc);
    return rc;
}

static int views_make(struct topo_job *job)
{
    uint32_t gpus = job->machine->gpus;
    size_t bytes = 0;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < gpus; i++) {
        if (i == 0 || job->machine->options->containers) {
            rc = text_make(job, i, &job->texts[job->ntexts], &bytes);
            job->ntexts += rc == 0;
        }
        if (rc == 0) {
            const char *text = job->texts[job->ntexts - 1];

            job->views[i] = (struct gpuring_local_topology){
                .text = text,
                .bytes = bytes,
                .fingerprint = gpuring_local_topology_fingerprint(text, bytes),
                .from_file = job->machine->options->topo != NULL};
        }
    }
    return rc;
}

/* Prepare the blocks with a job of one or two nodes, because more nodes have the same channels. */
static int blocks_prepare(struct topo_job *job)
{
    struct topo_figures figures = {.nodes = job->nodes > 1 ? 2 : 1};
    int rc = 0;

    figures.ranks = figures.nodes * job->machine->gpus;
    for (uint32_t i = 0; rc == 0 && i < job->machine->gpus; i++) {
        struct rank_state state = {.job = job, .figures = &figures, .rank = (int) i};

        rc = state_begin(&state);
        job->blocks[i] = state.survey.local.block;
        gpuring_survey_fini(&state.survey);
    }
    return rc;
}

/* Return the value of a level parameter that means this path class; -1: auto. */
static int level_of(int class)
{
    int level = GPURING_PARAM_LEVEL_SYS;

    while (level > GPURING_PARAM_LEVEL_AUTO && gpuring_level_class(level) != class) {
        level--;
    }
    return level;
}

static void log_print(enum gpuring_log_level level, const char *text)
{
    (void) level;
    topo_message("%s", text);
}

int topo_job_prepare(const struct topo_machine *machine, uint32_t nodes, struct topo_job *job)
{
    const struct topo_options *options = machine->options;
    int rc;

    memset(job, 0, sizeof *job);
    job->machine = machine;
    job->nodes = nodes;
    gpuring_log_set(log_print, options->verbose ? GPURING_LOG_DEBUG : GPURING_LOG_WARN);
    gpuring_params.device = options->topo ? GPURING_PARAM_DEVICE_HOST : GPURING_PARAM_DEVICE_AUTO;
    gpuring_params.topo_file = (char *) options->topo;
    gpuring_params.graph_dump_file = (char *) options->graph;
    gpuring_params.p2p_level = level_of(options->p2p_level);
    gpuring_params.gdr_level = level_of(options->gdr_level);
    job->views = calloc(machine->gpus, sizeof *job->views);
    job->texts = calloc(machine->gpus, sizeof *job->texts);
    job->blocks = calloc(machine->gpus, sizeof *job->blocks);
    rc = job->views && job->texts && job->blocks ? views_make(job) : -ENOMEM;
    return rc ? rc : blocks_prepare(job);
}

void topo_job_free(struct topo_job *job)
{
    for (uint32_t i = 0; i < job->ntexts; i++) {
        free(job->texts[i]);
    }
    free(job->texts);
    free(job->views);
    free(job->blocks);
}
