/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/connect.h"

#include <stdlib.h>

#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/agreement.h"
#include "mca/coll_gpuring/wireup/hello.h"
#include "mca/coll_gpuring/wireup/plans.h"

#define TRY_SPARE_SECONDS 10.0 /* where another network may take the place */

/* The algorithm that was asked for is not to be had. */
static void tell_missing(const mca_coll_gpuring_module_t *module,
                         const struct gpuring_engine *engine)
{
    int asked = engine->choice_config.algorithm;

    if (module->rank == 0 && asked >= 0 && asked < GPURING_ALGORITHM_COUNT &&
        !engine->choice_config.offered[asked]) {
        gpuring_info(
            "[not-offered] coll_gpuring_algorithm=%s is not offered to a communicator of %d ranks "
            "(direct and two-shot: at most %d ranks; two-shot: on one node): another one is "
            "chosen by size",
            gpuring_algorithm_text((enum gpuring_algorithm) asked), module->nranks,
            GPURING_SELECT_DIRECT_RANKS);
    }
}

/* What the tuning file says of this communicator. */
static void tell_tuning(const mca_coll_gpuring_module_t *module,
                        const struct gpuring_engine *engine)
{
    const struct gpuring_select_config *config = &engine->choice_config;
    char text[256], sizes[1024] = "[no-rule] it has no rule for these";

    if (module->rank != 0 || !gpuring_log_enabled(GPURING_LOG_INFO)) {
        return;
    }
    gpuring_module_text(module, text, sizeof text);
    if (config->algorithm == GPURING_SELECT_PREVIOUS) {
        gpuring_info("%s: coll_gpuring_algorithm=previous leaves all sizes to %s", text,
                     gpuring_compat_component(module->previous.allreduce_module));
    } else if (gpuring_process.tuning.count > 0) {
        if (config->tuned != NULL) {
            gpuring_tuned_text(config->tuned, sizes, sizeof sizes);
        }
        gpuring_info(
            "[tuning] %s: tuning file %s, %s memory, %d node(s), %d ranks: %s (bytes; previous is "
            "%s)%s",
            text, gpuring_params.tuning_file, config->host ? "host" : "cuda", config->nnodes,
            config->nranks, sizes, gpuring_compat_component(module->previous.allreduce_module),
            config->algorithm >= 0 || config->protocol >= 0
                ? "; an algorithm or protocol that was asked for goes first"
                : "");
    }
}

static int find_tuning(struct gpuring_engine *engine)
{
    struct gpuring_select_config *config = &engine->choice_config;
    int status = gpuring_tuned_find(
        &gpuring_process.tuning, config->host ? GPURING_TUNING_HOST : GPURING_TUNING_CUDA,
        (uint64_t) config->nnodes, (uint64_t) config->nranks, &engine->tuned);

    if (status != GPURING_OK) {
        gpuring_error("out of memory for the rules of the tuning file");
    }
    config->tuned = engine->tuned;
    return status;
}

int gpuring_wireup_service(const mca_coll_gpuring_module_t *module,
                           const struct gpuring_wireup_known *known, struct gpuring_engine **engine)
{
    int status =
        gpuring_plans_engine(known->layout, known->hellos, &gpuring_process.tuning, module->rank,
                             gpuring_process.device_ops, gpuring_process.device, engine);

    if (status == GPURING_OK) {
        tell_missing(module, *engine);
        status = find_tuning(*engine);
    }
    if (status == GPURING_OK) {
        tell_tuning(module, *engine);
    }
    if (status == GPURING_OK && gpuring_params.check == GPURING_PARAM_CHECK_PLANS) {
        status = gpuring_wireup_check_plans(known->layout, known->hellos);
    }
    return status;
}

/* Which devices of the net carry the connections, and which of these may reach the GPU's memory
 * directly: what the transport asks for. */
struct devices {
    struct gpuring_channel_nics channels;
    const struct gpuring_nic_select *routes;
    const struct gpuring_net_device *devices;
    int count;
};

static int way_of(enum gpuring_net_direction direction)
{
    return direction == GPURING_NET_SEND ? GPURING_NIC_OUT : GPURING_NIC_IN;
}

static int device_of_channel(void *context, enum gpuring_algorithm algorithm, uint32_t channel,
                             enum gpuring_net_direction direction)
{
    const struct devices *found = context;

