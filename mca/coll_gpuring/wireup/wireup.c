/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/wireup/wireup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll_gpuring/engine/call.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/pvars.h"
#include "mca/coll_gpuring/topology/identity.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/state.h"

/* Bits of the marks of failures: */
#define MARK_CONNECTING 1 /* another net may replace the failed one */
#define MARK_KEEPS      2 /* the rank keeps connections that it could give up */

/* ---- Conditions of the stages. All ranks get the same answers ---- */

static bool all_have_topology(const struct gpuring_wireup *wireup)
{
    return gpuring_survey_has_topology(wireup->survey);
}

static bool probes_peers(const struct gpuring_wireup *wireup)
{
    return gpuring_transport_probe_bytes(wireup->transport) > 0;
}

static bool tests_lines(const struct gpuring_wireup *wireup)
{
    return wireup->test_lines;
}

static bool several_nodes(const struct gpuring_wireup *wireup)
{
    return wireup->survey->map.nnodes > 1;
}

/* Return true if the ranks must gather their devices, because queue pairs are shared by all
 * connections between the same processes and devices. */
static bool shares_queue_pairs(const struct gpuring_wireup *wireup)
{
    return several_nodes(wireup) && wireup->net.kind == GPURING_PARAM_NET_VERBS &&
           wireup->survey->devices.blocks == NULL;
}

static bool is_late(const struct gpuring_wireup *wireup)
{
    return wireup->late;
}

static bool cleared(const struct gpuring_wireup *wireup)
{
    return wireup->cleared;
}

/* ---- Actions of the stages before and after their messages. They return 0, or the status with
 * which this rank cannot continue ---- */

static int send_channels(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_channel_block *block = gpuring_oob_gather(module->oob, sizeof *block);

    if (block != NULL) {
        *block = wireup->survey->local.block;
    }
    return GPURING_OK;
}

static int take_channels(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered blocks = gpuring_oob_take(module->oob);
    bool divided;
    int status = gpuring_survey_divide(wireup->survey, &blocks, &divided);

    return divided ? gpuring_network_choose(wireup, module->rank, NULL) : status;
}

static int send_call(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    uint64_t *made = gpuring_oob_gather(module->oob, sizeof *made);

    if (made != NULL) {
        *made = wireup->made;
    }
    return GPURING_OK;
}

/* Compare this rank's call with those of the others. If any two differ, all ranks fail. */
static int take_calls(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    struct gpuring_gathered calls = gpuring_oob_take(module->oob);
    int status = GPURING_OK;

    for (int rank = 0; rank < calls.nranks && status == GPURING_OK; rank++) {
        uint64_t other = *(const uint64_t *) gpuring_gathered_block(&calls, rank);

        if (other != wireup->made) {
            status = wireup->differs(module, wireup->made, rank, other);
        }
    }
    gpuring_gathered_clear(&calls);
    return status;
}

/* Create the channels, unless they exist. From now on another net may replace this one. */
static void prepare_channels(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    module->oob->mark = MARK_CONNECTING | (gpuring_reuse_possible() ? MARK_KEEPS : 0);
    if (wireup->survey->channels.map == NULL) {
        gpuring_survey_connect(wireup->survey);
    }
}

static int send_devices(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    prepare_channels(module, wireup);
    return gpuring_wireup_send_devices(module, wireup);
}

static int take_devices(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    wireup->survey->devices = gpuring_oob_take(module->oob);
    return GPURING_OK;
}

/* Create the plans and this rank's ends of the connections. */
static int prepare_connections(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    int status = GPURING_OK;

    prepare_channels(module, wireup);
    if (!wireup->late) {
        if (gpuring_wireup_writes_dumps(module) &&
            gpuring_param_given(gpuring_params.graph_dump_file)) {
            gpuring_channels_dump(&wireup->survey->channels);
        }
        status = gpuring_wireup_engine(module, wireup);
        if (status == GPURING_OK) {
            wireup->sets = gpuring_engine_first_sets(wireup->engine);
        }
    }
    return status == GPURING_OK ? gpuring_wireup_transport(module, wireup) : status;
}

static int bind_plans(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    (void) module;
    return gpuring_engine_bind(wireup->engine, wireup->transport);
}

/* ---- The chain ---- */

