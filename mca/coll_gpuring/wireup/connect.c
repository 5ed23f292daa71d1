/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/compat.h"
#include "mca/coll_gpuring/net/cores.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/plans.h"
#include "mca/coll_gpuring/wireup/state.h"

/* time limit of the first chunks if another network may replace this one */
#define TRY_SPARE_SECONDS 10.0

/* Log that the selected algorithm or protocol is not available. */
static void log_not_offered(const mca_coll_gpuring_module_t *module,
                            const struct gpuring_engine *engine)
{
    int asked = engine->choice_config.algorithm;

    if (module->rank == 0 && asked >= 0 && asked < GPURING_ALGORITHM_COUNT &&
        (engine->choice_config.plans[GPURING_COLLECTIVE_ALLREDUCE] & 1u << asked) == 0) {
        gpuring_info(
            "[not-offered] coll_gpuring_algorithm=%s is not offered to a communicator of %d ranks "
            "for allreduce (direct and two-shot: at most %d ranks on one node or with GPUs; "
            "two-shot between nodes: the same number of ranks on each, 2 or more, and no GPUs; "
            "coll_gpuring_deterministic: no ring): another one is chosen by size",
            gpuring_algorithm_text((enum gpuring_algorithm) asked), module->nranks,
            GPURING_DIRECT_MAX_VECTOR_RANKS);
    }
    if (module->rank == 0 && engine->choice_config.protocol == GPURING_PROTOCOL_LL128 &&
        !engine->choice_config.host && engine->choice_config.model.ll128 == 0) {
        gpuring_info("[no-ll128] coll_gpuring_protocol=ll128 has no effect: it is not known "
                     "that the links between the GPUs keep 128-byte stores whole, as NVLink "
                     "does; another protocol is chosen by size");
    }
}

/* Log the rules of the tuning file for this communicator, but not for its tracks, which replace no
 * other module. */
static void log_tuning(const mca_coll_gpuring_module_t *module, const struct gpuring_engine *engine)
{
    const struct gpuring_select_config *config = &engine->choice_config;
    char text[256], sizes[1024] = "[no-rule] it has no rule for these";

    if (module->rank != 0 || module->owner != module || !gpuring_log_enabled(GPURING_LOG_INFO)) {
        return;
    }
    gpuring_module_text(module, text, sizeof text);
    if (config->algorithm == GPURING_SELECT_PREVIOUS) {
        gpuring_info("%s: coll_gpuring_algorithm=previous delegates all sizes to %s", text,
                     gpuring_compat_component(module->previous.allreduce_module));
    } else if (gpuring_process.tuning.count > 0) {
        if (engine->tuning.count > 0) {
            gpuring_tuning_summary(&engine->tuning, sizes, sizeof sizes);
        }
        gpuring_info(
            "[tuning] %s: tuning file %s, %s memory, %d node(s), %d ranks: %s (bytes; previous is "
            "%s)%s",
            text, gpuring_params.tuning_file, config->host ? "host" : "cuda", config->nnodes,
            config->nranks, sizes, gpuring_compat_component(module->previous.allreduce_module),
            config->algorithm >= 0 || config->protocol >= 0
                ? "; a selected algorithm or protocol overrides it"
                : "");
    }
}

static int find_tuning(struct gpuring_engine *engine)
{
    struct gpuring_select_config *config = &engine->choice_config;
    int status = gpuring_tuning_match(
        &gpuring_process.tuning, config->host ? GPURING_TUNING_HOST : GPURING_TUNING_CUDA,
        (uint64_t) config->nnodes, (uint64_t) config->nranks, &engine->tuning);

    if (status != GPURING_OK) {
        gpuring_error("out of memory for the rules of the tuning file");
    }
    config->tuning = &engine->tuning;
    return status;
}