    channel %= GPURING_MAX_CHANNELS;
    return algorithm == GPURING_ALGORITHM_TREE ? found->channels.tree[channel][way_of(direction)]
                                               : found->channels.ring[channel][way_of(direction)];
}

/* Where the topology does not know the device nobody knows how far it is. */
static bool near_enough(void *context, int net_device, enum gpuring_net_direction direction)
{
    const struct devices *found = context;

    return net_device < found->count &&
           gpuring_nic_select_direct(found->routes, &found->devices[net_device], way_of(direction),
                                     gpuring_params.gdr_level == GPURING_PARAM_LEVEL_SYS);
}

/* Fills *found, and lets the config, which has its rank and its net, ask it. */
static void find_devices(const struct gpuring_channels *layout,
                         const struct gpuring_nic_select *routes, struct devices *found,
                         struct gpuring_transport_config *config)
{
    *found = (struct devices){.routes = routes};
    if (config->net_ops->devices(config->net, &found->devices, &found->count) != GPURING_OK) {
        found->count = 0;
    }
    gpuring_channels_nics(layout, config->rank, routes, found->devices, found->count,
                          &found->channels);
    config->net_device = device_of_channel;
    config->net_device_context = found;
    config->net_direct = near_enough;
    config->net_direct_context = found;
}

/* How long the first chunks may take: less than what fails the wire-up as a whole. */
static double try_seconds(const struct gpuring_net_choice *net)
{
    double limit = net->spare ? TRY_SPARE_SECONDS : 0;

    return gpuring_params.timeout > 0 && (limit == 0 || gpuring_params.timeout < 2 * limit)
               ? gpuring_params.timeout / 2.0
               : limit;
}

int gpuring_wireup_transport(const mca_coll_gpuring_module_t *module,
                             const struct gpuring_wireup_known *known,
                             struct gpuring_engine *engine)
{
    const struct gpuring_node_map *members = known->members;
    struct devices devices;
    struct gpuring_transport_config config = {
        .rank = module->rank,
        .nranks = module->nranks,
        .node = members->node,
        .hostname = gpuring_hello_of(known->hellos, module->rank)->hostname,
        .unique_id = {known->id[0], known->id[1]},
    };

    if (members->nnodes > 1) {
        struct gpuring_network network;
        int status =
            gpuring_network_open(known->net, known->hellos, members->node, module->rank, &network);

        if (status != GPURING_OK) {
            return status;
        }
        config.net_ops = network.ops;
        config.net = network.net;
        find_devices(known->layout, known->routes, &devices, &config);
        config.proxy = gpuring_process.proxy;
        config.try_seconds = try_seconds(known->net);
    }
    return gpuring_engine_transport(engine, &config);
}

int gpuring_wireup_letters(const struct gpuring_transport *transport, const struct gpuring_oob *oob,
                           struct gpuring_letters *letters)
{
    int count = gpuring_transport_neighbours(transport), status;
    struct gpuring_transport_letter letter;
    size_t bytes = 0;

    for (int i = 0; i < count; i++) {
        gpuring_transport_letter(transport, i, &letter);
        bytes += letter.bytes + letter.room;
    }
    status = gpuring_letters_init(letters, oob, 2 * count, bytes);
    for (int i = 0; status == GPURING_OK && i < count; i++) {
        gpuring_transport_letter(transport, i, &letter);
        gpuring_letters_add(letters, letter.peer, NULL, letter.room);
        gpuring_letters_add(letters, letter.peer, letter.data, letter.bytes);
    }
    return status;
}

int gpuring_wireup_connect(struct gpuring_transport *transport,
                           const struct gpuring_letters *letters)
{
    int count = gpuring_transport_neighbours(transport), status = GPURING_ERR_NOMEM;
    const void **texts = malloc(((size_t) count + 1) * sizeof *texts);
    size_t *bytes = malloc(((size_t) count + 1) * sizeof *bytes);

    if (texts == NULL || bytes == NULL) {
        gpuring_error("out of memory to connect with %d ranks", count);
    } else {
        for (int i = 0; i < count; i++) { /* each pair begins with the one that came */
            texts[i] = letters->letter[2 * i].data;
            bytes[i] = letters->letter[2 * i].bytes;
        }
        status = gpuring_transport_connect(transport, texts, bytes);
    }
    free(texts);
    free(bytes);
    return status;
}