enum travels { GATHERING, AGREEMENT, CONNECT_INFOS, FIRST_CHUNKS, LINE_TEST };

/*
 * The stages in order: kind of messages, condition (NULL: always), action before the messages (for
 * a gathering: begin it), action after them, and a description for log messages.
 */
#define STAGES(X)                                                                                \
    X(REUSE, GATHERING, NULL, gpuring_reuse_offer, gpuring_reuse_take,                           \
      "wire-up, agreement on kept connections or a known survey (have all ranks the same "       \
      "coll_gpuring_priority and coll_gpuring_device?)")                                         \
    X(RANK_INFO, GATHERING, NULL, gpuring_rank_info_send, gpuring_rank_info_take,                \
      "wire-up, AllGather 1")                                                                    \
    X(VIEWS_READY, AGREEMENT, gpuring_views_differ, gpuring_views_prepare, NULL,                 \
      "wire-up, agreement before views of nodes")                                                \
    X(VIEWS, CONNECT_INFOS, gpuring_views_differ, NULL, gpuring_views_take,                      \
      "wire-up, views of this node")                                                             \
    X(CHANNELS, GATHERING, all_have_topology, send_channels, take_channels,                      \
      "wire-up, AllGather 2 (channels)")                                                         \
    X(CALLS, GATHERING, is_late, send_call, take_calls, "wire-up, comparison of calls")          \
    X(CLEARED, AGREEMENT, cleared, NULL, NULL, "wire-up, agreement after freeing memory")        \
    X(DEVICES, GATHERING, shares_queue_pairs, send_devices, take_devices,                        \
      "wire-up, devices of the ranks")                                                           \
    X(READY, AGREEMENT, NULL, prepare_connections, NULL, "wire-up, agreement before connecting") \
    X(HANDLES, CONNECT_INFOS, NULL, NULL, gpuring_wireup_connect,                                \
      "wire-up, handles to and from neighbours")                                                 \
    X(WRITTEN, GATHERING, probes_peers, gpuring_probes_report, gpuring_probes_take_written,      \
      "wire-up, probe of peer memory (written)")                                                 \
    X(ARRIVED, GATHERING, probes_peers, gpuring_probes_report, gpuring_probes_take_arrived,      \
      "wire-up, probe of peer memory (arrived)")                                                 \
    X(LINES, LINE_TEST, tests_lines, NULL, NULL, "wire-up, test of lines between GPUs")          \
    X(TESTED, GATHERING, tests_lines, gpuring_probes_report, gpuring_probes_take_tested,         \
      "wire-up, test of lines between GPUs (results)")                                           \
    X(AGREE, AGREEMENT, NULL, bind_plans, NULL, "wire-up, agreement on connections")             \
    X(TRY, FIRST_CHUNKS, several_nodes, NULL, NULL, "wire-up, first chunks between nodes")       \
    X(TRIED, AGREEMENT, several_nodes, NULL, NULL, "wire-up, agreement on first chunks")

#define STAGE_NAME(name, ...) STAGE_##name,
#define STAGE_OF(name, ...)   {__VA_ARGS__},
enum { STAGES(STAGE_NAME) STAGE_COUNT };

static const struct stage {
    enum travels travels;
    bool (*needed)(const struct gpuring_wireup *wireup);
    int (*before)(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
    int (*after)(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup);
    const char *text;
} stages[] = {STAGES(STAGE_OF)};

/* Return the kind of messages in flight. After a failure, the ranks that know of it only gather. */
static enum travels under_way(const mca_coll_gpuring_module_t *module)
{
    return gpuring_oob_troubled(module->oob) ? GATHERING : stages[module->wireup->stage].travels;
}

/* Complete the wire-up: all ranks are connected. May replace the wire-up. */
static void wireup_complete(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    bool reuses = wireup->offer != NULL;

    if (!reuses && !wireup->late && !wireup->known && !wireup->again) {
        gpuring_survey_share(wireup->survey);
    }
    wireup->known = false;
    if (!reuses) {
        gpuring_transport_wired(wireup->transport);
        gpuring_engine_own(wireup->engine, wireup->transport);
        wireup->transport = NULL;
    }
    /* Partners: the readers in serve.h, and gpuring_module_freed for the order of engine and
     * `unposts`. */
    __atomic_store_n(&module->engine, wireup->engine, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&module->unposts, __ATOMIC_SEQ_CST)) {
        gpuring_engine_unpost(wireup->engine);
    }
    wireup->engine = NULL;
    module->state = GPURING_STATE_READY;
    if (reuses) {
        module->wireup = gpuring_reuse_wireup(wireup);
        gpuring_wireup_free(wireup);
        return;
    }
    gpuring_pvar_set(GPURING_PVAR_nodes, (unsigned long long) (wireup->survey->whole.nranks > 0
                                                                   ? wireup->survey->whole.nnodes
                                                                   : wireup->survey->map.nnodes));
    gpuring_pvar_add(GPURING_PVAR_wireups, wireup->late ? 0 : 1);
}