/*
 * coll_gpuring_check=plans: prove the plans of all ranks before they run. Returns 0 (also if the
 * algorithm is not eligible), GPURING_ERR_DATA with a help text, or GPURING_ERR_NOMEM. All ranks
 * get the same result.
 */
static int check_set(int set, const struct gpuring_channels *channels,
                     const struct gpuring_plans_facts *facts, bool one_by_one)
{
    int n = channels->map->nranks, status = GPURING_OK;
    struct gpuring_plan **plans = calloc((size_t) n, sizeof(struct gpuring_plan *));
    struct gpuring_channel positions[GPURING_MAX_CHANNELS];
    char text[512] = "";

    if (plans == NULL) {
        gpuring_error("out of memory to check the plans of %d ranks", n);
        return GPURING_ERR_NOMEM;
    }
    for (int rank = 0; rank < n && status == GPURING_OK; rank++) {
        struct gpuring_engine_config config =
            gpuring_plans_config(channels, facts, &gpuring_process.tuning, rank, positions);

        config.one_by_one = one_by_one;
        status = gpuring_engine_plan(&config, set, &plans[rank]);
    }
    if (status == GPURING_OK && plans[0] != NULL) {
        status = gpuring_plan_check((const struct gpuring_plan *const *) plans, n,
                                    GPURING_ENGINE_SLOTS / GPURING_SLICES, text, sizeof text);
        if (status == GPURING_ERR_DATA) {
            gpuring_compat_help("no plan", text);
        } else if (status == GPURING_OK) {
            gpuring_info("[plans-proven] check of plans: %s over %d ranks in %u lanes is proven",
                         gpuring_algorithm_text(gpuring_set_algorithm(set)), n, plans[0]->nlanes);
        }
    }
    for (int rank = 0; rank < n; rank++) {
        gpuring_plan_free(plans[rank]);
    }
    free(plans);
    return status;
}

int gpuring_wireup_engine(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_channel positions[GPURING_MAX_CHANNELS];
    struct gpuring_engine_config config =
        gpuring_plans_config(&wireup->survey->channels, &wireup->survey->facts,
                             &gpuring_process.tuning, module->rank, positions);
    int status = gpuring_plans_order(&wireup->survey->channels, &config.order);

    config.one_by_one =
        wireup->survey->map.nnodes > 1 && wireup->net.kind == GPURING_PARAM_NET_VERBS;
    if (status == GPURING_OK) {
        status = gpuring_engine_create(&config, gpuring_process.device_ops, gpuring_process.device,
                                       &wireup->engine);
    }
    if (status != GPURING_OK) {
        return status;
    }
    wireup->engine->key = wireup->key;
    status = find_tuning(wireup->engine);
    if (status != GPURING_OK) {
        return status;
    }
    log_not_offered(module, wireup->engine);
    log_tuning(module, wireup->engine);
    for (int i = 0; status == GPURING_OK && i < GPURING_SET_COUNT; i++) {
        if (gpuring_params.check == GPURING_PARAM_CHECK_PLANS &&
            wireup->engine->base[i].plan != NULL) {
            status =
                check_set(i, &wireup->survey->channels, &wireup->survey->facts, config.one_by_one);
        }
    }
    return status;
}

/* A rank's block of the gathering of devices: from it, all ranks compute which of its devices it
 * uses for a connection. */
struct device_block {
    uint64_t process; /* random */
    struct gpuring_channel_nics channels;
    struct gpuring_nic_turns turns; /* used if no topology has NICs; otherwise ndevices is 0 */
};

/* The devices of the net that carry the connections, and those that may access GPU memory directly.
 * The transport gets them through device_of_channel. */
struct devices {
    bool one_net; /* true: exchanges may use each rank's own device; false: the channels' devices */
    const struct gpuring_nic_select *routes;
    const struct gpuring_net_devices *all;
    const struct gpuring_node_map *map;
    const struct gpuring_gathered *blocks; /* of all ranks; without blocks: not gathered */
    struct device_block own;
    int rank;
};

