/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
#include "mca/coll_gpuring/serve/watchdog.h"

#include <stdio.h>
#include <unistd.h>

#include "mca/coll_gpuring/engine/engine.h"
#include "mca/coll_gpuring/module.h"
#include "mca/coll_gpuring/oob/exchange.h"
#include "mca/coll_gpuring/params.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/buffer_mismatch.h"
#include "mca/coll_gpuring/serve/fallback_allreduce.h"
#include "mca/coll_gpuring/serve/serve.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#define LOOKS_PER_CLOCK 16            /* a vain poll takes about a microsecond */
#define LOOK_INTERVAL   1000000u      /* nanoseconds between looks at the peers */
#define STALE           5000000000ull /* no look for so long: another wait has begun */
#define REPORT_SECONDS  300           /* with timeout 0: tell once */
#define ASK_SECONDS     5             /* of wire-up: tell what may be the reason */

/* What this rank is at: "communicator .., rank .., operation 7 (ring, simple)". */
static void describe_self(const mca_coll_gpuring_module_t *module, char *text, size_t size)
{
    char module_text[256];

    gpuring_module_text(module, module_text, sizeof module_text);
    if (module->state != GPURING_STATE_READY) {
        snprintf(text, size, "%s", module_text);
        return;
    }
    snprintf(text, size, "%s, operation %llu (MPI_Allreduce by %s, %s)", module_text,
             (unsigned long long) module->engine->operation,
             gpuring_algorithm_text(module->engine->choice.algorithm),
             gpuring_protocol_text(module->engine->choice.protocol));
}

/* What the head of the queue waits for, if that is neither the wire-up nor the engine. */
static bool describe_item(const mca_coll_gpuring_module_t *module, char *wait, size_t size)
{
    const struct gpuring_item *item = module->serve->queue.head;

    if (module->serve->queue.telling) {
        snprintf(
            wait, size,
            "what the other ranks have started, for there are persistent calls: a message from "
            "or to rank %d",
            gpuring_exchange_awaits(module->exchange));
        return true;
    }
    if (item != NULL && item->agreeing) {
        snprintf(wait, size,
                 "the agreement of coll_gpuring_agree=always: a message from or to rank %d",
                 gpuring_exchange_awaits(module->exchange));
        return true;
    }
    if (item != NULL && item->simple != NULL) {
        snprintf(wait, size, "the simple path: a message from or to rank %d",
                 gpuring_fallback_allreduce_awaits(item->simple));
        return true;
    }
    return false;
}

/* What is awaited, and what is known of the one at the other end. */
static void describe_wait(const mca_coll_gpuring_module_t *module, char *wait, size_t size,
                          char *seen, size_t seen_size)
{
    const struct gpuring_engine *engine = module->engine;
    enum gpuring_lane_wait kind = GPURING_WAIT_NONE;
    uint32_t ref = 0;
    int peer = -1, lane;
    char other[256];

    snprintf(seen, seen_size, "unknown");
    if (describe_item(module, wait, size)) {
        return;
    }
    if (module->state != GPURING_STATE_READY) {
        gpuring_wireup_text(module, wait, size);
        return;
    }
    lane = gpuring_operation_waiting(engine, &kind, &ref, &peer);
    if (lane < 0 || peer < 0) {
        snprintf(wait, size, "the end of the operation");
        return;
    }
    gpuring_transport_peer_text(engine->transport, engine->index[engine->choice.algorithm],
                                (uint32_t) lane, kind, ref, other, sizeof other);
    snprintf(wait, size, "%s (lane %d, step %u)", other, lane, engine->work->lanes[lane].step);
    gpuring_transport_peer_state(engine->transport, peer, seen, seen_size);
}

static void tell_stall(const mca_coll_gpuring_module_t *module, uint64_t waited, bool fatal)
{
    char self[512], wait[512], seen[256], pid[16], seconds[24];

    describe_self(module, self, sizeof self);
    describe_wait(module, wait, sizeof wait, seen, sizeof seen);
    snprintf(pid, sizeof pid, "%d", (int) getpid());
    snprintf(seconds, sizeof seconds, "%llu", (unsigned long long) (waited / GPURING_SECOND));
    gpuring_compat_help("stalled", gpuring_process.hostname, pid, self, seconds, wait, seen,
                        fatal ? "The time of coll_gpuring_timeout is over: the call returns an MPI "
                                "error."
                              : "It goes on waiting (coll_gpuring_timeout=0). A rank may be busy "
                                "elsewhere, or may never\nmake this call.");
    gpuring_warn("%s: waits since %s s for %s; last seen there: %s", self, seconds, wait, seen);
}