/* Begin the first stage whose condition holds, from `stage` on. */
static int stage_begin(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup, int stage)
{
    int status = GPURING_OK;

    while (stage < STAGE_COUNT && stages[stage].needed != NULL && !stages[stage].needed(wireup)) {
        stage++;
    }
    if (stage == STAGE_COUNT) {
        wireup_complete(module, wireup);
        return GPURING_OK;
    }
    wireup->stage = stage;
    if (stages[stage].before != NULL) {
        status = stages[stage].before(module, wireup);
    }
    if (status == GPURING_OK && stages[stage].travels == AGREEMENT) {
        gpuring_oob_agree(module->oob, 0);
    }
    return status;
}

/* Return the next stage. Connections of a freed communicator need no further stage, and a known
 * survey none before DEVICES. */
static int stage_following(const struct gpuring_wireup *wireup)
{
    return wireup->offer != NULL                           ? STAGE_COUNT
           : wireup->stage == STAGE_REUSE && wireup->known ? STAGE_DEVICES
                                                           : wireup->stage + 1;
}

/* End a stage after its messages have arrived. */
static int stage_end(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct stage *stage = &stages[wireup->stage];
    int status = stage->after != NULL ? stage->after(module, wireup) : GPURING_OK;

    return status == GPURING_OK ? stage_begin(module, wireup, stage_following(wireup)) : status;
}

/* Record that this rank cannot continue. */
static void fail(mca_coll_gpuring_module_t *module, int status)
{
    gpuring_oob_fail(module->oob,
                     gpuring_process_copies(module->wireup->buffer) ? status : GPURING_ERR_DEVICE);
}

void gpuring_wireup_start(mca_coll_gpuring_module_t *module, const struct gpuring_call *call,
                          gpuring_wireup_differs *differs)
{
    struct gpuring_wireup *wireup = module->wireup;
    int status;

    wireup->late = module->state == GPURING_STATE_READY;
    gpuring_module_watch_free(module);
    wireup->engine = module->engine;
    wireup->large = gpuring_call_bytes(call) > GPURING_ENGINE_SHORT_BYTES;
    module->oob->mark = 0;
    wireup->repeated = 0;
    if (wireup->late) {
        wireup->sets = gpuring_engine_together(wireup->engine, call->choice.set);
        wireup->made = call->made;
        wireup->differs = differs;
    }
    wireup->buffer = gpuring_pointer_on_gpu(call->out.at.kind) ? call->out.sample : call->in.sample;
    status = gpuring_process_attach(wireup->buffer);
    if (status != GPURING_OK) {
        fail(module, status);
    }
    module->state = GPURING_STATE_WIRING;
    status = stage_begin(module, wireup, wireup->late ? STAGE_CALLS : STAGE_REUSE);
    if (status != GPURING_OK) {
        fail(module, status);
    }
}

/* Give up, because all ranks know that one has failed: the communicator is not served, or not
 * with late connections. */