/* Return the number of earlier ranks of the same node. */
static int local_of(const struct gpuring_node_map *map, int rank)
{
    int at = map->position[rank], first = at;

    while (first > 0 && map->node[map->order[first - 1]] == map->node[rank]) {
        first--;
    }
    return at - first;
}

/* Return the device that the rank of the block uses for a connection with `peer`. */
static int device_of(const struct devices *found, const struct device_block *block,
                     enum gpuring_algorithm algorithm, int peer, uint32_t channel, int way)
{
    bool exchange =
        algorithm == GPURING_ALGORITHM_DIRECT || algorithm == GPURING_ALGORITHM_TWO_SHOT;

    channel %= GPURING_MAX_CHANNELS;
    return block->turns.ndevices > 0
               ? gpuring_nic_turns_device(&block->turns, local_of(found->map, peer), channel)
           : algorithm == GPURING_ALGORITHM_TREE ? block->channels.tree[channel][way]
           : found->one_net && exchange          ? block->channels.own[way]
                                                 : block->channels.ring[channel][way];
}

/* Return the device of a connection (gpuring_transport_config). If the device is not in the
 * topology, its distance from the GPU is unknown. */
static int device_of_channel(void *context, enum gpuring_algorithm algorithm, int peer,
                             uint32_t channel, enum gpuring_net_direction direction, bool *direct,
                             struct gpuring_net_peer *end)
{
    const struct devices *found = context;
    bool sends = direction == GPURING_NET_SEND;
    int way = sends ? GPURING_NIC_OUT : GPURING_NIC_IN;
    int device = device_of(found, &found->own, algorithm, peer, channel, way);

    *direct = device < found->all->count &&
              gpuring_nic_select_direct(found->routes, &found->all->device[device], way,
                                        gpuring_params.gdr_level == GPURING_PARAM_LEVEL_SYS);
    if (found->blocks->blocks != NULL) {
        const struct device_block *block = gpuring_gathered_block(found->blocks, peer);

        end->process = block->process;
        end->device = device_of(found, block, algorithm, found->rank, channel,
                                sends ? GPURING_NIC_IN : GPURING_NIC_OUT);
    }
    return device;
}

/* Let the ranks of the node use the devices in turn, because no topology assigns them. */
static int take_turns(const struct gpuring_wireup *wireup, struct devices *found)
{
    struct gpuring_node_ranks ranks =
        gpuring_node_ranks_of(&wireup->survey->rank_infos, &wireup->survey->map, found->rank);
    cpu_set_t *cores = calloc((size_t) ranks.count, sizeof *cores);

    if (cores == NULL) {
        gpuring_error("out of memory for the cores of %d ranks", ranks.count);
        return GPURING_ERR_NOMEM;
    }
    for (int i = 0; i <= ranks.self; i++) {
        gpuring_cores_add_process(&cores[i], (pid_t) gpuring_node_ranks_rank_info(&ranks, i)->pid);
    }
    gpuring_nic_turns_find("/sys", found->all, cores, ranks.self, found->one_net,
                           &found->own.turns);
    free(cores);
    return GPURING_OK;
}

/* Find the devices of this rank. The config has the rank and its net. */
static int find_devices(const struct gpuring_wireup *wireup,
                        const struct gpuring_transport_config *config, struct devices *found)
{
    const struct gpuring_channels *channels = &wireup->survey->channels;
    const struct gpuring_nic_select *routes = &wireup->survey->local.nics;

    *found = (struct devices){.one_net = wireup->net.one_net,
                              .routes = routes,
                              .all = config->net_ops->devices(config->net),
                              .map = &wireup->survey->map,
                              .blocks = &wireup->survey->devices,
                              .rank = config->rank};
    if (found->all->count == 0) {
        return GPURING_OK; /* MPI chooses */
    }
    if (!channels->engine || routes->nnics == 0) {
        return take_turns(wireup, found);
    }
    gpuring_channels_nics(channels, config->rank, routes, found->all->device, found->all->count,
                          &found->own.channels);
    return GPURING_OK;
}

