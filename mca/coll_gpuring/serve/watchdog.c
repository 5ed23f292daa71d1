/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright (c) 2026 The coll/gpuring authors */
/*
 * The watchdog. About once per millisecond of waiting, it checks whether the ranks that this rank
 * waits for are alive and make the same call. After coll_gpuring_timeout seconds without progress,
 * it logs what this rank waits for, and the call fails. With a timeout of 0 it never gives up,
 * because a rank may legally make the call hours later, but it reports once after 300 seconds.
 */
#include "mca/coll_gpuring/serve/serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/coll_gpuring/oob/oob.h"
#include "mca/coll_gpuring/process.h"
#include "mca/coll_gpuring/serve/differ.h"
#include "mca/coll_gpuring/serve/note.h"
#include "mca/coll_gpuring/util/clock.h"
#include "mca/coll_gpuring/util/log.h"
#include "mca/coll_gpuring/util/status.h"
#include "mca/coll_gpuring/wireup/wireup.h"

#define LOOKS_PER_CLOCK 64            /* a check takes 0.1 to 10 us */
#define LOOK_INTERVAL   1000000u      /* nanoseconds between checks of the peers */
#define STALE           5000000000ull /* nanoseconds without a check until a new wait begins */
#define FAR             (GPURING_NOTE_SECONDS * GPURING_SECOND) /* until and between notes */
#define HINT_SECONDS    5 /* of a wire-up, before a possible reason is printed */

/* The texts that describe a wait. */
struct report {
    char self[256]; /* "communicator MPI_COMM_WORLD (0), rank 2 of 4" */
    char call[128]; /* "MPI_Allreduce, operation 7 (ring, simple)" */
    char wait[512]; /* "data from rank 1 (host a, pid 17) by shared memory (lane 0, step 3)" */
    char seen[384]; /* "is outside, its last operation was 5 (MPI_Bcast of 40 bytes, root 0)" */
};

/* Return the purpose of the messages that the next item waits for, or NULL if there are none. */
static const char *messages_text(const struct gpuring_queue *queue)
{
    const struct gpuring_item *item = gpuring_queue_next(queue);

    if (item != NULL &&
        (item->pending.asks == GPURING_ASKS_WORD || item->pending.asks == GPURING_ASKS_OFFERS)) {
        return "the creation of a persistent call";
    }
    if (item != NULL && item->pending.asks == GPURING_ASKS_MESSAGES) {
        return "the agreement on where the buffers are (coll_gpuring_agree, "
               "coll_gpuring_agree_size)";
    }
    return item != NULL && item->phase == GPURING_PHASE_CHECKING ? "the comparison by MPI messages"
                                                                 : NULL;
}

static void describe_operation(const struct gpuring_engine *engine, struct report *report)
{
    const struct gpuring_prepared *current = engine->current;
    enum gpuring_lane_wait kind = GPURING_WAIT_NONE;
    int peer = -1, lane;
    char other[256], at[48] = "";

    snprintf(report->call, sizeof report->call, "%s, operation %llu (%s, %s)", engine->name,
             (unsigned long long) engine->operation,
             gpuring_algorithm_text(current->choice.algorithm),
             gpuring_protocol_text(current->choice.protocol));
    lane = gpuring_operation_waiting(engine, &kind, &peer);
    if (peer < 0) {
        snprintf(report->wait, sizeof report->wait, "the end of the operation");
        return;
    }
    gpuring_transport_peer_text(current->program->transport, peer, other, sizeof other);
    if (lane >= 0) {
        snprintf(at, sizeof at, " (lane %d, step %u)", lane, engine->states[lane].step);
    }
    snprintf(report->wait, sizeof report->wait, "%s %s%s",
             lane < 0                    ? "the network to take the last data for"
             : kind == GPURING_WAIT_RECV ? "data from"
                                         : "a free slot at",
             other, at);
    (void) gpuring_differ_peer(current->program->transport, peer, report->seen,
                               sizeof report->seen);
}

static void describe_wait(const mca_coll_gpuring_module_t *module, struct report *report)
{
    const struct gpuring_serve *serve = module->serve;
    const struct gpuring_item *item = gpuring_queue_next(&serve->queue);
    const char *messages = messages_text(&serve->queue);

    gpuring_module_text(module, report->self, sizeof report->self);
    snprintf(report->call, sizeof report->call, "%s, before it starts",
             item != NULL ? item->call.name : "wire-up");
    snprintf(report->seen, sizeof report->seen, "unknown");
    if (item != NULL && item->pending.asks == GPURING_ASKS_PAGES) {
        snprintf(report->wait, sizeof report->wait, "rank %d to make the call", serve->missing);
        (void) gpuring_differ_peer(module->engine->transports[0], serve->missing, report->seen,
                                   sizeof report->seen);
    } else if (messages != NULL) {
        snprintf(report->wait, sizeof report->wait, "%s: a message from or to rank %d", messages,
                 gpuring_oob_awaits(module->oob));
    } else if (module->state == GPURING_STATE_READY) {
        describe_operation(module->engine, report);
    } else {
        gpuring_wireup_text(module, report->wait, sizeof report->wait);
    }
}