static void tell_failure(mca_coll_gpuring_module_t *module, int status, const char *why)
{
    char self[512], wait[512], seen[256], pid[16];

    describe_self(module, self, sizeof self);
    describe_wait(module, wait, sizeof wait, seen, sizeof seen);
    snprintf(pid, sizeof pid, "%d", (int) getpid());
    gpuring_compat_help("failed", gpuring_status_text(status), gpuring_process.hostname, pid, self,
                        why, wait, seen);
    module->serve->watchdog.told = true;
}

/* Nobody has a status page yet where buffer_mismatch.h could look. */
static void ask_about_memory(const mca_coll_gpuring_module_t *module)
{
    char self[512], wait[512];

    if (gpuring_process.device_ops->kind != GPURING_DEVICE_HOST &&
        gpuring_params.agree != GPURING_PARAM_AGREE_ALWAYS) {
        describe_self(module, self, sizeof self);
        gpuring_wireup_text(module, wait, sizeof wait);
        gpuring_compat_help("no answer", self, wait);
    }
}

/* Time to look: 0 or the error. */
static int look_at_peers(mca_coll_gpuring_module_t *module, uint64_t now)
{
    struct gpuring_watchdog *watchdog = &module->serve->watchdog;
    uint64_t waited = now - watchdog->since;
    uint64_t limit = (uint64_t) gpuring_params.timeout * GPURING_SECOND;
    char why[512];
    int status;

    if (module->state == GPURING_STATE_READY) {
        status = gpuring_transport_health(module->engine->transport, why, sizeof why);
        if (status != GPURING_OK) {
            tell_failure(module, status, why);
            return status;
        }
        status = gpuring_buffer_mismatch_look(module);
        if (status != GPURING_OK) {
            watchdog->told = true;
            return status;
        }
    }
    if (module->state == GPURING_STATE_WIRING && !watchdog->asked &&
        waited >= ASK_SECONDS * GPURING_SECOND) {
        watchdog->asked = true;
        ask_about_memory(module);
    }
    if (limit > 0 && waited >= limit) {
        tell_stall(module, waited, true);
        watchdog->told = true;
        return GPURING_ERR_TIMEOUT;
    }
    if (limit == 0 && !watchdog->told && waited >= REPORT_SECONDS * GPURING_SECOND) {
        tell_stall(module, waited, false);
        watchdog->told = true;
    }
    return GPURING_OK;
}

uint64_t gpuring_watchdog_progress(const mca_coll_gpuring_module_t *module)
{
    uint64_t finished = module->serve->queue.finished << 16;

    return finished +
           (module->state == GPURING_STATE_READY
                ? gpuring_operation_progress(module->engine)
                : (uint64_t) module->state + 8 * gpuring_exchange_steps(module->exchange));
}

int gpuring_watchdog_look(mca_coll_gpuring_module_t *module)
{
    struct gpuring_watchdog *watchdog = &module->serve->watchdog;
    uint64_t now, progress;

    if (++watchdog->looks % LOOKS_PER_CLOCK != 0) {
        return GPURING_OK;
    }
    now = gpuring_now_ns();
    progress = gpuring_watchdog_progress(module);
    if (now - watchdog->last >= STALE || progress != watchdog->progress) {
        watchdog->since = watchdog->last = now;
        watchdog->progress = progress;
        watchdog->told = false;
        return GPURING_OK;
    }
    if (now - watchdog->last < LOOK_INTERVAL) {
        return GPURING_OK;
    }
    watchdog->last = now;
    return look_at_peers(module, now);
}

void gpuring_watchdog_report(mca_coll_gpuring_module_t *module, int status)
{
    char why[512] = "";

    if (module->serve->watchdog.told) {
        return;
    }
    if (status != GPURING_ERR_ABORTED ||
        gpuring_transport_health(module->engine->transport, why, sizeof why) == GPURING_OK) {
        snprintf(why, sizeof why, "the executor reports: %s", gpuring_status_text(status));
    }
    tell_failure(module, status, why);
}