static void give_up(mca_coll_gpuring_module_t *module, const struct gpuring_failure *failure)
{
    bool late = module->wireup->late;
    int status = failure->status;
    bool differ = status == GPURING_ERR_DISAGREE || status == GPURING_ERR_COUNTS ||
                  status == GPURING_ERR_CALLS; /* each rank has reported this */
    char text[256];

    if (!differ && (module->rank == 0 || module->rank == failure->rank)) {
        gpuring_module_text(module, text, sizeof text);
        gpuring_warn("[%s] %s: %s, because rank %d reports: %s",
                     status == GPURING_ERR_DEVICE ? "gpu-failed"
                     : late                       ? "partly-served"
                                                  : "not-served",
                     text,
                     status == GPURING_ERR_DEVICE ? "calls on GPU memory return errors"
                     : late ? "other components run the calls that need more connections"
                     : module->owner != module ? "another component runs this call"
                                               : "other components run all collectives",
                     failure->rank, gpuring_status_text(status));
    }
    if (differ || status == GPURING_ERR_DEVICE) {
        gpuring_module_fail(module, status);
    } else {
        module->state = late ? GPURING_STATE_READY : GPURING_STATE_DEAD;
        if (late) {
            module->engine->unconnectable |= module->wireup->sets;
        }
    }
}

/* Return true if another network may replace the failed one, or if whole nodes can do without it.
 * This is not possible if a rank failed before it began to connect, because it may not even know
 * the other ranks. */
static bool has_spare(const struct gpuring_wireup *wireup, const struct gpuring_failure *failure)
{
    return !wireup->late && (failure->mark & MARK_CONNECTING) != 0 &&
           (wireup->net.spare || wireup->survey->whole.nranks > 0);
}

/* Make the nodes whole again. Returns the stage at which their ranks connect. */
static int undivide_nodes(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    if (wireup->survey->whole.nranks == 0) {
        return STAGE_DEVICES;
    }
    gpuring_survey_undivide(wireup->survey);
    module->oob->mark = 0;
    return STAGE_CHANNELS;
}

/* Destroy what a wire-up has made since the stage DEVICES. */
static void undo(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    gpuring_connect_infos_free(module->oob);
    gpuring_wireup_drop(wireup);
    if (!wireup->late && !wireup->known) {
        gpuring_gathered_clear(&wireup->survey->devices);
    }
}

/* Connect the ranks through the other network, or within whole nodes, because all ranks know that
 * the chosen network does not connect them. If first chunks were late, a rank may have left MPI
 * for long, so first try the same network again. */
static int use_spare(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                     const struct gpuring_failure *failure)
{
    bool connected = wireup->stage >= STAGE_TRY; /* the same on all ranks */
    bool again = connected && failure->status == GPURING_ERR_TIMEOUT && !wireup->again;
    int status = GPURING_OK, stage = STAGE_DEVICES;
    char why[160];

    snprintf(why, sizeof why, "rank %d on %s reports: %s", failure->rank,
             gpuring_rank_info_of(&wireup->survey->rank_infos, failure->rank)->hostname,
             gpuring_status_text(failure->status));
    undo(module, wireup);
    if (!again) {
        if (wireup->net.spare) {
            gpuring_network_fail(failure->status, connected);
        }
        wireup->net.spare = false;
        stage = undivide_nodes(module, wireup);
        status = gpuring_network_choose(wireup, module->rank, why);
    } else if (module->rank == 0) {
        gpuring_info("[first-chunk] all ranks connect again through the same network: %s", why);
    }
    wireup->again = true;
    return status == GPURING_OK ? stage_begin(module, wireup, stage) : status;
}

/* Both ends of a connection need new queue pairs if one end has lost its own. Each repetition
 * replaces those of one end at least, unless other threads wire up communicators of the same
 * processes, or ports fail, at the same time. */
#define MOST_REPEATED 8

/* Return true if queue pairs of two ranks did not belong together. */
static bool may_repeat(const struct gpuring_wireup *wireup, const struct gpuring_failure *failure)
{
    return failure->status == GPURING_ERR_STALE && wireup->repeated < MOST_REPEATED;
}

static int connect_again(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                         const struct gpuring_failure *failure)
{
    gpuring_debug("all ranks connect again, because rank %d reports: %s", failure->rank,
                  gpuring_status_text(failure->status));
    undo(module, wireup);
    wireup->repeated++;
    return stage_begin(module, wireup, STAGE_DEVICES);
}

/* Return true if the ranks can make a new survey, because they could not connect with a known one.
 * After the first chunks of the net mpi, a second attempt would receive those of the first one. */
static bool may_survey(const struct gpuring_wireup *wireup)
{
    return wireup->known &&
           (wireup->stage < STAGE_TRY || wireup->net.kind != GPURING_PARAM_NET_MPI);
}