static void report_stall(mca_coll_gpuring_module_t *module, uint64_t waited, bool fatal)
{
    unsigned long long seconds = waited / GPURING_SECOND;
    struct report report;

    describe_wait(module, &report);
    gpuring_warn("[stalled] %s: %s: has waited %llu s for %s; last seen there: %s; %s", report.self,
                 report.call, seconds, report.wait, report.seen,
                 fatal ? "the call returns an MPI error now (coll_gpuring_timeout)"
                       : "it continues to wait; coll_gpuring_timeout=SECONDS would end it "
                         "with an MPI error");
    module->serve->watchdog.reported = true;
}

static void report_failure(mca_coll_gpuring_module_t *module, int status, const char *why)
{
    struct report report;

    describe_wait(module, &report);
    gpuring_compat_help("failed", gpuring_status_text(status), gpuring_process.hostname,
                        (int) getpid(), report.self, report.call, why, report.wait, report.seen);
    module->serve->watchdog.reported = true;
}

/* Print a hint that other ranks may use host buffers. During a wire-up there are no status pages
 * yet, so mixed_memory.c cannot detect this. */
static void hint_at_memory(mca_coll_gpuring_module_t *module)
{
    struct report report;

    module->serve->watchdog.hinted = true;
    if (gpuring_buffers_decide()) {
        describe_wait(module, &report);
        gpuring_compat_help("no answer", report.self, report.wait);
    }
}

/* Check the peers of a connected module, or those of its owner while a track is being connected.
 * Returns 0 or the error. */
static int look_at_peers(mca_coll_gpuring_module_t *module)
{
    const struct gpuring_engine *engine = gpuring_module_connected(module);
    char why[512];
    int status = engine != NULL ? gpuring_engine_health(engine, why, sizeof why) : GPURING_OK;

    if (status != GPURING_OK) {
        report_failure(module, status, why);
        return status;
    }
    if (module->state == GPURING_STATE_READY) {
        status = gpuring_mixed_memory_look(module);
    }
    if (status == GPURING_OK && module->engine != NULL && module->state != GPURING_STATE_FAILED) {
        status = gpuring_differ_look(module);
    }
    module->serve->watchdog.reported |= status != GPURING_OK;
    return status;
}

/* Check the peers and the time limit. Returns 0 or the error. */
static int watchdog_look(mca_coll_gpuring_module_t *module, uint64_t now)
{
    struct gpuring_watchdog *watchdog = &module->serve->watchdog;
    uint64_t waited = now - watchdog->since;
    uint64_t limit = (uint64_t) gpuring_params.timeout * GPURING_SECOND;
    int status = look_at_peers(module);

    if (status != GPURING_OK) {
        return status;
    }
    if (module->state == GPURING_STATE_READY && waited >= FAR && now - watchdog->far >= FAR) {
        watchdog->far = now;
        status = gpuring_differ_look_far(module);
        if (status != GPURING_OK) {
            watchdog->reported = true;
            return status;
        }
    }
    if (module->state == GPURING_STATE_WIRING && module->owner == module && !watchdog->hinted &&
        waited >= HINT_SECONDS * GPURING_SECOND) {
        hint_at_memory(module);
    }
    if (limit > 0 && waited >= limit) {
        report_stall(module, waited, true);
        return GPURING_ERR_TIMEOUT;
    }
    if (limit == 0 && !watchdog->reported && waited >= GPURING_REPORT_SECONDS * GPURING_SECOND) {
        report_stall(module, waited, false);
    }
    return GPURING_OK;
}

uint64_t gpuring_watchdog_progress(const mca_coll_gpuring_module_t *module)
{
    uint64_t finished = module->serve->queue.finished << 16;

    return finished + (module->state == GPURING_STATE_READY
                           ? gpuring_operation_progress(module->engine)
                           : (uint64_t) module->state + 8 * module->oob->steps);
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
        watchdog->reported = false;
        return GPURING_OK;
    }
    if (now - watchdog->last < LOOK_INTERVAL) {
        return GPURING_OK;
    }
    watchdog->last = now;
    return watchdog_look(module, now);
}

int gpuring_watchdog_report(mca_coll_gpuring_module_t *module, int status)
{
    char why[512] = "";
    int differs;

    if (module->serve->watchdog.reported) {
        return status;
    }
    differs = status == GPURING_ERR_COUNTS ? gpuring_differ_look(module) : GPURING_OK;
    if (differs != GPURING_OK) {
        module->serve->watchdog.reported = true;
        return differs;
    }
    if (status != GPURING_ERR_ABORTED ||
        gpuring_engine_health(module->engine, why, sizeof why) == GPURING_OK) {
        snprintf(why, sizeof why, "the executor reports: %s", gpuring_status_text(status));
    }
    report_failure(module, status, why);
    return status;
}