static uint64_t process_number;

static void choose_process_number(void)
{
    uint64_t random[2];

    gpuring_identity_unique(random);
    process_number = random[0];
}

int gpuring_wireup_send_devices(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct gpuring_transport_config config = {.rank = module->rank};
    struct device_block *block = gpuring_oob_gather(module->oob, sizeof *block);
    struct devices found;
    int status = gpuring_network_open(module, wireup, &config);

    if (status == GPURING_OK) {
        status = find_devices(wireup, &config, &found);
    }
    if (status == GPURING_OK && block != NULL) {
        pthread_once(&once, choose_process_number);
        *block = found.own;
        block->process = process_number;
    }
    return status;
}

static bool may_map(void *local, int local_rank)
{
    return gpuring_local_channels_may_map(local, local_rank);
}

/* Return the time limit of the first chunks, which is shorter than that of the wire-up. */
static double try_seconds(const struct gpuring_net_choice *net)
{
    double limit = net->spare ? TRY_SPARE_SECONDS : 0;

    return gpuring_params.timeout > 0 && (limit == 0 || gpuring_params.timeout < 2 * limit)
               ? gpuring_params.timeout / 2.0
               : limit;
}

/* Allocate the connect infos for the handles to and from all neighbours. */
static int prepare_handles(const mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_transport *transport = wireup->transport;
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < gpuring_transport_neighbours(transport); i++) {
        const struct gpuring_transport_connect_info *connect_info =
            gpuring_transport_connect_info(transport, i);

        status =
            gpuring_connect_infos_add(module->oob, connect_info->peer, NULL, connect_info->room);
        if (status == GPURING_OK) {
            status = gpuring_connect_infos_add(module->oob, connect_info->peer, connect_info->data,
                                               connect_info->bytes);
        }
    }
    return status;
}

int gpuring_wireup_transport(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct devices devices;
    struct gpuring_transport_config config = {
        .rank = module->rank,
        .nranks = module->nranks,
        .node = wireup->survey->map.node,
        .hostname = gpuring_rank_info_of(&wireup->survey->rank_infos, module->rank)->hostname,
        .unique_id = {wireup->id[0], wireup->id[1] + gpuring_wireup_number(wireup)},
        .may_map = may_map,
        .may_map_context = &wireup->survey->local,
    };
    int status = GPURING_OK;

    if (wireup->survey->map.nnodes > 1) {
        status = gpuring_network_open(module, wireup, &config);
        if (status != GPURING_OK) {
            return status;
        }
        status = find_devices(wireup, &config, &devices);
        if (status == GPURING_OK && devices.blocks->blocks != NULL) {
            /* The ranks may have been bound to other cores since the devices were gathered. */
            memcpy(&devices.own, gpuring_gathered_block(devices.blocks, module->rank),
                   sizeof devices.own);
        }
        config.net_device = device_of_channel;
        config.net_device_context = &devices;
        config.try_seconds = try_seconds(&wireup->net);
    }
    if (status == GPURING_OK) {
        status =
            gpuring_engine_transport(wireup->engine, wireup->sets, &config, &wireup->transport);
    }
    return status == GPURING_OK ? prepare_handles(module, wireup) : status;
}

int gpuring_wireup_connect(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_transport *transport = wireup->transport;
    const struct gpuring_message *connect_info = module->oob->connect_info;
    int status = GPURING_OK;

    for (int i = 0; status == GPURING_OK && i < gpuring_transport_neighbours(transport); i++) {
        /* each pair of connect infos begins with the received one */
        status = gpuring_transport_connect(transport, i, connect_info[2 * i].data,
                                           connect_info[2 * i].bytes);
    }
    return status == GPURING_OK ? gpuring_transport_connected(transport) : status;
}