static int survey_again(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                        const struct gpuring_failure *failure)
{
    gpuring_debug("all ranks gather their locations again, because rank %d reports: %s",
                  failure->rank, gpuring_status_text(failure->status));
    undo(module, wireup);
    gpuring_reuse_forget(wireup);
    module->oob->mark = 0;
    wireup->repeated = 0;
    return stage_begin(module, wireup, STAGE_RANK_INFO);
}

/* Return true if a rank is out of memory, and all ranks together can free some: the connections
 * that it keeps in its pool, which its peers have mapped. */
static bool may_clear(const struct gpuring_failure *failure)
{
    return failure->status == GPURING_ERR_NOMEM && (failure->mark & MARK_KEEPS) != 0;
}

/* Free the connections in the pool, and connect again when all ranks have done so. */
static int clear(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup,
                 const struct gpuring_failure *failure)
{
    gpuring_reuse_make_room(failure->rank);
    undo(module, wireup);
    wireup->cleared = true;
    return stage_begin(module, wireup, STAGE_CLEARED);
}

/*
 * Continue with the next stage. A rank that cannot continue, or that knows of a failed rank, takes
 * part in the next gathering, whichever it is. After it, all ranks know of the failure (oob.h).
 */
static void stage_next(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    const struct gpuring_failure failure = gpuring_oob_failure(module->oob);
    int status = GPURING_OK;

    if (failure.status == GPURING_OK) {
        status = gpuring_oob_troubled(module->oob) ? GPURING_OK : stage_end(module, wireup);
    } else if (may_clear(&failure)) {
        status = clear(module, wireup, &failure);
    } else if (may_repeat(wireup, &failure)) {
        status = connect_again(module, wireup, &failure);
    } else if (may_survey(wireup)) {
        status = survey_again(module, wireup, &failure);
    } else if (has_spare(wireup, &failure)) {
        status = use_spare(module, wireup, &failure);
    } else {
        give_up(module, &failure);
        return;
    }
    if (status != GPURING_OK) {
        fail(module, status);
    }
    if (gpuring_oob_troubled(module->oob) && !gpuring_oob_busy(module->oob)) {
        gpuring_oob_agree(module->oob, 0);
    }
}

/* Progress the first chunks of this rank's connections. Returns 0 when all were sent and received,
 * GPURING_AGAIN, or an error if the network does not carry them. */
static int first_chunks(const struct gpuring_wireup *wireup)
{
    char text[640];
    int status = gpuring_transport_try(wireup->transport, text, sizeof text);

    if (status < 0) {
        gpuring_warn("[no-network] the network between the nodes does not work: %s", text);
    }
    return status;
}

/* Progress the current stage. Returns 0 when it is complete, GPURING_AGAIN, or an error if the
 * connection to a rank is lost. */
static int stage_progress(mca_coll_gpuring_module_t *module, struct gpuring_wireup *wireup)
{
    enum travels travels = under_way(module);
    int status;

    if (travels == GATHERING || travels == AGREEMENT) {
        return gpuring_oob_progress(module->oob);
    }
    switch (travels) {
    case CONNECT_INFOS:
        status = gpuring_connect_infos_progress(module->oob);
        break;
    case LINE_TEST:
        status = gpuring_transport_test_lines(wireup->transport);
        break;
    default:
        status = first_chunks(wireup);
    }
    if (status < 0) {
        gpuring_oob_fail(module->oob, status);
        return GPURING_OK;
    }
    return status;
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
        wireup = module->wireup; /* may be that of a freed communicator */
        gpuring_connect_infos_free(module->oob);
        gpuring_reuse_withdraw(wireup);
        gpuring_wireup_drop(wireup);
        if (module->state == GPURING_STATE_DEAD) {
            gpuring_wireup_free(wireup);
            module->wireup = NULL;
        }
    }
    return GPURING_OK;
}

void gpuring_wireup_text(const mca_coll_gpuring_module_t *module, char *text, size_t size)
{
    const char *stage = stages[module->wireup->stage].text;

    if (under_way(module) == FIRST_CHUNKS || under_way(module) == LINE_TEST) {
        snprintf(text, size, "%s", stage);
    } else {
        snprintf(text, size, "%s: a message from or to rank %d", stage,
                 gpuring_oob_awaits(module->oob));
    }
}
